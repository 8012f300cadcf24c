"""What one thread at a time does for a whole live run: whoever brings work does it, unless somebody is at it already.

A thread of its own for every small step would be woken several times for each hyperframe, which costs more than the steps do,
and waits its turn behind all the threads that bring frames. So there is one only for what no one brings: the time.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Coordinator"]

AT_ONCE = 256
"""Calls that somebody who has other things to do carries out in a row, at most."""


class Coordinator:
    """Carries out calls one after the other, in the order in which they were brought.

    Parameters
    ----------
    now_ns : function
        Tells the time.
    look_around : function
        Does what is due at a time; returns when to look again.
    after : function
        Called after some calls, and after looking around; returns whether there will be more to do.
    failed : function
        Told of a bug in a call: the run must end, or everybody would wait.

    Notes
    -----
    Calls may take any lock, so whoever holds one may `bring` and must let go before it attends.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        look_around: Callable[[int], int],
        after: Callable[[], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        self._now_ns, self._look_around, self._after, self._failed = now_ns, look_around, after, failed
        self.calls: deque[Callable[[], None]] = deque()
        """Brought, and not carried out yet."""
        self._busy = threading.Lock()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._look_ns = 0

    def bring(self, call: Callable[[], None]) -> None:
        """Leave a call; whoever does this attends soon."""
        self.calls.append(call)

    def post(self, call: Callable[[], None]) -> None:
        """Leave a call for the coordinating thread."""
        self.calls.append(call)
        self._bell.put(None)

    def attend(self) -> None:
        """Carry out what was brought, unless somebody is at it, who then does this too."""
        calls, busy = self.calls, self._busy
        while calls and busy.acquire(False):
            try:
                self._carry_out(AT_ONCE)
            finally:
                busy.release()
            if len(calls) > AT_ONCE:  # frames must not wait for that long
                self._bell.put(None)
                return

    def turn(self, *, wait: bool) -> bool:
        """Carry out what was brought and what is due; `wait` for either. Return whether there will be more to do."""
        if wait:
            self._wait()
        now = self._now_ns()
        with self._busy:
            self._carry_out(None)
            try:
                self._look_ns = self._look_around(now)
            except Exception as error:  # noqa: BLE001 - a bug here must end the run, not leave everybody waiting
                self._failed(error)
            goes_on = self._after()
        self.attend()  # what was brought meanwhile
        return goes_on

    def _wait(self) -> None:
        try:
            self._bell.get(timeout=max(0.0, (self._look_ns - self._now_ns()) / 1e9))
            while True:
                self._bell.get_nowait()
        except queue.Empty:
            pass

    def _carry_out(self, most: int | None) -> None:
        """Carry out what is there, also what that brings."""
        calls, left = self.calls, most
        while calls and left != 0:
            try:
                calls.popleft()()
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(error)
            if left is not None:
                left -= 1
        self._after()
