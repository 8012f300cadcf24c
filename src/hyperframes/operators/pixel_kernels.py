"""Samples through tables; serial."""

from __future__ import annotations

from typing import Any

from hyperframes.kernels import kernel

__all__ = ["look_up", "look_up_dithered"]


@kernel
def look_up(source: Any, table: Any, target: Any) -> None:
    """Write ``table[source]`` to `target`; both (H, W) with the same shape."""
    for row in range(source.shape[0]):
        line, out = source[row], target[row]
        for x in range(len(line)):
            out[x] = table[line[x]]


@kernel
def look_up_dithered(source: Any, tables: Any, target: Any) -> None:
    """Write ``tables[y % 8, x % 8, source]`` to `target`; both (H, W) with the same shape."""
    for row in range(source.shape[0]):
        line, out, table = source[row], target[row], tables[row & 7]
        for x in range(len(line)):
            out[x] = table[x & 7, line[x]]
