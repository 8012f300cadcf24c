"""Ctrl-C, and the signals that the command line treats alike, must find something that can be cancelled."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["interrupts_apart", "interrupts_held"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
ONE_SECONDS = 0.3
"""Signals that come so soon after another are the same one: `timeout` and supervisors signal a process, and then its group."""


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back while the block runs; they arrive when the block ends.

    Between the opening of its sinks and its handle being there, a run could not be told to clean up. Only the main
    thread is ever interrupted, so elsewhere this does nothing; the same for signals that Python does not handle.
    """
    held: list[Any] = []
    with _handled_by(lambda *signalled: held.append(signalled)) as before:
        yield
    for number, frame in held[-1:]:
        before[number](number, frame)


@contextmanager
def interrupts_apart() -> Iterator[None]:
    """Take Ctrl-C, SIGTERM and SIGHUP that come within `ONE_SECONDS` of the one before as that one, while the block runs.

    So whoever is interrupted has the time to make ready for the next one. Elsewhere than in the main thread it does nothing.
    """
    last = -ONE_SECONDS

    def handle(number: int, frame: Any) -> None:
        nonlocal last
        now = time.monotonic()
        is_another, last = now - last >= ONE_SECONDS, now
        if is_another:
            before[number](number, frame)

    with _handled_by(handle) as before:
        yield


@contextmanager
def _handled_by(handle: Callable[[int, Any], Any]) -> Iterator[dict[int, Callable[[int, Any], Any]]]:
    """Let `handle` have the signals that Python handles; give their handlers before, by number."""
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    numbers = [number for name in _NAMES if (number := getattr(signal, name, None)) is not None]
    before = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(number, handle)
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
