"""Decimation counts over the stream, not over hyperframes."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.frames import FrameSpec
from hyperframes.operators.every import Every
from hyperframes.testing.operators import run_split


@given(st.integers(0, 40), st.integers(1, 45), st.integers(1, 9))
def test_output_j_is_frame_j_times_n_whatever_the_size(length, size, n):
    spec = FrameSpec.array((2,), np.int16)
    rows = np.arange(2 * length, dtype=np.int16).reshape(length, 2)
    got = run_split(Every(n=n), [rows], 10 * np.arange(length), spec, size=size)["frames"]
    np.testing.assert_array_equal(got.data, rows[::n])
    np.testing.assert_array_equal(got.pts, 10 * np.arange(length)[::n])


def test_the_nominal_rate_falls():
    spec = FrameSpec.picture(4, 6, "gray", rate=Fraction(25))
    (output,) = Every(n=5).configure((spec,)).outputs
    assert output.spec.rate == 5
    assert output.ratio == Fraction(1, 5)
