"""A sweep: how fast a chain runs for every size, number of workers and layout, on real frames, and what follows."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyperframes.drivers import run, set_up
from hyperframes.drivers.machine import available_memory, machine_facts
from hyperframes.drivers.profile import Costs, Profile, ProfileKey, profile_key
from hyperframes.drivers.quantity import bytes_text, count_text, rate_text, share_text
from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS, Clip, Records
from hyperframes.packing import Halo
from hyperframes.pipeline import check_choice
from hyperframes.scheduling.sizing import knee, sweep_sizes
from hyperframes.sinks import MemorySink, open_sink
from hyperframes.sources import open_source
from hyperframes.tuning.roofline import copy_limit
from hyperframes.tuning.sample import MOST_BYTES, Repeated, take_sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hyperframes.drivers.setup import Setup
    from hyperframes.frames import Array
    from hyperframes.instruments import Observation
    from hyperframes.pipeline import Pipeline

__all__ = ["Cell", "Measurement", "Sweep", "default_workers", "fit_costs", "measure", "sweep"]

TOLERANCE = 0.03
"""The knee is the smallest size within this of the best."""
LEAST_SECONDS = 0.4
"""How long a cell is measured, about."""
MOST_FRAMES = 1 << 20
"""Frames measured in a cell, at most, where rounds allow."""
ROUNDS = 3
"""Hyperframes measured for each worker, at least."""
REPETITIONS = 3
ALIKE_FRAMES = 40
"""Frames over which results in two layouts are compared."""
NOISE_FRAMES = 3
"""Frames of noise over which they are, too."""


class Measurement(NamedTuple):
    """What one run of one cell took in its steady state."""

    frames: int
    seconds: float
    cpu_seconds: float
    """Of all threads of the process."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One size with one number of workers in one layout."""

    size: int
    workers: int
    """Compute workers asked for."""
    parallel: int
    """P of W3: hyperframes that are worked on at once."""
    measurements: tuple[Measurement, ...] = ()
    invalid: str = ""
    """Why it could not be measured; empty where it was."""
    layout: str = "NHWC"
    """In which operators got the frames."""

    @property
    def place(self) -> tuple[str, int, int]:
        """Layout, size and workers, which no other cell of a sweep shares."""
        return self.layout, self.size, self.workers

    @property
    def rates(self) -> list[float]:
        """Frames a second of every repetition."""
        return [m.frames / max(1e-12, m.seconds) for m in self.measurements]

    @property
    def frames_per_second(self) -> float:
        """The median over the repetitions; 0 where there is none."""
        return statistics.median(self.rates) if self.measurements else 0.0

    @property
    def deviation(self) -> float:
        """Median absolute deviation of the frames a second."""
        middle = self.frames_per_second
        return statistics.median(abs(rate - middle) for rate in self.rates) if self.measurements else 0.0

    @property
    def frames_per_cpu_second(self) -> float:
        """The median of frames a second of processor time: what stays the same while others use the machine."""
        if not self.measurements:
            return 0.0
        return statistics.median(m.frames / max(1e-12, m.cpu_seconds) for m in self.measurements)

    def to_json(self) -> dict[str, Any]:
        """Return the cell as one dict."""
        return {
            "size": self.size,
            "workers": self.workers,
            "layout": self.layout,
            "frames_per_second": self.frames_per_second,
            "deviation": self.deviation,
            "frames_per_cpu_second": self.frames_per_cpu_second,
            "repetitions": len(self.measurements),
            "invalid": self.invalid or None,
        }


@dataclass(frozen=True, slots=True)
class Sweep:
    """All cells, and what follows from them."""

    key: ProfileKey
    source: str
    operators: tuple[str, ...]
    spec: str
    frame_bytes: int
    halo: Halo
    cells: tuple[Cell, ...]
    """By layout, the source's own first, then workers, then size."""
    bandwidth: float
    """Bytes a second of a copy on one thread."""
    noisy: bool = False
    """Whether repetitions differ by more than the tolerance, so that processor time decides about the size."""
    created: str = ""
    unlike: tuple[str, ...] = ()
    """Layouts in which the results are not the same bit for bit: measured, never chosen."""

    @property
    def layouts(self) -> list[str]:
        """All that were tried, the source's own first."""
        return list(dict.fromkeys(cell.layout for cell in self.cells))

    @property
    def layout(self) -> str:
        """The source's own, unless another one is faster by more than the tolerance with the same results."""
        best: dict[str, float] = {}
        for cell in self.valid:
            rate = cell.frames_per_cpu_second if self.noisy else cell.frames_per_second
            best[cell.layout] = max(best.get(cell.layout, 0.0), rate)
        chosen, *others = [name for name in self.layouts if name in best and name not in self.unlike]
        for other in others:
            if best[other] * (1 - TOLERANCE) > best[chosen]:
                chosen = other
        return chosen

    @property
    def valid(self) -> list[Cell]:
        """Cells that were measured."""
        return [cell for cell in self.cells if cell.measurements]

    @property
    def _chosen(self) -> list[Cell]:
        layout = self.layout
        return [cell for cell in self.valid if cell.layout == layout]

    @property
    def workers(self) -> int:
        """The fewest workers whose best is within the tolerance of the best of all."""
        best: dict[int, float] = {}
        for cell in self._chosen:
            best[cell.workers] = max(best.get(cell.workers, 0.0), cell.frames_per_second)
        return knee(best, TOLERANCE)

    @property
    def size(self) -> int:
        """The knee at `workers`."""
        return self.knee(self.workers)

    @property
    def frames_per_second(self) -> float:
        """Measured at the knee."""
        return self.cell(self.size, self.workers).frames_per_second

    def of_layout(self, layout: str) -> Sweep:
        """Return what was found in one layout, as if no other had been tried."""
        return dataclasses.replace(self, cells=tuple(c for c in self.cells if c.layout == layout), unlike=())

    def cell(self, size: int, workers: int, layout: str = "") -> Cell:
        """Return one cell, of the chosen layout where none is named."""
        place = (layout or self.layout, size, workers)
        return next(cell for cell in self.cells if cell.place == place)

    def knee(self, workers: int) -> int:
        """Return the smallest size within the tolerance of the best for `workers`."""
        cells = [cell for cell in self._chosen if cell.workers == workers]
        if self.noisy:
            return knee({cell.size: cell.frames_per_cpu_second for cell in cells}, TOLERANCE)
        return knee({cell.size: cell.frames_per_second for cell in cells}, TOLERANCE)

    def costs(self) -> dict[int, Costs]:
        """Return s and t of W3 for every number of workers."""
        return {
            workers: fit_costs(
                [cell for cell in self._chosen if cell.workers == workers], self.halo.total, by_cpu=self.noisy
            )
            for workers in sorted({cell.workers for cell in self._chosen})
        }

    def profile(self) -> Profile:
        """Return what runs use."""
        costs = self.costs()
        return Profile(
            key=self.key,
            created=self.created,
            size=self.size,
            workers=self.workers,
            frames_per_second=self.frames_per_second,
            knees={workers: self.knee(workers) for workers in costs},
            rates={workers: self.cell(self.knee(workers), workers).frames_per_second for workers in costs},
            costs=costs,
            halo=(self.halo.before, self.halo.after),
            frame_bytes=self.frame_bytes,
            bandwidth=self.bandwidth,
            layout=self.layout,
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as one dict."""
        return {
            "source": self.source,
            "operators": list(self.operators),
            "frames": self.spec,
            "halo": {"before": self.halo.before, "after": self.halo.after},
            "size": self.size,
            "workers": self.workers,
            "layout": self.layout,
            "layouts_with_other_results": list(self.unlike),
            "frames_per_second": self.frames_per_second,
            "decided_by": "frames_per_cpu_second" if self.noisy else "frames_per_second",
            "knees": {str(workers): self.knee(workers) for workers in self.costs()},
            "costs": {str(workers): dataclasses.asdict(costs) for workers, costs in self.costs().items()},
            "copy_bytes_per_second": self.bandwidth,
            "cells": [cell.to_json() for cell in self.cells],
            "created": self.created,
            "machine": self.key.machine,
        }


def default_workers(cores: int) -> tuple[int, ...]:
    """Return 1, 2, 4, ... and the number of cores.

    Examples
    --------
    >>> default_workers(6)
    (1, 2, 4, 6)
    """
    powers = itertools.takewhile(lambda workers: workers < cores, (1 << n for n in itertools.count()))
    return (*powers, cores)


def sweep(
    pipeline: Pipeline,
    *,
    sizes: Sequence[int] | None = None,
    workers: Sequence[int] | None = None,
    layouts: Sequence[str] | None = None,
    frames: int = 1,
    repetitions: int = REPETITIONS,
    max_memory: int | None = None,
    measure: Callable[[Pipeline, Clip, int, int, int, bool], Measurement] | None = None,
    told: Callable[[int, int, Cell | None], None] = lambda done, total, cell: None,
) -> Sweep:
    """Measure how fast the stages of `pipeline` run for every size and number of workers.

    Parameters
    ----------
    pipeline : Pipeline
        With one source; its sinks are left out, so neither decoding nor writing is measured: neither depends on the
        size.
    sizes : sequence of int, optional
        Core frames to try; default 8 to 256, more over small rows.
    workers : sequence of int, optional
        Compute workers to try; default 1, 2, 4, ... up to the cores.
    layouts : sequence of {'NHWC', 'NCHW'}, optional
        In which operators get the frames, which are turned before and back after, and that counts; default: both, where
        the frames have channels and nobody has fixed it. The source's own is always among them.
    frames : int
        Frames measured in each cell, at least; also three hyperframes for each worker, and what takes 0.4 s.
    repetitions : int
        Of each cell. They are interleaved: all cells once, then all again in reverse order, so that a machine that
        becomes slower or busier does so for all of them.
    max_memory : int, optional
        Bytes a run may take; cells that need more are invalid. Default: half of what is available.
    measure : function, optional
        ``(pipeline, sample, size, workers, frames, viewed) -> Measurement``; default: `measure`.
    told : function, optional
        Called with runs done, runs in all, and the cell that was just measured.

    Raises
    ------
    PipelineError
        If the pipeline cannot run, has more than one source, layouts beside a fixed one, or no cell is left.

    Notes
    -----
    The halo is the chain's own in every cell: with a smaller one results would be wrong, not sooner (A108). Compiling
    and the first use of memory are outside what is measured: see `measure`.
    """
    measure = measure or _measure_default
    (source,) = _only_source(pipeline)
    opened = open_source(source)
    try:
        sample = take_sample(opened)
        name, spec, viewed = opened.name, opened.spec, opened.arrays() is not None
    finally:
        if opened is not source:
            opened.close()
    budget = max_memory or available_memory() // 2
    workers = workers or default_workers(machine_facts().cores)
    pipeline = pipeline.replace(options=dataclasses.replace(pipeline.options, max_memory=budget))
    sizes = sizes or sweep_sizes(spec.nbytes)
    cells: list[Cell] = []
    turned = {layout: _turned(pipeline, layout) for layout in _layouts(pipeline, sample, layouts)}
    for layout, worked in turned.items():
        cells += _cells(worked, sample, sorted(set(sizes)), sorted(set(workers)), budget, layout, alone=not cells)
    halo = _set_up(pipeline, sample).plan.operator_halo
    valid = [cell for cell in cells if not cell.invalid]
    if not valid:
        raise PipelineError(
            f"nothing is left to measure: {cells[0].invalid}", hint="Try smaller --sizes or fewer --workers."
        )
    total = 1 + len(valid) * repetitions
    told(0, total, None)
    # Once for the order of magnitude: kernels are compiled or loaded, libraries set up.
    head = valid[0]
    first = measure(turned[head.layout], sample, head.size, head.workers, _measured_frames(head, frames), False)
    rate = first.frames / max(1e-9, first.seconds) / head.parallel
    counts = {cell.place: _measured_frames(cell, frames, rate * cell.parallel) for cell in valid}
    viewed = viewed and max(counts.values()) * 2 * spec.nbytes <= MOST_BYTES
    told(1, total, None)
    taken: dict[tuple[str, int, int], list[Measurement]] = {place: [] for place in counts}
    for done, cell in enumerate(_interleaved(valid, repetitions), 2):
        worked = turned[cell.layout]
        taken[cell.place].append(measure(worked, sample, cell.size, cell.workers, counts[cell.place], viewed))
        told(done, total, cell)
    measured = tuple(dataclasses.replace(cell, measurements=tuple(taken.get(cell.place, ()))) for cell in cells)
    own, *others = [layout for layout in turned if any(cell.layout == layout for cell in valid)]
    return Sweep(
        key=profile_key(pipeline, spec),
        source=name,
        operators=tuple(stage.name for stage in pipeline.stages),
        spec=str(spec),
        frame_bytes=spec.nbytes,
        halo=halo,
        cells=measured,
        bandwidth=copy_limit(1).bytes_per_second,
        noisy=_is_noisy(measured),
        unlike=tuple(layout for layout in others if not _alike(turned[own], turned[layout], sample)),
        created=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def _only_source(pipeline: Pipeline) -> list[Any]:
    if len(pipeline.sources) != 1:
        raise PipelineError(
            f"tuning measures pipelines of one source: got {len(pipeline.sources)}", got=len(pipeline.sources)
        )
    return list(pipeline.sources.values())


def _layouts(pipeline: Pipeline, sample: Clip, wanted: Sequence[str] | None) -> list[str]:
    """Return the layouts to try, the one that operators get without being turned first."""
    own = pipeline.options.layout or sample.spec.layout
    if wanted is not None:
        for name in wanted:
            check_choice("layout", name or "''")
        if pipeline.options.layout:
            raise PipelineError(
                f"the layout is fixed to {own}: there is nothing to try", hint="Leave out --layout or --layouts."
            )
        return list(dict.fromkeys([own, *wanted]))
    other = "NCHW" if own == "NHWC" else "NHWC"
    if pipeline.options.layout or _set_up(pipeline, sample).plan.conversions == _conversions(pipeline, sample, other):
        return [own]  # fixed, or nothing to turn
    return [own, other]


def _conversions(pipeline: Pipeline, sample: Clip, layout: str) -> tuple[str, ...]:
    try:
        return _set_up(_turned(pipeline, layout), sample).plan.conversions
    except PipelineError:  # tried all the same, so that the sweep says why it cannot be
        return (layout,)


def _turned(pipeline: Pipeline, layout: str) -> Pipeline:
    if pipeline.options.layout:
        return pipeline
    return pipeline.replace(options=dataclasses.replace(pipeline.options, work_layout=layout))


def _alike(one: Pipeline, other: Pipeline, sample: Clip) -> bool:
    """Return whether two pipelines make the same of the sample and of noise, bit for bit.

    Most operators make the same of a dark or a grey picture in any layout.
    """
    for clip in (sample, _noise(sample)):
        results = []
        for pipeline in (one, other):
            worked = _pipeline(pipeline, Repeated(clip, min(ALIKE_FRAMES, len(clip.pts))), 8, 1)
            results.append(run(worked.replace(sinks=dict.fromkeys(worked.sinks, MemorySink()))).value)
        first, second = (r.columns.values() if isinstance(r, Records) else r.planes for r in results)
        if not all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True)):
            return False
    return True


def _noise(sample: Clip) -> Clip:
    """Return a few frames of the sample's form, in which every sample is by chance."""
    numbers, spec, length = np.random.default_rng(0), sample.spec, min(NOISE_FRAMES, len(sample.pts))

    def plane(shape: tuple[int, ...]) -> Array:
        if spec.dtype.kind == "f":
            return numbers.random((length, *shape)).astype(spec.dtype)
        bits = min(PIXEL_FORMATS[spec.pixel_format].bits, 8 * spec.dtype.itemsize - (spec.dtype.kind == "i"))
        return numbers.integers(0, 1 << bits, (length, *shape)).astype(spec.dtype)

    return Clip(tuple(map(plane, sample.spec.shapes)), sample.pts[:length], sample.index[:length], spec)


def _set_up(pipeline: Pipeline, sample: Clip, workers: int = 1) -> Setup:
    setup = set_up(_pipeline(pipeline, Repeated(sample, 1), 1, workers), open_sinks=True)
    setup.close()
    return setup


def _interleaved(cells: Sequence[Cell], repetitions: int) -> Iterable[Cell]:
    for repetition in range(repetitions):
        yield from cells if repetition % 2 == 0 else reversed(cells)


def _measured_frames(cell: Cell, least: int, rate: float = 0.0) -> int:
    """Return how many frames to measure: whole rounds, so that no worker is idle at the end."""
    wanted = max(least, min(MOST_FRAMES, int(rate * LEAST_SECONDS)))
    rounds = max(ROUNDS, -(-wanted // (cell.size * cell.parallel)))
    return rounds * cell.parallel * cell.size


def _is_noisy(cells: Iterable[Cell]) -> bool:
    shares = [cell.deviation / cell.frames_per_second for cell in cells if cell.measurements]
    return statistics.median(shares) > TOLERANCE


def _cells(
    pipeline: Pipeline,
    sample: Clip,
    sizes: Sequence[int],
    workers: Sequence[int],
    budget: int,
    layout: str,
    *,
    alone: bool,
) -> list[Cell]:
    """Return every cell of one layout, those that cannot be measured with the reason; `alone`, that is an error."""
    cells = []
    for count in workers:
        try:
            setup = _set_up(pipeline, sample, count)
        except PipelineError as error:
            if alone:
                raise
            cells += [Cell(size, count, 1, invalid=str(error), layout=layout) for size in sizes]
            continue
        parallel, cut = max(setup.workers.values()), next(iter(setup.warnings), "")
        for size in sizes:
            setup.size = size
            need, why = setup.memory_bytes(), ""
            if count > 2 * machine_facts().cores:
                why = cut
            elif need > budget:
                why = f"needs {bytes_text(need)}: {bytes_text(budget)} are allowed"
            cells.append(Cell(size, count, parallel, invalid=why, layout=layout))
    return cells


def _pipeline(pipeline: Pipeline, source: Any, size: int, workers: int) -> Pipeline:
    name = next(iter(pipeline.sources))
    last = pipeline.stages[-1].name if pipeline.stages else name
    options = dataclasses.replace(pipeline.options, size=size, workers=workers, range=(0, None), checksum=False)
    return pipeline.replace(sources={name: source}, sinks={last: open_sink("null:")}, options=options)


def measure(pipeline: Pipeline, sample: Clip, size: int, workers: int, frames: int, viewed: bool) -> Measurement:
    """Run the stages over `sample`, repeated, and return what `frames` of it took once the run was in its stride.

    The clock starts when as many hyperframes have come out as can be under way: by then every worker has compiled its
    kernels and every piece of frame memory has been written once, which costs five times a later use.
    """
    setup = set_up(_pipeline(pipeline, Repeated(sample, 1), size, workers), open_sinks=False)
    setup.close()
    skipped = setup.in_flight
    watch = _Stride(skipped)
    source = Repeated(sample, skipped * size + frames, viewed=viewed)
    run(_pipeline(pipeline, source, size, workers), instruments=(watch,))
    return watch.measurement()


_measure_default = measure


class _Stride:
    """An instrument that times a run from the moment that `skipped` hyperframes have come out."""

    def __init__(self, skipped: int) -> None:
        self._skipped = skipped
        self._count = self._frames = 0
        self._first = self._last = (0, 0)

    def observe(self, observation: Observation) -> None:
        """Take note of what came out."""
        if observation["kind"] != "emitted":
            return
        self._count += 1
        self._last = (time.perf_counter_ns(), time.process_time_ns())
        if self._count == self._skipped:
            self._first = self._last
        elif self._count > self._skipped:
            start, stop = observation["core"]
            self._frames += stop - start

    def measurement(self) -> Measurement:
        """Return what was seen."""
        wall, cpu = (last - first for first, last in zip(self._first, self._last, strict=True))
        return Measurement(self._frames, wall / 1e9, cpu / 1e9)


def fit_costs(cells: Sequence[Cell], halo: int, *, by_cpu: bool = False) -> Costs:
    """Fit s and t of W3 to cells of one number of workers.

    A worker takes ``s + (S + halo) * t`` for a hyperframe; divided by S + halo that is a line in ``1 / (S + halo)`` with
    slope s and intercept t. The slope is the median over all pairs of cells (Theil-Sen), so a cell that others on the
    machine disturbed moves it little.

    Parameters
    ----------
    cells : sequence of Cell
        Measured ones.
    halo : int
        Frames of both sides.
    by_cpu : bool
        Whether processor time counts instead of the clock: what it costs on a machine that does nothing else.

    Notes
    -----
    With one size only, all is counted as the cost of frames. Neither cost is below 0.

    References
    ----------
    .. [1] P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968) 1379-1389,
       :DOI:`10.1080/01621459.1968.10480934`
    """
    points = []
    for cell in cells:
        rate = cell.frames_per_cpu_second if by_cpu else cell.frames_per_second / cell.parallel
        seconds = cell.size / rate
        points.append((1 / (cell.size + halo), seconds / (cell.size + halo)))
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in itertools.combinations(points, 2) if x1 != x2]
    fixed = max(0.0, statistics.median(slopes)) if slopes else 0.0
    frame = statistics.median(y - fixed * x for x, y in points)
    return Costs(fixed, max(0.0, frame))


def summary(found: Sweep) -> list[str]:
    """Return what a sweep says, a sentence a line."""
    costs = found.costs()[found.workers]
    by = " by processor time" if found.noisy else ""
    chosen = f"size {found.size} with {count_text(found.workers, 'worker')}: {rate_text(found.frames_per_second)}"
    lines = [
        f"{chosen}, the smallest size within {share_text(TOLERANCE)} of the best{by}",
        costs.text(),
    ]
    if len(found.layouts) > 1:
        lines.append(_layouts_text(found))
    if found.noisy:
        lines.append(
            f"the machine was busy: repetitions differ by more than {share_text(TOLERANCE)}, so frames a second of processor "
            "time decided about the size"
        )
    left = sum(1 for cell in found.cells if cell.invalid)
    if left:
        lines.append(f"{count_text(left, 'cell')} left out: {next(c.invalid for c in found.cells if c.invalid)}")
    return lines


def _layouts_text(found: Sweep) -> str:
    told = []
    for layout in found.layouts:
        rates = [cell.frames_per_second for cell in found.valid if cell.layout == layout]
        why = " (other results, so never chosen)" if layout in found.unlike else ""
        told.append(f"{layout} {rate_text(max(rates))}{why}" if rates else f"{layout} cannot be used")
    return f"layout {found.layout}: at best {', '.join(told)}"
