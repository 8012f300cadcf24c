"""How much each frame moves against the one before it, and how different it is: what anchors are found by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS, FrameSpec
from hyperframes.kernels import kernel
from hyperframes.operators._planes import check_count, frame_spec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker
from hyperframes.packing import Halo, Hyperframe

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, Spec

__all__ = ["LEVELS", "MEASURES", "Activity", "has_luma", "shrinking"]

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
_LANES = 4  # tables to count in by turns: one waits for the store before where neighbours are alike


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
    with gradients of the mean of both frames, at most 8 pixels. The first plane is scaled by area means, in halves as
    long as that is exact, so that its longer side is `side`; smaller pictures stay as they are. Costs one pass over the plane and one over the small luma.

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
        if not has_luma(spec):
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
        shrink = shrinking(hyperframe.spec, self.small_size(hyperframe.spec))

        def part(start: int, stop: int) -> None:
            if start == stop:
                return
            step, before = _Step(luma.data.shape[1:]), np.empty_like(luma.data[start])
            shrink(planes[first + start - 1], before)
            for t in range(start, stop):
                after = luma.data[t]
                shrink(planes[first + t], after)
                real = bool(hyperframe.mask[first + t - 1])
                step.measure(before if real else after, after, measures.data[t])
                before = after

        prepared.split(len(luma), part)


def has_luma(spec: FrameSpec) -> bool:
    """Whether the first plane of frames of `spec` is luma that `Activity` reads as it is."""
    return spec.pixel_format in _LUMA_FIRST


def shrinking(spec: FrameSpec, size: tuple[int, int]) -> Callable[[Array, Array], None]:
    """Return what writes the small luma, (height, width) of uint8, of a first plane of `spec`."""
    deep = PIXEL_FORMATS[spec.pixel_format].bits - 8
    height, width = size

    def shrink(plane: Array, out: Array) -> None:
        small = plane
        rows, columns = plane.shape
        while rows % 2 == columns % 2 == 0 and rows >= 2 * height and columns >= 2 * width:
            rows, columns = rows // 2, columns // 2  # by halves is several times quicker than at once
            small = cv2.resize(small, (columns, rows), interpolation=cv2.INTER_AREA)
        if (rows, columns) != size:
            small = cv2.resize(small, (width, height), interpolation=cv2.INTER_AREA)
        np.copyto(out, np.minimum(small >> deep, 255) if deep else small, casting="unsafe")

    return shrink


class _Step:
    """Measures the step between two small pictures; holds the buffers for it."""

    def __init__(self, size: tuple[int, ...]) -> None:
        self._flow, self._changed = np.empty((_LANES, 256), np.float64), np.empty((_LANES, 256), np.int64)
        self._old, self._new = np.empty((_LANES, 256), np.int64), np.empty((_LANES, 256), np.int64)
        self._speed = np.empty(size[1], np.float32)
        self._cells = np.empty((2, min(_CELLS, size[0]), min(_CELLS, size[1])), np.float64)
        self._seen: Array | None = None

    def measure(self, before: Array, after: Array, out: Array) -> None:
        """Fill a row of `MEASURES` about the step from `before` to `after`, (h, w) uint8."""
        if before is not self._seen:
            _look(before, self._old, self._cells[0])
        _look(after, self._new, self._cells[1])
        _accumulate(before, after, self._flow, self._changed, self._speed)
        _summarise(self._flow, self._changed, self._old, self._new, self._cells, before.size, out)
        self._old, self._new, self._seen = self._new, self._old, after
        self._cells[0] = self._cells[1]


@kernel
def _look(picture: Any, counts: Any, cells: Any) -> None:  # pragma: no cover - compiled
    """Count the grey levels of a picture, in lanes, and average it over cells."""
    height, width = picture.shape
    rows, columns = cells.shape
    counts[:] = 0
    cells[:] = 0
    for y in range(height):
        line = picture[y]
        for x in range(0, width - _LANES + 1, _LANES):
            for lane in range(_LANES):
                counts[lane, line[x + lane]] += 1
        for x in range(width - width % _LANES, width):
            counts[0, line[x]] += 1
    for i in range(rows):
        top, bottom = i * height // rows, (i + 1) * height // rows
        for j in range(columns):
            left, right = j * width // columns, (j + 1) * width // columns
            total = np.int64(0)
            for y in range(top, bottom):
                for x in range(left, right):
                    total += np.int64(picture[y, x])
            cells[i, j] = total / ((bottom - top) * (right - left))


@kernel
def _summarise(
    flow: Any, changed: Any, old: Any, new: Any, cells: Any, size: int, out: Any
) -> None:  # pragma: no cover - compiled
    """Fill the row from what was counted."""
    total, squares, difference, moved = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    steps = np.zeros(256, np.int64)
    bins = np.zeros(_BINS, np.int64)
    for level in range(256):
        now = then = np.int64(0)
        for lane in range(_LANES):
            now += new[lane, level]
            then += old[lane, level]
            steps[level] += changed[lane, level]
        total += level * now
        squares += level * level * now
        difference += level * steps[level]
        bins[level * _BINS // 256] += now - then
    for k in range(_BINS):
        moved += abs(bins[k])
    mean = total / size
    out[0] = mean
    out[1] = math.sqrt(max(0.0, squares / size - mean * mean))
    out[2] = difference / size
    out[3] = _quartile(steps, size) / _QUARTILE_OF_NOISE
    out[4] = moved / (2 * size)
    out[5] = _correlation(cells[0].ravel(), cells[1].ravel())
    for level in range(LEVELS):
        part = 0.0
        for at in range(level, 256 if level == LEVELS - 1 else level + 1):
            for lane in range(_LANES):
                part += flow[lane, at]
        out[6 + level] = part / size


@kernel
def _quartile(counts: Any, size: int) -> Any:  # pragma: no cover - compiled
    """Return the lower quartile of values that were rounded to whole numbers, by how often each occurs."""
    wanted, below = 0.25 * size, 0
    for level in range(256):
        if below + counts[level] >= wanted:
            share = (wanted - below) / max(1, counts[level])
            return max(0.0, level - 0.5 + share) if level else 0.5 * share
        below += counts[level]
    return 255.0


@kernel
def _correlation(a: Any, b: Any) -> Any:  # pragma: no cover - compiled
    """Return the correlation of cell means; of flat pictures 1 if both are, else 0."""
    mean_a = mean_b = power_a = power_b = both = 0.0
    for k in range(a.size):
        mean_a += a[k] / a.size
        mean_b += b[k] / a.size
    for k in range(a.size):
        power_a += (a[k] - mean_a) ** 2
        power_b += (b[k] - mean_b) ** 2
        both += (a[k] - mean_a) * (b[k] - mean_b)
    if min(power_a, power_b) < a.size:  # a deviation of one grey level: nothing to correlate
        return 1.0 if max(power_a, power_b) < 4 * a.size else 0.0
    return both / math.sqrt(power_a * power_b)


@kernel(inline="always")
def _gradient(b_first: Any, b_last: Any, a_first: Any, a_last: Any) -> Any:  # pragma: no cover - compiled
    """Return four times the central difference of the mean of both frames."""
    return np.float32(np.int32(b_last) + np.int32(a_last) - np.int32(b_first) - np.int32(a_first))


@kernel(inline="always")
def _speed(gx: Any, gy: Any, b: Any, a: Any) -> Any:  # pragma: no cover - compiled
    slope = np.float32(0.0625) * (gx * gx + gy * gy) + np.float32(_EPSILON * _EPSILON)
    return min(np.float32(abs(np.int32(a) - np.int32(b))) / np.sqrt(slope), np.float32(_FASTEST))


@kernel
def _accumulate(before: Any, after: Any, flow: Any, changed: Any, speed: Any) -> None:  # pragma: no cover - compiled
    """Count changes, and sum normal flow by how much a pixel changed, in lanes: neighbours mostly change alike."""
    height, width = after.shape
    flow[:] = 0
    changed[:] = 0
    for y in range(height):
        b, a = before[y], after[y]
        up, down = max(y - 1, 0), min(y + 1, height - 1)
        b_up, b_down, a_up, a_down = before[up], before[down], after[up], after[down]
        for x in (0, width - 1):
            left, right = max(x - 1, 0), min(x + 1, width - 1)
            gx = _gradient(b[left], b[right], a[left], a[right])
            speed[x] = _speed(gx, _gradient(b_up[x], b_down[x], a_up[x], a_down[x]), b[x], a[x])
        for x in range(1, width - 1):
            gx = _gradient(b[x - 1], b[x + 1], a[x - 1], a[x + 1])
            speed[x] = _speed(gx, _gradient(b_up[x], b_down[x], a_up[x], a_down[x]), b[x], a[x])
        for x in range(0, width - _LANES + 1, _LANES):
            for lane in range(_LANES):
                step = abs(np.int32(a[x + lane]) - np.int32(b[x + lane]))
                changed[lane, step] += 1
                flow[lane, step] += speed[x + lane]
        for x in range(width - width % _LANES, width):
            step = abs(np.int32(a[x]) - np.int32(b[x]))
            changed[0, step] += 1
            flow[0, step] += speed[x]
