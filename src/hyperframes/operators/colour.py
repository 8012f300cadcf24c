"""How colour is read where a stream does not say: the one rule, and what keeps it through changes of size."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hyperframes.frames import PIXEL_FORMATS, Colour

if TYPE_CHECKING:
    from hyperframes.frames import FrameSpec

__all__ = ["resolved_colour", "with_resolved_colour"]

_HD_ROWS = 720


def resolved_colour(spec: FrameSpec) -> Colour:
    """Return the colour of `spec` with matrix and range as they are read.

    Unspecified matrices are BT.709 from 720 rows up and BT.601 (``smpte170m``) below; unspecified ranges are limited
    (``tv``) for YUV and full (``pc``) for RGB and grey. For RGB and grey the matrix is the one that luma is computed
    with, now or later.
    """
    colour = spec.colour
    matrix, span = colour.matrix, colour.range
    if matrix in {"unspecified", "gbr", "rgb"}:
        matrix = "bt709" if spec.height >= _HD_ROWS else "smpte170m"
    if span == "unspecified":
        span = "tv" if PIXEL_FORMATS[spec.pixel_format].family == "yuv" else "pc"
    return dataclasses.replace(colour, matrix=matrix, range=span)


def with_resolved_colour(spec: FrameSpec) -> FrameSpec:
    """Return `spec` with its colour said outright where it is YUV, so that a change of rows cannot change its meaning."""
    if spec.is_picture and PIXEL_FORMATS[spec.pixel_format].family == "yuv":
        return spec.replace(colour=resolved_colour(spec))
    return spec
