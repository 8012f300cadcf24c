"""Cameras and files replayed live: one thread a stream that only demuxes, decodes and copies.

A `Capture` keeps a stream coming into an `Inlet` until it is closed: it opens, reads, and when the connection ends,
fails or falls silent it makes another one. `Watch` is the one thread that looks at the age of every stream's last
frame, since a read can be kept busy for ever by a camera that sends everything but pictures.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from hyperframes.clock import SystemClock
from hyperframes.errors import HyperframesError, without_credentials
from hyperframes.frames import FrameSpec
from hyperframes.media.endpoint import LOSSES, Connection, Endpoint, reason_of
from hyperframes.media.picture import Lender, picture_spec
from hyperframes.media.senderclock import SenderClock
from hyperframes.packing import LIVE_TIME_BASE
from hyperframes.sources.inlet import Inlet
from hyperframes.sources.patience import Backoff, FrameAge, Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hyperframes.clock import Clock
    from hyperframes.media.recording import StreamRecorder

__all__ = ["Capture", "CaptureStatus", "Watch"]

_TICK_SECONDS: Final = 0.05
_READ_SECONDS: Final = 5.0
"""After which a read that waits gives up by itself, long after the watch gave the connection up."""
_FEW: Final = 3
"""A connection that fell silent after fewer frames may be slow rather than silent."""
_MOST_DOUBT: Final = 5
_MOST_HUNG: Final = 2
"""Readers of one stream that may hang in connections that were given up. Where as many do, the newest goes on listening."""

State = Literal["opening", "streaming", "stale", "waiting", "ended"]


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """What a capture is doing."""

    url: str
    """Without credentials."""
    state: State
    """``stale``: no frame for some periods; ``waiting``: between two tries to connect."""
    frames: int
    """Decoded so far, all connections together."""
    damaged: int
    """Packets that could not be decoded."""
    reconnects: int
    """Connections made anew that brought frames."""
    clock: Literal["capture", "arrival"]
    """Whether the sender tells when its frames were taken."""
    last_error: str
    """Why the last connection ended or could not be made; empty while none has."""


@dataclass(slots=True)
class _Progress:
    """What the connections of one capture hand on to each other."""

    next_id: int
    state: State = "opening"
    frames: int = 0
    damaged: int = 0
    connections: int = 0
    told: bool = False
    """Whether the sender tells its time."""
    spec: FrameSpec | None = None
    age: FrameAge | None = None
    """Of the present connection, while it is live."""
    last_error: str = ""


class _OutOfTurnError(Exception):
    """The stream was handed to another thread, or is closed."""


@dataclass(slots=True)
class _Turn:
    """Whose turn it is to call the inlet. A reader that hangs loses its turn to the next one."""

    inlet: Inlet
    number: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while a frame is on its way into the inlet: who is given up has none in hand."""

    def is_mine(self, number: int) -> bool:
        """Whether the thread of that number may go on."""
        return number == self.number and not self.stop.is_set() and not self.inlet.closed

    @contextlib.contextmanager
    def taken(self, number: int) -> Iterator[Inlet]:
        """Give the inlet for as long as the block runs, or raise `_OutOfTurnError`."""
        with self.lock:
            if not self.is_mine(number):
                raise _OutOfTurnError
            yield self.inlet


class Capture:
    """Brings one live stream into an inlet until closed.

    Parameters
    ----------
    url : str
        As for `Endpoint.of`: RTSP, UDP, TCP, HTTP, a V4L2 device or a file.
    inlet : Inlet
        Takes the frames, in the decoder's own planes; called from one thread at a time.
    clock : Clock, optional
        For durations. The default is the machine's.
    transport : {'tcp', 'udp'}
        What RTSP sends over.
    patience : Patience
        When a silent stream is stale, and when it is connected anew.
    first_id : int
        Number of the first frame; every decoded or damaged frame counts one on.
    since_ns : int, optional
        Unix nanoseconds that the first picture of a file stands for: files replayed side by side share it. The default
        is the time of the first frame.
    watch : Watch, optional
        Who looks at the age of frames; the default is one for all captures of the process.
    wall : callable, optional
        Unix nanoseconds, for arrival times.
    seed : int, optional
        Of the jitter of waits.
    record : StreamRecorder, optional
        Keeps the packets, with the ids and times of their frames, before the inlet has the frames. Ids go on where it
        stopped.
    **options : str
        FFmpeg's options.

    Raises
    ------
    PipelineError
        If an option is unknown. A stream that cannot be opened is no error but is tried again.

    Notes
    -----
    Frames carry the sender's time where the protocol has one (RTP with RTCP sender reports). Where that begins only
    after some frames, the inlet is told to ``restart("clock")``, so that no hyperframe mixes two clocks.
    """

    def __init__(
        self,
        url: str,
        inlet: Inlet,
        clock: Clock | None = None,
        *,
        transport: Literal["tcp", "udp"] = "tcp",
        patience: Patience = Patience(),  # noqa: B008 - a frozen value
        first_id: int = 0,
        since_ns: int | None = None,
        watch: Watch | None = None,
        wall: Callable[[], int] = time.time_ns,
        seed: int | None = None,
        record: StreamRecorder | None = None,
        **options: str,
    ) -> None:
        self.endpoint = Endpoint.of(url, transport=transport, **options)
        self.name = self.endpoint.name
        self._clock, self._wall = clock or SystemClock(), wall
        self._patience, self._since_ns = patience, since_ns
        self._backoff = Backoff(random.Random(seed))
        self._watch = watch or _SHARED
        self._turn = _Turn(inlet)
        self._record = record
        self._progress = _Progress(max(first_id, 0 if record is None else record.next_id))
        self._doubt = 0
        self._threads: list[threading.Thread] = []

    # From outside -----------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start to capture; returns at once."""
        self._begin_turn("")
        self._watch.add(self)
        return self

    def close(self, timeout_seconds: float = 3.0) -> None:
        """End: no call reaches the inlet afterwards. A read that hangs is waited for no longer than that."""
        self._turn.stop.set()
        self._watch.remove(self)
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        self._progress.state = "ended"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def status(self) -> CaptureStatus:
        """Return what the capture is doing now."""
        now, age = self._progress, self._progress.age
        silent = now.state == "streaming" and age is not None and age.judge(self._clock.now_ns()) != "fresh"
        return CaptureStatus(
            self.name,
            "stale" if silent else now.state,
            now.frames,
            now.damaged,
            max(0, now.connections - 1),
            "capture" if now.told else "arrival",
            now.last_error,
        )

    def check(self) -> None:
        """Give the connection up if its last frame is too old; called by the watch."""
        age = self._progress.age
        if age is None or age.judge(self._clock.now_ns()) != "lost":
            return
        if sum(thread.is_alive() for thread in self._threads) > _MOST_HUNG:
            return
        if not self._turn.lock.acquire(blocking=False):
            return  # not silent, but held up by the inlet
        try:
            if self._progress.age is age and not self._turn.stop.is_set():
                self._progress.age = None
                self._begin_turn("silent", age)
        finally:
            self._turn.lock.release()

    def _begin_turn(self, lost: str, age: FrameAge | None = None) -> None:
        """Hand the stream to a new thread; the one before, if any, finds out when its read returns."""
        self._turn.number += 1
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        # Nothing may keep the process from ending: name look-ups and devices can hang without a limit.
        work = (self._turn.number, lost, age)
        thread = threading.Thread(target=self._run, args=work, name=f"capture {self.name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    # The thread of the stream -----------------------------------------------------------------------------------------

    def _run(self, number: int, lost: str, age: FrameAge | None) -> None:
        try:
            reason = lost
            while True:
                if reason:
                    self._wait_after(number, reason, age)
                reason, age = self._connect_and_read(number)
                if not (self.endpoint.live or self.endpoint.loop):
                    break
            self._finish(number, reason)
        except _OutOfTurnError:
            return
        except Exception as error:  # noqa: BLE001 - what ends the thread is the stream's fault to report, not to lose
            with contextlib.suppress(_OutOfTurnError):
                self._finish(number, without_credentials(str(error) or type(error).__name__))

    def _wait_after(self, number: int, reason: str, age: FrameAge | None) -> None:
        """Tell the inlet that the connection is gone, and wait until it is time to try again."""
        if age is not None:
            if age.good:
                self._backoff.reset()
            slow = reason == "silent" and age.num_frames < _FEW
            self._doubt = min(self._doubt + 1, _MOST_DOUBT) if slow else 0
        with self._turn.taken(number) as inlet:
            self._progress.last_error = reason
            self._progress.state = "waiting"
            inlet.lost(reason)
        self._turn.stop.wait(self._backoff.next())

    def _connect_and_read(self, number: int) -> tuple[str, FrameAge | None]:
        """Read one connection to its end; return why it ended, and how it did."""
        if not self._turn.is_mine(number):
            raise _OutOfTurnError
        self._progress.state = "opening"
        # A read that hangs may go on for ever where it is left to the watch to notice: at most one of a stream may be so.
        hangs = any(thread.is_alive() for thread in self._threads if thread is not threading.current_thread())
        try:
            connection = self.endpoint.connect(_READ_SECONDS * 2**self._doubt, watched=not hangs)
        except HyperframesError as error:
            return str(error), None
        with contextlib.closing(connection):
            reader = _Reader(self, connection, number)
            return reader.read(), reader.age

    def _finish(self, number: int, reason: str) -> None:
        with self._turn.taken(number) as inlet:
            failed = reason != "ended"
            self._progress.state = "ended"
            self._progress.last_error = reason if failed else ""
            inlet.end(f"failed: {reason}" if failed else "ended")


class _Reader:
    """The frames of one connection, on their way into the inlet."""

    def __init__(self, capture: Capture, connection: Connection, number: int) -> None:
        self._connection, self._number = connection, number
        self._turn, self._progress = capture._turn, capture._progress
        self._clock, self._wall = capture._clock, capture._wall
        self._sender = SenderClock(Fraction(connection.stream.time_base))
        self._media = None if connection.endpoint.live else _MediaClock(capture, connection)
        self._record = capture._record
        self._lender: Lender | None = None
        self.age = FrameAge(capture._patience, self._clock.now_ns(), connection.rate, capture._doubt)

    def read(self) -> str:
        """Read until the connection ends; return why."""
        with self._turn.taken(self._number):
            if self._media is None:
                self._progress.age = self.age
            if self._record is not None:
                self._record.connect(self._connection.stream, self._connection.rate)
        try:
            for packet in self._connection.packets():
                self._take(packet)
        except LOSSES as error:
            return reason_of(error)
        else:
            return "ended"
        finally:
            with self._turn.lock:
                if self._progress.age is self.age:
                    self._progress.age = None

    def _take(self, packet: Any) -> None:
        """Decode `packet` and give the frames that it completes to the inlet."""
        arrival_ns = self._wall()
        try:
            frames = self._connection.decode(packet)
        except LOSSES:
            frames = None
        if self._record is not None:
            with self._turn.taken(self._number):
                self._record.packet(packet, arrival_ns)
        if frames is None:
            self._count_damaged()
            return
        self._sender.packet(packet)
        for frame in frames:
            if frame.is_corrupt:
                self._count_damaged()
            elif self._media is None:
                self._give(frame, self._sender.capture_ns(frame.pts), arrival_ns)
            else:
                capture_ns = self._media.wait_for(frame.pts)
                self._give(frame, capture_ns, self._wall())

    def _give(self, frame: Any, capture_ns: int | None, arrival_ns: int) -> None:
        turn = self._turn
        with turn.lock:  # as `_Turn.taken` does, but at a third of its cost: this is done for every frame
            if not turn.is_mine(self._number):
                raise _OutOfTurnError
            self._put(turn.inlet, frame, capture_ns, arrival_ns)

    def _put(self, inlet: Inlet, frame: Any, capture_ns: int | None, arrival_ns: int) -> None:
        progress = self._progress
        lender = self._lender
        if lender is None or not lender.fits(frame):
            lender = self._describe(inlet, frame)
        told = capture_ns is not None
        if told is not progress.told:
            if self.age.num_frames:
                self._restart(inlet, "clock")  # no hyperframe may mix two clocks
            progress.told = told
        frame_id = progress.next_id
        progress.next_id += 1
        progress.frames += 1
        if self._record is not None:
            self._record.frame(frame, frame_id, capture_ns, arrival_ns)
        slot = inlet.slot(frame_id=frame_id, capture_ns=capture_ns, arrival_ns=arrival_ns)
        if slot is not None:
            try:
                lender.copy(frame, slot)
            except OSError:  # a colour matrix that swscale does not know
                inlet.drop("corrupt")
            else:
                inlet.push()
        self.age.frame(self._clock.now_ns())

    def _describe(self, inlet: Inlet, frame: Any) -> Lender:
        """Tell the inlet what frames look like: at the first one of a connection, and where that changes."""
        progress = self._progress
        spec = picture_spec(self._connection.stream, frame).replace(
            time_base=LIVE_TIME_BASE, rate=self._connection.rate
        )
        if self._lender is None:
            progress.connections += 1
            progress.state = "streaming"
            if progress.connections > 1:
                inlet.restart("reconnected")
        if progress.spec != spec:
            inlet.open(spec, rate=spec.rate)
            progress.spec = spec
        self._lender = Lender(spec, frame)
        return self._lender

    def _count_damaged(self) -> None:
        progress = self._progress
        with self._turn.taken(self._number) as inlet:
            progress.damaged += 1
            if self._lender is not None:  # before the first frame it only joined in the middle of a group of pictures
                if self._record is not None:
                    self._record.damaged(progress.next_id)
                progress.next_id += 1
                inlet.drop("corrupt")

    def _restart(self, inlet: Inlet, reason: str) -> None:
        if self._record is not None:
            self._record.restart()
        inlet.restart(reason)


class _MediaClock:
    """When the frames of a file are due, and what time they stand for."""

    def __init__(self, capture: Capture, connection: Connection) -> None:
        self._stop, self._clock, self._wall = capture._turn.stop, capture._clock, capture._wall
        self._tick_ns = Fraction(connection.stream.time_base) * 1_000_000_000
        self._paced = connection.endpoint.pace == "own"
        self._since_ns = capture._since_ns
        self._first: tuple[int, int] | None = None

    def wait_for(self, pts: int | None) -> int | None:
        """Wait until the frame of `pts` is due, where frames keep their pace; return its Unix nanoseconds."""
        if pts is None:
            return None
        if self._first is None:
            self._first = (pts, self._clock.now_ns())
            self._since_ns = self._wall() if self._since_ns is None else self._since_ns
        assert self._since_ns is not None
        elapsed_ns = int((pts - self._first[0]) * self._tick_ns)
        if self._paced:
            while (left_ns := self._first[1] + elapsed_ns - self._clock.now_ns()) > 0:
                if self._stop.wait(left_ns / 1e9):
                    break
        return self._since_ns + elapsed_ns


class Watch:
    """One thread that checks any number of captures, for as long as there are some."""

    def __init__(self, tick_seconds: float = _TICK_SECONDS) -> None:
        self._tick_seconds = tick_seconds
        self._lock = threading.Lock()
        self._captures: set[Capture] = set()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, capture: Capture) -> None:
        """Check `capture` from now on."""
        with self._lock:
            self._captures.add(capture)
            if self._thread is None:
                self._wake.clear()
                self._thread = threading.Thread(target=self._run, name="watch of captures", daemon=True)
                self._thread.start()

    def remove(self, capture: Capture) -> None:
        """Check `capture` no longer; the thread ends with the last one."""
        with self._lock:
            self._captures.discard(capture)
            if not self._captures:
                self._wake.set()
                self._thread = None

    def _run(self) -> None:
        while not self._wake.wait(self._tick_seconds):
            with self._lock:
                captures = tuple(self._captures)
                if self._thread is not threading.current_thread():
                    return
            for capture in captures:
                capture.check()


_SHARED: Final = Watch()
