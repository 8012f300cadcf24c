"""From sealed hyperframes to results: carries out what the scheduler says, live. One thread at a time calls it."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hyperframes.drivers.batch import Batch, by_plan
from hyperframes.drivers.execute import Buffer, Carried, GroupRunner, Job
from hyperframes.packing.assemble import blank_missing
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

    from hyperframes.drivers.crew import Crew
    from hyperframes.drivers.entry import Entry
    from hyperframes.drivers.live_plans import LivePlan

__all__ = ["Dispatch"]

TTL_NS = 1_000_000_000
"""Nothing that has waited longer is worth working on, whatever the budget (B30)."""


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
            for group in by_plan(together):
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
