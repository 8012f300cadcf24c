"""Events of an event camera: one row each, and the pictures that are made of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.frames.frame import Array

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["EVENT_NAMES", "Events", "event_histogram", "time_surface", "voxel_grid"]

EVENT_NAMES = ("x", "y", "p")
"""What the values of an event are called where events flow as frames of shape (3,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """E events in the order in which the sensor told them.

    Examples
    --------
    >>> Events.of([0, 5], [1, 2], [3, 3], [0, 1], sensor=(4, 4))
    Events(2 events, 0..5 us, sensor 4x4)
    """

    t: Array
    """(E,) int64, microseconds."""
    x: Array
    """(E,) uint16, column."""
    y: Array
    """(E,) uint16, row."""
    p: Array
    """(E,) uint8: 1 where the light grew, 0 where it fell."""
    sensor: tuple[int, int] | None = None
    """Rows and columns of the sensor, where they are known."""

    @classmethod
    def of(
        cls,
        t: Sequence[int] | Array,
        x: Sequence[int] | Array,
        y: Sequence[int] | Array,
        p: Sequence[int] | Array,
        sensor: tuple[int, int] | None = None,
    ) -> Events:
        """Return events of values of any integer type; p above 0 is brighter.

        Raises
        ------
        FrameError
            If the columns are of different lengths.
        """
        brighter = (np.asarray(p) > 0).astype(np.uint8)
        columns = (np.asarray(t, np.int64), np.asarray(x, np.uint16), np.asarray(y, np.uint16), brighter)
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            raise FrameError(
                f"events have one t, x, y and p each: got {', '.join(str(len(column)) for column in columns)} of them"
            )
        return cls(*columns, sensor)

    @classmethod
    def concatenate(cls, parts: Sequence[Events]) -> Events:
        """Return the events of `parts`, one after the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of([], [], [], [])
        t, x, y, p = (np.concatenate([getattr(part, name) for part in parts]) for name in "txyp")
        return cls(t, x, y, p, parts[0].sensor)

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, key: slice | Array) -> Events:
        """Return the events that `key`, a slice or an array of positions or bools, takes."""
        return Events(self.t[key], self.x[key], self.y[key], self.p[key], self.sensor)

    def __repr__(self) -> str:
        span = f", {self.t.min()}..{self.t.max()} us" if len(self) else ""
        sensor = "" if self.sensor is None else f", sensor {self.sensor[1]}x{self.sensor[0]}"
        return f"Events({len(self)} events{span}{sensor})"


def _sites(events: Events, sensor: tuple[int, int]) -> Array:
    """Return (E,) flat positions on the sensor; events beyond it are an error."""
    rows, columns = sensor
    if len(events) and (int(events.x.max()) >= columns or int(events.y.max()) >= rows):
        raise FrameError(
            f"events lie beyond the sensor: expected columns below {columns} and rows below {rows}, "
            f"got {int(events.x.max())} and {int(events.y.max())}"
        )
    return events.y.astype(np.int64) * columns + events.x


def event_histogram(events: Events, sensor: tuple[int, int]) -> Array:
    """Return how many events fell on each pixel, (2, rows, columns) uint16: darker, then brighter; 65,535 at most.

    Examples
    --------
    >>> event_histogram(Events.of([0, 1], [1, 1], [0, 0], [1, 1]), (1, 2))[1]
    array([[0, 2]], dtype=uint16)
    """
    size = sensor[0] * sensor[1]
    counts = np.bincount(_sites(events, sensor) + events.p.astype(np.int64) * size, minlength=2 * size)
    return np.minimum(counts, 0xFFFF).astype(np.uint16).reshape(2, *sensor)


def voxel_grid(events: Events, sensor: tuple[int, int], bins: int, span: tuple[int, int]) -> Array:
    """Return events voted into `bins` slices of time, (bins, rows, columns) float32; each event weighs +1 or -1.

    Parameters
    ----------
    events : Events
        Of the span; those outside it are counted at its ends.
    sensor : (rows, columns)
        Of the grid.
    bins : int
        Slices; slice b stands at time ``start + b * (stop - start) / (bins - 1)``.
    span : (start, stop)
        Microseconds.

    Notes
    -----
    Bilinear in time [1]_: an event between two slices is shared by its distance to them, so that the sum of all voxels
    is the number of brighter less that of darker events whatever the times: no mass is lost. Sums are added in float64.

    References
    ----------
    .. [1] A. Z. Zhu, L. Yuan, K. Chaney, K. Daniilidis, "Unsupervised event-based learning of optical flow, depth, and
       egomotion", CVPR 2019, arXiv:1812.08156 (equation 2).

    Examples
    --------
    >>> voxel_grid(Events.of([5], [0], [0], [1]), (1, 1), 3, (0, 20)).ravel()
    array([0.5, 0.5, 0. ], dtype=float32)
    """
    start, stop = span
    size, sites = sensor[0] * sensor[1], _sites(events, sensor)
    place = np.zeros(len(events)) if bins == 1 else (events.t - start) * ((bins - 1) / max(stop - start, 1))
    place = np.clip(place, 0, bins - 1)
    low = np.minimum(place.astype(np.int64), max(bins - 2, 0))
    share = place - low
    sign = np.where(events.p > 0, 1.0, -1.0)
    grid = np.bincount(low * size + sites, sign * (1 - share), bins * size)
    if bins > 1:
        grid += np.bincount((low + 1) * size + sites, sign * share, bins * size)
    return grid.astype(np.float32).reshape(bins, *sensor)


def time_surface(events: Events, sensor: tuple[int, int], now: int, tau: float) -> Array:
    """Return how fresh each pixel's last event is, (2, rows, columns) float32: darker, then brighter.

    ``exp(-(now - t) / tau)`` with the time t of the last event of that polarity up to `now`, in microseconds; 0 where
    there was none.

    References
    ----------
    .. [1] X. Lagorce et al., "HOTS: a hierarchy of event-based time-surfaces for pattern recognition", IEEE PAMI 39(7),
       2017, doi:10.1109/TPAMI.2016.2574707 (equation 3).

    Examples
    --------
    >>> time_surface(Events.of([0, 10], [0, 0], [0, 0], [1, 1]), (1, 1), 10, 5.0)[1]
    array([[1.]], dtype=float32)
    """
    size, sites = sensor[0] * sensor[1], _sites(events, sensor)
    last = np.full(2 * size, np.iinfo(np.int64).min)
    known = events.t <= now
    np.maximum.at(last, (sites + events.p.astype(np.int64) * size)[known], events.t[known])
    seen = last > np.iinfo(np.int64).min
    surface = np.zeros(2 * size, np.float32)
    surface[seen] = np.exp((last[seen] - now) / tau)
    return surface.reshape(2, *sensor)
