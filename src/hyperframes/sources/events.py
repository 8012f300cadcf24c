"""Event cameras in the flow: every event a frame of (x, y, p), or pictures of the events of each stretch of time."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import numpy as np

from hyperframes.errors import SourceError
from hyperframes.frames import EVENT_NAMES, Events, Frame, FrameSpec, event_histogram, time_surface, voxel_grid
from hyperframes.media.event_files import EventFile, open_events_file
from hyperframes.sources.array import file_identity
from hyperframes.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.frames import Array

__all__ = ["EventPicturesSource", "EventsSource", "in_order", "open_events"]

IN_MEMORY_BYTES = 64 << 20
"""Recordings of at most so many bytes are read once and viewed."""
IN_MEMORY_EVENTS = 1 << 25
"""Nor more events than this: packed files hold many more than their size tells."""
_LONGEST = 10**15
"""Microseconds of a window: sums of times and windows stay within 64 bits."""
EMPTY_PICTURES = 10_000_000
"""So many in a row come of a damaged time, not of a still scene: more than a day of 10 ms."""
LATENESS_US = 10_000
"""How late an event may come and still find its place; sensors tell rows a little out of order."""
_MICRO = Fraction(1, 1_000_000)
_FORMS = ("histogram", "voxel", "surface")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)")


def open_events(
    location: str | os.PathLike[str],
    *,
    window: str | None = None,
    form: str = "histogram",
    bins: int | str = 5,
    sensor: tuple[int, int] | str | None = None,
) -> Source:
    """Open a recording of an event camera, as in ``x.raw`` or ``x.raw?window=10ms&form=voxel&bins=5``.

    Parameters
    ----------
    location : path
        ``.raw`` (EVT 2, 2.1, 3), ``.dat``, ``.aedat4``, ``.h5``, ``.npz``, ``.txt``, ``.bin`` or ``.bs2`` (N-MNIST); the
        other parameters may stand after ``?``.
    window : str, optional
        A time such as ``10ms``: frames are then pictures of the events of each such stretch. Without it every event is
        a frame, so a hyperframe of size N holds N events.
    form : {"histogram", "voxel", "surface"}
        Of pictures: counts (2, rows, columns) uint16; `voxel_grid` (bins, rows, columns) float32; `time_surface` at the
        end of the stretch, decaying in a third of it, (2, rows, columns) float32.
    bins : int
        Slices of a voxel grid.
    sensor : (rows, columns) or "ROWS,COLUMNS", optional
        Where the file does not tell.

    Returns
    -------
    Source
        Frames of shape (3,), uint16: x, y and p (1 brighter, 0 darker), with times in microseconds; or pictures whose
        pts is the start of their stretch. Events come in order of time; one that is more than 10 ms late takes
        the time of the one before it, and `warnings` counts those.

    Raises
    ------
    SourceError
        If the file is no recording, a parameter makes no sense, or pictures are asked for and no sensor size is known.
    """
    name, _, query = os.fspath(location).partition("?")
    fields: dict[str, Any] = {"window": window, "form": form, "bins": bins, "sensor": sensor}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in fields:
            raise SourceError(
                f"events of {name} have no {key!r}: expected window, form, bins or sensor",
                source=name,
                hint="For example: 'x.raw?window=10ms&form=voxel&bins=5'.",
            )
        fields[key] = value
    file = open_events_file(name, sensor=_sensor(fields["sensor"], name))
    if fields["window"] is None:
        return EventsSource(file)
    if fields["form"] not in _FORMS:
        raise SourceError(f"pictures of events are {', '.join(_FORMS)}: got {fields['form']!r}", source=name)
    return EventPicturesSource(file, _window(fields["window"], name), fields["form"], _bins(fields["bins"], name))


def _sensor(given: Any, name: str) -> tuple[int, int] | None:
    if given is None:
        return None
    sides = given.split(",") if isinstance(given, str) else list(given)
    if len(sides) != 2 or not all(str(side).strip().isdecimal() and 0 < int(side) <= 1 << 14 for side in sides):
        raise SourceError(f"sensor of {name} is ROWS,COLUMNS: got {given!r}", source=name, hint="Write sensor=480,640.")
    return int(sides[0]), int(sides[1])


def _window(text: str, name: str) -> int:
    match = _DURATION.fullmatch(str(text).strip())
    micro = Fraction(match[1]) * {"us": 1, "ms": 1000, "s": 1_000_000}[match[2]] if match else Fraction(0)
    if not 1 <= micro <= _LONGEST or micro.denominator != 1:
        raise SourceError(
            f"window of {name} is a time of whole microseconds, up to {_LONGEST // 1_000_000:,} s: got {text!r}",
            source=name,
            hint="Write window=10ms.",
        )
    return int(micro)


def _bins(given: Any, name: str) -> int:
    if not str(given).isdecimal() or not 1 <= int(given) <= 256:
        raise SourceError(f"bins of {name} is a number from 1 to 256: got {given!r}", source=name)
    return int(given)


def in_order(file: EventFile) -> Iterator[tuple[Events, int]]:
    """Yield the events of `file` in order of time, and how many in each piece came too late to be put there."""
    waiting, last = Events.of([], [], [], []), -(1 << 62)
    newest = last
    for piece in file.pieces():
        if not len(piece):
            continue
        newest = max(newest, int(piece.t.max()))
        together = Events.concatenate([waiting, piece])
        together = together[np.argsort(together.t, kind="stable")]
        cut = int(np.searchsorted(together.t, newest - LATENESS_US, "right"))
        ready, waiting = together[:cut], together[cut:]
        if len(ready):
            yield _not_before(ready, last)
            last = max(last, int(ready.t[-1]))
    if len(waiting):
        yield _not_before(waiting, last)


def _not_before(events: Events, last: int) -> tuple[Events, int]:
    late = int(np.searchsorted(events.t, last))
    if not late:
        return events, 0
    return Events(np.maximum(events.t, last), events.x, events.y, events.p, events.sensor), late


class _Recording(Source):
    """What both forms share: the file, its identity, and what was wrong with it."""

    def __init__(self, file: EventFile) -> None:
        self.file, self.name = file, str(file.path)

    def ordered(self) -> Iterator[Events]:
        """Yield the events in order of time; afterwards `warnings` tells of damage."""
        late = 0
        for events, too_late in in_order(self.file):
            late += too_late
            yield events
        told = [f"{self.name}: {sentence}" for sentence in self.file.report]
        if late:
            told.append(f"{self.name}: {late} events came more than 10 ms late and took the time of the one before")
        self.warnings = tuple(dict.fromkeys((*self.warnings, *told)))

    def identity(self) -> str:
        """Return path, size and time of change of the file, and the sensor."""
        return f"{file_identity(Path(self.name))} {self.file.sensor} {self.spec}"


class EventsSource(_Recording):
    """One frame an event: (3,) uint16, named x, y and p; small recordings are viewed, others streamed."""

    def __init__(self, file: EventFile) -> None:
        super().__init__(file)
        self.spec = FrameSpec(((3,),), np.dtype(np.uint16), time_base=_MICRO, names=EVENT_NAMES, sensor=file.sensor)
        self._held: tuple[tuple[Array, ...], Array] | None = None

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the events [start, stop) as frames; one piece of the file is held."""
        first = 0
        for rows, pts in self._blocks():
            low = max(0, start - first)
            high = len(rows) if stop is None else min(len(rows), stop - first)
            for offset, time in enumerate(pts[low:high].tolist(), low):
                yield Frame((rows[offset],), time, first + offset, self.spec)
            first += len(rows)
            if stop is not None and first >= stop:
                return
        self.num_frames, self.exact = first, True

    def arrays(self) -> tuple[tuple[Array, ...], Array] | None:
        """Return (rows (N, 3), pts (N,)) of small recordings; None for large ones, which are streamed."""
        if self._held is None and Path(self.name).stat().st_size <= IN_MEMORY_BYTES:
            blocks, held = [], 0
            for block in self._blocks():
                blocks.append(block)
                held += len(block[1])
                if held > IN_MEMORY_EVENTS:
                    return None
            rows = [block[0] for block in blocks] or [np.empty((0, 3), np.uint16)]
            self._held = (
                (np.concatenate(rows),),
                np.concatenate([block[1] for block in blocks] or [np.empty(0, np.int64)]),
            )
            self.num_frames, self.exact = len(self._held[1]), True
        return self._held

    def count(self) -> int:
        """Return the number of events; reads the file."""
        if not self.exact:
            self.num_frames = sum(len(pts) for _, pts in self._blocks())
            self.exact = True
        return self.num_frames or 0

    def _blocks(self) -> Iterator[tuple[Array, Array]]:
        if self._held is not None:
            yield self._held[0][0], self._held[1]
            return
        for events in self.ordered():
            yield np.stack((events.x, events.y, events.p.astype(np.uint16)), axis=1), events.t


class EventPicturesSource(_Recording):
    """One frame for each stretch of `window` microseconds from the first event on, also where nothing happened."""

    def __init__(self, file: EventFile, window: int, form: str, bins: int) -> None:
        super().__init__(file)
        if file.sensor is None:
            next(iter(file.pieces()), None)  # some files tell with their first events
        if file.sensor is None:
            raise SourceError(
                f"pictures of the events of {self.name} need the size of its sensor, which it does not tell",
                source=self.name,
                hint="Give it: ?sensor=480,640 (rows, columns).",
            )
        self._window, self._form, self._bins, self._sensor = window, form, bins, file.sensor
        shape = (bins if form == "voxel" else 2, *file.sensor)
        dtype = np.dtype(np.uint16 if form == "histogram" else np.float32)
        self.spec = FrameSpec((shape,), dtype, time_base=_MICRO, rate=Fraction(1_000_000, window))

    def identity(self) -> str:
        """Return the recording's identity and how pictures are made of it."""
        return f"{super().identity()} {self._window} {self._form} {self._bins}"

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the pictures [start, stop)."""
        index = -1
        for index, (begin, events) in enumerate(self._stretches()):
            if index >= start and (stop is None or index < stop):
                yield Frame((self._picture(events, begin),), begin, index, self.spec, self._window)
            if stop is not None and index + 1 >= stop:
                return
        self.num_frames, self.exact = index + 1, True

    def _stretches(self) -> Iterator[tuple[int, Events]]:
        """Yield the start and the events of each stretch."""
        waiting: Events | None = None
        begin = 0
        for events in self.ordered():
            if waiting is None:
                begin, waiting = int(events.t[0]), events
            else:
                waiting = Events.concatenate([waiting, events])
            newest = int(waiting.t[-1])
            while newest >= begin + self._window:
                cut = int(np.searchsorted(waiting.t, begin + self._window))
                if cut == 0 and (empty := (int(waiting.t[0]) - begin) // self._window) > EMPTY_PICTURES:
                    raise SourceError(
                        f"{self.name} has no event for {empty:,} windows from {begin} us on: its times are damaged",
                        source=self.name,
                        hint="Leave the window out to read the events alone, or give a longer one.",
                    )
                yield begin, waiting[:cut]
                begin, waiting = begin + self._window, waiting[cut:]
        if waiting is not None and len(waiting):
            yield begin, waiting

    def _picture(self, events: Events, begin: int) -> Array:
        if self._form == "histogram":
            return event_histogram(events, self._sensor)
        end = begin + self._window
        if self._form == "voxel":
            return voxel_grid(events, self._sensor, self._bins, (begin, end))
        return time_surface(events, self._sensor, end, self._window / 3)
