"""How large a hyperframe should be: presets, the makespan model (W3), and the latency budget both ways (W4).

Pure functions of numbers. Times are seconds, sizes frames, memory bytes; a halo counts the frames of both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hyperframes.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "PRESETS",
    "ROW_SIZES",
    "SWEEP",
    "Budget",
    "Latency",
    "LiveLoad",
    "SizeChoice",
    "adjusted_size",
    "best_size",
    "budget_for_latency",
    "budget_for_size",
    "choose_size",
    "cost_per_frame",
    "default_size",
    "fit_cost",
    "knee",
    "largest_size_in",
    "makespan",
    "memory_bytes",
    "modest_size",
    "queue_depth_for",
    "starting_point",
    "step_size",
    "sweep_candidates",
    "sweep_sizes",
    "tile_samples",
]

SWEEP = (8, 16, 24, 30, 31, 32, 33, 47, 64, 96, 128, 192, 256)
"""Sizes a sweep tries by default. 30, 31, 33 and 47 stand beside 32 and 64 because byte strides that are powers of two
can fall into the same cache sets; with frames outermost the frame stride decides that, not their number, so these are
candidates to measure, no rule."""

ROW_SIZES = (512, 1024, 4096, 16384, 65536)
"""Sizes that a sweep tries besides, over frames so small that a hyperframe's fixed cost is most of what they take."""

FULL_HD = 1920 * 1080
PICTURES = (16, 64)
"""Least and most frames of the preset for pictures of 1920 x 1080 and more."""
SMALL_PICTURES_MOST = 128
ROWS = (128, 256)
"""Least and most frames of the preset for sensor rows and other small arrays."""
SWEPT_ROW_BYTES = 4096
"""Up to here a sweep also tries the sizes of rows."""
SMALL_ROWS_BYTES = 256 << 10
"""A core of small rows grows to about this."""
TINY_ROW_BYTES, TINY_ROWS = 64, 1 << 16
"""Rows of a few numbers: a hyperframe's fixed cost is some 100 us, as much as the work on thousands of them."""
TINY_CORE_BYTES = 4 << 20
"""A core of tinier ones grows to this: twenty hyperframes over 10 million numbers take half the time of 150."""
HALO_BYTES = 64 << 20
"""Up to about this a core grows for its halo: beyond, fresh memory costs more than reading neighbours twice."""
MODEST_BYTES, LEAST_MODEST = 160 << 20, 4
"""Frame memory that a preset aims at where frames are copied to it: with libraries and a decoder 350 MB in all. More of it
has to be touched first, at up to ten times the cost of a copy, and brings little."""
LEAST_STEP = 16
"""Frames of a fused chain's shortest step."""
TILE_STEP, MOST_TILE_STEPS = 2048, 32
"""Tiles are whole steps long, less 64 samples; below one, calling kernels is most of the work, above, nothing is won."""
LARGE_ARRAY_BYTES = 1 << 20
"""From here on an array that is no picture is sized like one."""
SHORT_TASK, LONG_TASK = 0.02, 2.0
"""Seconds that a hyperframe should keep workers busy. Below, what it costs whatever its size, somewhat under a millisecond,
may be a good part; above, results come late and much is lost with it."""


# Presets and memory ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SizeChoice:
    """A size and why."""

    size: int
    reasons: tuple[str, ...]


def default_size(
    spec_nbytes: int,
    *,
    is_picture: bool,
    pixels: int | None = None,
    halo: int = 0,
    workers: int = 1,
    max_memory: int | None = None,
) -> int:
    """Return the preset size for frames of `spec_nbytes` bytes, cut to the memory allowed; see `choose_size`.

    Examples
    --------
    >>> default_size(1920 * 1080 * 3 // 2, is_picture=True, halo=4)
    16
    >>> default_size(4096, is_picture=False), default_size(64, is_picture=False)
    (128, 65536)
    """
    return choose_size(
        spec_nbytes, is_picture=is_picture, pixels=pixels, halo=halo, workers=workers, max_memory=max_memory
    ).size


def choose_size(
    spec_nbytes: int,
    *,
    is_picture: bool,
    pixels: int | None = None,
    halo: int = 0,
    workers: int = 1,
    max_memory: int | None = None,
) -> SizeChoice:
    """Choose a size without a measurement: a preset by kind of frame, enough for the halo, within the memory.

    Parameters
    ----------
    spec_nbytes : int
        Bytes of one frame.
    is_picture : bool
        Whether frames are pictures; else sensor rows or other arrays.
    pixels : int, optional
        Of one picture; guessed from the bytes without it.
    halo : int
        Frames read beside the core, both sides.
    workers : int
        P: hyperframes in memory at once.
    max_memory : int, optional
        Bytes that P * (2 * S + halo) frames may take: what is read, and a result of the same bytes.

    Raises
    ------
    PipelineError
        If not even one frame a hyperframe fits.

    Notes
    -----
    Pictures: 16 frames at 1920 x 1080, more where they are smaller (the same pixels), up to 64, and 128 for pictures
    under a quarter of that. A halo lifts the size to four times itself within those bounds while a core is under
    64 MiB, so that neighbours' frames are at most a quarter of the work, and to its own length beyond them. Rows: 128 to
    256, more while a core is under 256 KiB; rows of up to 64 bytes: 65,536, or what fills 4 MiB.
    """
    if is_picture or spec_nbytes >= LARGE_ARRAY_BYTES:
        area = max(1, pixels or spec_nbytes * 2 // 3)
        least, most = PICTURES[0], PICTURES[1] if 4 * area > FULL_HD else SMALL_PICTURES_MOST
        size = _clamp(PICTURES[0] * FULL_HD // area, least, PICTURES[1])
        why = f"pictures of {area} pixels: preset {least} to {most}"
    else:
        least, most = ROWS
        fitting = SMALL_ROWS_BYTES // max(1, spec_nbytes)
        if spec_nbytes <= TINY_ROW_BYTES:
            least = most = fitting = max(TINY_ROWS, TINY_CORE_BYTES // max(1, spec_nbytes))
        most = max(most, min(fitting, TINY_ROWS))
        size = _clamp(fitting, least, most)
        why = f"rows of {spec_nbytes} bytes: preset {least} to {most}"
    reasons = [why]
    if 4 * halo > size:
        affordable = max(size, HALO_BYTES // spec_nbytes) if spec_nbytes else most
        size = max(min(_clamp(4 * halo, size, most), affordable), halo)
        reasons.append(f"a halo of {halo} frames: {100 * halo / size:.0f} % more frames are read than owned")
    if max_memory is not None:
        fits = largest_size_in(max_memory, spec_nbytes, halo=halo, workers=workers)
        if fits < 1:
            need = workers * (2 + halo) * spec_nbytes
            raise PipelineError(
                f"{workers} workers need {need} bytes for one frame a hyperframe: expected at most {max_memory}",
                expected=max_memory,
                got=need,
                hint="Use fewer --workers or a larger --max-memory.",
            )
        if fits < size:
            reasons.append(f"{max_memory} bytes of memory hold {workers} x (2 x {fits} + {halo}) frames")
            size = fits
    return SizeChoice(size, tuple(reasons))


def modest_size(
    size: int,
    frame_bytes: int,
    *,
    halo: int = 0,
    in_flight: int = 2,
    aim: int = MODEST_BYTES,
    shared_halo: bool = False,
) -> int:
    """Return `size`, or less where ``in_flight * (2 * S + halo)`` frames of packed pictures would take more than `aim`.

    It stays at least the halo, and at least 4: below, what is read for neighbours is most of the work. With
    `shared_halo` frames that neighbours read are in memory once: ``in_flight * 2 * S + halo`` of them.

    Examples
    --------
    >>> modest_size(16, 1920 * 1080 * 3 // 2, halo=4, in_flight=3), modest_size(64, 640 * 360 * 3 // 2, in_flight=3)
    (6, 64)
    >>> modest_size(16, 1920 * 1080 * 3 // 2, halo=4, in_flight=3, shared_halo=True)
    8
    """
    if shared_halo:
        fits = (aim // max(1, frame_bytes) - halo) // (2 * in_flight)
    else:
        fits = largest_size_in(aim, max(1, frame_bytes), halo=halo, workers=in_flight)
    return min(size, max(fits, halo, LEAST_MODEST))


def largest_size_in(max_memory: int, frame_bytes: int, *, halo: int = 0, workers: int = 1) -> int:
    """Return the largest S with ``workers * (2 * S + halo) * frame_bytes <= max_memory``; below 1: none fits."""
    return (max_memory // (workers * frame_bytes) - halo) // 2


def step_size(inner_bytes: float, *, halo: int, cache_bytes: int) -> int | None:
    """Return how many frames a fused chain takes through all its stages at a time; None where all at once is as good.

    As many as let what stages hand to each other stay in the cache, but at least four times the widest halo, since
    operators over time share work between neighbouring frames, and at least 16: memory that is used again is cheaper
    than fresh pages even where the cache does not hold it.

    Parameters
    ----------
    inner_bytes : float
        What the stages hand to each other for one frame.
    halo : int
        Frames that the stage which reads most reads beside its own.
    cache_bytes : int
        What one worker has of the cache.

    Examples
    --------
    >>> step_size(2 * 320 * 240, halo=4, cache_bytes=16 << 20), step_size(1920 * 1080 * 3, halo=4, cache_bytes=16 << 20)
    (105, 16)
    """
    if not inner_bytes:
        return None
    fitting = int(cache_bytes / inner_bytes) - halo
    return max(fitting, 4 * halo, LEAST_STEP)


def tile_samples(sample_bytes: int, cache_bytes: int) -> int:
    """Return how many samples of every frame a chain along time takes through all its stages at a time.

    So many that the frames that stages read and make of them take half of a core's own cache; the rest is for what passes
    through. Not a multiple of 4096 bytes: frames that lie so far apart would fall into the same few places of the cache.

    Parameters
    ----------
    sample_bytes : int
        What all those frames hold of one sample.
    cache_bytes : int
        Of one core.

    Examples
    --------
    >>> tile_samples(72, 2 << 20), tile_samples(1000, 1 << 20), tile_samples(8, 2 << 20)
    (14272, 1984, 65472)
    """
    fitting = cache_bytes // 2 // max(1, sample_bytes)
    return _clamp(fitting // TILE_STEP, 1, MOST_TILE_STEPS) * TILE_STEP - 64


def memory_bytes(
    size: int,
    halo: int,
    workers: int,
    in_bytes: int,
    out_bytes: int,
    *,
    inputs: int | None = None,
    results: int | None = None,
    scratch_bytes: int = 0,
) -> int:
    """Return the bytes of all hyperframes that are held at once.

    Parameters
    ----------
    size, halo : int
        Core frames, and frames read beside them.
    workers : int
        P, each with `scratch_bytes` of its own.
    in_bytes, out_bytes : int
        Of one frame read and of the results of one frame.
    inputs, results : int, optional
        Hyperframes that may hold input, and results; default: one a worker and one more.
    scratch_bytes : int
        Per worker.

    Examples
    --------
    >>> memory_bytes(64, 0, 8, 1920 * 1080 * 3 * 4, 0, inputs=8)  # 1.59 GB each
    12740198400
    """
    inputs = workers + 1 if inputs is None else inputs
    results = workers + 1 if results is None else results
    return inputs * (size + halo) * in_bytes + results * size * out_bytes + workers * scratch_bytes


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


# Throughput: the makespan model, and what measurements say --------------------------------------------------------------


def makespan(
    num_frames: int,
    size: int,
    workers: int,
    fixed_seconds: float,
    frame_seconds: float,
    halo: int = 0,
) -> float:
    """Return how long a run takes by W3: ``ceil(ceil(N / S) / P) * (s + (S + halo) * t)``.

    Parameters
    ----------
    num_frames, size, workers : int
        N, S, P.
    fixed_seconds : float
        s: what each hyperframe costs whatever its size.
    frame_seconds : float
        t: what each frame costs.
    halo : int
        Frames of both sides: W3's 2k.

    Notes
    -----
    Rounds of P equal hyperframes: larger sizes pay s less often but leave workers idle in the last round. The ideal
    is ``N * t / P``.

    Examples
    --------
    >>> [round(makespan(18000, S, 8, 0.001, 0.005, 4), 1) for S in (30, 32, 64)]
    [12.8, 12.9, 12.3]
    """
    _at_least_one(size=size, workers=workers)
    rounds = math.ceil(math.ceil(num_frames / size) / workers)
    return rounds * (fixed_seconds + (size + halo) * frame_seconds)


def best_size(
    num_frames: int,
    workers: int,
    fixed_seconds: float,
    frame_seconds: float,
    halo: int = 0,
    *,
    candidates: Iterable[int] = SWEEP,
) -> int:
    """Return the candidate with the shortest makespan (W3), the smallest of equals."""
    return min(
        candidates,
        key=lambda size: (makespan(num_frames, size, workers, fixed_seconds, frame_seconds, halo), size),
    )


def starting_point(frame_seconds: float, bandwidth: float, frame_bytes: int) -> float:
    """Return sqrt(2 * t * bandwidth / bytes): a start for a sweep, no prediction.

    It has neither an overhead nor a cache term and grows with t, so it is shown beside `makespan` only. For a
    convolution of 3 ms on 1920 x 1080 RGB at 20 GB/s it gives 2.2 frames of float32 and 4.4 of uint8, where 32 were
    measured to be best.

    Examples
    --------
    >>> round(starting_point(0.003, 20e9, 1920 * 1080 * 3 * 4), 1), round(starting_point(0.003, 20e9, 1920 * 1080 * 3), 1)
    (2.2, 4.4)
    """
    return math.sqrt(2 * frame_seconds * bandwidth / frame_bytes)


def sweep_sizes(frame_bytes: int) -> tuple[int, ...]:
    """Return the sizes that a sweep over frames of `frame_bytes` tries by default."""
    return (*SWEEP, *ROW_SIZES) if frame_bytes <= SWEPT_ROW_BYTES else SWEEP


def sweep_candidates(
    *,
    num_frames: int | None = None,
    frame_bytes: int = 0,
    halo: int = 0,
    workers: int = 1,
    max_memory: int | None = None,
    sizes: Iterable[int] = SWEEP,
) -> tuple[int, ...]:
    """Return the sizes of a sweep that the stream is long enough for and the memory holds; at least one."""
    most = num_frames or max(sizes := tuple(sizes))
    if max_memory is not None and frame_bytes:
        most = min(most, largest_size_in(max_memory, frame_bytes, halo=halo, workers=workers))
    return tuple(size for size in sorted(set(sizes)) if size <= most) or (max(1, most),)


def knee(throughput: Mapping[int, float], tolerance: float = 0.03) -> int:
    """Return the smallest size whose frames a second are within `tolerance` of the best.

    Examples
    --------
    >>> knee({8: 50.0, 16: 90.0, 32: 98.0, 64: 100.0, 128: 99.0})
    32
    """
    if not throughput:
        raise PipelineError("a knee needs measurements: expected at least one size, got none")
    best = max(throughput.values())
    return min(size for size, rate in throughput.items() if rate >= (1 - tolerance) * best)


def adjusted_size(size: int, tried: Mapping[int, float], seconds: float, *, least: int, most: int) -> int:
    """Return the size to go on with, now that hyperframes of `size` were measured in a run.

    Parameters
    ----------
    size : int
        In use.
    tried : mapping of int to float
        By size: frames a second of processor time, `size` among them.
    seconds : float
        That a hyperframe of `size` keeps workers busy.
    least, most : int
        Bounds.

    Notes
    -----
    The knee of what was tried. Where that is `size`, a larger one is tried while hyperframes take less than 20 ms (four
    times as large where that stays below, else twice), and half of it where they take over 2 s. Nothing is tried twice, so
    it ends.

    Examples
    --------
    >>> adjusted_size(64, {64: 70e3}, 0.001, least=1, most=1024)
    256
    >>> adjusted_size(256, {64: 70e3, 256: 71e3}, 0.004, least=1, most=1024)  # no gain: back
    64
    >>> adjusted_size(16, {16: 100.0}, 0.16, least=4, most=16)  # as it should be
    16
    """
    best = knee(tried)
    if best != size:
        return best
    if seconds < SHORT_TASK:
        larger = next((size * n for n in (4, 2) if size * n <= most and (n == 2 or n * seconds <= SHORT_TASK)), size)
        return size if larger in tried else larger
    if seconds > LONG_TASK and size // 2 >= least and size // 2 not in tried:
        return size // 2
    return size


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
    _at_least_one(size=size)
    return acquire_seconds + prepare_discount * prepare_seconds + (schedule_seconds + infer_seconds) / size


# Latency: the budget of W4, forwards and backwards ----------------------------------------------------------------------


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
        _at_least_one(sources=self.sources, workers=self.workers)
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
    _at_least_one(size=size)
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
    _at_least_one(size=size)
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
            f"hyperframes will hold about {full} frames"
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


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise PipelineError(f"{name}: expected at least 1, got {value}", got=value)
