"""What drivers share: worker threads that wait for tasks and help each other with parts of one."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.machine import machine_facts
from hyperframes.operators import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Gate", "WorkerThread", "host_worker", "start_workers"]


class WorkerThread:
    """A thread that runs what is put in its inbox, and the `Worker` that operators see.

    ``worker.split`` shares a loop with workers that happen to be idle: everybody takes the next part until none is
    left, so a late helper costs nothing and the caller never waits for one that has not begun.
    """

    def __init__(self, index: int, resource: str, idle: set[WorkerThread], threads: int = 1) -> None:
        self.worker = Worker(index, resource, _device(resource), self._split, threads)
        self.inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.handed_over_ns = 0
        """When the driver last put a task in the inbox; set by the driver."""
        self.waited_ns = 0
        """Time between a task being put in the inbox and its start, summed: idle while work was there."""
        self._idle = idle  # of this resource, shared by its workers
        self.thread = threading.Thread(target=self._loop, name=f"hyperframes-{resource}-{index}", daemon=True)

    def _loop(self) -> None:
        while True:
            self._idle.add(self)
            work = self.inbox.get()
            self._idle.discard(self)
            if work is None:
                return
            if self.handed_over_ns:
                self.waited_ns += time.perf_counter_ns() - self.handed_over_ns
                self.handed_over_ns = 0
            work()

    def _split(self, total: int, part: Callable[[int, int], None]) -> None:
        helpers = [h for h in tuple(self._idle) if h is not self][: max(0, total - 1)]
        if not helpers:
            part(0, total)
            return
        shared = _SharedLoop(total, min(total, 2 * (len(helpers) + 1)), part)
        for helper in helpers:
            helper.inbox.put(shared.help)
        shared.help()
        shared.wait()


class _SharedLoop:
    """One loop over [0, total) cut in chunks that several threads take in turn."""

    def __init__(self, total: int, chunks: int, part: Callable[[int, int], None]) -> None:
        self._bounds = [(total * i // chunks, total * (i + 1) // chunks) for i in range(chunks)]
        self._next = itertools.count()  # next() is atomic
        self._left = chunks
        self._part = part
        self._error: BaseException | None = None
        self._done = threading.Condition()

    def help(self) -> None:
        while (chunk := next(self._next)) < len(self._bounds):
            try:
                self._part(*self._bounds[chunk])
            except BaseException as error:  # noqa: BLE001 - handed to the thread that asked for the loop
                self._error = self._error or error
            with self._done:
                self._left -= 1
                self._done.notify_all()

    def wait(self) -> None:
        with self._done:
            self._done.wait_for(lambda: self._left == 0)
        if self._error is not None:
            raise self._error


class Gate:
    """Counts what a source may still fill; those who wait are let through when more is granted or the gate opens."""

    def __init__(self) -> None:
        self._granted = 0
        self._open = False
        self._changed = threading.Condition()

    def grant(self, count: int) -> None:
        """Let `count` more through."""
        with self._changed:
            self._granted += count
            self._changed.notify_all()

    def open(self) -> None:
        """Let everybody through from now on."""
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def pass_one(self) -> None:
        """Wait until one more may pass."""
        with self._changed:
            self._changed.wait_for(lambda: self._open or self._granted > 0)
            self._granted -= 1


def _device(resource: str) -> str | None:
    kind, _, name = resource.partition(":")
    return name if kind == "device" else None


def host_worker(index: int, resource: str) -> Worker:
    """Return a worker that shares its loops with nobody."""
    return Worker(index, resource, _device(resource))


def start_workers(counts: dict[str, int]) -> dict[int, WorkerThread]:
    """Return started worker threads by number, `counts` of each resource; libraries get each one's share of the cores."""
    workers: dict[int, WorkerThread] = {}
    share = max(1, machine_facts().cores // max(1, sum(counts.values())))
    for resource, count in counts.items():
        idle: set[Any] = set()
        for _ in range(count):
            index = len(workers)
            workers[index] = WorkerThread(index, resource, idle, share)
    for worker in workers.values():
        worker.thread.start()
    return workers
