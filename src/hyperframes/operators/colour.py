"""How colour is read where a stream does not say, and what samples mean in numbers; no arrays are touched here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS, Array, Colour

if TYPE_CHECKING:
    from hyperframes.frames import FrameSpec

__all__ = [
    "Levels",
    "RgbToYuv",
    "YuvToRgb",
    "chroma_table",
    "level_table",
    "levels_of",
    "luma_weights",
    "resolved_colour",
    "rgb_to_yuv_coefficients",
    "with_resolved_colour",
    "yuv_to_rgb_coefficients",
]

_HD_ROWS = 720
_LUMA_WEIGHTS = {
    "bt709": (0.2126, 0.0722),
    "smpte170m": (0.299, 0.114),
    "bt470bg": (0.299, 0.114),
    "fcc": (0.30, 0.11),
    "smpte240m": (0.212, 0.087),
    "bt2020nc": (0.2627, 0.0593),
}


def resolved_colour(spec: FrameSpec) -> Colour:
    """Return the colour of `spec` with matrix and range as they are read.

    Unspecified matrices are BT.709 from 720 rows up and BT.601 (``smpte170m``) below; unspecified ranges are limited
    (``tv``) for YUV and full (``pc``) for grey; RGB is always full. For RGB and grey the matrix is the one that luma
    is computed with, now or later.
    """
    colour, family = spec.colour, PIXEL_FORMATS[spec.pixel_format].family
    matrix, span = colour.matrix, colour.range
    if matrix in {"unspecified", "gbr", "rgb"}:
        matrix = "bt709" if spec.height >= _HD_ROWS else "smpte170m"
    if span == "unspecified" or family == "rgb":
        span = "tv" if family == "yuv" else "pc"
    return dataclasses.replace(colour, matrix=matrix, range=span)


def with_resolved_colour(spec: FrameSpec) -> FrameSpec:
    """Return pictures of `spec` with their colour said outright, so that a change of rows cannot change its meaning."""
    return spec.replace(colour=resolved_colour(spec)) if spec.is_picture else spec


def luma_weights(matrix: str) -> tuple[float, float]:
    """Return the weights of red and blue in luma.

    Raises
    ------
    PipelineError
        If the matrix is not linear in R'G'B' or not known.
    """
    if matrix not in _LUMA_WEIGHTS:
        raise PipelineError(
            f"colour matrix {matrix!r} cannot be converted: expected one of {', '.join(_LUMA_WEIGHTS)}",
            expected=sorted(_LUMA_WEIGHTS),
            got=matrix,
            hint="Keep the native planes (--pixel-format native), or convert the file's colour beforehand.",
        )
    return _LUMA_WEIGHTS[matrix]


@dataclass(frozen=True)
class Levels:
    """What the numbers of samples mean."""

    bits: int
    full: bool

    @property
    def top(self) -> int:
        """The largest sample."""
        return (1 << self.bits) - 1

    @property
    def black(self) -> int:
        """Luma of black."""
        return 0 if self.full else 16 << (self.bits - 8)

    @property
    def luma_span(self) -> int:
        """White less black."""
        return self.top if self.full else 219 << (self.bits - 8)

    @property
    def chroma_span(self) -> int:
        """Largest less smallest chroma."""
        return self.top if self.full else 224 << (self.bits - 8)

    @property
    def centre(self) -> int:
        """Chroma of grey."""
        return 1 << (self.bits - 1)


def levels_of(spec: FrameSpec) -> Levels:
    """Return what the samples of pictures of `spec` mean."""
    return Levels(PIXEL_FORMATS[spec.pixel_format].bits, resolved_colour(spec).range == "pc")


def level_table(source: Levels, target: Levels) -> Array:
    """Return the table that brings luma or grey from `source` to `target` levels, rounding half up."""
    return _table(source, target, (source.black, source.luma_span), (target.black, target.luma_span))


def chroma_table(source: Levels, target: Levels) -> Array:
    """Return the table that brings chroma from `source` to `target` levels, rounding half up."""
    return _table(source, target, (source.centre, source.chroma_span), (target.centre, target.chroma_span))


def _table(source: Levels, target: Levels, old: tuple[int, int], new: tuple[int, int]) -> Array:
    # One entry for every value that the dtype can hold, so that samples beyond the depth saturate.
    samples = np.arange(256 if source.bits == 8 else 65536, dtype=np.int64) - old[0]
    scaled = (2 * samples * new[1] + old[1]) // (2 * old[1]) + new[0]
    return np.clip(scaled, 0, target.top).astype(np.uint8 if target.bits == 8 else np.uint16)


@dataclass(frozen=True)
class YuvToRgb:
    """Fixed-point coefficients from YUV to RGB, depth and range included."""

    matrix: Array
    """(5,) int64: luma to all, v to red, u to green, v to green, u to blue."""
    black: int
    centre: int
    top: int
    fraction_bits: int

    @property
    def deep(self) -> bool:
        """Whether 32 bits are too few."""
        return self.fraction_bits > 14


@dataclass(frozen=True)
class RgbToYuv:
    """Fixed-point coefficients from RGB to YUV, depth and range included."""

    matrix: Array
    """(3, 3) int64: rows luma, u, v; columns red, green, blue. Rows of chroma sum to exactly 0."""
    black: int
    centre: int
    top: int
    fraction_bits: int

    @property
    def deep(self) -> bool:
        """Whether 32 bits are too few."""
        return self.fraction_bits > 14


def yuv_to_rgb_coefficients(weights: tuple[float, float], source: Levels, bits: int) -> YuvToRgb:
    """Return the coefficients for luma `weights` (red, blue), from `source` to full-range RGB of `bits`."""
    kr, kb = weights
    kg, top, fraction_bits = 1 - kr - kb, (1 << bits) - 1, _fraction_bits(bits, source.bits)
    luminance, chroma = top / source.luma_span, 2 * top / source.chroma_span
    exact = [
        luminance,
        chroma * (1 - kr),
        -chroma * kb * (1 - kb) / kg,
        -chroma * kr * (1 - kr) / kg,
        chroma * (1 - kb),
    ]
    matrix = np.rint(np.array(exact) * (1 << fraction_bits)).astype(np.int64)
    return YuvToRgb(matrix, source.black, source.centre, top, fraction_bits)


def rgb_to_yuv_coefficients(weights: tuple[float, float], bits: int, target: Levels) -> RgbToYuv:
    """Return the coefficients for luma `weights` (red, blue), from full-range RGB of `bits` to `target`."""
    kr, kb = weights
    kg, top, fraction_bits = 1 - kr - kb, (1 << bits) - 1, _fraction_bits(bits, target.bits)
    luminance, chroma = target.luma_span / top, target.chroma_span / (2 * top)
    exact = np.array(
        [
            [luminance * kr, luminance * kg, luminance * kb],
            [-chroma * kr / (1 - kb), -chroma * kg / (1 - kb), chroma],
            [chroma, -chroma * kg / (1 - kr), -chroma * kb / (1 - kr)],
        ]
    )
    matrix = np.rint(exact * (1 << fraction_bits)).astype(np.int64)
    matrix[1:, 1] = -matrix[1:, 0] - matrix[1:, 2]  # so that grey has no chroma at all
    matrix[0, 1] = round(luminance * (1 << fraction_bits)) - matrix[0, 0] - matrix[0, 2]  # and keeps its level
    return RgbToYuv(matrix, target.black, target.centre, target.top, fraction_bits)


def _fraction_bits(*bits: int) -> int:
    """Return how many bits coefficients keep after the point: what 32 bits hold for 8-bit samples, plenty otherwise."""
    return 14 if max(bits) <= 8 else 30
