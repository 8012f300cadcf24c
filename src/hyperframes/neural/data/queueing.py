"""Which unlabelled samples are worth a person's time: those that a model is unsure of, none like another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hyperframes.errors import FrameError

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["Candidate", "hardest"]


class Candidate(NamedTuple):
    """A sample that should be labelled next."""

    place: int
    """Among those that were asked about."""
    unsure: float
    """From 0 (sure) to 1 (no idea)."""
    distance: float
    """How unlike those before it in the queue it is, from 0 to 1."""


def hardest(
    probabilities: Array,
    embeddings: Array | None = None,
    *,
    count: int,
    by: Literal["entropy", "margin"] = "entropy",
    diversity: float = 0.5,
) -> list[Candidate]:
    """Return the `count` samples to label next, the most telling first.

    Parameters
    ----------
    probabilities : (N, K) array
        Of the classes, rows add up to 1.
    embeddings : (N, D) array, optional
        Pooled tensors; without them only uncertainty counts.
    count : int
    by : {"entropy", "margin"}
        How unsure: the entropy over its maximum, or 1 less the lead of the best class.
    diversity : float
        Weight in [0, 1] of the cosine distance to the nearest sample already chosen.

    Notes
    -----
    Greedy; ties go to the lower index. A duplicate of a chosen sample has the distance 0.

    References
    ----------
    .. [1] B. Settles, "Active learning literature survey", University of Wisconsin-Madison TR 1648, 2009.
    .. [2] O. Sener, S. Savarese, "Active learning for convolutional neural networks: a core-set approach", ICLR 2018,
       arXiv:1708.00489.
    """
    p = np.asarray(probabilities, np.float64)
    if p.ndim != 2 or p.shape[1] < 2 or (p < -1e-6).any() or (np.abs(p.sum(1) - 1) > 1e-3).any():
        raise FrameError(f"probabilities are (N, K) with rows that add up to 1: got {p.shape}")
    if not 0 <= diversity <= 1 or count < 0:
        raise FrameError(f"a count of at least 0 and a diversity in [0, 1]: got {count} and {diversity}")
    p = np.clip(p, 0, 1)
    if by == "margin":
        two = np.sort(p, axis=1)[:, -2:]
        unsure = 1 - (two[:, 1] - two[:, 0])
    else:
        unsure = -(p * np.log(np.where(p > 0, p, 1))).sum(1) / np.log(p.shape[1])
    unit = None
    if embeddings is not None:
        values = np.asarray(embeddings, np.float64)
        unit = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    distance = np.ones(len(p))
    left = np.ones(len(p), bool)
    chosen = []
    share = diversity if unit is not None else 0.0
    for _ in range(min(count, len(p))):
        score = np.where(left, (1 - share) * unsure + share * distance, -np.inf)
        best = int(score.argmax())
        chosen.append(Candidate(best, float(unsure[best]), float(distance[best])))
        left[best] = False
        if unit is not None:
            distance = np.minimum(distance, np.clip((1 - unit @ unit[best]) / 2, 0, 1))
    return chosen
