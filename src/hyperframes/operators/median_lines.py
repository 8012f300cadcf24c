"""Medians of bytes over time, a cache line at a time: neighbouring windows share what they have in common.

The windows of two neighbouring results have all frames in common but one each. With two samples that are the middle
ones of those in common, the median is the sample that is left, held between the two. And of two frames that stand side
by side, the lesser and the greater serve every window that holds both. Numba cannot be told to keep that much in
registers, so steps of some frames are written in the compiler's own language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hyperframes.kernels import kernel
from hyperframes.operators.cache_lines import LINE_BYTES, mark_passing, parted, settle

if TYPE_CHECKING:
    from hyperframes.frames import Array
    from hyperframes.operators.samplewise import SampleKernel

__all__ = ["RADII", "median_kernel"]

RADII = (1, 2, 3)
TILE_BYTES = 1 << 15
"""Of one frame, before the next frames: those that two steps read stay in a core's own cache."""


def median_kernel(rows: Array, out: Array, radius: int) -> SampleKernel:
    """Return the kernel that fills row t of `out` with the medians of frames [t, t + 2 radius].

    Parameters
    ----------
    rows : (n + 2 radius,) array of int64
        Addresses of frames of bytes.
    out : (n, Q) array of uint8
        Contiguous.
    radius : int
        One of `RADII`.

    Returns
    -------
    callable
    """
    sides = (0,) * radius  # a tuple's length is known when it is compiled

    def run(start: int, stop: int, shift: int) -> None:
        for left, right, past in parted(out, start + shift, stop + shift):
            _median(sides, rows, out, left - shift, right - shift, shift, past, TILE_BYTES)

    return run


class _Step:  # pragma: no cover - runs inside the compiler
    """Writes the instructions for a step of `count` frames over samples next to each other, as many as there are `lanes`."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self._builder, self._vector = builder, ir.VectorType(ir.IntType(8), lanes)
        self._suffix = f"v{lanes}i8"

    def load(self, address: Any, at: Any) -> Any:
        line = self._builder.load(self._place(address, at))
        line.align = 1
        return line

    def store(self, line: Any, address: Any, at: Any, *, past: bool) -> None:
        stored = self._builder.store(line, self._place(address, at))
        stored.align = 1
        if past:
            mark_passing(self._builder, stored)

    def medians(self, frames: list[Any], radius: int) -> list[Any]:
        """Return the medians of every window of 2 radius + 1 of the `frames`."""
        count, found = len(frames) - 2 * radius, list[Any]()
        firsts = range(0, count, 2)
        pairs = {k: self._sorted(frames[k], frames[k + 1]) for k in range(1, firsts[-1] + 2 * radius, 2)}
        for j in firsts:
            low, high = self._middle_two([pairs[k] for k in range(j + 1, j + 2 * radius, 2)])
            for left in frames[j : j + 2 * radius + 2 : 2 * radius + 1]:
                found.append(self._least(self._most(left, low), high))
        return found

    def _middle_two(self, pairs: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Return the two samples in the middle of some sorted pairs, at most three."""
        if len(pairs) == 1:
            return pairs[0]
        if len(pairs) == 3:  # neither the least of all nor the greatest is in the middle
            (a, b, c), (d, e, f) = zip(*pairs, strict=True)
            a, b = self._sorted(a, b)
            d, e = self._sorted(d, e)
            pairs = [self._sorted(b, self._most(a, c)), self._sorted(d, self._least(e, f))]
        (a, b), (c, d) = pairs
        return self._sorted(self._most(a, c), self._least(b, d))

    def _sorted(self, a: Any, b: Any) -> tuple[Any, Any]:
        return self._least(a, b), self._most(a, b)

    def _least(self, a: Any, b: Any) -> Any:
        return self._call("umin", a, b)

    def _most(self, a: Any, b: Any) -> Any:
        return self._call("umax", a, b)

    def _call(self, name: str, a: Any, b: Any) -> Any:
        kind = ir.FunctionType(self._vector, (self._vector, self._vector))
        function = cgutils.get_or_insert_function(self._builder.module, kind, f"llvm.{name}.{self._suffix}")  # type: ignore[no-untyped-call]  # numba's own
        return self._builder.call(function, (a, b))

    def _place(self, address: Any, at: Any) -> Any:
        return self._builder.inttoptr(self._builder.add(address, at), self._vector.as_pointer())


def _type_step(
    context: Any,
    sides: Any,
    count: Any,
    lanes: Any,
    past: Any,
    rows: Any,
    out: Any,
    t: Any,
    start: Any,
    stop: Any,
    to: Any,
) -> Any:  # pragma: no cover - runs inside the compiler
    """Tell numba how to fill the samples [start + to, stop + to) of the rows [t, t + count) of `out`."""
    num_frames, num_lanes, passing = count.literal_value, lanes.literal_value, bool(past.literal_value)
    radius = sides.count

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *_, t, start, stop, to = arguments
        rows_value = context.make_array(rows)(context, builder, arguments[4])
        out_value = context.make_array(out)(context, builder, arguments[5])
        stride = builder.extract_value(out_value.strides, 0)
        first = builder.add(builder.ptrtoint(out_value.data, t.type), to)
        step = _Step(builder, num_lanes)
        places = [builder.add(t, t.type(k)) for k in range(num_frames + 2 * radius)]
        sources = [builder.load(builder.gep(rows_value.data, [place])) for place in places]
        targets = [builder.add(first, builder.mul(place, stride)) for place in places[:num_frames]]
        with cgutils.for_range_slice(builder, start, stop, t.type(num_lanes), t.type) as (at, _):
            medians = step.medians([step.load(source, at) for source in sources], radius)
            for median, target in zip(medians, targets, strict=True):
                step.store(median, target, at, past=passing)
        return context.get_dummy_value()

    return types.void(sides, count, lanes, past, rows, out, types.intp, types.intp, types.intp, types.intp), emit


_step: Any = intrinsic(prefer_literal=True)(_type_step)


@kernel
def _median(
    sides: Any, rows: Array, out: Array, start: int, stop: int, shift: int, past: bool, tile: int
) -> None:  # pragma: no cover - compiled
    """Fill the samples [start + shift, stop + shift) of `out`; `past`: those are whole lines of the cache."""
    num_frames = out.shape[0]
    for left in range(start, stop, tile):
        right = min(left + tile, stop)
        last = right - (right - left) % LINE_BYTES
        t = 0
        while t + 4 <= num_frames:
            if past:
                _step(sides, 4, LINE_BYTES, 1, rows, out, t, left, last, shift)
            else:
                _step(sides, 4, LINE_BYTES, 0, rows, out, t, left, last, shift)
            t += 4
        if t + 2 <= num_frames:
            if past:
                _step(sides, 2, LINE_BYTES, 1, rows, out, t, left, last, shift)
            else:
                _step(sides, 2, LINE_BYTES, 0, rows, out, t, left, last, shift)
            t += 2
        if t < num_frames:
            _step(sides, 1, LINE_BYTES, 0, rows, out, t, left, last, shift)
        if last < right:
            for t in range(num_frames):
                _step(sides, 1, 1, 0, rows, out, t, last, right, shift)
    if past:
        settle()
