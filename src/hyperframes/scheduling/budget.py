"""The latency budget (W4), both ways: how late results come for a size, and which size keeps a latency.

Pure functions of numbers. Times are seconds, sizes frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hyperframes.errors import PipelineError
from hyperframes.scheduling.sizing import at_least_one

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "PRESETS",
    "Budget",
    "Latency",
    "LiveLoad",
    "budget_for_latency",
    "budget_for_size",
    "cost_per_frame",
    "fit_cost",
    "queue_depth_for",
]


def cost_per_frame(
    size: int,
    acquire_seconds: float,
    prepare_seconds: float,
    schedule_seconds: float,
    infer_seconds: float,
    *,
    prepare_discount: float = 0.8,
) -> float:
    """Return seconds a frame by W4: ``t_acq + r * t_prep + (t_sched + t_infer) / B``.

    Parameters
    ----------
    size : int
        B.
    acquire_seconds, prepare_seconds : float
        Per frame.
    schedule_seconds, infer_seconds : float
        Per hyperframe.
    prepare_discount : float
        r: what preparing many frames at once saves, usually 0.7 to 0.9.
    """
    at_least_one(size=size)
    return acquire_seconds + prepare_discount * prepare_seconds + (schedule_seconds + infer_seconds) / size


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """What arrives, and what it costs to work on it."""

    fps: float
    """Frames a second of each source."""
    sources: int = 1
    infer_base: float = 0.0
    """Seconds the operator takes per hyperframe, whatever its size."""
    infer_per_frame: float = 0.0
    """Seconds it takes per frame, halo frames included."""
    prepare: float = 0.0
    """Seconds of preparation (resize, convert) per frame alone."""
    prepare_discount: float = 0.8
    """r: share of that left when frames are prepared together."""
    unpack: float = 0.0
    """Seconds per hyperframe."""
    transport: float = 0.0
    """Seconds from the sensor to here and from here to whoever waits."""
    workers: int = 1
    """Hyperframes worked on at once."""
    halo_before: int = 0
    halo_after: int = 0
    """Frames to wait for after the core."""

    def __post_init__(self) -> None:
        at_least_one(sources=self.sources, workers=self.workers)
        if not self.fps > 0:
            raise PipelineError(f"fps: expected more than 0, got {self.fps:g}", got=self.fps)

    @property
    def total_fps(self) -> float:
        """F: frames a second of all sources."""
        return self.fps * self.sources

    def prepare_seconds(self, size: int) -> float:
        """Return r * B * t_prep; a hyperframe of one frame saves nothing."""
        return size * self.prepare * (self.prepare_discount if size > 1 else 1)

    def infer_seconds(self, size: int) -> float:
        """Return what the operator takes for a hyperframe and its halo."""
        return self.infer_base + (size + self.halo_before + self.halo_after) * self.infer_per_frame

    def service_seconds(self, size: int) -> float:
        """Return how long a hyperframe keeps a worker."""
        return self.prepare_seconds(size) + self.infer_seconds(size) + self.unpack

    def capacity(self, size: int) -> float:
        """Return the frames a second that the workers can do; infinite where nothing takes time."""
        service = self.service_seconds(size)
        return self.workers * size / service if service > 0 else math.inf

    def wait_first(self, size: int) -> float:
        """Return how long the first frame waits for its hyperframe to fill: (B - 1 + halo after) / fps."""
        return (size - 1 + self.halo_after) / self.fps

    def burst_seconds(self, size: int) -> float:
        """Return how long the last waits when every source seals at the same moment."""
        return (math.ceil(self.sources / self.workers) - 1) * self.service_seconds(size)


@dataclass(frozen=True, slots=True)
class Latency:
    """The worst case, stage by stage, in seconds."""

    pack: float
    queue: float
    prepare: float
    infer: float
    unpack: float
    transport: float = 0.0

    @property
    def total(self) -> float:
        """From the first frame of a hyperframe to its result."""
        return self.pack + self.queue + self.prepare + self.infer + self.unpack + self.transport


@dataclass(frozen=True, slots=True)
class Budget:
    """Settings that keep a latency, or why none do."""

    feasible: bool
    size: int
    timeout_seconds: float
    queue_depth: int
    """Hyperframes that may wait."""
    ttl_seconds: float
    """Age at which a waiting hyperframe is given up."""
    latency: Latency
    frames_per_second_capacity: float
    reasons: tuple[str, ...] = ()
    """Why it is not feasible."""
    warnings: tuple[str, ...] = field(default=())


TTL_MOST = 1.0
"""Seconds: nothing older is worth working on, whatever the budget."""
PACK_SHARE = 0.6
"""Share of the latency that waiting for frames may take: 300 of 500 ms."""


PRESETS: dict[str, tuple[int, float]] = {
    "latency-first": (4, 0.15),
    "balanced": (8, 0.3),
    "throughput-first": (16, 0.5),
}
"""Usual combinations of size and timeout in seconds (B44), for sources of about 30 frames/s: hyperframes of 4, 8 and 16
fill in 100, 233 and 500 ms there, just within the timeout."""


def fit_cost(frames: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return what an operator takes per hyperframe and per frame, from how long hyperframes took: least squares, not below 0.

    Where all had the same number of frames nothing tells the two apart, and all of it counts per frame.

    Parameters
    ----------
    frames : sequence of int
        How many each had; at least one.
    seconds : sequence of float
        How long each took.

    Examples
    --------
    >>> base, per_frame = fit_cost([1, 4, 8], [0.025, 0.040, 0.060])
    >>> round(base, 6), round(per_frame, 6)
    (0.02, 0.005)
    """
    mean_n, mean_t = sum(frames) / len(frames), sum(seconds) / len(seconds)
    spread = sum((n - mean_n) ** 2 for n in frames)
    if not spread:
        return 0.0, mean_t / mean_n
    per_frame = sum((n - mean_n) * (t - mean_t) for n, t in zip(frames, seconds, strict=True)) / spread
    per_frame = min(max(per_frame, 0.0), mean_t / mean_n)
    return mean_t - per_frame * mean_n, per_frame


def queue_depth_for(frames_per_second: float, queue_seconds: float, size: int) -> int:
    """Return how many hyperframes may wait: ``max(1, ceil(F * T_q / B))`` (W4).

    Parameters
    ----------
    frames_per_second : float
        F: all that arrives in the queue.
    queue_seconds : float
        T_q: how long waiting may take.
    size : int
        B.

    Examples
    --------
    >>> queue_depth_for(30, 0.2, 8), queue_depth_for(48 * 30, 0.2, 8)
    (1, 36)
    """
    at_least_one(size=size)
    return max(1, math.ceil(_exact(frames_per_second * queue_seconds / size)))


def budget_for_size(
    load: LiveLoad,
    size: int,
    *,
    latency: float | None = None,
    timeout: float | None = None,
    queue_depth: int | None = None,
) -> Budget:
    """Return the worst latency by stage for a given size (W4 forwards).

    ``pack = min((B - 1 + halo after) / fps, timeout)``, queue the longer of a burst of all sources and of a full queue
    (``depth`` hyperframes before it), then ``r * B * t_prep``, the operator over core and halo, and unpacking.

    Parameters
    ----------
    load : LiveLoad
        What arrives and what it costs.
    size : int
        B.
    latency : float, optional
        L: seconds allowed from the first frame to its result; without it the answer only has to keep up.
    timeout : float, optional
        Seconds after which a hyperframe is sealed short; default ``min(1.5 * B / fps, 0.6 * L)``.
    queue_depth : int, optional
        Hyperframes that may wait; default ``max(1, ceil(F * T_q / B))`` with T_q what the budget leaves, else what
        a burst of all sources needs.
    """
    at_least_one(size=size)
    fill, service = load.wait_first(size), load.service_seconds(size)
    window = 1.5 * size / load.fps
    if timeout is None:
        timeout = window if latency is None else min(window, PACK_SHARE * latency)
    pack = min(fill, timeout)
    left = load.burst_seconds(size) if latency is None else latency - pack - service - load.transport
    given = queue_depth is not None
    depth = queue_depth if queue_depth is not None else queue_depth_for(load.total_fps, left, size)
    queue = max(load.burst_seconds(size), math.ceil(depth / load.workers) * service if given else 0.0)
    stages = Latency(pack, queue, load.prepare_seconds(size), load.infer_seconds(size), load.unpack, load.transport)
    ttl = TTL_MOST if latency is None else max(0.0, min(TTL_MOST, latency - load.infer_seconds(size) - load.transport))
    capacity = load.capacity(size)
    reasons = []
    if capacity < load.total_fps:
        reasons.append(
            f"{_sources(load.sources)} at {load.fps:g} frames/s bring {load.total_fps:g} frames/s: "
            f"{_workers(load.workers)} can do {capacity:.4g} at size {size}"
        )
    if latency is not None and stages.total > latency * (1 + 1e-9):
        reasons.append(
            f"size {size} takes up to {_ms(stages.total)}: pack {_ms(pack)}, queue {_ms(queue)}, "
            f"prepare {_ms(stages.prepare)}, infer {_ms(stages.infer)}, unpack {_ms(stages.unpack)}, "
            f"transport {_ms(stages.transport)}; {_ms(latency)} are allowed"
        )
    return Budget(
        not reasons, size, timeout, depth, ttl, stages, capacity, tuple(reasons), _warnings(load, size, timeout, fill)
    )


def budget_for_latency(load: LiveLoad, latency: float, *, max_size: int = 256) -> Budget:
    """Return size, timeout, queue depth and time to live that keep `latency` (W4 backwards).

    The largest size that keeps up, whose pack bound ``(B + halo after) / fps`` stays within the pack budget (0.6 L, or
    what the other stages leave), and whose worst case stays within `latency`: fixed costs are paid least often. Where
    no size does, the answer is the nearest one, not feasible, with reasons.

    Parameters
    ----------
    load : LiveLoad
        What arrives and what it costs.
    latency : float
        L, seconds.
    max_size : int
        Largest size to consider.

    Examples
    --------
    >>> answer = budget_for_latency(LiveLoad(fps=30, infer_base=0.02, infer_per_frame=0.005), 0.5)
    >>> answer.feasible, answer.size, round(answer.timeout_seconds, 3), answer.queue_depth
    (True, 9, 0.3, 1)
    """
    if not latency > 0:
        raise PipelineError(f"latency: expected more than 0 seconds, got {latency:g}", got=latency)
    answers = []
    for size in range(1, max_size + 1):
        answer = budget_for_size(load, size, latency=latency)
        bound = (size + load.halo_after) / load.fps
        rest = answer.latency.total - answer.latency.pack
        within = _exact(bound) <= _exact(min(PACK_SHARE * latency, latency - rest))
        if within or size == 1:  # a hyperframe of one frame does not wait for its second
            answers.append(answer)
        elif bound > latency:
            break
    feasible = [answer for answer in answers if answer.feasible]
    if feasible:
        return feasible[-1]
    # None keeps it: show the one that comes nearest, first in rate, then in time.
    nearest = max(answers, key=lambda a: (min(a.frames_per_second_capacity, load.total_fps), -a.latency.total, -a.size))
    hints = []
    if nearest.frames_per_second_capacity < load.total_fps:
        most = max(answer.frames_per_second_capacity for answer in answers)
        needed = math.ceil(load.total_fps / (most / load.workers))
        hints.append(f"{needed} workers, fewer sources or fewer frames a second would keep up")
    return replace(nearest, reasons=(*nearest.reasons, *hints))


def _warnings(load: LiveLoad, size: int, timeout: float, fill: float) -> tuple[str, ...]:
    warnings = []
    if timeout < fill * (1 - 1e-9):
        full = max(1, math.floor(_exact(timeout * load.fps)) + 1 - load.halo_after)
        warnings.append(
            f"the timeout of {_ms(timeout)} comes before size {size} can fill ({_ms(fill)}): "
            f"hyperframes will hold about {full} frame{'s' * (full != 1)}"
        )
    use = load.total_fps / load.capacity(size)
    if 0.8 < use <= 1:
        warnings.append(f"the workers are busy {100 * use:.0f} % of the time: above 80 % waiting grows fast")
    return tuple(warnings)


def _exact(value: float) -> float:
    """Round away the last bits, so that 0.3 * 30 counts as 9."""
    return round(value, 9)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.4g} ms"


def _sources(number: int) -> str:
    return "1 source" if number == 1 else f"{number} sources"


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"
