"""JPEG pictures in video packets: which settings and tables one brings along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Form = tuple[tuple[int, bytes], ...]
    """What kind of settings a picture brings along: (marker, what of its segment matters) in order."""

__all__ = ["jpeg_form"]


def jpeg_form(data: Any, height: int) -> Form | None:
    """Return which settings and tables a picture brings along, without what stands in the tables.

    Where two pictures are equal in this, a decoder that has read the second is in the same state whether it read the
    first or not.

    Parameters
    ----------
    data : bytes-like
        A packet of Motion JPEG.
    height : int
        Of the stream: lower pictures are fields, two in a packet.

    Returns
    -------
    tuple of (marker, bytes), or None
        None for what is not one baseline picture in one scan: nothing is said about such.

    References
    ----------
    .. [1] ITU-T T.81, "Digital compression and coding of continuous-tone still images", 1992, annex B.
    """
    form: list[tuple[int, bytes]] = []
    components = -1
    for marker, segment in _segments(data):
        kept = _KEPT[marker](segment) if marker in _KEPT else None
        if kept is None or (marker in _FRAMES and int.from_bytes(segment[1:3]) != height):
            return None
        form.append((marker, kept))
        if marker in _FRAMES:
            components = segment[5]
        elif marker == _SCAN:
            return tuple(form) if segment[0] == components else None
    return None


def _segments(data: Any) -> Iterator[tuple[int, bytes]]:
    """Yield (marker, content) of the whole segments before the first scan, and of its header."""
    view, at = memoryview(data), 2
    if bytes(view[:2]) != _START_OF_IMAGE:
        return
    while at + 4 <= len(view) and view[at] == 0xFF:
        marker = view[at + 1]
        if marker == 0xFF:  # fill
            at += 1
            continue
        stop = at + 2 + int.from_bytes(view[at + 2 : at + 4])
        if stop > len(view) or stop < at + 2 + _LEAST.get(marker, 2):
            return
        yield marker, bytes(view[at + 4 : stop])
        if marker == _SCAN:
            return
        at = stop


def _quantisers(body: bytes) -> bytes | None:
    """Return which tables a DQT segment holds; None where it is cut off."""
    names, at = bytearray(), 0
    while at < len(body):
        names.append(body[at])
        at += 65 if body[at] < 16 else 129
    return bytes(names) if at == len(body) else None


def _codes(body: bytes) -> bytes | None:
    """Return which tables a DHT segment holds; None where it is cut off."""
    names, at = bytearray(), 0
    while at + 17 <= len(body):
        names.append(body[at])
        at += 17 + sum(body[at + 1 : at + 17])
    return bytes(names) if at == len(body) else None


def _all(body: bytes) -> bytes:
    return body


def _only_name(body: bytes) -> bytes:
    return body[:8]


def _only_presence(body: bytes) -> bytes:
    return b""


_START_OF_IMAGE: Final = b"\xff\xd8"
_FRAMES: Final = frozenset({0xC0, 0xC1})  # baseline and extended, Huffman coded
_SCAN: Final = 0xDA
_LEAST: Final = {**dict.fromkeys(range(0xC0, 0xC4), 8), 0xDA: 6}
"""By marker: the least length that a segment states."""
_KEPT: Final[dict[int, Callable[[bytes], bytes | None]]] = {
    **dict.fromkeys((*_FRAMES, _SCAN), _all),
    0xDB: _quantisers,
    0xC4: _codes,
    0xDD: _only_presence,  # the interval of restarts ends with its picture
    **dict.fromkeys((0xE0, 0xFE), _all),  # JFIF, AVI1, comments: aspect, order of fields, quirks of encoders
    **dict.fromkeys(range(0xE1, 0xF0), _only_name),  # what they tell ends with their picture
}
"""By marker: what of a segment tells which settings a decoder keeps after the picture."""
