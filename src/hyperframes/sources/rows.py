"""What readers of tables share: which columns are values, which one is time, and how it becomes ticks."""

from __future__ import annotations

import datetime
import difflib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hyperframes.frames import Array

__all__ = ["IN_MEMORY_BYTES", "TIME_UNITS", "Clock", "Plan", "Reader", "Request"]

IN_MEMORY_BYTES = 16 << 20
"""Tables of at most so many bytes are read once and viewed."""

TIME_UNITS = {"ns": 9, "us": 6, "ms": 3, "s": 0}
_TIME_NAMES = ("seconds", "time", "timestamp", "t", "ts", "time_s", "timestamp_s", "datetime", "date_time")
_NANO = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class Clock:
    """How a column of times becomes ticks."""

    name: str
    kind: str
    """``integer`` ticks, ``float`` seconds or ``text`` (ISO 8601)."""
    time_base: Fraction
    """Seconds a tick."""
    unit: Fraction = Fraction(1)
    """Seconds a unit of floats."""

    def ticks(self, values: Array) -> Array:
        """Return int64 ticks; text and floats to the nearest nanosecond, or tick of the table's own time base."""
        if self.kind == "integer":
            return values.astype(np.int64)
        if self.kind == "text":
            return _iso_ticks(values)
        scaled = values * float(self.unit / self.time_base)
        if not np.isfinite(scaled).all():
            raise ValueError(f"time {values[~np.isfinite(scaled)][0]} is no time")
        return np.rint(scaled).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which columns are read, and how."""

    names: tuple[str, ...]
    scalar: bool
    dtype: np.dtype[Any]
    clock: Clock | None
    left_out: tuple[str, ...] = ()
    """Columns that are no numbers."""


class Reader(ABC):
    """A table as blocks of rows."""

    plan: Plan
    num_rows: int | None
    nbytes: int
    """Of all values in memory, at least."""
    shape: tuple[int, ...]

    @abstractmethod
    def blocks(self, start: int) -> Iterator[tuple[int, Array, Array | None]]:
        """Yield (first row, values (R, ...), ticks (R,)) from a block that holds row `start` on."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for."""

    name: str
    columns: list[str] | None
    time: str | bool | None
    time_unit: str | None
    dtype: np.dtype[Any] | None

    def time_column(self, names: Sequence[str]) -> str | None:
        """Return the name of the time column, None where there is none."""
        if self.time is False:
            return None
        if isinstance(self.time, str):
            self.check([self.time], names)
            return self.time
        known = [*_TIME_NAMES, *(f"{stem}_{unit}" for stem in ("timestamp", "time", "t") for unit in TIME_UNITS)]
        by_name = {name.lower(): name for name in reversed(names)}
        found = next((by_name[name] for name in known if name in by_name), None)
        if found is not None and self.columns and found in self.columns:
            return None  # asked for as a value
        if found is None and self.time is True:
            raise SourceError(
                f"{self.name} has no column that is known as time: it has {', '.join(names)}",
                source=self.name,
                hint="Name it: time='COLUMN'.",
            )
        return found

    def check(self, wanted: Sequence[str], names: Sequence[str]) -> None:
        """Refuse columns that are not there."""
        for column in wanted:
            if column not in names:
                near = difflib.get_close_matches(column, names, n=1)
                raise SourceError(
                    f"{self.name} has no column {column!r}: it has {', '.join(map(repr, names))}",
                    source=self.name,
                    hint=f"Did you mean {near[0]!r}?" if near else None,
                )

    def clock(self, column: str, kind: str, sample: int | None) -> Clock:
        """Return how `column` is read; `sample` is its first whole number."""
        unit = self.time_unit or next((u for u in TIME_UNITS if column.lower().endswith(f"_{u}")), None)
        if unit is not None and unit not in TIME_UNITS:
            raise SourceError(f"a time unit is s, ms, us or ns: got {unit!r}", source=self.name)
        if unit is None and kind == "integer" and sample is not None:
            limits = ((10**17, "ns"), (10**14, "us"), (10**11, "ms"))
            unit = next((u for limit, u in limits if abs(sample) >= limit), None)
        length = Fraction(1, 10 ** TIME_UNITS[unit or "s"])
        if kind == "integer":
            return Clock(column, kind, length)
        return Clock(column, kind, _NANO, length)

    def values(self, names: Sequence[str], numeric: Sequence[str], time: str | None) -> tuple[list[str], list[str]]:
        """Return the value columns and those left out because they are no numbers."""
        if self.columns is not None:
            self.check(self.columns, names)
            if not self.columns:
                raise SourceError(f"name at least one column of {self.name}", source=self.name)
            return self.columns, []
        ours = list(names[:2]) == ["frame", "seconds"]  # written by this package: the frame number is no value
        skipped = {time, "frame" if ours else None}
        chosen = [name for name in names if name in numeric and name not in skipped]
        left_out = [name for name in names if name not in numeric and name not in skipped]
        if not chosen:
            raise SourceError(
                f"{self.name} has no column of numbers: it has {', '.join(map(repr, names))}", source=self.name
            )
        return chosen, left_out


def _iso_ticks(values: Array) -> Array:
    """Return nanoseconds since 1970 of ISO 8601 text; text without a zone is UTC."""
    texts = np.char.strip(values.astype(str))
    plain = np.char.replace(np.char.replace(texts, "Z", ""), "/", "-")
    if not any(sign in text[10:] for text in plain[:1].tolist() for sign in "+-"):
        return plain.astype("datetime64[ns]").astype(np.int64)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    moments = [datetime.datetime.fromisoformat(text) for text in plain.tolist()]
    microsecond = datetime.timedelta(microseconds=1)
    zoned = [moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC) for moment in moments]
    return np.array([(moment - epoch) // microsecond * 1000 for moment in zoned], np.int64)
