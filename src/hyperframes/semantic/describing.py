"""From a source to descriptors, as they come: anchors cut it into segments, windows say what each looks like.

All is one run of the flow: nothing depends on the size of hyperframes, and what is held is what the open segment needs.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import os
import queue
import threading
import warnings
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyperframes.drivers import run, start
from hyperframes.errors import SourceError
from hyperframes.frames import Array
from hyperframes.operators.activity import Activity
from hyperframes.operators.create import as_text, create
from hyperframes.operators.every import Every
from hyperframes.operators.onnx_model import model_id
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic.anchors import KINDS, Anchors, levels_of
from hyperframes.semantic.bridge import ImageEncoder, LabelBridge, See, find_image_encoder, unit
from hyperframes.semantic.cache import SemanticCache, cache_key
from hyperframes.semantic.coco import COCO_CLASSES
from hyperframes.semantic.content import content_hash, file_of
from hyperframes.semantic.descriptor import DEFAULT, MAP_SIDE, NUM_FEATURES, PARTS, Anchor, Descriptor, Trajectory
from hyperframes.semantic.detect import Detect
from hyperframes.semantic.faces import Faces
from hyperframes.semantic.features import Change, Features, Motion
from hyperframes.semantic.look import Looks, looks_of
from hyperframes.semantic.luma import as_small_luma
from hyperframes.semantic.models import DETECTOR, MODELS_VARIABLE, find_model
from hyperframes.semantic.regions import Mask
from hyperframes.semantic.sync import Sync
from hyperframes.semantic.tasks import TASKS
from hyperframes.semantic.trajectories import trajectories_between
from hyperframes.sinks import CallbackSink, MemorySink
from hyperframes.sources import Source, open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hyperframes.drivers import Run
    from hyperframes.frames import Clip, Records
    from hyperframes.instruments import Instrument
    from hyperframes.operators import Operator
    from hyperframes.semantic.cache import Cache
    from hyperframes.semantic.text import TextEncoder

__all__ = ["DegradedWarning", "Descriptions", "describe"]

_MOST_REMEMBERED: Final = 10_000  # descriptors of a source, 100 MB: longer ones are not kept in a cache
_FILES: Final = ("model", "weights", "flow", "refiner")
"""Parameters of operators that are paths of files."""
_LEAST_WEIGHT: Final = 0.02  # of a window where nothing happens: still stretches are not forgotten
_LUMA: Final = "activity.luma"
_PATHS: Final = 8  # of points between two anchors
_WINDOWS: Final = ("change.features", "change.valid", "change.regions", "motion.cut")
_SPANS: Final = ("anchors.weights", "anchors.anchors", "anchors.segments")


class DegradedWarning(UserWarning):
    """Descriptors are made with less than was asked for."""


class _Given(NamedTuple):
    """What users put in place of our own."""

    regions: str | Operator | None
    faces: str | None
    flow: str


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is run, and what it says of itself."""

    stages: list[Stage]
    models: dict[str, str]
    parameters: str
    degraded: bool
    hop: int


def describe(
    source: Any,
    *,
    detector: str | os.PathLike[str] | None = "auto",
    masks: Mapping[str, Mask] | None = None,
    tasks: Sequence[str] = (),
    two_pass: bool = False,
    sync: Sync | None = None,
    text: str | ImageEncoder | TextEncoder | None = "auto",
    regions: str | Operator | None = None,
    faces: str | os.PathLike[str] | None = None,
    flow: str | os.PathLike[str] | None = None,
    anchors: Anchors | None = None,
    hop: int = 8,
    side: int = 160,
    cache: Cache | None = None,
    instruments: tuple[Instrument, ...] = (),
    **options: Any,
) -> Descriptions:
    """Yield the descriptors of a source, in order of time, as they come.

    Parameters
    ----------
    source : path, URL, array or Source
        Pictures.
    detector : path or None
        A NanoDet model file. ``auto``: ``nanodet-416.onnx`` in a folder of ``HYPERFRAMES_MODELS``; where there is none,
        descriptors are marked as degraded, their detection part is not valid, and a `DegradedWarning` says so. None: no
        detection is wanted.
    masks : mapping of task to Mask, optional
        Tasks that look at parts of the picture: each gets a map of its own.
    tasks : sequence of str, optional
        Names or descriptions of tasks; the versions of their projections in `hyperframes.semantic.TASKS` are noted, and say
        which are only zero-shot.
    two_pass : bool
        Whether noise and percentiles come from the whole file, read a first time for it.
    sync : Sync, optional
        What `measure_sync` found; moves anchors towards the sound and is noted.
    text : str, ImageEncoder, TextEncoder or None
        Whose space `Descriptor.text_vector` is in: the name of an encoder in `hyperframes.registry.encoders`, one of
        pictures and texts, or one of sentences, which then is given the labels that a classifier and the detector see.
        ``auto``: such a label bridge of what lies in the folders of ``HYPERFRAMES_MODELS``, if there is a sentence
        encoder. None: no such vector.
    regions : str or Operator, optional
        Says where something matters, in place of our own map: an operator that gives one of shape (64, 64), dtype float32, a
        frame, such as ``region_net:weights=FILE``.
    faces : path, optional
        A YuNet model file: faces matter, and masks may name the class ``face``.
    flow : path, optional
        A model file of dense flow, RAFT for example, in place of OpenCV's; see `hyperframes.semantic.flow_model`.
    anchors : Anchors, optional
        Parameters of the anchors and segments; `Anchors.refiner` names a trained refiner.
    hop : int
        Frames of a window.
    side : int
        Longer side of the small luma, in pixels.
    cache : Cache, optional
        Where descriptors of local files are looked for, and kept when all are made; see `semantic.cache.open_cache`.
    instruments : tuple of Instrument, optional
        Observers of the run.
    **options
        Fields of `Options`: size, workers, range, ...

    Returns
    -------
    Descriptions
        An iterator over descriptors, one a segment. Close it and the run is cancelled.

    Raises
    ------
    HyperframesError
        What was wrong, with a hint.

    Notes
    -----
    Windows belong to the segment in which they start (one that has none takes the window it lies in, or the next). Scores and boxes
    are the greatest of the windows; flow, texture and change their means, weighted by the greatest anchor weight in the
    window; the map is the mean of the windows' steadied maps, weighted alike. Between neighbouring anchors of a segment at most 8
    points are followed; trajectories keep the times of the pictures also where `sync` moves anchors.
    """
    opened = open_source(source, on_size_change=options.get("on_size_change", "scale"))
    let_go: Callable[[], None] = _nothing if opened is source else opened.close
    activity, chosen = Activity(side=side), anchors or Anchors()
    try:
        given = _Given(regions, None if faces is None else os.fspath(faces), "" if flow is None else os.fspath(flow))
        if given.flow:
            chosen = replace(chosen, flow=given.flow)
        encoder = find_image_encoder(text)
        model = _detector(detector)
        more = [
            two_pass,
            _PATHS,
            options.get("range"),
            options.get("pixel_format"),
            sorted((masks or {}).items()),
            sync,
            *tasks,
        ]
        plan = _plan(opened, model, encoder, given, chosen, activity, hop, more, wanted=detector is not None)
        file = file_of(source)
        fixed: dict[str, Any] = {
            "source": opened.name,
            "content_hash": content_hash(opened, file),
            "parameters": plan.parameters,
            "models": plan.models,
            "statistics": "two-pass" if two_pass else "causal",
            "degraded": plan.degraded,
            "tasks": {task: TASKS.projection(task).version for task in tasks},
        }
        if two_pass:
            _check_rereadable(opened)
    except BaseException:
        let_go()
        raise

    def begin() -> Iterator[Descriptor]:
        final = plan
        if two_pass:
            exact = replace(chosen, levels=_levels(source, activity, options))
            stages = [replace(s, operator=exact) if s.name == "anchors" else s for s in plan.stages]
            final = replace(plan, stages=stages)
        assembler = _Assembler(plan.hop, fixed, dict(masks or {}), sync, encoder)
        return _described(opened, let_go, final, assembler, instruments, options)

    if cache is not None and file is not None:
        return Descriptions(_remembered(begin, let_go, fixed, SemanticCache(cache)), let_go, *_told(fixed))
    return Descriptions(begin, let_go, *_told(fixed))


def _nothing() -> None:
    """Leave a source open that is the caller's."""


def _told(fixed: dict[str, Any]) -> tuple[str, str]:
    return fixed["content_hash"], fixed["parameters"]


def _remembered(
    begin: Callable[[], Iterator[Descriptor]], let_go: Callable[[], None], fixed: dict[str, Any], cache: SemanticCache
) -> Callable[[], Iterator[Descriptor]]:
    """Return a `begin` that looks into the cache first, and keeps what was made there once all is."""
    key = cache_key(fixed["content_hash"], "descriptors", fixed["parameters"], str([fixed["models"], fixed["tasks"]]))

    def look_or_begin() -> Iterator[Descriptor]:
        known = cache.get_descriptors(key)
        if known is not None:
            let_go()
            yield from (replace(descriptor, source=fixed["source"]) for descriptor in known)
            return
        made: list[Descriptor] = []
        with contextlib.closing(begin()) as running:  # type: ignore[type-var]  # a generator
            for descriptor in running:
                if len(made) <= _MOST_REMEMBERED:
                    made.append(descriptor)
                yield descriptor
        if len(made) <= _MOST_REMEMBERED:
            cache.put_descriptors(key, made)

    return look_or_begin


class Descriptions:
    """The descriptors of a source, an iterator: nothing is read before the first one is asked for.

    What tells them from others is known at once, so that those that are there already need not be made again.
    """

    def __init__(
        self, begin: Callable[[], Iterator[Descriptor]], let_go: Callable[[], None], content_hash: str, parameters: str
    ) -> None:
        self.content_hash = content_hash
        """`Descriptor.content_hash` of all."""
        self.parameters = parameters
        """`Descriptor.parameters` of all."""
        self._begin, self._let_go = begin, let_go
        self._running: Iterator[Descriptor] | None = None

    def __iter__(self) -> Descriptions:
        return self

    def __next__(self) -> Descriptor:
        if self._running is None:
            self._running = self._begin()
        return next(self._running)

    def close(self) -> None:
        """Cancel what is running and close the source."""
        if self._running is None:
            self._let_go()
        else:
            self._running.close()  # type: ignore[attr-defined]  # a generator


def _described(
    opened: Source,
    let_go: Callable[[], None],
    plan: _Plan,
    assembler: _Assembler,
    instruments: tuple[Instrument, ...],
    options: dict[str, Any],
) -> Iterator[Descriptor]:
    seen = opened
    if "sampled" not in _names(plan) and "pixel_format" not in options:
        activity = plan.stages[0].operator
        assert isinstance(activity, Activity)
        seen = as_small_luma(opened, activity)
    handed: queue.Queue[list[Descriptor] | None] = queue.Queue(maxsize=2)
    abandoned = threading.Event()

    def hand_over(several: list[Descriptor] | None) -> None:
        while (several is None or several) and not abandoned.is_set():
            try:
                return handed.put(several, timeout=0.1)
            except queue.Full:
                continue
        return None

    def taking(name: str) -> CallbackSink:
        if name != _SPANS[-1]:  # sinks get a hyperframe's results in this order
            return CallbackSink(lambda result: assembler.take(name, result))
        return CallbackSink(lambda result: hand_over(assembler.close(result)))

    names = [name for name in (_LUMA, *_WINDOWS, *assembler.more, *_SPANS) if name.partition(".")[0] in _names(plan)]
    sinks = {name: taking(name) for name in names}
    handle = start(Pipeline.of(seen, plan.stages, sinks, **options), instruments=instruments)
    threading.Thread(target=_end, args=(handle, hand_over), daemon=True).start()
    try:
        while (several := handed.get()) is not None:
            yield from several
        handle.wait()
        yield from assembler.rest()
    finally:
        abandoned.set()
        if not handle.stats()["finished"]:
            handle.cancel("the reader stopped")
            handle.join()
        let_go()


def _end(handle: Run, hand_over: Any) -> None:
    """Tell the reader that the run has ended."""
    handle.join()
    hand_over(None)


def _names(plan: _Plan) -> set[str]:
    return {stage.name for stage in plan.stages}


# What is run ----------------------------------------------------------------------------------------------------------


def _detector(detector: str | os.PathLike[str] | None) -> str | None:
    if detector is None:
        return None
    if os.fspath(detector) != "auto":
        return os.fspath(detector)
    found = find_model(DETECTOR)
    if found is None:
        warnings.warn(
            f"no detector: the detection part of descriptors is not valid, and they are marked as degraded; put {DETECTOR} "
            f"in a folder of {MODELS_VARIABLE}",
            DegradedWarning,
            stacklevel=3,
        )
        return None
    return str(found)


def _plan(
    source: Source,
    model: str | None,
    encoder: ImageEncoder | None,
    given: _Given,
    anchors: Anchors,
    activity: Activity,
    hop: int,
    more: list[Any],
    *,
    wanted: bool,
) -> _Plan:
    """Return the stages, and a hash of all that was set: theirs and `more`."""
    stages = [
        Stage("activity", activity),
        Stage("anchors", anchors, ("activity.measures", "activity.luma")),
        Stage("motion", Motion(length=max(2, hop), hop=hop, flow=given.flow), ("activity.measures", "activity.luma")),
    ]
    reads: tuple[str, ...] = ("motion.flow", "motion.count", "motion.luma")
    models = {}
    if model is not None or encoder is not None or given.regions is not None or given.faces is not None:
        stages.append(Stage("sampled", Every(hop)))
    if model is not None:
        stages.append(Stage("detect", Detect(model), ("sampled",)))
        reads += ("detect.boxes", "detect.scores")
        models["detector"] = model_id(model)
    if given.faces is not None:
        stages.append(Stage("faces", Faces(given.faces), ("sampled",)))
        reads += ("faces",)
        models["faces"] = model_id(given.faces)
    if given.regions is not None:
        net = create(given.regions)
        stages.append(Stage("maps", net, ("sampled",)))
        reads += ("maps",)
        models["regions"] = f"{net.name} {net.version:08x}"
    if anchors.refiner:
        models["refiner"] = f"{Path(anchors.refiner).name} {anchors.version:08x}"
    if given.flow:
        models["flow"] = model_id(given.flow)
    stages.append(Stage("features", Features(), reads))
    stages.append(Stage("change", Change(), ("features.parts", "features.valid", "features.regions", "motion.cut")))
    if encoder is not None:
        models |= {"text": encoder.model_id, **getattr(encoder, "models", {})}
        stages.append(Stage("see", See.of(encoder), ("sampled",)))
    said = "\n".join(f"{s.name}={_said(s.operator)}#{s.operator.version}{s.inputs}" for s in stages)
    parameters = hashlib.sha256(f"{said}\n{source.spec}\n{more}".encode()).hexdigest()[:16]
    return _Plan(stages, models, parameters, wanted and model is None, hop)


def _said(operator: Any) -> str:
    """Return the operator's text without where its model lies: what tells it apart is its version, made of the bytes."""
    plain = copy.copy(operator)
    for name in _FILES:
        if getattr(plain, name, ""):
            object.__setattr__(plain, name, Path(getattr(plain, name)).name)
    return as_text(plain)


def _check_rereadable(source: Source) -> None:
    if not source.rereadable:
        raise SourceError(
            f"{source.name} can be read only once: two passes need a file",
            source=source.name,
            hint="Leave two_pass out: levels then come from the 60 seconds before each frame.",
        )


def _levels(source: Any, activity: Activity, options: dict[str, Any]) -> tuple[float, float, float]:
    measured = MemorySink()
    again = source if isinstance(source, Source) else open_source(source)
    try:
        seen = again if "pixel_format" in options else as_small_luma(again, activity)
        run(Pipeline.of(seen, [Stage("activity", activity)], {"activity.measures": measured}, **options))
    finally:
        if again is not source:
            again.close()
    return levels_of(measured.result.data)  # type: ignore[union-attr]  # rows


# What comes out -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Window:
    """What is known of one window."""

    start: int
    hyperframe: str
    values: dict[str, Array] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Assembler:
    """Collects windows, weights and anchors until the segment that they belong to is closed."""

    hop: int
    fixed: dict[str, Any]
    masks: dict[str, Mask]
    sync: Sync | None
    encoder: ImageEncoder | None = None
    more: tuple[str, ...] = ("detect.boxes", "faces", "see")
    windows: deque[_Window] = field(default_factory=deque)
    weights: deque[tuple[int, float, float]] = field(default_factory=deque)
    """(frame, seconds, weight)."""
    anchors: deque[tuple[int, Anchor]] = field(default_factory=deque)
    luma: deque[tuple[int, float, Array]] = field(default_factory=deque)
    """(frame, seconds, small luma): points are followed in it once the anchors around it are known."""
    looked: float | None = None
    """When the last picture stood that looks were taken up to."""
    held: tuple[int, int, bool, bool] | None = None
    """(start, stop, cut, static) of a segment that waits for the time of the frame after it."""

    def take(self, name: str, result: Clip | Records) -> None:
        """Take in one hyperframe's results of one output."""
        tick = float(result.spec.time_base)
        if name == "anchors.weights":
            rows = zip(result.index, result.pts, result.columns["weight"], strict=True)  # type: ignore[union-attr]  # records
            self.weights.extend((int(i), float(pts * tick), float(w)) for i, pts, w in rows)
        elif name == "anchors.anchors":
            columns = result.columns  # type: ignore[union-attr]  # records
            for i, pts, w, kind in zip(result.index, result.pts, columns["weight"], columns["kind"], strict=True):
                self.anchors.append((int(i), Anchor(float(pts * tick), float(w), KINDS[kind])))
        elif name == _LUMA:
            pictures = np.array(result.data)  # type: ignore[union-attr]  # frames; a copy: theirs are lent
            self.luma.extend(zip(result.index.tolist(), (result.pts * tick).tolist(), pictures, strict=True))
        else:
            self._take_windows(name, result)  # type: ignore[arg-type]  # frames

    def _take_windows(self, name: str, result: Clip) -> None:
        if name == _WINDOWS[0]:
            self.windows.extend(_Window(int(j) * self.hop, result.hyperframe) for j in result.index)
        if len(result):
            fresh = list(self.windows)[-len(result) :]
            for window, value in zip(fresh, result.data, strict=True):
                window.values[name] = np.array(value)

    def close(self, segments: Records) -> list[Descriptor]:
        """Take in the segments that a hyperframe closed, the last of its results; return what can be told."""
        made = []
        stops = segments.stop if segments.stop is not None else ()
        columns = segments.columns
        for first, stop, cut, static in zip(segments.index, stops, columns["cut"], columns["static"], strict=True):
            made += self.rest()
            self.held = (int(first), int(stop), bool(cut), bool(static))
        if self.held is not None and self.weights and self.weights[-1][0] >= self.held[1]:
            made += self.rest()
        return made

    def rest(self) -> list[Descriptor]:
        """Return the descriptor of the segment that waits, if there is one."""
        if self.held is None:
            return []
        held, self.held = self.held, None
        return [self._descriptor(*held)]

    def _descriptor(self, first: int, stop: int, cut: bool, static: bool) -> Descriptor:
        frames = self._weights_of(first, stop)
        windows = self._windows_of(first, stop)
        shares = self._shares(windows, frames)
        numbered = [(i, anchor) for i, anchor in self.anchors if first <= i < stop]
        while self.anchors and self.anchors[0][0] < stop:
            self.anchors.popleft()
        anchors = [anchor for _, anchor in numbered]
        paths = self._paths([i for i, _ in numbered])
        looks = self._looks(stop)
        sync = self.sync
        features, parts = _merged(windows, shares)
        seen = self._seen(windows, shares, features)
        return Descriptor(
            **self.fixed,
            cut=cut,
            static=static,
            core=(first, stop),
            seconds=(frames[0][1], self._end_of(frames)),
            hyperframe=windows[0].hyperframe if windows else "",
            anchors=tuple(anchors) if sync is None else sync.correct(anchors),
            trajectories=paths,
            regions=self._regions(windows, shares),
            semantic_features=features,
            feature_parts=parts,
            looks=looks,
            text_vector=seen,
            text_model="" if self.encoder is None or seen is None else self.encoder.model_id,
            lag_seconds=None if sync is None else sync.lag_seconds,
            lag_confidence=0.0 if sync is None or sync.lag_seconds is None else sync.confidence,
        )

    def _seen(self, windows: list[_Window], shares: Array, features: Array) -> Array | None:
        """Return what is seen in the space of sentences, (384,) float16; None for nothing."""
        if self.encoder is None or not windows:
            return None
        mean = np.asarray(shares @ np.stack([window.values["see"] for window in windows]).astype(np.float64))
        if isinstance(self.encoder, LabelBridge):
            return self.encoder.vector(features[: len(COCO_CLASSES)], mean)
        return unit(mean)

    def _paths(self, anchors: list[int]) -> tuple[Trajectory, ...]:
        """Return the paths of points between anchors that have frames between them."""
        found: tuple[Trajectory, ...] = ()
        for begin, end in itertools.pairwise(anchors):
            between = [row for row in self.luma if begin <= row[0] <= end]
            if len(between) > 2:
                seconds = np.array([at for _, at, _ in between])
                found += trajectories_between(np.stack([picture for *_, picture in between]), seconds, most=_PATHS)
        return found

    def _looks(self, stop: int) -> Looks:
        """Return the looks of the segment's pictures, and let go of them."""
        pictures = []
        while self.luma and self.luma[0][0] < stop:
            pictures.append(self.luma.popleft()[1:])
        looks = looks_of(pictures, self.looked)
        self.looked = pictures[-1][0] if pictures else self.looked
        return looks

    def _weights_of(self, first: int, stop: int) -> list[tuple[int, float, float]]:
        """Return (frame, seconds, weight) of the segment's frames, and let go of them."""
        found = []
        while self.weights and self.weights[0][0] < stop:
            row = self.weights.popleft()
            if row[0] >= first:
                found.append(row)
        return found

    def _end_of(self, frames: list[tuple[int, float, float]]) -> float:
        """Return when the segment's last frame has gone: when the next one comes, else after as long as the one before."""
        if self.weights:
            return self.weights[0][1]
        return frames[-1][1] + (frames[-1][1] - frames[-2][1] if len(frames) > 1 else 0.0)

    def _windows_of(self, first: int, stop: int) -> list[_Window]:
        while len(self.windows) > 1 and self.windows[1].start <= first:
            self.windows.popleft()
        found = [window for window in self.windows if first <= window.start < stop]
        return found or list(self.windows)[:1]  # none at all where a range holds no window's first frame

    def _shares(self, windows: list[_Window], frames: list[tuple[int, float, float]]) -> Array:
        """Return how much each window counts, (K,) float64 of sum 1: by the greatest weight in it."""
        best = np.full(len(windows), _LEAST_WEIGHT)
        for i, _, weight in frames if windows else ():
            k = (i - windows[0].start) // self.hop
            if 0 <= k < len(best):
                best[k] = max(best[k], _LEAST_WEIGHT + weight)
        return np.asarray(best / best.sum())

    def _regions(self, windows: list[_Window], shares: Array) -> dict[str, Array]:
        shared = np.zeros((MAP_SIDE, MAP_SIDE), np.float32)
        for share, window in zip(shares, windows, strict=True):
            shared += np.float32(share / 255) * window.values["change.regions"]
        shared = np.minimum(shared, 1)
        seen = [w.values[name] for w in windows for name in ("detect.boxes", "faces") if name in w.values]
        boxes = np.concatenate(seen) if seen else None
        found = {task: mask.apply(shared, boxes) for task, mask in self.masks.items()}
        return {task: np.floor(m * 255 + 0.5).astype(np.uint8) for task, m in {DEFAULT: shared, **found}.items()}


def _merged(windows: list[_Window], shares: Array) -> tuple[Array, Any]:
    """Return the features of a segment, (512,) float32, and which parts are valid."""
    if not windows:
        return np.zeros(NUM_FEATURES, np.float32), (False,) * len(PARTS)
    features = np.stack([window.values["change.features"] for window in windows]).astype(np.float64)
    valid = np.stack([window.values["change.valid"] for window in windows]).astype(bool)
    merged = np.zeros(NUM_FEATURES, np.float32)
    for k, (name, where) in enumerate(PARTS.items()):
        known = valid[:, k]
        if not known.any():
            continue
        part = features[known, where]
        if name == "detection":
            best = part.max(axis=0)
            merged[where] = best / max(1.0, float(np.sqrt(best @ best)))
        else:
            weight = shares[known] / shares[known].sum()
            merged[where] = weight @ part
    return merged, tuple(np.any(valid, axis=0).tolist())
