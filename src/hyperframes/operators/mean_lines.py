"""Means of bytes a cache line at a time, written past the cache: for results that are larger than it.

Numba has no word for stores that pass the cache, so the innermost step is written in the compiler's own language, as vectors
of 32 numbers of 16 bits, each of which holds two neighbouring samples. Nor has it one for frames that lie anywhere: they
are handed over as addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from hyperframes.kernels import kernel
from hyperframes.operators.cache_lines import LINE_BYTES, mark_passing

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["LINE", "four_lines", "pairs_at"]

LINE: Final = LINE_BYTES // 2
"""Numbers of 16 bits in a cache line."""

_I32 = ir.IntType(32)
_LINE = ir.VectorType(ir.IntType(16), LINE)


def _all(number: int) -> Any:
    return ir.Constant(_LINE, [number] * LINE)


class _Lines:  # pragma: no cover - runs inside the compiler
    """Writes instructions about one line of each of a function's arrays."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = builder
        self._context, self._types, self._arguments = context, signature.args, arguments

    def place(self, argument: int, at: Any) -> Any:
        array = self._context.make_array(self._types[argument])(self._context, self.builder, self._arguments[argument])
        return self.builder.bitcast(self.builder.gep(array.data, [at]), _LINE.as_pointer())

    def load(self, argument: int, at: Any) -> Any:
        line = self.builder.load(self.place(argument, at))
        line.align = 2
        return line

    def store(self, line: Any, argument: int, at: Any) -> None:
        self.builder.store(line, self.place(argument, at)).align = 2

    def store_past(self, line: Any, argument: int, at: Any) -> None:
        """Store to a place at the start of a line of memory that is not to be used again soon."""
        mark_passing(self.builder, self.builder.store(line, self.place(argument, at)))

    def halves(self, argument: int, at: Any) -> tuple[Any, Any]:
        """Return the first and the second samples of the pairs in a line."""
        line = self.load(argument, at)
        return self.builder.and_(line, _all(255)), self.builder.lshr(line, _all(8))

    def repeated(self, number: Any) -> Any:
        undefined = ir.Constant(_LINE, ir.Undefined)
        first = self.builder.insert_element(undefined, number, _I32(0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, LINE), [0] * LINE))

    def high_product(self, a: Any, b: Any) -> Any:
        kind = ir.FunctionType(_LINE, (_LINE, _LINE, _I32))
        name = f"llvm.umul.fix.v{LINE}i16"
        multiply = cgutils.get_or_insert_function(self.builder.module, kind, name)  # type: ignore[no-untyped-call]  # numba's own
        return self.builder.call(multiply, (a, b, _I32(16)))


def _type_four(
    context: Any,
    low: Any,
    high: Any,
    old_0: Any,
    old_1: Any,
    old_2: Any,
    old_3: Any,
    new_0: Any,
    new_1: Any,
    new_2: Any,
    new_3: Any,
    mean_0: Any,
    mean_1: Any,
    mean_2: Any,
    mean_3: Any,
    at: Any,
    factor: Any,
) -> Any:  # pragma: no cover - runs inside the compiler
    """Tell numba how to take one line of the running sums, which hold half the divisor besides, four frames on."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lines = _Lines(context, builder, signature, arguments)
        at, factor = arguments[14], lines.repeated(arguments[15])
        first, second = lines.load(0, at), lines.load(1, at)
        for k in range(4):
            entering = lines.halves(6 + k, at)
            first, second = builder.add(first, entering[0]), builder.add(second, entering[1])
            means = lines.high_product(first, factor), lines.high_product(second, factor)
            lines.store_past(builder.or_(means[0], builder.shl(means[1], _all(8))), 10 + k, at)
            leaving = lines.halves(2 + k, at)
            first, second = builder.sub(first, leaving[0]), builder.sub(second, leaving[1])
        lines.store(first, 0, at)
        lines.store(second, 1, at)
        return context.get_dummy_value()

    arrays = (low, high, old_0, old_1, old_2, old_3, new_0, new_1, new_2, new_3, mean_0, mean_1, mean_2, mean_3)
    return types.void(*arrays, at, factor), emit


def _type_place(context: Any, address: Any) -> Any:  # pragma: no cover - runs inside the compiler
    """Tell numba that a number is a place in memory."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), emit


four_lines: Any = intrinsic(_type_four)
_place: Any = intrinsic(_type_place)


@kernel
def pairs_at(address: int, start: int, stop: int) -> Array:  # pragma: no cover - compiled
    """Return the numbers of 16 bits [start, stop) from `address` on."""
    return carray(_place(address + 2 * start), (stop - start,), np.uint16)
