"""How long live hyperframes take at present, and the settings that follow from it (W4). Pure: times are given."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hyperframes.drivers.ledger import Latencies
from hyperframes.packing.assemble import PACK_SHARE
from hyperframes.scheduling.budget import Budget, LiveLoad, budget_for_latency, fit_cost, queue_depth_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.drivers.entry import Entry
    from hyperframes.packing import Halo, Packing

__all__ = ["Tempo"]

QUEUE_SECONDS = 0.2
"""How long frames may wait in the queue where no budget says."""
TTL_MOST_NS = 1_000_000_000
TUNE_NS, TUNE_LEAST = 1_000_000_000, 8
"""How often the size is chosen anew, and after how many hyperframes at least."""
USUAL_FPS, SIZE_MOST = 30, 64
"""Where the size follows from a budget, before the rate is known; and the largest that memory is planned for then."""
FOLLOW = 1 / 16
"""Share of the newest in what hyperframes are said to take."""


class Tempo:
    """What hyperframes took from their seal to their result, and operators for them.

    Parameters
    ----------
    packing : Packing
        The rules.
    workers : int
        Hyperframes worked on at once.
    """

    def __init__(self, packing: Packing, workers: int) -> None:
        self.packing, self._workers = packing, workers
        self.latencies = Latencies()
        self.tunes = packing.kind == "temporal" and packing.size is None and packing.latency is not None
        """Whether the size follows from the budget."""
        self._infer_ns = self._took_ns = self._spread_ns = self._unpack_ns = 0.0
        self._costs: deque[tuple[int, float]] = deque(maxlen=64)
        self._tuned_ns = 0

    def note(self, entry: Entry) -> None:
        """Take note of a hyperframe whose results were handed over."""
        add = self.latencies.add
        took, ran = entry.handed_ns - entry.sealed_ns, entry.done_ns - entry.started_ns
        add("queue", entry.started_ns - entry.sealed_ns)
        add("infer", ran)
        add("unpack", entry.handed_ns - entry.done_ns)
        add("result", took)
        add("last", entry.handed_ns - entry.last_ns)
        add("total", entry.handed_ns - entry.opened_ns)
        self._took_ns += (took - self._took_ns) * FOLLOW if self._took_ns else took
        self._spread_ns += (abs(took - self._took_ns) - self._spread_ns) * FOLLOW
        self._costs.append((max(1, entry.frames), ran / 1e9))
        self._infer_ns += (ran - self._infer_ns) * FOLLOW if self._infer_ns else ran
        self._unpack_ns += (entry.handed_ns - entry.done_ns - self._unpack_ns) * FOLLOW

    def ahead_ns(self) -> int:
        """Return what it takes at present from a seal to its result, nearly always."""
        return round(self._took_ns + 3 * self._spread_ns)

    def ttl_ns(self) -> int | None:
        """Return the age at which a hyperframe that waits is given up: what the budget leaves; None without one."""
        if self.packing.latency is None:
            return None
        return max(1, min(TTL_MOST_NS, round(self.packing.latency * 1e9 - self._infer_ns)))

    def depth(self, size: int, periods_ns: Sequence[float]) -> int:
        """Return how many hyperframes may wait: what arrives in the time allowed, and one a stream, as all may seal at once.

        `periods_ns` is the time between two frames, of each stream that is there.
        """
        allowed = QUEUE_SECONDS
        if self.packing.latency is not None:
            allowed = max(0.0, (1 - PACK_SHARE) * self.packing.latency - self._infer_ns / 1e9)
        rate = sum(1e9 / period for period in periods_ns)
        temporal, streams = self.packing.kind == "temporal", len(periods_ns)
        frames = size * (1 if temporal else max(1, streams))
        return max(queue_depth_for(rate, allowed, frames), streams if temporal else 1)

    def first_size(self) -> int:
        """Return the size to begin with; where it follows from a budget, the most that memory is planned for."""
        if not self.tunes:
            return self.packing.instants
        return max(1, min(SIZE_MOST, int(PACK_SHARE * (self.packing.latency or 0) * USUAL_FPS)))

    def is_time_to_tune(self, now_ns: int) -> bool:
        """Return whether the size is to be chosen anew, which then counts as done."""
        if not self.tunes or now_ns - self._tuned_ns < TUNE_NS or len(self._costs) < TUNE_LEAST:
            return False
        self._tuned_ns = now_ns
        return True

    def tuned(self, periods_ns: Sequence[float], halo: Halo, most: int) -> Budget:
        """Return what keeps the latency, from what is seen to arrive and how long operators take; sizes up to `most`."""
        base, per_frame = fit_cost([n for n, _ in self._costs], [t for _, t in self._costs])
        load = LiveLoad(
            fps=max(1e9 / period for period in periods_ns),
            sources=len(periods_ns),
            infer_base=base,
            infer_per_frame=per_frame,
            unpack=self._unpack_ns / 1e9,
            workers=self._workers,
            halo_before=halo.before,
            halo_after=halo.after,
        )
        return budget_for_latency(load, self.packing.latency or 1.0, max_size=most)
