"""Recordings without cameras: packets and pushed frames come back as they were, whatever ended the run."""

import json
import os
import signal
import subprocess
import sys
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.farm.clip import counter, encoded

from hyperframes.errors import SinkError, SourceError
from hyperframes.frames import PIXEL_FORMATS, Colour, FrameSpec
from hyperframes.media import recording as module
from hyperframes.media.recording import Keep, Recorder, Recording
from hyperframes.media.segments import FRAME, NONE, Row, rows_of

SECOND = 1_000_000_000


def _decoder(units):
    context = av.CodecContext.create("h264", "r")
    context.thread_type, context.thread_count = "NONE", 1
    return context


class Stream:
    """What a recorder needs of a connection's stream."""

    def __init__(self, context):
        self.codec_context, self.time_base, self.sample_aspect_ratio = context, Fraction(1, 90_000), None


def _record(recorder, units, *, first_id=0, kept=None, damage=(), name="cam"):
    """Feed encoded pictures as a capture does; return the frames as (id, capture, arrival, planes)."""
    stream, context = recorder.stream(name), _decoder(units)
    stream.connect(Stream(context), Fraction(30))
    frame_id, frames = first_id, []
    for k, unit in enumerate(units):
        packet = av.Packet(unit[:-40] + b"\xff" * 40 if k in damage else unit)
        packet.pts = packet.dts = None if k % 7 == 3 else 3000 * k
        packet.is_keyframe = True
        try:
            decoded = context.decode(packet)
        except av.FFmpegError:
            decoded = []
        stream.packet(packet, k * SECOND)
        if not decoded:
            stream.damaged(frame_id)
            frame_id += 1
        for frame in decoded:
            capture = None if k < 3 else k * SECOND - 5
            stream.frame(frame, frame_id, capture, k * SECOND)
            planes = [np.frombuffer(p, np.uint8).reshape(-1, p.line_size)[:, : p.width].copy() for p in frame.planes]
            frames.append((frame_id, capture, k * SECOND, planes))
            frame_id += 1
    return frames


def _assert_same(read, frames):
    read = iter(read)
    for frame_id, capture, arrival, planes in frames:
        got = next(read)
        assert (got.frame_id, got.capture_ns, got.arrival_ns) == (frame_id, capture, arrival)
        for one, other in zip(got.planes, planes, strict=True):
            np.testing.assert_array_equal(one, other)
    assert next(read, None) is None


@pytest.mark.requirement("B91")
def test_frames_come_back_with_their_ids_times_and_samples(tmp_path):
    recorder = Recorder(tmp_path)
    frames = _record(recorder, encoded(40, 96, 128, intra=False))
    recorder.close()
    recording = Recording(tmp_path)
    assert recording.streams == ("cam",)
    np.testing.assert_array_equal(recording.ids("cam"), np.arange(40))
    _assert_same(recording.read("cam"), frames)
    _assert_same(recording.read("cam", 10, 20), frames[10:20])
    assert counter(recording.find("cam", [7, 33, 99])[33].planes[0]) == 33


def test_a_recording_is_read_while_it_is_written(tmp_path):
    recorder = Recorder(tmp_path)
    frames = _record(recorder, encoded(10, 96, 128))
    _assert_same(Recording(tmp_path).read("cam"), frames)
    recorder.close()


def test_segments_play_in_any_player_of_nut(tmp_path):
    recorder = Recorder(tmp_path)
    _record(recorder, encoded(10, 96, 128))
    recorder.close()
    (file,) = tmp_path.glob("cam/*.nut")
    with av.open(str(file)) as container:
        assert [counter(f.to_ndarray()[:96]) for f in container.decode(video=0)] == list(range(10))
        assert container.streams.video[0].codec_context.name == "h264"


def test_damaged_packets_stay_damaged(tmp_path):
    recorder = Recorder(tmp_path)
    units = encoded(20, 96, 128)
    units[8] = b"\0\0\0\1\x65\xff\xff"
    frames = _record(recorder, units)
    recorder.close()
    assert len(frames) < 20
    _assert_same(Recording(tmp_path).read("cam"), frames)


@pytest.mark.requirement("B91")
def test_a_killed_process_loses_no_frame_that_was_handed_on(tmp_path):
    script = (
        "import sys, os, signal; from pathlib import Path\n"
        "from tests.media.test_recording import _record, Recorder, encoded\n"
        "_record(Recorder(Path(sys.argv[1])), encoded(25, 96, 128))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, cwd=os.getcwd())
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("cam/*.part"))
    assert [counter(f.planes[0]) for f in Recording(tmp_path).read("cam")] == list(range(25))
    recorder = Recorder(tmp_path)
    assert recorder.stream("cam").next_id == 25
    assert not list(tmp_path.glob("cam/*.part")), "what the kill left is finished"
    more = _record(recorder, encoded(5, 96, 128), first_id=25)
    recorder.close()
    _assert_same(Recording(tmp_path).read("cam", 25), more)
    np.testing.assert_array_equal(Recording(tmp_path).ids("cam"), np.arange(30))


@pytest.mark.parametrize("lost", [1, 39, 40, 41, 100])
def test_a_torn_index_ends_at_its_last_whole_row(tmp_path, lost):
    recorder = Recorder(tmp_path)
    frames = _record(recorder, encoded(10, 96, 128))
    recorder.close()
    (index,) = tmp_path.glob("cam/*.index")
    data = index.read_bytes()
    index.write_bytes(data[:-lost])
    read = list(Recording(tmp_path).read("cam"))
    assert len(frames) - 1 - lost // 80 <= len(read) < len(frames)
    _assert_same(read, frames[: len(read)])


def test_a_row_is_forty_bytes_and_says_when_it_is_damaged(tmp_path):
    row = Row(FRAME, True, 1, -2, 3, NONE).pack()
    assert len(row) == 40
    path = tmp_path / "x"
    said = {"version": 1, "connection": 0, "epoch": 0, "codec": "h264", "extradata": "", "time_base": "1/1000"}
    path.with_suffix(".index").write_bytes(json.dumps(said).encode() + b"\n" + row + row[:-1] + b"\x07")
    header, rows = rows_of(path)
    assert header == said
    assert rows[["kind", "key", "a", "b", "c", "d"]].tolist() == [(FRAME, 1, 1, -2, 3, NONE)]
    path.with_suffix(".index").write_bytes(b'{"versi')
    assert rows_of(path)[0] == {}
    path.with_suffix(".index").write_bytes(b'{"version": 9}\n')
    with pytest.raises(OSError, match="is no index of a recording of version 1"):
        rows_of(path)


def test_segments_begin_with_key_packets_and_old_ones_go(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now.__setitem__(0, now[0] + 0.1) or now[0])
    units = encoded(60, 96, 128)
    recorder = Recorder(tmp_path, Keep(segment_seconds=1.0, num_bytes=4 * len(units[0])))
    _record(recorder, units)
    recorder.close()
    ids = Recording(tmp_path).ids("cam")
    assert 0 < ids[0] < 60
    assert ids[-1] == 59
    frames = list(Recording(tmp_path).read("cam"))
    assert [counter(f.planes[0]) for f in frames] == ids.tolist()


def test_what_is_older_than_it_is_kept_goes_also_when_a_run_goes_on(tmp_path, monkeypatch):
    now = [1_000_000.0]
    monkeypatch.setattr(module.time, "time", lambda: now[0])
    for k in range(6):
        recorder = Recorder(tmp_path, Keep.of(250))
        _record(recorder, encoded(2, 96, 128), first_id=2 * k)
        recorder.close()
        for path in tmp_path.glob("cam/*.index"):
            if path.stat().st_mtime > now[0] + 1:
                os.utime(path, (now[0], now[0]))
        now[0] += 100
    assert Recording(tmp_path).ids("cam").tolist() == list(range(6, 12))
    assert len(list(tmp_path.glob("cam/*.nut"))) == 3


def test_a_full_disk_stops_the_recording_but_not_the_capture(tmp_path, monkeypatch):
    recorder, units = Recorder(tmp_path), encoded(30, 96, 128)
    write, now = os.write, [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def full(file, data):
        if 5 <= now[0] < 9:
            raise OSError(28, "No space left on device")
        return write(file, data)

    stream, context = recorder.stream("cam"), _decoder(units)
    stream.connect(Stream(context), None)
    for k, unit in enumerate(units):
        now[0] = float(k)
        monkeypatch.setattr(os, "write", full)
        packet = av.Packet(unit)
        packet.pts, packet.is_keyframe = k, True
        (frame,) = context.decode(packet)
        stream.packet(packet, k)
        stream.frame(frame, k, None, k)
        assert ("No space left" in stream.failing) == (5 <= k < 9)
    recorder.close()
    assert stream.missed == 4
    assert Recording(tmp_path).ids("cam").tolist() == [k for k in range(30) if not 5 <= k < 9]
    assert [counter(f.planes[0]) for f in Recording(tmp_path).read("cam", 9)] == list(range(9, 30))


def test_after_a_failure_recording_goes_on_with_the_next_key_packet(tmp_path, monkeypatch):
    recorder, units = Recorder(tmp_path), encoded(45, 96, 128, intra=False)
    stream, context, frames = recorder.stream("cam"), _decoder(units), []
    stream.connect(Stream(context), None)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    for k, unit in enumerate(units):
        packet = av.Packet(unit)
        packet.pts, packet.is_keyframe = k, k % 15 == 0
        (frame,) = context.decode(packet)
        frames.append(np.frombuffer(frame.planes[0], np.uint8).copy())
        stream.packet(packet, k)
        if k == 20:
            stream._fail(OSError(28, "No space left on device"), [])
        stream.frame(frame, k, None, k)
    recorder.close()
    read = {f.frame_id: counter(f.planes[0]) for f in Recording(tmp_path).read("cam")}
    assert read == {k: k for k in range(45) if not 20 <= k < 30}
    assert stream.missed == 10


@pytest.mark.requirement("B91")
def test_what_keeps_a_stream_from_being_recorded_is_told_once_and_so_is_its_end(tmp_path, monkeypatch):
    recorder, now = Recorder(tmp_path), [0.0]
    stream = recorder.stream("cam")
    write = os.write
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def full(file, data):
        if 5 <= now[0] < 9:
            raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", full)
    told = {}
    for k in range(30):
        now[0] = float(k)
        planes = (np.full((8, 8), k, np.uint8),)
        stream.pushed(planes, FrameSpec.array((8, 8), np.uint8), k, None, k)
        if news := recorder.news():
            told[k] = news
    recorder.close()
    assert told == {
        5: [f"'cam' is not being recorded in {tmp_path / 'cam'}: No space left on device; its frames go on"],
        15: ["'cam' is being recorded again: 4 frames are missing"],
    }
    assert recorder.warnings == [f"4 frames of 'cam' are not in the recording {tmp_path}: No space left on device"]


def test_two_runs_do_not_record_into_one_folder(tmp_path):
    recorder = Recorder(tmp_path)
    with pytest.raises(SinkError, match="another run records into") as refused:
        Recorder(tmp_path)
    assert refused.value.hint
    recorder.close()
    recorder.close()
    Recorder(tmp_path).close()


def test_two_streams_that_differ_in_their_passwords_only_are_not_recorded_as_one(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.stream("rtsp://a:one@h/x")
    with pytest.raises(SinkError, match=r"two streams are both recorded as 'rtsp://\*\*\*@h/x'"):
        recorder.stream("rtsp://a:two@h/x")
    recorder.close()


def test_a_folder_that_cannot_be_recorded_into_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SinkError, match=r"cannot record into .*file"):
        Recorder(tmp_path / "file")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b'{"version": 99}\n', b'{"version": 1}\n', b"{}\n", b"[1]\n"])
def test_what_another_program_left_is_told_and_stays(tmp_path, content):
    folder = tmp_path / "cam"
    folder.mkdir()
    (folder / "movies.index").write_bytes(content)
    recorder = Recorder(tmp_path)
    if content in {b"", b"PK\x03\x04"}:  # a line that was not written to the end, as a kill may leave it
        assert recorder.stream("cam").next_id == 0
    else:
        with pytest.raises(SinkError, match=r"movies\.index is no index of a recording of version 1"):
            recorder.stream("cam")
        with pytest.raises(SourceError, match=r"cannot read the recording .*movies\.index is no index"):
            Recording(tmp_path).ids("cam")
    recorder.close()
    assert (folder / "movies.index").read_bytes() == content


def test_segments_that_somebody_deletes_do_not_stop_the_recording(tmp_path):
    recorder = Recorder(tmp_path, Keep(segment_seconds=0.0, seconds=1000.0))
    units = encoded(6, 96, 128)
    _record(recorder, units)
    for path in tmp_path.glob("cam/*"):
        if not path.name.endswith(".part"):
            path.unlink()
    _record(recorder, units, first_id=6)
    recorder.close()
    assert recorder.stream("cam").missed == 0
    assert Recording(tmp_path).ids("cam").tolist()[-6:] == list(range(6, 12))


@pytest.mark.parametrize("name", ["x" * 96, "カメラ" * 32, "/" * 96, "a~b"])
def test_streams_of_any_name_are_recorded_and_found_again(tmp_path, name):
    recorder = Recorder(tmp_path)
    _record(recorder, encoded(3, 96, 128), name=name)
    _record(recorder, encoded(3, 96, 128), name=name[:-1] + "2")
    recorder.close()
    assert Recording(tmp_path).streams == tuple(sorted((name, name[:-1] + "2")))
    assert Recording(tmp_path).ids(name).tolist() == [0, 1, 2]


def test_segments_stay_in_order_when_the_clock_on_the_wall_steps_back(tmp_path, monkeypatch):
    walls = iter([5_000, 9_000, 1_000, 1_001, 2_000])
    monkeypatch.setattr(module.time, "time_ns", lambda: next(walls))
    for begin in (0, 10, 20):
        recorder = Recorder(tmp_path)
        _record(recorder, encoded(5, 96, 128), first_id=begin)
        recorder.close()
    assert Recording(tmp_path).ids("cam").tolist() == [*range(5), *range(10, 15), *range(20, 25)]


def test_going_on_with_a_long_recording_reads_its_newest_segments_only(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path)
    for k in range(40):
        _record(recorder, encoded(2, 96, 128), first_id=2 * k)
    recorder.close()
    read = []
    monkeypatch.setattr(module, "rows_of", lambda path: read.append(path) or rows_of(path))
    recorder = Recorder(tmp_path)
    assert recorder.stream("cam").next_id == 80
    assert len(read) == 1
    more = _record(recorder, encoded(2, 96, 128), first_id=80)
    recorder.close()
    frames = list(Recording(tmp_path).read("cam", 78))
    assert [frame.frame_id for frame in frames] == [78, 79, *(frame_id for frame_id, *_ in more)]
    assert [frame.epoch for frame in frames] == [39, 39, 40, 40]


SPECS = [
    FrameSpec.picture(6, 10, "rgb24", colour=Colour("bt709", "pc"), rate=Fraction(30_000, 1001)),
    FrameSpec.picture(48, 64, "bgr24"),
    FrameSpec.picture(7, 9, "yuv420p"),
    FrameSpec.picture(32, 48, "yuv422p10le"),
    FrameSpec.picture(16, 16, "gray16le"),
    FrameSpec.picture(5, 3, "rgba"),
    FrameSpec.picture(8, 8, "gbrp"),
    FrameSpec.array((3,), np.float64, names=("a", "b", "c")),
    FrameSpec.array((), np.int32),
    FrameSpec.array((100, 70), np.float32),
    FrameSpec.array((3, 20, 30), np.uint8, layout="NCHW"),
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@given(seed=st.integers(0, 2**32))
def test_pushed_frames_come_back_bit_for_bit(tmp_path_factory, spec, seed):
    folder, random = tmp_path_factory.mktemp("pushed"), np.random.default_rng(seed)
    recorder = Recorder(folder)
    bits = PIXEL_FORMATS[spec.pixel_format].bits if spec.pixel_format else 8 * spec.dtype.itemsize
    frames = []
    for k in range(3):
        planes = []
        for shape in spec.shapes:
            raw = random.integers(0, 256, (int(np.prod(shape)) * spec.dtype.itemsize,), np.uint8)
            plane = raw.view(spec.dtype).reshape(shape)
            planes.append(plane >> np.array(16 - bits, plane.dtype) if 8 < bits < 16 else plane)
        recorder.stream("p").pushed(tuple(planes), spec, 10 + k, None if k else 5, k)
        frames.append(planes)
    recorder.close()
    read = list(Recording(folder).read("p"))
    for k, got in enumerate(Recording(folder).read("p")):
        assert got.spec == spec
        assert (got.frame_id, got.capture_ns, got.arrival_ns) == (10 + k, None if k else 5, k)
        for plane, expected in zip(got.planes, frames[k], strict=True):
            assert plane.tobytes() == expected.tobytes()
            assert plane.shape == expected.shape
    assert len(read) == 3


def test_another_spec_begins_another_segment(tmp_path):
    recorder = Recorder(tmp_path)
    for k, shape in enumerate([(4, 6), (4, 6), (8, 8)]):
        spec = FrameSpec.array(shape, np.uint8)
        recorder.stream("p").pushed((np.full(shape, k, np.uint8),), spec, k, None, k)
    recorder.close()
    frames = [(f.epoch, f.planes[0].shape, int(f.planes[0][0, 0])) for f in Recording(tmp_path).read("p")]
    assert frames == [(0, (4, 6), 0), (0, (4, 6), 1), (1, (8, 8), 2)]


def test_what_was_not_recorded_is_said(tmp_path):
    with pytest.raises(SourceError, match=r"no recording: .* is no folder"):
        Recording(tmp_path / "nowhere")
    recorder = Recorder(tmp_path)
    _record(recorder, encoded(2, 96, 128), name="rtsp://user:secret@camera/1")
    recorder.close()
    (name,) = Recording(tmp_path).streams
    assert name == "rtsp://***@camera/1"
    with pytest.raises(SourceError, match=r"no stream 'cam1' was recorded in .*: there are rtsp://\*\*\*@camera/1"):
        Recording(tmp_path).ids("cam1")
    for path in tmp_path.rglob("*"):
        assert "secret" not in str(path)
        assert path.is_dir() or b"secret" not in path.read_bytes()


def test_restarts_and_connections_count_as_epochs_over_all_runs(tmp_path):
    for run in range(2):
        recorder = Recorder(tmp_path)
        stream, units = recorder.stream("cam"), encoded(4, 96, 128)
        context = _decoder(units)
        stream.connect(Stream(context), None)
        for k, unit in enumerate(units):
            packet = av.Packet(unit)
            packet.pts, packet.is_keyframe = k, True
            (frame,) = context.decode(packet)
            stream.packet(packet, k)
            if k == 2:
                stream.restart()
            stream.frame(frame, 4 * run + k, None, k)
        recorder.close()
    assert [f.epoch for f in Recording(tmp_path).read("cam")] == [0, 0, 1, 1, 2, 2, 3, 3]
