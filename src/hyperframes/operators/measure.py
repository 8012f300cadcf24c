"""Numbers about each frame: level, spread, extremes and how much it moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperframes.frames import Field, RecordSpec
from hyperframes.kernels import kernel
from hyperframes.operators._planes import flat, frame_spec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker
from hyperframes.packing import Halo, Hyperframe

if TYPE_CHECKING:
    from hyperframes.frames import Array, Spec

__all__ = ["Measure", "activity"]

_FIELDS = ("mean", "std", "min", "max", "activity")


@dataclass(frozen=True)
class Measure(Operator):
    """One record a frame about its first plane: `mean`, `std`, `min`, `max` and `activity`.

    Frames of any shape and real dtype; the fields are float64 in units of samples. `activity` is the mean absolute
    difference to the previous frame, 0 for the first one; for it the halo is 1 frame before. Integers of up to
    16 bits are summed exactly, other samples in float64; `std` is that of the whole frame (divided by its size).
    """

    name: ClassVar[str] = "measure"
    compiles: ClassVar[bool] = True

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one record a frame."""
        spec = frame_spec(self.name, inputs, kinds="iuf")
        fields = tuple(Field(name, np.dtype(np.float64)) for name in _FIELDS)
        records = RecordSpec(fields, spec.time_base, spec.rate)
        return Contract((Output("records", "records", records),), Halo(1, 0), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Add the records of the core's frames."""
        (hyperframe,), (view,) = inputs, outputs
        frames = flat(hyperframe.planes[0])
        core = range(hyperframe.core.start, hyperframe.core.stop)
        moments = np.array([_moments(frames[t]) for t in core], np.float64).reshape(-1, 4)
        columns = dict(zip(_FIELDS, moments.T, strict=False))
        view.add(np.arange(*hyperframe.header.core), activity=activities(hyperframe), **columns)


def activities(hyperframe: Hyperframe) -> Array:
    """Return the activity of each frame of the core, (core frames,) float64; 0 where no real frame is before it."""
    frames = flat(hyperframe.planes[0])
    core = range(hyperframe.core.start, hyperframe.core.stop)
    return np.array([activity(frames[t - 1], frames[t]) if hyperframe.mask[t - 1] else 0.0 for t in core], np.float64)


def activity(a: Array, b: Array) -> float:
    """Return the mean absolute difference of two contiguous (P,) frames, in units of samples."""
    if a.dtype.kind in "iu" and a.dtype.itemsize <= 2:
        return int(_sum_absolute_difference(a, b)) / a.size
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.mean(np.abs(a.astype(np.float64) - b.astype(np.float64))))


def _moments(frame: Array) -> tuple[float, float, float, float]:
    """Return mean, standard deviation, least and greatest sample of a (P,) frame."""
    size = frame.size
    if frame.dtype.kind in "iu" and frame.dtype.itemsize <= 2:
        total, squares, least, greatest = (int(value) for value in _sums(frame))
        return total / size, math.sqrt(size * squares - total * total) / size, float(least), float(greatest)
    with np.errstate(invalid="ignore", over="ignore"):
        wide = frame.astype(np.float64)
        return float(wide.mean()), float(wide.std()), float(wide.min()), float(wide.max())


@kernel
def _sum_absolute_difference(a: Array, b: Array) -> Any:  # pragma: no cover - compiled
    total = np.int64(0)
    for i in range(a.size):
        total += abs(np.int64(a[i]) - np.int64(b[i]))
    return total


@kernel
def _sums(frame: Array) -> Any:  # pragma: no cover - compiled
    total, squares = np.int64(0), np.int64(0)
    least, greatest = np.int64(frame[0]), np.int64(frame[0])
    for i in range(frame.size):
        value = np.int64(frame[i])
        total += value
        squares += value * value
        least, greatest = min(least, value), max(greatest, value)
    return total, squares, least, greatest
