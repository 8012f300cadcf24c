"""When something matters: cuts, fades and flashes told apart, weights near 0 where nothing happens, and no size seen."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.semantic.scenes import faded, flashed, footage, moving, panning, scene, still

import hyperframes as hf
from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.activity import MEASURES, Activity
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic import Anchors, choose_frames, find_anchors
from hyperframes.sinks import CallbackSink, MemorySink


def same(a, b):
    for name in ("index", "seconds", "weights", "activity", "entropy"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert (a.anchors, a.segments) == (b.anchors, b.segments)


def frames_of(timeline, *kinds):
    return [round(anchor.seconds * 25) for anchor in timeline.anchors if anchor.kind in kinds]


@st.composite
def footages(draw):
    """Any order of scenes, motion, pans, fades and flashes, with or without noise."""
    parts = []
    for kind in draw(st.lists(st.sampled_from(["still", "moving", "panning", "faded", "flashed"]), max_size=4)):
        seed, length = draw(st.integers(0, 99)), draw(st.integers(1, 30))
        parts.append(
            {
                "still": lambda s, n: still(s, n),
                "moving": lambda s, n: moving(s, n, 3),
                "panning": lambda s, n: panning(s, n),
                "faded": lambda s, n: faded(moving(s, n + 8), still(s + 1, n + 8), 8),
                "flashed": lambda s, n: flashed(moving(s, n + 8), n // 2),
            }[kind](seed, length)
        )
    return footage(still(0, 1), *parts, noise=draw(st.sampled_from([0.0, 2.0])))


@pytest.mark.slow
@pytest.mark.requirement("C3")
@given(footages(), st.integers(1, 60), st.sampled_from([1, 2]), st.sampled_from([0.5, 60.0]))
def test_what_is_found_does_not_depend_on_how_frames_are_packed(frames, size, workers, window):
    anchors = Anchors(window_seconds=window)
    whole = find_anchors(frames, anchors=anchors, size=len(frames))
    same(find_anchors(frames, anchors=anchors, size=size, workers=workers), whole)
    np.testing.assert_array_equal(whole.index, np.arange(len(frames)))
    starts = [segment.start for segment in whole.segments]
    assert starts == [0, *(segment.stop for segment in whole.segments)][:-1]
    assert whole.segments[-1].stop == len(frames)


@pytest.mark.requirement("C57")
@pytest.mark.slow
def test_a_frame_is_certain_a_fixed_number_of_frames_later():
    """What live runs wait for: rows arrive, hyperframe by hyperframe, no later than that."""
    frames = footage(moving(1, 60, 2), still(2, 60))
    told, anchors = [], Anchors()
    sink = CallbackSink(lambda rows: told.append((*rows.index[:1].tolist(), len(rows))))
    stages = [Stage("activity", Activity()), Stage("anchors", anchors, ("activity.measures", "activity.luma"))]
    hf.run(Pipeline.of(frames, stages, {"anchors.weights": sink}, size=1, workers=1))
    delay = anchors.delay(25)
    assert 3 < delay < 15
    last = len(frames) - delay - 1
    assert told == [(0,)] * delay + [(frame, 1) for frame in range(last)] + [(last, delay + 1)]


# Transitions


@pytest.mark.requirement("C60")
@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_cuts_fades_and_flashes_are_told_apart(noise):
    faded_part = faded(moving(3, 40), moving(4, 40), 12)
    parts = [moving(1, 40), panning(2, 40), faded_part, flashed(moving(5, 60), 30)]
    found = find_anchors(footage(*parts, noise=noise))
    assert frames_of(found, "cut") == [40, 80, 160]
    (fade,) = frames_of(found, "fade")
    assert 118 <= fade <= 125  # black is at 119 and 120
    assert frames_of(found, "flash") == [190]
    assert [segment.start for segment in found.segments if segment.cut] == [40, 80, fade, 160]
    assert [anchor.weight for anchor in found.cuts] == [1.0] * 4


@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([-90.0, 90.0]))
@pytest.mark.slow
def test_a_flash_is_no_cut_whatever_the_scene(seed, length, by):
    found = find_anchors(footage(flashed(moving(seed, 60), 30, length, by), noise=1.0))
    assert found.cuts == ()


def test_a_picture_put_in_for_two_frames_is_a_flash():
    frames = moving(1, 60)
    frames[30:32] = scene(9)
    found = find_anchors(footage(frames))
    assert frames_of(found, "flash") == [30]
    assert found.cuts == ()


def test_fast_motion_and_pans_are_no_cuts():
    found = find_anchors(footage(moving(1, 50, 6), noise=2.0))
    assert found.cuts == ()
    assert find_anchors(footage(panning(1, 50, 4), noise=2.0)).cuts == ()


@pytest.mark.media
@pytest.mark.requirement("C60")
@pytest.mark.slow
def test_the_cuts_of_a_street_scene_are_those_that_three_other_detectors_find(media):
    """PySceneDetect 0.7.2's content, adaptive and histogram detectors say 30, 76, 137, 187, 242."""
    for two_pass in (False, True):
        found = find_anchors(media / "video/bikes.mp4", two_pass=two_pass)
        assert frames_of(found, "cut") == [30, 76, 137, 187, 242]
        assert frames_of(found, "fade", "flash") == []


# Weights


@pytest.mark.requirement("C50")
@pytest.mark.requirement("C102")
@pytest.mark.parametrize("noise", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("two_pass", [False, True])
def test_where_nothing_happens_weights_are_near_zero_however_noisy(noise, two_pass):
    found = find_anchors(footage(still(1, 150), noise=noise), two_pass=two_pass)
    assert found.weights.max() < 0.075
    assert found.anchors == ()
    assert [(segment.start, segment.stop) for segment in found.segments] == [(0, 125), (125, 150)]
    assert all(segment.static for segment in found.segments)


@pytest.mark.requirement("C56")
@pytest.mark.requirement("C127")
def test_weights_rise_where_something_moves_and_segments_end_where_it_begins_and_ends():
    found = find_anchors(footage(still(1, 75), moving(1, 50, 2), still(1, 75), noise=1.0))
    inside = (found.index >= 75) & (found.index < 125)
    assert found.weights[inside].mean() > 10 * found.weights[~inside].mean()
    moves = [segment for segment in found.segments if not segment.static]
    assert all(segment.static for segment in found.segments if segment not in moves)
    assert abs(moves[0].start - 75) <= 1
    assert abs(moves[-1].stop - 125) <= 2


@pytest.mark.requirement("C56")
def test_segments_are_no_longer_and_hold_no_more_anchors_than_asked_for():
    frames = footage(moving(1, 100, 5), moving(1, 100, 1))
    found = find_anchors(frames, anchors=Anchors(max_seconds=1.0))
    assert max(segment.stop - segment.start for segment in found.segments) == 25
    few = find_anchors(frames, anchors=Anchors(max_anchors=2))
    index = np.array(frames_of(few, "motion"))
    assert all(((index >= s.start) & (index < s.stop)).sum() <= 2 for s in few.segments)


@pytest.mark.requirement("C54")
def test_where_all_speeds_break_loose_two_frames_before_and_after_are_anchors():
    """A picture that flies apart from its corner has speeds from none to many pixels."""
    size = (96, 128)
    wide = cv2.resize(scene(1), size[::-1]) + 12 * np.random.default_rng(1).normal(size=size)
    wide = cv2.GaussianBlur(wide, (0, 0), 1.5)
    apart = [cv2.warpAffine(wide, np.float64([[1.06**k, 0, 0], [0, 1.06**k, 0]]), size[::-1]) for k in range(8)]
    found = find_anchors(footage(np.repeat(apart[0][None], 50, axis=0), np.stack(apart)))
    rising = np.flatnonzero((found.entropy[:-1] < 0.8) & (found.entropy[1:] >= 0.8)) + 1
    assert rising[0] == 51
    anchors = set(frames_of(found, "motion"))
    for at in rising:
        assert {at - 2, at - 1, at, at + 1} <= anchors
    assert found.weights[at - 2 : at + 2].min() >= 0.8


def test_levels_of_the_whole_file_are_those_of_a_first_pass():
    frames = footage(still(1, 50), moving(1, 50, 2), noise=1.0)
    causal, two_pass = find_anchors(frames), find_anchors(frames, two_pass=True)
    assert (causal.statistics, two_pass.statistics) == ("causal", "two-pass")
    rows = hf.run(frames, "activity").value.data
    noise = np.percentile(rows[:, MEASURES.index("noise")], 10)
    floor = int(max(2, np.ceil(4 * noise)))
    activity = rows[:, MEASURES.index(f"flow_{floor}") :].sum(axis=1)
    np.testing.assert_allclose(two_pass.activity[1:], activity[1:], rtol=1e-5, atol=1e-7)


@pytest.mark.requirement("C55")
def test_anchors_are_as_many_as_there_is_to_see():
    busy, quiet = (find_anchors(footage(moving(1, 100, speed), noise=1.0)) for speed in (5, 0.2))
    assert len(quiet.anchors) < len(busy.anchors) < 22 * 4


# Odd input


@pytest.mark.parametrize("num_frames", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (48, 64)])
def test_a_few_tiny_frames_are_no_trouble(num_frames, shape):
    found = find_anchors(np.zeros((num_frames, *shape), np.uint8))
    assert found.weights.tolist() == [0.0] * num_frames
    assert found.segments == ((0, num_frames, False, True, 0.0),)


def test_a_black_stream_that_turns_into_a_picture_at_once_has_a_cut_there():
    found = find_anchors(footage(np.zeros((30, 48, 64)), still(1, 30)))
    assert frames_of(found, "cut") == [30]
    assert frames_of(found, "fade") == []


def test_other_inputs_and_parameters_are_refused():
    rows = FrameSpec.array((3,), np.float32)
    with pytest.raises(PipelineError, match="operator 'anchors' reads the two outputs of 'activity': got"):
        Anchors().configure((rows,))
    with pytest.raises(PipelineError, match="max_anchors is a whole number"):
        find_anchors(footage(still(1, 3)), anchors=Anchors(max_anchors=0))
    with pytest.raises(PipelineError, match="window_seconds is a number: expected above 0"):
        find_anchors(footage(still(1, 3)), anchors=Anchors(window_seconds=0))


# Choosing frames


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.data())
def test_chosen_frames_are_in_order_and_as_many_as_asked_for(weights, data):
    count = data.draw(st.integers(1, len(weights)))
    starts = data.draw(st.lists(st.integers(0, len(weights) - 1), max_size=5, unique=True).map(sorted))
    chosen = choose_frames(weights, count, starts=starts).tolist()
    assert len(chosen) == count
    assert chosen == sorted(set(chosen))
    assert chosen[0] >= 0
    assert chosen[-1] < len(weights)


def test_each_chosen_frame_stands_for_as_much_weight():
    assert choose_frames([0.0] * 100, 4).tolist() == [12, 37, 62, 87]
    weights = np.zeros(100)
    weights[50:60] = 1
    chosen = choose_frames(weights, 12)
    assert ((chosen >= 50) & (chosen < 60)).sum() == 10
    assert choose_frames(weights, 100).tolist() == list(range(100))


def test_a_heavy_shot_does_not_take_all_frames():
    weights = np.concatenate([np.full(30, 0.1), np.full(30, 1.0), np.full(40, 0.1)])
    assert choose_frames(weights, 1, starts=[30, 60]).tolist() == [44]
    assert choose_frames(weights, 4, starts=[30, 60]).tolist() == [15, 37, 52, 80]
    chosen = choose_frames(weights, 20, starts=[30, 60])
    assert ((chosen >= 30) & (chosen < 60)).sum() == 12  # by the root of its weight; by weight it would be 17
    frames = footage(still(1, 40), moving(2, 40, 3), still(3, 40))
    assert set(find_anchors(frames).choose(12) // 40) == {0, 1, 2}


def test_more_frames_than_there_are_cannot_be_chosen():
    with pytest.raises(FrameError, match="frames to choose: expected from 1 to 3, as many as there are, got 4"):
        choose_frames([1, 1, 1], 4)


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.parametrize("name", ["video/bikes.mp4", "video/h264_10bits.mp4", "odd/bear-vp9-odd-dimensions.webm"])
def test_small_luma_made_while_reading_gives_what_whole_pictures_give(media, name):
    """Other clients read features of the same pictures, in the same pass."""
    found = find_anchors(media / name)
    sinks = {f"anchors.{port}": MemorySink() for port in ("anchors", "weights")}
    stages = [Stage("activity", Activity()), Stage("anchors", Anchors(), ("activity.measures", "activity.luma"))]
    hf.run(Pipeline.of(media / name, stages, sinks))
    anchors, weights = (sink.result for sink in sinks.values())
    np.testing.assert_array_equal(weights.columns["weight"], found.weights)
    np.testing.assert_array_equal(weights.columns["activity"], found.activity)
    np.testing.assert_allclose(anchors.pts * float(anchors.spec.time_base), [a.seconds for a in found.anchors])
