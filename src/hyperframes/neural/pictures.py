"""A hyperframe tensor to look at: maps as pictures, time as an animation."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import av
import cv2
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.frames import Array

__all__ = ["animation", "captioned", "enlarged", "hot", "side_by_side"]

_SHOWN_PX = 256
_FRAMES_A_SECOND = 5
_LINE_PX, _MARGIN_PX = 22, 8
_INK = (30, 30, 30)


def hot(values: Array) -> Array:
    """Return (H, W) uint8 as (H, W, 3) RGB from black over red and yellow to white."""
    return np.ascontiguousarray(cv2.applyColorMap(np.ascontiguousarray(values), cv2.COLORMAP_HOT)[..., ::-1])


def enlarged(values: Array, side: int = _SHOWN_PX) -> Array:
    """Return a map (H, W) or (H, W, 3) with its longer side `side` or a little less, every place a square."""
    factor = max(1, side // max(values.shape[:2]))
    return np.ascontiguousarray(values.repeat(factor, 0).repeat(factor, 1))


def side_by_side(pictures: list[Array], gap: int = 4) -> Array:
    """Return pictures of one size in a row, white between them."""
    widths = [(0, 0), (0, gap), *[(0, 0)] * (pictures[0].ndim - 2)]
    row = [np.pad(one, widths, constant_values=255) for one in pictures[:-1]]
    return np.hstack([*row, pictures[-1]])


def captioned(picture: Array, title: str, panels: Sequence[str] = ()) -> Array:
    """Return a picture (H, W) or (H, W, 3) on white, RGB, with a line above it and one over each of its `panels`."""
    coloured = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, 2)
    wide = max(coloured.shape[1], *(_width(line) for line in title.split("\n")))
    lines = title.split("\n")
    top = _MARGIN_PX + _LINE_PX * (len(lines) + bool(panels))
    sheet = np.full((top + len(coloured) + _MARGIN_PX, wide + 2 * _MARGIN_PX, 3), 255, np.uint8)
    sheet[top : top + len(coloured), _MARGIN_PX : _MARGIN_PX + coloured.shape[1]] = coloured
    for number, line in enumerate(lines):
        _write(sheet, line, _MARGIN_PX, _LINE_PX * (number + 1))
    for number, name in enumerate(panels):
        _write(sheet, name, _MARGIN_PX + number * coloured.shape[1] // len(panels), top - _MARGIN_PX)
    return sheet


def _width(text: str) -> int:
    (width, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)
    return int(width)


def _write(sheet: Array, text: str, x: int, y: int) -> None:
    cv2.putText(sheet, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, 0.45, _INK, 1, cv2.LINE_AA)


def animation(slices: Array) -> bytes:
    """Return a GIF of (W_t, H, W) uint8, 200 ms a slice, over and over."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="gif", options={"loop": "0"}) as container:
        stream = container.add_stream("gif", rate=_FRAMES_A_SECOND)
        stream.width, stream.height, stream.pix_fmt = slices.shape[2], slices.shape[1], "gray"
        for one in slices:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(one), format="gray")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()
