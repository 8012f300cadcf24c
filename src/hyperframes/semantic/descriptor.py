"""The semantic record of a span of one stream: a checked value without pixels."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from hyperframes.errors import FrameError, without_credentials
from hyperframes.frames import Array
from hyperframes.semantic.kernels import FIXED_KERNELS
from hyperframes.semantic.look import NUM_LOOK, Looks

if TYPE_CHECKING:
    import os

__all__ = ["DEFAULT", "PARTS", "SCHEMA_VERSION", "Anchor", "AnchorKind", "Descriptor", "Statistics", "Trajectory"]

SCHEMA_VERSION: Final = 2
"""Raised when a field changes its meaning, shape or type; files of another version are refused."""
MAP_SIDE: Final = 64
NUM_FEATURES: Final = 512
NUM_TEXT: Final = 384
NUM_COEFFICIENTS: Final = 4
DEFAULT: Final = "default"
"""Name of the region map that every task shares which has none of its own."""
PARTS: Final[Mapping[str, slice]] = {
    name: slice(128 * k, 128 * k + 128) for k, name in enumerate(("detection", "flow", "texture", "change"))
}
"""Where each part of ``semantic_features`` stands."""

AnchorKind = Literal["motion", "cut", "fade", "flash", "start", "evolution", "end"]
Statistics = Literal["causal", "two-pass"]
_ANCHOR_KINDS: Final = ("motion", "cut", "fade", "flash", "start", "evolution", "end")


class Anchor(NamedTuple):
    """An instant that matters, and how much; labels of learned operators use the same type, with a place."""

    seconds: float
    """Presentation time."""
    weight: float
    """Importance in [0, 1]."""
    kind: AnchorKind = "motion"
    """``motion``, ``cut``, ``fade``, ``flash``; labels also have ``start``, ``evolution`` and ``end``."""
    x: float | None = None
    """Column as a share of the width, where there is a place."""
    y: float | None = None
    """Row as a share of the height."""


class Trajectory(NamedTuple):
    """The path of one point between two anchors, as a cubic in time."""

    start_seconds: float
    stop_seconds: float
    coefficients: Array
    """(2, 4) float32: x as a share of the width, then y of the height; powers 0 to 3 of u, which goes from 0 to 1."""

    def at(self, u: float | Array) -> Array:
        """Return where the point is: (2,) or, for `u` of shape (n,), (n, 2)."""
        return np.power.outer(np.asarray(u, np.float64), np.arange(NUM_COEFFICIENTS)) @ self.coefficients.T


@dataclass(frozen=True, eq=False)
class Descriptor:
    """What a span of one stream means, small enough to index: when, where, what, and for which task.

    Arrays are made read-only. Two descriptors are equal when all their fields are.

    Raises
    ------
    FrameError
        If a field has the wrong shape, dtype or range; the message names it.
    MissingExtraError
        By what reads and writes Arrow, if pyarrow is not installed.
    """

    source: str
    """Path or URL of the stream's source; credentials are replaced by ``***``."""
    content_hash: str
    """Of the source's bytes: what tells this source from another, wherever it lies."""
    core: tuple[int, int]
    """Frames [start, stop) of the stream."""
    seconds: tuple[float, float]
    """Presentation time of the first frame, and when the last one ends."""
    parameters: str = ""
    """Hash of everything that was set, with the versions of the code."""
    stream: str = "0"
    """Which stream of the source."""
    hyperframe: str = ""
    """Id of the hyperframe that held the first frame; where it came through says nothing about what it is."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Name and version of each model that took part."""
    statistics: Statistics = "causal"
    """``causal``: levels come from the 60 seconds before each frame; ``two-pass``: from the whole file."""
    anchors: tuple[Anchor, ...] = ()
    """In ascending time, no two at the same."""
    trajectories: tuple[Trajectory, ...] = ()
    """Paths of points between neighbouring anchors, in place of the frames there."""
    regions: Mapping[str, Array] = field(default_factory=dict)
    """Map of where something matters, by task: (64, 64) uint8, 255 for 1; ``default`` is shared. See `confidence`."""
    spatial_kernels: Array = field(default_factory=lambda: FIXED_KERNELS)
    """(3, 3, 3, 3) float32 (kernel, channel, row, column) that `attend` mixes by confidence."""
    semantic_features: Array = field(default_factory=lambda: np.zeros(NUM_FEATURES, np.float32))
    """(512,) float32: `PARTS` of 128 each."""
    feature_parts: tuple[bool, bool, bool, bool] = (False, False, False, False)
    """Which parts are valid; the others are zero."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """Name of each task this was made for and the version of its projection; the matrices stay in a registry."""
    looks: Looks = field(default_factory=Looks.none)
    """What it looks like every fifth of a second: copies of it are found by them, and where in it they begin."""
    text_vector: Array | None = None
    """(384,) float16: what is seen, in the space of sentences; None where no text encoder took part."""
    text_model: str = ""
    """Id of the sentence encoder; vectors of different ones must not be compared."""
    lag_seconds: float | None = None
    """How much later sound comes than the motion that makes it; None where that cannot be told."""
    lag_confidence: float = 0.0
    """In [0, 1]."""
    static: bool = False
    """Nothing happens: all weights are near 0."""
    cut: bool = False
    """It begins at a cut."""
    degraded: bool = False
    """Made with less than was asked for, because memory or time was short."""
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise FrameError(
                f"descriptors of schema version {self.schema_version} cannot be read here: expected {SCHEMA_VERSION}",
                expected=SCHEMA_VERSION,
                got=self.schema_version,
                hint="Describe the source again with this version.",
            )
        set_ = object.__setattr__  # frozen for users; a value normalises itself once
        set_(self, "source", without_credentials(self.source))
        set_(self, "core", _range(self.core, "core", int))
        set_(self, "seconds", _range(self.seconds, "seconds", float))
        set_(self, "statistics", _choice(self.statistics, "statistics", ("causal", "two-pass")))
        set_(self, "anchors", _anchors(self.anchors))
        set_(self, "trajectories", tuple(_trajectory(t) for t in self.trajectories))
        maps = {DEFAULT: np.zeros((MAP_SIDE, MAP_SIDE), np.uint8), **self.regions}
        named = {task: _array(m, f"regions[{task!r}]", (MAP_SIDE, MAP_SIDE), np.uint8) for task, m in maps.items()}
        set_(self, "regions", dict(sorted(named.items())))
        set_(self, "models", _texts(self.models, "models"))
        set_(self, "tasks", _texts(self.tasks, "tasks"))
        set_(self, "looks", _looks(self.looks))
        set_(self, "spatial_kernels", _array(self.spatial_kernels, "spatial_kernels", (3, 3, 3, 3), np.float32))
        set_(self, "semantic_features", _array(self.semantic_features, "semantic_features", (NUM_FEATURES,), "f4"))
        self._check_parts()
        self._check_text()
        self._check_lag()

    def _check_parts(self) -> None:
        parts = tuple(bool(valid) for valid in self.feature_parts)
        if len(parts) != len(PARTS):
            raise _wrong("feature_parts", f"{len(PARTS)} values, one a part", self.feature_parts)
        object.__setattr__(self, "feature_parts", parts)
        for (name, where), valid in zip(PARTS.items(), parts, strict=True):
            if not valid and self.semantic_features[where].any():
                raise _wrong(f"semantic_features of part {name!r}", "zeros, as the part is not valid", "other values")

    def _check_text(self) -> None:
        if (self.text_vector is None) != (self.text_model == ""):
            raise _wrong("text_model", "the encoder's id together with a text_vector, or neither", self.text_model)
        if self.text_vector is not None:
            object.__setattr__(self, "text_vector", _array(self.text_vector, "text_vector", (NUM_TEXT,), np.float16))

    def _check_lag(self) -> None:
        confidence = float(self.lag_confidence)
        if not 0 <= confidence <= 1 or (self.lag_seconds is None and confidence > 0):
            raise _wrong("lag_confidence", "a number in [0, 1], 0 where there is no lag_seconds", self.lag_confidence)
        if self.lag_seconds is not None and not math.isfinite(self.lag_seconds):
            raise _wrong("lag_seconds", "a finite number or None", self.lag_seconds)
        object.__setattr__(self, "lag_confidence", confidence)

    # What readers ask for ---------------------------------------------------------------------------------------------

    @property
    def temporal_anchors(self) -> list[tuple[float, float]]:
        """(seconds, weight) of each anchor, in ascending time."""
        return [(anchor.seconds, anchor.weight) for anchor in self.anchors]

    @property
    def region_confidence(self) -> Array:
        """(64, 64) float32 in [0, 1]: the map that all tasks share; `confidence` has those of tasks."""
        return self.confidence()

    def confidence(self, task: str = DEFAULT) -> Array:
        """Return the map of `task`, (64, 64) float32 in [0, 1]; the shared one where the task has none of its own."""
        return self.regions.get(task, self.regions[DEFAULT]).astype(np.float32) / np.float32(255)

    @cached_property
    def descriptor_id(self) -> str:
        """What tells this descriptor from every other: 32 hexadecimal digits made of its identity."""
        identity = [self.schema_version, self.content_hash, self.stream, self.core, self.parameters, self.models]
        identity += [self.statistics]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]

    def pool(self, values: Array, seconds: Array) -> Array:
        """Return the mean of `values` weighted by the anchors: what matters counts, the rest does not.

        Parameters
        ----------
        values : (T, ...) array
            One entry a frame.
        seconds : (T,) array
            Presentation times of the frames, ascending.

        Returns
        -------
        (...) array of float64
            Each anchor takes the frame nearest to it. Without weight (a static span) it is the plain mean.

        Raises
        ------
        FrameError
            If there are no values, or not as many as times.
        """
        if len(values) != len(seconds) or not len(values):
            raise _wrong("values", f"{len(seconds)} and at least 1, one a time", len(values))
        weights = np.zeros(len(values))
        for anchor in self.anchors:
            weights[np.argmin(np.abs(np.asarray(seconds) - anchor.seconds))] += anchor.weight
        weights = weights if not self.static and weights.sum() > 1e-6 else np.ones(len(values))
        return np.tensordot(weights / weights.sum(), np.asarray(values, np.float64), axes=1)

    def project(self, task: str) -> Array:
        """Return what matters of the features for a task, (256,) float32.

        Parameters
        ----------
        task : str
            A task that was fitted or registered with `hyperframes.semantic.TASKS`, or the description of another one, whose
            projection is then guessed from the text; a `ZeroShotWarning` says so.

        Raises
        ------
        FrameError
            If it is guessed and the text means nothing to the sentence encoder.
        SourceError
            If it is guessed and there is no sentence encoder.
        """
        from hyperframes.semantic import tasks

        return tasks.TASKS.project(self.semantic_features, task)

    # Arrow, files, pages ----------------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """Return a pyarrow Table of one row; `hyperframes.semantic.to_table` makes one of many descriptors."""
        from hyperframes.semantic.arrow import to_table

        return to_table([self])

    @staticmethod
    def from_arrow(table: Any) -> list[Descriptor]:
        """Return the descriptors in a pyarrow Table or RecordBatch, one a row.

        Raises
        ------
        FrameError
            If a column is missing or has another type, or if a row is no valid descriptor.
        """
        from hyperframes.semantic.arrow import from_table

        return from_table(table)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file of its own, ``.arrow`` or ``.parquet``; `hyperframes.semantic.save` writes many."""
        from hyperframes.semantic.arrow import save

        save([self], path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Descriptor:
        """Read a file that holds one descriptor; `hyperframes.semantic.load` reads many.

        Raises
        ------
        SourceError
            If it cannot be read, or holds another number than one.
        """
        from hyperframes.semantic.arrow import load_one

        return load_one(path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Descriptor):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __hash__(self) -> int:
        return hash(self.descriptor_id)

    def __repr__(self) -> str:
        flags = "".join(f", {name}" for name in ("static", "cut", "degraded") if getattr(self, name))
        return (
            f"Descriptor({self.source!r} frames {self.core[0]}:{self.core[1]}, "
            f"{self.seconds[0]:.3f}..{self.seconds[1]:.3f} s, {len(self.anchors)} anchors{flags})"
        )

    def _repr_html_(self) -> str:
        from hyperframes.semantic.page import page_of

        return page_of(self)


# Checks ---------------------------------------------------------------------------------------------------------------


def _wrong(name: str, expected: str, got: Any) -> FrameError:
    return FrameError(f"{name} of a descriptor: expected {expected}, got {got!r}", expected=expected, got=got)


def _range(value: Any, name: str, kind: type) -> tuple[Any, Any]:
    try:
        start, stop = value
        pair = kind(start), kind(stop)
    except (TypeError, ValueError, OverflowError) as error:
        raise _wrong(name, "(start, stop)", value) from error
    if not all(math.isfinite(v) for v in pair) or pair[1] < pair[0] or (kind is int and pair[0] < 0):
        raise _wrong(name, "(start, stop) with start not after stop", value)
    return pair


def _choice(value: Any, name: str, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise _wrong(name, "one of " + ", ".join(choices), value)
    return value


def _texts(value: Mapping[Any, Any], name: str) -> dict[str, str]:
    if not all(isinstance(key, str) and isinstance(text, str) for key, text in value.items()):
        raise _wrong(name, "a mapping of text to text", value)
    return dict(sorted(value.items()))


def _array(value: Any, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    array = np.asarray(value)
    dtype = np.dtype(dtype)
    if array.shape != shape or array.dtype != dtype:
        raise _wrong(name, f"{shape} {dtype}", f"{array.shape} {array.dtype}")
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise _wrong(name, "finite numbers", "NaN or infinity")
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, order="C")
        array.setflags(write=False)
    return array


def _anchors(value: Any) -> tuple[Anchor, ...]:
    anchors = tuple(_anchor(anchor) for anchor in value)
    times = [anchor.seconds for anchor in anchors]
    if any(after <= before for before, after in itertools.pairwise(times)):
        raise _wrong("anchors", "ascending times, no two the same", times)
    return anchors


def _anchor(value: Any) -> Anchor:
    if isinstance(value, Anchor) and type(value.seconds) is float and type(value.weight) is float:
        anchor = value
    else:
        seconds, weight, *rest = value
        anchor = Anchor(float(seconds), float(weight), *rest)
    if not math.isfinite(anchor.seconds) or not 0 <= anchor.weight <= 1 or anchor.kind not in _ANCHOR_KINDS:
        raise _wrong("an anchor", "finite seconds, a weight in [0, 1] and a known kind", tuple(anchor))
    if any(place is not None and not math.isfinite(place) for place in (anchor.x, anchor.y)):
        raise _wrong("an anchor", "a finite place or None", tuple(anchor))
    return anchor


def _looks(value: Any) -> Looks:
    try:
        seconds, values = value
        count = len(seconds)
    except (TypeError, ValueError) as error:
        raise _wrong("looks", "times and values", value) from error
    times = _array(seconds, "looks.seconds", (count,), np.float64)
    if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise _wrong("looks.seconds", "finite times, ascending", times)
    return Looks(times, _array(values, "looks.values", (count, NUM_LOOK), np.float16))


def _trajectory(value: Any) -> Trajectory:
    start, stop, coefficients = value
    start, stop = _range((start, stop), "a trajectory", float)
    return Trajectory(start, stop, _array(coefficients, "a trajectory", (2, NUM_COEFFICIENTS), np.float32))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
