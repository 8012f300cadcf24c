"""Slow references: whole sequences padded by hand, in plain NumPy. Imports nothing from the package."""

import numpy as np


def padded(frames, before, after, boundary, value=0):
    """Return frames (N, ...) with `before` and `after` frames of stand-ins at the ends, (before + N + after, ...)."""
    count = len(frames)
    out = []
    for g in range(-before, count + after):
        if boundary == "replicate":
            out.append(frames[min(max(g, 0), count - 1)])
        elif boundary == "reflect":
            if count == 1:
                out.append(frames[0])
            else:
                m = g % (2 * (count - 1))
                out.append(frames[m if m < count else 2 * (count - 1) - m])
        else:
            out.append(frames[g] if 0 <= g < count else np.full_like(frames[0], value))
    return np.stack(out)


def window_sums(frames, before, after, boundary, value=0):
    """Return for each frame the sum over its window, int64."""
    wide = padded(frames.astype(np.int64), before, after, boundary, value)
    span = before + 1 + after
    return np.stack([wide[t : t + span].sum(axis=0) for t in range(len(frames))])
