"""How much each frame moves against the one before it, and how different it is: what anchors are found by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import cv2
import numpy as np
from numba import njit

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS, FrameSpec
from hyperframes.operators._planes import check_count, frame_spec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker
from hyperframes.packing import Halo, Hyperframe

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, Spec

__all__ = ["LEVELS", "MEASURES", "Activity"]

LEVELS = 32
"""Steps of change by which normal flow is kept apart: 0, 1, ... 30, and 31 or more grey levels."""
MEASURES = (
    *("mean", "spread", "difference", "noise", "histogram_change", "likeness"),
    *(f"flow_{level}" for level in range(LEVELS)),
)
"""Names of the values of a row, in order."""

_LUMA_FIRST = tuple(
    name
    for name, layout in PIXEL_FORMATS.items()
    if layout.family in {"yuv", "gray"} and layout.dtype.kind == "u" and layout.planes[0][2] == 1
)
_EPSILON = 3.0  # grey levels a pixel: gradients well below this are noise, and would make any change look fast
_FASTEST = 8.0  # pixels: what a gradient can tell ends at about the width of an edge
_BINS = 64
_QUARTILE_OF_NOISE = 0.31864  # of |x| where x is normal with deviation 1
_CELLS = 16
_GREYS = np.arange(256)
_GREYS_SQUARED = _GREYS * _GREYS


@dataclass(frozen=True)
class Activity(Operator):
    """Normal flow and change against the previous frame, on luma made small.

    Pictures of any size, dtype uint8 or uint16, native planes; RGB is converted to grey. Gives rows of shape
    (38,), dtype float32, as ``measures``, and the small luma of shape (h, w), dtype uint8, as ``luma``. The halo is 1
    frame before. The first frame of a stream has no motion.

    ``mean`` and ``spread`` (deviation) are of the frame, in grey levels of 0 to 255; ``difference`` is the mean
    absolute difference to the previous frame; ``noise`` the deviation of noise that the lower quartile of absolute
    differences would have come from; ``histogram_change`` the share of pixels that changed between 64 levels of
    grey; ``likeness`` the correlation of 16 x 16 cell means with those of the previous frame, in [-1, 1] (1 where both
    are flat). ``flow_k`` is the part of the mean normal flow, in pixels of the small luma a frame, that comes from pixels
    which changed by k grey levels (31: or more): activity above a noise floor is the sum over the levels above it.

    Notes
    -----
    Normal flow is the least motion along the gradient that explains the change: ``|dI/dt| / sqrt(Ix^2 + Iy^2 + 3^2)``,
    with gradients of the mean of both frames, at most 8 pixels. The first plane is scaled by area means, so that its
    longer side is `side`; smaller pictures stay as they are. Costs one pass over the plane and one over the small luma.

    References
    ----------
    .. [1] B. Horn, B. Schunck, "Determining Optical Flow", Artificial Intelligence 17, 1981.
       DOI: 10.1016/0004-3702(81)90024-2
    """

    name: ClassVar[str] = "activity"
    compiles: ClassVar[bool] = True
    formats: ClassVar[tuple[str, ...] | None] = ("gray", *(f"={name}" for name in _LUMA_FIRST if name != "gray"))

    side: int = 160
    """Longer side of the small luma, in pixels."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: rows and small pictures, one each a frame."""
        spec = frame_spec(self.name, inputs, kinds="u")
        check_count(self.name, "side", self.side, 16, 4096)
        if spec.pixel_format not in _LUMA_FIRST:
            raise PipelineError(
                f"operator {self.name!r} works on pictures with a luma plane: got {spec}",
                stage=self.name,
                got=spec,
                hint="Convert before it: --operator convert:format=gray",
            )
        rows = FrameSpec.array((len(MEASURES),), np.float32, names=MEASURES, time_base=spec.time_base, rate=spec.rate)
        small = FrameSpec.picture(*self.small_size(spec), "gray", time_base=spec.time_base, rate=spec.rate)
        outputs = Output("measures", "frames", rows), Output("luma", "frames", small)
        return Contract(outputs, Halo(1, 0), takes_mask=True)

    def small_size(self, spec: FrameSpec) -> tuple[int, int]:
        """Return height and width of the small luma."""
        longest = max(spec.height, spec.width)
        if longest <= self.side:
            return spec.height, spec.width
        return tuple(max(1, (2 * s * self.side + longest) // (2 * longest)) for s in (spec.height, spec.width))  # type: ignore[return-value]  # two of them

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Write rows and small luma of the core's frames."""
        (hyperframe,), (measures, luma) = inputs, outputs
        planes, first = hyperframe.planes[0], hyperframe.core.start
        shrink = _shrinking(hyperframe.spec, self.small_size(hyperframe.spec))

        def part(start: int, stop: int) -> None:
            if start == stop:
                return
            step = _Step(luma.data.shape[1:])
            before = np.empty_like(luma.data[start])
            shrink(planes[first + start - 1], before)
            for t in range(start, stop):
                after = luma.data[t]
                shrink(planes[first + t], after)
                real = bool(hyperframe.mask[first + t - 1])
                step.measure(before if real else after, after, measures.data[t])
                before = after

        prepared.split(len(luma), part)


def _shrinking(spec: FrameSpec, size: tuple[int, int]) -> Callable[[Array, Array], None]:
    """Return what writes the small luma, 8 bits deep, of a plane."""
    deep = PIXEL_FORMATS[spec.pixel_format].bits - 8
    height, width = size

    def shrink(plane: Array, out: Array) -> None:
        small = plane
        if plane.shape != size:
            small = cv2.resize(plane, (width, height), interpolation=cv2.INTER_AREA)
        np.copyto(out, np.minimum(small >> deep, 255) if deep else small, casting="unsafe")

    return shrink


class _Step:
    """Measures the step between two small pictures; holds the buffers for it."""

    def __init__(self, size: tuple[int, ...]) -> None:
        self._flow, self._counts = np.empty(256, np.float64), np.empty((3, 256), np.int64)
        self._row = np.empty(size[1], np.float32)
        self._cells = (min(_CELLS, size[1]), min(_CELLS, size[0]))

    def measure(self, before: Array, after: Array, out: Array) -> None:
        """Fill a row of `MEASURES` about the step from `before` to `after`, (h, w) uint8."""
        flow, size = self._flow, before.size
        changed, old, new = counts = self._counts
        flow[:] = 0
        counts[:] = 0
        _accumulate(before, after, flow, changed, old, new, self._row)
        mean = float(new @ _GREYS) / size
        out[0] = mean
        out[1] = math.sqrt(max(0.0, float(new @ _GREYS_SQUARED) / size - mean * mean))
        out[2] = float(changed @ _GREYS) / size
        out[3] = _quartile(changed) / _QUARTILE_OF_NOISE
        out[4] = int(np.abs((new - old).reshape(_BINS, -1).sum(axis=1)).sum()) / (2 * size)
        out[5] = self._likeness(before, after)
        out[6 : 6 + LEVELS - 1] = flow[: LEVELS - 1] / size
        out[6 + LEVELS - 1] = flow[LEVELS - 1 :].sum() / size

    def _likeness(self, before: Array, after: Array) -> float:
        a, b = (
            cv2.resize(p, self._cells, interpolation=cv2.INTER_AREA).ravel().astype(np.float64) for p in (before, after)
        )
        a -= a.mean()
        b -= b.mean()
        power_a, power_b = float(a @ a), float(b @ b)
        if min(power_a, power_b) < a.size:  # a deviation of one grey level: nothing to correlate
            return 1.0 if max(power_a, power_b) < 4 * a.size else 0.0
        return float(a @ b) / math.sqrt(power_a * power_b)


def _quartile(counts: Array) -> float:
    """Return the lower quartile of values that were rounded to whole numbers, by how often each occurs."""
    below = np.cumsum(counts)
    level = int(np.searchsorted(below, 0.25 * below[-1]))
    share = (0.25 * below[-1] - (below[level] - counts[level])) / max(1, counts[level])
    return max(0.0, level - 0.5 + float(share)) if level else 0.5 * float(share)


@njit(nogil=True, cache=True, inline="always")
def _gradient(b_first: Any, b_last: Any, a_first: Any, a_last: Any) -> Any:  # pragma: no cover - compiled
    """Return four times the central difference of the mean of both frames."""
    return np.float32(np.int32(b_last) + np.int32(a_last) - np.int32(b_first) - np.int32(a_first))


@njit(nogil=True, cache=True, inline="always")
def _speed(gx: Any, gy: Any, b: Any, a: Any) -> Any:  # pragma: no cover - compiled
    slope = np.float32(0.0625) * (gx * gx + gy * gy) + np.float32(_EPSILON * _EPSILON)
    return min(np.float32(abs(np.int32(a) - np.int32(b))) / np.sqrt(slope), np.float32(_FASTEST))


@njit(nogil=True, cache=True)
def _accumulate(
    before: Any, after: Any, flow: Any, changed: Any, old: Any, new: Any, speed: Any
) -> None:  # pragma: no cover
    """Sum normal flow by how much a pixel changed, and count changes and grey levels of both frames."""
    height, width = after.shape
    for y in range(height):
        b, a = before[y], after[y]
        up, down = max(y - 1, 0), min(y + 1, height - 1)
        b_up, b_down, a_up, a_down = before[up], before[down], after[up], after[down]
        for x in (0, width - 1):
            across = max(x - 1, 0), min(x + 1, width - 1)
            gx = _gradient(b[across[0]], b[across[1]], a[across[0]], a[across[1]])
            speed[x] = _speed(gx, _gradient(b_up[x], b_down[x], a_up[x], a_down[x]), b[x], a[x])
        for x in range(1, width - 1):
            gx = _gradient(b[x - 1], b[x + 1], a[x - 1], a[x + 1])
            speed[x] = _speed(gx, _gradient(b_up[x], b_down[x], a_up[x], a_down[x]), b[x], a[x])
        for x in range(width):
            step = abs(np.int32(a[x]) - np.int32(b[x]))
            changed[step] += 1
            flow[step] += speed[x]
            old[b[x]] += 1
            new[a[x]] += 1
