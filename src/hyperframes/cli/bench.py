"""``hyperframes bench``: benchmarks of this machine."""

from __future__ import annotations

import difflib
import json
import sys
from typing import Annotated, Any

import typer

from hyperframes.cli import _options, _show
from hyperframes.errors import PipelineError

__all__ = ["bench"]

SUITES = {"roofline": "how fast this machine copies memory, and how near each operator comes to that"}


def bench(
    suite: Annotated[str | None, typer.Argument(metavar="SUITE", help="Which one; left out, they are listed.")] = None,
    operator: _options.Operators = None,
    frame: Annotated[str, typer.Option(metavar="WxH", help="Size of the pictures.")] = "1920x1080",
    pixel_format: Annotated[
        str, typer.Option(metavar="NAME", help="Of the pictures, where the operator takes it.")
    ] = "yuv420p",
    threads: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Numbers of threads; one and one a core if left out.")
    ] = None,
    repetitions: Annotated[int, typer.Option(metavar="N", min=1, help="How often each is measured.")] = 3,
    quiet: _options.Quiet = False,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Run a benchmark of this machine.

    The suite roofline measures how many bytes a second a plain copy moves, and every operator against it.

    Example: hyperframes bench roofline --operator temporal_mean:radius=2
    """
    if suite is None:
        print(json.dumps(SUITES, indent=2)) if as_json else _print_suites()
        return
    if suite not in SUITES:
        near = difflib.get_close_matches(suite, SUITES, n=1)
        raise PipelineError(
            f"no benchmark named {suite!r}; known: {', '.join(SUITES)}",
            got=suite,
            hint=f"Did you mean {near[0]!r}?" if near else "List them: hyperframes bench",
        )
    from hyperframes.tuning import roofline

    width, height = _frame(frame)
    found = roofline(
        operator or None,
        height=height,
        width=width,
        pixel_format=pixel_format,
        threads=None if threads is None else _options.numbers("threads", threads),
        repetitions=repetitions,
        told=(lambda name: None) if quiet else _tell,
    )
    print(json.dumps(found.to_json(), indent=2)) if as_json else _print(found)


def _print_suites() -> None:
    for name, what in SUITES.items():
        print(f"{name}  {what}")


def _frame(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit() and int(width) and int(height)):
        raise PipelineError(
            f"--frame: expected WIDTHxHEIGHT, got {text!r}", got=text, hint="For example: --frame 1280x720"
        )
    return int(width), int(height)


def _tell(name: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[Kmeasuring {name}", end="", file=sys.stderr, flush=True)


def _print(found: Any) -> None:
    from rich.table import Table

    from hyperframes.drivers.quantity import bytes_text, count_text, number_text, share_text

    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    console = _show.console()
    console.print(found.machine, markup=False)
    for limit in found.copies:
        rate, deviation = bytes_text(limit.bytes_per_second), bytes_text(limit.deviation)
        console.print(f"copy, {count_text(limit.threads, 'thread')}: {rate}/s +- {deviation}/s, read and written")
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("operator", no_wrap=True)
    table.add_column("frames", no_wrap=True)
    for heading in ("threads", "frames/s", "bytes/s", "of a copy"):
        table.add_column(heading, justify="right")
    for rate in found.operators:
        if rate.failed:
            table.add_row(rate.operator, rate.failed)
            continue
        table.add_row(
            rate.operator,
            rate.frames,
            str(rate.threads),
            number_text(rate.frames_per_second),
            bytes_text(rate.bytes_per_second),
            share_text(rate.share),
        )
    console.print(table)
