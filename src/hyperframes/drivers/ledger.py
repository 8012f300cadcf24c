"""Where every live frame went: counts that close at every moment, and how long hyperframes took."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np

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
        self._recent: dict[str, deque[int]] = {}
        self._longest: dict[str, int] = {}

    def add(self, stage: str, ns: int) -> None:
        """Take note of one hyperframe's time in `stage`."""
        recent = self._recent.get(stage)
        if recent is None:
            recent = self._recent[stage] = deque(maxlen=self.KEPT)
        recent.append(ns)
        if ns > self._longest.get(stage, -1):
            self._longest[stage] = ns

    def seconds(self) -> dict[str, dict[str, float]]:
        """Return p50, p95, p99 of the recent ones and the longest, by stage."""
        found = {}
        for stage, recent in tuple(self._recent.items()):
            held = np.array(tuple(recent), float) / 1e9
            p50, p95, p99 = np.percentile(held, (50, 95, 99)).tolist()
            found[stage] = {"p50": p50, "p95": p95, "p99": p99, "max": self._longest[stage] / 1e9}
        return found
