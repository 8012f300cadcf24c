"""How a sensor of events shook, and events as they would have been told had it stood still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.frames.events import Events, event_histogram

if TYPE_CHECKING:
    from hyperframes.frames.frame import Array

__all__ = ["shake", "steadied"]

_PASSES = 3


def shake(events: Events, *, slice_us: int = 5_000, reach: int = 8) -> Array:
    """Return by how many pixels the picture lay beside its usual place in each slice of time, (S, 2) int64: down, right.

    Parameters
    ----------
    events : Events
        Of a known sensor; slice s holds those from ``t.min() + s * slice_us`` on.
    slice_us : int
        Microseconds; shorter than a swing, and long enough for the edges to show.
    reach : int
        Farthest offset that is looked for, in pixels.

    Returns
    -------
    (S, 2) int64
        Medians of 0: the usual place is where the picture is most of the time. Slices without events keep the offset of the
        one before.

    Raises
    ------
    FrameError
        If the sensor is not known, or a slice or the reach is below 1.

    Notes
    -----
    Every slice is laid over what all slices add up to at the offset of greatest correlation, three times over, each time
    with better offsets: a sharp sum is what a still sensor would have given. Translation only. The spectra of all slices
    are held: ask for a window, not for an hour.

    References
    ----------
    .. [1] G. Gallego, H. Rebecq, D. Scaramuzza, "A unifying contrast maximization framework for event cameras", CVPR 2018,
       arXiv:1804.01306 (events aligned are sharp).
    .. [2] C. D. Kuglin, D. C. Hines, "The phase correlation image alignment method", IEEE Cybernetics and Society, 1975.
    """
    if events.sensor is None or slice_us < 1 or reach < 1:
        raise FrameError(
            f"shake needs the size of the sensor, slices and a reach: got {events.sensor}, {slice_us} us and {reach} px"
        )
    if not len(events):
        return np.zeros((0, 2), np.int64)
    rows, columns = events.sensor
    reach = min(reach, rows - 1, columns - 1)
    slices = _slices(events, slice_us)
    size = int(slices.max()) + 1
    padded = rows + reach, columns + reach  # circular correlation must not meet the far side
    spectra = np.zeros((size, padded[0], padded[1] // 2 + 1), np.complex128)
    for i in range(size):
        picture = np.sqrt(event_histogram(events[slices == i], events.sensor).sum(0, dtype=np.float64))
        spectra[i] = np.fft.rfft2(picture, padded)
    turns = [np.fft.fftfreq(padded[0])[:, None], np.fft.rfftfreq(padded[1])[None]]
    there = np.abs(spectra[:, 0, 0]) > 0
    offsets = np.zeros((size, 2), np.int64)
    total = spectra[np.argmax(np.abs(spectra[:, 0, 0]))]
    for _ in range(_PASSES):
        for i in np.flatnonzero(there).tolist():
            found = np.fft.irfft2(spectra[i] * np.conj(total), padded)
            near = np.roll(found, (reach, reach), (0, 1))[: 2 * reach + 1, : 2 * reach + 1]
            offsets[i] = np.array(np.unravel_index(int(near.argmax()), near.shape)) - reach
        back = np.exp(2j * np.pi * (offsets[:, 0, None, None] * turns[0] + offsets[:, 1, None, None] * turns[1]))
        total = (spectra * back)[there].sum(0)
    last = np.maximum.accumulate(np.where(there, np.arange(size), 0))
    offsets = offsets[last]
    return np.asarray(offsets - np.rint(np.median(offsets, axis=0)).astype(np.int64))


def steadied(events: Events, *, slice_us: int = 5_000, reach: int = 8) -> Events:
    """Return events moved back by the sensor's `shake`; those that fall off it are left out.

    Parameters
    ----------
    events : Events
    slice_us, reach : int
        See `shake`.
    """
    offsets = shake(events, slice_us=slice_us, reach=reach)
    if not len(offsets) or events.sensor is None:
        return events
    moved = offsets[_slices(events, slice_us)]
    y, x = events.y.astype(np.int64) - moved[:, 0], events.x.astype(np.int64) - moved[:, 1]
    kept = (y >= 0) & (y < events.sensor[0]) & (x >= 0) & (x < events.sensor[1])
    return Events.of(events.t[kept], x[kept], y[kept], events.p[kept], events.sensor)


def _slices(events: Events, slice_us: int) -> Array:
    return np.asarray((events.t - events.t.min()) // slice_us)
