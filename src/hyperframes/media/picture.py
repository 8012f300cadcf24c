"""What pictures of a decoder are, and how their planes are lent: shared by files and cameras."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hyperframes.frames import FrameSpec, copy_planes
from hyperframes.frames.copying import row_of
from hyperframes.media.colour import colour_of
from hyperframes.media.orientation import orientation_of
from hyperframes.media.pixels import Reshaper, Views, chroma_location_of, listed_format

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["Lender", "field_order_of", "is_direct", "picture_spec"]

_KEPT_BYTES: Final = 512 << 10
"""Planes up to this size are copied without a change of threads: decoders, which take longer, work meanwhile anyhow."""


def picture_spec(stream: Any, frame: Any, rate: Fraction | None = None) -> FrameSpec:
    """Return the spec of a stream's frames, as the PyAV `frame` shows it, in the nearest listed pixel format.

    Raises
    ------
    FrameError
        If no listed format holds such pictures.
    """
    pixel_format, full_range = listed_format(frame.format.name)
    rotation, mirrored = orientation_of(frame)
    return FrameSpec.picture(
        frame.height,
        frame.width,
        pixel_format,
        colour=colour_of(frame, full_range=full_range),
        sample_aspect_ratio=Fraction(stream.sample_aspect_ratio or 1),
        rotation=rotation,
        mirrored=mirrored,
        field_order=field_order_of(stream, frame),
        chroma_location=chroma_location_of(frame),
        time_base=Fraction(stream.time_base),
        rate=rate,
    )


def is_direct(name: str, pixel_format: str) -> bool:
    """Whether pictures of FFmpeg's format `name` are those of `pixel_format` already; ``yuvj*`` are ``yuv*``."""
    return name == pixel_format or name == pixel_format.replace("yuv", "yuvj", 1)


def field_order_of(stream: Any, frame: Any) -> Literal["progressive", "tff", "bff"]:
    """Return which field of an interlaced frame is shown first; DV says nothing and is bottom field first."""
    if not frame.interlaced_frame:
        return "progressive"
    context = stream.codec_context
    default = context.name != "dvvideo"
    # AVFieldOrder: TT, BB, TB, BT (coded first, then shown first).
    top = {2: True, 3: False, 4: False, 5: True}.get(int(context.field_order), default)
    return "tff" if top else "bff"


class Lender:
    """Lends the planes of PyAV frames that look like `frame` as read-only arrays of `spec`, converted and scaled where need be."""

    def __init__(self, spec: FrameSpec, frame: Any) -> None:
        self._coded = (frame.format.name, frame.height, frame.width)
        direct = is_direct(frame.format.name, spec.pixel_format) and (frame.height, frame.width) == (
            spec.height,
            spec.width,
        )
        self._reshape = None if direct else Reshaper(spec.pixel_format, spec.height, spec.width)
        self._view = Views(spec.pixel_format, spec.height, spec.width)
        rows = [row_of(shape, spec.dtype, _KEPT_BYTES) for shape in spec.shapes] if direct else []
        self._rows = [row for row in rows if row is not None] if None not in rows else []

    def fits(self, frame: Any) -> bool:
        """Whether `frame` has the size and format that this lends."""
        return self._coded == (frame.format.name, frame.height, frame.width)

    def __call__(self, frame: Any) -> tuple[Array, ...]:
        """Return the planes of `frame`, one array (h, w) or (h, w, c) each, valid as long as the frame."""
        return self._view(frame if self._reshape is None else self._reshape(frame))

    def copy(self, frame: Any, slot: tuple[Array, ...]) -> None:
        """Copy the planes of `frame` to the arrays of `slot`, small ones without a change of threads (see `copy_planes`)."""
        if not self._rows:
            copy_planes(slot, self(frame))
            return
        for plane, target, row in zip(frame.planes, slot, self._rows, strict=False):
            height, stride = target.shape[0], plane.line_size
            first = 0 if stride > 0 else (1 - height) * stride
            np.copyto(target.view(row), np.ndarray((height, 1), row, plane, first, (stride, 0)))
