"""Windows are counted over the stream; their frames past its end are the boundary's."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import temporal

from hyperframes.frames import FrameSpec
from hyperframes.operators.window_mean import WindowMean
from hyperframes.testing.operators import random_planes, run_split

SPECS = (
    FrameSpec.picture(5, 7, "yuv420p"),
    FrameSpec.array((3,), "f4"),
    FrameSpec.array((), "i4"),
)


@given(
    st.sampled_from(SPECS),
    st.integers(0, 14),
    st.integers(1, 15),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.integers(0, 10_000),
)
def test_every_window_has_its_mean_whatever_the_size(spec, total, size, length, hop, boundary, seed):
    planes = random_planes(spec, total, seed)
    got = run_split(WindowMean(length, hop), planes, np.arange(total), spec, boundary, size=size)["windows"]
    assert len(got) == math.ceil(total / hop)
    np.testing.assert_array_equal(got.pts, np.arange(0, total, hop))
    for plane, out in zip(planes, got.planes, strict=True):
        around = temporal.padded(plane, 0, length, boundary)
        for j in range(len(got)):
            np.testing.assert_array_equal(out[j], temporal.mean(around[j * hop : j * hop + length]))
