"""``hyperframes advise``: whether packing is worth it somewhere, and which kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from hyperframes.cli import _options, _show

if TYPE_CHECKING:
    from hyperframes.semantic.advice import Advice

__all__ = ["advise"]

SEEN = "What you see of a system in use"


def advise(
    what: Annotated[str, typer.Argument(metavar="SOURCE|MODEL", help="A video to be read, or a model file (.onnx).")],
    target: Annotated[
        str, typer.Option(metavar="NAME", help="What it has to fit: this (machine), edge-2gb, edge-8gb or gpu-24gb.")
    ] = "this",
    frames: Annotated[int, typer.Option(min=2, help="Frames of a source that are looked at, from its start on.")] = 240,
    latency: Annotated[
        float | None, typer.Option(metavar="MS", help="Of one 1080p stream, end to end.", rich_help_panel=SEEN)
    ] = None,
    memory_share: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Of the device's memory in use.", rich_help_panel=SEEN),
    ] = None,
    accuracy_drop: Annotated[
        float | None,
        typer.Option(metavar="POINTS", help="Accuracy lost from one scene to another.", rich_help_panel=SEEN),
    ] = None,
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Every new model needs all labels anew.", rich_help_panel=SEEN)
    ] = False,
    memory_hurts: Annotated[
        bool, typer.Option("--memory-hurts", help="More device memory lowers accuracy.", rich_help_panel=SEEN)
    ] = False,
    jitters: Annotated[
        bool, typer.Option("--jitters", help="Good offline, unsteady online.", rich_help_panel=SEEN)
    ] = False,
    models_ratio: Annotated[
        float | None,
        typer.Option(metavar="TIMES", help="Time of all small models over that of one.", rich_help_panel=SEEN),
    ] = None,
    rate: _options.Rate = None,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Say whether hyperframes are worth it here, which kind, and why: measured, with the thresholds.

    Kinds are MCH (motion), SCH (slow change), EDH (events) and none; of models batch, window and none.

    Example: hyperframes advise in.mp4 --latency 140
    """
    from hyperframes.cli import _build
    from hyperframes.semantic.advice import Symptoms
    from hyperframes.semantic.advising import advise as advised

    seen = Symptoms(latency, memory_share, accuracy_drop, relabel, memory_hurts, jitters, models_ratio)
    source = what if what.lower().endswith(".onnx") else _build.source_of(what, rate, {})
    found = advised(source, target=target, symptoms=seen, frames=frames)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        _print(found)


def _print(found: Advice) -> None:
    from rich.table import Table
    from rich.text import Text

    console = _show.console()
    kind = f", kind {found.kind}" if found.kind != "none" else ""
    console.print(Text(f"{found.subject}: {found.verdict}{kind}"), soft_wrap=True)
    console.print(Text(found.reason), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for name in ("measured", "value", "threshold", "speaks", "why"):
        table.add_column(name)
    said = {True: "for", False: "against", None: "-"}
    for finding in found.findings:
        value = "-" if finding.value is None else f"{finding.value:.3g} {finding.unit}".strip()
        table.add_row(*map(Text, (finding.name, value, finding.threshold, said[finding.speaks_for], finding.why)))
    console.print(table)
