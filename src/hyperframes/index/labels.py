"""Labels of described videos in a table, and the projection of a task fitted to them."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hyperframes.errors import SourceError
from hyperframes.semantic import TASKS
from hyperframes.semantic.tasks import fit_projection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.frames import Array
    from hyperframes.index.store import Store
    from hyperframes.semantic import Descriptor
    from hyperframes.semantic.tasks import Tasks

__all__ = ["Fitted", "Label", "fit_task", "read_labels"]

_SOURCES: Final = ("source", "file")
_PARTS: Final = 5


class Label(NamedTuple):
    """What a stretch of a source shows."""

    source: str
    """As described, or the end of that after a slash."""
    label: str
    start_seconds: float = float("-inf")
    stop_seconds: float = float("inf")


class Fitted(NamedTuple):
    """What `fit_task` did."""

    task: str
    version: str
    """Of the projection; descriptors made for the task note it."""
    num_descriptors: int
    labels: dict[str, int]
    """How many descriptors have each."""
    accuracy: float
    """Share of descriptors whose nearest one of other sources has their label, by a projection fitted without their source."""
    accuracy_unfitted: float
    """The same by all features."""


def read_labels(path: str | os.PathLike[str]) -> list[Label]:
    """Read labels from a CSV file: columns ``source`` (or ``file``) and ``label``, and maybe ``start_seconds``, ``stop_seconds``.

    Raises
    ------
    SourceError
        If it cannot be read, or has no such columns.
    """
    name = os.fspath(path)
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"cannot read labels from {name}: {getattr(error, 'strerror', None) or error}", source=name
        ) from error
    columns = set(rows[0]) if rows else set()
    source = next((column for column in _SOURCES if column in columns), None)
    if source is None or "label" not in columns:
        raise SourceError(
            f"labels in {name}: expected columns source and label, got {', '.join(sorted(map(str, columns))) or 'no rows'}",
            source=name,
            hint="One line a video, or with start_seconds and stop_seconds one a stretch: source,label",
        )
    try:
        return [
            Label(
                row[source],
                row["label"],
                float(row.get("start_seconds") or "-inf"),
                float(row.get("stop_seconds") or "inf"),
            )
            for row in rows
        ]
    except ValueError as error:
        raise SourceError(f"labels in {name}: expected seconds as numbers: {error}", source=name) from error


def fit_task(store: Store, task: str, labels: Sequence[Label], *, tasks: Tasks | None = None) -> Fitted:
    """Fit the projection of a task to labelled descriptors of a dataset, and keep it.

    Parameters
    ----------
    store : Store
        Holds the descriptors.
    task : str
        Its name or description.
    labels : sequence of Label
        A descriptor has the label of the stretch that holds the middle of its span; others are left out.
    tasks : Tasks, optional
        Where it is kept; by default in the folder of ``HYPERFRAMES_TASKS``.

    Returns
    -------
    Fitted
        With how well it tells labels apart in sources that it was not fitted to, a fifth of them at a time.

    Raises
    ------
    FrameError
        If fewer than two different labels are met, or features are the same for all.
    SourceError
        If there is no dataset, or a label's source is not in it.
    """
    found = store.descriptors()
    given = _labelled(found, labels, store.name)
    chosen = [(d, label) for d, label in zip(found, given, strict=True) if label is not None]
    descriptors, names = [d for d, _ in chosen], [label for _, label in chosen]
    projection = (tasks or TASKS).fit(task, descriptors, names)
    features = np.stack([d.semantic_features for d in descriptors])
    sources = np.array([d.source for d in descriptors])
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    accuracies = [_accuracy(task, features, names, sources, fitted=fitted) for fitted in (True, False)]
    return Fitted(task, projection.version, len(names), counts, *accuracies)


def _labelled(found: Sequence[Descriptor], labels: Sequence[Label], name: str) -> list[str | None]:
    by_source: dict[str, list[int]] = {}
    for number, descriptor in enumerate(found):
        by_source.setdefault(descriptor.source, []).append(number)
    given: list[str | None] = [None] * len(found)
    for label in labels:
        named = [s for s in by_source if s == label.source or s.endswith(f"/{label.source}")]
        if len(named) != 1:
            raise SourceError(
                f"label of {label.source!r}: expected one such source in {name}, got {len(named)}",
                source=label.source,
                hint="Sources are named as they were described; the end of a path after a slash will do where it is one only.",
            )
        for number in by_source[named[0]]:
            middle = sum(found[number].seconds) / 2
            if label.start_seconds <= middle < label.stop_seconds:
                given[number] = label.label
    return given


def _accuracy(task: str, features: Array, names: list[str], sources: Array, *, fitted: bool) -> float:
    """Return the share whose nearest neighbour among other sources has their label; folds go by source."""
    order = {source: k % _PARTS for k, source in enumerate(dict.fromkeys(sources.tolist()))}
    fold = np.array([order[source] for source in sources])
    right = 0
    for part in sorted(set(order.values())):
        asked, others = fold == part, fold != part
        known = [name for name, other in zip(names, others, strict=True) if other]
        matrix = np.eye(features.shape[1])
        if fitted and len(set(known)) > 1:
            matrix = fit_projection(task, features[others], known).matrix.astype(np.float64)
        if not known:
            continue
        ours, theirs = features[asked] @ matrix, features[others] @ matrix
        nearest = ((theirs**2).sum(axis=1) - 2 * ours @ theirs.T).argmin(axis=1)
        wanted = [name for name, one in zip(names, asked, strict=True) if one]
        right += sum(known[k] == name for k, name in zip(nearest, wanted, strict=True))
    return right / len(names)
