"""Vectors that can be compared, and the exact search over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hyperframes.kernels import kernel
from hyperframes.semantic.descriptor import PARTS

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["NUM_FEATURES", "best", "comparable"]

NUM_FEATURES: Final = 512
_BLOCK_BYTES: Final = 4 << 20  # of scores at a time: they stay in cache, and many queries need little more memory


def comparable(features: Array) -> Array:
    """Return features so that the scalar product of two is how alike they are.

    Parameters
    ----------
    features : (n, 512) array
        As in `Descriptor.semantic_features`: parts that are not valid are zero.

    Returns
    -------
    (n, 512) array of float32
        Each part divided by its length, then all by the square root of how many parts are not zero: of unit length, or
        zero. So a part counts by its direction only, whatever its scale, and alike means the mean cosine of the parts.
    """
    parts = np.asarray(features, np.float64).reshape(len(features), len(PARTS), -1)
    lengths = np.linalg.norm(parts, axis=2, keepdims=True)
    present = lengths > 0
    counts = present.sum(axis=1, keepdims=True)
    units = np.divide(parts, lengths * np.sqrt(counts), out=np.zeros_like(parts), where=present)
    vectors: Array = units.reshape(len(features), NUM_FEATURES).astype(np.float32)
    return vectors


def best(vectors: Array, queries: Array, top: int, allowed: Array | None = None) -> tuple[Array, Array]:
    """Return the rows with the greatest scalar product with each query: every row is looked at.

    Parameters
    ----------
    vectors : (n, d) array of float32
        What is searched.
    queries : (q, d) array of float32
        What is looked for.
    top : int
        How many rows are wanted a query.
    allowed : (n,) array of bool, optional
        Which rows may be found; all by default.

    Returns
    -------
    rows : (q, k) array of int64
        Best first, of equal ones the lower row; k is `top`, or the number of allowed rows where that is less.
    scores : (q, k) array of float32
        Their scalar products.
    """
    count = len(vectors) if allowed is None else int(np.count_nonzero(allowed))
    top = min(top, count)
    rows = np.full((len(queries), top), -1, np.int64)
    scores = np.full((len(queries), top), -np.inf, np.float32)
    if not top:
        return rows, scores
    block = max(1, _BLOCK_BYTES // (4 * len(queries)))
    for first in range(0, len(vectors), block):
        part = vectors[first : first + block]
        found = (part @ queries[0])[None] if len(queries) == 1 else queries @ part.T
        if allowed is not None:
            found[:, ~allowed[first : first + block]] = -np.inf
        _keep_best(found, first, rows, scores)
    return rows, scores


@kernel
def _keep_best(found: Array, first: int, rows: Array, scores: Array) -> None:
    """Put what is greater than the least of `scores` in its place; most entries cost one comparison."""
    top = scores.shape[1]
    for query in range(found.shape[0]):
        line, kept, where = found[query], scores[query], rows[query]
        least = kept[top - 1]
        for k in range(line.shape[0]):
            score = line[k]
            if score > least:
                place = top - 1
                while place > 0 and kept[place - 1] < score:
                    kept[place], where[place] = kept[place - 1], where[place - 1]
                    place -= 1
                kept[place], where[place] = score, first + k
                least = kept[top - 1]
