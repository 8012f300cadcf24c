"""Records and rows as JSON, one object a line."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.sinks.base import Checkpoint, Sink, Target
from hyperframes.sinks.checks import opened
from hyperframes.sinks.pieces import append_files
from hyperframes.sinks.rows import RowLayout
from hyperframes.sinks.staging import StagedFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hyperframes.frames import Array, Clip, Records

__all__ = ["LinesSink", "json_lines"]


class LinesSink(Sink):
    """A ``.jsonl`` file: ``frame``, ``seconds``, ``stop`` for spans, then the fields; vectors as arrays.

    Parameters
    ----------
    path : path
        Final name; written beside it as ``.NAME.part``.

    Notes
    -----
    JSON has no NaN and no infinity: they become null. Failed frames are left out.
    """

    takes_records = True
    resumable = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._staged: StagedFile | None = None
        self._layout: RowLayout | None = None

    def open(self, target: Target) -> None:
        """Make the file.

        Raises
        ------
        SinkError
            For pictures, or if the file cannot be made.
        """
        self._layout = RowLayout.of(target, self.name)
        self._staged = StagedFile(Path(self.name))

    def place(self) -> Path:
        """Return the file."""
        return Path(self.name)

    def checkpoint(self) -> Checkpoint:
        """Flush the file."""
        return Checkpoint({"bytes": opened(self._staged, self.name).checkpoint()})

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint | None:
        """Cut the file to what the checkpoint told of; None if it is shorter."""
        self._layout = RowLayout.of(target, self.name)
        self._staged = StagedFile.resumed(Path(self.name), int(token["bytes"]))
        return None if self._staged is None else Checkpoint(token)

    def piece_results(self, target: Target) -> int:
        """Return 1: files are put together at any row."""
        return 1

    def piece(self, path: Path, first: int) -> LinesSink:
        """Return one that writes a file of its own."""
        return LinesSink(path)

    def gather(self, target: Target, pieces: Sequence[Path]) -> str:
        """Write the lines of all files one after the other."""
        return append_files(Path(self.name), pieces)

    def write(self, result: Clip | Records) -> None:
        """Append one line a row."""
        lines = json_lines(opened(self._layout, self.name), result)
        opened(self._staged, self.name).write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> str:
        """Give the file its name."""
        staged = opened(self._staged, self.name)
        self._staged = None
        return staged.commit()

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove the file."""
        if self._staged is not None:
            self._staged.discard(keep=keep_parts)
            self._staged = None


def json_lines(layout: RowLayout, result: Clip | Records) -> list[str]:
    """Return each row of `result` as one line of JSON; NaN and infinity are null."""
    rows = layout.rows(result)
    values = zip(*(_plain(column) for column in rows.values()), strict=True)
    return [json.dumps(dict(zip(rows, row, strict=True)), ensure_ascii=False) for row in values]


def _plain(column: Array) -> list[Any]:
    """Return `column` as JSON values."""
    values = column.tolist()
    return _without_nan(values) if column.dtype.kind == "f" else values


def _without_nan(values: list[Any]) -> list[Any]:
    return [
        _without_nan(value) if isinstance(value, list) else (value if math.isfinite(value) else None)
        for value in values
    ]
