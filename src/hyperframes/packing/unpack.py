"""Hyperframes in, frames out: exactly one per frame owned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperframes.frames import Clip, Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.packing.hyperframe import Hyperframe

__all__ = ["unpack"]


def unpack(hyperframe: Hyperframe) -> Iterator[Frame]:
    """Yield the frames that `hyperframe` owns, as views, in order; the inverse of packing."""
    core, header = hyperframe.core, hyperframe.header
    yield from Clip(
        hyperframe.core_planes,
        header.pts[core],
        header.frame_ids[core],
        hyperframe.spec,
        None if header.durations is None else header.durations[core],
    )
