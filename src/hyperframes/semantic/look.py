"""Looks: what a video looks like every fifth of a second, in 63 numbers that brightness, size and encoding hardly change.

They tell instants apart that one descriptor describes together, so that copies are found, and where in the span they begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import cv2
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hyperframes.frames import Array

__all__ = ["LOOK_SECONDS", "NUM_LOOK", "Looks", "look_of", "looks_of"]

LOOK_SECONDS: Final = 0.2
"""From one look to the next, where there are frames."""
_SIDE, _WAVES = 32, 8
NUM_LOOK: Final = _WAVES * _WAVES - 1
_FLAT: Final = 1.0  # grey levels: less deviation than this is noise of a picture of one tone


def _cosines() -> Array:
    """Return the first rows of the orthonormal cosine transform, (8, 32)."""
    k, n = np.arange(_WAVES)[:, None], np.arange(_SIDE)[None]
    waves = np.cos(np.pi * k * (2 * n + 1) / (2 * _SIDE)) * np.sqrt(2 / _SIDE)
    waves[0] /= np.sqrt(2)
    return np.asarray(waves)


_COSINES: Final = _cosines()


class Looks(NamedTuple):
    """Looks of a stretch of video."""

    seconds: Array
    """(n,) float64: presentation times, ascending."""
    values: Array
    """(n, 63) float16: of unit length, or zero where a picture is of one tone."""

    @classmethod
    def none(cls) -> Looks:
        """Return the looks of nothing."""
        return cls(np.zeros(0), np.zeros((0, NUM_LOOK), np.float16))

    @classmethod
    def joined(cls, several: Iterable[Looks]) -> Looks:
        """Return looks that follow each other as one."""
        return cls(*(np.concatenate(column) for column in zip(cls.none(), *several, strict=True)))


def look_of(luma: Array) -> Array:
    """Return the look of a small grey picture, (63,) float16.

    The picture is averaged over 32 x 32 cells; of its cosine transform [1]_ the 8 x 8 longest waves are kept, but not the
    mean, and divided by their length. So a change of brightness, of contrast or of size changes nothing, and what an encoder
    takes away, or a narrow crop, little.

    Parameters
    ----------
    luma : (H, W) array of uint8
        Grey levels.

    References
    ----------
    .. [1] N. Ahmed, T. Natarajan, K. R. Rao, "Discrete Cosine Transform", IEEE Transactions on Computers C-23, 1974.
       DOI: 10.1109/T-C.1974.223784
    """
    cells = cv2.resize(luma, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA).astype(np.float64)
    waves = (_COSINES @ cells @ _COSINES.T).ravel()[1:]
    length = float(np.sqrt(waves @ waves))
    return (waves / length if length > _FLAT * _SIDE else np.zeros(NUM_LOOK)).astype(np.float16)


def looks_of(pictures: Iterable[tuple[float, Array]], after: float | None = None) -> Looks:
    """Return the looks of pictures that follow each other: of the first that comes in each fifth of a second.

    Parameters
    ----------
    pictures : iterable of (seconds, (H, W) array of uint8)
        In ascending time.
    after : float, optional
        When the picture before the first one stood: the fifth of a second that it began is not begun again.
    """
    begun = None if after is None else _slot(after)
    seconds, values = [], []
    for at, luma in pictures:
        if begun is None or _slot(at) > begun:
            begun = _slot(at)
            seconds.append(at)
            values.append(look_of(luma))
    return Looks(np.array(seconds, np.float64), np.stack(values)) if seconds else Looks.none()


def _slot(seconds: float) -> int:
    return int(np.floor(seconds / LOOK_SECONDS + 1e-6))
