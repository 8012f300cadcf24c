"""What an earlier live run had sealed and not brought to an end, worked on before any new frame."""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.drivers.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.drivers.live_plans import LivePlan
    from hyperframes.drivers.replay import Rebuilt
    from hyperframes.drivers.station import Station
    from hyperframes.packing import Hyperframe

__all__ = ["Resuming"]


TOLD = 5
"""Hyperframes whose frames are gone that are told one by one."""


class Resuming:
    """Hyperframes sealed before, no more at once than the workers take: so the queue cannot give them up.

    Parameters
    ----------
    wait : function
        Waits until the coordinator sets an event.
    take : function
        Queues an entry.
    at_once : int
        Hyperframes worked on at once.
    """

    def __init__(self, wait: Callable[[threading.Event], None], take: Callable[[Entry], None], at_once: int) -> None:
        self._wait, self._take, self._at_once = wait, take, at_once
        self._under_way: deque[Entry] = deque()
        self._gone: list[str] = []
        self._num_gone = self._num_unfit = 0

    @property
    def warnings(self) -> list[str]:
        """What could not be resumed: the first of those whose frames are gone, and how many others."""
        more = [f"{self._num_gone - TOLD} more were not resumed: frames of them are gone"]
        unfit = (
            f"{self._num_unfit} hyperframes were not resumed: operators read more frames around their own than those for which "
            "they were sealed. They stay as they are: --resume with the operators of that run"
        )
        return [*self._gone, *(more if self._num_gone > TOLD else ()), *((unfit,) if self._num_unfit else ())]

    def note_gone(self, one: Rebuilt) -> None:
        """Tell of one that cannot be worked on, as frames of it are gone."""
        self._num_gone += 1
        if self._num_gone <= TOLD:
            frames = ", ".join(f"{stream} #{number}" for stream, number in one.missing[:5])
            self._gone.append(f"hyperframe {one.life.sequence} was not resumed: frames of it are gone: {frames}")

    def is_fit(self, hyperframe: Hyperframe, plan: LivePlan) -> bool:
        """Whether it holds all frames that the operators read; take note if it does not."""
        header, margins = hyperframe.header, plan.plan.margins[0]
        before, after = header.core[0] - header.read[0], header.read[1] - header.core[1]
        fits = before >= min(margins.before, header.core[0]) and (after >= margins.after or header.end)
        self._num_unfit += not fits
        return fits

    def work_on(self, one: Rebuilt, stations: tuple[Station, ...], plan: LivePlan, now_ns: int) -> None:
        """Take one whose frames are there; wait while too many are under way."""
        assert one.hyperframe is not None  # it was asked
        header = dataclasses.replace(one.hyperframe.header, attempt=one.hyperframe.header.attempt + 1)
        hyperframe = dataclasses.replace(one.hyperframe, header=header)
        entry = Entry(
            hyperframe,
            stations,
            plan,
            None,
            one.epoch,
            opened_ns=now_ns,
            last_ns=now_ns,
            sealed_ns=now_ns,
            sequence=header.sequence,
            frames=int(np.count_nonzero(hyperframe.mask[hyperframe.core])),
            ended=threading.Event(),
        )
        for station, count in entry.counts():
            for _ in range(count):
                station.account.take()
        self._under_way.append(entry)
        self._take(entry)
        while len(self._under_way) > self._at_once:
            self._wait_for_oldest()

    def finish(self) -> None:
        """Wait for those under way."""
        while self._under_way:
            self._wait_for_oldest()

    def let_go(self) -> None:
        """Let nobody wait any more: the run failed."""
        for entry in tuple(self._under_way):
            if entry.ended is not None:
                entry.ended.set()

    def _wait_for_oldest(self) -> None:
        ended = self._under_way[0].ended
        assert ended is not None  # as those have that were sealed before
        self._wait(ended)
        self._under_way.popleft()
