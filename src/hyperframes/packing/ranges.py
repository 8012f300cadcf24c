"""Which frames a hyperframe owns and which it reads: derivation W1, as functions of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hyperframes.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.packing.halo import Halo

__all__ = ["Ranges", "core_ranges", "ranges", "validate_size"]


@dataclass(frozen=True, slots=True)
class Ranges:
    """One hyperframe's place in a stream of N frames; half-open, in frames."""

    index: int
    core: tuple[int, int]
    """Frames it owns: the cores partition [0, N)."""
    read: tuple[int, int]
    """Frames it reads: core plus halo, clipped to [0, N)."""
    pad_before: int
    """Halo frames before frame 0, stood in for by the boundary."""
    pad_after: int
    """Halo frames from frame N on."""


def validate_size(size: int) -> int:
    """Return `size`, or raise a PipelineError when it is no whole number of at least 1."""
    given: object = size  # of callers that check no types
    if not isinstance(given, int) or isinstance(given, bool) or size < 1:
        raise PipelineError(
            f"size counts the frames a hyperframe owns: expected at least 1, got {size!r}",
            got=size,
            hint="Use --size auto, or a number such as 16.",
        )
    return size


def ranges(index: int, core: tuple[int, int], halo: Halo, num_frames: int) -> Ranges:
    """Return the ranges of the hyperframe that owns `core` of `num_frames` frames."""
    start, stop = core
    return Ranges(
        index,
        core,
        (max(0, start - halo.before), min(num_frames, stop + halo.after)),
        max(0, halo.before - start),
        max(0, stop + halo.after - num_frames),
    )


def core_ranges(num_frames: int, size: int, halo: Halo) -> Iterator[Ranges]:
    """Yield the ranges of all ceil(N / size) hyperframes of a stream.

    Examples
    --------
    >>> from hyperframes.packing import Halo
    >>> [r.core for r in core_ranges(5, 2, Halo(1, 1))]
    [(0, 2), (2, 4), (4, 5)]
    """
    validate_size(size)
    for index, start in enumerate(range(0, num_frames, size)):
        yield ranges(index, (start, min(start + size, num_frames)), halo, num_frames)
