"""Measures of frames, and what selects frames and spans by them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.frames import FrameSpec
from hyperframes.operators.measure import Measure
from hyperframes.operators.select_motion import SelectMotion
from hyperframes.operators.still_spans import StillSpans
from hyperframes.testing.operators import random_planes, run_split

SPECS = (
    FrameSpec.picture(5, 7, "yuv420p"),
    FrameSpec.picture(4, 6, "gray16le"),
    *(FrameSpec.array((3, 2), d) for d in ("i1", "i2", "i4", "u8", "f4", "f8")),
    FrameSpec.array((), "f4"),
)
ANY = (
    st.sampled_from(SPECS),
    st.integers(0, 12),
    st.integers(1, 13),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.integers(0, 10_000),
)


def _wide(plane):
    return plane.astype(np.float64).reshape(len(plane), int(np.prod(plane.shape[1:])))


def _activity(plane):
    """Mean absolute difference to the previous frame, 0 for the first."""
    wide = _wide(plane)
    return np.concatenate([np.zeros(min(1, len(plane))), np.abs(np.diff(wide, axis=0)).mean(axis=1)])


@given(*ANY)
def test_measures_are_those_of_numpy_whatever_the_size_and_boundary(spec, length, size, boundary, seed):
    planes = random_planes(spec, length, seed)
    got = run_split(Measure(), planes, np.arange(length), spec, boundary, size=size)["records"]
    wide = _wide(planes[0])
    np.testing.assert_array_equal(got.index, np.arange(length))
    expected = {"mean": wide.mean(axis=1), "std": wide.std(axis=1), "activity": _activity(planes[0])}
    if length:
        expected |= {"min": wide.min(axis=1), "max": wide.max(axis=1)}
    for name, values in expected.items():
        np.testing.assert_allclose(got.columns[name], values, rtol=1e-9, atol=1e-9, err_msg=name)


def test_measures_of_16_bit_pictures_do_not_overflow():
    spec = FrameSpec.picture(300, 400, "gray16le")
    plane = np.full((2, 300, 400), 65535, np.uint16)
    plane[1] = 0
    got = run_split(Measure(), [plane], np.arange(2), spec, size=1)["records"]
    assert got.columns["mean"].tolist() == [65535.0, 0.0]
    assert got.columns["std"].tolist() == [0.0, 0.0]
    assert got.columns["activity"].tolist() == [0.0, 65535.0]


@given(*ANY, st.sampled_from([0.0, 0.5, 2.0, 60.0]))
def test_frames_above_the_threshold_are_kept_and_the_first_always(spec, length, size, boundary, seed, threshold):
    planes = random_planes(spec, length, seed)
    got = run_split(SelectMotion(threshold), planes, np.arange(length), spec, boundary, size=size)["frames"]
    kept = _activity(planes[0]) > threshold
    kept[:1] = True
    np.testing.assert_array_equal(got.index, np.flatnonzero(kept))
    for plane, out in zip(planes, got.planes, strict=True):
        np.testing.assert_array_equal(out, plane[kept])


def _spans(activity, threshold, min_frames):
    """Cut the stream before every frame that is not still, and keep the long pieces."""
    cuts = [0, *(t for t in range(1, len(activity)) if activity[t] >= threshold), len(activity)]
    return [(a, b) for a, b in itertools.pairwise(cuts) if b - a >= min_frames and b > a]


@given(st.integers(0, 40), st.integers(1, 41), st.integers(1, 6), st.integers(0, 10_000))
def test_still_spans_lie_between_the_frames_that_move(length, size, min_frames, seed):
    spec = FrameSpec.array((4,), np.int16)
    moves = np.random.default_rng(seed).random(length) < 0.2
    rows = np.repeat(np.cumsum(moves * 9)[:, None], 4, axis=1).astype(np.int16)
    operator = StillSpans(threshold=1.0, min_frames=min_frames)
    got = run_split(operator, [rows], 7 * np.arange(length), spec, size=size)["spans"]
    assert list(zip(got.index, got.stop, strict=True)) == _spans(_activity(rows), 1.0, min_frames)
    np.testing.assert_array_equal(got.pts, 7 * got.index)
    assert not got.columns["activity"].any()


def test_the_last_span_is_closed_at_the_end_with_its_mean_activity():
    spec = FrameSpec.array((1,), np.float64)
    rows = np.array([[0.0], [9.0], [9.25], [9.5], [10.25]])
    got = run_split(StillSpans(threshold=1.0, min_frames=3), [rows], np.arange(5), spec, size=2)["spans"]
    assert (got.index.tolist(), got.stop.tolist()) == ([1], [5])
    assert got.columns["activity"] == pytest.approx([1.25 / 3])
