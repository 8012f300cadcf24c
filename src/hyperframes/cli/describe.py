"""``hyperframes describe``: descriptors of videos, into a file."""

from __future__ import annotations

import json
import warnings
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from hyperframes.cli import _options, _show

if TYPE_CHECKING:
    from hyperframes.semantic import Descriptor

__all__ = ["describe"]


def describe(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="What is read.")],
    to: Annotated[
        Path,
        typer.Option("--to", metavar="FILE", help="Where the descriptors go: a file ending in .arrow or .parquet."),
    ],
    detector: Annotated[
        str,
        typer.Option(
            metavar="FILE.onnx|auto|none",
            help="A NanoDet model file; auto looks for nanodet-416.onnx in the folders of HYPERFRAMES_MODELS.",
        ),
    ] = "auto",
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--task", metavar="NAME", help="A task whose projection is noted; zero-shot where it was never fitted."
        ),
    ] = None,
    two_pass: Annotated[
        bool,
        typer.Option("--two-pass", help="Take noise and levels from the whole file, not from the 60 s before a frame."),
    ] = False,
    sync: Annotated[
        bool,
        typer.Option("--sync", help="Measure in a pass before how much later sound comes, and move anchors by it."),
    ] = False,
    size: _options.Size = None,
    workers: _options.Workers = None,
    frame_range: _options.FrameRange = None,
    rate: _options.Rate = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
    debug: _options.Debug = False,
) -> None:
    """Describe each segment of videos: when something matters, where, and what it looks like.

    Example: hyperframes describe in.mp4 --to descriptors.parquet
    """
    from hyperframes.cli import _build
    from hyperframes.cli._progress import watched
    from hyperframes.semantic import DegradedWarning, check_path, find_anchors, measure_sync, save
    from hyperframes.semantic import describe as described

    check_path(to)
    options = _options.options_given(size=size, workers=workers, range=frame_range)
    made: list[Descriptor] = []
    for source in sources:
        with watched(quiet=quiet) as instruments, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", DegradedWarning)
            lag = measure_sync(source, find_anchors(source, two_pass=two_pass, **options)) if sync else None
            made += described(
                _build.source_of(source, rate, options),
                detector=None if detector == "none" else detector,
                tasks=tasks or (),
                two_pass=two_pass,
                sync=lag,
                instruments=(*instruments, _show.RunBegins()),
                **options,
            )
        for warning in told:
            _show.tell("warning", str(warning.message))
    save(made, to)
    if as_json:
        degraded = sum(d.degraded for d in made)
        print(json.dumps({"descriptors": len(made), "degraded": degraded, "sources": len(sources), "output": str(to)}))
    else:
        print(f"{to}: {len(made)} descriptors of {len(sources)} source{'s' if len(sources) != 1 else ''}")
