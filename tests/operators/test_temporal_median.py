"""The temporal median against sorting, and its networks against every order there is."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import temporal

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators import cache_lines
from hyperframes.operators.median_lines import median_kernel
from hyperframes.operators.temporal_median import TemporalMedian
from hyperframes.testing.operators import random_planes, run_split

SPECS = (
    FrameSpec.picture(5, 7, "yuv420p"),
    FrameSpec.picture(4, 6, "gray16le"),
    *(FrameSpec.array((3,), d) for d in ("i2", "f2", "f4", "f8")),
    FrameSpec.array((), np.float32),
)


@given(
    st.sampled_from(SPECS),
    st.integers(0, 10),
    st.integers(1, 11),
    st.integers(0, 5),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.integers(0, 10_000),
)
def test_split_medians_equal_those_of_the_whole_padded_sequence(spec, length, size, radius, boundary, seed):
    planes = random_planes(spec, length, seed, nans=True)
    got = run_split(TemporalMedian(radius), planes, np.arange(length), spec, boundary, size=size)["frames"]
    for plane, out in zip(planes, got.planes, strict=True):
        expected = temporal.per_frame(temporal.median, plane, radius, radius, boundary)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_networks_are_right_for_every_pattern_of_zeros_and_ones(radius):
    """A network of exchanges that is right for all zeros and ones is right for all numbers (Knuth's 0-1 principle)."""
    patterns = np.array(list(itertools.product((0, 1), repeat=2 * radius + 1)), np.uint8).T
    spec = FrameSpec.array((patterns.shape[1],), np.uint8)
    got = run_split(TemporalMedian(radius), [patterns], np.arange(len(patterns)), spec, size=99)["frames"].data
    np.testing.assert_array_equal(got[radius], np.sort(patterns, axis=0)[radius])


@pytest.mark.parametrize("radius", [1, 2, 3, 4])
def test_a_nan_anywhere_in_the_window_gives_nan_and_nothing_else_does(radius):
    rows = np.full((2 * radius + 1, 2 * radius + 2), np.inf, np.float32)
    rows[np.arange(2 * radius + 1), np.arange(2 * radius + 1)] = np.nan
    spec = FrameSpec.array((2 * radius + 2,), np.float32)
    got = run_split(TemporalMedian(radius), [rows], np.arange(len(rows)), spec, size=99)["frames"].data[radius]
    assert np.isnan(got[:-1]).all()
    assert got[-1] == np.inf


@given(
    st.sampled_from([1, 2, 3]),
    st.integers(1, 9),
    st.integers(0, 63),
    st.sampled_from([1, 63, 64, 65, 640, 1000]),
    st.integers(0, 200),
    st.integers(0, 200),
    st.sampled_from([0, 1, 64, 66]),
    st.integers(0, 1000),
)
def test_medians_of_frames_that_lie_apart_are_right_wherever_lines_of_the_cache_begin(
    radius, count, begin, samples, start, more, shift, seed
):
    """Rows of results begin `begin` bytes after a line; nothing but the range, `shift` on, is written."""
    rng = np.random.default_rng(seed)
    start = min(start, samples)
    stop = min(samples, start + more)
    frames = [rng.integers(0, 256, samples, np.uint8) for _ in range(count + 2 * radius)]
    frames[-1] = frames[0]  # a stand-in
    rows = np.array([frame.__array_interface__["data"][0] for frame in frames])
    expected = np.zeros((count, 1280), np.uint8)
    for j in range(count):
        window = np.sort(frames[j : j + 2 * radius + 1], axis=0)
        expected[j, start + shift : stop + shift] = window[radius, start:stop]
    for least in (0, 1 << 40):
        memory = np.zeros(count * 1280 + 128, np.uint8)
        out = memory[-memory.__array_interface__["data"][0] % 64 + begin :][: count * 1280].reshape(count, 1280)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cache_lines, "PASSING_BYTES", least)
            median_kernel(rows, out, radius)(start, stop, shift)
        np.testing.assert_array_equal(out, expected)


def test_complex_numbers_have_no_order():
    with pytest.raises(PipelineError, match="'temporal_median' cannot work on complex64 samples"):
        TemporalMedian().configure((FrameSpec.array((2,), np.complex64),))
