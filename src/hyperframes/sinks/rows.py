"""Records, spans and frames of one or no axis as rows of named columns: what tables and lines write."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import SinkError
from hyperframes.frames import Array, Clip, Field, FrameSpec, Records
from hyperframes.sinks.failed import without_failed

if TYPE_CHECKING:
    from hyperframes.sinks.base import Target

__all__ = ["RowLayout"]


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
