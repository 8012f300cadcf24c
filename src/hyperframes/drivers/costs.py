"""What a hyperframe is likely to cost, from what its frames look like and what those before it took (A30, A89).

A guess decides about order and splitting only, never about results.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from hyperframes.frames import Array
    from hyperframes.packing import Hyperframe

__all__ = ["CostModel", "look"]

_FRAMES: Final = 64
_ROWS: Final = 16
_COLUMNS: Final = 32
_LEARNED_FROM: Final = 64
_LEAST: Final = 8
_MOST_FACTOR: Final = 64.0
_LARGE: Final = 1e12


def look(hyperframe: Hyperframe) -> Array:
    """Return (1, motion, texture) of some samples of a hyperframe: mean differences in time and along rows.

    At most 64 frames of 16 rows of 32 samples of the first plane are read, some 0.1 ms.
    """
    frames = hyperframe.planes[0]
    if frames.dtype.kind not in "biuf":
        return np.array([1.0, 0.0, 0.0])
    every = [slice(None, None, max(1, frames.shape[0] // _FRAMES))]
    for length, most in zip(frames.shape[1:3], (_ROWS, _COLUMNS), strict=False):
        every.append(slice(None, None, max(1, length // most)))
    samples = frames[tuple(every)].astype(np.float64).reshape(-(-len(frames) // every[0].step), -1)
    samples = np.clip(np.nan_to_num(samples), -_LARGE, _LARGE)
    motion = np.abs(np.diff(samples, axis=0)).mean() if len(samples) > 1 else 0.0
    texture = np.abs(np.diff(samples, axis=1)).mean() if samples.shape[1] > 1 else 0.0
    return np.array([1.0, motion, texture])


class CostModel:
    """Learns what a frame takes as a sum of a constant, its motion and its texture, by least squares.

    The last 64 hyperframes count. Costs are in frames of mean cost, so they stay comparable while it learns: before
    eight hyperframes are done, every frame counts as one.
    """

    def __init__(self) -> None:
        self._looks: deque[Array] = deque(maxlen=_LEARNED_FROM)
        self._seconds: deque[float] = deque(maxlen=_LEARNED_FROM)
        self._weights: Array | None = None

    def learn(self, seen: Array, frames: int, seconds: float) -> None:
        """Take note that a hyperframe of `frames` frames that look like `seen` took `seconds`."""
        if frames > 0 and seconds > 0:
            self._looks.append(seen)
            self._seconds.append(seconds / frames)
            self._weights = None

    def expect(self, seen: Array, frames: int) -> float:
        """Return the cost of `frames` frames that look like `seen`, in frames of mean cost."""
        if len(self._looks) < _LEAST:
            return float(frames)
        if self._weights is None:
            self._weights = self._fitted()
        factor = float(seen @ self._weights)
        return frames * min(max(factor, 1 / _MOST_FACTOR), _MOST_FACTOR)

    def _fitted(self) -> Array:
        looks = np.array(self._looks)
        scale = np.maximum(looks.max(axis=0), 1e-12)
        seconds = np.array(self._seconds)
        scaled = looks / scale
        # A little ridge: where all frames look alike, what they cost in common belongs to the constant.
        ridge = np.diag([0.0, 1e-3, 1e-3]) * len(looks)
        weights = np.linalg.solve(scaled.T @ scaled + ridge, scaled.T @ (seconds / seconds.mean()))
        return np.asarray(weights / scale)
