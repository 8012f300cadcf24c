"""Cut a rectangle out of each frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS
from hyperframes.operators.framewise import Framewise, Kernel

if TYPE_CHECKING:
    from hyperframes.frames import Array, FrameSpec

__all__ = ["Crop"]


@dataclass(frozen=True)
class Crop(Framewise):
    """Keep the rectangle of `width` x `height` pixels whose top left corner is (`x`, `y`).

    Frames of shape (H, W) or (H, W, C), any dtype, in any planes -> the same, smaller. No halo in time. Chroma planes are
    cut in step with luma; for that `x` and `y` must be multiples of the chroma step (2 for ``yuv420p``), while odd
    widths and heights are fine.

    Parameters
    ----------
    x : int
        First column kept.
    y : int
        First row kept.
    width : int
        Columns kept; 0 for all from `x` on.
    height : int
        Rows kept; 0 for all from `y` on.
    """

    name: ClassVar[str] = "crop"
    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0

    def __post_init__(self) -> None:
        for key in ("x", "y", "width", "height"):
            if getattr(self, key) < 0:
                raise PipelineError(
                    f"operator 'crop': expected {key} of 0 or more pixels, got {getattr(self, key)}", stage=self.name
                )

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec` with the size of the rectangle."""
        if len(spec.shapes[0]) not in {2, 3}:
            raise PipelineError(
                f"operator 'crop' works on images: expected frames of shape (H, W) or (H, W, C), got {spec.shapes[0]}",
                stage=self.name,
                got=spec.shapes[0],
            )
        width, height = self.width or spec.width - self.x, self.height or spec.height - self.y
        if min(width, height) < 1 or self.x + width > spec.width or self.y + height > spec.height:
            raise PipelineError(
                f"operator 'crop': expected x, y, width and height inside {spec.width}x{spec.height} pixels, "
                f"got {width}x{height} at ({self.x}, {self.y})",
                stage=self.name,
                expected=(spec.width, spec.height),
                got=(self.x, self.y, width, height),
            )
        for down, across in _steps(spec):
            if self.x % across or self.y % down:
                raise PipelineError(
                    f"operator 'crop': {spec.pixel_format} keeps colour for {across}x{down} pixels together: expected "
                    f"x in steps of {across} and y in steps of {down}, got ({self.x}, {self.y})",
                    stage=self.name,
                    got=(self.x, self.y),
                    hint=f"Use x={self.x - self.x % across},y={self.y - self.y % down}, "
                    "or put convert:format=yuv444p before it.",
                )
        shapes = []
        for shape, rows, columns in zip(spec.shapes, *self._slices(spec), strict=True):
            size = (len(range(*rows.indices(10**9))), len(range(*columns.indices(10**9))))
            first = spec.layout == "NCHW" and len(shape) == 3
            shapes.append((shape[0], *size) if first else (*size, *shape[2:]))
        return spec.replace(shapes=tuple(shapes))

    def _slices(self, spec: FrameSpec) -> tuple[list[slice], list[slice]]:
        width, height = self.width or spec.width - self.x, self.height or spec.height - self.y
        rows = [slice(self.y // d, self.y // d + -(-height // d)) for d, _ in _steps(spec)]
        columns = [slice(self.x // a, self.x // a + -(-width // a)) for _, a in _steps(spec)]
        return rows, columns

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the copy of the rectangle of all planes."""
        cuts = list(zip(*self._slices(spec), strict=True))

        def cut(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            for source, target, rectangle in zip(sources, targets, cuts, strict=True):
                first = spec.layout == "NCHW" and source.ndim == 3
                np.copyto(target, source[(slice(None), *rectangle)] if first else source[rectangle])

        return cut


def _steps(spec: FrameSpec) -> list[tuple[int, int]]:
    """Return by how much rows and columns of each plane are divided."""
    if spec.pixel_format:
        return [(down, across) for down, across, _ in PIXEL_FORMATS[spec.pixel_format].planes]
    return [(1, 1)] * len(spec.shapes)
