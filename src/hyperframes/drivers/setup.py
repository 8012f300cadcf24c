"""Everything that is decided before the first frame: opened ends, plan, size, workers, memory."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.execute import steps_of
from hyperframes.drivers.machine import available_memory, check_process_limit, machine_facts
from hyperframes.drivers.memory import tree_pss_bytes
from hyperframes.drivers.processes import THREADS_OF_A_PROCESS, check_not_importing, pickled_operators
from hyperframes.drivers.profile import find_profile, profile_key, tuned_size
from hyperframes.drivers.quantity import bytes_text
from hyperframes.drivers.tiles import lent_part, runs_in_tiles, tile_bytes
from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec, RecordSpec
from hyperframes.media import Passthrough
from hyperframes.packing import Halo, Ranges, core_ranges, ranges, slab_capacity
from hyperframes.packing.slab import plane_offsets
from hyperframes.pipeline import Pipeline
from hyperframes.plan import Group, Plan, plan_pipeline
from hyperframes.scheduling import MODEST_BYTES, SizeChoice, choose_size, modest_size, worker_counts
from hyperframes.sinks import CallbackSink, MemorySink, NullSink, Sink, Target, open_sink
from hyperframes.sources import Source, open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Memory", "Setup", "check_budget", "set_up", "targets"]


KERNEL_BYTES = 30 << 20
"""What a process takes to load and call compiled kernels, as measured."""
GROWN_BYTES = 16 << 20
"""Frame memory that small hyperframes may grow to during a run: about what caches hold."""
MOST_GROWN = 1 << 16


@dataclass(frozen=True, slots=True)
class Memory:
    """What a run is going to take, in bytes."""

    frames: int
    """Input slabs, results and scratch of the workers."""
    decoders: int
    """Pictures that decoders hold: references, reordered ones, and one for each of their threads."""
    program: int
    """Libraries, kernels and whatever else the process holds already; worker processes and encoders come on top."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.frames + self.decoders + self.program


@dataclass(slots=True, eq=False)
class Setup:
    """An opened pipeline with every number decided."""

    pipeline: Pipeline
    sources: dict[int, Source]
    """By port."""
    sinks: dict[str, Sink]
    plan: Plan
    size: int
    workers: dict[str, int]
    """How many of each resource."""
    run_id: str
    warnings: list[str] = field(default_factory=list)
    most: int = 0
    """Size up to which hyperframes may grow as measured; 0: the size stays (see `adjusts`)."""
    size_reasons: tuple[str, ...] = ()
    """Why the size is what it is."""
    cores: int = 1
    """Processor cores that sinks may keep busy."""
    spare_bytes: int = 0
    """Memory that they may use to do so."""
    operators: tuple[bytes, ...] = ()
    """Of all stages, pickled, where workers are processes."""
    told: Mapping[str, Target] | None = None
    """What sinks are told, where that was decided for a whole run of which this is a segment."""

    @property
    def num_workers(self) -> int:
        """Workers of all resources."""
        return sum(self.workers.values())

    @property
    def uses_processes(self) -> bool:
        """Whether workers are processes, which see slabs and no other memory."""
        return self.pipeline.options.executor == "processes"

    @property
    def largest(self) -> int:
        """Core frames that memory is laid out for."""
        return max(self.size, self.most)

    @property
    def adjusts(self) -> bool:
        """Whether the size may change during the run: nobody fixed it, and nothing is laid out for it but memory.

        Parts, chunks and the journal of what is written to files are; processor time of other processes and devices is
        not seen; several sources would have to agree.
        """
        options = self.pipeline.options
        return (
            options.size == "auto"
            and options.executor == "threads"
            and len(self.sources) == 1
            and set(self.workers) == {"compute"}
            and all(_takes_any_size(sink) for sink in self.sinks.values())
        )

    def views(self, port: int) -> bool:
        """Whether a source's arrays are viewed where they lie: nothing of it is copied to slabs."""
        return self.sources[port].arrays() is not None and not self.uses_processes

    def lends(self, port: int) -> bool:
        """Whether a source's frames stay where it put them, or they were converted to, until they were read.

        Nothing of it is copied to slabs then.
        """
        return (
            self.sources[port].lasting
            and not self.uses_processes
            and self.pipeline.options.scheduling_policy
            != "priority_by_cost"  # looks at frames before they are worked on
            and lent_part(self.plan, port) is not None
        )

    def packed_spec(self, port: int) -> FrameSpec:
        """Return the spec of a source's frames as they are packed: converted, where that is done before."""
        part = lent_part(self.plan, port) if self.lends(port) else None
        spec = None if part is None else self.plan.ports[self.plan.stages[part.stages[0]].inputs[0]].spec
        return spec if isinstance(spec, FrameSpec) else self.sources[port].spec

    @property
    def in_flight(self) -> int:
        """Hyperframes that may be between sealing and release; as many may have results under way."""
        return self.num_workers + 1

    @property
    def num_frames(self) -> int | None:
        """Frames the sources say they have; a hint."""
        counts = [source.num_frames for source in self.sources.values() if source.num_frames is not None]
        start, stop = self.pipeline.options.range
        if not counts:
            return None if stop is None else stop - start
        total = min(counts) if stop is None else min(*counts, stop)
        return max(0, total - start)

    def input_capacity(self, port: int) -> int:
        """Frames in each input slab of a source."""
        return slab_capacity(self.largest, self.plan.margins[port])

    def input_slabs(self, port: int) -> int:
        """Input slabs of a source: none where its frames stay where they are."""
        if self.views(port) or self.lends(port):
            return 0
        return self.in_flight * (2 if port in self.plan.sinks.values() else 1)

    def export_capacity(self, port: int) -> int:
        """Entries that one hyperframe can make of an exported port, margins included."""
        rate, margin = self.plan.ports[port].total_rate, self.plan.margins[port]
        owned = self.largest if rate == 1 else math.ceil(self.largest * rate) + 1
        return owned + margin.total

    def exported(self) -> list[int]:
        """Ports of frames or windows that leave their group."""
        ports = {port for group in self.plan.groups for port in group.exports}
        return sorted(p for p in ports if isinstance(self.plan.ports[p].spec, FrameSpec))

    def memory(self) -> Memory:
        """Return what a run will take in all, as `RunResult.peak_memory_bytes` counts it."""
        decoders, already = 0, 0
        for port, source in self.sources.items():
            held = self.lends(port) and self.packed_spec(port) == source.spec
            decoders += source.decoder_bytes(lent=held)
            already += source.decoder_bytes() // 2  # since the first frame was decoded to know the spec
        kernels = KERNEL_BYTES * any(stage.operator.compiles for stage in self.plan.stages)
        return Memory(self.memory_bytes(), decoders, max(0, tree_pss_bytes() + kernels - already))

    def memory_bytes(self) -> int:
        """Bytes of all frame memory: input slabs, results, scratch of the workers, what sinks hold."""
        total = 0
        for key, sink in self.sinks.items():
            total += sink.memory_bytes(self.plan.ports[self.plan.sinks[key]].spec, self.cores, self.spare_bytes)
        for port, source in self.sources.items():
            total += self.input_slabs(port) * plane_offsets(source.spec, self.input_capacity(port))[1]
            if self.lends(port):
                held = self.in_flight * self.largest + self.plan.margins[port].total
                total += held * self.packed_spec(port).nbytes
        exported = set(self.exported())
        for group in self.plan.groups:
            step, tiled = steps_of(self.plan, group), self._tiled(group)
            total += tile_bytes(self.plan, group, self.largest) * self.workers[group.resource] * tiled
            for index in group.stages:
                for port in self.plan.stages[index].outputs:
                    spec = self.plan.ports[port].spec
                    if not isinstance(spec, FrameSpec):
                        continue
                    if port in exported:
                        total += plane_offsets(spec, self.export_capacity(port))[1] * self.in_flight
                    elif not tiled:
                        total += plane_offsets(spec, self._scratch(port, step))[1] * self.workers[group.resource]
        return total

    def _tiled(self, group: Group) -> bool:
        """Whether a group goes tile by tile, at least behind a conversion of lent frames."""
        first = self.plan.stages[group.stages[0]].inputs[0]
        return runs_in_tiles(self.plan, group) or (first in self.sources and self.lends(first))

    def _scratch(self, port: int, step: int | None) -> int:
        """Entries of a port that a worker keeps to itself: two steps with what is read around them, or all at once."""
        whole = self.export_capacity(port)
        if step is None:
            return whole
        return min(whole, 2 * (math.ceil(step * self.plan.ports[port].total_rate) + self.plan.margins[port].total) + 1)

    def ranges(self, num_frames: int) -> Iterator[Ranges]:
        """Yield the ranges of every hyperframe of a stream of `num_frames`, as they will be packed."""
        halo = self.plan.operator_halo
        start, stop = self.pipeline.options.range
        end = num_frames if stop is None else min(stop, num_frames)
        for place in core_ranges(max(0, end - start), self.size, Halo()):
            yield ranges(place.index, (place.core[0] + start, place.core[1] + start), halo, num_frames)

    def abort(self, *, keep_parts: bool = False) -> None:
        """Abort the sinks and close the sources."""
        for sink in self.sinks.values():
            with contextlib.suppress(OSError):  # the run's own error is the one to show
                sink.abort(keep_parts=keep_parts)
        self.close()

    def close(self) -> None:
        """Close the sources."""
        for source in self.sources.values():
            source.close()


def set_up(pipeline: Pipeline, *, open_sinks: bool = True) -> Setup:
    """Open the ends of `pipeline`, plan it, and decide size, workers and memory.

    Raises
    ------
    HyperframesError
        Before a frame is read, if anything does not fit; whatever was opened is closed again.
    """
    options = pipeline.options
    if options.executor == "processes":
        check_not_importing()
    with contextlib.ExitStack() as stack:
        sources: dict[str, Source] = {}
        for name, what in pipeline.sources.items():
            source = open_source(what, on_size_change=options.on_size_change, ranged=options.executor == "ray")
            if source is not what:
                stack.callback(source.close)
            sources[name] = source
        sinks = {key: open_sink(what) for key, what in pipeline.sinks.items()} if open_sinks else {}
        _check_places(sources, sinks)
        specs = {name: source.spec for name, source in sources.items()}
        accepts = {key: sink.accepts for key, sink in sinks.items()}
        plan = _in_tuned_layout(pipeline, plan_pipeline(pipeline, specs, accepts), specs, accepts)
        for key, sink in sinks.items():
            _check_kind(key, sink, plan)
        resources = [group.resource for group in plan.groups] or ["compute"]
        facts = machine_facts()
        workers, warnings = worker_counts(facts, resources, options.workers)
        by_port = dict(enumerate(sources.values()))
        setup = Setup(pipeline, by_port, sinks, plan, 1, workers, _run_id(plan, by_port), list(warnings))
        setup.cores = worker_counts(facts, ("compute",), options.workers)[0]["compute"]
        _choose_size(setup)
        if setup.uses_processes:
            setup.operators = pickled_operators(plan)
        threads = setup.num_workers * (1 + THREADS_OF_A_PROCESS * setup.uses_processes)
        if crowded := check_process_limit(threads + len(sources) + 2):
            setup.warnings.append(crowded)
        stack.pop_all()
        return setup


def _in_tuned_layout(
    pipeline: Pipeline, plan: Plan, specs: Mapping[str, FrameSpec], accepts: Mapping[str, Any]
) -> Plan:
    """Return the plan in the layout that a sweep found to be faster with equal results; `plan` where there is none.

    It is known under the name of `plan`: an interrupted run goes on whatever was tuned since. Stages with state stay as
    they are, since a journal holds theirs by place.
    """
    options = pipeline.options
    if options.size != "auto" or options.layout or options.work_layout or len(specs) != 1 or not plan.sinks:
        return plan
    if any(group.sequential for group in plan.groups):
        return plan
    (spec,) = specs.values()
    profile = find_profile(profile_key(pipeline, spec)).profile
    if profile is None or profile.layout == spec.layout:
        return plan
    worked = pipeline.replace(options=dataclasses.replace(options, work_layout=profile.layout))
    try:
        turned = plan_pipeline(worked, specs, accepts)
    except PipelineError:
        return plan
    same = all(turned.ports[turned.sinks[key]].spec == plan.ports[port].spec for key, port in plan.sinks.items())
    return dataclasses.replace(turned, fingerprint=plan.fingerprint) if same else plan


def _check_places(sources: Mapping[str, Source], sinks: Mapping[str, Sink]) -> None:
    """Refuse outputs that would overwrite an input or each other, whatever they are called."""
    names = [
        source.name if os.path.exists(source.name) else source.name.partition("?")[0] for source in sources.values()
    ]
    read = {os.path.realpath(name) for name in names if os.path.exists(name)}
    written: set[str] = set()
    for sink in sinks.values():
        if _takes_any_size(sink):
            continue  # not a place in the file system
        place = os.path.realpath(sink.name)
        if place in read:
            raise PipelineError(
                f"{place} is both source and sink: it would be overwritten",
                got=sink.name,
                hint="Write to another file, then move it.",
            )
        if place in written:
            raise PipelineError(f"two sinks write to {place}", got=sink.name, hint="Give each a name of its own.")
        written.add(place)


def _takes_any_size(sink: Sink) -> bool:
    """Whether a sink hands results on as they come and lays nothing out."""
    return sink.name == "-" or isinstance(sink, NullSink | MemorySink | CallbackSink)


def _check_kind(key: str, sink: Sink, plan: Plan) -> None:
    port = plan.ports[plan.sinks[key]]
    records = isinstance(port.spec, RecordSpec)
    if (records and not sink.takes_records) or (not records and not sink.takes_frames):
        raise PipelineError(
            f"{sink.name} cannot hold {port.kind} of {port.name!r}",
            stage=port.name,
            hint="Records and spans go to .parquet, .csv or .jsonl; frames to video, .npy, .zarr or images.",
        )


def _run_id(plan: Plan, sources: Mapping[int, Source]) -> str:
    identity = "\n".join(source.identity() for source in sources.values())
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:8]}-{plan.fingerprint[:8]}"


def _choose_size(setup: Setup) -> None:
    """Take the size asked for, or the one to start from that fits in the memory allowed."""
    options = setup.pipeline.options
    budget = options.max_memory or available_memory() // 2
    if options.size == "auto":
        start = _starting_size(setup)
        setup.size, reasons = start.size, list(start.reasons)
        while setup.size > 1 and setup.memory_bytes() > budget:
            setup.size = max(1, setup.size * 3 // 4)
        if setup.size < start.size:
            reasons.append(
                f"size {setup.size} is what fits in the memory allowed, {bytes_text(budget)}: {start.size} would not"
            )
    else:
        setup.size, preset = int(options.size), _preset(setup)
        reasons = [f"was asked for; auto would begin with {preset.size}: {'; '.join(preset.reasons)}"]
    if setup.adjusts:
        setup.most = _most_grown(setup, budget)
        reasons.append(f"it may change as measured during the run, to at most {setup.largest}")
    setup.size_reasons = tuple(reasons)
    check_budget(setup, budget)
    setup.spare_bytes = (budget - setup.memory_bytes()) // 2 // max(1, len(setup.sinks))


def _most_grown(setup: Setup, budget: int) -> int:
    """Return the size up to which hyperframes may grow: in little memory, and eight or more for each worker are left."""
    longest = MOST_GROWN if setup.num_frames is None else setup.num_frames // (8 * max(setup.workers.values()))
    setup.most = setup.size
    while 2 * setup.most <= min(longest, MOST_GROWN):
        setup.most *= 2
        if setup.memory_bytes() > min(GROWN_BYTES, budget):
            return setup.most // 2
    return setup.most


def check_budget(setup: Setup, budget: int) -> None:
    """Refuse a size whose hyperframes need more than `budget` bytes of memory."""
    need = setup.memory_bytes()
    if need > budget:
        raise PipelineError(
            f"{setup.in_flight} hyperframes of {setup.size} frames need {need / 1e6:.0f} MB: "
            f"expected at most {budget / 1e6:.0f} MB",
            expected=budget,
            got=need,
            hint="Use a smaller --size, fewer --workers, or a larger --max-memory.",
        )


def _preset(setup: Setup) -> SizeChoice:
    """Return the preset for the kind of frames, less where they are copied to frame memory and much of it would be taken."""
    spec, halo = next(iter(setup.sources.values())).spec, setup.plan.halo.total
    pixels = spec.height * spec.width if spec.is_picture else None
    preset = choose_size(spec.nbytes, is_picture=spec.is_picture, pixels=pixels, halo=halo)
    lent = all(map(setup.lends, setup.sources))
    size = modest_size(preset.size, spec.nbytes, halo=halo, in_flight=setup.in_flight, shared_halo=lent)
    if size == preset.size or all(setup.views(port) for port in setup.sources):
        return preset
    taken = f"{setup.in_flight} x 2 x {size} + {halo}" if lent else f"{setup.in_flight} x (2 x {size} + {halo})"
    why = f"{size}, so that {taken} frames take about {bytes_text(MODEST_BYTES)}"
    return SizeChoice(size, (*preset.reasons, why))


def _starting_size(setup: Setup) -> SizeChoice:
    """Return the size that a saved sweep found; else, where its costs are known, the model's (W3); else the preset."""
    spec = next(iter(setup.sources.values())).spec
    found = find_profile(profile_key(setup.pipeline, spec))
    setup.warnings += found.warnings
    tuned = tuned_size(
        found,
        frame_bytes=spec.nbytes,
        workers=setup.cores,
        parallel=max(setup.workers.values()),
        num_frames=setup.num_frames,
        halo=setup.plan.halo.total,
    )
    return tuned or _preset(setup)


def targets(setup: Setup) -> dict[str, Target]:
    """Return what each sink is told before the first result."""
    if setup.told is not None:
        return {
            key: dataclasses.replace(told, cores=setup.cores, spare_bytes=setup.spare_bytes)
            for key, told in setup.told.items()
        }
    start, stop = setup.pipeline.options.range
    (first, *others) = setup.sources.values()
    kept = not others and any(sink.takes_passthrough for sink in setup.sinks.values())
    passthrough = first.passthrough() if kept else None
    if (start, stop) != (0, None) and kept and first.rereadable:  # decodes two frames
        passthrough = _trimmed(passthrough or Passthrough(first.name, (), {}), first, start, stop)
    found = {}
    for key in setup.sinks:
        port = setup.plan.ports[setup.plan.sinks[key]]
        count = setup.num_frames
        expected = None if count is None else port.owned((start, start + count))
        found[key] = Target(
            port.name,
            port.kind,
            port.spec,
            None if expected is None else expected[1] - expected[0],
            passthrough if port.kind == "frames" else None,
            f"{setup.run_id}-{setup.plan.fingerprint}",
            setup.size,
            cores=setup.cores,
            spare_bytes=setup.spare_bytes,
        )
    return found


def _trimmed(passthrough: Passthrough, source: Source, start: int, stop: int | None) -> Passthrough:
    """Return `passthrough` for the stretch of time that the frames [start, stop) cover."""
    end = None if stop is None else _time_of(source, stop)
    return dataclasses.replace(passthrough, start=_time_of(source, start) or Fraction(0), stop=end)


def _time_of(source: Source, index: int) -> Fraction | None:
    """Return the time of one frame, read as the run will read it; None past the end."""
    pts = [frame.pts for frame in source.read(index, index + 1)]  # to its end, so that decoders close
    return Fraction(pts[0]) * source.spec.time_base if pts else None
