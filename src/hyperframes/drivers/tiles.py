"""Chains along time only, a range of samples at a time: what stages hand to each other stays in the core's own cache."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.machine import own_cache
from hyperframes.errors import FrameError
from hyperframes.frames import Array, FrameSpec
from hyperframes.operators.samplewise import Samplewise, flat
from hyperframes.packing import LentPlane
from hyperframes.scheduling import tile_samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.operators.samplewise import SampleKernel
    from hyperframes.packing import Boundary, Halo
    from hyperframes.plan import Group, Plan, PlannedStage, Range

__all__ = ["Held", "TiledChain", "lent_part", "runs_in_tiles", "tile_bytes"]

LEAST_SAMPLES = 4096
"""Of a plane: below, hyperframes are as good."""
SHARES = 16
"""Into how many tiles all planes of one stage alone are cut, whose kernel has smaller ones of its own.

Enough for idle workers to help.
"""


@dataclass(frozen=True, slots=True)
class Held:
    """Frames [first, first + T) of a port, a plane (T, ...) each."""

    planes: tuple[Array | LentPlane, ...]
    first: int


def lent_part(plan: Plan, port: int) -> Group | None:
    """Return what goes tile by tile over frames of a source, which stay where they are then; None where that cannot be.

    Nobody else reads them. A conversion in front is left out: it is for whoever reads the source, frame by frame.
    """
    groups = [group for group in plan.groups if any(port in plan.stages[index].inputs for index in group.stages)]
    if len(groups) != 1 or port in plan.sinks.values():
        return None
    (group,) = groups
    if plan.stages[group.stages[0]].implicit:
        group = dataclasses.replace(group, stages=group.stages[1:])
    if not group.stages or any(port in plan.stages[index].inputs for index in group.stages[1:]):
        return None
    spec = plan.ports[plan.stages[group.stages[0]].inputs[0]].spec
    return group if isinstance(spec, FrameSpec) and spec.is_picture and runs_in_tiles(plan, group) else None


def runs_in_tiles(plan: Plan, group: Group) -> bool:
    """Whether `group` is a chain along time of which only the end leaves it, over planes that are worth cutting."""
    stages = [plan.stages[index] for index in group.stages]
    if group.sequential or plan.boundary.mode == "none":
        return False
    if group.exports != stages[-1].outputs or any(len(stage.inputs) != 1 for stage in stages):
        return False
    if any(after.inputs != before.outputs for before, after in itertools.pairwise(stages)):
        return False
    spec = plan.ports[stages[0].inputs[0]].spec
    return (
        all(isinstance(stage.operator, Samplewise) for stage in stages)
        and isinstance(spec, FrameSpec)
        and max(map(math.prod, spec.shapes)) >= LEAST_SAMPLES
    )


def tile_bytes(plan: Plan, group: Group, frames: int) -> int:
    """Return the bytes that one thread keeps between stages for hyperframes of `frames` core frames."""
    if len(group.stages) < 2:
        return 0
    rows = frames + 2 * sum(plan.stages[index].reach.total for index in group.stages)
    specs = [plan.ports[plan.stages[index].inputs[0]].spec for index in group.stages]
    weight = sum(rows * spec.dtype.itemsize for spec in specs if isinstance(spec, FrameSpec))
    return weight * tile_samples(weight, own_cache())


class TiledChain:
    """A chain on one hyperframe.

    Parameters
    ----------
    plan, group : Plan, Group
        For which `runs_in_tiles`.
    cores : dict of int to (start, stop)
        By stage: the frames that it makes. Each stage makes what the next one reads, at the stream's ends less.
    num_frames : int or None
        N, where it is known.
    """

    def __init__(self, plan: Plan, group: Group, cores: dict[int, Range], num_frames: int | None) -> None:
        self._boundary, self._num_frames = plan.boundary, num_frames
        self._fill = plan.boundary.value if plan.boundary.mode == "constant" else 0.0
        self._stages = [plan.stages[index] for index in group.stages]
        self._made = [cores[index] for index in group.stages]
        self._dtypes = [plan.ports[stage.inputs[0]].spec.dtype for stage in self._stages]  # type: ignore[union-attr]  # frames

    def run(
        self, source: Held, outs: tuple[Array, ...], split: Callable[[int, Callable[[int, int], None]], None]
    ) -> list[float]:
        """Fill `outs`, planes of the frames that the last stage makes; return the seconds spent in each stage."""
        found: list[list[float]] = []  # a list only grows, whichever thread adds to it
        made = [(source.first, source.first + len(source.planes[0])), *self._made[:-1]]
        windows = [
            _Window.of(stage.halo, core, held, self._num_frames, self._boundary)
            for stage, core, held in zip(self._stages, self._made, made, strict=True)
        ]
        outs = tuple(map(flat, outs))
        tile = -(-sum(out.shape[1] for out in outs) // (64 * SHARES)) * 64
        chains = [
            _Plane(self._stages, self._dtypes, windows, _rows(plane), out, self._fill, tile)
            for plane, out in zip(source.planes, outs, strict=True)
        ]
        ends = list(itertools.accumulate(chain.num_tiles for chain in chains))

        def part(start: int, stop: int) -> None:
            for chain, end in zip(chains, ends, strict=True):
                begin = end - chain.num_tiles
                if start < end and stop > begin:
                    found.append(chain.run(max(start, begin) - begin, min(stop, end) - begin))

        split(ends[-1], part)  # of all planes at once: handing work to helpers costs the same for a small one
        return [sum(spent) for spent in zip(*found, strict=True)]


@dataclass(frozen=True, slots=True)
class _Window:
    """The frames that a stage reads, and the room for them where they are not read where they lie."""

    start: int
    """Row of the first frame read in the room."""
    stop: int
    made: int
    """Row of the first frame that the stage before makes."""
    rows: int
    """Of the room in all."""
    padded: tuple[tuple[int, int], ...]
    """(row, row of the frame that stands there; -1: none) of what lies beyond the stream's ends."""

    @classmethod
    def of(cls, halo: Halo, core: Range, held: Range, num_frames: int | None, boundary: Boundary) -> _Window:
        """Return the window around `core` of a stream of which the frames `held` are there."""
        read = (core[0] - halo.before, core[1] + halo.after)
        first, last = min(read[0], held[0]), max(read[1], held[1])
        if first == held[0] and last == held[1]:  # nearly always
            return cls(read[0] - first, read[1] - first, 0, last - first, ())
        beyond = np.array([p for p in range(*read) if not held[0] <= p < held[1]], np.int64)
        stand_in = boundary.source_index(beyond, held[1] if num_frames is None else num_frames)
        real = stand_in[stand_in >= 0]
        if (num_frames is None and read[1] > held[1]) or ((real < held[0]) | (real >= held[1])).any():
            raise FrameError(
                f"frames {read} are needed: expected all of them or their stand-ins in hand, got {held}",
                expected=read,
                got=held,
            )
        padded = tuple(
            (int(p) - first, int(s) - first if s >= 0 else -1) for p, s in zip(beyond, stand_in, strict=True)
        )
        return cls(read[0] - first, read[1] - first, held[0] - first, last - first, padded)

    def read_from(self, source: LentPlane) -> LentPlane | None:
        """Return the frames read, stand-ins among them, where none has to be made and each lies in one piece."""
        if not source.in_one_piece or any(stand_in < 0 for _, stand_in in self.padded):
            return None
        places = np.arange(self.start, self.stop)
        for row, stand_in in self.padded:
            places[row - self.start] = stand_in
        return source.taken(places - self.made)


class _Plane:
    """One plane of a hyperframe on its way through the chain."""

    def __init__(
        self,
        stages: list[PlannedStage],
        dtypes: list[np.dtype[Any]],
        windows: list[_Window],
        source: Array | LentPlane,
        out: Array,
        fill: float,
        tile: int,
    ) -> None:
        self._stages, self._dtypes, self._windows = stages, dtypes, windows
        self._source, self._out, self._fill = source, out, fill
        rows = source if isinstance(source, LentPlane) else LentPlane.of(tuple(source)) if windows[0].padded else None
        self._brings = rows is not None
        self._apart = None if rows is None else windows[0].read_from(rows)
        self._samples = out.shape[1]
        self._kept = self._kernel_alone() if len(stages) == 1 else None
        if self._kept is None:
            weight = sum(window.rows * dtype.itemsize for window, dtype in zip(windows, dtypes, strict=True))
            tile = tile_samples(weight + len(out) * out.itemsize, own_cache())
        self._width = min(tile, self._samples + self._samples % 2)
        self.num_tiles = -(-self._samples // self._width)

    def run(self, start: int, stop: int) -> list[float]:
        """Take the tiles [start, stop) through all stages; return the seconds spent in each."""
        began = time.perf_counter()
        first, last = start * self._width, min(stop * self._width, self._samples)
        if self._kept is not None:
            self._kept(first, last, 0)
            return [time.perf_counter() - began]
        kernels, rooms = self._kernels()
        spent = [0.0] * len(kernels)
        for left in range(first, last, self._width):
            right = min(left + self._width, last)
            for index, (kernel, room) in enumerate(zip(kernels, rooms, strict=True)):
                if room is not None:
                    if index == 0:
                        self._bring(room[self._windows[0].made :][: len(self._source)], left, right)
                    self._pad(room, self._windows[index], right - left)
                at = left if room is None else 0
                to = left if index == len(kernels) - 1 else 0
                kernel(at, at + right - left, to - at)
                ended = time.perf_counter()
                spent[index] += ended - began
                began = ended
        return spent

    def _kernel_alone(self) -> SampleKernel | None:
        """Return the kernel of a stage that is alone, which hands nothing on; None where frames are brought for it."""
        return self._kernel_apart(self._out) if self._brings else self._kernel_over(0, self._source, self._out)

    def _kernel_apart(self, out: Array) -> SampleKernel | None:
        """Return the first stage's kernel for frames that lie apart, if it has one and they lie as it needs them."""
        operator = self._stages[0].operator
        assert isinstance(operator, Samplewise)
        return None if self._apart is None else operator.apart_kernel(self._apart, out)

    def _kernels(self) -> tuple[list[SampleKernel], list[Array | None]]:
        """Return each stage's kernel and the room that it reads from; None: the frames where they lie."""
        rooms: list[Array | None] = [None]
        rooms += [self._room(index) for index in range(1, len(self._stages))]
        kernels = []
        for index, (stage, window) in enumerate(zip(self._stages, self._windows, strict=True)):
            out = self._out
            if index + 1 < len(rooms):
                after, following = self._windows[index + 1], rooms[index + 1]
                assert following is not None
                out = following[after.made : after.made + window.stop - window.start - stage.halo.total]
            kernel = self._kernel_apart(out) if index == 0 else None
            if kernel is None:
                if index == 0 and self._brings:
                    rooms[0] = self._room(0)
                kernel = self._kernel_over(index, self._source if rooms[index] is None else rooms[index], out)
            kernels.append(kernel)
        return kernels, rooms

    def _kernel_over(self, index: int, rows: Array | LentPlane | None, out: Array) -> SampleKernel:
        operator, window = self._stages[index].operator, self._windows[index]
        assert isinstance(operator, Samplewise)
        assert isinstance(rows, np.ndarray)
        source = rows[window.start : window.stop]
        source.flags.writeable = False  # as the kernels were compiled for
        return operator.sample_kernel(source, out)

    def _room(self, index: int) -> Array:
        return np.empty((self._windows[index].rows, self._width), self._dtypes[index])

    def _bring(self, room: Array, left: int, right: int) -> None:
        """Copy the samples [left, right) of all frames to `room`."""
        if isinstance(self._source, np.ndarray):
            room[:, : right - left] = self._source[:, left:right]
            return
        from hyperframes.drivers.gather import gather  # loads the compiler

        gather(self._source, room, left, right)

    def _pad(self, room: Array, window: _Window, width: int) -> None:
        for row, stand_in in window.padded:
            room[row, :width] = room[stand_in, :width] if stand_in >= 0 else self._fill


def _rows(plane: Array | LentPlane) -> Array | LentPlane:
    return flat(plane) if isinstance(plane, np.ndarray) else plane
