"""The median over time: exact, by exchange networks for 3, 5 and 7 frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hyperframes.kernels import kernel
from hyperframes.operators._planes import TILE, check_count, frame_spec
from hyperframes.operators.base import Contract, frames_out
from hyperframes.operators.median_lines import RADII, median_kernel
from hyperframes.operators.samplewise import SampleKernel, Samplewise
from hyperframes.packing import Halo, LentPlane

if TYPE_CHECKING:
    from hyperframes.frames import Array, Spec

__all__ = ["TemporalMedian"]


@dataclass(frozen=True)
class TemporalMedian(Samplewise):
    """Median of each sample over the `radius` frames before it, itself and the `radius` frames after it.

    Frames of any shape and real dtype, every plane alike: (T, ...) gives (T, ...) of the same dtype. The halo is
    `radius` frames on each side. The window is odd, so every result is one of the samples. Floats: where any
    sample of the window is NaN the result is NaN, as with `numpy.median`.

    Notes
    -----
    Windows of 3, 5 and 7 frames run as networks of minima and maxima, which processors do on many samples at once;
    longer ones are partitioned in tiles of pixels. Of bytes, neighbouring windows share what they have in common: five
    minima and maxima a sample for 5 frames instead of ten.

    References
    ----------
    .. [1] A. W. Paeth, "Median finding on a 3 x 3 grid", Graphics Gems, 1990, pp. 171-175,
       doi:10.1016/B978-0-08-050753-8.50049-6 (networks of exchanges for medians).

    Examples
    --------
    >>> from hyperframes.frames import FrameSpec
    >>> from hyperframes.testing.operators import run_whole
    >>> rows = np.array([[0], [9], [1], [2]], np.uint8)
    >>> run_whole(TemporalMedian(radius=1), [rows], np.arange(4), FrameSpec.array((1,), np.uint8))["frames"].data.ravel()
    array([0, 1, 2, 2], dtype=uint8)
    """

    name: ClassVar[str] = "temporal_median"
    compiles: ClassVar[bool] = True

    radius: int = 2
    """Frames on each side of the centre."""

    @property
    def halo(self) -> Halo:
        """Frames read on each side."""
        return Halo(self.radius, self.radius)

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output like the input."""
        frame_spec(self.name, inputs, kinds="iuf")
        check_count(self.name, "radius", self.radius, 0, 512)
        return Contract((frames_out(inputs),), self.halo)

    def apart_kernel(self, source: LentPlane, out: Array) -> SampleKernel | None:
        """Return the kernel for bytes, of which it needs to know the addresses only."""
        if source.dtype != np.uint8 or self.radius not in RADII:
            return None
        return median_kernel(source.addresses, out, self.radius)

    def sample_kernel(self, source: Array, out: Array) -> SampleKernel:
        """Return the kernel: row t of `out` becomes the median of rows [t, t + 2 radius] of `source`."""
        if source.dtype == np.uint8 and self.radius in RADII:
            first = source.__array_interface__["data"][0]
            return median_kernel(first + source.strides[0] * np.arange(len(source)), out, self.radius)
        radius, network = self.radius, {1: _median_3, 2: _median_5, 3: _median_7}.get(self.radius)
        compiled = source.dtype in (np.uint16, np.float32)  # the others are too rare
        if network is not None and compiled:
            tile = 4 * TILE // source.dtype.itemsize
            return lambda start, stop, shift: network(source, out, start, stop, shift, tile)
        return lambda start, stop, shift: _partition(source, out, radius, start, stop, shift)


def _partition(source: Array, out: Array, radius: int, start: int, stop: int, shift: int) -> None:
    for left in range(start, stop, TILE // 16):
        right = min(left + TILE // 16, stop)
        for t in range(len(out)):
            window = source[t : t + 2 * radius + 1, left:right]
            median = np.partition(window, radius, axis=0)[radius]
            if window.dtype.kind == "f":
                median[np.isnan(window).any(axis=0)] = np.nan
            out[t, left + shift : right + shift] = median


# A comparison and a choice compile to one vector instruction for integers and floats alike. A NaN makes every
# comparison false and would get lost: that there was one is found apart, and the sum then is NaN too.


@kernel(inline="always")
def _least(a: float, b: float) -> float:  # pragma: no cover - compiled
    return a if a < b else b  # noqa: FURB136 - min() would not keep bytes


@kernel(inline="always")
def _most(a: float, b: float) -> float:  # pragma: no cover - compiled
    return b if a < b else a  # noqa: FURB136 - max() would not keep bytes


@kernel
def _median_3(
    source: Array, out: Array, start: int, stop: int, shift: int, tile: int
) -> None:  # pragma: no cover - compiled
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        for t in range(out.shape[0]):
            x0, x1, x2 = source[t, left:right], source[t + 1, left:right], source[t + 2, left:right]
            median = out[t, left + shift : right + shift]
            for i in range(median.size):
                a, b, c = x0[i], x1[i], x2[i]
                middle = _most(_least(a, b), _least(_most(a, b), c))
                if np.isnan(a) or np.isnan(b) or np.isnan(c):
                    middle = a + b + c
                median[i] = middle


@kernel
def _median_5(
    source: Array, out: Array, start: int, stop: int, shift: int, tile: int
) -> None:  # pragma: no cover - compiled
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        for t in range(out.shape[0]):
            x0, x1, x2 = source[t, left:right], source[t + 1, left:right], source[t + 2, left:right]
            x3, x4 = source[t + 3, left:right], source[t + 4, left:right]
            median = out[t, left + shift : right + shift]
            for i in range(median.size):
                a, b, c, d, e = x0[i], x1[i], x2[i], x3[i], x4[i]
                # The least of two pairs and the greatest cannot be the middle of five.
                f = _most(_least(a, b), _least(c, d))
                g = _least(_most(a, b), _most(c, d))
                middle = _most(_least(f, g), _least(_most(f, g), e))
                if np.isnan(a) or np.isnan(b) or np.isnan(c) or np.isnan(d) or np.isnan(e):
                    middle = a + b + c + d + e
                median[i] = middle


@kernel
def _median_7(
    source: Array, out: Array, start: int, stop: int, shift: int, tile: int
) -> None:  # pragma: no cover - compiled
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        for t in range(out.shape[0]):
            x0, x1, x2 = source[t, left:right], source[t + 1, left:right], source[t + 2, left:right]
            x3, x4, x5 = source[t + 3, left:right], source[t + 4, left:right], source[t + 5, left:right]
            x6, median = source[t + 6, left:right], out[t, left + shift : right + shift]
            for i in range(median.size):
                a, b, c, d, e, f, g = x0[i], x1[i], x2[i], x3[i], x4[i], x5[i], x6[i]
                nan = (
                    np.isnan(a)
                    or np.isnan(b)
                    or np.isnan(c)
                    or np.isnan(d)
                    or np.isnan(e)
                    or np.isnan(f)
                    or np.isnan(g)
                )
                total = a + b + c + d + e + f + g
                a, f = _least(a, f), _most(a, f)
                a, d = _least(a, d), _most(a, d)
                b, g = _least(b, g), _most(b, g)
                c, e = _least(c, e), _most(c, e)
                b = _most(a, b)
                d, f = _least(d, f), _most(d, f)
                c, g = _least(c, g), _most(c, g)
                c, d = _least(c, d), _most(c, d)
                d = _least(d, g)
                e = _least(e, f)
                b, e = _least(b, e), _most(b, e)
                d = _most(b, d)
                middle = _least(d, e)
                if nan:
                    middle = total
                median[i] = middle
