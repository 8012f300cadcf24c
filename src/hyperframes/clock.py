"""Time as a parameter: the real clock and one that tests move by hand."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """Monotonic nanoseconds."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds; never runs backwards."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    now_ns = staticmethod(time.monotonic_ns)
    """Return the time in nanoseconds; asked several times for each live frame, so nothing stands between."""


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the time last set."""
        return self._now_ns

    def advance(self, seconds: float) -> None:
        """Move the clock forward by `seconds`."""
        if seconds < 0:
            raise ValueError(f"a clock cannot run backwards: got {seconds} seconds")
        self._now_ns += round(seconds * 1e9)
