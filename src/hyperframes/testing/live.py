"""A live run under virtual time: no threads, no sleeps, the same logic.

clock = ManualClock()
crew = VirtualCrew(clock, service=lambda entries: 0.01)
live = LiveRuntime(..., clock=clock, crew=crew).start()
live.feed(...)
crew.advance(0.1)
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from hyperframes.drivers.base import host_worker

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from hyperframes.clock import ManualClock
    from hyperframes.drivers.entry import Entry
    from hyperframes.operators import Worker

__all__ = ["VirtualCrew"]


class VirtualCrew:
    """Runs a live run's work when its virtual time has come.

    Parameters
    ----------
    clock : ManualClock
        The run's clock; moved by `advance`.
    service : function, optional
        Seconds that a worker takes for the hyperframes it was given; default none.
    handing_over : function, optional
        Seconds that the callbacks of one hyperframe take; default none.
    """

    def __init__(
        self,
        clock: ManualClock,
        service: Callable[[tuple[Entry, ...]], float] | None = None,
        handing_over: Callable[[], float] | None = None,
    ) -> None:
        self.clock = clock
        self._service = service or (lambda entries: 0.0)
        self._handing_over = handing_over or (lambda: 0.0)
        self._tasks: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._turn: Callable[[bool], bool] = lambda wait: False
        self._handed_over_ns = 0
        self.running = False
        self.inside = False
        """Whether a task or a callback is being run."""

    def begin(self, turn: Callable[[bool], bool]) -> None:
        """Take the coordinator's turn."""
        self._turn, self.running = turn, True

    def start(self, counts: dict[str, int]) -> dict[int, Worker]:
        """Return workers, `counts` of each resource."""
        resources = [resource for resource, count in counts.items() for _ in range(count)]
        return {number: host_worker(number, resource) for number, resource in enumerate(resources)}

    def hand(self, worker: int, task: Callable[[], None], entries: tuple[Entry, ...]) -> None:
        """Run `task` when its service time is over; at once where it has no hyperframes."""
        if not entries:
            self._do(task)
            return
        self._at(self.clock.now_ns() + round(self._service(entries) * 1e9), task)

    def deliver(self, task: Callable[[], None]) -> None:
        """Run `task` after those before it."""
        begin = max(self.clock.now_ns(), self._handed_over_ns)
        self._handed_over_ns = begin + round(self._handing_over() * 1e9)
        self._at(self._handed_over_ns, task)

    def _at(self, ns: int, task: Callable[[], None]) -> None:
        heapq.heappush(self._tasks, (ns, next(self._order), task))

    def settle(self) -> None:
        """Do everything that is to be done by now."""
        while True:
            self.running = self._turn(False) and self.running
            if not self._tasks or self._tasks[0][0] > self.clock.now_ns():
                return
            self._do(heapq.heappop(self._tasks)[2])

    def _do(self, task: Callable[[], None]) -> None:
        before, self.inside = self.inside, True
        task()
        self.inside = before

    def advance(self, seconds: float, *, step: float = 0.001) -> None:
        """Let time pass in steps, at the latest when something is due."""
        end = self.clock.now_ns() + round(seconds * 1e9)
        self.settle()
        while self.clock.now_ns() < end:
            due = min(end, self.clock.now_ns() + round(step * 1e9))
            if self._tasks:
                due = min(due, max(self._tasks[0][0], self.clock.now_ns()))
            self.clock.advance((due - self.clock.now_ns()) / 1e9)
            self.settle()

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Let time pass until the coordinator sets `event`; return whether it has."""
        end = None if timeout is None else self.clock.now_ns() + round(timeout * 1e9)
        while not event.is_set() and (end is None or self.clock.now_ns() < end):
            self.advance(0.001)
        return event.is_set()

    def end(self) -> None:
        """Do what is left."""
        self.settle()
