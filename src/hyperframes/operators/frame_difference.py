"""The difference between each frame and an earlier one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.operators._planes import TILE, check_choice, check_count, frame_spec
from hyperframes.operators.base import Contract, frames_out
from hyperframes.operators.samplewise import SampleKernel, Samplewise
from hyperframes.packing import Halo

if TYPE_CHECKING:
    from hyperframes.frames import Array, FrameSpec, Spec

__all__ = ["FrameDifference"]


@dataclass(frozen=True)
class FrameDifference(Samplewise):
    """Difference between each frame and the one `lag` frames before it.

    Frames of any shape, every plane alike: (T, ...) gives (T, ...). The halo is `lag` frames before. ``absolute``
    keeps the dtype, signed integers becoming unsigned of the same width, which hold every difference. ``signed``
    (frame minus earlier frame) doubles the width of integers: uint8 gives int16, uint16 gives int32; floats keep
    their dtype. No difference is clipped.

    Examples
    --------
    >>> from hyperframes.frames import FrameSpec
    >>> from hyperframes.testing.operators import run_whole
    >>> rows = np.array([[5], [2], [9]], np.uint8)
    >>> run_whole(FrameDifference(), [rows], np.arange(3), FrameSpec.array((1,), np.uint8))["frames"].data.ravel()
    array([0, 3, 7], dtype=uint8)
    """

    name: ClassVar[str] = "frame_difference"

    mode: Literal["absolute", "signed"] = "absolute"
    """``absolute`` or ``signed``."""
    lag: int = 1
    """Frames from the earlier frame to this one."""

    @property
    def halo(self) -> Halo:
        """Frames read on each side."""
        return Halo(self.lag, 0)

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output of the dtype that holds every difference."""
        spec = frame_spec(self.name, inputs, kinds="iuf")
        check_choice(self.name, "mode", self.mode, ("absolute", "signed"))
        check_count(self.name, "lag", self.lag, 1, 4096)
        dtype = self._dtype(spec)
        changes: dict[str, Any] = {} if dtype == spec.dtype else {"dtype": dtype, "pixel_format": ""}
        return Contract((frames_out(inputs, **changes),), self.halo, resource="memory")

    def _dtype(self, spec: FrameSpec) -> np.dtype[Any]:
        dtype = spec.dtype
        if dtype.kind == "f":
            return dtype
        if self.mode == "absolute":
            return np.dtype(f"u{dtype.itemsize}")
        if dtype.itemsize == 8:
            raise PipelineError(
                f"operator {self.name!r}: signed differences of {dtype} fit no integer: "
                f"expected samples of at most 32 bits, got {dtype}",
                stage=self.name,
                got=dtype,
                hint="Use mode=absolute, or convert to float64 first.",
            )
        return np.dtype(f"i{2 * dtype.itemsize}")

    def sample_kernel(self, source: Array, out: Array) -> SampleKernel:
        """Return the kernel: row t of `out` becomes the difference of rows t + lag and t of `source`."""
        return (_signed if self.mode == "signed" else _absolute)(source, out, self.lag)


def _signed(source: Array, out: Array, lag: int) -> SampleKernel:
    def kernel(start: int, stop: int, shift: int) -> None:
        with np.errstate(invalid="ignore"):  # inf - inf is NaN, as it should be
            for t in range(len(out)):
                newer, older = source[t + lag, start:stop], source[t, start:stop]
                np.subtract(newer, older, out=out[t, start + shift : stop + shift], dtype=out.dtype)

    return kernel


def _absolute(source: Array, out: Array, lag: int) -> SampleKernel:
    def kernel(start: int, stop: int, shift: int) -> None:
        for left in range(start, stop, TILE):
            right = min(left + TILE, stop)
            for t in range(len(out)):
                difference = out[t, left + shift : right + shift]
                _absolute_difference(source[t + lag, left:right], source[t, left:right], difference)

    return kernel


def _absolute_difference(a: Array, b: Array, out: Array) -> None:
    if a.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            np.abs(np.subtract(a, b, out=out), out=out)
        return
    # The larger minus the smaller wraps to the right unsigned number even where a signed one would overflow.
    larger, smaller = np.maximum(a, b).view(out.dtype), np.minimum(a, b).view(out.dtype)
    np.subtract(larger, smaller, out=out)
