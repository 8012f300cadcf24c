"""The Gaussian blur against float64 sums, sample by sample."""

import numpy as np
import pytest
from tests.operators.frames import noise, one, results
from tests.reference import spatial

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.gaussian import Gaussian

TOLERANCE = {"uint8": 0.501, "uint16": 0.51, "int16": 0.51, "float32": 1e-3, "float64": 1e-9}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sigma", [0.5, 1.7])
@pytest.mark.parametrize("shape", [(9, 12), (2, 3), (1, 8), (7, 5, 3)])
def test_a_blur_is_the_weighted_sum_of_its_neighbourhood(dtype, sigma, shape):
    image = noise(shape, dtype)
    got, expected = one(Gaussian(sigma), image), spatial.gaussian(image, sigma, sigma)
    assert got.dtype == image.dtype
    assert np.abs(got - expected).max() <= TOLERANCE[dtype]


def test_chroma_is_blurred_like_luma_whatever_its_resolution():
    spec = FrameSpec.picture(12, 16, "yuv422p")
    planes = [noise(shape) for shape in spec.shapes]
    got = results("gaussian:sigma=2", spec, *(plane[None] for plane in planes))
    for out, plane, sigma in zip(got, planes, (2.0, 1.0, 1.0), strict=True):
        assert np.abs(out[0] - spatial.gaussian(plane, 2.0, sigma)).max() <= 0.501


def test_channels_first_and_many_channels_are_blurred_one_by_one():
    image = noise((6, 7, 5))
    alone = np.stack([one(Gaussian(1.2), np.ascontiguousarray(image[..., c])) for c in range(5)])
    np.testing.assert_array_equal(one(Gaussian(1.2), image), np.moveaxis(alone, 0, -1))
    turned = np.ascontiguousarray(np.moveaxis(image, -1, 0))
    np.testing.assert_array_equal(one(Gaussian(1.2), turned, layout="NCHW"), alone)


def test_a_flat_picture_stays_flat():
    assert (one(Gaussian(3.0), np.full((20, 30), 77, np.uint8)) == 77).all()


@pytest.mark.parametrize("sigma", [0, -1.0, float("nan"), float("inf"), 201])
def test_sigma_is_checked(sigma):
    with pytest.raises(PipelineError, match="operator 'gaussian': expected sigma above 0 and at most 200 pixels, got"):
        Gaussian(sigma)


def test_frames_that_are_no_images_and_other_dtypes_are_refused():
    with pytest.raises(PipelineError, match=r"expected frames of shape \(H, W\) or \(H, W, C\), got \(3,\)"):
        Gaussian().configure((FrameSpec.array((3,), "f4"),))
    with pytest.raises(PipelineError, match="takes uint8, int16, uint16, float32, float64: got frames of int64") as e:
        Gaussian().configure((FrameSpec.array((3, 3), "i8"),))
    assert e.value.hint == "Convert before it: --operator convert:dtype=float32"
