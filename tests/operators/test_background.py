"""The background model against a slow reference, and on a scene whose foreground is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import temporal

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.background import Background
from hyperframes.testing.operators import random_planes, run_split

SPECS = (
    (FrameSpec.picture(5, 7, "yuv420p"), 255, 1),
    (FrameSpec.picture(4, 6, "rgb24"), 255, 3),
    (FrameSpec.picture(4, 6, "gray10le"), 1023, 1),
    (FrameSpec.array((3,), "i2"), 65535, 1),
    (FrameSpec.array((3,), "f4"), 1.0, 1),
    (FrameSpec.array((2, 2), "f8"), 1.0, 1),
    (FrameSpec.array((), "f4"), 1.0, 1),
)


@given(
    st.sampled_from(SPECS),
    st.integers(1, 14),
    st.integers(1, 15),
    st.sampled_from([(0.02, 3.0, 4.0), (0.5, 2.0, 1.0), (1.0, 1.5, 30.0)]),
    st.integers(0, 10_000),
)
def test_split_results_equal_the_slow_reference(case, length, size, parameters, seed):
    spec, full, channels = case
    planes = random_planes(spec, length, seed, nans=True)
    if full == 1023:
        planes = tuple(plane >> 6 for plane in planes)
    got = run_split(Background(*parameters), planes, np.arange(length), spec, size=size)
    for i, (plane, out) in enumerate(zip(planes, got["background"].planes, strict=True)):
        rows = plane.reshape(length, -1)
        masks, means = temporal.background(rows, *parameters, full, channels if i == 0 else 1)
        np.testing.assert_array_equal(out.reshape(length, -1), means)
        if i == 0:
            np.testing.assert_array_equal(got["mask"].data.reshape(length, -1), masks)


def test_a_thing_that_crosses_is_found_and_leaves_the_background_clean():
    random = np.random.default_rng(5)
    y, x = np.mgrid[:40, :80]
    still = 90 + 40 * np.sin(x / 7) * np.cos(y / 5)
    frames, truth = [], []
    for t in range(60):
        frame, inside = still.copy(), np.zeros(still.shape, bool)
        if t >= 20:
            inside[12:26, 2 * (t - 20) : 2 * (t - 20) + 10] = True
        frame[inside] = 210
        frames.append(np.clip(np.rint(frame + random.normal(scale=3, size=frame.shape)), 0, 255))
        truth.append(inside)
    spec = FrameSpec.picture(40, 80, "gray")
    got = run_split(Background(), [np.array(frames, np.uint8)], np.arange(60), spec, size=7)
    found, truth = got["mask"].data[20:] > 0, np.array(truth)[20:]
    assert (found & truth).sum() / (found | truth).sum() > 0.9
    assert np.abs(got["background"].data[-1] - still).mean() < 3


def test_what_stays_becomes_background():
    rows = np.full((400, 1), 20, np.uint8)
    rows[100:] = 120
    spec = FrameSpec.array((1,), np.uint8)
    got = run_split(Background(rate=0.2), [rows], np.arange(400), spec, size=64)
    assert got["mask"].data[:100].max() == 0
    assert got["mask"].data[100] == 255
    assert got["mask"].data[-1] == 0
    assert abs(int(got["background"].data[-1, 0]) - 120) <= 1


def test_masks_of_pictures_are_gray_full_range_pictures():
    contract = Background().configure((FrameSpec.picture(4, 6, "rgb24"),))
    mask, background = (output.spec for output in contract.outputs)
    assert (mask.shapes, mask.pixel_format, mask.colour.range) == (((4, 6),), "gray", "pc")
    assert background.pixel_format == "rgb24"
    assert contract.dependency == "sequential"


def test_integers_that_float32_cannot_hold_are_refused():
    with pytest.raises(PipelineError, match="models samples in float32, which cannot hold int32"):
        Background().configure((FrameSpec.array((2,), np.int32),))
