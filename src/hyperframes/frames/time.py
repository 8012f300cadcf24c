"""Exact time: integer ticks of a Fraction time base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from hyperframes.frames.frame import Array

__all__ = ["Counting", "rescale", "to_seconds"]


class Counting:
    """The times 0, 1, 2, ... of `length` frames, as an array of int64 that takes no memory until a part is asked for.

    Examples
    --------
    >>> Counting(10)[3:6], len(Counting(10))
    (array([3, 4, 5]), 10)
    """

    __slots__ = ("_length",)

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> Array:
        return np.arange(*part.indices(self._length), dtype=np.int64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.arange(self._length, dtype=dtype or np.int64)


def rescale(ticks: int, source: Fraction, target: Fraction) -> int:
    """Convert `ticks` of time base `source` to the nearest tick of `target`, halves away from zero.

    Examples
    --------
    >>> from fractions import Fraction
    >>> rescale(1, Fraction(1, 25), Fraction(1, 90_000))
    3600
    """
    value = ticks * source / target
    doubled = 2 * abs(value) + 1
    nearest = doubled.numerator // (2 * doubled.denominator)
    return nearest if value >= 0 else -nearest


def to_seconds(ticks: int, time_base: Fraction) -> float:
    """Return `ticks` of `time_base` in seconds."""
    return float(ticks * time_base)
