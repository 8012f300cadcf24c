"""CSV tables, plain or gzipped, as blocks of rows."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import SourceError
from hyperframes.sources.rows import IN_MEMORY_BYTES, Plan, Reader, Request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hyperframes.frames import Array

__all__ = ["CsvReader"]

_BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 1 << 20
_SNIFFED_LINES = 200
_EMPTY_CELLS = {"", "na", "n/a", "nan", "null", "none"}


class CsvReader(Reader):
    """Lines in blocks of a mebibyte, parsed in C; a block with empty or bad cells is gone through cell by cell."""

    num_rows: int | None = None

    def __init__(self, file: Path, request: Request, delimiter: str | None) -> None:
        self._file, self._name, self._zipped = file, request.name, file.suffix.lower() == ".gz"
        self.nbytes = IN_MEMORY_BYTES + 1 if self._zipped else file.stat().st_size
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

    def _planned(self, request: Request, names: list[str], rows: list[list[str]]) -> Plan:
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
        return Plan(tuple(chosen), len(chosen) == 1, dtype, clock, tuple(left_out))

    def blocks(self, start: int) -> Iterator[tuple[int, Array, Array | None]]:
        """Yield the rows from the block that holds row `start`; lines before are read past, not parsed."""
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
        return self._guarded(lambda: stream.readline(_LONGEST_LINE))

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
