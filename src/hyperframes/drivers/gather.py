"""Samples of lent frames brought side by side, a range of each at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hyperframes.kernels import kernel

if TYPE_CHECKING:
    from hyperframes.frames import Array
    from hyperframes.packing import LentPlane

__all__ = ["gather"]


def gather(plane: LentPlane, room: Array, start: int, stop: int) -> None:
    """Copy the samples [start, stop) of every frame of `plane`, rows one after another, to the front of the rows of `room`.

    Parameters
    ----------
    plane : LentPlane
        T frames.
    room : (T, P) array of their dtype
        P is at least ``stop - start``; samples of a row lie side by side.
    start, stop : int
        Within one frame.
    """
    item = plane.dtype.itemsize
    if not (0 <= start <= stop <= min(plane.num_samples, start + room.shape[1]) and len(plane) == len(room)):
        raise IndexError(f"samples {start} to {stop} of {plane.num_samples} in {len(plane)} frames, room {room.shape}")
    _gather(
        plane.addresses,
        plane.steps,
        plane.row_samples * item,
        room.__array_interface__["data"][0],
        room.strides[0],
        start * item,
        stop * item,
    )


def _type_copy(
    context: Any, target: Any, source: Any, count: Any
) -> Any:  # pragma: no cover - runs inside the compiler
    """Tell numba how to copy `count` bytes between two addresses, which it has no word for."""

    def emit(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, at, length = arguments
        pointer = ir.IntType(8).as_pointer()
        places = builder.inttoptr(to, pointer), builder.inttoptr(at, pointer)
        cgutils.raw_memcpy(builder, *places, length, 1)  # type: ignore[no-untyped-call]  # numba's own
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64, types.int64, types.int64), emit


copy_bytes: Any = intrinsic(_type_copy)


@kernel
def _gather(
    addresses: Array, steps: Array, row_bytes: int, room: int, room_step: int, start: int, stop: int
) -> None:  # pragma: no cover - compiled
    for t in range(addresses.size):
        first, step, to = addresses[t], steps[t], room + t * room_step
        if step == row_bytes:
            copy_bytes(to, first + start, stop - start)
            continue
        at = start
        while at < stop:
            row, column = at // row_bytes, at % row_bytes
            count = min(row_bytes - column, stop - at)
            copy_bytes(to + at - start, first + row * step + column, count)
            at += count
