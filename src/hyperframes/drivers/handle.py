"""The handle of a started pipeline, whoever runs it, and the observations that it yields."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.drivers.result import RunResult
    from hyperframes.drivers.setup import Setup
    from hyperframes.instruments import Observation

__all__ = ["Events", "Run", "Runs"]

_MOST_KEPT = 10_000
_LOOK_SECONDS = 0.2


class Runs(Protocol):
    """What a `Run` is the handle of: an `Engine`, or a run on a cluster."""

    setup: Setup

    def wait(self, timeout_seconds: float | None) -> RunResult:
        """Wait for the end; see `Run.wait`."""
        ...

    def join(self) -> None:
        """Wait for the end; see `Run.join`."""
        ...

    def cancel(self, reason: str) -> None:
        """Stop soon; see `Run.cancel`."""
        ...

    def stats(self) -> dict[str, Any]:
        """Return the counts so far; see `Run.stats`."""
        ...

    def events(self) -> Iterator[Observation]:
        """Yield observations; see `Run.events`."""
        ...


class Run:
    """The handle of a started pipeline."""

    def __init__(self, engine: Runs) -> None:
        self._engine = engine
        self.id = engine.setup.run_id
        """Source and plan hash: the same for every run of one plan on one input."""

    def __repr__(self) -> str:
        stats = self.stats()
        return f"Run({self.id}, {stats['frames_out']:,} of {stats['frames_in']:,} frames out)"

    def wait(self, timeout_seconds: float | None = None) -> RunResult:
        """Wait for the end and return the result.

        Raises
        ------
        HyperframesError
            What ended the run early.
        TimeoutError
            If it takes longer than `timeout_seconds`; the run goes on.
        """
        return self._engine.wait(timeout_seconds)

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop soon: nothing more starts, what runs finishes; what is whole is kept for a run with ``resume``."""
        self._engine.cancel(reason)

    def stats(self) -> dict[str, Any]:
        """Return the counts so far: frames_in, frames_out, filtered, hyperframes, dropped, ready, waiting, running."""
        return self._engine.stats()

    def join(self) -> None:
        """Wait for the end without raising what ended it."""
        self._engine.join()

    def events(self) -> Iterator[Observation]:
        """Yield what happens from now on until the run ends; a slow reader misses the oldest, and is told how many."""
        return self._engine.events()


class Events:
    """An instrument that keeps observations for whoever reads them; nothing before somebody does."""

    def __init__(self) -> None:
        self._seen: queue.Queue[Observation] | None = None
        self._lock = threading.Lock()

    def observe(self, observation: Observation) -> None:
        """Keep an observation, in place of the oldest where nobody reads."""
        seen = self._seen
        if seen is None:
            return
        with self._lock:  # a reader only takes: there is room for one
            if seen.full():
                with contextlib.suppress(queue.Empty):  # the reader was quicker
                    observation["missed"] = seen.get_nowait().get("missed", 0) + 1
            seen.put_nowait(observation)

    def read(self, finished: threading.Event) -> Iterator[Observation]:
        """Yield what comes from now on, until the run has ended."""
        with self._lock:
            seen = self._seen = self._seen or queue.Queue(_MOST_KEPT)
        while True:
            try:
                observation = seen.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if finished.is_set():
                    return
                continue
            yield observation
            if observation["kind"] == "finished":
                return
