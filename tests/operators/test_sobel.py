"""The gradient magnitude against its definition."""

import numpy as np
import pytest
from tests.operators.frames import noise, one
from tests.reference import spatial

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.sobel import Sobel


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("shape", [(9, 12), (1, 1), (2, 3), (40, 31)])
def test_integers_are_exact_and_saturate(dtype, shape):
    image = noise(shape, dtype)
    magnitude = spatial.sobel(image)
    expected = np.minimum(np.floor(magnitude + 0.5), np.iinfo(dtype).max).astype(dtype)
    np.testing.assert_array_equal(one("sobel", image), expected)
    np.testing.assert_array_equal(one("sobel:depth=float32", image), magnitude.astype(np.float32))


@pytest.mark.parametrize(("dtype", "relative"), [("float32", 1e-5), ("float64", 1e-12)])
def test_floats_are_the_magnitude(dtype, relative):
    image = noise((9, 8), dtype)
    np.testing.assert_allclose(one("sobel", image), spatial.sobel(image), rtol=relative, atol=relative * 100)


def test_a_slope_of_one_gives_eight():
    slope = np.tile(np.arange(20, dtype=np.uint8), (10, 1))
    assert (one("sobel", slope)[:, 1:-1] == 8).all()


def test_colour_and_unknown_depths_are_refused():
    with pytest.raises(PipelineError, match=r"operator 'sobel' works on grey frames of shape \(H, W\), got rgb24 6x4"):
        Sobel().configure((FrameSpec.picture(4, 6, "rgb24"),))
    with pytest.raises(PipelineError, match="operator 'sobel': expected depth to be one of input, float32, got 'int8'"):
        Sobel("int8")
