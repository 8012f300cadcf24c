"""`hf.describe`: descriptors of segments through the flow, the same for every size, plainly degraded without models."""

import dataclasses
import itertools

import numpy as np
import pytest
from tests.cli.conftest import write_clip
from tests.semantic.scenes import footage, moving, panning, still

import hyperframes as hf
from hyperframes.semantic import DegradedWarning, Mask, Projection, Sync, Tasks, find_anchors
from hyperframes.semantic.models import DETECTOR, find_model

FILM = footage(moving(1, 60, 2), panning(2, 50), still(3, 60))
QUIET = {"detector": None}


def described(source=FILM, **options):
    return list(hf.describe(source, **{"detector": None, **options}))


@pytest.fixture(scope="module")
def found():
    return described(size=16)


@pytest.mark.requirement("C3", "C4", "C56", "C26", "C124")
def test_segments_partition_the_stream_and_each_has_one_descriptor(found):
    timeline = find_anchors(FILM)
    assert [d.core for d in found] == [(s.start, s.stop) for s in timeline.segments]
    assert [(d.cut, d.static) for d in found] == [(s.cut, s.static) for s in timeline.segments]
    assert [a for d in found for a in d.anchors] == list(timeline.anchors)
    assert found[0].core[0] == 0
    assert found[-1].core[1] == len(FILM)
    for before, after in itertools.pairwise(found):
        assert before.seconds[1] == after.seconds[0]
    assert found[-1].static
    assert not found[0].static


@pytest.mark.requirement("C57")
@pytest.mark.parametrize("size", [len(FILM), 5])
def test_any_size_gives_the_same_descriptors(found, size):
    plain = [dataclasses.replace(d, hyperframe="") for d in found]
    assert [dataclasses.replace(d, hyperframe="") for d in described(size=size)] == plain


@pytest.mark.requirement("C14")
def test_frames_between_anchors_are_kept_as_the_paths_of_what_moves(found):
    for d in found:
        anchors = [a.seconds for a in d.anchors]
        for t in d.trajectories:
            assert anchors.index(t.stop_seconds) == anchors.index(t.start_seconds) + 1
    pans = found[1]  # the picture goes left by 2 of 64 pixels a frame, 25 frames a second
    assert len(pans.trajectories) > 20
    for t in pans.trajectories:
        across, down = t.at(1.0) - t.at(0.0)
        assert across / (t.stop_seconds - t.start_seconds) == pytest.approx(-2 * 25 / 64, rel=0.2)
        assert abs(down) < 0.05
    assert found[-1].trajectories == ()


def test_what_moves_is_on_the_map_and_parts_are_marked(found):
    moves = found[0]
    assert moves.feature_parts == (False, True, True, True)
    assert not moves.degraded
    rows = moves.region_confidence.mean(axis=1)
    assert rows[24:40].mean() > 1.5 * rows[:16].mean()


@pytest.mark.requirement("X12")
@pytest.mark.requirement("C81")
def test_without_the_detector_it_says_so_and_marks_what_it_makes(monkeypatch):
    monkeypatch.delenv("HYPERFRAMES_MODELS", raising=False)
    with pytest.warns(DegradedWarning, match="no detector: the detection part of descriptors is not valid"):
        made = list(hf.describe(FILM[:20]))
    assert all(d.degraded and not d.feature_parts[0] for d in made)


@pytest.mark.requirement("C17", "C18")
def test_tasks_have_maps_of_their_own():
    (made, *_) = described(masks={"intrusion": Mask.bottom_third(), "people": Mask(classes=("person",))})
    assert not made.confidence("intrusion")[:42].any()
    np.testing.assert_array_equal(made.confidence("intrusion")[43:], made.region_confidence[43:])
    assert not made.confidence("people").any()
    np.testing.assert_array_equal(made.confidence("other"), made.region_confidence)


def test_a_lag_is_noted_and_moves_anchors(found):
    made = described(sync=Sync(0.2, 0.5))
    assert made[0].lag_seconds == 0.2
    moved = [a.seconds for d in made for a in d.anchors]
    np.testing.assert_allclose(moved, [a.seconds + 0.1 for d in found for a in d.anchors])


@pytest.mark.parametrize("frames", [FILM[:1], np.zeros((30, 2, 3), np.uint8)], ids=["one frame", "tiny and black"])
def test_odd_input_has_descriptors(frames):
    made = described(frames)
    assert sum(d.core[1] - d.core[0] for d in made) == len(frames)
    assert all(np.isfinite(d.semantic_features).all() for d in made)


@pytest.mark.parametrize("frames", [(20, 23), (20, 25), (3, 100)])
def test_a_range_has_its_own_segments_and_windows(frames):
    made = described(range=frames)
    assert (made[0].core[0], made[-1].core[1]) == frames
    assert made[0].seconds[0] == pytest.approx(frames[0] / 25)
    assert any(made[0].feature_parts) == (frames != (20, 23))  # windows begin at multiples of 8


@pytest.mark.requirement("C121")
def test_tasks_are_noted_with_the_version_of_their_projection(monkeypatch):
    tasks = Tasks()
    tasks.register(Projection("sort", np.eye(512, 256)))
    monkeypatch.setitem(hf.describe.__globals__, "TASKS", tasks)
    (made, *_) = described(FILM[:20], tasks=["sort"])
    assert made.tasks == {"sort": tasks.projection("sort").version}


@pytest.mark.slow
def test_what_is_held_does_not_grow_with_the_length():
    frames = np.random.default_rng(0).integers(0, 255, (1500, 8, 8), np.uint8)
    descriptors = hf.describe(frames, detector=None, size=20)
    held = []
    for _ in descriptors:
        assembler = descriptors._running.gi_frame.f_locals["assembler"]
        held.append((len(assembler.windows), len(assembler.luma) // 8))
    assert len(held) > 8
    assert np.max(held) < 60  # of 188: those of 5 s, and of what has not been weighed


def test_no_frames_have_no_descriptors():
    assert described(FILM[:0]) == []


def test_two_passes_are_noted_and_files_have_one_hash_wherever_they_lie(tmp_path):
    one, other = (write_clip(tmp_path / name, FILM[:70]) for name in ("one.mp4", "other.mp4"))
    (first, *_), (second, *_) = described(one, two_pass=True), described(other)
    assert (first.statistics, second.statistics) == ("two-pass", "causal")
    assert first.content_hash == second.content_hash
    assert first.parameters != second.parameters
    assert first.source.endswith("one.mp4")


def test_a_reader_that_stops_ends_the_run():
    descriptors = hf.describe(np.concatenate([FILM] * 4), size=8, **QUIET)
    next(descriptors)
    descriptors.close()


def test_what_is_wrong_is_told_before_anything_is_described(tmp_path):
    with pytest.raises(hf.SourceError):
        hf.describe(tmp_path / "missing.mp4")
    with pytest.raises(hf.PipelineError, match="expected a readable file for model"):
        hf.describe(FILM, detector=tmp_path / "missing.onnx")


@pytest.mark.media
@pytest.mark.slow
def test_real_footage_is_described_with_what_is_seen(media):
    model = find_model(DETECTOR) or media.parent / "models" / DETECTOR
    if not model.is_file():
        pytest.skip(f"no {DETECTOR}")
    made = list(hf.describe(media / "video/multicam_people/cam01.mp4", detector=model, range=(0, 32)))
    assert made[0].feature_parts[:3] == (True, True, True)
    assert made[0].models["detector"].startswith(DETECTOR)
    assert int(made[0].semantic_features[:80].argmax()) == 0  # a person
