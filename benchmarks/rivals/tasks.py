"""What contestants are asked for, alike in every environment."""

from __future__ import annotations

from typing import Any

SCALING_FRAMES = 96
PYTHON_FRAMES = 576
"""Frames of the workloads that compare workers."""
STORED_FRAMES = 96
"""Frames of those in memory that are written as arrays."""


def non_uniform(num_frames: int, rate: int = 30) -> list[int]:
    """Return positions at 4 frames a second, and at 20 between the 8th and the 11th second (scaled to the clip)."""
    length = num_frames / rate
    event = (0.4 * length, 0.55 * length)
    positions, seconds = set(), 0.0
    while seconds < length - 1e-6:
        positions.add(min(num_frames - 1, round(seconds * rate)))
        seconds += 1 / 20 if event[0] <= seconds < event[1] else 1 / 4
    return sorted(positions)


def sensor_rows(count: int = 10_000_000) -> Any:
    """Return (count, 1) float64 values of a swinging sensor: slow drift, a resonance and a tone."""
    import numpy as np

    t = np.arange(count, dtype=np.float64)
    values = 9.81 + 1e-7 * t + 0.5 * np.sin(t / 211) * np.sin(t / 17) + 0.05 * np.sin(t * 1.7)
    return values.reshape(-1, 1)


def pieces(rows: Any, length: int = 100_000) -> Any:
    """Return results of `sensor_rows` as (n, length) for comparing: a row each would be too many."""
    return rows.reshape(-1, length)
