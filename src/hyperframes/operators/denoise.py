"""Less noise without trails: an average over time that leaves out what moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS
from hyperframes.kernels import kernel
from hyperframes.operators._planes import check_count, check_number, frame_spec
from hyperframes.operators.base import Contract, Operator, State, View, Worker, frames_out
from hyperframes.operators.temporal_mean import high_product
from hyperframes.packing import Halo, Hyperframe

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, FrameSpec, Spec

__all__ = ["Denoise"]

_FULL = 8
"""Weight of the centre frame, and of any frame that differs from it by no more than noise."""
_NEAR, _FAR = 13.0, 23.0
"""Sums of 9 absolute differences, in standard deviations of the noise. Of two frames of equal Gaussian noise such a
sum is 10.2 on average with a deviation of 2.6: up to 1.1 deviations above counts in full, from 5 on not at all."""


@dataclass(frozen=True)
class Denoise(Operator):
    """Motion-adaptive average over time: each sample over those frames that do not differ from it there.

    Frames of uint8 or uint16 of any shape, every plane alike: (T, ...) gives (T, ...) of the same dtype. The halo is
    `radius` frames on each side. A neighbouring frame counts at a pixel by how much the 3 x 3 samples around it
    (edges repeated; each channel apart) differ from those of the centre frame, D being the sum of the nine absolute
    differences: in full while D is what noise of standard deviation `strength` explains, not at all where only motion
    does, and by a ramp in between. Frames that are not pictures have no neighbours in space: D is nine times
    the difference of the sample itself.

    Notes
    -----
    All integers, hence exact: with n, f the whole numbers nearest 13 and 23 standard deviations (f - n at least 9)
    and m = ceil(8 * 2**b / (f - n)), b = 16 for uint8 and 32 for uint16, a frame weighs
    w = min(8, max(0, f - D) * m >> b), the centre frame 8; the result is (2 * sum(w * x) + W) // (2 * W), W = sum(w).
    Reads each frame 2 `radius` + 1 times, in strips of a row.

    References
    ----------
    .. [1] E. Dubois and S. Sabri, "Noise reduction in image sequences using motion-compensated temporal filtering",
       IEEE Transactions on Communications 32(7), 1984, doi:10.1109/TCOM.1984.1096143 (weights from differences; there
       a recursive filter, here a symmetric window, so that frames are independent).
    """

    name: ClassVar[str] = "denoise"
    compiles: ClassVar[bool] = True

    strength: float = 5.0
    """Standard deviation of the noise to remove, in units of 1 / 255 of the full range; 0 changes nothing."""
    radius: int = 2
    """Frames on each side of the centre, at most 7."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output like the input."""
        spec = frame_spec(self.name, inputs, kinds="iu")
        if spec.dtype not in (np.uint8, np.uint16):
            raise PipelineError(
                f"operator {self.name!r} cannot work on {spec.dtype} samples: expected uint8 or uint16, "
                f"got {spec.dtype}",
                stage=self.name,
                got=spec.dtype,
                hint="Convert the samples first, for example with --dtype uint8.",
            )
        if spec.is_picture and spec.layout == "NCHW" and len(spec.shapes[0]) == 3:
            raise PipelineError(
                f"operator {self.name!r} reads pictures with channels last: expected NHWC, got NCHW",
                stage=self.name,
                hint="Leave out --layout NCHW, or put this operator before what needs it.",
            )
        check_number(self.name, "strength", self.strength, 0, 100)
        check_count(self.name, "radius", self.radius, 0, 7)
        return Contract((frames_out(inputs),), Halo(self.radius, self.radius))

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Write the denoised frames of the core."""
        (hyperframe,), (view,) = inputs, outputs
        first = hyperframe.core.start - self.radius
        for source, out in zip(hyperframe.planes, view.planes, strict=True):
            frames, results, step = _as_rows(source[first:], hyperframe.spec), _as_rows(out, hyperframe.spec), 0
            if hyperframe.spec.is_picture:
                step = source.shape[3] if source.ndim == 4 else 1
            prepared.split(frames.shape[1], self._kernel(frames, results, step, hyperframe.spec))

    def _kernel(self, frames: Array, results: Array, step: int, spec: FrameSpec) -> Callable[[int, int], None]:
        bits, number = (16, np.uint16) if spec.dtype == np.uint8 else (32, np.uint32)
        depth = PIXEL_FORMATS[spec.pixel_format].bits if spec.is_picture else 8 * spec.dtype.itemsize
        sigma = self.strength * ((1 << depth) - 1) / 255
        far = math.floor(_FAR * sigma + 0.5)
        ramp = max(9, far - math.floor(_NEAR * sigma + 0.5))
        limits = np.array([far, -(-(_FULL << bits) // ramp)], number)
        radius = self.radius if self.strength > 0 else 0
        centre = self.radius
        return lambda start, stop: _denoise(frames, results, centre, radius, step, limits, start, stop)


def _as_rows(plane: Array, spec: FrameSpec) -> Array:
    """Return `plane` (T, ...) as (T, rows, samples a row); frames that are not pictures have one row."""
    shape = plane.shape[1:]
    if not spec.is_picture:
        return plane.reshape(len(plane), 1, math.prod(shape))
    return plane.reshape(len(plane), shape[0], math.prod(shape[1:]))


@kernel(error_model="numpy")
def _denoise(
    frames: Array, out: Array, centre: int, radius: int, step: int, limits: Array, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    """Write rows [start, stop) of every frame of `out`; `frames` (T, H, W) begins `centre` frames before them.

    Sums of three differences along the row are kept for three rows of each neighbouring frame, so every difference
    is taken once.
    """
    height, width, dtype = frames.shape[1], frames.shape[2], limits.dtype
    sums = np.empty((2 * radius + 1, 3, width), dtype)
    weighted, weights, room = np.empty(width, dtype), np.empty(width, dtype), np.empty(width, dtype)
    difference = np.empty(width, frames.dtype)
    for t in range(out.shape[0]):
        here = t + centre
        for y in range(start, stop):
            middle, result = frames[here, y], out[t, y]
            for i in range(width):
                weighted[i] = middle[i] * 8
                weights[i] = 8
            for k in range(2 * radius + 1):
                if k == radius:
                    continue
                other = here + k - radius
                for row in range(y - 1 if y == start else y + 1, y + 2):
                    inside = min(max(row, 0), height - 1)
                    _row_sums(frames[other, inside], frames[here, inside], difference, step, sums[k, (row + 3) % 3])
                above, level, below = sums[k, (y + 2) % 3], sums[k, y % 3], sums[k, (y + 1) % 3]
                _add(frames[other, y], above, level, below, room, limits, weighted, weights)
            for i in range(width):
                total, weight = np.int32(weighted[i]), np.int32(weights[i])
                # Exact: the quotient is below 2**16, the divisor below 2**8, the dividend below 2**24.
                result[i] = np.int32(np.float32(2 * total + weight) / np.float32(2 * weight))


@kernel
def _row_sums(a: Array, b: Array, difference: Array, step: int, sums: Array) -> None:  # pragma: no cover - compiled
    """Write to `sums` the absolute differences of two rows, summed over each sample and those `step` before and after.

    Edges are repeated. With `step` 0 a sample counts three times.
    """
    for i in range(difference.size):
        difference[i] = a[i] - b[i] if a[i] > b[i] else b[i] - a[i]
    size = difference.size
    left, right = difference[: size - 2 * step], difference[2 * step :]
    level, inner = difference[step : size - step], sums[step : size - step]
    for i in range(inner.size):
        inner[i] = left[i] + level[i] + right[i]
    for i in range(min(step, size)):
        last = size - 1 - i
        sums[i] = 2 * difference[i] + difference[min(i + step, size - step + i)]
        sums[last] = 2 * difference[last] + difference[max(last - step, step - 1 - i)]


@kernel
def _add(
    frame: Array,
    above: Array,
    level: Array,
    below: Array,
    room: Array,
    limits: Array,
    weighted: Array,
    weights: Array,
) -> None:  # pragma: no cover - compiled
    """Add a row of `frame` to `weighted` by its weights, and these to `weights`."""
    far, factor = limits[0], limits[1]
    for i in range(room.size):
        room[i] = above[i] + level[i] + below[i]
    for i in range(room.size):
        room[i] = far - min(room[i], far)
    for i in range(room.size):
        room[i] = min(high_product(room[i], factor), 8)
    for i in range(room.size):
        weighted[i] += room[i] * frame[i]
        weights[i] += room[i]
