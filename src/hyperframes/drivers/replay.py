"""Hyperframes of a live run made again from its journal and its recording, bit for bit.

The journal says which frames each hyperframe held, in which order, and why it was sealed; the recording holds the frames.
Nothing is decided again, so no clock, queue or speed can change what comes out.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.journal import Life
from hyperframes.drivers.journal_reading import JournalReader
from hyperframes.errors import SourceError
from hyperframes.media.recording import Recording
from hyperframes.packing import LIVE_TIME_BASE, Header, Hyperframe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from hyperframes.frames import Array, FrameSpec
    from hyperframes.media.recording import RecordedFrame

__all__ = ["Rebuilt", "digest", "paced", "rebuild", "unfinished"]

_MARGIN_FRAMES = 40  # held besides the longest hyperframe's: frames that came out of order or were not taken
_OPEN_AT_ONCE = 9  # hyperframes of instants whose frames are held: all that may be open at once, and one
_REPAIRED_NS = 50_000_000  # by how much a time may differ from the sender's: small steps back are made good
_MARGIN_NS = 1_000_000_000  # a frame that came so long after the seal is none of its frames


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A hyperframe made again, or why it could not be."""

    life: Life
    hyperframe: Hyperframe | None
    missing: tuple[tuple[str, int], ...] = ()
    """(stream, frame id) of frames that the recording does not hold."""

    @property
    def epoch(self) -> int | tuple[int, ...]:
        """Of its stream, or of each of its streams."""
        epoch = json.loads(self.life.epoch or "0")
        return tuple(epoch) if isinstance(epoch, list) else int(epoch)


def unfinished(journal: Path, recording: Path) -> Iterator[Rebuilt]:
    """Return what earlier runs of a journal had sealed and not brought to an end, made again one by one as it is asked for.

    Raises
    ------
    SourceError
        If there is no journal or no recording.
    """
    with JournalReader(journal) as reader:
        lives = reader.unfinished()
    return rebuild(lives, Recording(recording)) if lives else iter(())


def rebuild(lives: Sequence[Life], recording: Recording) -> Iterator[Rebuilt]:
    """Yield the hyperframes of `lives`, in order, with frames from `recording`.

    Parameters
    ----------
    lives : sequence of Life
        Of one journal, by sequence number.
    recording : Recording
        What was recorded beside it.

    Notes
    -----
    Each stream is read and decoded once, from the first frame that is needed.

    Raises
    ------
    SourceError
        If a stream was not recorded at all.
    """
    longest = max((len(_rows(life)[0]) for life in lives), default=0)
    together = any(len(life.streams) > 1 for life in lives)
    keep = _OPEN_AT_ONCE * longest if together else longest + _MARGIN_FRAMES
    first, streams = _first_ids(lives), dict[str, _Frames]()
    for life in lives:
        for name in life.streams:
            if name not in streams:
                streams[name] = _Frames(recording, name, keep, first.get(name, 0))
        yield _rebuilt(life, streams)


def paced(
    rebuilt: Iterable[Rebuilt],
    speed: float | None,
    sleep: Callable[[float], Any] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Rebuilt]:
    """Yield as fast as they were sealed, times `speed`; None: as fast as they can be made."""
    first_ns, began = None, now()
    for one in rebuilt:
        if speed is not None and one.life.sealed_ns is not None:
            first_ns = one.life.sealed_ns if first_ns is None else first_ns
            ahead = (one.life.sealed_ns - first_ns) / 1e9 / speed - (now() - began)
            if ahead > 0:
                sleep(ahead)
        yield one


def digest(hyperframe: Hyperframe) -> str:
    """Return the SHA-256 of what a hyperframe holds: samples, mask, ids and times of all its frames."""
    found = hashlib.sha256()
    for array in (*hyperframe.planes, hyperframe.mask, hyperframe.header.frame_ids, hyperframe.header.pts):
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _rows(life: Life) -> tuple[list[Any], list[Any]]:
    """Return ids and times of everything that it held, by row; one row a frame, or one an instant."""
    more = json.loads(life.core) if life.core else {}
    return more.get("frame_ids") or json.loads(life.frame_ids or "[]"), more.get("pts") or json.loads(life.pts or "[]")


def _first_ids(lives: Sequence[Life]) -> dict[str, int]:
    """Return the lowest id that is needed of each stream."""
    found: dict[str, int] = {}
    for life in lives:
        ids = np.array(_rows(life)[0], np.int64).reshape(-1, len(life.streams))
        for name, column in zip(life.streams, ids.T, strict=True):
            if len(real := column[column >= 0]):
                found[name] = min(found.get(name, int(real[0])), int(real.min()))
    return found


class _Frames:
    """The recorded frames of one stream, asked for in about the order in which they came."""

    def __init__(self, recording: Recording, stream: str, keep: int, first_id: int) -> None:
        self._frames = iter(recording.read(stream, first_id))
        self._held: deque[RecordedFrame] = deque(maxlen=keep)
        self._next: RecordedFrame | None = None

    def find(self, wanted: Sequence[tuple[int, int]], until_ns: int) -> list[RecordedFrame | None]:
        """Return the frame of each (id, time), which came before `until_ns`; None where it was not recorded."""
        while not all(self._is_held(*key) for key in wanted) and self._advance(until_ns):
            pass
        return [self._nearest(*key) for key in wanted]

    def _advance(self, until_ns: int) -> bool:
        if self._next is None:
            frame = next(self._frames, None)
            if frame is None:
                return False
            self._next = _own(frame)
        if self._next.arrival_ns > until_ns:
            return False
        self._held.append(self._next)
        self._next = None
        return True

    def _is_held(self, frame_id: int, time_ns: int) -> bool:
        near = self._nearest(frame_id, time_ns)
        return near is not None and abs(_taken_ns(near) - time_ns) <= _REPAIRED_NS

    def _nearest(self, frame_id: int, time_ns: int) -> RecordedFrame | None:
        """Return the frame of that id; of several, since senders may count anew, the nearest in time."""
        found = [frame for frame in self._held if frame.frame_id == frame_id]
        return min(found, key=lambda frame: abs(_taken_ns(frame) - time_ns), default=None)


def _own(frame: RecordedFrame) -> RecordedFrame:
    return replace(frame, planes=tuple(np.array(plane) for plane in frame.planes))


def _taken_ns(frame: RecordedFrame) -> int:
    return frame.arrival_ns if frame.capture_ns is None else frame.capture_ns


def _rebuilt(life: Life, streams: dict[str, _Frames]) -> Rebuilt:
    ids, times = (np.array(rows, np.int64) for rows in _rows(life))
    names = life.streams
    by_stream = ids.reshape(-1, len(names))
    until_ns = (life.sealed_ns or 0) + _MARGIN_NS
    found: dict[tuple[int, int], RecordedFrame] = {}
    missing: list[tuple[str, int]] = []
    for column, name in enumerate(names):
        rows = np.flatnonzero(by_stream[:, column] >= 0)
        at = times.reshape(-1, len(names))[rows, column]
        wanted = list(zip(by_stream[rows, column].tolist(), at.tolist(), strict=True))
        for row, key, frame in zip(rows.tolist(), wanted, streams[name].find(wanted, until_ns), strict=True):
            if frame is None:
                missing.append((name, key[0]))
            else:
                found[row, column] = frame
    if missing or not found:
        return Rebuilt(life, None, tuple(missing))
    return Rebuilt(life, _hyperframe(life, ids.reshape(-1), times.reshape(-1), found))


def _hyperframe(life: Life, ids: Array, times: Array, found: dict[tuple[int, int], RecordedFrame]) -> Hyperframe:
    width = len(life.streams)
    spec = _spec(next(iter(found.values())))
    mask = ids >= 0
    planes = tuple(np.zeros((len(ids), *shape), spec.dtype) for shape in spec.shapes)
    for (row, column), frame in found.items():
        for plane, source in zip(planes, frame.planes, strict=True):
            if plane.shape[1:] != source.shape:
                raise SourceError(
                    f"frame {frame.frame_id} of stream {frame.stream!r} was recorded with another size than its hyperframe: "
                    f"expected {plane.shape[1:]}, got {source.shape}",
                    source=frame.stream,
                )
            plane[row * width + column] = source
    more = json.loads(life.core) if life.core else {}
    for plane in planes:
        plane.flags.writeable = False
    core = (life.start, life.stop)
    read = tuple(more.get("read", core))
    header = Header(
        sequence=life.sequence,
        id=life.id,
        streams=tuple(life.streams),
        core=core,
        read=read,
        pad_before=0,
        pad_after=0,
        frame_ids=ids,
        pts=times,
        time_base=LIVE_TIME_BASE,
        durations=np.zeros(len(ids), np.int64) if life.kind == "temporal" else None,
        kind=life.kind,  # type: ignore[arg-type]  # what a header said
        clock=json.loads(life.clocks or "[]")[0],
        gaps=tuple(tuple(gap) for gap in json.loads(life.gaps or "[]")),
        seal_reason=life.seal_reason,
        end=more.get("end", False),
        stream_length=more.get("length"),
    )
    inside = slice(core[0] - read[0], core[1] - read[0])
    return Hyperframe(header, planes, inside, mask, spec)


def _spec(frame: RecordedFrame) -> FrameSpec:
    return frame.spec.replace(time_base=LIVE_TIME_BASE)
