"""Parts of a video that are encoded at the same time, each by a thread of its own, while frames arrive in order.

A part takes no frame before the one ahead of it has all of its own. So that several encoders have work, frames wait
as copies: the longer the line, the more encoders are busy. `Room` bounds it for all parts of a video together.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperframes.sinks.parts import Part, sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.frames import Array
    from hyperframes.media.encode import Encoding, PartEncoder
    from hyperframes.sinks.parts import PartsFolder

__all__ = ["Lanes", "PartWriter", "Room"]

_BUFFER_BYTES = 1 << 20
_BUSY = 1.5
"""Encoder threads for each processor core: they wait for each other's rows, and for frames."""
_ENCODER_FRAMES = 128
"""What a further encoder holds, in frames of its size: 450 MB for x264, veryfast, 1920x1080."""
_AHEAD = 4
"""Frames that wait beside those that keep further parts busy: what an encoder needs to find its next one ready."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many parts are encoded at the same time, and how many frames may wait for it; neither changes a byte."""

    parts: int
    frames: int

    @classmethod
    def of(cls, encoding: Encoding, cores: int, spare_bytes: int) -> Lanes:
        """Return what `cores` have use for, with at most `spare_bytes` of waiting frames and further encoders.

        While n encoders work equally fast on parts of L frames, the one that was fed last has nearly L before it, and
        each of those ahead of it an n-th of L less: L * (n - 1) / 2 frames wait. With less than half of that a further
        encoder would mostly wait, too, and is not opened.
        """
        length, fitting = encoding.part_frames, max(0, spare_bytes // encoding.spec.nbytes)
        useful = max(1, math.ceil(_BUSY * cores / encoding.threads))
        parts = min(useful, 1 + fitting // (_ENCODER_FRAMES + length // 4 + 1))
        waiting = min(fitting - _ENCODER_FRAMES * (parts - 1), length * (parts - 1) // 2)
        return cls(parts, _AHEAD + waiting)

    def held_frames(self) -> int:
        """Return how many frames' memory it takes beside that of one encoder."""
        return self.frames + _ENCODER_FRAMES * (self.parts - 1)


class Room:
    """Counts frames that wait to be encoded; who brings another waits for room, and is told what went wrong."""

    def __init__(self, frames: int) -> None:
        self._free = frames
        self._changed = threading.Condition()
        self._error: BaseException | None = None

    def take(self) -> None:
        """Wait for room for one frame; raise what stopped an encoder."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self._error is not None)
            self._free -= 1
        self.check()

    def give_back(self) -> None:
        """Let go of the room of one frame."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Tell whoever brings frames that an encoder stopped."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def check(self) -> None:
        """Raise what stopped an encoder, if anything did."""
        if self._error is not None:
            raise self._error


class PartWriter:
    """One part that is being written: frames in, a closed file and its manifest out.

    Called from one thread; encodes in another, which is the only one that touches the encoder from the first frame on.
    """

    def __init__(self, folder: PartsFolder, number: int, start: int, encoder: PartEncoder, room: Room) -> None:
        self._folder, self.number, self.start = folder, number, start
        self._encoder, self._room = encoder, room
        self.num_frames = 0
        self.part: Part | None = None
        """Once it is whole."""
        self._pts = array("q")
        self._last_duration = 0
        self._discarded = False
        self._path = folder.file(number)
        self._partial = folder.partial(self._path.name)
        self._file = self._partial.open("w+b", _BUFFER_BYTES)
        self._given: queue.SimpleQueue[Any] = queue.SimpleQueue()  # frames, then (stop, source_stop) or None
        self._thread = threading.Thread(target=self._run, name=f"hyperframes-part-{number}", daemon=True)
        try:
            encoder.open(self._file)
            self._thread.start()
        except BaseException:
            self._clean_up()
            raise

    def add(self, planes: Sequence[Array], pts: int, duration: int) -> None:
        """Copy a frame and put it in line; waits for room."""
        self._room.take()
        self._given.put(self._encoder.copied(planes))
        self._pts.append(pts)
        self._last_duration = duration
        self.num_frames += 1

    def finish(self, stop: int, source_stop: int) -> None:
        """Say that this was the last frame: the part ends before `stop`, and before `source_stop` of the stream."""
        self._given.put((stop, source_stop))

    def discard(self) -> None:
        """Leave nothing of a part that is not whole; safe to call twice."""
        self._discarded = True
        self._given.put(None)
        self._thread.join()

    @property
    def is_over(self) -> bool:
        """Whether it is whole, or will never be."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait for its end, after `finish`; raise what stopped it, if it is not whole."""
        self._thread.join()
        if self.part is None:
            self._room.check()

    # In its thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            end = self._encode()
            if end is not None:
                self.part = self._finished(*end)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that brings frames
            self._room.fail(error)
        finally:
            self._clean_up()

    def _encode(self) -> tuple[int, int] | None:
        """Encode what comes; return where the part ends, None where it was given up."""
        while not self._discarded:
            given = self._given.get()
            if given is None or isinstance(given, tuple):
                return given
            try:
                self._encoder.encode(given)
            finally:
                self._room.give_back()
        return None

    def _finished(self, stop: int, source_stop: int) -> Part:
        digest = ""
        if self._pts:
            self._encoder.finish()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            digest = sha256_of(self._partial)
            self._partial.replace(self._path)
        part = Part(
            number=self.number,
            start=self.start,
            stop=stop,
            source_stop=source_stop,
            pts=self._pts,
            last_duration=self._last_duration,
            delay=self._encoder.delay,
            step=self._encoder.step,
            sha256=digest,
            fingerprint=self._folder.fingerprint,
        )
        self._folder.add(part)
        return part

    def _clean_up(self) -> None:
        self._encoder.discard()
        with contextlib.suppress(OSError):
            self._file.close()  # what is still in the buffer is thrown away
        with contextlib.suppress(OSError):
            self._partial.unlink(missing_ok=True)
