"""``hyperframes index``: what a dataset of descriptors holds, its vector index, and whether searches find what is there."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hyperframes.cli import _options  # noqa: TC001 - typer reads the annotation

__all__ = ["index"]


def index(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A folder or URL ending in .lance.")],
    optimize: Annotated[
        bool,
        typer.Option(
            "--optimize",
            help="Join small files, and make the vector index of a large dataset or bring it up to date.",
        ),
    ] = False,
    check: Annotated[
        int, typer.Option(metavar="N", min=0, help="Search for N descriptors, and compare with an exact search.")
    ] = 0,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Tell how a dataset is searched: exactly, or by a vector index, and how much of it that knows.

    Datasets of up to 262,144 descriptors are searched exactly, in memory. --check tells which share of the ten nearest is
    found (recall at 10).

    Example: hyperframes index library.lance --optimize --check 200
    """
    from hyperframes.index import open_index

    opened = open_index(dataset)
    coverage = opened.optimize() if optimize else opened.coverage()
    told = {**coverage._asdict(), "version": opened.version}
    if check:
        told |= opened.check_recall(num_queries=check)._asdict()
    if as_json:
        print(json.dumps(told))
        return
    for name, value in told.items():
        print(f"{name}: {value:.6g}" if isinstance(value, float) else f"{name}: {value}")
