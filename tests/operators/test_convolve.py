"""Convolutions against sums in exact integers and float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.frames import noise, one, results
from tests.reference import spatial

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.convolve import KERNELS, Convolve


def exact(image, kernel, divisor, offset):
    side = int(len(kernel) ** 0.5)
    sums = spatial.correlated(image, np.array(kernel, np.int64).reshape(side, side))
    info = np.iinfo(image.dtype)
    return np.clip((2 * sums + divisor) // (2 * divisor) + offset, info.min, info.max).astype(image.dtype)


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
@pytest.mark.parametrize("shape", [(9, 12), (1, 1), (2, 5), (6, 5, 3), (5, 4, 6)])
def test_named_kernels_are_exact(name, dtype, shape):
    image = noise(shape, dtype)
    np.testing.assert_array_equal(one(f"convolve:kernel={name}", image), exact(image, *KERNELS[name], 0))


@given(
    st.sampled_from([1, 9, 25, 49]).flatmap(lambda n: st.lists(st.integers(-300, 300), min_size=n, max_size=n)),
    st.sampled_from([1, 2, 3, 7, 100, 1001]),
    st.integers(-200, 200),
    st.sampled_from(["uint8", "uint16", "int16"]),
    st.integers(0, 99),
)
def test_whole_numbers_are_exact(kernel, divisor, offset, dtype, seed):
    image = noise((8, 9), dtype, seed)
    operator = Convolve(tuple(map(float, kernel)), float(divisor), float(offset))
    np.testing.assert_array_equal(one(operator, image), exact(image, kernel, divisor, offset))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float64", 1e-10), ("uint8", 0.5 + 1e-6)])
def test_other_numbers_are_the_weighted_sum(dtype, tolerance):
    kernel = tuple(np.random.default_rng(0).random(25) / 25)
    image = noise((9, 8), dtype)
    expected = spatial.correlated(image, np.array(kernel).reshape(5, 5)) / 1.5 + 3.25
    assert np.abs(one(Convolve(kernel, 1.5, 3.25), image) - expected).max() <= tolerance


def test_every_plane_is_filtered():
    spec = FrameSpec.picture(7, 9, "yuv420p")
    planes = [noise(shape) for shape in spec.shapes]
    for out, plane in zip(results("convolve", spec, *(p[None] for p in planes)), planes, strict=True):
        np.testing.assert_array_equal(out[0], exact(plane, *KERNELS["sharpen"], 0))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"kernel": (1.0, 2.0)}, "expected a kernel of 1, 9, 25 or 49 finite numbers, got 2 numbers"),
        ({"kernel": (1.0,) * 81}, "got 81 numbers"),
        ({"kernel": (float("nan"),)}, "finite numbers"),
        (
            {"kernel": "sharp"},
            "expected kernel to be binomial, box, emboss, laplacian, sharpen or numbers, got 'sharp'",
        ),
        ({"divisor": -1.0}, "expected divisor of 0 or more and a finite offset, got -1.0 and 0.0"),
        ({"offset": float("inf")}, "got 0.0 and inf"),
    ],
)
def test_parameters_are_checked(parameters, sentence):
    with pytest.raises(PipelineError, match=sentence):
        Convolve(**parameters)
