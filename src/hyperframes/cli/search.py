"""``hyperframes search``: what is like it, in a dataset of descriptors."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperframes.cli import _options, _show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.index import Hit

__all__ = ["search"]


def search(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A folder or URL ending in .lance.")],
    like: Annotated[
        str | None,
        typer.Option(
            metavar="CLIP@T",
            help="A position in a video, described or not: clip.mp4@12.5 (seconds), clip.mp4@#375. Copies of it come first.",
        ),
    ] = None,
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A picture: what is in it, and what it looks like.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar='"..."',
            help="What is to be seen, in English. The models of HYPERFRAMES_MODELS know the 1,080 classes of ImageNet and "
            "COCO and what is near them in meaning.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --like: compare only what matters for a task; zero-shot, from its text, where it was never fitted.",
        ),
    ] = None,
    encoder: Annotated[
        str,
        typer.Option(metavar="NAME|auto", help="What brings pictures and texts together, as it was for 'describe'."),
    ] = "auto",
    top: Annotated[int, typer.Option(metavar="K", min=1, help="How many are shown at most.")] = 10,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Only search those that meet it, such as \"source = 'a.mp4' and start_seconds > 10\".",
        ),
    ] = None,
    sheet: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html|.png", help="Show what was found as pictures, one from the middle of each."),
    ] = None,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Find the spans of described videos that are most like one of them, a picture or a text, best first.

    Give one of --like, --image and --text. The score is a cosine: 1 for the same. With --like what was asked for is among
    them, and so are copies of it, though encoded anew, cropped or played faster: "at" is when the position stands in them.

    Example: hyperframes search library.lance --text "a dog on a beach" --top 5 --sheet found.html
    """
    from hyperframes.index import open_index
    from hyperframes.index.sheet import check_sheet_path, write_sheet

    if sheet is not None:
        check_sheet_path(sheet)
    with _show.warnings_told():
        hits = open_index(dataset).search(
            like=like, image=image, text=text, task=task, top=top, where=where, encoder=encoder
        )
    if as_json:
        print(json.dumps([_row(hit) for hit in hits]))
    else:
        _print(hits)
    if sheet is not None:
        for warning in write_sheet(hits, sheet, title=_title(like, image, text, task)):
            _show.tell("warning", warning)
        _show.tell("sheet", str(sheet))


def _row(hit: Hit) -> dict[str, Any]:
    """Return a hit without what it does not tell; times to the nanosecond."""
    told = {key: value for key, value in hit._asdict().items() if value is not None}
    return {key: round(value, 9) if key.endswith("_seconds") else value for key, value in told.items()}


def _title(like: str | None, image: Path | None, text: str | None, task: str | None) -> str:
    asked = text if text is not None else f"like {like if image is None else image.name}"
    return asked if task is None else f"{asked} for {task}"


def _print(hits: Sequence[Hit]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not hits:
        print("nothing was found")
        return
    copies = any(hit.at_seconds is not None for hit in hits)
    table = Table(box=None, pad_edge=False)
    for name in ("score", "from", "to", *(["at"] if copies else []), "source"):
        table.add_column(name, justify="left" if name == "source" else "right")
    for hit in hits:
        times = [f"{hit.start_seconds:.3f} s", f"{hit.stop_seconds:.3f} s"]
        if copies:
            times.append("" if hit.at_seconds is None else f"{hit.at_seconds:.1f} s")
        table.add_row(*map(Text, (f"{hit.score:.4f}", *times, hit.source)))
    _show.console().print(table)
