"""What operators over time share: planes as (T, P) rows, and pixel ranges over idle workers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hyperframes.operators.checks import check_choice, check_count, check_number, frame_spec, is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hyperframes.frames import Array
    from hyperframes.operators.base import View, Worker
    from hyperframes.packing import Hyperframe

__all__ = [
    "TILE",
    "check_choice",
    "check_count",
    "check_number",
    "flat",
    "frame_spec",
    "is_number",
    "over_pixels",
    "rows",
]

TILE = 1 << 16
"""Pixels that a kernel takes through time before the next ones: their sums stay in cache meanwhile."""


def flat(plane: Array) -> Array:
    """Return a contiguous `plane` (T, ...) as rows (T, P), without a copy."""
    return plane.reshape(len(plane), math.prod(plane.shape[1:]))


def rows(hyperframe: Hyperframe, view: View, before: int) -> Iterator[tuple[Array, Array]]:
    """Yield per plane (T, P) frames from `before` ahead of the core on, and (n, P) outputs, both contiguous."""
    first = hyperframe.core.start - before
    for source, out in zip(hyperframe.planes, view.planes, strict=True):
        yield flat(source[first:]), flat(out)


def over_pixels(worker: Worker, source: Array, kernel: Callable[[int, int], None]) -> None:
    """Call `kernel` for pixel ranges [start, stop) that cover the rows of `source`, on idle workers too."""
    worker.split(source.shape[1], kernel)
