"""Results kept in memory: what `hf.run` without a sink returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import SinkError
from hyperframes.frames import Array, Clip, Records, RecordSpec, Spec
from hyperframes.sinks.base import Sink, Target
from hyperframes.sinks.failed import zeroed

if TYPE_CHECKING:
    from hyperframes.frames import FrameSpec

__all__ = ["MemorySink"]


class _Column:
    """An array that grows at its end; exactly as long as `expected` where that is known."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, expected: int) -> None:
        self._held = np.empty((expected, *shape), dtype)
        self._length = 0

    def append(self, rows: Array) -> None:
        needed = self._length + len(rows)
        if needed > len(self._held):
            # realloc moves pages instead of copying them; the array is ours alone until `taken`
            self._held.resize((max(needed, len(self._held) * 5 // 4), *self._held.shape[1:]), refcheck=False)
        self._held[self._length : needed] = rows
        self._length = needed

    def taken(self) -> Array:
        if self._length < len(self._held):
            self._held.resize((self._length, *self._held.shape[1:]), refcheck=False)
        return self._held


class MemorySink(Sink):
    """Collects all results; after `close`, `result` is one Clip or one Records.

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
        self.result: Clip | Records | None = None
        """All results, once closed; frames keep their positions and times."""
        self._columns: dict[str, _Column] = {}
        self._spec: Spec | None = None
        self._nbytes = 0
        self._spans = False

    def open(self, target: Target) -> None:
        """Make room for the expected number of results."""
        self._spec, self._spans, self._nbytes, self.result = target.spec, target.kind == "spans", 0, None
        if isinstance(target.spec, RecordSpec):
            shapes = {f"field {field.name}": (field.shape, field.dtype) for field in target.spec.fields}
            expected = 0
        else:
            shapes = {f"plane {i}": (shape, target.spec.dtype) for i, shape in enumerate(target.spec.shapes)}
            expected = self._affordable(target.num_frames or 0, target.spec)
            shapes["duration"], shapes["mask"] = ((), np.dtype(np.int64)), ((), np.dtype(bool))
        for name in ("index", "pts", *(["stop"] if self._spans else [])):
            shapes[name] = ((), np.dtype(np.int64))
        self._columns = {name: _Column(shape, dtype, expected) for name, (shape, dtype) in shapes.items()}

    def _affordable(self, num_frames: int, spec: FrameSpec) -> int:
        """Return how many of the expected frames may be kept: the expectation is only a hint."""
        return num_frames if self.max_bytes is None else min(num_frames, self.max_bytes // max(1, spec.nbytes))

    def write(self, result: Clip | Records) -> None:
        """Copy the results; stand-ins for failed frames become zeros."""
        rows = _rows(result, spans=self._spans)
        self._nbytes += sum(array.nbytes for array in rows.values())
        if self.max_bytes is not None and self._nbytes > self.max_bytes:
            raise SinkError(
                f"the results do not fit in memory: expected at most {self.max_bytes} bytes, "
                f"got {self._nbytes} after frame {int(result.index[-1])}",
                sink=self.name,
                hint="Take them as they come with hf.stream(...), or write them to a file with to=PATH.",
            )
        for name, array in rows.items():
            self._columns[name].append(array)

    def close(self) -> None:
        """Put the results together in `result`."""
        columns = {name: column.taken() for name, column in self._columns.items()}
        self._columns = {}
        spec = self._spec
        if isinstance(spec, RecordSpec):
            fields = {field.name: columns[f"field {field.name}"] for field in spec.fields}
            self.result = Records(fields, columns["index"], columns["pts"], spec, columns.get("stop"))
        elif spec is not None:
            planes = tuple(columns[f"plane {i}"] for i in range(len(spec.shapes)))
            mask = None if columns["mask"].all() else columns["mask"]
            self.result = Clip(planes, columns["pts"], columns["index"], spec, columns["duration"], mask)

    def abort(self, *, keep_parts: bool = False) -> None:
        """Let everything go."""
        self._columns, self.result = {}, None


def _rows(result: Clip | Records, *, spans: bool) -> dict[str, Array]:
    rows = {"index": result.index, "pts": result.pts}
    if isinstance(result, Records):
        rows |= {f"field {name}": column for name, column in result.columns.items()}
        if spans and result.stop is not None:
            rows["stop"] = result.stop
        return rows
    length = len(result)
    rows |= {f"plane {i}": plane for i, plane in enumerate(zeroed(result))}
    rows["duration"] = np.zeros(length, np.int64) if result.durations is None else result.durations
    rows["mask"] = np.ones(length, bool) if result.mask is None else result.mask
    return rows
