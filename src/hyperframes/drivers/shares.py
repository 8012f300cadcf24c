"""Which node captures which stream, and what all nodes have counted: plain values, no network.

A node that is lost takes with it what it had in flight; its streams begin a new epoch on the nodes that are left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.ledger import total_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Move", "Shares"]

OVER = frozenset({"ended", "removed"})
_NOTHING: dict[str, Any] = {"captured": 0, "delivered": 0, "dropped": {}, "in_flight": 0}
_SUMMED = ("hyperframes", "partial", "callback_errors")


@dataclass(frozen=True, slots=True)
class Move:
    """A stream that a node is to capture from now on."""

    stream: str
    node: str
    epoch: int
    """Number of its first epoch there."""


@dataclass(slots=True)
class _Node:
    weight: float
    """How much it can do, beside others."""
    stats: dict[str, Any] = field(default_factory=dict)
    """What it told last."""
    lost: str = ""
    """Why it is lost; empty while it is there."""


@dataclass(slots=True)
class _Stream:
    node: str | None
    """Who captures it; None: nobody is left."""
    epoch: int = 0
    past: list[dict[str, Any]] = field(default_factory=list)
    """Counts of nodes that had it before, closed."""
    moves: int = 0
    collected: int = 0
    """Results of it that came here from its node."""


class Shares:
    """Shares streams out over nodes, and adds up what nodes count.

    Parameters
    ----------
    together : bool
        Whether one node must have all streams: spatial hyperframes hold one instant of all of them.
    collects : bool
        Whether results are delivered here: of a lost node only those count that came.

    Examples
    --------
    >>> shares = Shares()
    >>> shares.join("east", 2)
    >>> shares.join("west", 1)
    >>> [shares.place(f"cam{i}").node for i in range(3)]
    ['east', 'east', 'west']
    >>> [(move.stream, move.node, move.epoch) for move in shares.lose("east", "it was switched off")]
    [('cam0', 'west', 1), ('cam1', 'west', 1)]
    """

    def __init__(self, *, together: bool = False, collects: bool = False) -> None:
        self._together, self._collects = together, collects
        self._nodes: dict[str, _Node] = {}
        self._streams: dict[str, _Stream] = {}

    def join(self, node: str, weight: float = 1.0) -> None:
        """Let a node take streams; `weight` says how much it can do."""
        self._nodes[node] = _Node(max(weight, 1e-9))

    @property
    def living(self) -> list[str]:
        """Names of the nodes that are there."""
        return [name for name, node in self._nodes.items() if not node.lost]

    @property
    def orphans(self) -> list[str]:
        """Names of streams that nobody captures, since no node was left."""
        return [name for name, stream in self._streams.items() if stream.node is None]

    @property
    def over(self) -> bool:
        """Whether every stream has ended by itself or was removed."""
        return all(stream.node is not None and self._ended(name) for name, stream in self._streams.items())

    def node_of(self, stream: str) -> str | None:
        """Return who captures a stream; None if nobody does."""
        found = self._streams.get(stream)
        return None if found is None else found.node

    def place(self, stream: str) -> Move:
        """Give a new stream to the node with the fewest for what it can do."""
        self._streams[stream] = _Stream(self._least())
        return Move(stream, self._streams[stream].node or "", 0)

    def _least(self) -> str | None:
        living = self.living
        if not living:
            return None
        if self._together:
            return next((s.node for s in self._streams.values() if s.node in living), living[0])
        held = dict.fromkeys(living, 0)
        for name, stream in self._streams.items():
            if stream.node in held and not self._ended(name):
                held[stream.node] += 1
        return min(living, key=lambda name: (held[name] + 1) / self._nodes[name].weight)

    def _ended(self, stream: str) -> bool:
        told = self._told(stream)
        return told is not None and told.get("state") in OVER

    def _told(self, stream: str) -> dict[str, Any] | None:
        """Return the counts that a stream's node told last."""
        held = self._streams[stream]
        if held.node is None:
            return None
        found: dict[str, Any] | None = self._nodes[held.node].stats.get("streams", {}).get(stream)
        return found

    # What nodes tell ----------------------------------------------------------------------------------------------------

    def tell(self, node: str, stats: Mapping[str, Any], collected: Iterable[str] = ()) -> None:
        """Take in what a node counts, and whose results came from it: those that it had counted before it said so."""
        self._nodes[node].stats = dict(stats)
        for stream in collected:
            self._streams[stream].collected += 1

    def lose(self, node: str, why: str) -> list[Move]:
        """Close the account of a node that is gone; return where its streams go on, each in a new epoch.

        Streams that had ended stay as they were; where no node is left, nobody gets the others: see `orphans`.
        """
        self._nodes[node].lost = why
        moves = []
        for name, stream in self._streams.items():
            if stream.node != node:
                continue
            ended, told = self._ended(name), self._told(name)
            if told is not None:
                stream.past.append(_closed(told, stream.collected if self._collects else told["delivered"]))
                stream.epoch = max(stream.epoch, int(told["epoch"]))
            stream.collected = 0
            self._nodes[node].stats.get("streams", {}).pop(name, None)
            if ended:
                self._nodes[node].stats.setdefault("streams", {})[name] = {**_NOTHING, "state": "ended"}
                continue
            stream.node = None
            moves.append(name)
        return [self._move(name) for name in moves if self.living]

    def adopt(self) -> list[Move]:
        """Give streams that nobody captures to the nodes that are there now."""
        return [self._move(name) for name in self.orphans if self.living]

    def _move(self, name: str) -> Move:
        stream = self._streams[name]
        stream.node, stream.epoch, stream.moves = self._least(), stream.epoch + 1, stream.moves + 1
        return Move(name, stream.node or "", stream.epoch)

    # The merged view ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return the counts of all nodes as one run's; they add up, per stream and in sum.

        Quantiles of latencies are those of the slowest node: no more of all hyperframes took longer. What a node captured
        after its last word is known to its journal only.
        """
        streams = {name: self._stream_stats(name) for name in self._streams}
        told = [node.stats for node in self._nodes.values() if node.stats]
        total: dict[str, Any] = total_of(list(streams.values()))
        total |= {key: sum(stats.get(key, 0) for stats in told) for key in _SUMMED}
        total["sealed"] = _summed([stats.get("sealed", {}) for stats in told])
        living = [self._nodes[name].stats for name in self.living if self._nodes[name].stats]
        return {
            **total,
            "streams": streams,
            "latency_seconds": _slowest([stats["latency_seconds"] for stats in told]),
            "queue": _summed([stats["queue"] for stats in living]) or {"depth": 0, "capacity": 0, "mean_depth": 0.0},
            "device": _devices([stats["device"] for stats in living]),
            "level": max((stats.get("level", 0) for stats in living), default=0),
            "lock_wait_share": max((stats.get("lock_wait_share", 0.0) for stats in living), default=0.0),
            "nodes": {name: self._node_stats(name) for name in self._nodes},
        }

    def _stream_stats(self, name: str) -> dict[str, Any]:
        stream, told = self._streams[name], self._told(name)
        now = told or _NOTHING
        rest: dict[str, Any] = {
            "fps": 0.0,
            "last_frame_age_seconds": None,
            "reconnects": 0,
            "span_error_seconds": 0.0,
            "drift_ppm": 0.0,
        }
        rest |= {key: value for key, value in now.items() if key not in _NOTHING}
        rest["reconnects"] += stream.moves
        rest["epoch"] = max(int(rest.get("epoch", -1)), stream.epoch)
        rest["state"] = "lost" if stream.node is None else rest.get("state", "added")
        return {**total_of([*stream.past, now]), **rest, "node": stream.node}

    def _node_stats(self, name: str) -> dict[str, Any]:
        node = self._nodes[name]
        held = [stream for stream, s in self._streams.items() if s.node == name]
        return {"state": f"lost: {node.lost}" if node.lost else "running", "streams": held}


def _closed(told: Mapping[str, Any], delivered: int) -> dict[str, Any]:
    """Return the last counts of a node that is gone, closed: what nobody saw delivered or dropped went with it."""
    dropped = dict(told["dropped"])
    lost = told["captured"] - sum(dropped.values()) - delivered
    if lost:
        dropped["node_lost"] = dropped.get("node_lost", 0) + lost
    return {"captured": told["captured"], "delivered": delivered, "dropped": dropped, "in_flight": 0}


def _summed(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        for key, count in part.items():
            found[key] = found.get(key, 0) + count
    return found


def _slowest(parts: list[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for stages in parts:
        for stage, told in stages.items():
            held = found.setdefault(stage, dict(told))
            for quantile, seconds in told.items():
                held[quantile] = max(held[quantile], seconds)
    return found


def _devices(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    workers = sum(part["workers"] for part in parts)
    busy = sum(part["busy_share"] * part["workers"] for part in parts)
    return {
        "resource": ", ".join(sorted({part["resource"] for part in parts})) or "compute",
        "workers": workers,
        "busy_share": busy / max(1, workers),
        "failures": sum(part["failures"] for part in parts),
    }
