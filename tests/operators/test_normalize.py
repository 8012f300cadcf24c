"""Normalising against float64 arithmetic rounded once."""

import numpy as np
import pytest
from tests.operators.frames import noise, one

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.normalize import Normalize

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def expected(image, scale, mean, std):
    return ((image.astype(np.float64) * scale - np.array(mean)) / np.array(std)).astype(np.float32)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("uint8", 1 / 255), ("uint16", 1 / 65535), ("int16", 1 / 32767), ("float32", 1.0), ("float64", 1.0)],
)
def test_each_channel_is_scaled_shifted_and_divided(dtype, scale):
    image = noise((7, 9, 3), dtype)
    np.testing.assert_array_equal(one(Normalize(MEAN, STD), image), expected(image, scale, MEAN, STD))
    np.testing.assert_array_equal(one(Normalize(MEAN, (2.0,), 3.0), image), expected(image, 3.0, MEAN, 2.0))
    np.testing.assert_array_equal(one(Normalize(), image), expected(image, scale, 0, 1))


def test_channels_first_have_their_numbers_too():
    image = noise((3, 6, 5))
    got = one(Normalize(MEAN, STD), image, layout="NCHW", pixel_format="rgb24")
    np.testing.assert_array_equal(np.moveaxis(got, 0, -1), expected(np.moveaxis(image, 0, -1), 1 / 255, MEAN, STD))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4, 3)])
def test_frames_of_any_shape_are_taken(shape):
    values = noise(shape, "uint16") if shape else np.array(65535, np.uint16)
    np.testing.assert_array_equal(one(Normalize(), values), expected(values, 1 / 65535, 0, 1))
    if shape:
        np.testing.assert_array_equal(one(Normalize(MEAN), values), expected(values, 1 / 65535, MEAN, 1))


def test_the_result_is_an_array_and_no_picture():
    spec = Normalize().configure((FrameSpec.picture(4, 6, "rgb24"),)).outputs[0].spec
    assert (spec.dtype, spec.pixel_format, spec.shapes) == (np.float32, "", ((4, 6, 3),))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"mean": ()}, r"expected finite numbers for mean, got \(\)"),
        ({"mean": (float("nan"),)}, "expected finite numbers for mean"),
        ({"std": (1.0, 0.0)}, r"expected std above 0, got \(1.0, 0.0\)"),
        ({"scale": 0.0}, "expected a finite scale other than 0, got 0.0"),
    ],
)
def test_parameters_are_checked(parameters, sentence):
    with pytest.raises(PipelineError, match=sentence):
        Normalize(**parameters)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (FrameSpec.picture(4, 6, "gray"), "expected 1 or 1 numbers for mean and std"),
        (FrameSpec.array((4, 6, 2), "f4"), "expected 1 or 2 numbers for mean and std, .* got 3 and 3"),
        (FrameSpec.picture(4, 6, "yuv420p"), "takes one array a frame, got 3 planes of yuv420p 6x4"),
        (FrameSpec.array((4,), "c8"), "takes real numbers, got complex64"),
    ],
)
def test_what_does_not_fit_is_refused(spec, sentence):
    with pytest.raises(PipelineError, match=sentence):
        Normalize(MEAN, STD).configure((spec,))
