"""A lock that nobody comes to hold while waiting for Python's own."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["AwakeLock"]

FIRST_SECONDS: Final = 0.0002
LONGEST_SECONDS: Final = 0.005


class AwakeLock:
    """A lock for sections of some microseconds that tens of threads go through.

    Notes
    -----
    A thread that sleeps in `threading.Lock.acquire` owns the lock from the moment that it is released, but goes on only once
    it has Python's lock too, for which it may wait for 5 ms behind others. Everybody else then finds the lock taken and goes to
    sleep in it as well, and the queue never empties again. So this one is only ever taken by a thread that runs: one that
    finds it taken sleeps for a moment outside of it, longer each time, and tries again.
    """

    __slots__ = ("_lock", "acquire_now", "release")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acquire_now: Callable[[], bool] = partial(self._lock.acquire, False)
        """Take the lock if nobody has it; return whether it was taken."""
        self.release: Callable[[], None] = self._lock.release
        """Let others take it."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; return whether it was taken, as it always is unless `blocking` is False."""
        seconds = FIRST_SECONDS
        while not self.acquire_now():
            if not blocking:
                return False
            time.sleep(seconds)
            seconds = min(2 * seconds, LONGEST_SECONDS)
        return True

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()
