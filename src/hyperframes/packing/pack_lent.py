"""Hyperframes of frames that stay where their source put them: they are read there, and nothing is copied to slabs."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.packing.lent import LentPlane
from hyperframes.packing.pack import Memory, Packer, shape_error
from hyperframes.packing.slab import SlabPool

if TYPE_CHECKING:
    from hyperframes.frames import Array, FrameSpec
    from hyperframes.packing.halo import Halo

__all__ = ["LentPacker"]


class LentPacker(Packer):
    """Seals hyperframes like `Packer`, of frames that their source lends for as long as somebody holds them.

    What is sealed has no planes, but `Hyperframe.lent`. Frames of a halo are in two hyperframes, and nothing is copied.

    Parameters
    ----------
    spec, size, halo, **told
        As for `Packer`; frames are pictures.
    """

    def __init__(self, spec: FrameSpec, size: int, halo: Halo, **told: Any) -> None:
        super().__init__(spec, size, halo, SlabPool(spec, 1, 0), **told)
        self._held: deque[tuple[Array, ...]] = deque()
        self._held_from = self.num_frames

    def take(self, planes: tuple[Array, ...], index: int) -> None:
        """Hold the next frame's planes; `push` counts it."""
        for plane, shape in zip(planes, self.spec.shapes, strict=True):
            if plane.shape != shape:
                raise shape_error(self.stream, index, expected=shape, got=plane.shape)
        self._held.append(tuple(map(_with_whole_rows, planes)))

    def abandon(self) -> None:
        """Let all frames go; the packer takes no more."""
        self._held.clear()

    def _memory(self, read: tuple[int, int]) -> Memory:
        frames = list(islice(self._held, read[0] - self._held_from, read[1] - self._held_from))
        return Memory((), None, 0, tuple(LentPlane.of(plane) for plane in zip(*frames, strict=True)))

    def _seal(self, *arguments: Any, **told: Any) -> Any:
        sealed = super()._seal(*arguments, **told)
        while self._held_from < self._keep_from() and self._held:
            self._held.popleft()
            self._held_from += 1
        return sealed


def _with_whole_rows(plane: Array) -> Array:
    """Return `plane`, or a copy where the samples of a row do not lie side by side."""
    return plane if plane[0].flags.c_contiguous else np.ascontiguousarray(plane)
