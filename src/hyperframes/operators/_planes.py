"""What operators over time share: planes as (T, P) rows, and how many samples at a time."""

from __future__ import annotations

from hyperframes.operators.checks import check_choice, check_count, check_number, frame_spec, is_number
from hyperframes.operators.samplewise import flat

__all__ = [
    "TILE",
    "check_choice",
    "check_count",
    "check_number",
    "flat",
    "frame_spec",
    "is_number",
]

TILE = 1 << 16
"""Pixels that a kernel takes through time before the next ones: their sums stay in cache meanwhile."""
