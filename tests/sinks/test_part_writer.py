"""Parts encoded at the same time: the same bytes however many, bounded memory, and errors that reach whoever writes."""

import hashlib
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import SinkError
from hyperframes.frames import Clip, FrameSpec
from hyperframes.media.encode import Encoding, PartEncoder, find_codec
from hyperframes.sinks.base import Target
from hyperframes.sinks.part_writer import Lanes, PartWriter
from hyperframes.sinks.parts import completed_parts
from hyperframes.sinks.video import VideoSink

SPEC = FrameSpec.picture(48, 64, "yuv420p", time_base=Fraction(1, 25), rate=Fraction(25))
PART, COUNT = 6, 45
PLENTY = 1 << 30


def clip(start, stop):
    """Texture that moves, with every frame its own."""
    planes = []
    for height, width in SPEC.shapes:
        y, x = np.mgrid[:height, :width]
        planes.append(
            np.stack([(x * 3 + y * 2 + t * 5 + x * y % 7) % 200 + 16 for t in range(start, stop)]).astype(np.uint8)
        )
    return Clip(tuple(planes), np.arange(start, stop), np.arange(start, stop), SPEC)


def opened(path, cores, spare=PLENTY, **options):
    sink = VideoSink(path, part_frames=PART, **options)
    sink.open(Target("frames", "frames", SPEC, COUNT, None, "plan", cores=cores, spare_bytes=spare))
    return sink


def write(path, cores, spare=PLENTY, step=COUNT, **options):
    sink = opened(path, cores, spare, **options)
    for start in range(0, COUNT, step):
        sink.write(clip(start, min(COUNT, start + step)))
    sink.close()
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(("name", "codec"), [("out.mp4", "libx264"), ("out.avi", "mpeg4"), ("out.mkv", "ffv1")])
def test_the_bytes_are_the_same_however_many_parts_are_encoded_at_once(tmp_path, name, codec):
    whole = write(tmp_path / name, 1, 0, codec=codec)
    for cores, spare, step in ((1, PLENTY, 7), (2, PLENTY, COUNT), (16, PLENTY, 1), (16, 5 * SPEC.nbytes, 4)):
        assert write(tmp_path / name, cores, spare, step, codec=codec) == whole


def deliver(sink):
    for t in range(COUNT):
        sink.write(clip(t, t + 1))


@pytest.fixture
def watched(monkeypatch):
    """What encoders did: how many were open and how many frames waited at most; they are held up until told otherwise."""
    lock, seen = threading.Lock(), {"open": 0, "most": 0, "waiting": 0, "longest": 0, "held": threading.Event()}
    seen |= {"enough": COUNT, "full": threading.Event()}
    copied, encode = PartEncoder.copied, PartEncoder.encode
    opens, discard = PartEncoder.open, PartEncoder.discard

    def count(key, most, change):
        with lock:
            seen[key] += change
            seen[most] = max(seen[most], seen[key])
            if seen["waiting"] >= seen["enough"]:
                seen["full"].set()

    def opening(self, file):
        opens(self, file)
        count("open", "most", 1)
        self.counted = True

    def discarding(self):
        discard(self)
        if getattr(self, "counted", False):
            self.counted = False
            count("open", "most", -1)

    def copying(self, planes):
        count("waiting", "longest", 1)
        return copied(self, planes)

    def encoding(self, frame):
        seen["held"].wait()
        encode(self, frame)
        count("waiting", "longest", -1)

    for name, function in {"open": opening, "discard": discarding, "copied": copying, "encode": encoding}.items():
        monkeypatch.setattr(PartEncoder, name, function)
    return seen


@pytest.mark.parametrize(("cores", "spare_frames"), [(1, 1000), (2, 1000), (4, 1000), (4, 300), (16, 20)])
def test_as_many_parts_as_the_cores_have_use_for_are_encoded_at_once_and_no_more_frames_wait(
    tmp_path, watched, cores, spare_frames
):
    sink = opened(tmp_path / "out.mp4", cores, spare_frames * SPEC.nbytes)
    encoding = Encoding.of(find_codec("libx264"), SPEC, part_frames=PART)
    lanes = Lanes.of(encoding, cores, spare_frames * SPEC.nbytes)
    watched["enough"] = min(lanes.frames, lanes.parts * PART)
    writer = threading.Thread(target=deliver, args=(sink,))
    writer.start()
    watched["full"].wait()
    watched["held"].set()
    writer.join()
    sink.close()
    assert -(-watched["enough"] // PART) <= watched["most"] <= lanes.parts
    assert watched["longest"] <= lanes.frames
    assert watched["open"] == watched["waiting"] == 0


@given(
    cores=st.integers(1, 256), spare=st.integers(0, 1 << 36), size=st.sampled_from([(64, 48), (640, 480), (1920, 1080)])
)
def test_waiting_frames_and_further_encoders_stay_within_the_memory_allowed(cores, spare, size):
    spec = FrameSpec.picture(size[1], size[0], "yuv420p")
    encoding = Encoding.of(find_codec("libx264"), spec)
    lanes = Lanes.of(encoding, cores, spare)
    assert 1 <= lanes.parts <= max(1, -(-3 * cores // (2 * encoding.threads)))
    assert lanes.frames >= 1
    assert (lanes.held_frames() - Lanes.of(encoding, 1, 0).held_frames()) * spec.nbytes <= spare
    assert Lanes.of(encoding, cores, 2 * spare).parts >= lanes.parts


def test_an_encoder_that_fails_in_its_thread_ends_the_video_and_what_is_whole_is_kept(tmp_path, monkeypatch):
    encode = PartEncoder.encode

    def failing(self, frame):
        if self._first >= 2 * PART:
            raise SinkError("the encoder is broken")
        encode(self, frame)

    monkeypatch.setattr(PartEncoder, "encode", failing)
    path = tmp_path / "out.mp4"
    sink = opened(path, 4)
    with pytest.raises(SinkError, match="the encoder is broken"):
        deliver(sink)
    sink.abort(keep_parts=True)
    assert [part.number for part in completed_parts(path)] == [0, 1]
    monkeypatch.undo()
    whole = write(tmp_path / "whole.mp4", 1)
    sink = VideoSink(path, part_frames=PART, resume=True)
    sink.open(Target("frames", "frames", SPEC, COUNT, None, "plan", cores=4, spare_bytes=PLENTY))
    assert sink.resume_at == 2 * PART
    sink.write(clip(0, COUNT))
    sink.close()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == whole


def test_a_checkpoint_tells_of_no_part_behind_one_that_is_not_whole(tmp_path, monkeypatch):
    held, finished = threading.Event(), threading.Event()
    finish = PartEncoder.finish

    def finishing(self):
        if self._first == 0:
            held.wait()
        finish(self)
        if self._first == PART:
            finished.set()

    monkeypatch.setattr(PartEncoder, "finish", finishing)
    sink = opened(tmp_path / "out.mp4", 4)
    sink.write(clip(0, 2 * PART))
    finished.wait()
    assert not sink.part_finished
    assert sink.checkpoint().token["parts"] == 0
    held.set()
    sink.settle()
    assert sink.part_finished
    mark = sink.checkpoint()
    assert (mark.token["parts"], mark.wanted) == (2, 2 * PART)
    sink.abort()


def test_giving_up_does_not_wait_for_frames_in_line(tmp_path, monkeypatch):
    encoded, given_up = [], threading.Event()
    encode, discard = PartEncoder.encode, PartWriter.discard

    def slowly(self, frame):
        encoded.append(frame.pts)
        given_up.wait()
        encode(self, frame)

    def discarding(self):
        self._discarded = True
        given_up.set()
        discard(self)

    monkeypatch.setattr(PartEncoder, "encode", slowly)
    monkeypatch.setattr(PartWriter, "discard", discarding)
    sink = opened(tmp_path / "out.mp4", 8)
    sink.write(clip(0, 5))
    sink.abort()
    assert len(encoded) <= 1
    assert not (tmp_path / ".out.mp4.parts").exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hyperframes-part")]
