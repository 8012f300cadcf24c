"""Ctrl-C, and the signals that the command line treats alike, must find something that can be cancelled."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["interrupts_held"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back while the block runs; they arrive when the block ends.

    Between the opening of its sinks and its handle being there, a run could not be told to clean up. Only the main
    thread is ever interrupted, so elsewhere this does nothing; the same for signals that Python does not handle.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for name in _NAMES if (number := getattr(signal, name, None)) is not None]
    before = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    held: list[Any] = []
    for number in before:
        signal.signal(number, lambda *signalled: held.append(signalled))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number, frame in held[-1:]:
        before[number](number, frame)
