"""What `Anchors` found in a source, as one value: weights of all frames, anchors, segments; and which frames to look at."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyperframes.drivers import run
from hyperframes.errors import FrameError
from hyperframes.frames import Array
from hyperframes.operators.activity import Activity
from hyperframes.operators.create import as_text
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic.anchors import KINDS, Anchors, levels_of
from hyperframes.semantic.cache import SemanticCache, cache_key
from hyperframes.semantic.content import content_hash, file_of
from hyperframes.semantic.descriptor import Anchor, Statistics
from hyperframes.semantic.luma import as_small_luma
from hyperframes.sinks import MemorySink
from hyperframes.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hyperframes.drivers import RunResult
    from hyperframes.frames import Records
    from hyperframes.instruments import Instrument
    from hyperframes.semantic.cache import Cache

__all__ = ["Segment", "Timeline", "choose_frames", "find_anchors"]


class Segment(NamedTuple):
    """A span of frames that one descriptor describes."""

    start: int
    stop: int
    """One past its last frame."""
    cut: bool
    """It begins at a cut or fade."""
    static: bool
    """Nothing in it matters."""
    weight: float
    """The greatest in it."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """The time side of a source. Arrays have one entry a frame, (N,)."""

    index: Array
    """int64: positions in the stream."""
    seconds: Array
    """float64: presentation times."""
    weights: Array
    """float32 in [0, 1]."""
    activity: Array
    """float32: mean normal flow above the noise floor, pixels of the small luma a frame."""
    entropy: Array
    """float32 in [0, 1]: of the speeds in the frame; 0 where it was not looked at closer."""
    anchors: tuple[Anchor, ...]
    segments: tuple[Segment, ...]
    statistics: Statistics
    warnings: tuple[str, ...] = ()
    """What users should know of the source: damaged packets, wrong counts, repaired times."""

    @property
    def cuts(self) -> tuple[Anchor, ...]:
        """Anchors at cuts and fades."""
        return tuple(anchor for anchor in self.anchors if anchor.kind in {"cut", "fade"})

    def choose(self, count: int) -> Array:
        """Return the positions of `count` frames to look at, (count,) int64, ascending: see `choose_frames`."""
        starts = np.searchsorted(self.seconds, np.array([anchor.seconds for anchor in self.cuts]) - 1e-6)
        return self.index[choose_frames(self.weights, count, starts=starts.tolist())]


def find_anchors(
    source: Any,
    *,
    two_pass: bool = False,
    anchors: Anchors | None = None,
    side: int = 160,
    cache: Cache | None = None,
    instruments: tuple[Instrument, ...] = (),
    **options: Any,
) -> Timeline:
    """Find what matters in a source, and when.

    Parameters
    ----------
    source : path, URL, array or Source
        Pictures.
    two_pass : bool
        Whether noise and percentiles come from the whole file, read a first time for it, rather than from the 60
        seconds before each frame. Only for sources that can be read twice.
    anchors : Anchors, optional
        Parameters of the anchors.
    side : int
        Longer side of the small luma, in pixels.
    cache : Cache, optional
        Where the timelines of local files are looked for and kept; see `semantic.cache.open_cache`.
    instruments : tuple of Instrument, optional
        Observers of the runs.
    **options
        Fields of `Options`: size, workers, range, ...

    Returns
    -------
    Timeline

    Raises
    ------
    HyperframesError
        What was wrong, with a hint.
    """
    file = file_of(source) if cache is not None else None
    if cache is None or file is None:
        return _found(source, two_pass, anchors or Anchors(), Activity(side=side), instruments, options)
    said = [two_pass, side, as_text(anchors or Anchors()), Anchors.version, Activity.version]
    said += [options.get(name) for name in ("range", "pixel_format", "on_size_change")]
    opened = open_source(source)
    try:
        key, kept = cache_key(content_hash(opened, file), "anchors", str(said)), SemanticCache(cache)
    finally:
        opened.close()
    known = _from_arrays(kept.get_arrays(key))
    if known is None:
        known = _found(source, two_pass, anchors or Anchors(), Activity(side=side), instruments, options)
        kept.put_arrays(key, _to_arrays(known))
    return known


def _found(
    source: Any,
    two_pass: bool,
    anchors: Anchors,
    activity: Activity,
    instruments: tuple[Instrument, ...],
    options: dict[str, Any],
) -> Timeline:
    stage = Stage("activity", activity)

    def carried_out(stages: list[Stage], sinks: Mapping[str, MemorySink]) -> RunResult:
        opened = open_source(source, on_size_change=options.get("on_size_change", "scale"))
        try:
            seen = opened if "pixel_format" in options else as_small_luma(opened, activity)
            return run(Pipeline.of(seen, stages, dict(sinks), **options), instruments=instruments)
        finally:
            if opened is not source:
                opened.close()

    if two_pass:
        measured = MemorySink()
        carried_out([stage], {"activity.measures": measured})
        anchors = replace(anchors, levels=levels_of(measured.result.data))  # type: ignore[union-attr]  # rows
    sinks = {name: MemorySink() for name in ("anchors.anchors", "anchors.segments", "anchors.weights")}
    last = Stage("anchors", anchors, ("activity.measures", "activity.luma"))
    result = carried_out([stage, last], sinks)
    found, segments, weights = (sink.result for sink in sinks.values())
    timeline = _timeline(found, segments, weights)  # type: ignore[arg-type]  # records
    return replace(timeline, statistics="two-pass" if two_pass else "causal", warnings=tuple(result.warnings))


def _timeline(found: Records, segments: Records, weights: Records) -> Timeline:
    tick = float(weights.spec.time_base)
    columns = weights.columns
    anchors = zip(found.pts, found.columns["weight"], found.columns["kind"], strict=True)
    stops = segments.stop if segments.stop is not None else ()
    spans = zip(segments.index, stops, *(segments.columns[name] for name in Segment._fields[2:]), strict=True)
    return Timeline(
        weights.index,
        weights.pts * tick,
        columns["weight"],
        columns["activity"],
        columns["entropy"],
        tuple(Anchor(float(pts * tick), float(weight), KINDS[kind]) for pts, weight, kind in anchors),
        tuple(Segment(int(a), int(b), bool(cut), bool(still), float(w)) for a, b, cut, still, w in spans),
        "causal",
    )


_COLUMNS: Final = ("index", "seconds", "weights", "activity", "entropy")


def _to_arrays(timeline: Timeline) -> dict[str, Array]:
    """Return what a cache keeps of a timeline."""
    rest: list[Any] = [timeline.anchors, timeline.segments, timeline.statistics, timeline.warnings]
    return {name: getattr(timeline, name) for name in _COLUMNS} | {"rest": np.array(json.dumps(rest))}


def _from_arrays(arrays: Mapping[str, Array] | None) -> Timeline | None:
    """Return the timeline that `_to_arrays` made arrays of; None where they are of another form."""
    if arrays is None or set(arrays) != {*_COLUMNS, "rest"}:
        return None
    anchors, segments, statistics, warnings = json.loads(str(arrays["rest"]))
    return Timeline(
        **{name: arrays[name] for name in _COLUMNS},
        anchors=tuple(Anchor(*row) for row in anchors),
        segments=tuple(Segment(*row) for row in segments),
        statistics=statistics,
        warnings=tuple(warnings),
    )


def choose_frames(
    weights: Sequence[float] | Array, count: int, *, starts: Sequence[int] = (), floor: float = 0.02
) -> Array:
    """Return which `count` frames to look at: those of much weight, but not all of one shot.

    Frames are shared out over the shots one by one, each to the shot with the greatest ``sqrt(weight) / (frames + 1)``, and
    none to a shot that has no more. Within a shot, its weights are cut into parts of equal sum, and the middle frame by
    weight of each part is taken.

    Parameters
    ----------
    weights : (N,) sequence of float
        In [0, 1].
    count : int
        From 1 to N.
    starts : sequence of int
        First frames of shots, ascending; a shot that begins at frame 0 need not be told.
    floor : float
        What is added to every weight, so that still stretches are not forgotten.

    Returns
    -------
    (count,) array of int64
        Ascending, no two the same.

    Raises
    ------
    FrameError
        If there are fewer frames than asked for.

    References
    ----------
    .. [1] Y. Zhi et al., "MGSampler: An Explainable Sampling Strategy for Video Action Recognition", ICCV 2021.
    """
    wanted = np.asarray(weights, np.float64) + floor
    if not 1 <= count <= len(wanted):
        raise FrameError(
            f"frames to choose: expected from 1 to {len(wanted)}, as many as there are, got {count}",
            expected=(1, len(wanted)),
            got=count,
        )
    edges = np.unique([0, *starts, len(wanted)])
    lengths = np.diff(edges)
    shares = np.sqrt(np.add.reduceat(wanted, edges[:-1]))
    given = np.zeros(len(lengths), np.int64)
    for _ in range(count):
        given[np.argmax(np.where(given < lengths, shares / (given + 1), -1.0))] += 1
    shots = zip(edges[:-1].tolist(), edges[1:].tolist(), given.tolist(), strict=True)
    return np.concatenate([start + _middles(wanted[start:stop], number) for start, stop, number in shots if number])


def _middles(weights: Array, count: int) -> Array:
    """Return the middle frame by weight of each of `count` parts of equal weight, no two the same."""
    total = np.cumsum(weights)
    middles = (np.arange(count) + 0.5) * total[-1] / count
    chosen: Array = np.searchsorted(total, middles).astype(np.int64)
    # Heavy frames may stand in the middle of two parts: move to the next free one, never past the end.
    order = np.arange(count)
    chosen = np.maximum.accumulate(chosen - order) + order
    return np.asarray(np.minimum(chosen, len(weights) - count + order))
