"""The Gaussian-weighted mean over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.kernels import kernel
from hyperframes.operators._planes import TILE, check_count, check_number, frame_spec
from hyperframes.operators.base import Contract, frames_out
from hyperframes.operators.samplewise import SampleKernel, Samplewise
from hyperframes.packing import Halo

if TYPE_CHECKING:
    from hyperframes.frames import Array, Spec

__all__ = ["TemporalGaussian", "gaussian_weights", "integer_weights"]

_BITS = 16
"""Integer weights sum to 2 ** _BITS."""


@dataclass(frozen=True)
class TemporalGaussian(Samplewise):
    """Mean of each sample over time, weighted by a Gaussian of standard deviation `sigma` frames.

    Frames of any shape, every plane alike: (T, ...) gives (T, ...) of the same dtype. The halo is `radius` frames on
    each side. Integers of up to 32 bits are weighted by whole numbers that sum to exactly 65536 and rounded half up,
    ``(sum(w * x) + 32768) >> 16``, so still frames stay what they are. Floats are added in float64 from the oldest
    frame to the newest and rounded once to their dtype; 64-bit integers are refused.

    Examples
    --------
    >>> from hyperframes.frames import FrameSpec
    >>> from hyperframes.testing.operators import run_whole
    >>> rows = np.array([[0], [0], [100], [0], [0]], np.uint8)
    >>> run_whole(TemporalGaussian(), [rows], np.arange(5), FrameSpec.array((1,), np.uint8))["frames"].data.ravel()
    array([ 5, 24, 40, 24,  5], dtype=uint8)
    """

    name: ClassVar[str] = "temporal_gaussian"
    compiles: ClassVar[bool] = True

    sigma: float = 1.0
    """Standard deviation, in frames."""
    radius: int | None = None
    """Frames on each side of the centre; left out, three standard deviations rounded up."""

    @property
    def reach(self) -> int:
        """Frames read on each side."""
        return math.ceil(3 * self.sigma) if self.radius is None else self.radius

    @property
    def halo(self) -> Halo:
        """Frames read on each side."""
        return Halo(self.reach, self.reach)

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output like the input."""
        spec = frame_spec(self.name, inputs)
        check_number(self.name, "sigma", self.sigma, 0, 300, above=True)
        if self.radius is not None:
            check_count(self.name, "radius", self.radius, 0, 1024)
        if spec.dtype.kind in "iu" and spec.dtype.itemsize == 8:
            raise PipelineError(
                f"operator {self.name!r} cannot weight {spec.dtype} samples exactly: "
                f"expected integers of at most 32 bits or floats, got {spec.dtype}",
                stage=self.name,
                got=spec.dtype,
                hint="Convert the samples to float64 first.",
            )
        return Contract((frames_out(inputs),), self.halo)

    def sample_kernel(self, source: Array, out: Array) -> SampleKernel:
        """Return the kernel: row t of `out` becomes the weighted mean of rows [t, t + 2 reach] of `source`."""
        dtype, weights = source.dtype, gaussian_weights(self.sigma, self.reach)
        if dtype in (np.uint8, np.uint16):
            # 255 * 65536 fits 32 bits, which are twice as fast as 64.
            whole = integer_weights(weights).astype(np.int32 if dtype == np.uint8 else np.int64)
            return lambda start, stop, shift: _weigh_integers(source, out, whole, start, stop, shift, TILE // 8)
        if dtype in (np.float32, np.float64):
            return lambda start, stop, shift: _weigh_floats(source, out, weights, start, stop, shift, TILE // 16)
        return lambda start, stop, shift: _weigh_any(source, out, weights, start, stop, shift)


def gaussian_weights(sigma: float, radius: int) -> Array:
    """Return the (2 radius + 1,) float64 weights, which sum to 1."""
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return np.asarray(weights / math.fsum(weights))


def integer_weights(weights: Array) -> Array:
    """Return `weights` in whole numbers that sum to 65536: each rounded, the centre taking what is left."""
    whole = np.rint(weights * (1 << _BITS)).astype(np.int64)
    centre = len(whole) // 2
    whole[centre] += (1 << _BITS) - whole.sum()
    return np.asarray(whole)


@kernel
def _weigh_integers(
    source: Array, out: Array, weights: Array, start: int, stop: int, shift: int, tile: int
) -> None:  # pragma: no cover - compiled
    scratch = np.empty(min(tile, stop - start), weights.dtype)
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        sums = scratch[: right - left]
        for t in range(out.shape[0]):
            sums[:] = 1 << 15  # half of the weights' sum, so that the shift rounds half up
            for k in range(weights.size):
                weight, frame = weights[k], source[t + k, left:right]
                for i in range(sums.size):
                    sums[i] += weight * frame[i]
            mean = out[t, left + shift : right + shift]
            for i in range(sums.size):
                mean[i] = sums[i] >> 16


@kernel
def _weigh_floats(
    source: Array, out: Array, weights: Array, start: int, stop: int, shift: int, tile: int
) -> None:  # pragma: no cover - compiled
    scratch = np.empty(min(tile, stop - start), np.float64)
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        sums = scratch[: right - left]
        for t in range(out.shape[0]):
            sums[:] = 0.0
            for k in range(weights.size):
                weight, frame = weights[k], source[t + k, left:right]
                for i in range(sums.size):
                    sums[i] += weight * frame[i]
            out[t, left + shift : right + shift] = sums


def _weigh_any(source: Array, out: Array, weights: Array, start: int, stop: int, shift: int) -> None:
    """Do the same in NumPy for dtypes that are too rare to compile for."""
    integer = source.dtype.kind in "iu"
    if integer:
        weights = integer_weights(weights)
    accumulator = np.int64 if integer else np.result_type(source.dtype, np.float64)
    with np.errstate(all="ignore"):
        for t in range(len(out)):
            sums = np.full(stop - start, 1 << (_BITS - 1) if integer else 0, accumulator)
            for k, weight in enumerate(weights):
                sums += weight * source[t + k, start:stop].astype(accumulator)
            out[t, start + shift : stop + shift] = sums >> _BITS if integer else sums
