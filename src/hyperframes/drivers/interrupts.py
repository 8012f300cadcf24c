"""Ctrl-C must find something that can be cancelled."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["interrupts_held"]


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while the block runs; it arrives when the block ends.

    Between the opening of its sinks and its handle being there, a run could not be told to clean up. Only the main
    thread is ever interrupted, so elsewhere this does nothing; the same where a program handles SIGINT outside Python.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    held: list[Any] = []
    signal.signal(signal.SIGINT, lambda *signalled: held.append(signalled))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held and callable(before):
        before(*held[-1])
