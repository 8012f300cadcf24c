"""Labels that are more than a word: instants of an event with the path between them, and maps without annotation."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.semantic.regions import MAP_SIDE, box_confidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.frames import Array

__all__ = ["LabelAnchor", "LabelTrack", "heat_maps", "pseudo_label"]

Role = Literal["start", "evolution", "end"]


@dataclass(frozen=True, slots=True)
class LabelAnchor:
    """An instant of an event that somebody marked: where it begins, changes its form, or is last seen."""

    role: Role
    frame: int
    x: float
    """Pixels from the left."""
    y: float
    """Pixels from the top."""


@dataclass(frozen=True, slots=True)
class LabelTrack:
    """One start, any number of evolutions and one end, and the path that runs through them.

    Raises
    ------
    FrameError
        If frames do not ascend, the first is no start or the last no end, or an anchor lies outside the picture.
    """

    anchors: tuple[LabelAnchor, ...]
    size: tuple[int, int]
    """Rows and columns of the picture."""

    def __post_init__(self) -> None:
        roles = [anchor.role for anchor in self.anchors]
        if len(roles) < 2 or roles != ["start", *["evolution"] * (len(roles) - 2), "end"]:
            raise FrameError(f"a track has a start, evolutions and an end, in this order: got {roles}", got=roles)
        for before, after in itertools.pairwise(self.anchors):
            if after.frame <= before.frame:
                raise FrameError(
                    f"anchors stand in ascending frames: got {after.role} at {after.frame} after {before.frame}",
                    index=after.frame,
                )
        for anchor in self.anchors:
            if not (0 <= anchor.x < self.size[1] and 0 <= anchor.y < self.size[0]):
                raise FrameError(
                    f"the {anchor.role} at frame {anchor.frame} lies outside of {self.size[0]} rows and "
                    f"{self.size[1]} columns: got ({anchor.x:g}, {anchor.y:g})",
                    index=anchor.frame,
                )

    @property
    def frames(self) -> range:
        """Every frame from the start to the end."""
        return range(self.anchors[0].frame, self.anchors[-1].frame + 1)

    def path(self, frames: Sequence[int] | None = None, *, shape_preserving: bool = False) -> Array:
        """Return where it is, (T, 2) float64 of x and y, at `frames`; by default at every one from start to end.

        The natural cubic spline through the anchors; two anchors give a line, three a parabola. It may overshoot:
        `shape_preserving` takes a monotone cubic between each two. Either is kept inside the picture.

        References
        ----------
        .. [1] C. de Boor, "A Practical Guide to Splines", 1978.
        .. [2] F. N. Fritsch, R. E. Carlson, "Monotone piecewise cubic interpolation", SIAM J. Numer. Anal. 17(2), 1980.
        """
        wanted = np.asarray(self.frames if frames is None else frames, np.float64)
        if len(wanted) and (wanted.min() < self.anchors[0].frame or wanted.max() > self.anchors[-1].frame):
            raise FrameError(f"the track covers the frames {self.frames}: got {wanted.min():g} to {wanted.max():g}")
        times = np.array([anchor.frame for anchor in self.anchors], np.float64)
        places = np.array([(anchor.x, anchor.y) for anchor in self.anchors], np.float64)
        if shape_preserving:
            slopes = _monotone_slopes(times, places)
        elif len(times) == 3:
            slopes = _parabola_slopes(times, places)
        else:
            slopes = _natural_slopes(times, places)
        limits = np.array(self.size[::-1], np.float64) - 1
        return np.clip(_hermite(times, places, slopes, wanted), 0, limits)


def _hermite(times: Array, places: Array, slopes: Array, wanted: Array) -> Array:
    """Return the cubics that have `places` (K, 2) and `slopes` (K, 2) at `times`, at `wanted`."""
    piece = np.clip(np.searchsorted(times, wanted, side="right") - 1, 0, len(times) - 2)
    width = (times[piece + 1] - times[piece])[:, None]
    u = ((wanted - times[piece]) / width[:, 0])[:, None]
    return np.asarray(
        (1 + 2 * u) * (1 - u) ** 2 * places[piece]
        + u * (1 - u) ** 2 * width * slopes[piece]
        + u**2 * (3 - 2 * u) * places[piece + 1]
        + u**2 * (u - 1) * width * slopes[piece + 1]
    )


def _natural_slopes(times: Array, places: Array) -> Array:
    """Return the slopes that make the second derivative continuous, and 0 at both ends."""
    n = len(times)
    width, rise = np.diff(times), np.diff(places, axis=0)
    matrix, right = np.zeros((n, n)), np.zeros((n, places.shape[1]))
    matrix[0, :2], right[0] = (2, 1), 3 * rise[0] / width[0]
    matrix[-1, -2:], right[-1] = (1, 2), 3 * rise[-1] / width[-1]
    for i in range(1, n - 1):
        matrix[i, i - 1 : i + 2] = 1 / width[i - 1], 2 / width[i - 1] + 2 / width[i], 1 / width[i]
        right[i] = 3 * (rise[i - 1] / width[i - 1] ** 2 + rise[i] / width[i] ** 2)
    return np.linalg.solve(matrix, right)


def _parabola_slopes(times: Array, places: Array) -> Array:
    """Return the slopes of the parabola through three places."""
    coefficients = np.linalg.solve(np.vander(times - times[0], 3), places)
    return np.asarray(2 * coefficients[0] * (times - times[0])[:, None] + coefficients[1])


def _monotone_slopes(times: Array, places: Array) -> Array:
    """Return slopes with which no piece leaves the span of its ends: weighted harmonic means, 0 at turning points."""
    width, secant = np.diff(times)[:, None], np.diff(places, axis=0) / np.diff(times)[:, None]
    slopes = np.zeros_like(places)
    slopes[0], slopes[-1] = secant[0], secant[-1]
    before, after = secant[:-1], secant[1:]
    same = before * after > 0
    first, second = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    divisor = np.where(same, first * after + second * before, 1)  # no quotient of a tiny slope: it would overflow
    slopes[1:-1] = np.where(same, (first + second) * before * after / divisor, 0)
    return slopes


def heat_maps(path: Array, size: tuple[int, int], *, side: int = MAP_SIDE, spread: float = 2.0) -> Array:
    """Return what a net is asked to draw along a path: (T, side, side) float32, 1 at its place, fading out.

    Parameters
    ----------
    path : (T, 2) array
        x and y in pixels.
    size : (rows, columns)
        Of the picture, which is stretched to the map.
    side : int
    spread : float
        Standard deviation, in cells of the map.
    """
    cells = np.arange(side) + 0.5
    place = (np.asarray(path, np.float64) + 0.5) * side / np.array(size[::-1], np.float64)  # (T, 2)
    across, down = (np.exp(-0.5 * ((cells - place[:, axis, None]) / spread) ** 2) for axis in (0, 1))
    return (down[:, :, None] * across[:, None, :]).astype(np.float32)


def pseudo_label(boxes: Array, classes: Sequence[int] | None = None) -> Array:
    """Return a label for the region net that nobody drew: (64, 64) float32 in [0, 1].

    Boxes of any detector, widened by a quarter, with edges as soft as a tenth of their size: a dilation and a blur that
    scale with what is seen.

    Parameters
    ----------
    boxes : (K, 6) array of float32
        Left, top, right, bottom as shares of the picture, score, class, as operator ``detect`` gives them.
    classes : sequence of int, optional
        Those that count; all where it is left out.
    """
    return box_confidence(np.asarray(boxes, np.float32), classes)
