"""How steep grey is at each pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.operators.framewise import Framewise, Kernel, refuse_dtype

if TYPE_CHECKING:
    from hyperframes.frames import Array, FrameSpec

__all__ = ["Sobel"]


@dataclass(frozen=True)
class Sobel(Framewise):
    """Magnitude of the grey gradient by the 3 x 3 Sobel kernels, ``sqrt(gx**2 + gy**2)``.

    Grey frames (H, W) of uint8, uint16, float32 or float64 -> (H, W). No halo in time. Beyond the borders the picture
    is mirrored without repeating the edge (``BORDER_REFLECT_101``). A step of 1 level per pixel gives 8.

    Parameters
    ----------
    depth : {'input', 'float32'}
        Of the result: the input's dtype, rounded half up and saturated for integers, so that pictures stay pictures;
        or float32, unrounded.

    Notes
    -----
    Exact for integers up to the rounding of the square root: gradients and their squares are whole numbers.

    References
    ----------
    .. [1] I. Sobel, G. Feldman, "An Isotropic 3x3 Image Gradient Operator", 1968. DOI: 10.13140/RG.2.1.1912.4965
    """

    name: ClassVar[str] = "sobel"
    formats: ClassVar[tuple[str, ...] | None] = ("gray", "gray16le")
    depth: Literal["input", "float32"] = "input"

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec`, in float32 where that was asked for."""
        refuse_dtype(self.name, spec, ("uint8", "uint16", "float32", "float64"))
        if len(spec.shapes) != 1 or len(spec.shapes[0]) != 2:
            raise PipelineError(
                f"operator 'sobel' works on grey frames of shape (H, W), got {spec}",
                stage=self.name,
                hint="Convert before it: --operator convert:format=gray",
            )
        if self.depth == "float32" and spec.dtype != np.float32:
            return spec.replace(dtype=np.dtype(np.float32), pixel_format="")
        return spec

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the gradient magnitude of a frame."""
        # uint8: squares up to 2 * 1020**2 are exact in float32; deeper ones need float64.
        depth = cv2.CV_32F if spec.dtype in {np.dtype(np.uint8), np.dtype(np.float32)} else cv2.CV_64F
        integer = spec.dtype.kind == "u" and self.depth == "input"
        most = np.iinfo(spec.dtype).max if integer else 0

        def magnitude(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            (image,), (result,) = sources, targets
            across = cv2.Sobel(image, depth, 1, 0, ksize=3, borderType=cv2.BORDER_REFLECT_101)
            down = cv2.Sobel(image, depth, 0, 1, ksize=3, borderType=cv2.BORDER_REFLECT_101)
            np.multiply(across, across, out=across)
            np.multiply(down, down, out=down)
            np.add(across, down, out=across)
            np.sqrt(across, out=across)
            if integer:
                np.add(across, 0.5, out=across)
                np.minimum(across, most, out=across)
            np.copyto(result, across, casting="unsafe")

        return magnitude
