"""Semantic features: every part as a slow reference has it, the same for every size, and never NaN."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import features as reference
from tests.semantic.looks import looked
from tests.semantic.scenes import footage, moving, panning, still

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.activity import MEASURES
from hyperframes.semantic.features import (
    Change,
    Features,
    Motion,
    change_part,
    detection_part,
    flow_part,
    texture_part,
)

seeds = st.integers(0, 10_000)


def confidence_map(random):
    return (random.random((64, 64)) ** 2).astype(np.float32)


@pytest.mark.requirement("C77", "W6")
@given(seeds, st.integers(1, 12), st.integers(1, 12))
def test_the_flow_part_is_a_weighted_histogram_of_8_directions_and_16_speeds(seed, height, width):
    random = np.random.default_rng(seed)
    field = (random.normal(size=(height, width, 2)) * 10 ** random.uniform(-2, 2, (height, width, 1))).astype("f4")
    confidence = confidence_map(random)
    np.testing.assert_allclose(flow_part(field, confidence), reference.flow(field, confidence), atol=2e-5)


@pytest.mark.requirement("C78", "C104", "W6")
@given(seeds, st.integers(1, 20), st.integers(1, 20), st.sampled_from([0.1, 0.3, 0.9, 1.0]))
def test_the_texture_part_folds_complements_and_masks_the_histogram_not_the_picture(seed, height, width, threshold):
    random = np.random.default_rng(seed)
    luma = random.integers(0, 8, (height, width), np.uint8)
    confidence = confidence_map(random)
    expected = reference.texture(luma, confidence, threshold)
    np.testing.assert_allclose(texture_part(luma, confidence, threshold), expected, atol=1e-6)


@pytest.mark.requirement("C78")
def test_texture_is_the_same_for_inverted_contrast_where_no_neighbours_are_equal():
    luma = np.random.default_rng(0).permutation(256).reshape(16, 16).astype(np.uint8)
    everywhere = np.ones((64, 64), np.float32)
    np.testing.assert_array_equal(texture_part(luma, everywhere), texture_part(255 - luma, everywhere))


@pytest.mark.requirement("C76", "W6")
@given(seeds, st.integers(0, 32))
def test_the_detection_part_has_score_maxima_and_bins_of_place_and_size(seed, num_boxes):
    random = np.random.default_rng(seed)
    boxes = np.zeros((32, 6), np.float32)
    low, high = np.sort(random.random((2, num_boxes, 2)), axis=0)
    boxes[:num_boxes] = np.concatenate(
        [low, high, random.uniform(0.3, 1, (num_boxes, 1)), random.integers(0, 80, (num_boxes, 1))], axis=1
    )
    scores = random.random(80).astype(np.float32) * random.choice([0.01, 1])
    np.testing.assert_allclose(detection_part(boxes, scores), reference.detection(boxes, scores), atol=1e-6)


@pytest.mark.requirement("C79", "W6")
@given(seeds)
def test_the_change_part_is_the_cosine_distance_of_32_groups_over_four_steps(seed):
    random = np.random.default_rng(seed)
    history = random.random((5, 384)).astype(np.float32)
    history[random.random((5, 384)) < 0.3] = 0
    for k in range(5):
        history[k, : 12 * int(random.integers(0, 4))] = 0
    np.testing.assert_allclose(change_part(history), reference.change(history), atol=1e-6)


FILM = footage(moving(1, 41, 2), panning(2, 61), still(3, 20))


@pytest.mark.requirement("C79", "C84")
def test_change_is_known_from_the_fifth_window_on_and_begins_anew_at_cuts():
    seen = looked(FILM)
    cuts = np.flatnonzero(seen["cut"][:, 0])
    assert cuts.tolist() == [6, 13]  # the first windows that begin after frames 41 and 102
    known = seen["valid"][:, 3].astype(bool)
    assert known.tolist() == [False] * 4 + [True] * 2 + [False] * 4 + [True] * 3 + [False] * 3
    parts = seen["features"][:, :384]
    for j in np.flatnonzero(known):
        expected = reference.change(parts[j - 4 : j + 1])
        np.testing.assert_allclose(seen["features"][j, 384:], expected, atol=1e-6)
    assert not seen["features"][~known, 384:].any()


@pytest.mark.slow
@pytest.mark.parametrize(("size", "length", "hop"), [(1, 8, 8), (7, 5, 3), (50, 3, 7)])
def test_any_size_gives_what_one_hyperframe_gives(size, length, hop):
    motion = Motion(length=length, hop=hop)
    whole, packed = looked(FILM, len(FILM), motion), looked(FILM, size, motion)
    for name, values in whole.items():
        np.testing.assert_array_equal(packed[name], values, err_msg=name)


@pytest.mark.requirement("C81", "C82")
def test_without_a_detector_its_part_is_zero_and_not_valid_and_the_others_stay_in_place():
    seen = looked(FILM)
    assert not seen["valid"][:, 0].any()
    assert not seen["features"][:, :128].any()
    assert seen["valid"][:, 1:3].all()
    np.testing.assert_allclose(seen["features"][:, 256:384].sum(axis=1), 1, atol=1e-5)


@pytest.mark.requirement("C104")
@pytest.mark.parametrize(
    "frames",
    [
        np.zeros((50, 36, 64), np.uint8),
        np.full((50, 36, 64), 200, np.uint8),
        FILM[:1],
        FILM[:2],
        np.zeros((50, 1, 1), np.uint8),
        np.random.default_rng(0).integers(0, 255, (20, 3, 2), np.uint8),
        np.random.default_rng(1).integers(0, 255, (20, 1, 40), np.uint8),
    ],
    ids=["black", "constant", "one frame", "two frames", "one pixel", "tiny", "one row"],
)
def test_odd_input_gives_numbers(frames):
    seen = looked(frames)
    assert len(seen["features"]) == -(-len(frames) // 8)
    assert np.isfinite(seen["features"]).all()
    assert (seen["features"] >= 0).all()
    assert seen["valid"][0, 1] == (len(frames) > 1)


def test_flow_never_comes_from_pairs_that_span_a_cut():
    film = footage(still(1, 12), still(2, 12))
    seen = looked(film, motion=Motion(length=8, hop=8))
    assert not seen["features"][:, 128:256].any()


def test_motion_to_the_right_is_in_the_first_direction_and_at_its_speed():
    y, x = np.mgrid[:48, :64]
    ball = [127 + 100 * np.exp(-((x - 12 - 2 * t) ** 2 + (y - 24) ** 2) / 30) for t in range(8)]
    seen = looked(np.array(ball).astype(np.uint8))
    flow = seen["features"][0, 128:256].reshape(8, 16)
    assert flow[0].sum() > 0.5
    assert int(flow[0].argmax()) in {7, 8, 9}  # 2 pixels a frame are bin 8


@pytest.mark.requirement("C25")
def test_the_map_is_steady_within_a_scene_and_new_after_a_cut():
    seen = looked(FILM)
    maps = seen["regions"].astype(float) / 255
    steps = np.abs(np.diff(maps, axis=0)).mean(axis=(1, 2))
    assert maps.max() <= 1
    assert steps[5] > 2 * np.median(steps[:5])


LUMA = FrameSpec.picture(36, 64, "gray")
ROWS = FrameSpec.array((38,), "f4", names=MEASURES)


@pytest.mark.parametrize(
    ("operator", "inputs", "message"),
    [
        (Motion(), (LUMA, ROWS), "operator 'motion' reads the two outputs of 'activity'"),
        (
            Features(),
            (LUMA,),
            "operator 'features' reads motion.flow, motion.count, motion.luma and, where there are such",
        ),
        (Change(), (ROWS,), "operator 'change' reads features.parts, features.valid, features.regions and motion.cut"),
        (Motion(length=1), (ROWS, LUMA), "operator 'motion': length is a whole number: expected 2 to 4096, got 1"),
        (Motion(hop=0), (ROWS, LUMA), "operator 'motion': hop is a whole number: expected 1 to 4096, got 0"),
        (Motion(pairs=0), (ROWS, LUMA), "operator 'motion': pairs is a whole number: expected 1 to 64, got 0"),
        (Features(least_box=2.0), (LUMA,), "operator 'features': least_box is a number: expected from 0 to 1, got 2.0"),
        (Change(keep=1.0), (ROWS,), "operator 'change': keep is a number: expected from 0 to 0.99, got 1.0"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(operator, inputs, message):
    with pytest.raises(PipelineError) as caught:
        operator.configure(inputs)
    assert str(caught.value).startswith(message)
