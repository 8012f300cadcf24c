"""Convolve each frame with a small kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.kernels import kernel
from hyperframes.operators.framewise import Framewise, Kernel, images, refuse_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, FrameSpec

__all__ = ["KERNELS", "Convolve"]

KERNELS: dict[str, tuple[tuple[int, ...], int]] = {
    "sharpen": ((0, -1, 0, -1, 5, -1, 0, -1, 0), 1),
    "laplacian": ((0, 1, 0, 1, -4, 1, 0, 1, 0), 1),
    "emboss": ((-2, -1, 0, -1, 1, 1, 0, 1, 2), 1),
    "box": ((1,) * 9, 9),
    "binomial": ((1, 2, 1, 2, 4, 2, 1, 2, 1), 16),
}
"""Named kernels: rows one after another, and what the sum is divided by."""

_SIDES = (1, 3, 5, 7)  # OpenCV turns to Fourier transforms, which are not exact, above 49 numbers


@dataclass(frozen=True)
class Convolve(Framewise):
    """Replace each sample by a weighted sum of those around it, divided by `divisor`, plus `offset`.

    Frames (H, W) or (H, W, C) of uint8, int16, uint16, float32 or float64 in any planes; shape and dtype stay. No
    halo in time. Every plane is filtered. Beyond the borders the picture is mirrored without repeating the edge
    (``BORDER_REFLECT_101``). As in image processing the kernel is not flipped (a correlation).

    Parameters
    ----------
    kernel : str or tuple of float
        ``sharpen``, ``laplacian``, ``emboss``, ``box`` or ``binomial``, or 1, 9, 25 or 49 numbers, row by row.
    divisor : float
        What the sum is divided by; 0 for that of the named kernel, or 1.
    offset : float
        Added at the end.

    Notes
    -----
    Integer samples under integer weights, divisor and offset are computed exactly, ``(2 * sum + d) // (2 * d)``, and
    saturate; all else is computed in float64 (float32 samples in float32), and rounded half up for integer samples.
    """

    name: ClassVar[str] = "convolve"
    compiles: ClassVar[bool] = True
    kernel: str | tuple[float, ...] = "sharpen"
    divisor: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        weights = self._weights
        if len(weights) not in {side * side for side in _SIDES} or not all(map(math.isfinite, weights)):
            raise PipelineError(
                f"operator 'convolve': expected a kernel of 1, 9, 25 or 49 finite numbers, got {len(weights)} numbers",
                stage=self.name,
                got=self.kernel,
                hint="Larger ones: gaussian, or several convolutions in a row.",
            )
        if not math.isfinite(self.divisor) or self.divisor < 0 or not math.isfinite(self.offset):
            raise PipelineError(
                f"operator 'convolve': expected divisor of 0 or more and a finite offset, "
                f"got {self.divisor} and {self.offset}",
                stage=self.name,
            )

    @property
    def _weights(self) -> tuple[float, ...]:
        if not isinstance(self.kernel, str):
            return self.kernel
        if self.kernel not in KERNELS:
            raise PipelineError(
                f"operator 'convolve': expected kernel to be {', '.join(sorted(KERNELS))} or numbers, "
                f"got {self.kernel!r}",
                stage=self.name,
                got=self.kernel,
                hint="Numbers go row by row: --operator convolve:kernel=0/-1/0/-1/5/-1/0/-1/0",
            )
        return KERNELS[self.kernel][0]

    @property
    def _divisor(self) -> float:
        if self.divisor:
            return self.divisor
        return KERNELS[self.kernel][1] if isinstance(self.kernel, str) else 1.0

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec`: nothing changes."""
        refuse_dtype(self.name, spec, ("uint8", "int16", "uint16", "float32", "float64"))
        return spec

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the convolution of all planes."""
        side = math.isqrt(len(self._weights))
        weights = np.array(self._weights, np.float64).reshape(side, side)
        one = self._one_image(weights, spec.dtype)

        def convolve(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            for source, target in zip(sources, targets, strict=True):
                for image, result in zip(images(source, spec), images(target, spec), strict=True):
                    one(image, result)

        return convolve

    def _one_image(self, weights: Array, dtype: np.dtype[Any]) -> Callable[[Array, Array], None]:
        divisor, offset = self._divisor, self.offset
        if dtype.kind == "f":
            scaled, depth = weights / divisor, cv2.CV_32F if dtype.itemsize == 4 else cv2.CV_64F
            return lambda image, result: _filter(image, depth, scaled, offset, result)
        whole = all(float(value).is_integer() for value in (*weights.flat, divisor, offset))
        # Sums of whole numbers below 2**24 are exact in OpenCV's float32, below 2**53 in its float64.
        small = whole and np.abs(weights).sum() * np.iinfo(dtype).max + abs(offset) < 2**24
        if small and divisor == 1 and dtype == np.uint8:
            return lambda image, result: _filter(image, -1, weights, offset, result)
        depth = cv2.CV_32F if small and dtype == np.uint8 else cv2.CV_64F
        least, most = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)

        def rounded(image: Array, result: Array) -> None:
            if depth == cv2.CV_64F and image.dtype == np.int16:
                image = image.astype(np.float64)  # OpenCV has no filter from int16 to float64
            sums = cv2.filter2D(image, depth, weights, borderType=cv2.BORDER_REFLECT_101)
            _divide(sums.reshape(len(image), -1), divisor, offset, least, most, result)

        return rounded


@kernel
def _divide(sums: Any, divisor: float, offset: float, least: float, most: float, out: Any) -> None:
    """Divide, add and round half up; exact for whole numbers below 2**52, whose quotients stay clear of the halves."""
    for row in range(len(sums)):
        line, target = sums[row], out[row].reshape(-1)
        for x in range(len(line)):
            value = np.floor((line[x] + 0.5 * divisor) / divisor + offset)
            target[x] = min(max(value, least), most)


def _filter(image: Array, depth: int, weights: Array, offset: float, result: Array) -> None:
    found = cv2.filter2D(image, depth, weights, result, delta=offset, borderType=cv2.BORDER_REFLECT_101)
    if found is not result:
        np.copyto(result, found.reshape(result.shape))
