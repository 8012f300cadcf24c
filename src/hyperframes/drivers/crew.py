"""The threads of a live run: workers, the one that coordinates, the one that hands results over."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Protocol

from hyperframes.drivers.base import WorkerThread, start_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.drivers.entry import Entry
    from hyperframes.operators import Worker

__all__ = ["Crew", "ThreadCrew"]


class Crew(Protocol):
    """Who runs operators and callbacks: threads, or a test's virtual time."""

    def begin(self, turn: Callable[[bool], bool]) -> None:
        """Call `turn(wait)` again and again until it returns False."""
        ...

    def start(self, counts: dict[str, int]) -> dict[int, Worker]:
        """Return the workers, by number, `counts` of each resource."""
        ...

    def hand(self, worker: int, task: Callable[[], None], entries: tuple[Entry, ...]) -> None:
        """Run `task` on a worker."""
        ...

    def deliver(self, task: Callable[[], None]) -> None:
        """Run `task` where results are handed over, one after the other."""
        ...

    @property
    def inside(self) -> bool:
        """Whether it is one of these who asks: they are waited for, and cannot wait for the end themselves."""
        ...

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Wait until the coordinator sets `event`; return whether it has."""
        ...

    def end(self) -> None:
        """Let everybody finish what they have, and end."""
        ...


class ThreadCrew:
    """Runs operators, callbacks and the coordinator in threads."""

    def __init__(self) -> None:
        self._workers: dict[int, WorkerThread] = {}
        self._results: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()

    def begin(self, turn: Callable[[bool], bool]) -> None:
        """Call `turn` again and again until it returns False, and hand results over."""
        for name, loop in (("coordinator", lambda: _repeat(turn)), ("results", self._deliver)):
            thread = threading.Thread(target=loop, name=f"hyperframes-live-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def start(self, counts: dict[str, int]) -> dict[int, Worker]:
        """Return started workers by number, `counts` of each resource."""
        self._workers = start_workers(counts)
        return {number: worker.worker for number, worker in self._workers.items()}

    def hand(self, worker: int, task: Callable[[], None], entries: tuple[Entry, ...]) -> None:
        """Run `task` on a worker."""
        self._workers[worker].inbox.put(task)

    def deliver(self, task: Callable[[], None]) -> None:
        """Run `task` after those before it."""
        self._results.put(task)

    @property
    def inside(self) -> bool:
        """Whether one of these threads asks."""
        return threading.current_thread() in {*self._threads, *(worker.thread for worker in self._workers.values())}

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Wait until the coordinator says that it is over; return whether it is."""
        return event.wait(timeout)

    def end(self) -> None:
        """Let every thread finish what it has, and end."""
        for worker in self._workers.values():
            worker.inbox.put(None)
        for worker in self._workers.values():
            worker.thread.join()
        self._results.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _deliver(self) -> None:
        while (task := self._results.get()) is not None:
            task()


def _repeat(turn: Callable[[bool], bool]) -> None:
    while turn(True):
        pass
