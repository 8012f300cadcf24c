"""Display matrices."""

import math
import struct

import pytest

from hyperframes.media.orientation import display_matrix


def _matrix(degrees: int, *, mirrored: bool) -> bytes:
    """Mirror left to right, then turn clockwise (y points down), as 16.16 fixed point."""
    cos, sin = (round(f(math.radians(degrees)) * 65536) for f in (math.cos, math.sin))
    flip = -1 if mirrored else 1
    return struct.pack("<9i", flip * cos, flip * sin, 0, -sin, cos, 0, 0, 0, 1 << 30)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_quarter_turns_and_mirrors_are_told_apart(degrees, mirrored):
    assert display_matrix(_matrix(degrees, mirrored=mirrored)) == (degrees, mirrored)


def test_a_slightly_tilted_phone_counts_as_the_nearest_quarter_turn():
    assert display_matrix(_matrix(93, mirrored=False)) == (90, False)
