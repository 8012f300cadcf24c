"""Chains along time only, a range of samples at a time: what stages hand to each other stays in the core's own cache."""

from __future__ import annotations

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
from hyperframes.scheduling import tile_samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.operators.samplewise import SampleKernel
    from hyperframes.packing import Boundary, Halo
    from hyperframes.plan import Group, Plan, PlannedStage, Range

__all__ = ["Held", "TiledChain", "runs_in_tiles", "tile_bytes"]

LEAST_SAMPLES = 4096
"""Of a plane: below, hyperframes are as good."""


@dataclass(frozen=True, slots=True)
class Held:
    """Frames [first, first + T) of a port, a plane (T, ...) each."""

    planes: tuple[Array, ...]
    first: int


def runs_in_tiles(plan: Plan, group: Group) -> bool:
    """Whether `group` is a chain along time of which only the end leaves it, over planes that are worth cutting."""
    stages = [plan.stages[index] for index in group.stages]
    if len(stages) < 2 or group.sequential or plan.boundary.mode == "none":
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
        for plane, out in zip(source.planes, outs, strict=True):
            made = [(source.first, source.first + len(plane)), *self._made[:-1]]
            windows = [
                _Window.of(stage.halo, core, held, self._num_frames, self._boundary)
                for stage, core, held in zip(self._stages, self._made, made, strict=True)
            ]
            chain = _Plane(self._stages, self._dtypes, windows, flat(plane), flat(out), self._fill)

            def part(start: int, stop: int, chain: _Plane = chain) -> None:
                found.append(chain.run(start, stop))

            split(chain.num_tiles, part)
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


class _Plane:
    """One plane of a hyperframe on its way through the chain."""

    def __init__(
        self,
        stages: list[PlannedStage],
        dtypes: list[np.dtype[Any]],
        windows: list[_Window],
        source: Array,
        out: Array,
        fill: float,
    ) -> None:
        self._stages, self._dtypes, self._windows = stages, dtypes, windows
        self._source, self._out, self._fill = source, out, fill
        self._copied = bool(windows[0].padded)
        weight = sum(window.rows * dtype.itemsize for window, dtype in zip(windows, dtypes, strict=True))
        width = tile_samples(weight + len(out) * out.itemsize, own_cache())
        self._width = min(width, source.shape[1] + source.shape[1] % 2)
        self.num_tiles = -(-source.shape[1] // self._width)

    def run(self, start: int, stop: int) -> list[float]:
        """Take the tiles [start, stop) through all stages; return the seconds spent in each."""
        kernels, rooms = self._kernels()
        spent = [0.0] * len(kernels)
        began = time.perf_counter()
        for left in range(start * self._width, min(stop * self._width, self._source.shape[1]), self._width):
            right = min(left + self._width, self._source.shape[1])
            for index, (kernel, room) in enumerate(zip(kernels, rooms, strict=True)):
                if room is not None:
                    if index == 0:
                        made = self._windows[0].made
                        room[made : made + len(self._source), : right - left] = self._source[:, left:right]
                    self._pad(room, self._windows[index], right - left)
                at = left if room is None else 0
                to = left if index == len(kernels) - 1 else 0
                kernel(at, at + right - left, to - at)
                ended = time.perf_counter()
                spent[index] += ended - began
                began = ended
        return spent

    def _kernels(self) -> tuple[list[SampleKernel], list[Array | None]]:
        """Return each stage's kernel and the room that it reads from; None: the frames where they lie."""
        rooms: list[Array | None] = [
            np.empty((window.rows, self._width), dtype) if index or self._copied else None
            for index, (window, dtype) in enumerate(zip(self._windows, self._dtypes, strict=True))
        ]
        kernels = []
        for index, (stage, window, room) in enumerate(zip(self._stages, self._windows, rooms, strict=True)):
            source = (self._source if room is None else room)[window.start : window.stop]
            source.flags.writeable = False  # as the kernels were compiled for
            out = self._out
            if index + 1 < len(rooms):
                after, following = self._windows[index + 1], rooms[index + 1]
                assert following is not None
                out = following[after.made : after.made + len(source) - stage.halo.total]
            assert isinstance(stage.operator, Samplewise)
            kernels.append(stage.operator.sample_kernel(source, out))
        return kernels, rooms

    def _pad(self, room: Array, window: _Window, width: int) -> None:
        for row, stand_in in window.padded:
            room[row, :width] = room[stand_in, :width] if stand_in >= 0 else self._fill
