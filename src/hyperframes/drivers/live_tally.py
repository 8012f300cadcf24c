"""What a live run counts: its hyperframes, what waits, and of each stream what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperframes.drivers.entry import Entry
    from hyperframes.drivers.station import Station
    from hyperframes.packing import Packing

__all__ = ["Tally", "stream_stats"]


class Tally:
    """Counts of sealed hyperframes, and of those that wait.

    Parameters
    ----------
    packing : Packing
        How many frames make a full one.
    """

    def __init__(self, packing: Packing) -> None:
        self._temporal = packing.kind == "temporal"
        self.hyperframes = 0
        """Sealed so far."""
        self.partial = 0
        """Of those: with fewer frames than they have room for."""
        self.sealed: dict[str, int] = {}
        """How many by reason."""
        self._depths = self._looks = 0

    def seal(self, entry: Entry, size: int) -> None:
        """Count a hyperframe, where a full one owns `size` frames or instants; note how far its frames are apart."""
        header = entry.hyperframe.header
        self.hyperframes += 1
        self.partial += entry.frames < size * (1 if self._temporal else len(entry.stations))
        self.sealed[header.seal_reason] = self.sealed.get(header.seal_reason, 0) + 1
        if self._temporal:
            station = entry.stations[0]
            pts, core = header.pts, entry.hyperframe.core
            station.span_error_ns = int(pts[core.stop - 1] - pts[core.start]) - (entry.frames - 1) * station.period_ns
        else:
            _note_spread(entry)

    def queue(self, depth: int) -> None:
        """Count a look at the queue."""
        self._depths += depth
        self._looks += 1

    @property
    def mean_depth(self) -> float:
        """Hyperframes that waited, on average over all looks."""
        return self._depths / max(1, self._looks)


def _note_spread(entry: Entry) -> None:
    """Note how far each stream's frame is from the middle of its instant."""
    num = len(entry.stations)
    pts, there = entry.hyperframe.header.pts[:num].tolist(), entry.hyperframe.mask[:num].tolist()
    held = sorted(at for at, is_there in zip(pts, there, strict=True) if is_there)
    if held:  # sorted here: numpy's median lets other threads go first, which takes far longer than the sorting
        middle = (held[len(held) // 2] + held[(len(held) - 1) // 2]) / 2
        for station, at, is_there in zip(entry.stations, pts, there, strict=True):
            if is_there:
                station.span_error_ns = at - middle


def stream_stats(station: Station, now_ns: int) -> dict[str, Any]:
    """Return what is told of a stream: its account, and how it goes."""
    last = station.last_frame_ns
    return {
        **station.account.snapshot(),
        "fps": station.fps(now_ns),
        "last_frame_age_seconds": None if last is None else (now_ns - last) / 1e9,
        "reconnects": station.reconnects,
        "unrecorded": 0 if station.recorder is None else station.recorder.missed,
        "epoch": station.epoch,
        "span_error_seconds": station.span_error_ns / 1e9,
        "drift_ppm": station.drift_ppm,
        "state": station.state,
    }
