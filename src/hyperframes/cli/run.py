"""``hyperframes run``: operators over files."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperframes.cli import _options, _show
from hyperframes.cli._serve import serving

if TYPE_CHECKING:
    from hyperframes.drivers import RunResult
    from hyperframes.instruments import Instrument
    from hyperframes.pipeline import Pipeline

__all__ = ["run"]


def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE... SINK", help="What to read and where to write; several sources fill a folder."
        ),
    ] = None,
    operator: _options.Operators = None,
    model: _options.Model = None,
    config: _options.Config = None,
    size: _options.Size = None,
    workers: _options.Workers = None,
    max_memory: _options.MaxMemory = None,
    executor: _options.Executor = None,
    cluster: _options.Cluster = None,
    scheduling_policy: Annotated[
        str | None,
        typer.Option(
            metavar="fifo|priority_by_index|priority_by_cost",
            help="Which hyperframe runs first.",
            show_default="fifo",
            rich_help_panel=_options.PACKING,
        ),
    ] = None,
    frame_dependency: Annotated[
        str | None,
        typer.Option(
            metavar="sequential",
            help="Make every hyperframe wait for the one before.",
            show_default="as operators say",
            rich_help_panel=_options.PACKING,
        ),
    ] = None,
    on_error: Annotated[
        str | None,
        typer.Option(
            metavar="fail|continue|retry:N",
            help="When an operator fails.",
            show_default="fail",
            rich_help_panel=_options.PACKING,
        ),
    ] = None,
    boundary: _options.Boundary = None,
    pixel_format: _options.PixelFormat = None,
    dtype: _options.Dtype = None,
    layout: _options.Layout = None,
    range_: _options.FrameRange = None,
    rate: _options.Rate = None,
    on_size_change: _options.OnSizeChange = None,
    codec: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Video encoder, such as libx264, libx265, libvpx-vp9, libsvtav1, prores_ks, ffv1, mpeg4 or mjpeg.",
            show_default="by suffix: libx264, webm libvpx-vp9, avi mpeg4",
            rich_help_panel=_options.OUTPUT,
        ),
    ] = None,
    quality: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Of the encoder, lower is better: libx264 and libx265 0 to 51, libvpx-vp9 0 to 63, libsvtav1 1 to 63, "
            "mpeg4 and mjpeg 1 to 31; of prores_ks the profile, 0 to 5. JPEG images: 0 to 100, higher is better.",
            show_default="20, libx265 24, libvpx-vp9 31, libsvtav1 30, mpeg4 and mjpeg 3, JPEG 95",
            rich_help_panel=_options.OUTPUT,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html|.json", help="Write what happened.", rich_help_panel=_options.OUTPUT),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="First compare with the whole sequence in one piece.",
            rich_help_panel=_options.OUTPUT,
        ),
    ] = False,
    checksum: Annotated[
        bool,
        typer.Option("--checksum", help="SHA-256 over the frames written.", rich_help_panel=_options.OUTPUT),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on where an interrupted run stopped.", rich_help_panel=_options.OUTPUT),
    ] = False,
    metrics_port: _options.MetricsPort = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
    debug: _options.Debug = False,
) -> None:
    """Run operators over a file and write the result.

    Example: hyperframes run in.mp4 out.mp4 --operator denoise --report report.html
    """
    from hyperframes.drivers.report import check_report_path

    options = _options.options_given(
        size=size,
        workers=workers,
        max_memory=max_memory,
        executor=executor,
        cluster=cluster,
        scheduling_policy=scheduling_policy,
        frame_dependency=frame_dependency,
        on_error=on_error,
        boundary=boundary,
        pixel_format=pixel_format,
        dtype=dtype,
        layout=layout,
        range=range_,
        on_size_change=on_size_change,
        checksum=checksum or None,
        resume=resume or None,
    )
    operators = [*(operator or []), *_options.model_stages(model)]
    pipelines = _pipelines(paths or [], operators, config, options, rate, _sink_options(codec, quality))
    if report is not None:
        check_report_path(report)
    _refuse_clashes(pipelines, as_json=as_json, report=report)
    with serving(metrics_port, quiet=quiet) as console:
        watching = () if console is None else (console,)
        if len(pipelines) > 1 and pipelines[0].options.executor == "ray":
            told = _carry_out_together(pipelines, watching, quiet=quiet, check=check, as_json=as_json)
        else:
            told = [
                _carry_out(one, watching, quiet=quiet, check=check, report=report, as_json=as_json) for one in pipelines
            ]
    if as_json:
        print(json.dumps(told[0] if len(told) == 1 else told, indent=2))
    _fail_if_incomplete(told)


def _pipelines(
    paths: list[str],
    operators: list[str],
    config: Path | None,
    options: dict[str, Any],
    rate: str | None,
    sink_options: dict[str, Any],
) -> list[Pipeline]:
    from hyperframes.cli import _build
    from hyperframes.errors import PipelineError

    if config is None:
        pipelines = _build.pipelines_from_paths(paths, operators, options, rate)
    elif paths or operators or rate:
        raise PipelineError(
            "sources, sinks, operators and --rate stand in the file that --config names, not on the command line",
            hint="Leave them out, or leave --config out.",
        )
    else:
        pipelines = [_build.pipeline_from_file(config, options)]
    return [_build.with_sink_options(pipeline, sink_options) for pipeline in pipelines]


def _sink_options(codec: str | None, quality: str | None) -> dict[str, Any]:
    return {"codec": codec, "quality": None if quality is None else _options.number("quality", quality)}


def _refuse_clashes(pipelines: list[Pipeline], *, as_json: bool, report: Path | None) -> None:
    from hyperframes.cli._build import output_names
    from hyperframes.errors import PipelineError

    if as_json and any("-" in output_names(pipeline) for pipeline in pipelines):
        raise PipelineError("frames and JSON cannot both go to standard output", hint="Write the frames to a file.")
    if report is not None and len(pipelines) > 1:
        raise PipelineError(
            f"a report tells one run: got {len(pipelines)} sources", hint="Run them one at a time, or without --report."
        )


def _carry_out(
    pipeline: Pipeline,
    watching: tuple[Instrument, ...],
    *,
    quiet: bool,
    check: bool,
    report: Path | None,
    as_json: bool,
) -> dict[str, Any]:
    """Run one pipeline, tell what came of it, and return its JSON."""
    from hyperframes.cli._progress import watched
    from hyperframes.drivers import run as run_pipeline

    checked = _checked(pipeline, quiet=quiet) if check else None
    with watched(quiet=quiet) as instruments:
        try:
            result = run_pipeline(pipeline, instruments=(*instruments, *watching, _show.RunBegins()))
        except KeyboardInterrupt as error:
            raise _interrupted(pipeline) from error
    if report is not None:
        result.report().save(report)
    return _told(result, pipeline, checked, report, as_json=as_json)


def _carry_out_together(
    pipelines: list[Pipeline], watching: tuple[Instrument, ...], *, quiet: bool, check: bool, as_json: bool
) -> list[dict[str, Any]]:
    """Run several pipelines on one cluster, several at a time, tell what came of each, and return their JSON."""
    from hyperframes.cli._progress import watched
    from hyperframes.drivers.cluster import run_many

    checked = [_checked(pipeline, quiet=quiet) if check else None for pipeline in pipelines]
    with watched(quiet=quiet) as instruments:
        try:
            results = run_many(pipelines, (*instruments, *watching, _show.RunBegins()))
        except KeyboardInterrupt as error:
            raise _interrupted(pipelines[0]) from error
    return [_told(*one, None, as_json=as_json) for one in zip(results, pipelines, checked, strict=True)]


def _told(
    result: RunResult, pipeline: Pipeline, checked: dict[str, Any] | None, report: Path | None, *, as_json: bool
) -> dict[str, Any]:
    """Tell what came of a run, and return its JSON."""
    for warning in result.warnings:
        _show.tell("warning", warning)
    told = result.to_json()
    if checked is not None:
        told["check"] = checked
    if not as_json:
        _print_summary(result, pipeline, checked, report)
    return told


def _checked(pipeline: Pipeline, *, quiet: bool) -> dict[str, Any]:
    """Compare with the whole sequence before anything is written; raise if they differ."""
    from hyperframes.cli._progress import watched
    from hyperframes.drivers.check import check

    with watched(quiet=quiet, name="check") as instruments:
        found = check(pipeline, instruments=instruments)
    if not found.equal:
        raise _show.RunFailed(found.text(), hint=found.advice())
    return found.to_json()


def _interrupted(pipeline: Pipeline) -> _show.Interrupted:
    from hyperframes.drivers.resume import journals_of

    if kept := [path for path in journals_of(pipeline) if path.is_file()]:
        return _show.Interrupted(
            "interrupted: the output was not finished",
            hint=f"What is whole was kept beside it: go on with --resume. The journal is {kept[0]}.",
        )
    return _show.Interrupted("interrupted: the output was not finished", hint="Nothing incomplete was left behind.")


def _print_summary(result: RunResult, pipeline: Pipeline, checked: dict[str, Any] | None, report: Path | None) -> None:
    import sys

    from hyperframes.cli._build import output_names

    # Frames on standard output leave no room for words there.
    stream = sys.stderr if "-" in output_names(pipeline) else sys.stdout
    lines = str(result).replace("\n", "\n  ").splitlines()
    if checked is not None:
        lines.append(f"  equals the whole sequence bit for bit: {_compared_text(checked)}")
    if result.frames_sha256 is not None:
        lines.append(f"  sha256 of the frames {result.frames_sha256}")
    if report is not None:
        lines.append(f"  report {report}")
    print("\n".join(lines), file=stream)


def _compared_text(checked: dict[str, Any]) -> str:
    from hyperframes.drivers.quantity import count_text

    part = "" if checked["complete"] else "the first "
    frames = count_text(checked["frames"], "frame")
    if checked["results"] == checked["frames"]:
        return f"{part}{frames} compared"
    return f"{count_text(checked['results'], 'result')} of {part}{frames} compared"


def _fail_if_incomplete(told: list[dict[str, Any]]) -> None:
    failed = [failure for run in told for failure in run["failed"]]
    if failed:
        first = failed[0]
        raise _show.RunFailed(
            f"{len(failed)} of {sum(run['hyperframes'] for run in told)} hyperframes failed, the first with frames "
            f"{first['frames'][0]} to {first['frames'][1] - 1}: {first['error']}",
            hint="The output holds the others; 'failed' in --json and in the report lists these.",
        )
