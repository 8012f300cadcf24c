"""How a capture gives up a connection and makes another: scripted connections and a clock that the test moves."""

import queue
import threading
from fractions import Fraction
from types import SimpleNamespace

import av
import numpy as np
import pytest
from tests.farm.clip import picture
from tests.farm.inlet import Basket

from hyperframes.clock import ManualClock
from hyperframes.errors import SourceError
from hyperframes.media.endpoint import Endpoint
from hyperframes.sources.camera import Capture, Watch

DAMAGE, END = "damage", "end"


def _frame(index, pts=0, height=96, corrupt=False):
    frame = av.VideoFrame.from_ndarray(picture(index, height, 128), format="rgb24").reformat(format="yuv420p")
    frame.pts = pts
    return SimpleNamespace(real=frame, corrupt=corrupt)


class Packet(SimpleNamespace):
    pts, size, is_keyframe = 0, 1, True

    def has_sidedata(self, kind):
        return kind == "prft" and self.unix_us is not None

    def get_sidedata(self, kind):
        return self.unix_us.to_bytes(8, "little") + bytes(8)


class Connection:
    """Gives what the test puts in its queue; a read waits for it, as one of a silent camera does."""

    rate = Fraction(30)

    def __init__(self, endpoint, watched):
        self.endpoint, self.script, self.closed = endpoint, queue.Queue(), threading.Event()
        self.watched = watched
        self.stream = SimpleNamespace(time_base=Fraction(1, 1000), sample_aspect_ratio=None, codec_context=None)

    def put(self, *items, unix_us=None):
        for item in items:
            self.script.put((item, unix_us))

    def packets(self):
        while True:
            item, unix_us = self.script.get(timeout=10)
            if item == END:
                return
            yield Packet(item=item, unix_us=unix_us, pts=getattr(getattr(item, "real", None), "pts", 0))

    def decode(self, packet):
        if packet.item == DAMAGE:
            raise av.error.InvalidDataError(1094995529, "Invalid data found when processing input")
        if packet.item is None:
            return []
        return [SimpleNamespace(is_corrupt=True) if packet.item.corrupt else packet.item.real]

    def close(self):
        self.closed.set()


@pytest.fixture
def made(monkeypatch):
    """Return the connections made so far; the next ones fail where the test says so."""
    connections = SimpleNamespace(all=[], refuse=[], new=threading.Semaphore(0))

    def connect(endpoint, silence_seconds, *, watched):
        if connections.refuse:
            raise connections.refuse.pop()
        connections.all.append(Connection(endpoint, watched))
        connections.new.release()
        return connections.all[-1]

    monkeypatch.setattr(Endpoint, "connect", connect)
    return connections


class Still(Watch):
    """A watch that looks only when the test does."""

    def add(self, capture):
        pass


def _capture(made, basket, clock=None, **options):
    capture = Capture("rtsp://camera/1", basket, clock or ManualClock(), watch=Still(), seed=0, **options).start()
    assert made.new.acquire(timeout=10)
    return capture


def test_a_read_that_hangs_loses_its_turn_and_its_late_frame_is_never_seen(made):
    basket, clock = Basket(), ManualClock()
    capture = _capture(made, basket, clock)
    made.all[0].put(_frame(1), _frame(2))
    basket.wait(lambda b: len(b.frames) == 2)
    clock.advance(0.12)
    assert capture.status().state == "stale"
    clock.advance(1.3)
    capture.check()
    assert not basket.named("lost"), "not yet"
    clock.advance(0.2)
    capture.check()
    basket.wait(lambda b: b.named("lost"))
    assert basket.named("lost") == [("silent", 2)]
    assert made.new.acquire(timeout=10)
    made.all[0].put(_frame(99))
    assert made.all[0].closed.wait(10), "the reader that hung found out and closed its connection"
    made.all[1].put(_frame(3))
    basket.wait(lambda b: len(b.frames) == 3)
    made.all[1].put(END)
    capture.close()
    assert [f.picture for f in basket.frames] == [1, 2, 3]
    assert [f.frame_id for f in basket.frames] == [0, 1, 2]
    assert basket.named("restart") == [("reconnected", 2)]
    assert capture.status().reconnects == 1


def test_only_one_reader_of_a_stream_may_hang_without_a_limit(made):
    basket, clock = Basket(), ManualClock()
    capture = _capture(made, basket, clock)
    made.all[0].put(_frame(1))
    basket.wait(lambda b: b.frames)
    clock.advance(2)
    capture.check()
    assert made.new.acquire(timeout=10)
    assert [one.watched for one in made.all] == [True, False]
    made.all[0].put(END)
    hung, newest = capture._threads
    hung.join(10)
    assert newest.is_alive()
    made.all[1].put(END)
    assert made.new.acquire(timeout=10)
    assert made.all[2].watched, "nobody hangs any more"
    made.all[2].put(END)
    capture.close()


def test_packets_without_pictures_do_not_keep_a_connection_alive(made):
    basket, clock = Basket(), ManualClock()
    capture = _capture(made, basket, clock)
    made.all[0].put(_frame(1))
    basket.wait(lambda b: b.frames)
    for _ in range(20):
        clock.advance(0.1)
        made.all[0].put(None)
        capture.check()
    assert made.new.acquire(timeout=10)
    for connection in made.all:
        connection.put(END)
    capture.close()
    assert basket.named("lost")[0] == ("silent", 1)


def test_a_capture_that_the_inlet_holds_up_is_not_silent(made):
    held, basket, clock = threading.Event(), Basket(takes=lambda frame_id: frame_id < 1 or held.wait(10)), ManualClock()
    capture = _capture(made, basket, clock)
    made.all[0].put(_frame(1))
    basket.wait(lambda b: b.frames)
    made.all[0].put(_frame(2))
    while not capture._turn.lock.locked():
        pass
    clock.advance(100)
    capture.check()
    held.set()
    basket.wait(lambda b: len(b.frames) == 2)
    made.all[0].put(END)
    capture.close()
    assert "silent" not in [reason for reason, _ in basket.named("lost")]


def test_damage_counts_once_a_picture_is_known_and_takes_a_number(made):
    basket = Basket()
    capture = _capture(made, basket)
    made.all[0].put(DAMAGE, _frame(1), DAMAGE, _frame(0, corrupt=True), _frame(2), END)
    basket.wait(lambda b: b.named("lost"))
    capture.close()
    assert basket.named("drop") == [("corrupt", 1), ("corrupt", 1)]
    assert [f.frame_id for f in basket.frames] == [0, 3]
    assert capture.status().damaged == 3


def test_the_first_frame_with_the_senders_time_begins_an_epoch(made):
    basket = Basket()
    capture = _capture(made, basket)
    made.all[0].put(_frame(1, 0), _frame(2, 33))
    made.all[0].put(_frame(3, 66), _frame(4, 100), unix_us=5_000_000)
    made.all[0].put(_frame(5, 133))
    basket.wait(lambda b: len(b.frames) == 5)
    made.all[0].put(END)
    capture.close()
    assert [f.capture_ns for f in basket.frames] == [None, None, None, 5_000_000_000, 5_033_000_000]
    assert basket.named("restart")[0] == ("clock", 3)


def test_refusals_are_told_without_credentials_and_tried_again(made):
    made.refuse += [SourceError("'rtsp://user:secret@camera/1' cannot be opened: Connection refused") for _ in range(3)]
    basket = Basket()
    capture = _capture(made, basket)
    made.all[0].put(_frame(1))
    basket.wait(lambda b: b.frames)
    made.all[0].put(END)
    capture.close()
    assert [reason for reason, _ in basket.named("lost")][:3] == [
        "'rtsp://***@camera/1' cannot be opened: Connection refused"
    ] * 3


def test_pictures_that_no_format_holds_end_the_stream_with_the_reason(made, monkeypatch):
    monkeypatch.setattr(
        "hyperframes.media.picture.listed_format", lambda name: (_ for _ in ()).throw(ValueError("odd"))
    )
    basket = Basket()
    capture = _capture(made, basket)
    made.all[0].put(_frame(1))
    basket.wait(lambda b: b.named("end"))
    assert basket.named("end") == [("failed: odd", 0)]
    assert capture.status().state == "ended"
    capture.close()


def test_a_stream_that_was_removed_is_read_no_more(made):
    basket = Basket()
    capture = _capture(made, basket)
    made.all[0].put(_frame(1))
    basket.wait(lambda b: b.frames)
    basket.closed = True
    made.all[0].put(_frame(2))
    assert made.all[0].closed.wait(10)
    capture.close()
    assert len(basket.frames) == 1
    assert not basket.named("end")


def test_planes_are_copied_sample_by_sample(made):
    basket = Basket(keep=True)
    capture = _capture(made, basket)
    frame = _frame(7)
    made.all[0].put(frame)
    basket.wait(lambda b: b.frames)
    made.all[0].put(END)
    capture.close()
    expected = frame.real.to_ndarray()
    np.testing.assert_array_equal(basket.planes[0][0], expected[:96])
    assert [p.shape for p in basket.planes[0]] == [(96, 128), (48, 64), (48, 64)]
