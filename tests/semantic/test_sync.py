"""Sound against picture: claps that are seen and heard, early, late, drifting, and files that cannot tell."""

from dataclasses import replace

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.semantic.scenes import footage, still

from hyperframes.errors import FrameError, SourceError
from hyperframes.media.audio import Sound, read_cues, read_sound
from hyperframes.semantic import Anchor, find_anchors
from hyperframes.semantic.sync import Onsets, Sync, _slope, _stretches, estimate_lag, measure_sync, onset_strength

RATE = 16_000


def claps(times, length_seconds, noise=1e-3, seed=0):
    """(N,) float32: decaying noise that begins at each of `times`, over a hiss."""
    random = np.random.default_rng(seed)
    sound = random.normal(0, noise, round(length_seconds * RATE))
    for time in times:
        start = round(time * RATE)
        tail = np.exp(-np.arange(1600) / 300) * random.normal(0, 0.3, 1600)
        sound[start : start + 1600] += tail[: max(0, len(sound) - start)]
    return np.clip(sound, -1, 1).astype(np.float32)


def pieces(sound, start=0.0, length=1024):
    return (Sound(start + k / RATE, sound[k : k + length]) for k in range(0, len(sound), length))


def irregular(count, seed):
    """Times that begin after half a second, 0.3 to 0.9 s apart."""
    return 0.5 + np.cumsum(np.random.default_rng(seed).uniform(0.3, 0.9, count))


def seen(times, length_seconds, rate=25):
    """Frames' times and motion: one frame of it where something begins, less in the two that follow."""
    seconds = np.arange(round(length_seconds * rate)) / rate
    motion = np.random.default_rng(1).uniform(0, 0.02, len(seconds))
    for time in times:
        first = int(np.searchsorted(seconds, time - 1e-9))
        motion[first : first + 3] += (1.0, 0.6, 0.3)[: max(0, len(seconds) - first)]
    return seconds, motion


def write_film(path, times, lag_seconds, length_seconds=12, start_seconds=0.0):
    """A film in which the picture jumps at each of `times`, and something is heard `lag_seconds` later."""
    frames = still(1, round(25 * length_seconds))
    for number, time in enumerate(times):
        frames[round(25 * time) :, 10:30, 10:30] = 230 if number % 2 else 20
    with av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=25, options={"crf": "12", "preset": "ultrafast"})
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio = container.add_stream("pcm_s16le", rate=RATE, layout="mono")
        for number, luma in enumerate(footage(frames)):
            planes = np.concatenate([luma, np.full((24, 64), 128, np.uint8)])
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
            frame.pts = number + round(25 * start_seconds)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        samples = claps(np.asarray(times) + lag_seconds, length_seconds)
        frame = av.AudioFrame.from_ndarray((samples[None] * 32767).astype(np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.pts = RATE, round(RATE * start_seconds)
        container.mux(audio.encode(frame))
        container.mux(audio.encode(None))
    return path


# Onsets


@given(st.integers(0, 1000), st.sampled_from([0.0, 1e-3, 1e-2]), st.floats(-5, 5000))
def test_a_clap_is_heard_when_it_begins(seed, noise, start):
    times = irregular(5, seed)
    onsets = onset_strength(pieces(claps(times, 5.5, noise, seed), start))
    for time in times:
        near = np.abs(onsets.seconds - start - time) < 0.1
        assert abs(onsets.seconds[near][np.argmax(onsets.strength[near])] - start - time) < 0.01
    assert (np.diff(onsets.seconds) > 0).all()


@given(st.integers(300, 9000), st.integers(0, 100))
def test_onsets_do_not_depend_on_how_sound_comes(length, seed):
    sound = claps(irregular(8, seed), 6.0)
    whole, parts = onset_strength(pieces(sound, 2.0, len(sound))), onset_strength(pieces(sound, 2.0, length))
    np.testing.assert_allclose(parts.seconds, whole.seconds)
    np.testing.assert_array_equal(parts.strength, whole.strength)


def test_onsets_begin_anew_after_a_gap_and_silence_has_none():
    sound = claps([0.5], 1.0)
    twice = [*pieces(sound), *pieces(sound, 7.0)]
    onsets = onset_strength(iter(twice))
    assert not ((onsets.seconds > 1.0) & (onsets.seconds < 7.0)).any()
    assert onset_strength(pieces(np.zeros(RATE, np.float32))).strength.max() == 0
    assert len(onset_strength(iter(())).seconds) == 0


# Lags


@pytest.mark.requirement("W5")
@pytest.mark.requirement("C20")
@pytest.mark.requirement("C21")
@given(st.integers(0, 1000), st.floats(-0.45, 0.45), st.sampled_from([24, 25, 30, 60]))
def test_a_lag_is_told_to_within_a_frame(seed, lag, rate):
    times = irregular(12, seed)
    times = np.ceil(times * rate) / rate  # what is seen begins with a frame
    onsets = onset_strength(pieces(claps(times + lag, times[-1] + 1.5, seed=seed)))
    found = estimate_lag(onsets, *seen(times, times[-1] + 1.5, rate))
    assert found.lag_seconds == pytest.approx(lag, abs=1 / rate)
    assert 0.3 <= found.confidence <= 1


@given(st.integers(0, 10_000))
def test_what_has_nothing_to_do_with_each_other_tells_no_lag(seed):
    times, others = irregular(15, seed), irregular(15, seed + 20_000)
    found = estimate_lag(onset_strength(pieces(claps(times, 10.0))), *seen(others, 10.0))
    assert found.lag_seconds is None or found.confidence < 0.75  # a few intervals fall together now and then


def test_too_little_to_go_by_tells_no_lag():
    times = irregular(12, 3)
    sound, nothing = onset_strength(pieces(claps(times, 9.0))), Onsets(np.empty(0), np.empty(0))
    seconds, motion = seen(times, 9.0)
    assert estimate_lag(nothing, seconds, motion).lag_seconds is None
    assert estimate_lag(sound, seconds, np.zeros(len(seconds))).lag_seconds is None
    assert estimate_lag(sound, seconds[:10], motion[:10]).lag_seconds is None
    assert estimate_lag(sound, *seen(times[:3], 9.0)).lag_seconds is None
    assert estimate_lag(onset_strength(pieces(claps(times[:3], 9.0))), seconds, motion).lag_seconds is None
    with pytest.raises(FrameError, match="motion has one value a frame: expected 10, got 9"):
        estimate_lag(sound, seconds[:10], motion[:9])


# Files


@pytest.mark.slow
@pytest.mark.parametrize("lag", [-0.32, 0.0, 0.2])
def test_the_lag_of_a_file_is_that_of_its_streams_whatever_their_start(tmp_path, lag):
    times = np.round(irregular(16, 5) * 25) / 25
    path = write_film(tmp_path / "film.mkv", times, lag, start_seconds=3.0)
    found = measure_sync(path, find_anchors(path))
    assert found.lag_seconds == pytest.approx(lag, abs=0.04)
    assert found.confidence > 0.5
    assert found.drift is None


def test_a_file_without_sound_or_picture_events_tells_no_lag(tmp_path):
    path = write_film(tmp_path / "quiet.mkv", [], 0.0, 3)
    found = measure_sync(path, find_anchors(path))
    assert (found.lag_seconds, found.confidence, found.drift, found.stretches, found.cues) == (None, 0.0, None, (), ())
    with pytest.raises(SourceError, match="cannot be opened for its sound"):
        list(read_sound(tmp_path / "missing.mp4"))


@pytest.mark.media
@pytest.mark.slow
def test_real_files_whose_sound_does_not_show_tell_no_lag(media):
    """Voices off, music, crowds: a lag told of one of these would be chance."""
    for name in ("video/chaplin.mp4", "odd/nasa_13013.mp4", "video/cockatoo.mp4", "odd/silent-black-10s.mp4"):
        found = measure_sync(media / name, find_anchors(media / name))
        assert found.lag_seconds is None, name


@pytest.mark.media
def test_times_of_subtitles_are_those_of_their_packets(media):
    cues = read_cues(media / "odd/sample_with_srt.mkv")
    assert cues
    assert all(start <= stop for start, stop in cues)
    assert read_cues(media / "video/bikes.mp4") == []


@pytest.mark.slow
def test_a_drift_is_the_slope_of_the_lags_of_stretches():
    times = irregular(160, 7)
    length = times[-1] + 1
    seconds, motion = seen(times, length)
    heard = times + 0.1 + 0.002 * times  # 2 ms a second, as of clocks that differ by 0.2 %
    onsets = onset_strength(pieces(claps(heard, heard[-1] + 1)))
    stretches = [s for s in _stretches(onsets, seconds, motion) if s.lag_seconds is not None]
    assert len(stretches) >= 3
    assert _slope(stretches) == pytest.approx(0.002, rel=0.15)


# Corrections


@pytest.mark.requirement("W5")
def test_anchors_move_towards_the_sound_by_confidence_and_text():
    anchors = (Anchor(1.0, 0.5), Anchor(2.0, 0.75, "cut"))
    sync = Sync(0.2, 0.5)
    assert [round(a.seconds, 6) for a in sync.correct(anchors)] == [1.1, 2.1]
    assert sync.correct(anchors)[1] == Anchor(2.1, 0.75, "cut")
    texted = replace(sync, cues=((0.9, 1.5),))
    assert [round(a.seconds, 6) for a in texted.correct(anchors)] == [1.1, 2.05]
    assert Sync(None, 0.0).correct(anchors) == anchors
    near = (Anchor(1.0, 0.5), Anchor(1.05, 0.75))
    assert Sync(0.2, 0.5, cues=((0.9, 1.01),)).correct(near) == (Anchor(1.1, 0.75),)
