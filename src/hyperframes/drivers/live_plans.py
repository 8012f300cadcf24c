"""The plans of a live run: one for each kind of frames that comes, made and prepared before the first of them is taken."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.dispatch import check_spatial, plan_for
from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.plan import plan_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.drivers.dispatch import LivePlan
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
