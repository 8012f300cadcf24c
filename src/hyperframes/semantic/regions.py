"""Where something matters: maps of 64 x 64 from motion, saliency and detections, masks of tasks, and patches to look at."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cv2
import numpy as np

from hyperframes.errors import FrameError
from hyperframes.frames import Array
from hyperframes.semantic.coco import BOX_CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "MAP_SIDE",
    "Mask",
    "Patches",
    "box_confidence",
    "motion_confidence",
    "region_confidence",
    "saliency",
    "select_patches",
]

MAP_SIDE: Final = 64
_HALF_SPEED: Final = 1.0
_SALIENCY_SHARE: Final = 0.5
_FLAT: Final = 2.0


def motion_confidence(flow: Array) -> Array:
    """Return how much each cell moves against the picture as a whole, (64, 64) float32 in [0, 1).

    The speed v, after the median flow is taken off (the camera's), becomes ``v / (v + 1)``.

    Parameters
    ----------
    flow : (H, W, 2) array of float32
        Pixels a frame, of small luma.
    """
    relative = flow - np.median(flow.reshape(-1, 2), axis=0).astype(np.float32)
    speed = np.hypot(relative[..., 0], relative[..., 1])
    cells = _to_map(speed)
    return cells / (cells + np.float32(_HALF_SPEED))


def saliency(luma: Array) -> Array:
    """Return what stands out of a grey picture, (64, 64) float32 in [0, 1]; zeros for one of a single tone.

    The spectral residual: what the logarithm of the spectrum has above its local mean, back in the picture, squared,
    smoothed, and stretched from its median to its greatest.

    Parameters
    ----------
    luma : (H, W) array of uint8
        Grey levels.

    References
    ----------
    .. [1] X. Hou, L. Zhang, "Saliency Detection: A Spectral Residual Approach", CVPR 2007. DOI: 10.1109/CVPR.2007.383267
    """
    small = _to_map(luma.astype(np.float32)).astype(np.float64)
    if small.std() < _FLAT:
        return np.zeros((MAP_SIDE, MAP_SIDE), np.float32)
    spectrum = np.fft.fft2(small)
    level = np.log(np.abs(spectrum) + 1e-9)
    residual = level - cv2.blur(level, (3, 3), borderType=cv2.BORDER_REFLECT)
    energy = np.abs(np.fft.ifft2(np.exp(residual + 1j * np.angle(spectrum)))) ** 2
    smooth = cv2.GaussianBlur(energy, (0, 0), 2.5)
    low, high = float(np.median(smooth)), float(smooth.max())
    return np.asarray(np.clip((smooth - low) / max(high - low, 1e-12), 0, 1), np.float32)


def box_confidence(boxes: Array, classes: Sequence[int] | None = None) -> Array:
    """Return a map that has each box's score inside it and fades out around it, (64, 64) float32 in [0, 1].

    A box is made a quarter larger and its edges are as soft as a tenth of its size, so small targets stay small.

    Parameters
    ----------
    boxes : (K, 6) array of float32
        Left, top, right, bottom as shares of the picture, score, class; rows of score 0 are empty.
    classes : sequence of int, optional
        Only boxes of these.
    """
    place = (np.arange(MAP_SIDE) + 0.5) / MAP_SIDE
    found = np.zeros((MAP_SIDE, MAP_SIDE), np.float32)
    for left, top, right, bottom, score, kind in boxes.astype(np.float64):
        if score > 0 and (classes is None or int(kind) in classes):
            across, down = (_soft(place, a, b) for a, b in ((left, right), (top, bottom)))
            found = np.maximum(found, (score * np.outer(down, across)).astype(np.float32))
    return found


def _soft(place: Array, start: float, stop: float) -> Array:
    """Return 1 within [start, stop] made a quarter larger, falling to 0 over a tenth of its length (at least a cell)."""
    length = max(stop - start, 0.0)
    middle, half = (start + stop) / 2, 0.625 * length
    edge = max(0.1 * length, 1 / MAP_SIDE)
    return np.clip((half + edge - np.abs(place - middle)) / edge, 0, 1)


def region_confidence(flow: Array | None, luma: Array, boxes: Array | None = None) -> Array:
    """Return where something matters, (64, 64) float32 in [0, 1].

    Motion m, saliency s and boxes d are taken as independent hints: ``1 - (1 - m) (1 - s / 2) (1 - d)``; what stands
    out only by its looks counts half.

    Parameters
    ----------
    flow : (H, W, 2) array of float32, optional
        Pixels a frame.
    luma : (H, W) array of uint8
        Grey levels.
    boxes : (K, 6) array of float32, optional
        As in `box_confidence`.
    """
    rest = 1 - np.float32(_SALIENCY_SHARE) * saliency(luma)
    if flow is not None:
        rest = rest * (1 - motion_confidence(flow))
    if boxes is not None:
        rest = rest * (1 - box_confidence(boxes))
    return np.clip(1 - rest, 0, 1)


def _to_map(values: Array) -> Array:
    """Return (H, W) float32 as (64, 64): area means where it shrinks, linear where it grows, axis by axis."""
    height, width = values.shape
    small = cv2.resize(
        np.ascontiguousarray(values, np.float32),
        (min(width, MAP_SIDE), min(height, MAP_SIDE)),
        interpolation=cv2.INTER_AREA,
    )
    return np.asarray(cv2.resize(small, (MAP_SIDE, MAP_SIDE), interpolation=cv2.INTER_LINEAR), np.float32)


# Masks of tasks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mask:
    """Where a task looks: a part of the picture, boxes of some classes, or both.

    The map of a task is the shared one times the polygon, or the boxes of its classes (times the polygon).

    Raises
    ------
    FrameError
        If a class is neither one of COCO's nor ``face``, or the polygon has fewer than three corners.

    Examples
    --------
    >>> Mask.bottom_third().polygon
    ((0.0, 0.6666666666666666), (1.0, 0.6666666666666666), (1.0, 1.0), (0.0, 1.0))
    """

    classes: tuple[str, ...] = ()
    """Names of COCO classes, or ``face`` where there is a face model; none: all that the shared map shows."""
    polygon: tuple[tuple[float, float], ...] = ()
    """Corners (x, y) as shares of width and height; none: the whole picture."""

    def __post_init__(self) -> None:
        for name in self.classes:
            if name not in BOX_CLASSES:
                raise FrameError(
                    f"a mask's classes are COCO's, and faces: expected one of {', '.join(BOX_CLASSES)}, got {name!r}",
                    expected=BOX_CLASSES,
                    got=name,
                )
        corners = self.polygon
        if corners and (len(corners) < 3 or not np.isfinite(np.asarray(corners, np.float64)).all()):
            raise FrameError(
                f"a mask's polygon has at least three finite corners (x, y): got {corners}",
                expected="three corners or more",
                got=corners,
            )

    @classmethod
    def bottom_third(cls) -> Mask:
        """Return the lowest third of the picture, where people stand who enter a scene."""
        top = 2 / 3
        return cls(polygon=((0.0, top), (1.0, top), (1.0, 1.0), (0.0, 1.0)))

    def apply(self, confidence: Array, boxes: Array | None = None) -> Array:
        """Return the task's map, (64, 64) float32, from the shared one and the boxes found."""
        found = confidence
        if self.classes:
            wanted = [BOX_CLASSES.index(name) for name in self.classes]
            found = np.zeros_like(confidence) if boxes is None else box_confidence(boxes, wanted)
        return found * self._inside() if self.polygon else found

    def _inside(self) -> Array:
        """Return which cells have their centre inside the polygon (even-odd), (64, 64) float32."""
        centre = (np.arange(MAP_SIDE) + 0.5) / MAP_SIDE
        x, y = np.meshgrid(centre, centre)
        inside = np.zeros((MAP_SIDE, MAP_SIDE), bool)
        corners = np.asarray(self.polygon, np.float64)
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            crosses = (y0 > y) != (y1 > y)
            if y0 != y1:
                inside ^= crosses & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
        return inside.astype(np.float32)


# Patches --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Patches:
    """The squares of a picture that are worth looking at; work is done on these alone.

    A grid of squares of `side` pixels from the upper left; those at the right and lower edge may be smaller.
    """

    shape: tuple[int, int]
    """Height and width of the picture."""
    side: int
    chosen: Array
    """(N, 2) int64: row and column of each in the grid, in reading order."""

    @property
    def num_total(self) -> int:
        """Squares in the grid."""
        return math.ceil(self.shape[0] / self.side) * math.ceil(self.shape[1] / self.side)

    @property
    def share(self) -> float:
        """Share of the grid that is chosen."""
        return len(self.chosen) / max(1, self.num_total)

    def windows(self) -> list[tuple[slice, slice]]:
        """Return rows and columns of each chosen square, (N,)."""
        (height, width), side = self.shape, self.side
        return [
            (slice(r * side, min(height, (r + 1) * side)), slice(c * side, min(width, (c + 1) * side)))
            for r, c in self.chosen.tolist()
        ]

    def apply(self, function: Callable[[Array], Array], picture: Array, background: Array) -> Array:
        """Return `background` with ``function(square)`` in place of each chosen square; the others cost nothing.

        Parameters
        ----------
        function : function (h, w, ...) -> (h, w, ...)
            Called once for each chosen square of `picture`.
        picture : (H, W, ...) array
            What the squares are cut from.
        background : (H, W, ...) array
            What stands elsewhere; it is copied.
        """
        result = np.array(background)
        for rows, columns in self.windows():
            result[rows, columns] = function(picture[rows, columns])
        return result


def select_patches(
    confidence: Array, shape: tuple[int, int], side: int = 16, threshold: float = 0.3, most: int | None = None
) -> Patches:
    """Return the squares of a picture in which the confidence is above `threshold` somewhere.

    Parameters
    ----------
    confidence : (64, 64) array of float32
        In [0, 1]; a cell covers the same share of the picture.
    shape : (int, int)
        Height and width of the picture.
    side : int
        Of a square, in pixels.
    threshold : float
        Least confidence.
    most : int, optional
        No more squares than this: those of the highest confidence.

    Returns
    -------
    Patches

    Raises
    ------
    FrameError
        If `side` or `most` is below 1.
    """
    if side < 1 or (most is not None and most < 1):
        raise FrameError(f"patches: expected side and most of at least 1, got {side} and {most}", got=(side, most))
    height, width = shape
    best = _reduced(_reduced(confidence, height, side), width, side, axis=1)
    rows, columns = np.nonzero(best > threshold)
    if most is not None and len(rows) > most:
        order = np.argsort(-best[rows, columns], kind="stable")[:most]
        order.sort()
        rows, columns = rows[order], columns[order]
    return Patches((height, width), side, np.stack([rows, columns], axis=1).astype(np.int64))


def _reduced(confidence: Array, length: int, side: int, axis: int = 0) -> Array:
    """Return the greatest confidence of the cells that each square of `side` out of `length` pixels touches."""
    starts = np.arange(0, length, side)
    firsts = starts * MAP_SIDE // length
    lasts = -(-np.minimum(starts + side, length) * MAP_SIDE // length)
    parts = [np.take(confidence, range(a, max(a + 1, b)), axis).max(axis) for a, b in zip(firsts, lasts, strict=True)]
    return np.stack(parts, axis) if parts else np.zeros((0,) * confidence.ndim, np.float32)
