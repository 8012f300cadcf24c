"""Exact time: integer ticks of a Fraction time base."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["rescale", "to_seconds"]


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
