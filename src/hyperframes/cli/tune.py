"""``hyperframes tune``: which size, how many workers and which layout suit a chain on this machine, measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path  # noqa: TC003 - the command line is made from the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperframes.cli import _options, _show

if TYPE_CHECKING:
    from hyperframes.tuning import Cell, Sweep

__all__ = ["tune"]


def tune(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Real frames to measure with.")],
    operator: _options.Operators = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="N,N,...|A:B:STEP", help="Sizes to try; 8 to 256 if left out.")
    ] = None,
    workers: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Numbers of workers to try; 1, 2, 4, ... up to the cores.")
    ] = None,
    layouts: Annotated[
        str | None,
        typer.Option(
            metavar="NHWC,NCHW", help="Layouts to try; both where frames have channels and --layout does not fix it."
        ),
    ] = None,
    repetitions: Annotated[int, typer.Option(metavar="N", min=1, help="How often each pair is measured.")] = 3,
    max_memory: _options.MaxMemory = None,
    boundary: _options.Boundary = None,
    pixel_format: _options.PixelFormat = None,
    dtype: _options.Dtype = None,
    layout: _options.Layout = None,
    rate: _options.Rate = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png|.html", help="Draw curve and heat map.", rich_help_panel=_options.OUTPUT),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save/--no-save", help="Keep what was found.", rich_help_panel=_options.OUTPUT)
    ] = True,
    quiet: _options.Quiet = False,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Measure how fast a chain runs for every size, number of workers and layout; keep the best for --size auto.

    Frames of the source are read into memory and repeated, so neither decoding nor writing is measured. The answer is
    the smallest size within 3 % of the best. Another layout is kept only where results are the same bit for bit.

    Example: hyperframes tune in.mp4 --operator temporal_mean:radius=2 --plot tune.html
    """
    from hyperframes.cli import _build
    from hyperframes.drivers.profile import save_profile
    from hyperframes.pipeline import Pipeline
    from hyperframes.tuning import save_plot, sweep
    from hyperframes.tuning.plots import check_plot_path

    options = _options.options_given(boundary=boundary, pixel_format=pixel_format, dtype=dtype, layout=layout)
    if plot is not None:
        check_plot_path(plot)  # before minutes of measuring
    found = sweep(
        Pipeline.of(_build.source_of(source, rate, options), list(operator or []), **options),
        sizes=None if sizes is None else _options.numbers("sizes", sizes),
        workers=None if workers is None else _options.numbers("workers", workers),
        layouts=None if layouts is None else [name.strip() for name in layouts.split(",")],
        repetitions=repetitions,
        max_memory=None if max_memory is None else _options.byte_size("max-memory", max_memory),
        told=(lambda done, total, cell: None) if quiet else _tell,
    )
    profile = save_profile(found.profile()) if save else None
    if plot is not None:
        save_plot(found, plot)
    if as_json:
        kept = {"profile": None if profile is None else str(profile), "plot": None if plot is None else str(plot)}
        print(json.dumps({**found.to_json(), **kept}, indent=2))
    else:
        _print(found, profile, plot)


def _tell(done: int, total: int, cell: Cell | None) -> None:
    """Say how far it is: one line that is rewritten on a terminal, else a plain line for every tenth."""
    at = "starting" if cell is None else f"size {cell.size}, workers {cell.workers}, {cell.layout}"
    line = f"measured {done} of {total} ({at})"
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done * 10 // total > (done - 1) * 10 // total:
        print(line, file=sys.stderr)


def _print(found: Sweep, profile: Path | None, plot: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from hyperframes.tuning.sweep import summary

    console = _show.console()
    columns = sorted({(found.layouts.index(cell.layout), cell.layout, cell.workers) for cell in found.cells})
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("size", justify="right")
    for _, layout, count in columns:
        named = f"frames/s, workers {count}" + (f", {layout}" if len(found.layouts) > 1 else "")
        for heading in (named, "deviation", "per CPU second"):
            table.add_column(heading, justify="right")
    for size in sorted({cell.size for cell in found.cells}):
        row: list[Any] = [str(size)]
        for _, layout, count in columns:
            cell = found.cell(size, count, layout)
            mark = "bold green" if cell.place == (found.layout, found.size, found.workers) else ""
            row += [Text(told, mark) for told in _cells(cell)]
        table.add_row(*row)
    console.print(table)
    console.print()
    for line in summary(found):
        console.print(f"  - {line}", soft_wrap=True)
    if profile is not None:
        console.print(f"  - kept for --size auto in {profile}", soft_wrap=True)
    if plot is not None:
        console.print(f"  - drawn in {plot}", soft_wrap=True)


def _cells(cell: Cell) -> tuple[str, str, str]:
    """Return frames a second, their deviation where there is more than one, and frames a second of processor time."""
    from hyperframes.drivers.quantity import number_text

    if not cell.measurements:
        return "-", "-", "-"
    deviation = number_text(cell.deviation) if len(cell.measurements) > 1 else "-"
    return number_text(cell.frames_per_second), deviation, number_text(cell.frames_per_cpu_second)
