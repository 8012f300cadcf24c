"""An inlet that keeps what a capture does to it, and lets a test wait for it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.farm.clip import counter

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Taken:
    """One frame as it was pushed."""

    frame_id: int
    capture_ns: int | None
    arrival_ns: int
    picture: int
    """The counter burnt into it."""
    height: int


class Basket:
    """Takes every frame; notes frames and other calls, in order.

    Parameters
    ----------
    keep : bool
        Keep the planes of every frame too.
    takes : callable
        Given a frame's id; where it returns False, no slot is given.
    """

    def __init__(self, *, keep: bool = False, takes: Callable[[int], bool] = lambda frame_id: True) -> None:
        self.frames: list[Taken] = []
        self.calls: list[tuple] = []
        self.planes: list[tuple[np.ndarray, ...]] = []
        self.closed = False
        self._keep, self._takes = keep, takes
        self._changed = threading.Condition()
        self._slot = None
        self._threads: set[int] = set()

    def wait(self, until: Callable[[Basket], object], seconds: float = 20.0) -> Basket:
        """Wait until the test's condition holds, or fail."""
        with self._changed:
            assert self._changed.wait_for(lambda: until(self), seconds), (self.calls, len(self.frames))
        return self

    def wait_frames(self, count: int, seconds: float = 20.0) -> Basket:
        """Wait for `count` frames more than there are."""
        goal = len(self.frames) + count
        return self.wait(lambda basket: len(basket.frames) >= goal, seconds)

    def named(self, name: str) -> list[tuple]:
        """Return the arguments of all calls of that name."""
        return [call[1:] for call in self.calls if call[0] == name]

    def _note(self, *call: object) -> None:
        assert self._slot is None, f"{call} while a frame is in hand"
        with self._changed:
            self.calls.append((*call, len(self.frames)))
            self._changed.notify_all()

    # The interface ----------------------------------------------------------------------------------------------------

    def open(self, spec, *, rate) -> None:
        self.spec, self.rate = spec, rate
        self._planes = tuple(np.zeros(shape, spec.dtype) for shape in spec.shapes)
        self._note("open", spec)

    def slot(self, *, frame_id, capture_ns, arrival_ns):
        if not self._takes(frame_id):
            self._note("refused", frame_id)
            return None
        self._slot = (frame_id, capture_ns, arrival_ns)
        return self._planes

    def push(self) -> None:
        taken = Taken(*self._slot, counter(self._planes[0]), self.spec.height)
        self._slot = None
        with self._changed:
            self.frames.append(taken)
            if self._keep:
                self.planes.append(tuple(plane.copy() for plane in self._planes))
            self._changed.notify_all()

    def drop(self, reason, count=1) -> None:
        self._slot = None
        self._note("drop", reason)

    def lost(self, reason) -> None:
        self._note("lost", reason)

    def restart(self, reason) -> None:
        self._note("restart", reason)

    def end(self, reason) -> None:
        self._note("end", reason)
