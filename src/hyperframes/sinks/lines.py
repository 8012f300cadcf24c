"""Records and rows as JSON, one object a line."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from hyperframes.sinks.rows import RowLayout, RowsFile

if TYPE_CHECKING:
    from hyperframes.frames import Array, Clip, Records

__all__ = ["LinesSink", "json_lines"]


class LinesSink(RowsFile):
    """A ``.jsonl`` file: ``frame``, ``seconds``, ``stop`` for spans, then the fields; vectors as arrays.

    Notes
    -----
    JSON has no NaN and no infinity: they become null. Failed frames are left out.
    """

    def text(self, layout: RowLayout, result: Clip | Records) -> str:
        """Return one line a row."""
        return "".join(f"{line}\n" for line in json_lines(layout, result))


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
