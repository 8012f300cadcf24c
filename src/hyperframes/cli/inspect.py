"""``hyperframes inspect``: what a learned operator sees in a source, and what might be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hyperframes.cli import _options, _show

__all__ = ["inspect"]


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL.safetensors", help="What 'hyperframes train' left.")],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="What it looks at.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the pictures.")] = Path("hyperframes-inspect"),
    at: Annotated[int, typer.Option(metavar="FRAME", min=0, help="First frame of the window.")] = 0,
    beside: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="A second camera of the same scene, whose trigger is compared."),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Tell where the time and memory of an answer go, by operator.")
    ] = False,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Draw the hyperframe tensor of a window and look for the five faults that are known.

    Writes space.png, curvature.png, time.png and time.gif (a slice after the other), and warp.png (where control points
    move; extra plot).

    Example: hyperframes inspect runs/fights/best.safetensors in.mp4 --at 100
    """
    from hyperframes.neural.inspect import inspect as inspected

    found = inspected(model, source, out, start=at, beside=beside, profile=profile)
    if as_json:
        print(json.dumps(found.to_json()))
        return
    from rich.table import Table
    from rich.text import Text

    print(found.text())
    table = Table(box=None, pad_edge=False)
    for name in ("check", "measured", "verdict", "what to do"):
        table.add_column(name)
    for row in found.checks:
        colour = {"good": "green", "bad": "red"}.get(row.verdict, "")
        table.add_row(Text(row.name), Text(row.measured), Text(row.verdict, colour), Text(row.remedy))
    _show.console().print(table)
    if found.costs:
        dear = Table("operator", "calls", "ms", "allocated", box=None, pad_edge=False)
        for cost in found.costs[:10]:
            dear.add_row(cost.name, str(cost.calls), f"{cost.milliseconds:.2f}", f"{cost.allocated_bytes / 1e6:.2f} MB")
        _show.console().print(dear)
    for path in found.pictures:
        _show.tell("picture", str(path))
