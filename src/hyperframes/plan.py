"""What a pipeline comes to, once its sources' specs are known, checked as a whole before the first frame is read.

`plan_pipeline` turns a `Pipeline` into a `Plan`: stages in order, the ports between them, the groups that run as one task, and
the arithmetic of who needs which frames (W1 through chains: halos add up, each converted to source frames through the
ratios of the stages before it).
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec, RecordSpec, Spec
from hyperframes.operators import Contract, Operator, Output, choose_format, create
from hyperframes.operators.create import as_text
from hyperframes.packing import Boundary, Halo
from hyperframes.scheduling import topological_order

if TYPE_CHECKING:
    from hyperframes.pipeline import Pipeline, Stage

__all__ = [
    "Group",
    "Plan",
    "PlannedStage",
    "Port",
    "Range",
    "plan_pipeline",
]

Range = tuple[int, int]

_SELECTED_HINT = "Have frames converted before they are selected, as with --pixel-format rgb24 (pixel_format='rgb24')."


@dataclass(frozen=True, slots=True)
class Port:
    """What one source or one output of a stage delivers."""

    name: str
    kind: Literal["frames", "records", "windows", "spans"]
    spec: Spec
    rates: tuple[Fraction, ...]
    """Outputs per input of the stages before it, those other than 1, in order."""
    producer: int
    """Stage that makes it; -1 for a source."""
    output: Output | None
    selects: bool = False
    total_rate: Fraction = field(init=False)
    """Entries per source frame."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_rate", math.prod(self.rates, start=Fraction(1)))

    def owned(self, core: Range) -> Range:
        """Return which of its entries belong to the source frames `core`."""
        start, stop = core
        if not self.rates:
            return core
        for rate in self.rates:
            start, stop = math.ceil(start * rate), math.ceil(stop * rate)
        return start, stop

    def length(self, num_frames: int | None) -> int | None:
        """Return how many entries it has for a source of `num_frames`."""
        return None if num_frames is None else self.owned((0, num_frames))[1]

    def start_of(self, index: int) -> int:
        """Return the source frame at which entry `index` stands."""
        position: Fraction | int = index
        for rate in reversed(self.rates):
            position = math.floor(position / rate)
        return int(position)


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage with what it promised, wired to ports."""

    name: str
    operator: Operator
    contract: Contract
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    halo: Halo
    """What the operator is handed around its core: its own halo and what its windows reach into."""
    reach: Halo
    """What must be held around its core: `halo`, widened where the boundary mirrors."""
    implicit: bool = False
    """Whether the planner put it in (a conversion)."""

    @property
    def sequential(self) -> bool:
        """Whether it carries state."""
        return self.contract.dependency == "sequential"


@dataclass(frozen=True, slots=True)
class Group:
    """Stages that run on one hyperframe as one task: a fused chain, or one sequential stage."""

    stages: tuple[int, ...]
    resource: str
    sequential: bool
    """Whether each hyperframe waits for the one before it."""
    after: tuple[int, ...]
    """Groups of the same hyperframe that must be done first."""
    exports: tuple[int, ...]
    """Ports that other groups or sinks read."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked pipeline: everything that can be known before the first frame."""

    ports: tuple[Port, ...]
    """The sources' first."""
    num_sources: int
    stages: tuple[PlannedStage, ...]
    groups: tuple[Group, ...]
    sinks: Mapping[str, int]
    """Port that each sink of the pipeline takes."""
    margins: tuple[Halo, ...]
    """Per port: entries needed around those that a core owns."""
    boundary: Boundary
    fingerprint: str
    """Of stages, parameters, versions and the options that change results."""

    @property
    def halo(self) -> Halo:
        """Source frames needed around a core."""
        sources = self.margins[: self.num_sources]
        return Halo(max(m.before for m in sources), max(m.after for m in sources))

    @property
    def operator_halo(self) -> Halo:
        """Source frames around a core without the extra that a mirroring boundary reads."""
        margins = _margins(self.ports, self.stages, mirrored=False)
        sources = margins[: self.num_sources]
        return Halo(max(m.before for m in sources), max(m.after for m in sources))

    @property
    def conversions(self) -> tuple[str, ...]:
        """Names of the conversions that the planner put in."""
        return tuple(stage.name for stage in self.stages if stage.implicit)

    def export_range(self, port: int, core: Range, num_frames: int | None, *, first: bool, last: bool) -> Range:
        """Return which entries of `port` are made for `core`: those it owns, with margins at its first and last part."""
        owned, margin = self.ports[port].owned(core), self.margins[port]
        length = self.ports[port].length(num_frames)
        start = owned[0] - (margin.before if first else 0)
        stop = owned[1] + (margin.after if last else 0)
        return max(0, start), stop if length is None else min(stop, length)

    def stage_cores(self, group: Group, exports: Mapping[int, Range], num_frames: int | None) -> dict[int, Range]:
        """Return the input range each stage of a fused group works on, so that `exports` come out (backwards)."""
        wanted = dict(exports)
        cores: dict[int, Range] = {}
        for index in reversed(group.stages):
            stage = self.stages[index]
            core = _hull(
                self.ports[port].output.needed_core(wanted[port])  # type: ignore[union-attr]  # a stage's port
                for port in stage.outputs
                if port in wanted and wanted[port][0] < wanted[port][1]
            )
            if core is None:
                continue
            cores[index] = core
            for port in stage.inputs:
                length = self.ports[port].length(num_frames)
                stop = core[1] + stage.reach.after
                need = (max(0, core[0] - stage.reach.before), stop if length is None else min(stop, length))
                wanted[port] = _hull([need, wanted[port]] if port in wanted else [need]) or need
        return cores

    def frontier(self, stage: PlannedStage, core_stop: int, num_frames: int | None) -> int:
        """Return up to which input frame a sequential stage has worked once the core ending at `core_stop` is done."""
        port = self.ports[stage.inputs[0]]
        ahead = max((_through(self.margins[p], self.ports[p].output).after for p in stage.outputs), default=0)
        stop = port.owned((0, core_stop))[1] + ahead
        length = port.length(num_frames)
        return stop if length is None else min(stop, length)

    def fresh_start(self, stage: PlannedStage, core_start: int) -> int:
        """Return at which input frame a sequential stage begins a run whose first core starts at `core_start`."""
        port = self.ports[stage.inputs[0]]
        back = max((_through(self.margins[p], self.ports[p].output).before for p in stage.outputs), default=0)
        return max(0, port.owned((0, core_start))[1] - back)


def _hull(ranges: Any) -> Range | None:
    starts, stops = zip(*ranges, strict=True) if (ranges := list(ranges)) else ((), ())
    return (min(starts), max(stops)) if starts else None


def _through(margin: Halo, output: Output | None) -> Halo:
    """Convert a margin in outputs to input frames; never less than is needed, whatever the phase."""
    if output is None or output.rate == 1:
        return margin
    rate = output.rate
    return Halo(math.ceil(margin.before / rate), math.ceil(margin.after / rate))


def plan_pipeline(
    pipeline: Pipeline,
    specs: Mapping[str, FrameSpec],
    sink_formats: Mapping[str, Any] | None = None,
) -> Plan:
    """Check `pipeline` for sources of `specs` and return its plan.

    Parameters
    ----------
    pipeline : Pipeline
        What to run.
    specs : mapping of source name to FrameSpec
        What the sources deliver.
    sink_formats : mapping of sink key to function, optional
        For each sink, ``spec -> pixel formats it takes or None``; conversions are put in where needed.

    Raises
    ------
    PipelineError
        If stages do not fit together: unknown or circular inputs, operators that refuse, boundaries they cannot take.
    """
    builder = _Builder(pipeline, specs)
    for stage in builder.ordered_stages():
        builder.add_stage(stage)
    sinks = {key: builder.sink_port(key, (sink_formats or {}).get(key)) for key in pipeline.sinks}
    if not sinks:
        builder.resolve(pipeline.stages[-1].name if pipeline.stages else next(iter(specs)), "the result")
    return builder.plan(sinks)


class _Builder:
    """Collects ports and stages in order."""

    def __init__(self, pipeline: Pipeline, specs: Mapping[str, FrameSpec]) -> None:
        self.pipeline = pipeline
        self.boundary = Boundary.parse(pipeline.options.boundary)
        self.ports: list[Port] = []
        self.stages: list[PlannedStage] = []
        self.names: dict[str, int] = {}
        self.converted: dict[tuple[int, str, str, str], int] = {}
        for name, spec in specs.items():
            self.names[name] = len(self.ports)
            self.ports.append(Port(name, "frames", spec, (), -1, None))
        self.num_sources = len(self.ports)
        wanted = pipeline.options
        self.work_layout = "" if wanted.layout else wanted.work_layout
        if wanted.pixel_format != "native" or wanted.dtype or wanted.layout:
            for name in specs:
                pixel_format = "" if wanted.pixel_format == "native" else wanted.pixel_format
                self.names[name] = self.convert(self.names[name], pixel_format, wanted.dtype, wanted.layout)
        self.layout = self.spec_of(next(iter(specs))).layout
        if self.work_layout:
            for name in specs:
                self.names[name] = self.turned(self.names[name], self.work_layout)

    def ordered_stages(self) -> list[Stage]:
        stages = {stage.name: stage for stage in self.pipeline.stages}
        if clash := set(stages) & set(self.names):
            raise PipelineError(f"a stage and a source are both named {min(clash)!r}", stage=min(clash))
        roots = {name: [i.partition(".")[0] for i in stage.inputs] for name, stage in stages.items()}
        edges = [(root, name) for name, reads in roots.items() for root in reads if root in stages]
        return [stages[name] for name in topological_order(list(stages), edges)]

    def resolve(self, reference: str, reader: str) -> int:
        if reference not in self.names:
            raise PipelineError(
                f"{reader} reads {reference!r}, which nothing delivers; known: {', '.join(sorted(self.names))}",
                stage=reader,
                got=reference,
                hint="Inputs are a source's name, a stage's name, or stage.output.",
            )
        return self.names[reference]

    def spec_of(self, name: str) -> FrameSpec:
        spec = self.ports[self.names[name]].spec
        assert isinstance(spec, FrameSpec)
        return spec

    def turned(self, port: int, layout: str) -> int:
        """Return a port that delivers `port` in `layout`, where it has channels to move."""
        spec = self.ports[port].spec
        moves = isinstance(spec, FrameSpec) and spec.is_picture and any(len(shape) == 3 for shape in spec.shapes)
        return self.convert(port, layout=layout) if moves else port

    def _turned_back(self, port: int) -> int:
        """Return a port that delivers `port` as it is without a layout to work in."""
        return self.convert(port, layout=self.layout) if self._is_turned(self.ports[port].spec) else port

    def _is_turned(self, spec: Spec) -> bool:
        return isinstance(spec, FrameSpec) and spec.is_picture and spec.layout != self.layout

    def convert(self, port: int, pixel_format: str = "", dtype: str = "", layout: str = "") -> int:
        """Return a port that delivers `port` in another format; one conversion serves all who ask for it."""
        spec = self.ports[port].spec
        assert isinstance(spec, FrameSpec)
        same = (
            pixel_format in {"", spec.pixel_format} and dtype in {"", spec.dtype.name} and layout in {"", spec.layout}
        )
        if same:
            return port
        key = (port, pixel_format, dtype, layout)
        if key not in self.converted:
            text = ",".join(
                f"{k}={v}" for k, v in (("format", pixel_format), ("dtype", dtype), ("layout", layout)) if v
            )
            wanted = ",".join(filter(None, (pixel_format, dtype, layout)))
            name = f"{self.ports[port].name}->{wanted}"
            self.converted[key] = self._wire(name, create(f"convert:{text}"), (port,), implicit=True)[0]
        return self.converted[key]

    def add_stage(self, stage: Stage) -> None:
        inputs = [self.resolve(reference, f"stage {stage.name!r}") for reference in stage.inputs]
        formats = stage.operator.formats
        for i, port in enumerate(inputs):
            spec = self.ports[port].spec
            if formats and isinstance(spec, FrameSpec) and spec.is_picture:
                inputs[i] = self.convert(port, self._format_for(spec, formats, f"stage {stage.name!r}"))
            if stage.operator.wants_layout and isinstance(spec, FrameSpec):
                inputs[i] = self.convert(inputs[i], layout=stage.operator.wants_layout)
        if self.work_layout and not self._comes_back(stage.operator, inputs):
            inputs = [self._turned_back(port) for port in inputs]
        outputs = self._wire(stage.name, stage.operator, tuple(inputs))
        self.names[stage.name] = outputs[0]
        for port in outputs:
            self.names[self.ports[port].name] = port

    def _comes_back(self, operator: Operator, inputs: list[int]) -> bool:
        """Whether results made in the layout worked in can be turned to what they are without it: only pictures can."""
        specs = [self.ports[port].spec for port in inputs]
        plain = [self._in_own_layout(spec) for spec in specs]
        if plain == specs:
            return True
        wanted = operator.configure(tuple(plain)).outputs
        contract = operator.configure(tuple(specs))
        back = [self._in_own_layout(output.spec) for output in contract.outputs]
        turns = any(spec != output.spec for spec, output in zip(back, contract.outputs, strict=True))
        return back == [output.spec for output in wanted] and not (turns and contract.selects)

    def _in_own_layout(self, spec: Spec) -> Spec:
        if not self._is_turned(spec):
            return spec
        (output,) = create(f"convert:layout={self.layout}").configure((spec,)).outputs
        return output.spec

    def _format_for(self, spec: FrameSpec, formats: tuple[str, ...], who: str) -> str:
        chosen = choose_format(spec, formats)
        if chosen is None:
            raise PipelineError(
                f"{who} takes {', '.join(formats)}: got {spec.pixel_format} frames, which convert to none of them",
                stage=who,
                expected=formats,
                got=spec.pixel_format,
            )
        return chosen

    def _wire(
        self, name: str, operator: Operator, inputs: tuple[int, ...], *, implicit: bool = False
    ) -> tuple[int, ...]:
        self._check_inputs(name, inputs, implicit=implicit)
        contract = operator.configure(tuple(self.ports[port].spec for port in inputs))
        windows = [output.halo.after for output in contract.outputs]
        halo = contract.halo + Halo(0, max(windows, default=0))
        self._check_contract(name, contract, halo, inputs)
        rates = self.ports[inputs[0]].rates
        first = len(self.ports)
        for output in contract.outputs:
            port_name = name if len(contract.outputs) == 1 else f"{name}.{output.name}"
            own = (output.rate,) if output.rate != 1 else ()
            spec = _timed(output, self.ports[inputs[0]])
            self.ports.append(
                Port(port_name, output.kind, spec, rates + own, len(self.stages), output, contract.selects)
            )
        outputs = tuple(range(first, len(self.ports)))
        reach = self.boundary.reach(halo)
        self.stages.append(PlannedStage(name, operator, contract, inputs, outputs, halo, reach, implicit))
        return outputs

    def _check_inputs(self, name: str, inputs: tuple[int, ...], *, implicit: bool) -> None:
        ports = [self.ports[port] for port in inputs]
        for port in ports:
            if port.selects:
                raise PipelineError(
                    f"{'conversion' if implicit else 'stage'} {name!r} reads {port.name!r}, which leaves frames out depending on what they show: "
                    "only sinks may read it",
                    stage=name,
                    hint=_SELECTED_HINT if implicit else "Put the selecting stage last.",
                )
            if port.kind == "spans":
                raise PipelineError(f"stage {name!r} reads {port.name!r}: spans go to sinks only", stage=name)
            if port.rates != ports[0].rates:
                raise PipelineError(
                    f"stage {name!r} reads inputs of different rates: {ports[0].name!r} has {ports[0].total_rate} "
                    f"a source frame, {port.name!r} has {port.total_rate}",
                    stage=name,
                    hint="Bring them to one rate first, for example with every:n=5 on each.",
                )

    def _check_value(self, name: str, halo: Halo, inputs: tuple[int, ...]) -> None:
        """Refuse a constant that the samples cannot hold."""
        value = self.boundary.value
        for spec in (self.ports[port].spec for port in inputs):
            if self.boundary.mode != "constant" or not halo.total or not isinstance(spec, FrameSpec):
                continue
            if spec.dtype.kind in "ui" and not (
                value.is_integer() and np.iinfo(spec.dtype).min <= value <= np.iinfo(spec.dtype).max
            ):
                raise PipelineError(
                    f"stage {name!r} reads {spec.dtype} samples, which cannot hold the boundary's {value:g}",
                    stage=name,
                    got=value,
                    hint=f"Use a whole number from {np.iinfo(spec.dtype).min} to {np.iinfo(spec.dtype).max}.",
                )

    def _check_contract(self, name: str, contract: Contract, halo: Halo, inputs: tuple[int, ...]) -> None:
        if self.boundary.mode == "none" and halo.total and not contract.takes_mask:
            raise PipelineError(
                f"stage {name!r} reads {halo.before} frames before and {halo.after} after each core, but the boundary "
                "is 'none' and it takes no mask",
                stage=name,
                hint="Use --boundary replicate, or an operator that takes a mask.",
            )
        self._check_value(name, halo, inputs)
        if any(output.kind == "spans" for output in contract.outputs) and contract.dependency != "sequential":
            raise PipelineError(f"stage {name!r} returns spans: it must be sequential", stage=name)

    def sink_port(self, key: str, formats: Any) -> int:
        port = self.resolve(key, f"the sink of {key!r}")
        if self.work_layout:
            port = self._turned_back(port)
        spec = self.ports[port].spec
        if formats is None or not isinstance(spec, FrameSpec) or not spec.is_picture:
            return port
        accepted = formats(spec)
        if not accepted:
            return port
        return self.convert(port, self._format_for(spec, tuple(accepted), f"the sink of {key!r}"), layout="NHWC")

    def plan(self, sinks: Mapping[str, int]) -> Plan:
        used = self._used(sinks)
        groups = _groups(self.ports, self.stages, set(sinks.values()), used, self.pipeline.options.frame_dependency)
        return Plan(
            tuple(self.ports),
            self.num_sources,
            tuple(self.stages),
            groups,
            dict(sinks),
            _margins(tuple(self.ports), tuple(self.stages), mirrored=True),
            self.boundary,
            self._fingerprint(),
        )

    def _used(self, sinks: Mapping[str, int]) -> set[int]:
        """Stages that some sink depends on; the others are not run."""
        if not sinks:
            return set(range(len(self.stages)))
        used: set[int] = set()
        stack = [self.ports[port].producer for port in sinks.values()]
        while stack:
            index = stack.pop()
            if index >= 0 and index not in used:
                used.add(index)
                stack += [self.ports[port].producer for port in self.stages[index].inputs]
        return used

    def _fingerprint(self) -> str:
        options = self.pipeline.options
        lines = [str(self.boundary), str(options.range), options.on_size_change]
        lines += [str(self.ports[i].spec) for i in range(self.num_sources)]
        for stage in self.stages:
            lines.append(f"{stage.name}={as_text(stage.operator)}#{stage.operator.version}{stage.inputs}")
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _timed(output: Output, source: Port) -> Spec:
    """Give an output's spec the time base of its input and the rate that follows from it."""
    spec = output.spec
    rate = source.spec.rate
    rate = None if rate is None else rate * output.rate
    if isinstance(spec, RecordSpec):
        return dataclasses.replace(spec, time_base=source.spec.time_base, rate=rate)
    return spec.replace(time_base=source.spec.time_base, rate=rate)


def _margins(ports: tuple[Port, ...], stages: tuple[PlannedStage, ...], *, mirrored: bool) -> tuple[Halo, ...]:
    """Return, per port, how many entries around the owned ones its readers need (an upper bound over all phases)."""
    margins = [Halo()] * len(ports)
    for stage in reversed(stages):
        around = stage.reach if mirrored else stage.halo
        through = [_through(margins[port], ports[port].output) for port in stage.outputs]
        before = max((t.before for t in through), default=0) + around.before
        after = max((t.after for t in through), default=0) + around.after
        for port in stage.inputs:
            old = margins[port]
            margins[port] = Halo(max(old.before, before), max(old.after, after))
    return tuple(margins)


def _groups(
    ports: list[Port],
    stages: list[PlannedStage],
    sink_ports: set[int],
    used: set[int],
    frame_dependency: str,
) -> tuple[Group, ...]:
    """Cut the stages, in order, into tasks: neighbours fuse while they are independent and want one resource."""
    runs: list[list[int]] = []
    for index, stage in enumerate(stages):
        if index not in used:
            continue
        last = stages[runs[-1][-1]] if runs else None
        fuses = (
            last is not None
            and not stage.sequential
            and not last.sequential
            and _on_one_core(stage.contract.resource) == _on_one_core(last.contract.resource)
        )
        if fuses:
            runs[-1].append(index)
        else:
            runs.append([index])
    home = {index: number for number, run in enumerate(runs) for index in run}
    readers: dict[int, set[int]] = {}
    for index, number in home.items():
        for port in stages[index].inputs:
            readers.setdefault(port, set()).add(number)
    groups = []
    for number, run in enumerate(runs):
        made = [port for index in run for port in stages[index].outputs]
        exports = tuple(p for p in made if p in sink_ports or readers.get(p, set()) - {number})
        producers = {ports[p].producer for index in run for p in stages[index].inputs} - {-1}
        after = tuple(sorted({home[p] for p in producers} - {number}))
        sequential = stages[run[0]].sequential or frame_dependency == "sequential"
        resources = [stages[index].contract.resource for index in run]
        resource = "compute" if "compute" in resources else resources[0]
        groups.append(Group(tuple(run), resource, sequential, after, exports))
    return tuple(groups)


def _on_one_core(resource: str) -> str:
    """Return what tells resources that cannot share a task: copying next to computing keeps frames in one cache."""
    return "compute" if resource == "memory" else resource
