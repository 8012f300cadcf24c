"""Region maps, masks of tasks, and patches: work is done where something matters, and nowhere else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.semantic.scenes import scene

from hyperframes.errors import FrameError
from hyperframes.semantic.features import count_patterns, texture_part
from hyperframes.semantic.regions import (
    Mask,
    box_confidence,
    motion_confidence,
    region_confidence,
    saliency,
    select_patches,
)


def boxes(*rows):
    found = np.zeros((32, 6), np.float32)
    found[: len(rows)] = np.reshape(rows, (-1, 6))
    return found


@pytest.mark.requirement("C25")
@given(st.integers(0, 10_000), st.integers(1, 70), st.integers(1, 70))
def test_maps_lie_between_0_and_1_whatever_comes_in(seed, height, width):
    random = np.random.default_rng(seed)
    flow = (random.normal(size=(height, width, 2)) * 10 ** random.uniform(-3, 3)).astype(np.float32)
    luma = random.integers(0, 256, (height, width), np.uint8)
    for found in (
        motion_confidence(flow),
        saliency(luma),
        region_confidence(flow, luma, boxes([0, 0.2, 0.1, 0.2, 1, 3])),
    ):
        assert (found.shape, found.dtype) == ((64, 64), np.float32)
        assert found.min() >= 0
        assert found.max() <= 1


def test_what_moves_against_the_camera_stands_out_and_the_camera_alone_does_not():
    flow = np.full((90, 160, 2), 3, np.float32)
    assert motion_confidence(flow).max() == 0
    flow[30:60, 40:80] += 2
    found = motion_confidence(flow)
    assert found[30, 24] == pytest.approx(np.sqrt(8) / (1 + np.sqrt(8)))
    assert found[5, 5] == 0


def test_an_odd_one_out_is_salient_and_one_tone_is_not():
    assert saliency(np.full((90, 160), 90, np.uint8)).max() == 0
    bars = 90 + 40 * np.sin(np.arange(160) / 4)[None] + np.random.default_rng(0).normal(0, 4, (90, 160))
    bars[40:50, 100:110] = 200
    found = saliency(np.clip(bars, 0, 255).astype(np.uint8))
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert (row in range(26, 38), column in range(37, 47)) == (True, True)


@pytest.mark.requirement("C74")
def test_small_boxes_stay_small_and_large_ones_fade_out_softly():
    small = box_confidence(boxes([0.5, 0.5, 0.55, 0.55, 0.9, 0]))
    assert small.max() == pytest.approx(0.9)
    assert (small > 0.3).mean() < 0.01
    large = box_confidence(boxes([0.2, 0.2, 0.8, 0.8, 0.9, 0]))
    assert 0.36 < (large > 0.8).mean() < 0.7
    assert 0 < large[32, 5] < 0.9
    assert not box_confidence(boxes()).any()


@pytest.mark.requirement("C17", "C18")
def test_each_task_has_its_own_mask():
    shared = np.full((64, 64), 0.5, np.float32)
    third = Mask.bottom_third().apply(shared)
    assert third[:42].max() == 0
    assert third[43:].min() == 0.5
    seen = boxes([0, 0, 0.5, 0.5, 0.8, 0], [0.5, 0.5, 1, 1, 0.9, 2])
    person = Mask(classes=("person",)).apply(shared, seen)
    assert person[10, 10] == pytest.approx(0.8)
    assert person[55, 55] == 0
    assert not Mask(classes=("person",)).apply(shared, None).any()
    triangle = Mask(polygon=((0, 0), (1, 0), (0, 1))).apply(shared)
    assert triangle.mean() == pytest.approx(0.25, abs=0.01)
    both = Mask(classes=("car",), polygon=((0.5, 0.75), (1, 0.75), (1, 1), (0.5, 1))).apply(shared, seen)
    assert both[50, 50] == both[55, 10] == 0 or both[55, 55] > 0


def test_wrong_masks_are_told():
    with pytest.raises(
        FrameError, match=r"a mask's classes are COCO's, and faces: expected one of person, .*, face, got 'snout'"
    ):
        Mask(classes=("snout",))
    with pytest.raises(FrameError, match="a mask's polygon has at least three finite corners"):
        Mask(polygon=((0, 0), (1, 1)))


def slow_choice(confidence, shape, side, threshold):
    """Squares any of whose pixels lies (in part) in a cell above the threshold."""
    found = []
    for r in range(-(-shape[0] // side)):
        for c in range(-(-shape[1] // side)):
            y0, y1 = (min(shape[0], v) * 64 / shape[0] for v in (r * side, (r + 1) * side))
            x0, x1 = (min(shape[1], v) * 64 / shape[1] for v in (c * side, (c + 1) * side))
            cells = [
                confidence[i, j]
                for i in range(64)
                for j in range(64)
                if i < y1 - 1e-9 and i + 1 > y0 + 1e-9 and j < x1 - 1e-9 and j + 1 > x0 + 1e-9
            ]
            if max(cells) > threshold:
                found.append((r, c))
    return found


@pytest.mark.requirement("C93")
@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(1, 150), st.integers(1, 150), st.integers(1, 40))
def test_squares_are_chosen_where_confidence_is(seed, height, width, side):
    confidence = np.zeros((64, 64), np.float32)
    random = np.random.default_rng(seed)
    confidence[tuple(random.integers(0, 64, (2, 3)))] = 0.9
    if height * width > 400 * side * side:
        side = 20
    patches = select_patches(confidence, (height, width), side)
    assert [tuple(p) for p in patches.chosen.tolist()] == slow_choice(confidence, (height, width), side, 0.3)


@pytest.mark.requirement("C93")
def test_work_is_done_on_chosen_squares_only():
    confidence = np.zeros((64, 64), np.float32)
    confidence[:8, :8] = 1
    picture = np.random.default_rng(0).integers(0, 256, (128, 128), np.uint8)
    patches = select_patches(confidence, picture.shape, side=16)
    assert (patches.num_total, patches.share) == (64, 1 / 64)
    worked = []
    result = patches.apply(lambda part: worked.append(part.size) or 255 - part, picture, picture)
    assert sum(worked) == picture.size // 64
    np.testing.assert_array_equal(result[:16, :16], 255 - picture[:16, :16])
    np.testing.assert_array_equal(result[16:], picture[16:])
    most = select_patches(np.linspace(0, 1, 4096, dtype="f4").reshape(64, 64), picture.shape, most=3)
    assert most.chosen.tolist() == [[7, 5], [7, 6], [7, 7]]


@pytest.mark.requirement("C93")
def test_textures_are_coded_in_chosen_squares_only_and_come_out_the_same():
    confidence = np.zeros((64, 64), np.float32)
    confidence[20:30, 40:50] = 1
    luma = scene(1).astype(np.uint8)
    chosen = select_patches(confidence, luma.shape)
    everywhere = select_patches(np.ones_like(confidence), luma.shape)
    assert len(chosen.chosen) < 0.4 * len(everywhere.chosen)
    counts = count_patterns(luma, confidence, 0.3, chosen)
    np.testing.assert_array_equal(counts, count_patterns(luma, confidence, 0.3, everywhere))
    np.testing.assert_allclose(texture_part(luma, confidence), counts / counts.sum())
    poisoned = luma.copy()
    rows, columns = np.indices(luma.shape) // 16
    outside = ~np.isin(rows * 100 + columns, chosen.chosen @ [100, 1])
    assert count_patterns(poisoned, np.ones_like(confidence), 0.3, chosen).sum() == (~outside).sum()


def test_wrong_patches_are_told():
    with pytest.raises(FrameError, match="patches: expected side and most of at least 1, got 0 and None"):
        select_patches(np.zeros((64, 64), "f4"), (8, 8), side=0)
