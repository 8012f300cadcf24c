"""Copies: where in described videos a stretch of video was taken from, although it was encoded anew, cropped or retimed."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyperframes.frames import Array
from hyperframes.kernels import kernel
from hyperframes.semantic.look import LOOK_SECONDS, NUM_LOOK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.semantic.look import Looks

__all__ = ["LEAST_SCORE", "QUERY_SECONDS", "Copy", "Tracks", "find_copies"]

LEAST_SCORE: Final = 0.7
"""What is less alike is no copy."""
QUERY_SECONDS: Final = 2.5
"""How far to both sides of an instant its looks are compared."""
KNOWN_SECONDS: Final = QUERY_SECONDS + 2.0
"""How far to both sides looks are of use: what each differs from lies two seconds around it."""
LEAST_LOOKS: Final = 4
"""Of fewer it cannot be told where they come from."""
_AROUND: Final = 10  # steps to both sides: what a look differs from
_GAIN: Final = (
    6.0  # of the difference, beside the look itself: before a fixed camera only what moves tells instants apart
)
_GAP_SECONDS: Final = 1.0
_RATES: Final = np.geomspace(0.5, 2, 21)  # a step of 7 %: a look two seconds away is off by less than half a step
_FINE: Final = 2  # instants that are tried, a step
_APART_SECONDS: Final = 1.0
_AT_ONCE: Final = 1 << 18  # steps whose products are held at a time


class Copy(NamedTuple):
    """Where a stretch of video was found."""

    video: int
    """Which of the videos that were given."""
    seconds: float
    """When what was asked for stands there."""
    rate: float
    """Seconds there for a second of what was asked for."""
    score: float
    """The mean cosine of looks, 1 for the same."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """Looks of several videos in even steps, ready to be compared."""

    video: Array
    """(p,) int64, ascending: which of the videos each unbroken piece is of."""
    origin: Array
    """(p,) float64: when it begins."""
    edges: Array
    """(p + 1,) int64: piece k has rows [edges[k], edges[k + 1])."""
    rows: Array
    """(n, 126) float32 of unit length: the look, and how it differs from those around it."""

    @classmethod
    def of(cls, videos: Sequence[Looks]) -> Tracks:
        """Return the tracks of videos; where looks are missing for a second or more a new piece begins."""
        numbers, origins, several = [], [], []
        for number, looks in enumerate(videos):
            for first, stop in _unbroken(looks.seconds):
                numbers.append(number)
                origins.append(float(looks.seconds[first]))
                several.append(_rows(looks.seconds[first:stop], looks.values[first:stop]))
        edges = np.concatenate([[0], np.cumsum([len(rows) for rows in several])]).astype(np.int64)
        joined = np.concatenate([np.zeros((0, 2 * NUM_LOOK), np.float32), *several])
        return cls(np.array(numbers, np.int64), np.array(origins), edges, joined)

    def only(self, video: int) -> Tracks:
        """Return the tracks of one of the videos, without copying them."""
        first, stop = np.searchsorted(self.video, (video, video + 1))
        edges = self.edges[first : stop + 1]
        return Tracks(
            self.video[first:stop], self.origin[first:stop], edges - edges[0], self.rows[edges[0] : edges[-1]]
        )


def find_copies(tracks: Tracks, asked: Looks, at: float, *, top: int = 10, least: float = LEAST_SCORE) -> list[Copy]:
    """Return where the looks around an instant are found, best first.

    Parameters
    ----------
    tracks : Tracks
        What is searched.
    asked : Looks
        Of one video; those up to 2.5 seconds from `at` are compared, and those two seconds further say what they differ from.
    at : float
        The instant, in seconds of that video.
    top : int
        How many are wanted at most; instants of one piece less than a second apart count once.
    least : float
        The least score.

    Returns
    -------
    list of Copy
        None where too few looks are known around the instant.

    Notes
    -----
    A Hough transform [1]_ over when the instant stands in a piece, in tenths of a second, and how much faster it plays there, 21 rates
    from half to twice: the score is the mean over the looks asked for of the cosine with the look, interpolated, that would
    then correspond, 0 beyond the ends. All of the pieces are looked at; costs one matrix product with their rows, and 42
    sums a row over the looks asked for.

    References
    ----------
    .. [1] R. O. Duda, P. E. Hart, "Use of the Hough Transformation to Detect Lines and Curves in Pictures", Communications of the
       ACM 15, 1972. DOI: 10.1145/361237.361242
    """
    near = np.abs(asked.seconds - at) <= KNOWN_SECONDS
    if not near.any() or not len(tracks.rows):
        return []
    seconds, values = asked.seconds[near], asked.values[near]
    times = np.arange(seconds[0], seconds[-1] + 1e-9, LOOK_SECONDS)
    compared = np.abs(times - at) <= QUERY_SECONDS + 1e-9
    if np.count_nonzero(compared) < LEAST_LOOKS:
        return []
    queries = _joined(_between(seconds, values, times))[compared]
    steps = (times[compared] - at) / LOOK_SECONDS
    found: list[Copy] = []
    for first, stop in _groups(tracks.edges):
        low, high = tracks.edges[first], tracks.edges[stop]
        products = queries @ tracks.rows[low:high].T
        for k in range(first, stop):
            part = np.ascontiguousarray(products[:, tracks.edges[k] - low : tracks.edges[k + 1] - low])
            scores, rates = _voted(part, steps, _RATES, _FINE)
            found += _peaks(scores, rates, int(tracks.video[k]), float(tracks.origin[k]), top, least)
    return sorted(found, key=lambda copy: -copy.score)[:top]


def _unbroken(seconds: Array) -> list[tuple[int, int]]:
    """Return the ranges of looks without gaps."""
    if not len(seconds):
        return []
    edges = [0, *(np.flatnonzero(np.diff(seconds) >= _GAP_SECONDS) + 1).tolist(), len(seconds)]
    return list(itertools.pairwise(edges))


def _rows(seconds: Array, values: Array) -> Array:
    """Return rows in even steps from the first look on."""
    steps = np.arange(seconds[0], seconds[-1] + LOOK_SECONDS / 2, LOOK_SECONDS)
    return _joined(_between(seconds, values, steps))


def _between(seconds: Array, values: Array, wanted: Array) -> Array:
    """Return looks at other times, linear between those that are known, (n, 63) float64."""
    k = np.clip(np.searchsorted(seconds, wanted), 1, max(1, len(seconds) - 1))
    before, after = np.minimum(k - 1, len(seconds) - 1), np.minimum(k, len(seconds) - 1)
    span = np.maximum(seconds[after] - seconds[before], 1e-9)
    share = np.clip((wanted - seconds[before]) / span, 0, 1)[:, None]
    return np.asarray((1 - share) * values[before].astype(np.float64) + share * values[after].astype(np.float64))


def _joined(looks: Array) -> Array:
    """Return looks and, beside each, how it differs from the mean of those around it; of unit length, or zero."""
    total = np.concatenate([np.zeros((1, looks.shape[1])), np.cumsum(looks, axis=0)])
    number = np.arange(len(looks))
    low, high = np.maximum(0, number - _AROUND), np.minimum(len(looks), number + _AROUND + 1)
    mean = (total[high] - total[low]) / (high - low)[:, None]
    both = np.concatenate([looks, _GAIN * (looks - mean)], axis=1)
    lengths = np.linalg.norm(both, axis=1, keepdims=True)
    units: Array = np.divide(both, lengths, out=np.zeros_like(both), where=lengths > 1e-6).astype(np.float32)
    return units


def _groups(edges: Array) -> list[tuple[int, int]]:
    """Return ranges of pieces whose products are made at once."""
    ranges, first = [], 0
    while first < len(edges) - 1:
        stop = max(first + 1, int(np.searchsorted(edges, edges[first] + _AT_ONCE, side="right")) - 1)
        ranges.append((first, stop))
        first = stop
    return ranges


@kernel
def _voted(products: Any, steps: Any, rates: Any, fine: int) -> Any:  # pragma: no cover - compiled
    """Return for each instant of a piece the best mean over rates, and which rate: two (fine * (n - 1) + 1,) arrays."""
    asked, count = products.shape
    instants = fine * (count - 1) + 1
    scores, chosen = np.zeros(instants, np.float32), np.zeros(instants, np.int64)
    for instant in range(instants):
        for number in range(len(rates)):
            total = 0.0
            for k in range(asked):
                place = instant / fine + rates[number] * steps[k]
                low = math.floor(place)
                if low < -1 or low >= count:
                    continue
                share = place - low
                if low >= 0:
                    total += (1 - share) * products[k, low]
                if low + 1 < count:
                    total += share * products[k, low + 1]
            if total > scores[instant] * asked:
                scores[instant], chosen[instant] = total / asked, number
    return scores, chosen


def _peaks(scores: Array, rates: Array, video: int, origin: float, top: int, least: float) -> list[Copy]:
    """Return the best instants of a piece, a second or more apart."""
    apart = round(_APART_SECONDS * _FINE / LOOK_SECONDS)
    left = scores.copy()
    found: list[Copy] = []
    while len(found) < top:
        best = int(left.argmax())
        if left[best] < least:
            break
        seconds = origin + best * LOOK_SECONDS / _FINE
        found.append(Copy(video, seconds, float(_RATES[rates[best]]), float(min(1.0, scores[best]))))
        left[max(0, best - apart + 1) : best + apart] = -1
    return found
