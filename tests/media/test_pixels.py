"""Views on decoder planes, and the nearest format where there is none."""

import av
import numpy as np
import pytest
from av.video.format import names as format_names

from hyperframes.errors import FrameError
from hyperframes.frames import PIXEL_FORMATS, Colour, FrameSpec
from hyperframes.media.pixels import SWSCALE_FLAGS, Reshaper, Views, blank_frame, chroma_location_of, listed_format

_PACKED_AND_BACK = [
    ("yuyv422", "yuv422p"), ("uyvy422", "yuv422p"), ("nv12", "yuv420p"), ("nv21", "yuv420p"), ("nv16", "yuv422p"),
    ("nv24", "yuv444p"), ("p010le", "yuv420p10le"), ("gray16be", "gray16le"), ("gray10be", "gray10le"),
    ("yuv420p10be", "yuv420p10le"), ("yuv444p16be", "yuv444p16le"), ("rgb48be", "rgb48le"), ("gbrp10be", "gbrp10le"),
    ("bgr0", "rgb24"), ("rgb0", "rgb24"), ("yuv422p12be", "yuv422p12le"),
]  # fmt: skip


def _noise(pixel_format, height, width, seed=0):
    """Return a PyAV frame of noise in a listed format, and its planes."""
    rng = np.random.default_rng(seed)
    layout = PIXEL_FORMATS[pixel_format]
    frame = av.VideoFrame(width, height, pixel_format)
    planes = []
    for plane, (down, across, channels) in zip(frame.planes, layout.planes, strict=True):
        h, w = -(-height // down), -(-width // across) * channels
        values = rng.integers(0, 2 ** min(layout.bits, 16), (h, w)).astype(layout.dtype)
        target = np.frombuffer(plane, layout.dtype).reshape(-1, plane.line_size // layout.dtype.itemsize)
        target[:h, :w] = values
        planes.append(values if channels == 1 else values.reshape(h, -1, channels))
    return frame, planes


@pytest.mark.parametrize("pixel_format", sorted(PIXEL_FORMATS))
def test_views_show_exactly_the_samples_of_every_listed_format_and_odd_size(pixel_format):
    frame, planes = _noise(pixel_format, 35, 53)
    views = Views(pixel_format, 35, 53)(frame)
    assert [view.shape for view in views] == [plane.shape for plane in planes]
    for view, plane in zip(views, planes, strict=True):
        np.testing.assert_array_equal(view, plane)
        assert not view.flags.writeable


def test_views_outlive_the_frame_they_were_taken_from():
    frame, planes = _noise("yuv420p", 16, 16)
    views = Views("yuv420p", 16, 16)(frame)
    del frame
    np.testing.assert_array_equal(views[0], planes[0])


def test_full_range_names_are_the_same_bytes():
    assert listed_format("yuvj420p") == ("yuv420p", True)
    assert listed_format("yuvj444p") == ("yuv444p", True)
    assert listed_format("yuv420p") == ("yuv420p", False)


@pytest.mark.parametrize(("packed", "listed"), _PACKED_AND_BACK)
def test_conversion_to_the_nearest_format_loses_nothing(packed, listed):
    assert listed_format(packed) == (listed, False)
    original, planes = _noise(listed, 32, 48)
    there = Reshaper(packed, 32, 48)(original)
    back = Reshaper(listed, 32, 48)(there)
    assert there.format.name == packed
    for view, plane in zip(Views(listed, 32, 48)(back), planes, strict=True):
        np.testing.assert_array_equal(view, plane)


def test_one_bit_pictures_become_black_and_white():
    assert listed_format("monow")[0] == listed_format("monob")[0] == "gray"
    frame = av.VideoFrame(16, 2, "monob")
    rows = np.frombuffer(frame.planes[0], np.uint8).reshape(2, -1)
    rows[0, :2], rows[1, :2] = (0b10000001, 0xFF), (0, 0b00000001)
    (gray,) = Views("gray", 2, 16)(Reshaper("gray", 2, 16)(frame))
    expected = np.unpackbits(rows[:, :2], axis=1) * 255
    np.testing.assert_array_equal(gray, expected)


def test_packed_pictures_with_a_quarter_of_the_chroma_are_taken_apart():
    assert listed_format("uyyvyy411") == ("yuv411p", False)
    packed = np.random.default_rng(3).integers(0, 256, (4, 16, 6), np.uint8)  # of every 4 pixels: U Y Y V Y Y
    frame = av.VideoFrame(64, 4, "uyyvyy411")
    np.frombuffer(frame.planes[0], np.uint8).reshape(4, -1)[:, :96] = packed.reshape(4, 96)
    y, u, v = Views("yuv411p", 4, 64)(Reshaper("yuv411p", 4, 64)(frame))
    np.testing.assert_array_equal(y, packed[:, :, [1, 2, 4, 5]].reshape(4, 64))
    np.testing.assert_array_equal(u, packed[:, :, 0])
    np.testing.assert_array_equal(v, packed[:, :, 3])


def test_palettes_become_colours_with_alpha():
    assert listed_format("pal8") == ("rgba", False)


def test_every_software_format_of_ffmpeg_has_a_counterpart():
    left = {name for name in format_names if av.VideoFormat(name).components}
    for name in left:
        found, _ = listed_format(name)
        wanted = av.VideoFormat(name, 64, 64)
        assert found in PIXEL_FORMATS
        depth = min(16, max(c.bits for c in wanted.components))
        assert PIXEL_FORMATS[found].bits >= (depth if depth > 8 else 0), name
        if any(c.is_alpha for c in wanted.components):
            assert len(av.VideoFormat(found).components) in {2, 4}, name


def test_surfaces_of_graphics_cards_are_refused_by_name():
    with pytest.raises(FrameError, match="pixel format 'vaapi' has no counterpart among the supported ones") as caught:
        listed_format("vaapi")
    assert "ffmpeg" in caught.value.hint


@pytest.mark.parametrize("fields", ["progressive", "tff", "bff"])
@pytest.mark.parametrize("location", ["unspecified", "left", "topleft", "top", "bottomleft", "bottom"])
def test_the_place_of_chroma_is_found_out_from_what_swscale_does(location, fields):
    for pixel_format, side in (("yuv420p", 32), ("yuv444p10le", 48), ("gbrp", 64)):
        spec = FrameSpec.picture(side, side, pixel_format, chroma_location=location, field_order=fields)
        frame = blank_frame(spec)
        assert frame.interlaced_frame == (fields != "progressive")
        assert chroma_location_of(frame) == location


def test_the_centre_is_what_swscale_assumes_where_nothing_is_said():
    assert (
        chroma_location_of(blank_frame(FrameSpec.picture(8, 8, "yuv420p", chroma_location="center"))) == "unspecified"
    )


def test_looking_for_the_place_of_chroma_leaves_the_frame_as_it_is():
    frame, planes = _noise("yuv420p", 32, 32)
    chroma_location_of(frame)
    for view, plane in zip(Views("yuv420p", 32, 32)(frame), planes, strict=True):
        np.testing.assert_array_equal(view, plane)


def test_colour_that_swscale_does_not_know_has_no_place_of_chroma():
    spec = FrameSpec.picture(8, 8, "yuv444p", colour=Colour("ycgco"), chroma_location="left")
    assert chroma_location_of(blank_frame(spec)) == "unspecified"


def test_the_flags_are_those_that_pyav_uses_by_default():
    frame, _ = _noise("yuv420p10le", 36, 52)
    ours = Views("rgb24", 18, 26)(Reshaper("rgb24", 18, 26)(frame))
    theirs = Views("rgb24", 18, 26)(frame.reformat(width=26, height=18, format="rgb24", threads=1))
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert SWSCALE_FLAGS.name == "BILINEAR"
