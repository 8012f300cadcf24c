"""The live driver: many streams, one latency budget, every frame accounted for.

Threads: one a stream that writes its frames (`Station`), the workers, one that hands results over, and one that watches the
time. What follows a seal (queue, expiry, the scheduler's instructions: `Dispatch`) is done by one of them at a time, see
`Coordinator`. Between them stand bounded queues; none waits for a slower one but by ``when_full="block"``.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from hyperframes.clock import Clock, SystemClock
from hyperframes.drivers.adapting import Adapting
from hyperframes.drivers.coordinator import Coordinator
from hyperframes.drivers.crew import ThreadCrew
from hyperframes.drivers.dispatch import Dispatch
from hyperframes.drivers.entry import Entry
from hyperframes.drivers.feeders import Feeder, feeder_for
from hyperframes.drivers.ledger import total_of
from hyperframes.drivers.live_clocks import compare_clocks
from hyperframes.drivers.live_config import check_run, preset_packing
from hyperframes.drivers.live_instants import LiveInstants
from hyperframes.drivers.live_memory import live_slabs
from hyperframes.drivers.live_plans import LivePlan, Plans, check_spatial, refuse_unfit
from hyperframes.drivers.live_results import HandingOver, LiveResult
from hyperframes.drivers.live_resuming import Resuming
from hyperframes.drivers.live_tally import Tally, stream_stats
from hyperframes.drivers.live_tempo import Tempo
from hyperframes.drivers.pushed import check_stream, is_like, planes_of, spec_of, stamp_of
from hyperframes.drivers.station import Station
from hyperframes.errors import PipelineError, without_credentials
from hyperframes.frames import FrameSpec, Spec, copy_planes
from hyperframes.instruments import Instrument, Observers
from hyperframes.packing import Packer, Packing, Series, SlabPool, slab_capacity
from hyperframes.packing.assemble import USUAL_PERIOD_NS
from hyperframes.pipeline import Pipeline

if TYPE_CHECKING:
    from types import TracebackType

    from hyperframes.drivers.crew import Crew
    from hyperframes.drivers.replay import Rebuilt
    from hyperframes.frames import Array
    from hyperframes.media.recording import Recorder
    from hyperframes.packing import Hyperframe
    from hyperframes.packing.assemble import Filled

__all__ = ["LiveResult", "LiveRuntime", "WhenFull"]

WhenFull = Literal["drop_newest", "drop_oldest", "block", "degrade"]
SHORTEST_SLEEP_NS = 500_000
LATENCY_SLEEP_NS = 20_000_000
"""Longest sleep where hyperframes are sealed by what they would still take, which changes."""
WATCH_NS = 50_000_000
MARK_NS, RATE_MARKS = 250_000_000, 8
"""How often frames are counted, and how many counts are kept: frames a second are measured over 2 s."""
UNBOUNDED = 1 << 30
"""Hyperframes in the queue where writers wait: the memory of the streams is the bound."""


class LiveRuntime:
    """Packs live frames into hyperframes, runs operators on them, and hands over one result a frame.

    Parameters
    ----------
    sources : mapping of name to source, sequence of sources, or source, optional
        URLs and devices, or what `hyperframes.open` takes (replayed); more may come by `add_source` or `feed`.
    packing : Packing or str, optional
        How frames become hyperframes; or a preset: ``latency-first``, ``balanced``, ``throughput-first``. With a latency and
        no size, the size follows from the budget, and goes on to follow from how long operators are seen to take.
    operator : operator or sequence of operators, optional
        As for `hyperframes.run`. None: results have no value, only who and when.
    on_result : function or sequence of functions, optional
        Called with a `LiveResult` for each frame, in order within each stream, by one thread. What it raises is counted
        and told to instruments; nothing stops for it. Its method `settle`, if it has one, is called after each hyperframe,
        before that counts as delivered.
    queue : int, optional
        Hyperframes that may wait; default: what arrives in the time that the budget leaves (W4), and one a stream.
    when_full : {"drop_oldest", "drop_newest", "block", "degrade"}
        What happens then. ``block``: whoever writes frames waits. ``degrade``: first every second frame is given up, then
        hyperframes get smaller, then they hold one frame; one step back up at a time when it is calm again.
    ttl : float, optional
        Age in seconds, counted from its first frame, at which a hyperframe that waits is given up; default: what the
        latency budget leaves beside the operators, at most 1 s; without a budget 1 s after it is sealed at the latest;
        never where writers wait (``when_full="block"``).
    on_gap : {"reset", "keep"}
        What sequential operators do with their state where frames are missing between hyperframes.
    workers : int
        Hyperframes worked on at once: one consumer a device is usually best.
    join : int
        Ready hyperframes that a worker takes in one go; where operators look at one frame at a time, in one call.
    provisional : bool
        Whether the first frame of each hyperframe also gets a result at once, marked as provisional; for temporal packing
        and operators that look at one frame at a time.
    pace : {"real", "flat"}
        Whether sources that are files are replayed at their own pace or flat out.
    instruments : tuple of Instrument
        Told what happens, see `hyperframes.instruments`.
    options : mapping, optional
        Fields of `Options` that change results: boundary, pixel_format, dtype, layout.
    recorder : Recorder, optional
        Keeps what comes in: packets of cameras as they are, other frames without loss (FFV1, by whoever pushes them).
    resume : iterable of Rebuilt
        What an earlier run had sealed and not brought to an end (`hyperframes.drivers.replay.unfinished`): worked on by
        `start`, before any new frame, under its old numbers, never given up for lack of room or time; its frames count as
        captured once more.
    run_id : str, optional
        The front of every hyperframe's id; default: made up.
    first_sequence : int
        Number of the first hyperframe, where a journal goes on.
    clock : Clock, optional
        Tells the time.
    crew : Crew, optional
        Runs operators and callbacks; default: threads.

    Examples
    --------
    >>> import numpy as np, hyperframes as hf
    >>> results = []
    >>> with hf.LiveRuntime(packing=hf.Packing(size=4), on_result=results.append, when_full="block") as live:
    ...     for i in range(10):
    ...         _ = live.feed("cam0", np.zeros((4, 6), np.uint8), frame_id=i, timestamp=i / 30)
    >>> [result.frame_id for result in results], live.stats()["sealed"]
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], {'full': 2, 'end': 1})
    """

    def __init__(
        self,
        sources: Any = None,
        *,
        packing: Packing | str | None = None,
        operator: Any = None,
        on_result: Callable[[LiveResult], Any] | Iterable[Callable[[LiveResult], Any]] | None = None,
        queue: int | None = None,
        when_full: WhenFull = "drop_oldest",
        ttl: float | None = None,
        on_gap: Literal["reset", "keep"] = "reset",
        workers: int = 1,
        join: int = 1,
        provisional: bool = False,
        pace: Literal["real", "flat"] = "real",
        instruments: tuple[Instrument, ...] = (),
        options: Mapping[str, Any] | None = None,
        recorder: Recorder | None = None,
        resume: Iterable[Rebuilt] = (),
        run_id: str | None = None,
        first_sequence: int = 0,
        clock: Clock | None = None,
        crew: Crew | None = None,
    ) -> None:
        check_run(when_full=when_full, on_gap=on_gap, pace=pace, queue=queue, workers=workers, join=join, ttl=ttl)
        self.packing = Packing(**preset_packing(packing)) if isinstance(packing, str) else packing or Packing()
        self.id = run_id or uuid.uuid4().hex[:8]
        self.pipeline = Pipeline.of("live", operator, **dict(options or {}))
        self.waits = when_full == "block"
        self.provisional = provisional
        self.when_full: WhenFull = when_full
        self.pace = pace
        self._recorder = recorder
        self._resume = resume
        self._ttl, self._on_gap = ttl, on_gap
        self._workers, self._join, self._first_sequence = workers, join, first_sequence
        self._observers = Observers(instruments)
        self._clock: Clock = clock or SystemClock()
        self.now_ns = self._clock.now_ns
        self._tempo = Tempo(self.packing, workers)
        self._adapting = Adapting(
            self._tempo,
            queue=queue,
            ttl=ttl,
            degrades=when_full == "degrade",
            waits=self.waits,
            there=self._there,
            tell=self._tell,
        )
        self.thinning = self._adapting.thinning
        self._handing_over = HandingOver(on_result, self.now_ns, self._tell, provisional=provisional)
        self._unix_offset_ns = time.time_ns() - time.monotonic_ns() if clock is None else 0
        self._crew: Crew = crew or ThreadCrew()
        self._sources = {name: _Asked(what) for name, what in _named(sources).items()}
        self._coordinator = Coordinator(self.now_ns, self._look_around, self._goes_on, self._failed)
        self.attend, self.brought = self._coordinator.attend, self._coordinator.calls
        self._stations: dict[str, Station] = {}
        self._feeders: dict[str, Feeder] = {}
        self._lock = threading.Lock()  # held to add a stream and to change the state; no other is taken under it
        self._stopping = threading.Lock()  # held by the one who waits for the end
        self._opening = threading.Lock()  # held while workers make ready for a kind of frames
        self._dispatch: Dispatch | None = None
        self._running = workers * join
        self._plans = Plans(self.pipeline, 2 * self._running + 2, self._begin_plan)
        if self.packing.kind != "temporal":
            refuse_unfit(self.pipeline)
        self._instants = None if self.packing.kind == "temporal" else self._make_instants()
        self._resuming = Resuming(self._wait_for_end, self._take_soon, self._running)
        self._tally = Tally(self.packing)
        self._ended = False
        self._fault: Exception | None = None
        self._watched_ns = self._marked_ns = self._look_ns = 0
        self._began_ns = 0
        self._state: Literal["new", "running", "draining", "stopped"] = "new"
        self._over = threading.Event()

    # Life -------------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        streams = ", ".join(without_credentials(name) for name in sorted(self._stations.copy())) or "no streams yet"
        return f"LiveRuntime({streams}; size {self.packing.size or 'auto'}, {self.packing.kind})"

    def start(self) -> Self:
        """Start the threads and the sources."""
        if self._state != "new":
            raise PipelineError(f"this live run is {self._state}: make another one to start again")
        self._state = "running"
        self._began_ns = self.now_ns()
        self._tell("began", run=self.id, settings=self.settings())
        self._crew.begin(lambda wait: self._coordinator.turn(wait=wait))
        asked = [(self._add(name, one.priority, one.epoch), one) for name, one in self._sources.items()]
        self._work_off()
        for station, one in asked:  # all of them are there before the first frame comes
            self._capture(station, one.what, one.options)
        return self

    def _work_off(self) -> None:
        """Work on what was sealed before; its streams that nobody has added yet are there for as long as that takes."""
        added = list[Station]()
        for one in self._resume:
            if self._state != "running" or self._over.is_set():
                return  # what is left stays in the journal as it is
            if one.hyperframe is None:
                self._resuming.note_gone(one)
                continue
            names = one.hyperframe.header.streams
            added += [self._add(name, 0) for name in names if name not in self._stations]
            plan = self._plans.get(one.hyperframe.spec, max(self._adapting.most, one.hyperframe.size))
            if not self._resuming.is_fit(one.hyperframe, plan):
                continue
            self._resuming.work_on(one, tuple(self._stations[name] for name in names), plan, self.now_ns())
        self._resuming.finish()
        for station in added:
            station.end("resumed")

    def _wait_for_end(self, ended: threading.Event) -> None:
        self._crew.wait(ended, None)

    def _take_soon(self, entry: Entry) -> None:
        self._coordinator.post(partial(self._take, entry))

    @property
    def warnings(self) -> list[str]:
        """What users should know: what could not be resumed, was not recorded, and observers that failed."""
        unrecorded = [] if self._recorder is None else self._recorder.warnings
        failed = [f"an observer failed and was left out: {error}" for _, error in self._observers.failures]
        return [*self._resuming.warnings, *unrecorded, *failed]

    def stop(self, *, drain: bool = True, timeout: float | None = 10.0) -> dict[str, Any]:
        """Stop, and return the last stats.

        Parameters
        ----------
        drain : bool
            True: what was captured is sealed, worked on and handed over. False: what has not started is given up as
            ``cancelled``; what runs is finished and handed over.
        timeout : float, optional
            Seconds to drain at most; what is left then is given up.

        Notes
        -----
        Callbacks, operators and sources may call it, too, which are waited for: then nothing more is taken, the stats of
        that moment are returned, and whoever else calls `stop` (or leaves the ``with``) waits for the end.
        """
        with self._lock:
            if self._state in {"new", "stopped"}:
                self._state = "stopped"
                return self.stats()
            self._state = "draining"
        for feeder in tuple(self._feeders.values()):
            feeder.stop()
        if not drain:
            self._coordinator.post(partial(self._cancel, "stopped"))
            self._let_go()
        if self._crew.inside or any(feeder.inside for feeder in tuple(self._feeders.values())):
            return self.stats()  # whoever is waited for cannot wait
        with self._stopping:
            return self._stop(timeout)

    def _stop(self, timeout: float | None) -> dict[str, Any]:
        """Wait for all that is on its way, and end; one thread at a time, and only the first has something to do."""
        if self._state == "stopped":
            return self.stats()
        with self._opening:
            pass  # whoever comes later is refused: the workers are about to end
        for feeder in tuple(self._feeders.values()):
            feeder.join()
        for station in tuple(self._stations.values()):
            station.abandon()
        self._coordinator.post(self._end_of_streams)
        if not self._crew.wait(self._over, timeout):
            self._coordinator.post(partial(self._cancel, "timeout"))
            self._let_go()
            self._crew.wait(self._over, None)
        self._crew.end()
        self._state = "stopped"
        stats = self.stats()
        self._tell("finished", stats=stats)
        if self._fault is not None:
            raise self._fault
        return stats

    def _let_go(self) -> None:
        """Let no writer wait for room any more."""
        if self._instants is not None:
            self._instants.room.open()
        for station in tuple(self._stations.values()):
            station.let_go()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until every source has ended by itself; return whether they have."""
        end = None if timeout is None else time.monotonic() + timeout
        for feeder in tuple(self._feeders.values()):
            feeder.join(None if end is None else max(0.0, end - time.monotonic()))
        return not any(feeder.running for feeder in tuple(self._feeders.values()))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(drain=kind is None)

    # Streams ----------------------------------------------------------------------------------------------------------

    def add_source(self, name: str, what: Any, *, priority: int = 0, epoch: int = 0, **options: Any) -> None:
        """Begin to capture one more stream; before the start: with it.

        Parameters
        ----------
        name : str
            Of the stream, in results and stats.
        what : URL, device, path, array, Source or iterable of frames
            Where frames come from.
        priority : int
            Streams of higher priority go first.
        epoch : int
            Number of its first epoch, where another run had the stream before.
        **options
            For replayed ones `pace` and `rate`; for cameras those of `hyperframes.sources.camera.Capture`.
        """
        if self._state != "new":
            self._capture(self._add(name, priority, epoch), what, options)
        elif name in self._sources:
            raise _is_there(name)
        else:
            self._sources[name] = _Asked(what, priority, epoch, options)

    def _capture(self, station: Station, what: Any, options: Mapping[str, Any]) -> None:
        try:
            feeder = feeder_for(what, station, {"pace": self.pace, **options}, unix_ns=self.unix_ns)
        except BaseException:
            station.end("refused")
            raise
        self._feeders[station.name] = feeder
        feeder.start()

    def remove_source(self, name: str) -> None:
        """Let a stream go; what was captured of it is still worked on."""
        station = self._stations.get(name)
        if station is None or station.closed:
            known = ", ".join(sorted(n for n, s in self._stations.items() if not s.closed)) or "none"
            raise PipelineError(f"no source named {name!r}; known: {known}", got=name)
        feeder = self._feeders.pop(name, None)
        if feeder is not None:
            feeder.stop()
        station.end("removed")

    def inlet(self, name: str, *, priority: int = 0) -> Station:
        """Return the inlet of a stream that somebody else captures, see `hyperframes.sources.inlet.Inlet`."""
        return self._add(name, priority)

    def feed(
        self,
        stream: str,
        frame: Array | tuple[Array, ...],
        *,
        frame_id: int | None = None,
        timestamp: float | None = None,
    ) -> bool:
        """Push one frame of a stream; return whether it was taken. Each stream is fed by one thread at a time.

        Parameters
        ----------
        stream : str
            Name; a new one is added.
        frame : array or tuple of arrays
            The planes; copied at once.
        frame_id : int, optional
            The sender's number.
        timestamp : float, optional
            When it was taken, in seconds of the sender's clock, which runs as fast as ours; default: now. Frames of
            instants that come faster than that are late: give such recordings to `add_source`.

        Raises
        ------
        FrameError
            If the frame, its number or its time is none; it was not counted then.
        PipelineError
            If the run does not take frames: it was not started, or it stops.
        """
        planes = planes_of(frame)
        number, capture_ns = stamp_of(stream, frame_id, timestamp)
        station = self._stations.get(stream)
        if station is None or station.over or station.spec is None or not is_like(station.spec, planes):
            spec = spec_of(planes)
            if station is None or station.over:
                station = self._add(stream, 0)
            station.open(spec, rate=None)
        slot = station.slot(frame_id=number, capture_ns=capture_ns, arrival_ns=self.unix_ns())
        if slot is None:
            return False
        copy_planes(slot, planes)
        station.push()
        return True

    def event(self, stream: str | None = None) -> None:
        """Tell that something happened: seal what is there, or start a hyperframe, as ``packing.event`` says."""
        now = self.now_ns()
        if self._instants is not None:
            self._instants.event(now)
            self.attend()
            return
        for station in tuple(self._stations.values()):
            if stream in {None, station.name}:
                station.event(now)

    def _add(self, name: str, priority: int, epoch: int = 0) -> Station:
        check_stream(name)
        with self._lock:
            if self._state == "new":
                raise PipelineError(
                    "the live run was not started: it takes no streams yet", hint="Call start(), or use it in a with."
                )
            if self._state != "running":
                raise self._takes_nothing()
            old = self._stations.get(name)
            if old is not None and not old.over:
                raise _is_there(name)
            station = Station(name, self, priority=priority, instants=self._instants)
            station.epoch = epoch - 1  # it begins with the first frame
            if self._recorder is not None:
                station.record = station.recorder = self._recorder.stream(name)
            if old is not None:
                station.account, station.epoch, station.reconnects = old.account, old.epoch, old.reconnects
            self._stations[name] = station
        if self._instants is not None:
            self._instants.regroup()
        self.stream_is(station, "added")
        return station

    def _takes_nothing(self) -> PipelineError:
        return PipelineError(f"the live run is {self._state}: it takes no frames and no streams any more")

    def _make_instants(self) -> LiveInstants:
        return LiveInstants(
            self,
            there=self._there,
            plan=lambda spec, streams: self._plans.get(spec, self._adapting.most * streams),
            slabs=lambda: self._adapting.most_depth() + self._running,
            ahead_ns=self._tempo.ahead_ns,
        )

    def outputs(self) -> list[dict[str, tuple[str, Spec]]]:
        """Return what results are made of, for each kind of frames seen so far: outputs by name, their kind and spec."""
        return self._plans.outputs()

    # What stations ask (Host) -------------------------------------------------------------------------------------------

    def unix_ns(self) -> int:
        """Return Unix nanoseconds that never run back: the monotonic clock, set once."""
        return self._clock.now_ns() + self._unix_offset_ns

    def opened(self, station: Station, spec: FrameSpec) -> SlabPool | None:
        """Plan for frames of `spec`, once; return the memory that a stream of them gets."""
        if self._instants is not None:
            self._instants.open(station, spec)
            return None
        plan = self._plans.get(spec, self._adapting.most)
        halo = plan.plan.margins[0]
        overtaken = math.ceil(self.packing.lateness * float(spec.rate or 30))  # may wait beyond a full hyperframe
        return live_slabs(spec, slab_capacity(self._adapting.most, halo) + overtaken, self._ring())

    def _ring(self) -> int:
        """Slabs of one stream: enough to fill the queue alone while there are few streams, a fair share later."""
        streams = max(1, len(self._there()))
        depth = self._adapting.most_depth()
        return math.ceil(depth / streams) + self._running + 2

    def _begin_plan(self, plan: LivePlan) -> None:
        if self.packing.kind != "temporal":
            check_spatial(plan.plan)
        if self.provisional and (self.packing.kind != "temporal" or not plan.framewise):
            raise PipelineError(
                "provisional results need temporal packing and operators that look at one frame at a time",
                hint="Leave provisional out, or use a smaller size.",
            )
        with self._opening:
            if self._state != "running":
                raise self._takes_nothing()
            if self._dispatch is None:
                self._dispatch = self._make_dispatch(plan)
                self._coordinator.post(self._dispatch.begin)
            self._prepare(plan)

    def _prepare(self, plan: LivePlan) -> None:
        """Let the workers load and compile before the first frame is taken."""
        assert self._dispatch is not None  # made for the first plan
        ready, errors = threading.Event(), []

        def done(error: BaseException | None) -> None:
            if error is not None:
                errors.append(error)
            ready.set()

        self._dispatch.prepare(plan, done)
        ready.wait()
        if errors:
            raise errors[0]

    def _make_dispatch(self, plan: LivePlan) -> Dispatch:
        return Dispatch(
            self._crew,
            bring=self._coordinator.bring,
            attend=self._coordinator.attend,
            hand_over=self._handing_over.final,
            delivered=self._delivered,
            observe=self._observe,
            now_ns=self.now_ns,
            resource=plan.resource,
            sequential=plan.sequential,
            capacity=UNBOUNDED if self.waits else self._adapting.depth(),
            workers=self._workers,
            join=self._join,
            pads=self._join * self._adapting.most if self.packing.pad and self.packing.kind == "temporal" else 0,
            when_full=self.when_full,
            ttl_ns=self._adapting.ttl_ns(),
            on_gap=self._on_gap,
            first_sequence=self._first_sequence,
        )

    def series(self, station: Station, slabs: SlabPool) -> Series:
        """Return a series for the epoch of a stream that begins."""
        assert station.spec is not None  # it was opened
        station.plan = plan = self._plans.get(station.spec, self._adapting.most)
        packer = Packer(
            station.spec,
            self._adapting.size,
            plan.plan.margins[0],
            slabs,
            stream=station.name,
            plan_id=f"{self.id}/{station.name}/{station.epoch}",
            holds_back=plan.holds_back,
        )
        return Series(packer, self.packing, self._tempo.ahead_ns)

    def sealed(self, station: Station | None, filled: list[Filled], slabs: SlabPool, now_ns: int) -> None:
        """Take what was sealed to the coordinator; the lock of its streams is held, so the order stays."""
        stations: tuple[Station, ...]
        epoch: int | tuple[int, ...]
        for hyperframe, opened_ns, epochs in filled:
            if station is not None and hyperframe.header.kind == "temporal":
                assert station.plan is not None  # made for its series
                stations, plan, epoch = (station,), station.plan, station.epoch
                last_ns, frames = station.last_push_ns, hyperframe.size
            else:
                stations = tuple(self._stations[name] for name in hyperframe.header.streams)
                plan = self._plans.get(hyperframe.spec, self._adapting.most * len(stations))
                there = zip(epochs, stations, strict=True)
                epoch = tuple([one.epoch if number < 0 else number for number, one in there])
                last_ns = max([one.last_push_ns for one in stations])
                frames = int(np.count_nonzero(hyperframe.mask[hyperframe.core]))
            entry = Entry(hyperframe, stations, plan, slabs, epoch, opened_ns, last_ns, now_ns, frames=frames)
            self._coordinator.bring(partial(self._take, entry))

    def opens(self, station: Station, first: Hyperframe, slabs: SlabPool, now_ns: int) -> None:
        """Take the first frame of a hyperframe that is not full yet."""
        assert station.plan is not None  # made for its series
        entry = Entry(first, (station,), station.plan, slabs, station.epoch, now_ns, now_ns, now_ns, frames=1)
        assert self._dispatch is not None  # its stream was opened
        self._coordinator.bring(partial(self._dispatch.first, entry, self._handing_over.first))

    def frames_dropped(self, station: Station, frame_id: int, time_ns: int, reason: str, count: int) -> None:
        """Tell observers of frames given up outside a hyperframe."""
        if self._observers:
            self._tell(
                "frames_dropped",
                stream=station.name,
                epoch=station.epoch,
                frame_ids=np.array([frame_id], np.int64),
                pts=np.array([time_ns], np.int64),
                reason=reason,
                count=count,
            )

    def stream_is(self, station: Station, state: str, reason: str = "") -> None:
        """Tell observers what became of a stream."""
        self._tell(
            "stream",
            stream=station.name,
            state=state,
            reason=without_credentials(reason),
            epoch=station.epoch,
            spec="" if station.spec is None else str(station.spec),
        )
        if state == "connected":
            self._set_depth()
        if station.over:
            self._coordinator.post(partial(self._stream_over, station))

    # The coordinator ----------------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> None:
        """End the run for a bug: otherwise everybody would wait."""
        self._fault = error
        self._let_go()
        self._resuming.let_go()
        self._over.set()

    def _goes_on(self) -> bool:
        """Take note if the run is over; return whether it is not."""
        if self._ended and (self._dispatch is None or (self._dispatch.over and not self._dispatch.handing_over)):
            self._over.set()
        return not self._over.is_set()

    def _look_around(self, now: int) -> int:
        """Do what is due by now; return when to look again."""
        if self._dispatch is not None:
            self._dispatch.tick(now)
        if now >= self._look_ns:
            self._look_ns = self._looked_around(now)
        if self._dispatch is None or self._dispatch.wake_ns is None:
            return self._look_ns
        return min(self._look_ns, self._dispatch.wake_ns)

    def _looked_around(self, now: int) -> int:
        """Seal what is due by now; return when to look again."""
        if self._instants is not None:
            self._instants.due(now)
        else:
            for station in tuple(self._stations.values()):
                at = station.deadline_ns
                if at is not None and at <= now:
                    station.due(now)
        if now - self._watched_ns >= WATCH_NS:
            self._watched_ns = now
            self._watch(now)
        return self._next_look_ns(now)

    def _next_look_ns(self, now: int) -> int:
        """Return when to look around again; what is opened until then is due no earlier."""
        packing, instants, stations = self.packing, self._instants, tuple(self._stations.values())
        if instants is not None:
            found, period_ns = [instants.deadline_ns], instants.period_ns
        else:
            found = [station.deadline_ns for station in stations]
            period_ns = min([station.period_ns for station in stations], default=USUAL_PERIOD_NS)
        times = [self._watched_ns + WATCH_NS, *(at for at in found if at is not None)]
        if packing.trigger == "window":
            times.append(packing.deadline_ns(now, 0, 1, 0) or now)
        elif packing.trigger == "latency":
            times.append(now + LATENCY_SLEEP_NS)
        else:
            times.append(now + packing.timeout_ns(period_ns, self._adapting.size))
        return max(min(times), now + SHORTEST_SLEEP_NS)

    def _watch(self, now: int) -> None:
        for station in tuple(self._stations.values()):
            station.watch(now)
        if self._dispatch is not None:
            self._tally.queue(self._dispatch.waiting)
            self._adapting.climb(self._dispatch, now)
        if now - self._marked_ns >= MARK_NS:
            self._marked_ns = now
            if self._instants is not None:
                self._instants.meet_period()
                compare_clocks(tuple(self._stations.values()), self.packing)
            for message in () if self._recorder is None else self._recorder.news():
                self._tell("warning", message=message)
            for station in tuple(self._stations.values()):
                station.marks.append((now, station.account.captured))
                del station.marks[:-RATE_MARKS]
            self._set_depth()
        self._adapting.tune(self._plans.longest_halo, now)

    def _there(self) -> list[Station]:
        """Return the streams that are not over."""
        return [one for one in tuple(self._stations.values()) if not one.over]

    def _take(self, entry: Entry) -> None:
        """Queue a sealed hyperframe."""
        assert self._dispatch is not None  # its stream was opened
        self._tally.seal(entry, self._adapting.size)
        self._tempo.latencies.add("pack", entry.sealed_ns - entry.opened_ns)
        self._dispatch.sealed(entry)

    def _stream_over(self, station: Station) -> None:
        if self._dispatch is not None and self.packing.kind == "temporal":
            self._dispatch.stream_over(station.name)
        if self._instants is not None and self._state == "running":
            self._instants.regroup()

    def _end_of_streams(self) -> None:
        """Nothing will be sealed any more: the run is over when what is there is done."""
        if self._instants is not None:
            self._instants.finish()
        self._coordinator.post(self._last_stream)

    def _last_stream(self) -> None:
        if self._ended:  # by a stop that was interrupted
            return
        self._ended = True
        if self._dispatch is not None:
            self._dispatch.end()

    def _cancel(self, reason: str) -> None:
        if self._dispatch is not None:
            self._dispatch.cancel(reason)

    # Results ------------------------------------------------------------------------------------------------------------

    def _delivered(self, entry: Entry) -> None:
        """Note how long a hyperframe took, now that its results were handed over."""
        self._tempo.note(entry)
        self._observe("delivered", entry)

    def _set_depth(self) -> None:
        if self._dispatch is not None and not self.waits:
            self._dispatch.set_depth(self._adapting.depth())
            self._dispatch.ttl_ns = self._adapting.ttl_ns()

    # Watching -----------------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return how the run is set, for the journal and for people."""
        packing = {f.name: getattr(self.packing, f.name) for f in dataclasses.fields(self.packing)}
        return {
            **packing,
            "size": self._adapting.most,
            "queue": self._adapting.depth(),
            "when_full": self.when_full,
            "ttl": self._ttl,
            "on_gap": self._on_gap,
            "workers": self._workers,
            "join": self._join,
            "stages": [stage.name for stage in self.pipeline.stages],
            "record": "" if self._recorder is None else str(self._recorder.folder),
            "sources": {name: _named_source(one.what) for name, one in self._sources.items()},
        }

    def stats(self) -> dict[str, Any]:
        """Return the counts of this moment, as ``live --json`` prints them; they add up at every moment.

        ``captured = delivered + sum(dropped.values()) + in_flight``, of each stream and in sum.
        """
        now = self.now_ns()
        stations = tuple(self._stations.values())
        streams = {station.name: stream_stats(station, now) for station in stations}
        dispatch = self._dispatch
        elapsed = max(1, now - self._began_ns)
        busy = 0 if dispatch is None else dispatch.busy_ns
        waited = sum(station.lock_waited_ns for station in stations)
        return {
            "run": self.id,
            **total_of(list(streams.values())),
            "hyperframes": self._tally.hyperframes,
            "partial": self._tally.partial,
            "sealed": dict(self._tally.sealed),
            "streams": streams,
            "latency_seconds": self._tempo.latencies.seconds(),
            "queue": {
                "depth": 0 if dispatch is None else dispatch.waiting,
                "capacity": self._adapting.depth() if dispatch is None else dispatch.depth,
                "mean_depth": self._tally.mean_depth,
            },
            "device": {
                "resource": "compute" if dispatch is None else dispatch.resource,
                "workers": self._workers,
                "busy_share": busy / elapsed / self._workers,
                "failures": 0 if dispatch is None else dispatch.failures,
            },
            "callback_errors": self._handing_over.errors,
            "level": self._adapting.level,
            "lock_wait_share": waited / elapsed,
            "seconds": elapsed / 1e9,
        }

    def _observe(self, kind: str, entry: Entry, **fields: Any) -> None:
        if self._observers:
            now, told = self.now_ns(), entry.told().copy()
            told["kind"], told["ns"], told["unix_ns"] = kind, now, now + self._unix_offset_ns
            told.update(fields)
            self._observers.observe(told)

    def _tell(self, kind: str, **fields: Any) -> None:
        if self._observers:
            now = self.now_ns()
            self._observers.observe({"kind": kind, "ns": now, "unix_ns": now + self._unix_offset_ns, **fields})


class _Asked(NamedTuple):
    """A source that the run begins with."""

    what: Any
    priority: int = 0
    epoch: int = 0
    options: Mapping[str, Any] = {}


def _is_there(name: str) -> PipelineError:
    return PipelineError(f"a source named {name!r} is there already", got=name, hint="Remove it first.")


def _named(sources: Any) -> dict[str, Any]:
    """Return sources by name: mappings as they are, others are called ``cam0``, ``cam1``, ..."""
    if sources is None:
        return {}
    if isinstance(sources, Mapping):
        return dict(sources)
    items = list(sources) if isinstance(sources, list | tuple) else [sources]
    return {f"cam{i}": what for i, what in enumerate(items)}


def _named_source(what: Any) -> str:
    return without_credentials(what) if isinstance(what, str) else type(what).__name__
