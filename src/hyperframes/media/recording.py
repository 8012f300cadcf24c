"""Recording of live streams without encoding, and reading them again: the same frames with the same ids and times.

A recording is a folder with one folder a stream, which holds segments (see `hyperframes.media.segments`). A segment
belongs to one connection and starts with a key packet, unless the connection did not; so each can be decoded by itself.

Packets and what came out of them are with the operating system before a frame is handed on. A process that is killed
loses nothing that was sealed; a machine that loses power may lose what its system had not yet written to the disk.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections import deque
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import quote, unquote

import av
import numpy as np

from hyperframes.errors import SinkError, SourceError, without_credentials
from hyperframes.frames import Array, Colour, FrameSpec
from hyperframes.media.endpoint import LOSSES
from hyperframes.media.picture import Lender, picture_spec
from hyperframes.media.segments import (
    DAMAGED,
    FRAME,
    NONE,
    PACKET,
    RESTART,
    Row,
    SegmentReader,
    SegmentWriter,
    finish,
    rows_of,
)
from hyperframes.packing import LIVE_TIME_BASE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["Keep", "RecordedFrame", "Recorder", "Recording", "StreamRecorder"]

_RETRY_SECONDS: Final = 1.0
_STEADY_SECONDS: Final = 5.0
"""How long a recording must go on until it is told so: a full disk has room for a few bytes now and then."""
_LOCK: Final = ".lock"
_LONGEST_NAME: Final = 200
_WAITING_PACKETS: Final = 1000
_LONGEST: Final = 4
"""Times the wanted length that a segment may have where no key packet comes."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What a recording keeps at most; the oldest segments go first, the newest of each stream stays."""

    segment_seconds: float = 60.0
    """How long a segment is, up to the next key packet."""
    num_bytes: int | None = None
    """Of all segments of a stream together."""
    seconds: float | None = None
    """Age of a segment's end."""

    @property
    def bounds(self) -> bool:
        """Whether anything ever goes."""
        return self.num_bytes is not None or self.seconds is not None

    @classmethod
    def of(cls, seconds: float | None) -> Self:
        """Return what keeps frames until they are so old, in segments short enough for it; None: all of them."""
        return cls() if seconds is None else cls(min(60.0, max(1.0, seconds / 4)), seconds=seconds)


class Recorder:
    """Records any number of streams into one folder; goes on where an earlier run stopped, even by a kill.

    Parameters
    ----------
    folder : path
        Made when missing.
    keep : Keep, optional
        Length and number of segments.

    Raises
    ------
    SinkError
        If the folder cannot be made or read, or another run records into it.
    """

    _mine = -1
    """The file whose lock is held."""

    def __init__(self, folder: str | Path, keep: Keep | None = None) -> None:
        import fcntl

        self.folder = Path(folder)
        self.keep = keep or Keep()
        self._streams: dict[str, StreamRecorder] = {}
        self._lock = threading.Lock()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._mine = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._wrong(error) from error
        try:
            fcntl.flock(self._mine, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, however that ends
        except OSError as error:
            self._let_go()
            raise SinkError(
                f"another run records into {self.folder}",
                sink=str(self.folder),
                hint="Give each run a folder of its own, or stop the other one.",
            ) from error

    def stream(self, name: str) -> StreamRecorder:
        """Return what records the stream of that name.

        Raises
        ------
        SinkError
            If its folder cannot be made, or what stands there is no recording of this version.
        """
        with self._lock:
            if name not in self._streams:
                shown = without_credentials(name)
                if any(stream.name == shown for stream in self._streams.values()):
                    raise SinkError(
                        f"two streams are both recorded as {shown!r}: their names differ in what is not written down only",
                        sink=str(self.folder),
                        hint="Give them names: --source NAME=URL.",
                    )
                try:
                    self._streams[name] = StreamRecorder(_folder_of(self.folder, name), name, self.keep)
                except OSError as error:
                    raise self._wrong(error) from error
            return self._streams[name]

    def news(self) -> list[str]:
        """Return what has changed since the last call: whose recording fails, and whose goes on."""
        return [line for stream in self._all() if (line := stream.news())]

    @property
    def warnings(self) -> list[str]:
        """Of each stream, how many frames are missing, and why."""
        return [
            f"{stream.missed} frames of {stream.name!r} are not in the recording {self.folder}: {stream.why}"
            for stream in self._all()
            if stream.missed
        ]

    def close(self) -> None:
        """End all segments; safe to call twice."""
        for stream in self._all():
            stream.close()
        self._let_go()

    def __del__(self) -> None:
        self._let_go()  # whoever forgot to close it records no more

    def _let_go(self) -> None:
        mine, self._mine = self._mine, -1
        if mine >= 0:
            os.close(mine)

    def _all(self) -> tuple[StreamRecorder, ...]:
        with self._lock:
            return tuple(self._streams.values())

    def _wrong(self, error: OSError) -> SinkError:
        return SinkError(
            f"cannot record into {self.folder}: {error.strerror or error}",
            sink=str(self.folder),
            hint="Name a folder of its own that may be written to, with some space.",
        )


class StreamRecorder:
    """Records one stream; called by the thread that captures it. Never raises for a full or broken disk: see `failing`."""

    def __init__(self, folder: Path, name: str, keep: Keep) -> None:
        self.name, self.folder, self._keep = without_credentials(name), folder, keep
        self.failing = self.why = ""
        """What keeps it from writing at present; and what did so the last time."""
        self.missed = 0
        """Frames that could not be recorded."""
        self._told = False
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.index.part"):
            finish(path.with_suffix("").with_suffix(""))
        segments = _segments(folder)
        left = _Left.of(segments)
        self.next_id = left.next_id
        """One past the highest frame id recorded so far."""
        self._connection, self._epoch, self._named = left.connection, left.epoch, left.named
        self._closed = deque((path, _num_bytes(path)) for path in segments) if self._keep.bounds else deque()
        self._header: dict[str, Any] = {}
        self._template: Any = None
        self._segment: SegmentWriter | None = None
        self._broken = False
        """Whether a packet was lost since the last key packet."""
        self._opened_at = self._retry_at = 0.0
        self._waiting: deque[tuple[Any, list[Row], int]] = deque(maxlen=_WAITING_PACKETS)
        self._rows: list[Row] = []
        self._packet: tuple[Any, int] | None = None
        self._encoder: _Encoder | None = None

    # Packets of a connection ------------------------------------------------------------------------------------------

    def connect(self, stream: Any, rate: Fraction | None) -> None:
        """Begin a connection: `stream` is PyAV's, `rate` the nominal one."""
        self._end_segment()
        self._connection += 1
        self._epoch += 1
        self._broken = False
        self._waiting.clear()
        self._packet, self._rows = None, []
        context = stream.codec_context
        self._template = stream if context.width else None
        self._header = {
            "stream": self.name,
            "connection": self._connection,
            "codec": context.name,
            "extradata": (context.extradata or b"").hex(),
            "time_base": str(Fraction(stream.time_base)),
            "rate": None if rate is None else str(rate),
            "aspect": str(Fraction(stream.sample_aspect_ratio or 1)),
        }

    def packet(self, packet: Any, arrival_ns: int) -> None:
        """Take a packet that was given to the decoder."""
        self._flush()
        if not packet.size:
            return  # it only flushes the decoder; its frames follow the last packet
        self._packet = (packet, arrival_ns)
        pts, dts = packet.pts, packet.dts
        times = (NONE if pts is None else pts, NONE if dts is None else dts)
        self._rows.append(Row(PACKET, packet.is_keyframe, *times, arrival_ns))

    def damaged(self, frame_id: int) -> None:
        """Take note that the last packet gave damage in place of the frame of that number."""
        self._rows.append(Row(DAMAGED, b=frame_id))

    def restart(self) -> None:
        """Take note that the next frame begins an epoch."""
        self._rows.append(Row(RESTART))

    def frame(self, frame: Any, frame_id: int, capture_ns: int | None, arrival_ns: int) -> None:
        """Take note of a frame that came out of the last packet; on return it can be read again after a kill."""
        pts, none = frame.pts, NONE
        captured = none if capture_ns is None else capture_ns
        self._rows.append(Row(FRAME, False, none if pts is None else pts, frame_id, arrival_ns, captured))
        if not self._header.get("width"):
            self._header.update(width=frame.width, height=frame.height)
        self._flush()

    # Frames that were pushed --------------------------------------------------------------------------------------------

    def pushed(
        self, planes: tuple[Array, ...], spec: FrameSpec, frame_id: int, capture_ns: int | None, arrival_ns: int
    ) -> None:
        """Encode a frame without loss (FFV1) and record it."""
        if self._encoder is None or not self._encoder.spec.same_arrays(spec):
            self._encoder = _Encoder(spec)
            self._end_segment()
            self._connection += 1
            self._epoch += 1
            self._template = None
            self._rows = []
            self._header = {"stream": self.name, "connection": self._connection, **self._encoder.header()}
        for packet in self._encoder(planes):
            self._packet = (packet, arrival_ns)
            captured = NONE if capture_ns is None else capture_ns
            self._rows += [Row(PACKET, True, packet.pts, packet.pts, arrival_ns)]
            self._rows += [Row(FRAME, False, packet.pts, frame_id, arrival_ns, captured)]
        self._flush()

    def news(self) -> str:
        """Return a sentence when writing begins to fail, and when it has gone on for a while; else nothing."""
        if self.failing and not self._told:
            self._told = True
            return f"{self.name!r} is not being recorded in {self.folder}: {self.failing}; its frames go on"
        if self._told and not self.failing and time.monotonic() - self._opened_at > _STEADY_SECONDS:
            self._told = False
            return f"{self.name!r} is being recorded again: {self.missed} frames are missing"
        return ""

    def close(self) -> None:
        """End the segment."""
        self._flush()
        self._end_segment()

    # Writing ------------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write what came since the last call, or keep it until the stream is known well enough to open a segment."""
        if not self._rows:
            return
        packet, arrival_ns = self._packet or (None, 0)
        self._packet, rows, self._rows = None, self._rows, []
        if self._broken and (packet is None or not packet.is_keyframe):
            self.missed += sum(row.kind == FRAME for row in rows)
            return  # what refers to a picture that is missing would decode to something else
        if self._segment is None and not self._header.get("width"):
            if packet is not None:
                self._waiting.append((packet, rows, arrival_ns))
            return
        try:
            if packet is not None:
                self._roll(packet)
            self._segment_now().add(packet, rows, arrival_ns)
            self._epoch += sum(row.kind == RESTART for row in rows)
            self._broken = False
        except LOSSES as error:
            self._fail(error, rows)

    def _roll(self, packet: Any) -> None:
        """End the segment before a key packet once it is long enough."""
        if self._segment is None:
            return
        age = time.monotonic() - self._opened_at
        if age > self._keep.segment_seconds * (1 if packet.is_keyframe else _LONGEST):
            self._end_segment()

    def _segment_now(self) -> SegmentWriter:
        if self._segment is None:
            if time.monotonic() < self._retry_at:
                raise OSError(self.failing)
            self._named = max(self._named + 1, time.time_ns())  # names tell the order, also when clocks step back
            path = self.folder / f"{self._named:020d}"
            self._segment = SegmentWriter(path, {**self._header, "epoch": self._epoch}, self._template)
            self._opened_at = time.monotonic()
            self.failing = ""
            self._forget_old()
            while self._waiting:
                self._segment.add(*self._waiting.popleft())
        return self._segment

    def _fail(self, error: Exception, rows: list[Row]) -> None:
        self._broken = True
        self.missed += sum(row.kind == FRAME for row in rows)
        self.failing = self.why = without_credentials(getattr(error, "strerror", None) or str(error))
        if time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
        self._end_segment()

    def _end_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            try:
                segment.close()
                if self._keep.bounds:
                    self._closed.append((segment.path, _num_bytes(segment.path)))
            except LOSSES as error:
                self.failing = self.why = getattr(error, "strerror", None) or str(error)

    def _forget_old(self) -> None:
        """Delete the oldest segments while there is more than is to be kept."""
        keep = self._keep
        while self._closed:
            path, _ = self._closed[0]
            index = path.with_suffix(".index")
            if not index.exists():  # somebody else has deleted it
                self._closed.popleft()
                continue
            old = keep.seconds is not None and time.time() - index.stat().st_mtime > keep.seconds
            if not old and (keep.num_bytes is None or sum(n for _, n in self._closed) <= keep.num_bytes):
                return
            for suffix in (".index", ".nut"):
                path.with_suffix(suffix).unlink(missing_ok=True)
            self._closed.popleft()


def _num_bytes(path: Path) -> int:
    return sum(path.with_suffix(suffix).stat().st_size for suffix in (".nut", ".index"))


def _folder_of(folder: Path, name: str) -> Path:
    """Return the folder of a stream; long names, which no file system takes, end in a number made of the whole."""
    quoted = quote(without_credentials(name), safe=" ,;=@+")
    if len(quoted) > _LONGEST_NAME:
        quoted = f"{quoted[: _LONGEST_NAME - 9]}~{zlib.crc32(quoted.encode()):08x}"
    return folder / quoted


def _name_of(folder: Path, segments: list[Path]) -> str:
    """Return the name of the stream whose folder that is."""
    return str(rows_of(segments[-1])[0].get("stream", folder.name)) if "~" in folder.name else unquote(folder.name)


def _segments(folder: Path) -> list[Path]:
    """Return the segments of a stream without suffix, oldest first, finished or not."""
    names = {path.name.split(".")[0] for path in folder.glob("*.index*")}
    return [folder / name for name in sorted(names)]


class _Left(NamedTuple):
    """What earlier runs left: a recording goes on from there."""

    next_id: int = 0
    connection: int = -1
    epoch: int = -1
    named: int = -1

    @classmethod
    def of(cls, segments: list[Path]) -> Self:
        """Return what the newest segments say: as few as tell all of it, since a recording may have thousands."""
        left = cls(named=max([int(path.name) for path in segments if path.name.isdecimal()], default=-1))
        for path in reversed(segments):
            header, rows = rows_of(path)
            if header and left.connection < 0:
                restarts = int((rows["kind"] == RESTART).sum())
                left = left._replace(connection=header["connection"], epoch=header["epoch"] + restarts)
            numbered = rows["b"][(rows["kind"] == FRAME) | (rows["kind"] == DAMAGED)]
            if len(numbered):
                return left._replace(next_id=int(numbered.max()) + 1)
        return left


# Reading --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """A frame as it was captured."""

    stream: str
    frame_id: int
    capture_ns: int | None
    """Unix nanoseconds of the sender's clock; None where it did not tell."""
    arrival_ns: int
    """Unix nanoseconds of the machine that captured it."""
    epoch: int
    """Counts connections and restarts since the recording began."""
    spec: FrameSpec
    planes: tuple[Array, ...]
    """Lent until the next frame: copy what you keep."""


class Recording:
    """A folder of recorded streams.

    Parameters
    ----------
    folder : path
        What `Recorder` wrote; it may still be writing.

    Raises
    ------
    SourceError
        If there is no recording.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise SourceError(f"no recording: {self.folder} is no folder", source=str(self.folder))

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams, sorted."""
        folders = [path for path in self.folder.iterdir() if path.is_dir()]
        return tuple(sorted(_name_of(path, segments) for path in folders if (segments := _segments(path))))

    def ids(self, stream: str) -> Array:
        """Return the ids of all frames of a stream, (N,) int64, in the order they came."""
        found = [rows["b"][rows["kind"] == FRAME] for _, _, rows in self._indexed(stream)]
        return np.concatenate([np.empty(0, np.int64), *found])

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[RecordedFrame]:
        """Yield the frames of a stream whose ids are in [start, stop), in the order they came.

        Decoding begins with the segment that holds `start`.

        Raises
        ------
        SourceError
            If there is no such stream.
        """
        decoder: _Decoder | None = None
        for path, header, rows in self._indexed(stream):
            ids = rows["b"][rows["kind"] == FRAME]
            if len(ids) and stop is not None and ids.min() >= stop:
                break
            if decoder is None and (not len(ids) or ids.max() < start):
                continue
            if decoder is None or decoder.connection != header["connection"]:
                if decoder is not None:
                    yield from _within(decoder.rest(), start, stop)
                decoder = _Decoder(stream, header)
            yield from _within(decoder.frames(SegmentReader(path)), start, stop)
        if decoder is not None:
            yield from _within(decoder.rest(), start, stop)

    def find(self, stream: str, frame_ids: Collection[int]) -> dict[int, RecordedFrame]:
        """Return the frames of those ids, with planes of their own; ids that were not recorded are left out."""
        wanted = set(frame_ids)
        found = {}
        if wanted:
            for frame in self.read(stream, min(wanted), max(wanted) + 1):
                if frame.frame_id in wanted:
                    found[frame.frame_id] = replace(frame, planes=tuple(np.array(p) for p in frame.planes))
        return found

    def _indexed(self, stream: str) -> Iterator[tuple[Path, dict[str, Any], Array]]:
        folder = _folder_of(self.folder, stream)
        if not folder.is_dir():
            known = ", ".join(self.streams) or "none"
            raise SourceError(f"no stream {stream!r} was recorded in {self.folder}: there are {known}", source=stream)
        for path in _segments(folder):
            try:
                header, rows = rows_of(path)
            except FileNotFoundError:
                continue  # it was too old meanwhile
            except OSError as error:
                raise SourceError(
                    f"cannot read the recording {self.folder}: {error.strerror or error}",
                    source=stream,
                    hint="Name the folder that 'hyperframes live --record DIR' wrote.",
                ) from error
            if header:
                yield path, header, rows


def _within(frames: Iterator[RecordedFrame], start: int, stop: int | None) -> Iterator[RecordedFrame]:
    return (frame for frame in frames if frame.frame_id >= start and (stop is None or frame.frame_id < stop))


class _Decoder:
    """Decodes one connection as its capture did, and finds the row that each frame was recorded by."""

    def __init__(self, stream: str, header: dict[str, Any]) -> None:
        self.connection: int = header["connection"]
        self._stream, self._header, self._epoch = stream, header, int(header["epoch"])
        self._context: Any = av.CodecContext.create(header["codec"], "r")
        if header["extradata"]:
            self._context.extradata = bytes.fromhex(header["extradata"])
        self._context.thread_type, self._context.thread_count = "NONE", 1
        self._expected: deque[Any] = deque()
        pushed = header.get("pushed")
        self._unpack = None if pushed is None else _Unpacker(pushed)
        if pushed is not None:
            self._context.width, self._context.height = header["width"], header["height"]
        self._lender: tuple[Lender, FrameSpec] | None = None

    def frames(self, segment: SegmentReader) -> Iterator[RecordedFrame]:
        """Yield the recorded frames that the packets of `segment` complete."""
        for packet, rows in segment.packets():
            self._expected.extend(row for row in rows if row["kind"] in {FRAME, RESTART})
            yield from self._claimed(packet)

    def rest(self) -> Iterator[RecordedFrame]:
        """Yield what the decoder still holds at the end of the connection."""
        yield from self._claimed(None)

    def _claimed(self, packet: Any) -> Iterator[RecordedFrame]:
        try:
            decoded = self._context.decode(packet)
        except LOSSES:
            return  # as it was when it was captured
        for frame in decoded:
            row = self._claim(NONE if frame.pts is None else frame.pts)
            if row is not None:
                yield self._recorded(frame, row)

    def _claim(self, pts: int) -> Any:
        """Return the row of the decoded frame, None where the capture had no such frame."""
        place = next((i for i, r in enumerate(self._expected) if r["kind"] == FRAME and r["a"] == pts), None)
        if place is None:
            return None
        for _ in range(place):
            self._epoch += self._expected.popleft()["kind"] == RESTART
        return self._expected.popleft()

    def _recorded(self, frame: Any, row: Any) -> RecordedFrame:
        if self._unpack is not None:
            spec, planes = self._unpack.spec, self._unpack(frame)
        else:
            lender, spec = self._lent(frame)
            planes = lender(frame)
        captured = None if row["d"] == NONE else int(row["d"])
        return RecordedFrame(self._stream, int(row["b"]), captured, int(row["c"]), self._epoch, spec, planes)

    def _lent(self, frame: Any) -> tuple[Lender, FrameSpec]:
        if self._lender is None or not self._lender[0].fits(frame):
            rate = self._header["rate"]
            aspect = Fraction(self._header["aspect"])
            stream = SimpleNamespace(codec_context=self._context, sample_aspect_ratio=aspect, time_base=LIVE_TIME_BASE)
            spec = picture_spec(stream, frame, None if rate is None else Fraction(rate))
            self._lender = (Lender(spec, frame), spec)
        return self._lender


# Frames that were pushed: any arrays as pictures for FFV1 ---------------------------------------------------------------

_FFV1: Final = frozenset(
    {"gray", "gray16le", "ya8", "rgb48le", "rgba64le", "bgra"}
    | {f"yuv{a}{s}p" for a in ("", "a") for s in ("420", "422", "444")}
    | {f"yuv{s}p{bits}le" for s in ("420", "422", "444") for bits in (9, 10, 12, 14, 16)}
)
_ROW_BYTES: Final = 4096
_SLICED_SIDE: Final = 16


class _Encoder:
    """Encodes frames of one spec without loss."""

    def __init__(self, spec: FrameSpec) -> None:
        self.spec = spec
        self._form, (self._height, self._width), name = _form_of(spec)
        context: Any = av.CodecContext.create("ffv1", "w")
        context.width, context.height, context.pix_fmt = self._width, self._height, name
        context.time_base = Fraction(1, 1000)
        # Level 3 guards its slices by checksums, but cannot cut up pictures that are too small.
        sliced = min(self._height, self._width) >= _SLICED_SIDE
        context.options = {"level": "3", "slices": "4", "slicecrc": "1"} if sliced else {"level": "1"}
        context.gop_size, context.thread_count = 1, 1
        self._context, self._name, self._count = context, name, 0
        context.open()

    def header(self) -> dict[str, Any]:
        """Return what the index says of the stream."""
        spec = asdict(replace(self.spec, dtype=np.dtype(np.uint8)))
        spec |= {"dtype": self.spec.dtype.str, "sample_aspect_ratio": str(self.spec.sample_aspect_ratio)}
        spec |= {"time_base": str(self.spec.time_base), "rate": None if self.spec.rate is None else str(self.spec.rate)}
        return {
            "codec": "ffv1",
            "extradata": (self._context.extradata or b"").hex(),
            "width": self._width,
            "height": self._height,
            "time_base": "1/1000",
            "rate": spec["rate"],
            "aspect": "1",
            "pushed": {"form": self._form, "spec": spec},
        }

    def __call__(self, planes: tuple[Array, ...]) -> list[Any]:
        """Return the packets of one frame: always one."""
        frame: Any = av.VideoFrame(self._width, self._height, self._name)
        frame.pts, frame.time_base = self._count, Fraction(1, 1000)
        self._count += 1
        for place, plane in zip(_rows_of(frame), _as_pictures(planes, self._form), strict=True):
            place[: plane.shape[0], : plane.shape[1]] = plane
        return list(self._context.encode(frame))


class _Unpacker:
    """Makes the planes of a pushed frame again."""

    def __init__(self, pushed: dict[str, Any]) -> None:
        fields = dict(pushed["spec"])
        fields["shapes"] = tuple(tuple(shape) for shape in fields["shapes"])
        fields["dtype"], fields["names"] = np.dtype(fields["dtype"]), tuple(fields["names"])
        fields["colour"] = Colour(**fields["colour"])
        for name in ("sample_aspect_ratio", "time_base", "rate"):
            fields[name] = None if fields[name] is None else Fraction(fields[name])
        self.spec = FrameSpec(**fields)
        self._form = pushed["form"]

    def __call__(self, frame: Any) -> tuple[Array, ...]:
        """Return the planes, in memory of their own where they are no view on the frame."""
        spec, rows = self.spec, _rows_of(frame)
        if self._form == "rgb":
            height, width = spec.shapes[0][:2]
            return (np.ascontiguousarray(rows[0].reshape(height, -1, 4)[:, :width, :3]),)
        if self._form == "planes":
            wide = zip(rows, spec.shapes, strict=True)
            return tuple(
                np.ascontiguousarray(row[:, : int(np.prod(shape[1:])) * spec.dtype.itemsize])
                .view(spec.dtype)
                .reshape(shape)
                for row, shape in wide
            )
        data, planes, at = np.ascontiguousarray(rows[0][:, : frame.width]).reshape(-1), [], 0
        for shape in spec.shapes:
            size = int(np.prod(shape)) * spec.dtype.itemsize
            planes.append(data[at : at + size].view(spec.dtype).reshape(shape))
            at += size
        return tuple(planes)


def _form_of(spec: FrameSpec) -> tuple[str, tuple[int, int], str]:
    """Return how frames of `spec` become pictures: the form, (height, width) and FFmpeg's pixel format."""
    if spec.layout == "NHWC" and spec.pixel_format in {"rgb24", "bgr24"}:
        return (
            "rgb",
            (spec.height, spec.width),
            "bgr0",
        )  # players swap the colours of rgb24: samples stay in their order
    if spec.layout == "NHWC" and spec.pixel_format in _FFV1:
        return "planes", (spec.height, spec.width), spec.pixel_format
    width = min(_ROW_BYTES, spec.nbytes)
    return "bytes", (-(-spec.nbytes // width), width), "gray"


def _as_pictures(planes: tuple[Array, ...], form: str) -> Iterator[Array]:
    """Yield the bytes of each picture plane, (rows, bytes)."""
    if form == "rgb":
        rgb = planes[0]
        four = np.zeros((*rgb.shape[:2], 4), np.uint8)
        four[..., :3] = rgb
        yield four.reshape(rgb.shape[0], -1)
    elif form == "planes":
        for plane in planes:
            yield np.ascontiguousarray(plane).view(np.uint8).reshape(plane.shape[0], -1)
    else:
        data = np.concatenate([np.ascontiguousarray(plane).reshape(-1).view(np.uint8) for plane in planes])
        width = min(_ROW_BYTES, data.size)
        yield np.concatenate([data, np.zeros(-data.size % width, np.uint8)]).reshape(-1, width)


def _rows_of(frame: Any) -> list[Array]:
    """Return each plane of a PyAV frame as (rows, bytes a row, padding too)."""
    return [np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size) for plane in frame.planes]
