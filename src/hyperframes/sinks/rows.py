"""Records, spans and frames of one or no axis as rows of named columns, and text files that hold them."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hyperframes.errors import SinkError
from hyperframes.frames import Array, Clip, Field, FrameSpec, Records
from hyperframes.sinks.base import Checkpoint, Sink, Target
from hyperframes.sinks.checks import opened
from hyperframes.sinks.failed import without_failed
from hyperframes.sinks.pieces import append_files
from hyperframes.sinks.staging import StagedFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

__all__ = ["RowLayout", "RowsFile", "whole_lines"]

_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How results become rows: ``frame``, ``seconds``, ``stop`` for spans, then the fields.

    Frames of shape () are one column, frames of shape (K,) one column a name, or one column ``values`` of vectors
    where they have no names.
    """

    fields: tuple[Field, ...]
    """Of the values, without ``frame``, ``seconds`` and ``stop``."""
    spans: bool
    seconds_per_tick: float

    @classmethod
    def of(cls, target: Target, sink: str) -> RowLayout:
        """Return the layout for the results of `target`.

        Raises
        ------
        SinkError
            For frames that are pictures or of several axes, and for field names that are taken.
        """
        spec = target.spec
        fields = _frame_fields(spec, sink) if isinstance(spec, FrameSpec) else spec.fields
        spans = target.kind == "spans"
        taken = {"frame", "seconds", *(["stop"] if spans else [])}
        for field in fields:
            if field.name in taken:
                raise SinkError(
                    f"{sink} cannot hold two columns named {field.name!r}",
                    sink=sink,
                    hint=f"Rename that field: {', '.join(sorted(taken))} are written for every row.",
                )
            taken.add(field.name)
        return cls(fields, spans, float(spec.time_base))

    @property
    def columns(self) -> tuple[Field, ...]:
        """All columns in order."""
        integer = np.dtype(np.int64)
        stop = (Field("stop", integer),) if self.spans else ()
        return (Field("frame", integer), Field("seconds", np.dtype(np.float64)), *stop, *self.fields)

    def rows(self, result: Clip | Records) -> dict[str, Array]:
        """Return the columns of `result`, each (R, ...); failed frames are left out."""
        if isinstance(result, Clip):
            result = without_failed(result)
        columns: dict[str, Array] = {"frame": result.index, "seconds": result.pts * self.seconds_per_tick}
        if isinstance(result, Records):
            if self.spans and result.stop is not None:
                columns["stop"] = result.stop
            return columns | {field.name: result.columns[field.name] for field in self.fields}
        data = result.data
        if len(self.fields) == 1:
            return columns | {self.fields[0].name: data.reshape(len(data), *self.fields[0].shape)}
        return columns | {field.name: data[:, i] for i, field in enumerate(self.fields)}


class RowsFile(Sink):
    """A text file with some text for every row; what is written for a row, and above all rows, is a subclass's to say.

    Parameters
    ----------
    path : path
        Final name; written beside it as ``.NAME.part``.
    """

    takes_records = True
    resumable = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._staged: StagedFile | None = None
        self._layout: RowLayout | None = None

    def head(self, layout: RowLayout) -> bytes:
        """Return what stands above all rows."""
        return b""

    @abstractmethod
    def text(self, layout: RowLayout, result: Clip | Records) -> str:
        """Return the rows of `result` as text."""

    def open(self, target: Target) -> None:
        """Make the file and write what stands above all rows.

        Raises
        ------
        SinkError
            For pictures, or if the file cannot be made.
        """
        self._layout = RowLayout.of(target, self.name)
        self._staged = StagedFile(Path(self.name))
        self._staged.write(self.head(self._layout))

    def open_kept(self, target: Target, *, resumed: bool) -> None:
        """Make the file, in place of `open`, so that a kill leaves what was flushed; `resumed`: go on with what one left.

        Raises
        ------
        SinkError
            As `open`, or if what was left has other columns.
        """
        self._layout = RowLayout.of(target, self.name)
        head = self.head(self._layout)
        if not resumed:
            self._staged = StagedFile(Path(self.name), kept=True)
            self._staged.write(head)
            return
        staged = StagedFile.continued(Path(self.name), self.whole_bytes)
        if length := staged.file.tell():
            staged.file.seek(0)
            found = staged.file.read(len(head))
            staged.file.seek(length)
            if found != head:
                staged.discard(keep=True)
                raise SinkError(
                    f"{self.name} cannot be gone on with: the killed run wrote other columns to {staged.partial}",
                    sink=self.name,
                    hint="Run with the operators of that run, or write to another name.",
                )
        else:
            staged.write(head)
        self._staged = staged

    def whole_bytes(self, file: IO[bytes]) -> int:
        """Return where the last whole row of a file ends, whose writer may have been killed."""
        return whole_lines(file)

    def flush(self) -> None:
        """Hand all rows over to the operating system."""
        opened(self._staged, self.name).flush()

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

    def piece(self, path: Path, first: int) -> Self:
        """Return one that writes a file of its own."""
        return type(self)(path)

    def gather(self, target: Target, pieces: Sequence[Path]) -> str:
        """Write the rows of all files below one head."""
        return append_files(Path(self.name), pieces, head=self.head(RowLayout.of(target, self.name)))

    def write(self, result: Clip | Records) -> None:
        """Append the text of every row."""
        text = self.text(opened(self._layout, self.name), result)
        opened(self._staged, self.name).write(text.encode())

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


def whole_lines(file: IO[bytes]) -> int:
    """Return where the last line of a file ends that has its break."""
    stop = file.seek(0, os.SEEK_END)
    while stop:
        start = file.seek(max(0, stop - _TAIL_BYTES))
        at = file.read(stop - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        stop = start
    return 0


def _frame_fields(spec: FrameSpec, sink: str) -> tuple[Field, ...]:
    if len(spec.shapes) != 1 or len(spec.shapes[0]) > 1:
        raise SinkError(
            f"{sink} holds rows: expected records or frames of at most one axis, got {spec}",
            sink=sink,
            hint="Write pictures to .npy, .zarr, a video or a folder of images.",
        )
    shape = spec.shapes[0]
    if not shape:
        return (Field(spec.names[0] if spec.names else "value", spec.dtype),)
    if len(spec.names) == math.prod(shape):
        return tuple(Field(name, spec.dtype) for name in spec.names)
    return (Field("values", spec.dtype, shape),)
