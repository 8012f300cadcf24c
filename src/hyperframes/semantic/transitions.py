"""Where one picture gives way to another: cuts, fades through one tone, and flashes, which are neither."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from hyperframes.operators.activity import MEASURES

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["CUT_SCORE", "FLAT", "cut_score", "cut_scores", "is_cut", "returns"]

_SPREAD, _DIFFERENCE, _LIKENESS = (MEASURES.index(name) for name in ("spread", "difference", "likeness"))
CUT_SCORE: Final = 0.25
"""No step of a lower score is a cut."""
_CUT_RATIO: Final = 3.0
_DIFFERENCE_RATIO: Final = 1.5
_NEIGHBOURS: Final = 2
_RETURN_SHARE: Final = 0.35
FLAT: Final = 6.0
"""Grey levels: a picture with less deviation is one tone, as in the middle of a fade."""


def cut_score(before: Array, after: Array) -> float:
    """Return how much the step between two frames looks like a change of picture: about 1 for unrelated pictures.

    The mean difference over the deviation of grey levels, times what the cells of both pictures do not have in common.
    Motion changes pixels but hardly cells; a change of brightness changes pixels but not how cells correlate.

    Parameters
    ----------
    before, after : (38,) arrays of float32
        `hyperframes.operators.activity.MEASURES` of both frames.
    """
    spread = max(float(before[_SPREAD]), float(after[_SPREAD]))
    alike = min(1.0, max(0.0, float(after[_LIKENESS])))
    return float(after[_DIFFERENCE]) / (spread + 4.0) * (1.0 - alike)


def cut_scores(rows: Array) -> Array:
    """Return the `cut_score` of each of (T, 38) rows against the one before, (T,) float64; 0 for the first."""
    steps = itertools.pairwise(rows)
    return np.array([0.0, *(cut_score(before, after) for before, after in steps)][: len(rows)])


def is_cut(scores: Array, differences: Array, at: int) -> bool:
    """Whether there is a cut between the frames ``at - 1`` and `at`.

    The score must be high in itself, the highest of its neighbours, and several times the median around it: fast motion
    and trembling cameras are high for long. The difference must stand out from those before and after: in fades and
    dissolves it does not.

    Parameters
    ----------
    scores : (T,) array of float64
        `cut_scores` of the steps around.
    differences : (T,) array
        Mean absolute differences of the same steps.
    at : int
        The step asked about.
    """
    score = scores[at]
    if score < CUT_SCORE:
        return False
    near = scores[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1]
    beside = [float(differences[k]) for k in (at - 1, at + 1) if 0 <= k < len(differences)]
    others = np.delete(scores, at)
    alone = float(differences[at]) >= _DIFFERENCE_RATIO * max(beside, default=0.0)
    return bool(alone and score >= near.max() and (not others.size or score >= _CUT_RATIO * np.median(others)))


def returns(before: Array, later: Array, difference: float) -> bool:
    """Whether a later picture looks like the one before a jump of mean `difference` grey levels: then it was a flash."""
    gone = np.abs(later.astype(np.int16) - before).mean()
    return bool(gone < _RETURN_SHARE * difference)
