"""How much memory this process and its children really hold: summed proportional set size, sampled."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemorySampler", "tree_pss_bytes"]


def tree_pss_bytes() -> int:
    """Return the proportional set size of this process and its children, in bytes; resident size where there is none.

    Pages shared by n processes count one n-th in each, so shared frame memory is counted once.
    """
    process = psutil.Process()
    total = 0
    for member in [process, *process.children(recursive=True)]:
        try:
            total += _pss_bytes(member)
        except psutil.NoSuchProcess:
            continue  # it ended between being listed and being read
    return total


def _pss_bytes(process: psutil.Process) -> int:
    try:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        pass  # another system, or the process ended: psutil knows which
    return int(process.memory_info().rss)


class MemorySampler:
    """Samples `tree_pss_bytes` in a thread and keeps the largest."""

    def __init__(self, observe: Callable[[dict[str, object]], None], interval_seconds: float = 0.2) -> None:
        self._observe, self._interval = observe, interval_seconds
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="hyperframes-memory", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> int:
        """Take a last sample and return the largest, in bytes."""
        self._over.set()
        self._thread.join()
        self._sample()
        return self._peak

    def _loop(self) -> None:
        while not self._over.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        now = tree_pss_bytes()
        self._peak = max(self._peak, now)
        self._observe({"kind": "memory", "bytes": now})
