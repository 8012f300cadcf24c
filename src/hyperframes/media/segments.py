"""Segments of a recording: packets as they came in a NUT file that players open, and beside it an index of fixed rows.

NUT keeps any codec's packets byte for byte, with any times, and is whole up to its last packet at every moment; Matroska
rewrites H.264 and holds a cluster back, MPEG-TS carries few codecs. What NUT cannot say stands in the index: the packets'
own times, when they arrived, and which frames came out of them.

    name.nut     one video stream; times are arrival times, so that it plays as it was received
    name.index   a line of JSON (what the stream is), then rows of 40 bytes, little endian, each with its CRC

While a segment is written both names end in ``.part``.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from hyperframes.frames import Array

__all__ = ["DAMAGED", "FRAME", "PACKET", "RESTART", "Row", "SegmentReader", "SegmentWriter", "rows_of"]

PACKET, FRAME, DAMAGED, RESTART = 1, 2, 3, 4
"""Kinds of rows: a packet; a frame that it completed; a packet that did not decode; a new epoch before the next frame."""

NONE: Final = -(1 << 63)
"""Stands for no time."""
_ROW: Final = struct.Struct("<IBB2xqqqq")
_FIELDS: Final = np.dtype(
    [
        ("crc", "<u4"),
        ("kind", "u1"),
        ("key", "u1"),
        ("pad", "u2"),
        ("a", "<i8"),
        ("b", "<i8"),
        ("c", "<i8"),
        ("d", "<i8"),
    ]
)
_MICROSECOND: Final = Fraction(1, 1_000_000)
_VERSION: Final = 1
_NEEDED: Final = {"connection", "epoch", "codec", "extradata", "time_base"}
"""What a header says, besides."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of an index.

    PACKET: `a` pts, `b` dts, `c` arrival. FRAME: `a` pts, `b` frame id, `c` arrival, `d` capture. DAMAGED: `b` frame id.
    RESTART: nothing. pts and dts in ticks, arrival and capture in Unix nanoseconds; `NONE` where there is none.
    """

    kind: int
    key: bool = False
    a: int = NONE
    b: int = NONE
    c: int = NONE
    d: int = NONE

    def pack(self) -> bytes:
        """Return the row's 40 bytes."""
        body = _ROW.pack(0, self.kind, self.key, self.a, self.b, self.c, self.d)
        return zlib.crc32(body[4:]).to_bytes(4, "little") + body[4:]


class SegmentWriter:
    """Writes one segment. Whatever `add` was given is with the operating system when it returns.

    Parameters
    ----------
    path : Path
        Without suffix.
    header : mapping
        What the stream is, for the index.
    stream : av stream or None
        The template of the stream; None to describe it by `codec`, `width` and `height` of the header.

    Raises
    ------
    OSError
        If the disk is full or may not be written.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], stream: Any = None) -> None:
        self.path = path
        self.num_bytes = 0
        self._nut, self._index = path.with_suffix(".nut.part"), path.with_suffix(".index.part")
        self._file = os.open(self._index, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            self._write(json.dumps({"version": _VERSION, **header}).encode() + b"\n")
            self._container: Any = av.open(str(self._nut), "w", format="nut", options={"flush_packets": "1"})
            if stream is not None:
                self._stream: Any = self._container.add_stream_from_template(stream, opaque=True)
            else:
                size = {"width": header["width"], "height": header["height"]}
                self._stream = self._container.add_mux_stream(header["codec"], time_base=_MICROSECOND, **size)
        except BaseException:
            os.close(self._file)
            for part in (self._nut, self._index):
                part.unlink(missing_ok=True)
            raise
        self._last_us = -1
        self._first_ns: int | None = None

    def add(self, packet: Any, rows: Iterable[Row], arrival_ns: int) -> None:
        """Append a PyAV packet (None: rows only) and the rows that belong to it."""
        if packet is not None:
            self._add_packet(packet, arrival_ns)
        self._write(b"".join(row.pack() for row in rows))

    def _add_packet(self, packet: Any, arrival_ns: int) -> None:
        if self._first_ns is None:
            self._first_ns = arrival_ns
        data = av.Packet(packet)  # shares the bytes; the packet's own times stay as they are
        self._last_us = max(self._last_us + 1, (arrival_ns - self._first_ns) // 1000)
        data.pts = data.dts = self._last_us
        data.time_base = _MICROSECOND
        data.stream = self._stream
        data.is_keyframe = packet.is_keyframe
        self._container.mux_one(data)
        self.num_bytes += packet.size

    def _write(self, data: bytes) -> None:
        self.num_bytes += len(data)
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        """End the segment and give both files their final names; safe to call twice."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        try:
            self._container.close()
        finally:
            finish(self.path)


def finish(path: Path) -> None:
    """Give the files of a segment that was being written their final names, the index last: it says that all is there."""
    for suffix in (".nut", ".index"):
        part = path.with_suffix(f"{suffix}.part")
        if part.exists():
            part.rename(path.with_suffix(suffix))


def rows_of(path: Path) -> tuple[dict[str, Any], Array]:
    """Return the header and the whole rows of the segment `path` (without suffix), finished or not.

    Rows are a structured array with fields ``kind, key, a, b, c, d``; it ends before the first torn one. The header is
    empty where its line was not written to the end.

    Raises
    ------
    OSError
        If there is no index, or it is none of this version.
    """
    file = path.with_suffix(".index")
    data = _read(path)
    line, ended, body = data.partition(b"\n")
    if not ended:
        return {}, np.empty(0, _FIELDS)
    try:
        header = json.loads(line)
        known = header["version"] == _VERSION and not _NEEDED - header.keys()
    except (ValueError, KeyError, TypeError, AttributeError):
        known = False
    if not known:
        raise OSError(f"{file} is no index of a recording of version {_VERSION}")
    size = _ROW.size
    count = len(body) // size
    for i in range(count - 1, -1, -1):  # only the end can be torn
        if zlib.crc32(body[i * size + 4 : (i + 1) * size]) == int.from_bytes(body[i * size : i * size + 4], "little"):
            return header, np.frombuffer(body, _FIELDS, i + 1)
    return header, np.empty(0, _FIELDS)


def _read(path: Path) -> bytes:
    """Return what stands in an index, which may get its final name meanwhile."""
    try:
        return path.with_suffix(".index").read_bytes()
    except FileNotFoundError:
        pass
    try:
        return path.with_suffix(".index.part").read_bytes()
    except FileNotFoundError:
        return path.with_suffix(".index").read_bytes()


class SegmentReader:
    """Reads the packets of one segment, with the times that they had."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header, self.rows = rows_of(path)

    def packets(self) -> Iterator[tuple[Any, list[Any]]]:
        """Yield each packet with its own pts and dts, and the rows that follow it; stops where the index does."""
        file = self.path.with_suffix(".nut")
        file = file if file.exists() else self.path.with_suffix(".nut.part")
        time_base = Fraction(self.header["time_base"])
        (starts,) = np.nonzero(self.rows["kind"] == PACKET)
        stops = [*starts[1:].tolist(), len(self.rows)]
        with av.open(str(file), format="nut") as container:
            packets = (packet for packet in container.demux(video=0) if packet.size)
            for packet, start, stop in zip(packets, starts.tolist(), stops, strict=False):
                row = self.rows[start]
                packet.pts = None if row["a"] == NONE else int(row["a"])
                packet.dts = None if row["b"] == NONE else int(row["b"])
                packet.time_base = time_base
                yield packet, list(self.rows[start + 1 : stop])
