"""Frames that stay where their source put them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.frames import Array, FrameSpec
from hyperframes.packing.slab import keep_spare, map_planes, plane_offsets, private_map

if TYPE_CHECKING:
    import mmap

__all__ = ["FrameRooms", "LentPlane"]


@dataclass(frozen=True, slots=True, eq=False)
class LentPlane:
    """One plane of consecutive frames, each in memory of its own, which stays as long as this is held."""

    frames: tuple[Array, ...]
    """T arrays of `shape`; each row lies in one piece."""
    shape: tuple[int, ...]
    """Of one frame: (h, w), (h, w, c), or (samples,)."""
    dtype: np.dtype[Any]
    addresses: Array
    """(T,) int64: of the first row of each frame."""
    steps: Array
    """(T,) int64: bytes from one row of each frame to the next."""

    @classmethod
    def of(cls, frames: tuple[Array, ...]) -> LentPlane:
        """Return the plane that `frames` are, at least one."""
        told = [frame.__array_interface__["data"][0] for frame in frames]
        steps = [frame.strides[0] for frame in frames]
        return cls(frames, frames[0].shape, frames[0].dtype, np.array(told, np.int64), np.array(steps, np.int64))

    def __len__(self) -> int:
        return len(self.frames)

    def taken(self, places: Array) -> LentPlane:
        """Return the frames at `places`, some of them perhaps several times."""
        frames = tuple(self.frames[place] for place in places.tolist())
        return LentPlane(frames, self.shape, self.dtype, self.addresses[places], self.steps[places])

    @property
    def in_one_piece(self) -> bool:
        """Whether in every frame rows follow each other without a gap."""
        return bool((self.steps == self.row_samples * self.dtype.itemsize).all())

    @property
    def num_samples(self) -> int:
        """Of one frame."""
        return math.prod(self.shape)

    @property
    def row_samples(self) -> int:
        """Of one row of a frame."""
        return math.prod(self.shape[1:])


class FrameRooms:
    """Memory of single frames of one spec, used again once nobody holds arrays of it, and by the next run (`spare_for`).

    For one thread that asks; whoever lets go may be another.
    """

    def __init__(self, spec: FrameSpec) -> None:
        self._spec, (self._offsets, self._size) = spec, plane_offsets(spec, 1)
        self._free = _Free()

    def lend(self) -> tuple[Array, ...]:
        """Return writable arrays of any content, one per plane."""
        memory = self._free.maps.pop() if self._free.maps else private_map(self._size)
        whole = np.asarray(_Room(memory, self._free))
        return tuple(plane[0] for plane in map_planes(whole.data, self._spec, 1, self._offsets))


class _Free:
    """Maps that nobody uses now; kept for others when the last one who could use them goes."""

    def __init__(self) -> None:
        self.maps: list[mmap.mmap] = []

    def __del__(self) -> None:
        for memory in self.maps:
            keep_spare(memory)


class _Room:
    """What arrays of a frame hold on to; gives the memory back when the last of them goes."""

    def __init__(self, memory: mmap.mmap, free: _Free) -> None:
        self._memory, self._free = memory, free
        address = np.frombuffer(memory, np.uint8).__array_interface__["data"]
        self.__array_interface__ = {"shape": (len(memory),), "typestr": "|u1", "data": address, "version": 3}

    def __del__(self) -> None:
        self._free.maps.append(self._memory)
