"""The limit of the machine: how fast memory is copied, and how near each operator comes to that.

An operator that reads every frame once and writes every result once can be no faster than a copy of as many bytes; how
much slower it is says whether memory or arithmetic holds it back (the roofline model).

References
----------
.. [1] S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore
   architectures", Communications of the ACM 52 (2009) 65-76, :DOI:`10.1145/1498765.1498785`
.. [2] J. D. McCalpin, "Memory bandwidth and machine balance in current high performance computers", IEEE TCCA
   Newsletter (1995) 19-25
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes import registry
from hyperframes.drivers.machine import machine_facts, processor_name
from hyperframes.drivers.threads import single_threaded_libraries
from hyperframes.errors import PipelineError
from hyperframes.frames import Array, FrameSpec
from hyperframes.operators import Contract, Operator, View, Worker, choose_format, create
from hyperframes.packing import Boundary, Halo, pad, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["CopyLimit", "OperatorRate", "Roofline", "copy_limit", "roofline"]

COPY_BYTES = 64 << 20
"""Of the array that is copied: past the caches of most machines."""
REPETITIONS = 3
NUM_FRAMES = 16
"""Core frames an operator is measured on."""
EXAMPLES = {
    "convert": "convert:format=rgb24",
    "crop": "crop:width=960,height=540",
    "resize": "resize:width=960,height=540",
}
"""Parameters for operators that need some, on 1920 x 1080 pictures."""


@dataclass(frozen=True, slots=True)
class CopyLimit:
    """What copying reaches."""

    threads: int
    bytes_per_second: float
    """Bytes read and bytes written, both counted, as STREAM does."""
    deviation: float
    """Median absolute deviation over the repetitions."""


@dataclass(frozen=True, slots=True)
class OperatorRate:
    """How near an operator comes."""

    operator: str
    frames: str
    threads: int
    frames_per_second: float
    bytes_per_frame: float
    """Read once and written once."""
    bytes_per_second: float
    share: float
    """Of a copy by as many threads, measured just before."""
    failed: str = ""
    """Why it could not be measured."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """The machine and its operators."""

    machine: str
    copies: tuple[CopyLimit, ...]
    operators: tuple[OperatorRate, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything as one dict."""
        return {
            "machine": self.machine,
            "copy": [dataclasses.asdict(limit) for limit in self.copies],
            "operators": [{**dataclasses.asdict(rate), "failed": rate.failed or None} for rate in self.operators],
        }


@contextmanager
def _together(works: Sequence[Callable[[], None]]) -> Iterator[Callable[[], None]]:
    """Yield a call that does all of `works` at once, each on a thread of its own."""
    if len(works) == 1:
        yield works[0]
        return
    with ThreadPoolExecutor(len(works)) as pool:

        def all_of_them() -> None:
            for future in [pool.submit(work) for work in works]:
                future.result()

        yield all_of_them


def copy_limit(threads: int = 1, *, num_bytes: int = COPY_BYTES, repetitions: int = REPETITIONS) -> CopyLimit:
    """Return how many bytes a second `threads` threads move, each copying an array of `num_bytes`."""
    with _together([_copier(num_bytes) for _ in range(threads)]) as copy:
        copy()
        rates = [2 * threads * num_bytes / _seconds(copy) for _ in range(repetitions)]
    middle = statistics.median(rates)
    return CopyLimit(threads, middle, statistics.median(abs(rate - middle) for rate in rates))


def _copier(num_bytes: int) -> Callable[[], None]:
    source = np.ones(num_bytes, np.uint8)
    target = np.zeros_like(source)
    return lambda: np.copyto(target, source)


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return max(1e-9, time.perf_counter() - began)


def roofline(
    operators: Sequence[str] | None = None,
    *,
    height: int = 1080,
    width: int = 1920,
    pixel_format: str = "yuv420p",
    threads: Sequence[int] | None = None,
    repetitions: int = REPETITIONS,
    frames: int = NUM_FRAMES,
    copy_bytes: int = COPY_BYTES,
    told: Callable[[str], None] = lambda name: None,
) -> Roofline:
    """Measure copies, and operators against them.

    Parameters
    ----------
    operators : sequence of str, optional
        ``NAME[:k=v,...]``; default: every built-in operator.
    height, width : int
        Of the pictures.
    pixel_format : str
        Of the pictures; operators that take others are given the nearest they take.
    threads : sequence of int, optional
        Numbers of threads; default: one, and one a core.
    repetitions : int
        Of each measurement; copy and operator take turns, and the share is the median of the ratios.
    frames : int
        Core frames of each call.
    copy_bytes : int
        Of the arrays that are copied, one a thread.
    told : function, optional
        Called with the name of what is measured next.

    Notes
    -----
    Bytes moved are what must be moved: each frame of the core is read once and each result is written once. Halo frames
    and scratch memory are not counted, so whatever they cost lowers the share. An operator that skips part of its input
    (``crop``, ``every``) may pass 1. Threads work as in a run: each on a hyperframe of its own.
    """
    wanted = operators if operators is not None else _built_in()
    counts = tuple(dict.fromkeys(threads or (1, machine_facts().cores)))
    rates, copies = [], []
    spec = FrameSpec.picture(height, width, pixel_format)
    for count in counts:
        told(f"copy, {count} threads")
        copies.append(copy_limit(count, num_bytes=copy_bytes, repetitions=repetitions))
    for text in wanted:
        for count in counts:
            told(f"{text}, {count} threads")
            rates.append(_operator_rate(text, spec, count, frames, repetitions, copy_bytes))
    return Roofline(processor_name(), tuple(copies), tuple(rates))


def _built_in() -> list[str]:
    """Return every operator of the package that works on pictures, with parameters where it needs some."""
    named = [EXAMPLES.get(name, name) for name in registry.operators]
    return [text for text in named if _takes_pictures(text)]


def _takes_pictures(text: str) -> bool:
    """Whether `text` needs neither a file nor anything but pictures."""
    try:
        operator = create(text)
        _configured(operator, _frames_for(operator, FrameSpec.picture(1080, 1920, "yuv420p")))
    except (PipelineError, ValueError):
        return False
    return True


def _operator_rate(
    text: str, spec: FrameSpec, threads: int, frames: int, repetitions: int, copy_bytes: int
) -> OperatorRate:
    operator = create(text)
    try:
        given = _frames_for(operator, spec)
        contract, num_inputs = _configured(operator, given)
    except (PipelineError, ValueError) as error:
        return OperatorRate(text, str(spec), threads, 0.0, 0.0, 0.0, 0.0, failed=str(error))
    works = [_work(operator, contract, given, num_inputs, frames) for _ in range(threads)]
    moved = threads * works[0][1]
    copiers = [_copier(copy_bytes) for _ in range(threads)]
    with _together([work for work, _ in works]) as work, _together(copiers) as copy, single_threaded_libraries():
        work()
        copy()
        ratios, seconds = [], []
        for _ in range(repetitions):
            limit = 2 * threads * copy_bytes / _seconds(copy)
            seconds.append(_seconds(work))
            ratios.append(moved / seconds[-1] / limit)
    middle, done = statistics.median(seconds), threads * frames
    return OperatorRate(
        text, str(given), threads, done / middle, moved / done, moved / middle, statistics.median(ratios)
    )


def _frames_for(operator: Operator, spec: FrameSpec) -> FrameSpec:
    wanted = choose_format(spec, operator.formats)
    return spec if wanted is None else FrameSpec.picture(spec.height, spec.width, wanted)


def _configured(operator: Operator, spec: FrameSpec) -> tuple[Contract, int]:
    """Return the contract, and for how many inputs it was made."""
    try:
        return operator.configure((spec,)), 1
    except (PipelineError, ValueError) as refused:  # it may read two
        try:
            return operator.configure((spec, spec)), 2
        except (PipelineError, ValueError):
            raise refused from None


def _work(
    operator: Operator, contract: Contract, spec: FrameSpec, num_inputs: int, frames: int
) -> tuple[Callable[[], Any], int]:
    """Return a call of the operator on one hyperframe of its own, and the bytes that must be moved for it."""
    halo = contract.halo + Halo(0, max(output.halo.after for output in contract.outputs))
    planes = tuple(_content(frames, shape, spec.dtype) for shape in spec.shapes)
    (whole,) = view(planes, np.arange(frames), spec, frames, halo)
    padded = pad(whole, halo, Boundary())
    prepared = operator.prepare(Worker())
    moved = num_inputs * sum(plane.nbytes for plane in planes)
    held = []
    for output in contract.outputs:
        start, stop = output.owned((0, frames))
        made: tuple[Array, ...] = ()
        if isinstance(output.spec, FrameSpec):
            made = tuple(np.zeros((stop - start, *shape), output.spec.dtype) for shape in output.spec.shapes)
        moved += sum(plane.nbytes for plane in made)
        held.append((output, start, stop, made))

    def work() -> None:
        views = tuple(View(*entry) for entry in held)
        operator.apply((padded,) * num_inputs, views, None, prepared)

    return work, moved


def _content(frames: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return pictures with slopes, edges and noise that move: kernels that look at the content get some."""
    random = np.random.default_rng(7)
    top = 4096 if dtype.itemsize > 1 else 256
    rows = np.arange(shape[0])[:, None]
    columns = np.arange(shape[1])[None, :] if len(shape) > 1 else np.zeros((1, 1), int)
    still = (rows + 2 * columns) % (top - 16)
    made = np.empty((frames, *shape), dtype)
    for t in range(frames):
        moving = np.roll(still, 3 * t, axis=1) + random.integers(0, 16, still.shape)
        made[t] = moving.reshape(*moving.shape, *(1,) * (len(shape) - 2)) if len(shape) > 2 else moving.reshape(shape)
    return made
