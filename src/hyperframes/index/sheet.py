"""Contact sheets: what was found as pictures, on one page or in one picture."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cv2
import numpy as np

from hyperframes.drivers import run
from hyperframes.drivers.page import document
from hyperframes.drivers.quantity import count_text
from hyperframes.errors import HyperframesError, SinkError
from hyperframes.sources import open_source

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from hyperframes.frames import Array
    from hyperframes.index.search import Hit

__all__ = ["check_sheet_path", "write_sheet"]

_SUFFIXES: Final = (".html", ".png")
_WIDTH, _HEIGHT, _CAPTION, _GAP, _COLUMNS, _TITLE, _SMALL = 320, 180, 44, 12, 4, 40, 0.45

_STYLE: Final = (
    "<style>.hits{display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:18px 12px;margin-top:22px}"
    "figure{margin:0}figure img{display:block;width:100%;border-radius:6px;margin-bottom:4px}"
    "figcaption{overflow-wrap:anywhere;font-size:14px}</style>"
)


def check_sheet_path(path: str | os.PathLike[str]) -> Path:
    """Return `path` if a sheet can be written there.

    Raises
    ------
    SinkError
        If its suffix is neither ``.html`` nor ``.png``, or its folder does not exist.
    """
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise SinkError(f"a sheet is a file ending in .html or .png: got {path.name!r}", sink=str(path))
    if not path.parent.is_dir():
        raise SinkError(f"cannot write {path}: {str(path.parent)!r} does not exist", sink=str(path))
    return path


def write_sheet(hits: Sequence[Hit], path: str | os.PathLike[str], *, title: str = "") -> list[str]:
    """Write a contact sheet: for each hit the frame in the middle of its span, or where a copy stands, with source, time and score.

    Parameters
    ----------
    hits : sequence of Hit
        What was found, in the order of the sheet.
    path : path
        ``.html`` (one file, nothing from elsewhere) or ``.png``; written beside its name first.
    title : str, optional
        Heading of the page.

    Returns
    -------
    list of str
        What went wrong with a source: its frame is a grey picture on the sheet.

    Raises
    ------
    SinkError
        If the suffix is another one, or the file cannot be written.
    """
    path = check_sheet_path(path)
    pictures, warnings = [], []
    for hit in hits:
        try:
            pictures.append(_framed(_frame_of(hit)))
        except HyperframesError as error:
            warnings.append(f"no picture of {hit.source}: {error}")
            pictures.append(np.full((_HEIGHT, _WIDTH, 3), 96, np.uint8))
    whole = _page(hits, pictures, title) if path.suffix.lower() == ".html" else _png(_sheet(hits, pictures, title))
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.write_bytes(whole)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SinkError(f"cannot write {path}: {error.strerror or error}", sink=str(path)) from error
    return warnings


def _frame_of(hit: Hit) -> Array:
    """Return the frame on screen in the middle of the span, or when what was asked for stands there, (h, w, 3) uint8."""
    source = open_source(hit.source)
    try:
        middle = (hit.start_seconds + hit.stop_seconds) / 2
        clip = source.at(seconds=middle if hit.at_seconds is None else hit.at_seconds)
    finally:
        source.close()
    frames = run(clip, [], pixel_format="rgb24", workers=1).array
    assert isinstance(frames, np.ndarray)
    picture: Array = frames[0]
    return picture


def _framed(frame: Array) -> Array:
    """Return the picture as large as fits, on black."""
    height, width = frame.shape[:2]
    scale = min(_WIDTH / width, _HEIGHT / height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = cv2.resize(frame, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    canvas = np.zeros((_HEIGHT, _WIDTH, 3), np.uint8)
    top, left = (_HEIGHT - size[1]) // 2, (_WIDTH - size[0]) // 2
    canvas[top : top + size[1], left : left + size[0]] = small
    return canvas


def _captions(hit: Hit) -> tuple[str, str]:
    name = hit.source.rpartition("/")[2]
    place = f"{hit.start_seconds:.2f} to {hit.stop_seconds:.2f} s"
    if hit.at_seconds is not None:
        place = f"the same or a copy, at {hit.at_seconds:.1f} s"
    return name if len(name) <= 40 else f"...{name[-37:]}", f"{place}, score {hit.score:.3f}"


def _sheet(hits: Sequence[Hit], pictures: Sequence[Array], title: str) -> Array:
    rows = max(1, -(-len(hits) // _COLUMNS))
    columns = max(1, min(_COLUMNS, len(hits)))
    step_x, step_y = _WIDTH + _GAP, _HEIGHT + _CAPTION + _GAP
    sheet = np.full((_TITLE + rows * step_y + _GAP, columns * step_x + _GAP, 3), 255, np.uint8)
    _write(sheet, title or "What was found", (_GAP, 34), 0.7)
    if not hits:
        _write(sheet, "nothing was found", (_GAP, _TITLE + _GAP + 16), _SMALL)
    for number, (hit, picture) in enumerate(zip(hits, pictures, strict=True)):
        top, left = _TITLE + _GAP + number // _COLUMNS * step_y, _GAP + number % _COLUMNS * step_x
        sheet[top : top + _HEIGHT, left : left + _WIDTH] = picture
        for line, text in enumerate(_captions(hit)):
            _write(sheet, text, (left, top + _HEIGHT + 16 + 18 * line), _SMALL)
    return sheet


def _write(sheet: Array, text: str, place: tuple[int, int], scale: float) -> None:
    plain = text.encode("ascii", "replace").decode()  # the font has no other letters
    cv2.putText(sheet, plain, place, cv2.FONT_HERSHEY_SIMPLEX, scale, (20, 20, 20), 1, cv2.LINE_AA)


def _png(picture: Array) -> bytes:
    return _encoded(".png", picture)


def _encoded(suffix: str, picture: Array) -> bytes:
    done, data = cv2.imencode(suffix, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    assert done
    encoded: Any = data.tobytes()
    return bytes(encoded)


def _page(hits: Sequence[Hit], pictures: Sequence[Array], title: str) -> bytes:
    figures = []
    for hit, picture in zip(hits, pictures, strict=True):
        data = base64.b64encode(_encoded(".jpg", picture)).decode()
        name, facts = map(html.escape, _captions(hit))
        figures.append(
            f'<figure title="{html.escape(hit.source, quote=True)}"><img alt="{name}" '
            f'src="data:image/jpeg;base64,{data}"><figcaption>{name}<br><span class="quiet">{facts}</span></figcaption></figure>'
        )
    name = title or "What was found"
    found = count_text(len(hits), "span")
    header = (
        f'{_STYLE}<p class="eyebrow">Hyperframes search</p><h1>{html.escape(name)}</h1>'
        f'<p class="quiet">{found}, most alike first; the score is a cosine: 1 for the same</p>'
    )
    return document(f"{name} - Hyperframes search", header, f'<div class="hits">{"".join(figures)}</div>').encode()
