"""Frames from one memory to another, without a change of threads in the middle of small ones."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from hyperframes.frames.frame import Array

__all__ = ["copy_planes", "row_of"]

KEPT_BYTES: Final = 128 << 10
"""Planes up to this size are copied in one go: for as long as that takes, some 20 us, nobody else runs Python code."""

PLAIN: Final = frozenset("?bBhHiIlLqQefd")
"""Codes of the dtypes whose arrays Python knows as bytes."""


def copy_planes(targets: tuple[Array, ...], planes: tuple[Array, ...]) -> None:
    """Copy the planes of one frame.

    Parameters
    ----------
    targets : tuple of arrays
        Where they go.
    planes : tuple of arrays
        One for each target, of its shape and dtype.

    Notes
    -----
    NumPy lets other threads run Python code while it copies more than 500 elements. With tens of cameras the thread then
    waits for its turn again, which takes longer than the copy of a small frame does; so rows, which lie in one piece, are
    copied as one element each.
    """
    for target, plane in zip(targets, planes, strict=True):
        dtype = target.dtype
        if not 0 < target.nbytes <= KEPT_BYTES or dtype.char not in PLAIN or not dtype.isnative or dtype != plane.dtype:
            np.copyto(target, plane)
        elif target.shape != plane.shape or not target.ndim:
            np.copyto(target, plane)  # or say what is wrong
        elif target.flags.c_contiguous and plane.flags.c_contiguous:
            target.data.cast("B")[:] = plane.data.cast("B")
        elif target.ndim == 2 and plane.strides[1] == target.strides[1] == target.itemsize:  # a decoder's padded rows
            row = _row(target.shape[1] * target.itemsize)
            np.copyto(target.view(row), plane.view(row))
        else:
            np.copyto(target, plane)


def row_of(shape: tuple[int, ...], dtype: np.dtype[Any], most_bytes: int) -> np.dtype[np.void] | None:
    """Return a dtype that holds a row of a plane (h, w) in one element; None where it is no plane or larger than `most_bytes`."""
    nbytes = math.prod(shape) * dtype.itemsize
    plain = dtype.char in PLAIN and dtype.isnative
    return _row(shape[1] * dtype.itemsize) if len(shape) == 2 and plain and 0 < nbytes <= most_bytes else None


@lru_cache(maxsize=256)
def _row(nbytes: int) -> np.dtype[np.void]:
    return np.dtype((np.void, nbytes))
