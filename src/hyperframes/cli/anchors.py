"""``hyperframes anchors``: when something matters in a video."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated

import typer

from hyperframes.cli import _options, _show

__all__ = ["anchors"]


def anchors(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="What is read.")],
    cuts: Annotated[bool, typer.Option("--cuts", help="Only where one picture gives way to another.")] = False,
    two_pass: _options.TwoPass = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw weights, anchors and segments over time.")
    ] = None,
    cache: _options.SemanticCache = None,
    cache_ttl: _options.CacheTtl = 3600.0,
    flow: _options.Flow = None,
    refiner: _options.Refiner = None,
    size: _options.Size = None,
    workers: _options.Workers = None,
    frame_range: _options.FrameRange = None,
    rate: _options.Rate = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
    debug: _options.Debug = False,
) -> None:
    """Print the instants that matter as JSON, with their weights: a list of {seconds, weight, kind}, in order of time.

    Kinds are motion, cut, fade and flash. The output is JSON with and without --json.

    Example: hyperframes anchors in.mp4 --plot anchors.png
    """
    from hyperframes.cli import _build
    from hyperframes.cli._progress import watched
    from hyperframes.semantic import Anchors, find_anchors, open_cache
    from hyperframes.semantic.plot import check_timeline_path, plot_timeline

    if plot is not None:
        check_timeline_path(plot)
    options = _options.options_given(size=size, workers=workers, range=frame_range)
    opened = _build.source_of(source, rate, options)
    kept = None if cache is None else open_cache(cache, ttl_seconds=cache_ttl)
    with watched(quiet=quiet) as instruments:
        watching = (*instruments, _show.RunBegins())
        chosen = Anchors(flow=flow or "", refiner=refiner or "")
        found = find_anchors(opened, two_pass=two_pass, anchors=chosen, cache=kept, instruments=watching, **options)
    for warning in found.warnings:
        _show.tell("warning", warning)
    shown = found.cuts if cuts else found.anchors
    rows = [{"seconds": round(a.seconds, 9), "weight": round(a.weight, 6), "kind": a.kind} for a in shown]
    print(json.dumps(rows))
    if plot is not None:
        written = plot_timeline(found, plot, source)
        _show.tell("plot", str(written))
