"""Which size the hyperframes of a run get, while it is measured how they fare (A35)."""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING, Final

from hyperframes.scheduling.sizing import adjusted_size

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pace"]

TRIAL: Final = 8
"""Hyperframes of one size that are measured, at least two for each worker where they take long."""
LONG_TRIAL: Final = 1.0
"""Busy seconds after which fewer will do."""


class Pace:
    """Tries sizes from the planned one on, until one is settled on.

    A trial begins when as many hyperframes of a size are done as can be under way: memory is touched for the first time
    by those before. What counts is processor time: waiting for others on the machine says nothing about a size. A size that
    stays is measured again, since streams change; once one that was tried turned out worse, no other is tried.

    Parameters
    ----------
    size : int
        To begin with.
    least, most : int
        Bounds; where both are `size`, nothing is measured.
    workers : int
        That work at once.
    processor_seconds : function
        The clock.
    """

    def __init__(
        self,
        size: int,
        least: int,
        most: int,
        *,
        workers: int,
        processor_seconds: Callable[[], float] = time.process_time,
    ) -> None:
        self._size, self._least, self._most, self._workers = size, least, most, workers
        self._clock = processor_seconds
        self._lock = threading.Lock()
        self._settled = least == most == size
        self._tried: dict[int, float] = {}
        self._sizes: list[tuple[int, int]] = []
        self._from_frame: int | None = None  # of the first core of this size, once it is known
        self._passed = 0  # hyperframes before the trial
        self._busy: list[float] = []  # seconds of each hyperframe in it
        self._began = 0.0

    def size_at(self, frame: int) -> int:
        """Return the size of the core that starts at `frame`."""
        with self._lock:
            if not self._sizes or self._sizes[-1][1] != self._size:
                self._sizes.append((frame, self._size))
                self._from_frame = frame
            return self._size

    def done(self, start: int, frames: int, seconds: float) -> None:
        """Take note that the hyperframe whose core starts at frame `start` kept workers busy for `seconds`."""
        with self._lock:
            if self._settled or self._from_frame is None or start < self._from_frame or frames != self._size:
                return
            if self._passed <= self._workers:
                self._passed += 1
                self._began = self._clock()
                return
            self._busy.append(seconds)
            enough = 2 * self._workers if sum(self._busy) >= LONG_TRIAL * self._workers else TRIAL
            if len(self._busy) >= enough:
                self._decide()

    def sizes(self, stop: int) -> tuple[tuple[int, int], ...]:
        """Return every first frame and the size that cores had from there on, up to frame `stop`."""
        with self._lock:
            return tuple((frame, size) for frame, size in self._sizes if frame < stop)

    def _decide(self) -> None:
        rate = len(self._busy) * self._size / max(1e-9, self._clock() - self._began)
        if self._size in self._tried:
            self._tried.clear()  # what others did back then says nothing about now
        self._tried[self._size] = rate
        size = adjusted_size(self._size, self._tried, statistics.median(self._busy), least=self._least, most=self._most)
        self._busy, self._began = [], self._clock()
        if size != self._size:
            self._settled = size in self._tried
            self._size, self._from_frame, self._passed = size, None, 0
