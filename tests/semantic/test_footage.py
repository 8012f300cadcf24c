"""Anchors in footage as it comes: dark, fast, noisy, odd rates, damaged, silent, of one frame."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import write_clip
from tests.semantic.scenes import footage, moving, panning, still

import hyperframes as hf
from hyperframes.errors import FrameError, SourceError
from hyperframes.operators.activity import Activity
from hyperframes.semantic import Anchors, find_anchors, measure_sync
from hyperframes.semantic.anchors import _entropy
from hyperframes.semantic.features import Features
from hyperframes.semantic.luma import as_small_luma


def rests_then_moves(rest, move, speed=2.0):
    """(N, H, W): nothing for `rest` frames, a disc that crosses for `move`, nothing again."""
    crossing = moving(1, move, speed)
    return np.concatenate([np.repeat(crossing[:1], rest, axis=0), crossing, np.repeat(crossing[-1:], rest, axis=0)])


@pytest.mark.requirement("C13", "C38")
def test_anchors_begin_where_motion_begins_and_end_where_it_ends():
    found = find_anchors(footage(rests_then_moves(50, 40)))
    frames = [round(25 * anchor.seconds) for anchor in found.anchors]
    assert 48 <= frames[0] <= 53
    assert 80 <= frames[-1] <= 91
    assert [anchor.seconds for anchor in found.anchors] == sorted({anchor.seconds for anchor in found.anchors})


@pytest.mark.requirement("C39")
def test_times_are_those_of_the_frames_whatever_the_rate(tmp_path):
    path = write_clip(tmp_path / "ntsc.mp4", footage(moving(1, 60, 2)), rate=Fraction(30000, 1001))
    found = find_anchors(path)
    np.testing.assert_allclose(found.seconds, np.arange(60) * 1001 / 30000, atol=1e-9)
    assert {round(anchor.seconds * 30000 / 1001, 6) % 1 for anchor in found.anchors} == {0.0}


@pytest.mark.requirement("C7", "C41", "C42")
@pytest.mark.parametrize(("light", "noise"), [(1.0, 1.0), (0.25, 1.0), (0.25, 2.0)])
def test_dark_and_noisy_scenes_have_anchors_where_something_moves_and_nowhere_else(light, noise):
    film = footage(light * rests_then_moves(60, 40), noise=noise, seed=3)
    frames = [round(25 * anchor.seconds) for anchor in find_anchors(film).anchors]
    assert frames
    assert all(57 <= frame <= 103 for frame in frames)


@pytest.mark.requirement("C41", "C43")
def test_in_fast_scenes_the_faster_part_still_stands_out():
    film = footage(panning(1, 100, 3), panning(1, 20, 8), panning(1, 100, 3))
    found = find_anchors(film, two_pass=True)
    fast = found.weights[101:119].mean()
    assert fast > 1.3 * np.delete(found.weights, range(95, 125)).mean()


@pytest.mark.requirement("C52")
@given(st.lists(st.floats(0, 40, allow_nan=False), min_size=1, max_size=200))
def test_entropy_is_that_of_a_histogram_of_16_speeds_over_its_greatest(speeds):
    counts = [0] * 16
    for speed in speeds:
        counts[min(15, math.floor(speed / 0.5))] += 1
    wanted = -sum(n / len(speeds) * math.log(n / len(speeds)) for n in counts if n) / math.log(16)
    assert _entropy(np.array(speeds)) == pytest.approx(abs(wanted), abs=1e-12)


@pytest.mark.requirement("C53")
@pytest.mark.parametrize(("entropy", "calm"), [(0.14, True), (0.16, False)])
def test_after_three_steps_of_low_entropy_only_strong_peaks_are_anchors(monkeypatch, entropy, calm):
    monkeypatch.setattr("hyperframes.semantic.anchors._entropy", lambda speeds: entropy)
    film = footage(panning(4, 60, 1))
    plain = find_anchors(film, anchors=Anchors(levels=(0.4, 0.0, 1000.0)))
    activity = float(np.median(plain.activity[5:-5]))
    found = find_anchors(film, anchors=Anchors(levels=(0.4, 0.0, activity / 0.45)))
    later = found.weights[12:50]
    assert ((later > 0.15) & (later < 0.3)).mean() > 0.8
    weak = [a for a in found.anchors if 12 / 25 < a.seconds < 2 and a.weight < 0.3]
    assert bool(weak) is not calm


@pytest.mark.requirement("C75", "C80", "C101")
def test_gates_of_the_detection_part_are_settings_and_open_unless_set():
    boxes, scores = np.zeros((32, 6), np.float32), np.zeros(80, np.float32)
    boxes[0], boxes[1] = (0, 0, 0.1, 0.1, 0.9, 0), (0.2, 0.2, 0.8, 0.8, 0.8, 0)
    scores[0] = 0.9
    sure, unsure = np.full((64, 64), 0.5, np.float32), np.zeros((64, 64), np.float32)
    unsure[:10, :40] = 0.31  # 9.8 % of the picture
    small = 80
    open_ = Features()._detection(boxes, scores, unsure)
    assert open_[small] > 0
    assert not Features(least_box=0.15)._detection(boxes, scores, sure)[small : small + 16].any()
    assert not Features(least_area=0.10)._detection(boxes, scores, unsure).any()
    assert Features(least_area=0.09)._detection(boxes, scores, unsure).any()


@pytest.mark.requirement("C123")
def test_the_coarse_pass_packs_small_luma_and_no_whole_pictures(tmp_path):
    path = write_clip(tmp_path / "wide.mp4", np.zeros((3, 240, 640), np.uint8))
    with hf.open(path) as source:
        small = as_small_luma(source, Activity())
        assert (small.spec.height, small.spec.width, small.spec.pixel_format) == (60, 160, "gray")


# Bad input


@pytest.mark.slow
@pytest.mark.requirement("C44")
def test_damage_in_the_middle_is_told_and_costs_no_more_than_its_frames(tmp_path):
    path = write_clip(tmp_path / "film.mp4", footage(moving(1, 120, 2), noise=2.0))
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 3, len(data) // 3 + 4000, 7):
        data[at] ^= 0x5A
    path.write_bytes(data)
    found = find_anchors(path)
    assert found.warnings
    assert 60 <= len(found.weights) <= 120
    assert (np.diff(found.seconds) > 0).all()
    described = list(hf.describe(path, detector=None))
    assert sum(d.core[1] - d.core[0] for d in described) == len(found.weights)


@pytest.mark.requirement("C108")
@pytest.mark.parametrize("stops", [False, True])
def test_readers_are_closed_when_all_is_described_and_when_somebody_stops(tmp_path, monkeypatch, stops):
    path, closed = write_clip(tmp_path / "film.mp4", footage(moving(1, 60, 2))), []
    opened = hf.open(path)
    plain = opened.close
    monkeypatch.setattr(opened, "close", lambda: (closed.append(True), plain()), raising=False)
    monkeypatch.setitem(hf.describe.__globals__, "open_source", lambda source, **options: opened)
    found = hf.describe(path, detector=None)
    next(found)
    if stops:
        found.close()
    else:
        list(found)
    assert closed


def test_clips_without_sound_or_of_one_frame_tell_no_lag(tmp_path):
    silent = write_clip(tmp_path / "silent.mp4", footage(moving(1, 60, 2)))
    found = measure_sync(silent, find_anchors(silent))
    assert (found.lag_seconds, found.confidence) == (None, 0.0)
    one = write_clip(tmp_path / "one.mp4", footage(still(1, 1)))
    assert measure_sync(one, find_anchors(one)).lag_seconds is None
    (made,) = hf.describe(one, detector=None, sync=measure_sync(one, find_anchors(one)))
    assert (made.lag_seconds, made.core) == (None, (0, 1))


def test_what_is_no_video_is_told_by_name(tmp_path):
    text = tmp_path / "notes.mp4"
    text.write_text("no film")
    with pytest.raises(SourceError, match=r"notes\.mp4"):
        find_anchors(text)
    with pytest.raises(SourceError, match=r"notes\.mp4"):
        hf.describe(text, detector=None)
    with pytest.raises((SourceError, FrameError)):
        find_anchors(np.zeros((0, 8, 8), np.uint8)).choose(1)
