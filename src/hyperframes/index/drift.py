"""Whether what is described now still looks like it did: a baseline of features, and a monitor part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.semantic.descriptor import PARTS

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["FIFTEEN_PERCENT", "Baseline", "Drift", "DriftRule"]

_FLOOR: Final = 1e-3  # of norms and spreads: below it a relative deviation has no meaning
_MOST_CORRELATION: Final = 0.99


@dataclass(frozen=True, slots=True)
class DriftRule:
    """When a part counts as drifted: all three must hold, so that neither chance nor habit raises an alarm."""

    deviation: float = 0.15
    """How far the mean may move, as a share of the baseline's norm."""
    z_score: float = 4.0
    """How many standard errors its distance from the baseline's mean may rise."""
    min_samples: int = 30
    """Fewer are not judged."""


FIFTEEN_PERCENT: Final = DriftRule()
"""An alarm where a part's mean has moved by more than 15 percent, and that is no chance."""


class Drift(NamedTuple):
    """What is known of one part."""

    part: str
    deviation: float
    """Distance of the mean from the baseline's, as a share of the baseline's norm (or of a floor)."""
    z_score: float
    """Rise of the mean distance from the baseline's mean, in standard errors that allow for alike neighbours."""
    num_samples: int
    num_independent: float
    """How many independent samples these are worth."""
    alarm: bool
    """False also where there are too few samples to judge."""


class Baseline:
    """How features are when all is well; what comes later is compared with it.

    Parameters
    ----------
    features : (n, 512) array
        Of consecutive descriptors, in order of time, as in `Descriptor.semantic_features`.

    Raises
    ------
    FrameError
        If they have another shape, are not finite, or are fewer than two.

    Notes
    -----
    Neighbours in a video are alike, so n samples are worth n (1 - r) / (1 + r) independent ones, where r is the lag-1
    autocorrelation of the distances [1]_; without that the baseline would raise alarms on itself. What the baseline does
    anyhow is no drift either: a part must deviate more than every stretch of the baseline of the same length did.

    References
    ----------
    .. [1] G. V. Bayley, J. M. Hammersley, "The 'Effective' Number of Independent Observations in an Autocorrelated Time
       Series", Supplement to the Journal of the Royal Statistical Society 8(2), 1946. DOI: 10.2307/2983560
    """

    def __init__(self, features: Array) -> None:
        self._parts = _parts(features)
        if len(self._parts) < 2:
            raise FrameError(f"a baseline: expected 2 or more samples, got {len(self._parts)}", expected="2 or more")
        self._means = self._parts.mean(axis=0)
        self._norms = np.maximum(np.linalg.norm(self._means, axis=1), _FLOOR)
        distances = self._distances(self._parts)
        self._usual = distances.mean(axis=0)
        self._spread = np.maximum(distances.std(axis=0), _FLOOR * self._norms)
        self._correlation = np.array([_correlation(line) for line in distances.T])

    def check(self, features: Array, rule: DriftRule = FIFTEEN_PERCENT) -> list[Drift]:
        """Return for each part how far later features are from the baseline, and whether that is an alarm.

        Parameters
        ----------
        features : (m, 512) array
            Of the last hour, say, in order of time.
        rule : DriftRule
            When to raise an alarm.

        Returns
        -------
        list of Drift
            One a part, in the order of `PARTS`.

        Raises
        ------
        FrameError
            If they have another shape, or are not finite.
        """
        parts = _parts(features)
        count = len(parts)
        if not count:
            return [Drift(name, 0.0, 0.0, 0, 0.0, False) for name in PARTS]
        deviations = np.linalg.norm(parts.mean(axis=0) - self._means, axis=1) / self._norms
        distances = self._distances(parts)
        usual = self._usual_deviations(count)
        found = []
        for k, name in enumerate(PARTS):
            correlation = max(self._correlation[k], _correlation(distances[:, k]))
            worth, known = (max(1.0, n * (1 - correlation) / (1 + correlation)) for n in (count, len(self._parts)))
            error = self._spread[k] * np.sqrt(1 / worth + 1 / known)
            z_score = float((distances[:, k].mean() - self._usual[k]) / error)
            beyond = deviations[k] > max(rule.deviation, usual[k]) and z_score > rule.z_score
            alarm = bool(count >= rule.min_samples and beyond)
            found.append(Drift(name, float(deviations[k]), z_score, count, float(worth), alarm))
        return found

    def _distances(self, parts: Array) -> Array:
        """Return (n, 4): how far each sample is from the baseline's mean, by part."""
        distances: Array = np.linalg.norm(parts - self._means, axis=2)
        return distances

    def _usual_deviations(self, count: int) -> Array:
        """Return (4,): the largest deviation of any stretch of the baseline of `count` samples."""
        count = min(count, len(self._parts))
        sums = np.cumsum(np.concatenate([np.zeros((1, *self._parts.shape[1:])), self._parts]), axis=0)
        means = (sums[count:] - sums[:-count]) / count
        largest: Array = np.linalg.norm(means - self._means, axis=2).max(axis=0) / self._norms
        return largest


def _parts(features: Array) -> Array:
    """Return (n, 4, 128) float64."""
    features = np.asarray(features)
    if features.ndim != 2 or features.shape[1] != 512 or not np.isfinite(features).all():
        raise FrameError(
            f"features to watch: expected finite numbers (n, 512), got {features.shape} {features.dtype}",
            expected="(n, 512)",
            got=features.shape,
        )
    parts: Array = features.astype(np.float64).reshape(len(features), len(PARTS), 128)
    return parts


def _correlation(line: Array) -> float:
    """Return the lag-1 autocorrelation, in [0, 0.99]."""
    centred = line - line.mean()
    power = float(centred @ centred)
    if len(line) < 3 or power <= 0:
        return 0.0
    return min(_MOST_CORRELATION, max(0.0, float(centred[1:] @ centred[:-1]) / power))
