"""Slow NumPy references of the operators over time: whole sequences, padded by the boundary, one frame at a time."""

import numpy as np


def padded(frames, before, after, boundary):
    """Return (before + N + after, ...) frames with the boundary standing in beyond the ends."""
    mode, _, value = boundary.partition(":")
    width = [(before, after)] + [(0, 0)] * (frames.ndim - 1)
    if len(frames) == 0:
        return frames
    if mode == "constant":
        fill = np.array(float(value or 0)).astype(frames.dtype)
        return np.pad(frames, width, constant_values=fill)
    if mode == "reflect" and len(frames) > 1:
        return np.pad(frames, width, mode="reflect")
    return np.pad(frames, width, mode="edge")


def windows(frames, before, after, boundary):
    """Yield, for each frame, the (before + 1 + after, ...) frames around it."""
    around = padded(frames, before, after, boundary)
    for t in range(len(frames)):
        yield around[t : t + before + 1 + after]


def per_frame(function, frames, before, after, boundary, dtype=None):
    """Return the (N, ...) results of `function` over each frame's window."""
    results = [function(window) for window in windows(frames, before, after, boundary)]
    out = np.array(results, dtype=dtype or frames.dtype)
    return out.reshape(len(frames), *frames.shape[1:])


def mean(window):
    """Mean over the first axis: integers round half up, floats are added in float64 oldest first."""
    n = len(window)
    if window.dtype.kind in "iu":
        total = window.astype(object).sum(axis=0)
        return np.asarray((2 * total + n) // (2 * n)).astype(window.dtype)
    with np.errstate(all="ignore"):
        total = np.zeros(window.shape[1:], np.result_type(window.dtype, np.float64))
        for frame in window:
            total = total + frame
        return (total / n).astype(window.dtype)


def median(window):
    """Median over the first axis of an odd window; NaN where any sample is NaN."""
    ordered = np.sort(window, axis=0)
    middle = ordered[len(window) // 2]
    if window.dtype.kind == "f":
        middle = np.where(np.isnan(window).any(axis=0), window.dtype.type(np.nan), middle)
    return middle


def gaussian(window, sigma):
    """Gaussian-weighted mean: integers by weights that sum to 65536, floats in float64 oldest first."""
    radius = len(window) // 2
    weights = [np.exp(-0.5 * (k / sigma) ** 2) for k in range(-radius, radius + 1)]
    total = 0.0
    for weight in sorted(weights):
        total += weight
    weights = np.array(weights) / total
    if window.dtype.kind in "iu":
        whole = [int(np.rint(65536 * w)) for w in weights]
        whole[radius] += 65536 - sum(whole)
        summed = sum(w * frame.astype(object) for w, frame in zip(whole, window, strict=True))
        return np.asarray((summed + 32768) // 65536).astype(window.dtype)
    with np.errstate(all="ignore"):
        total = np.zeros(window.shape[1:], np.result_type(window.dtype, np.float64))
        for weight, frame in zip(weights, window, strict=True):
            total = total + weight * frame.astype(total.dtype)
        return total.astype(window.dtype)


def denoise(window, strength, full_range, *, channels, picture):
    """Motion-adaptive mean of (2 r + 1, H, W * channels) or, when no picture, (2 r + 1, ...) integers."""
    bits = 16 if window.dtype == np.uint8 else 32
    sigma = strength * full_range / 255
    far = int(np.floor(23 * sigma + 0.5))
    ramp = max(9, far - int(np.floor(13 * sigma + 0.5)))
    factor = -(-(8 << bits) // ramp)
    wide = window.astype(np.int64)
    centre = wide[len(wide) // 2]
    total, weights = 8 * centre, np.full(centre.shape, 8)
    for k, frame in enumerate(wide):
        if k == len(wide) // 2 or strength == 0:
            continue
        difference = abs(frame - centre)
        if picture:
            height, width = difference.shape[0], difference.shape[1] // channels
            edged = np.pad(difference.reshape(height, width, channels), ((1, 1), (1, 1), (0, 0)), mode="edge")
            box = sum(edged[y : y + height, x : x + width] for y in range(3) for x in range(3))
            box = box.reshape(difference.shape)
        else:
            box = 9 * difference
        weight = np.minimum(8, np.maximum(0, far - box) * factor >> bits)
        total = total + weight * frame
        weights = weights + weight
    return ((2 * total + weights) // (2 * weights)).astype(window.dtype)


def background(frames, rate, threshold, noise, full_range, group):
    """Return (masks (N, P / group), backgrounds (N, P)) of (N, P) frames by a running Gaussian in float32."""
    f4 = np.float32
    masks, means = [], []
    mean = variance = None
    least, squared, slow = f4((noise * full_range / 255) ** 2), f4(threshold**2), f4(rate) * f4(1 / 16)
    for t, frame in enumerate(frames):
        x = frame.astype(f4)
        if mean is None:
            mean, variance = np.where(np.isfinite(x), x, f4(0)), np.zeros(x.shape, f4)
        with np.errstate(invalid="ignore", over="ignore"):
            distance = x - mean
            square = distance * distance
            limit = squared * np.maximum(variance, least)
            total, bound = np.zeros(x.size // group, f4), np.zeros(x.size // group, f4)
            for c in range(group):
                total, bound = total + square[c::group], bound + limit[c::group]
            still = np.repeat(total <= bound, group)
            step = np.where(still, f4(max(rate, 1 / (t + 1))), slow)
            finite = square < np.inf
            mean = np.where(finite, mean + step * distance, mean)
            variance = np.where(finite, variance + step * (square - variance), variance)
        masks.append(np.where(still[::group], 0, 255))
        means.append(mean if frame.dtype.kind == "f" else np.floor(mean + f4(0.5)))
    return np.array(masks, np.uint8), np.array(means).astype(frames.dtype)
