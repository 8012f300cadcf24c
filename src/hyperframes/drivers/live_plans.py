"""The plans of a live run: one for each kind of frames that comes, made and prepared before the first of them is taken."""

from __future__ import annotations

import dataclasses
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.packing import SlabPool
from hyperframes.plan import Plan, plan_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Spec
    from hyperframes.packing import Halo
    from hyperframes.pipeline import Pipeline

__all__ = ["Plans", "refuse_unfit"]

_LIKELY = tuple(FrameSpec.picture(360, 640, pixel_format) for pixel_format in ("yuv420p", "rgb24", "gray"))
"""What cameras may send."""


def refuse_unfit(pipeline: Pipeline) -> None:
    """Refuse stages that spatial hyperframes cannot feed, where that is so whatever a camera sends.

    What depends on the frames is refused when the first of them comes.

    Raises
    ------
    PipelineError
        Naming the stage.
    """
    unfit: PipelineError | None = None
    for spec in _LIKELY:
        try:
            plan = plan_pipeline(pipeline, {"source": spec})
        except Exception:  # noqa: BLE001, S112 - the operators want other frames: they may still come
            continue
        try:
            check_spatial(plan)
        except PipelineError as error:
            unfit = error
        else:
            return
    if unfit is not None:
        raise unfit


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


class Plans:
    """Plans of one pipeline, by kind of frames and by how many a hyperframe holds.

    Parameters
    ----------
    pipeline : Pipeline
        The stages.
    results : int
        Hyperframes whose results are held at once, by each plan.
    begin : function
        Called with the plan of a new kind of frames: checks it and lets workers make ready; may take long, or raise.
    """

    def __init__(self, pipeline: Pipeline, results: int, begin: Callable[[LivePlan], None]) -> None:
        self._pipeline, self._results, self._begin = pipeline, results, begin
        self._making = threading.Lock()
        self._held: dict[Any, LivePlan] = {}

    def get(self, spec: FrameSpec, frames: int) -> LivePlan:
        """Return the plan for hyperframes of `frames` frames of `spec`."""
        kind = (spec.shapes, spec.dtype, spec.pixel_format, spec.layout)
        plan = self._held.get((kind, frames))
        if plan is not None:
            return plan
        with self._making:
            plan = self._held.get((kind, frames))
            if plan is None:
                known = next((held.plan for (other, _), held in self._held.items() if other == kind), None)
                plan = plan_for(self._pipeline, spec, frames, self._results, known)
                if known is None:
                    self._begin(plan)
                self._held[kind, frames] = plan
        return plan

    def longest_halo(self) -> Halo:
        """Return the longest halo of all plans."""
        return max((held.plan.halo for held in tuple(self._held.values())), key=lambda halo: halo.total)

    def outputs(self) -> list[dict[str, tuple[str, Spec]]]:
        """Return what results are made of, for each kind of frames seen so far: outputs by name, their kind and spec."""
        ports = [[held.plan.ports[number] for number in held.ports] for held in tuple(self._held.values())]
        return [
            {port.output.name if port.output else port.name: (port.kind, port.spec) for port in found}
            for found in ports
        ]
