"""Local binary patterns: what texture looks like around each pixel."""

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

__all__ = ["Lbp", "uniform_labels"]

# (row, column) of the neighbours in the order of the bits, lowest first: counter-clockwise from the right.
_EIGHT = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))
_FOUR = _EIGHT[::2]


@dataclass(frozen=True)
class Lbp(Framewise):
    """Code each pixel by which of its neighbours are at least as bright.

    Grey frames of shape (H, W), dtype uint8 or uint16 -> codes (H, W) of uint8. No halo in time. Bit k of a code is set where
    neighbour k is at least the centre; neighbours stand at `radius` pixels in the directions right, up right, up, up
    left, left, down left, down, down right (every second one with 4 points), on a square, not interpolated. Beyond the
    borders the picture is mirrored without repeating the edge (``BORDER_REFLECT_101``).

    Parameters
    ----------
    points : {8, 4}
        Neighbours looked at.
    radius : int
        Distance of the neighbours in pixels, from 1 to 64.
    method : {'classic', 'uniform'}
        ``classic``: the code itself, 256 or 16 values. ``uniform``: codes with at most two changes around the circle
        are numbered from 0 in ascending order, all others share the next number (59 or 15 values).

    References
    ----------
    .. [1] T. Ojala, M. Pietikainen, D. Harwood, "A comparative study of texture measures with classification based on
       featured distributions", Pattern Recognition 29, 1996. DOI: 10.1016/0031-3203(95)00067-4
    .. [2] T. Ojala, M. Pietikainen, T. Maenpaa, "Multiresolution gray-scale and rotation invariant texture
       classification with local binary patterns", PAMI 24, 2002. DOI: 10.1109/TPAMI.2002.1017623
    """

    name: ClassVar[str] = "lbp"
    compiles: ClassVar[bool] = True
    formats: ClassVar[tuple[str, ...] | None] = ("gray", "gray16le")
    points: Literal[8, 4] = 8
    radius: int = 1
    method: Literal["classic", "uniform"] = "classic"

    def __post_init__(self) -> None:
        refuse_choice(self.name, "points", self.points, (8, 4))
        refuse_choice(self.name, "method", self.method, ("classic", "uniform"))
        if not 1 <= self.radius <= 64:
            raise PipelineError(
                f"operator 'lbp': expected radius from 1 to 64 pixels, got {self.radius}",
                stage=self.name,
                got=self.radius,
            )

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec` as grey pictures of uint8."""
        refuse_dtype(self.name, spec, ("uint8", "uint16"))
        if len(spec.shapes) != 1 or len(spec.shapes[0]) != 2:
            raise PipelineError(
                f"operator 'lbp' works on grey frames of shape (H, W), got {spec}",
                stage=self.name,
                hint="Convert before it: --operator convert:format=gray",
            )
        return spec.replace(dtype=np.dtype(np.uint8), pixel_format="gray")

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the coding of a frame."""
        directions = _EIGHT if self.points == 8 else _FOUR
        offsets = np.array(directions, np.int64) * self.radius
        labels = uniform_labels(self.points) if self.method == "uniform" else np.arange(256, dtype=np.uint8)
        reach = self.radius

        def code(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
            wide = cv2.copyMakeBorder(sources[0], reach, reach, reach, reach, cv2.BORDER_REFLECT_101)
            _codes(wide, targets[0], offsets + reach, labels, reach)

        return code


def uniform_labels(points: int) -> Array:
    """Return the table (256,) uint8 from codes of `points` bits to uniform labels.

    Examples
    --------
    >>> int(uniform_labels(8).max()) + 1
    59
    """
    table = np.zeros(256, np.uint8)
    codes = range(1 << points)
    around = [(code >> 1) | ((code & 1) << (points - 1)) for code in codes]
    uniform = [code for code in codes if (code ^ around[code]).bit_count() <= 2]
    table[:] = len(uniform)
    table[uniform] = np.arange(len(uniform))
    return table


@kernel
def _codes(wide: Any, out: Any, corners: Any, labels: Any, radius: int) -> None:
    """Code a mirrored image (H + 2 radius, W + 2 radius); `corners` are where each neighbour of pixel (0, 0) stands."""
    height, width = out.shape
    code = np.empty(width, np.uint8)
    for row in range(height):
        centre = wide[row + radius, radius : radius + width]
        code[:] = 0
        for bit in range(len(corners)):
            neighbour = wide[row + corners[bit, 0], corners[bit, 1] : corners[bit, 1] + width]
            for x in range(width):
                code[x] |= np.uint8(neighbour[x] >= centre[x]) << bit
        line = out[row]
        for x in range(width):
            line[x] = labels[code[x]]
