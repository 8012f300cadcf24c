"""How good answers are: macro-F1, and how far it might be off, counted in units that belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.frames import Array

__all__ = ["accuracy", "confusion", "interval", "macro_f1", "paired_interval"]


def confusion(truth: Array, answers: Array, classes: int) -> Array:
    """Return how often each class (row) was taken for each (column), (K, K) int64."""
    return np.bincount(truth * classes + answers, minlength=classes * classes).reshape(classes, classes)


def accuracy(truth: Array, answers: Array) -> float:
    """Return the share of right answers."""
    return float((truth == answers).mean())


def macro_f1(truth: Array, answers: Array, classes: int) -> float:
    """Return the mean over the classes of ``2 TP / (2 TP + FP + FN)``; classes that are neither there nor given count not."""
    table = confusion(truth, answers, classes)
    right, all_of = np.diag(table), table.sum(0) + table.sum(1)
    there = all_of > 0
    return float((2 * right[there] / all_of[there]).mean()) if there.any() else 0.0


def interval(
    truth: Array, answers: Array, classes: int, units: Sequence[str], *, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % interval of `macro_f1` when units are drawn anew with replacement; see `paired_interval`."""
    rows = _drawn(units, draws, seed)
    found = [macro_f1(truth[r], answers[r], classes) for r in rows]
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))


def paired_interval(
    truth: Array,
    ours: Array,
    theirs: Array,
    classes: int,
    units: Sequence[str],
    *,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the 95 % interval of how much higher the macro-F1 of `ours` is than that of `theirs`.

    Parameters
    ----------
    truth : (N,) int64
    ours, theirs : (N,) or (R, N) int64
        Answers; of R runs each, whose differences are averaged within a draw.
    classes : int
    units : sequence of str, length N
        What each was recorded with: whole units are drawn with replacement, and both sides see the same draw.
    draws, seed : int

    References
    ----------
    .. [1] B. Efron, R. Tibshirani, "An introduction to the bootstrap", 1993.
    """
    ours, theirs = np.atleast_2d(ours), np.atleast_2d(theirs)
    found = []
    for rows in _drawn(units, draws, seed):
        sides = [np.mean([macro_f1(truth[rows], run[rows], classes) for run in side]) for side in (ours, theirs)]
        found.append(sides[0] - sides[1])
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))


def _drawn(units: Sequence[str], draws: int, seed: int) -> list[Array]:
    names = sorted(set(units))
    if not names:
        raise FrameError("an interval needs at least one unit")
    members = [np.flatnonzero(np.array([unit == name for unit in units])) for name in names]
    random = np.random.default_rng(seed)
    return [np.concatenate([members[i] for i in random.integers(0, len(names), len(names))]) for _ in range(draws)]
