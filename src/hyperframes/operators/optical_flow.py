"""Where each pixel came from: dense optical flow between neighbouring frames."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker, frames_out
from hyperframes.operators.framewise import refuse_choice
from hyperframes.packing import Halo

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, FrameSpec, Spec
    from hyperframes.packing import Hyperframe

__all__ = ["OpticalFlow"]

_NO_FLOW: Any = None  # nothing to start from; OpenCV's type hints do not know that it may be left out
# Below 32 OpenCV's dense inverse search may choose a pyramid whose top is smaller than a patch, and read beyond it.
_SMALLEST_SIDE = {"dis": 32, "farneback": 8}
_DIS = {
    "ultrafast": cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST,
    "fast": cv2.DISOPTICAL_FLOW_PRESET_FAST,
    "medium": cv2.DISOPTICAL_FLOW_PRESET_MEDIUM,
}
# Levels of the pyramid (half the size each), window, iterations, neighbourhood of the polynomial and its sigma.
_FARNEBACK = {
    "ultrafast": (3, 11, 1, 5, 1.1),
    "fast": (3, 15, 2, 5, 1.1),
    "medium": (5, 15, 3, 7, 1.5),
}


@dataclass(frozen=True)
class OpticalFlow(Operator):
    """Dense optical flow from the previous frame to each frame.

    Grey frames of shape (H, W), dtype uint8 -> (H, W, 2) float32: by how many pixels to the right and down what stands at (x, y) in
    the previous frame has moved. Halo (1, 0); before the first frame the boundary stands in (``replicate`` gives no
    motion there, but for some hundredths of a pixel along the borders with `farneback`).

    Parameters
    ----------
    method : {'dis', 'farneback'}
        Dense inverse search, or polynomial expansion (slower, smoother).
    preset : {'ultrafast', 'fast', 'medium'}
        How much is spent on quality.

    Notes
    -----
    Every pair of frames is computed from scratch (no warm start), so a flow depends on its two frames only and the
    stage is independent, not sequential.

    References
    ----------
    .. [1] T. Kroeger, R. Timofte, D. Dai, L. Van Gool, "Fast Optical Flow Using Dense Inverse Search", ECCV 2016.
       DOI: 10.1007/978-3-319-46493-0_29
    .. [2] G. Farneback, "Two-Frame Motion Estimation Based on Polynomial Expansion", SCIA 2003.
       DOI: 10.1007/3-540-45103-X_50
    """

    name: ClassVar[str] = "optical_flow"
    formats: ClassVar[tuple[str, ...] | None] = ("gray",)
    method: Literal["dis", "farneback"] = "dis"
    preset: Literal["ultrafast", "fast", "medium"] = "fast"

    def __post_init__(self) -> None:
        refuse_choice(self.name, "method", self.method, _SMALLEST_SIDE)
        refuse_choice(self.name, "preset", self.preset, _DIS)

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return (H, W, 2) float32 for grey frames, with one frame before."""
        spec: FrameSpec = frames_out(inputs).spec  # type: ignore[assignment]  # refused there if not frames
        if len(spec.shapes) != 1 or len(spec.shapes[0]) != 2 or spec.dtype != np.uint8:
            raise PipelineError(
                f"operator 'optical_flow' works on grey frames (H, W) of uint8, got {spec}",
                stage=self.name,
                hint="Convert before it: --operator convert:format=gray",
            )
        smallest = _SMALLEST_SIDE[self.method]
        if min(spec.shapes[0]) < smallest:
            raise PipelineError(
                f"operator 'optical_flow' with method {self.method!r} needs at least {smallest}x{smallest} pixels, "
                f"got {spec.width}x{spec.height}",
                stage=self.name,
                expected=smallest,
                got=spec.shapes[0],
            )
        flow = spec.replace(shapes=((*spec.shapes[0], 2),), dtype=np.dtype(np.float32), pixel_format="")
        return Contract((Output("frames", "frames", flow),), Halo(1, 0))

    def prepare(self, worker: Worker) -> Any:
        """Return the worker and its flow objects, which hold buffers and so serve one call at a time."""
        return _Prepared(worker)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> State | None:
        """Compute the flow into every frame of the core."""
        (hyperframe,), (view,) = inputs, outputs
        frames, first = hyperframe.data, hyperframe.core.start

        def part(start: int, stop: int) -> None:
            flow = prepared.spare.pop() if prepared.spare else self._flow()
            for t in range(start, stop):
                flow(frames[first + t - 1], frames[first + t], view.data[t])
            prepared.spare.append(flow)

        prepared.worker.split(len(view), part)
        return None

    def _flow(self) -> Callable[[Array, Array, Array], None]:
        if self.method == "dis":
            dis = cv2.DISOpticalFlow.create(_DIS[self.preset])
            return lambda before, after, out: np.copyto(out, dis.calc(before, after, _NO_FLOW))
        levels, window, iterations, around, sigma = _FARNEBACK[self.preset]

        def farneback(before: Array, after: Array, out: Array) -> None:
            found = cv2.calcOpticalFlowFarneback(
                before, after, _NO_FLOW, 0.5, levels, window, iterations, around, sigma, 0
            )
            np.copyto(out, found)

        return farneback


@dataclass(slots=True, eq=False)
class _Prepared:
    worker: Worker
    spare: deque[Any] = field(default_factory=deque)
