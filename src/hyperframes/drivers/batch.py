"""Several live hyperframes in one call of the operators: joined, filled up to a fixed size, split again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.execute import Buffer, Job

if TYPE_CHECKING:
    from hyperframes.drivers.entry import Entry
    from hyperframes.drivers.execute import GroupRunner
    from hyperframes.drivers.live_plans import LivePlan

__all__ = ["Batch", "by_plan"]


def by_plan(entries: list[Entry]) -> list[list[Entry]]:
    """Return hyperframes by the plan that they share."""
    found: dict[int, list[Entry]] = {}
    for entry in entries:
        found.setdefault(id(entry.plan.plan.stages), []).append(entry)
    return list(found.values())


class Batch:
    """One worker's memory for the frames of several hyperframes in one call, and for their results.

    Parameters
    ----------
    plan : LivePlan
        Framewise.
    capacity : int
        Frames of a call, at most.

    Notes
    -----
    Frames are copied next to each other, and results back to where each hyperframe's belong. Where there are fewer, the
    last frame is repeated and the mask says so.
    """

    def __init__(self, plan: LivePlan, capacity: int) -> None:
        self.plan, self.capacity = plan, capacity
        self._planes = tuple(np.empty((capacity, *shape), plan.spec.dtype) for shape in plan.spec.shapes)
        self._made = {
            port: tuple(np.empty((capacity, *shape), pool.spec.dtype) for shape in pool.spec.shapes)
            for port, pool in plan.pools.items()
        }

    def run(self, entries: list[Entry], frames: int, runner: GroupRunner) -> None:
        """Run the stages on the cores of `entries`, one after the other in memory, `frames` in all."""
        job, bounds = self._joined(entries, frames)
        for number in range(len(self.plan.plan.groups)):
            runner.run(job, number)
        for entry, (start, stop) in zip(entries, bounds, strict=True):
            self._give(job, entry, start, stop)

    def _joined(self, entries: list[Entry], frames: int) -> tuple[Job, list[tuple[int, int]]]:
        ids, pts = np.full(frames, -1, np.int64), np.zeros(frames, np.int64)
        mask = np.zeros(frames, bool)
        planes = tuple(plane[:frames] for plane in self._planes)
        bounds, at = [], 0
        for entry in entries:
            core, header = entry.hyperframe.core, entry.hyperframe.header
            stop = at + entry.hyperframe.size
            for target, plane in zip(planes, entry.hyperframe.core_planes, strict=True):
                np.copyto(target[at:stop], plane)
            ids[at:stop], pts[at:stop] = header.frame_ids[core], header.pts[core]
            mask[at:stop] = entry.hyperframe.mask[core]
            bounds.append((at, stop))
            at = stop
        for target in planes:
            target[at:] = target[at - 1]
            target.flags.writeable = False  # of this view
        whole, first = (0, frames), entries[0].hyperframe
        header = dataclasses.replace(
            first.header, core=whole, read=whole, frame_ids=ids, pts=pts, durations=None, gaps=()
        )
        joined = dataclasses.replace(
            first, header=header, planes=planes, core=slice(*whole), mask=mask, slab=None, offset=0
        )
        job = Job(entries[0].sequence, whole, None, False, {0: joined})
        job.buffers = {port: Buffer(tuple(p[:frames] for p in made), *whole) for port, made in self._made.items()}
        return job, bounds

    def _give(self, joined: Job, entry: Entry, start: int, stop: int) -> None:
        """Hand an entry its share of the results."""
        job = entry.job
        assert job is not None  # made when it was started
        first = job.core[0]
        for port, buffer in job.buffers.items():
            for target, made in zip(buffer.part(job.core), joined.buffers[port].part((start, stop)), strict=True):
                np.copyto(target, made)
        for port, parts in joined.rows.items():
            job.rows[port] = [(0, [_shifted(row, start, stop, first - start) for _, rows in parts for row in rows])]
        for port, kept in joined.kept.items():
            job.kept[port] = kept[start:stop]


def _shifted(row: Any, start: int, stop: int, by: int) -> Any:
    """Return the records of frames [start, stop), counted from elsewhere."""
    index, ends, columns, pts = row
    held = (index >= start) & (index < stop)
    return (
        index[held] + by,
        None if ends is None else ends[held] + by,
        {name: column[held] for name, column in columns.items()},
        None if pts is None else pts[held],
    )
