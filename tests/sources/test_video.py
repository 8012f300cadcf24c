"""Videos made by the tests: times, seeking, formats, size changes, pipes, damage."""

import gc
import os
import subprocess
import sys
import threading
from fractions import Fraction
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import av
import numpy as np
import pytest

from hyperframes.errors import FrameError, PipelineError, SourceError
from hyperframes.frames import Colour
from hyperframes.media.colour import set_colour
from hyperframes.media.container import Place
from hyperframes.registry import sources
from hyperframes.sources.video import VideoSource, open_video, open_y4m

_B_FRAMES = {"g": "12", "bf": "3", "threads": "1", "b-pyramid": "normal", "sc_threshold": "0"}


def _picture(t, height, width, pixel_format):
    rng = np.random.default_rng(t)
    frame = av.VideoFrame.from_ndarray(rng.integers(0, 256, (height // 8, width // 8, 3), np.uint8), "rgb24")
    return frame.reformat(width, height, pixel_format, interpolation="POINT")


def _write(path, pts, *, codec="libx264", size=(48, 64), pixel_format="yuv420p", rate=25, time_base=None, **fields):
    """Encode one noisy picture for each of the `pts`; return the path."""
    options = fields.pop("options", {"g": "12", "bf": "0", "threads": "1"} if codec.startswith("lib") else {})
    before_encoding = fields.pop("prepare", lambda container, stream: None)
    with av.open(str(path), "w", options=fields.pop("container_options", {})) as container:
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width, stream.pix_fmt = *size, pixel_format
        if time_base:
            stream.codec_context.time_base = time_base
        before_encoding(container, stream)
        for number, time in enumerate(pts):
            frame = _picture(number, *size, pixel_format)
            frame.pts, frame.time_base = time, time_base or Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return str(path)


def _all(source, start=0, stop=None):
    return [
        (frame.index, frame.pts, frame.duration, tuple(np.array(plane).tobytes() for plane in frame.planes))
        for frame in source.read(start, stop)
    ]


@pytest.fixture(scope="module")
def b_frames(tmp_path_factory):
    """Six groups of pictures with a pyramid of B-frames, 70 frames."""
    return _write(tmp_path_factory.mktemp("video") / "b.mp4", range(70), options=_B_FRAMES)


@pytest.fixture(scope="module")
def b_frames_read(b_frames):
    with open_video(b_frames, threads=1) as video:
        return _all(video)


# Reading in order -----------------------------------------------------------------------------------------------------


def test_videos_open_by_the_name_of_the_source():
    assert sources.get("video") is open_video
    assert sources.get("y4m") is open_y4m


def test_frames_come_in_presentation_order_with_their_times(b_frames_read):
    assert [index for index, *_ in b_frames_read] == list(range(70))
    assert [pts for _, pts, *_ in b_frames_read] == [512 * t for t in range(70)]
    assert {duration for _, _, duration, _ in b_frames_read} == {512}


@pytest.mark.parametrize("threads", [1, 2, 3, "auto"])
def test_frames_do_not_depend_on_decoder_threads(b_frames, b_frames_read, threads):
    with open_video(b_frames, threads=threads) as video:
        assert _all(video) == b_frames_read


def test_pixels_are_those_of_pyav(b_frames, b_frames_read):
    with av.open(b_frames) as container:
        expected = [frame.to_ndarray() for frame in container.decode(video=0)]
    for (*_, planes), picture in zip(b_frames_read, expected, strict=True):
        assert b"".join(planes) == picture.tobytes()


def test_planes_are_lent_as_read_only_views_of_the_decoders_memory(b_frames):
    with open_video(b_frames) as video:
        frame = next(video.read())
    assert [plane.shape for plane in frame.planes] == [(48, 64), (24, 32), (24, 32)]
    assert not any(plane.flags.writeable or plane.flags.owndata for plane in frame.planes)


def test_variable_rates_late_and_negative_starts_are_kept(tmp_path):
    for name, pts in {"late": [90, 91, 95, 200, 1000], "negative": [-40, -10, 0, 3, 90]}.items():
        path = _write(tmp_path / f"{name}.mkv", pts, codec="ffv1", time_base=Fraction(1, 1000))
        with av.open(path) as container:
            container_pts = [packet.pts for packet in container.demux(video=0) if packet.size]
        with open_video(path) as video:
            assert video.spec.time_base == Fraction(1, 1000)
            assert [frame.pts for frame in video.read()] == container_pts
            assert np.diff(container_pts).tolist() == np.diff(pts).tolist()
            assert not video.repaired_pts


def test_a_raw_stream_without_times_gets_them_from_the_rate(tmp_path):
    path = _write(tmp_path / "raw.h264", range(20), options=_B_FRAMES)
    with open_video(path) as video:
        seconds = [frame.seconds for frame in video.read()]
        assert np.allclose(seconds, np.arange(20) / 25)
        assert video.repaired_pts
        assert "times of 20 frames were missing or out of order and were rebuilt" in video.warnings
        assert _all(video, 13, 16) == _all(video)[13:16]


# Spec -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "pixel_format", "shapes"),
    [
        ("ffv1", "gray", [(36, 52)]),
        ("ffv1", "gray16le", [(36, 52)]),
        ("ffv1", "yuv420p10le", [(36, 52), (18, 26), (18, 26)]),
        ("ffv1", "yuva420p", [(36, 52), (18, 26), (18, 26), (36, 52)]),
        ("ffv1", "yuv411p", [(36, 52), (36, 13), (36, 13)]),
        ("magicyuv", "gbrp", [(36, 52)] * 3),
        ("ffv1", "gbrp10le", [(36, 52)] * 3),
        ("rawvideo", "rgb24", [(36, 52, 3)]),
        ("png", "rgba", [(36, 52, 4)]),
        ("libx264", "yuv422p", [(36, 52), (36, 26), (36, 26)]),
    ],
)
def test_planes_of_many_formats_are_lent_as_they_are(tmp_path, codec, pixel_format, shapes):
    path = _write(tmp_path / "v.nut", range(3), codec=codec, pixel_format=pixel_format, size=(36, 52))
    with av.open(path) as container:
        expected = [[bytes(plane) for plane in frame.planes] for frame in container.decode(video=0)]
    with open_video(path) as video:
        assert video.spec.pixel_format == pixel_format
        assert list(video.spec.shapes) == shapes
        assert video.warnings == ()
        for frame, planes in zip(video.read(), expected, strict=True):
            for view, plane in zip(frame.planes, planes, strict=True):
                row = view.nbytes // view.shape[0]
                rows = np.frombuffer(plane, np.uint8).reshape(view.shape[0], -1)[:, :row]
                assert view.tobytes() == rows.tobytes()


@pytest.mark.parametrize(("stored", "lent"), [("yuyv422", "yuv422p"), ("uyvy422", "yuv422p"), ("gray16be", "gray16le")])
def test_other_formats_are_converted_and_it_is_said(tmp_path, stored, lent):
    path = _write(tmp_path / "v.nut", range(3), codec="rawvideo", pixel_format=stored, size=(32, 48))
    with av.open(path) as container:
        first = next(container.decode(video=0))
        packed = np.frombuffer(first.planes[0], np.uint8).reshape(32, -1)[:, :96]
    with open_video(path) as video:
        assert video.spec.pixel_format == lent
        assert video.warnings == (f"pixel format {stored} is converted to {lent}",)
        planes = next(video.read()).planes
        if stored == "gray16be":
            np.testing.assert_array_equal(planes[0], packed.copy().view(">u2"))
        else:
            luma = slice(0, None, 2) if stored == "yuyv422" else slice(1, None, 2)
            chroma = 1 if stored == "yuyv422" else 0
            np.testing.assert_array_equal(planes[0], packed[:, luma])
            np.testing.assert_array_equal(planes[1], packed[:, chroma::4])
            np.testing.assert_array_equal(planes[2], packed[:, chroma + 2 :: 4])


def test_bottom_up_pictures_are_read_top_down(tmp_path):
    path = _write(tmp_path / "v.avi", range(2), codec="rawvideo", pixel_format="bgr24", size=(32, 48))
    with av.open(path) as container:
        expected = next(container.decode(video=0)).to_ndarray(format="bgr24")
    with open_video(path) as video:
        np.testing.assert_array_equal(next(video.read()).data, expected)


def test_full_range_names_become_a_range(tmp_path):
    path = _write(tmp_path / "v.mkv", range(2), codec="mjpeg", pixel_format="yuvj420p")
    with open_video(path) as video:
        assert (video.spec.pixel_format, video.spec.colour.range) == ("yuv420p", "pc")
        assert video.warnings == ()


def test_colour_shape_of_pixels_and_rate_are_described(tmp_path):
    colour = Colour("bt2020nc", "tv", "bt2020", "smpte2084")

    def prepare(container, stream):
        set_colour(stream.codec_context, colour)
        stream.codec_context.sample_aspect_ratio = Fraction(4, 3)

    path = _write(tmp_path / "v.mkv", range(3), pixel_format="yuv420p10le", rate=30, prepare=prepare)
    with open_video(path) as video:
        assert video.spec.colour == colour
        assert video.spec.sample_aspect_ratio == Fraction(4, 3)
        assert video.spec.rate == 30
        assert video.spec.field_order == "progressive"


@pytest.mark.parametrize("clockwise", [90, 180, 270])
def test_rotation_is_described_and_the_arrays_are_not_turned(tmp_path, clockwise):
    path = _write(
        tmp_path / "v.mp4", range(2), prepare=lambda container, stream: stream.set_display_rotation(-clockwise)
    )
    with open_video(path) as video:
        assert (video.spec.rotation, video.spec.mirrored) == (clockwise, False)
        assert video.spec.shapes[0] == (48, 64)


@pytest.mark.parametrize(("first", "order"), [("top", "tff"), ("bottom", "bff")])
def test_interlaced_video_says_which_field_is_first(tmp_path, first, order):
    options = {"threads": "1", "x264-params": "tff=1" if first == "top" else "bff=1"}
    path = _write(tmp_path / "v.mp4", range(3), options=options, size=(64, 64))
    with open_video(path) as video:
        assert video.spec.field_order == order


def test_alpha_beside_the_picture_is_said_to_be_left_out(tmp_path):
    def prepare(container, stream):
        stream.metadata["alpha_mode"] = "1"

    path = _write(tmp_path / "v.webm", range(2), codec="libvpx-vp9", prepare=prepare)
    with open_video(path) as video:
        assert video.warnings == (
            "the alpha channel is coded beside the picture and is not decoded: frames are opaque",
        )


# Seeking and random access --------------------------------------------------------------------------------------------


def _long_and_varied(tmp_path):
    yield "b-frames", _write(tmp_path / "b.mp4", range(70), options=_B_FRAMES)
    yield (
        "open groups",
        _write(
            tmp_path / "open.mkv", range(70), options={**_B_FRAMES, "x264-params": "open-gop=1:keyint=12:bframes=3"}
        ),
    )
    yield "mpeg2", _write(tmp_path / "m.ts", range(60), codec="mpeg2video", options={"g": "9", "bf": "2"})
    yield (
        "hevc",
        _write(
            tmp_path / "h.mp4",
            range(40),
            codec="libx265",
            options={"x265-params": "keyint=10:open-gop=1:log-level=none"},
        ),
    )
    yield "vp8", _write(tmp_path / "v.webm", range(40), codec="libvpx", options={"g": "8", "auto-alt-ref": "1"})
    yield "variable", _write(
        tmp_path / "vfr.mkv", np.cumsum(np.random.default_rng(4).integers(1, 90, 60)).tolist(),
        time_base=Fraction(1, 1000), options=_B_FRAMES,
    )  # fmt: skip


@pytest.mark.slow
def test_reading_from_anywhere_equals_that_slice_of_the_whole(tmp_path):
    for kind, path in _long_and_varied(tmp_path):
        with open_video(path) as video:
            whole = _all(video)
        with open_video(path) as fresh:
            for start in range(0, len(whole), 3):
                assert _all(fresh, start, start + 4) == whole[start : start + 4], (kind, start)
            assert _all(fresh, len(whole) - 5) == whole[-5:], kind
            assert _all(fresh, len(whole)) == _all(fresh, len(whole) + 7) == [], kind
            assert not fresh._distrusted, f"{kind}: the index was not good enough to seek with"


@pytest.mark.slow
@pytest.mark.requirement("C36")
@pytest.mark.requirement("X10")
def test_chosen_frames_equal_those_of_a_whole_read(tmp_path):
    rng = np.random.default_rng(8)
    for kind, path in _long_and_varied(tmp_path):
        with open_video(path) as video:
            whole = _all(video)
        with open_video(path) as fresh, open_video(path) as counted, open_video(path, threads=3) as several:
            assert counted.count() == len(whole)
            for video in (fresh, counted, several):
                for _ in range(6):
                    wanted = rng.integers(0, len(whole), 5).tolist()
                    clip = video.frames(wanted)
                    assert clip.index.tolist() == wanted
                    found = [(f.index, f.pts, f.duration, tuple(plane.tobytes() for plane in f.planes)) for f in clip]
                    assert found == [whole[i] for i in wanted], kind
                assert not video._distrusted, kind


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_frames_are_chosen_alike_by_one_decoder_and_by_several(b_frames, b_frames_read, threads):
    with open_video(b_frames, threads=threads) as video:
        for wanted in (range(70), range(0, 70, 7), [69, 0, 1, 30, 0], [50, 51, 52]):
            found = [tuple(plane.tobytes() for plane in frame.planes) for frame in video.frames(list(wanted))]
            assert found == [b_frames_read[i][3] for i in wanted]
        assert not video._distrusted


def test_where_one_of_several_decoders_meets_damage_all_frames_are_those_of_a_whole_read(damaged):
    with open_video(damaged, threads=1) as video:
        whole = _all(video)
    with open_video(damaged, threads=3) as video:
        wanted = range(0, len(whole), 5)
        found = [tuple(plane.tobytes() for plane in frame.planes) for frame in video.frames(list(wanted))]
        assert found == [whole[i][3] for i in wanted]
        assert video._distrusted


def test_frames_are_chosen_by_position_slice_and_time(b_frames, b_frames_read):
    with open_video(b_frames) as video:
        assert video[33].planes[0].tobytes() == b_frames_read[33][3][0]
        assert video[20:24].pts.tolist() == [512 * t for t in range(20, 24)]
        assert video[-1].index == 69
        clip = video.at(seconds=[1.0, 0.0, 1.039, 2.79])
        assert clip.index.tolist() == [25, 0, 25, 69]
        assert video.at(seconds=0.04).index.tolist() == [1]
        assert len(video.frames([])) == 0


def test_chosen_frames_own_their_arrays(b_frames):
    with open_video(b_frames) as video:
        clip = video.frames([5, 2])
    clip.planes[0][:] = 0


def test_positions_and_times_outside_are_refused(b_frames):
    with open_video(b_frames) as video:
        with pytest.raises(FrameError, match="has no frame 70"):
            video.frames([3, 70])
        with pytest.raises(FrameError, match="frame positions start at 0: got -1"):
            video.frames([-1])
        with pytest.raises(FrameError, match="frame positions start at 0: got -2:None"):
            next(video.read(-2))
        with pytest.raises(FrameError, match=r"from 0\.000 to 2\.800 s: no frame is on screen at -0\.500 s"):
            video.at(seconds=-0.5)
        assert video.at(seconds=2.799).index.tolist() == [69]
        with pytest.raises(FrameError, match=r"from 0\.000 to 2\.800 s: no frame is on screen at 2\.800 s"):
            video.at(seconds=2.8)


def test_the_number_of_frames_is_a_hint_until_everything_was_decoded(b_frames):
    with open_video(b_frames) as video:
        assert (video.num_frames, video.exact) == (70, False)
        assert video.count() == 70
        assert (video.num_frames, video.exact) == (70, True)
        assert video.times().tolist() == [512 * t for t in range(70)]


def test_a_wrong_index_is_noticed_and_reading_starts_over(b_frames, b_frames_read):
    with open_video(b_frames) as video:
        index = video._index
        index.pts[40] -= 1  # as if the container lied about a time
        assert _all(video, 38, 45) == b_frames_read[38:45]
        assert video._distrusted
        assert video.frames([41]).planes[0][0].tobytes() == b_frames_read[41][3][0]


# Damage ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def damaged(tmp_path_factory, b_frames):
    """A copy of the clip with one packet of noise, in the middle of the third group of pictures."""
    path = str(tmp_path_factory.mktemp("damaged") / "d.mp4")
    with av.open(b_frames) as container:
        packets = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    with open(b_frames, "rb") as file:
        data = bytearray(file.read())
    position, size = packets[30]
    data[position : position + size] = np.random.default_rng(2).bytes(size)
    with open(path, "wb") as file:
        file.write(data)
    return path


def test_damage_costs_the_same_frames_with_any_number_of_threads(damaged):
    results, warnings = [], []
    for threads in (1, 2, 4, "auto"):
        with open_video(damaged, threads=threads) as video:
            results.append(_all(video))
            warnings.append(video.warnings)
    assert 60 <= len(results[0]) < 70
    assert all(result == results[0] for result in results)
    assert all(warning == warnings[0] for warning in warnings)
    assert f"the container declares 70 frames, {len(results[0])} decode" in warnings[0]
    assert any("could not be decoded" in warning for warning in warnings[0])


def test_positions_after_damage_are_those_of_a_whole_read(damaged):
    with open_video(damaged, threads=1) as video:
        whole = _all(video)
        assert _all(video, 50, 53) == whole[50:53]
        assert video.frames([55]).planes[0][0].tobytes() == whole[55][3][0]
    with open_video(damaged) as video:
        assert _all(video, 24, 40) == whole[24:40]


def test_damage_in_a_picture_that_no_other_refers_to_leaves_chosen_frames_as_in_a_whole_read(tmp_path, b_frames):
    with av.open(b_frames) as container:
        packets = [(p.pts, p.pos, p.size) for p in container.demux(video=0) if p.size]
    with open(b_frames, "rb") as file:
        data = bytearray(file.read())
    # An MP4 packet: four bytes of length, then the unit, whose first byte says whether others refer to it.
    loose = [(pts, at, size) for pts, at, size in packets if data[at + 4] & 0x7F == 1]
    assert len(loose) > 5
    pts, at, size = loose[len(loose) // 2]
    data[at + 5 : at + size] = np.random.default_rng(3).bytes(size - 5)
    path = tmp_path / "loose.mp4"
    path.write_bytes(data)
    with open_video(path) as video:
        by_time = {frame[1]: frame[3] for frame in _all(video)}
    with open_video(path) as video:
        wanted = [t for t in range(70) if 512 * t != pts][::3]
        clip = video.frames(wanted)
        assert clip.pts.tolist() == [512 * t for t in wanted]
        assert [tuple(plane.tobytes() for plane in f.planes) for f in clip] == [by_time[t] for t in clip.pts.tolist()]


def test_a_file_cut_short_gives_what_is_there_and_says_so(tmp_path, b_frames_read):
    path = _write(tmp_path / "cut.mkv", range(70), options=_B_FRAMES)
    os.truncate(path, os.path.getsize(path) * 2 // 3)
    counts = set()
    for threads in (1, "auto"):
        with open_video(path, threads=threads) as video:
            counts.add(sum(1 for _ in video.read()))
            assert video.exact
    (count,) = counts
    assert 30 < count < 70


def test_a_file_of_which_nothing_decodes_is_an_error_with_both_counts(tmp_path):
    path = _write(tmp_path / "noise.mp4", range(8))
    with av.open(path) as container:
        packets = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    with open(path, "r+b") as file:
        for position, size in packets:
            file.seek(position)
            file.write(bytes([0xFF]) * size)
    with pytest.raises(
        SourceError, match=r"in which no frame decodes: 8 frames declared, 0 decode \(8 decoder errors\)"
    ):
        open_video(path)


# Size changes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def changing(tmp_path):
    """Five pictures of 48x64, then four of 32x40, in one Motion JPEG stream."""
    path = tmp_path / "change.mjpeg"
    with open(path, "wb") as joined:
        for size, count in (((48, 64), 5), ((32, 40), 4)):
            part = _write(tmp_path / "part.mjpeg", range(count), codec="mjpeg", size=size, pixel_format="yuvj420p")
            with open(part, "rb") as file:
                joined.write(file.read())
    return str(path)


def test_later_sizes_are_scaled_to_the_first_with_a_warning(changing):
    with open_video(changing) as video:
        frames = _all(video)
        assert len(frames) == 9
        assert {len(planes[0]) for *_, planes in frames} == {48 * 64}
        said = "frame 5 is 40x32 yuvj420p, the first one 64x48 yuvj420p: such frames are scaled to the first"
        assert said in video.warnings
        assert _all(video, 6) == frames[6:]


def test_a_change_of_size_can_be_an_error(changing):
    with open_video(changing, on_size_change="fail") as video:
        assert len(_all(video, 0, 5)) == 5
        with pytest.raises(SourceError, match="changes from 64x48 yuvj420p to 40x32 yuvj420p at frame 5") as caught:
            _all(video)
        assert "on_size_change='scale'" in caught.value.hint
        with pytest.raises(SourceError, match="at frame 5"):
            video.frames([7])


def test_a_stream_can_be_split_where_its_size_changes(changing):
    with open_video(changing, on_size_change="split") as video:
        first = _all(video)
        assert (len(first), video.changed_at, video.num_frames, video.exact) == (5, 5, 5, True)
        assert _all(video, 6) == []
        rest = video.next_part()
    with rest:
        assert rest.spec.shapes[0] == (32, 40)
        second = _all(rest)
        assert [index for index, *_ in second] == [0, 1, 2, 3]
        assert second[0][1] > first[-1][1]
        assert _all(rest, 2) == second[2:]
        assert rest.next_part() is None


# Pipes and networks ---------------------------------------------------------------------------------------------------


def test_y4m_comes_from_the_standard_input(tmp_path):
    path = _write(tmp_path / "v.y4m", range(5), codec="wrapped_avframe", options={}, rate=30)
    with open_y4m(path) as video:
        expected = [plane.tobytes() for frame in video.read() for plane in frame.planes]
        assert (video.spec.rate, video.count()) == (30, 5)
    program = (
        "import sys; from hyperframes.sources.video import open_y4m\n"
        "with open_y4m('-') as video:\n"
        "    for frame in video.read():\n"
        "        for plane in frame.planes: sys.stdout.buffer.write(plane.tobytes())\n"
        "    assert video.exact and video.num_frames == 5\n"
        "    try: next(video.read())\n"
        "    except OSError as error: print(error, file=sys.stderr)\n"
    )
    with open(path, "rb") as file:
        done = subprocess.run([sys.executable, "-c", program], stdin=file, capture_output=True, timeout=60, check=False)
    assert done.stdout == b"".join(expected)
    assert done.stderr.decode().strip() == "'standard input' can be read only once: it is a pipe"


def test_pipes_are_neither_counted_nor_read_twice(tmp_path):
    path = _write(tmp_path / "v.y4m", range(5), codec="wrapped_avframe", options={})
    with VideoSource(Place(path, reopens=False)) as video:
        with pytest.raises(SourceError, match="cannot be counted before it is read: it is a pipe"):
            video.count()
        assert video.passthrough() is None
        assert [frame.index for frame in video.read(2)] == [2, 3, 4]
        assert video.count() == 5
        with pytest.raises(SourceError, match="can be read only once: it is a pipe") as caught:
            next(video.read())
        assert caught.value.hint == "Write it to a file first."


def test_a_video_is_read_from_a_web_server(tmp_path):
    path = tmp_path / "b.mkv"
    _write(path, range(70), options=_B_FRAMES)
    with open_video(str(path)) as video:  # this very file: encoding it again need not give the same bytes
        expected = _all(video)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/b.mkv"
            with open_video(url) as video:
                frames = _all(video)
                assert video.identity().startswith(url)
            with pytest.raises(SourceError, match="cannot be opened as a video"):
                open_video(url + "x")
        finally:
            server.shutdown()
            thread.join()
    assert frames == expected


def test_file_urls_are_paths(b_frames):
    with open_video("file://" + b_frames) as video:
        assert video.num_frames == 70


# Around the frames ----------------------------------------------------------------------------------------------------


def test_identity_changes_with_the_content(tmp_path):
    path = _write(tmp_path / "a.mkv", range(3))
    with open_video(path) as video:
        before = video.identity()
        assert video.identity() == before
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\0")
    os.utime(path, (0, 0))
    with open_video(path) as video:
        assert video.identity() != before


def test_decoders_are_closed_when_a_read_is_abandoned(b_frames):
    video = open_video(b_frames)
    abandoned = video.read()
    next(abandoned)
    assert len(video._runs) == 1
    del abandoned
    gc.collect()
    assert not video._runs
    kept = video.read()
    next(kept)
    video.close()
    video.close()
    assert not video._runs
    with pytest.raises(SourceError, match="was closed while it was being read") as caught:
        list(kept)
    assert caught.value.hint == "Read it inside its with block."


def test_several_reads_run_side_by_side(b_frames, b_frames_read):
    with open_video(b_frames) as video:
        pairs = list(zip(video.read(0, 20), video.read(30, 50), strict=True))
    assert [(a.index, b.index) for a, b in pairs] == [(i, 30 + i) for i in range(20)]
    assert pairs[7][1].planes[0].tobytes() == b_frames_read[37][3][0]


def test_wrong_options_are_refused(b_frames):
    with pytest.raises(PipelineError, match="decoder threads are 'auto' or at least 1: got 0"):
        open_video(b_frames, threads=0)
    with pytest.raises(PipelineError, match="on_size_change is 'scale', 'split' or 'fail': got 'crop'"):
        open_video(b_frames, on_size_change="crop")
    with pytest.raises(SourceError, match="has 1 video stream: there is no stream 1"):
        open_video(b_frames, stream=1)
