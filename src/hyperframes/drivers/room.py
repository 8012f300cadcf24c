"""Where writers of a live run wait, if they are to wait for memory rather than drop their frames."""

from __future__ import annotations

import threading
from collections import deque

__all__ = ["Room"]


class Room:
    """Where writers wait for memory to be given back.

    One is woken at a time, who wakes the next before it looks again: all of them at once would stand in line for Python's
    lock, and each change of threads there costs more than a frame does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()  # in the order of what they have seen
        self.count = 0
        """How often memory was given back."""
        self.is_open = False

    def freed(self) -> None:
        """Take note that memory was given back."""
        with self._lock:
            self.count += 1
            self._wake_next()

    def open(self) -> None:
        """Let nobody wait any more."""
        self.is_open = True
        self.freed()

    def wait(self, seen: int) -> None:
        """Wait until memory was given back more than `seen` times."""
        with self._lock:
            if self.count > seen or self.is_open:
                return
            bell = threading.Lock()
            bell.acquire()
            self._waiting.append((seen, bell))
        try:
            bell.acquire()
        except BaseException:  # by a signal: nobody may wake who is gone
            with self._lock:
                self._waiting = deque(one for one in self._waiting if one[1] is not bell)
            raise
        finally:
            with self._lock:
                self._wake_next()

    def _wake_next(self) -> None:
        if self._waiting and self._waiting[0][0] < self.count:
            self._waiting.popleft()[1].release()
