"""Smooth each frame but keep its edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.operators.framewise import Framewise, Kernel, images, refuse_dtype

if TYPE_CHECKING:
    from hyperframes.frames import Array, FrameSpec

__all__ = ["Bilateral"]


@dataclass(frozen=True)
class Bilateral(Framewise):
    """Average each sample with those near it in place and in value.

    Frames (H, W) or (H, W, C) of uint8 or float32 in any planes of 8 bits; shape and dtype stay. No halo in time. Three
    channels are weighed together (the sum of their absolute differences), others and planes one by one. The
    neighbourhood is the disc of `diameter`. Beyond the borders the picture is mirrored without repeating the edge
    (``BORDER_REFLECT_101``).

    Parameters
    ----------
    diameter : int
        Of the neighbourhood in pixels; odd, from 3 to 31.
    sigma_color : float
        How far apart values still mix, in units of the samples; above 0.
    sigma_space : float
        How far apart places still mix, in pixels; above 0.

    Notes
    -----
    OpenCV's filter: exact weights for uint8 (within 1 level of float64), an interpolated table of them for float32.

    References
    ----------
    .. [1] C. Tomasi, R. Manduchi, "Bilateral filtering for gray and color images", ICCV 1998.
       DOI: 10.1109/ICCV.1998.710815
    """

    name: ClassVar[str] = "bilateral"
    formats: ClassVar[tuple[str, ...] | None] = (
        "rgb24",
        "bgr24",
        "gbrp",
        "gray",
        "yuv420p",
        "yuv422p",
        "yuv444p",
        "yuv411p",
        "yuv410p",
        "yuv440p",
    )
    diameter: int = 5
    sigma_color: float = 25.0
    sigma_space: float = 2.0

    def __post_init__(self) -> None:
        if self.diameter % 2 == 0 or not 3 <= self.diameter <= 31:
            raise PipelineError(
                f"operator 'bilateral': expected an odd diameter from 3 to 31 pixels, got {self.diameter}",
                stage=self.name,
                got=self.diameter,
            )
        for key in ("sigma_color", "sigma_space"):
            value = getattr(self, key)
            if not 0 < value < float("inf"):
                raise PipelineError(
                    f"operator 'bilateral': expected {key} above 0, got {value}", stage=self.name, got=value
                )

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec`: nothing changes."""
        refuse_dtype(self.name, spec, ("uint8", "float32"))
        return spec

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the filter of all planes."""

        def smooth(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            for source, target in zip(sources, targets, strict=True):
                together = 3 if source.ndim == 3 and source.shape[2] == 3 else 0
                pairs = zip(images(source, spec, together), images(target, spec, together), strict=True)
                for image, result in pairs:
                    found = cv2.bilateralFilter(
                        np.ascontiguousarray(image),
                        self.diameter,
                        self.sigma_color,
                        self.sigma_space,
                        borderType=cv2.BORDER_REFLECT_101,
                    )
                    np.copyto(result, found)

        return smooth
