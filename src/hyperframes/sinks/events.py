"""Recordings of events: what an event camera, or a simulator of one, told."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import SinkError
from hyperframes.frames import EVENT_NAMES, Clip, Events, FrameSpec
from hyperframes.media.event_files import EventWriter, create_events_file
from hyperframes.sinks.base import Sink, Target
from hyperframes.sinks.checks import opened
from hyperframes.sinks.failed import without_failed
from hyperframes.sinks.staging import StagedFile

if TYPE_CHECKING:
    from hyperframes.frames import Records

__all__ = ["EventsSink"]

_FORMATS = {"evt3": "evt3", "evt2": "evt2", "evt2.1": "evt2.1", "evt21": "evt2.1"}


class EventsSink(Sink):
    """A recording: ``.raw`` (EVT 3, 2 or 2.1), ``.dat``, ``.aedat4``, ``.h5``, ``.npz``, ``.txt`` or ``.bin`` (N-MNIST).

    Takes frames of (x, y, p), as sources of events give them, or records with the fields t (microseconds), x, y and p.

    Parameters
    ----------
    path : path
        Final name; written beside it as ``.NAME.part``.
    format : {"evt3", "evt2", "evt2.1"}
        Of ``.raw``.
    sensor : (rows, columns), optional
        Where what comes in does not tell.
    """

    takes_records = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "evt3",  # noqa: A002 - the word of all who write recordings
        sensor: tuple[int, int] | None = None,
    ) -> None:
        self.name, self._sensor = os.fspath(path), sensor
        self._kind = Path(self.name).suffix.lower()
        if format not in _FORMATS:
            raise SinkError(f"raw events are written as {', '.join(_FORMATS)}: got {format!r}", sink=self.name)
        self._format = _FORMATS[format]
        self._staged: StagedFile | None = None
        self._writer: EventWriter | None = None
        self._tick = Fraction(1)

    def open(self, target: Target) -> None:
        """Make the file.

        Raises
        ------
        SinkError
            For anything but events, or where the format cannot hold the sensor.
        MissingExtraError
            If HDF5 or AEDAT 4 is asked for without the extra ``events``.
        """
        spec = target.spec
        names = spec.names if isinstance(spec, FrameSpec) else tuple(field.name for field in spec.fields)
        if names != EVENT_NAMES and not (not isinstance(spec, FrameSpec) and {"t", *EVENT_NAMES} <= set(names)):
            raise SinkError(
                f"{self.name} holds events: expected frames of x, y and p, or records with t, x, y and p, got {spec}",
                sink=self.name,
                hint="Read a recording of events without ?window=, or make events: --operator simulate_events",
            )
        self._tick = spec.time_base * 1_000_000
        self._staged = StagedFile(Path(self.name), mode="w+b")
        with self._staged.guarded():
            sensor = self._sensor or spec.sensor
            self._writer = create_events_file(self._kind, self._staged.partial, self._staged.file, sensor, self._format)

    def write(self, result: Clip | Records) -> None:
        """Append the events."""
        staged, writer = opened(self._staged, self.name), opened(self._writer, self.name)
        with staged.guarded():
            writer.write(self._events(result))

    def _events(self, result: Clip | Records) -> Events:
        if not isinstance(result, Clip):
            t, x, y, p = (result.columns[name] for name in ("t", *EVENT_NAMES))
            return Events.of(t, x, y, p)
        rows = without_failed(result)
        ticks = np.asarray(rows.pts, np.int64)
        times = ticks if self._tick == 1 else ticks * self._tick.numerator // self._tick.denominator
        x, y, p = rows.data.T
        return Events.of(times, x, y, p)

    def close(self) -> str:
        """Write what belongs at the end and give the file its name."""
        staged = opened(self._staged, self.name)
        with staged.guarded():
            opened(self._writer, self.name).finish()
        self._staged = self._writer = None
        return staged.commit()

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove the file."""
        self._writer = None
        if self._staged is not None:
            self._staged.discard(keep=keep_parts)
            self._staged = None
