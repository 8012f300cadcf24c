"""``hyperframes plan``: the hyperframes of a run, without running it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperframes.cli import _options, _show

if TYPE_CHECKING:
    from hyperframes.drivers import Setup

__all__ = ["plan"]

SHOWN_ROWS = 12
"""Rows of a long table at each of its ends."""


def plan(
    source: Annotated[str | None, typer.Argument(metavar="SOURCE", help="What would be read.")] = None,
    operator: _options.Operators = None,
    config: _options.Config = None,
    size: _options.Size = None,
    workers: _options.Workers = None,
    executor: _options.Executor = None,
    max_memory: _options.MaxMemory = None,
    boundary: _options.Boundary = None,
    pixel_format: _options.PixelFormat = None,
    dtype: _options.Dtype = None,
    layout: _options.Layout = None,
    range_: _options.FrameRange = None,
    rate: _options.Rate = None,
    count: Annotated[
        bool,
        typer.Option("--count", help="Decode everything to know the exact length; done anyway where nothing says it."),
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say why this size.")] = False,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Show which frames every hyperframe owns and reads, what the halo costs, and how much memory a run needs.

    Example: hyperframes plan in.mp4 --operator temporal_mean:radius=2 --size 32
    """
    from hyperframes.drivers import set_up

    options = _options.options_given(
        size=size,
        workers=workers,
        executor=executor,
        max_memory=max_memory,
        boundary=boundary,
        pixel_format=pixel_format,
        dtype=dtype,
        layout=layout,
        range=range_,
    )
    setup = set_up(_pipeline(source, operator or [], config, options, rate), open_sinks=False)
    try:
        told = _told(setup, count=count)
        reasons = _reasons(setup, told["memory"]) if explain else []
    finally:
        setup.close()
    if as_json:
        print(json.dumps({**told, "reasons": reasons} if explain else told))
    else:
        _print_table(setup, told, reasons)


def _pipeline(source: str | None, operators: list[str], config: Any, options: dict[str, Any], rate: str | None) -> Any:
    from hyperframes.cli import _build
    from hyperframes.errors import PipelineError
    from hyperframes.pipeline import Pipeline

    if (source is None) == (config is None):
        raise PipelineError(
            "plan needs a source, or --config: got " + ("neither" if source is None else "both"),
            hint="For example: hyperframes plan in.mp4 --operator temporal_mean:radius=2",
        )
    if source is None:
        return _build.pipeline_from_file(config, options)
    return Pipeline.of(_build.source_of(source, rate, options), list(operators), "null:", **options)


def _told(setup: Setup, *, count: bool) -> dict[str, Any]:
    total, exact = _length(setup, count=count)
    halo, memory = setup.plan.operator_halo, setup.memory()
    rows: list[dict[str, Any]] = [
        {
            "index": place.index,
            "core": list(place.core),
            "read": list(place.read),
            "pad_before": place.pad_before,
            "pad_after": place.pad_after,
        }
        for place in setup.ranges(total)
    ]
    owned = sum(row["core"][1] - row["core"][0] for row in rows)
    read = sum(row["read"][1] - row["read"][0] for row in rows)
    return {
        "total_frames": total,
        "exact": exact,
        "size": setup.size,
        "halo": {"before": halo.before, "after": halo.after},
        "hyperframes": rows,
        "halo_overhead": (read - owned) / owned if owned else 0.0,
        "memory_bytes": memory.total,
        "memory": {"frames": memory.frames, "decoders": memory.decoders, "program": memory.program},
    }


def _length(setup: Setup, *, count: bool) -> tuple[int, bool]:
    """Return how many frames there are, and whether that is certain; count where nothing says it and nothing is lost."""
    from hyperframes.errors import PipelineError

    lengths = []
    for source in setup.sources.values():
        if not source.bounded:
            raise PipelineError(
                f"{source.name} does not end by itself: a plan is for files and arrays",
                got=source.name,
                hint="For streams, hyperframes budget foretells size, queue and latency.",
            )
        if source.num_frames is None and not (count or source.rereadable):
            raise PipelineError(
                f"{source.name} does not say how many frames it has, and counting would use it up",
                got=source.name,
                hint="Name a file; or count all the same: hyperframes plan ... --count",
            )
        known = None if count else source.num_frames
        lengths.append((source.count(), True) if known is None else (known, source.exact))
    return min(length for length, _ in lengths), all(exact for _, exact in lengths)


def _reasons(setup: Setup, memory: dict[str, int]) -> list[str]:
    """Say where the size comes from, and what memory is for."""
    from hyperframes.drivers.quantity import bytes_text, share_text

    halo = setup.plan.operator_halo
    first, *others = setup.size_reasons
    reasons = [f"size {setup.size}{', ' if setup.pipeline.options.size == 'auto' else ' '}{first}", *others]
    reasons.append(
        f"memory holds {setup.in_flight} hyperframes, one for each worker and one being filled, and their results: "
        f"{bytes_text(memory['frames'])}"
    )
    decoders = f"{bytes_text(memory['decoders'])} for pictures that decoders hold, " if memory["decoders"] else ""
    reasons.append(
        f"besides {decoders}{bytes_text(memory['program'])} for libraries, kernels and what else the process holds; "
        f"encoders{' and worker processes' if setup.uses_processes else ''} add to that"
    )
    if setup.uses_processes and any(source.arrays() is not None for source in setup.sources.values()):
        reasons.append(
            "arrays are copied to memory that worker processes share, which is counted here; threads would view them"
        )
    if halo.total:
        reasons.append(
            f"each reads {halo.before} + {halo.after} frames of its neighbours: {share_text(halo.total / setup.size)} "
            f"at size {setup.size}, {share_text(halo.total / (2 * setup.size))} at {2 * setup.size}"
        )
    return reasons


def _print_table(setup: Setup, told: dict[str, Any], reasons: list[str]) -> None:
    from rich.table import Table

    from hyperframes.drivers.quantity import bytes_text, count_text, share_text

    console = _show.console()
    rows = told["hyperframes"]
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for heading in ("hyperframe", "core", "read", "frames read", "pad before", "pad after"):
        table.add_column(heading, justify="right")
    cut = len(rows) > 2 * SHOWN_ROWS + 1
    for row in rows[:SHOWN_ROWS] if cut else rows:
        table.add_row(*_cells(row))
    if cut:
        table.add_row("...", *[""] * 5)
        for row in rows[-SHOWN_ROWS:]:
            table.add_row(*_cells(row))
    console.print(table)
    halo = told["halo"]
    about = "" if told["exact"] else "about "
    console.print(
        f"\n{about}{count_text(told['total_frames'], 'frame')} in {count_text(len(rows), 'hyperframe')} of "
        f"{told['size']}, halo {halo['before']} + {halo['after']}: {share_text(told['halo_overhead'])} read twice; "
        f"{bytes_text(told['memory_bytes'])} of memory with {count_text(setup.num_workers, 'worker')}, "
        f"{bytes_text(told['memory']['frames'])} of it for frames; encoders add to that",
        soft_wrap=True,
    )
    if not told["exact"]:
        console.print("the length is what the file says; --count decodes to be sure", soft_wrap=True)
    for reason in reasons:
        console.print(f"  - {reason}", soft_wrap=True)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    (start, stop), (first, last) = row["core"], row["read"]
    pads = (str(row["pad_before"] or ""), str(row["pad_after"] or ""))
    return (
        f"{row['index']:,}",
        f"[{start:,}, {stop:,})".replace("[", "\\["),
        f"\\[{first:,}, {last:,})",
        f"{last - first:,}",
        *pads,
    )
