"""The words of Prophesee's event formats EVT 2, EVT 2.1, EVT 3 and DAT, to events and back.

A decoder is a compiled function ``(words, memory, t, x, y, p) -> events written`` and a counter
``(words) -> most events that they can hold``; `memory` is what one piece of a file leaves to the next.

Times are carried by words of their own: EVT 3 tells 24 bits in two parts, so they wrap every 16.8 s, EVT 2 and 2.1
34 bits. A new upper part that lies more than half of its range below the one before has wrapped; one a little below
is only late. An upper part that leaps is taken for damage where the next one is back at the old time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.kernels import kernel

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["MEMORY", "decode", "encode", "new_memory", "word_dtype"]

MEMORY = ("timed", "wraps", "upper", "lower", "row", "column", "polarity", "untimed", "leaps", "triggers", "strange")
"""What the places of a decoder's memory are: the time and address so far, then counts of what gave no event."""

_TIMED, _WRAPS, _UPPER, _LOWER, _ROW, _COLUMN, _POLARITY, _UNTIMED, _LEAPS, _TRIGGERS, _STRANGE = range(len(MEMORY))


_PLACE_OF_BIT = np.zeros(37, np.int64)
"""Which bit a power of two is, by what it leaves when divided by 37."""
_PLACE_OF_BIT[[(1 << bit) % 37 for bit in range(36)]] = np.arange(36)


def new_memory() -> Array:
    """Return the memory of a decoder that has seen nothing."""
    return np.zeros(len(MEMORY), np.int64)


def word_dtype(form: str) -> np.dtype[Any]:
    """Return the little-endian words of a format: ``evt2``, ``evt2.1``, ``evt3`` or ``dat``."""
    return np.dtype({"evt2": "<u4", "evt2.1": "<u8", "evt3": "<u2", "dat": "<u8"}[form])


def decode(form: str, words: Array, memory: Array) -> tuple[Array, Array, Array, Array]:
    """Return t int64, x uint16, y uint16 and p uint8 of the events in `words`, and update `memory` for the next ones."""
    most = int(_COUNTERS[form](words)) if form in _COUNTERS else len(words)
    room = most + 1  # decoders write before they know whether it is an event
    t, x, y, p = (np.empty(room, dtype) for dtype in (np.int64, np.uint16, np.uint16, np.uint8))
    count = int(_DECODERS[form](words, memory, t, x, y, p))
    return t[:count], x[:count], y[:count], p[:count]


def encode(form: str, t: Array, x: Array, y: Array, p: Array, memory: Array) -> Array:
    """Return the words of events whose times ascend, but for small steps back; `memory` as in `decode`."""
    if not len(t):
        return np.empty(0, word_dtype(form))
    words = np.empty(int(_ROOM[form](t, memory)), word_dtype(form))
    return words[: int(_ENCODERS[form](t, x, y, p, memory, words))]


# Times ----------------------------------------------------------------------------------------------------------------


@kernel
def _advance(memory: Array, upper: Any, following: Any, bits: int, near: int) -> None:  # pragma: no cover - compiled
    """Take note of an `upper` part of time of `bits` bits; `following` is the one after it, -1 where none is known."""
    span = 1 << bits
    if memory[_TIMED]:
        old = memory[_UPPER]
        step = (upper - old + span // 2) % span - span // 2
        if abs(step) > near and following >= 0:
            back = (following - old + span // 2) % span - span // 2
            if abs(back) <= near:
                memory[_LEAPS] += 1
                return
        memory[_WRAPS] += (old + step - upper) // span
    memory[_TIMED] = 1
    memory[_UPPER] = upper


# EVT 3 ----------------------------------------------------------------------------------------------------------------


@kernel
def _count_evt3(words: Array) -> Any:  # pragma: no cover - compiled
    total = 0
    for i in range(words.size):
        kind = words[i] >> 12
        if kind == 2:
            total += 1
        elif kind == 4 or kind == 5:
            valid = words[i] & (0xFFF if kind == 4 else 0xFF)
            while valid:
                valid &= valid - 1
                total += 1
    return total


@kernel
def _next_upper_evt3(words: Array, i: int) -> Any:  # pragma: no cover - compiled
    for j in range(i + 1, words.size):
        if words[j] >> 12 == 8:
            return np.int64(words[j] & 0xFFF)
    return -1


@kernel
def _decode_evt3(words: Array, memory: Array, t: Array, x: Array, y: Array, p: Array) -> Any:  # pragma: no cover
    count = np.int64(0)
    row, column, polarity = memory[_ROW], memory[_COLUMN], memory[_POLARITY]
    lower, timed = memory[_LOWER], memory[_TIMED]
    known, untimed = np.int64(timed != 0), np.int64(0)
    base = (memory[_WRAPS] << 24) + (memory[_UPPER] << 12)
    for i in range(words.size):
        word = np.int64(words[i])
        kind = word >> 12
        if 0x45 >> kind & 1:
            # Most words are rows, low times and events (0, 6, 2), in no order that a processor could foresee: so without a
            # branch between them. What is no event is written over by the next.
            row += ((word & 0x7FF) - row) * np.int64(kind == 0)
            lower += ((word & 0xFFF) - lower) * np.int64(kind == 6)
            t[count], x[count], y[count], p[count] = base + lower, word & 0x7FF, row, word >> 11 & 1
            event = np.int64(kind == 2)
            count += event & known
            untimed += event & (1 - known)
        elif kind == 8:
            upper = word & 0xFFF
            if not timed or upper != memory[_UPPER]:
                leap = not timed or abs(upper - memory[_UPPER]) > 16
                _advance(memory, upper, _next_upper_evt3(words, i) if leap else -1, 12, 16)
                timed = memory[_TIMED]
                known = np.int64(timed != 0)
                base = (memory[_WRAPS] << 24) + (memory[_UPPER] << 12)
        elif kind == 3:
            column, polarity = word & 0x7FF, word >> 11 & 1
        elif kind == 4 or kind == 5:
            width = 12 if kind == 4 else 8
            valid = word & ((1 << width) - 1)
            now = base + lower
            while valid:
                lowest = valid & -valid
                t[count], x[count], y[count], p[count] = now, column + _PLACE_OF_BIT[lowest % 37], row, polarity
                count += known
                untimed += 1 - known
                valid ^= lowest
            column += width
        elif kind == 10:
            memory[_TRIGGERS] += 1
        elif kind != 7 and kind != 14 and kind != 15:
            memory[_STRANGE] += 1
    memory[_ROW], memory[_COLUMN], memory[_POLARITY], memory[_LOWER] = row, column, polarity, lower
    memory[_UNTIMED] += untimed
    return count


@kernel
def _room_evt3(t: Array, memory: Array) -> Any:  # pragma: no cover - compiled
    """Most words that events need: four each, and the upper parts on the way over long silences."""
    total = 4 * t.size
    last = memory[_UPPER] if memory[_TIMED] else t[0] >> 12
    for i in range(t.size):
        total += abs((t[i] >> 12) - last) // 1024
        last = t[i] >> 12
    return total


@kernel
def _encode_evt3(t: Array, x: Array, y: Array, p: Array, memory: Array, words: Array) -> Any:  # pragma: no cover
    """Write the words; `upper` in the memory is here the whole of the time above its lowest 12 bits."""
    count = 0
    for i in range(t.size):
        upper, lower = t[i] >> 12, t[i] & 0xFFF
        first = not memory[_TIMED]
        if first or upper != memory[_UPPER]:
            while not first and upper - memory[_UPPER] > 1024:  # a reader must see that it wrapped
                memory[_UPPER] += 1024
                words[count] = 0x8000 | (memory[_UPPER] & 0xFFF)
                count += 1
            words[count] = 0x8000 | (upper & 0xFFF)
            count += 1
            memory[_UPPER] = upper
        if first or lower != memory[_LOWER]:
            words[count] = 0x6000 | lower
            count += 1
            memory[_LOWER] = lower
        if first or np.int64(y[i]) != memory[_ROW]:
            words[count] = np.int64(y[i])
            count += 1
            memory[_ROW] = y[i]
        memory[_TIMED] = 1
        words[count] = 0x2000 | np.int64(p[i]) << 11 | np.int64(x[i])
        count += 1
    return count


# EVT 2 ----------------------------------------------------------------------------------------------------------------


@kernel
def _next_upper(words: Array, i: int, shift: int, drop: int) -> Any:  # pragma: no cover - compiled
    for j in range(i + 1, words.size):
        if words[j] >> np.uint64(shift) == 8:
            return np.int64(words[j] >> np.uint64(drop) & np.uint64(0xFFFFFFF))
    return -1


@kernel
def _decode_evt2(words: Array, memory: Array, t: Array, x: Array, y: Array, p: Array) -> Any:  # pragma: no cover
    count, timed = 0, memory[_TIMED]
    base = (memory[_WRAPS] << 34) + (memory[_UPPER] << 6)
    for i in range(words.size):
        word = np.int64(words[i])
        kind = word >> 28
        if kind < 2:
            if timed:
                t[count], p[count] = base + (word >> 22 & 0x3F), kind
                x[count], y[count] = word >> 11 & 0x7FF, word & 0x7FF
                count += 1
            else:
                memory[_UNTIMED] += 1
        elif kind == 8:
            upper = word & 0xFFFFFFF
            if not timed or upper != memory[_UPPER]:
                leap = not timed or abs(upper - memory[_UPPER]) > 1024
                _advance(memory, upper, _next_upper(words, i, 28, 0) if leap else -1, 28, 1024)
                timed = memory[_TIMED]
                base = (memory[_WRAPS] << 34) + (memory[_UPPER] << 6)
        elif kind == 10:
            memory[_TRIGGERS] += 1
        elif kind != 14 and kind != 15:
            memory[_STRANGE] += 1
    return count


@kernel
def _room_evt2(t: Array, memory: Array) -> Any:  # pragma: no cover - compiled
    return 2 * t.size


@kernel
def _encode_evt2(t: Array, x: Array, y: Array, p: Array, memory: Array, words: Array) -> Any:  # pragma: no cover
    count = 0
    for i in range(t.size):
        upper = t[i] >> 6
        if not memory[_TIMED] or upper != memory[_UPPER]:
            words[count] = 0x80000000 | (upper & 0xFFFFFFF)
            count += 1
            memory[_UPPER], memory[_TIMED] = upper, 1
        words[count] = np.int64(p[i]) << 28 | (t[i] & 0x3F) << 22 | np.int64(x[i]) << 11 | np.int64(y[i])
        count += 1
    return count


# EVT 2.1 --------------------------------------------------------------------------------------------------------------


@kernel
def _count_evt21(words: Array) -> Any:  # pragma: no cover - compiled
    total = 0
    for i in range(words.size):
        if words[i] >> np.uint64(60) < 2:
            valid = words[i] & np.uint64(0xFFFFFFFF)
            while valid:
                valid &= valid - np.uint64(1)
                total += 1
    return total


@kernel
def _decode_evt21(words: Array, memory: Array, t: Array, x: Array, y: Array, p: Array) -> Any:  # pragma: no cover
    count, timed = 0, memory[_TIMED]
    base = (memory[_WRAPS] << 34) + (memory[_UPPER] << 6)
    for i in range(words.size):
        head, valid = np.int64(words[i] >> np.uint64(32)), np.int64(words[i] & np.uint64(0xFFFFFFFF))
        kind = head >> 28
        if kind < 2:
            now, column, row = base + (head >> 22 & 0x3F), head >> 11 & 0x7FF, head & 0x7FF
            while valid:
                if valid & 1:
                    if timed:
                        t[count], x[count], y[count], p[count] = now, column, row, kind
                        count += 1
                    else:
                        memory[_UNTIMED] += 1
                valid >>= 1
                column += 1
        elif kind == 8:
            upper = head & 0xFFFFFFF
            if not timed or upper != memory[_UPPER]:
                leap = not timed or abs(upper - memory[_UPPER]) > 1024
                _advance(memory, upper, _next_upper(words, i, 60, 32) if leap else -1, 28, 1024)
                timed = memory[_TIMED]
                base = (memory[_WRAPS] << 34) + (memory[_UPPER] << 6)
        elif kind == 10:
            memory[_TRIGGERS] += 1
        elif kind != 14 and kind != 15:
            memory[_STRANGE] += 1
    return count


@kernel
def _encode_evt21(t: Array, x: Array, y: Array, p: Array, memory: Array, words: Array) -> Any:  # pragma: no cover
    """Events that follow each other to the right in one aligned run of 32 columns share a word."""
    count = 0
    i = 0
    while i < t.size:
        upper = t[i] >> 6
        if not memory[_TIMED] or upper != memory[_UPPER]:
            words[count] = np.uint64(0x80000000 | (upper & 0xFFFFFFF)) << np.uint64(32)
            count += 1
            memory[_UPPER], memory[_TIMED] = upper, 1
        first = np.int64(x[i]) & ~31
        valid = np.uint64(1) << np.uint64(np.int64(x[i]) - first)
        j = i + 1
        while j < t.size and t[j] == t[i] and y[j] == y[i] and p[j] == p[i] and x[j] > x[j - 1] and x[j] < first + 32:
            valid |= np.uint64(1) << np.uint64(np.int64(x[j]) - first)
            j += 1
        head = np.int64(p[i]) << 28 | (t[i] & 0x3F) << 22 | first << 11 | np.int64(y[i])
        words[count] = np.uint64(head) << np.uint64(32) | valid
        count += 1
        i = j
    return count


# DAT ------------------------------------------------------------------------------------------------------------------


@kernel
def _decode_dat(words: Array, memory: Array, t: Array, x: Array, y: Array, p: Array) -> Any:  # pragma: no cover
    for i in range(words.size):
        time, place = np.int64(words[i] & np.uint64(0xFFFFFFFF)), np.int64(words[i] >> np.uint64(32))
        if memory[_TIMED] and time < memory[_UPPER] - (1 << 31):
            memory[_WRAPS] += 1
        memory[_TIMED], memory[_UPPER] = 1, time
        t[i] = (memory[_WRAPS] << 32) + time
        x[i], y[i], p[i] = place & 0x3FFF, place >> 14 & 0x3FFF, place >> 28 & 1
    return words.size


@kernel
def _room_dat(t: Array, memory: Array) -> Any:  # pragma: no cover - compiled
    return t.size


@kernel
def _encode_dat(t: Array, x: Array, y: Array, p: Array, memory: Array, words: Array) -> Any:  # pragma: no cover
    for i in range(t.size):
        place = np.uint64(np.int64(p[i]) << 28 | np.int64(y[i]) << 14 | np.int64(x[i]))
        words[i] = place << np.uint64(32) | np.uint64(t[i] & 0xFFFFFFFF)
    return t.size


_COUNTERS = {"evt3": _count_evt3, "evt2.1": _count_evt21}
_DECODERS = {"evt2": _decode_evt2, "evt2.1": _decode_evt21, "evt3": _decode_evt3, "dat": _decode_dat}
_ENCODERS = {"evt2": _encode_evt2, "evt2.1": _encode_evt21, "evt3": _encode_evt3, "dat": _encode_dat}
_ROOM = {"evt2": _room_evt2, "evt2.1": _room_evt2, "evt3": _room_evt3, "dat": _room_dat}
