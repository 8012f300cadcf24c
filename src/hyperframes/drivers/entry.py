"""One live hyperframe between its seal and its end, and what came out of it for each of its frames."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.execute import Job, result_of
from hyperframes.drivers.live_plans import LivePlan
from hyperframes.drivers.station import Station
from hyperframes.frames import Records
from hyperframes.packing import Hyperframe, SlabPool

if TYPE_CHECKING:
    from hyperframes.frames import Clip

__all__ = ["Entry", "values_of"]


@dataclass(slots=True, eq=False)
class Entry:
    """One hyperframe between its seal and its end."""

    hyperframe: Hyperframe
    stations: tuple[Station, ...]
    plan: LivePlan
    slabs: SlabPool | None
    """Where its memory goes back to; None for memory of its own."""
    epoch: Any
    opened_ns: int
    last_ns: int
    """When its last frame was written."""
    sealed_ns: int
    sequence: int = -1
    frames: int = 0
    """Real frames owned."""
    started_ns: int = 0
    done_ns: int = 0
    handed_ns: int = 0
    job: Job | None = None
    error: BaseException | None = None
    ran_ns: int = -1
    """What its operators took; -1 before they ran."""
    released: bool = False
    dropped: str = ""
    ended: threading.Event | None = None
    """Set at its end, where somebody waits for it: an earlier run had sealed it, and it is never given up for lack of time."""
    _told: dict[str, Any] | None = None

    @property
    def lane(self) -> str:
        """Its stream's name for the scheduler."""
        return self.stations[0].name if self.hyperframe.header.kind == "temporal" else "all streams"

    @property
    def priority(self) -> int:
        """Of its streams: the highest."""
        return max([station.priority for station in self.stations])

    def told(self) -> dict[str, Any]:
        """Return what every observation of it says, with room for its kind and time; made once, to be copied."""
        if self._told is None:
            header, core = self.hyperframe.header, self.hyperframe.core
            ids, pts = header.frame_ids[core], header.pts[core]
            if header.kind == "both":
                ids, pts = ids.reshape(-1, len(self.stations)), pts.reshape(-1, len(self.stations))
            self._told = {
                "kind": "",
                "ns": 0,
                "unix_ns": 0,
                "hyperframe": self.sequence,
                "id": header.id,
                "streams": header.streams,
                "hyperframe_kind": header.kind,
                "frames": self.frames,
                "frame_ids": ids,
                "pts": pts,
                "clocks": (header.clock,) * len(self.stations),
                "epoch": self.epoch,
                "seal_reason": header.seal_reason,
                "gaps": header.gaps,
                "header": header,
                "wait_ns": self.sealed_ns - self.opened_ns,
                "span_error_seconds": max([abs(s.span_error_ns) for s in self.stations]) / 1e9,
            }
        return self._told

    def counts(self) -> list[tuple[Station, int]]:
        """Return how many frames it owns of each stream."""
        mask = self.hyperframe.mask[self.hyperframe.core]
        if len(self.stations) == 1:
            return [(self.stations[0], int(np.count_nonzero(mask)))]
        per_stream = np.count_nonzero(mask.reshape(-1, len(self.stations)), axis=0)
        return [(station, int(n)) for station, n in zip(self.stations, per_stream, strict=True) if n]


def values_of(entry: Entry) -> tuple[list[Any], list[bool] | None]:
    """Return one value for each frame that an entry owns, and which frames operators left out (None: none).

    Several outputs make a dict by name. Pictures are lent: views that are good until they are given back. Other arrays
    are copies; of records, the columns' rows of the frame.
    """
    start, stop = entry.hyperframe.header.core
    if not entry.plan.ports:
        return [None] * (stop - start), None
    plan, job = entry.plan.plan, entry.job
    assert job is not None  # it was run
    columns: dict[str, list[Any]] = {}
    left_out: list[bool] | None = None
    for number in entry.plan.ports:
        port = plan.ports[number]
        result = result_of(plan, number, job)[0]
        places = [port.start_of(i) - start for i in result.index.tolist()] if port.rates else (result.index - start)
        values = (
            _rows(result, places, stop - start)
            if isinstance(result, Records)
            else _frames(result, places, stop - start)
        )
        columns[port.output.name if port.output else port.name] = values
        if port.kind == "frames" and len(result) < stop - start:
            left_out = [value is None and (left_out is None or left_out[i]) for i, value in enumerate(values)]
    if len(columns) == 1:
        return next(iter(columns.values())), left_out
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], left_out


def _frames(clip: Clip, places: Any, count: int) -> list[Any]:
    planes = clip.planes if clip.spec.is_picture else tuple(np.array(plane) for plane in clip.planes)
    values: list[Any] = [None] * count
    for at, place in enumerate(places):
        if 0 <= place < count:
            values[place] = planes[0][at] if len(planes) == 1 else tuple(plane[at] for plane in planes)
    return values


def _rows(records: Records, places: Any, count: int) -> list[Any]:
    """Return the rows of each frame; those of frames before come with the first, as spans do that have just ended."""
    bounds = np.searchsorted(np.clip(np.asarray(places), 0, count - 1), np.arange(count + 1))
    columns = dict(records.columns)
    if records.stop is not None:
        columns |= {"start": records.index, "stop": records.stop, "start_ns": records.pts}
    return [{name: column[bounds[i] : bounds[i + 1]] for name, column in columns.items()} for i in range(count)]
