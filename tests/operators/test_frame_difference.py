"""Frame differences against plain NumPy in wide integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import temporal

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.frame_difference import FrameDifference
from hyperframes.testing.operators import random_planes, run_split

SPECS = (
    FrameSpec.picture(5, 7, "yuv420p"),
    FrameSpec.picture(4, 6, "gray16le"),
    *(FrameSpec.array((3,), d) for d in ("i1", "i2", "i4", "u4", "f4", "f8")),
    FrameSpec.array((), "i2"),
)


@given(
    st.sampled_from(SPECS),
    st.integers(0, 9),
    st.integers(1, 10),
    st.integers(1, 6),
    st.sampled_from(["absolute", "signed"]),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.integers(0, 10_000),
)
def test_differences_are_those_of_the_whole_padded_sequence(spec, length, size, lag, mode, boundary, seed):
    planes = random_planes(spec, length, seed)
    operator = FrameDifference(mode=mode, lag=lag)
    got = run_split(operator, planes, np.arange(length), spec, boundary, size=size)["frames"]
    for plane, out in zip(planes, got.planes, strict=True):

        def difference(window):
            wide = window if window.dtype.kind == "f" else window.astype(np.int64)
            return abs(wide[-1] - wide[0]) if mode == "absolute" else wide[-1] - wide[0]

        expected = temporal.per_frame(difference, plane, lag, 0, boundary, dtype=out.dtype)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("dtype", "mode", "expected"),
    [
        ("u1", "absolute", "u1"),
        ("u1", "signed", "i2"),
        ("u2", "signed", "i4"),
        ("i2", "absolute", "u2"),
        ("f4", "signed", "f4"),
    ],
)
def test_the_dtype_holds_every_difference(dtype, mode, expected):
    (output,) = FrameDifference(mode=mode).configure((FrameSpec.array((4, 6), dtype),)).outputs
    assert output.spec.dtype == np.dtype(expected)


def test_the_largest_differences_are_exact():
    rows = np.array([[-128], [127], [-128]], np.int8)
    spec = FrameSpec.array((1,), np.int8)
    for mode, expected in (("absolute", [0, 255, 255]), ("signed", [0, 255, -255])):
        got = run_split(FrameDifference(mode=mode), [rows], np.arange(3), spec, size=2)["frames"].data
        assert got.ravel().tolist() == expected


def test_signed_differences_of_64_bit_integers_are_refused():
    with pytest.raises(PipelineError, match="signed differences of int64 fit no integer") as caught:
        FrameDifference(mode="signed").configure((FrameSpec.array((1,), np.int64),))
    assert "mode=absolute" in caught.value.hint


def test_an_unknown_mode_is_refused():
    with pytest.raises(PipelineError, match="mode is a choice: expected one of absolute, signed, got 'squared'"):
        FrameDifference(mode="squared").configure((SPECS[0],))
