"""Who goes first among ready tasks, and what a failure does: the rules a run is given by name."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from hyperframes.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.scheduling.events import Task

__all__ = ["POLICIES", "LazyHeap", "OnError", "Rank", "ReadyQueue", "Turns", "policy_key"]

Item = TypeVar("Item")
Key = tuple[Any, ...]
Rank = tuple[int, int, Key]
"""Lower goes first: minus priority, the turn of its stream, the policy's key."""
Lane = tuple[int, str]

POLICIES: dict[str, Callable[[Task, float, int], Key]] = {
    "fifo": lambda task, cost, order: (order,),
    "priority_by_index": lambda task, cost, order: task,
    "priority_by_cost": lambda task, cost, order: (-cost, *task),
}
"""Key of a ready task from the task, its cost and its place in the order of becoming ready: the lowest goes first.

``fifo`` keeps the order of becoming ready, ``priority_by_index`` starts the earliest hyperframe for latency,
``priority_by_cost`` the largest for a short tail (longest processing time first; ties by number).
"""


def policy_key(name: str) -> Callable[[Task, float, int], Key]:
    """Return the key function of a scheduling policy, or raise a PipelineError that lists them."""
    if name not in POLICIES:
        raise PipelineError(
            f"unknown scheduling policy {name!r}: expected one of {', '.join(POLICIES)}",
            expected=list(POLICIES),
            got=name,
            hint="Use --scheduling-policy fifo, priority_by_index or priority_by_cost.",
        )
    return POLICIES[name]


@dataclass(frozen=True, slots=True)
class OnError:
    """What a failed task does to the run."""

    then: Literal["fail", "continue"] = "fail"
    """``fail`` ends the run, ``continue`` gives up the hyperframe and those that depend on it."""
    retries: int = 0
    """How often a task is run again before that, if its failure may pass."""

    @classmethod
    def parse(cls, text: str | OnError) -> OnError:
        """Return the rule that `text` names: ``fail``, ``continue`` or ``retry:N`` (then fail).

        Examples
        --------
        >>> OnError.parse("retry:2")
        OnError(then='fail', retries=2)
        """
        if isinstance(text, OnError):
            return text
        if text in {"fail", "continue"}:
            return cls("continue" if text == "continue" else "fail")
        word, _, number = text.partition(":")
        if word == "retry" and number.isascii() and number.isdigit():
            return cls("fail", int(number))
        raise PipelineError(
            f"unknown rule for errors {text!r}: expected fail, continue or retry:N",
            got=text,
            hint="For example --on-error retry:2.",
        )


class LazyHeap(Generic[Item]):
    """A heap whose items may die inside it; they are skipped, and swept out before they outnumber the living."""

    __slots__ = ("_alive", "_limit", "_order", "entries")

    def __init__(self, alive: Callable[[Item], bool]) -> None:
        self._alive = alive
        self.entries: list[tuple[Key, int, Item]] = []
        """(key, order, item), dead ones included: no living item's key is below that of the first."""
        self._order = 0
        self._limit = 64

    def __len__(self) -> int:
        """Entries held, dead ones included."""
        return len(self.entries)

    def push(self, key: Key, item: Item) -> None:
        """Add an item; of equal keys the first pushed goes first."""
        if len(self.entries) >= self._limit:
            self.entries[:] = [entry for entry in self.entries if self._alive(entry[2])]
            heapq.heapify(self.entries)
            self._limit = 2 * len(self.entries) + 64
        self._order += 1
        heapq.heappush(self.entries, (key, self._order, item))

    def peek(self) -> tuple[Key, Item] | None:
        """Return the first living item with its key; None when there is none."""
        entries = self.entries
        while entries:
            key, _, item = entries[0]
            if self._alive(item):
                return key, item
            heapq.heappop(entries)
        return None

    def pop(self) -> Item:
        """Take out the item that `peek` showed."""
        return heapq.heappop(self.entries)[2]


class Turns:
    """Whose turn it is among streams of equal priority: start-time fair queueing (Goyal, Vin and Cheng 1996) with tasks of one length.

    A stream that waits has the number of its turn; whoever has the lowest is served, and waits for one turn more then. A stream
    that comes back gets the number of the turn that is being served: what it left out is not kept for it, and those who
    wait for the same turn are served in the order in which they came.
    """

    __slots__ = ("_now", "_turns", "fair")

    def __init__(self, *, fair: bool) -> None:
        self.fair = fair
        self._turns: dict[Lane, int] = {}
        self._now: dict[int, int] = {}  # the turn being served, by priority

    def lane(self, priority: int, stream: str) -> Lane:
        """Return which queue a task waits in: one a priority, and one a stream where streams take turns."""
        return priority, stream if self.fair else ""

    def of(self, lane: Lane) -> int:
        """Return the turn that `lane` has."""
        return self._turns.get(lane, 0)

    def join(self, lane: Lane) -> int:
        """Note that `lane` begins to wait; return its turn."""
        turn = self._turns[lane] = max(self._turns.get(lane, 0), self._now.get(lane[0], 0))
        return turn

    def serve(self, lane: Lane) -> None:
        """Note that `lane` is served now."""
        if self.fair:
            turn = self._now[lane[0]] = self._turns.get(lane, 0)
            self._turns[lane] = turn + 1

    def forget(self, stream: str) -> None:
        """Let a stream go that has ended."""
        for lane in [lane for lane in self._turns if lane[1] == stream]:
            del self._turns[lane]


class ReadyQueue(Generic[Item]):
    """Ready tasks: higher priority first, streams of one priority in turns, inside a stream by the policy's key."""

    __slots__ = ("_alive", "_came", "_lanes", "_order", "_spare", "_turns")

    def __init__(self, alive: Callable[[Item], bool], turns: Turns) -> None:
        self._alive, self._turns = alive, turns
        self._lanes: dict[Lane, LazyHeap[Item]] = {}
        self._order: list[tuple[int, int, int, Lane]] = []  # (-priority, turn, came, lane), each lane of _lanes once
        self._came = 0  # lanes that have begun to wait for a turn
        self._spare: list[LazyHeap[Item]] = []  # empty ones: lanes come and go with every item where there are many

    def __len__(self) -> int:
        """Entries held, dead ones included."""
        return sum(map(len, self._lanes.values()))

    def push(self, priority: int, stream: str, key: Key, item: Item) -> None:
        """Add an item."""
        lane = self._turns.lane(priority, stream)
        heap = self._lanes.get(lane)
        if heap is None:
            heap = self._lanes[lane] = self._spare.pop() if self._spare else LazyHeap(self._alive)
            heapq.heappush(self._order, self._waits(lane, self._turns.join(lane)))
        heap.push(key, item)

    def peek(self) -> Rank | None:
        """Return the rank of the first living item; None when there is none."""
        order = self._order
        while order:
            minus_priority, turn, _, lane = order[0]
            first = self._lanes[lane].peek()
            if first is None:
                heapq.heappop(order)
                self._spare.append(self._lanes.pop(lane))
            elif turn != self._turns.of(lane):  # it was served since
                heapq.heapreplace(order, self._waits(lane, self._turns.of(lane)))
            else:
                return minus_priority, turn, first[0]
        return None

    def pop(self) -> Item:
        """Take out the item whose rank `peek` returned."""
        lane = self._order[0][3]
        self._turns.serve(lane)
        return self._lanes[lane].pop()

    def _waits(self, lane: Lane, turn: int) -> tuple[int, int, int, Lane]:
        self._came += 1
        return -lane[0], turn, self._came, lane
