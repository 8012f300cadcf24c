"""Where every live frame went: counts that close at every moment, and how long hyperframes took."""

from __future__ import annotations

import threading
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["Account", "Latencies", "total_of"]


class Account:
    """One stream's frames: ``captured = delivered + sum(dropped) + in_flight``, in every snapshot.

    Each method moves frames from one count to another under one lock, so there is no moment at which they do not add up.
    """

    __slots__ = ("_captured", "_delivered", "_dropped", "_in_flight", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captured = self._delivered = self._in_flight = 0
        self._dropped: dict[str, int] = {}

    def take(self) -> None:
        """Count a frame that was captured and has a slot."""
        with self._lock:
            self._captured += 1
            self._in_flight += 1

    def refuse(self, reason: str, count: int = 1) -> None:
        """Count frames that were captured and got no slot."""
        with self._lock:
            self._captured += count
            self._dropped[reason] = self._dropped.get(reason, 0) + count

    def drop(self, reason: str, count: int = 1) -> None:
        """Give up frames that were in flight."""
        with self._lock:
            self._in_flight -= count
            self._dropped[reason] = self._dropped.get(reason, 0) + count

    def deliver(self, count: int = 1, *, filtered: int = 0) -> None:
        """Count results that were handed over, and frames that an operator left out."""
        with self._lock:
            self._in_flight -= count + filtered
            self._delivered += count
            if filtered:
                self._dropped["filtered"] = self._dropped.get("filtered", 0) + filtered

    def snapshot(self) -> dict[str, Any]:
        """Return the counts of one moment: captured, delivered, dropped by reason, in_flight."""
        with self._lock:
            return {
                "captured": self._captured,
                "delivered": self._delivered,
                "dropped": dict(self._dropped),
                "in_flight": self._in_flight,
            }

    @property
    def captured(self) -> int:
        """Frames captured so far."""
        return self._captured


def total_of(snapshots: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of several streams' snapshots; it closes because each of them does."""
    dropped: dict[str, int] = {}
    for snapshot in snapshots:
        for reason, count in snapshot["dropped"].items():
            dropped[reason] = dropped.get(reason, 0) + count
    total: dict[str, Any] = {key: sum(s[key] for s in snapshots) for key in ("captured", "delivered", "in_flight")}
    total["dropped"] = dropped
    return total


class Latencies:
    """The last few thousand times of each stage, and the longest ever; written by one thread at a time a stage."""

    KEPT = 4096

    def __init__(self) -> None:
        self._stages: dict[str, _Recent] = {}

    def add(self, stage: str, ns: int) -> None:
        """Take note of one hyperframe's time in `stage`."""
        recent = self._stages.get(stage)
        if recent is None:
            recent = self._stages[stage] = _Recent(self.KEPT)
        recent.times[recent.count % self.KEPT] = ns
        recent.count += 1
        recent.longest = max(recent.longest, ns)

    def seconds(self) -> dict[str, dict[str, float]]:
        """Return p50, p95, p99 of the recent ones and the longest, by stage."""
        found = {}
        for stage, recent in tuple(self._stages.items()):
            held = np.sort(np.frombuffer(recent.times, np.int64, min(recent.count, self.KEPT)))
            if len(held):  # `numpy.percentile` takes ten times as long as the sorting
                p50, p95, p99 = (_quantile(held, q) / 1e9 for q in (0.5, 0.95, 0.99))
                found[stage] = {"p50": p50, "p95": p95, "p99": p99, "max": recent.longest / 1e9}
        return found


class _Recent:
    """A ring of times: made whole, so that it may be read while it is written."""

    __slots__ = ("count", "longest", "times")

    def __init__(self, kept: int) -> None:
        self.times = array("q", bytes(8 * kept))
        self.count, self.longest = 0, -1


def _quantile(ordered: Array, q: float) -> float:
    """Return a quantile of sorted numbers, interpolated as `numpy.quantile` does."""
    at = q * (len(ordered) - 1)
    low = int(at)
    below = int(ordered[low])
    return below + (int(ordered[min(low + 1, len(ordered) - 1)]) - below) * (at - low)
