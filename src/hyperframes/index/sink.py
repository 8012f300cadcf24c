"""Results of a run as a LanceDB table: rows that can be filtered, and vectors that can be searched."""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hyperframes.errors import HyperframesError, MissingExtraError, SinkError
from hyperframes.index.store import reason_of
from hyperframes.sinks import Sink
from hyperframes.sinks.checks import opened
from hyperframes.sinks.rows import RowLayout
from hyperframes.sinks.staging import StagedFolder
from hyperframes.sinks.table import arrow_column, arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.frames import Array, Clip, Records
    from hyperframes.sinks import Target

__all__ = ["LanceSink"]

_GROUP_ROWS: Final = 1 << 16
_GROUP_BYTES: Final = 16 << 20
_KIND_KEY: Final = b"hyperframes.kind"
_INSIDE: Final = "table"


class LanceSink(Sink):
    """A ``.lance`` folder: ``row``, ``frame``, ``seconds``, ``stop`` for spans, then the fields; vectors as fixed-size lists.

    Parameters
    ----------
    path : path
        Final name; written beside it as ``.NAME.part``. A table that this sink wrote is replaced when the new one is whole;
        a dataset of descriptors never is.

    Notes
    -----
    Fragments hold at most 65,536 rows or 16 MiB, so memory is bounded; they do not depend on the size of hyperframes. Failed
    frames are left out: ``frame`` tells which. Rows of a table have no order of their own: ``row`` counts them.
    """

    takes_records = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._staged: StagedFolder | None = None
        self._layout: RowLayout | None = None
        self._schema: Any = None
        self._table: Any = None
        self._waiting: list[dict[str, Array]] = []
        self._num_waiting = self._capacity = self._num_rows = 0

    def place(self) -> Path:
        """Return the folder."""
        return Path(self.name)

    def open(self, target: Target) -> None:
        """Make an empty table in a temporary folder.

        Raises
        ------
        SinkError
            For pictures, for a field named ``row``, or if the folder cannot be made or holds something else.
        MissingExtraError
            If LanceDB is not installed.
        """
        try:
            import lancedb
            import pyarrow as pa
        except ImportError as error:
            raise MissingExtraError("writing .lance", "index") from error
        layout = self._layout = RowLayout.of(target, self.name)
        if any(field.name == "row" for field in layout.fields):
            raise SinkError(
                f"{self.name} cannot hold two columns named 'row'", sink=self.name, hint="Rename that field."
            )
        facts = {"time_base": str(target.spec.time_base), "rate": str(target.spec.rate or ""), "kind": target.kind}
        columns = [pa.field(field.name, arrow_type(pa, field, self.name)) for field in layout.columns]
        metadata = {f"hyperframes.{key}": value for key, value in facts.items()}
        self._schema = pa.schema([pa.field("row", pa.int64()), *columns], metadata)
        row_bytes = 8 + sum(field.dtype.itemsize * math.prod(field.shape) for field in layout.columns)
        self._capacity = max(1, min(_GROUP_ROWS, _GROUP_BYTES // row_bytes))
        self._waiting, self._num_waiting, self._num_rows = [], 0, 0
        path = Path(self.name)
        self._staged = StagedFolder(path, replaceable=path.is_dir() and _is_ours(lancedb, path))
        with self._giving_up_on_errors() as staged:
            self._table = lancedb.connect(staged.partial).create_table(_INSIDE, schema=self._schema)

    def write(self, result: Clip | Records) -> None:
        """Add the rows; write a fragment when there are enough."""
        rows = {name: np.array(column) for name, column in opened(self._layout, self.name).rows(result).items()}
        while (count := len(rows["frame"])) and self._num_waiting + count >= self._capacity:
            taken = self._capacity - self._num_waiting
            self._wait_with({name: column[:taken] for name, column in rows.items()})
            rows = {name: column[taken:] for name, column in rows.items()}
            self._flush()
        self._wait_with(rows)

    def _wait_with(self, rows: dict[str, Array]) -> None:
        if len(rows["frame"]):
            self._waiting.append(rows)
            self._num_waiting += len(rows["frame"])

    def _flush(self) -> None:
        import pyarrow as pa

        waiting, self._waiting = self._waiting, []
        columns = {name: np.concatenate([rows[name] for rows in waiting]) for name in waiting[0]}
        columns["row"] = np.arange(self._num_rows, self._num_rows + self._num_waiting)
        self._num_rows, self._num_waiting = self._num_rows + self._num_waiting, 0
        arrays = [arrow_column(pa, columns[field.name], field.type) for field in self._schema]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        with self._giving_up_on_errors():
            if _any_nan(columns):  # plain adding refuses vectors that hold one; no row is there yet
                self._table.merge_insert("row").when_not_matched_insert_all().execute(table)
            else:
                self._table.add(table)

    def close(self) -> str:
        """Write the last fragment and give the folder its name."""
        opened(self._staged, self.name)
        if self._num_waiting:
            self._flush()
        with self._giving_up_on_errors() as staged:
            inside = staged.partial / f"{_INSIDE}.lance"
            for entry in inside.iterdir():
                entry.rename(staged.partial / entry.name)
            inside.rmdir()
            self._staged = self._table = None
            return staged.commit()

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove the folder."""
        if self._staged is not None:
            self._staged.discard()
        self._staged, self._table, self._waiting, self._num_waiting = None, None, [], 0

    @contextmanager
    def _giving_up_on_errors(self) -> Iterator[StagedFolder]:
        try:
            yield opened(self._staged, self.name)
        except BaseException as error:
            self.abort()
            if isinstance(error, OSError | RuntimeError | ValueError) and not isinstance(error, HyperframesError):
                raise SinkError(f"cannot write {self.name}: {reason_of(error)}", sink=self.name) from error
            raise


def _any_nan(columns: dict[str, Array]) -> bool:
    """Whether a vector holds a NaN."""
    return any(c.ndim > 1 and c.dtype.kind == "f" and bool(np.isnan(c).any()) for c in columns.values())


def _is_ours(lancedb: Any, path: Path) -> bool:
    """Return whether a table of this sink stands there.

    Raises
    ------
    SinkError
        If a dataset of descriptors stands there.
    """
    from hyperframes.index.store import LAYOUT_KEY

    try:
        facts = lancedb.connect(path.parent).open_table(path.stem).schema.metadata or {}
    except (OSError, RuntimeError, ValueError):
        return False
    if LAYOUT_KEY in facts:
        raise SinkError(
            f"cannot write {path}: it holds descriptors",
            sink=str(path),
            hint="Give another name; descriptors are added with 'hyperframes describe SOURCE --to DATASET'.",
        )
    return _KIND_KEY in facts
