"""What the offline driver writes in the journal while it runs, and where a run that was interrupted goes on.

A checkpoint is a cut through the whole run after one hyperframe: what every sink has safe, what sequential stages
carried there, and the counts so far. A resumed run starts at the last hyperframe from which nothing is missing and
withholds from each sink what it has already.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes import __version__, registry
from hyperframes.drivers.execute import Buffer, Carried
from hyperframes.drivers.journal import (
    KEPT_LIVES,
    Journal,
    LastRun,
    Life,
    LockedJournalError,
    Safe,
    journal_beside,
    packed,
    remove_files,
)
from hyperframes.drivers.setup import check_budget, targets
from hyperframes.errors import PipelineError, SinkError, without_credentials
from hyperframes.frames import Clip
from hyperframes.operators.create import as_text
from hyperframes.sinks import open_sink
from hyperframes.sinks.staging import remove_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hyperframes.drivers.execute import Job
    from hyperframes.drivers.setup import Setup
    from hyperframes.frames import Records
    from hyperframes.instruments import Observation
    from hyperframes.pipeline import Pipeline
    from hyperframes.sinks import Sink, Target

__all__ = [
    "Done",
    "RunJournal",
    "carried_of",
    "changes",
    "facts_of",
    "flattened",
    "journals_of",
    "refuse_changes",
    "take_size",
    "unknown_input",
]

_MOST_SHARE = 20
"""A snapshot at a part is put off until this many times the cost of the last one has passed: at most 5 % of the run."""
_CLOCK_NS = 1_000_000_000  # file systems' clocks are coarser
_LIBRARIES = ("numpy", "numba", "av", "opencv-python-headless")


@dataclass(slots=True)
class Done:
    """What interrupted runs had done before the frame at which this one starts."""

    frames_out: int = 0
    filtered: int = 0
    hyperframes: int = 0
    failed: list[dict[str, Any]] = field(default_factory=list)


class RunJournal:
    """The journal of one run of `setup`, from opening its sinks to their end; an instrument, too.

    Nothing is written before the first checkpoint, so a short run makes no journal. If the journal cannot be written
    later on, the run goes on without, and `warnings` says so: what was written stays true.

    `sealed` and `observe` are called from any thread, `capture` from whichever runs a sequential stage, the rest from
    the one that feeds the sinks.
    """

    def __init__(self, setup: Setup, *, segment: bool = False) -> None:
        self.setup, self._is_segment = setup, segment
        options, plan = setup.pipeline.options, setup.plan
        self.first = options.range[0]
        """Source frame at which the first core of this run starts."""
        self.carried: dict[int, Carried] = {}
        """By group: what sequential stages carried there."""
        self.done = Done()
        self.warnings: list[str] = []
        self._sequential = [i for i, group in enumerate(plan.groups) if plan.stages[group.stages[0]].sequential]
        self._chained = any(group.sequential for group in plan.groups)
        stages = [plan.stages[plan.groups[i].stages[0]] for i in self._sequential]
        self._unsaved = [stage.name for stage in stages if not stage.contract.snapshot]
        places = [place for sink in setup.sinks.values() if (place := sink.place()) is not None]
        self.path = journal_beside(places[0]) if places else None
        self._obstacle = self._find_obstacle()
        self._journal: Journal | None = None
        self._run = 0  # its number in the journal; 0: not in there yet
        self._holds = False  # whether the journal tells of something to go on from
        self._halted = False  # nothing after a failure that others depend on is worth going on from
        self._closed: set[str] = set()  # sinks whose output stands under its name already
        self._floors: dict[str, Safe] = {}  # what each sink had when this run started
        self._reached = self._needed = self.first
        self._lock = threading.Lock()
        self._lives: dict[int, Life] = {}
        self._ended: deque[Life] = deque(maxlen=KEPT_LIVES)
        self._epoch_ns = time.time_ns() - time.perf_counter_ns()
        self._checked_at = self._captured_at = time.monotonic()
        self._part_waits = False  # a part was finished after the last snapshot
        self._cost_seconds = 0.0

    def _find_obstacle(self) -> str:
        """Return why a run of this pipeline could not go on after an interruption; nothing if it could."""
        if self._is_segment:
            return "a segment of another run is run again"
        for sink in self.setup.sinks.values():
            if not sink.resumable:
                return f"{sink.name} cannot go on after an interruption"
        return unknown_input(self.setup) or ("" if self.path is not None else "nothing is written to a file")

    # Beginning --------------------------------------------------------------------------------------------------------

    def open_sinks(self) -> None:
        """Open the sinks: where an interrupted run stopped, if that is asked for and possible, else from the start.

        Raises
        ------
        PipelineError
            If the interrupted run had another input, operators or options: it says which, and nothing is touched.
        SinkError
            If the journal is damaged, another run is writing it, or a sink cannot be opened.
        """
        size = self.setup.size
        if not (self.setup.pipeline.options.resume and self._go_on()):
            self.setup.size = size
            self._start_over()

    def _go_on(self) -> bool:
        if self._obstacle or self.path is None:
            self.warnings.append(f"resume: the run started over: {self._obstacle}")
            return False
        with contextlib.ExitStack() as stack:
            found = outputs = None
            if self.path.exists():
                self._journal = journal = Journal(self.path)
                stack.callback(journal.close)
                found, outputs = journal.last_run(), journal.outputs()
            if not found or not outputs:
                self.warnings.append(f"resume: nothing was left of {self._name()} to go on from: the run started over")
                return False
            self._holds = True  # whatever is wrong from here on, nothing of it is removed
            refuse_changes(self._name(), found.facts, facts_of(self.setup))
            self.warnings += take_size(self.setup, found.size)
            safe = self._resume_sinks(outputs, found)
            if safe is None:
                self._holds = False
                return False
            self._floors = safe
            self._find_start(journal)
            stack.pop_all()
        return True

    def _name(self) -> str:
        return next(sink.name for sink in self.setup.sinks.values() if sink.place() is not None)

    def _resume_sinks(self, outputs: Mapping[str, Safe], last: LastRun) -> dict[str, Safe] | None:
        """Return what each sink has safe; None where one has lost it, in which case all are to start over."""
        told = self._targets()
        found: dict[str, Safe] = {}
        for key, sink in self.setup.sinks.items():
            mark = sink.resume(told[key], outputs[key].token)
            if mark is None and _is_closed(sink, last):
                self._closed.add(key)
                found[key] = dataclasses.replace(outputs[key], wanted=None)
                continue
            if mark is None:
                self.warnings.append(f"resume: the run started over: what was done of {sink.name} is gone")
                for opened in found:
                    self.setup.sinks[opened].abort()
                return None
            found[key] = Safe(outputs[key].frame, mark.wanted, mark.token)
        return found

    def _find_start(self, journal: Journal) -> None:
        """Find the last frame from which nothing is missing, with what was carried and counted before it."""
        needed = self._needed_from(self._floors)
        start = self.first
        if self._sequential:
            snapshot = None if self._unsaved else journal.snapshot(needed)
            if snapshot is not None:
                self.first, self.carried = snapshot[0], carried_of(snapshot[1])
        else:
            life = journal.reached(needed)
            self.first = start if life is None else life.stop
        self._reached, self._needed = self.first, needed
        if self.first > start:
            life = journal.reached(self.first)
            assert life is not None, "a snapshot is written with its hyperframe"
            hyperframes = -(-(self.first - start) // self.setup.size)
            self.done = Done(life.frames_out or 0, life.filtered or 0, hyperframes, self._failed_before(journal))
        again = ""
        if self.first < needed and self._sequential:
            names = ", ".join(
                self.setup.plan.stages[self.setup.plan.groups[i].stages[0]].name for i in self._sequential
            )
            why = f"{', '.join(self._unsaved)} cannot save its state" if self._unsaved else f"for the state of {names}"
            again = f"; frames {self.first} to {needed - 1} were computed again: {why}"
        self.warnings.append(f"resumed at frame {needed}: what was done before was kept{again}")

    def _failed_before(self, journal: Journal) -> list[dict[str, Any]]:
        where = "outcome = 'dropped' AND frames_out IS NOT NULL AND stop <= ?"
        lives = {life.stop: life for life in journal.lives(where, (self.first,), "stop")}
        return [{"id": life.id, "frames": [life.start, life.stop], "error": life.error} for life in lives.values()]

    def _needed_from(self, outputs: Mapping[str, Safe]) -> int:
        """Return the first source frame whose results some sink has not safe."""
        found = []
        for key, safe in outputs.items():
            port = self.setup.plan.ports[self.setup.plan.sinks[key]]
            wanted = safe.frame if safe.wanted is None else port.start_of(safe.wanted)
            found.append(min(safe.frame, wanted))
        return max(self.setup.pipeline.options.range[0], min(found))

    def _targets(self) -> dict[str, Target]:
        journaled = not self._obstacle
        return {key: dataclasses.replace(t, journaled=journaled) for key, t in targets(self.setup).items()}

    def _start_over(self) -> None:
        if self._journal is not None:
            self._journal.remove()
            self._journal = None
        elif self.path is not None and self.path.exists():
            self._replace(self.path)
        for sink in self.setup.sinks.values():
            if (place := sink.place()) is not None:
                remove_pieces(place)  # of a run over several machines
        for key, target in self._targets().items():
            self.setup.sinks[key].open(target)

    def _replace(self, path: Path) -> None:
        """Remove the journal that an interrupted run left, and say what could have been done with it."""
        told = f"what an interrupted run left of {self._name()} was replaced"
        try:
            journal = Journal(path)
        except LockedJournalError:
            raise
        except SinkError:  # damaged: nobody can go on from it
            remove_files(path)
        else:
            with contextlib.closing(journal):
                found, outputs = journal.last_run(), journal.outputs()
            if found and outputs and not self._obstacle and not changes(found.facts, facts_of(self.setup)):
                told += f"; --resume would have gone on at frame {self._needed_from(outputs)}"
            remove_files(path)
        self.warnings.append(told)

    # While it runs ----------------------------------------------------------------------------------------------------

    def sealed(self, job: Job) -> bool:
        """Take note of a hyperframe; return whether its sequential stages should put aside what they carry after it."""
        if self._obstacle:
            return False
        header = next(iter(job.inputs.values())).header
        life = Life(
            job.sequence,
            job.id,
            ", ".join(stream for hyperframe in job.inputs.values() for stream in hyperframe.header.streams),
            header.kind,
            *job.core,
            seal_reason=header.seal_reason,
            sealed_ns=time.time_ns(),
        )
        with self._lock:
            self._lives[job.sequence] = life
        if not self._sequential or self._unsaved:
            return False
        now = time.monotonic()
        soon = self._part_waits and now - self._captured_at >= _MOST_SHARE * self._cost_seconds
        wanted = soon or now - self._captured_at >= self.setup.pipeline.options.checkpoint_seconds
        if wanted:
            self._captured_at, self._part_waits = now, False
        return wanted

    def capture(self, job: Job, group: int, carried: Carried) -> None:
        """Put aside what a sequential stage carries after `job`; its arrays are never changed in place."""
        if job.captured is not None:
            job.captured[group] = Carried(carried.state, carried.done, dict(carried.tails))

    def observe(self, observation: Observation) -> None:
        """Take note of times, failures and drops."""
        life = self._lives.get(observation.get("sequence", -1))
        if life is None:
            return
        match observation["kind"]:
            case "done":
                began = self._epoch_ns + observation["begin_ns"]
                life.started_ns = began if life.started_ns is None else min(life.started_ns, began)
                life.done_ns = max(life.done_ns or 0, began + observation["duration_ns"])
            case "failed":
                life.attempts, life.error = observation["attempt"] + 1, without_credentials(observation["error"])
            case "dropped":
                life.outcome, life.reason = "dropped", observation["reason"]
                life.error = life.error or "a hyperframe that it depends on failed"

    def fresh(self, key: str, job: Job, result: Clip | Records) -> Clip | Records | None:
        """Return what of `result` the sink of `key` has not got yet; None where it has all."""
        floor = self._floors.get(key)
        if floor is None:
            return result
        if floor.wanted is None or not isinstance(result, Clip):
            return result if job.core[1] > floor.frame else None
        return _from(result, floor.wanted)

    def delivered(self, job: Job, frames_out: int, filtered: int) -> None:
        """Take note that the sinks were given all of a hyperframe; make a checkpoint when one is due.

        Raises
        ------
        SinkError
            If a sink cannot make safe what it was given.
        """
        if self._obstacle:
            return
        with self._lock:
            life = self._lives.pop(job.sequence)
        life.ended_ns, life.frames_out, life.filtered = time.time_ns(), frames_out, filtered
        life.outcome = life.outcome or "delivered"
        self._ended.append(life)
        self._halted = self._halted or (bool(job.dropped) and self._chained)
        if self._halted:
            return
        self._reached = job.core[1]
        captured = job.captured if job.captured and len(job.captured) == len(self._sequential) else None
        if any(sink.part_finished for sink in self.setup.sinks.values()):
            self._part_waits = True
            self._checkpoint(captured)
        elif captured is not None or self._is_time():
            self._checkpoint(captured)

    def _is_time(self) -> bool:
        """Whether a checkpoint without a snapshot is due; the others come when one was captured."""
        waits = bool(self._sequential) and not self._unsaved
        return not waits and time.monotonic() - self._checked_at >= self.setup.pipeline.options.checkpoint_seconds

    def _checkpoint(self, captured: Mapping[int, Carried] | None) -> None:
        began = self._checked_at = time.monotonic()
        outputs = {}
        for key, sink in self.setup.sinks.items():
            floor = self._floors.get(key)
            if key in self._closed:
                outputs[key] = self._floors[key]
                continue
            mark = sink.checkpoint()
            frame = self._reached if floor is None else max(self._reached, floor.frame)
            outputs[key] = Safe(frame, mark.wanted, mark.token)
        snapshot = None
        if captured is not None and not self._unsaved:
            try:
                snapshot = (self._reached, packed(flattened(captured)))
            except TypeError as error:
                self._unsaved = [f"a sequential stage ({error})"]
                self.warnings.append(
                    f"the state of a sequential stage cannot be saved: {error}: a resumed run makes it anew"
                )
        self._write(outputs, snapshot)
        if snapshot is not None:
            self._cost_seconds = time.monotonic() - began

    def _write(self, outputs: Mapping[str, Safe], snapshot: tuple[int, bytes] | None) -> None:
        if self._obstacle:
            return
        assert self.path is not None
        lives = list(self._ended)
        needed = self._needed_from(outputs) if outputs else self.first
        self._needed = max(self._needed, needed)
        try:
            if self._journal is None:
                self._journal = self._made(self.path)
            if not self._run:
                facts = facts_of(self.setup)
                self._run = self._journal.begin(self.setup.run_id, "offline", self.setup.size, facts)
            self._journal.write(self._run, lives, outputs, snapshot, needed_from=needed)
        except LockedJournalError:
            raise
        except SinkError as error:
            self._obstacle = "its journal could not be written"
            so_far = "from its last checkpoint" if self._holds else "over"
            self.warnings.append(f"{error}: if this run were interrupted, it would start {so_far}")
            return
        self._ended.clear()
        self._holds = self._holds or bool(outputs)

    def _made(self, path: Path) -> Journal:
        try:
            return Journal(path)
        except LockedJournalError:
            raise
        except SinkError:
            remove_files(path)
            raise

    # The end ----------------------------------------------------------------------------------------------------------

    def close_sinks(self) -> list[str]:
        """Close the sinks and return the names of what they made.

        A journal that stands says so before, so that a run killed in between knows which are closed.
        """
        if self._journal is not None and not self._obstacle and not self._halted:
            self._checkpoint(None)
            self._note_end(self._journal, "closing")
        names = []
        for key, sink in self.setup.sinks.items():
            if key in self._closed:
                sink.abort()
            name = sink.name if key in self._closed else sink.close()
            if name is not None:
                names.append(name)
        return names

    def interrupted(self) -> bool:
        """Write down how far the run came; return whether something is left to go on from."""
        if not self._obstacle and (self._ended or self._lives):
            for life in self._lives.values():
                life.outcome, life.reason = "dropped", life.reason or "cancelled"
                self._ended.append(life)
            try:
                if self._halted or self._reached == self.first:
                    if self._holds:
                        self._write({}, None)
                else:
                    for sink in self.setup.sinks.values():
                        sink.settle()
                    self._checkpoint(None)
            except SinkError as error:
                self.warnings.append(str(error))
        if not self._holds or self._needed == self.setup.pipeline.options.range[0]:
            return False
        if self._journal is not None:
            self._note_end(self._journal, "interrupted")
            self._journal.close()
        return True

    def _note_end(self, journal: Journal, outcome: str) -> None:
        if self._run and not self._obstacle:
            try:
                journal.end(self._run, outcome)
            except SinkError as error:
                self.warnings.append(str(error))

    def discard(self) -> None:
        """Remove the journal: the run came to its end, or nothing of it is kept."""
        if self._journal is not None:
            self._journal.remove()
            self._journal = None

    @property
    def holds(self) -> bool:
        """Whether the journal tells of something to go on from."""
        return self._holds


def unknown_input(setup: Setup) -> str:
    """Return of which source nobody can tell whether it is the one that was read before; nothing if all can be told."""
    unknown = (source.name for source in setup.sources.values() if not source.identifiable)
    return next((f"nothing tells whether {name} is the same input as before" for name in unknown), "")


def take_size(setup: Setup, size: int) -> list[str]:
    """Give a run the size of the interrupted one that it goes on with; return what is to be said about it."""
    options = setup.pipeline.options
    setup.size = size
    if options.max_memory is not None:
        check_budget(setup, options.max_memory)
    if str(options.size) in {"auto", str(size)}:
        return []
    return [f"resume: the size of the interrupted run is kept: {size} instead of {options.size}"]


def _is_closed(sink: Sink, last: LastRun) -> bool:
    """Whether the output of `sink` got its name after all of its frames were done."""
    place = sink.place()
    if place is None or last.outcome != "closing" or last.ended_ns is None or not place.exists():
        return False
    return place.stat().st_ctime_ns >= last.ended_ns - _CLOCK_NS


def _from(clip: Clip, wanted: int) -> Clip | None:
    """Return the frames of `clip` from position `wanted` on; None where there are none."""
    at = int(np.searchsorted(clip.index, wanted))
    if at == 0:
        return clip
    if at == len(clip):
        return None
    return Clip(
        tuple(plane[at:] for plane in clip.planes),
        clip.pts[at:],
        clip.index[at:],
        clip.spec,
        None if clip.durations is None else clip.durations[at:],
        None if clip.mask is None else clip.mask[at:],
        clip.hyperframe,
    )


def journals_of(pipeline: Pipeline) -> list[Path]:
    """Return where the journals of runs of `pipeline` can stand: beside each output that is a file."""
    places = [open_sink(what).place() for what in pipeline.sinks.values()]
    return [journal_beside(place) for place in places if place is not None]


# What must not change -------------------------------------------------------------------------------------------------


def facts_of(setup: Setup) -> dict[str, str]:
    """Return everything that decides the output, by a name for people: input, stages, options, sinks, versions."""
    plan, options = setup.plan, setup.pipeline.options
    facts = {"hyperframes": __version__}
    for number, source in setup.sources.items():
        facts[f"source {plan.ports[number].name!r}"] = f"{source.identity()}, {source.spec}"
    for stage in plan.stages:
        reads = ", ".join(plan.ports[port].name for port in stage.inputs)
        text = f"{as_text(stage.operator)} version {stage.operator.version} of {reads}"
        facts[f"stage {stage.name!r}"] = f"{text}{_origin(stage.operator.name)}"
    for name in ("boundary", "pixel_format", "dtype", "layout", "range", "on_size_change"):
        facts[f"option {name}"] = str(getattr(options, name)) or "none"
    for key, sink in setup.sinks.items():
        facts[f"output {key!r}"] = _output(key, sink, setup)
    facts |= {f"library {name}": _version(name) for name in _LIBRARIES}
    facts["processor"] = platform.machine()
    return {name: without_credentials(text) for name, text in facts.items()}


def _output(key: str, sink: Sink, setup: Setup) -> str:
    place = sink.place()
    settings = ", ".join(f"{name}={value}" for name, value in sink.settings().items() if value is not None)
    where = sink.name if place is None else os.path.abspath(place)
    return f"{where} of {setup.plan.ports[setup.plan.sinks[key]].name}" + (f" with {settings}" if settings else "")


def _origin(name: str) -> str:
    """Return which other distribution brings the operator `name`, with its version."""
    origin = registry.operators.origin(name)
    return f" from {origin}" if origin and not origin.startswith("hyperframes-engine ") else ""


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "unknown"


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return (name, old, new) of all facts that differ, those of the input first."""
    names = [*now, *(name for name in before if name not in now)]
    found = [(name, before.get(name, "none"), now.get(name, "none")) for name in names]
    return [fact for fact in found if fact[1] != fact[2]]


def refuse_changes(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to go on with the output `name` where anything differs that decides it.

    Raises
    ------
    PipelineError
        Naming what changed, from what, to what.
    """
    found = changes(before, now)
    if not found:
        return
    (what, old, new), *more = found
    others = f" ({', '.join(other for other, _, _ in more)} changed, too)" if more else ""
    raise PipelineError(
        f"the interrupted run of {name} cannot be resumed: {what} changed: {old} -> {new}{others}",
        expected=old,
        got=new,
        hint="Run it as it was, or without --resume to start over.",
    )


# What is carried, as flat values --------------------------------------------------------------------------------------


def flattened(carried: Mapping[int, Carried]) -> dict[str, Any]:
    """Return what sequential stages carry, by group, as one flat mapping for `packed`."""
    values: dict[str, Any] = {}
    for group, one in carried.items():
        values[f"{group}/done"] = one.done
        values[f"{group}/has_state"] = one.state is not None
        values |= {f"{group}/state/{key}": value for key, value in (one.state or {}).items()}
        for port, tail in one.tails.items():
            values[f"{group}/tail/{port}/start"] = tail.start
            values[f"{group}/tail/{port}/stop"] = tail.stop
            values |= {f"{group}/tail/{port}/{i}": plane for i, plane in enumerate(tail.planes)}
    return values


def carried_of(values: Mapping[str, Any]) -> dict[int, Carried]:
    """Return what `flattened` made one mapping of."""
    found: dict[int, Carried] = {}
    planes: dict[tuple[int, int], list[Any]] = {}
    for name, value in values.items():
        group, what, *rest = name.split("/", 3 if "/tail/" in name else 2)
        one = found.setdefault(int(group), Carried())
        if what == "done":
            one.done = value
        elif what == "has_state":
            one.state = {} if value else None
        elif what == "state":
            assert one.state is not None, "has_state comes first"
            one.state["/".join(rest)] = value
        else:
            port, part = int(rest[0]), rest[1]
            tail = one.tails.setdefault(port, Buffer((), 0, 0))
            if part in {"start", "stop"}:
                setattr(tail, part, value)
            else:
                planes.setdefault((int(group), port), []).append(value)
    for (number, port), held in planes.items():
        found[number].tails[port].planes = tuple(held)
    return found
