"""Self-check: whether the packed result is the whole-sequence result, bit for bit, and if not, where the seams show."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.engine import Engine
from hyperframes.drivers.machine import available_memory
from hyperframes.drivers.quantity import count_text
from hyperframes.drivers.setup import Setup, set_up
from hyperframes.errors import PipelineError
from hyperframes.frames import Array, Clip, FrameSpec, Records, Spec
from hyperframes.sinks import CallbackSink, MemorySink, open_sink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hyperframes.instruments import Instrument, Observation
    from hyperframes.pipeline import Pipeline

__all__ = ["CheckReport", "Difference", "check"]

MAX_DIFFERENCES = 1_000
"""Differing results kept by name; all are counted."""
UNKNOWN_LENGTH = 4_096
"""Frames compared at most where the source does not say how many it has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One result that is not the same."""

    output: str
    """The sink's key: a stage's name or ``stage.output``."""
    index: int
    """Position of the result in its stream."""
    max_difference: float
    """Largest absolute difference of samples; 0 where only times differ, infinity where the result is missing."""
    border_distance: int
    """Source frames to the nearest border between two hyperframes: 0 for the frames on either side of it."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What came of comparing the packed with the whole-sequence run."""

    frames: int
    """Source frames compared."""
    complete: bool
    """Whether those are all there are; else they are the first ones, as many as fit in memory."""
    results: int
    """Results compared, all outputs together."""
    size: int
    """Of the packed run."""
    hyperframes: int
    """Of the packed run."""
    reach: int
    """The larger side of the halo, in frames."""
    num_different: int
    differences: tuple[Difference, ...]
    """The first ones, in order."""
    touching_borders: int
    """How many of the differing results lie within `reach` of a border between hyperframes."""

    @property
    def equal(self) -> bool:
        """Whether everything is the same, bit for bit."""
        return self.num_different == 0

    @property
    def seams(self) -> bool:
        """Whether differences sit at the borders of hyperframes and nowhere else (A72)."""
        inside = self.size > 2 * max(1, self.reach)
        return 0 < self.num_different == self.touching_borders and inside

    @property
    def max_difference(self) -> float:
        """Largest absolute difference among those kept."""
        return max((d.max_difference for d in self.differences), default=0.0)

    def text(self) -> str:
        """Return the outcome in one sentence."""
        what = f"{'all' if self.complete else 'the first'} {count_text(self.frames, 'frame')}"
        sizes = f"{count_text(self.hyperframes, 'hyperframe')} of {min(self.size, self.frames)}"
        if self.equal:
            return f"packed equals whole, bit for bit, on {what} in {sizes}"
        first = self.differences[0]
        place = "at the borders of hyperframes only" if self.seams else "not only at the borders of hyperframes"
        return (
            f"packed differs from whole in {self.num_different:,} of {count_text(self.results, 'result')} on {what} in "
            f"{sizes}, {place}: first in {first.output!r} at {first.index}, by at most {self.max_difference:g}"
        )

    def advice(self) -> str:
        """Return what to look for where they differ."""
        if self.seams:
            return "An operator reads further than its declared halo: declare more, and see 'hyperframes plan'."
        return (
            "A result depends on what else is in its hyperframe, or changes from run to run: look for sums over the "
            "whole of `data`, for state kept on the operator, and for random numbers."
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as a dict of numbers and text."""
        values = dataclasses.asdict(self)
        values["differences"] = [
            {**dataclasses.asdict(d), "max_difference": None if np.isinf(d.max_difference) else d.max_difference}
            for d in self.differences
        ]
        return {"equal": self.equal, "seams": self.seams, **values}


def check(
    pipeline: Pipeline, max_frames: int | None = None, *, instruments: tuple[Instrument, ...] = ()
) -> CheckReport:
    """Run `pipeline` packed, as configured, and whole, as one hyperframe on one worker, and compare all results.

    Nothing is written. Sequential operators are included; they start fresh in both runs.

    Parameters
    ----------
    pipeline : Pipeline
        Its sources are read twice, so they must be bounded and stay what they are.
    max_frames : int, optional
        Frames to compare at most. Default: as many as fit in half of the memory allowed.
    instruments : tuple of Instrument
        Observers of both runs.

    Raises
    ------
    PipelineError
        If a source cannot be read twice, or not even one frame fits in memory.
    HyperframesError
        What either run raises.
    """
    setup = set_up(pipeline.replace(sinks={key: _Whole(what) for key, what in _sinks(pipeline).items()}))
    try:
        _refuse_streams(setup)
        frames, whole_memory = _affordable(setup, max_frames)
        packed_size = setup.size if setup.size < frames else max(1, frames // 3)
        start, known = pipeline.options.range[0], setup.num_frames
    finally:
        setup.close()
    bounded = pipeline.replace(options=_options(pipeline, range=(start, start + frames)))
    wholes = {key: _Whole(what) for key, what in _sinks(pipeline).items()}
    whole_options = _options(bounded, size=frames, workers=1, max_memory=max(1, whole_memory))
    Engine(bounded.replace(sinks=wholes, options=whole_options), instruments).start().wait()
    taps = {key: _Compared(key, wholes[key], what) for key, what in _sinks(pipeline).items()}
    cores = _Cores()
    packed_options = _options(bounded, size=packed_size)
    # In one piece each: an operator that is wrong at borders is then wrong at the same ones every time.
    packed = Engine(bounded.replace(sinks=taps, options=packed_options), (*instruments, cores), whole=True)
    packed.start().wait()
    return _report(packed.setup, taps, cores, start, known)


def _report(setup: Setup, taps: Mapping[str, _Compared], cores: _Cores, start: int, known: int | None) -> CheckReport:
    plan = setup.plan
    reach = max(1, plan.operator_halo.before, plan.operator_halo.after)
    found = []
    for key, tap in taps.items():
        tap.finish()
        port = plan.ports[plan.sinks[key]]
        for index, difference in tap.different:
            distance = _border_distance(port.start_of(index) - start, setup.size, cores.frames)
            found.append(Difference(key, index, difference, distance))
    return CheckReport(
        frames=cores.frames,
        complete=known is not None and cores.frames >= known,
        results=sum(tap.compared for tap in taps.values()),
        size=setup.size,
        hyperframes=cores.hyperframes,
        reach=reach,
        num_different=sum(tap.num_different for tap in taps.values()),
        differences=tuple(found[:MAX_DIFFERENCES]),
        touching_borders=sum(d.border_distance < reach for d in found),
    )


class _Cores:
    """An instrument that counts the frames that hyperframes own."""

    def __init__(self) -> None:
        self.frames = self.hyperframes = 0

    def observe(self, observation: Observation) -> None:
        """Count what is sealed; only one thread seals."""
        if observation["kind"] == "sealed":
            self.frames += observation["core"][1] - observation["core"][0]
            self.hyperframes += 1


def _border_distance(frame: int, size: int, num_frames: int) -> int:
    """Return how many frames lie between `frame` and the nearest border between two hyperframes.

    Examples
    --------
    >>> [_border_distance(frame, 4, 8) for frame in range(8)]
    [3, 2, 1, 0, 0, 1, 2, 3]
    """
    place = frame % size
    distances = []
    if frame >= size:
        distances.append(place)
    if frame - place + size < num_frames:
        distances.append(size - 1 - place)
    return min(distances, default=num_frames)


def _sinks(pipeline: Pipeline) -> Mapping[str, Any]:
    if pipeline.sinks:
        return pipeline.sinks
    return {pipeline.stages[-1].name if pipeline.stages else next(iter(pipeline.sources)): None}


def _options(pipeline: Pipeline, **changes: Any) -> Any:
    return dataclasses.replace(pipeline.options, on_error="fail", checksum=False, **changes)


def _refuse_streams(setup: Setup) -> None:
    for source in setup.sources.values():
        if not (source.bounded and source.rereadable):
            raise PipelineError(
                f"the check reads its source twice: {source.name} can be read only once",
                got=source.name,
                hint="Save it to a file first, or run without --check.",
            )


def _affordable(setup: Setup, max_frames: int | None) -> tuple[int, int]:
    """Return how many frames can be run as one hyperframe with all results kept, and the memory that takes."""
    budget = setup.pipeline.options.max_memory or available_memory() // 2
    workers = setup.workers
    setup.workers = dict.fromkeys(workers, 1)
    size, wanted = setup.size, setup.num_frames if setup.num_frames is not None else UNKNOWN_LENGTH
    frames = max(1, wanted if max_frames is None else min(wanted, max_frames))
    while (need := _whole_bytes(setup, frames)) > budget and frames > 1:
        frames = max(1, min(frames - 1, int(frames * budget / need)))
    setup.size, setup.workers = size, workers
    if need > budget:
        raise PipelineError(
            f"not even one frame fits in the memory allowed: needs {need / 1e6:.0f} MB, got {budget / 1e6:.0f} MB",
            expected=need,
            got=budget,
            hint="Allow more with --max-memory, or run without --check.",
        )
    return frames, need


def _whole_bytes(setup: Setup, frames: int) -> int:
    setup.size = frames
    results = 0
    for port in setup.plan.sinks.values():
        spec = setup.plan.ports[port].spec
        if isinstance(spec, FrameSpec):
            results += spec.nbytes * setup.plan.ports[port].owned((0, frames))[1]
    return setup.memory_bytes() + results


class _Whole(MemorySink):
    """Keeps all results, in the formats that the sink it stands for would get."""

    def __init__(self, stands_for: Any) -> None:
        super().__init__()
        self._stands_for = open_sink(stands_for)

    def accepts(self, spec: Spec) -> tuple[str, ...] | None:
        return self._stands_for.accepts(spec)


class _Compared(CallbackSink):
    """Compares frames with those kept as they come; collects rows and compares them at the end."""

    def __init__(self, key: str, whole: _Whole, stands_for: Any) -> None:
        super().__init__(self._take)
        self.name = f"check of {key}"
        self.different: list[tuple[int, float]] = []
        self.num_different = self.compared = 0
        self._whole, self._stands_for = whole, open_sink(stands_for)
        self._rows: list[Records] = []

    def accepts(self, spec: Spec) -> tuple[str, ...] | None:
        return self._stands_for.accepts(spec)

    def finish(self) -> None:
        """Compare what could only be compared at the end: rows, and whether results are missing."""
        kept = self._whole.result
        if isinstance(kept, Records):
            self._compare_rows(kept)
        elif kept is not None:
            for place in range(self.compared, len(kept)):
                self._note(int(kept.index[place]), float("inf"))
            self.compared = max(self.compared, len(kept))

    def _note(self, index: int, difference: float) -> None:
        self.num_different += 1
        if len(self.different) < MAX_DIFFERENCES:
            self.different.append((index, difference))

    def _take(self, result: Clip | Records) -> None:
        if isinstance(result, Records):
            columns = {name: np.array(column) for name, column in result.columns.items()}
            stop = None if result.stop is None else np.array(result.stop)
            self._rows.append(Records(columns, np.array(result.index), np.array(result.pts), result.spec, stop))
            return
        kept, first = self._whole.result, self.compared
        assert isinstance(kept, Clip)
        self.compared += len(result)
        for t in range(len(result)):
            place = first + t
            if place >= len(kept) or kept.index[place] != result.index[t]:
                self._note(int(result.index[t]), float("inf"))
                continue
            pairs = [(one[place], other[t]) for one, other in zip(kept.planes, result.planes, strict=True)]
            if kept.pts[place] != result.pts[t] or not all(_same_bytes(one, other) for one, other in pairs):
                self._note(int(result.index[t]), max(_distance(one, other) for one, other in pairs))

    def _compare_rows(self, kept: Records) -> None:
        packed: dict[str, list[Any]] = {}
        for records in self._rows:
            for name, column in _columns(records).items():
                packed.setdefault(name, []).extend(column)
        whole = _columns(kept)
        count = len(packed.get("index", []))
        self.compared = max(count, len(kept))
        for row in range(self.compared):
            if row >= min(count, len(kept)):
                index = kept.index[row] if row < len(kept) else packed["index"][row]
                self._note(int(index), float("inf"))
                continue
            pairs = [(np.asarray(whole[name][row]), np.asarray(packed[name][row])) for name in whole]
            if not all(_same_bytes(one, other) for one, other in pairs):
                self._note(int(kept.index[row]), max(_distance(one, other) for one, other in pairs))


def _columns(records: Records) -> dict[str, Array]:
    stop = {} if records.stop is None else {"stop": records.stop}
    return {"index": records.index, "pts": records.pts, **stop, **records.columns}


def _same_bytes(one: Array, other: Array) -> bool:
    """Whether two arrays are the same bit for bit: NaN equals the same NaN, and 0.0 is not -0.0."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind in "fc":
        return np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
    return bool(np.array_equal(one, other))


def _distance(one: Array, other: Array) -> float:
    """Return the largest absolute difference; infinity where a number stands against none."""
    if one.shape != other.shape or one.dtype.kind not in "biufc":
        return 0.0 if one.shape == other.shape and bool(np.all(one == other)) else float("inf")
    wide = np.promote_types(one.dtype, np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(one.astype(wide) - other.astype(wide))
    both_nan = np.isnan(one.astype(wide)) & np.isnan(other.astype(wide))
    gap = np.where(both_nan | (one == other), 0.0, np.where(np.isnan(gap), np.inf, gap))
    return float(gap.max(initial=0.0))
