"""The one field that PyAV cannot write into Matroska and WebM: the shape of a pixel.

FFmpeg's muxer takes it from a place that PyAV does not reach, so codecs that do not carry it themselves (VP9, AV1,
FFV1, ProRes) would lose it. A track name of `PLACEHOLDER` keeps the room; `set_display_size` turns it into the size
at which players show the picture, without moving another byte.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

__all__ = ["PLACEHOLDER", "set_display_size"]

PLACEHOLDER = "this name keeps room for the display size"

_SEGMENT, _TRACKS, _TRACK, _VIDEO, _NAME = 0x18538067, 0x1654AE6B, 0xAE, 0xE0, 0x536E
_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT, _VOID = 0x54B0, 0x54BA, 0x54B2, 0xEC
_PIXELS, _ASPECT_RATIO = 0, 3
_SIZE_BYTES = 2
"""Of the elements written here: enough for 16,382 bytes."""


def set_display_size(file: IO[bytes], width: int, height: int, pixel: Fraction) -> None:
    """Make the track named `PLACEHOLDER` in `file`, of `width` x `height` pixels, show with `pixel` aspect ratio.

    Raises
    ------
    ValueError
        If there is no such track.
    """
    start, stop = _find(file, 0, None, _SEGMENT)
    start, stop = _find(file, start, stop, _TRACKS)
    file.seek(start)
    tracks = file.read(stop - start)
    for kind, _, first, last in _children(tracks):
        entry = tracks[first:last]
        if kind == _TRACK and PLACEHOLDER.encode() in entry:
            file.seek(start + first)
            file.write(_rewritten(entry, _display(width, height, pixel)))
            return
    raise ValueError("no track keeps room for its display size")


def _display(width: int, height: int, pixel: Fraction) -> bytes:
    """Return the elements that say the size in pixels where that is whole, else the ratio of its sides."""
    shown = width * pixel
    unit = _PIXELS if shown.denominator == 1 else _ASPECT_RATIO
    ratio = shown if unit == _PIXELS else shown / height
    across, down = (ratio.numerator, height) if unit == _PIXELS else (ratio.numerator, ratio.denominator)
    return (
        _element(_DISPLAY_UNIT, unit.to_bytes(1))
        + _element(_DISPLAY_WIDTH, across.to_bytes(4))
        + _element(_DISPLAY_HEIGHT, down.to_bytes(4))
    )


def _rewritten(entry: bytes, display: bytes) -> bytes:
    """Return the track entry with `display` in place of the name, and as long."""
    result = b""
    for kind, begin, first, last in _children(entry):
        if kind == _VIDEO:
            kept = _without(entry[first:last], {_DISPLAY_UNIT, _DISPLAY_WIDTH, _DISPLAY_HEIGHT})
            result += _element(_VIDEO, kept + display)
        elif kind != _NAME:
            result += entry[begin:last]
    return result + _element(_VOID, bytes(len(entry) - len(result) - 1 - _SIZE_BYTES))


def _without(data: bytes, kinds: set[int]) -> bytes:
    return b"".join(data[begin:last] for kind, begin, _, last in _children(data) if kind not in kinds)


def _element(kind: int, content: bytes) -> bytes:
    size = len(content) | 1 << (7 * _SIZE_BYTES)
    return kind.to_bytes((kind.bit_length() + 7) // 8) + size.to_bytes(_SIZE_BYTES) + content


def _find(file: IO[bytes], start: int, stop: int | None, wanted: int) -> tuple[int, int]:
    """Return where the content of the first element `wanted` in [start, stop) begins and ends."""
    position = start
    while stop is None or position < stop:
        file.seek(position)
        head = file.read(12)
        if not head:
            break
        kind, first, last = _header(head, 0)
        if kind == wanted:
            return position + first, position + last
        position += last
    raise ValueError(f"no Matroska element {wanted:#x}")


def _children(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (id, begin, begin of its content, end) of each element in `data`."""
    position = 0
    while position < len(data):
        kind, first, last = _header(data, position)
        yield kind, position, first, last
        position = last


def _header(data: bytes, position: int) -> tuple[int, int, int]:
    """Return (id, begin of the content, end) of the element at `position`."""
    length = 9 - data[position].bit_length()
    kind = int.from_bytes(data[position : position + length])
    position += length
    length = 9 - data[position].bit_length()
    size = int.from_bytes(data[position : position + length]) & ((1 << 7 * length) - 1)
    position += length
    return kind, position, position + size
