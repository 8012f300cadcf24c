"""Libraries that take the machine for themselves: their threads go back to the priority of everybody else."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ordinary_priority"]

_TASKS = "/proc/self/task"


@contextmanager
def ordinary_priority() -> Iterator[None]:
    """Undo real-time scheduling that the block gives to its own thread and to threads that it starts.

    SVT-AV1 takes the highest real-time priority where it may (as root), for whoever opens it too: what that process
    starts inherits it, and everything else on the machine waits. Where the system does not tell threads apart by
    number, nothing is done.
    """
    if not os.path.isdir(_TASKS):
        yield
        return
    before, own = set(os.listdir(_TASKS)), (os.sched_getscheduler(0), os.sched_getparam(0))
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != own[0]:
            os.sched_setscheduler(0, *own)
        for task in set(os.listdir(_TASKS)) - before:
            with suppress(OSError):  # it has ended
                if os.sched_getscheduler(int(task)) in {os.SCHED_FIFO, os.SCHED_RR}:
                    os.sched_setscheduler(int(task), os.SCHED_OTHER, os.sched_param(0))
