"""What happened in a run, kept in bounded memory however long it is: the instrument behind the report."""

from __future__ import annotations

import heapq
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.instruments import Observation

__all__ = ["Durations", "Recorder", "Series", "TaskRecord"]

MAX_TASKS = 10_000
"""Tasks kept for the timeline; a hyperframe has at least one, so no more hyperframes than that."""
MAX_OUTLIERS = 1_000
"""Longest tasks kept for each stage."""
MAX_SAMPLES = 1_000
"""Points kept of what changes over time."""
OUTLIER_RATIO = 2.0
"""An outlier takes more than this many times the median of its stage (A89)."""
BINS_PER_OCTAVE = 256
"""Durations are counted in bins 0.27 % wide."""


@dataclass(frozen=True, slots=True, order=True)
class TaskRecord:
    """One stage (or fused chain) at work on one hyperframe. Ordered by duration."""

    duration_ns: int
    sequence: int
    part: int
    id: str = field(compare=False)
    frames: tuple[int, int] | None = field(compare=False)
    """The core: frames it owns, half open."""
    stage: str = field(compare=False)
    worker: int = field(compare=False)
    begin_ns: int = field(compare=False)
    first: bool = field(default=False, compare=False)
    """Whether it is the first of its stage on its worker, which warms caches and may compile."""


class Durations:
    """How long one stage's tasks took: exact count, sum, least and most; the rest to within 0.3 %; the longest by name.

    Examples
    --------
    >>> durations = Durations()
    >>> for ms in (10, 10, 11, 50):
    ...     durations.add(TaskRecord(ms * 1_000_000, 0, 0, "h", None, "blur", 0, 0))
    >>> round(durations.quantile_ns(0.5) / 1e6), [task.duration_ns // 1_000_000 for task in durations.outliers()]
    (10, [50])
    """

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.least_ns = self.most_ns = 0
        self._bins: dict[int, int] = {}
        self._longest: list[TaskRecord] = []  # a heap, shortest first

    def add(self, task: TaskRecord) -> None:
        """Count one task."""
        ns = max(1, task.duration_ns)
        self.least_ns = ns if self.count == 0 else min(self.least_ns, ns)
        self.most_ns = max(self.most_ns, ns)
        self.count += 1
        self.total_ns += ns
        place = int(math.log2(ns) * BINS_PER_OCTAVE)
        self._bins[place] = self._bins.get(place, 0) + 1
        if len(self._longest) < MAX_OUTLIERS:
            heapq.heappush(self._longest, task)
        elif task > self._longest[0]:
            heapq.heapreplace(self._longest, task)

    def spread(self) -> list[tuple[float, int]]:
        """Return (duration in ns, tasks) of every bin that has some, ascending."""
        return [(2 ** ((place + 0.5) / BINS_PER_OCTAVE), count) for place, count in sorted(self._bins.items())]

    def quantile_ns(self, share: float) -> float:
        """Return the duration that `share` of the tasks do not exceed, within 0.3 %; 0 where there are none."""
        wanted, seen = share * self.count, 0
        for ns, count in self.spread():
            seen += count
            if seen >= wanted:
                return min(max(ns, self.least_ns), self.most_ns)
        return 0.0

    def outliers(self) -> list[TaskRecord]:
        """Return the tasks kept that took over twice the median, longest first."""
        limit = OUTLIER_RATIO * self.quantile_ns(0.5)
        return sorted((task for task in self._longest if task.duration_ns > limit), reverse=True)

    @property
    def num_outliers(self) -> int:
        """How many took over twice the median: exact up to `MAX_OUTLIERS`, then to within a bin."""
        kept = len(self.outliers())
        if kept < MAX_OUTLIERS:
            return kept
        limit = OUTLIER_RATIO * self.quantile_ns(0.5)
        return max(kept, sum(count for ns, count in self.spread() if ns > limit))


class Series:
    """Something over time in at most `MAX_SAMPLES` steps: when they run out, steps become twice as long.

    Parameters
    ----------
    combine : function
        Of two values of one step: `max` for levels, addition for amounts.
    step_ns : int
        Length of a step at first.
    """

    def __init__(self, combine: Callable[[float, float], float], step_ns: int) -> None:
        self._combine, self.step_ns = combine, step_ns
        self.values: list[float | None] = []
        """One per step; None where nothing was seen."""

    def add(self, ns: int, value: float) -> None:
        """Take in `value`, seen `ns` after the beginning."""
        while (place := max(0, ns) // self.step_ns) >= MAX_SAMPLES:
            self._halve()
        self.values += [None] * (place + 1 - len(self.values))
        self.values[place] = self._joined(self.values[place], value)

    def _joined(self, one: float | None, other: float | None) -> float | None:
        if one is None or other is None:
            return other if one is None else one
        return self._combine(one, other)

    def _halve(self) -> None:
        padded = [*self.values, None] if len(self.values) % 2 else self.values
        self.values = [self._joined(a, b) for a, b in zip(padded[::2], padded[1::2], strict=True)]
        self.step_ns *= 2


_NOTED = frozenset({"began", "prepared", "sealed", "done", "emitted", "dropped", "failed", "memory", "finished"})
"""Each has a method of that name. They are not kept by the recorder: it would hold itself, and the run's results with it."""


class Recorder:
    """An instrument that keeps what the report tells: counts exact, everything else sampled to a bounded size.

    Tasks are kept for every hyperframe whose number is a multiple of `stride`; when `MAX_TASKS` are held, the stride
    doubles and half of them go, so what is left is spread evenly over the run. The longest tasks of every stage are
    kept besides.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cores: dict[int, tuple[int, int]] = {}  # of hyperframes under way
        self._sealed_ns: dict[int, int] = {}
        self._free_ns: dict[int, int] = {}  # since when a worker has had nothing to do
        self._met: set[tuple[int, str]] = set()  # workers and the stages they have run
        self.setup: Any = None
        """What ran: the `Setup` that the engine announced."""
        self.begin_ns: int | None = None
        self.end_ns: int | None = None
        self.stride = 1
        """One hyperframe in so many is in `tasks`."""
        self.tasks: list[TaskRecord] = []
        self.durations: dict[str, Durations] = {}
        """By stage or fused chain."""
        self.busy_ns: dict[int, int] = {}
        """By worker."""
        self.gap_ns = self.starved_ns = 0
        """Gaps before workers' tasks and at the end, summed; of these, waiting for the hyperframe to be sealed."""
        self.counts: dict[str, int] = {"sealed": 0, "done": 0, "emitted": 0, "failed_attempts": 0}
        self.dropped: dict[str, int] = {}
        self.frames = Series(lambda a, b: a + b, 50_000_000)
        self.memory = Series(max, 100_000_000)

    def observe(self, observation: Observation) -> None:
        """Take note of one observation; kinds that the report does not tell are left aside."""
        kind = observation["kind"]
        if kind not in _NOTED:
            return
        with self._lock:
            if self.begin_ns is None:
                self.begin_ns = observation["ns"]
            getattr(self, f"_{kind}")(observation)

    def _since_begin(self, observation: Observation) -> int:
        assert self.begin_ns is not None
        return int(observation["ns"]) - self.begin_ns

    def _began(self, observation: Observation) -> None:
        self.setup = observation["setup"]

    def _prepared(self, observation: Observation) -> None:
        self.begin_ns = observation["ns"]  # compiling is not the run's time

    def _sealed(self, observation: Observation) -> None:
        self.counts["sealed"] += 1
        self._cores[observation["sequence"]] = observation["core"]
        self._sealed_ns[observation["sequence"]] = observation["ns"]

    def _done(self, observation: Observation) -> None:
        sequence = observation["sequence"]
        task = TaskRecord(
            observation["duration_ns"],
            sequence,
            observation["part"],
            observation["id"],
            self._cores.get(sequence),
            observation["stage"],
            observation["worker"],
            observation["begin_ns"],
            (observation["worker"], observation["stage"]) not in self._met,
        )
        self._met.add((task.worker, task.stage))
        assert self.begin_ns is not None
        free_ns = self._free_ns.get(task.worker, self.begin_ns)
        self.gap_ns += max(0, task.begin_ns - free_ns)
        self.starved_ns += max(0, min(task.begin_ns, self._sealed_ns.get(sequence, free_ns)) - free_ns)
        self._free_ns[task.worker] = max(free_ns, task.begin_ns + task.duration_ns)
        self.counts["done"] += 1
        self.busy_ns[task.worker] = self.busy_ns.get(task.worker, 0) + task.duration_ns
        self.durations.setdefault(task.stage, Durations()).add(task)
        if sequence % self.stride == 0:
            self.tasks.append(task)
            while len(self.tasks) > MAX_TASKS and self.stride <= sequence:
                self.stride *= 2
                self.tasks = [kept for kept in self.tasks if kept.sequence % self.stride == 0]

    def _emitted(self, observation: Observation) -> None:
        self._forget(observation["sequence"])
        start, stop = observation["core"]
        if observation["whole"]:
            self.counts["emitted"] += 1
            self.frames.add(self._since_begin(observation), stop - start)

    def _dropped(self, observation: Observation) -> None:
        self._forget(observation["sequence"])
        reason = observation["reason"]
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def _forget(self, sequence: int) -> None:
        self._cores.pop(sequence, None)
        self._sealed_ns.pop(sequence, None)

    def _failed(self, observation: Observation) -> None:
        self.counts["failed_attempts"] += 1

    def _memory(self, observation: Observation) -> None:
        self.memory.add(self._since_begin(observation), observation["bytes"])

    def _finished(self, observation: Observation) -> None:
        self.end_ns = observation["ns"]
        self.gap_ns += max(0, self.end_ns - max(self._free_ns.values(), default=self.end_ns))
