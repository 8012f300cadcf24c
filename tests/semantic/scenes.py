"""Made footage whose events are known: textured scenes, things that move in them, cuts, fades, flashes, noise."""

import numpy as np

HEIGHT, WIDTH = 48, 64


def scene(seed):
    """A smooth texture (H, W) of float64, 20 to 235."""
    random = np.random.default_rng(seed)
    small = random.uniform(20, 235, (HEIGHT // 8 + 2, WIDTH // 8 + 2))
    y, x = np.mgrid[:HEIGHT, :WIDTH] / 8
    y0, x0 = y.astype(int), x.astype(int)
    fy, fx = y - y0, x - x0
    top = small[y0, x0] * (1 - fx) + small[y0, x0 + 1] * fx
    return top * (1 - fy) + (small[y0 + 1, x0] * (1 - fx) + small[y0 + 1, x0 + 1] * fx) * fy


def still(seed, num_frames):
    """(N, H, W) float64 of one scene."""
    return np.repeat(scene(seed)[None], num_frames, axis=0)


def moving(seed, num_frames, speed=1.0):
    """A bright disc that crosses the scene at `speed` pixels a frame."""
    frames = still(seed, num_frames)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    for t in range(num_frames):
        frames[t] += 120 * np.exp(-((x - (8 + speed * t) % WIDTH) ** 2 + (y - HEIGHT / 2) ** 2) / 40)
    return frames


def panning(seed, num_frames, speed=2):
    """The scene going by."""
    wide = np.concatenate([scene(seed), scene(seed + 1000)], axis=1)
    return np.stack([np.roll(wide, -speed * t, axis=1)[:, :WIDTH] for t in range(num_frames)])


def faded(first, second, length):
    """`first`, which goes black over its last `length` frames, then `second`, which comes back over as many."""
    first, second = first.copy(), second.copy()
    share = np.linspace(1, 0, length)[:, None, None]
    first[-length:] *= share
    second[:length] *= share[::-1]
    return np.concatenate([first, second])


def flashed(frames, at, length=2, by=90.0):
    frames = frames.copy()
    frames[at : at + length] += by
    return frames


def footage(*parts, noise=0.0, seed=0):
    """The parts one after another as (N, H, W) uint8."""
    frames = np.concatenate(parts)
    frames = frames + np.random.default_rng(seed).normal(0, noise, frames.shape) if noise else frames
    return np.clip(np.rint(frames), 0, 255).astype(np.uint8)
