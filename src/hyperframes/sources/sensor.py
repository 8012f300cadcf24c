"""Sensor values as frames: the rows of CSV and Parquet tables, streamed in bounded memory."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import SourceError
from hyperframes.frames import Array, Frame, FrameSpec
from hyperframes.sources.array import exact_rate, file_identity
from hyperframes.sources.base import Source
from hyperframes.sources.rows import IN_MEMORY_BYTES, Reader, Request
from hyperframes.sources.rows_csv import CsvReader
from hyperframes.sources.rows_parquet import ParquetReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["TableSource", "open_table"]


class TableSource(Source):
    """One frame a row: shape (columns,), or () for a single column; ``spec.names`` are the columns' names.

    Small tables are read once and viewed; others are streamed in blocks. See `open_table`.
    """

    def __init__(self, reader: Reader, name: str, identity: str, rate: Fraction | None) -> None:
        self.name, self._reader, self._identity = name, reader, identity
        plan = reader.plan
        base = plan.clock.time_base if plan.clock else (1 / rate if rate else Fraction(1))
        self.spec = FrameSpec((reader.shape,), plan.dtype, rate=rate, time_base=base, names=plan.names)
        self.num_frames, self.exact = reader.num_rows, reader.num_rows is not None
        if plan.left_out:
            self.warnings = (f"columns left out because they hold no numbers: {', '.join(plan.left_out)}",)
        self._held: tuple[tuple[Array, ...], Array] | None = None

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the rows [start, stop) as frames; one block is held."""
        spec = self.spec
        for first, values, pts in self._blocks(start):
            low = max(0, start - first)
            high = len(values) if stop is None else min(len(values), stop - first)
            times = pts[low:high].tolist()
            for offset, time in enumerate(times, low):
                yield Frame((values[offset, ...],), time, first + offset, spec)
            if stop is not None and first + len(values) >= stop:
                return

    def arrays(self) -> tuple[tuple[Array, ...], Array] | None:
        """Return (values (N, ...), pts (N,)) of small tables; None for large ones, which are streamed."""
        if self._held is None and self._reader.nbytes <= IN_MEMORY_BYTES:
            blocks = list(self._blocks(0))
            values = [block[1] for block in blocks] or [np.empty((0, *self.spec.shapes[0]), self.spec.dtype)]
            times = [block[2] for block in blocks] or [np.empty(0, np.int64)]
            self._held = ((np.concatenate(values),), np.concatenate(times))
            self.num_frames, self.exact = len(self._held[1]), True
        return self._held

    def count(self) -> int:
        """Return the number of rows; reads the table where its format does not say."""
        if not self.exact:
            self.num_frames = sum(len(values) for _, values, _ in self._blocks(0))
            self.exact = True
        return self.num_frames or 0

    def times(self) -> Array:
        """Return pts (N,) int64."""
        parts = [pts for _, _, pts in self._blocks(0)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def identity(self) -> str:
        """Return path, size, time of change and the columns taken."""
        return f"{self._identity} {','.join(self.spec.names)} {self.spec.dtype}"

    def _blocks(self, start: int) -> Iterator[tuple[int, Array, Array]]:
        """Yield blocks with ticks; times that fall are an error that names the row."""
        if self._held is not None:
            yield 0, self._held[0][0], self._held[1]
            return
        last: int | None = None
        for first, values, ticks in self._reader.blocks(start):
            pts = np.arange(first, first + len(values), dtype=np.int64) if ticks is None else ticks
            if ticks is not None and len(pts):
                before = np.concatenate([[pts[0] if last is None else last], pts[:-1]])
                falls = np.flatnonzero(pts < before)
                if falls.size:
                    raise SourceError(
                        f"times of {self.name} must ascend: row {first + int(falls[0])} is earlier than the row before",
                        source=self.name,
                        pts=int(pts[falls[0]]),
                        hint="Sort the table by its time column, or read it without: time=False, rate=1000.",
                    )
                last = int(pts[-1])
            yield first, values, pts


def open_table(
    path: str | os.PathLike[str],
    *,
    columns: str | Sequence[str] | None = None,
    time: str | bool | None = None,
    time_unit: str | None = None,
    rate: Any = None,
    dtype: Any = None,
    delimiter: str | None = None,
) -> TableSource:
    """Open a table of sensor values: ``.csv``, ``.tsv``, each also as ``.gz``, or ``.parquet``; frames are rows.

    Parameters
    ----------
    path : path
        Of the table.
    columns : names, optional
        A sequence, or a string with commas. Default: all columns of numbers but the time. One name gives frames of
        shape ().
    time : str or bool, optional
        Name of the column of times; False for none. Default: a column called ``seconds``, ``time``, ``timestamp``,
        ``t``, ``timestamp_ns`` or alike, if there is one.
    time_unit : {"s", "ms", "us", "ns"}, optional
        Of numbers in that column. Default: told by the end of its name (``_ms``); else seconds, but whole numbers
        from 10**11 on are milliseconds since 1970, from 10**14 on microseconds, from 10**17 on nanoseconds.
    rate : number or Fraction, optional
        Rows a second: the time of tables that have none.
    dtype : dtype, optional
        Of the values. Default: float64 for CSV, what holds all columns for Parquet.
    delimiter : str, optional
        Between cells of CSV. Default: the most frequent of comma, semicolon and tab in the first line.

    Returns
    -------
    TableSource
        Empty cells are NaN. Times are exact for whole numbers, to the nanosecond for decimals and ISO 8601 text.

    Raises
    ------
    SourceError
        If a column is not there, a cell is no number (named by line and column), or times fall.
    MissingExtraError
        If pyarrow is not installed, for Parquet.
    """
    name = os.fspath(path)
    file = Path(path)
    wanted = [part.strip() for part in columns.split(",")] if isinstance(columns, str) else columns
    request = Request(
        name, None if wanted is None else list(wanted), time, time_unit, None if dtype is None else np.dtype(dtype)
    )
    if request.dtype is not None and request.dtype.kind not in "iufb":
        raise SourceError(f"values of {name} are numbers: got dtype {request.dtype}", source=name)
    exact = None if rate is None else exact_rate(rate)
    try:
        if file.suffix.lower() == ".parquet":
            reader: Reader = ParquetReader(file, request)
        else:
            reader = CsvReader(file, request, delimiter)
        return TableSource(reader, name, file_identity(file), exact)
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(f"cannot read {name}: {error.strerror or error}", source=name) from error
