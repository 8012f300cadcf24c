"""THE MAP: sources, named stages and sinks as one value, with the options of a run; in Python and in TOML.

What follows from it, once the sources' specs are known, is a `hyperframes.plan.Plan`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hyperframes.errors import PipelineError
from hyperframes.operators import Operator, create
from hyperframes.operators.create import as_text
from hyperframes.packing import Boundary

__all__ = [
    "Options",
    "Pipeline",
    "Stage",
    "check_choice",
    "options_from",
]


@dataclass(frozen=True, slots=True)
class Stage:
    """An operator's named place in a pipeline."""

    name: str
    operator: Operator
    inputs: tuple[str, ...] = ("source",)
    """What its ports read: a source's name, a stage's name, or ``stage.output``."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a pipeline runs; none of it changes a result but the first block."""

    boundary: str = "replicate"
    pixel_format: str = "native"
    dtype: str = ""
    layout: str = ""
    range: tuple[int, int | None] = (0, None)
    on_size_change: Literal["scale", "split", "fail"] = "scale"

    size: int | str = "auto"
    workers: int | str = "auto"
    executor: Literal["threads", "processes", "ray"] = "threads"
    cluster: str = ""
    """Address of the Ray cluster that the ``ray`` executor uses; empty: this machine."""
    scheduling_policy: Literal["fifo", "priority_by_index", "priority_by_cost"] = "fifo"
    frame_dependency: Literal["independent", "sequential"] = "independent"
    work_layout: str = ""
    """Layout that operators get frames in, which come out as without it; empty: what `tune` found to be faster, if
    anything was kept, else that of the source."""
    on_error: str = "fail"
    max_memory: int | None = None
    checksum: bool = False
    resume: bool = False
    """Whether to go on where an interrupted run of the same pipeline stopped."""
    checkpoint_seconds: float = 30.0
    """Run time between two checkpoints in the journal; finished parts of videos bring more."""

    def __post_init__(self) -> None:
        for name in ("boundary", "pixel_format", "dtype", "on_error", "cluster"):
            if not isinstance(getattr(self, name), str):
                raise PipelineError(f"{name}: expected a word, got {getattr(self, name)!r}", got=getattr(self, name))
        Boundary.parse(self.boundary)
        for name in _CHOICES:
            check_choice(name, getattr(self, name))
        _check_count("size", self.size, "size counts the frames a hyperframe owns")
        _check_count("workers", self.workers, "workers counts those that compute")
        object.__setattr__(self, "range", _checked_range(self.range))
        if self.max_memory is not None and (not _is_whole(self.max_memory) or self.max_memory < 1):
            raise PipelineError(
                f"max_memory counts bytes: expected a whole number of at least 1, got {self.max_memory!r}",
                got=self.max_memory,
                hint="On the command line also as 512MB or 2GiB.",
            )
        for name in ("checksum", "resume"):
            if not isinstance(getattr(self, name), bool):
                raise PipelineError(
                    f"{name}: expected true or false, got {getattr(self, name)!r}", got=getattr(self, name)
                )
        seconds: Any = self.checkpoint_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise PipelineError(f"checkpoint_seconds: expected a number of at least 0, got {seconds!r}", got=seconds)
        if self.cluster and self.executor != "ray":
            raise PipelineError(
                f"cluster: only the ray executor uses one, got {self.cluster!r} for {self.executor!r}",
                got=self.cluster,
                hint="Add --executor ray (executor='ray').",
            )
        if self.resume and self.checksum:
            raise PipelineError(
                "a checksum covers all frames, and a resumed run does not see those that were done before",
                hint="Leave out --checksum or --resume.",
            )


_CHOICES: dict[str, tuple[str, ...]] = {
    "executor": ("threads", "processes", "ray"),
    "scheduling_policy": ("fifo", "priority_by_index", "priority_by_cost"),
    "frame_dependency": ("independent", "sequential"),
    "on_size_change": ("scale", "split", "fail"),
    "layout": ("", "NHWC", "NCHW"),
    "work_layout": ("", "NHWC", "NCHW"),
}


def _check_count(name: str, value: int | str, what: str) -> None:
    automatic = isinstance(value, str) and value == "auto"  # arrays compare one by one
    if not automatic and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise PipelineError(
            f"{what}: expected 'auto' or a whole number of at least 1, got {value!r}",
            got=value,
            hint=f"Use --{name} auto, or a number such as {16 if name == 'size' else 2}.",
        )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _checked_range(value: Any) -> tuple[int, int | None]:
    """Return (start, stop) from a pair, or raise a PipelineError that says what a range is."""
    if isinstance(value, list | tuple) and len(value) == 2:
        start, stop = value
        if _is_whole(start) and start >= 0 and (stop is None or (_is_whole(stop) and stop >= start)):
            return start, stop
    raise PipelineError(
        f"range: expected (START, STOP) with 0 <= START <= STOP, or STOP None for the end, got {value!r}",
        got=value,
        hint="range=(100, 200) are the frames 100 to 199.",
    )


def check_choice(name: str, value: object) -> None:
    """Raise a PipelineError when `value` is not one the option `name` takes."""
    if not isinstance(value, str) or value not in _CHOICES[name]:
        known = ", ".join(filter(None, _CHOICES[name]))
        raise PipelineError(f"{name}: expected one of {known}, got {value!r}", expected=_CHOICES[name], got=value)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Sources, stages and sinks as a value.

    Examples
    --------
    >>> from hyperframes.pipeline import Pipeline
    >>> Pipeline.of("in.mp4", ["temporal_mean:radius=2"], to="out.mp4").stages[0].name
    'temporal_mean'
    """

    sources: Mapping[str, Any]
    """By name: paths, URLs, arrays or Source objects. The usual single one is called ``source``."""
    stages: tuple[Stage, ...]
    sinks: Mapping[str, Any] = field(default_factory=dict)
    """By what they take (a stage's name or ``stage.output``): paths, URLs or Sink objects."""
    options: Options = field(default_factory=Options)

    @classmethod
    def of(cls, source: Any, operators: Any, to: Any = None, **options: Any) -> Pipeline:
        """Return a pipeline from the short forms that `hf.run` takes.

        Parameters
        ----------
        source : path, URL, array, Source, or mapping of names to those
            Where frames come from.
        operators : operator, or sequence of operators or Stage
            Names with parameters (``gaussian:sigma=2``), functions, Operator objects. Plain operators form a chain.
        to : path, URL, Sink, or mapping of output names to those, optional
            Where the last stage's first output goes, or which output goes where.
        **options
            Fields of Options.
        """
        sources = dict(source) if isinstance(source, Mapping) else {"source": source}
        if not sources:
            raise PipelineError("a pipeline needs a source: got an empty mapping", got=source)
        stages = _chain(operators, first=next(iter(sources)))
        if to is None:
            sinks: dict[str, Any] = {}
        elif isinstance(to, Mapping):
            sinks = dict(to)
        else:
            sinks = {stages[-1].name if stages else next(iter(sources)): to}
        return cls(sources, stages, sinks, options_from(options))

    @classmethod
    def from_toml(cls, text: str) -> Pipeline:
        """Return the pipeline that a TOML text describes; see `to_toml` for the form.

        Raises
        ------
        PipelineError
            Naming the line or key that is wrong.
        """
        if not isinstance(text, str):
            raise PipelineError(f"the configuration is text: got {type(text).__name__}", got=text)
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PipelineError(f"the configuration is not TOML: {error}") from error
        except RecursionError as error:
            raise PipelineError("the configuration is not one: its brackets are nested too deep") from error
        _check_keys(tables, {"sources", "stages", "sinks", "options"}, "the configuration")
        for table, entries in tables.items():
            if table == "stages":
                continue
            if not isinstance(entries, dict):
                raise PipelineError(f"[{table}] is a table of the configuration: got {entries!r}")
        if not isinstance(tables.get("stages", []), list):
            raise PipelineError(
                f"[[stages]] is a list of tables: got {tables['stages']!r}",
                hint='Write [[stages]] on a line of its own, then operator = "temporal_mean:radius=2".',
            )
        stages: list[Stage] = []
        for number, entry in enumerate(tables.get("stages", []), 1):
            where = f"stage {number} of the configuration"
            if not isinstance(entry, dict):
                raise PipelineError(f"{where} is a table: got {entry!r}")
            _check_keys(entry, {"name", "operator", "inputs"}, where)
            if "operator" not in entry:
                raise PipelineError(
                    f"{where} needs an operator", hint='For example: operator = "temporal_mean:radius=2"'
                )
            inputs = entry.get("inputs", [])
            if not isinstance(inputs, list) or not all(
                isinstance(word, str) for word in [entry.get("name", ""), *inputs]
            ):
                raise PipelineError(
                    f"{where}: expected name to be a word and inputs a list of words, got {entry!r}",
                    hint='For example: name = "mean", inputs = ["source"]',
                )
            operator = create(entry["operator"])
            previous = stages[-1].name if stages else next(iter(tables.get("sources", {})), "source")
            inputs = entry.get("inputs", [previous])
            stages.append(Stage(entry.get("name", operator.name), operator, tuple(inputs)))
        if not tables.get("sources"):
            raise PipelineError("the configuration needs a source", hint='For example: [sources] source = "in.mp4"')
        options = dict(tables.get("options", {}))
        if isinstance(options.get("range"), list) and len(options["range"]) == 1:
            options["range"] = [*options["range"], None]  # TOML has no null
        return cls(tables["sources"], _chain(stages, "source"), tables.get("sinks", {}), options_from(options))

    def to_toml(self) -> str:
        """Return a TOML text that `from_toml` reads back to an equal pipeline.

        Tables ``[sources]`` and ``[sinks]`` (name = path or URL), ``[[stages]]`` (name, operator, inputs) and
        ``[options]`` (fields of Options that differ from the default).

        Raises
        ------
        PipelineError
            If a source or a sink is an object that has no text form.
        """
        lines = ["[sources]", *(f"{_key(name)} = {_text(what, name)}" for name, what in self.sources.items())]
        for stage in self.stages:
            lines += ["", "[[stages]]", f"name = {_quote(stage.name)}", f"operator = {_quote(as_text(stage.operator))}"]
            lines.append(f"inputs = [{', '.join(map(_quote, stage.inputs))}]")
        lines += ["", "[sinks]", *(f"{_key(name)} = {_text(what, name)}" for name, what in self.sinks.items())]
        changed = [f for f in dataclasses.fields(Options) if getattr(self.options, f.name) != f.default]
        if changed:
            lines += ["", "[options]", *(f"{f.name} = {_literal(getattr(self.options, f.name))}" for f in changed)]
        return "\n".join(lines) + "\n"

    def replace(self, **changes: Any) -> Pipeline:
        """Return a copy with `changes` to its fields."""
        return dataclasses.replace(self, **changes)


def _check_keys(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise PipelineError(
                f"{where} has no {key!r}; known: {', '.join(sorted(known))}",
                hint=f"Did you mean {near[0]!r}?" if near else None,
            )


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a TOML basic string


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _quote(name)


def _text(what: Any, name: str) -> str:
    if isinstance(what, str | os.PathLike):
        return _quote(os.fspath(what))
    raise PipelineError(f"{name!r} is a {type(what).__name__}, which has no text form: only paths and URLs have")


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(str(v) for v in value if v is not None)}]"
    return _quote(value) if isinstance(value, str) else str(value)


def options_from(values: Mapping[str, Any]) -> Options:
    """Return Options from keyword arguments; unknown names are refused with the nearest one."""
    known = {f.name for f in dataclasses.fields(Options)}
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise PipelineError(
                f"no option named {name!r}; known: {', '.join(sorted(known))}",
                hint=f"Did you mean {near[0]!r}?" if near else None,
            )
    return Options(**values)


def _chain(operators: Any, first: str) -> tuple[Stage, ...]:
    """Return stages from a plain list of operators: each reads the one before it; Stage objects stay as they are."""
    items = operators if isinstance(operators, Sequence) and not isinstance(operators, str) else [operators]
    stages: list[Stage] = []
    names: set[str] = set()
    previous = first
    for item in items:
        if item is None:
            continue
        stage = item if isinstance(item, Stage) else None
        if stage is None:
            operator = create(item)
            reads = (*stages[-1].inputs[:1], previous) if operator.reads_both and stages else (previous,)
            stage = Stage(_unused(operator.name, names), operator, reads)
        if stage.name in names:
            raise PipelineError(f"two stages are named {stage.name!r}", stage=stage.name)
        names.add(stage.name)
        stages.append(stage)
        previous = stage.name
    return tuple(stages)


def _unused(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(f"{name}_{n}" for n in range(2, len(taken) + 3) if f"{name}_{n}" not in taken)
