"""``hyperframes index``: what a dataset of descriptors holds, how it is searched, its duplicates, tasks fitted to it."""

from __future__ import annotations

import json
import os
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from hyperframes.cli import _options  # noqa: TC001 - typer reads the annotation
from hyperframes.errors import PipelineError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.index import Coverage, Hit, Index

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
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Read every descriptor whole, and tell which are no longer what was written."),
    ] = False,
    duplicates: Annotated[
        bool,
        typer.Option(
            "--duplicates", help="Tell which spans of different sources show the same, and at which instants."
        ),
    ] = False,
    fit: Annotated[
        str | None,
        typer.Option(
            metavar="TASK",
            help="Fit what matters for a task to the labels of --labels, for 'search --task'; kept in the folder of "
            "HYPERFRAMES_TASKS.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="With --fit: columns source and label, and maybe start_seconds and stop_seconds."
        ),
    ] = None,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Tell how a dataset is searched: exactly, or by a vector index, and how much of it that knows; fit tasks to its labels.

    Datasets of up to 262,144 descriptors are searched exactly, in memory. --check tells which share of the ten nearest is
    found (recall at 10). --verify ends with code 1 where something is damaged.

    Example: hyperframes index library.lance --optimize --check 200
    """
    from hyperframes.index import find_duplicates, open_index

    _check(fit, labels)
    opened = open_index(dataset)
    coverage = opened.optimize() if optimize else opened.coverage()
    found = opened.check_recall(num_queries=check)._asdict() if check else {}
    damaged = opened.find_damaged() if verify else []
    if verify:
        found["num_damaged"] = len(damaged)
    if fit is not None and labels is not None:
        found |= _fit(opened, fit, labels)
    pairs = find_duplicates(opened) if duplicates else []
    if as_json:
        alike = [{"score": p.score, "first": p.first._asdict(), "second": p.second._asdict()} for p in pairs]
        lists = ({"damaged": damaged} if verify else {}) | ({"duplicates": alike} if duplicates else {})
        print(json.dumps({**coverage._asdict(), "version": opened.version, **found, **lists}))
        _refuse(dataset, damaged)
        return
    print(f"{dataset}: {_coverage_text(coverage)}, version {opened.version}")
    for name, value in found.items():
        print(f"{name}: {value:.6g}" if isinstance(value, float) else f"{name}: {value}")
    for pair in pairs:
        print(f"{pair.score:.4f}  {_place(pair.first)}  is like  {_place(pair.second)}")
    if duplicates and not pairs:
        print("no duplicates were found")
    for line in damaged:
        print(f"damaged: {line}")
    _refuse(dataset, damaged)


def _refuse(dataset: str, damaged: Sequence[str]) -> None:
    from hyperframes.drivers.quantity import count_text

    if damaged:
        raise SourceError(
            f"{dataset} is damaged: {count_text(len(damaged), 'descriptor')} no longer what was written",
            source=dataset,
            hint="Describe their sources again into another dataset, or delete them with Index.delete first.",
        )


def _check(fit: str | None, labels: Path | None) -> None:
    from hyperframes.semantic.task_folder import TASKS_VARIABLE

    if (fit is None) != (labels is None):
        raise PipelineError(
            "--fit and --labels go together: expected both or neither", hint="--fit TASK --labels FILE.csv"
        )
    if fit is not None and not os.environ.get(TASKS_VARIABLE):
        raise PipelineError(
            f"a fitted task is kept in a folder: expected its path in {TASKS_VARIABLE}, got nothing",
            hint=f"For example: export {TASKS_VARIABLE}=~/hyperframes-tasks",
        )


def _fit(opened: Index, task: str, labels: Path) -> dict[str, object]:
    from hyperframes.index import fit_task, read_labels

    return fit_task(opened, task, read_labels(labels))._asdict()


def _coverage_text(coverage: Coverage) -> str:
    from hyperframes.drivers.quantity import count_text

    held = count_text(coverage.num_descriptors, "descriptor")
    if coverage.kind == "exact":
        return f"{held}, searched exactly"
    left = f", {coverage.num_unindexed:,} of them not in it yet: --optimize" if coverage.num_unindexed else ""
    return f"{held}, searched by a vector index ({coverage.kind}){left}"


def _place(hit: Hit) -> str:
    if hit.at_seconds is not None:
        return f"{hit.source}@{hit.at_seconds:.1f}"
    return f"{hit.source} {hit.start_seconds:.3f} to {hit.stop_seconds:.3f} s"
