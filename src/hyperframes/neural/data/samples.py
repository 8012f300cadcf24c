"""Which stretches of which sources have which label, and who may not meet whom in training and test."""

from __future__ import annotations

import csv
import random
import string
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hyperframes.errors import FrameError, SourceError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

__all__ = ["Sample", "check_leaks", "read_folder", "read_table", "split"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A labelled stretch of a source."""

    source: str
    """Path or URL."""
    label: str
    split: str = ""
    """``train``, ``validation`` or ``test``; empty where nobody has said."""
    groups: tuple[str, ...] = ()
    """Whom and what it shows, as ``column=value``: persons, scenes, recordings. Samples that share one stay together."""
    start: int = 0
    """First frame."""
    stop: int | None = None
    """The frame after the last; None for the end."""

    @property
    def unit(self) -> str:
        """What it is counted with where intervals are drawn: the first of its groups, else its source."""
        return self.groups[0] if self.groups else self.source


def read_table(
    path: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    source: str = "{file}",
    label: str = "label",
    split: str | None = "split",
    groups: Sequence[str] = (),
    start: str | None = None,
    stop: str | None = None,
    joined: Mapping[str, str] | None = None,
) -> list[Sample]:
    """Read samples from a CSV file, one a row.

    Parameters
    ----------
    path : path
        With a line of column names.
    root : path, optional
        Folder of the sources; that of the table where it is left out.
    source : str
        Path of a row's source in `root`, with columns in braces: ``{recording}_camera.mp4``.
    label, split : str
        Columns; without a split the samples are split by the function `split`.
    groups : sequence of str
        Columns, or several joined as one (``scene+sequence``): rows with the same value never straddle a split.
    start, stop : str, optional
        Columns of the first frame and the one after the last.
    joined : mapping of str to str, optional
        Labels that become another: ``{"lying": "other"}``; ``"*"`` stands for all that are not named.

    Raises
    ------
    SourceError
        If the file cannot be read, a column is missing or a number is none; names the line.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"cannot read the table {path}: {error}", source=str(path)) from error
    if not rows:
        raise SourceError(f"the table {path} has no rows", source=str(path))
    fields = _columns_in(source)
    wanted = [*fields, label, *(c for group in groups for c in group.split("+")), *filter(None, (split, start, stop))]
    missing = sorted(set(wanted) - set(rows[0]))
    if missing:
        known = ", ".join(name for name in rows[0] if name)
        raise SourceError(
            f"the table {path} has no column {missing[0]!r}; known: {known}",
            source=str(path),
            hint='Without a column that says train or test write split = "": it is made by groups then.'
            if missing[0] == split
            else None,
        )
    folder = Path(root) if root is not None else Path(path).parent
    found = []
    for line, row in enumerate(rows, 2):
        short = [column for column in wanted if row[column] is None]
        if short:
            raise SourceError(f"{path}, line {line}: the row ends before its {short[0]!r}", source=str(path))
        where = source.format(**row)
        name = row[label]
        if joined:
            name = joined.get(name, joined.get("*", name))
        found.append(
            Sample(
                where if "://" in where else str(folder / where),
                name,
                row[split] if split else "",
                tuple(f"{group}={'/'.join(row[c] for c in group.split('+'))}" for group in groups),
                _number(row[start], path, line) if start else 0,
                _number(row[stop], path, line) if stop else None,
            )
        )
    return found


def _columns_in(source: str) -> list[str]:
    """Return the columns that `source` names in braces."""
    try:
        parts = [part for part in string.Formatter().parse(source) if part[1] is not None]
        names = ["" if spec or conversion else name or "" for _, name, spec, conversion in parts]
    except ValueError:
        names = [""]
    if not all(name and not set(name) & set(".[") for name in names):
        raise SourceError(
            f"source {source!r} cannot be read: expected names of columns in braces, as in '{{file}}'", source=source
        )
    return names


def _number(text: str, path: str | os.PathLike[str], line: int) -> int:
    if not text.strip().isdecimal():
        raise SourceError(f"{path}, line {line}: expected the number of a frame, got {text!r}", source=str(path))
    return int(text)


def read_folder(path: str | os.PathLike[str]) -> list[Sample]:
    """Read samples from a folder of folders: each holds the sources of the label that it is named after.

    Raises
    ------
    SourceError
        If there are none.
    """
    folders = sorted(child for child in Path(path).glob("*") if child.is_dir() and not child.name.startswith("."))
    found = [
        Sample(str(file), folder.name)
        for folder in folders
        for file in sorted(folder.iterdir())
        if not file.name.startswith(".")
    ]
    if not found:
        raise SourceError(
            f"{path} holds no samples: expected a folder for each label, with its sources in it", source=str(path)
        )
    return found


def check_leaks(samples: Sequence[Sample]) -> None:
    """Refuse samples that would make a test too easy.

    Raises
    ------
    FrameError
        If a group stands on two sides of a split, or frames of one source do.
    """
    sides: dict[str, dict[str, str]] = defaultdict(dict)
    for sample in samples:
        for group in sample.groups or (f"source={sample.source}",):
            sides[group].setdefault(sample.split, sample.source)
    leaks = {group: found for group, found in sides.items() if len(found) > 1}
    leaks |= _shared_frames(samples)
    if leaks:
        group, found = next(iter(leaks.items()))
        where = " and ".join(f"{side or 'no split'} ({source})" for side, source in sorted(found.items()))
        more = f", and {len(leaks) - 1} more" if len(leaks) > 1 else ""
        raise FrameError(
            f"the split leaks: {group} is in {where}{more}",
            got=sorted(leaks),
            hint='Take no split from the table (split = "") and let it be made by groups, or correct the table.',
        )


def _shared_frames(samples: Sequence[Sample]) -> dict[str, dict[str, str]]:
    """Return the sources of which frames stand on two sides, whatever groups say."""
    by_source: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_source[sample.source].append(sample)
    leaks = {}
    for source, found in by_source.items():
        found.sort(key=lambda s: s.start)
        reach: dict[str, float] = {}
        for sample in found:
            crossed = [side for side, stop in reach.items() if side != sample.split and stop > sample.start]
            if crossed:
                leaks[f"frame {sample.start} of {source}"] = {crossed[0]: source, sample.split: source}
            stop = float("inf") if sample.stop is None else sample.stop
            reach[sample.split] = max(reach.get(sample.split, 0), stop)
    return leaks


def split(samples: Sequence[Sample], shares: Mapping[str, float], seed: int = 0) -> list[Sample]:
    """Return `samples` with a split each, by groups: those that share one, directly or through others, stay together.

    Parameters
    ----------
    samples : sequence of Sample
        Sources count as groups where they have none.
    shares : mapping of str to float
        How much of each label each side shall have: ``{"train": 0.8, "validation": 0.2}``.
    seed : int

    Notes
    -----
    The largest families first, each to the side that lacks most of its labels; equal ones in an order drawn by `seed`.
    """
    if not shares or min(shares.values()) <= 0:
        raise FrameError(f"every side of a split has a share above 0: got {dict(shares)}")
    families = _families(samples)
    if len(families) < len(shares):
        raise FrameError(
            f"{len(samples)} samples of {len(families)} separate groups cannot be split into {len(shares)} sides",
            hint="Record more persons or scenes, or name fewer groups.",
        )
    random.Random(seed).shuffle(families)
    families.sort(key=len, reverse=True)
    total = Counter(sample.label for sample in samples)
    whole = sum(shares.values())
    lacking = {side: {label: n * share / whole for label, n in total.items()} for side, share in shares.items()}
    sides: dict[int, str] = {}
    for done, family in enumerate(families):
        counts = Counter(samples[i].label for i in family)
        empty = [side for side in shares if side not in sides.values()]
        open_sides = empty if len(families) - done <= len(empty) else list(shares)
        side = max(open_sides, key=lambda s: (sum(min(lacking[s][k], n) for k, n in counts.items()), shares[s]))
        for label, n in counts.items():
            lacking[side][label] -= n
        sides.update(dict.fromkeys(family, side))
    return [replace(sample, split=sides[i]) for i, sample in enumerate(samples)]


def _families(samples: Sequence[Sample]) -> list[list[int]]:
    """Return the positions of samples that are linked by groups, family by family."""
    parent = list(range(len(samples)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    first: dict[str, int] = {}
    for i, sample in enumerate(samples):
        for group in (*sample.groups, f"source={sample.source}"):
            parent[root(i)] = root(first.setdefault(group, i))
    families: dict[int, list[int]] = defaultdict(list)
    for i in range(len(samples)):
        families[root(i)].append(i)
    return list(families.values())
