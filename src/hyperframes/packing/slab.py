"""Frame memory: a fixed number of maps, leased and given back, never grown."""

from __future__ import annotations

import math
import mmap
import os
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hyperframes.errors import SchedulingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Array, FrameSpec

__all__ = [
    "Slab",
    "SlabPool",
    "keep_spare",
    "map_planes",
    "plane_offsets",
    "private_map",
    "result_array",
    "spare_for",
]

_ALIGN = 64  # a cache line, so that no two planes share one


class Slab:
    """Room for `capacity` frames of one spec in one anonymous map.

    Parameters
    ----------
    spec : FrameSpec
        Of every frame.
    capacity : int
        Frames.
    shared : bool
        Whether other processes map the same pages: then the map has a file descriptor, of ``memfd_create`` where the
        system offers it, else of an unlinked temporary file. A map for this process alone asks for huge pages, whose
        first touch costs a tenth, and is kept for the next slab when it goes (see `spare_for`): it may hold old samples.
    """

    __slots__ = ("_map", "_slots", "capacity", "fd", "planes", "references")

    def __init__(self, spec: FrameSpec, capacity: int, *, shared: bool = True) -> None:
        self.capacity = capacity
        self.references = 0
        offsets, size = plane_offsets(spec, capacity)
        self.fd = _anonymous_file(size) if shared else -1
        self._map = mmap.mmap(self.fd, size) if shared else private_map(size)
        self.planes = map_planes(self._map, spec, capacity, offsets)
        self._slots: list[tuple[Array, ...] | None] = [None] * capacity

    def slot(self, place: int) -> tuple[Array, ...]:
        """Return the writable arrays of one frame, one per plane; made once, as slabs are used over and over."""
        slot = self._slots[place]
        if slot is None:  # frames of one value too are arrays
            slot = self._slots[place] = tuple(plane[place, ...] for plane in self.planes)
        return slot

    def __del__(self) -> None:
        fd, self.fd = getattr(self, "fd", -1), -1
        if fd >= 0:
            os.close(fd)
            return
        memory, self.planes, self._slots = getattr(self, "_map", None), (), []
        if memory is not None and sys.getrefcount(memory) <= _OWN_REFERENCES:  # nobody has kept a view of it
            keep_spare(memory)


def _own_references() -> int:
    """Return what `Slab.__del__` counts for a map that nobody else holds: from Python 3.14 on, calls hold nothing."""
    slab = [object()]
    memory = slab[0]
    return sys.getrefcount(memory)


_OWN_REFERENCES: Final = _own_references()
_SPARE_MOST: Final = 512 << 20
_SPARE_RESULTS: Final = 2 << 30  # of them at most; and at most an eighth of the machine's memory
_LEAST_RESULT: Final = 4 << 20  # bytes: smaller ones are the allocator's
_spare: list[mmap.mmap] = []  # only by calls that no other thread can come between
_spare_run = ""


def spare_for(run: str) -> None:
    """Tell what kind of run begins: maps that an equal one left are used again, all others go.

    The next run of a process would pay more for touching fresh pages than for what it does in memory. At most half a
    gigabyte is kept, and the system takes it as soon as it needs it.
    """
    global _spare_run, _runs
    _runs += 1
    _spare_results[:] = [item for item in _spare_results if item[0] >= _runs - 1]  # the run before found no use for it
    if run != _spare_run:
        _spare.clear()
        _spare_run = run


def keep_spare(memory: mmap.mmap) -> None:
    """Keep a map that nobody uses any more for the next one of its size (see `spare_for`)."""
    if sum(map(len, tuple(_spare))) + len(memory) <= _SPARE_MOST:
        _offer(memory)
        _spare.append(memory)


def _offer(memory: mmap.mmap) -> None:
    """Let the system take the pages as soon as it needs them."""
    if hasattr(mmap, "MADV_FREE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_FREE)


_runs = 0
_spare_results: list[tuple[int, mmap.mmap]] = []  # with the run after which it was left, the newest last


class _Result:
    """Memory that one array of results lies in; once nobody holds the array, it is there for the next one."""

    def __init__(self, memory: mmap.mmap, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._memory = memory
        address = np.frombuffer(memory, np.uint8).ctypes.data
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3}

    def __del__(self) -> None:
        memory = getattr(self, "_memory", None)
        if memory is None or len(memory) > _most_spare_results():
            return
        _offer(memory)
        _spare_results.append((_runs, memory))
        while sum(len(memory) for _, memory in tuple(_spare_results)) > _most_spare_results():
            _spare_results.pop(0)


def _most_spare_results() -> int:
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return _SPARE_MOST
    return min(_SPARE_RESULTS, machine // 8)


def result_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of any content for results that are handed out, in memory of one that nobody holds any more if it fits.

    First touching fresh pages costs several times what most operators do with them. At most two gigabytes, or an eighth of
    the machine's memory, are kept for the next two runs, and the system takes them as soon as it needs them.
    """
    size = dtype.itemsize * math.prod(shape)
    if size < _LEAST_RESULT or dtype.hasobject or os.name != "posix":
        return np.empty(shape, dtype)
    for item in tuple(_spare_results):
        if size <= len(item[1]) <= size + size // 8:
            with suppress(ValueError):  # another thread was quicker
                _spare_results.remove(item)
                return np.asarray(_Result(item[1], shape, dtype))
    return np.asarray(_Result(fresh_map(size), shape, dtype))


def plane_offsets(spec: FrameSpec, capacity: int) -> tuple[list[int], int]:
    """Return the byte offset of each plane in a slab of `capacity` frames, and the slab's size in bytes."""
    offsets, size = [], 0
    for shape in spec.shapes:
        offsets.append(size)
        size += capacity * spec.dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        size += -size % _ALIGN
    return offsets, max(size, 1)


def map_planes(memory: mmap.mmap | memoryview, spec: FrameSpec, capacity: int, offsets: list[int]) -> tuple[Array, ...]:
    """Return the plane arrays (capacity, ...) that lie in `memory`."""
    return tuple(
        np.ndarray((capacity, *shape), spec.dtype, buffer=memory, offset=offset)
        for shape, offset in zip(spec.shapes, offsets, strict=True)
    )


def _anonymous_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("hyperframes", os.MFD_CLOEXEC)
    else:
        fd, path = tempfile.mkstemp(prefix="hyperframes-")
        os.unlink(path)
    os.ftruncate(fd, size)
    return fd


def private_map(size: int) -> mmap.mmap:
    """Return a map for this process alone, of any content: one that was kept, or a fresh one."""
    for memory in tuple(_spare):
        if len(memory) == size:
            with suppress(ValueError):  # another thread was quicker
                _spare.remove(memory)
                return memory
    return fresh_map(size)


def fresh_map(size: int) -> mmap.mmap:
    """Return an anonymous map for this process alone that asks for huge pages."""
    if os.name != "posix":
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages gives small ones: slower at first, nothing else
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class SlabPool:
    """A fixed number of slabs of one spec, made when first leased and kept until the pool goes.

    Reused pages cost nothing; fresh ones cost more than a copy. References are counted: the packer and each
    hyperframe that views a slab hold one. Threads that share a pool pass the `lock` that guards its counts. Slabs that
    worker processes map are `shared`.
    """

    def __init__(
        self,
        spec: FrameSpec,
        capacity: int,
        count: int,
        lock: AbstractContextManager[Any] | None = None,
        *,
        shared: bool = True,
    ) -> None:
        self.spec, self.capacity, self.count, self.shared = spec, capacity, count, shared
        self.on_free: Callable[[], None] | None = None
        """Called when a slab was given back by its last holder."""
        self._lock = lock or nullcontext()
        self._free: list[Slab] = []
        self._made = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all slabs once made."""
        return self.count * plane_offsets(self.spec, self.capacity)[1]

    @property
    def leased(self) -> int:
        """Slabs that somebody holds."""
        return self._made - len(self._free)

    def lease(self) -> Slab:
        """Return a slab with one reference.

        Raises
        ------
        SchedulingError
            If all are held: whoever asks must have been given a slot first.
        """
        slab = self.find()
        if slab is None:
            raise SchedulingError(f"no free slab: all {self.count} are leased")
        return slab

    def find(self) -> Slab | None:
        """Return a slab with one reference; None if all are held."""
        with self._lock:
            if self._free:
                slab = self._free.pop()
            elif self._made < self.count:
                slab = Slab(self.spec, self.capacity, shared=self.shared)
                self._made += 1
            else:
                return None
            slab.references = 1
            return slab

    def touch(self, count: int) -> None:
        """Make the first `count` slabs and touch their pages now, rather than while frames are waiting to be copied."""
        slabs = [slab for _ in range(min(count, self.count - self.leased)) if (slab := self.find()) is not None]
        for slab in slabs:
            for plane in slab.planes:
                plane.fill(0)
        for slab in reversed(slabs):
            self.release(slab)

    def hold(self, slab: Slab) -> None:
        """Add a reference."""
        with self._lock:
            slab.references += 1

    def release(self, slab: Slab) -> None:
        """Drop a reference; the last one frees the slab."""
        with self._lock:
            if slab.references < 1:
                raise SchedulingError("a slab was released more often than it was leased")
            slab.references -= 1
            freed = slab.references == 0
            if freed:
                self._free.append(slab)
        if freed and self.on_free is not None:
            self.on_free()
