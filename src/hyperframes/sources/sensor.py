"""Sensor values as frames: the rows of CSV and Parquet tables, streamed in bounded memory."""

from __future__ import annotations

import csv
import datetime
import difflib
import gzip
import math
import os
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import MissingExtraError, SourceError
from hyperframes.frames import Array, Frame, FrameSpec
from hyperframes.sources.array import exact_rate, file_identity
from hyperframes.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["TableSource", "open_table"]

_IN_MEMORY_BYTES = 16 << 20
"""Tables of at most so many bytes are read once and viewed."""

_BLOCK_BYTES = 1 << 20
_BLOCK_ROWS = 1 << 15
_SNIFFED_LINES = 200
_EMPTY_CELLS = {"", "na", "n/a", "nan", "null", "none"}
_TIME_NAMES = ("seconds", "time", "timestamp", "t", "ts", "time_s", "timestamp_s", "datetime", "date_time")
_TIME_UNITS = {"ns": 9, "us": 6, "ms": 3, "s": 0}
_NANO = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class _Clock:
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
class _Plan:
    """Which columns are read, and how."""

    names: tuple[str, ...]
    scalar: bool
    dtype: np.dtype[Any]
    clock: _Clock | None
    left_out: tuple[str, ...] = ()
    """Columns that are no numbers."""


class _Reader(ABC):
    """A table as blocks of rows."""

    plan: _Plan
    num_rows: int | None
    nbytes: int
    """Of all values in memory, at least."""
    shape: tuple[int, ...]

    @abstractmethod
    def blocks(self, start: int) -> Iterator[tuple[int, Array, Array | None]]:
        """Yield (first row, values (R, ...), ticks (R,)) from a block that holds row `start` on."""


class TableSource(Source):
    """One frame a row: shape (columns,), or () for a single column; ``spec.names`` are the columns' names.

    Small tables are read once and viewed; others are streamed in blocks. See `open_table`.
    """

    def __init__(self, reader: _Reader, name: str, identity: str, rate: Fraction | None) -> None:
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
        if self._held is None and self._reader.nbytes <= _IN_MEMORY_BYTES:
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
    request = _Request(
        name, None if wanted is None else list(wanted), time, time_unit, None if dtype is None else np.dtype(dtype)
    )
    if request.dtype is not None and request.dtype.kind not in "iufb":
        raise SourceError(f"values of {name} are numbers: got dtype {request.dtype}", source=name)
    exact = None if rate is None else exact_rate(rate)
    try:
        if file.suffix.lower() == ".parquet":
            reader: _Reader = _ParquetReader(file, request)
        else:
            reader = _CsvReader(file, request, delimiter)
        return TableSource(reader, name, file_identity(file), exact)
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(f"cannot read {name}: {error.strerror or error}", source=name) from error


@dataclass(frozen=True, slots=True)
class _Request:
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
        known = [*_TIME_NAMES, *(f"{stem}_{unit}" for stem in ("timestamp", "time", "t") for unit in _TIME_UNITS)]
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

    def clock(self, column: str, kind: str, sample: int | None) -> _Clock:
        """Return how `column` is read; `sample` is its first whole number."""
        unit = self.time_unit or next((u for u in _TIME_UNITS if column.lower().endswith(f"_{u}")), None)
        if unit is not None and unit not in _TIME_UNITS:
            raise SourceError(f"a time unit is s, ms, us or ns: got {unit!r}", source=self.name)
        if unit is None and kind == "integer" and sample is not None:
            limits = ((10**17, "ns"), (10**14, "us"), (10**11, "ms"))
            unit = next((u for limit, u in limits if abs(sample) >= limit), None)
        length = Fraction(1, 10 ** _TIME_UNITS[unit or "s"])
        if kind == "integer":
            return _Clock(column, kind, length)
        return _Clock(column, kind, _NANO, length)

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


# CSV -----------------------------------------------------------------------------------------------------------------


class _CsvReader(_Reader):
    """Lines in blocks of a mebibyte, parsed in C; a block with empty or bad cells is gone through cell by cell."""

    num_rows: int | None = None

    def __init__(self, file: Path, request: _Request, delimiter: str | None) -> None:
        self._file, self._name, self._zipped = file, request.name, file.suffix.lower() == ".gz"
        self.nbytes = _IN_MEMORY_BYTES + 1 if self._zipped else file.stat().st_size
        with self._open() as stream:
            head = self._head(stream)
        if not head:
            raise SourceError(f"{self._name} is empty: expected rows of numbers", source=self._name)
        self._delimiter = delimiter or max(",;\t", key=head[0].count)
        cells = self._cells(head)
        self._header_lines = 0 if all(_is_number(cell) for cell in cells[0] if cell.strip()) and cells[0] else 1
        names = [cell.strip() for cell in cells[0]] if self._header_lines else [f"c{i}" for i in range(len(cells[0]))]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise SourceError(f"{self._name} has two columns named {doubled[0]!r}", source=self._name)
        self.plan = self._planned(request, names, [row for row in cells[self._header_lines :] if row])
        self._positions = [names.index(name) for name in self.plan.names]
        self.shape = () if self.plan.scalar else (len(self.plan.names),)
        clock = self.plan.clock
        self._clock_at = None if clock is None else names.index(clock.name)

    def _planned(self, request: _Request, names: list[str], rows: list[list[str]]) -> _Plan:
        by_column = {name: [row[i].strip() for row in rows if i < len(row)] for i, name in enumerate(names)}
        filled = {
            name: [cell for cell in cells if cell.lower() not in _EMPTY_CELLS] for name, cells in by_column.items()
        }
        numeric = [name for name, cells in filled.items() if all(map(_is_number, cells))]
        time, clock = request.time_column(names), None
        if time is not None and filled[time]:
            whole = all(_is_whole(cell) for cell in filled[time])
            kind = "integer" if whole else "float" if time in numeric else "text"
            clock = request.clock(time, kind, int(filled[time][0]) if whole else None)
        elif time is not None:
            clock = request.clock(time, "float", None)
        chosen, left_out = request.values(names, numeric, time)
        dtype = request.dtype or np.dtype(np.float64)
        return _Plan(tuple(chosen), len(chosen) == 1, dtype, clock, tuple(left_out))

    def blocks(self, start: int) -> Iterator[tuple[int, Array, Array | None]]:
        first, line = 0, self._header_lines
        with self._open() as stream:
            header = self._header_lines
            rest = ""
            while True:
                text = self._more(stream)
                lines = (rest + text).split("\n")
                rest = lines.pop() if text else ""
                if header and lines:
                    skipped = next(i for i, candidate in enumerate(lines) if _is_row(candidate))
                    lines, line, header = lines[skipped + 1 :], skipped + 1, 0
                rows = [row for row in lines if _is_row(row)]
                if rows:
                    if first + len(rows) > start:
                        values, ticks = self._parsed(rows, lines, line)
                        yield first, values, ticks
                    first += len(rows)
                line += len(lines)
                if not text:
                    return

    def _parsed(self, rows: list[str], lines: list[str], line: int) -> tuple[Array, Array | None]:
        """Return values and ticks of `rows`; `lines` and `line` tell where they stand in the file."""
        width = len(self._positions)
        clock = self.plan.clock
        fields: list[tuple[Any, ...]] = [(f"v{i}", self.plan.dtype) for i in range(width)]
        positions = list(self._positions)
        if clock is not None and self._clock_at is not None:
            fields.append(("time", {"integer": "i8", "float": "f8", "text": "U40"}[clock.kind]))
            positions.append(self._clock_at)
        try:
            table = np.loadtxt(
                rows,
                np.dtype(fields),
                comments=None,
                delimiter=self._delimiter,
                usecols=positions,
                quotechar='"',
                ndmin=1,
            )
        except ValueError:
            table = self._by_cell(lines, line, fields, positions)
        values = np.empty((len(table), width), self.plan.dtype)
        for i in range(width):
            values[:, i] = table[f"v{i}"]
        if clock is None:
            return values[:, 0].copy() if self.plan.scalar else values, None
        try:
            ticks = clock.ticks(table["time"])
        except ValueError as error:
            raise SourceError(
                f"column {clock.name!r} of {self._name} holds no times near line {line + 1}: {error}", source=self._name
            ) from error
        return values[:, 0].copy() if self.plan.scalar else values, ticks

    def _by_cell(self, lines: list[str], line: int, fields: list[tuple[Any, ...]], positions: list[int]) -> Array:
        """Return the rows parsed one cell at a time: empty cells are NaN, others that do not parse are named."""
        rows = []
        names = (*self.plan.names, *((self.plan.clock.name,) if self.plan.clock else ()))
        kinds = [np.dtype(field[1]) for field in fields]
        for number, text in enumerate(lines, line + 1):
            if not _is_row(text):
                continue
            cells = next(csv.reader([text], delimiter=self._delimiter))
            row: list[Any] = []
            for name, position, kind in zip(names, positions, kinds, strict=True):
                if position >= len(cells):
                    raise SourceError(
                        f"line {number} of {self._name} is short: expected column {name!r}, got {len(cells)} cells",
                        source=self._name,
                    )
                row.append(self._cell(cells[position].strip(), kind, name, number))
            rows.append(tuple(row))
        return np.array(rows, np.dtype(fields))

    def _cell(self, cell: str, kind: np.dtype[Any], name: str, number: int) -> Any:
        if kind.kind == "U":
            return cell
        if cell.lower() in _EMPTY_CELLS and kind.kind == "f":
            return math.nan
        try:
            return float(cell) if kind.kind == "f" else int(cell)
        except ValueError:
            raise SourceError(
                f"line {number} of {self._name} has no number in column {name!r}: got {cell!r}",
                source=self._name,
                hint="Leave that column out with columns=..., or read it as dtype=float64 if cells may be empty.",
            ) from None

    def _cells(self, lines: list[str]) -> list[list[str]]:
        return [row for row in csv.reader(lines, delimiter=self._delimiter) if row]

    def _head(self, stream: IO[str]) -> list[str]:
        """Return the first lines that hold something."""
        lines: list[str] = []
        while len(lines) <= _SNIFFED_LINES:
            text = self._line(stream)
            if not text:
                break
            if _is_row(text):
                lines.append(text.rstrip("\n"))
        return lines

    def _open(self) -> IO[str]:
        opener: Any = gzip.open if self._zipped else open
        stream: IO[str] = opener(self._file, "rt", encoding="utf-8-sig")
        return stream

    def _more(self, stream: IO[str]) -> str:
        return self._guarded(lambda: stream.read(_BLOCK_BYTES))

    def _line(self, stream: IO[str]) -> str:
        return self._guarded(lambda: stream.readline(_BLOCK_BYTES))

    def _guarded(self, read: Any) -> str:
        try:
            text: str = read()
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self._name} is no text: {error.reason} at byte {error.start}", source=self._name
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise SourceError(
                f"{self._name} is damaged: {error}", source=self._name, hint="Copy the file again."
            ) from error
        return text


def _is_row(line: str) -> bool:
    return bool(line) and not line.isspace() and not line.startswith("#")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_whole(cell: str) -> bool:
    return cell.lstrip("+-").isdigit()


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


# Parquet -------------------------------------------------------------------------------------------------------------


class _ParquetReader(_Reader):
    """Row groups one after another, each in batches."""

    def __init__(self, file: Path, request: _Request) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtraError("reading .parquet", "tables") from error
        self._file, self._name = file, request.name
        try:
            with pq.ParquetFile(file) as table:
                schema, metadata = table.schema_arrow, table.metadata
        except pa.ArrowInvalid as error:
            raise SourceError(f"{self._name} is no Parquet table: {error}", source=self._name) from error
        num_rows = int(metadata.num_rows)
        self.num_rows = num_rows
        self._group_rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        facts = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
        types = {field.name: field.type for field in schema}
        numeric = [name for name, kind in types.items() if self._number_type(kind) is not None]
        time = request.time_column(list(types))
        chosen, left_out = request.values(list(types), numeric, time)
        for name in chosen:
            if name not in numeric:
                raise SourceError(
                    f"column {name!r} of {self._name} holds {types[name]}, not numbers", source=self._name
                )
        vectors = [name for name in chosen if pa.types.is_fixed_size_list(types[name])]
        if vectors and len(chosen) > 1:
            raise SourceError(
                f"{self._name} holds vectors beside other columns: got {', '.join(chosen)}",
                source=self._name,
                hint=f"Choose one of them: columns={vectors[0]!r}.",
            )
        self.shape = (types[chosen[0]].list_size,) if vectors else (() if len(chosen) == 1 else (len(chosen),))
        found = np.result_type(*(self._number_type(types[name]) for name in chosen))
        clock = None if time is None else self._clock(request, time, types[time], facts)
        self.plan = _Plan(tuple(chosen), len(chosen) == 1, request.dtype or found, clock, tuple(left_out))
        self.nbytes = num_rows * (self.plan.dtype.itemsize * math.prod(self.shape) + 8)

    @staticmethod
    def _number_type(kind: Any) -> np.dtype[Any] | None:
        import pyarrow as pa

        value = kind.value_type if pa.types.is_fixed_size_list(kind) else kind
        if pa.types.is_integer(value) or pa.types.is_floating(value) or pa.types.is_boolean(value):
            found: np.dtype[Any] = np.dtype(value.to_pandas_dtype())
            return found
        return None

    def _clock(self, request: _Request, column: str, kind: Any, facts: dict[str, str]) -> _Clock:
        import pyarrow as pa

        if pa.types.is_timestamp(kind):
            return _Clock(column, "integer", Fraction(1, 10 ** _TIME_UNITS[kind.unit]))
        if pa.types.is_integer(kind):
            return request.clock(column, "integer", self._first_whole(column))
        if pa.types.is_floating(kind):
            base = facts.get("hyperframes.time_base")
            return _Clock(column, "float", Fraction(base)) if base else request.clock(column, "float", None)
        raise SourceError(f"column {column!r} of {self._name} holds {kind}, not times", source=self._name)

    def _first_whole(self, column: str) -> int | None:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self._file) as table:
            for batch in table.iter_batches(1, columns=[column]):
                return int(batch.column(0)[0].as_py() or 0)
        return None

    def blocks(self, start: int) -> Iterator[tuple[int, Array, Array | None]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        first, groups = 0, list(range(len(self._group_rows)))
        while groups and first + self._group_rows[groups[0]] <= start:
            first += self._group_rows[groups.pop(0)]
        clock = self.plan.clock
        columns = [*self.plan.names, *([clock.name] if clock and clock.name not in self.plan.names else [])]
        try:
            with pq.ParquetFile(self._file, pre_buffer=False) as table:
                for batch in table.iter_batches(_BLOCK_ROWS, row_groups=groups, columns=columns):
                    values = self._values(batch, first)
                    ticks = None if clock is None else self._ticks(batch.column(clock.name), clock, first)
                    yield first, values, ticks
                    first += len(values)
        except (pa.ArrowInvalid, pa.ArrowException, OSError) as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(
                f"cannot read row {first} of {self._name}: {str(error).splitlines()[0]}", source=self._name
            ) from error

    def _values(self, batch: Any, first: int) -> Array:
        columns = []
        for name in self.plan.names:
            column = batch.column(name)
            if self.shape and len(self.plan.names) == 1 and hasattr(column.type, "list_size"):
                column = column.flatten()
            if column.null_count and self.plan.dtype.kind != "f":
                raise SourceError(
                    f"column {name!r} of {self._name} has empty cells from row {first} on, which {self.plan.dtype} cannot hold",
                    source=self._name,
                    hint="Read it with dtype='float64': empty cells become NaN.",
                )
            columns.append(column.to_numpy(zero_copy_only=False).astype(self.plan.dtype, copy=False))
        if len(columns) == 1:
            return np.ascontiguousarray(columns[0]).reshape(batch.num_rows, *self.shape)
        return np.stack(columns, axis=1)

    def _ticks(self, column: Any, clock: _Clock, first: int) -> Array:
        import pyarrow as pa

        if column.null_count:
            raise SourceError(
                f"time column {clock.name!r} of {self._name} is empty in or after row {first}", source=self._name
            )
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        try:
            return clock.ticks(column.to_numpy(zero_copy_only=False))
        except ValueError as error:
            raise SourceError(f"{self._name} holds no times from row {first} on: {error}", source=self._name) from error
