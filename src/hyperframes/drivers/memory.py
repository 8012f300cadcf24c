"""How much memory this process and its children really hold: summed proportional set size, sampled."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemorySampler", "give_back_freed", "tree_pss_bytes"]


def tree_pss_bytes() -> int:
    """Return the proportional set size of this process and its children, in bytes; resident size where there is none.

    Pages shared by n processes count one n-th in each, so shared frame memory is counted once. The kernel walks all
    pages for it: some milliseconds a gigabyte.
    """
    return sum(map(_pss_bytes, _tree()))


def _tree() -> list[int]:
    """Return the ids of this process and its children."""
    found = [os.getpid()]
    for process in found:  # it grows meanwhile
        children = _children(process)
        if children is None:  # another system
            return [found[0], *(child.pid for child in psutil.Process().children(recursive=True))]
        found += children
    return found


def _children(process: int) -> list[int] | None:
    """Return the children of a process where the kernel lists them: asking every process for its parent takes long."""
    if not _lists_children():
        return None
    children: list[int] = []
    gone = (FileNotFoundError, PermissionError, ProcessLookupError)  # it ended, or one of its threads did
    with suppress(*gone):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(*gone):
                children += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
    return children


@functools.cache
def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE")


@functools.cache
def _lists_children() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _pss_bytes(process: int) -> int:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        pass  # another system, or the process ended: psutil knows which
    return _rss_bytes(process)


def _rss_bytes(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _page_bytes()
    except OSError:
        pass  # another system, or it ended: psutil knows which
    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0  # it ended between being listed and being read


def give_back_freed() -> None:
    """Give memory that was freed back to the system, where the C library would keep it for the threads that had it."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # not every C library has it
            ctypes.CDLL(None).malloc_trim(0)


def _nobody(told: dict[str, object]) -> None:
    """Take note of nothing."""


_read_alone = (0, 0)


def _note_alone(pss: int, rss: int) -> None:
    global _read_alone
    _read_alone = (pss, rss)


class MemorySampler:
    """Samples the memory of the process tree in a thread and keeps the largest.

    The kernel takes milliseconds to tell the proportional size. While this process has no children it is read once: from
    then on, and in later runs, it moves with the resident size, as pages that it alone has come to hold count in full. With
    children it is read where the resident size has grown by more than `STEP_BYTES` over its highest when read before, and so
    seldom that reading takes at most `SHARE` of the time.
    """

    STEP_BYTES = 1 << 20
    SHARE = 0.005

    def __init__(self, observe: Callable[[dict[str, object]], None], interval_seconds: float = 0.2) -> None:
        self._observe, self._interval = observe, interval_seconds
        self._peak = 0
        self._pss, self._rss = _read_alone
        self._alone = bool(self._rss)  # whether what was read is of this process without children
        self._highest_rss = 0
        self._again = 0.0  # when the proportional size may be read again
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="hyperframes-memory", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> int:
        """Take a last sample and return the largest, in bytes."""
        self._over.set()
        self._thread.join()
        self._sample(last=True)
        self._observe = _nobody  # else whoever asked for it and this would hold each other
        return self._peak

    def _loop(self) -> None:
        while not self._over.wait(self._interval):
            self._sample()

    def _sample(self, *, last: bool = False) -> None:
        members = _tree()
        rss = sum(map(_rss_bytes, members))
        grown = rss > self._highest_rss + self.STEP_BYTES
        if not (self._alone and len(members) == 1) and grown and (last or time.monotonic() >= self._again):
            began = time.monotonic()
            self._pss, self._rss, self._highest_rss = sum(map(_pss_bytes, members)), rss, rss
            self._alone = len(members) == 1
            if self._alone:
                _note_alone(self._pss, rss)
            ended = time.monotonic()
            self._again = ended + (ended - began) / self.SHARE
        now = self._pss + (rss - self._rss if len(members) == 1 else 0)
        self._peak = max(self._peak, now)
        self._observe({"kind": "memory", "bytes": now})
