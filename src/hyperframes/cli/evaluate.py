"""``hyperframes evaluate``: how good a trained model is, and what to label next."""

from __future__ import annotations

import csv
import json
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from hyperframes.cli import _options, _show
from hyperframes.errors import SinkError

if TYPE_CHECKING:
    from hyperframes.neural.train import Evaluation

__all__ = ["evaluate"]


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL.safetensors", help="What 'hyperframes train' left.")],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="CONFIG.toml", help="Take the data of this configuration, not the training's."
        ),
    ] = None,
    side: Annotated[str, typer.Option(metavar="NAME", help="Side of the split that is asked about.")] = "test",
    queue: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Write which samples to label next: unsure ones, none like another."),
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many of those.")] = 20,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Tell macro-F1 with its 95 % interval, accuracy and which classes were taken for which.

    The interval is that of recordings (the first group of the data) drawn anew.

    Example: hyperframes evaluate runs/fights/best.safetensors
    """
    from hyperframes.neural.train import evaluate as evaluated
    from hyperframes.neural.train import read_config

    if queue is not None and not queue.parent.is_dir():
        raise SinkError(
            f"cannot write {queue}: there is no folder {queue.parent}", sink=str(queue), hint="Make the folder first."
        )
    found = evaluated(model, side=side, config=read_config(config) if config else None)
    if queue is not None:
        _write_queue(found, queue, top)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        _print(found)
    if queue is not None:
        _show.tell("queue", str(queue))


def _write_queue(found: Evaluation, path: Path, top: int) -> None:
    from hyperframes.neural.data import hardest

    chosen = hardest(found.answers.probabilities, found.answers.latent.numpy(), count=top)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "start", "stop", "guess", "unsure", "distance"])
        for one in chosen:
            sample = found.samples[one.place]
            guess = found.classes[int(found.answers.answers[one.place])]
            stop = "" if sample.stop is None else sample.stop
            writer.writerow([sample.source, sample.start, stop, guess, f"{one.unsure:.4f}", f"{one.distance:.4f}"])


def _print(found: Evaluation) -> None:
    from rich.table import Table
    from rich.text import Text

    told = found.to_json()
    low, high = found.interval
    print(
        f"macro-F1 {found.macro_f1:.3f} (95 % {low:.3f} to {high:.3f} over {told['units']} recordings), "
        f"accuracy {found.accuracy:.3f}, {told['samples']} samples, {found.parameters:,} parameters"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("is \\ taken for")
    for name in found.classes:
        table.add_column(Text(name), justify="right")
    for name, row in zip(found.classes, told["confusion"], strict=True):
        table.add_row(Text(name), *map(str, row))
    _show.console().print(table)
