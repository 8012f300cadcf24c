"""Results kept in memory: what `hf.run` without a sink returns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from hyperframes.errors import SinkError
from hyperframes.frames import Array, Clip, FrameSpec, Records, RecordSpec, Spec
from hyperframes.packing import result_array
from hyperframes.sinks.base import Sink, Target
from hyperframes.sinks.failed import zeroed

__all__ = ["MemorySink"]


class _Column:
    """An array that grows at its end; exactly as long as `expected` where that is known."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, expected: int) -> None:
        self._held = result_array((expected, *shape), np.dtype(dtype))
        self._length, self._expected = 0, expected

    def lend(self, start: int, stop: int) -> Array | None:
        """Return the rows [start, stop) to write to, unless they are more than was expected."""
        return self._held[start:stop] if stop <= self._expected else None

    def append(self, rows: Array) -> None:
        needed = self._length + len(rows)
        if needed > len(self._held):
            self._grow(max(needed, len(self._held) * 5 // 4))
        place = self._held[self._length : needed]
        if not _same_memory(place, rows):
            place[...] = rows
        self._length = needed

    def _grow(self, length: int) -> None:
        if self._expected:  # rows may be lent and written to: they must not move
            old, self._held = self._held, np.empty((length, *self._held.shape[1:]), self._held.dtype)
            self._held[: self._length] = old[: self._length]
        else:  # realloc moves pages instead of copying them; the array is ours alone until `taken`
            self._held.resize((length, *self._held.shape[1:]), refcheck=False)

    def taken(self) -> Array:
        if self._length < len(self._held):
            try:
                self._held.resize((self._length, *self._held.shape[1:]))
            except ValueError:  # it is not the allocator's, or somebody has kept rows that were lent
                return self._held[: self._length]
        return self._held


_LOOKED_AT = 1 << 13
"""Numbers looked at at a time: few enough to stay in the fastest cache, with what is made of them."""


class _Series:
    """Whole numbers, one a result; no array of them is made while they go up by the same step."""

    def __init__(self) -> None:
        self._first = self._step = self._length = 0
        self._column: _Column | None = None

    def append(self, rows: Array) -> None:
        if self._column is None and not self._goes_on(rows):
            self._column = _Column((), np.dtype(np.int64), 0)
            self._column.append(self._even())
        if self._column is None:
            self._length += len(rows)
        else:
            self._column.append(rows)

    @property
    def even(self) -> bool:
        """Whether they have gone up by the same step so far."""
        return self._column is None

    def like(self, other: _Series) -> bool:
        """Whether both hold the same numbers so far, without a look at arrays."""
        mine, theirs = (self._first, self._step, self._length), (other._first, other._step, other._length)
        return mine == theirs and self.even and other.even

    def _goes_on(self, rows: Array) -> bool:
        if self._length == 0 and len(rows):
            self._first = int(rows[0])
        if self._length < 2 and self._length + len(rows) > 1:
            self._step = int(rows[1 - self._length]) - self._first
        if rows.strides == (0,) and len(rows):  # one number stands for all
            rows = rows[:2]
        for start in range(0, len(rows), _LOOKED_AT):
            part = rows[start : start + _LOOKED_AT]
            if part[0] != self._first + (self._length + start) * self._step:
                return False
            if not (part[1:] - part[:-1] == self._step).all():
                return False
        return True

    def _even(self) -> Array:
        return np.arange(self._length, dtype=np.int64) * self._step + self._first

    def taken(self) -> Array:
        return self._even() if self._column is None else self._column.taken()


class MemorySink(Sink):
    """Collects all results; after `close`, `result` is one Clip or one Records.

    Frames are made where they are kept wherever the driver can have them made there: nothing is copied then.

    Parameters
    ----------
    max_bytes : int, optional
        Most bytes of results to keep. More is an error that names `hf.stream`.
    name : str
        What users call it.
    """

    takes_records = True

    def __init__(self, max_bytes: int | None = None, name: str = "memory") -> None:
        self.max_bytes, self.name = max_bytes, name
        self.planes: tuple[Array, ...] | None = None
        """The frames alone, once closed: without the arrays of their positions and times."""
        self._columns: dict[str, _Column] = {}
        self._series: dict[str, _Series] = {}
        self._failed: list[tuple[int, Array]] = []  # (first frame, which of those from there on are real)
        self._spec: Spec | None = None
        self._nbytes = self._length = 0
        self._result: Clip | Records | None = None

    def open(self, target: Target) -> None:
        """Make room for the expected number of results."""
        self.abort()
        self._spec, self._nbytes, self._length = target.spec, 0, 0
        if isinstance(target.spec, RecordSpec):
            self._columns = {field.name: _Column(field.shape, field.dtype, 0) for field in target.spec.fields}
            self._series = {name: _Series() for name in ("index", "pts", *(["stop"] if target.kind == "spans" else []))}
        else:
            expected, dtype = self._affordable(target.num_frames or 0, target.spec), target.spec.dtype
            self._columns = {str(i): _Column(shape, dtype, expected) for i, shape in enumerate(target.spec.shapes)}
            self._series = {name: _Series() for name in ("index", "pts", "duration")}

    def _affordable(self, num_frames: int, spec: FrameSpec) -> int:
        """Return how many of the expected frames may be kept: the expectation is only a hint."""
        return num_frames if self.max_bytes is None else min(num_frames, self.max_bytes // max(1, spec.nbytes))

    def lend(self, start: int, stop: int) -> tuple[Array, ...] | None:
        """Return where the frames [start, stop) are kept, unless they are more than was expected."""
        if isinstance(self._spec, RecordSpec):
            return None
        lent = [column.lend(start, stop) for column in self._columns.values()]
        found = tuple(plane for plane in lent if plane is not None)
        return found if len(found) == len(lent) else None

    def write(self, result: Clip | Records) -> None:
        """Keep the results, copied unless they were made where they are kept; stand-ins for failed frames become zeros."""
        if isinstance(result, Records):
            columns, numbers = dict(result.columns), {"index": result.index, "pts": result.pts}
            if result.stop is not None and "stop" in self._series:
                numbers["stop"] = result.stop
        else:
            columns = {str(i): plane for i, plane in enumerate(zeroed(result))}
            none = np.broadcast_to(np.int64(0), len(result))  # takes no memory
            durations = none if result.durations is None else result.durations
            numbers = {"index": result.index, "pts": result.pts, "duration": durations}
            if result.mask is not None and not result.mask.all():
                self._failed.append((self._length, np.array(result.mask)))
        self._nbytes += sum(array.nbytes for array in (*columns.values(), *numbers.values()))
        if self.max_bytes is not None and self._nbytes > self.max_bytes:
            raise SinkError(
                f"the results do not fit in memory: expected at most {self.max_bytes} bytes, "
                f"got {self._nbytes} after frame {int(result.index[-1])}",
                sink=self.name,
                hint="Take them as they come with hf.stream(...), or write them to a file with to=PATH.",
            )
        self._length += len(result.index)
        for name, array in columns.items():
            self._columns[name].append(array)
        counted = numbers.pop("pts") if _same_memory(result.index, result.pts) else None
        alike = counted is not None and self._series["pts"].like(self._series["index"])
        for name, array in numbers.items():
            self._series[name].append(array)
        if alike and self._series["index"].even:  # times that count frames are looked at once
            self._series["pts"] = copy.copy(self._series["index"])
        elif counted is not None:
            self._series["pts"].append(counted)

    def close(self) -> None:
        """Put the results together."""
        columns = {name: column.taken() for name, column in self._columns.items()}
        self._columns = {}
        if isinstance(self._spec, RecordSpec):
            numbers = {name: series.taken() for name, series in self._series.items()}
            self._result = Records(columns, numbers["index"], numbers["pts"], self._spec, numbers.get("stop"))
        elif self._spec is not None:
            self.planes = tuple(columns.values())

    @property
    def result(self) -> Clip | Records | None:
        """All results, once closed; frames keep their positions and times, of which arrays are made when first asked."""
        if self._result is None and self.planes is not None and isinstance(self._spec, FrameSpec):
            numbers = {name: series.taken() for name, series in self._series.items()}
            mask = np.ones(self._length, bool) if self._failed else None
            for first, real in self._failed:
                assert mask is not None
                mask[first : first + len(real)] = real
            self._result = Clip(self.planes, numbers["pts"], numbers["index"], self._spec, numbers["duration"], mask)
        return self._result

    def abort(self, *, keep_parts: bool = False) -> None:
        """Let everything go."""
        self._columns, self._series, self._failed = {}, {}, []
        self.planes = self._result = None


def _same_memory(place: Array, rows: Array) -> bool:
    """Whether `rows` are the very samples of `place`."""
    return (
        place.__array_interface__["data"] == rows.__array_interface__["data"]
        and place.shape == rows.shape
        and place.strides == rows.strides
        and place.dtype == rows.dtype
    )
