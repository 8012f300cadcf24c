"""One live stream: the inlet that its capture thread writes to, its epochs, and the account of its frames."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from hyperframes.drivers.awake_lock import AwakeLock
from hyperframes.drivers.ledger import Account
from hyperframes.drivers.pushed import MOST, check_stamp
from hyperframes.drivers.room import Room
from hyperframes.errors import FrameError
from hyperframes.packing import LIVE_TIME_BASE, ClockFit, Sequencer, Series
from hyperframes.packing.assemble import SPATIAL_LEAST_NS, USUAL_PERIOD_NS

if TYPE_CHECKING:
    from collections.abc import Sized
    from fractions import Fraction

    from hyperframes.drivers.adapting import Thinning
    from hyperframes.drivers.live_instants import LiveInstants
    from hyperframes.frames import Array, FrameSpec
    from hyperframes.media.recording import StreamRecorder
    from hyperframes.packing import Hyperframe, Packing, SlabPool
    from hyperframes.packing.assemble import Filled

__all__ = ["Host", "Station"]

CLOCK_ERROR_NS = 1_000_000_000
"""A sender's clock further off than this is mapped to ours at once, before it was compared with those of the other streams."""
RATE_ERROR = 0.1
"""Share by which a measured rate must differ from the announced one to be believed: frames that come unevenly differ too."""
CLOCK_STEP_NS = 8_000_000
"""By how much a mapping must be wrong to be changed: a frame or two change their instant then."""
STALE_PERIODS, STALE_LEAST_NS = 3, SPATIAL_LEAST_NS
"""Without a frame for so many periods, and at least as long as an instant waits, a stream is stale: nobody waits for it."""


class Host(Protocol):
    """What a station needs of the run that it belongs to."""

    packing: Packing
    thinning: Thinning
    provisional: bool
    """Whether the first frame of each hyperframe is worked on at once, too."""
    waits: bool
    """Whether a writer waits for room rather than dropping its frame."""

    @property
    def brought(self) -> Sized:
        """What is left to attend to; always the same, and nearly always empty: it is looked at after every frame."""
        ...

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        ...

    def opened(self, station: Station, spec: FrameSpec) -> SlabPool | None:
        """Return the memory for frames of `spec`; None: the run's instants hold it."""
        ...

    def series(self, station: Station, slabs: SlabPool) -> Series:
        """Return a series for the station's epoch that begins."""
        ...

    def sealed(self, station: Station | None, filled: list[Filled], slabs: SlabPool, now_ns: int) -> None:
        """Take what was sealed, in memory of `slabs`; the station's lock is held."""
        ...

    def opens(self, station: Station, first: Hyperframe, slabs: SlabPool, now_ns: int) -> None:
        """Take the first frame of a hyperframe that is not full yet."""
        ...

    def attend(self) -> None:
        """Go on with what was sealed; no lock is held."""
        ...

    def frames_dropped(self, station: Station, frame_id: int, time_ns: int, reason: str, count: int) -> None:
        """Tell observers of frames given up outside a hyperframe."""
        ...

    def stream_is(self, station: Station, state: str, reason: str = "") -> None:
        """Tell observers what became of a stream."""
        ...


class Station:
    """The inlet of one stream; see `hyperframes.sources.inlet.Inlet`.

    Its lock is held to decide where a frame goes and to commit it, never while it is copied. The instants that all stations of
    spatial packing write to have a lock of their own, taken under a station's, only to find the group of a frame and to commit
    to it, so that sequencing and counting of one stream wait for no other.
    """

    # A dict of so many attributes would be asked for each of them, several times for every frame.
    __slots__ = (
        "__weakref__",
        "_attend",
        "_brought",
        "_clock",
        "_ending",
        "_host",
        "_instants",
        "_now_ns",
        "_planes",
        "_rate_ns",
        "_reserved",
        "_room",
        "_sequencer",
        "_series",
        "_shared",
        "_shift_ns",
        "_slabs",
        "_stamp",
        "_taken",
        "_thinning",
        "_usual_ns",
        "_waits",
        "_writing",
        "_writing_stamp",
        "account",
        "closed",
        "epoch",
        "last_frame_ns",
        "last_push_ns",
        "lock",
        "lock_waited_ns",
        "marks",
        "name",
        "over",
        "place",
        "plan",
        "priority",
        "reconnects",
        "record",
        "recorder",
        "span_error_ns",
        "spec",
        "state",
        "trusted",
    )

    def __init__(self, name: str, host: Host, *, priority: int, instants: LiveInstants | None = None) -> None:
        self.name, self.priority = name, priority
        self.account = Account()
        self.place = 0
        """Position on the leading axis of spatial hyperframes."""
        self.lock = threading.Lock()
        self._instants = instants
        self._shared = AwakeLock() if instants is None else instants.lock
        self.spec: FrameSpec | None = None
        self.epoch = -1
        self.reconnects = 0
        self.state = "added"
        self.closed = False
        self.over = False
        """True once its end was told to the run."""
        self.last_frame_ns: int | None = None
        """When the last frame came, taken or not."""
        self.last_push_ns = 0
        """When the last one was written."""
        self.span_error_ns = 0.0
        self.lock_waited_ns = 0
        self.plan: Any = None
        """For frames of `spec`, where hyperframes hold frames of this stream only; the host's."""
        self.record: StreamRecorder | None = None
        """Keeps the frames that are pushed; packets of cameras are kept by their capture."""
        self.recorder: StreamRecorder | None = None
        """Keeps either."""
        self.trusted = False
        """Whether its times are comparable with those of the other streams, however far off."""
        self.marks: list[tuple[int, int]] = []
        """(time, captured) now and then, for the rate."""
        self._host, self._now_ns, self._attend, self._brought = host, host.now_ns, host.attend, host.brought
        self._series: Series | None = None
        self._slabs: SlabPool | None = None
        self._reserved: Any = None
        self._planes: tuple[Array, ...] = ()  # given to be written
        self._stamp: tuple[int, int | None, int] = (-1, None, 0)
        self._room = Room() if instants is None else instants.room
        self._thinning = host.thinning
        self._sequencer = Sequencer(lateness_ns=round(host.packing.lateness * 1e9))
        self._clock = ClockFit()
        self._shift_ns: int | None = None  # added to the sender's times; None: they were not compared yet
        self._usual_ns = 0  # what frames of senders that tell their time take from capture to arrival
        self._rate_ns: float | None = None
        self._writing = False
        self._waits = False  # for room
        self._writing_stamp = (-1, -1)
        self._taken = -1  # frames that were not refused; -1 before it was opened
        self._ending = ""

    # What the capture thread calls --------------------------------------------------------------------------------------

    def let_go(self) -> None:
        """Let no writer wait for room any more."""
        self._room.open()

    def open(self, spec: FrameSpec, *, rate: Fraction | None) -> None:
        """Say what the frames to come look like; see `Inlet.open`."""
        spec = spec.replace(time_base=LIVE_TIME_BASE, rate=rate)
        slabs = self._host.opened(self, spec)  # may take a while: the plan is made for it
        if self._host.waits and slabs is not None:
            slabs.on_free = self._room.freed
        with self.lock:
            changed = self.spec is not None and not self.spec.same_arrays(spec)
            self.spec, self._slabs = spec, slabs
            self._rate_ns = float(1e9 / rate) if rate else None
            if self._sequencer.period_ns is None or changed:
                self._sequencer.period_ns = self._rate_ns
            if self._taken < 0 or changed:
                self._begin_epoch("change")
                self._taken = max(0, self._taken)
            before, self.state = self.state, "connected"
            self._there(True)
        self._host.stream_is(self, "reconnected" if before == "lost" else "connected")
        self._host.attend()

    def slot(self, *, frame_id: int | None, capture_ns: int | None, arrival_ns: int) -> tuple[Array, ...] | None:
        """Return where the next frame goes; see `Inlet.slot`."""
        if (frame_id is not None and not 0 <= frame_id < MOST) or (
            capture_ns is not None and not -MOST < capture_ns < MOST
        ):
            check_stamp(self.name, frame_id, capture_ns)
        now_ns = self._now_ns()
        with self.lock:
            if self._writing:
                self._give_up("unwritten")
            if self.spec is None or self.closed:
                self._refuse(-1, arrival_ns, "cancelled" if self.closed else "unmatched")
                return None
            time_ns, sender = arrival_ns, False
            if capture_ns is not None:
                time_ns, sender = capture_ns, True
                self._clock.add(capture_ns, arrival_ns)
            sequencer = self._sequencer
            verdict = sequencer.judge(frame_id, time_ns, sender=sender)
            if self.state != "connected":
                self._is_back()
            self.last_frame_ns = now_ns
            if verdict == "restart":
                self._clock.forget()
                self._shift_ns = None
                self._begin_epoch("restart")
            elif verdict:
                self._refuse(-1 if frame_id is None else frame_id, time_ns, verdict)
                return None
            frame_id, time_ns = sequencer.frame_id, sequencer.time_ns
            self._taken += 1
            every = self._thinning.every
            if every > 1 and self._taken % every:
                self._refuse(frame_id, time_ns, "degraded")
                return None
            seen = self._room.count  # before the search: memory given back meanwhile must not be missed
            slot = self._find_slot(frame_id, time_ns, now_ns, sender=sender)
            if isinstance(slot, str):
                while slot == "queue_full" and self._host.waits and self._wait_for_room(seen):
                    seen = self._room.count
                    slot = self._find_slot(frame_id, time_ns, now_ns, sender=sender)
                if isinstance(slot, str):
                    self._refuse(frame_id, time_ns, "cancelled" if self._is_let_go() else slot)
                    return None
            self.account.take()
            self._planes, self._stamp = slot, (frame_id, capture_ns, arrival_ns)
            self._writing, self._writing_stamp = True, (frame_id, time_ns)
            return slot

    def push(self) -> None:
        """Take the frame written; see `Inlet.push`."""
        if self.record is not None and self._planes and self.spec is not None:
            self.record.pushed(self._planes, self.spec, *self._stamp)  # before anybody can act on it
        now_ns = self._now_ns()
        with self.lock:
            if not self._writing:
                if self.over:  # the run stopped meanwhile, and counted the frame
                    return
                raise FrameError(f"stream {self.name!r}: push without a slot")
            self._writing = False
            self.last_push_ns = now_ns
            series = self._series
            if series is None:
                instants, place = self._reserved
                shared = self._shared
                if not shared.acquire_now():
                    self._wait_for_shared()
                try:
                    if filled := instants.push(place, self.epoch):
                        assert self._instants is not None  # it has no series
                        self._instants.take(instants, filled, now_ns)
                finally:
                    shared.release()
            else:
                opens = series.opened_ns is None
                if opens:
                    series.period_ns = self.period_ns
                if filled := series.push(now_ns):
                    self._host.sealed(self, filled, series.packer.slabs, now_ns)
                if opens and self._host.provisional and (first := series.packer.first()) is not None:
                    self._host.opens(self, first, series.packer.slabs, now_ns)
            if self._ending:
                self._end()
        if self._brought:
            self._attend()

    def drop(self, reason: str, count: int = 1) -> None:
        """Count frames that get no slot; see `Inlet.drop`."""
        with self.lock:
            if self._writing:
                self._give_up(reason)
                return
            self._sequencer.skip(count)
            self._refuse(-1, -1, reason, count)

    def lost(self, reason: str) -> None:
        """Say that the connection is gone, or that there is none yet; see `Inlet.lost`."""
        with self.lock:
            self.state = state = "unreachable" if self.spec is None else "lost"
            self._there(False)
        self._host.stream_is(self, state, reason)

    def restart(self, reason: str) -> None:
        """Begin a new epoch with the next frame; see `Inlet.restart`."""
        with self.lock:
            self._give_up("unwritten")
            self.reconnects += reason == "reconnected"
            self._begin_epoch("restart")
            before, self.state = self.state, "connected"
            self._there(True)
        self._host.stream_is(self, "reconnected" if before in {"lost", "stale"} else "connected", reason)
        self._host.attend()

    def end(self, reason: str) -> None:
        """Say that no frame follows; see `Inlet.end`. Anybody may call it: a frame being written is waited for."""
        with self.lock:
            self.closed = True
            self._ending = self._ending or reason
            if not self._writing:
                self._end()
        self._host.attend()

    # What the run calls -------------------------------------------------------------------------------------------------

    @property
    def period_ns(self) -> float:
        """Between two frames: measured, else as announced, else that of 30 frames a second."""
        return self._sequencer.period_ns or self._rate_ns or USUAL_PERIOD_NS

    @property
    def nominal_period_ns(self) -> float:
        """Between two frames: as announced, where what is measured does not contradict it."""
        measured, announced = self.period_ns, self._rate_ns
        return announced if announced and abs(measured - announced) < RATE_ERROR * announced else measured

    @property
    def drift_ppm(self) -> float | None:
        """How much faster the sender's clock runs than ours; None where it is not known."""
        return self._clock.drift_ppm

    @property
    def deadline_ns(self) -> int | None:
        """When the hyperframe being filled is to be sealed."""
        series = self._series
        return None if series is None else series.deadline_ns

    @property
    def delay_ns(self) -> int | None:
        """The shortest time from a frame's capture by the sender's clock to its arrival by ours; None where it does not tell."""
        return None if self.trusted or self.closed or not self._clock.settled else self._clock.offset_ns

    def compare_clock(self, usual_ns: int, tolerance_ns: int) -> None:
        """Map the sender's times so that its delay is the usual one, where it differs by more than is waited for.

        Otherwise every frame would be late, or those of all others: a clock that is wrong, or a way that is longer. Frames
        whose sender does not tell its time are taken to have been on their way for as long as is usual.
        """
        if abs(usual_ns - self._usual_ns) >= CLOCK_STEP_NS:
            self._usual_ns = usual_ns
        delay = self._clock.offset_ns if self._clock.settled else None
        if delay is None:
            self._shift_ns = None
            return
        shift = delay - usual_ns
        before = self._shift_ns
        if abs(shift) <= tolerance_ns * (1 if not before else 0.5):  # once mapped it stays so for longer
            shift = 0
        if before is None or abs(shift - before) >= CLOCK_STEP_NS:
            self._shift_ns = shift

    def fps(self, now_ns: int) -> float:
        """Return the frames a second of the last 2 s; it falls to 0 when none come."""
        if not self.marks:
            return 0.0
        then, captured = self.marks[0]
        return (self.account.captured - captured) / max(1, now_ns - then) * 1e9

    def due(self, now_ns: int) -> None:
        """Seal what is due by now."""
        with self.lock:
            if self._series is not None:
                self._pass_on(self._series.due(now_ns), now_ns)

    def event(self, now_ns: int) -> None:
        """Take note of an event."""
        with self.lock:
            if self._series is not None:
                self._pass_on(self._series.event(now_ns), now_ns)
        self._host.attend()

    def watch(self, now_ns: int) -> None:
        """Notice that no frames come any more: what is there is sealed, and nobody waits for the stream."""
        last = self.last_frame_ns
        if last is None or self.state not in {"connected", "lost"} or self.closed:
            return
        longest_ns = max(STALE_PERIODS * self.period_ns, STALE_LEAST_NS)
        if self._host.waits:  # who waits for others, here or on its way here, is not gone
            packing = self._host.packing
            longest_ns = max(longest_ns, packing.timeout_ns(self.period_ns, packing.instants))
        if now_ns - last < longest_ns or self._waits:
            return
        with self.lock:
            if self._writing:
                return
            was, self.state = self.state, "stale" if self.state == "connected" else "lost"
            self._there(False)
            if self._series is not None and self._series.packer.num_open and not self._series.packer.num_ready:
                self._begin_epoch("stale")  # its halo will not come soon: the boundary stands in
        if was == "connected":
            self._host.stream_is(self, "stale")

    def resize(self, size: int) -> None:
        """Let hyperframes own `size` frames from now on, at most what their slabs have room for."""
        with self.lock:
            if self._series is not None:
                self._series.packer.size = size

    # Under the lock -----------------------------------------------------------------------------------------------------

    def _wait_for_shared(self) -> None:
        """Take the lock of the instants, which somebody has."""
        began = time.perf_counter_ns()
        self._shared.acquire()
        self.lock_waited_ns += time.perf_counter_ns() - began

    def _wait_for_room(self, seen: int) -> bool:
        """Wait until memory is given back more than `seen` times, the lock let go meanwhile; return whether to try again."""
        if self._is_let_go():
            return False
        self._waits = True
        self.lock.release()
        try:
            self._room.wait(seen)
        finally:
            self.lock.acquire()
            self._waits = False
        return not self._is_let_go()

    def _is_let_go(self) -> bool:
        """Whether nobody waits here any more; a stream that is closed has no place to look at, either."""
        return self.closed or self._room.is_open

    def _find_slot(self, frame_id: int, time_ns: int, now_ns: int, *, sender: bool) -> tuple[Array, ...] | str:
        series = self._series
        if series is None:
            shift_ns = self._shift_ns
            if not sender or shift_ns is None:
                time_ns = self._on_our_clock(time_ns, sender=sender)
            elif not self.trusted:
                time_ns += shift_ns
            shared = self._shared
            if not shared.acquire_now():
                self._wait_for_shared()
            try:
                assert self._instants is not None  # it has no series
                instants = self._instants.current
                self._reserved = (instants, self.place)  # streams may be added or removed before it is written
                return instants.slot(self.place, frame_id, time_ns, now_ns, sender=sender)
            finally:
                shared.release()
        packer = series.packer
        if not sender:
            packer.clock = "arrival"
        elif packer.clock != "capture" and not packer.num_open:
            packer.clock = "capture"
        numbered = self._sequencer.numbered
        if numbered is not series.key_is_id:
            series.order_by(ids=numbered)
        return series.slot(frame_id, time_ns, frame_id if numbered else time_ns)

    def _on_our_clock(self, time_ns: int, *, sender: bool) -> int:
        if self.trusted:
            return time_ns
        if not sender:
            return time_ns - self._usual_ns
        offset = self._clock.offset_ns or 0  # it was not compared yet
        return time_ns if abs(offset) < CLOCK_ERROR_NS else time_ns + offset

    def _is_back(self) -> None:
        was, self.state = self.state, "connected"
        self._there(True)
        self._host.stream_is(self, "reconnected" if was == "lost" else "recovered")

    def _there(self, there: bool) -> None:
        if self._instants is not None and self.spec is not None and not self.over:
            with self._shared:
                instants = self._instants.current
                self._instants.take(instants, instants.present(self.place, there), self._host.now_ns())

    def _begin_epoch(self, reason: str) -> None:
        self._finish(reason)
        if self._instants is not None and not self.over:  # else it has no place any more
            with self._shared:
                instants = self._instants.current
                self._instants.take(instants, instants.restart(self.place), self._host.now_ns())
        self.epoch += 1
        if self._slabs is not None:
            self._series = self._host.series(self, self._slabs)

    def _finish(self, reason: str) -> None:
        series, self._series = self._series, None
        if series is not None and (sealed := series.finish(reason)):
            self._host.sealed(self, sealed, series.packer.slabs, self._host.now_ns())

    def _pass_on(self, sealed: list[Filled], now_ns: int) -> None:
        if sealed and self._series is not None:
            self._host.sealed(self, sealed, self._series.packer.slabs, now_ns)

    def _end(self) -> None:
        if self.over:
            return
        self._finish("end")
        self._there(False)
        self.over = True
        self.state = "removed" if self._ending == "removed" else "ended"
        self._host.stream_is(self, self.state, self._ending)

    def abandon(self) -> None:
        """End although a frame may be half written: whoever wrote it is gone."""
        with self.lock:
            self._give_up("unwritten")
            self.closed = True
            self._ending = self._ending or "ended"
            self._end()

    def _give_up(self, reason: str) -> None:
        """Take back a slot that was given and not pushed."""
        if not self._writing:
            return
        self._writing = False
        self.account.drop(reason)
        self._host.frames_dropped(self, *self._writing_stamp, reason, 1)
        if self._series is None:
            instants, place = self._reserved
            with self._shared:
                assert self._instants is not None  # it has no series
                self._instants.take(instants, instants.give_up(place), self._host.now_ns())

    def _refuse(self, frame_id: int, time_ns: int, reason: str, count: int = 1) -> None:
        self.account.refuse(reason, count)
        self._host.frames_dropped(self, frame_id, time_ns, reason, count)
