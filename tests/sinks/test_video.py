"""Video files: every frame, every time, what players are told, joins that nobody can see, and plain errors."""

import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
from fractions import Fraction
from itertools import pairwise

import av
import numpy as np
import pytest

import hyperframes as hf
from hyperframes.errors import FrameError, PipelineError, SinkError
from hyperframes.frames import Clip, Colour, FrameSpec, RecordSpec
from hyperframes.media import Passthrough
from hyperframes.media.encode import CODECS, choose_format, find_codec, formats_of
from hyperframes.sinks.base import Target
from hyperframes.sinks.parts import completed_parts
from hyperframes.sinks.video import VideoSink
from hyperframes.sources.video import VideoSource
from hyperframes.testing.sinks import clip_like, target_for

WIDTH, HEIGHT = 64, 48
BT709 = Colour("bt709", "tv", "bt709", "bt709")


@pytest.fixture(autouse=True)
def quiet_encoders(monkeypatch):
    monkeypatch.setenv("SVT_LOG", "1")


def picture(pixel_format="yuv420p", width=WIDTH, height=HEIGHT, **fields):
    fields = {"time_base": Fraction(1, 12800), "rate": Fraction(25), **fields}
    return FrameSpec.picture(height, width, pixel_format, **fields)


def moving(spec, count):
    """Arrays (count, ...) a plane of something that moves and has texture, within the format's bits."""
    top = {"uint8": 230, "uint16": 900}[spec.dtype.name]
    planes = []
    for number, shape in enumerate(spec.shapes):
        y, x = np.mgrid[: shape[0], : shape[1]]
        frames = [(x * 3 + y * 2 + t * 5 + number * 40 + (x * y + t) % 7) % (top - 20) + 16 for t in range(count)]
        plane = np.stack(frames).astype(spec.dtype)
        planes.append(np.repeat(plane[..., None], shape[2], -1) if len(shape) == 3 else plane)
    return tuple(planes)


def clip_of(spec, planes, a, b, pts, durations=None, mask=None):
    return Clip(
        tuple(plane[a:b] for plane in planes),
        np.asarray(pts[a:b], np.int64),
        np.arange(a, b),
        spec,
        None if durations is None else np.asarray(durations[a:b], np.int64),
        None if mask is None else mask[a:b],
    )


def write(path, spec=None, count=20, *, chunks=(8,), pts=None, durations=None, mask=None, passthrough=None, **options):
    """Write `count` frames in chunks of the sizes `chunks`, over and over; return the closed sink."""
    spec = spec or picture()
    planes = moving(spec, count)
    pts = np.arange(count) * 512 if pts is None else pts
    sink = VideoSink(path, **options)
    sink.open(Target("frames", "frames", spec, count, passthrough, "plan"))
    start, turn = 0, 0
    while start < count:
        stop = min(count, start + chunks[turn % len(chunks)])
        sink.write(clip_of(spec, planes, start, stop, pts, durations, mask))
        start, turn = stop, turn + 1
    assert sink.close() == str(path)
    return sink


def decoded(path):
    """Return the times in seconds and the planes of every frame, as PyAV decodes them."""
    times, pictures = [], []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        for frame in container.decode(stream):
            times.append(frame.pts * stream.time_base)
            pictures.append(planes_of(frame))
    return times, pictures


def planes_of(frame):
    item = 2 if frame.format.components[0].bits > 8 else 1
    result = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
        pixel = {"rgb24": 3, "gbrp": 1, "bgra": 4}.get(frame.format.name, 1)
        result.append(rows[:, : plane.width * item * pixel].copy())
    return result


def probe(path, *entries):
    """Return what Debian's ffprobe says: an independent judge of other make than PyAV's library."""
    if shutil.which("ffprobe") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("ffprobe is missing")
        pytest.skip("ffprobe is missing")
    command = ["ffprobe", "-v", "error", "-of", "json", *entries, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not run.stderr, run.stderr
    return json.loads(run.stdout)


def probed(path):
    """Return ffprobe's video stream and its frames' times in seconds."""
    answer = probe(path, "-select_streams", "v:0", "-show_streams", "-show_frames")
    (stream,) = answer["streams"]
    base = Fraction(stream["time_base"])
    return stream, [frame["best_effort_timestamp"] * base for frame in answer["frames"]]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def left_over(folder):
    return sorted(path.name for path in folder.iterdir())


# Every frame, and what joins parts -------------------------------------------------------------------------------------

LOSSLESS = [
    ("out.mp4", {"quality": 0}, "yuv420p"),
    ("out.mov", {"quality": 0}, "yuv422p"),
    ("out.mkv", {"quality": 0}, "yuv444p"),
    ("out.mp4", {"quality": 0}, "yuv420p10le"),
    ("out.mkv", {"quality": 0}, "gray"),
    ("out.mkv", {"codec": "ffv1"}, "yuv420p"),
    ("out.avi", {"codec": "ffv1"}, "yuv422p10le"),
    ("out.mkv", {"codec": "ffv1"}, "gray16le"),
    ("out.mkv", {"codec": "ffv1"}, "yuva420p"),
    ("out.mkv", {"codec": "libx264rgb", "quality": 0}, "rgb24"),
]


@pytest.mark.parametrize(("name", "options", "pixel_format"), LOSSLESS)
@pytest.mark.parametrize("part_frames", [1, 7, None])
def test_lossless_codecs_give_back_every_sample_across_every_join(tmp_path, name, options, pixel_format, part_frames):
    spec = picture(pixel_format)
    sink = write(tmp_path / name, spec, 16, part_frames=part_frames, **options)
    times, pictures = decoded(tmp_path / name)
    planes = moving(spec, 16)
    assert times == [Fraction(t, 25) for t in range(16)]
    if pixel_format == "rgb24":  # H.264 stores it as planes of green, blue and red
        planes = tuple(np.ascontiguousarray(planes[0][..., channel]) for channel in (1, 2, 0))
    for t, picture_planes in enumerate(pictures):
        if pixel_format == "gray":  # FFmpeg decodes grey H.264 with chroma of its own
            del picture_planes[1:]
        for plane, expected in zip(picture_planes, planes, strict=True):
            rows = np.ascontiguousarray(expected[t]).reshape(len(plane), -1)
            np.testing.assert_array_equal(plane, rows.view(np.uint8))
    assert sink.warnings == ()
    assert left_over(tmp_path) == [name]


ANY = [
    ("out.mp4", {}),
    ("out.mkv", {"preset": "medium"}),
    ("out.mp4", {"codec": "h265"}),
    ("out.webm", {}),
    ("out.mp4", {"codec": "av1"}),
    ("out.avi", {}),
    ("out.mov", {"codec": "prores"}),
    ("out.mov", {"codec": "mjpeg"}),
    ("out.mp4", {"codec": "mpeg4"}),
]


@pytest.mark.parametrize(("name", "options"), ANY)
def test_every_codec_shows_every_frame_at_its_time_to_ffprobe(tmp_path, name, options):
    spec = picture("yuv422p10le") if options.get("codec") == "prores" else picture()
    write(tmp_path / name, spec, 20, part_frames=7, **options)
    _, times = probed(tmp_path / name)
    assert times == [Fraction(t, 25) for t in range(20)]


@pytest.mark.parametrize(("name", "options"), ANY)
def test_the_bytes_depend_neither_on_how_frames_arrive_nor_on_the_run(tmp_path, name, options):
    spec = picture("yuv422p10le") if options.get("codec") == "prores" else picture()
    seen = set()
    for run, chunks in enumerate([(20,), (1,), (3, 8, 1)]):
        folder = tmp_path / str(run)
        folder.mkdir()
        write(folder / name, spec, 20, chunks=chunks, part_frames=7, **options)
        seen.add(digest(folder / name))
    assert len(seen) == 1


def test_h264_does_not_depend_on_what_was_in_memory_before(tmp_path):
    spec, seen, random = picture(width=320, height=136), set(), np.random.default_rng(5)
    for run in range(8):
        junk = [np.full(random.integers(1000, 300_000), random.integers(256), np.uint8) for _ in range(30)]
        del junk
        write(tmp_path / f"{run}.mp4", spec, 7)
        seen.add(digest(tmp_path / f"{run}.mp4"))
    assert len(seen) == 1


def test_decoding_times_rise_across_joins_and_never_pass_the_time_shown(tmp_path):
    pts = np.cumsum([0, 512, 512, 40, 40, 3000, 512, 512, 9000, 10, 10, 10, 512, 512, 512, 2, 512, 512, 512, 512])
    write(tmp_path / "out.mp4", count=20, pts=pts, preset="medium", part_frames=7)
    with av.open(str(tmp_path / "out.mp4")) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    assert [packet.pts for packet in packets] != sorted(packet.pts for packet in packets), "no frame was reordered"
    assert all(a.dts < b.dts for a, b in pairwise(packets))
    assert all(packet.dts <= packet.pts for packet in packets)
    assert sorted(packet.pts for packet in packets) == pts.tolist()
    assert [number for number, packet in enumerate(packets) if packet.is_keyframe] == [0, 7, 14]


# Time ------------------------------------------------------------------------------------------------------------------

UNEVEN = np.array([0, 512, 700, 1900, 1901, 5000, 5512, 40_000, 40_512, 41_024])


@pytest.mark.parametrize("name", ["out.mp4", "out.mov"])
@pytest.mark.parametrize("start", [0, 7, 12_800 * 3600])
@pytest.mark.parametrize("time_base", [Fraction(1, 12_800), Fraction(1001, 30_000), Fraction(1, 1_000_000)])
def test_uneven_times_and_late_starts_are_exact_in_mp4_and_mov(tmp_path, name, start, time_base):
    spec = picture(time_base=time_base, rate=None)
    sink = write(tmp_path / name, spec, 10, pts=UNEVEN + start, durations=[100] * 10, part_frames=4)
    expected = [int(ticks) * time_base for ticks in UNEVEN + start]
    stream, times = probed(tmp_path / name)
    assert times == expected == decoded(tmp_path / name)[0]
    assert sink.warnings == ()
    assert Fraction(stream["duration"]) == pytest.approx(expected[-1] - expected[0] + 100 * time_base, abs=1e-6)


def test_matroska_moves_times_to_the_nearest_millisecond_and_says_how_many(tmp_path):
    spec = picture(time_base=Fraction(1, 30_000), rate=Fraction(30_000, 1001))
    sink = write(tmp_path / "out.mkv", spec, 10, pts=np.arange(10) * 1001)
    expected = [Fraction(round(t * 1001 / 30), 1000) for t in range(10)]
    assert probed(tmp_path / "out.mkv")[1] == expected == decoded(tmp_path / "out.mkv")[0]
    assert sink.warnings == ("matroska files keep times to 0.001 s: 9 of 10 frames were moved, by at most 0.000467 s",)


def test_times_too_close_for_the_container_stay_apart_and_in_order(tmp_path):
    spec = picture(time_base=Fraction(1, 100_000), rate=None)
    write(tmp_path / "out.mkv", spec, 5, pts=np.array([0, 1, 2, 3, 1000]))
    assert decoded(tmp_path / "out.mkv")[0] == [Fraction(t, 1000) for t in (0, 1, 2, 3, 10)]


def test_avi_keeps_frames_that_stay_longer(tmp_path):
    sink = write(tmp_path / "out.avi", count=6, pts=np.array([0, 1, 2, 6, 7, 9]) * 512)
    assert probed(tmp_path / "out.avi")[1] == [Fraction(t, 25) for t in (0, 1, 2, 6, 7, 9)]
    assert sink.warnings == ()


def test_avi_keeps_uneven_times_to_a_millisecond(tmp_path):
    sink = write(tmp_path / "out.avi", picture(rate=None), 10, pts=UNEVEN)
    (warning,) = sink.warnings
    assert warning.startswith("avi files keep times to 0.001 s: ")
    got = decoded(tmp_path / "out.avi")[0]
    assert all(abs(a - Fraction(int(b), 12_800)) <= Fraction(1, 1000) for a, b in zip(got, UNEVEN, strict=True))


def test_avi_starts_at_zero_with_its_sound_and_says_so(tmp_path):
    source = tmp_path / "in.mkv"
    expected = make_source(source, audio="mp3")
    sink = write(tmp_path / "out.avi", count=50, pts=np.arange(50) * 512 + 6400, passthrough=passthrough_of(source))
    assert sink.warnings == ("avi files cannot start at any time but 0: all times were moved by -0.500000 s",)
    assert probed(tmp_path / "out.avi")[1] == [Fraction(t, 25) for t in range(50)]
    copied = sound_packets(tmp_path / "out.avi")
    assert [data for _, data in copied] == [data for time, data in expected if time >= Fraction(1, 2)]


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_a_start_before_zero_moves_to_zero_and_is_said(tmp_path, name):
    sink = write(tmp_path / name, count=6, pts=np.arange(6) * 512 - 1024)
    assert probed(tmp_path / name)[1] == [Fraction(t, 25) for t in range(6)]
    kind = {"out.mp4": "mp4", "out.mkv": "matroska"}[name]
    assert sink.warnings == (f"{kind} files cannot start before 0: all times were moved by 0.080000 s",)


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_the_last_frame_stays_as_long_as_it_did(tmp_path, name):
    write(tmp_path / name, count=5, durations=[512, 512, 512, 512, 12_800])
    answer = probe(tmp_path / name, "-show_format")
    assert float(answer["format"]["duration"]) == pytest.approx(4 / 25 + 1)


# What players are told ---------------------------------------------------------------------------------------------------

TELLING = [
    ("out.mp4", {}),
    ("out.mkv", {}),
    ("out.mkv", {"codec": "ffv1"}),
    ("out.webm", {}),
    ("out.mov", {"codec": "prores"}),
    ("out.mp4", {"codec": "h265"}),
]


@pytest.mark.parametrize(("name", "options"), TELLING)
@pytest.mark.parametrize(("rotation", "mirrored", "matrix"), [(90, False, [0, 1, -1, 0]), (270, True, [0, 1, 1, 0])])
def test_colour_aspect_and_orientation_are_written(tmp_path, name, options, rotation, mirrored, matrix):
    spec = picture(
        "yuv422p10le" if options.get("codec") == "prores" else "yuv420p",
        colour=BT709,
        sample_aspect_ratio=Fraction(4, 3),
        rotation=rotation,
        mirrored=mirrored,
    )
    write(tmp_path / name, spec, 8, part_frames=5, **options)
    stream, times = probed(tmp_path / name)
    assert len(times) == 8
    assert stream["sample_aspect_ratio"] == "4:3"
    told = [stream[key] for key in ("color_range", "color_space", "color_primaries", "color_transfer")]
    assert told == ["tv", "bt709", "bt709", "bt709"]
    (side,) = [data for data in stream["side_data_list"] if "displaymatrix" in data]
    rows = [int(word) // 65536 for word in side["displaymatrix"].split() if ":" not in word]
    assert rows[:2] + rows[3:5] == matrix


@pytest.mark.parametrize("ratio", [Fraction(128, 117), Fraction(11, 12), Fraction(16, 9)])
def test_any_pixel_shape_survives_webm(tmp_path, ratio):
    write(tmp_path / "out.webm", picture(sample_aspect_ratio=ratio), 3)
    assert probed(tmp_path / "out.webm")[0]["sample_aspect_ratio"] == f"{ratio.numerator}:{ratio.denominator}"


@pytest.mark.parametrize(("order", "top_first"), [("tff", 1), ("bff", 0)])
def test_interlaced_h264_says_which_field_is_first(tmp_path, order, top_first):
    write(tmp_path / "out.mp4", picture(field_order=order), 6)
    frames = probe(tmp_path / "out.mp4", "-show_frames")["frames"]
    assert {(frame["interlaced_frame"], frame["top_field_first"]) for frame in frames} == {(1, top_first)}


def test_full_range_and_high_dynamic_range_are_written(tmp_path):
    colour = Colour("bt2020nc", "pc", "bt2020", "smpte2084")
    write(tmp_path / "out.mp4", picture("yuv420p10le", colour=colour), 3)
    stream, _ = probed(tmp_path / "out.mp4")
    told = [stream[key] for key in ("color_range", "color_space", "color_primaries", "color_transfer", "pix_fmt")]
    assert told == ["pc", "bt2020nc", "bt2020", "smpte2084", "yuv420p10le"]


def test_avi_warns_that_it_says_nothing_of_orientation(tmp_path):
    sink = write(tmp_path / "out.avi", picture(rotation=90), 3)
    assert sink.warnings == ("avi files cannot say that players turn or mirror the picture: it shows as it is stored",)


# Pixel formats and sizes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "given", "size", "taken"),
    [
        ("libx264", "yuv420p", (64, 48), "yuv420p"),
        ("libx264", "yuv422p10le", (64, 48), "yuv422p10le"),
        ("libx264", "gray", (64, 48), "gray"),
        ("libx264", "rgb24", (64, 48), "yuv420p"),
        ("libx264", "rgb24", (65, 48), "yuv444p"),
        ("libx264", "yuv420p", (65, 49), "yuv444p"),
        ("libx264", "yuv420p", (64, 49), "yuv422p"),
        ("libx264", "yuv411p", (64, 48), "yuv422p"),
        ("libx264", "rgb48le", (64, 48), "yuv420p10le"),
        ("libx264", "gray16le", (64, 48), "gray10le"),
        ("libx264", "rgba", (64, 48), "yuv420p"),
        ("libx265", "yuv444p12le", (64, 48), "yuv444p12le"),
        ("libvpx-vp9", "rgba", (64, 48), "yuva420p"),
        ("libvpx-vp9", "yuv420p", (65, 49), "yuv420p"),
        ("libsvtav1", "yuv422p10le", (64, 48), "yuv420p10le"),
        ("ffv1", "gray16le", (64, 48), "gray16le"),
        ("ffv1", "rgb24", (64, 48), "bgra"),
        ("prores_ks", "yuv420p", (64, 48), "yuv422p10le"),
        ("prores_ks", "rgba", (64, 48), "yuva444p10le"),
        ("mpeg4", "yuv444p", (64, 48), "yuv420p"),
    ],
)
def test_a_codec_asks_for_the_format_that_keeps_most(codec, given, size, taken):
    assert choose_format(CODECS[codec], picture(given, *size)) == taken


def test_accepts_names_one_format_and_none_for_arrays(tmp_path):
    sink = VideoSink(tmp_path / "out.mp4")
    assert sink.accepts(picture("rgb24")) == ("yuv420p",)
    assert sink.accepts(FrameSpec.array((3,), np.float64)) is None
    assert VideoSink(tmp_path / "out.mp4", pixel_format="yuv444p").accepts(picture("rgb24")) == ("yuv444p",)


def test_dropped_transparency_is_said(tmp_path):
    sink = VideoSink(tmp_path / "out.mp4")
    sink.accepts(picture("rgba"))
    assert sink.warnings == ("libx264 keeps no transparency: it is dropped (ffv1, prores and vp9 keep it)",)


def test_lost_depth_is_said(tmp_path):
    sink = VideoSink(tmp_path / "out.mp4")
    for given in ("gray16le", "rgb24", "yuv420p"):
        sink.accepts(picture(given))
    (warning,) = sink.warnings
    assert re.fullmatch(
        r"libx264 encodes \w+: samples of 16 bits are reduced to (8|10) \(ffv1 keeps up to 16\)", warning
    )
    deep = VideoSink(tmp_path / "out.mkv", codec="ffv1")
    deep.accepts(picture("gray16le"))
    assert deep.warnings == ()


def test_transparency_survives_in_webm(tmp_path):
    spec = picture("yuva420p")
    write(tmp_path / "out.webm", spec, 10, part_frames=4, quality=5)
    with av.open(str(tmp_path / "out.webm")) as container:
        stream = container.streams.video[0]
        assert stream.metadata["ALPHA_MODE" if "ALPHA_MODE" in stream.metadata else "alpha_mode"] == "1"
        decoder = av.CodecContext.create("libvpx-vp9", "r")
        frames = [
            frame for packet in container.demux(stream) for frame in decoder.decode(packet if packet.size else None)
        ]
    assert [frame.format.name for frame in frames] == ["yuva420p"] * 10
    expected = moving(spec, 10)[3]
    for t, frame in enumerate(frames):
        assert np.abs(planes_of(frame)[3].astype(int) - expected[t]).mean() < 8


@pytest.mark.parametrize("name", ["out.webm", "out.avi", "out.mkv"])
def test_odd_sizes_are_kept(tmp_path, name):
    options = {"codec": "ffv1"} if name == "out.mkv" else {}
    write(tmp_path / name, picture(width=65, height=49), 4, **options)
    stream, times = probed(tmp_path / name)
    assert (stream["width"], stream["height"], len(times)) == (65, 49, 4)


def test_channel_first_pictures_are_written_like_channel_last_ones(tmp_path):
    last = picture("rgb24")
    first = last.replace(shapes=((3, HEIGHT, WIDTH),), layout="NCHW")
    (plane,) = moving(last, 5)
    for spec, array, name in [
        (last, plane, "last.mkv"),
        (first, np.ascontiguousarray(np.moveaxis(plane, -1, 1)), "first.mkv"),
    ]:
        sink = VideoSink(tmp_path / name, codec="libx264rgb")
        sink.open(Target("frames", "frames", spec, 5))
        sink.write(clip_of(spec, (array,), 0, 5, np.arange(5) * 512))
        sink.close()
    assert digest(tmp_path / "first.mkv") == digest(tmp_path / "last.mkv")


# The rest of the source --------------------------------------------------------------------------------------------------


def make_source(path, *, seconds=2, video_start=0, audio_start=0, audio="aac", subtitles=False):
    """Write a video with sound of its own, chapters and tags; return its sound packets."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=25, width=WIDTH, height=HEIGHT, time_base=Fraction(1, 25))
        sound = container.add_stream(audio, rate=48_000)
        container.metadata.update({"title": "a street", "artist": "nobody", "encoder": "me"})
        sound.metadata["language"] = "fra"
        container.set_chapters(
            [
                {"id": 1, "start": 0, "end": 1000, "time_base": Fraction(1, 1000), "metadata": {"title": "one"}},
                {"id": 2, "start": 1000, "end": 2000, "time_base": Fraction(1, 1000), "metadata": {"title": "two"}},
            ]
        )
        planes = moving(picture(), seconds * 25)
        for t in range(seconds * 25):
            frame = av.VideoFrame(WIDTH, HEIGHT, "yuv420p")
            for target, plane in zip(frame.planes, planes, strict=True):
                np.frombuffer(target, np.uint8).reshape(len(plane[t]), -1)[:, : plane.shape[2]] = plane[t]
            frame.pts, frame.time_base = video_start + t, Fraction(1, 25)
            container.mux(video.encode(frame))
            samples = (np.sin(np.arange(1920) * 0.05 + t) * 8000).astype(np.float32)[None] / 32768
            tone = av.AudioFrame.from_ndarray(np.repeat(samples, 2, 0), "fltp", "stereo")
            tone.rate, tone.time_base, tone.pts = 48_000, Fraction(1, 48_000), audio_start + t * 1920
            container.mux(sound.encode(tone))
        container.mux(video.encode(None))
        container.mux(sound.encode(None))
    return sound_packets(path)


def sound_packets(path, kind="audio"):
    with av.open(str(path)) as container:
        stream = container.streams.get(**{kind: 0})[0]
        return [(packet.pts * packet.time_base, bytes(packet)) for packet in container.demux(stream) if packet.size]


def passthrough_of(path, **fields):
    with av.open(str(path)) as container:
        streams = tuple(s.index for s in container.streams if s.type in {"audio", "subtitle"})
        return Passthrough(str(path), streams, dict(container.metadata), **fields)


@pytest.mark.parametrize("name", ["out.mp4", "out.mov", "out.mkv"])
def test_sound_is_copied_packet_for_packet_in_time(tmp_path, name):
    source = tmp_path / "in.mp4"
    expected = make_source(source)
    write(tmp_path / name, count=50, passthrough=passthrough_of(source), part_frames=20)
    copied = sound_packets(tmp_path / name)
    assert [data for _, data in copied] == [data for _, data in expected]
    tolerance = 0 if name != "out.mkv" else Fraction(1, 1000)
    assert all(abs(a - b) <= tolerance for (a, _), (b, _) in zip(copied, expected, strict=True))
    assert decoded(tmp_path / name)[0] == [Fraction(t, 25) for t in range(50)]
    answer = probe(tmp_path / name, "-show_streams", "-show_format", "-show_chapters")
    tags = {key.lower(): value for key, value in answer["format"]["tags"].items()}
    assert (tags["title"], tags["artist"]) == ("a street", "nobody")
    assert "me" not in tags.values()
    assert [chapter["tags"]["title"] for chapter in answer["chapters"]] == ["one", "two"]
    assert [float(chapter["start_time"]) for chapter in answer["chapters"]] == [0, 1]
    (sound,) = [stream for stream in answer["streams"] if stream["codec_type"] == "audio"]
    assert sound["tags"]["language"] == "fra"


def test_a_range_takes_its_part_of_the_sound_and_starts_at_zero(tmp_path):
    source = tmp_path / "in.mp4"
    everything = make_source(source)
    start, stop = Fraction(10, 25), Fraction(30, 25)
    spec, planes, pts = picture(), moving(picture(), 50), np.arange(50) * 512
    sink = VideoSink(tmp_path / "out.mp4")
    sink.open(Target("frames", "frames", spec, 20, passthrough_of(source, start=start, stop=stop)))
    sink.write(clip_of(spec, planes, 10, 30, pts))
    sink.close()
    assert probed(tmp_path / "out.mp4")[1] == [Fraction(t, 25) for t in range(20)]
    expected = [(time - start, data) for time, data in everything if start <= time < stop]
    assert sound_packets(tmp_path / "out.mp4") == expected
    chapters = probe(tmp_path / "out.mp4", "-show_chapters")["chapters"]
    assert [(float(c["start_time"]), float(c["end_time"])) for c in chapters] == [(0, 0.6), (0.6, 0.8)]


@pytest.mark.parametrize(("first", "last"), [(10, 30), (0, 30), (40, 50), (45, 70)])
def test_a_run_over_a_range_takes_its_part_of_the_sound_without_decoding_the_rest(tmp_path, monkeypatch, first, last):
    source = tmp_path / "in.mp4"
    everything = make_source(source)
    if last < 50:
        monkeypatch.setattr(VideoSource, "_counted", lambda source: pytest.fail("the whole file was decoded"))
    hf.run(source, [], tmp_path / "out.mp4", range=(first, last))
    start, stop = Fraction(first, 25), Fraction(last, 25)
    before = start if first else everything[0][0]  # what a decoder of sound needs before time 0
    expected = [(time - start, data) for time, data in everything if before <= time < stop]
    assert sound_packets(tmp_path / "out.mp4") == expected


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_late_pictures_stay_in_time_with_their_sound(tmp_path, name):
    source = tmp_path / "in.mkv"
    expected = make_source(source, audio_start=24_000)
    write(tmp_path / name, count=50, pts=np.arange(50) * 512 + 12_800, passthrough=passthrough_of(source))
    assert decoded(tmp_path / name)[0][0] == 1
    assert abs(sound_packets(tmp_path / name)[0][0] - expected[0][0]) <= Fraction(1, 1000)


def test_pictures_moved_to_zero_take_their_sound_along(tmp_path):
    source = tmp_path / "in.mp4"
    expected = make_source(source)
    write(tmp_path / "out.mp4", count=50, pts=np.arange(50) * 512 - 512, passthrough=passthrough_of(source))
    copied = sound_packets(tmp_path / "out.mp4")
    assert [time for time, _ in copied] == [time + Fraction(1, 25) for time, _ in expected]


def test_streams_that_the_container_cannot_hold_are_left_out_and_named(tmp_path):
    source = tmp_path / "in.mp4"
    make_source(source)
    sink = write(tmp_path / "out.webm", count=5, passthrough=passthrough_of(source))
    assert sink.warnings == ("audio stream 1 (aac) was left out: webm files cannot hold it",)
    assert [stream["codec_type"] for stream in probe(tmp_path / "out.webm", "-show_streams")["streams"]] == ["video"]


def test_a_source_that_is_gone_is_a_warning_not_a_lost_video(tmp_path):
    gone = Passthrough(str(tmp_path / "gone.mp4"), (1,), {"title": "kept"})
    sink = write(tmp_path / "out.mp4", count=5, passthrough=gone)
    (warning,) = sink.warnings
    assert warning.startswith(f"nothing but the pictures was kept: {tmp_path / 'gone.mp4'} cannot be opened")
    assert probe(tmp_path / "out.mp4", "-show_format")["format"]["tags"]["title"] == "kept"


def test_a_file_carries_no_dates_and_no_versions(tmp_path):
    for name in ("out.mp4", "out.mkv"):
        write(tmp_path / name, count=3)
        tags = probe(tmp_path / name, "-show_format", "-show_streams")
        text = json.dumps(tags).lower()
        assert "creation_time" not in text
        assert "lavf6" not in text


# Parts, interruption, failures -------------------------------------------------------------------------------------------


def start(path, count, **options):
    """Return an open sink that got `count` frames."""
    spec = picture()
    planes = moving(spec, 40)
    sink = VideoSink(path, part_frames=7, **options)
    sink.open(Target("frames", "frames", spec, 40, None, "plan"))
    if count > sink.resume_at:
        sink.write(clip_of(spec, planes, 0, count, np.arange(40) * 512))
    return sink


@pytest.mark.parametrize("kept", [6, 7, 20, 39, 40])
def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(tmp_path, kept):
    start(tmp_path / "whole.mp4", 40).close()
    path = tmp_path / "out.mp4"
    start(path, kept).abort(keep_parts=True)
    assert not path.exists()
    parts = completed_parts(path)
    assert [(part.start, part.stop) for part in parts] == [(7 * k, 7 * k + 7) for k in range(kept // 7)]
    sink = start(path, 40, resume=True)
    assert sink.resume_at == kept // 7 * 7
    sink.close()
    assert digest(path) == digest(tmp_path / "whole.mp4")
    assert left_over(tmp_path) == ["out.mp4", "whole.mp4"]


def test_damaged_parts_and_those_of_another_plan_are_written_again(tmp_path):
    path = tmp_path / "out.mp4"
    start(path, 21).abort(keep_parts=True)
    part = tmp_path / ".out.mp4.parts" / "part-000001.mkv"
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    assert len(completed_parts(path)) == 1
    sink = start(path, 0, resume=True)
    assert sink.resume_at == 7
    sink.abort(keep_parts=True)
    sink = start(path, 0, resume=True, quality=30)
    assert sink.resume_at == 0
    sink.abort()
    assert left_over(tmp_path) == []


def test_parts_are_videos_of_their_own(tmp_path):
    path = tmp_path / "out.mp4"
    sink = start(path, 15)
    sink.abort(keep_parts=True)
    times, _ = decoded(tmp_path / ".out.mp4.parts" / "part-000001.mkv")
    assert times == [Fraction(t, 25) for t in range(7)]


def test_abort_leaves_nothing(tmp_path):
    sink = start(tmp_path / "out.mp4", 15)
    assert left_over(tmp_path) == [".out.mp4.parts"]
    sink.abort()
    sink.abort()
    assert left_over(tmp_path) == []


def test_failed_frames_are_left_out_counted_and_leave_the_joins_where_they_were(tmp_path):
    mask = np.ones(20, bool)
    mask[[3, 7, 8, 9, 10, 11, 12, 13]] = False
    sink = write(tmp_path / "out.mp4", count=20, mask=mask, part_frames=7, chunks=(6,))
    assert sink.num_failed == 8
    times = [Fraction(int(t), 25) for t in np.flatnonzero(mask)]
    assert probed(tmp_path / "out.mp4")[1] == times
    with av.open(str(tmp_path / "out.mp4")) as container:
        keys = [packet.pts * packet.time_base for packet in container.demux(video=0) if packet.is_keyframe]
    assert keys == [0, Fraction(14, 25)]


def test_an_older_file_stands_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "out.mp4"
    path.write_bytes(b"old")
    sink = start(path, 15)
    assert path.read_bytes() == b"old"
    sink.close()
    assert len(decoded(path)[0]) == 15


# What goes wrong ---------------------------------------------------------------------------------------------------------


def refusal(kind, call):
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.hint
    return str(caught.value), caught.value.hint


def test_a_video_of_no_frame_is_refused_and_leaves_nothing(tmp_path):
    sink = start(tmp_path / "out.mp4", 0)
    text, _ = refusal(SinkError, sink.close)
    assert text == f"cannot write {tmp_path / 'out.mp4'}: a video needs a frame, and none was delivered"
    assert left_over(tmp_path) == []


def test_a_video_whose_frames_all_failed_says_so(tmp_path):
    spec = picture()
    sink = VideoSink(tmp_path / "out.mp4")
    sink.open(Target("frames", "frames", spec, 3))
    sink.write(clip_of(spec, moving(spec, 3), 0, 3, np.arange(3), mask=np.zeros(3, bool)))
    text, _ = refusal(SinkError, sink.close)
    assert text.endswith("a video needs a frame, and none was delivered (3 failed)")


def test_unknown_suffixes_and_codecs_name_the_known_ones(tmp_path):
    text, hint = refusal(SinkError, lambda: VideoSink(tmp_path / "out.mpg"))
    assert text == f"cannot write {tmp_path / 'out.mpg'}: no video container has the suffix '.mpg'"
    assert hint == "Use one of: .mp4, .mkv, .mov, .webm, .avi."
    text, hint = refusal(PipelineError, lambda: VideoSink(tmp_path / "out.mp4", codec="libvp9"))
    assert text.startswith("video codec 'libvp9' is not known; available: ")
    assert "libx264" in text
    assert hint == "Did you mean 'libvpx-vp9'?"


def test_codecs_that_the_container_does_not_hold_are_refused(tmp_path):
    text, hint = refusal(PipelineError, lambda: VideoSink(tmp_path / "out.webm", codec="libx264"))
    assert text == ".webm files do not hold libx264: expected one of libsvtav1, libvpx-vp9"
    assert hint == "Use one of them, or a suffix that holds libx264: .mkv, .mov, .mp4."


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"quality": 52}, "the quality of libx264 is a number from 0 to 51 (crf), got 52"),
        ({"preset": "vryfast"}, "libx264 has no preset 'vryfast'"),
        ({"codec": "mpeg4", "preset": "fast"}, "mpeg4 has no presets, got 'fast'"),
        ({"part_frames": 0}, "a part has at least one frame, got part_frames=0"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_is_read(tmp_path, options, text):
    with pytest.raises(PipelineError) as caught:
        VideoSink(tmp_path / "out.mp4", **options)
    assert str(caught.value).startswith(text)


def test_lossless_codecs_have_no_quality(tmp_path):
    text, hint = refusal(PipelineError, lambda: VideoSink(tmp_path / "out.mkv", codec="ffv1", quality=3))
    assert text == "ffv1 is lossless: it has no quality"
    assert hint == "Leave it out."


def test_what_is_no_picture_is_refused(tmp_path):
    sink = VideoSink(tmp_path / "out.mp4")
    text, hint = refusal(SinkError, lambda: sink.open(Target("x", "frames", FrameSpec.array((7,), np.float64), 1)))
    assert text == f"cannot write {tmp_path / 'out.mp4'}: a video takes pictures, got array (7,) float64"
    assert hint == "Write rows to .csv, .parquet or .npy."
    text, hint = refusal(SinkError, lambda: sink.open(Target("x", "records", RecordSpec(()), 1)))
    assert hint == "Write records to .parquet, .csv or .jsonl."
    assert text.endswith("a video takes pictures, got records")


def test_unconverted_pictures_are_refused_with_the_conversion(tmp_path):
    sink = VideoSink(tmp_path / "out.mp4")
    text, hint = refusal(SinkError, lambda: sink.open(Target("x", "frames", picture("rgb24"), 1)))
    assert text.endswith("libx264 was to get yuv420p pictures, got rgb24")
    assert hint == "Convert them first: --operator convert:format=yuv420p"


def test_pixel_formats_that_the_codec_lacks_or_the_size_forbids_are_refused(tmp_path):
    sink = VideoSink(tmp_path / "out.mp4", pixel_format="yuv410p")
    text, _ = refusal(SinkError, lambda: sink.accepts(picture()))
    assert "libx264 does not encode yuv410p: expected one of" in text
    sink = VideoSink(tmp_path / "out.mp4", pixel_format="yuv420p")
    text, hint = refusal(SinkError, lambda: sink.accepts(picture(width=65)))
    assert text.endswith("libx264 cannot encode 65x48 pictures as yuv420p: odd sizes need full chroma")
    assert "yuv444p" in hint


def test_an_encoder_that_refuses_the_size_does_so_before_the_first_frame(tmp_path):
    sink = VideoSink(tmp_path / "out.mp4")
    with pytest.raises(SinkError) as caught:
        sink.open(Target("x", "frames", picture(width=20_000, height=16), 1))
    assert "does not take yuv420p pictures of 20000x16" in str(caught.value)
    assert left_over(tmp_path) == []


def test_a_change_of_size_is_refused(tmp_path):
    sink = start(tmp_path / "out.mp4", 3)
    other = picture(width=32)
    text, hint = refusal(SinkError, lambda: sink.write(clip_of(other, moving(other, 1), 0, 1, [9999])))
    assert text.endswith("all frames of a video must be alike: expected yuv420p 64x48, got yuv420p 32x48")
    assert "--on-size-change" in hint
    sink.abort()


def test_times_that_do_not_rise_are_refused(tmp_path):
    spec = picture()
    sink = VideoSink(tmp_path / "out.mp4", part_frames=1)
    sink.open(Target("frames", "frames", spec, 3))
    with pytest.raises(FrameError) as caught:
        sink.write(clip_of(spec, moving(spec, 2), 0, 2, [512, 512]))
    assert str(caught.value) == "the times of a video's frames must rise: got 512 after 512 at frame 1"
    sink.abort()
    assert left_over(tmp_path) == []


def test_a_folder_in_the_way_and_a_missing_folder_are_said(tmp_path):
    (tmp_path / "out.mp4").mkdir()
    text, _ = refusal(SinkError, lambda: start(tmp_path / "out.mp4", 0))
    assert text == f"cannot write {tmp_path / 'out.mp4'}: a folder stands there"
    text, hint = refusal(SinkError, lambda: start(tmp_path / "no" / "out.mp4", 0))
    assert text == f"cannot write {tmp_path / 'no' / 'out.mp4'}: No such file or directory"
    assert hint == "Check that its folder exists and may be written to."


def test_a_full_disk_is_said_and_abort_leaves_nothing(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        sink = start(tmp_path / "out.mp4", 0, quality=0)
        spec = picture()
        everything = clip_of(spec, moving(spec, 40), 0, 40, np.arange(40) * 512)
        with pytest.raises(SinkError) as caught:
            sink.write(everything)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value) == f"cannot write {tmp_path / 'out.mp4'}: the file grows larger than is allowed"
    sink.abort()
    assert left_over(tmp_path) == []


def test_the_known_codecs_are_in_this_installation():
    assert [find_codec(name).name for name in CODECS] == list(CODECS)
    assert all(formats_of(codec) for codec in CODECS.values())
    assert find_codec("hevc") is CODECS["libx265"]


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="this system does not tell how threads are scheduled")
def test_an_encoder_that_takes_the_highest_priority_gives_it_back(tmp_path):
    sink = VideoSink(tmp_path / "out.mp4", codec="libsvtav1")
    spec = FrameSpec.picture(64, 64, "yuv420p", rate=Fraction(25), time_base=Fraction(1, 25))
    sink.open(target_for(spec))
    sink.write(clip_like(spec, 3))
    policies = {os.sched_getscheduler(int(task)) for task in os.listdir("/proc/self/task")}
    sink.close()
    assert policies == {os.SCHED_OTHER}
