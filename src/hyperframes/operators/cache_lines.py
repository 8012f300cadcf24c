"""Results that are larger than a core's own cache go past it: which lines of it a range fills, and how that is ended.

A store to memory that is not in the cache reads its line first. Stores that are marked as not to be used again soon do
not, which saves up to a third of what passes between a core and memory. They fill whole lines or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.frames import Array

__all__ = ["LINE_BYTES", "PASSING_BYTES", "mark_passing", "parted", "settle"]

LINE_BYTES: Final = 64
PASSING_BYTES = 4 << 20
"""Results of one plane from here on are written past the cache: smaller ones are soon read again by the next stage."""


def parted(out: Array, start: int, stop: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, stop, past): the columns [start, stop) of `out` in ranges, of which those `past` are whole lines.

    Parameters
    ----------
    out : (n, Q) array
        Contiguous, of numbers whose size divides a line's.
    start, stop : int
        Columns.
    """
    line = LINE_BYTES // out.itemsize
    head = stop
    if out.nbytes >= PASSING_BYTES and out.strides[0] % LINE_BYTES == 0:
        first: int = out.__array_interface__["data"][0] // out.itemsize + start
        head = min(stop, start + -first % line)
    tail = head + (stop - head) // line * line
    for left, right, past in ((start, head, False), (head, tail, True), (tail, stop, False)):
        if left < right:
            yield left, right, past


def mark_passing(builder: Any, stored: Any) -> None:  # pragma: no cover - runs inside the compiler
    """Mark a store of a whole line as one to memory that is not to be used again soon."""
    stored.align = LINE_BYTES
    stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))


def _type_settle(context: Any) -> Any:  # pragma: no cover - runs inside the compiler
    """Tell numba how to wait until what was written past the cache is there for everybody."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), emit


settle: Any = intrinsic(_type_settle)
