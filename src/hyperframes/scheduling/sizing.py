"""How large a hyperframe should be: presets, memory, the makespan model (W3), and what measurements say.

Pure functions of numbers. Times are seconds, sizes frames, memory bytes; a halo counts the frames of both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hyperframes.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ROW_SIZES",
    "SWEEP",
    "SizeChoice",
    "adjusted_size",
    "at_least_one",
    "best_size",
    "choose_size",
    "default_size",
    "knee",
    "largest_size_in",
    "makespan",
    "memory_bytes",
    "modest_size",
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
    at_least_one(size=size, workers=workers)
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


def at_least_one(**values: int) -> None:
    """Refuse numbers below one, by name."""
    for name, value in values.items():
        if value < 1:
            raise PipelineError(f"{name}: expected at least 1, got {value}", got=value)
