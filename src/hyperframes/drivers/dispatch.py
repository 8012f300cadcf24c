"""From sealed hyperframes to results: carries out what the scheduler says, live. One thread at a time calls it."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from hyperframes.drivers.execute import Buffer, Carried, GroupRunner, Job, result_of
from hyperframes.drivers.station import Station
from hyperframes.errors import PipelineError
from hyperframes.frames import Clip, FrameSpec, Records
from hyperframes.packing import Hyperframe, SlabPool
from hyperframes.packing.assemble import blank_missing
from hyperframes.plan import Plan, plan_pipeline
from hyperframes.scheduling import Scheduler, StageGraph, StageNode
from hyperframes.scheduling.events import (
    Cancel,
    Done,
    Drop,
    Emit,
    Event,
    Failed,
    Join,
    MemoryFreed,
    Release,
    Sealed,
    Start,
    Stop,
    StreamEnded,
    Task,
    Tick,
    WakeAt,
    WorkerJoined,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.operators import Worker
    from hyperframes.pipeline import Pipeline

__all__ = ["Crew", "Dispatch", "Entry", "LivePlan", "check_spatial", "plan_for", "values_of"]

TTL_NS = 1_000_000_000
"""Nothing that has waited longer is worth working on, whatever the budget (B30)."""


class Crew(Protocol):
    """Who runs operators and callbacks: threads, or a test's virtual time."""

    def begin(self, turn: Callable[[bool], bool]) -> None:
        """Call `turn(wait)` again and again until it returns False."""
        ...

    def start(self, counts: dict[str, int]) -> dict[int, Worker]:
        """Return the workers, by number, `counts` of each resource."""
        ...

    def hand(self, worker: int, task: Callable[[], None], entries: tuple[Entry, ...]) -> None:
        """Run `task` on a worker."""
        ...

    def deliver(self, task: Callable[[], None]) -> None:
        """Run `task` where results are handed over, one after the other."""
        ...

    @property
    def inside(self) -> bool:
        """Whether it is one of these who asks: they are waited for, and cannot wait for the end themselves."""
        ...

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Wait until the coordinator sets `event`; return whether it has."""
        ...

    def end(self) -> None:
        """Let everybody finish what they have, and end."""
        ...


@dataclass(slots=True, eq=False)
class Entry:
    """One hyperframe between its seal and its end."""

    hyperframe: Hyperframe
    stations: tuple[Station, ...]
    plan: LivePlan
    slabs: SlabPool | None
    """Where its memory goes back to; None for memory of its own."""
    epoch: Any
    opened_ns: int
    last_ns: int
    """When its last frame was written."""
    sealed_ns: int
    sequence: int = -1
    frames: int = 0
    """Real frames owned."""
    started_ns: int = 0
    done_ns: int = 0
    handed_ns: int = 0
    job: Job | None = None
    error: BaseException | None = None
    ran_ns: int = -1
    """What its operators took; -1 before they ran."""
    released: bool = False
    dropped: str = ""
    ended: threading.Event | None = None
    """Set at its end, where somebody waits for it: an earlier run had sealed it, and it is never given up for lack of time."""
    _told: dict[str, Any] | None = None

    @property
    def lane(self) -> str:
        """Its stream's name for the scheduler."""
        return self.stations[0].name if self.hyperframe.header.kind == "temporal" else "all streams"

    @property
    def priority(self) -> int:
        """Of its streams: the highest."""
        return max([station.priority for station in self.stations])

    def told(self) -> dict[str, Any]:
        """Return what every observation of it says, with room for its kind and time; made once, to be copied."""
        if self._told is None:
            header, core = self.hyperframe.header, self.hyperframe.core
            ids, pts = header.frame_ids[core], header.pts[core]
            if header.kind == "both":
                ids, pts = ids.reshape(-1, len(self.stations)), pts.reshape(-1, len(self.stations))
            self._told = {
                "kind": "",
                "ns": 0,
                "unix_ns": 0,
                "hyperframe": self.sequence,
                "id": header.id,
                "streams": header.streams,
                "hyperframe_kind": header.kind,
                "frames": self.frames,
                "frame_ids": ids,
                "pts": pts,
                "clocks": (header.clock,) * len(self.stations),
                "epoch": self.epoch,
                "seal_reason": header.seal_reason,
                "gaps": header.gaps,
                "header": header,
                "wait_ns": self.sealed_ns - self.opened_ns,
                "span_error_seconds": max([abs(s.span_error_ns) for s in self.stations]) / 1e9,
            }
        return self._told

    def counts(self) -> list[tuple[Station, int]]:
        """Return how many frames it owns of each stream."""
        mask = self.hyperframe.mask[self.hyperframe.core]
        if len(self.stations) == 1:
            return [(self.stations[0], int(np.count_nonzero(mask)))]
        per_stream = np.count_nonzero(mask.reshape(-1, len(self.stations)), axis=0)
        return [(station, int(n)) for station, n in zip(self.stations, per_stream, strict=True) if n]


@dataclass(slots=True, eq=False)
class LivePlan:
    """The stages for frames of one spec, and the memory for their results."""

    plan: Plan
    spec: FrameSpec
    pools: dict[int, SlabPool] = field(default_factory=dict)
    """By exported port."""

    @property
    def sequential(self) -> bool:
        """Whether a stage carries state."""
        return any(group.sequential for group in self.plan.groups)

    @property
    def holds_back(self) -> bool:
        """Whether a stage returns spans, the last of which comes with the last frame: then that must be known."""
        return any(port.kind == "spans" for port in self.plan.ports)

    @property
    def framewise(self) -> bool:
        """Whether every frame has one result of its own, whatever stands beside it."""
        return not self.sequential and not self.plan.halo.total and all(p.total_rate == 1 for p in self.plan.ports)

    @property
    def resource(self) -> str:
        """Where its hyperframes run: a device if a stage needs one, else where the first stage does."""
        resources = [group.resource for group in self.plan.groups]
        devices = [name for name in resources if name.startswith("device:")]
        return (devices or resources or ["compute"])[0]

    @property
    def ports(self) -> tuple[int, ...]:
        """What is handed over: every output of the last stage."""
        return self.plan.stages[-1].outputs if self.plan.stages else ()


def plan_for(pipeline: Pipeline, spec: FrameSpec, frames: int, results: int, known: Plan | None = None) -> LivePlan:
    """Return the plan of `pipeline` for frames of `spec`, with room for the results of hyperframes of `frames`.

    `known` is the same plan for hyperframes of another size.
    """
    plan = known or plan_pipeline(pipeline, {"source": spec})
    ports = plan.stages[-1].outputs if plan.stages else ()
    groups = tuple(
        dataclasses.replace(
            group, exports=tuple(sorted({*group.exports, *(set(ports) & _made_by(plan, group.stages))}))
        )
        for group in plan.groups
    )
    found = LivePlan(dataclasses.replace(plan, groups=groups), spec)
    for port in sorted({port for group in groups for port in group.exports}):
        out = plan.ports[port].spec
        if isinstance(out, FrameSpec):
            rate, margin = plan.ports[port].total_rate, plan.margins[port]
            capacity = math.ceil(frames * rate) + (rate != 1) + margin.total
            found.pools[port] = SlabPool(out, capacity, results, threading.Lock(), shared=False)
    return found


def _made_by(plan: Plan, stages: tuple[int, ...]) -> set[int]:
    return {port for index in stages for port in plan.stages[index].outputs}


class Dispatch:
    """Queue, expiry, dispatch and delivery of sealed hyperframes.

    Parameters
    ----------
    crew : Crew
        Who runs tasks.
    bring : function
        Leaves a call to whoever calls this next; never runs it at once.
    attend : function
        Carries out what was brought, where nobody is at it.
    hand_over : function
        Hands the results of an entry over, whose operators are done; called where results are handed over.
    delivered : function
        Told afterwards, by the thread that calls this.
    observe : function
        Told what happens.
    now_ns : function
        Tells the time.
    resource : str
        What the workers offer.
    sequential : bool
        Whether each hyperframe of a stream waits for the one before it.
    capacity : int
        Hyperframes that may wait.
    workers, join : int
        Hyperframes worked on at once: workers, times what each takes in one go.
    pads : int
        Frames that every call of the operators gets, filled up where there are fewer; 0: as many as there are.
    when_full : str
        What happens then.
    ttl_ns : int or None
        Age, counted from its first frame, at which a hyperframe that waits is given up; None: `TTL_NS` after its seal.
    on_gap : {"reset", "keep"}
        What sequential operators do with their state after a gap.
    first_sequence : int
        Number of the first hyperframe.
    """

    # A dict of so many attributes would be asked for each of them, tens of times for every hyperframe.
    __slots__ = (
        "__weakref__",
        "_ahead",
        "_attend",
        "_batches",
        "_bring",
        "_cancelled",
        "_carried",
        "_crew",
        "_ending",
        "_expires",
        "_hand_over",
        "_lanes",
        "_note_delivered",
        "_now_ns",
        "_observe",
        "_on_gap",
        "_pads",
        "_runners",
        "_tick_ns",
        "_workers",
        "busy_ns",
        "depth",
        "entries",
        "failures",
        "handing_over",
        "next_sequence",
        "over",
        "overflows",
        "resource",
        "results",
        "running",
        "scheduler",
        "ttl_ns",
    )

    def __init__(
        self,
        crew: Crew,
        *,
        bring: Callable[[Callable[[], None]], None],
        attend: Callable[[], None],
        hand_over: Callable[[Entry], None],
        delivered: Callable[[Entry], None],
        observe: Callable[..., None],
        now_ns: Callable[[], int],
        resource: str,
        sequential: bool,
        capacity: int,
        workers: int,
        join: int,
        pads: int,
        when_full: Literal["drop_newest", "drop_oldest", "block", "degrade"],
        ttl_ns: int | None,
        on_gap: Literal["reset", "keep"],
        first_sequence: int,
    ) -> None:
        self._crew, self._hand_over, self._observe, self._now_ns = crew, hand_over, observe, now_ns
        self._bring, self._attend = bring, attend
        self._on_gap, self._note_delivered = on_gap, delivered
        self.overflows = 0
        """Hyperframes given up because others were not done in time."""
        self.handing_over = 0
        """Hyperframes whose results are on their way."""
        self.ttl_ns = ttl_ns
        self._expires = when_full != "block"  # who waits wants every frame
        self.depth = capacity
        self.results = 2 * workers * join + 2
        self.running = workers * join
        self.scheduler = Scheduler(
            StageGraph((StageNode("live", resource, sequential, ()),)),
            policy="priority_by_index",
            capacity=capacity + self.running,
            results=self.results,
            on_error="continue",
            join={resource: join},
            when_full="drop_newest" if when_full in {"drop_newest", "block"} else "drop_oldest",
            fair=True,
            streams=("",),
            after_failure="gap",
        )
        self.resource = resource
        self.over = False
        self.next_sequence = first_sequence
        self.entries: dict[int, Entry] = {}
        self.busy_ns = 0
        self.failures = 0
        self._pads = pads
        self._batches: dict[tuple[int, int], Batch] = {}
        self._tick_ns: int | None = None
        self._workers = crew.start({resource: workers})
        self._runners: dict[tuple[int, int], GroupRunner] = {}
        self._carried: dict[str, tuple[Any, int, dict[int, Carried]]] = {}  # by stream: epoch, core end, by group
        self._lanes: set[str] = set()
        self._ahead: set[str] = set()  # streams with a first frame on its way
        self._ending: set[str] = set()  # streams that ended, with hyperframes in flight
        self._cancelled = False

    def begin(self) -> None:
        """Give the workers to the scheduler."""
        self._execute(self.scheduler.start())
        for number in self._workers:
            self._step(WorkerJoined(number, self.resource))

    def prepare(self, plan: LivePlan, done: Callable[[BaseException | None], None]) -> None:
        """Let every worker make ready for a plan; `done` is called with what went wrong, once."""
        left = [len(self._workers)]

        def ready(number: int) -> None:
            error: BaseException | None = None
            try:
                self._runner(number, plan).prepare()
            except BaseException as caught:  # noqa: BLE001 - handed to whoever waits
                error = caught
            left[0] -= 1
            if left[0] == 0 or error is not None:
                done(error)

        for number in self._workers:
            self._crew.hand(number, partial(ready, number), ())

    def first(self, entry: Entry, hand_over: Callable[[Entry], None]) -> None:
        """Work on a frame ahead of its hyperframe; one at a time of each stream, beside the queue."""
        if entry.lane in self._ahead or self._cancelled or self.over:
            self._free_input(entry)
            return
        self._ahead.add(entry.lane)
        worker = min(self._workers)
        self.handing_over += 1
        self._crew.hand(worker, partial(self._run_first, entry, worker, hand_over), (entry,))

    def _run_first(self, entry: Entry, worker: int, hand_over: Callable[[Entry], None]) -> None:
        """Run the operators on one frame; where that fails, the hyperframe's own failure will tell."""
        plan, core = entry.plan, entry.hyperframe.header.core
        entry.job = Job(-1, core, None, False, {0: entry.hyperframe})
        for port, pool in plan.pools.items():
            made = tuple(np.empty((1, *shape), pool.spec.dtype) for shape in pool.spec.shapes)
            entry.job.buffers[port] = Buffer(made, *core)
        self._timed((entry,), partial(self._run_one, entry, worker))
        if entry.error is None:
            self._crew.deliver(partial(self._hand, entry, hand_over))
        self._bring(partial(self._first_done, entry))
        self._attend()

    def _first_done(self, entry: Entry) -> None:
        self.handing_over -= 1
        self._ahead.discard(entry.lane)
        self._free_input(entry)

    # Events -----------------------------------------------------------------------------------------------------------

    def sealed(self, entry: Entry) -> None:
        """Queue a hyperframe."""
        if entry.sequence < 0:  # others keep the number that an earlier run gave them
            entry.sequence = self.next_sequence
            self.next_sequence += 1
            entry.hyperframe.header.number(entry.sequence)
        self._observe("sealed", entry)
        if self._cancelled:
            self._end_of_dropped(entry, "cancelled")
            return
        self.entries[entry.sequence] = entry
        lane, size = entry.lane, entry.frames
        self._lanes.add(lane)
        self._observe("queued", entry)
        deadline: int | None = None
        if entry.ended is not None:
            pass
        elif self.ttl_ns is not None:
            deadline = entry.opened_ns + self.ttl_ns
        elif self._expires:
            deadline = entry.sealed_ns + TTL_NS
        self._step(
            Sealed(
                entry.sequence,
                cost=float(size),
                deadline_ns=deadline,
                priority=entry.priority,
                stream=lane,
                frames=max(1, size),
            )
        )

    def stream_over(self, lane: str) -> None:
        """Let go of what a stream's stages carry once its last hyperframe is done; it may come again."""
        self._ending.add(lane)
        self._forget_ended(lane)

    def end(self) -> None:
        """Take note that nothing will be sealed any more."""
        for lane in (*self._lanes, ""):
            if not self.over:
                self._step(StreamEnded(lane))

    def _forget_ended(self, lane: str) -> None:
        """Let go of what a stream's stages carry once its last hyperframe is done."""
        if lane in self._ending and not any(entry.lane == lane for entry in self.entries.values()):
            self._carried.pop(lane, None)
            self._ending.discard(lane)

    def cancel(self, reason: str) -> None:
        """Give up what has not started."""
        if not self.over and not self._cancelled:
            self._cancelled = True
            self._step(Cancel(reason))

    def tick(self, now_ns: int) -> None:
        """Let time pass."""
        if self._tick_ns is not None and now_ns >= self._tick_ns:
            self._tick_ns = None
            self._step(Tick())

    @property
    def wake_ns(self) -> int | None:
        """When `tick` has something to do."""
        return self._tick_ns

    @property
    def waiting(self) -> int:
        """Hyperframes that have not started."""
        metrics = self.scheduler.metrics()
        return metrics.ready + metrics.waiting

    def set_depth(self, depth: int) -> None:
        """Let so many hyperframes wait."""
        self.depth = depth
        self.scheduler.capacity = depth + self.running

    def _step(self, event: Event) -> None:
        self._execute(self.scheduler.step(event, self._now_ns()))

    def _execute(self, instructions: list[Any]) -> None:
        for instruction in instructions:
            match instruction:
                case Start(task, worker, _):
                    self._start((task,), worker)
                case Release(sequence):
                    self._release(sequence)
                case Emit(sequence):
                    self._emit(sequence)
                case Join(tasks, worker):
                    self._start(tasks, worker)
                case Drop(sequence, reason):
                    self._drop(sequence, reason)
                case WakeAt(ns):
                    self._tick_ns = ns
                case Stop():
                    self.over = True

    # Work -------------------------------------------------------------------------------------------------------------

    def _start(self, tasks: tuple[Task, ...], worker: int) -> None:
        entries = tuple([self.entries[task.id] for task in tasks])
        now = self._now_ns()
        for entry in entries:
            entry.started_ns = now
            entry.job = self._job(entry)
            self._observe("started", entry, worker=worker)
        if any(entry.plan.plan.groups for entry in entries):
            self._crew.hand(worker, partial(self._run, tasks, entries, worker), entries)
        else:  # there is nothing to run
            for task, entry in zip(tasks, entries, strict=True):
                self._bring(partial(self._done, task, entry, 0))

    def _job(self, entry: Entry) -> Job:
        header = entry.hyperframe.header
        job = Job(entry.sequence, header.core, header.stream_length, header.end, {0: entry.hyperframe})
        plan = entry.plan.plan
        for port, pool in entry.plan.pools.items():
            slab = pool.lease()
            start, stop = plan.export_range(port, job.core, job.num_frames, first=True, last=True)
            job.buffers[port] = Buffer(slab.planes, start, stop, slab)
        return job

    def _run(self, tasks: tuple[Task, ...], entries: tuple[Entry, ...], worker: int) -> None:
        """Run the operators; this is the worker's thread."""
        for entry in entries:
            blank_missing(entry.hyperframe)
        together = [entry for entry in entries if self._goes_together(entry)]
        if len(together) > 1 or (together and self._pads):
            for group in _by_plan(together):
                self._run_together(group, worker)
        for task, entry in zip(tasks, entries, strict=True):
            if entry.ran_ns < 0:
                self._timed((entry,), partial(self._run_one, entry, worker))
            self._bring(partial(self._done, task, entry, entry.ran_ns))
        self._attend()

    def _timed(self, entries: tuple[Entry, ...], run: Callable[[], None]) -> None:
        began = time.perf_counter_ns()
        error: BaseException | None = None
        try:
            run()
        except BaseException as caught:  # noqa: BLE001 - one hyperframe's failure is its own
            error = caught
        share = (time.perf_counter_ns() - began) // len(entries)
        for entry in entries:
            entry.ran_ns = -1 if error is not None and len(entries) > 1 else share
            entry.error = error if len(entries) == 1 else None

    def _goes_together(self, entry: Entry) -> bool:
        """Whether it may share one call with others: its frames need neither neighbours nor state."""
        return bool(entry.plan.plan.groups) and entry.plan.framewise

    def _run_together(self, entries: list[Entry], worker: int) -> None:
        """Run several hyperframes in one call; where that fails each runs alone, so that one cannot spoil the others."""
        plan = entries[0].plan
        frames = sum(entry.hyperframe.size for entry in entries)
        if self._pads:
            frames = max(frames, self._pads)
        key = (worker, id(plan.plan.stages))
        batch = self._batches.get(key)
        if batch is None or batch.capacity < frames:
            batch = self._batches[key] = Batch(plan, frames)
        runner = self._runner(worker, plan)
        self._timed(tuple(entries), partial(batch.run, entries, frames, runner))

    def _run_one(self, entry: Entry, worker: int) -> None:
        plan, job = entry.plan, entry.job
        assert job is not None  # made when it was started
        if not plan.plan.groups:
            return
        runner = self._runner(worker, plan)
        carried = self._carried_by(entry) if plan.sequential else {}
        for number, group in enumerate(plan.plan.groups):
            if group.sequential and plan.plan.stages[group.stages[0]].sequential:
                runner.run_sequential(job, number, carried.setdefault(number, Carried()))
            else:
                runner.run(job, number)

    def _carried_by(self, entry: Entry) -> dict[int, Carried]:
        """Return what the stream's stages carry; after a gap by the rule."""
        lane, core = entry.lane, entry.hyperframe.header.core
        epoch, stop, carried = self._carried.get(lane, (None, None, {}))
        if epoch != entry.epoch or stop != core[0]:
            kept = {
                number: Carried(state=held.state) if self._on_gap == "keep" else Carried()
                for number, held in carried.items()
            }
            carried = kept
        self._carried[lane] = (entry.epoch, core[1], carried)
        return carried

    def _runner(self, worker: int, plan: LivePlan) -> GroupRunner:
        key = (worker, id(plan.plan.stages))
        if key not in self._runners:
            self._runners[key] = GroupRunner(plan.plan, self._workers[worker])
        return self._runners[key]

    def _done(self, task: Task, entry: Entry, ns: int) -> None:
        entry.done_ns = self._now_ns()
        self.busy_ns += ns
        error = None if entry.error is None else str(entry.error)
        self._observe("done", entry, duration_ns=ns, error=error)
        if entry.error is not None:
            self.failures += 1
            self._step(Failed(task, transient=False))
        else:
            self._step(Done(task, ns))

    def _emit(self, sequence: int) -> None:
        entry = self.entries.pop(sequence)
        if self._ending:
            self._forget_ended(entry.lane)
        self.handing_over += 1
        self._crew.deliver(partial(self._deliver, entry))

    def _deliver(self, entry: Entry) -> None:
        """Hand the results over; this is the delivering thread."""
        self._hand(entry, self._hand_over)
        self._bring(partial(self._delivered, entry))
        self._attend()

    def _hand(self, entry: Entry, hand_over: Callable[[Entry], None]) -> None:
        """Hand results over; what goes wrong, other than in callbacks, is a bug that must end the run."""
        try:
            hand_over(entry)
        except Exception as error:  # noqa: BLE001 - raised again where it ends the run, not only this thread
            self._bring(partial(_again, error))

    def _delivered(self, entry: Entry) -> None:
        self.handing_over -= 1
        self._give_back(entry)
        self._note_delivered(entry)
        self._step(MemoryFreed(1))
        if entry.ended is not None:
            entry.ended.set()

    def _give_back(self, entry: Entry) -> None:
        if entry.job is not None:
            for port, buffer in entry.job.buffers.items():
                if buffer.slab is not None:
                    entry.plan.pools[port].release(buffer.slab)
            entry.job = None

    def _drop(self, sequence: int, reason: str) -> None:
        entry = self.entries[sequence]
        entry.dropped = reason
        self.overflows += reason in {"queue_full", "expired"}
        self._end_of_dropped(entry, reason)

    def _end_of_dropped(self, entry: Entry, reason: str) -> None:
        for station, count in entry.counts():
            station.account.drop(reason, count)
        self._observe("dropped", entry, reason=reason, error=None if entry.error is None else str(entry.error))
        if entry.sequence not in self.entries:
            self._free_input(entry)
        if entry.ended is not None:
            entry.ended.set()

    def _release(self, sequence: int) -> None:
        entry = self.entries[sequence]
        self._free_input(entry)
        if entry.dropped:
            self._give_back(self.entries.pop(sequence))

    def _free_input(self, entry: Entry) -> None:
        slab = entry.hyperframe.slab
        if slab is not None and entry.slabs is not None and not entry.released:
            entry.released = True
            entry.slabs.release(slab)


def _again(error: Exception) -> None:
    raise error


def _by_plan(entries: list[Entry]) -> list[list[Entry]]:
    found: dict[int, list[Entry]] = {}
    for entry in entries:
        found.setdefault(id(entry.plan.plan.stages), []).append(entry)
    return list(found.values())


class Batch:
    """One worker's memory for the frames of several hyperframes in one call, and for their results.

    Parameters
    ----------
    plan : LivePlan
        Framewise.
    capacity : int
        Frames of a call, at most.

    Notes
    -----
    Frames are copied next to each other, and results back to where each hyperframe's belong. Where there are fewer, the
    last frame is repeated and the mask says so.
    """

    def __init__(self, plan: LivePlan, capacity: int) -> None:
        self.plan, self.capacity = plan, capacity
        self._planes = tuple(np.empty((capacity, *shape), plan.spec.dtype) for shape in plan.spec.shapes)
        self._made = {
            port: tuple(np.empty((capacity, *shape), pool.spec.dtype) for shape in pool.spec.shapes)
            for port, pool in plan.pools.items()
        }

    def run(self, entries: list[Entry], frames: int, runner: GroupRunner) -> None:
        """Run the stages on the cores of `entries`, one after the other in memory, `frames` in all."""
        job, bounds = self._joined(entries, frames)
        for number in range(len(self.plan.plan.groups)):
            runner.run(job, number)
        for entry, (start, stop) in zip(entries, bounds, strict=True):
            self._give(job, entry, start, stop)

    def _joined(self, entries: list[Entry], frames: int) -> tuple[Job, list[tuple[int, int]]]:
        ids, pts = np.full(frames, -1, np.int64), np.zeros(frames, np.int64)
        mask = np.zeros(frames, bool)
        planes = tuple(plane[:frames] for plane in self._planes)
        bounds, at = [], 0
        for entry in entries:
            core, header = entry.hyperframe.core, entry.hyperframe.header
            stop = at + entry.hyperframe.size
            for target, plane in zip(planes, entry.hyperframe.core_planes, strict=True):
                np.copyto(target[at:stop], plane)
            ids[at:stop], pts[at:stop] = header.frame_ids[core], header.pts[core]
            mask[at:stop] = entry.hyperframe.mask[core]
            bounds.append((at, stop))
            at = stop
        for target in planes:
            target[at:] = target[at - 1]
            target.flags.writeable = False  # of this view
        whole, first = (0, frames), entries[0].hyperframe
        header = dataclasses.replace(
            first.header, core=whole, read=whole, frame_ids=ids, pts=pts, durations=None, gaps=()
        )
        joined = dataclasses.replace(
            first, header=header, planes=planes, core=slice(*whole), mask=mask, slab=None, offset=0
        )
        job = Job(entries[0].sequence, whole, None, False, {0: joined})
        job.buffers = {port: Buffer(tuple(p[:frames] for p in made), *whole) for port, made in self._made.items()}
        return job, bounds

    def _give(self, joined: Job, entry: Entry, start: int, stop: int) -> None:
        """Hand an entry its share of the results."""
        job = entry.job
        assert job is not None  # made when it was started
        first = job.core[0]
        for port, buffer in job.buffers.items():
            for target, made in zip(buffer.part(job.core), joined.buffers[port].part((start, stop)), strict=True):
                np.copyto(target, made)
        for port, parts in joined.rows.items():
            job.rows[port] = [(0, [_shifted(row, start, stop, first - start) for _, rows in parts for row in rows])]
        for port, kept in joined.kept.items():
            job.kept[port] = kept[start:stop]


def _shifted(row: Any, start: int, stop: int, by: int) -> Any:
    """Return the records of frames [start, stop), counted from elsewhere."""
    index, ends, columns, pts = row
    held = (index >= start) & (index < stop)
    return (
        index[held] + by,
        None if ends is None else ends[held] + by,
        {name: column[held] for name, column in columns.items()},
        None if pts is None else pts[held],
    )


def check_spatial(plan: Plan) -> None:
    """Refuse stages that need neighbours in time or state, where a hyperframe holds one instant of many streams.

    Raises
    ------
    PipelineError
        Naming the stage.
    """
    for stage in plan.stages:
        if stage.halo.total or stage.sequential:
            needs = (
                "carries state"
                if stage.sequential
                else f"reads {stage.halo.before} + {stage.halo.after} frames around its own"
            )
            raise PipelineError(
                f"stage {stage.name!r} {needs}: spatial hyperframes hold instants of several streams, "
                "in which frames of one stream are no neighbours",
                stage=stage.name,
                hint="Use --kind temporal.",
            )
    for port in plan.ports:
        if port.total_rate != 1:
            raise PipelineError(
                f"{port.name!r} has {port.total_rate} results a frame: spatial hyperframes need exactly one",
                stage=port.name,
                hint="Use --kind temporal.",
            )


def values_of(entry: Entry) -> tuple[list[Any], list[bool] | None]:
    """Return one value for each frame that an entry owns, and which frames operators left out (None: none).

    Several outputs make a dict by name. Pictures are lent: views that are good until they are given back. Other arrays
    are copies; of records, the columns' rows of the frame.
    """
    start, stop = entry.hyperframe.header.core
    if not entry.plan.ports:
        return [None] * (stop - start), None
    plan, job = entry.plan.plan, entry.job
    assert job is not None  # it was run
    columns: dict[str, list[Any]] = {}
    left_out: list[bool] | None = None
    for number in entry.plan.ports:
        port = plan.ports[number]
        result = result_of(plan, number, job)[0]
        places = [port.start_of(i) - start for i in result.index.tolist()] if port.rates else (result.index - start)
        values = (
            _rows(result, places, stop - start)
            if isinstance(result, Records)
            else _frames(result, places, stop - start)
        )
        columns[port.output.name if port.output else port.name] = values
        if port.kind == "frames" and len(result) < stop - start:
            left_out = [value is None and (left_out is None or left_out[i]) for i, value in enumerate(values)]
    if len(columns) == 1:
        return next(iter(columns.values())), left_out
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], left_out


def _frames(clip: Clip, places: Any, count: int) -> list[Any]:
    planes = clip.planes if clip.spec.is_picture else tuple(np.array(plane) for plane in clip.planes)
    values: list[Any] = [None] * count
    for at, place in enumerate(places):
        if 0 <= place < count:
            values[place] = planes[0][at] if len(planes) == 1 else tuple(plane[at] for plane in planes)
    return values


def _rows(records: Records, places: Any, count: int) -> list[Any]:
    """Return the rows of each frame; those of frames before come with the first, as spans do that have just ended."""
    bounds = np.searchsorted(np.clip(np.asarray(places), 0, count - 1), np.arange(count + 1))
    columns = dict(records.columns)
    if records.stop is not None:
        columns |= {"start": records.index, "stop": records.stop, "start_ns": records.pts}
    return [{name: column[bounds[i] : bounds[i + 1]] for name, column in columns.items()} for i in range(count)]
