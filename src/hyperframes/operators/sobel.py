"""How steep grey is at each pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.kernels import kernel
from hyperframes.operators.framewise import Framewise, Kernel, refuse_choice, refuse_dtype

if TYPE_CHECKING:
    from hyperframes.frames import Array, FrameSpec

__all__ = ["Sobel"]


@dataclass(frozen=True)
class Sobel(Framewise):
    """Magnitude of the grey gradient by the 3 x 3 Sobel kernels, ``sqrt(gx**2 + gy**2)``.

    Grey frames of shape (H, W), dtype uint8, uint16, float32 or float64 -> (H, W). No halo in time. Beyond the borders the picture
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
    compiles: ClassVar[bool] = True
    formats: ClassVar[tuple[str, ...] | None] = ("gray", "gray16le")
    depth: Literal["input", "float32"] = "input"

    def __post_init__(self) -> None:
        refuse_choice(self.name, "depth", self.depth, ("input", "float32"))

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
        # Gradients are exact in float32 for 8 and 16 bits; squares up to 2 * 1020**2 too, deeper ones need float64.
        depth = cv2.CV_64F if spec.dtype == np.float64 else cv2.CV_32F
        wide = np.float32(0) if spec.dtype in {np.dtype(np.uint8), np.dtype(np.float32)} else np.float64(0)
        integer = spec.dtype.kind == "u" and self.depth == "input"
        half, most = (0.5, np.iinfo(spec.dtype).max) if integer else (0.0, np.inf)

        def magnitude(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            (image,), (result,) = sources, targets
            across = cv2.Sobel(image, depth, 1, 0, ksize=3, borderType=cv2.BORDER_REFLECT_101)
            down = cv2.Sobel(image, depth, 0, 1, ksize=3, borderType=cv2.BORDER_REFLECT_101)
            _magnitude(across, down, type(wide)(half), type(wide)(most), result)

        return magnitude


@kernel
def _magnitude(across: Any, down: Any, half: Any, most: Any, out: Any) -> None:
    """Write ``sqrt(across**2 + down**2) + half``, at most `most`; computed in the type of `half`."""
    kind = type(half)
    for row in range(len(out)):
        xs, ys, line = across[row], down[row], out[row]
        for x in range(len(line)):
            gx, gy = kind(xs[x]), kind(ys[x])
            line[x] = min(np.sqrt(gx * gx + gy * gy) + half, most)
