"""The ray executor: a run cut into segments, which are tasks of a Ray cluster, and their pieces put together.

A task reads its own stretch of the sources and writes its own pieces beside the outputs, so no frame passes through the
cluster's store. The bytes are those of a run by threads: pieces end where parts and chunks do. Segments that are done stand
in the journal, so that a run that was killed goes on with the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import secrets
import shutil
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.child import Failure
from hyperframes.drivers.connection import Connection, connected
from hyperframes.drivers.cuts import Cuts, find_cuts
from hyperframes.drivers.handle import Events, Run
from hyperframes.drivers.interrupts import interrupts_held
from hyperframes.drivers.kept_segments import KeptSegments
from hyperframes.drivers.machine import machine_facts
from hyperframes.drivers.memory import MemorySampler
from hyperframes.drivers.processes import WorkerTraceback, raised_from
from hyperframes.drivers.quantity import count_text
from hyperframes.drivers.result import RunResult
from hyperframes.drivers.segment import News, Order, Outcome, run_segment
from hyperframes.drivers.setup import Setup, set_up, targets
from hyperframes.drivers.shipping import Package, packaged
from hyperframes.errors import CancelledError, HyperframesError, PipelineError, SinkError
from hyperframes.instruments import Observers
from hyperframes.scheduling import worker_counts
from hyperframes.sinks import CallbackSink, MemorySink
from hyperframes.sinks.staging import FolderClaim, pieces_of, remove_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hyperframes.instruments import Instrument, Observation
    from hyperframes.pipeline import Pipeline
    from hyperframes.sinks import Sink

__all__ = ["ClusterRun", "run_many"]

MAX_ATTEMPTS = 4
"""How often a segment is begun whose workers or machines are lost."""
_LOOK_SECONDS = 0.2
_SEQUENCES = 1 << 20
"""Hyperframes of segment n are told as numbers from n times this on."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """A segment under way."""

    number: int
    worker: int
    """Which of those that work at once."""
    folders: dict[str, Path]
    """Where its pieces stand, by sink."""


@dataclass(slots=True, eq=False)
class _Segments:
    """How far a run has come with its segments."""

    cuts: Cuts
    chained: bool
    """Whether each needs what the one before carried."""
    attempts: list[int]
    told: list[int]
    """Of each: hyperframes that observers were told to be through."""
    done: dict[int, tuple[Outcome, dict[str, Path]]] = field(default_factory=dict)

    @classmethod
    def of(cls, cuts: Cuts, *, chained: bool, kept: KeptSegments) -> _Segments:
        count = len(cuts.ranges)
        return cls(cuts, chained, [0] * count, [0] * count, dict(kept.done))

    def ready(self, active: set[int]) -> int | None:
        """Return the first segment that can begin."""
        for number in range(len(self.cuts.ranges)):
            if number not in self.done and number not in active:
                return number if not self.chained or number == 0 or number - 1 in self.done else None
        return None

    def end(self, number: int, outcome: Outcome, folders: dict[str, Path]) -> None:
        """Take in the outcome of a segment, if it has read just the frames of its range.

        Raises
        ------
        _UnsureError
            If it has not, so that its neighbours do not join it.
        """
        start, stop = self.cuts.ranges[number]
        last = number == len(self.cuts.ranges) - 1
        joins = outcome.sure and (stop is None or last or outcome.frames_in == stop - start)
        if not joins and len(self.cuts.ranges) > 1:
            raise _UnsureError
        self.done[number] = outcome, folders

    @property
    def finished(self) -> bool:
        """Whether all are done."""
        return len(self.done) == len(self.cuts.ranges)


class _UnsureError(Exception):
    """A segment has shown that the index by which the run was cut is wrong."""


class ClusterRun:
    """Runs one pipeline once, on a cluster.

    Parameters
    ----------
    pipeline : Pipeline
        With sinks that write to files, in folders that all machines see.
    instruments : tuple of Instrument
        Observers of the run.

    Raises
    ------
    HyperframesError
        Before anything is started, if something does not fit.

    Notes
    -----
    One thread here; a task for each segment, as many at once as there are workers. Memory here does not depend on the
    length but for the index of packets; in a task it is that of an engine with one worker.
    """

    def __init__(self, pipeline: Pipeline, instruments: tuple[Instrument, ...] = ()) -> None:
        _check(pipeline)
        options = pipeline.options
        workers, self._warnings = worker_counts(machine_facts(), ("compute",), options.workers)
        self._here = workers["compute"]
        share = None if options.max_memory is None else max(1, options.max_memory // self._here)
        alone = dataclasses.replace(options, workers=1, max_memory=share)
        self.setup: Setup = set_up(pipeline.replace(options=alone))
        self._options = options
        self._told = targets(self.setup)
        self._pieced = {
            key for key, sink in self.setup.sinks.items() if sink.piece_results(self._told[key]) is not None
        }
        self._roots = {key: _root(self.setup.sinks[key]) for key in self._pieced}
        self._claims: dict[Path, FolderClaim] = {}
        self._chained = any(stage.sequential for stage in self.setup.plan.stages)
        unpieced = [sink.name for key, sink in self.setup.sinks.items() if key not in self._pieced]
        self._kept = KeptSegments(self.setup, chained=self._chained, unpieced=unpieced)
        self._name = secrets.token_hex(3)  # of this run's pieces: tasks of one that was killed may still be writing
        self._frames_before = 0
        self._events = Events()
        self._observers = Observers((*instruments, self._events))
        self._cancelled = threading.Event()
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._result: RunResult | None = None
        self._lost: list[str] = []
        self._counts = {"frames_in": 0, "frames_out": 0, "filtered": 0, "hyperframes": 0}
        self._dropped: dict[str, int] = {}
        self._reason = ""

    # Life -------------------------------------------------------------------------------------------------------------

    def start(self) -> Run:
        """See that the outputs can be written, start the thread that runs it, and return the handle."""
        try:
            for key in self._pieced:
                sink = self.setup.sinks[key]
                sink.open(self._told[key])
                sink.abort()
                if (root := self._roots[key]) is not None:
                    self._claims[root] = FolderClaim(root, Path(sink.name))
            self._kept.open()
            self._frames_before = self._counts["frames_in"] = self._kept.frames
            for outcome, _ in self._kept.done.values():
                self.note_done(outcome)
                self._counts["hyperframes"] += outcome.hyperframes
        except BaseException:
            if self._options.resume:  # whatever is wrong, nothing of the interrupted run is removed
                self._leave()
            else:
                self._let_go()
            self.setup.abort()
            raise
        threading.Thread(target=self._go, name="hyperframes-cluster", daemon=True).start()
        return Run(self)

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
        if self._error is None and not self._finished.is_set():
            self._reason = self._reason or reason
            self._cancelled.set()

    def stats(self) -> dict[str, Any]:
        """Return the counts so far; see `Run.stats`."""
        return {
            **self._counts,
            "num_frames": self.setup.num_frames,
            "frames_before": self._frames_before,
            "dropped": dict(self._dropped),
            "finished": self._finished.is_set(),
        }

    def events(self) -> Iterator[Observation]:
        """Yield observations; see `Run.events`."""
        return self._events.read(self._finished)

    # The run ----------------------------------------------------------------------------------------------------------

    def _go(self) -> None:
        sampler = MemorySampler(self._observe)
        self._began = time.perf_counter()
        try:
            self._observe({"kind": "began", "setup": self.setup, "frames_before": self._frames_before})
            sampler.start()
            with connected(self._options.cluster, self._here) as connection:
                prepared, self._began = time.perf_counter() - self._began, time.perf_counter()
                self._observe({"kind": "prepared", "seconds": prepared})
                began_cpu = time.thread_time()
                segments, workers = self._segments(connection)
                output = self._gathered(segments)
                seconds, cpu = time.perf_counter() - self._began, time.thread_time() - began_cpu
            self._result = self._make_result(segments, workers, output, (prepared, seconds, cpu), sampler)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the run
            self._error = error
            self.setup.abort()
            with contextlib.suppress(RuntimeError):  # it was not started
                sampler.stop()
        finally:
            if isinstance(self._error, CancelledError) and self._kept.holds:
                self._leave()
            else:
                self._kept.forget()
                self._let_go()
            self.setup.close()
            told = str(self._error or "")
            self._observe({"kind": "finished", "seconds": time.perf_counter() - self._began, "error": told})
            self._finished.set()

    def _clear(self) -> None:
        """Remove what stands of pieces, of a run that was killed or of this one."""
        kept = {folder.parent for _, folders in self._kept.done.values() for folder in folders.values()}
        for place in itertools.chain.from_iterable(root.iterdir() for root in self._claims):
            if place not in kept:
                shutil.rmtree(place, ignore_errors=True)

    def _leave(self) -> None:
        """Keep pieces and journal for a run that goes on, and let it have the outputs."""
        self._kept.leave()
        for root, claim in self._claims.items():
            with contextlib.suppress(OSError):  # it holds something
                root.rmdir()
            claim.release()

    def _let_go(self) -> None:
        """Remove the folders of pieces, and let other runs write the outputs."""
        for root, claim in self._claims.items():
            remove_folder(root)
            claim.release()

    def _segments(self, connection: Connection) -> tuple[_Segments, int]:
        """Run all segments; where one shows that the index was wrong, all of it again as one."""
        asked = self._options.workers
        workers = asked if isinstance(asked, int) else connection.cpus
        package = packaged(self.setup, connection.ray.cloudpickle)
        unsaved = [stage.name for stage in self.setup.plan.stages if stage.sequential and not stage.contract.snapshot]
        if self._kept.cuts is not None:
            cuts = self._kept.cuts
        elif unsaved:
            cuts = Cuts((self.setup.pipeline.options.range,), f"{unsaved[0]} cannot save its state")
        elif self._options.checksum:
            cuts = Cuts((self.setup.pipeline.options.range,), "a checksum is of all frames in order")
        else:
            cuts = find_cuts(self.setup, self._told, workers)
        try:
            return self._all_done(connection, package, cuts, workers), workers
        except _UnsureError:
            reason = "frames do not stand where the index says: the file is damaged"
            whole = Cuts((self.setup.pipeline.options.range,), reason)
            self._kept.forget()
            self._frames_before = 0
            self._observe({"kind": "began", "setup": self.setup, "frames_before": 0})
            return self._all_done(connection, package, whole, workers), workers

    def _all_done(self, connection: Connection, package: Package, cuts: Cuts, workers: int) -> _Segments:
        segments = _Segments.of(cuts, chained=self._chained, kept=self._kept)
        self._clear()
        crew = _Crew(self, connection, connection.ray.put(package), segments, workers)
        try:
            while not segments.finished:
                if self._cancelled.is_set():
                    raise CancelledError(f"the run was cancelled: {self._reason}")
                crew.begin()
                crew.listen()
        finally:
            crew.dismiss()
        return segments

    def order(self, segments: _Segments, number: int, attempt: int, workers: int) -> tuple[Order, dict[str, Path]]:
        """Return what a task is to do for segment `number`, and where its pieces will stand."""
        start, stop = segments.cuts.ranges[number]
        sinks, told, pieces = {}, {}, {}
        first = segments.cuts.ranges[0][0]
        for key, sink in self.setup.sinks.items():
            port = self.setup.plan.ports[self.setup.plan.sinks[key]]
            position = port.owned((0, start))[1] - port.owned((0, first))[1]
            expected = None if stop is None else port.owned((0, stop))[1] - port.owned((0, start))[1]
            told[key] = dataclasses.replace(self._told[key], num_frames=expected, passthrough=None)
            root = self._roots.get(key)
            if root is not None:
                pieces[key] = (
                    root / f"{number:06d}-{attempt}-{self._name}" / root.name.removeprefix(".").removesuffix(".pieces")
                )
            sinks[key] = sink.piece(pieces.get(key, Path()), position) if key in self._pieced else sink
        options = dataclasses.replace(
            self.setup.pipeline.options,
            range=(start, stop),
            size=self.setup.size,
            workers=workers,
            max_memory=None,
            executor="threads",
            cluster="",
            resume=False,
        )
        carried = segments.done[number - 1][0].carried if segments.chained and number else {}
        ends = number == len(segments.cuts.ranges) - 1
        places = tuple(path.parent for path in pieces.values())
        return Order(sinks, places, options, told, ends, carried), pieces

    def memory_bytes(self) -> int:
        """Return how much frame memory a task takes."""
        return self.setup.memory_bytes()

    def lost(self, number: int, attempt: int, how: str) -> None:
        """Take note of an attempt that ended with its worker or machine."""
        self._lost.append(f"segment {number}: {how}")
        self._observe({"kind": "warning", "text": f"segment {number} was lost: {how}"})
        if attempt >= MAX_ATTEMPTS:
            raise HyperframesError(
                f"segment {number} was lost {attempt} times with its worker: {how}",
                hint="Too little memory, or a crash in native code? Run it with --executor processes to see more.",
            )

    # The outputs ------------------------------------------------------------------------------------------------------

    def _gathered(self, segments: _Segments) -> list[str]:
        """Put every output together and return the names."""
        done = [segments.done[number] for number in range(len(segments.cuts.ranges))]
        for number, (outcome, _) in enumerate(done):
            for path, size in outcome.files.items():
                _check_file(path, size, number)
        names = []
        for key, sink in self.setup.sinks.items():
            if key not in self._pieced:
                names += [name for name in done[0][0].output if name == sink.name]
                continue
            name = sink.gather(self._told[key], [pieces.get(key, Path()) for _, pieces in done])
            if name is not None:
                names.append(name)
        return names

    def _make_result(
        self,
        segments: _Segments,
        workers: int,
        output: list[str],
        times: tuple[float, float, float],
        sampler: MemorySampler,
    ) -> RunResult:
        prepared, seconds, cpu = times
        setup, done = self.setup, [outcome for outcome, _ in segments.done.values()]
        stages: dict[str, float] = {}
        for name, spent in itertools.chain.from_iterable(outcome.stages.items() for outcome in done):
            stages[name] = round(stages.get(name, 0.0) + spent, 6)
        share = (cpu + sum(outcome.coordination_seconds for outcome in done)) / max(1e-9, workers * seconds)
        return RunResult(
            id=setup.run_id,
            frames_in=sum(outcome.frames_in for outcome in done),
            frames_out=sum(outcome.frames_out for outcome in done),
            filtered=sum(outcome.filtered for outcome in done),
            hyperframes=sum(outcome.hyperframes for outcome in done),
            size=setup.size,
            halo=setup.plan.operator_halo,
            workers=workers,
            executor="ray",
            seconds=seconds,
            peak_memory_bytes=sampler.stop(),
            scheduler_share=share,
            stages=stages,
            conversions=list(setup.plan.conversions),
            retries=sum(outcome.retries for outcome in done) + len(self._lost),
            failed=[failure for number in sorted(segments.done) for failure in segments.done[number][0].failed],
            output=output,
            warnings=self._all_warnings(segments, done),
            frames_sha256=done[0].frames_sha256,
            prepare_seconds=prepared,
            frames_before=self._frames_before,
            sinks=dict(setup.sinks),
            sources={setup.plan.ports[port].name: source for port, source in setup.sources.items()},
        )

    def _all_warnings(self, segments: _Segments, done: list[Outcome]) -> list[str]:
        warnings = [*self._warnings, *self.setup.warnings, *self._kept.warnings]
        if segments.cuts.reason:
            warnings.append(f"the run was not cut, one worker did it all: {segments.cuts.reason}")
        if self._lost:
            lost = count_text(len(self._lost), "worker", "workers")
            warnings.append(f"{lost} died and what they did was done again: {'; '.join(self._lost[:3])}")
        for outcome in done:
            warnings += outcome.warnings
        for sink in self.setup.sinks.values():
            warnings += getattr(sink, "warnings", ())
        warnings += [f"an observer failed and was left out: {error}" for _, error in self._observers.failures]
        return list(dict.fromkeys(warnings))

    # Watching ---------------------------------------------------------------------------------------------------------

    def tell(self, segments: _Segments, attempt: _Attempt, news: News) -> None:
        """Pass on what a task saw, in this process's time and numbers; what a lost attempt has told is not told twice."""
        shift = time.perf_counter_ns() - news.now_ns
        through = segments.told[attempt.number]
        for observation in news.observations:
            sequence = observation["sequence"]
            if sequence < through:
                continue
            kind = observation["kind"]
            told = {**observation, "ns": observation["ns"] + shift, "sequence": attempt.number * _SEQUENCES + sequence}
            if kind == "done":
                told |= {"worker": attempt.worker, "begin_ns": observation["begin_ns"] + shift}
            if kind in {"emitted", "dropped"}:
                segments.told[attempt.number] = max(segments.told[attempt.number], sequence + 1)
            if kind == "dropped":
                self._dropped[observation["reason"]] = self._dropped.get(observation["reason"], 0) + 1
            if kind == "sealed":
                self._counts["frames_in"] += observation["core"][1] - observation["core"][0]
                self._counts["hyperframes"] += 1
            self._observe(told)

    def keep(self, segments: _Segments, number: int) -> None:
        """Write down that a segment is done, so that it need not be done again."""
        self._kept.end(segments.cuts, number, *segments.done[number])

    def note_done(self, outcome: Outcome) -> None:
        """Count the results of a segment that is done."""
        self._counts["frames_out"] += outcome.frames_out
        self._counts["filtered"] += outcome.filtered

    def _observe(self, observation: Observation) -> None:
        observation.setdefault("ns", time.perf_counter_ns())
        self._observers.observe(observation)


class _Crew:
    """The tasks of one run: begins segments while workers are free, and hears what they tell."""

    def __init__(
        self, run: ClusterRun, connection: Connection, package: Any, segments: _Segments, workers: int
    ) -> None:
        self._run, self._segments, self._package = run, segments, package
        self._ray = connection.ray
        self._task = connection.ray.remote(run_segment)
        alone = len(segments.cuts.ranges) == 1 or segments.chained
        self._cpus = min(workers, connection.largest) if alone else 1
        self._free = list(range(workers))
        self._active: dict[Any, _Attempt] = {}

    def begin(self) -> None:
        """Begin as many segments as can be."""
        active = {attempt.number for attempt in self._active.values()}
        while self._free and (number := self._segments.ready(active)) is not None:
            self._segments.attempts[number] += 1
            order, pieces = self._run.order(self._segments, number, self._segments.attempts[number], self._cpus)
            task = self._task.options(
                num_cpus=self._cpus,
                memory=self._run.memory_bytes(),
                max_retries=0,  # retries are counted, told and given folders of their own here
                num_returns="streaming",
                name="hyperframes segment",
            )
            told = task.remote(self._package, order)
            self._active[told] = _Attempt(number, self._free.pop(0), pieces)
            active.add(number)

    def listen(self) -> None:
        """Wait a moment for what tasks tell, and take it in."""
        ready, _ = self._ray.wait(list(self._active), num_returns=1, timeout=_LOOK_SECONDS)
        for told in ready:
            try:
                message = self._ray.get(next(told))
            except StopIteration:
                self._lose(told, "it ended without a word")
            except self._ray.exceptions.RayTaskError as error:
                raise HyperframesError(
                    f"a task of the cluster failed: {str(error.cause).splitlines()[0]}",
                    hint="Is hyperframes installed on all machines, in the same version?",
                ) from error
            except self._ray.exceptions.RayError as error:
                self._lose(told, _why(error))
            else:
                self._take(told, message)

    def _take(self, told: Any, message: News | Outcome | Failure) -> None:
        attempt = self._active[told]
        if isinstance(message, News):
            self._run.tell(self._segments, attempt, message)
            return
        if isinstance(message, Failure):
            raise raised_from(message) from WorkerTraceback(message.trace)
        self._leave(told)
        self._segments.end(attempt.number, message, attempt.folders)
        self._run.note_done(message)
        self._run.keep(self._segments, attempt.number)

    def _lose(self, told: Any, how: str) -> None:
        attempt = self._leave(told)
        self._run.lost(attempt.number, self._segments.attempts[attempt.number], how)

    def _leave(self, told: Any) -> _Attempt:
        attempt = self._active.pop(told)
        self._free.append(attempt.worker)
        return attempt

    def dismiss(self) -> None:
        """End the tasks that are still under way, and see that they are gone."""
        for told in self._active:
            with contextlib.suppress(Exception):  # whatever it is: nobody waits for them any more
                self._ray.cancel(told, force=True)
        for told in self._active:
            with contextlib.suppress(Exception):
                for _ in told:
                    pass
        self._active.clear()


# What can be wrong ----------------------------------------------------------------------------------------------------


def _check(pipeline: Pipeline) -> None:
    """Refuse what cannot be done by several machines."""
    if pipeline.options.on_size_change == "split":
        raise PipelineError(
            "on_size_change: the ray executor cannot split outputs",
            got="split",
            hint="Scale what changes (--on-size-change scale), or use --executor threads.",
        )
    for what in pipeline.sinks.values():
        if what == "-" or callable(what) or isinstance(what, MemorySink | CallbackSink):
            name = what if isinstance(what, str) else getattr(what, "name", type(what).__name__)
            raise PipelineError(
                f"the ray executor writes where the work is done: expected files, got {name!r}",
                got=name,
                hint="Write to a file in a folder that all machines see, or use executor='threads'.",
            )
    if not pipeline.sinks:
        raise PipelineError(
            "the ray executor writes where the work is done: expected a sink, got none",
            hint="Give it a file: to='out.npy', or use executor='threads' to keep the result in memory.",
        )


def _root(sink: Sink) -> Path | None:
    """Return the folder beside an output in which its pieces stand until they are put together."""
    place = sink.place()
    return None if place is None else pieces_of(place)


def _check_file(path: Path, size: int, number: int) -> None:
    try:
        found = path.stat().st_size
    except OSError:
        found = None
    if found != size:
        raise SinkError(
            f"segment {number} wrote {path}, which is not here: expected {size} bytes, got "
            f"{'no such file' if found is None else found}",
            sink=str(path),
            hint="Write to a folder that all machines of the cluster see under one name.",
        )


def _why(error: Exception) -> str:
    """Return in a few words how a worker was lost."""
    known = {
        "WorkerCrashedError": "the worker process was killed",
        "LocalRayletDiedError": "the machine was lost",
        "NodeDiedError": "the machine was lost",
        "OutOfMemoryError": "the machine ran out of memory",
        "OwnerDiedError": "the machine was lost",
    }
    return known.get(type(error).__name__, type(error).__name__)


# Many files -----------------------------------------------------------------------------------------------------------


def run_many(pipelines: Sequence[Pipeline], instruments: tuple[Instrument, ...] = ()) -> list[RunResult]:
    """Run several pipelines at once on one cluster, and return their results in order.

    Parameters
    ----------
    pipelines : sequence of Pipeline
        All with the options of the first: executor ray.
    instruments : tuple of Instrument
        Observers; they see all runs as one.

    Raises
    ------
    HyperframesError
        What ended a run early; the others are cancelled.
    """
    first = pipelines[0].options
    here = worker_counts(machine_facts(), ("compute",), first.workers)[0]["compute"]
    together = _Together(instruments, len(pipelines))
    handles: list[Run] = []

    def run_one(pipeline: Pipeline) -> RunResult:
        with interrupts_held():
            handle = ClusterRun(pipeline, (together,)).start()
            handles.append(handle)
        return handle.wait()

    with connected(first.cluster, here) as connection:
        workers = first.workers if isinstance(first.workers, int) else connection.cpus
        with ThreadPoolExecutor(workers + 1, "hyperframes-file") as pool:
            runs = [pool.submit(run_one, pipeline) for pipeline in pipelines]
            try:
                wait(runs, return_when=FIRST_EXCEPTION)
            finally:
                for run in runs:
                    run.cancel()
                for handle in handles:
                    handle.cancel("another file failed")
    errors = [run.exception() for run in runs if not run.cancelled()]
    for error in sorted(filter(None, errors), key=lambda error: isinstance(error, CancelledError)):
        raise error
    return [run.result() for run in runs]


class _Together:
    """Shows several runs as one to observers: they begin once and end once, and numbers do not meet."""

    def __init__(self, instruments: tuple[Instrument, ...], count: int) -> None:
        self._observers, self._count = Observers(instruments), count
        self._lock = threading.Lock()
        self.num_frames = None  # as a setup tells it: nobody knows before all files were opened
        self._begun = self._ended = 0

    def observe(self, observation: Observation) -> None:
        """Pass on one observation of one run."""
        with self._lock:
            if observation["kind"] == "began":
                self._begun += 1
                if self._begun == 1:
                    self._observers.observe({**observation, "setup": self})
            elif observation["kind"] in {"sealed", "emitted", "dropped", "memory", "warning"}:
                self._observers.observe(observation)
            elif observation["kind"] == "finished":
                self._ended += 1
                if self._ended == self._count:
                    self._observers.observe(observation)
