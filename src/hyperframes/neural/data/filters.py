"""What is worth learning from: clips in which something moves, sorted by how fast it grows or shrinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import cv2
import numpy as np

from hyperframes.drivers import stream
from hyperframes.errors import FrameError
from hyperframes.frames import Clip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.frames import Array

__all__ = ["SCALE_BINS", "area_rate", "bin_scales", "least_tile_ssim", "moving_areas", "tile_ssim"]

SCALE_BINS: Final = (0.1, 0.5, 2.0)
"""Upper ends of the bins of motion scale, in shares of its own area that a thing grows or shrinks by in a second; one
more bin holds what is faster."""
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2


def tile_ssim(before: Array, after: Array, tile: int = 8) -> Array:
    """Return the structural similarity of two grey pictures (H, W), tile by tile: (rows, columns) float64, at most 1.

    Parameters
    ----------
    before, after : (H, W) array
        Of one size, grey levels 0..255; what is left at the right and below is not looked at.
    tile : int
        Side of a tile in pixels.

    Notes
    -----
    The noise of the pair, from the median of its absolute differences, is taken off the variances: without that, flat
    noisy tiles are never alike. Where more than half of a picture moves, it counts as noise.

    References
    ----------
    .. [1] Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image quality assessment: from error visibility to
       structural similarity", IEEE TIP 13(4), 2004, doi:10.1109/TIP.2003.819861.
    """
    rows, columns = before.shape[0] // tile, before.shape[1] // tile
    if before.shape != after.shape or min(rows, columns) < 1:
        raise FrameError(
            f"tiles of {tile} pixels need two pictures of one size: got {before.shape} and {after.shape}",
            got=(before.shape, after.shape),
        )
    a, b = (
        picture[: rows * tile, : columns * tile]
        .astype(np.float64)
        .reshape(rows, tile, columns, tile)
        .transpose(0, 2, 1, 3)
        .reshape(rows, columns, tile * tile)
        for picture in (before, after)
    )
    noise = float(np.median(np.abs(a - b)) / 0.6745) ** 2 / 2  # of one picture
    mean_a, mean_b = a.mean(2), b.mean(2)
    var_a, var_b = (np.maximum(part.var(2) - noise, 0) for part in (a, b))
    both = ((a - mean_a[..., None]) * (b - mean_b[..., None])).mean(2)
    both = np.clip(both, -np.sqrt(var_a * var_b), np.sqrt(var_a * var_b))
    light = (2 * mean_a * mean_b + _C1) / (mean_a**2 + mean_b**2 + _C1)
    return np.asarray(light * (2 * both + _C2) / (var_a + var_b + _C2))


def least_tile_ssim(source: Any, *, tile: int = 8, side: int = 256, **options: Any) -> float:
    """Return how alike the frames of a source are where they are least alike: the mean over time of its worst tile.

    Above 0.98 nothing happens anywhere, and there is nothing to learn. The mean over the whole picture would call a clip
    still in which only something small moves.

    Parameters
    ----------
    source : path, URL, array or Source
        Read once, grey, in bounded memory; 1 for a single frame.
    tile : int
        Pixels of the shrunk picture.
    side : int
        Longer side that pictures are shrunk to.
    **options
        Of the run: `range`, `size`, ...
    """
    total: Array | None = None
    pairs = 0
    last: Array | None = None
    for _, frame in _grey(source, side, options):
        if last is not None:
            alike = tile_ssim(last, frame, tile)
            total = alike if total is None else total + alike
            pairs += 1
        last = frame
    if total is None:
        return 1.0
    return float(total.min()) / pairs


def _grey(source: Any, side: int, options: dict[str, Any]) -> Iterator[tuple[float, Array]]:
    """Yield the time of each frame in seconds, and the frame, grey and shrunk to `side`."""
    for clip in stream(source, (), pixel_format="gray", workers=1, **options):
        assert isinstance(clip, Clip)
        base = float(clip.spec.time_base)
        for pts, frame in zip(np.asarray(clip.pts).tolist(), clip.planes[0], strict=True):
            scale = min(1.0, side / max(frame.shape))
            size = (max(1, round(frame.shape[1] * scale)), max(1, round(frame.shape[0] * scale)))
            small = np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA)) if scale < 1 else np.array(frame)
            yield pts * base, small


def moving_areas(source: Any, *, side: int = 256, background: int = 31, **options: Any) -> tuple[Array, Array]:
    """Return how large the thing is that moves in front of a fixed camera, frame by frame, and the frames' times.

    Parameters
    ----------
    source : path, URL, array or Source
        Read twice, grey, in bounded memory.
    side : int
        Longer side that pictures are shrunk to.
    background : int
        Frames, spread over the source, whose median is the background.
    **options
        Of the run: `range`, `size`, ...

    Returns
    -------
    (T,) float64
        Area inside the largest outline of what differs from the background, as a share of the picture; 0 where nothing does.
    (T,) float64
        Seconds, as `area_rate` takes them.

    Notes
    -----
    A pixel differs by more than six times the noise, which is the median absolute difference of all pixels of the frame;
    single pixels are opened away first. What never moves belongs to the background.

    References
    ----------
    .. [1] S. Suzuki, K. Abe, "Topological structural analysis of digitized binary images by border following", CVGIP 30(1),
       1985, doi:10.1016/0734-189X(85)90016-7 (outlines).
    """
    kept: list[Array] = []
    step = 1
    for index, (_, frame) in enumerate(_grey(source, side, options)):
        if index % step == 0:
            kept.append(frame)
        if len(kept) >= 2 * max(background, 1):  # spread over what has come so far
            kept, step = kept[::2], 2 * step
    if not kept:
        return np.empty(0), np.empty(0)
    usual = np.median(np.stack(kept), axis=0).astype(np.float32)
    areas, seconds = [], []
    for time, frame in _grey(source, side, options):
        gap = np.abs(frame - usual)
        noise = max(1.0, float(np.median(gap)) / 0.6745)
        mask = cv2.morphologyEx((gap > 6 * noise).astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
        outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        areas.append(max((_inside(outline, frame.shape) for outline in outlines), default=0.0))
        seconds.append(time)
    return np.array(areas), np.array(seconds)


def _inside(outline: Any, shape: tuple[int, ...]) -> float:
    """Return the share of a picture that an outline holds, its own pixels included."""
    x, y, width, height = cv2.boundingRect(outline)
    filled = np.zeros((height, width), np.uint8)
    cv2.drawContours(filled, [outline - np.array([x, y], outline.dtype)], 0, 1, cv2.FILLED)
    return float(filled.sum()) / (shape[0] * shape[1])


def area_rate(areas: Array, seconds: Array) -> float:
    """Return how fast an area changes, whichever way, in shares of itself a second: the median of ``|dA/dt| / A``.

    Parameters
    ----------
    areas : (T,) array
        Of a contour or box, in any unit; frames in which it is 0 (not seen) are left out.
    seconds : (T,) array
        Ascending.
    """
    area, time = np.asarray(areas, np.float64), np.asarray(seconds, np.float64)
    if area.shape != time.shape or (np.diff(time) <= 0).any():
        raise FrameError(f"areas need ascending times, one each: got {area.shape} and {time.shape}")
    seen = area > 0
    area, time = area[seen], time[seen]
    if len(area) < 2:
        return 0.0
    return float(np.median(np.abs(np.diff(area)) / np.diff(time) / (0.5 * (area[1:] + area[:-1]))))


def bin_scales(rates: Array, areas: Array) -> tuple[Array, Array]:
    """Return the bin of each clip's motion scale, and how large what moves is within its bin.

    Parameters
    ----------
    rates : (N,) array
        See `area_rate`.
    areas : (N,) array
        Mean area of each clip's thing.

    Returns
    -------
    (N,) int64 from 0 to 3
        Below 0.1, 0.5 and 2 a second, and faster.
    (N,) float64 in [0, 1]
        The area from the least to the greatest of the bin; 0.5 where they are one.
    """
    bins = np.searchsorted(SCALE_BINS, np.asarray(rates, np.float64), side="right")
    area = np.asarray(areas, np.float64)
    scaled = np.full(len(area), 0.5)
    for one in np.unique(bins):
        inside = bins == one
        low, high = area[inside].min(), area[inside].max()
        if high > low:
            scaled[inside] = (area[inside] - low) / (high - low)
    return bins.astype(np.int64), scaled
