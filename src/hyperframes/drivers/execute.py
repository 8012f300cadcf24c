"""What a worker does: run one group of stages on one hyperframe. Knows nothing of threads, queues or sinks."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hyperframes.drivers.machine import cache_share
from hyperframes.drivers.tiles import Held, TiledChain, lent_part, runs_in_tiles
from hyperframes.errors import OperatorError
from hyperframes.frames import Array, Clip, FrameSpec, Records, RecordSpec
from hyperframes.operators import State, View, Worker
from hyperframes.operators.framewise import Framewise
from hyperframes.packing import Halo, Header, Hyperframe, Slab, window
from hyperframes.plan import Group, Plan, PlannedStage, Range
from hyperframes.scheduling import step_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from hyperframes.frames import Frame
    from hyperframes.packing import FrameRooms

__all__ = [
    "Buffer",
    "Carried",
    "GroupRunner",
    "Job",
    "OneByOne",
    "Runner",
    "bring_tails",
    "keep_tails",
    "part_of",
    "result_of",
]


@dataclass(slots=True, eq=False)
class Buffer:
    """The entries [start, stop) of one port for one hyperframe."""

    planes: tuple[Array, ...]
    start: int
    stop: int
    slab: Slab | None = None
    offset: int = 0
    """Where `start` stands in `held`."""
    held: tuple[Array, ...] | None = None
    """The worker's own memory that it lies in, if it does."""

    def part(self, wanted: Range) -> tuple[Array, ...]:
        """Return writable arrays of the entries `wanted`."""
        return tuple(plane[wanted[0] - self.start : wanted[1] - self.start] for plane in self.planes)


@dataclass(slots=True, eq=False)
class Job:
    """One hyperframe on its way through the plan."""

    sequence: int
    core: Range
    num_frames: int | None
    """N, where the stream's end was known when the hyperframe was sealed."""
    end: bool
    inputs: dict[int, Hyperframe]
    """By source port."""
    buffers: dict[int, Buffer] = field(default_factory=dict)
    """By exported port of kind frames or windows."""
    rows: dict[int, list[tuple[int, list[Any]]]] = field(default_factory=dict)
    """By exported port of kind records or spans: (part, rows)."""
    kept: dict[int, Array] = field(default_factory=dict)
    """By port of a selecting stage: (owned,) bool."""
    parts: dict[int, int] = field(default_factory=dict)
    """By group: into how many parts it was split."""
    captured: dict[int, Carried] | None = None
    """By group of a sequential stage: what it carried after this hyperframe, where a snapshot is to be taken of it."""
    look: Array | None = None
    """What its frames look like, where its cost is to be guessed."""
    seconds: float = 0.0
    """What its tasks took so far."""
    attempt: int = 0
    released: bool = False
    """No task reads it any more."""
    dropped: str = ""
    """Why it was given up."""

    @property
    def id(self) -> str:
        """The hyperframe's id."""
        return next(iter(self.inputs.values())).header.id


@dataclass(slots=True, eq=False)
class Carried:
    """What a sequential stage hands from one hyperframe to the next."""

    state: State | None = None
    done: int | None = None
    """Input frames up to here have been worked on; None at the start of a run."""
    tails: dict[int, Buffer] = field(default_factory=dict)
    """By output port: the last entries made, which the next hyperframe's readers need again."""


@dataclass(slots=True, eq=False)
class _Passing:
    """A task of a fused group on its way: what it is to make, and how far each stage has come."""

    exports: dict[int, Range]
    """By port that leaves the group: the entries wanted."""
    cores: dict[int, Range]
    """By stage: the input frames it works on in all."""
    done: dict[int, int]
    """By stage: how far it has come."""
    made: dict[int, Buffer] = field(default_factory=dict)
    rows: dict[int, list[Any]] = field(default_factory=dict)


class Runner(Protocol):
    """Runs groups of stages for one worker, here or in another process."""

    seconds: dict[str, float]
    """Time spent in each stage's operator."""
    waited_ns: int
    """Time a task was on its way to where it runs and back, summed: idle while work was there."""
    deaths: list[str]
    """How worker processes ended that had to be started again, and when."""

    def prepare(self) -> None:
        """Get ready for the first task, and again after its worker was lost."""
        ...

    def run(self, job: Job, number: int, part: int = 0) -> None:
        """Run (a part of) group `number` on an independent hyperframe."""
        ...

    def run_sequential(self, job: Job, number: int, carried: Carried) -> None:
        """Run a stage that carries state; the driver calls it for one hyperframe after the other."""
        ...

    def close(self) -> None:
        """End what was started for it; no task follows."""
        ...


class OneByOne:
    """Converts frames as they come, each once, to memory that is used again when no hyperframe holds them."""

    def __init__(self, stage: PlannedStage, spec: FrameSpec, rooms: FrameRooms) -> None:
        assert isinstance(stage.operator, Framewise)
        self.name, self.seconds = stage.name, 0.0
        self._convert, self._rooms = stage.operator.frame_kernel(spec), rooms

    def __call__(self, frame: Frame) -> tuple[Array, ...]:
        """Return the planes of `frame`, converted."""
        began, planes = time.perf_counter(), self._rooms.lend()
        try:
            self._convert(frame.planes, planes)
        except Exception as error:
            raise OperatorError(
                f"stage {self.name!r} failed on frame {frame.index}: {type(error).__name__}: {error}",
                stage=self.name,
                frames=(frame.index, frame.index + 1),
            ) from error
        self.seconds += time.perf_counter() - began
        return planes


class GroupRunner:
    """Runs groups on one worker; holds what its operators prepared and its scratch memory."""

    def __init__(self, plan: Plan, worker: Worker) -> None:
        self.plan, self.worker = plan, worker
        self.seconds: dict[str, float] = {}
        """Time spent in each stage's operator."""
        self.waited_ns = 0
        self.deaths: list[str] = []
        self._prepared: dict[int, Any] = {}
        self._scratch: dict[int, tuple[Array, ...]] = {}
        self._slabs: dict[int, Slab] = {}  # in which it lies

    def prepare(self) -> None:
        """Let every operator make what this worker shares between hyperframes, and compile what it compiles (A88)."""
        for index in sorted({i for group in self.plan.groups for i in group.stages}):
            prepared = self._prepared_for(index)
            if self.plan.stages[index].operator.compiles:
                # Code stays in the process, so once is enough; what was prepared besides is this worker's.
                key = _what_compiles(self.plan, index) if prepared is self.worker else None
                if key is None or key not in _compiled:
                    warm_up(self.plan, index, prepared)
                    if key is not None and len(_compiled) < _COMPILED_MOST:
                        _compiled.add(key)

    def close(self) -> None:
        """Let go of what was prepared."""
        self._prepared.clear()
        self._scratch.clear()
        self._slabs.clear()

    def run(self, job: Job, number: int, part: int = 0) -> None:
        """Run (a part of) group `number` on an independent hyperframe."""
        group = self.plan.groups[number]
        parts = job.parts.get(number, 1)
        core = part_of(job.core, part, parts)
        exports = {
            port: self.plan.export_range(port, core, job.num_frames, first=part == 0, last=part == parts - 1)
            for port in group.exports
        }
        cores = self.plan.stage_cores(group, exports, job.num_frames)
        first = self.plan.stages[group.stages[0]].inputs[0]
        if first in job.inputs and job.inputs[first].lent:
            lent = lent_part(self.plan, first)
            assert lent is not None  # else nobody would have lent them
            self._run_tiles(job, lent, exports, cores, Held(job.inputs[first].lent, job.inputs[first].header.read[0]))
            return
        if runs_in_tiles(self.plan, group):
            self._run_tiles(job, group, exports, cores, self._held(job, first))
            return
        passing = _Passing(exports, cores, {index: full[0] for index, full in cores.items()})
        step = steps_of(self.plan, group)
        for stop in _stops(core, step):
            last = stop == core[1]
            reached = cores if last else self._reached(group, passing, (core[0], stop), job.num_frames)
            for index in group.stages:
                if index in reached:
                    self._run_stage(job, index, reached[index][1], passing, spare=not last)
        for port, found in passing.rows.items():
            if port in group.exports:
                job.rows.setdefault(port, []).append((part, found))

    def _held(self, job: Job, port: int) -> Held:
        if port in job.inputs:
            return Held(job.inputs[port].planes, job.inputs[port].header.read[0])
        buffer = job.buffers[port]
        return Held(buffer.part((buffer.start, buffer.stop)), buffer.start)

    def _run_tiles(
        self, job: Job, group: Group, exports: dict[int, Range], cores: dict[int, Range], source: Held
    ) -> None:
        """Run a chain along time on what `exports` asks for."""
        if any(index not in cores for index in group.stages):
            return  # nothing is asked for
        stages, (last,) = [self.plan.stages[index] for index in group.stages], group.exports
        chain = TiledChain(self.plan, group, cores, job.num_frames)
        try:
            seconds = chain.run(source, job.buffers[last].part(exports[last]), self.worker.split)
        except Exception as error:
            raise _failure(job, " + ".join(stage.name for stage in stages), error) from error
        for stage, spent in zip(stages, seconds, strict=True):
            self.seconds[stage.name] = self.seconds.get(stage.name, 0.0) + spent

    def _reached(self, group: Group, passing: _Passing, core: Range, num_frames: int | None) -> dict[int, Range]:
        """Return how far each stage must have come so that what the front `core` of a task owns is made."""
        wanted = {}
        for port, (first, end) in passing.exports.items():
            wanted[port] = (first, max(first, min(end, self.plan.ports[port].owned(core)[1])))
        return self.plan.stage_cores(group, wanted, num_frames)

    def _run_stage(self, job: Job, index: int, stop: int, passing: _Passing, *, spare: bool) -> None:
        """Take a stage of a fused group on to input frame `stop`; nothing is made twice."""
        stage = self.plan.stages[index]
        core = (passing.done[index], stop)
        if core[0] >= stop:
            return
        targets: dict[int, Buffer] = {}
        for number in stage.outputs:
            port = self.plan.ports[number]
            owned = port.output.owned(core)  # type: ignore[union-attr]  # a stage's port
            if isinstance(port.spec, RecordSpec):
                passing.rows.setdefault(number, [])
                targets[number] = Buffer((), *owned)
                continue
            whole = port.output.owned(passing.cores[index])  # type: ignore[union-attr]  # a stage's port
            if passing.exports.get(number) == whole:
                passing.made[number] = Buffer(job.buffers[number].part((whole[0], owned[1])), whole[0], owned[1])
            else:
                passing.made[number] = self._rolled(number, passing, owned, whole[1] - whole[0] if spare else 0)
            targets[number] = Buffer(passing.made[number].part(owned), *owned)
        for piece in pieces(core, stage.halo, self._input_length(job, stage)):
            views = self._views(stage, targets, piece)
            inputs = tuple(self._input(job, stage, port, piece, passing.made, passing.rows) for port in stage.inputs)
            self._apply(job, index, inputs, views, None)
            self._collect(job, stage, views, passing.rows)
        passing.done[index] = stop
        for number, target in targets.items():
            wanted = passing.exports.get(number)
            if wanted is None or not target.planes or passing.made[number].held is None:
                continue
            both = (max(wanted[0], target.start), min(wanted[1], target.stop))
            if both[0] < both[1]:
                for source, out in zip(target.part(both), job.buffers[number].part(both), strict=True):
                    np.copyto(out, source)

    def _rolled(self, number: int, passing: _Passing, owned: Range, to_come: int) -> Buffer:
        """Return a buffer of this worker's that holds what readers of the port still need and has room for `owned`.

        Entries are moved to its front only where it is full; so it has room for two steps, where as many are `to_come`.
        """
        old = passing.made.get(number)
        first = owned[0]
        for index, done in passing.done.items():
            if number in self.plan.stages[index].inputs:
                first = min(first, max(0, done - self.plan.stages[index].reach.before))
        if old is not None:
            first = max(first, old.start)
        total = owned[1] - first
        at = 0 if old is None else old.offset + first - old.start
        room = max(total, min(total + owned[1] - owned[0], to_come))
        held = self._scratch.get(number)
        if held is None or len(held[0]) < total:
            old_memory, held = held, self._scratch_for(number, room)
        else:
            old_memory = held
        kept = owned[0] - first
        if old is not None and kept and (old_memory is not held or at + total > len(held[0])):
            assert old_memory is not None  # there were entries in it
            for source, target in zip(old_memory, held, strict=True):
                np.copyto(target[:kept], source[at : at + kept])
            at = 0
        elif at + total > len(held[0]):
            at = 0
        return Buffer(tuple(plane[at : at + total] for plane in held), first, owned[1], offset=at, held=held)

    def run_sequential(self, job: Job, number: int, carried: Carried) -> None:
        """Run a stage that carries state; the driver calls it for one hyperframe after the other."""
        bring_tails(self.plan, job, carried)
        self.advance(job, number, carried)
        keep_tails(self.plan, job, number, carried)

    def advance(self, job: Job, number: int, carried: Carried) -> None:
        """Run a stage that carries state on the frames that are new to it; its tails are the caller's."""
        (index,) = self.plan.groups[number].stages
        stage = self.plan.stages[index]
        start = self.plan.fresh_start(stage, job.core[0]) if carried.done is None else carried.done
        core = (start, max(start, self.plan.frontier(stage, job.core[1], job.num_frames)))
        targets: dict[int, Buffer] = {}
        for port in stage.outputs:
            owned = self.plan.ports[port].output.owned(core)  # type: ignore[union-attr]  # a stage's port
            if port in job.buffers:
                targets[port] = Buffer(job.buffers[port].part(owned), *owned)
            elif isinstance(self.plan.ports[port].spec, RecordSpec):
                targets[port] = Buffer((), *owned)
            else:
                targets[port] = Buffer(self._scratch_for(port, owned[1] - owned[0]), *owned)
        rows: dict[int, list[Any]] = {}
        state = carried.state
        cuts = list(pieces(core, stage.halo, self._input_length(job, stage)))
        if not cuts and job.end:
            cuts = [core]  # what was held back comes out with the end
        for piece in cuts:
            views = self._views(stage, targets, piece)
            end = job.end and piece is cuts[-1]
            inputs = tuple(self._input(job, stage, port, piece, {}, {}, end=end) for port in stage.inputs)
            state = self._apply(job, index, inputs, views, state)
            self._collect(job, stage, views, rows)
        for port, found in rows.items():
            job.rows.setdefault(port, []).append((0, found))
        carried.state, carried.done = state, core[1]

    # Pieces of a stage ------------------------------------------------------------------------------------------------

    def _views(self, stage: PlannedStage, targets: dict[int, Buffer], piece: Range) -> tuple[View, ...]:
        views = []
        for number in stage.outputs:
            output = self.plan.ports[number].output
            assert output is not None
            start, stop = output.owned(piece)
            planes = targets[number].part((start, stop)) if targets[number].planes else ()
            views.append(View(output, start, stop, planes))
        return tuple(views)

    def _input(
        self,
        job: Job,
        stage: PlannedStage,
        number: int,
        piece: Range,
        made: dict[int, Buffer],
        rows: dict[int, list[Any]],
        *,
        end: bool | None = None,
    ) -> Hyperframe:
        port = self.plan.ports[number]
        wanted = (piece[0] - stage.halo.before, piece[1] + stage.halo.after)
        length = port.length(job.num_frames)
        source = self._root(job)
        if isinstance(port.spec, RecordSpec):
            ids = np.arange(*wanted)
            ids = np.where((ids >= 0) & (ids < (ids[-1] + 1 if length is None else length)), ids, -1)
            found = rows.get(number) or [
                row for _, part in sorted(job.rows.get(number, []), key=_first) for row in part
            ]
            records = _table(found, port.spec, source, wanted)
            return self._hyperframe(job, number, piece, wanted, (), ids, end, records)
        if number in job.inputs:
            held = job.inputs[number]
            planes, first, positions = held.planes, held.header.read[0], _counted(held.header, wanted)
        else:
            buffer = made.get(number) or job.buffers[number]
            planes, first = tuple(p[: buffer.stop - buffer.start] for p in buffer.planes), buffer.start
            positions = None
        planes, ids = window(planes, first, wanted, length, self.plan.boundary, positions=positions)
        return self._hyperframe(job, number, piece, wanted, planes, ids, end, None)

    def _hyperframe(
        self,
        job: Job,
        number: int,
        piece: Range,
        wanted: Range,
        planes: tuple[Array, ...],
        ids: Array,
        end: bool | None,
        records: Records | None,
    ) -> Hyperframe:
        port, source = self.plan.ports[number], self._root(job)
        length = port.length(job.num_frames)
        start, stop = wanted
        before = min(max(0, -start), stop - start)
        after = 0 if length is None else min(max(0, stop - max(length, start)), stop - start)
        mask = np.ones(stop - start, bool)
        mask[:before] = False
        mask[stop - start - after :] = False
        if port.total_rate == 1 and not source.mask.all():  # places where no frame came: instants that a camera missed
            mask &= source.mask[np.clip(ids - source.header.read[0], 0, len(source.mask) - 1)]
        views = []
        for plane in planes:
            view = plane[:]
            view.flags.writeable = False
            views.append(view)
        pts, durations = times_of(source, wanted, ids, port.total_rate)
        header = Header(
            sequence=job.sequence,
            id=source.header.id,
            streams=source.header.streams,
            core=piece,
            read=(start + before, stop - after),
            pad_before=before,
            pad_after=after,
            frame_ids=ids,
            pts=pts,
            time_base=source.header.time_base,
            durations=durations,
            kind=source.header.kind,
            clock=source.header.clock,
            gaps=source.header.gaps,
            repaired_pts=source.header.repaired_pts,
            seal_reason=source.header.seal_reason,
            attempt=job.attempt,
            end=job.end if end is None else end,
            stream_length=length,
        )
        spec = port.spec if isinstance(port.spec, FrameSpec) else source.spec
        core = slice(piece[0] - wanted[0], piece[1] - wanted[0])
        return Hyperframe(header, tuple(views), core, mask, spec, records=records)

    def _apply(
        self, job: Job, index: int, inputs: tuple[Hyperframe, ...], views: tuple[View, ...], state: State | None
    ) -> State | None:
        stage = self.plan.stages[index]
        began = time.perf_counter()
        try:
            return stage.operator.apply(inputs, views, state, self._prepared_for(index))
        except (Exception, SystemExit) as error:  # a step that exits ends itself, not the process
            raise _failure(job, stage.name, error) from error
        finally:
            self.seconds[stage.name] = self.seconds.get(stage.name, 0.0) + time.perf_counter() - began

    def _collect(self, job: Job, stage: PlannedStage, views: tuple[View, ...], rows: dict[int, list[Any]]) -> None:
        for number, view in zip(stage.outputs, views, strict=True):
            if view.rows:
                rows.setdefault(number, []).extend(view.rows)
            if view.kept is not None:
                self._note_kept(job, number, view)

    def _note_kept(self, job: Job, number: int, view: View) -> None:
        owned = self.plan.ports[number].owned(job.core)
        kept = job.kept.setdefault(number, np.ones(owned[1] - owned[0], bool))
        low, high = max(view.start, owned[0]), min(view.stop, owned[1])
        if low < high and view.kept is not None:
            kept[low - owned[0] : high - owned[0]] = view.kept[low - view.start : high - view.start]

    def _prepared_for(self, index: int) -> Any:
        if index not in self._prepared:
            self._prepared[index] = self.plan.stages[index].operator.prepare(self.worker)
        return self._prepared[index]

    def _scratch_for(self, number: int, entries: int) -> tuple[Array, ...]:
        """Return arrays for `entries` of a port that stays inside this worker; made once, grown seldom."""
        held = self._scratch.get(number)
        if held is None or len(held[0]) < entries:
            spec = self.plan.ports[number].spec
            assert isinstance(spec, FrameSpec)
            self._slabs[number] = Slab(spec, entries, shared=False)
            held = self._scratch[number] = self._slabs[number].planes
        return tuple(plane[:entries] for plane in held)

    def _root(self, job: Job) -> Hyperframe:
        return next(iter(job.inputs.values()))

    def _input_length(self, job: Job, stage: PlannedStage) -> int | None:
        return self.plan.ports[stage.inputs[0]].length(job.num_frames)


def _failure(job: Job, stage: str, error: BaseException) -> OperatorError:
    """Return the error that says where in a run `error` happened."""
    first, last = job.core[0], job.core[1] - 1
    detail = str(error) or type(error).__name__
    return OperatorError(
        f"stage {stage!r} failed on frames {first} to {last} (hyperframe {job.id}): {type(error).__name__}: {detail}",
        stage=stage,
        hyperframe=job.id,
        frames=job.core,
        hint=getattr(error, "hint", None) or f"Run it on these frames alone: --range {first}:{last + 1} --debug",
    )


def bring_tails(plan: Plan, job: Job, carried: Carried) -> None:
    """Copy what the hyperframe before made of this one's entries to the front of its buffers."""
    for port, tail in carried.tails.items():
        if port not in job.buffers or carried.done is None:
            continue
        buffer, output = job.buffers[port], plan.ports[port].output
        assert output is not None
        wanted = (buffer.start, output.owned((carried.done, carried.done))[0])
        if wanted[0] < wanted[1]:
            for source, out in zip(tail.part(wanted), buffer.part(wanted), strict=True):
                np.copyto(out, source)


def keep_tails(plan: Plan, job: Job, number: int, carried: Carried) -> None:
    """Copy the last entries of a sequential stage, which the next hyperframe's readers need again."""
    (index,) = plan.groups[number].stages
    for port in plan.stages[index].outputs:
        if port not in job.buffers or not plan.margins[port].total:
            continue
        buffer = job.buffers[port]
        start = max(buffer.start, plan.ports[port].owned(job.core)[1] - plan.margins[port].before)
        copies = tuple(np.array(plane) for plane in buffer.part((start, buffer.stop)))
        carried.tails[port] = Buffer(copies, start, buffer.stop)


_compiled: set[Any] = set()
_COMPILED_MOST = 1000


def _what_compiles(plan: Plan, index: int) -> Any:
    """Return what an equal stage has in common with this one, whose code then is in the process; None if none is equal."""
    stage = plan.stages[index]
    operator: Any = stage.operator
    if not dataclasses.is_dataclass(operator):
        return None
    key = (operator, *(plan.ports[number].spec for number in (*stage.inputs, *stage.outputs)))
    try:
        hash(key)
    except TypeError:  # a parameter without a hash
        return None
    return key


def warm_up(plan: Plan, index: int, prepared: Any) -> None:
    """Call a stage's operator once, on one frame of zeros with its halo, and forget what it did.

    Compiled code depends on dtypes, on the number of axes and on their order, so those are the real ones; so are the
    shapes, since operators may refuse others. Zeros cost no memory until they are written. A sequential operator starts
    from no state, and the state it returns is dropped.
    """
    stage = plan.stages[index]
    every = math.lcm(*(output.rate.denominator for output in stage.contract.outputs))
    first = -(-stage.halo.before // every) * every  # a frame at which every output has an entry
    core = (first, first + 1)
    inputs = tuple(_zeros(plan, number, core, stage.halo) for number in stage.inputs)
    views = []
    for number in stage.outputs:
        output = plan.ports[number].output
        assert output is not None  # a stage's port
        start, stop = output.owned(core)
        planes: tuple[Array, ...] = ()
        if isinstance(output.spec, FrameSpec):
            planes = tuple(np.zeros((stop - start, *shape), output.spec.dtype) for shape in output.spec.shapes)
        views.append(View(output, start, stop, planes))
    stage.operator.apply(inputs, tuple(views), None, prepared)


def _zeros(plan: Plan, number: int, core: Range, halo: Halo) -> Hyperframe:
    port = plan.ports[number]
    read = (core[0] - halo.before, core[1] + halo.after)
    total, ids = halo.total + 1, np.arange(*read)
    spec = port.spec if isinstance(port.spec, FrameSpec) else plan.ports[0].spec
    assert isinstance(spec, FrameSpec)  # sources deliver frames
    planes = []
    for shape in spec.shapes if spec is port.spec else ():
        plane = np.zeros((total, *shape), spec.dtype)
        plane.flags.writeable = False
        planes.append(plane)
    header = Header(
        sequence=0,
        id="warm-up",
        streams=("warm-up",),
        core=core,
        read=read,
        pad_before=0,
        pad_after=0,
        frame_ids=ids,
        pts=ids,
        time_base=spec.time_base,
        durations=np.ones(total, np.int64),
    )
    records = None
    if isinstance(port.spec, RecordSpec):
        columns = {f.name: np.empty((0, *f.shape), f.dtype) for f in port.spec.fields}
        records = Records(columns, np.empty(0, np.int64), np.empty(0, np.int64), port.spec, None, "warm-up")
    return Hyperframe(
        header, tuple(planes), slice(halo.before, halo.before + 1), np.ones(total, bool), spec, records=records
    )


def steps_of(plan: Plan, group: Group) -> int | None:
    """Return how many source frames a task of `group` takes through all its stages at a time; None: all at once.

    Results do not depend on it: stages go on where they stopped, and what readers still need of a port is kept.
    """
    if len(group.stages) < 2:
        return None
    inner: float = 0
    halo = 0
    for index in group.stages:
        stage = plan.stages[index]
        halo = max(halo, math.ceil(stage.halo.total / plan.ports[stage.inputs[0]].total_rate))
        for port in stage.outputs:
            spec = plan.ports[port].spec
            if isinstance(spec, FrameSpec) and port not in group.exports:
                inner += spec.nbytes * float(plan.ports[port].total_rate)
    return step_size(inner, halo=halo, cache_bytes=cache_share())


def _stops(core: Range, step: int | None) -> Iterator[int]:
    """Yield where each step through `core` ends; the last one takes a rest that is under half a step along."""
    stop = core[0]
    while step is not None and core[1] - stop > step + step // 2:
        stop += step
        yield stop
    yield core[1]


def part_of(core: Range, part: int, parts: int) -> Range:
    """Return the `part`-th of `parts` equal shares of `core`."""
    start, count = core[0], core[1] - core[0]
    return start + part * count // parts, start + (part + 1) * count // parts


def pieces(core: Range, halo: Halo, length: int | None) -> Iterator[Range]:
    """Cut `core` where its windows cross an end of the stream, so that only the few frames there are gathered."""
    cuts = {core[0], core[1]}
    if core[0] < halo.before < core[1]:
        cuts.add(halo.before)
    if length is not None and core[0] < length - halo.after < core[1]:
        cuts.add(length - halo.after)
    edges = sorted(cuts)
    yield from itertools.pairwise(edges)


def times_of(source: Hyperframe, wanted: Range, entries: Array, rate: Fraction) -> tuple[Array, Array | None]:
    """Return pts and durations of the entries `wanted` of a port, for which `entries` stand (-1: none).

    Entry j stands at source frame j / `rate`; between two frames time runs evenly.
    """
    header = source.header
    first, last = header.read[0], header.read[1] - 1
    if rate == 1 and wanted[0] >= first and wanted[1] <= last + 1:
        held = slice(wanted[0] - first, wanted[1] - first)
        return header.pts[held], None if header.durations is None else header.durations[held]
    scaled = np.where(entries >= 0, entries, np.arange(*wanted)) * rate.denominator
    at = np.minimum(np.maximum(scaled // rate.numerator, first), last) - first
    if rate == 1:
        return header.pts[at], None if header.durations is None else header.durations[at]
    after = np.minimum(at + 1, last - first)
    ends = 0 if header.durations is None else header.durations[at]
    step = np.where(after > at, header.pts[after] - header.pts[at], ends)
    return header.pts[at] + step * (scaled % rate.numerator) // rate.numerator, None


def _first(item: tuple[int, Any]) -> int:
    return item[0]


def _table(found: list[Any], spec: RecordSpec, source: Hyperframe, wanted: Range | None) -> Records:
    """Put rows together in order of frames; only those of frames `wanted`, if given."""
    index = np.concatenate([row[0] for row in found]) if found else np.empty(0, np.int64)
    order = np.argsort(index, kind="stable")
    if wanted is not None:
        order = order[(index[order] >= wanted[0]) & (index[order] < wanted[1])]
    columns = {
        f.name: np.concatenate([row[2][f.name] for row in found])[order] if found else np.empty((0, *f.shape), f.dtype)
        for f in spec.fields
    }
    stops = [row[1] for row in found if row[1] is not None]
    stop = np.concatenate(stops)[order] if stops else None
    header = source.header
    held = header.pts[np.clip(index - header.read[0], 0, max(0, len(header.pts) - 1))]
    given = [row[3] if row[3] is not None else held[at : at + len(row[0])] for row, at in _offsets(found)]
    pts = np.concatenate(given)[order] if given else held
    return Records(columns, index[order], pts, spec, stop, header.id)


def _offsets(found: list[Any]) -> Iterator[tuple[Any, int]]:
    at = 0
    for row in found:
        yield row, at
        at += len(row[0])


def _counted(header: Header, wanted: Range) -> Array | None:
    """Return the positions `wanted` as part of an array that the header has of them, where it has one."""
    if header.pts is not header.frame_ids or wanted[0] < header.read[0] or wanted[1] > header.read[1]:
        return None
    return header.frame_ids[wanted[0] - header.read[0] : wanted[1] - header.read[0]]


def result_of(plan: Plan, port_number: int, job: Job) -> tuple[Clip | Records, int]:
    """Return what a sink receives of `port_number` for one hyperframe, and how many outputs were left out."""
    port = plan.ports[port_number]
    source = next(iter(job.inputs.values()))
    if isinstance(port.spec, RecordSpec):
        found = [row for _, part in sorted(job.rows.get(port_number, []), key=_first) for row in part]
        return _table(found, port.spec, source, None), 0
    owned = port.owned(job.core)
    planes = source.core_planes if port_number in job.inputs else job.buffers[port_number].part(owned)
    entries = _counted(source.header, owned) if port.total_rate == 1 else None
    if entries is None:
        entries = np.arange(*owned)
    pts, durations = times_of(source, owned, entries, port.total_rate)
    kept = job.kept.get(port_number)
    if kept is not None and not kept.all():
        planes = tuple(plane[kept] for plane in planes)
        entries, pts = entries[kept], pts[kept]
        durations = None if durations is None else durations[kept]
    left_out = owned[1] - owned[0] - len(entries)
    return Clip(planes, pts, entries, port.spec, durations, None, job.id), left_out
