"""Copies: the source and the instant are found, though a clip was encoded anew, cropped, brightened or played faster."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import write_clip
from tests.semantic.scenes import HEIGHT, WIDTH, footage, scene

import hyperframes as hf
from hyperframes.errors import PipelineError, SourceError
from hyperframes.index import Tracks, find_copies, find_duplicates
from hyperframes.index.copies import _voted
from hyperframes.semantic import Looks
from hyperframes.semantic.look import look_of, looks_of

RATE = 25


def passing(seed, num_frames):
    """A scene becomes another every second: every instant looks different from all others."""
    scenes = [scene(100 * seed + k) for k in range(num_frames // RATE + 2)]
    times = np.arange(num_frames) / RATE
    return np.stack([(1 - t % 1) * scenes[int(t)] + t % 1 * scenes[int(t) + 1] for t in times])


def seen(frames, rate=RATE):
    return looks_of(zip(np.arange(len(frames)) / rate, frames, strict=True))


# Looks


@given(st.integers(0, 2**32 - 1), st.integers(-15, 15), st.floats(0.5, 1.0))
def test_a_look_is_not_changed_by_brightness_contrast_and_size(seed, brighter, contrast):
    picture = scene(seed)
    look = look_of(np.rint(picture).astype(np.uint8)).astype(float)
    other = np.clip(np.rint((picture * contrast + brighter).repeat(3, axis=0).repeat(2, axis=1)), 0, 255)
    assert np.linalg.norm(look) == pytest.approx(1, abs=2e-3)
    assert look @ look_of(other.astype(np.uint8)).astype(float) > 0.98


def test_a_picture_of_one_tone_has_no_look():
    assert not look_of(np.full((HEIGHT, WIDTH), 90, np.uint8)).any()
    assert not look_of(np.full((1, 1), 90, np.uint8)).any()


def test_looks_are_taken_once_in_each_fifth_of_a_second():
    frames = footage(passing(1, 50))
    looks = seen(frames)
    assert looks.seconds.tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8])
    assert np.array_equal(looks.values[3], look_of(frames[15]))
    rest = looks_of(zip(np.arange(23, 50) / RATE, frames[23:], strict=True), after=22 / RATE)
    assert rest.seconds.tolist() == pytest.approx([1.0, 1.2, 1.4, 1.6, 1.8])
    assert looks_of([], None).values.shape == (0, 63)


# The vote


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.integers(1, 3))
def test_the_vote_equals_adding_up_one_by_one(seed, asked, count, fine):
    random = np.random.default_rng(seed)
    products = random.random((asked, count)).astype(np.float32)
    steps, rates = np.sort(random.normal(0, 3, asked)), np.array([0.5, 1.0, 2.0])
    scores, chosen = _voted(products, steps, rates, fine)
    assert len(scores) == fine * (count - 1) + 1
    padded = np.concatenate([np.zeros((asked, 1)), products, np.zeros((asked, 1))], axis=1)
    for instant, score in enumerate(scores):
        sums = [
            sum(np.interp(instant / fine + r * s, np.arange(-1, count + 1), padded[k]) for k, s in enumerate(steps))
            for r in rates
        ]
        assert score == pytest.approx(max(sums) / asked, abs=1e-5)
        assert sums[chosen[instant]] == pytest.approx(max(sums), abs=1e-4)


# Where copies are found


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("speed", "change"),
    [
        (1, lambda f: f),
        (1, lambda f: np.clip(f + 25.0, 0, 255)),
        (1, lambda f: f[:, 2:-2, 3:-3]),
        (1, lambda f: f[:, ::2, ::2]),
        (1.25, lambda f: f),
        (0.8, lambda f: f),
    ],
    ids=["as it is", "brighter", "cropped", "smaller", "faster", "slower"],
)
def test_a_stretch_is_found_where_it_was_taken_from(speed, change):
    films = [footage(passing(seed, 12 * RATE)) for seed in range(4)]
    tracks = Tracks.of([seen(film) for film in films])
    places = np.rint(5.3 * RATE + speed * np.arange(4 * RATE)).astype(int)
    cut = np.ascontiguousarray(change(films[2][places].astype(float)).astype(np.uint8))
    found = find_copies(tracks, seen(cut), 2.0)
    assert found[0].video == 2
    assert found[0].seconds == pytest.approx(5.3 + 2 * speed, abs=0.2)
    assert found[0].rate == pytest.approx(speed, rel=0.1)
    assert found[0].score > 0.75
    assert all(copy.video == 2 for copy in found)


def test_what_was_taken_from_nowhere_is_not_found():
    tracks = Tracks.of([seen(footage(passing(seed, 6 * RATE))) for seed in range(4)])
    assert find_copies(tracks, seen(footage(passing(9, 4 * RATE))), 2.0) == []
    assert find_copies(tracks, Looks.none(), 2.0) == []
    assert find_copies(Tracks.of([]), seen(footage(passing(1, 4 * RATE))), 2.0) == []


def test_where_looks_are_missing_a_new_piece_begins():
    looks = seen(footage(passing(1, 8 * RATE)))
    kept = (looks.seconds < 2) | (looks.seconds > 4)
    tracks = Tracks.of([Looks.none(), Looks(looks.seconds[kept], looks.values[kept])])
    assert tracks.video.tolist() == [1, 1]
    assert len(tracks.only(0).rows) == 0
    assert find_copies(tracks.only(1), looks, 6.0)[0].seconds == pytest.approx(6, abs=0.15)


# In a dataset


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    index = hf.open_index(folder / "library.lance")
    for seed in (1, 2):
        write_clip(folder / f"{seed}.mp4", footage(passing(seed, 9 * RATE)), rate=RATE)
        index.add(list(hf.describe(folder / f"{seed}.mp4", detector=None, text=None)))
    write_clip(folder / "cut.mp4", footage(passing(2, 9 * RATE))[80:180, 2:-2, 2:-2] // 2 + 60, rate=RATE)
    return folder, index


@pytest.mark.slow
def test_a_clip_that_was_not_described_leads_to_where_it_was_cut_from(films):
    folder, index = films
    first, *rest = index.search(like=f"{folder / 'cut.mp4'}@1.5", top=3)
    assert first.source == str(folder / "2.mp4")
    assert first.at_seconds == pytest.approx(80 / RATE + 1.5, abs=0.2)
    assert first.start_seconds <= first.at_seconds < first.stop_seconds
    assert first.descriptor_id not in {hit.descriptor_id for hit in rest}
    assert index.search(like=f"{folder / 'cut.mp4'}@#37", top=3)[0].at_seconds == pytest.approx(4.68, abs=0.2)
    assert all(
        hit.source != first.source
        for hit in index.search(like=f"{folder / 'cut.mp4'}@1.5", where="source like '%1.mp4'")
    )
    with pytest.raises(SourceError, match=r"has no frame at .*cut.mp4@99: it ends at"):
        index.search(like=f"{folder / 'cut.mp4'}@99")
    with pytest.raises(SourceError, match="has no frame 5000"):
        index.search(like=f"{folder / 'cut.mp4'}@#5000")


@pytest.mark.slow
def test_a_position_in_a_described_video_is_found_first_with_its_own_instant(films):
    folder, index = films
    for position in (f"{folder / '1.mp4'}@3.2", f"{folder / '1.mp4'}@#80"):
        first = index.search(like=position)[0]
        assert (first.source, first.at_seconds) == (str(folder / "1.mp4"), pytest.approx(3.2, abs=0.11))
        assert first.score == pytest.approx(1, abs=0.01)


@pytest.mark.slow
def test_of_many_spans_those_are_compared_whose_features_are_alike(films, monkeypatch):
    folder, index = films
    monkeypatch.setattr("hyperframes.index.search._TRACKED_ROWS", 1)
    assert index.search(like=f"{folder / 'cut.mp4'}@1.5")[0].at_seconds == pytest.approx(4.7, abs=0.2)
    with pytest.raises(PipelineError, match="expected the features of one"):
        index.copies(Looks.none(), 0.0)


@pytest.mark.slow
def test_duplicates_are_told_with_the_instants_that_are_the_same(films, tmp_path):
    folder, _ = films
    index = hf.open_index(tmp_path / "library.lance")
    for name in ("1.mp4", "2.mp4", "cut.mp4"):
        index.add(list(hf.describe(folder / name, detector=None, text=None)))
    pairs = find_duplicates(index)
    assert pairs
    for pair in pairs:
        at = {hit.source.rpartition("/")[2]: hit.at_seconds for hit in (pair.first, pair.second)}
        assert at["2.mp4"] == pytest.approx(at["cut.mp4"] + 80 / RATE, abs=0.2)
    with pytest.raises(PipelineError, match="least: expected more than 0"):
        find_duplicates(index, least=0)


# Real videos


def _cut_out(source, start, *, crop=0, brighter=0, every=1):
    """Return four seconds of a video from a frame on, grey, made over."""
    frames = hf.run(source[start : start + 4 * RATE], "convert:format=gray").array
    side, top = (crop * n // 20 for n in (frames.shape[2], frames.shape[1]))
    seen = frames[::every, top : frames.shape[1] - top, side : frames.shape[2] - side].astype(int) + brighter
    height, width = (n // 2 * 2 for n in seen.shape[1:])
    return np.clip(seen, 0, 255).astype(np.uint8)[:, :height, :width]


@pytest.mark.slow
@pytest.mark.media
@pytest.mark.requirement("C3")
def test_cuts_of_real_videos_are_found_where_they_were_taken_from(media, tmp_path):
    names = ("video/bikes.mp4", "video/chaplin.mp4", "actions/thermal_falls/20200628_183032_camera.mp4")
    index = hf.open_index(tmp_path / "library.lance")
    for name in names:
        index.add(list(hf.describe(media / name, detector=None, text=None)))
    for name in names:
        for start, changes in ((60, {}), (80, {"crop": 1}), (110, {"brighter": 35}), (90, {"every": 2})):
            with hf.open(media / name) as source:
                cut = _cut_out(source, start, **changes)
            write_clip(tmp_path / "cut.mp4", cut, rate=RATE)
            at = 0.4 * len(cut) / RATE
            first = index.search(like=f"{tmp_path / 'cut.mp4'}@{at:.2f}", top=1)[0]
            assert first.source == str(media / name)
            assert first.at_seconds == pytest.approx(start / RATE + at * changes.get("every", 1), abs=0.5)
