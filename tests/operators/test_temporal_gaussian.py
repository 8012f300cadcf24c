"""The Gaussian over time against plain NumPy in exact integers and in fixed order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import temporal

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.temporal_gaussian import TemporalGaussian, gaussian_weights, integer_weights
from hyperframes.testing.operators import random_planes, run_split

SPECS = (
    FrameSpec.picture(5, 7, "yuv420p"),
    FrameSpec.picture(4, 6, "gray16le"),
    *(FrameSpec.array((3,), d) for d in ("i1", "i2", "i4", "f2", "f4", "f8", "c8")),
    FrameSpec.array((), np.float32),
)


@given(
    st.sampled_from(SPECS),
    st.integers(0, 10),
    st.integers(1, 11),
    st.sampled_from([0.3, 0.5, 1.0, 2.7]),
    st.sampled_from([None, 0, 1, 4]),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.integers(0, 10_000),
)
def test_split_means_equal_those_of_the_whole_padded_sequence(spec, length, size, sigma, radius, boundary, seed):
    planes = random_planes(spec, length, seed, nans=True)
    operator = TemporalGaussian(sigma, radius)
    got = run_split(operator, planes, np.arange(length), spec, boundary, size=size)["frames"]
    reach = int(np.ceil(3 * sigma)) if radius is None else radius
    for plane, out in zip(planes, got.planes, strict=True):
        expected = temporal.per_frame(lambda w: temporal.gaussian(w, sigma), plane, reach, reach, boundary)
        if plane.dtype.kind in "iu":
            np.testing.assert_array_equal(out, expected)
        else:  # the weights themselves may differ in their last bit
            np.testing.assert_allclose(out, expected, rtol=1e-6 if plane.dtype != np.float16 else 2e-3, atol=1e-6)


@pytest.mark.parametrize("sigma", [0.2, 1.0, 3.3, 40.0])
def test_integer_weights_sum_to_65536_and_are_symmetric(sigma):
    weights = integer_weights(gaussian_weights(sigma, int(np.ceil(3 * sigma))))
    assert weights.sum() == 65536
    assert (weights >= 0).all()
    np.testing.assert_array_equal(weights, weights[::-1])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int32])
def test_still_frames_stay_what_they_are(dtype):
    info = np.iinfo(dtype)
    rows = np.tile(np.array([info.min, -1 if info.min else 1, info.max], dtype), (9, 1))
    got = run_split(TemporalGaussian(1.3), [rows], np.arange(9), FrameSpec.array((3,), dtype), size=4)["frames"].data
    np.testing.assert_array_equal(got, rows)


def test_64_bit_integers_and_a_sigma_of_zero_are_refused():
    with pytest.raises(PipelineError, match="'temporal_gaussian' cannot weight int64 samples exactly"):
        TemporalGaussian().configure((FrameSpec.array((2,), np.int64),))
    with pytest.raises(PipelineError, match="sigma is a number: expected above 0 to 300, got 0"):
        TemporalGaussian(sigma=0).configure((SPECS[0],))
