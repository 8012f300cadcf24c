"""How a player turns the picture: the display matrix of ISO base media files, read into degrees and a mirror flag."""

from __future__ import annotations

import math
import struct
from typing import Any

__all__ = ["display_matrix", "orientation_of"]


def orientation_of(frame: Any) -> tuple[int, bool]:
    """Return (degrees clockwise, mirrored before turning) of a PyAV frame; (0, False) without a display matrix."""
    try:
        data = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:
        # PyAV 18.1 knows no side data newer than type 27 and refuses frames that carry one; the angle has its own way.
        return round(-frame.rotation / 90) % 4 * 90, False
    return (0, False) if data is None else display_matrix(bytes(data))


def display_matrix(data: bytes) -> tuple[int, bool]:
    """Read a display matrix: nine int32, row by row, 16.16 fixed point in the first two columns.

    A point (x, y), y downwards, goes to (a x + c y, b x + d y). Angles are rounded to quarter turns.

    Examples
    --------
    >>> display_matrix(struct.pack("<9i", 0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30))
    (90, False)
    """
    a, b, _, c, d = struct.unpack_from("<5i", data)
    mirrored = a * d - b * c < 0
    # Mirroring left to right first turns the first row (cos, sin) into (-cos, -sin).
    angle = math.degrees(math.atan2(-b, -a) if mirrored else math.atan2(b, a))
    return round(angle / 90) % 4 * 90, mirrored
