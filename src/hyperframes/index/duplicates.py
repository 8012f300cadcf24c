"""Near duplicates: spans of a dataset that are so alike that they probably show the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.index.copies import LEAST_SCORE, find_copies
from hyperframes.index.vectors import NUM_FEATURES, best
from hyperframes.index.videos import Hit, Videos

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.frames import Array
    from hyperframes.index.search import Index

__all__ = ["Pair", "find_duplicates"]

_AT_ONCE: Final = 256
_NEIGHBOURS: Final = 16
_CANDIDATE: Final = 0.75
"""Of a lower cosine of features looks are not compared."""


class Pair(NamedTuple):
    """Two spans that are alike; where their looks say so, `Hit.at_seconds` of both is the same instant."""

    first: Hit
    second: Hit
    score: float
    """The mean cosine of their looks, or the cosine of their features where one has none."""


def find_duplicates(
    index: Index, *, threshold: float = 0.98, least: float = LEAST_SCORE, where: str | None = None
) -> list[Pair]:
    """Return pairs of spans of different sources that are alike, the most alike first.

    Parameters
    ----------
    index : Index
        What is looked through.
    threshold : float
        The least cosine of features, of spans without looks.
    least : float
        The least score by looks; see `find_copies`.
    where : str, optional
        Only look at spans that meet this condition.

    Returns
    -------
    list of Pair
        Each once. Of every span the 16 whose features are most alike are looked at, so a whole crowd of copies is found as a
        chain; where both have looks, these decide, and say which instants are the same.

    Raises
    ------
    PipelineError
        If `threshold` or `least` is not in (0, 1], or `where` is not a plain condition.
    SourceError
        If there is no dataset, or it cannot be read.
    """
    for name, value in (("threshold", threshold), ("least", least)):
        if not 0 < value <= 1:
            raise PipelineError(f"{name}: expected more than 0 and at most 1, got {value}", got=value)
    rows = index.rows(where, columns=[*Videos.COLUMNS, "vector"])
    videos = Videos.of(rows)
    vectors = rows.column("vector").combine_chunks().flatten().to_numpy().reshape(-1, NUM_FEATURES)
    found: dict[tuple[str, str], Pair] = {}
    compared: set[tuple[int, int]] = set()
    for one, other, cosine in _neighbours(vectors, min(threshold, _CANDIDATE)):
        first, second = (videos.spans[video][number] for video, number in (videos.place[one], videos.place[other]))
        if first.source == second.source:
            continue
        theirs = videos.place[other][0]
        if len(videos.looks[videos.place[one][0]].seconds) and len(videos.looks[theirs].seconds):
            pair = None if (one, theirs) in compared else _aligned(videos, one, theirs, least)
            compared.add((one, theirs))
        else:
            pair = Pair(first, second, cosine) if cosine >= threshold - 1e-6 else None  # products are rounded
        if pair is not None:
            ids = sorted((pair.first.descriptor_id, pair.second.descriptor_id))
            found.setdefault((ids[0], ids[1]), pair)
    return sorted(found.values(), key=lambda pair: -pair.score)


def _neighbours(vectors: Array, least: float) -> Iterator[tuple[int, int, float]]:
    """Yield pairs of different rows with a cosine of `least` or more, the 16 nearest of each."""
    for start in range(0, len(vectors), _AT_ONCE):
        near, scores = best(vectors, vectors[start : start + _AT_ONCE], _NEIGHBOURS + 1)
        for query, place in zip(*np.nonzero(scores >= least - 1e-6), strict=True):
            if start + int(query) != int(near[query, place]):
                yield start + int(query), int(near[query, place]), float(scores[query, place])


def _aligned(videos: Videos, row: int, theirs: int, least: float) -> Pair | None:
    """Return a span together with the one of another video that holds a copy of its middle, if there is one."""
    ours, number = videos.place[row]
    first = videos.spans[ours][number]
    middle = (first.start_seconds + first.stop_seconds) / 2
    for copy in find_copies(videos.tracks.only(theirs), videos.looks[ours], middle, top=1, least=least):
        second = videos.span_of(copy)
        if second is not None:
            return Pair(first._replace(at_seconds=middle), second._replace(score=1.0), copy.score)
    return None
