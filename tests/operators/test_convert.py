"""Pixel formats, dtypes and layouts against their definitions, and against FFmpeg's swscale."""

import av
import numpy as np
import pytest
from av.video.reformatter import Interpolation, VideoReformatter
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.frames import noise, one, results
from tests.reference import spatial

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS, Colour, FrameSpec
from hyperframes.operators import Worker, choose_format, create
from hyperframes.operators import colour as colour_module
from hyperframes.operators.convert import Convert
from hyperframes.packing import Halo, view

NEAR = 0.5 + 0.02  # rounded to the nearest, give or take what coefficients of 14 bits miss


def planes_of(spec, seed=0):
    """Return noise over the whole range of each format's depth."""
    top = 2 ** min(16, PIXEL_FORMATS[spec.pixel_format].bits)
    random = np.random.default_rng(seed)
    if spec.dtype.kind == "f":
        return [random.random(shape).astype(spec.dtype) for shape in spec.shapes]
    return [random.integers(0, top, shape).astype(spec.dtype) for shape in spec.shapes]


def converted(target, spec, planes):
    return [plane[0] for plane in results(f"convert:format={target}", spec, *(plane[None] for plane in planes))]


def spec_after(text, spec):
    return create(text).configure((spec,)).outputs[0].spec


def yuv_reference(spec, planes, matrix, out_bits):
    """Return float64 RGB of planes, chroma interpolated."""
    layout = PIXEL_FORMATS[spec.pixel_format]
    down, across, _ = layout.planes[1]
    u, v = (spatial.upsampled(plane, spec.height, spec.width, down, across) for plane in planes[1:3])
    full = spec.colour.range == "pc"
    return spatial.yuv_to_rgb(planes[0].astype(float), u, v, matrix, layout.bits, full, out_bits)


# Between YUV and RGB ------------------------------------------------------------------------------------------------

YUV = ["yuv420p", "yuv422p", "yuv444p", "yuv411p", "yuv410p", "yuv440p", "yuva420p", "yuv420p10le", "yuv444p16le"]
SIZES = [(6, 8), (5, 7), (1, 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pixel_format", YUV)
@pytest.mark.parametrize("colour", [("smpte170m", "tv"), ("bt709", "pc"), ("bt2020nc", "tv")])
def test_rgb_of_yuv_is_the_definition_rounded(pixel_format, size, colour):
    spec = FrameSpec.picture(*size, pixel_format, colour=Colour(*colour))
    planes = planes_of(spec)
    for target, bits in (("rgb24", 8), ("rgb48le", 16)):
        expected = np.clip(yuv_reference(spec, planes, colour[0], bits), 0, 2**bits - 1)
        (got,) = converted(target, spec, planes)
        assert np.abs(got - expected).max() <= NEAR


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pixel_format", YUV)
@pytest.mark.parametrize("source", ["rgb24", "rgb48le"])
def test_yuv_of_rgb_is_the_definition_rounded(source, pixel_format, size):
    spec = FrameSpec.picture(*size, source)
    image, bits = planes_of(spec)[0], PIXEL_FORMATS[source].bits
    got = converted(pixel_format, spec, [image])
    layout = PIXEL_FORMATS[pixel_format]
    y, u, v = spatial.rgb_to_yuv(image.astype(float), "smpte170m", bits, layout.bits, False)
    down, across, _ = layout.planes[1]
    expected = [y, spatial.downsampled(u, down, across), spatial.downsampled(v, down, across)]
    for plane, wanted in zip(got, expected, strict=False):
        assert np.abs(plane - np.clip(wanted, 0, 2**layout.bits - 1)).max() <= NEAR


@pytest.mark.parametrize(("source", "target"), [("yuv420p", "yuv444p"), ("yuv444p", "yuv420p"), ("yuv410p", "yuv422p")])
@pytest.mark.parametrize("size", SIZES)
def test_chroma_changes_its_resolution_and_luma_stays(source, target, size):
    spec = FrameSpec.picture(*size, source)
    planes, old, new = planes_of(spec), PIXEL_FORMATS[source].planes[1], PIXEL_FORMATS[target].planes[1]
    got = converted(target, spec, planes)
    np.testing.assert_array_equal(got[0], planes[0])
    for plane, out in zip(planes[1:], got[1:], strict=True):
        if new[0] <= old[0] and new[1] <= old[1]:
            height, width = -(-size[0] // new[0]), -(-size[1] // new[1])
            expected = spatial.upsampled(plane, height, width, old[0] // new[0], old[1] // new[1])
        else:
            expected = spatial.downsampled(plane, new[0] // old[0], new[1] // old[1])
        assert np.abs(out - expected).max() <= 0.5


@pytest.mark.parametrize(("source", "target"), [("yuv422p", "yuv440p"), ("yuv440p", "yuv411p")])
def test_chroma_that_grows_one_way_and_shrinks_the_other_goes_through_the_finest(source, target):
    spec = FrameSpec.picture(7, 9, source)
    planes = planes_of(spec)
    finest = converted("yuv444p", spec, planes)
    expected = converted(target, FrameSpec.picture(7, 9, "yuv444p"), finest)
    for got, wanted in zip(converted(target, spec, planes), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("span", ["tv", "pc"])
@pytest.mark.parametrize("bits", [9, 10, 12, 14, 16])
def test_depth_changes_round_half_up(span, bits):
    spec = FrameSpec.picture(16, 16, f"yuv444p{bits}le", colour=Colour(range=span))
    planes = planes_of(spec)
    got = converted("yuv444p", spec, planes)
    for plane, out, chroma in zip(planes, got, (False, True, True), strict=True):
        old, new = spatial.levels(bits, span == "pc"), spatial.levels(8, span == "pc")
        zero, scale = (2, 3) if chroma else (0, 1)
        exact = (plane.astype(float) - old[zero]) * new[scale] / old[scale] + new[zero]
        np.testing.assert_array_equal(out, np.clip(np.floor(exact + 0.5), 0, 255))


@pytest.mark.parametrize("pixel_format", ["rgb24", "yuv444p", "yuv444p10le", "gray"])
def test_grey_levels_come_back_from_every_format(pixel_format):
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    there = converted(pixel_format, FrameSpec.picture(16, 16, "gray"), [ramp])
    (back,) = converted("gray", FrameSpec.picture(16, 16, pixel_format), there)
    tolerance = 1 if pixel_format == "yuv444p" else 0  # 219 steps cannot hold 255
    assert np.abs(back.astype(int) - ramp).max() <= tolerance


def test_a_deep_round_trip_through_rgb_gives_the_same_yuv():
    ramp = np.stack(np.meshgrid(np.arange(40, 220, 20), np.arange(80, 180, 20)), axis=-1).astype(np.uint8)
    spec = FrameSpec.picture(5, 9, "yuv444p")
    planes = [np.full((5, 9), 128, np.uint8), ramp[..., 1].copy(), (ramp[..., 0] // 4 + 100).astype(np.uint8)]
    rgb = converted("rgb48le", spec, planes)
    for out, plane in zip(converted("yuv444p", FrameSpec.picture(5, 9, "rgb48le"), rgb), planes, strict=True):
        np.testing.assert_array_equal(out, plane)


@pytest.mark.parametrize(("height", "space"), [(48, 5), (720, 1)])
@pytest.mark.parametrize("span", [1, 2])
def test_swscale_gives_nearly_the_same_rgb(height, space, span):
    """FFmpeg 8 with accurate rounding; its chroma interpolation differs a little, so the picture is smooth."""
    width = 64
    grid = np.add.outer(np.arange(height) * (120 / height), np.arange(width) * (90 / width))
    y = (grid + 20).astype(np.uint8)
    u, v = (grid[::2, ::2] / 2 + 90).astype(np.uint8), (170 - grid[::2, ::2] / 2).astype(np.uint8)
    frame = av.VideoFrame(width, height, "yuv420p")
    for plane, values in zip(frame.planes, (y, u, v), strict=True):
        rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
        rows[:, : plane.width] = values
    flags = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.BITEXACT
    theirs = VideoReformatter().reformat(
        frame,
        format="rgb24",
        src_colorspace=space,
        dst_colorspace=space,
        src_color_range=span,
        dst_color_range=2,
        interpolation=flags,
        threads=1,
    )
    colour = Colour(range="pc" if span == 2 else "tv")
    (ours,) = converted("rgb24", FrameSpec.picture(height, width, "yuv420p", colour=colour), [y, u, v])
    apart = np.abs(ours.astype(int) - theirs.to_ndarray())
    assert apart.max() <= 4
    assert apart.mean() < 0.8


# Grey ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", ["tv", "pc", "unspecified"])
@pytest.mark.parametrize(("source", "bits"), [("yuv420p", 8), ("yuv422p10le", 10), ("yuv444p16le", 16)])
@pytest.mark.parametrize(("target", "out_bits"), [("gray", 8), ("gray16le", 16), ("gray10le", 10)])
def test_grey_of_yuv_is_its_luma_at_full_range(span, source, bits, target, out_bits):
    spec = FrameSpec.picture(16, 32, source, colour=Colour(range=span))
    planes = planes_of(spec)
    black, white, *_ = spatial.levels(bits, span == "pc")
    exact = (planes[0].astype(object) - black) * 2 * (2**out_bits - 1)
    expected = np.clip((exact + white) // (2 * white), 0, 2**out_bits - 1).astype(int)
    np.testing.assert_array_equal(converted(target, spec, planes)[0], expected)


@pytest.mark.parametrize(("height", "matrix"), [(8, "smpte170m"), (720, "bt709")])
def test_grey_of_rgb_is_its_luma(height, matrix):
    image = noise((height, 6, 3))
    kr, kb = spatial.WEIGHTS[matrix]
    (got,) = converted("gray", FrameSpec.picture(height, 6, "rgb24"), [image])
    assert np.abs(got - image @ np.array([kr, 1 - kr - kb, kb])).max() <= NEAR


def test_full_range_luma_is_grey_as_it_is():
    spec = FrameSpec.picture(6, 8, "yuv420p", colour=Colour(range="pc"))
    planes = planes_of(spec)
    np.testing.assert_array_equal(converted("gray", spec, planes)[0], planes[0])


def test_floating_point_grey_runs_from_0_to_1():
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    (floats,) = converted("grayf32le", FrameSpec.picture(16, 16, "gray"), [ramp])
    np.testing.assert_array_equal(floats, (ramp / 255).astype(np.float32))
    spec = FrameSpec.picture(16, 16, "grayf32le")
    np.testing.assert_array_equal(converted("gray", spec, [floats])[0], ramp)
    odd = np.full((16, 16), np.nan, np.float32)
    odd[0, :3] = (-1, 2, np.inf)
    assert converted("gray", spec, [odd])[0][0, :4].tolist() == [0, 255, 255, 0]


def test_samples_beyond_the_depth_saturate():
    spec = FrameSpec.picture(1, 4, "gray10le")
    assert converted("gray", spec, [np.array([[0, 1023, 1024, 65535]], np.uint16)])[0].tolist() == [[0, 255, 255, 255]]


# RGB and alpha ------------------------------------------------------------------------------------------------------

RGB = [name for name, layout in PIXEL_FORMATS.items() if layout.family == "rgb"]


@pytest.mark.parametrize("source", RGB)
def test_every_rgb_format_comes_back_from_the_deepest(source):
    spec = FrameSpec.picture(5, 7, source)
    planes = planes_of(spec)
    deep = converted("rgba64le", spec, planes)
    back = converted(source, FrameSpec.picture(5, 7, "rgba64le"), deep)
    for plane, out in zip(planes, back, strict=True):
        np.testing.assert_array_equal(out, plane)


@pytest.mark.parametrize(
    ("name", "order"),
    [("rgb24", "rgb"), ("bgr24", "bgr"), ("rgba", "rgba"), ("bgra", "bgra"), ("argb", "argb"), ("abgr", "abgr")],
)
def test_channels_stand_where_the_name_says(name, order):
    values = {"r": 10, "g": 20, "b": 30, "a": 40}
    pixel = np.array([[[values[c] for c in order]]], np.uint8)
    expected = [10, 20, 30, 40 if "a" in order else 255]
    spec = FrameSpec.picture(1, 1, name)
    assert converted("rgba", spec, [pixel])[0].tolist() == [[expected]]
    planes = [plane.item() for plane in converted("gbrap", spec, [pixel])]
    assert planes == [20, 30, 10, expected[3]]


def test_alpha_is_kept_where_both_have_it_and_opaque_where_only_the_new_one_does():
    spec = FrameSpec.picture(4, 6, "yuva420p")
    planes = planes_of(spec)
    np.testing.assert_array_equal(converted("rgba", spec, planes)[0][..., 3], planes[3])
    np.testing.assert_array_equal(converted("ya8", spec, planes)[0][..., 1], planes[3])
    np.testing.assert_array_equal(converted("yuva444p", spec, planes)[3], planes[3])
    assert (converted("yuva420p10le", FrameSpec.picture(4, 6, "gray"), [noise((4, 6))])[3] == 1023).all()


@pytest.mark.slow
def test_every_format_converts_to_every_other():
    for source in ("yuv420p", "yuva444p10le", "gbrp10le", "bgra", "gray12le", "grayf32le", "ya8"):
        spec = FrameSpec.picture(3, 5, source)
        for target in ("yuv420p", "yuva422p", "yuv444p12le", "gbrap", "rgb48le", "argb", "gray9le", "grayf32le", "ya8"):
            wanted = FrameSpec.picture(3, 5, target)
            got = converted(target, spec, planes_of(spec))
            assert [(p.shape, p.dtype) for p in got] == [(s, wanted.dtype) for s in wanted.shapes]


# Specs --------------------------------------------------------------------------------------------------------------


def test_the_result_says_how_its_colour_was_read():
    hd, sd = FrameSpec.picture(720, 4, "yuv420p"), FrameSpec.picture(480, 4, "yuv420p")
    assert spec_after("convert:format=rgb24", hd).colour == Colour("bt709", "pc")
    assert spec_after("convert:format=rgb24", sd).colour == Colour("smpte170m", "pc")
    assert spec_after("convert:format=gray", sd).colour == Colour("smpte170m", "pc")
    full = sd.replace(colour=Colour("bt709", "pc", "bt709", "iec61966-2-1"))
    assert spec_after("convert:format=yuv444p", full).colour == full.colour
    assert spec_after("convert:format=yuv420p", spec_after("convert:format=rgb24", hd)).colour == Colour("bt709", "tv")
    assert spec_after("convert:format=yuv420p", sd) is sd


def test_other_fields_of_the_spec_stay():
    spec = FrameSpec.picture(4, 6, "yuv420p", rotation=90, rate=25)
    after = spec_after("convert:format=rgb24", spec)
    assert (after.rotation, after.rate, after.shapes, after.dtype) == (90, 25, ((4, 6, 3),), np.uint8)


@pytest.mark.requirement("A10")
def test_tables_are_made_once_for_each_worker(monkeypatch):
    made = []
    table = colour_module.level_table
    monkeypatch.setattr("hyperframes.operators.convert.level_table", lambda *a: made.append(a) or table(*a))
    spec, operator = FrameSpec.picture(4, 6, "yuv420p"), Convert("gray")
    planes = [np.repeat(plane[None], 6, axis=0) for plane in planes_of(spec)]
    (output,) = operator.configure((spec,)).outputs
    prepared = operator.prepare(Worker())
    from hyperframes.operators import View

    for hyperframe in view(tuple(planes), np.arange(6), spec, 2, Halo()):
        operator.apply((hyperframe,), (View(output, 0, 2, (np.zeros((2, 4, 6), np.uint8),)),), None, prepared)
    assert len(made) == 1


# Dtype and layout ---------------------------------------------------------------------------------------------------


def test_values_keep_their_scale():
    image = noise((4, 6, 3))
    got = one("convert:dtype=float32", image)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, image)
    assert spec_after("convert:dtype=float32", FrameSpec.picture(4, 6, "rgb24")).pixel_format == ""
    assert spec_after("convert:dtype=uint16", FrameSpec.picture(4, 6, "gray")).pixel_format == "gray16le"


def test_floats_round_half_up_and_saturate():
    values = np.array([-1.0, -0.5, 0.49, 0.5, 1.5, 2.5, 254.5, 255.4, 256, 1e30, np.nan, np.inf, -np.inf])
    assert one("convert:dtype=uint8", values).tolist() == [0, 0, 0, 1, 2, 3, 255, 255, 255, 255, 0, 255, 0]
    assert one("convert:dtype=int64", np.array([9.3e18, -9.3e18]))[1] == np.iinfo(np.int64).min
    assert one("convert:dtype=float16", np.array([1e6])).tolist() == [np.inf]


@given(
    st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]),
    st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]),
)
def test_integers_saturate(source, target):
    values = noise((50,), source)
    info = np.iinfo(target)
    expected = [min(max(int(v), info.min), info.max) for v in values]
    assert one(f"convert:dtype={target}", values).tolist() == expected


def test_layouts_go_there_and_back():
    image = noise((4, 6, 3))
    turned = one("convert:layout=NCHW", image)
    np.testing.assert_array_equal(turned, np.moveaxis(image, -1, 0))
    spec = spec_after("convert:layout=NCHW", FrameSpec.picture(4, 6, "rgb24"))
    assert (spec.shapes, spec.layout, spec.height, spec.width) == (((3, 4, 6),), "NCHW", 4, 6)
    np.testing.assert_array_equal(results("convert:layout=NHWC", spec, turned[None])[0][0], image)
    gray = spec_after("convert:layout=NCHW", FrameSpec.picture(4, 6, "gray"))
    assert (gray.shapes, gray.layout) == (((4, 6),), "NCHW")


def test_format_dtype_and_layout_may_change_together():
    spec = FrameSpec.picture(5, 7, "yuv420p")
    planes = planes_of(spec)
    (got,) = results("convert:format=rgb24,dtype=float32,layout=NCHW", spec, *(plane[None] for plane in planes))
    np.testing.assert_array_equal(got[0], np.moveaxis(converted("rgb24", spec, planes)[0], -1, 0))
    turned = spec_after("convert:format=rgb24,layout=NCHW", spec)
    (gray,) = results("convert:format=gray", turned, got.astype(np.uint8))
    np.testing.assert_array_equal(gray[0], one("convert:format=gray", np.moveaxis(got[0], 0, -1).astype(np.uint8)))
    assert spec_after("convert:format=bgr24", turned).layout == "NCHW"


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"format": "rgb25"}, "operator 'convert': expected format to be a pixel format, got 'rgb25'"),
        ({"dtype": "float33"}, "operator 'convert': expected dtype of integers, floats or bool, got 'float33'"),
        ({"dtype": "complex64"}, "got 'complex64'"),
        ({"layout": "CHW"}, "operator 'convert': expected layout NHWC or NCHW, got 'CHW'"),
    ],
)
def test_parameters_are_checked(parameters, sentence):
    with pytest.raises(PipelineError, match=sentence):
        Convert(**parameters)


def test_a_misspelt_format_has_a_near_one():
    with pytest.raises(PipelineError) as caught:
        Convert("yuv420")
    assert caught.value.hint == "Did you mean 'yuv420p'?"


def test_arrays_have_no_pixel_format_to_convert():
    with pytest.raises(PipelineError, match=r"only pictures have pixel formats: expected pictures, got array \(3,\)"):
        Convert("rgb24").configure((FrameSpec.array((3,), "f4"),))


def test_a_matrix_that_is_not_linear_is_refused():
    spec = FrameSpec.picture(4, 6, "yuv444p", colour=Colour("ycgco"))
    with pytest.raises(
        PipelineError, match="colour matrix 'ycgco' cannot be converted: expected one of bt709"
    ) as caught:
        Convert("rgb24").configure((spec,))
    assert caught.value.hint.startswith("Keep the native planes (--pixel-format native)")


# Choosing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "formats", "chosen"),
    [
        ("yuv420p", ("gray", "rgb24"), "rgb24"),
        ("yuv420p", ("rgb24", "yuv420p"), "yuv420p"),
        ("yuv420p", ("rgb24", "yuv444p", "yuv422p"), "yuv422p"),
        ("yuv420p10le", ("rgb24", "rgb48le"), "rgb48le"),
        ("yuv420p10le", ("yuv420p", "rgb24"), "yuv420p"),
        ("yuv444p", ("yuv420p", "rgb24"), "rgb24"),
        ("gray", ("rgb24", "gray"), "gray"),
        ("gray", ("rgb24", "yuv420p"), "rgb24"),
        ("gray16le", ("gray", "rgb24"), "gray"),
        ("gray16le", ("gray", "rgb48le"), "rgb48le"),
        ("gray16le", ("gray", "rgb24", "=gray16le"), "gray16le"),
        ("yuv420p10le", ("gray", "rgb24", "=rgb48le"), "rgb24"),
        ("rgba", ("rgb24", "bgra"), "bgra"),
        ("bgr24", ("rgba", "rgb24"), "rgb24"),
        ("yuva420p", ("yuv420p", "rgba"), "yuv420p"),
        ("rgb24", ("gray",), "gray"),
        ("rgb24", None, None),
    ],
)
def test_the_nearest_format_is_chosen(source, formats, chosen):
    assert choose_format(FrameSpec.picture(4, 6, source), formats) == chosen


def test_arrays_need_no_format_and_nothing_is_forced_into_one_that_is_only_taken():
    assert choose_format(FrameSpec.array((3,), "f4"), ("rgb24",)) is None
    with pytest.raises(PipelineError, match="frames in gray are not taken: expected rgb24"):
        choose_format(FrameSpec.picture(4, 6, "gray"), ("=rgb24",))
