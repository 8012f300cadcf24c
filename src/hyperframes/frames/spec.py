"""What flows through a port: the shape, dtype, pixel format, colour and rate of frames, or the fields of records."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from hyperframes.errors import FrameError

__all__ = ["Colour", "Field", "FrameSpec", "Layout", "RecordSpec", "Spec"]

Layout = Literal["NHWC", "NCHW"]


@dataclass(frozen=True, slots=True)
class Colour:
    """How sample values mean colour, in FFmpeg's names; ``unspecified`` where the stream does not say.

    Unspecified matrices are read as BT.601 at every size, unspecified range as limited (``tv``) for YUV; RGB and grey
    are always full range (``pc``). That is FFmpeg's rule, so it is what users of ffmpeg, PyAV and OpenCV see. For RGB
    and grey the matrix is the one that YUV was, or will be, made with.
    """

    matrix: str = "unspecified"
    """``bt709``, ``smpte170m``, ``bt2020nc``, ..."""
    range: str = "unspecified"
    """``tv`` (limited) or ``pc`` (full)."""
    primaries: str = "unspecified"
    transfer: str = "unspecified"


@dataclass(frozen=True, slots=True)
class FrameSpec:
    """The shape and meaning of every frame of a stream.

    Examples
    --------
    >>> FrameSpec.picture(480, 640, "rgb24").nbytes
    921600
    """

    shapes: tuple[tuple[int, ...], ...]
    """Shape of each plane of one frame: (H, W) or (H, W, C) for pictures, any shape for other arrays."""
    dtype: np.dtype[Any]
    """One dtype for all planes."""
    pixel_format: str = ""
    """FFmpeg's name (``yuv420p``, ``rgb24``, ``gray``, ``gray16le``, ...); empty for arrays that are not pictures."""
    layout: Layout = "NHWC"
    """Axis order of pictures with a channel axis."""
    colour: Colour = Colour()
    sample_aspect_ratio: Fraction = Fraction(1)
    """Width of a pixel over its height."""
    rotation: int = 0
    """Degrees clockwise by which a player turns the picture (0, 90, 180, 270); the arrays are not turned."""
    mirrored: bool = False
    """True when a player mirrors the picture left to right before turning it; the arrays are not mirrored."""
    field_order: Literal["progressive", "tff", "bff"] = "progressive"
    chroma_location: str = "unspecified"
    """Where subsampled chroma sits, in FFmpeg's names (``left``, ``topleft``, ...); unspecified is read as ``center``."""
    time_base: Fraction = Fraction(1)
    """Seconds a tick of `pts`."""
    rate: Fraction | None = None
    """Nominal frames a second; None where the stream has none. Time is in `pts`, never in here."""
    names: tuple[str, ...] = ()
    """Names of the values of sensor rows, in order of the last axis."""
    sensor: tuple[int, int] | None = None
    """Rows and columns of the sensor whose events the frames are."""

    def __post_init__(self) -> None:
        if not self.shapes:
            raise FrameError("a frame needs at least one plane: expected shapes, got none")
        object.__setattr__(self, "dtype", np.dtype(self.dtype))

    @classmethod
    def array(cls, shape: tuple[int, ...], dtype: Any, **fields: Any) -> FrameSpec:
        """Return the spec of one-plane frames of `shape`; pictures are recognised by shape and dtype.

        (H, W) of uint8 or uint16 is ``gray`` or ``gray16le``, (H, W, 3) of uint8 ``rgb24``, (H, W, 4) of uint8
        ``rgba``, (H, W, 3) of uint16 ``rgb48le``; all else has no pixel format.
        """
        dtype = np.dtype(dtype)
        if "pixel_format" not in fields:
            fields["pixel_format"] = _GUESS.get((len(shape), *shape[2:], dtype.name), "")
        return cls((shape,), dtype, **fields)

    @classmethod
    def picture(cls, height: int, width: int, pixel_format: str, **fields: Any) -> FrameSpec:
        """Return the spec of `height` x `width` pictures in FFmpeg's `pixel_format` (see `PIXEL_FORMATS`)."""
        planes = PIXEL_FORMATS.get(pixel_format)
        if planes is None:
            raise FrameError(
                f"pixel format {pixel_format!r} has no plane layout here: "
                f"expected one of {', '.join(sorted(PIXEL_FORMATS))}",
                expected=sorted(PIXEL_FORMATS),
                got=pixel_format,
            )
        shapes = tuple(
            (-(-height // down), -(-width // across), *((channels,) if channels > 1 else ()))
            for down, across, channels in planes.planes
        )
        return cls(shapes, planes.dtype, pixel_format, **fields)

    @property
    def nbytes(self) -> int:
        """Bytes of one frame, all planes."""
        return self.dtype.itemsize * sum(math.prod(shape) for shape in self.shapes)

    @property
    def is_picture(self) -> bool:
        """Whether the frames are pictures with rows and columns."""
        return bool(self.pixel_format)

    @property
    def height(self) -> int:
        """Rows of the first plane."""
        return self._side(0)

    @property
    def width(self) -> int:
        """Columns of the first plane."""
        return self._side(1)

    def _side(self, axis: int) -> int:
        shape = self.shapes[0]
        if len(shape) < 2:
            raise FrameError(f"frames of shape {shape} have no rows and columns", got=shape)
        if self.layout == "NCHW" and len(shape) == 3:
            axis += 1
        return shape[axis]

    def replace(self, **changes: Any) -> FrameSpec:
        """Return a copy with `changes`."""
        return dataclasses.replace(self, **changes)

    def same_arrays(self, other: FrameSpec) -> bool:
        """Whether frames of `other` fit in arrays of this spec, with the same meaning of planes."""
        return (self.shapes, self.dtype, self.pixel_format, self.layout) == (
            other.shapes,
            other.dtype,
            other.pixel_format,
            other.layout,
        )

    def __str__(self) -> str:
        name = self.pixel_format or "array"
        if self.is_picture:
            return f"{name} {self.width}x{self.height}"
        return f"{name} {self.shapes[0]} {self.dtype}"


@dataclass(frozen=True, slots=True)
class PlaneLayout:
    """How FFmpeg lays a pixel format out in planes."""

    dtype: np.dtype[Any]
    planes: tuple[tuple[int, int, int], ...]
    """Of each plane: rows divided by, columns divided by (rounded up), channels in the last axis."""
    family: Literal["yuv", "rgb", "gray"]
    bits: int


def _formats() -> dict[str, PlaneLayout]:
    table: dict[str, PlaneLayout] = {}
    u8, u16 = np.dtype(np.uint8), np.dtype("<u2")
    chroma = {"420": (2, 2), "422": (1, 2), "444": (1, 1), "411": (1, 4), "410": (4, 4), "440": (2, 1)}
    for name, (down, across) in chroma.items():
        planes = ((1, 1, 1), (down, across, 1), (down, across, 1))
        table[f"yuv{name}p"] = PlaneLayout(u8, planes, "yuv", 8)
        if name in {"420", "422", "444"}:
            table[f"yuva{name}p"] = PlaneLayout(u8, (*planes, (1, 1, 1)), "yuv", 8)
            for bits in (9, 10, 12, 14, 16):
                table[f"yuv{name}p{bits}le"] = PlaneLayout(u16, planes, "yuv", bits)
            for bits in (9, 10, 16):
                table[f"yuva{name}p{bits}le"] = PlaneLayout(u16, (*planes, (1, 1, 1)), "yuv", bits)
    for name, channels in {"rgb24": 3, "bgr24": 3, "rgba": 4, "bgra": 4, "argb": 4, "abgr": 4}.items():
        table[name] = PlaneLayout(u8, ((1, 1, channels),), "rgb", 8)
    for name, channels in {"rgb48le": 3, "rgba64le": 4}.items():
        table[name] = PlaneLayout(u16, ((1, 1, channels),), "rgb", 16)
    table["gbrp"] = PlaneLayout(u8, ((1, 1, 1),) * 3, "rgb", 8)
    table["gbrap"] = PlaneLayout(u8, ((1, 1, 1),) * 4, "rgb", 8)
    for bits in (9, 10, 12, 14, 16):
        table[f"gbrp{bits}le"] = PlaneLayout(u16, ((1, 1, 1),) * 3, "rgb", bits)
    table["gray"] = PlaneLayout(u8, ((1, 1, 1),), "gray", 8)
    for bits in (9, 10, 12, 14, 16):
        table[f"gray{bits}le"] = PlaneLayout(u16, ((1, 1, 1),), "gray", bits)
    table["grayf32le"] = PlaneLayout(np.dtype("<f4"), ((1, 1, 1),), "gray", 32)
    table["ya8"] = PlaneLayout(u8, ((1, 1, 2),), "gray", 8)
    return table


PIXEL_FORMATS = _formats()
"""Plane layouts by FFmpeg pixel format name; full-range ``yuvj*`` names are read as ``yuv*`` with ``range='pc'``."""

_GUESS = {
    (2, "uint8"): "gray",
    (2, "uint16"): "gray16le",
    (3, 3, "uint8"): "rgb24",
    (3, 4, "uint8"): "rgba",
    (3, 3, "uint16"): "rgb48le",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One column of records."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    """Shape of one value: () for numbers, (512,) for vectors."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))


@dataclass(frozen=True, slots=True)
class RecordSpec:
    """The fields of records or spans; any number of rows a frame."""

    fields: tuple[Field, ...]
    time_base: Fraction = Fraction(1)
    rate: Fraction | None = None
    sensor: tuple[int, int] | None = None
    """Rows and columns of the sensor whose events the records are."""


Spec = FrameSpec | RecordSpec
"""What flows through a port."""
