"""When a live run that cannot keep up gives up quality, and when it takes it back: one step at a time, with hysteresis."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RUNGS", "Ladder", "Rung"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder."""

    rule: str
    every: int
    """Of so many frames one is taken."""
    size_share: float
    """Of the size of a hyperframe; 0: one frame."""


RUNGS = (
    Rung("full", 1, 1.0),
    Rung("half the rate", 2, 1.0),
    Rung("half the size", 2, 0.5),
    Rung("frame by frame", 2, 0.0),
)


SETTLES = 3


class Ladder:
    """Looks at how full the queue is and says which rung to stand on.

    Parameters
    ----------
    down_share, up_share : float
        Fuller than the first for `down_ns`: one rung down. Emptier than the second for `up_ns`: one rung up.
    down_ns, up_ns : int
        How long; `SETTLES` times as long for a second step down, since a queue takes its time to empty. Each relapse within `up_ns` after a step up doubles the time until the next one, up to eight times.
    """

    def __init__(
        self,
        *,
        down_share: float = 0.8,
        up_share: float = 0.3,
        down_ns: int = 200_000_000,
        up_ns: int = 600_000_000,
    ) -> None:
        self.level = 0
        self._down_share, self._up_share, self._down_ns, self._up_ns = down_share, up_share, down_ns, up_ns
        self._overflowed_ns: int | None = None
        self._full_since: int | None = None
        self._calm_since: int | None = None
        self._stepped_up_ns: int | None = None
        self._patience = 1

    def look(self, share: float, now_ns: int, *, overflowed: bool = False) -> int:
        """Return the rung, from 0, for a queue that is full to `share` at present.

        One that has `overflowed` since the last look counts as full for `down_ns`: whoever looks in step with the worker may
        see it emptier every time.
        """
        if overflowed:
            self._overflowed_ns = now_ns
        if self._overflowed_ns is not None and now_ns - self._overflowed_ns < self._down_ns:
            share = 1.0
        if share >= self._down_share:
            self._full_since = self._full_since or now_ns
        elif share < (self._down_share + self._up_share) / 2:  # a queue that is full loses one now and then
            self._full_since = None
        self._calm_since = (self._calm_since or now_ns) if share <= self._up_share else None
        patience = self._down_ns if self.level == 0 else SETTLES * self._down_ns
        if self._full_since is not None and now_ns - self._full_since >= patience and self.level < len(RUNGS) - 1:
            self._step_down(now_ns)
        elif self._calm_since is not None and now_ns - self._calm_since >= self._patience * self._up_ns and self.level:
            self.level -= 1
            self._stepped_up_ns = self._calm_since = now_ns
        return self.level

    def _step_down(self, now_ns: int) -> None:
        self.level += 1
        self._full_since = now_ns
        relapse = self._stepped_up_ns is not None and now_ns - self._stepped_up_ns < 2 * self._up_ns
        self._patience = min(8, 2 * self._patience) if relapse else 1
        self._stepped_up_ns = None
