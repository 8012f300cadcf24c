"""Gaussian blur within each frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS
from hyperframes.operators.framewise import Framewise, Kernel, images, refuse_dtype

if TYPE_CHECKING:
    from hyperframes.frames import Array, FrameSpec

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(Framewise):
    """Blur each frame with a Gaussian of `sigma` pixels, cut off at ceil(3 sigma) pixels.

    Frames (H, W) or (H, W, C) of uint8, int16, uint16, float32 or float64 in any planes; shape and dtype stay.
    No halo in time. Every plane is blurred: a chroma plane of half the rows by half of `sigma` down, and so on,
    so that luma and chroma blur alike. Beyond the borders the picture is mirrored without repeating the edge
    (``BORDER_REFLECT_101``).

    Parameters
    ----------
    sigma : float
        Standard deviation in pixels of the first plane; above 0.

    Notes
    -----
    A separable filter in floating point, in a fixed order; integers are rounded to the nearest once at the end.

    References
    ----------
    .. [1] J. J. Koenderink, "The structure of images", Biological Cybernetics 50, 1984.
       DOI: 10.1007/BF00336961
    """

    name: ClassVar[str] = "gaussian"
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma <= 200:
            raise PipelineError(
                f"operator 'gaussian': expected sigma above 0 and at most 200 pixels, got {self.sigma}",
                stage=self.name,
                got=self.sigma,
            )

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec`: nothing changes."""
        refuse_dtype(self.name, spec, ("uint8", "int16", "uint16", "float32", "float64"))
        return spec

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the blur of all planes."""
        kind = cv2.CV_64F if spec.dtype == "float64" else cv2.CV_32F
        weights = [
            (_weights(self.sigma * across, kind), _weights(self.sigma * down, kind)) for across, down in _scales(spec)
        ]

        def blur(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            for source, target, (across, down) in zip(sources, targets, weights, strict=True):
                for image, result in zip(images(source, spec), images(target, spec), strict=True):
                    blurred = cv2.sepFilter2D(image, -1, across, down, borderType=cv2.BORDER_REFLECT_101)
                    np.copyto(result, blurred)

        return blur


def _weights(sigma: float, kind: int) -> Array:
    return cv2.getGaussianKernel(2 * math.ceil(3 * sigma) + 1, sigma, kind)


def _scales(spec: FrameSpec) -> list[tuple[float, float]]:
    """Return how many columns and rows of each plane go into one of the first plane."""
    if len(spec.shapes) == 1:
        return [(1.0, 1.0)]
    if spec.is_picture:
        return [(1 / across, 1 / down) for down, across, _ in PIXEL_FORMATS[spec.pixel_format].planes]
    return [(shape[1] / spec.shapes[0][1], shape[0] / spec.shapes[0][0]) for shape in spec.shapes]
