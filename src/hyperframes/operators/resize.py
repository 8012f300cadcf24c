"""Scale each frame to another size."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.framewise import Framewise, Kernel, images, refuse_choice, refuse_dtype

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["Resize"]

_LARGEST_SIDE = 32_767
_MOST_CHANNELS = 4


@dataclass(frozen=True)
class Resize(Framewise):
    """Scale each frame to `width` x `height` pixels.

    Frames of shape (H, W) or (H, W, C), dtype uint8, int16, uint16, float32 or float64, in any planes -> the same at
    the new size;
    chroma planes get their share, rounded up. No halo in time. Sample centres are aligned; beyond the borders the edge
    is repeated. The sample aspect ratio changes so that the picture keeps its proportions on screen.

    Parameters
    ----------
    width : int
        Columns of the first plane; 0 to keep the proportions.
    height : int
        Rows of the first plane; 0 to keep the proportions.
    interpolation : {'auto', 'area', 'linear', 'nearest', 'cubic', 'lanczos'}
        ``auto`` is ``area`` where neither side grows, else ``linear``.

    Notes
    -----
    OpenCV's ``resize``, for uint8 its bit-exact ``linear``; ``nearest`` is exact. Every plane is scaled about its own
    centre.
    """

    name: ClassVar[str] = "resize"
    width: int = 0
    height: int = 0
    interpolation: Literal["auto", "area", "linear", "nearest", "cubic", "lanczos"] = "auto"

    def __post_init__(self) -> None:
        refuse_choice(
            self.name, "interpolation", self.interpolation, ("auto", "area", "linear", "nearest", "cubic", "lanczos")
        )
        if not (self.width or self.height):
            raise PipelineError(
                "operator 'resize': expected width, height or both, got neither",
                stage=self.name,
                hint="For example: --operator resize:width=640",
            )
        for key in ("width", "height"):
            if not 0 <= getattr(self, key) <= _LARGEST_SIDE:
                raise PipelineError(
                    f"operator 'resize': expected {key} from 1 to {_LARGEST_SIDE} pixels, got {getattr(self, key)}",
                    stage=self.name,
                    got=getattr(self, key),
                )

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec` at the new size."""
        refuse_dtype(self.name, spec, ("uint8", "int16", "uint16", "float32", "float64"))
        width, height = self._size(spec)
        if spec.is_picture:
            shapes = FrameSpec.picture(height, width, spec.pixel_format).shapes
        elif len(spec.shapes) == 1:
            shapes = ((height, width, *_nhwc(spec, spec.shapes[0])[2:]),)
        else:
            raise PipelineError(
                f"operator 'resize' cannot tell how the {len(spec.shapes)} planes of {spec} belong together",
                stage=self.name,
                hint="Resize before the operator that made them, while the frames are pictures.",
            )
        if spec.layout == "NCHW":
            shapes = tuple((s[2], *s[:2]) if len(s) == 3 else s for s in shapes)
        stretched = spec.sample_aspect_ratio * Fraction(spec.width * height, spec.height * width)
        return spec.replace(shapes=shapes, sample_aspect_ratio=stretched)

    def _size(self, spec: FrameSpec) -> tuple[int, int]:
        width = self.width or max(1, (2 * spec.width * self.height + spec.height) // (2 * spec.height))
        height = self.height or max(1, (2 * spec.height * self.width + spec.width) // (2 * spec.width))
        return width, height

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the scaling of all planes."""
        target_spec = self.output_spec(spec)
        flag = self._flag(spec, target_spec)

        def scale(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            for source, target in zip(sources, targets, strict=True):
                pairs = zip(
                    images(source, spec, _MOST_CHANNELS), images(target, target_spec, _MOST_CHANNELS), strict=True
                )
                for image, result in pairs:
                    if flag is None:
                        _nearest(image, result)
                        continue
                    size = (result.shape[1], result.shape[0])
                    found = cv2.resize(np.ascontiguousarray(image), size, interpolation=flag)
                    np.copyto(result, found.reshape(result.shape))

        return scale

    def _flag(self, spec: FrameSpec, target: FrameSpec) -> int | None:
        name = self.interpolation
        if name == "auto":
            shrinks = target.width <= spec.width and target.height <= spec.height
            name = "area" if shrinks else "linear"
        exact = spec.dtype == np.uint8
        return {
            "area": cv2.INTER_AREA,
            "linear": cv2.INTER_LINEAR_EXACT if exact else cv2.INTER_LINEAR,
            "nearest": None,  # OpenCV's leaves open which of two equally near samples it takes
            "cubic": cv2.INTER_CUBIC,
            "lanczos": cv2.INTER_LANCZOS4,
        }[name]


def _nearest(image: Array, result: Array) -> None:
    """Take the sample whose centre is nearest; of two equally near ones the later."""
    rows, columns = (
        (2 * np.arange(new) + 1) * old // (2 * new) for new, old in zip(result.shape[:2], image.shape[:2], strict=True)
    )
    np.take(np.take(image, rows, axis=0), columns, axis=1, out=result, mode="clip")


def _nhwc(spec: FrameSpec, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[1:], shape[0]) if spec.layout == "NCHW" and len(shape) == 3 else shape
