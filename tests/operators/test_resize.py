"""Scaling against interpolation by its definition, plane by plane."""

from fractions import Fraction

import numpy as np
import pytest
from tests.operators.frames import noise, one, results
from tests.reference import spatial

from hyperframes.errors import PipelineError
from hyperframes.frames import Colour, FrameSpec
from hyperframes.operators import create
from hyperframes.operators.resize import Resize

SIZES = [(5, 4), (9, 17), (20, 7), (12, 10), (1, 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_nearest_takes_the_nearest_centre(size, dtype):
    image = noise((12, 10, 3), dtype)
    got = one(Resize(size[1], size[0], "nearest"), image)
    np.testing.assert_array_equal(got, spatial.resized_nearest(image, *size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("uint8", 1), ("uint16", 16), ("float32", 1e-2)])
def test_linear_interpolates_between_centres(size, dtype, tolerance):
    image = noise((12, 10), dtype)
    got = one(Resize(size[1], size[0], "linear"), image)
    assert np.abs(got - spatial.resized_linear(image, *size)).max() <= tolerance


@pytest.mark.parametrize("size", [(6, 5), (5, 4), (12, 3), (1, 1), (12, 10)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("uint8", 1), ("float32", 1e-2)])
def test_area_is_the_mean_of_what_a_sample_covers(size, dtype, tolerance):
    image = noise((12, 10), dtype)
    for name in ("area", "auto"):
        got = one(Resize(size[1], size[0], name), image)
        assert np.abs(got - spatial.resized_area(image, *size)).max() <= tolerance


@pytest.mark.parametrize("name", ["cubic", "lanczos"])
def test_smooth_interpolations_keep_what_is_flat_and_rise_where_it_rises(name):
    assert (one(Resize(25, 30, name), np.full((9, 8), 90, np.uint8)) == 90).all()
    slope = np.tile(np.arange(0, 200, 10, dtype=np.float32), (6, 1))
    wide = one(Resize(40, 6, name), slope)[:, 12:-12]
    np.testing.assert_allclose(wide[:, 2:] - wide[:, :-2], 10, atol=0.01)


@pytest.mark.parametrize("shape", [(8, 9, 1), (8, 9, 5), (8, 9, 2)])
def test_any_number_of_channels_is_scaled(shape):
    image = noise(shape)
    alone = [one("resize:width=5", np.ascontiguousarray(image[..., c])) for c in range(shape[2])]
    np.testing.assert_array_equal(one("resize:width=5", image), np.stack(alone, axis=-1))


def test_chroma_gets_its_share_rounded_up():
    spec = FrameSpec.picture(9, 12, "yuv420p")
    planes = [noise(shape) for shape in spec.shapes]
    got = results("resize:width=7,height=5,interpolation=nearest", spec, *(plane[None] for plane in planes))
    assert [plane.shape[1:] for plane in got] == [(5, 7), (3, 4), (3, 4)]
    for out, plane in zip(got, planes, strict=True):
        np.testing.assert_array_equal(out[0], spatial.resized_nearest(plane, *out[0].shape))


def test_channels_first_stay_first():
    image = noise((3, 8, 9))
    got = one("resize:width=4", image, layout="NCHW", pixel_format="rgb24")
    assert got.shape == (3, 4, 4)
    np.testing.assert_array_equal(got, np.moveaxis(one("resize:width=4", np.moveaxis(image, 0, -1).copy()), -1, 0))


def _spec(text, spec):
    return create(text).configure((spec,)).outputs[0].spec


def test_one_side_keeps_the_proportions():
    spec = FrameSpec.picture(480, 640, "rgb24")
    assert _spec("resize:width=100", spec).shapes == ((75, 100, 3),)
    assert _spec("resize:height=1", spec).shapes == ((1, 1, 3),)
    assert _spec("resize:width=100", spec).sample_aspect_ratio == 1


def test_the_picture_keeps_its_proportions_on_screen():
    spec = FrameSpec.picture(576, 720, "yuv420p", sample_aspect_ratio=Fraction(16, 15))
    assert _spec("resize:width=768,height=576", spec).sample_aspect_ratio == 1


def test_colour_stays_as_it_is():
    spec = FrameSpec.picture(1080, 1920, "yuv420p", colour=Colour("bt709", "tv"))
    assert _spec("resize:height=360", spec).colour == spec.colour
    assert _spec("resize:height=360", spec.replace(colour=Colour())).colour == Colour()


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "operator 'resize': expected width, height or both, got neither"),
        ({"width": -3}, "expected width from 1 to 32767 pixels, got -3"),
        ({"height": 40_000}, "expected height from 1 to 32767 pixels, got 40000"),
        ({"width": 3, "interpolation": "best"}, "expected interpolation to be one of auto, area, .* got 'best'"),
    ],
)
def test_parameters_are_checked(parameters, sentence):
    with pytest.raises(PipelineError, match=sentence):
        Resize(**parameters)


def test_planes_that_are_no_picture_are_refused():
    spec = FrameSpec(((4, 6), (2, 3)), np.uint8)
    with pytest.raises(PipelineError, match=r"cannot tell how the 2 planes of array .* belong together"):
        Resize(3).configure((spec,))
