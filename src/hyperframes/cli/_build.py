"""From arguments to pipelines: one for a source and a sink, one for each of several sources and a folder, or a file's."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.errors import PipelineError
from hyperframes.frames import RecordSpec
from hyperframes.pipeline import Pipeline
from hyperframes.sinks import open_sink
from hyperframes.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["output_names", "pipeline_from_file", "pipelines_from_paths", "source_of", "with_sink_options"]


def pipeline_from_file(path: Path, options: Mapping[str, Any]) -> Pipeline:
    """Return the pipeline that the TOML file at `path` describes; `options` of the command line win over the file's."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise PipelineError(
            f"cannot read the configuration {path}: {reason}", got=str(path), hint="Name a TOML file: --config job.toml"
        ) from error
    try:
        pipeline = Pipeline.from_toml(text)
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}", stage=error.stage, got=error.got, hint=error.hint or _TOML) from error
    return pipeline.replace(options=dataclasses.replace(pipeline.options, **options))


_TOML = "It has [sources], [[stages]], [sinks] and [options]; docs/formats.md has an example."


def pipelines_from_paths(
    paths: Sequence[str], operators: Sequence[str], options: Mapping[str, Any], rate: str | None
) -> list[Pipeline]:
    """Return the pipelines for SOURCE... SINK."""
    if len(paths) < 2:
        missing = "a source and a sink" if not paths else "a sink after the source"
        raise PipelineError(
            f"run needs {missing}: got {' '.join(paths) or 'nothing'}",
            hint="For example: hyperframes run in.mp4 out.mp4 --operator temporal_mean:radius=2",
        )
    *sources, sink = paths
    if len(sources) == 1:
        return [Pipeline.of(source_of(sources[0], rate, options), list(operators), to=sink, **options)]
    folder = _folder(sink, len(sources))
    made = [Pipeline.of(source_of(source, rate, options), list(operators), **options) for source in sources]
    outputs = [_output_name(source, pipeline) for source, pipeline in zip(sources, made, strict=True)]
    if len(set(outputs)) < len(outputs):
        twice = next(name for name in outputs if outputs.count(name) > 1)
        raise PipelineError(
            f"two sources would both be written to {folder / twice}",
            got=twice,
            hint="Give them different names, or run them one at a time.",
        )
    return [
        pipeline.replace(sinks={_last(pipeline): str(folder / name)})
        for pipeline, name in zip(made, outputs, strict=True)
    ]


def source_of(path: str, rate: str | None, options: Mapping[str, Any]) -> Any:
    """Return `path`, or the opened source where a rate was given, which only sources without time take."""
    if rate is None:
        return path
    changed = {"on_size_change": options["on_size_change"]} if "on_size_change" in options else {}
    try:
        return open_source(path, rate=rate, **changed)
    except TypeError as error:
        raise PipelineError(
            f"--rate is for images and arrays: {path} has its own time",
            got=rate,
            hint="Leave --rate out.",
        ) from error


def with_sink_options(pipeline: Pipeline, given: Mapping[str, Any]) -> Pipeline:
    """Return `pipeline` with sinks that were made with the options `given`, such as codec and quality.

    Raises
    ------
    PipelineError
        If a sink does not take one of them.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    for name, value in wanted.items():
        if value == "":
            raise PipelineError(f"--{name} needs a value: got nothing", got=value, hint="Leave it out for the default.")
    if not wanted:
        return pipeline
    return pipeline.replace(sinks={key: _sink_with(what, wanted) for key, what in pipeline.sinks.items()})


def _sink_with(what: Any, wanted: Mapping[str, Any]) -> Any:
    taken = inspect.signature(type(open_sink(what))).parameters
    for name in wanted:
        if name not in taken:
            raise PipelineError(
                f"--{name} is for sinks that have a {name}: {what} has none",
                got=wanted[name],
                hint="Write to a video such as out.mp4, or leave the option out.",
            )
    return open_sink(what, **wanted)


def _last(pipeline: Pipeline) -> str:
    return pipeline.stages[-1].name if pipeline.stages else next(iter(pipeline.sources))


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive


def _folder(sink: str, count: int) -> Path:
    folder = Path(sink)
    if folder.suffix or (folder.exists() and not folder.is_dir()) or sink == "-" or _SCHEME.match(sink):
        raise PipelineError(
            f"{count} sources need a folder to write to, one output each: got {sink!r}",
            got=sink,
            hint="For example: hyperframes run a.mp4 b.mp4 out/ --operator ...",
        )
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise PipelineError(f"cannot make the folder {sink}: {error.strerror}", got=sink) from error
    return folder


_WRITTEN = {".mp4", ".mkv", ".mov", ".webm", ".avi", ".npy", ".zarr", ".csv", ".parquet"}


def _output_name(source: str, pipeline: Pipeline) -> str:
    """Return the source's own name, under a suffix that can hold what comes out."""
    from hyperframes.drivers import set_up

    path = Path(source.partition("?")[0].rstrip("/"))
    setup = set_up(pipeline, open_sinks=False)
    try:
        plan = setup.plan
        port = plan.ports[plan.stages[-1].outputs[0]] if plan.stages else plan.ports[0]
    finally:
        setup.close()
    if isinstance(port.spec, RecordSpec):
        return f"{path.stem}.jsonl"
    pictures = port.spec.is_picture
    suffix = path.suffix.lower()
    if suffix in _WRITTEN and (pictures or suffix not in {".mp4", ".mkv", ".mov", ".webm", ".avi"}):
        return path.name
    return path.stem + (".mp4" if pictures else ".npy")


def output_names(pipeline: Pipeline) -> list[str]:
    """Return what the sinks are called, as far as they have names."""
    return [
        os.fspath(what) if isinstance(what, str | os.PathLike) else getattr(what, "name", "")
        for what in pipeline.sinks.values()
    ]
