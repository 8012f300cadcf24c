"""A training written down in TOML: read, checked, and refused with the line that is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hyperframes.errors import HyperframesError, PipelineError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = [
    "DataConfig",
    "LossConfig",
    "ModelConfig",
    "MonitorConfig",
    "OutputConfig",
    "TrainConfig",
    "TrainingConfig",
    "read_config",
]

_MOST = (1 << 31) - 1
_HINT = "docs/learning.md shows a whole configuration, and what each key may be."


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Where windows come from; see `read_table`, `read_clip` and `Windows`."""

    table: str = ""
    """A CSV file of samples; or"""
    folder: str = ""
    """a folder of folders named after the labels."""
    root: str = ""
    source: str = "{file}"
    label: str = "label"
    split: str = "split"
    """Column; empty where the samples are split by groups."""
    groups: list[str] = field(default_factory=list)
    start: str = ""
    stop: str = ""
    joined: dict[str, str] = field(default_factory=dict)
    form: Literal["pictures", "rows", "events"] = "pictures"
    size: list[int] = field(default_factory=lambda: [64, 64])
    limits: list[float] = field(default_factory=lambda: [0.0, 255.0])
    bins: int = 16
    sensor: list[int] = field(default_factory=list)
    """[rows, columns] of events, where the files do not tell."""
    frames: int = 8
    stride: int = 1
    hop: int = 0
    flip: bool = False
    shift: int = 0
    brightness: float = 0.0
    turn: float = 0.0
    """Degrees."""
    zoom: float = 0.0
    validation: float = 0.2
    """Share of the training samples that are kept, by groups, to watch the model with."""
    test: float = 0.0
    """Share that is kept for `evaluate` where no column says so."""
    boxes: str = ""
    """Of the task ``regions``: a CSV file of file, frame, left, top, right and bottom, as shares of the picture; or"""
    detector: str = ""
    """a NanoDet model file."""
    anchors: str = ""
    """Of the task ``anchors``: a CSV file of file and frame."""
    still: float = 0.0
    """Samples whose least tile similarity is above it are left out of training; 0 keeps all."""

    def __post_init__(self) -> None:
        _require(bool(self.table) != bool(self.folder), "table", "name a table or a folder")
        _require(len(self.size) == 2 and min(self.size) >= 1, "size", f"size is [rows, columns]: got {self.size}")
        good = len(self.limits) == 2 and self.limits[0] < self.limits[1]
        _require(good, "limits", f"limits are [low, high]: got {self.limits}")
        _require(len(self.sensor) in {0, 2}, "sensor", f"sensor is [rows, columns]: got {self.sensor}")
        for name, most in (("frames", 4096), ("stride", 1 << 20), ("bins", 1024)):
            value = getattr(self, name)
            _require(1 <= value <= most, name, f"{name} is from 1 to {most:,}: got {value:,}")
        _require(self.turn >= 0, "turn", f"turn is at least 0 degrees: got {self.turn}")
        for name in ("validation", "test", "brightness", "zoom"):
            value = getattr(self, name)
            _require(0 <= value < 1, name, f"{name} is a share from 0 to below 1: got {value}")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What is trained."""

    task: Literal["classify", "regions", "anchors", "projection"] = "classify"
    encoder: str = "mch"
    """Of a classifier: mch, sch, edh, hybrid; or a baseline, resnet3d or average."""
    options: dict[str, Any] = field(default_factory=dict)
    """Parameters of the encoder or net."""


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """How it is trained."""

    steps: int = 1000
    batch: int = 16
    """Windows in a step."""
    seed: int = 0
    learning_rate: float = 1e-3
    floor: float = 1e-5
    warm_up: int = 20
    weight_decay: float = 0.05
    alpha: float = 0.3
    """How far the learning rate follows the curvature; 0 is the plain cosine."""
    clip: float = 1.0
    """Greatest norm of the gradient; 0: any."""
    precision: Literal["32", "bf16"] = "32"
    """``bf16`` computes in 16 bits where that is safe; curvature always has 32."""
    device: str = "auto"
    validate_every: int = 100
    """Steps; also the time between checkpoints."""
    patience: int = 0
    """Validations without a better score after which it ends; 0: never."""
    views: int = 3
    """Windows of a clip whose mean is its answer."""
    threads: int = 0
    """Of torch; 0: as it decides."""

    def __post_init__(self) -> None:
        for name, most in (("steps", _MOST), ("batch", 1 << 16), ("validate_every", _MOST), ("views", 1024)):
            value = getattr(self, name)
            _require(1 <= value <= most, name, f"{name} is from 1 to {most:,}: got {value:,}")
        for name in ("seed", "warm_up", "weight_decay", "clip", "patience", "threads"):
            _require(getattr(self, name) >= 0, name, f"{name} is at least 0: got {getattr(self, name)}")
        _require(self.threads <= 1024, "threads", f"threads is at most 1,024: got {self.threads:,}")
        _require(self.seed <= _MOST, "seed", f"seed is at most {_MOST:,}: got {self.seed:,}")
        _require(self.warm_up <= self.steps, "warm_up", f"warm_up is at most steps: got {self.warm_up}")
        good = 0 <= self.floor <= self.learning_rate and self.learning_rate > 0
        _require(good, "learning_rate", f"learning_rate is above 0 and at least floor: got {self.learning_rate}")
        _require(0 <= self.alpha < 1, "alpha", f"alpha is from 0 to below 1: got {self.alpha}")


@dataclass(frozen=True, slots=True)
class LossConfig:
    """Weights of the terms; 0 leaves a term out."""

    consistency: float = 0.1
    temporal: float = 1e-3
    smoothness: float = 1e-4
    folding: float = 0.1
    quantile: float = 0.1
    label_smoothing: float = 0.0
    balanced: bool = False
    """Whether rare classes count as much as frequent ones."""

    def __post_init__(self) -> None:
        for name in ("consistency", "temporal", "smoothness", "folding", "label_smoothing"):
            _require(getattr(self, name) >= 0, name, f"{name} is at least 0: got {getattr(self, name)}")
        smoothed = self.label_smoothing
        _require(smoothed < 1, "label_smoothing", f"label_smoothing is from 0 to below 1: got {smoothed}")
        _require(0 < self.quantile < 1, "quantile", f"quantile lies between 0 and 1: got {self.quantile}")


@dataclass(frozen=True, slots=True)
class MonitorConfig:
    """What is watched."""

    decoder: Literal["none", "detached", "joint"] = "none"
    """Whether a decoder learns to rebuild the frames, for FHRE: beside the model, or together with it."""
    tensorboard: bool = True
    pictures_every: int = 1
    """Validations between two pictures in TensorBoard."""


@dataclass(frozen=True, slots=True)
class OutputConfig:
    """Where the results go."""

    folder: str = "runs/model"


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """A whole training."""

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    monitor: MonitorConfig = field(default_factory=MonitorConfig)
    output: OutputConfig = field(default_factory=OutputConfig)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainingConfig:
        """Return what `to_json` gave; refused like a configuration where something is wrong."""
        reader = _Reader("", "the checkpoint's configuration")
        return reader.config(values)


def read_config(path: str | os.PathLike[str]) -> TrainingConfig:
    """Read a training's TOML file; relative paths in it start at its folder.

    Raises
    ------
    PipelineError
        Naming file and line.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PipelineError(f"cannot read the configuration {path}: {reason}", got=str(path)) from error
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PipelineError(f"{path} is not TOML: {error}", hint=_HINT) from error
    config = _Reader(text, str(path)).config(tables)
    here = file.parent
    data, output = config.data, config.output
    placed: dict[str, Any] = {
        name: str(here / getattr(data, name))
        for name in ("table", "folder", "root", "boxes", "detector", "anchors")
        if getattr(data, name)
    }
    return dataclasses.replace(
        config,
        data=dataclasses.replace(data, **placed),
        output=dataclasses.replace(output, folder=str(here / output.folder)),
    )


class _Wrong(HyperframesError):
    """A value that does not make sense, with the key that it stands at."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _require(good: bool, key: str, message: str) -> None:
    if not good:
        raise _Wrong(key, message)


class _Reader:
    """Makes dataclasses of tables, and knows on which line their keys stand."""

    def __init__(self, text: str, name: str) -> None:
        self._lines, self._name = text.splitlines(), name

    def config(self, tables: dict[str, Any]) -> TrainingConfig:
        known = {f.name: typing.get_type_hints(TrainingConfig)[f.name] for f in dataclasses.fields(TrainingConfig)}
        self._check_keys("", tables, list(known))
        return TrainingConfig(**{name: self._table(name, kind, tables.get(name, {})) for name, kind in known.items()})

    def _table(self, name: str, kind: Callable[..., Any], values: Any) -> Any:
        if not isinstance(values, dict):
            raise self._error(name, "", f"[{name}] is a table: got {values!r}")
        hints = typing.get_type_hints(kind)
        self._check_keys(name, values, list(hints))
        for key, value in values.items():
            wrong = _mismatch(hints[key], value)
            if wrong:
                raise self._error(name, key, f"{key}: expected {wrong}, got {_shown(value)}")
        given = {key: float(value) if hints[key] is float else value for key, value in values.items()}
        try:
            return kind(**given)
        except _Wrong as error:
            raise self._error(name, error.key, str(error)) from error

    def _check_keys(self, table: str, values: dict[str, Any], known: list[str]) -> None:
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                what = f"[{table}] has no {key!r}" if table else f"there is no table [{key}]"
                error = self._error(table or key, key if table else "", f"{what}; known: {', '.join(known)}")
                error.hint = f"Did you mean {near[0]!r}?" if near else _HINT
                raise error

    def _error(self, table: str, key: str, message: str) -> PipelineError:
        line = self._line(table, key)
        where = f"{self._name}, line {line}" if line else self._name
        return PipelineError(f"{where}: {message}", stage=f"{table}.{key}" if key else table, hint=_HINT)

    def _line(self, table: str, key: str) -> int | None:
        """Return the line on which `key` of `table` stands, else that of the table's head."""
        current, found = "", None
        for number, line in enumerate(self._lines, 1):
            head = re.match(r"\s*\[\s*([^\]]+?)\s*\]", line)
            if head:
                current = head[1].replace('"', "")
                if current == f"{table}.{key}":
                    return number
                found = number if current == table else found
            stands = re.match(r"\s*\"?([\w.-]+)\"?\s*=", line)
            if stands and current == table and stands[1].partition(".")[0] == key:
                return number
        return found


def _mismatch(kind: Any, value: Any) -> str | None:
    """Return what was expected of `value`; None where it fits."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return None if value in inside else "one of " + ", ".join(map(str, inside))
    if origin is list:
        words = {str: "texts", int: "whole numbers", float: "finite numbers"}[inside[0]]
        good = isinstance(value, list) and all(_mismatch(inside[0], item) is None for item in value)
        return None if good else f"a list of {words}"
    if origin is dict:
        good = isinstance(value, dict) and all(_mismatch(inside[1], item) is None for item in value.values())
        return None if good else "a table"
    if kind is Any or isinstance(kind, types.GenericAlias):
        return None
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if kind is float and fits and not math.isfinite(value):
        return "a finite number"
    if fits and (kind is bool or not isinstance(value, bool)):
        return None
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[kind]


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)
