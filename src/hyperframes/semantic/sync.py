"""How much later sound comes than the motion that makes it, and how that changes over a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.media.audio import read_cues, read_sound

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from hyperframes.frames import Array
    from hyperframes.media.audio import Sound
    from hyperframes.semantic.descriptor import Anchor
    from hyperframes.semantic.timeline import Timeline

__all__ = ["Lag", "Onsets", "Sync", "estimate_lag", "measure_sync", "onset_strength"]

_HZ: Final = 200
"""Onset strength and motion are compared at this many instants a second."""
_RATE: Final = 16_000
_WINDOW: Final = 256
_HOP: Final = _RATE // _HZ
_BACK: Final = 2  # hops between the two spectra that are compared
_BANDS: Final = 24
_QUIET: Final = 1e-7  # mean power of -70 dB: what is softer counts as silence
_MOST_SECONDS: Final = 0.5
_SMOOTH_SECONDS: Final = 0.02
_LEAST_ONSETS: Final = 4
_LEAST_CORRELATION: Final = 0.3
_LEAST_RATIO: Final = 1.5
_WINDOW_SECONDS: Final = 20.0


class Lag(NamedTuple):
    """How much later sound comes than motion, over some stretch."""

    seconds: float
    """Middle of the stretch."""
    lag_seconds: float | None
    """None where it cannot be told."""
    confidence: float
    """The correlation at that lag, in [0, 1]; 0 where it cannot be told."""


class Onsets(NamedTuple):
    """Onset strength by time."""

    seconds: Array
    """(N,) float64, ascending."""
    strength: Array
    """(N,) float64: mean rise of the logarithm of power over the bands."""


@dataclass(frozen=True)
class Sync:
    """What is known about sound and picture of a file."""

    lag_seconds: float | None
    """How much later sound comes than motion; None where that cannot be told."""
    confidence: float
    """In [0, 1]."""
    drift: float | None = None
    """Seconds of lag gained a second, where two stretches or more show a lag."""
    stretches: tuple[Lag, ...] = ()
    cues: tuple[tuple[float, float], ...] = ()
    """When subtitles are on screen."""

    def correct(self, anchors: Iterable[Anchor]) -> tuple[Anchor, ...]:
        """Return anchors moved towards the sound: ``t' = t + c * lag`` with the confidence c times the text factor.

        The text factor is 1 where there are no subtitles; else 1 for anchors while text is on screen and one half for the
        others. Anchors that would fall on one time keep the heavier one.
        """
        if self.lag_seconds is None:
            return tuple(anchors)
        moved: dict[float, Anchor] = {}
        for anchor in anchors:
            shown = not self.cues or any(start <= anchor.seconds < stop for start, stop in self.cues)
            at = anchor.seconds + self.confidence * (1.0 if shown else 0.5) * self.lag_seconds
            if at not in moved or moved[at].weight < anchor.weight:
                moved[at] = anchor._replace(seconds=at)
        return tuple(moved[at] for at in sorted(moved))


def onset_strength(sound: Iterable[Sound]) -> Onsets:
    """Return how strongly sound begins, 200 times a second, from pieces of 16,000 samples a second.

    Half-wave rectified rise of the logarithm of power, over 10 ms, in 24 bands, averaged. The time is that of the
    newest samples looked at: a click at t gives its peak within 5 ms of t. Works piece by piece, in bounded memory; where
    pieces do not follow one another it begins anew.
    """
    seconds: list[Array] = []
    strengths: list[Array] = []
    held = np.empty(0, np.float32)
    start = 0.0
    for piece in sound:
        if abs(piece.start_seconds - (start + len(held) / _RATE)) > 0.5 / _RATE:
            held, start = np.empty(0, np.float32), piece.start_seconds
        held = np.concatenate([held, piece.samples])
        if len(held) >= 4 * _RATE:
            held, start = _take(held, start, seconds, strengths)
    _take(held, start, seconds, strengths)
    empty = np.empty(0)
    return Onsets(np.concatenate([empty, *seconds]), np.concatenate([empty, *strengths]))


def _take(held: Array, start: float, seconds: list[Array], strengths: list[Array]) -> tuple[Array, float]:
    """Add what `held` shows, and return what the next piece needs of it."""
    count = (len(held) - _WINDOW) // _HOP + 1
    if count <= _BACK:
        return held, start
    spectra = np.abs(np.fft.rfft(np.lib.stride_tricks.sliding_window_view(held, _WINDOW)[::_HOP] * np.hanning(_WINDOW)))
    edges = np.unique(np.rint(np.geomspace(1, _WINDOW // 2, _BANDS + 1)).astype(int))
    power = np.add.reduceat(spectra**2, edges[:-1], axis=1) / (_WINDOW * np.diff(edges))
    level = np.log(power + _QUIET)
    strengths.append(np.maximum(0.0, level[_BACK:] - level[:-_BACK]).mean(axis=1))
    newest = (np.arange(_BACK, count) * _HOP + _NEWEST) / _RATE
    seconds.append(start + newest)
    used = (count - _BACK) * _HOP
    return held[used:], start + used / _RATE


_NEWEST: Final = 0.8 * _WINDOW
"""Where in its window a click is first heard; the taper hides the last samples."""


def estimate_lag(onsets: Onsets, seconds: Array, motion: Array) -> Lag:
    """Return how much later sound comes than motion, from -0.5 to 0.5 s, where that can be told.

    Parameters
    ----------
    onsets : Onsets
        Of the sound.
    seconds : (N,) array of float64
        Times of frames, ascending.
    motion : (N,) array
        How much each frame moves against the one before.

    Returns
    -------
    Lag
        Of the greatest normalised correlation between onsets and rises of motion. None is told where either has fewer than
        four clear onsets, where the correlation is below 0.3, or where it is less than 1.5 times the greatest at lags that
        cannot be (beyond 0.5 s, as far as the stretch allows): by chance it would be as high.

    Raises
    ------
    FrameError
        If there are not as many times as values of motion.
    """
    if len(seconds) != len(motion):
        raise FrameError(
            f"motion has one value a frame: expected {len(seconds)}, got {len(motion)}",
            expected=len(seconds),
            got=len(motion),
        )
    begin = max(seconds[0], onsets.seconds[0]) if len(seconds) and len(onsets.seconds) else 0.0
    stop = min(seconds[-1], onsets.seconds[-1]) if len(seconds) and len(onsets.seconds) else 0.0
    middle = float(begin + stop) / 2
    grid = np.arange(begin, stop, 1 / _HZ)
    if len(grid) < 2 * _HZ:
        return Lag(middle, None, 0.0)
    rises = np.maximum(0.0, np.diff(np.asarray(motion, np.float64), prepend=motion[0]))
    sound, sight = _events(onsets.seconds, onsets.strength), _events(seconds, rises)
    if min(np.count_nonzero(sound), np.count_nonzero(sight)) < _LEAST_ONSETS:
        return Lag(middle, None, 0.0)
    correlation, lags = _correlation(_spread(grid, onsets.seconds, sound), _spread(grid, seconds, sight))
    near = np.abs(lags) <= round(_MOST_SECONDS * _HZ)
    best = int(np.flatnonzero(near)[np.argmax(correlation[near])])
    peak, chance = float(correlation[best]), float(correlation[~near].max())
    if peak < _LEAST_CORRELATION or peak < _LEAST_RATIO * chance:
        return Lag(middle, None, 0.0)
    return Lag(middle, float(lags[best] + _vertex(correlation[best - 1 : best + 2])) / _HZ, min(1.0, peak))


def _events(seconds: Array, strength: Array) -> Array:
    """Return `strength` at its clear peaks, limited to twice their median, and 0 elsewhere."""
    events = np.zeros(len(strength))
    if len(strength) < 3:
        return events
    floor = np.median(strength) + 4 * np.median(np.abs(strength - np.median(strength)))
    peaks = (strength[1:-1] >= strength[:-2]) & (strength[1:-1] > strength[2:])
    where = 1 + np.flatnonzero(peaks & (strength[1:-1] > max(floor, 0.25 * strength.max())))
    # Of peaks within a tenth of a second the highest counts.
    kept = [k for k in where if strength[k] >= strength[np.abs(seconds - seconds[k]) < 0.1].max()]
    if kept:
        events[kept] = np.minimum(strength[kept], 2 * np.median(strength[kept]))
    return events


def _spread(grid: Array, seconds: Array, events: Array) -> Array:
    """Return events as bumps 20 ms wide on the grid: sampling times are never quite the same."""
    series = np.zeros(len(grid))
    for k in np.flatnonzero(events):
        series += events[k] * np.exp(-0.5 * ((grid - seconds[k]) / _SMOOTH_SECONDS) ** 2)
    return series


def _correlation(sound: Array, sight: Array) -> tuple[Array, Array]:
    """Return the correlation by lag in grid steps, divided as if all of both overlapped."""
    a, b = sound - sound.mean(), sight - sight.mean()
    size = 1 << (2 * len(a) - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(a, size) * np.conj(np.fft.rfft(b, size)), size)
    most = min(len(a) - 1, 10 * _HZ)
    lags = np.arange(-most, most + 1)
    power = float(np.sqrt((a @ a) * (b @ b)))
    return product[lags] / max(power, 1e-12), lags


def _vertex(three: Array) -> float:
    """Return where the parabola through three points is highest, from -0.5 to 0.5 steps."""
    if len(three) < 3:
        return 0.0
    bend = three[0] - 2 * three[1] + three[2]
    return float(np.clip(0.5 * (three[0] - three[2]) / bend, -0.5, 0.5)) if bend < 0 else 0.0


def measure_sync(url: str | os.PathLike[str], timeline: Timeline) -> Sync:
    """Return lag and drift of a file's sound against its picture.

    Parameters
    ----------
    url : str or path
        The file the timeline was found in.
    timeline : Timeline
        Its times and activity.

    Returns
    -------
    Sync
        The lag of the whole file, where it can be told; the drift is the slope through the lags of stretches of 20 s.

    Raises
    ------
    SourceError
        If it cannot be opened.
    """
    onsets = onset_strength(read_sound(url))
    motion = _motion(timeline)
    whole = estimate_lag(onsets, timeline.seconds, motion)
    stretches = tuple(_stretches(onsets, timeline.seconds, motion))
    known = [stretch for stretch in stretches if stretch.lag_seconds is not None]
    if whole.lag_seconds is None and known:  # a drift may wash the whole out
        middle = sorted(known, key=lambda stretch: stretch.lag_seconds or 0.0)[len(known) // 2]
        whole = middle
    return Sync(whole.lag_seconds, whole.confidence, _slope(known), stretches, tuple(read_cues(url)))


def _motion(timeline: Timeline) -> Array:
    """Return activity, and the most there is at cuts and flashes: a jump of the picture is seen as motion is."""
    motion = np.array(timeline.activity, np.float64)
    jumps = [anchor.seconds for anchor in timeline.anchors if anchor.kind in {"cut", "flash"}]
    motion[np.searchsorted(timeline.seconds, np.array(jumps) - 1e-6)] = max(1.0, motion.max(initial=0.0))
    return motion


def _stretches(onsets: Onsets, seconds: Array, motion: Array) -> Iterable[Lag]:
    if not len(seconds) or seconds[-1] - seconds[0] < 2 * _WINDOW_SECONDS:
        return
    for start in np.arange(seconds[0], seconds[-1] - _WINDOW_SECONDS / 2, _WINDOW_SECONDS):
        frames = (seconds >= start) & (seconds < start + _WINDOW_SECONDS)
        sound = (onsets.seconds >= start) & (onsets.seconds < start + _WINDOW_SECONDS)
        if frames.any() and sound.any():
            part = Onsets(onsets.seconds[sound], onsets.strength[sound])
            yield estimate_lag(part, seconds[frames], motion[frames])


def _slope(known: Sequence[Lag]) -> float | None:
    if len(known) < 2:
        return None
    times = np.array([stretch.seconds for stretch in known])
    lags = np.array([stretch.lag_seconds for stretch in known], np.float64)
    times = times - times.mean()
    return float(times @ (lags - lags.mean()) / (times @ times))
