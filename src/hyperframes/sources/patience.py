"""How long to wait for a live stream, and how long before trying again: decisions about times, no clock, no threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import random
    from fractions import Fraction

__all__ = ["Backoff", "FrameAge", "Patience"]

_STREAMED: Final = 30
"""Frames after which a connection counts as a good one."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long without frames means what."""

    stale_periods: float = 3.0
    """Frame periods without a frame until a stream is stale."""
    lost_seconds: float = 1.5
    """Seconds without a frame until its connection is given up and made anew."""
    lost_periods: float = 5.0
    """At least that many frame periods too: a camera of one frame in ten seconds is not lost after two."""
    first_seconds: float = 15.0
    """Seconds for the first frame of a connection that sends packets: a group of pictures can be long."""
    longest_seconds: float = 60.0
    """However slow a stream looks, it is lost then."""


class FrameAge:
    """Judges one connection by when its frames came. Times are nanoseconds of one monotonic clock.

    The period is the nominal one, where there is one, else what the connection showed so far.

    Parameters
    ----------
    patience : Patience
        What is long.
    opened_ns : int
        When the connection stood.
    rate : Fraction or None
        Nominal frames a second.
    doubt : int
        How many connections before this one fell silent almost at once; each doubles the time to be lost, since they
        may have been slow rather than silent.
    """

    __slots__ = ("_doubt", "_first_ns", "_last_ns", "_nominal_ns", "_opened_ns", "_patience", "num_frames")

    def __init__(self, patience: Patience, opened_ns: int, rate: Fraction | None = None, doubt: int = 0) -> None:
        self._patience, self._opened_ns, self._doubt = patience, opened_ns, doubt
        self._nominal_ns = None if rate is None else int(1e9 / rate)
        self._first_ns = self._last_ns = opened_ns
        self.num_frames = 0

    def frame(self, now_ns: int) -> None:
        """Take note of a frame."""
        if not self.num_frames:
            self._first_ns = now_ns
        self._last_ns = now_ns
        self.num_frames += 1

    @property
    def good(self) -> bool:
        """Whether the connection has shown enough frames to be trusted."""
        return self.num_frames >= _STREAMED

    def period_ns(self) -> int | None:
        """Return the time between two frames; None while unknown."""
        if self._nominal_ns is not None:
            return self._nominal_ns
        if self.num_frames < 2:
            return None
        return max(1, (self._last_ns - self._first_ns) // (self.num_frames - 1))

    def age_ns(self, now_ns: int) -> int:
        """Return how long ago the last frame came; before the first one, the connection."""
        return max(0, now_ns - self._last_ns)

    def limit_ns(self) -> int:
        """Return the age at which the connection is lost."""
        patience = self._patience
        seconds = patience.lost_seconds if self.num_frames else patience.first_seconds
        period = self.period_ns()
        periods = 0 if period is None else period * patience.lost_periods
        limit = max(seconds * 1e9, periods) * 2**self._doubt
        return int(min(limit, patience.longest_seconds * 1e9))

    def judge(self, now_ns: int) -> Literal["fresh", "stale", "lost"]:
        """Return what the stream is at `now_ns`."""
        age = self.age_ns(now_ns)
        if age > self.limit_ns():
            return "lost"
        period = self.period_ns()
        if self.num_frames and period is not None and age > self._patience.stale_periods * period:
            return "stale"
        return "fresh"


class Backoff:
    """Seconds to wait before each further try: doubling up to a limit, jittered so that cameras do not try in step.

    Parameters
    ----------
    random : random.Random
        Where the jitter comes from.
    first, longest : float
        Seconds before the first try and at most; each is scaled by 0.5 to 1.

    Examples
    --------
    >>> import random
    >>> backoff = Backoff(random.Random(1))
    >>> waits = [backoff.next() for _ in range(8)]
    >>> all(0.5 * full <= wait <= full for wait, full in zip(waits, [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5]))
    True
    """

    def __init__(self, random: random.Random, first: float = 0.2, longest: float = 5.0) -> None:
        self._random, self._first, self._longest = random, first, longest
        self._tries = 0

    def next(self) -> float:
        """Return how long to wait now."""
        full = min(self._longest, self._first * 2.0 ** min(self._tries, 32))
        self._tries += 1
        return full * (0.5 + 0.5 * self._random.random())

    def reset(self) -> None:
        """Begin with the shortest wait again: the last try was a success."""
        self._tries = 0
