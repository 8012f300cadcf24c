"""What is kept of the frames between two anchors: the paths of some points, as cubics in time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import cv2
import numpy as np

from hyperframes.errors import FrameError
from hyperframes.semantic.descriptor import NUM_COEFFICIENTS, Trajectory

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["trajectories_between"]

_WINDOW: Final = (15, 15)
_LEVELS: Final = 3
_QUALITY: Final = 0.02
_RETURN_PX: Final = 1.0


def trajectories_between(
    luma: Array, seconds: Array, *, most: int = 16, least_travel_px: float = 0.5
) -> tuple[Trajectory, ...]:
    """Follow corners from one anchor to the next and return the paths of those that move.

    Parameters
    ----------
    luma : (T, h, w) array of uint8
        Small luma, as `Activity` makes it, of the frames from one anchor to the next, both included.
    seconds : (T,) array of float64
        Their presentation times, ascending.
    most : int
        Paths to return; those of the strongest corners.
    least_travel_px : float
        What moves less from its place, in pixels of the small luma, is left out.

    Returns
    -------
    tuple of Trajectory
        Least-squares cubics; with fewer than four frames of lower degree. Points that get lost are left out: whose way back
        from a frame ends more than a pixel from where it began, or that leave the picture.

    Raises
    ------
    FrameError
        If there are not as many times as frames, or times do not ascend.

    Notes
    -----
    Pyramidal Lucas-Kanade from each frame to the next and back.

    References
    ----------
    .. [1] J. Shi, C. Tomasi, "Good Features to Track", CVPR 1994. DOI: 10.1109/CVPR.1994.323794
    .. [2] B. Lucas, T. Kanade, "An Iterative Image Registration Technique with an Application to Stereo Vision",
       IJCAI 1981.
    """
    times = np.asarray(seconds, np.float64)
    if luma.ndim != 3 or len(luma) != len(times) or (np.diff(times) <= 0).any():
        raise FrameError(
            f"trajectories need ascending times, one a frame: expected {len(luma)}, got {len(times)}",
            expected=len(luma),
            got=len(times),
        )
    if len(luma) < 2:
        return ()
    paths = _followed(luma, most)
    travelled = np.linalg.norm(paths - paths[:1], axis=2).max(axis=0, initial=0.0)
    size = np.array(luma.shape[:0:-1], np.float64)  # width, height
    u = (times - times[0]) / (times[-1] - times[0])
    powers = np.vander(u, min(NUM_COEFFICIENTS, len(u)), increasing=True)
    found = []
    for path in np.moveaxis(paths, 1, 0)[travelled >= least_travel_px]:
        coefficients = np.zeros((2, NUM_COEFFICIENTS), np.float32)
        coefficients[:, : powers.shape[1]] = np.linalg.lstsq(powers, (path + 0.5) / size, rcond=None)[0].T
        found.append(Trajectory(float(times[0]), float(times[-1]), coefficients))
    return tuple(found)


def _followed(luma: Array, most: int) -> Array:
    """Return where the corners of the first frame are in each, (T, P, 2) of x and y; only those that are never lost."""
    corners = cv2.goodFeaturesToTrack(luma[0], most, _QUALITY, 5)
    if corners is None:
        return np.empty((len(luma), 0, 2))
    points = corners.astype(np.float32)  # (P, 1, 2)
    paths, kept = [points[:, 0]], np.ones(len(points), bool)
    limits = np.array(luma.shape[:0:-1], np.float32) - 1
    for before, after in itertools.pairwise(luma):
        moved, there = _moved(before, after, points)
        back, again = _moved(after, before, moved)
        near = np.linalg.norm((back - points)[:, 0], axis=1) <= _RETURN_PX
        inside = ((moved >= 0) & (moved <= limits)).all(axis=(1, 2))
        kept &= there & again & near & inside
        points = moved
        paths.append(points[:, 0])
    return np.stack(paths)[:, kept].astype(np.float64)


def _moved(before: Array, after: Array, points: Array) -> tuple[Array, Array]:
    """Return where points (P, 1, 2) of one picture are in the other, and which were found, (P,) bool."""
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        before, after, points, np.empty_like(points), winSize=_WINDOW, maxLevel=_LEVELS
    )
    return np.asarray(moved), np.asarray(found)[:, 0] == 1
