"""What a live run changes in itself while it runs: the size of hyperframes, how many may wait and for how long, what it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperframes.scheduling.degrade import RUNGS, Ladder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hyperframes.drivers.dispatch import Dispatch
    from hyperframes.drivers.live_tempo import Tempo
    from hyperframes.drivers.station import Station
    from hyperframes.packing import Halo

__all__ = ["Adapting", "Thinning"]

DEPTH_LEAST = 8
"""Hyperframes that there is memory for to wait, at least."""


class Thinning:
    """Which frames are taken while a run is degraded: all of them, or every second one."""

    __slots__ = ("every",)

    def __init__(self) -> None:
        self.every = 1


class Adapting:
    """The size, the depth of the queue and the age in it, as measured and as the load wants them.

    Parameters
    ----------
    tempo : Tempo
        How long hyperframes take at present.
    queue : int, optional
        Hyperframes that may wait; None: as `tempo` says.
    ttl : float, optional
        Age in seconds at which one that waits is given up; None: as `tempo` says.
    degrades : bool
        Whether it steps down when hyperframes are given up, and up again when it is calm.
    waits : bool
        Whether writers wait for room: then nothing is given up for its age, unless `ttl` says so.
    there : function
        Returns the streams that are not over.
    tell : function
        Tells observers.
    """

    def __init__(
        self,
        tempo: Tempo,
        *,
        queue: int | None,
        ttl: float | None,
        degrades: bool,
        waits: bool,
        there: Callable[[], Sequence[Station]],
        tell: Callable[..., None],
    ) -> None:
        self._tempo, self._queue, self._ttl, self._there, self._tell = tempo, queue, ttl, there, tell
        self._waits = waits
        self._temporal = tempo.packing.kind == "temporal"
        self._ladder = Ladder() if degrades else None
        self._overflows = 0
        self._infeasible = ""
        self.thinning = Thinning()
        self.level = 0
        """Steps down."""
        self.most = self.size = tempo.first_size()
        """Frames of a hyperframe that memory is planned for; and at present."""

    def ttl_ns(self) -> int | None:
        """Return the age at which a hyperframe that waits is given up; None: as the queue does by itself."""
        if self._ttl is not None:
            return round(self._ttl * 1e9)
        return None if self._waits else self._tempo.ttl_ns()

    def depth(self) -> int:
        """Return how many hyperframes may wait."""
        if self._queue is not None:
            return self._queue
        return min(self.most_depth(), self._tempo.depth(self.size, self._periods_ns()))

    def most_depth(self) -> int:
        """Return how many may wait at most: memory is planned for them."""
        if self._queue is not None:
            return self._queue
        return max(DEPTH_LEAST, 2 * len(self._there())) if self._temporal else DEPTH_LEAST

    def climb(self, dispatch: Dispatch, now_ns: int) -> None:
        """Stand on another rung of the ladder, if what waits and what was given up wants it."""
        if self._ladder is None:
            return
        overflowed, self._overflows = dispatch.overflows > self._overflows, dispatch.overflows
        share = dispatch.waiting / max(1, dispatch.depth)
        before, self.level = self.level, self._ladder.look(share, now_ns, overflowed=overflowed)
        if self.level == before:
            return
        rung = RUNGS[self.level]
        self.thinning.every = rung.every
        if self._temporal:
            self._resize(max(1, round(self.most * rung.size_share)))
        self._tell("degraded" if self.level > before else "recovered", level=self.level, rule=rung.rule)

    def tune(self, longest_halo: Callable[[], Halo], now_ns: int) -> None:
        """Choose the size anew that keeps the latency, now and then."""
        periods = self._periods_ns()
        if not self._tempo.is_time_to_tune(now_ns) or not periods or self.level:
            return
        answer = self._tempo.tuned(periods, longest_halo(), self.most)
        if answer.size != self.size:
            self._resize(answer.size)
        why = "; ".join(answer.reasons)
        if bool(why) != bool(self._infeasible):
            self._infeasible = why
            if why:
                self._tell("warning", message=f"the latency cannot be kept: {why}")

    def _periods_ns(self) -> list[float]:
        """Return the time between two frames, of each stream that has said what its frames look like."""
        return [one.period_ns for one in self._there() if one.spec is not None]

    def _resize(self, size: int) -> None:
        self.size = size
        for station in self._there():
            station.resize(size)
