"""How far the results of two contestants agree: exactly, or by how much on how many samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAME_PICTURE = 2.0
"""Mean absolute difference, of 255 levels, under which two pictures are the same one, converted otherwise."""


@dataclass(frozen=True)
class Agreement:
    """Of one contestant with the reference."""

    num_frames: int
    num_expected: int
    identical: int
    """Frames equal bit for bit to the one at the same position."""
    compared: int
    """Frames whose samples were compared, some from each end and some in between."""
    differing: float
    """Share of their samples that differ."""
    largest: float
    """Largest difference."""
    psnr: float | None
    """In dB over the compared frames; None where nothing differs."""
    wrong: int
    """Compared frames that show another picture, or none."""
    ends: bool
    """Whether all that differs lies in the two frames at either end."""

    def to_json(self) -> dict[str, Any]:
        """Return a value for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Stored:
    """What a contestant gave: a digest of every frame, and the samples of some."""

    digests: Sequence[str]
    samples: Mapping[int, NDArray[Any]]


def compare(reference: Stored, other: Stored) -> Agreement:
    """Return how far `other` agrees with `reference`."""
    identical = sum(a == b for a, b in zip(reference.digests, other.digests, strict=False))
    differing = total = wrong = 0
    squares = largest = 0.0
    inside = False
    for position, expected in reference.samples.items():
        got = other.samples.get(position)
        if got is None or got.shape != expected.shape:
            wrong += 1
            continue
        difference = _difference(expected, got)
        total += difference.size
        differing += int(np.count_nonzero(difference))
        squares += float(np.sum(difference * difference))
        largest = max(largest, float(difference.max(initial=0.0)))
        wrong += float(difference.mean()) > SAME_PICTURE
        inside |= bool(difference.any()) and 2 <= position < len(reference.digests) - 2
    return Agreement(
        num_frames=len(other.digests),
        num_expected=len(reference.digests),
        identical=identical,
        compared=len(reference.samples),
        differing=differing / total if total else 0.0,
        largest=largest,
        psnr=10 * math.log10(255**2 * total / squares) if squares else None,
        wrong=wrong,
        ends=differing > 0 and not inside,
    )


def _difference(expected: NDArray[Any], got: NDArray[Any]) -> NDArray[np.float64]:
    """Return absolute differences; samples that are no number on either side are left out, as nothing was promised."""
    difference = np.abs(expected.astype(np.float64) - got.astype(np.float64))
    return np.where(np.isnan(difference), 0.0, difference)


def psnr_at(size: float, points: Sequence[tuple[float, float]]) -> float:
    """Return the quality at `size` bytes on the curve through (bytes, dB) points, straight over the logarithm of size.

    Raises
    ------
    ValueError
        With fewer than two points.
    """
    if len(points) < 2:
        raise ValueError(f"a curve needs at least 2 points: got {len(points)}")
    ordered = sorted(points)
    x, xs = math.log(size), [math.log(nbytes) for nbytes, _ in ordered]
    k = min(max(sum(known < x for known in xs), 1), len(xs) - 1)
    (x0, y0), (x1, y1) = ((xs[j], ordered[j][1]) for j in (k - 1, k))
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
