"""Parquet tables as blocks of rows."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import MissingExtraError, SourceError
from hyperframes.sources.rows import TIME_UNITS, Clock, Plan, Reader, Request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hyperframes.frames import Array

__all__ = ["ParquetReader"]

_BLOCK_ROWS = 1 << 15


class ParquetReader(Reader):
    """Row groups one after another, each in batches."""

    def __init__(self, file: Path, request: Request) -> None:
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
        self.plan = Plan(tuple(chosen), len(chosen) == 1, request.dtype or found, clock, tuple(left_out))
        self.nbytes = num_rows * (self.plan.dtype.itemsize * math.prod(self.shape) + 8)

    @staticmethod
    def _number_type(kind: Any) -> np.dtype[Any] | None:
        import pyarrow as pa

        value = kind.value_type if pa.types.is_fixed_size_list(kind) else kind
        if pa.types.is_integer(value) or pa.types.is_floating(value) or pa.types.is_boolean(value):
            found: np.dtype[Any] = np.dtype(value.to_pandas_dtype())
            return found
        return None

    def _clock(self, request: Request, column: str, kind: Any, facts: dict[str, str]) -> Clock:
        import pyarrow as pa

        if pa.types.is_timestamp(kind):
            return Clock(column, "integer", Fraction(1, 10 ** TIME_UNITS[kind.unit]))
        if pa.types.is_integer(kind):
            return request.clock(column, "integer", self._first_whole(column))
        if pa.types.is_floating(kind):
            base = facts.get("hyperframes.time_base")
            return Clock(column, "float", Fraction(base)) if base else request.clock(column, "float", None)
        raise SourceError(f"column {column!r} of {self._name} holds {kind}, not times", source=self._name)

    def _first_whole(self, column: str) -> int | None:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self._file) as table:
            for batch in table.iter_batches(1, columns=[column]):
                return int(batch.column(0)[0].as_py() or 0)
        return None

    def blocks(self, start: int) -> Iterator[tuple[int, Array, Array | None]]:
        """Yield the rows from the row group that holds row `start`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        first, groups = 0, list(range(len(self._group_rows)))
        while groups and first + self._group_rows[groups[0]] <= start:
            first += self._group_rows[groups.pop(0)]
        clock = self.plan.clock
        columns = [*self.plan.names, *([clock.name] if clock and clock.name not in self.plan.names else [])]
        try:
            with pq.ParquetFile(self._file, pre_buffer=False, page_checksum_verification=True) as table:
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

    def _ticks(self, column: Any, clock: Clock, first: int) -> Array:
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
