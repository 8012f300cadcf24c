"""The offline driver: reads flat out, paced by free slots, and carries out what the scheduler says.

Whichever thread has news steps the scheduler, under one lock: a worker that finishes a task usually takes its next one
without another thread having to run in between.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.base import Gate, WorkerThread, start_workers
from hyperframes.drivers.costs import CostModel, look
from hyperframes.drivers.execute import Buffer, Carried, GroupRunner, Job, Runner, result_of
from hyperframes.drivers.handle import Events, Run
from hyperframes.drivers.intake import Intake
from hyperframes.drivers.memory import MemorySampler
from hyperframes.drivers.pace import Pace
from hyperframes.drivers.processes import RemoteRunner, WorkerDiedError
from hyperframes.drivers.quantity import count_text
from hyperframes.drivers.result import RunResult
from hyperframes.drivers.resume import RunJournal
from hyperframes.drivers.setup import Setup, set_up
from hyperframes.drivers.threads import single_threaded_libraries
from hyperframes.errors import CancelledError, FrameError, HyperframesError, OperatorError, SchedulingError
from hyperframes.frames import Clip, FrameSpec, Records
from hyperframes.instruments import Instrument, Observation, Observers
from hyperframes.packing import Hyperframe, SlabPool, spare_for
from hyperframes.scheduling import Scheduler, StageGraph, StageNode
from hyperframes.scheduling.events import (
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
    WorkerJoined,
    WorkerLost,
)
from hyperframes.sinks import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.pipeline import Pipeline
    from hyperframes.sinks import Sink

__all__ = ["Engine", "Segment"]

HEAVY = 2.0
"""How many times the median cost a hyperframe must be expected to cost to be split over all workers."""


@dataclass(slots=True, eq=False)
class Segment:
    """What an engine is told that runs a stretch of a longer run, and what it hands on to the next one."""

    ends: bool
    """Whether the run ends with it."""
    told: Mapping[str, Target]
    """What the sinks are told."""
    carried: dict[int, Carried] = field(default_factory=dict)
    """By group: what sequential stages carry, at its start and, when the engine is done, at its end."""


class Engine:
    """Runs one pipeline once.

    Parameters
    ----------
    pipeline : Pipeline
        With at least one sink.
    instruments : tuple of Instrument
        Observers of the run.
    segment : Segment, optional
        What it is to know where it runs a stretch of a longer run: the frames of ``options.range``.
    whole : bool
        Whether every hyperframe is worked on in one piece, whatever it costs.

    Notes
    -----
    Threads: one per source, the workers, one for the sinks. Memory: `Setup.memory_bytes`, whatever the length.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        instruments: tuple[Instrument, ...] = (),
        *,
        segment: Segment | None = None,
        whole: bool = False,
    ) -> None:
        self.setup: Setup = set_up(pipeline)
        self.setup.told = None if segment is None else segment.told
        self._segment = segment
        self._plan = self.setup.plan
        self._journal = RunJournal(self.setup, segment=segment is not None)
        self._events = Events()
        self._observers = Observers((*instruments, self._journal, self._events))
        self._lock = threading.RLock()
        self._finished = threading.Event()
        self._warm = threading.Event()
        self._unprepared = 0
        self._stopping = False
        self._error: BaseException | None = None
        self._result: RunResult | None = None
        self._scheduler = Scheduler(
            self._graph(),
            policy=pipeline.options.scheduling_policy,
            capacity=self.setup.in_flight,
            results=self.setup.in_flight,
            on_error=pipeline.options.on_error,
            split_frames=None if whole else max(4, self._plan.halo.total),
            heavy=HEAVY,
        )
        by_cost = pipeline.options.scheduling_policy == "priority_by_cost"
        self._costs = CostModel() if by_cost else None
        self._pace: Pace  # once the size is settled: see `start`
        self._looks: dict[int, Any] = {}  # of hyperframes sealed by the first source, not yet by all
        self._jobs: dict[int, Job] = {}
        self._partial: dict[int, dict[int, Hyperframe]] = {}  # sealed by some sources, not yet by all
        self._failed_jobs: dict[int, Job] = {}  # failed, not yet told to the sinks
        self._causes: dict[int, BaseException] = {}  # why a hyperframe's last attempt failed
        self._carried: dict[int, Carried] = {}
        self._runners: dict[int, Runner] = {}
        self._workers: dict[int, WorkerThread] = {}
        self._new_numbers = itertools.count(self.setup.num_workers)  # for workers that replace lost ones
        self._gates = {port: Gate() for port in self.setup.sources}
        self._input_pools: dict[int, SlabPool] = {}
        self._export_pools: dict[int, SlabPool] = {}
        self._lenders: dict[int, tuple[Sink, int]] = {}  # by port: who may have memory for it, and its first entry
        self._intakes: dict[int, Intake] = {}
        self._sink_queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lengths: dict[int, int] = {}
        self._step_ns = 0
        self._prepare_seconds = 0.0
        self._frames_in = self._frames_out = self._filtered = self._hyperframes = self._retries = 0
        self._dropped: dict[str, int] = {}
        self._failed: list[dict[str, Any]] = []
        self._checksum = hashlib.sha256() if pipeline.options.checksum else None
        self._outputs: list[str] = []
        self._sampler = MemorySampler(self._observe)

    def _graph(self) -> StageGraph:
        groups = self._plan.groups
        nodes = [StageNode(self._group_name(i), g.resource, g.sequential, g.after) for i, g in enumerate(groups)]
        return StageGraph(tuple(nodes) or (StageNode("pass", "compute", False, ()),))

    def _make_pace(self) -> Pace:
        setup = self.setup
        least = most = setup.size
        if self._segment is None and setup.adjusts:
            least, most = max(1, setup.plan.halo.total), setup.largest
        return Pace(setup.size, min(least, setup.size), most, workers=setup.num_workers)

    def _group_name(self, number: int) -> str:
        return " + ".join(self._plan.stages[i].name for i in self._plan.groups[number].stages)

    # Life -------------------------------------------------------------------------------------------------------------

    def start(self) -> Run:
        """Open the sinks, start the threads, and return the handle."""
        try:
            self._journal.open_sinks()
        except BaseException:
            self.setup.abort(keep_parts=self._journal.holds)
            raise
        self._pace = self._make_pace()  # a resumed run keeps the size of the one before
        try:
            self._begin()
        except BaseException:  # no thread or no memory to be had: nothing was written yet
            self._stopping = True
            for gate in self._gates.values():
                gate.open()
            for worker in self._workers.values():
                worker.inbox.put(None)
            self.setup.abort(keep_parts=self._journal.holds)
            self._finished.set()
            raise
        return Run(self)

    def _begin(self) -> None:
        self._take_up()
        self._make_pools()
        self._intakes = {port: self._intake_of(port) for port in self.setup.sources}
        self._observe({"kind": "began", "setup": self.setup, "frames_before": self._frames_before})
        self._sampler.start()
        self._libraries = single_threaded_libraries()
        self._libraries.__enter__()
        self._began = time.perf_counter()
        self._workers = start_workers(self.setup.workers)
        self._unprepared = len(self._workers)
        threads = []
        for port in self.setup.sources:
            name = f"hyperframes-source-{port}"
            threads.append(threading.Thread(target=self._take_in, args=(port,), name=name, daemon=True))
        # The last, as it may find the run over at once, and joins the others: they must have begun.
        threads.append(threading.Thread(target=self._deliver, name="hyperframes-sinks", daemon=True))
        self._threads = threads
        with self._lock:
            self._execute(self._scheduler.start())
        for number, worker in self._workers.items():
            worker.inbox.put(partial(self._prepare_worker, number))
        for thread in threads:
            thread.start()

    def _take_up(self) -> None:
        """Start from what interrupted runs did, if there were any."""
        done, journal = self._journal.done, self._journal
        self._cores = (journal.first, self.setup.pipeline.options.range[1])
        self._frames_before = journal.first - self.setup.pipeline.options.range[0]
        self._frames_in, self._hyperframes = self._frames_before, done.hyperframes
        self._frames_out, self._filtered = done.frames_out, done.filtered
        self._failed = list(done.failed)
        self._carried = dict(journal.carried if self._segment is None else self._segment.carried)

    def _make_pools(self) -> None:
        shared = self.setup.pipeline.options.executor != "threads"
        spare_for(f"{self._plan.fingerprint} {self.setup.largest} {self.setup.workers}")
        for port, source in self.setup.sources.items():
            if slabs := self.setup.input_slabs(port):
                capacity = self.setup.input_capacity(port)
                self._input_pools[port] = SlabPool(source.spec, capacity, slabs, threading.Lock(), shared=shared)
        for key, sink in self.setup.sinks.items():
            port = self._plan.sinks[key]
            if not shared and not self._plan.margins[port].total:  # nothing is made that the sink does not get
                first, _ = self._plan.ports[port].owned((self._cores[0], self._cores[0]))
                self._lenders.setdefault(port, (sink, first))
        for port in self.setup.exported():
            spec = self._plan.ports[port].spec
            assert isinstance(spec, FrameSpec)
            capacity = self.setup.export_capacity(port)
            self._export_pools[port] = SlabPool(spec, capacity, self.setup.in_flight, threading.Lock(), shared=shared)

    def _intake_of(self, port: int) -> Intake:
        return Intake(
            self.setup,
            port,
            cores=self._cores,
            pace=self._pace,
            gate=self._gates[port],
            pool=self._input_pools.get(port),
            sealed=partial(self._sealed, port),
            stopping=lambda: self._stopping,
        )

    def wait(self, timeout_seconds: float | None = None) -> RunResult:
        """Wait for the end; see `Run.wait`."""
        if not self._finished.wait(timeout_seconds):
            raise TimeoutError(f"the run has not ended after {timeout_seconds} s")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def join(self) -> None:
        """Wait for the end; see `Run.join`."""
        self._finished.wait()

    def cancel(self, reason: str) -> None:
        """Stop soon; see `Run.cancel`."""
        self._fail(CancelledError(f"the run was cancelled: {reason}"))

    def _fail(self, error: BaseException) -> None:
        """End the run with `error`, unless something ended it before."""
        with self._lock:
            if self._error is None and not self._finished.is_set():
                self._error = error
                if not self._stopping:
                    self._post(Cancel(type(error).__name__))

    # The scheduler ----------------------------------------------------------------------------------------------------

    def _post(self, event: Event) -> None:
        with self._lock:
            began = time.thread_time_ns()
            try:
                self._execute(self._scheduler.step(event, time.monotonic_ns()))
            except BaseException as error:  # noqa: BLE001 - no frame memory, say: whoever waits is told, nobody waits on
                self._stop_now(error)
            self._step_ns += time.thread_time_ns() - began

    def _execute(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Start(task, worker, _):
                    self._hand_over((task,), worker)
                case Join(tasks, worker):
                    self._hand_over(tasks, worker)
                case Split(sequence, stage, parts):
                    self._jobs[sequence].parts[stage] = parts
                case Release(sequence):
                    self._release(sequence)
                case Emit(sequence):
                    self._queue_for_sinks(sequence)
                case Drop(sequence, reason):
                    self._drop(sequence, reason)
                case Pull(n):
                    for gate in self._gates.values():
                        gate.grant(n)
                case Stop(error, failed):
                    self._stop(error, failed)

    def _hand_over(self, tasks: tuple[Task, ...], number: int) -> None:
        for task in tasks:
            job = self._jobs[task.id]
            for port in self._exports_of(task.stage):
                if port not in job.buffers:
                    job.buffers[port] = self._lease(job, port)
        worker = self._workers[number]
        worker.handed_over_ns = time.perf_counter_ns()
        worker.inbox.put(partial(self._run_tasks, tasks, number))

    def _exports_of(self, group: int) -> list[int]:
        if not self._plan.groups:
            return []
        return [port for port in self._plan.groups[group].exports if port in self._export_pools]

    def _lease(self, job: Job, port: int) -> Buffer:
        start, stop = self._plan.export_range(port, job.core, job.num_frames, first=True, last=True)
        if port in self._lenders:
            sink, first = self._lenders[port]
            if planes := sink.lend(start - first, stop - first):
                return Buffer(planes, start, stop)
        slab = self._export_pools[port].lease()
        return Buffer(slab.planes, start, stop, slab)

    def _release(self, sequence: int) -> None:
        """No task reads the hyperframe again: give back what the sinks do not need."""
        job = self._jobs[sequence]
        sunk = set(self._plan.sinks.values())
        self._let_go({port: held for port, held in job.inputs.items() if port not in sunk})
        for port in [p for p in job.buffers if p not in sunk]:
            self._give_back(job, port)
        job.released = True
        if self._costs is not None and job.look is not None and job.attempt == 0 and not job.dropped:
            self._costs.learn(job.look, job.core[1] - job.core[0], job.seconds)
        if not job.dropped:
            self._pace.done(job.core[0], job.core[1] - job.core[0], job.seconds)
        if job.dropped:
            self._release_results(self._jobs.pop(sequence))

    def _release_results(self, job: Job) -> None:
        sunk = set(self._plan.sinks.values())
        for port in list(job.buffers):
            self._give_back(job, port)
        self._let_go({port: held for port, held in job.inputs.items() if port in sunk})

    def _let_go(self, inputs: Mapping[int, Hyperframe]) -> None:
        for port, hyperframe in inputs.items():
            if hyperframe.slab is not None:
                self._input_pools[port].release(hyperframe.slab)
            hyperframe.let_go()

    def _give_back(self, job: Job, port: int) -> None:
        slab = job.buffers.pop(port).slab
        if slab is not None:
            self._export_pools[port].release(slab)

    def _queue_for_sinks(self, sequence: int) -> None:
        self._queue_failed(before=sequence)
        self._sink_queue.put(self._jobs.pop(sequence))

    def _queue_failed(self, before: int | None = None) -> None:
        """Tell the sinks of hyperframes that failed, each in its place."""
        for sequence in sorted(self._failed_jobs):
            if before is None or sequence < before:
                self._sink_queue.put(self._failed_jobs.pop(sequence))

    def _drop(self, sequence: int, reason: str) -> None:
        """Give a hyperframe up; its memory goes when no worker reads it any more."""
        job = self._jobs[sequence]
        job.dropped = reason
        self._count_dropped(reason)
        self._observe({"kind": "dropped", "sequence": sequence, "id": job.id, "reason": reason, "core": job.core})
        if reason in {"failed", "ancestor_failed"}:
            cause = str(self._causes.get(sequence, "a hyperframe that it depends on failed"))
            self._failed.append({"id": job.id, "frames": list(job.core), "error": cause})
            self._failed_jobs[sequence] = job
        if job.released:
            self._release_results(self._jobs.pop(sequence))

    def _count_dropped(self, reason: str) -> None:
        with self._lock:
            self._dropped[reason] = self._dropped.get(reason, 0) + 1

    def _stop(self, error: str | None, failed: tuple[int, ...] = ()) -> None:
        if error is not None and self._error is None:
            self._error = self._causes.get(failed[0]) if failed else HyperframesError(error)
        if not self._stopping:
            self._stopping = True
            self._queue_failed()
            self._sink_queue.put(None)
            for gate in self._gates.values():
                gate.open()

    def _stop_now(self, error: BaseException) -> None:
        """End at once: the scheduler's account of an event that cannot happen, or an instruction that failed."""
        if self._error is None or isinstance(error, SchedulingError):
            self._error = error
        self._stop(None)

    # Sources ----------------------------------------------------------------------------------------------------------

    def _take_in(self, port: int) -> None:
        self._warm.wait()
        try:
            length = self._intakes[port].read()
            if not self._stopping:
                self._source_ended(port, length)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the run
            self._fail(error)

    def _sealed(self, port: int, hyperframe: Hyperframe) -> None:
        """Take note of a sealed hyperframe; once every source has sealed its own, it is a job."""
        sequence = hyperframe.header.sequence
        seen = look(hyperframe) if self._costs is not None and port == 0 else None
        with self._lock:
            if self._stopping:  # the run ended while the source was about to seal: nobody else knows of this one
                self._let_go({port: hyperframe})
                return
            if seen is not None:
                self._looks[sequence] = seen
            inputs = self._partial.setdefault(sequence, {})
            inputs[port] = hyperframe
            if len(inputs) < len(self.setup.sources):
                return
            del self._partial[sequence]
            self._check_aligned(inputs)
            header = inputs[0].header
            end = header.end and (self._segment is None or self._segment.ends)
            job = Job(sequence, header.core, header.stream_length, end, dict(sorted(inputs.items())))
            job.captured = {} if self._journal.sealed(job) else None
            self._jobs[sequence] = job
            self._hyperframes += 1
            self._observe({"kind": "sealed", "sequence": sequence, "id": job.id, "core": job.core})
            size = job.core[1] - job.core[0]
            self._frames_in += size
            job.look = self._looks.pop(sequence, None)
            guess = self._costs
            cost = float(size) if guess is None or job.look is None else guess.expect(job.look, size)
            self._post(Sealed(sequence, cost=cost, frames=size))

    def _check_aligned(self, inputs: dict[int, Hyperframe]) -> None:
        cores = {hyperframe.header.core for hyperframe in inputs.values()}
        if len(cores) > 1:
            self._fail(self._unequal({p: h.header.core[1] for p, h in inputs.items()}))

    def _source_ended(self, port: int, length: int) -> None:
        with self._lock:
            self._lengths[port] = length
            if len(self._lengths) < len(self.setup.sources):
                return
            if self.setup.pipeline.options.range[1] is None and len(set(self._lengths.values())) > 1:
                self._fail(self._unequal(self._lengths))
            self._post(StreamEnded())

    def _unequal(self, lengths: dict[int, int]) -> FrameError:
        told = ", ".join(f"{self._plan.ports[p].name!r} has {n}" for p, n in sorted(lengths.items()))
        return FrameError(
            f"sources of one pipeline must have the same number of frames: {told}",
            hint="Use --range START:STOP to take a stretch that all of them have.",
        )

    # Workers ----------------------------------------------------------------------------------------------------------

    def _prepare_worker(self, number: int) -> None:
        worker = self._workers[number]
        try:
            if number not in self._runners:
                self._runners[number] = self._make_runner(worker)
            self._runners[number].prepare()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the run
            self._fail(error)
        self._post(WorkerJoined(number, worker.worker.resource))
        self._one_prepared()

    def _one_prepared(self) -> None:
        """Start the clock and let the sources begin once every worker is ready: what compiling takes is not the run's."""
        with self._lock:
            self._unprepared -= 1
            if self._unprepared == 0:
                now = time.perf_counter()
                self._prepare_seconds, self._began = now - self._began, now
                self._observe({"kind": "prepared", "seconds": self._prepare_seconds})
                self._warm.set()

    def _make_runner(self, worker: WorkerThread) -> Runner:
        if self.setup.uses_processes and self._plan.groups:
            return RemoteRunner(self._plan, worker.worker, self.setup.operators)
        return GroupRunner(self._plan, worker.worker)

    def _replace_worker(self, task: Task, number: int, death: WorkerDiedError) -> None:
        """Take note that a worker's process died over `task`, and start another one under a number of its own."""
        job = self._jobs[task.id]
        first, last = job.core[0], job.core[1] - 1
        stage = self._group_name(task.stage)
        error = OperatorError(
            f"stage {stage!r} took its worker process down on frames {first} to {last} (hyperframe {job.id}): {death.how}",
            stage=stage,
            hyperframe=job.id,
            frames=job.core,
            hint=f"Too little memory, or a crash in native code; run it alone: --range {first}:{last + 1} --workers 1",
        )
        self._observe(_failed_attempt(task, job, error))
        with self._lock:
            job.attempt += 1
            self._causes[task.id] = error
            successor = next(self._new_numbers)
            self._workers[successor] = self._workers.pop(number)
            self._runners[successor] = self._runners.pop(number)
            self._post(WorkerLost(number))
            self._retries += not job.dropped and not self._stopping
        if not self._stopping:
            self._prepare_worker(successor)

    def _run_tasks(self, tasks: tuple[Task, ...], number: int) -> None:
        for task in tasks:
            try:
                self._run_task(task, number)
            except WorkerDiedError as death:
                self._replace_worker(task, number, death)
                return  # those that follow are lost with the worker

    def _run_task(self, task: Task, number: int) -> None:
        job = self._jobs[task.id]
        began = time.perf_counter_ns()
        try:
            self._run_group(job, task, self._runners[number])
        except WorkerDiedError:
            raise
        except BaseException as error:  # noqa: BLE001 - counted, reported, and retried or ended by the scheduler
            self._task_failed(task, job, error)
            return
        ns = time.perf_counter_ns() - began
        self._observe(
            {
                "kind": "done",
                "sequence": task.id,
                "id": job.id,
                "stage": self._group_name(task.stage) if self._plan.groups else "pass",
                "part": task.part,
                "worker": self._workers[number].worker.index,
                "begin_ns": began,
                "duration_ns": ns,
            }
        )
        with self._lock:
            job.seconds += ns / 1e9
            self._post(Done(task, ns))

    def _run_group(self, job: Job, task: Task, runner: Runner) -> None:
        if not self._plan.groups:
            return
        group = self._plan.groups[task.stage]
        if self._plan.stages[group.stages[0]].sequential:
            carried = self._carried.setdefault(task.stage, Carried())
            runner.run_sequential(job, task.stage, carried)
            self._journal.capture(job, task.stage, carried)
        else:
            runner.run(job, task.stage, task.part)

    def _task_failed(self, task: Task, job: Job, error: BaseException) -> None:
        self._observe(_failed_attempt(task, job, error))
        with self._lock:
            job.attempt += 1
            self._causes[task.id] = error
            if isinstance(error, OperatorError):
                self._post(Failed(task))
                self._retries += not job.dropped and not self._stopping
            else:
                self._fail(error)
                self._post(Failed(task, transient=False))

    # Sinks ------------------------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Give results to the sinks in order, then close them; whatever happens, those who wait are told."""
        try:
            while (job := self._sink_queue.get()) is not None:
                self._deliver_one(job)
            self._end()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the run
            self._error = self._error or error
            self._stop(None)
            self.setup.abort()
        finally:
            self._finished.set()

    def _deliver_one(self, job: Job) -> None:
        try:
            if self._error is None:
                self._write(job)
            elif not job.dropped:
                self._count_dropped("cancelled")
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the run
            self._fail(error)
            self._count_dropped("failed")
        if not job.dropped:
            self._release_results(job)
            self._post(MemoryFreed(1))

    def _write(self, job: Job) -> None:
        whole = not job.dropped
        counted = (0, 0)
        for number, (key, sink) in enumerate(self.setup.sinks.items()):
            port = self._plan.sinks[key]
            result, left_out = result_of(self._plan, port, job) if whole else (self._zeros(port, job), 0)
            if result is None:
                continue
            if number == 0:
                counted = (len(result) if whole else 0, left_out)
                if self._checksum is not None and isinstance(result, Clip):
                    add_frames(self._checksum, result)
            fresh = self._journal.fresh(key, job, result)
            if fresh is not None:
                sink.write(fresh)
        self._journal.delivered(job, self._frames_out + counted[0], self._filtered + counted[1])
        self._frames_out += counted[0]
        self._filtered += counted[1]
        self._observe({"kind": "emitted", "sequence": job.sequence, "id": job.id, "core": job.core, "whole": whole})

    def _zeros(self, number: int, job: Job) -> Clip | Records | None:
        """Return what stands for a failed hyperframe: zeros that the mask marks, or no rows."""
        port = self._plan.ports[number]
        if not isinstance(port.spec, FrameSpec):
            return None
        owned = port.owned(job.core)
        count = owned[1] - owned[0]
        source = next(iter(job.inputs.values()))
        planes = tuple(np.zeros((count, *shape), port.spec.dtype) for shape in port.spec.shapes)
        pts = source.header.pts[source.core][:count]
        pts = np.pad(pts, (0, count - len(pts)), mode="edge")
        return Clip(planes, pts, np.arange(*owned), port.spec, None, np.zeros(count, bool), job.id)

    def _end(self) -> None:
        """Everything was delivered or given up: finish the sinks, stop the threads, make the result."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._end_workers()
        for inputs in self._partial.values():  # of sources that were ahead of the others
            self._let_go(inputs)
        self._partial.clear()
        try:
            if self._error is None:
                self._outputs = self._journal.close_sinks()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the run
            self._error = error
        kept = isinstance(self._error, CancelledError) and self._journal.interrupted()
        if self._error is None:
            self.setup.close()
        else:
            self.setup.abort(keep_parts=kept)
        if not kept:
            self._journal.discard()
        seconds = time.perf_counter() - self._began
        self._libraries.__exit__(None, None, None)
        peak = self._sampler.stop()
        if self._error is None:
            self._result = self._make_result(seconds, peak)
        self._observe({"kind": "finished", "seconds": seconds, "error": str(self._error or "")})
        self._forget()

    def _end_workers(self) -> None:
        with self._lock:
            workers = dict(self._workers)
        for worker in workers.values():
            worker.inbox.put(None)
        for worker in workers.values():
            worker.thread.join()
        closing = [threading.Thread(target=runner.close) for runner in self._runners.values()]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def _forget(self) -> None:
        """Let the frame memory go with the run, whoever still holds its handle."""
        if self._segment is not None:
            self._segment.carried = dict(self._carried)
        self._intakes.clear()
        self._input_pools.clear()
        self._export_pools.clear()
        self._runners.clear()
        self._carried.clear()
        self._jobs.clear()
        self._failed_jobs.clear()
        self._workers.clear()

    def _make_result(self, seconds: float, peak: int) -> RunResult:
        setup, plan = self.setup, self._plan
        busy: dict[str, float] = {}
        for runner in self._runners.values():
            for name, spent in runner.seconds.items():
                busy[name] = busy.get(name, 0.0) + spent
        for conversion in filter(None, (intake.conversion for intake in self._intakes.values())):
            busy[conversion.name] = busy.get(conversion.name, 0.0) + conversion.seconds
        idle_ns = sum(worker.waited_ns for worker in self._workers.values())
        idle_ns += sum(runner.waited_ns for runner in self._runners.values())
        warnings = [*setup.warnings, *self._journal.warnings]
        if deaths := [death for runner in self._runners.values() for death in runner.deaths]:
            warnings.append(_told_deaths(deaths))
        for source in setup.sources.values():
            warnings += source.warnings
        for sink in setup.sinks.values():
            warnings += getattr(sink, "warnings", ())
        warnings += [f"an observer failed and was left out: {error}" for _, error in self._observers.failures]
        end = self._cores[0] + self._frames_in - self._frames_before
        sizes = self._pace.sizes(end)
        used: dict[int, int] = {}
        for (first, size), (stop, _) in itertools.pairwise([*sizes, (end, 0)]):
            used[size] = used.get(size, 0) + stop - first
        return RunResult(
            id=setup.run_id,
            frames_in=self._frames_in,
            frames_out=self._frames_out,
            filtered=self._filtered,
            hyperframes=self._hyperframes,
            size=max(used, key=lambda size: used[size]) if used else setup.size,
            sizes=sizes,
            halo=plan.operator_halo,
            workers=setup.num_workers,
            executor=setup.pipeline.options.executor,
            seconds=seconds,
            peak_memory_bytes=peak,
            scheduler_share=(self._step_ns + idle_ns) / 1e9 / max(1e-9, setup.num_workers * seconds),
            stages={name: round(spent, 6) for name, spent in busy.items()},
            conversions=list(plan.conversions),
            retries=self._retries,
            failed=self._failed,
            output=self._outputs,
            warnings=warnings,
            frames_sha256=self._checksum.hexdigest() if self._checksum else None,
            prepare_seconds=self._prepare_seconds,
            frames_before=self._frames_before,
            sinks=dict(setup.sinks),
            sources={plan.ports[port].name: source for port, source in setup.sources.items()},
        )

    # Watching ---------------------------------------------------------------------------------------------------------

    def _observe(self, observation: Observation) -> None:
        observation.setdefault("ns", time.perf_counter_ns())
        self._observers.observe(observation)

    def stats(self) -> dict[str, Any]:
        """Return the counts so far; see `Run.stats`."""
        with self._lock:
            return {
                "frames_in": self._frames_in,
                "frames_out": self._frames_out,
                "filtered": self._filtered,
                "hyperframes": self._hyperframes,
                "num_frames": self.setup.num_frames,
                "frames_before": self._frames_before,
                "dropped": dict(self._dropped),
                "finished": self._finished.is_set(),
                **dataclasses.asdict(self._scheduler.metrics()),
            }

    def events(self) -> Iterator[Observation]:
        """Yield observations; see `Run.events`."""
        return self._events.read(self._finished)


def _failed_attempt(task: Task, job: Job, error: BaseException) -> Observation:
    return {"kind": "failed", "sequence": task.id, "id": job.id, "attempt": job.attempt, "error": str(error)}


def _told_deaths(deaths: list[str]) -> str:
    more = f", and {len(deaths) - 3} more" if len(deaths) > 3 else ""
    what = count_text(len(deaths), "worker process", "worker processes")
    return f"{what} died and {'was' if len(deaths) == 1 else 'were'} started again: {'; '.join(deaths[:3])}{more}"


def add_frames(digest: Any, clip: Clip) -> None:
    """Add the bytes of every frame of `clip`, plane after plane, to `digest`: the same however frames are grouped."""
    if len(clip.planes) == 1:
        digest.update(np.ascontiguousarray(clip.planes[0]).data)
        return
    for t in range(len(clip)):
        for plane in clip.planes:
            digest.update(np.ascontiguousarray(plane[t]).data)
