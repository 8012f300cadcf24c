"""Pixel formats bit for bit as PyAV converts them, dtypes and layouts by their definitions."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import av
import numpy as np
import pytest
from av.filter import Graph
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.frames import noise, one, results
from tests.reference import spatial

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS, Colour, FrameSpec
from hyperframes.media.colour import MATRICES, RANGES
from hyperframes.operators import View, Worker, choose_format, create
from hyperframes.operators import convert as convert_module
from hyperframes.operators.convert import Convert
from hyperframes.packing import Halo, view
from hyperframes.sources.video import open_video
from hyperframes.testing.operators import OperatorSuite


def planes_of(spec, seed=0):
    """Return noise over the whole range of each format's depth."""
    top = 2 ** min(16, PIXEL_FORMATS[spec.pixel_format].bits)
    random = np.random.default_rng(seed)
    if spec.dtype.kind == "f":
        return [random.random(shape).astype(spec.dtype) for shape in spec.shapes]
    return [random.integers(0, top, shape).astype(spec.dtype) for shape in spec.shapes]


def converted(target, spec, planes):
    return [plane[0] for plane in results(Convert(target), spec, *(plane[None] for plane in planes))]


def spec_after(text, spec):
    return create(text).configure((spec,)).outputs[0].spec


def pyav_frame(spec, planes):
    """Return a PyAV frame with the samples, matrix, range, chroma location and fields of `spec`."""
    frame = av.VideoFrame(spec.width, spec.height, spec.pixel_format)
    for plane, values in zip(frame.planes, planes, strict=True):
        rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: len(rows), : rows.shape[1]] = rows
    if (spec.chroma_location, spec.field_order) != ("unspecified", "progressive"):
        graph = Graph()
        source = graph.add_buffer(width=spec.width, height=spec.height, format=frame.format, time_base=Fraction(1))
        fields = "prog" if spec.field_order == "progressive" else spec.field_order
        mark = graph.add("setparams", f"chroma_location={spec.chroma_location}:field_mode={fields}")
        sink = graph.add("buffersink")
        source.link_to(mark)
        mark.link_to(sink)
        graph.configure()
        graph.push(frame)
        frame = graph.pull()
    frame.colorspace, frame.color_range = MATRICES[spec.colour.matrix], RANGES[spec.colour.range]
    return frame


def planes_in(frame):
    """Return the samples of a PyAV frame."""
    layout = PIXEL_FORMATS[frame.format.name]
    planes = []
    for plane, (down, across, channels) in zip(frame.planes, layout.planes, strict=True):
        rows = np.frombuffer(plane, layout.dtype).reshape(-1, plane.line_size // layout.dtype.itemsize)
        height, width = -(-frame.height // down), -(-frame.width // across)
        rows = rows[:height, : width * channels]
        planes.append(rows if channels == 1 else rows.reshape(height, width, channels))
    return planes


def by_pyav(frame, target):
    """Return what PyAV makes of `frame`; where its `gbrp` has chance values in it, its `rgb24` taken apart."""
    chance = frame.height % 2 == 0 and 1 <= frame.width % 16 <= 8 < frame.width
    if target == "gbrp" and frame.format.name == "yuv420p" and chance:
        (rgb,) = planes_in(frame.reformat(format="rgb24", threads=1))
        return [rgb[..., channel] for channel in (1, 2, 0)]
    return planes_in(frame.reformat(format=target, threads=1))


def assert_same(got, expected, *about):
    for plane, wanted in zip(got, expected, strict=True):
        np.testing.assert_array_equal(plane, wanted, err_msg=str(about))


# As PyAV ------------------------------------------------------------------------------------------------------------

FILES = [
    "video/bikes.mp4",  # no matrix, chroma on the left
    "video/h264_10bits.mp4",
    "video/chaplin.mp4",  # grey
    "video/cockatoo.mp4",  # 4:4:4
    "video/mse.mp4",  # BT.709
    "video/newtonscradle.gif",  # bgra
    "odd/bt601.mov",
    "odd/hdr10-av1.mp4",  # BT.2020
    "odd/sample_gamma2.2.mp4",  # yuvj420p
    "odd/bear-vp9-odd-dimensions.webm",
    "odd/video_colr_nclx_rgb.mp4",  # gbrp
    "odd/derived_bikes_mjpeg.avi",  # chroma in the centre
    "odd/derived_bikes_prores_proxy.mov",  # 4:2:2 of 10 bits
    "odd/derived_bikes_interlaced_tff.mpg",
    "odd/derived_thermal_gray16.mkv",
    "odd/DV.dv",  # bottom field first, chroma at the top left
    "odd/transparent.webm",  # a width that swscale's vectors do not divide
]
TARGETS = [
    "rgb24", "bgr24", "rgba", "gbrp", "rgb48le", "gbrp10le", "gray", "gray10le", "gray16le", "grayf32le", "ya8",
    "yuv420p", "yuv422p", "yuv444p", "yuv411p", "yuv420p10le", "yuv444p16le", "yuva420p",
]  # fmt: skip


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_format_of_a_decoded_frame_is_what_pyav_makes_of_it(media, name):
    with open_video(media / name) as video, av.open(str(media / name)) as container:
        for frame, theirs in zip(video.read(0, 2), container.decode(video=0), strict=False):
            for target in TARGETS:
                if target != video.spec.pixel_format:
                    assert_same(converted(target, video.spec, frame.planes), by_pyav(theirs, target), name, target)


@pytest.mark.media
def test_arrays_are_those_of_to_ndarray(media):
    path = media / "video" / "h264_10bits.mp4"
    with open_video(path) as video, av.open(str(path)) as container:
        frame, theirs = next(iter(video.read())), next(container.decode(video=0))
        for target in ("rgb24", "gray", "rgb48le"):
            (got,) = converted(target, video.spec, frame.planes)
            np.testing.assert_array_equal(got, theirs.to_ndarray(format=target))


@pytest.mark.parametrize("size", [(6, 8), (5, 7), (1, 1), (18, 48)])
@pytest.mark.parametrize("colour", [Colour(), Colour("smpte170m", "tv"), Colour("bt709", "pc"), Colour("bt2020nc")])
@pytest.mark.parametrize("source", ["yuv420p", "yuv444p", "yuva420p", "yuv422p10le", "yuv420p12le"])
def test_yuv_converts_as_pyav_does_in_every_matrix_and_range(source, colour, size):
    spec = FrameSpec.picture(*size, source, colour=colour)
    planes = planes_of(spec)
    frame = pyav_frame(spec, planes)
    for target in ("rgb24", "gbrp", "rgb48le", "gray", "gray16le", "yuv422p", "yuv444p10le"):
        assert_same(converted(target, spec, planes), by_pyav(frame, target), target)


@pytest.mark.slow
@pytest.mark.parametrize("source", sorted(PIXEL_FORMATS))
def test_every_format_converts_to_every_other_as_pyav_does(source):
    spec = FrameSpec.picture(10, 32, source)
    planes = planes_of(spec)
    frame = pyav_frame(spec, planes)
    for target in PIXEL_FORMATS:
        if target != source:
            assert_same(converted(target, spec, planes), by_pyav(frame, target), target)


@pytest.mark.parametrize("location", ["unspecified", "left", "center", "topleft", "top", "bottomleft", "bottom"])
@pytest.mark.parametrize("fields", ["progressive", "tff", "bff"])
def test_chroma_location_and_fields_count(location, fields):
    spec = FrameSpec.picture(16, 24, "yuv420p", chroma_location=location, field_order=fields)
    planes = planes_of(spec)
    frame = pyav_frame(spec, planes)
    for target in ("yuv444p", "rgb24", "gray"):
        assert_same(converted(target, spec, planes), by_pyav(frame, target), target)
    elsewhere = "left" if location != "left" else "top"
    moved = converted("yuv444p", spec.replace(chroma_location=elsewhere), planes)
    assert not np.array_equal(moved[1], converted("yuv444p", spec, planes)[1])


@pytest.mark.parametrize("height", [48, 720, 2160])
def test_unspecified_is_bt601_limited_at_every_size(height):
    spec = FrameSpec.picture(height, 16, "yuv444p")
    planes = planes_of(spec)
    said = spec.replace(colour=Colour("smpte170m", "tv"))
    assert_same(converted("rgb24", spec, planes), converted("rgb24", said, planes))
    assert not np.array_equal(
        converted("rgb24", spec, planes)[0],
        converted("rgb24", spec.replace(colour=Colour("bt709", "tv")), planes)[0],
    )


@pytest.mark.parametrize("matrix", sorted(spatial.WEIGHTS))
@pytest.mark.parametrize("span", ["tv", "pc"])
def test_rgb_is_that_of_the_matrix_by_its_definition(matrix, span):
    """Swscale rounds coarsely: give or take two levels."""
    spec = FrameSpec.picture(16, 16, "yuv444p", colour=Colour(matrix, span))
    planes = [plane // 4 + 96 for plane in planes_of(spec)]  # colours that exist
    exact = spatial.yuv_to_rgb(*(plane.astype(float) for plane in planes), matrix, 8, span == "pc", 8)
    (got,) = converted("rgb24", spec, planes)
    assert np.abs(got - exact).max() <= 2


def test_rgb_and_grey_become_limited_yuv_whatever_their_range_says():
    for source in ("rgb24", "gray"):
        spec = FrameSpec.picture(8, 8, source)
        white = [np.full(spec.shapes[0], 255, np.uint8)]
        for span in ("unspecified", "pc", "tv"):
            luma = converted("yuv420p", spec.replace(colour=Colour(range=span)), white)[0]
            assert np.unique(luma).tolist() == [235]


def test_yuv_comes_back_from_rgb_as_it_was():
    spec = FrameSpec.picture(9, 18, "yuv444p", colour=Colour("bt709", "tv"))
    smooth = np.add.outer(np.arange(9), np.arange(18))
    planes = [(smooth * 3 + 60).astype(np.uint8), (smooth + 110).astype(np.uint8), (140 - smooth).astype(np.uint8)]
    deep = converted("rgb48le", spec, planes)
    back = converted("yuv444p", spec_after("convert:format=rgb48le", spec), deep)
    assert max(np.abs(a.astype(int) - b).max() for a, b in zip(back, planes, strict=True)) <= 1


@pytest.mark.parametrize("width", [1, 17, 20, 24, 36, 50])
@pytest.mark.parametrize("source", ["yuv420p", "yuv422p", "yuva420p"])
def test_no_column_of_rgb_is_left_to_what_memory_held(source, width):
    """Swscale does not write the last columns of such widths, so they are those of a wider picture."""
    spec, wide = FrameSpec.picture(10, width, source), FrameSpec.picture(10, 64, source)
    planes = planes_of(spec)
    widened = [np.pad(p, ((0, 0), (0, s[1] - p.shape[1]))) for p, s in zip(planes, wide.shapes, strict=True)]
    whole, sure = width // 16 * 16, pyav_frame(wide, widened)
    for target in ("rgba", "bgra", "argb", "abgr", "gbrp", "rgb48le", "rgb24"):
        got = converted(target, spec, planes)
        assert_same(got, [plane[:, :width] for plane in planes_in(sure.reformat(format=target, threads=1))], target)
        theirs = planes_in(pyav_frame(spec, planes).reformat(format=target, threads=1))
        assert_same([p[:, :whole] for p in got], [p[:, :whole] for p in theirs], target)


def test_several_threads_give_what_one_gives():
    spec = FrameSpec.picture(30, 40, "yuv420p", chroma_location="left")
    planes = [np.stack([planes_of(spec, seed)[k] for seed in range(16)]) for k in range(3)]
    operator = Convert("rgb24")
    (output,) = operator.configure((spec,)).outputs

    def split(total, part):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda t: part(t, t + 1), range(total)))

    got = np.zeros((16, 30, 40, 3), np.uint8)
    (hyperframe,) = view(tuple(planes), np.arange(16), spec, 16, Halo())
    operator.apply((hyperframe,), (View(output, 0, 16, (got,)),), None, operator.prepare(Worker(split=split)))
    np.testing.assert_array_equal(got, results(operator, spec, *planes)[0])


# Grey ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", ["tv", "pc", "unspecified"])
@pytest.mark.parametrize("source", ["yuv420p", "yuv422p", "yuv420p9le", "yuv420p10le", "yuv444p10le", "yuva444p10le"])
@pytest.mark.parametrize("target", ["gray", "gray10le", "gray16le", "grayf32le"])
def test_grey_through_the_table_is_what_swscale_gives_for_every_value_in_every_place(span, source, target):
    bits = PIXEL_FORMATS[source].bits
    spec = FrameSpec.picture(27, 8 * 2**bits // 8 + 13, source, colour=Colour(range=span))
    planes = planes_of(spec)
    rows = np.arange(27)[:, None]
    planes[0][:] = (
        np.arange(spec.width) // 8 + rows * 2**bits // 27 + rows
    ) % 2**bits  # all values, each at all columns
    assert len(np.unique(planes[0])) == 2**bits
    assert_same(converted(target, spec, planes), by_pyav(pyav_frame(spec, planes), target))


def test_the_table_holds_every_place_of_the_pattern_of_dither():
    spec = FrameSpec.picture(8, 8, "yuv420p10le")
    tables = convert_module.luma_tables(spec, FrameSpec.picture(8, 8, "gray"))
    assert tables.shape == (8, 8, 65536)
    for value in (64, 333, 940):
        planes = planes_of(spec)
        planes[0][:] = value
        np.testing.assert_array_equal(tables[..., value], by_pyav(pyav_frame(spec, planes), "gray")[0])
    assert (tables[..., 1024:] == tables[..., 1023:1024]).all()
    assert len(np.unique(tables[..., 333])) == 2


@pytest.mark.parametrize("matrix", ["bt709", "bt2020nc"])
def test_grey_of_other_matrices_goes_by_rgb(matrix):
    spec = FrameSpec.picture(10, 32, "yuv420p", colour=Colour(matrix, "tv"))
    assert convert_module.luma_tables(spec, FrameSpec.picture(10, 32, "gray")) is None
    planes = planes_of(spec)
    assert_same(converted("gray", spec, planes), by_pyav(pyav_frame(spec, planes), "gray"))


@pytest.mark.parametrize("matrix", ["unspecified", "smpte170m", "bt470bg"])
def test_grey_of_bt601_is_looked_up(matrix):
    spec = FrameSpec.picture(10, 32, "yuv420p", colour=Colour(matrix))
    assert convert_module.luma_tables(spec, FrameSpec.picture(10, 32, "gray")) is not None
    assert convert_module.luma_tables(spec, FrameSpec.picture(10, 32, "rgb24")) is None
    assert convert_module.luma_tables(spec.replace(field_order="tff"), FrameSpec.picture(10, 32, "gray")) is None


def test_grey_of_rgb_is_its_luma_by_bt601():
    image = noise((8, 6, 3))
    kr, kb = spatial.WEIGHTS["smpte170m"]
    for colour in (Colour(), Colour("bt709")):
        (got,) = converted("gray", FrameSpec.picture(8, 6, "rgb24", colour=colour), [image])
        assert np.abs(got - image @ np.array([kr, 1 - kr - kb, kb])).max() <= 1.5


def test_full_range_luma_is_grey_as_it_is():
    spec = FrameSpec.picture(6, 8, "yuv420p", colour=Colour(range="pc"))
    planes = planes_of(spec)
    np.testing.assert_array_equal(converted("gray", spec, planes)[0], planes[0])


def test_floating_point_grey_runs_from_0_to_1():
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    (floats,) = converted("grayf32le", FrameSpec.picture(16, 16, "gray"), [ramp])
    np.testing.assert_allclose(floats, ramp / 255, atol=1e-6)


# RGB and alpha ------------------------------------------------------------------------------------------------------

RGB = [name for name, layout in PIXEL_FORMATS.items() if layout.family == "rgb" and layout.bits == 8]


@pytest.mark.parametrize("source", RGB)
def test_every_rgb_format_comes_back_from_the_widest(source):
    spec = FrameSpec.picture(5, 7, source)
    planes = planes_of(spec)
    wide = converted("rgba", spec, planes)
    assert_same(converted(source, FrameSpec.picture(5, 7, "rgba"), wide) if source != "rgba" else wide, planes)


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


# Specs --------------------------------------------------------------------------------------------------------------


def test_the_result_says_what_its_colour_is():
    hd = FrameSpec.picture(720, 4, "yuv420p", colour=Colour("bt709", "tv", "bt709", "iec61966-2-1"))
    assert spec_after("convert:format=rgb24", hd).colour == Colour("bt709", "pc", "bt709", "iec61966-2-1")
    assert spec_after("convert:format=gray", hd).colour == Colour("bt709", "pc", "bt709", "iec61966-2-1")
    assert spec_after("convert:format=yuv444p", hd).colour == hd.colour
    assert spec_after("convert:format=yuv420p", spec_after("convert:format=rgb24", hd)).colour == hd.colour
    assert spec_after("convert:format=yuv420p", hd) is hd
    plain = FrameSpec.picture(480, 4, "yuv420p")
    assert spec_after("convert:format=rgb24", plain).colour == Colour(range="pc")
    assert spec_after("convert:format=yuv444p", plain).colour == Colour()
    coded = FrameSpec.picture(480, 4, "gbrp", colour=Colour("gbr", "pc"))
    assert spec_after("convert:format=yuv444p", coded).colour == Colour("smpte170m", "tv")


def test_other_fields_of_the_spec_stay():
    spec = FrameSpec.picture(4, 6, "yuv420p", rotation=90, rate=25)
    after = spec_after("convert:format=rgb24", spec)
    assert (after.rotation, after.rate, after.shapes, after.dtype) == (90, 25, ((4, 6, 3),), np.uint8)


@pytest.mark.requirement("A10")
@pytest.mark.requirement("X22")
def test_tables_are_made_once_for_each_worker(monkeypatch):
    made = []
    table = convert_module.luma_tables
    monkeypatch.setattr(convert_module, "luma_tables", lambda *a: made.append(a) or table(*a))
    spec, operator = FrameSpec.picture(4, 6, "yuv420p"), Convert("gray")
    planes = [np.repeat(plane[None], 6, axis=0) for plane in planes_of(spec)]
    (output,) = operator.configure((spec,)).outputs
    prepared = operator.prepare(Worker())
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


@pytest.mark.parametrize("matrix", ["ycgco", "bt2020c", "ictcp"])
def test_a_matrix_that_swscale_does_not_know_is_refused_before_the_first_frame(matrix):
    spec = FrameSpec.picture(4, 6, "yuv444p", colour=Colour(matrix))
    sentence = f"FFmpeg does not convert yuv444p of colour matrix '{matrix}' to rgb24: Operation not supported"
    with pytest.raises(PipelineError, match=f"operator 'convert': {sentence}") as caught:
        Convert("rgb24").configure((spec,))
    assert caught.value.hint.startswith("Keep the native planes (--pixel-format native)")


class TestFormats(OperatorSuite):
    """What the suite for convert in tests/contract leaves out, since it has arrays without pixel format too."""

    operators = (Convert("rgb24"), Convert("gray"), Convert("yuv420p10le"), Convert("gbrp", "float32", "NCHW"))
    specs = (
        FrameSpec.picture(6, 8, "yuv422p", chroma_location="left"),
        FrameSpec.picture(7, 5, "yuv444p10le", colour=Colour("bt709", "pc")),
        FrameSpec.picture(16, 18, "yuv420p", field_order="tff"),
        FrameSpec.picture(4, 20, "rgba"),
    )


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
