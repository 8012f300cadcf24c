"""What stands still behind what moves: a running model of every sample, and the mask of what differs from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS, Colour
from hyperframes.kernels import kernel
from hyperframes.operators._planes import TILE, check_number, flat, frame_spec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker, frames_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, FrameSpec, Spec
    from hyperframes.packing import Hyperframe

__all__ = ["Background"]

_SLOW = np.float32(1 / 16)
"""How much slower foreground enters the model: what stays long enough becomes background."""


@dataclass(frozen=True)
class Background(Operator):
    """Foreground mask and background picture from a running Gaussian of every sample.

    Frames of any shape, of integers of up to 16 bits or floats, every plane alike: (T, ...). Two outputs: ``background`` (T, ...) of the input's
    dtype, and ``mask``, uint8, 255 where the frame differs from the background and 0 elsewhere, of the first plane's
    shape (T, H, W); the channels of packed pictures are taken together. No halo. Sequential: the model, a mean
    and a variance (float32) of every sample, is the state.

    Notes
    -----
    A sample x is foreground where (x - mean)**2 > `threshold`**2 * max(variance, `noise`**2), judged by the model of the
    frames before; the first frame is all background. Then mean += a (x - mean) and variance += a ((x - mean)**2 -
    variance), with a = max(`rate`, 1 / frames so far) for background and a sixteenth of `rate` for foreground, so
    that what comes to rest is taken in slowly and what passes leaves no trail. Samples that are NaN or infinite are
    foreground and change nothing. Each sample has its own fixed order of operations, so results are the same for
    every size. Chroma planes are judged by their own samples, and do not show in the mask.

    References
    ----------
    .. [1] C. R. Wren, A. Azarbayejani, T. Darrell, A. P. Pentland, "Pfinder: real-time tracking of the human body", IEEE
       PAMI 19(7), 1997, doi:10.1109/34.598236 (the running Gaussian).
    .. [2] D. Koller et al., "Towards robust automatic traffic scene analysis in real-time", ICPR 1994,
       doi:10.1109/ICPR.1994.576243 (selective update; there foreground is not taken in at all).
    """

    name: ClassVar[str] = "background"
    compiles: ClassVar[bool] = True

    rate: float = 0.02
    """How fast the model follows, from above 0 to 1; about one over the frames it remembers."""
    threshold: float = 3.0
    """Standard deviations from which a sample is foreground."""
    noise: float = 4.0
    """Least standard deviation that is believed, in units of 1 / 255 of the full range (of 1 for floats)."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: two frame outputs, sequential."""
        spec = frame_spec(self.name, inputs, kinds="iuf")
        if spec.dtype.kind in "iu" and spec.dtype.itemsize > 2:
            raise PipelineError(
                f"operator {self.name!r} models samples in float32, which cannot hold {spec.dtype}: "
                f"expected integers of at most 16 bits or floats, got {spec.dtype}",
                stage=self.name,
                got=spec.dtype,
                hint="Convert the samples to float32 first, if losing digits is fine.",
            )
        check_number(self.name, "rate", self.rate, 0, 1, above=True)
        check_number(self.name, "threshold", self.threshold, 0, 1000, above=True)
        check_number(self.name, "noise", self.noise, 0, 255, above=True)
        shape, _ = _mask_shape(spec)
        picture = spec.is_picture and len(shape) == 2
        mask = spec.replace(
            shapes=(shape,),
            dtype=np.dtype(np.uint8),
            pixel_format="gray" if picture else "",
            layout="NHWC",
            colour=Colour(range="pc"),
            names=(),
        )
        outputs = (Output("mask", "frames", mask), frames_out(inputs, "background"))
        return Contract(outputs, dependency="sequential")

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> State:
        """Write masks and backgrounds of the core; return the model."""
        (hyperframe,), (mask, background) = inputs, outputs
        seen = 0 if state is None else int(state["seen"])
        new: State = {"seen": seen + hyperframe.size}
        for i, (plane, out) in enumerate(zip(hyperframe.core_planes, background.planes, strict=True)):
            source, result = flat(plane), flat(out)
            if state is None:
                model = np.zeros((2, source.shape[1]), np.float32)
                _begin(source, model)
            else:
                model = state[f"model{i}"].copy()
            new[f"model{i}"] = model
            _, channels = _mask_shape(hyperframe.spec)
            foreground = flat(mask.planes[0]) if i == 0 else np.empty((0, 0), np.uint8)
            group = channels if i == 0 else 1
            kernel = self._kernel(source, result, foreground, model, seen, group, hyperframe.spec)
            prepared.split(source.shape[1] // group, kernel)
        return new

    def _kernel(
        self, source: Array, result: Array, mask: Array, model: Array, seen: int, group: int, spec: FrameSpec
    ) -> Callable[[int, int], None]:
        """Return ``kernel(start, stop)`` over groups of `group` samples that share one element of the mask."""
        bits = PIXEL_FORMATS[spec.pixel_format].bits if spec.is_picture else 8 * spec.dtype.itemsize
        full = 1.0 if spec.dtype.kind == "f" else 2.0**bits - 1
        rates = np.array([max(self.rate, 1 / (seen + t + 1)) for t in range(len(source))], np.float32)
        slow = np.float32(self.rate) * _SLOW
        half = 0.5 if spec.dtype in (np.uint8, np.uint16) else 0.0  # rounds half up when cut to an integer
        limits = np.array([slow, self.threshold**2, (self.noise * full / 255) ** 2, half], np.float32)

        def kernel(start: int, stop: int) -> None:
            tile = TILE // 4 // group * group
            if source.dtype in (np.uint8, np.uint16, np.float32):
                _follow(source, result, mask, model, rates, limits, group, start * group, stop * group, tile)
                return
            part = np.s_[:, start * group : stop * group]
            with np.errstate(over="ignore"):
                means = np.empty_like(source[part], np.float32)
                samples, own = source[part].astype(np.float32), np.ascontiguousarray(model[part])
            foreground = np.ascontiguousarray(mask[:, start:stop])
            _follow(samples, means, foreground, own, rates, limits, group, 0, own.shape[1], tile)
            mask[:, start:stop], model[part] = foreground, own
            result[part] = means if source.dtype.kind == "f" else np.floor(means + np.float32(0.5))

        return kernel


def _mask_shape(spec: FrameSpec) -> tuple[tuple[int, ...], int]:
    """Return the shape of a mask, and how many samples side by side share one element of it."""
    shape = spec.shapes[0]
    if spec.is_picture and len(shape) == 3 and spec.layout == "NHWC":
        return shape[:2], shape[2]
    return shape, 1


def _begin(source: Array, model: Array) -> None:
    """Set the means of a new `model` (2, P) to the first frame, where that is finite."""
    with np.errstate(over="ignore"):
        first = source[0].astype(np.float32)
    model[0] = np.where(np.isfinite(first), first, np.float32(0))


@kernel
def _follow(
    source: Array,
    result: Array,
    mask: Array,
    model: Array,
    rates: Array,
    limits: Array,
    group: int,
    start: int,
    stop: int,
    tile: int,
) -> None:  # pragma: no cover - compiled
    """Follow samples [start, stop) of `source` (T, P) with `model` (2, P); `mask` (T, P / group) may have no rows."""
    slow, squared, least, half = limits[0], limits[1], limits[2], limits[3]
    scratch = np.empty(min(tile, stop - start), np.uint8)
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        mean, variance, still = model[0, left:right], model[1, left:right], scratch[: right - left]
        for t in range(source.shape[0]):
            samples, means = source[t, left:right], result[t, left:right]
            _judge(samples, mean, variance, squared, least, group, still)
            if mask.shape[0] > 0:
                marks = mask[t, left // group : right // group]
                for j in range(marks.size):
                    marks[j] = 0 if still[j * group] else 255
            _learn(samples, mean, variance, still, rates[t], slow)
            for i in range(means.size):
                means[i] = mean[i] + half


@kernel
def _judge(
    samples: Array, mean: Array, variance: Array, squared: float, least: float, group: int, still: Array
) -> None:  # pragma: no cover - compiled
    """Set `still` to 1 where a group of samples is background."""
    if group == 1:
        for i in range(still.size):
            distance = np.float32(samples[i]) - mean[i]
            still[i] = distance * distance <= squared * max(variance[i], least)
        return
    for first in range(0, still.size, group):
        total, limit = np.float32(0), np.float32(0)
        for i in range(first, first + group):
            distance = np.float32(samples[i]) - mean[i]
            total += distance * distance
            limit += squared * max(variance[i], least)
        for i in range(first, first + group):
            still[i] = total <= limit


@kernel
def _learn(
    samples: Array, mean: Array, variance: Array, still: Array, fast: float, slow: float
) -> None:  # pragma: no cover - compiled
    """Move the model towards finite samples."""
    for i in range(still.size):
        distance = np.float32(samples[i]) - mean[i]
        square = distance * distance
        rate = fast if still[i] else slow
        finite = square < np.float32(np.inf)
        mean[i] += rate * distance if finite else np.float32(0)
        variance[i] += rate * (square - variance[i]) if finite else np.float32(0)
