"""Measure a source or a model file, and say whether hyperframes are worth it there, which kind, and why."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import cv2
import numpy as np
import psutil

from hyperframes.clock import SystemClock
from hyperframes.drivers import run
from hyperframes.drivers.machine import available_memory
from hyperframes.errors import PipelineError, SourceError
from hyperframes.frames.events import EVENT_NAMES
from hyperframes.operators.activity import Activity
from hyperframes.operators.onnx import Onnx
from hyperframes.operators.onnx_model import form_of, identity
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic.advice import (
    LEAST_COUPLING,
    Advice,
    ModelMeasures,
    SourceMeasures,
    Symptoms,
    advice_on_events,
    advice_on_model,
    advice_on_source,
    target_named,
)
from hyperframes.semantic.features import dense_flow
from hyperframes.semantic.flow_model import new_search
from hyperframes.semantic.luma import as_small_luma
from hyperframes.semantic.regions import region_confidence, select_patches
from hyperframes.semantic.timeline import find_anchors
from hyperframes.sinks import MemorySink, NullSink
from hyperframes.sources import open_source

if TYPE_CHECKING:
    from hyperframes.clock import Clock
    from hyperframes.frames import Array
    from hyperframes.sources import Source

__all__ = ["advise"]

_FRAMES: Final = 240
_EVENTS: Final = 20_000
_PAIRS: Final = 60
_PACKED_FRAMES: Final = 96
_OVER_TIME: Final = "temporal_mean:radius=2"
_BATCHES: Final = (1, 2, 4, 8, 16)
_ROUNDS: Final = 3
_MATTERS: Final = 0.15
_CHANGED: Final = 2.0  # grey levels


def advise(
    what: Any,
    *,
    target: str = "this",
    symptoms: Symptoms | None = None,
    frames: int = _FRAMES,
    clock: Clock | None = None,
) -> Advice:
    """Say whether hyperframes are worth it for a source or a model file, which kind, and why.

    Parameters
    ----------
    what : path, URL, array or Source
        Pictures, or a model file ending in ``.onnx``.
    target : str
        What it has to fit: a name in `hyperframes.semantic.advice.TARGETS`; ``this`` is this machine.
    symptoms : Symptoms, optional
        What is known of the system in use.
    frames : int
        Of the source that are looked at, from its start on.
    clock : Clock, optional
        What times are taken by.

    Returns
    -------
    Advice
        With every finding: what was measured, the threshold, and what follows.

    Raises
    ------
    SourceError
        If the source cannot be read, or has fewer than two frames.
    PipelineError
        If there is no such target, or if the model file cannot be run.
    """
    fit, told, ticking = target_named(target), symptoms or Symptoms(), clock or SystemClock()
    if isinstance(what, str | Path) and str(what).lower().endswith(".onnx"):
        memory = fit.memory_bytes if fit.memory_bytes is not None else available_memory()
        return advice_on_model(str(what), measure_model(str(what), ticking), told, fit, memory)
    opened = open_source(what)
    try:
        if opened.spec.names == EVENT_NAMES:
            return advice_on_events(opened.name, _event_rate(opened), told, fit)
        return advice_on_source(opened.name, measure_source(opened, frames, ticking), told, fit)
    finally:
        if opened is not what:
            opened.close()


# Sources --------------------------------------------------------------------------------------------------------------


def measure_source(source: Source, frames: int, clock: Clock) -> SourceMeasures:
    """Look at the first `frames` frames: how they move, how alike they are, and what packing gains."""
    if not source.spec.is_picture:
        raise SourceError(
            f"{source.name} has no pictures: advice is about video, got {source.spec}",
            source=source.name,
            hint="For rows of sensors, compare sizes with hyperframes tune.",
        )
    luma, decode_ms = _looked_at(source, frames, clock)
    if len(luma) < 2:
        raise SourceError(
            f"{source.name} has {len(luma)} frames: advice needs two or more",
            source=source.name,
        )
    side = max(source.spec.shapes[0][:2])
    moves = _motion(luma, side / max(luma.shape[1:]))
    timeline = find_anchors(luma)
    gain, size = _packing_gain(source, len(luma), clock)
    return SourceMeasures(
        frames=len(luma),
        side_px=side,
        decode_ms=decode_ms,
        median_px=float(np.median(moves.speeds)),
        fast_px=float(np.percentile(moves.speeds, 99)),
        coupling=moves.coupling,
        cuts=len(timeline.cuts),
        busy_share=float((timeline.weights >= _MATTERS).mean()),
        area_share=moves.area_share,
        gain=gain,
        size=size,
    )


class _Moves(NamedTuple):
    """What pairs of neighbouring frames show."""

    speeds: Array
    """Of pixels, in pixels of the source a frame; 0 where flow does not explain what changed."""
    area_share: float
    coupling: float


def _looked_at(source: Source, frames: int, clock: Clock) -> tuple[Array, float]:
    """Return the small luma of the first frames, and milliseconds a frame of reading them."""
    activity, luma = Activity(), MemorySink()
    seen = as_small_luma(source, activity)
    began = clock.now_ns()
    count = sum(1 for _ in seen.read(0, frames))
    took = clock.now_ns() - began
    again = as_small_luma(source, activity) if source.rereadable else None
    if again is None or not count:
        raise SourceError(
            f"{source.name} can be read only once or is empty: advice reads the first frames several times",
            source=source.name,
            hint="Record some seconds to a file first.",
        )
    run(Pipeline.of(again, [Stage("activity", activity)], {"activity.luma": luma}, range=(0, frames)))
    return luma.result.data, took / 1e6 / count  # type: ignore[union-attr]  # frames


def _motion(luma: Array, scale: float) -> _Moves:
    """Look at up to 60 pairs of neighbouring frames, spread over all."""
    search = new_search()
    chosen = np.unique(np.linspace(1, len(luma) - 1, min(_PAIRS, len(luma) - 1)).astype(int))
    speeds, areas, shared = [np.zeros(1)], [], []
    for t in chosen:
        before, after = luma[t - 1], luma[t]
        flow = dense_flow(search, before, after)
        back = _moved_back(after, flow)
        shared.append(_shared(before, back))
        if shared[-1] < LEAST_COUPLING:
            continue  # another picture, or nothing to follow: what flow says there is no motion
        change, left = (cv2.blur(cv2.absdiff(before, other), (5, 5)).astype(np.float32) for other in (after, back))
        moved = (change >= _CHANGED) & (left < change / 2)  # noise changes pixels, but no flow explains it
        speeds.append(np.where(moved, np.hypot(flow[..., 0], flow[..., 1]), 0).ravel() * scale)
        areas.append(select_patches(region_confidence(flow, after), after.shape).share)
    return _Moves(np.concatenate(speeds), float(np.mean(areas or [1.0])), float(np.median(shared)))


def _moved_back(after: Array, flow: Array) -> Array:
    """Return `after` as it was before it moved along the flow."""
    y, x = np.mgrid[: after.shape[0], : after.shape[1]].astype(np.float32)
    return cv2.remap(after, x + flow[..., 0], y + flow[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def _shared(before: Array, back: Array) -> float:
    """Return the share of a picture's variance that the other one explains; 1 for flat ones."""
    spread = float(before.var())
    return 1.0 - float((back.astype(np.float64) - before).var()) / spread if spread > 1 else 1.0


def _packing_gain(source: Source, frames: int, clock: Clock) -> tuple[float | None, int | None]:
    """Return how many times as fast a mean over five frames is packed, and the size of its hyperframes."""
    count = min(frames, _PACKED_FRAMES)

    def timed(**options: Any) -> tuple[int, int]:
        began = clock.now_ns()
        result = run(Pipeline.of(source, [_OVER_TIME], NullSink(), range=(0, count), **options))
        return clock.now_ns() - began, result.size

    try:
        timed()
    except PipelineError:
        return None, None
    rounds = [(timed(size=1)[0], *timed()) for _ in range(_ROUNDS)]
    return statistics.median(single / max(1, packed) for single, packed, _ in rounds), rounds[0][2]


def _event_rate(source: Source) -> float:
    """Return events a second over the first of them."""
    times = [frame.seconds for frame in source.read(0, _EVENTS)]
    return (len(times) - 1) / max(1e-9, times[-1] - times[0]) if len(times) > 1 else 0.0


# Models ---------------------------------------------------------------------------------------------------------------


def measure_model(path: str, clock: Clock) -> ModelMeasures:
    """Run a model on one frame, two, four, ... at once, as far as it lets us, and note time and memory."""
    operator = Onnx(path)
    form = form_of(*identity(path), threads=max(1, psutil.cpu_count() or 1))
    shape = tuple(side or 224 for side in (form.height, form.width))
    batches = (form.batch,) if form.batch is not None else _BATCHES
    process, most = psutil.Process(), 0
    before = process.memory_info().rss
    feeds = {n: _fed(operator, form, n, shape) for n in batches}
    times: dict[int, list[float]] = {n: [] for n in batches}
    for turn in range(_ROUNDS + 1):
        for n, feed in feeds.items():
            began = clock.now_ns()
            form.session.run(None, {form.input: feed})
            if turn:
                times[n].append((clock.now_ns() - began) / 1e6 / n)
            most = max(most, process.memory_info().rss)
    weights = identity(path)[2]
    milliseconds = {n: statistics.median(taken) for n, taken in times.items()}
    return ModelMeasures(milliseconds, form.batch, form.length, max(weights, most - before + weights))


def _fed(operator: Onnx, form: Any, count: int, shape: tuple[int, ...]) -> Array:
    """Return an input of `count` frames of mid-grey noise: models may skip what is constant."""
    frame = (form.channels, *shape) if form.channels_first else (*shape, form.channels)
    row = frame if form.time_axis < 0 else (*frame[: form.time_axis], form.length, *frame[form.time_axis :])
    random = np.random.default_rng(0)
    return random.uniform(0, 255 if form.dtype.kind == "u" else 1, (count, *row)).astype(form.dtype)
