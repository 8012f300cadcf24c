"""Draw what other operators found on the pictures they found it in."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec, Layout, RecordSpec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.checks import check_count, check_number

if TYPE_CHECKING:
    from hyperframes.frames import Array, Field, Records, Spec
    from hyperframes.packing import Hyperframe

__all__ = ["Overlay"]

_COLOURS = ((255, 64, 64), (64, 220, 64), (80, 140, 255), (255, 200, 40), (230, 90, 255), (60, 220, 220))
_DARK, _LIGHT = (0, 0, 0), (255, 255, 255)
_FONT = cv2.FONT_HERSHEY_SIMPLEX


@dataclass(frozen=True)
class Overlay(Operator):
    """Draw records on pictures: boxes with label and score, other numbers as lines of text, vectors as their largest value.

    Two inputs: pictures (H, W, 3), converted to RGB, and records of the same frames -> pictures of the same shape, dtype
    uint8. In a chain it follows the operator that makes the records and draws on what that one reads. No halo.

    Parameters
    ----------
    box : str
        Field with (left, top, right, bottom) of a box, in pixels, or in shares of the picture with ``relative=true``.
    label : str
        Field with the number or the name of what was found.
    score : str
        Field with how sure that is, 0 to 1.
    names : str
        A JSON file with a list of names: what numbers of labels, and places in vectors, are called.
    least : float
        Boxes with a lower score are left out.
    relative : bool
        Whether boxes are in shares of width and height.
    thickness : int
        Of lines, in pixels.

    Examples
    --------
    ``hyperframes run in.mp4 out.mp4 -p measure -p overlay``
    """

    name: ClassVar[str] = "overlay"
    formats: ClassVar[tuple[str, ...] | None] = ("rgb24",)
    wants_layout: ClassVar[Layout | None] = "NHWC"
    reads_both: ClassVar[bool] = True

    box: str = "box"
    label: str = "label"
    score: str = "score"
    names: str = ""
    least: float = 0.0
    relative: bool = False
    thickness: int = 2

    def __post_init__(self) -> None:
        check_count(self.name, "thickness", self.thickness, 1, 32)
        check_number(self.name, "least", self.least, 0.0, 1.0)

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: pictures like the first input's.

        Raises
        ------
        PipelineError
            If the inputs are not pictures and records, or the records have nothing that can be drawn.
        """
        if len(inputs) != 2 or not isinstance(inputs[0], FrameSpec) or not isinstance(inputs[1], RecordSpec):
            raise PipelineError(
                f"operator 'overlay' reads pictures and records of them, got {', '.join(map(str, inputs))}",
                stage=self.name,
                got=inputs,
                hint="Let it follow the operator that makes the records: -p measure -p overlay",
            )
        pictures, records = inputs[0], inputs[1]
        assert isinstance(pictures, FrameSpec)
        if pictures.pixel_format != "rgb24":
            raise PipelineError(
                f"operator 'overlay' draws on pictures: expected rgb24, got {pictures}", stage=self.name, got=pictures
            )
        fields = {field.name: field for field in records.fields}
        if self.box in fields and fields[self.box].shape != (4,):
            raise PipelineError(
                f"operator 'overlay': expected 4 numbers in box {self.box!r}, got shape {fields[self.box].shape}",
                stage=self.name,
                got=fields[self.box].shape,
            )
        if self.box not in fields and not any(_is_drawn(field) for field in records.fields):
            raise PipelineError(
                f"operator 'overlay' finds nothing to draw: expected a field {self.box!r} of boxes, numbers or vectors, "
                f"got {', '.join(fields) or 'no fields'}",
                stage=self.name,
                got=tuple(fields),
            )
        if self.names:
            _names(self.names)
        return Contract((Output("frames", "frames", pictures),))

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Copy the pictures and draw the records of each on it."""
        pictures, found = inputs
        target = outputs[0].data
        np.copyto(target, pictures.core_data)
        records = found.records
        assert records is not None  # the second input is records
        start, stop = pictures.header.core
        names = _names(self.names) if self.names else ()
        for row in np.flatnonzero((records.index >= start) & (records.index < stop)):
            self._draw(target[records.index[row] - start], records, int(row), names)

    def _draw(self, picture: Array, records: Records, row: int, names: tuple[str, ...]) -> None:
        columns = records.columns
        score = float(columns[self.score][row]) if self.score in columns else None
        if self.box in columns:
            if score is None or score >= self.least:
                self._draw_box(picture, columns[self.box][row], self._caption(columns, row, score, names))
            return
        line = 0
        for field in records.spec.fields:
            if _is_drawn(field):
                line += 1
                _write(picture, _text(field.name, columns[field.name][row], names), (6, 20 * line), _LIGHT)

    def _caption(self, columns: Any, row: int, score: float | None, names: tuple[str, ...]) -> str:
        parts = []
        if self.label in columns:
            parts.append(_called(columns[self.label][row], names))
        if score is not None:
            parts.append(f"{score:.2f}")
        return " ".join(parts)

    def _draw_box(self, picture: Array, box: Array, caption: str) -> None:
        height, width = picture.shape[:2]
        corners = np.asarray(box, np.float64) * ((width, height) * 2 if self.relative else 1)
        if not np.isfinite(corners).all():
            return
        left, top, right, bottom = np.clip(corners, -32_000, 32_000).round().astype(int).tolist()
        colour = _COLOURS[sum(caption.partition(" ")[0].encode()) % len(_COLOURS)]
        cv2.rectangle(picture, (left, top), (right, bottom), colour, self.thickness)
        if caption:
            _write(picture, caption, (left + 2, max(14, top - 4)), colour)


def _is_drawn(field: Field) -> bool:
    return field.dtype.kind in "iufU" and len(field.shape) <= 1


def _write(picture: Array, text: str, at: tuple[int, int], colour: tuple[int, int, int]) -> None:
    """Write on a dark edge, so that it reads on any picture."""
    plain = text.encode("ascii", "replace").decode()  # the font has no other letters
    cv2.putText(picture, plain, at, _FONT, 0.5, _DARK, 3, cv2.LINE_AA)
    cv2.putText(picture, plain, at, _FONT, 0.5, colour, 1, cv2.LINE_AA)


def _text(name: str, value: Any, names: tuple[str, ...]) -> str:
    if np.ndim(value):
        if not len(value):
            return name
        place = int(np.argmax(value))
        return f"{name} {_called(place, names)} {float(value[place]):.3g}"
    return f"{name} {value}" if isinstance(value, str) else f"{name} {value:.4g}"


def _called(label: Any, names: tuple[str, ...]) -> str:
    if isinstance(label, str):
        return str(label)
    number = int(label)
    return names[number] if 0 <= number < len(names) else str(number)


@functools.lru_cache(maxsize=8)
def _names(path: str) -> tuple[str, ...]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise PipelineError(f"operator 'overlay': cannot read names from {path}: {reason}", stage="overlay") from error
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise PipelineError(
            f"operator 'overlay': {path} is no list of names", stage="overlay", got=type(found).__name__
        )
    return tuple(found)
