"""What stands for frames that failed: zeros in arrays, nothing in pictures and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hyperframes.frames import Clip

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["without_failed", "zeroed"]


def zeroed(clip: Clip) -> tuple[Array, ...]:
    """Return the planes of `clip` with zeros where frames failed; the planes themselves where none did."""
    if clip.mask is None or clip.mask.all():
        return clip.planes
    planes = []
    for plane in clip.planes:
        copy = plane.copy()
        copy[~clip.mask] = 0
        planes.append(copy)
    return tuple(planes)


def without_failed(clip: Clip) -> Clip:
    """Return `clip` without the frames that failed; `clip` itself where none did."""
    if clip.mask is None or clip.mask.all():
        return clip
    kept = np.flatnonzero(clip.mask)
    return Clip(
        tuple(plane[kept] for plane in clip.planes),
        clip.pts[kept],
        clip.index[kept],
        clip.spec,
        None if clip.durations is None else clip.durations[kept],
        None,
        clip.hyperframe,
    )
