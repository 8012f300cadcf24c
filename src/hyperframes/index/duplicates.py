"""Near duplicates: spans of a dataset that are so alike that they probably show the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.index.search import Hit
from hyperframes.index.vectors import NUM_FEATURES, best

if TYPE_CHECKING:
    from hyperframes.index.search import Index

__all__ = ["Pair", "find_duplicates"]

_AT_ONCE: Final = 256
_NEIGHBOURS: Final = 16


class Pair(NamedTuple):
    """Two spans that are alike."""

    first: Hit
    second: Hit
    score: float
    """The cosine of their features."""


def find_duplicates(index: Index, *, threshold: float = 0.98, where: str | None = None) -> list[Pair]:
    """Return pairs of spans of different sources that are alike, the most alike first.

    Parameters
    ----------
    index : Index
        What is looked through.
    threshold : float
        The least cosine.
    where : str, optional
        Only look at spans that meet this condition.

    Returns
    -------
    list of Pair
        Each once. Of every span the 16 that are most alike are looked at, so a whole crowd of copies is found as a chain.

    Raises
    ------
    PipelineError
        If `threshold` is not in (0, 1], or `where` is not a plain condition.
    SourceError
        If there is no dataset, or it cannot be read.
    """
    if not 0 < threshold <= 1:
        raise PipelineError(f"threshold: expected more than 0 and at most 1, got {threshold}", got=threshold)
    rows = index.rows(where, columns=["source", "start_seconds", "stop_seconds", "descriptor_id", "vector"])
    vectors = rows.column("vector").combine_chunks().flatten().to_numpy().reshape(-1, NUM_FEATURES)
    spans = rows.select(["source", "start_seconds", "stop_seconds", "descriptor_id"]).to_pylist()
    found: dict[tuple[int, int], float] = {}
    for start in range(0, len(vectors), _AT_ONCE):
        near, scores = best(vectors, vectors[start : start + _AT_ONCE], _NEIGHBOURS + 1)
        alike = scores >= threshold - 1e-6  # rounding of scalar products
        for query, place in zip(*np.nonzero(alike), strict=True):
            one, other = sorted((start + int(query), int(near[query, place])))
            if spans[one]["source"] != spans[other]["source"]:
                found[one, other] = float(scores[query, place])
    hits = [Hit(s["source"], s["start_seconds"], s["stop_seconds"], 1.0, s["descriptor_id"]) for s in spans]
    pairs = [Pair(hits[one], hits[other], score) for (one, other), score in found.items()]
    return sorted(pairs, key=lambda pair: -pair.score)
