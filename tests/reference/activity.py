"""Normal flow and change between two pictures, pixel by pixel."""

import math

import numpy as np

NAMES = ["mean", "spread", "difference", "noise", "histogram_change", "likeness", *(f"flow_{k}" for k in range(32))]


def measures(before, after):
    """Return the row about the step from `before` to `after`, (h, w) uint8, as a dict; `likeness` is left out."""
    before, after = np.asarray(before, int), np.asarray(after, int)
    height, width = after.shape
    flow, steps = [0.0] * 32, []
    both = (before + after) / 2
    for y in range(height):
        for x in range(width):
            gx = (both[y, min(x + 1, width - 1)] - both[y, max(x - 1, 0)]) / 2
            gy = (both[min(y + 1, height - 1), x] - both[max(y - 1, 0), x]) / 2
            step = abs(int(after[y, x]) - int(before[y, x]))
            steps.append(step)
            flow[min(step, 31)] += min(8.0, step / math.sqrt(gx * gx + gy * gy + 9.0)) / after.size
    row = {f"flow_{k}": value for k, value in enumerate(flow)}
    row |= {"mean": after.mean(), "spread": after.std(), "difference": np.mean(steps)}
    row["noise"] = quartile(steps) / 0.31864
    old, new = (np.bincount(p.ravel() // 4, minlength=64) for p in (before, after))
    row["histogram_change"] = np.abs(new - old).sum() / (2 * after.size)
    return row


def quartile(steps):
    """A whole number k stands for the values from k - 1/2 to k + 1/2, 0 for those up to 1/2, evenly spread."""
    wanted, below = len(steps) / 4, 0
    for level in range(256):
        count = steps.count(level)
        if count and below + count >= wanted:
            share = (wanted - below) / count
            return max(0.0, level - 0.5 + share) if level else share / 2
        below += count
    raise AssertionError("no steps")


def likeness(before, after):
    """Correlation of pictures whose sides are multiples of 16, by means of 16 x 16 cells."""
    cells = []
    for picture in (before, after):
        h, w = (side // 16 for side in picture.shape)
        cells.append([np.mean(picture[y * h : y * h + h, x * w : x * w + w]) for y in range(16) for x in range(16)])
    return float(np.corrcoef(cells)[0, 1])
