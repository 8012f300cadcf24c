"""The scheduler: events in, instructions out. No I/O, no clock, no threads; one thread calls it.

A run reads like this (one stage, one worker, room for two hyperframes):

    start()                                    Pull(2)
    WorkerJoined(0)
    Sealed(0)                                  Start((0, 0), worker 0)
    Sealed(1)
    Done((0, 0))                               Release(0), Pull(1), Emit(0), Start((1, 0), worker 0)
    MemoryFreed(1)
    StreamEnded()
    Done((1, 0))                               Release(1), Emit(1)
    MemoryFreed(1)                             Stop()
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hyperframes.errors import PipelineError, SchedulingError
from hyperframes.scheduling.events import (
    AlreadyDone,
    Cancel,
    Done,
    Drop,
    Emit,
    Event,
    Failed,
    Instruction,
    Join,
    MemoryFreed,
    Pull,
    Release,
    Sealed,
    Split,
    Start,
    Stop,
    StreamEnded,
    Task,
    Tick,
    WakeAt,
    WorkerJoined,
    WorkerLost,
)
from hyperframes.scheduling.policies import LazyHeap, OnError, Rank, ReadyQueue, Turns, policy_key
from hyperframes.scheduling.state import IdRanges, Life, Phase, Stream, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hyperframes.scheduling.graph import StageGraph

__all__ = ["Metrics", "Scheduler"]

RING_LENGTH = 64
"""Events kept for the message of a SchedulingError."""
COSTS_KEPT, COSTS_LEAST = 33, 5
"""Hyperframes whose costs make the median that heavy ones are told by: the last ones, and how many there must be."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """How full the scheduler is, at one moment."""

    ready: int
    """Tasks that could start now."""
    waiting: int
    """Tasks that wait for others."""
    running: Mapping[str, int]
    """Tasks on workers, by resource."""
    idle: Mapping[str, int]
    """Workers without a task, by resource."""
    mean_task_ns: float
    """Mean run time of a task so far; 0 before the first."""
    busy_ns: Mapping[str, int]
    """Run time of all tasks so far, by resource."""
    inputs: int
    """Hyperframes whose input is held."""
    results: int
    """Hyperframes whose results are being made or not yet given back."""


class _Stage:
    """The ready tasks of one stage, in the two groups that the results slots tell apart."""

    __slots__ = ("fresh", "going")

    def __init__(self, turns: Turns) -> None:
        self.going: ReadyQueue[Work] = ReadyQueue(lambda w: w.phase is Phase.READY, turns)
        """Of hyperframes that hold a results slot."""
        self.fresh: ReadyQueue[Work] = ReadyQueue(_is_fresh, turns)
        """Of hyperframes that would take one."""


def _is_fresh(work: Work) -> bool:
    return work.phase is Phase.READY and not work.life.started


@dataclass(slots=True)
class _Pool:
    """The workers of one resource and the stages they run."""

    stages: list[_Stage] = field(default_factory=list)
    idle: dict[int, None] = field(default_factory=dict)
    join: int = 1
    num_running: int = 0
    busy_ns: int = 0


@dataclass(slots=True)
class _Worker:
    pool: _Pool
    works: dict[Work, None] = field(default_factory=dict)


class Scheduler:
    """Decides which task runs when, on which worker, and what is given up, released, emitted and pulled.

    Every change is told as an event to `step`; the driver carries the instructions out in the order given.
    Memory and time: both bounded by what is in flight, never by what has passed.

    Parameters
    ----------
    graph : StageGraph
        The stages of every hyperframe.
    policy : {"fifo", "priority_by_index", "priority_by_cost"}
        Which ready task goes first.
    capacity : int
        Hyperframes that may hold input memory: from the Pull to the Release. Live: what the queue may hold,
        running ones included.
    results : int
        Hyperframes that may hold result memory: from the first Start to MemoryFreed. The last free slot is kept for
        the lowest unfinished hyperframe of a stream unless such a one holds a slot already, so that waiting in order
        cannot lock up.
    on_error : str or OnError
        ``fail``, ``continue`` or ``retry:N``.
    ordered : bool
        Emit in order within each stream; else as they finish.
    join : mapping of resource to int, optional
        How many ready tasks of one stage a worker of the resource takes at once.
    when_full : {"drop_newest", "drop_oldest", "block"}, optional
        What happens to a hyperframe sealed beyond `capacity`. None and ``block`` pace the source by Pull instead.
    fair : bool
        Streams of equal priority take turns.
    streams : iterable of str
        Streams known to be open from the start; others open with their first Sealed. The run ends when all ended.
    split_frames : int, optional
        Fewest frames of a part, where a task may be split over idle workers; None: never split.
    split_cost : float
        Least cost of a part, in the unit of ``Sealed.cost``.
    heavy : float, optional
        How many times the median cost of those sealed before it a hyperframe must cost to be split whatever else
        waits, in parts of about that median; None: only idle workers are given parts.
    after_failure : {"drop", "gap"}
        Whether hyperframes that depend on a failed one are given up with it, or run as after a gap (live).
    worker_losses : int
        How often a task may take its worker down before it counts as failed.

    Raises
    ------
    PipelineError
        If a parameter is none of those above.
    """

    # A dict of so many attributes would be asked for each of them, tens of times for every hyperframe.
    __slots__ = (
        "__weakref__",
        "_already",
        "_broken",
        "_costs",
        "_deadlines",
        "_drops_when_full",
        "_emitted",
        "_error",
        "_failed",
        "_finished",
        "_firsts_started",
        "_heavy",
        "_heirs_break",
        "_key",
        "_lives",
        "_num_ready",
        "_num_waiting",
        "_order",
        "_out",
        "_pools",
        "_pulled",
        "_ring",
        "_running",
        "_seen_stream",
        "_slots_taken",
        "_split_cost",
        "_split_frames",
        "_stages",
        "_started",
        "_stopped",
        "_stopping",
        "_streams",
        "_task_ns",
        "_tasks_done",
        "_turns",
        "_wake_ns",
        "_worker_losses",
        "_workers",
        "capacity",
        "graph",
        "on_error",
        "ordered",
        "policy",
        "results",
    )

    def __init__(
        self,
        graph: StageGraph,
        *,
        policy: str = "fifo",
        capacity: int,
        results: int,
        on_error: str | OnError = "fail",
        ordered: bool = True,
        join: Mapping[str, int] | None = None,
        when_full: Literal["drop_newest", "drop_oldest", "block"] | None = None,
        fair: bool = False,
        streams: Iterable[str] = (),
        split_frames: int | None = None,
        split_cost: float = 0.0,
        heavy: float | None = None,
        after_failure: Literal["drop", "gap"] = "drop",
        worker_losses: int = 3,
    ) -> None:
        for name, value in {"capacity": capacity, "results": results, **(join or {})}.items():
            if value < 1:
                raise PipelineError(f"{name} counts hyperframes: expected at least 1, got {value}", got=value)
        if when_full not in {None, "drop_newest", "drop_oldest", "block"}:
            raise PipelineError(
                f"unknown rule for a full queue {when_full!r}: expected drop_newest, drop_oldest or block",
                got=when_full,
            )
        self.graph, self.policy, self.on_error, self.ordered = graph, policy, OnError.parse(on_error), ordered
        self.capacity, self.results = capacity, results
        self._key = policy_key(policy)
        self._drops_when_full = when_full if when_full in {"drop_newest", "drop_oldest"} else None
        self._split_frames, self._split_cost, self._heavy = split_frames, split_cost, heavy
        self._costs: deque[float] = deque(maxlen=COSTS_KEPT)
        self._heirs_break = after_failure == "drop"
        self._worker_losses = worker_losses

        self._turns = Turns(fair=fair)
        self._pools: dict[str, _Pool] = {}
        self._stages: list[_Stage] = []
        for node in graph.nodes:
            self._stages.append(_Stage(self._turns))
            self._pool(node.resource).stages.append(self._stages[-1])
        for resource, tasks in (join or {}).items():
            self._pool(resource).join = tasks

        self._streams: dict[str, Stream] = {name: Stream(name, graph) for name in streams}
        self._seen_stream = bool(self._streams)
        self._lives: dict[int, Life] = {}  # sealed and not released
        self._running: dict[Task, tuple[Work, int]] = {}  # with its worker
        self._workers: dict[int, _Worker] = {}
        self._finished = IdRanges()  # released, whatever the end
        self._already = IdRanges()  # done in an earlier run, not sealed in this one so far
        self._failed = IdRanges()
        self._broken = IdRanges()  # failed, or given up with an ancestor: what waits for them cannot run
        self._deadlines: LazyHeap[Life] = LazyHeap(lambda life: not (life.started or life.dropped))
        self._wake_ns: int | None = None

        self._pulled = 0  # asked for and not sealed yet
        self._slots_taken = 0
        self._emitted = 0  # and not given back
        self._firsts_started = 0  # hold a slot and wait for no other: their slot is sure to come back
        self._order = 0  # counts tasks becoming ready
        self._num_ready = self._num_waiting = 0
        self._task_ns = self._tasks_done = 0
        self._started = self._stopping = self._stopped = False
        self._error: str | None = None
        self._ring: deque[tuple[int, Event]] = deque(maxlen=RING_LENGTH)
        self._out: list[Instruction] = []

    # The two doors ----------------------------------------------------------------------------------------------------

    def start(self) -> list[Instruction]:
        """Return the first instructions; `step` does this by itself where it was not called."""
        if self._started:
            return []
        self._started = True
        if self._drops_when_full is not None:
            return []
        self._pulled = self.capacity
        return [Pull(self.capacity)]

    def step(self, event: Event, now_ns: int = 0) -> list[Instruction]:
        """Take note of one event; return what to do now, in order.

        Raises
        ------
        SchedulingError
            If the event cannot happen (a task done that never ran, a hyperframe sealed twice); the state is then
            undefined and the run must end.
        """
        self._ring.append((now_ns, event))
        self._out = [] if self._started else self.start()
        deadlines = self._deadlines
        if deadlines.entries and deadlines.entries[0][0][0] <= now_ns:
            self._expire(now_ns)
        _ON[type(event)](self, event)
        if deadlines.entries and deadlines.entries[0][0][0] <= now_ns:
            self._expire(now_ns)
        if not self._stopping:
            if self._num_ready:
                for pool in self._pools.values():
                    if pool.idle:
                        self._assign(pool)
            if deadlines.entries or self._wake_ns is not None:
                self._wake(now_ns)
        if not self._running:
            self._stop_if_over()
        return self._out

    def metrics(self) -> Metrics:
        """Return how full it is now."""
        return Metrics(
            ready=self._num_ready,
            waiting=self._num_waiting,
            running={name: pool.num_running for name, pool in self._pools.items()},
            idle={name: len(pool.idle) for name, pool in self._pools.items()},
            mean_task_ns=self._task_ns / self._tasks_done if self._tasks_done else 0.0,
            busy_ns={name: pool.busy_ns for name, pool in self._pools.items()},
            inputs=len(self._lives),
            results=self._slots_taken,
        )

    # Events -----------------------------------------------------------------------------------------------------------

    def _on_sealed(self, event: Sealed) -> None:
        if event.id in self._lives or event.id in self._finished:
            raise self._impossible(f"hyperframe {event.id} was sealed twice")
        if self._drops_when_full is None:
            if self._pulled == 0:
                raise self._impossible(f"hyperframe {event.id} was sealed without a Pull")
            self._pulled -= 1
        if self._stopping:
            self._refuse(event, "cancelled")
            return
        stream = self._open(event.stream)
        if event.id in self._already:
            self._already.discard(event.id)
            self._finished.add(event.id)
            self._release(event.id)
        elif stream.broken or (event.after and any(other in self._broken for other in event.after)):
            self._broken.add(event.id)
            stream.broken = stream.broken or bool(self.graph.sequential)
            self._refuse(event, "ancestor_failed")
        elif self._make_room(event, stream):
            self._admit(event, stream)
        else:
            self._refuse(event, "queue_full")

    def _on_stream_ended(self, event: StreamEnded) -> None:
        stream = self._open(event.stream)
        stream.ended = True
        self._forget_if_over(stream)

    def _on_done(self, event: Done) -> None:
        work = self._take_off_worker(event.task)
        pool = self._pools[self.graph.nodes[event.task.stage].resource]
        pool.busy_ns += event.ns
        self._task_ns += event.ns
        self._tasks_done += 1
        self._end(work)

    def _on_failed(self, event: Failed) -> None:
        work = self._take_off_worker(event.task)
        if work.life.dropped:
            self._end_of_dropped(work)
        elif event.transient and work.attempt - work.losses < self.on_error.retries and not self._stopping:
            work.attempt += 1
            self._make_ready(work)
        else:
            self._fail(work)

    def _on_memory_freed(self, event: MemoryFreed) -> None:
        if event.slots > self._emitted:
            raise self._impossible(
                f"the results of {event.slots} hyperframes were given back: {self._emitted} were out"
            )
        self._emitted -= event.slots
        self._slots_taken -= event.slots

    def _on_worker_joined(self, event: WorkerJoined) -> None:
        if event.worker in self._workers:
            raise self._impossible(f"worker {event.worker} joined twice")
        pool = self._pool(event.resource)
        self._workers[event.worker] = _Worker(pool)
        pool.idle[event.worker] = None

    def _on_worker_lost(self, event: WorkerLost) -> None:
        if event.worker not in self._workers:
            raise self._impossible(f"worker {event.worker} was lost but never joined")
        worker = self._workers.pop(event.worker)
        worker.pool.idle.pop(event.worker, None)
        for work in worker.works:
            del self._running[work.task]
            self._count_off(work)
        for work in worker.works:
            work.losses += 1
            if work.life.dropped:
                self._end_of_dropped(work)
            elif self._stopping:
                self._make_ready(work)
                self._drop_unfinishing(work.life.stream)
            elif work.losses > self._worker_losses:
                self._fail(work)
            else:
                work.attempt += 1
                self._make_ready(work)

    def _on_already_done(self, event: AlreadyDone) -> None:
        if event.id in self._lives or event.id in self._finished or event.id in self._already:
            raise self._impossible(f"hyperframe {event.id} was told to be done, but it is known already")
        self._already.add(event.id)

    def _on_cancel(self, event: Cancel) -> None:
        if not self._stopping:
            self._stopping, self._error = True, event.reason
            self._drop_all_unfinishing()

    def _on_tick(self, event: Tick) -> None:
        """Nothing but time has passed; deadlines are looked at in every step."""

    # Admission --------------------------------------------------------------------------------------------------------

    def _open(self, name: str) -> Stream:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = Stream(name, self.graph)
            self._seen_stream = True
        elif stream.ended:
            raise self._impossible(f"stream {name!r} has ended")
        return stream

    def _make_room(self, event: Sealed, stream: Stream) -> bool:
        """Return whether the new hyperframe fits, after giving up an older one where that is the rule."""
        if len(self._lives) < self.capacity:
            return True
        if self._drops_when_full != "drop_oldest":
            return False
        waiting = (life for life in self._lives.values() if not (life.started or life.dropped))
        # The lowest priority first; then the stream that holds the most, so that a busy one cannot push others out.
        victim = min(
            waiting, key=lambda life: (life.sealed.priority, -life.stream.num_unstarted, life.id), default=None
        )
        if victim is None or victim.sealed.priority > event.priority:
            return False
        self._give_up(victim, "queue_full", breaks=False)
        return True

    def _admit(self, event: Sealed, stream: Stream) -> None:
        if event.id <= stream.last_id:
            raise self._impossible(
                f"hyperframes of one stream are sealed in order: {event.id} came after {stream.last_id}"
            )
        stream.last_id = event.id
        life = self._lives[event.id] = Life(event, stream, self.graph)
        life.shares = self._shares(event.cost)
        stream.line[event.id] = life
        stream.num_unstarted += 1
        self._num_waiting += len(life.works)
        for stage in self.graph.sequential:
            _join_chain(stream.coming.works[stage], life.works[stage])
        for other in event.after:
            if other in self._lives:
                for before, after in zip(self._lives[other].works, life.works, strict=True):
                    _add_edge(before, after, in_chain=False)
            elif other not in self._finished and other not in self._already:
                raise self._impossible(f"hyperframe {event.id} waits for {other}, which was not sealed before it")
        if event.deadline_ns is not None:
            self._deadlines.push((event.deadline_ns, event.id), life)
        for work in life.works:
            if work.indegree == 0:
                self._make_ready(work)
        if len(stream.line) == 1:
            self._let_first(life)

    def _shares(self, cost: float) -> int:
        """Return how many median hyperframes one of `cost` stands for, where it is heavy; else 1."""
        if self._heavy is None or self._split_frames is None:
            return 1
        median = statistics.median(self._costs) if len(self._costs) >= COSTS_LEAST else 0.0
        self._costs.append(cost)
        return math.ceil(cost / median) if median > 0 and cost > self._heavy * median else 1

    def _refuse(self, event: Sealed, reason: str) -> None:
        self._finished.add(event.id)
        self._out.append(Drop(event.id, reason))
        self._release(event.id)

    # Tasks: waiting -> ready -> running -> done -----------------------------------------------------------------------

    def _make_ready(self, work: Work) -> None:
        if work.phase is Phase.WAITING:
            self._num_waiting -= 1
        work.phase = Phase.READY
        self._num_ready += 1
        self._order += 1
        work.order = self._order
        life, stage = work.life, self._stages[work.task.stage]
        if life.started:
            self._push(stage.going, work)
            return
        self._push(stage.fresh, work)

    def _push(self, queue: ReadyQueue[Work], work: Work) -> None:
        sealed = work.life.sealed
        queue.push(sealed.priority, sealed.stream, self._key(work.task, sealed.cost, work.order), work)

    def _let_first(self, life: Life | None) -> None:
        """Let the lowest unfinished hyperframe of a stream take the last results slot, if it waits for no other."""
        if life is None or life.first or life.elders:
            return
        life.first = True
        self._firsts_started += life.started

    def _assign(self, pool: _Pool) -> None:
        """Give ready tasks to the idle workers of a resource."""
        picks: list[list[Work]] = []
        while len(picks) < len(pool.idle):
            works = self._pick(pool)
            if not works:
                break
            picks.append(works)
        spare = len(pool.idle) - len(picks)
        parts = self._parts(picks, spare) if spare and picks and self._split_frames and pool.join == 1 else {}
        for works in picks:
            now = parts.get(works[0], 1)
            whole = max(now, self._heavy_parts(pool, works[0]))
            if whole > 1:
                self._start_parts(pool, works[0], whole, now)
            else:
                self._start(pool, works)

    def _pick(self, pool: _Pool) -> list[Work]:
        """Take out the next ready task, and more of the same stage where workers join tasks."""
        works: list[Work] = []
        stages = pool.stages
        while len(works) < pool.join:
            work = self._next(stages)
            if work is None:
                break
            self._begin(work)
            works.append(work)
            stages = [self._stages[work.task.stage]]
        return works

    def _next(self, stages: list[_Stage]) -> Work | None:
        """Take out the ready task of `stages` that goes first.

        The last free results slot goes to whoever asks only while another is sure to come back.
        """
        free = self.results - self._slots_taken
        takes_fresh = free > 1 or (free == 1 and self._emitted + self._firsts_started > 0)
        best, first = None, None
        for stage in stages:
            for queue in (stage.going, stage.fresh) if takes_fresh else (stage.going,):
                rank = queue.peek()
                if rank is not None and (best is None or rank < best):
                    best, first = rank, queue
        if free == 1 and not takes_fresh:
            heads = [(self._rank(work), work.task, work) for stage in stages for work in self._heads(stage)]
            if heads and (best is None or min(heads)[0] < best):
                head = min(heads)[2]
                self._turns.serve(self._turns.lane(head.life.sealed.priority, head.life.sealed.stream))
                return head
        return None if first is None else first.pop()

    def _heads(self, stage: _Stage) -> Iterator[Work]:
        """Yield the ready tasks of a stage that may take the last results slot; seldom asked for, so they are looked up."""
        for stream in self._streams.values():
            life = stream.head()
            if life is not None and life.first and not life.started:
                for work in life.works:
                    if work.phase is Phase.READY and self._stages[work.task.stage] is stage:
                        yield work

    def _rank(self, work: Work) -> Rank:
        sealed = work.life.sealed
        turn = self._turns.of(self._turns.lane(sealed.priority, sealed.stream))
        return -sealed.priority, turn, self._key(work.task, sealed.cost, work.order)

    def _begin(self, work: Work) -> None:
        life = work.life
        work.phase = Phase.RUNNING
        self._num_ready -= 1
        if life.started:
            return
        life.started = True
        life.stream.num_unstarted -= 1
        self._slots_taken += 1
        self._firsts_started += life.first
        for other in life.works:
            if other.phase is Phase.READY:  # it holds a slot now
                self._push(self._stages[other.task.stage].going, other)

    def _start(self, pool: _Pool, works: list[Work]) -> None:
        number, _ = pool.idle.popitem()  # the one that was busy last: its caches are warm
        worker = self._workers[number]
        for work in works:
            worker.works[work] = None
            self._running[work.task] = (work, number)
            work.life.running += 1
        pool.num_running += len(works)
        if len(works) == 1:
            self._out.append(Start(works[0].task, number, works[0].attempt))
        else:
            self._out.append(Join(tuple(work.task for work in works), number))

    def _parts(self, picks: list[list[Work]], spare: int) -> dict[Work, int]:
        """Return in how many parts to start each heavy task, while workers are idle and nothing else will come."""
        more_will_come = any(not s.ended for s in self._streams.values()) and not (
            self._drops_when_full is None and self._pulled == 0
        )
        if more_will_come:
            return {}
        parts = {work: 1 for (work,) in picks if self._most_parts(work) > 1}
        while spare:
            open_ = [work for work, n in parts.items() if n < self._most_parts(work)]
            if not open_:
                break
            heaviest = max(open_, key=lambda work: (work.life.sealed.cost / parts[work], -work.life.id))
            parts[heaviest] += 1
            spare -= 1
        return {work: n for work, n in parts.items() if n > 1}

    def _most_parts(self, work: Work) -> int:
        if work.whole is not None or self.graph.nodes[work.task.stage].sequential or not self._split_frames:
            return 1
        most = work.life.sealed.frames // self._split_frames
        return min(most, int(work.life.sealed.cost / self._split_cost)) if self._split_cost > 0 else most

    def _heavy_parts(self, pool: _Pool, work: Work) -> int:
        """Return in how many parts to run a heavy task, so that all workers of the resource help with it."""
        if work.life.shares == 1 or pool.join > 1 or len(pool.idle) + pool.num_running < 2:
            return 1
        return min(self._most_parts(work), work.life.shares)

    def _start_parts(self, pool: _Pool, whole: Work, parts: int, now: int) -> None:
        """Split a task and start the first `now` parts; the others come in its turn."""
        id_, stage, _ = whole.task
        self._out.append(Split(id_, stage, parts))
        whole.phase, whole.left = Phase.SPLIT, parts
        whole.pieces = tuple(Work(whole.life, Task(id_, stage, part), 0, whole) for part in range(parts))
        for piece in whole.pieces:
            piece.attempt, piece.losses, piece.order = whole.attempt, whole.losses, whole.order
        for piece in whole.pieces[:now]:
            piece.phase = Phase.RUNNING
            self._start(pool, [piece])
        for piece in whole.pieces[now:]:
            piece.phase = Phase.READY
            self._num_ready += 1
            self._push(self._stages[stage].going, piece)

    def _take_off_worker(self, task: Task) -> Work:
        if task not in self._running:
            raise self._impossible(f"{_named(task)} ended, but it was not running")
        work, number = self._running.pop(task)
        worker = self._workers[number]
        del worker.works[work]
        if not worker.works:
            worker.pool.idle[number] = None
        self._count_off(work)
        return work

    def _count_off(self, work: Work) -> None:
        work.life.running -= 1
        self._pools[self.graph.nodes[work.task.stage].resource].num_running -= 1

    def _end(self, work: Work) -> None:
        """Take note that a task is done; let its successors go on."""
        life, whole = work.life, work.whole
        work.phase = Phase.DONE
        if whole is not None:
            whole.left -= 1
            if whole.left:
                if life.dropped:
                    self._end_of_dropped(work)
                return
            work = whole
            work.phase, work.pieces = Phase.DONE, ()
        life.left -= 1
        for stage in self.graph.successors[work.task.stage]:
            successor = life.works[stage]
            successor.indegree -= 1
            if successor.indegree == 0 and successor.phase is Phase.WAITING:
                self._make_ready(successor)
        for successor in work.next:
            del successor.prior[work]
            self._edge_met(successor)
        work.next = {}
        if life.dropped:
            self._retire_if_idle(life)
        elif life.left == 0:
            self._complete(life)

    def _edge_met(self, work: Work) -> None:
        work.indegree -= 1
        work.life.elders -= 1
        if work.indegree == 0 and work.phase is Phase.WAITING:
            self._make_ready(work)
        if work.life.elders == 0:
            self._let_first(work.life.stream.head())

    # The end of a hyperframe ------------------------------------------------------------------------------------------

    def _complete(self, life: Life) -> None:
        life.complete = True
        self._leave(life)
        if not self.ordered:
            self._emit(life)
        self._advance(life.stream)

    def _advance(self, stream: Stream) -> None:
        """Emit what is complete at the front of a stream."""
        while (life := stream.head()) is not None and life.complete:
            self._emit(life)
        self._let_first(life)
        self._forget_if_over(stream)

    def _emit(self, life: Life) -> None:
        del life.stream.line[life.id]
        self._emitted += 1
        self._out.append(Emit(life.id))

    def _leave(self, life: Life) -> None:
        """No task of it will run again."""
        self._firsts_started -= life.first and life.started
        del self._lives[life.id]
        life.works = ()  # they hold it: nobody should have to look for such rings
        self._finished.add(life.id)
        self._release(life.id)

    def _release(self, id_: int) -> None:
        self._out.append(Release(id_))
        if self._drops_when_full is None and not self._stopping and self._is_open():
            self._pulled += 1
            self._out.append(Pull(1))

    def _is_open(self) -> bool:
        return any(not stream.ended for stream in self._streams.values())

    def _retire_if_idle(self, life: Life) -> None:
        """Let a dropped hyperframe go once no worker reads it any more."""
        if life.running == 0 and life.id in self._lives:
            if life.started:
                self._slots_taken -= 1
            self._leave(life)

    def _forget_if_over(self, stream: Stream) -> None:
        if stream.ended and not stream.line and self._streams.get(stream.name) is stream:
            del self._streams[stream.name]
            self._turns.forget(stream.name)

    # Giving up --------------------------------------------------------------------------------------------------------

    def _expire(self, now_ns: int) -> None:
        while (due := self._deadlines.peek()) is not None and due[0][0] <= now_ns:
            self._give_up(self._deadlines.pop(), "expired", breaks=False)

    def _wake(self, now_ns: int) -> None:
        """Ask to be told when the next deadline is, where that was not asked for yet."""
        entries, wake_ns = self._deadlines.entries, self._wake_ns
        if wake_ns is not None and wake_ns <= now_ns:
            self._wake_ns = wake_ns = None
        if not entries or (wake_ns is not None and wake_ns <= entries[0][0][0]):
            return  # as nearly always
        due = self._deadlines.peek()
        if due is not None and (self._wake_ns is None or due[0][0] < self._wake_ns):
            self._wake_ns = due[0][0]
            self._out.append(WakeAt(self._wake_ns))

    def _fail(self, work: Work) -> None:
        """Give up the hyperframe of a failed task, and by the rule what depends on it or everything."""
        life = work.life
        self._failed.add(life.id)
        if self.on_error.then == "continue" and not self._stopping:
            self._give_up(life, "failed", breaks=self._heirs_break, failed=work)
            return
        ends_the_run = not self._stopping
        self._stopping = True  # before the drop, which must not let results out behind the hole
        self._drop(life, "failed", breaks=True, failed=work)
        self._drop_unfinishing(life.stream, hole_at=life.id)
        if ends_the_run:
            self._error = f"hyperframe {life.id} failed in stage {self.graph.nodes[work.task.stage].name!r}"
            self._drop_all_unfinishing()

    def _give_up(self, life: Life, reason: str, *, breaks: bool, failed: Work | None = None) -> None:
        """Drop a hyperframe; with `breaks` also those that cannot run without it."""
        heirs = deque(self._drop(life, reason, breaks=breaks, failed=failed))
        while heirs:
            heir = heirs.popleft()
            if not heir.dropped:
                heirs.extend(self._drop(heir, "ancestor_failed", breaks=breaks))

    def _drop(self, life: Life, reason: str, *, breaks: bool, failed: Work | None = None) -> list[Life]:
        """Drop one hyperframe; return those that can no longer run. What runs keeps its edges until it ends."""
        life.dropped, life.breaks = True, breaks
        self._out.append(Drop(life.id, reason))
        if not life.started:
            life.stream.num_unstarted -= 1
        if breaks:
            self._broken.add(life.id)
        heirs: list[Life] = []
        for work in life.works:
            for piece in work.pieces:
                if piece.phase is Phase.READY:
                    self._num_ready -= 1
                if piece.phase in {Phase.READY, Phase.WAITING} or piece is failed:
                    piece.phase = Phase.GONE
            if work.phase in {Phase.WAITING, Phase.READY} or work is failed or _has_no_piece_running(work):
                heirs += self._sever(work)
        del life.stream.line[life.id]
        self._retire_if_idle(life)
        if not self._stopping:
            self._advance(life.stream)
        return heirs

    def _sever(self, work: Work) -> list[Life]:
        """Take a task out of the graph; return the hyperframes that cannot run without it.

        After a gap, explicit edges from it are met, and the stream's next one takes its turn after the one before.
        """
        self._num_ready -= work.phase is Phase.READY
        self._num_waiting -= work.phase is Phase.WAITING
        work.phase = Phase.GONE
        prior, following = work.prior, work.next
        work.prior, work.next = {}, {}
        for other in prior:
            del other.next[work]
        if work.life.breaks:
            heirs = []
            for other in following:
                del other.prior[work]  # and its count stays: it never becomes ready
                if other.life is other.life.stream.coming:
                    other.life.stream.broken = True
                else:
                    heirs.append(other.life)
            return heirs
        for other in following:
            if other.prior.pop(work):  # its turn comes after the one before the gap
                for before in (before for before, in_chain in prior.items() if in_chain):
                    _add_edge(before, other, in_chain=True)
            self._edge_met(other)
        return []

    def _end_of_dropped(self, work: Work) -> None:
        """Take note that a task of a dropped hyperframe ended without a result anyone wants."""
        whole = work.whole
        if work.phase is Phase.RUNNING:
            work.phase = Phase.GONE
        if whole is None or _has_no_piece_running(whole):
            for heir in self._sever(whole or work):
                if not heir.dropped:
                    self._give_up(heir, "ancestor_failed", breaks=True)
        self._retire_if_idle(work.life)

    def _drop_all_unfinishing(self) -> None:
        for stream in tuple(self._streams.values()):
            self._drop_unfinishing(stream)

    def _drop_unfinishing(self, stream: Stream, *, hole_at: int | None = None) -> None:
        """Give up what will not finish while stopping, and in order everything behind it: no result after a hole."""
        hole = False
        for life in tuple(stream.line.values()):
            hole = hole or (hole_at is not None and life.id > hole_at)
            if not life.complete and not life.is_finishing():
                hole = True
                self._drop(life, "cancelled", breaks=True)
            elif hole and self.ordered:
                self._drop_finished(life) if life.complete else self._drop(life, "cancelled", breaks=True)
        self._forget_if_over(stream)

    def _drop_finished(self, life: Life) -> None:
        """Give up results that cannot be emitted any more."""
        life.dropped = True
        del life.stream.line[life.id]
        self._slots_taken -= 1
        self._out.append(Drop(life.id, "cancelled"))

    def _stop_if_over(self) -> None:
        if self._stopped or self._running:
            return
        if not self._stopping and not (
            self._seen_stream and not self._streams and not self._lives and not self._slots_taken
        ):
            return
        self._stopping = self._stopped = True
        self._out.append(Stop(self._error, tuple(self._failed)))

    def _pool(self, resource: str) -> _Pool:
        return self._pools.setdefault(resource, _Pool())

    def _impossible(self, what: str) -> SchedulingError:
        return SchedulingError(what, events=tuple(self._ring))


_ON: dict[type, Callable[[Scheduler, Any], None]] = {
    Sealed: Scheduler._on_sealed,
    StreamEnded: Scheduler._on_stream_ended,
    Done: Scheduler._on_done,
    Failed: Scheduler._on_failed,
    MemoryFreed: Scheduler._on_memory_freed,
    WorkerJoined: Scheduler._on_worker_joined,
    WorkerLost: Scheduler._on_worker_lost,
    AlreadyDone: Scheduler._on_already_done,
    Cancel: Scheduler._on_cancel,
    Tick: Scheduler._on_tick,
}


def _named(task: Task) -> str:
    part = f" part {task.part}" if task.part else ""
    return f"stage {task.stage}{part} of hyperframe {task.id}"


def _add_edge(before: Work, after: Work, *, in_chain: bool) -> None:
    if before.ended():
        return
    if before in after.prior:
        after.prior[before] |= in_chain
        return
    before.next[after] = None
    after.prior[before] = in_chain
    after.indegree += 1
    after.life.elders += 1


def _join_chain(coming: Work, work: Work) -> None:
    """Let `work` wait for what its stream's next one was to wait for, and the next one for `work`."""
    for before in coming.prior:
        del before.next[coming]
        _add_edge(before, work, in_chain=True)
    coming.indegree -= len(coming.prior)
    coming.life.elders -= len(coming.prior)
    coming.prior = {}
    _add_edge(work, coming, in_chain=True)


def _has_no_piece_running(work: Work) -> bool:
    return work.phase is Phase.SPLIT and all(piece.phase is not Phase.RUNNING for piece in work.pieces)
