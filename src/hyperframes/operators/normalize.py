"""Bring samples to the range that models expect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.operators.framewise import Framewise, Kernel
from hyperframes.operators.pixel_kernels import look_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, FrameSpec

__all__ = ["Normalize"]


@dataclass(frozen=True)
class Normalize(Framewise):
    """Compute ``(x * scale - mean) / std`` per channel, in float32.

    Pictures (H, W) or (H, W, C), or arrays of any shape, of any real dtype -> the same shape in float32. No halo in
    time. The channel axis is the last one (the first under NCHW).

    Parameters
    ----------
    mean : tuple of float
        One for all channels, or one each, in units after scaling: ``mean=0.485/0.456/0.406``.
    std : tuple of float
        As `mean`; above 0.
    scale : float, optional
        Default: 1 over the largest value of the integer dtype (1/255 for uint8), 1 for floats.

    Notes
    -----
    8- and 16-bit samples go through a table of exactly rounded values, made once per worker; others are computed in
    float64 and rounded once.
    """

    name: ClassVar[str] = "normalize"
    formats: ClassVar[tuple[str, ...] | None] = ("rgb24", "gray", "rgb48le", "gray16le", "=rgba", "=rgba64le")
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float | None = None

    def __post_init__(self) -> None:
        if not self.mean or not all(map(math.isfinite, self.mean)):
            raise PipelineError(
                f"operator 'normalize': expected finite numbers for mean, got {self.mean}", stage=self.name
            )
        if not self.std or not all(math.isfinite(value) and value > 0 for value in self.std):
            raise PipelineError(f"operator 'normalize': expected std above 0, got {self.std}", stage=self.name)
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale):
            raise PipelineError(
                f"operator 'normalize': expected a finite scale other than 0, got {self.scale}", stage=self.name
            )

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec` as float32 arrays."""
        if spec.dtype.kind not in "biuf":
            raise PipelineError(f"operator 'normalize' takes real numbers, got {spec.dtype}", stage=self.name)
        if len(spec.shapes) != 1:
            raise PipelineError(
                f"operator 'normalize' takes one array a frame, got {len(spec.shapes)} planes of {spec}",
                stage=self.name,
                hint="Convert before it: --operator convert:format=rgb24",
            )
        self._channels(spec)
        return spec.replace(dtype=np.dtype(np.float32), pixel_format="")

    def _channels(self, spec: FrameSpec) -> int:
        """Return how many channels need numbers of their own."""
        numbers = max(len(self.mean), len(self.std))
        if numbers == 1:
            return 1
        shape = spec.shapes[0]
        axis = 0 if spec.layout == "NCHW" and len(shape) == 3 else -1
        channels = 1 if (spec.is_picture and len(shape) == 2) or not shape else shape[axis]
        if not {len(self.mean), len(self.std)} <= {1, channels}:
            raise PipelineError(
                f"operator 'normalize': expected 1 or {channels} numbers for mean and std, one a channel of {spec}, "
                f"got {len(self.mean)} and {len(self.std)}",
                stage=self.name,
                expected=channels,
                got=(len(self.mean), len(self.std)),
            )
        return channels

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the computation of each channel."""
        channels = self._channels(spec)
        first = spec.layout == "NCHW" and len(spec.shapes[0]) == 3
        ways = [self._channel(spec, channel) for channel in range(channels)]

        def normalize(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            (source,), (target,) = sources, targets
            for channel, way in enumerate(ways):
                place: Any = ... if channels == 1 else (channel if first else (..., channel))
                way(source[place], target[place])

        return normalize

    def _channel(self, spec: FrameSpec, channel: int) -> Callable[[Array, Array], None]:
        """Return what computes one channel."""
        mean = self.mean[channel if len(self.mean) > 1 else 0]
        std = self.std[channel if len(self.std) > 1 else 0]
        scale = self.scale
        if scale is None:
            scale = 1 / np.iinfo(spec.dtype).max if spec.dtype.kind in "iu" else 1.0

        def exact(values: Array, out: Array) -> None:
            out[...] = (values.astype(np.float64) * scale - mean) / std

        if spec.dtype not in {np.dtype(np.uint8), np.dtype(np.uint16)}:
            return exact
        table = np.empty(np.iinfo(spec.dtype).max + 1, np.float32)
        exact(np.arange(len(table)), table)
        return lambda values, out: look_up(_rows(values), table, _rows(out))


def _rows(values: Array) -> Array:
    """Return a view (R, N) of one channel of any shape."""
    if values.ndim == 2:
        return values
    return values.reshape(1, -1) if values.ndim < 2 else values.reshape(-1, math.prod(values.shape[1:]))
