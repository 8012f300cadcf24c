"""Records and rows as tables: Parquet and CSV."""

from __future__ import annotations

import math
import os
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import MissingExtraError, SinkError
from hyperframes.sinks.base import Checkpoint, Sink, Target
from hyperframes.sinks.checks import opened
from hyperframes.sinks.rows import RowLayout, RowsFile
from hyperframes.sinks.staging import StagedFile, partial_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

    from hyperframes.frames import Array, Clip, Field, Records

__all__ = ["CsvSink", "ParquetSink", "arrow_column", "arrow_type"]

_GROUP_ROWS = 1 << 16
_GROUP_BYTES = 16 << 20


class ParquetSink(Sink):
    """A Parquet file: ``frame``, ``seconds``, ``stop`` for spans, then the fields; vectors as fixed-size lists.

    Parameters
    ----------
    path : path
        Final name; written beside it as ``.NAME.part``.

    Notes
    -----
    Row groups hold at most 65,536 rows or 16 MiB, so memory is bounded. Row groups do not depend on the size of
    hyperframes. Failed frames are left out: ``frame`` tells which. A Parquet file that was cut off cannot be continued:
    runs that keep a journal write the rows besides, plain, as ``.NAME.rows.part``, and a resumed run makes the file of
    them anew.
    """

    takes_records = True
    resumable = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._staged: StagedFile | None = None
        self._layout: RowLayout | None = None
        self._writer: Any = None
        self._schema: Any = None
        self._group: dict[str, Array] = {}
        self._filled = self._capacity = 0
        self._spool: StagedFile | None = None
        self._spooled = 0  # rows of the group that are in the spool

    def open(self, target: Target) -> None:
        """Start the file.

        Raises
        ------
        SinkError
            For pictures, for fields of dtypes that Parquet has not, or if the file cannot be made.
        MissingExtraError
            If pyarrow is not installed.
        """
        self._prepare(target)
        partial_of(self._spool_path()).unlink(missing_ok=True)
        if target.journaled:
            self._spool = StagedFile(self._spool_path())

    def _prepare(self, target: Target) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtraError("writing .parquet", "tables") from error
        layout = self._layout = RowLayout.of(target, self.name)
        facts = {"time_base": str(target.spec.time_base), "rate": str(target.spec.rate or ""), "kind": target.kind}
        columns = [pa.field(field.name, arrow_type(pa, field, self.name)) for field in layout.columns]
        self._schema = pa.schema(columns, {f"hyperframes.{key}": value for key, value in facts.items()})
        row_bytes = sum(field.dtype.itemsize * math.prod(field.shape) for field in layout.columns)
        self._capacity, self._filled, self._spooled = max(1, min(_GROUP_ROWS, _GROUP_BYTES // row_bytes)), 0, 0
        self._group = {field.name: np.empty((self._capacity, *field.shape), field.dtype) for field in layout.columns}
        self._staged = StagedFile(Path(self.name))
        with self._staged.guarded():
            self._writer = pq.ParquetWriter(self._staged.file, self._schema, write_page_checksum=True)

    def write(self, result: Clip | Records) -> None:
        """Add the rows; write a row group when one is full."""
        self._add(opened(self._layout, self.name).rows(result))

    def _add(self, rows: Mapping[str, Array], *, spool: bool = True) -> None:
        total, done = len(rows["frame"]), 0
        while done < total:
            taken = min(self._capacity - self._filled, total - done)
            for name, column in rows.items():
                self._group[name][self._filled : self._filled + taken] = column[done : done + taken]
            self._filled, done = self._filled + taken, done + taken
            if not spool:
                self._spooled = self._filled
            if self._filled == self._capacity:
                self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        self._put_into_spool()
        with self._giving_up_on_errors() as staged, staged.guarded():
            table = pa.Table.from_arrays(self._columns(0), schema=self._schema)
            self._writer.write_table(table, row_group_size=self._capacity)
        self._filled = self._spooled = 0

    def _columns(self, start: int) -> list[Any]:
        """Return the Arrow columns of the group's rows from `start` on."""
        import pyarrow as pa

        return [arrow_column(pa, self._group[field.name][start : self._filled], field.type) for field in self._schema]

    @contextmanager
    def _giving_up_on_errors(self) -> Iterator[StagedFile]:
        try:
            yield opened(self._staged, self.name)
        except BaseException:
            self.abort()
            raise

    def close(self) -> str:
        """Write the last row group and give the file its name."""
        opened(self._staged, self.name)
        if self._filled:
            self._flush()
        with self._giving_up_on_errors() as staged, staged.guarded():
            self._writer.close()
        spool, self._spool = self._spool, None
        self._staged, self._writer, self._group = None, None, {}
        name = staged.commit()
        if spool is not None:
            spool.discard()
        return name

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove the file; keep the rows besides it if asked to."""
        if self._writer is not None:
            self._writer.is_open = False  # else it would finish the file when it is collected
        if self._staged is not None:
            self._staged.discard()
        if self._spool is not None:
            self._spool.discard(keep=keep_parts)
        self._staged, self._writer, self._group, self._spool = None, None, {}, None

    # In pieces: files of their own, whose rows go through one writer again -----------------------------------------------

    def piece_results(self, target: Target) -> int:
        """Return 1: files are put together at any row."""
        return 1

    def piece(self, path: Path, first: int) -> ParquetSink:
        """Return one that writes a file of its own."""
        return ParquetSink(path)

    def gather(self, target: Target, pieces: Sequence[Path]) -> str:
        """Write the rows of all files into one, in row groups as if they had come in order."""
        import pyarrow.parquet as pq

        self._prepare(target)
        for piece in pieces:
            with pq.ParquetFile(piece) as file:
                for batch in file.iter_batches():
                    self._add(self._columns_of(batch))
        return self.close()

    # Going on after an interruption: the rows so far, plain, in a file of their own ------------------------------------

    def place(self) -> Path:
        """Return the file."""
        return Path(self.name)

    def settings(self) -> Mapping[str, Any]:
        """Return the version of the library, which enters the file."""
        import pyarrow as pa

        return {"pyarrow": pa.__version__}

    def _spool_path(self) -> Path:
        path = Path(self.name)
        return path.with_name(f".{path.name}.rows")

    def _put_into_spool(self) -> None:
        """Append the group's rows that are not there yet: the length of a record batch, then the batch."""
        if self._spool is None or self._spooled == self._filled:
            return
        import pyarrow as pa

        with self._giving_up_on_errors():
            batch = pa.record_batch(self._columns(self._spooled), schema=self._schema).serialize()
            self._spool.write(struct.pack("<Q", batch.size))
            self._spool.write(memoryview(batch))
        self._spooled = self._filled

    def checkpoint(self) -> Checkpoint:
        """Flush the rows."""
        self._put_into_spool()
        return Checkpoint({"bytes": opened(self._spool, self.name).checkpoint()})

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint | None:
        """Cut the rows to what the checkpoint told of and make the file of them anew; None if there are fewer."""
        spool = StagedFile.resumed(self._spool_path(), int(token["bytes"]))
        if spool is None:
            return None
        self._prepare(target)
        self._spool = spool
        with spool.partial.open("rb") as file:
            while size := file.read(8):
                self._add(self._read_batch(file.read(struct.unpack("<Q", size)[0])), spool=False)
        return Checkpoint(token)

    def _read_batch(self, data: bytes) -> dict[str, Array]:
        import pyarrow as pa

        return self._columns_of(pa.ipc.read_record_batch(pa.py_buffer(data), self._schema))

    def _columns_of(self, batch: Any) -> dict[str, Array]:
        import pyarrow as pa

        return {
            name: _numpy_column(pa, batch.column(name)).reshape(-1, *group.shape[1:])
            for name, group in self._group.items()
        }


class CsvSink(RowsFile):
    """A CSV file with a header line: ``frame``, ``seconds``, ``stop`` for spans, then the fields.

    Notes
    -----
    Numbers are the shortest text that reads back to the same value; vectors take one column a component,
    ``name_0``, ``name_1``, ... Failed frames are left out.
    """

    def head(self, layout: RowLayout) -> bytes:
        """Return the header line."""
        return _csv_head(layout)

    def whole_bytes(self, file: IO[bytes]) -> int:
        """Return where the last whole row ends: breaks within quotes end none."""
        file.seek(0)
        whole = length = quotes = 0
        for line in file:
            length, quotes = length + len(line), quotes + line.count(b'"')
            if line.endswith(b"\n") and quotes % 2 == 0:
                whole = length
        return whole

    def text(self, layout: RowLayout, result: Clip | Records) -> str:
        """Return one line a row."""
        columns: list[list[str]] = []
        for column in layout.rows(result).values():
            flat = column.reshape(len(column), math.prod(column.shape[1:]))
            columns.extend(_texts(flat[:, i]) for i in range(flat.shape[1]))
        return "".join(",".join(row) + "\r\n" for row in zip(*columns, strict=True))


def arrow_type(pa: Any, field: Field, sink: str) -> Any:
    """Return the Arrow type of a field: fixed-size lists for vectors, flattened where they have several axes."""
    try:
        value = pa.string() if field.dtype.kind in "OUT" else pa.from_numpy_dtype(field.dtype)
    except pa.ArrowNotImplementedError as error:
        raise SinkError(
            f"{sink} cannot hold field {field.name!r} of dtype {field.dtype}", sink=sink, hint="Convert it to numbers."
        ) from error
    return pa.list_(value, math.prod(field.shape)) if field.shape else value


def arrow_column(pa: Any, column: Array, kind: Any) -> Any:
    """Return a column (R, ...) as an Arrow array of the type that `arrow_type` said."""
    if not pa.types.is_fixed_size_list(kind):
        return pa.array(column, kind)
    flat = pa.array(column.reshape(-1), kind.value_type)
    return pa.FixedSizeListArray.from_arrays(flat, kind.list_size)


def _numpy_column(pa: Any, column: Any) -> Array:
    values = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
    array: Array = values.to_numpy(zero_copy_only=False)
    return array


def _csv_head(layout: RowLayout) -> bytes:
    names = [name for field in layout.columns for name in _component_names(field)]
    return (",".join(map(_quoted, names)) + "\r\n").encode()


def _component_names(field: Field) -> list[str]:
    if not field.shape:
        return [field.name]
    return [f"{field.name}_{i}" for i in range(math.prod(field.shape))]


def _texts(column: Array) -> list[str]:
    if column.dtype.kind in "iu":
        return list(map(str, column.tolist()))
    if column.dtype == np.float64:
        return list(map(repr, column.tolist()))
    if column.dtype.kind == "b":
        return ["1" if value else "0" for value in column.tolist()]
    if column.dtype.kind == "f":  # the shortest text for narrow floats
        return list(column.astype("U32").tolist())
    return [_quoted(str(value)) for value in column.tolist()]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text
