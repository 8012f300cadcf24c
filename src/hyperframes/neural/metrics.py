"""What to watch while a model learns, with the bounds that give an alarm."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

__all__ = ["ALARMS", "Alarm", "coverage", "jitter", "reconstruction_psnr", "temporal_entropy"]


@dataclass(frozen=True, slots=True)
class Alarm:
    """Bounds outside of which a metric gives an alarm, and what that means."""

    least: float
    most: float
    below: str
    above: str

    def text(self, value: float) -> str | None:
        """Return what is wrong with `value`; None where nothing is."""
        if math.isnan(value):
            return "not a number"
        return self.below if value < self.least else self.above if value > self.most else None


ALARMS = {
    "fhre": Alarm(28.0, math.inf, "the hyperframe lost information that the frames have", ""),
    "tge": Alarm(2.1, 4.2, "dynamics are under-fitted", "the model learned noise along time"),
    "mcr": Alarm(0.65, math.inf, "the validation set reaches little of the space that training filled", ""),
}


def reconstruction_psnr(frames: torch.Tensor, rebuilt: torch.Tensor, peak: float = 1.0) -> float:
    """Return FHRE, the PSNR in dB of frames that a decoder rebuilt from the hyperframe; infinite where they are equal."""
    error = (frames.double() - rebuilt.double()).square().mean().item()
    return math.inf if error == 0 else 10 * math.log10(peak * peak / error)


def temporal_entropy(x: torch.Tensor, bins: int = 32, sigmas: float = 3.0) -> float:
    """Return TGE in bits: the entropy of the differences along w of `x` (N, C, W_t, H, W), in `bins` over +-`sigmas`.

    Values beyond the bins count in the outermost ones. 5 at most with 32 bins; 4.45 for Gaussian noise; 0 where
    nothing changes.
    """
    if x.shape[2] < 2:
        return 0.0
    steps = (x[:, :, 1:] - x[:, :, :-1]).double().flatten()
    spread = float(steps.std(correction=0))
    if spread == 0 or not math.isfinite(spread):
        return 0.0
    scaled = (steps / spread).clamp(-sigmas, sigmas)
    place = ((scaled + sigmas) / (2 * sigmas) * bins).long().clamp(max=bins - 1)
    share = torch.bincount(place, minlength=bins).double() / len(place)
    share = share[share > 0]
    return float(-(share * share.log2()).sum())


def coverage(latent: torch.Tensor, reference: torch.Tensor, axes: int = 2) -> float:
    """Return MCR: the volume of the hull of (N, D) `latent` over that of `reference`, on the reference's main axes.

    Parameters
    ----------
    axes : {2, 3}
        Principal axes of the reference.

    Returns
    -------
    float
        NaN where the reference spans fewer axes; 0 where `latent` does.
    """
    base = reference.double().numpy()
    mean = base.mean(0)
    _, values, ways = np.linalg.svd(base - mean, full_matrices=False)
    if len(values) < axes or values[axes - 1] <= values[0] * 1e-9:
        return math.nan
    whole, part = ((points - mean) @ ways[:axes].T for points in (base, latent.double().numpy()))
    return hull_volume(part) / hull_volume(whole)


def hull_volume(points: np.ndarray) -> float:
    """Return the area or volume of the convex hull of (N, 2) or (N, 3) points; 0 where they lie in a line or plane."""
    return _area(points) if points.shape[1] == 2 else _volume(points)


def _area(points: np.ndarray) -> float:
    """Return the area inside the hull found by Andrew's monotone chain."""
    ordered = sorted(set(map(tuple, points.tolist())))
    if len(ordered) < 3:
        return 0.0

    def half(way: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        chain: list[tuple[float, ...]] = []
        for p in way:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], p) <= 0:
                chain.pop()
            chain.append(p)
        return chain[:-1]

    ring = half(ordered) + half(ordered[::-1])
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, ring[1:] + ring[:1], strict=True))) / 2


def _turn(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _volume(points: np.ndarray) -> float:
    """Return the volume between the lower and the upper hull, by slices along the first axis (Simpson's rule)."""
    low, high = float(points[:, 0].min()), float(points[:, 0].max())
    if high <= low:
        return 0.0
    edges = np.unique(points[:, 0])
    total = 0.0
    for a, b in itertools.pairwise(edges):
        # Between two points the hull is bounded by planes, so a slice's area is a parabola: Simpson is exact.
        areas = [_slice_area(points, at) for at in (a, (a + b) / 2, b)]
        total += (b - a) * (areas[0] + 4 * areas[1] + areas[2]) / 6
    return total


def _slice_area(points: np.ndarray, at: float) -> float:
    """Return the area of the hull cut at `at` of the first axis: the hull of where all segments cross it."""
    before, after = points[points[:, 0] <= at], points[points[:, 0] >= at]
    span = after[None, :, 0] - before[:, None, 0]
    share = np.where(span > 0, (at - before[:, None, 0]) / np.where(span > 0, span, 1), 0.0)
    crossing = before[:, None, 1:] + share[..., None] * (after[None, :, 1:] - before[:, None, 1:])
    return _area(crossing.reshape(-1, 2))


def jitter(track: np.ndarray) -> float:
    """Return how restless a track (T, D) is: the RMS of its second differences over its mean speed; 0 at rest."""
    speed = float(np.linalg.norm(np.diff(track, axis=0), axis=1).mean()) if len(track) > 1 else 0.0
    bends = np.linalg.norm(np.diff(track, 2, axis=0), axis=1) if len(track) > 2 else np.zeros(1)
    return float(np.sqrt(np.mean(bends**2))) / speed if speed else 0.0
