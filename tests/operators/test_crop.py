"""Cutting rectangles out of planes."""

import numpy as np
import pytest
from tests.operators.frames import noise, one, results

from hyperframes.errors import PipelineError
from hyperframes.frames import Colour, FrameSpec
from hyperframes.operators.crop import Crop


@pytest.mark.parametrize("dtype", ["uint8", "float64", "int64"])
@pytest.mark.parametrize("shape", [(8, 9), (8, 9, 3)])
def test_a_crop_is_the_slice(dtype, shape):
    image = noise(shape, dtype)
    np.testing.assert_array_equal(one(Crop(3, 1, 4, 5), image), image[1:6, 3:7])
    np.testing.assert_array_equal(one(Crop(x=3), image), image[:, 3:])
    np.testing.assert_array_equal(one(Crop(), image), image)


def test_channels_first_are_cut_behind_them():
    image = noise((3, 8, 9))
    np.testing.assert_array_equal(one(Crop(1, 2, 3, 4), image, layout="NCHW"), image[:, 2:6, 1:4])


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p", "yuv444p", "yuva420p", "yuv420p10le", "yuv410p"])
def test_chroma_is_cut_in_step_with_luma(pixel_format):
    spec = FrameSpec.picture(13, 15, pixel_format)
    planes = [noise(shape, spec.dtype) for shape in spec.shapes]
    got = results("crop:x=4,y=8,width=7,height=5", spec, *(plane[None] for plane in planes))
    assert [out.shape[1:] for out in got] == list(FrameSpec.picture(5, 7, pixel_format).shapes)
    for out, plane, full in zip(got, planes, spec.shapes, strict=True):
        top, left = 8 * full[0] // 12, 4 * full[1] // 14
        np.testing.assert_array_equal(out[0], plane[top : top + out.shape[1], left : left + out.shape[2]])


def test_odd_corners_of_subsampled_pictures_are_refused_with_the_nearest_one():
    with pytest.raises(
        PipelineError,
        match=r"yuv420p keeps colour for 2x2 pixels together: expected x in steps of 2 and y in steps of 2, got \(3, 5\)",
    ) as caught:
        Crop(3, 5).configure((FrameSpec.picture(20, 20, "yuv420p"),))
    assert caught.value.hint == "Use x=2,y=4, or put convert:format=yuv444p before it."


@pytest.mark.parametrize("rectangle", [(9, 0, 0, 0), (0, 8, 0, 0), (2, 0, 8, 0), (0, 0, 0, 9), (0, 5, 2, 4)])
def test_rectangles_outside_are_refused(rectangle):
    with pytest.raises(PipelineError, match="expected x, y, width and height inside 9x8 pixels, got"):
        Crop(*rectangle).configure((FrameSpec.picture(8, 9, "gray"),))


def test_negative_numbers_and_frames_that_are_no_images_are_refused():
    with pytest.raises(PipelineError, match="operator 'crop': expected height of 0 or more pixels, got -1"):
        Crop(height=-1)
    with pytest.raises(PipelineError, match=r"expected frames of shape \(H, W\) or \(H, W, C\), got \(5,\)"):
        Crop().configure((FrameSpec.array((5,), "f4"),))


@pytest.mark.parametrize("colour", [Colour(), Colour("bt709", "tv")])
def test_colour_stays_as_it_is(colour):
    spec = Crop(height=100).configure((FrameSpec.picture(720, 1280, "yuv420p", colour=colour),)).outputs[0].spec
    assert spec.colour == colour
