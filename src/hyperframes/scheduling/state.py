"""What the scheduler remembers: hyperframes in flight, their tasks, their streams; and which ids are behind it."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from enum import IntEnum
from typing import TYPE_CHECKING

from hyperframes.scheduling.events import Sealed, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.scheduling.graph import StageGraph

__all__ = ["IdRanges", "Life", "Phase", "Stream", "Work"]


class Phase(IntEnum):
    """Where a task stands."""

    WAITING = 0
    READY = 1
    RUNNING = 2
    SPLIT = 3
    """Its parts stand for it."""
    DONE = 4
    GONE = 5
    """Never to run again: its hyperframe was given up."""


class Work:
    """One stage of one hyperframe, or one part of it."""

    __slots__ = (
        "attempt",
        "indegree",
        "left",
        "life",
        "losses",
        "next",
        "order",
        "phase",
        "pieces",
        "prior",
        "task",
        "whole",
    )

    def __init__(self, life: Life, task: Task, indegree: int, whole: Work | None = None) -> None:
        self.life, self.task, self.indegree, self.whole = life, task, indegree, whole
        self.phase = Phase.WAITING
        self.order = 0
        """Place in the order of becoming ready."""
        self.attempt = 0
        self.losses = 0
        """Attempts that ended with their worker."""
        self.next: dict[Work, None] = {}
        """Tasks of other hyperframes that wait for this one."""
        self.prior: dict[Work, bool] = {}
        """Tasks of other hyperframes that this one still waits for; True where that is its turn in a sequential stage,
        False for an explicit edge. Emptied as they end, so no chain is kept alive."""
        self.pieces: tuple[Work, ...] = ()
        self.left = 0
        """Pieces not done."""

    def ended(self) -> bool:
        """Whether nobody need wait for it any more."""
        return self.phase >= Phase.DONE


class Life:
    """One hyperframe between Sealed and its end."""

    __slots__ = (
        "breaks",
        "complete",
        "dropped",
        "elders",
        "first",
        "left",
        "running",
        "sealed",
        "shares",
        "started",
        "stream",
        "works",
    )

    def __init__(self, sealed: Sealed, stream: Stream, graph: StageGraph) -> None:
        self.sealed, self.stream = sealed, stream
        self.works = tuple([Work(self, Task(sealed.id, i), n) for i, n in enumerate(graph.indegree)])
        self.shares = 1
        """How many ordinary hyperframes it costs, where it is heavy."""
        self.left = len(self.works)
        """Stages not done."""
        self.running = 0
        """Tasks on workers now."""
        self.elders = 0
        """Edges from other hyperframes not yet met."""
        self.first = False
        """True once it can finish whatever the others do: it may take the last results slot."""
        self.started = False
        """True once it holds a results slot."""
        self.complete = False
        self.dropped = False
        self.breaks = False
        """True when those that depend on it are given up with it."""

    @property
    def id(self) -> int:
        """Its number."""
        return self.sealed.id

    def is_finishing(self) -> bool:
        """Whether what runs now is all that is left of it."""
        return all(
            work.phase in {Phase.DONE, Phase.RUNNING}
            or (work.phase is Phase.SPLIT and all(p.phase in {Phase.DONE, Phase.RUNNING} for p in work.pieces))
            for work in self.works
        )


class Stream:
    """Hyperframes of one stream in order, and where its sequential stages stand."""

    __slots__ = ("broken", "coming", "ended", "last_id", "line", "name", "num_unstarted")

    def __init__(self, name: str, graph: StageGraph) -> None:
        self.name = name
        self.ended = False
        self.last_id = -1
        self.line: OrderedDict[int, Life] = OrderedDict()
        """Neither emitted nor dropped, by number."""
        self.num_unstarted = 0
        self.coming = Life(Sealed(-1, stream=name), self, graph)
        """Stands for the next hyperframe: what that will wait for in sequential stages; never runs itself."""
        for work in self.coming.works:
            work.indegree += 1
        self.broken = False
        """True once a sequential stage failed: no later hyperframe can have its state."""

    def head(self) -> Life | None:
        """Return the lowest hyperframe that is not finished."""
        return next(iter(self.line.values()), None)


class IdRanges:
    """A set of numbers kept as ranges, so that a long run without gaps takes no room."""

    __slots__ = ("_starts", "_stops")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __contains__(self, number: int) -> bool:
        stops = self._stops
        if not stops or number >= stops[-1]:
            return False  # as nearly always: numbers rise
        place = bisect.bisect_right(self._starts, number) - 1
        return place >= 0 and number < stops[place]

    def __iter__(self) -> Iterator[int]:
        for start, stop in zip(self._starts, self._stops, strict=True):
            yield from range(start, stop)

    @property
    def num_ranges(self) -> int:
        """How much room it takes."""
        return len(self._starts)

    def add(self, number: int) -> None:
        """Put `number` in."""
        if self._stops and number == self._stops[-1]:
            self._stops[-1] = number + 1
            return
        if number in self:
            return
        place = bisect.bisect_right(self._starts, number)
        joins_left = place > 0 and self._stops[place - 1] == number
        joins_right = place < len(self._starts) and self._starts[place] == number + 1
        if joins_left and joins_right:
            self._stops[place - 1] = self._stops[place]
            del self._starts[place], self._stops[place]
        elif joins_left:
            self._stops[place - 1] = number + 1
        elif joins_right:
            self._starts[place] = number
        else:
            self._starts.insert(place, number)
            self._stops.insert(place, number + 1)

    def discard(self, number: int) -> None:
        """Take `number` out."""
        if number not in self:
            return
        place = bisect.bisect_right(self._starts, number) - 1
        start, stop = self._starts[place], self._stops[place]
        parts = [(low, high) for low, high in ((start, number), (number + 1, stop)) if low < high]
        self._starts[place : place + 1] = [low for low, _ in parts]
        self._stops[place : place + 1] = [high for _, high in parts]
