"""The mean over time: exact integers from running sums, floats summed anew for every frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core.compiler import Compiler
from numba.extending import intrinsic

from hyperframes.kernels import kernel
from hyperframes.operators._planes import TILE, check_count, frame_spec
from hyperframes.operators.base import Contract, State, View, Worker, frames_out
from hyperframes.operators.cache_lines import parted, settle
from hyperframes.operators.mean_lines import LINE, four_lines, pairs_at
from hyperframes.operators.samplewise import SampleKernel, Samplewise, flat
from hyperframes.packing import Halo, Hyperframe, LentPlane

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, Spec

__all__ = ["TemporalMean", "high_product", "mean_kernel"]


@dataclass(frozen=True)
class TemporalMean(Samplewise):
    """Mean of each sample over a window of frames around it.

    Frames of any shape, every plane alike: (T, ...) gives (T, ...) of the same dtype. The halo is `before` and
    `after`, in frames. Integers are exact and round half up, ``(2 * sum + n) // (2 * n)``. Floats are added in
    float64 from the oldest frame to the newest, divided by n and rounded once to their dtype; a NaN spreads over
    the n frames whose window holds it and no further.

    Notes
    -----
    Integer sums run: each frame is added once and taken away once, whatever the window, in tiles of pixels
    that stay in cache. Floats are not run, since a float running sum would depend on where it started.

    Examples
    --------
    >>> from hyperframes.frames import FrameSpec
    >>> from hyperframes.testing.operators import run_whole
    >>> rows = np.array([[0], [0], [3], [0]], np.uint8)
    >>> run_whole(TemporalMean(radius=1), [rows], np.arange(4), FrameSpec.array((1,), np.uint8))["frames"].data.ravel()
    array([0, 1, 1, 1], dtype=uint8)
    """

    name: ClassVar[str] = "temporal_mean"
    compiles: ClassVar[bool] = True

    radius: int = 2
    """Frames on each side of the centre."""
    before: int | None = None
    """Frames before the centre, where it differs from `radius`."""
    after: int | None = None
    """Frames after the centre, where it differs from `radius`; 0 for a causal mean."""

    @property
    def halo(self) -> Halo:
        """Frames read on each side."""
        return Halo(
            self.radius if self.before is None else self.before, self.radius if self.after is None else self.after
        )

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output like the input."""
        frame_spec(self.name, inputs)
        check_count(self.name, "radius", self.radius, 0, 2047)
        for side in ("before", "after"):
            if getattr(self, side) is not None:
                check_count(self.name, side, getattr(self, side), 0, 2047)
        return Contract((frames_out(inputs),), self.halo)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Write the means of the core's frames."""
        planes = inputs[0].planes
        if max(math.prod(plane.shape[1:]) for plane in planes) >= FEW_COLUMNS or planes[0].dtype.name not in FLOATS:
            super().apply(inputs, outputs, state, prepared)
            return
        first = inputs[0].core.start - self.halo.before
        for plane, out in zip(planes, outputs[0].planes, strict=True):
            prepared.split(out.size, row_kernel(flat(plane[first:]), flat(out), self.halo.total + 1))

    def sample_kernel(self, source: Array, out: Array) -> SampleKernel:
        """Return the kernel: row t of `out` becomes the mean of the rows from t on of `source` that its window holds."""
        return mean_kernel(source, out, self.halo.total + 1)

    def apart_kernel(self, source: LentPlane, out: Array) -> SampleKernel | None:
        """Return the kernel for bytes, of which it needs to know the addresses only."""
        narrow = _magic(self.halo.total + 1, 8, 16)
        if source.dtype != np.uint8 or narrow is None or source.num_samples % 2 or out.shape[1] % 2:
            return None
        return _pair_kernel(source.addresses, out, self.halo.total + 1, narrow)


PAIRS = TILE // 4
"""Pairs of samples whose frames, sums and means stay in a core's own cache."""
FEW_COLUMNS = 1024
"""Rows with fewer samples are averaged along time: one after another they are too short for vector instructions."""
FLOATS = ("float32", "float64")


def row_kernel(source: Array, out: Array, num_frames: int) -> Callable[[int, int], None]:
    """Return ``kernel(start, stop)`` that writes a range of the samples of `out`, counted in order of time.

    Parameters
    ----------
    source : (T, P) array of float32 or float64
        Frames; T is at least ``len(out) - 1 + num_frames``.
    out : (n, P) array of the same dtype
        Row j becomes the mean of the rows ``[j, j + num_frames)`` of `source`, as by `mean_kernel`.
    num_frames : int
        Frames in a window.

    Returns
    -------
    callable
    """
    samples, means, columns = source.reshape(-1), out.reshape(-1), source.shape[1]
    return lambda start, stop: _float_rows(samples, means, num_frames, columns, start, stop, 1024)


def mean_kernel(source: Array, out: Array, num_frames: int) -> SampleKernel:
    """Return ``kernel(start, stop, shift)`` that writes means of a range of samples.

    Parameters
    ----------
    source : (T, P) array
        Frames; T is at least ``len(out) - 1 + num_frames``.
    out : (n, Q) array of the same dtype
        Row j becomes the mean of the rows ``[j, j + num_frames)`` of `source`.
    num_frames : int
        Frames in a window.

    Returns
    -------
    callable
    """
    dtype = source.dtype
    if dtype.kind in "iu" and dtype.itemsize <= 2:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        narrow = _magic(num_frames, 8, 16)
        if dtype == np.uint8 and narrow is not None and source.shape[1] % 2 == out.shape[1] % 2 == 0:
            first = source.__array_interface__["data"][0]
            return _pair_kernel(first + source.strides[0] * np.arange(len(source)), out, num_frames, narrow)
        wide = _magic(num_frames, 8 * dtype.itemsize, 32)
        if wide is not None:
            # Flipping the sign bit makes signed samples unsigned, 2**(bits - 1) higher, and back.
            flip = 1 << (8 * dtype.itemsize - 1) if dtype.kind == "i" else 0
            src, dst = source.view(unsigned), out.view(unsigned)
            return lambda start, stop, shift: _running_32(
                src, dst, num_frames, wide, flip, start, stop, shift, 4 * TILE
            )
    if dtype.kind in "iu":
        return lambda start, stop, shift: _any_integer(source, out, num_frames, start, stop, shift)
    if dtype.name in FLOATS:
        return lambda start, stop, shift: _float(source, out, num_frames, start, stop, shift, TILE // 16)
    return lambda start, stop, shift: _any_float(source, out, num_frames, start, stop, shift)


def _pair_kernel(rows: Array, out: Array, num_frames: int, factor: int) -> SampleKernel:
    """Return the kernel for uint8 frames that lie from the addresses `rows` on, of an even number of samples."""
    means = out.view(np.uint16)

    def run(start: int, stop: int, shift: int) -> None:
        start, stop, shift = -(-start // 2), -(-stop // 2), shift // 2  # an odd border goes to the range before it
        for left, right, past in parted(means, start + shift, stop + shift):
            _running_pairs(rows, means, num_frames, factor, left - shift, right - shift, shift, PAIRS, past)

    return run


def _magic(divisor: int, bits: int, shift: int) -> int | None:
    """Return m with ``x // divisor == x * m >> shift`` for every rounded sum of `divisor` samples of `bits`, or None.

    With m = ceil(2**shift / divisor) = (2**shift + e) / divisor the product is too large by x * e / divisor, which
    is harmless while x * e < 2**shift.
    """
    m = -(-(1 << shift) // divisor)
    largest = ((1 << bits) - 1) * divisor + divisor // 2
    exact = largest * (m * divisor - (1 << shift)) < 1 << shift
    return m if exact and largest < 1 << shift and m < 1 << shift else None


def _type_high_product(context: Any, a: Any, b: Any) -> Any:  # pragma: no cover - runs inside the compiler
    """Tell numba how to take the upper half of the product of two unsigned numbers of one width.

    Numba widens every product to 64 bits, and the compiler does not find its way back to the vector instruction that
    processors have for this one. A product of fixed-point numbers that are all fraction is that very thing.
    """
    if a not in (types.uint16, types.uint32) or a != b:
        return None

    def emit(_: Any, builder: Any, signature: Any, factors: Any) -> Any:
        width, scale = ir.IntType(a.bitwidth), ir.IntType(32)
        multiply = builder.module.declare_intrinsic(
            "llvm.umul.fix", (width,), ir.FunctionType(width, (width, width, scale))
        )
        return builder.call(multiply, (*factors, scale(a.bitwidth)))

    return a(a, a), emit


high_product: Any = intrinsic(_type_high_product)


class _Apart(Compiler):
    """Numba's compiler for functions whose array arguments share no memory that is written.

    A loop over more than a few arrays is vectorised only where the compiler knows that, and numba has no word for it.
    """

    def define_pipelines(self) -> Any:
        """Return numba's pipelines, with all pointers marked as apart."""
        self.state.flags.noalias = True
        return super().define_pipelines()  # type: ignore[no-untyped-call]


@kernel
def _running_pairs(
    rows: Array,
    out: Array,
    num_frames: int,
    magic: int,
    start: int,
    stop: int,
    shift: int,
    tile: int,
    past: bool,
) -> None:  # pragma: no cover - compiled
    """Write means of uint8 frames whose sums fit 16 bits; two neighbours are held in one uint16.

    Both are taken out by a mask and a shift: that is far cheaper than widening bytes, for which vectors are taken apart
    and put together again. Four frames at a time where there are four: sums stay in registers meanwhile. `past`: the range
    is whole lines of the cache, which these go past.
    """
    scratch = np.empty((2, min(tile, stop - start)), np.uint16)
    half, factor, ahead = np.uint16(num_frames // 2), np.uint16(magic), num_frames - 1
    for a in range(start, stop, tile):
        z = min(a + tile, stop)
        b, y = a + shift, z + shift
        low, high = scratch[0, : z - a], scratch[1, : z - a]
        low[:] = half  # rounds once and for all
        high[:] = half
        for k in range(ahead):
            _enter_pairs(low, high, pairs_at(rows[k], a, z))
        for t in range(0, out.shape[0] - 3, 4):
            old_0, old_1 = pairs_at(rows[t], a, z), pairs_at(rows[t + 1], a, z)
            old_2, old_3 = pairs_at(rows[t + 2], a, z), pairs_at(rows[t + 3], a, z)
            n = t + ahead
            new_0, new_1 = pairs_at(rows[n], a, z), pairs_at(rows[n + 1], a, z)
            new_2, new_3 = pairs_at(rows[n + 2], a, z), pairs_at(rows[n + 3], a, z)
            to_0, to_1, to_2, to_3 = out[t, b:y], out[t + 1, b:y], out[t + 2, b:y], out[t + 3, b:y]
            old, new, means = (old_0, old_1, old_2, old_3), (new_0, new_1, new_2, new_3), (to_0, to_1, to_2, to_3)
            if past:
                for i in range(0, z - a, LINE):
                    four_lines(low, high, *old, *new, *means, i, factor)
            else:
                _four_means(low, high, *old, *new, *means, factor)
        for t in range(out.shape[0] // 4 * 4, out.shape[0]):
            _one_mean(low, high, pairs_at(rows[t], a, z), pairs_at(rows[t + ahead], a, z), out[t, b:y], factor)
    if past:
        settle()


@kernel
def _low(pair: Any) -> Any:  # pragma: no cover - compiled
    return np.uint16(pair & np.uint16(255))


@kernel
def _high(pair: Any) -> Any:  # pragma: no cover - compiled
    return np.uint16(pair >> np.uint16(8))


@kernel
def _mean_pair(low: Any, high: Any, factor: Any) -> Any:  # pragma: no cover - compiled
    """Return two means, of which each fits a byte."""
    first, second = high_product(low, factor), high_product(high, factor)
    return np.uint16(first | np.uint16(second << np.uint16(8)))


@kernel(pipeline_class=_Apart)
def _enter_pairs(low: Array, high: Array, frame: Array) -> None:  # pragma: no cover - compiled
    """Add a frame to the running sums."""
    for i in range(low.size):
        low[i] = np.uint16(low[i] + _low(frame[i]))
        high[i] = np.uint16(high[i] + _high(frame[i]))


@kernel(pipeline_class=_Apart)
def _four_means(
    low: Array,
    high: Array,
    old_0: Array,
    old_1: Array,
    old_2: Array,
    old_3: Array,
    new_0: Array,
    new_1: Array,
    new_2: Array,
    new_3: Array,
    mean_0: Array,
    mean_1: Array,
    mean_2: Array,
    mean_3: Array,
    factor: Any,
) -> None:  # pragma: no cover - compiled
    """Take the running sums four frames on, each of which enters and leaves by itself."""
    for i in range(low.size):
        a, b = np.uint16(low[i] + _low(new_0[i])), np.uint16(high[i] + _high(new_0[i]))
        mean_0[i] = _mean_pair(a, b, factor)
        a, b = np.uint16(a - _low(old_0[i])), np.uint16(b - _high(old_0[i]))
        a, b = np.uint16(a + _low(new_1[i])), np.uint16(b + _high(new_1[i]))
        mean_1[i] = _mean_pair(a, b, factor)
        a, b = np.uint16(a - _low(old_1[i])), np.uint16(b - _high(old_1[i]))
        a, b = np.uint16(a + _low(new_2[i])), np.uint16(b + _high(new_2[i]))
        mean_2[i] = _mean_pair(a, b, factor)
        a, b = np.uint16(a - _low(old_2[i])), np.uint16(b - _high(old_2[i]))
        a, b = np.uint16(a + _low(new_3[i])), np.uint16(b + _high(new_3[i]))
        mean_3[i] = _mean_pair(a, b, factor)
        low[i], high[i] = np.uint16(a - _low(old_3[i])), np.uint16(b - _high(old_3[i]))


@kernel(pipeline_class=_Apart)
def _one_mean(
    low: Array, high: Array, old: Array, new: Array, mean: Array, factor: Any
) -> None:  # pragma: no cover - compiled
    """Take the running sums one frame on."""
    for i in range(low.size):
        a, b = np.uint16(low[i] + _low(new[i])), np.uint16(high[i] + _high(new[i]))
        mean[i] = _mean_pair(a, b, factor)
        low[i], high[i] = np.uint16(a - _low(old[i])), np.uint16(b - _high(old[i]))


@kernel
def _running_32(
    source: Array, out: Array, num_frames: int, magic: int, flip: int, start: int, stop: int, shift: int, tile: int
) -> None:  # pragma: no cover - compiled
    """Write means of uint8 or uint16 frames; samples are taken with the bits `flip` turned over."""
    scratch = np.empty(min(tile, stop - start), np.uint32)
    half, factor, sign = np.uint32(num_frames // 2), np.uint32(magic), np.uint32(flip)
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        sums = scratch[: right - left]
        sums[:] = 0
        for k in range(num_frames - 1):
            frame = source[k, left:right]
            for i in range(sums.size):
                sums[i] += np.uint32(frame[i]) ^ sign
        for t in range(out.shape[0]):
            newest, oldest = source[t + num_frames - 1, left:right], source[t, left:right]
            mean = out[t, left + shift : right + shift]
            for i in range(sums.size):
                total = np.uint32(sums[i] + (np.uint32(newest[i]) ^ sign))
                mean[i] = high_product(np.uint32(total + half), factor) ^ sign
                sums[i] = np.uint32(total - (np.uint32(oldest[i]) ^ sign))


def _any_integer(source: Array, out: Array, num_frames: int, start: int, stop: int, shift: int) -> None:
    """Write means of integers of any width without overflow: quotients and remainders are summed apart."""
    wide = np.uint64 if source.dtype == np.uint64 else np.int64
    n = wide(num_frames)
    for left in range(start, stop, TILE // 16):
        part = source[:, left : min(left + TILE // 16, stop)]
        for t in range(len(out)):
            quotients, remainders = np.zeros(part.shape[1], wide), np.zeros(part.shape[1], wide)
            for k in range(t, t + num_frames):
                quotient = part[k].astype(wide) // n
                quotients += quotient
                remainders += part[k].astype(wide) - quotient * n
            quotients += (2 * remainders + n) // (2 * n)
            out[t, left + shift : left + shift + part.shape[1]] = quotients


@kernel(error_model="numpy")
def _float(
    source: Array, out: Array, num_frames: int, start: int, stop: int, shift: int, tile: int
) -> None:  # pragma: no cover - compiled
    """Write means of float32 or float64 frames, each summed in float64 from the oldest frame to the newest."""
    scratch = np.empty(min(tile, stop - start), np.float64)
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        sums = scratch[: right - left]
        for t in range(out.shape[0]):
            sums[:] = 0.0
            for k in range(num_frames):
                frame = source[t + k, left:right]
                for i in range(sums.size):
                    sums[i] += frame[i]
            mean = out[t, left + shift : right + shift]
            for i in range(sums.size):
                mean[i] = sums[i] / num_frames


@kernel(error_model="numpy")
def _float_rows(
    source: Array, out: Array, num_frames: int, columns: int, start: int, stop: int, tile: int
) -> None:  # pragma: no cover - compiled
    """Write samples [start, stop) of `out`: the sample at i and those `columns`, 2 `columns`, ... after it, in order."""
    scratch = np.empty(min(tile, stop - start), np.float64)
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        sums = scratch[: right - left]
        sums[:] = 0.0
        k = 0
        while k + 4 <= num_frames:
            a, b = source[left + k * columns : right + k * columns], source[left + (k + 1) * columns :]
            c, d = source[left + (k + 2) * columns :], source[left + (k + 3) * columns :]
            for i in range(sums.size):
                sums[i] = sums[i] + a[i] + b[i] + c[i] + d[i]
            k += 4
        while k < num_frames:
            frame = source[left + k * columns : right + k * columns]
            for i in range(sums.size):
                sums[i] += frame[i]
            k += 1
        mean = out[left:right]
        for i in range(sums.size):
            mean[i] = sums[i] / num_frames


def _any_float(source: Array, out: Array, num_frames: int, start: int, stop: int, shift: int) -> None:
    """Write means of float16, complex and longer floats in the same order."""
    accumulator: np.dtype[Any] = np.result_type(source.dtype, np.float64)
    with np.errstate(all="ignore"):
        for t in range(len(out)):
            sums = np.zeros(stop - start, accumulator)
            for k in range(t, t + num_frames):
                sums += source[k, start:stop]
            out[t, start + shift : stop + shift] = sums / num_frames
