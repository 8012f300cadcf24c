"""Files of events: raw words of Prophesee's formats, text, NPZ, HDF5, AEDAT 4, and N-MNIST; read in pieces and written.

`open_events_file` and `create_events_file` choose by suffix and header. Readers give `Events` in the order of the file
and a report of what could not be read; a file that ends too soon gives what is whole.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from hyperframes.errors import MissingExtraError, SinkError, SourceError
from hyperframes.frames import Events

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["EVENT_SUFFIXES", "EventFile", "EventWriter", "create_events_file", "open_events_file"]

EVENT_SUFFIXES = (".raw", ".dat", ".aedat4", ".h5", ".hdf5", ".npz", ".txt", ".bin", ".bs2")
PIECE_EVENTS = 1 << 16
"""Events, or words, that are read at a time; arrays of this size come from memory that is warm."""
_SENSORS = {"gen31": (480, 640), "gen3": (480, 640), "gen41": (720, 1280), "gen4": (720, 1280), "imx636": (720, 1280),
            "genx320": (320, 320)}  # fmt: skip


class EventFile(ABC):
    """An open recording; `pieces` may be asked for again and starts from the front."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sensor: tuple[int, int] | None = None
        """Rows and columns, where the file tells them."""
        self.report: list[str] = []
        """What of the last reading was damaged, in sentences."""

    def pieces(self) -> Iterator[Events]:
        """Yield the events in the order of the file; those beyond the sensor are left out and counted in `report`."""
        self.report, beyond = [], 0
        for events in self._read():
            if self.sensor is not None and _reaches_beyond(events, self.sensor):
                inside = (events.y < self.sensor[0]) & (events.x < self.sensor[1])
                beyond += len(events) - int(inside.sum())
                events = events[inside]
            yield events
        if beyond:
            self.report.append(f"{beyond} events beyond the sensor were left out")

    def read(self) -> Events:
        """Return all events at once; takes memory as the recording is long."""
        return Events.concatenate(list(self.pieces()))

    @abstractmethod
    def _read(self) -> Iterator[Events]:
        """Yield all events that can be read; add to `report` what cannot."""

    def _events(self, t: Any, x: Any, y: Any, p: Any) -> Events:
        return Events.of(t, x, y, p, self.sensor)

    def _bad(self, what: str, hint: str | None = None) -> SourceError:
        return SourceError(f"cannot read events from {self.path}: {what}", source=str(self.path), hint=hint)


def _reaches_beyond(events: Events, sensor: tuple[int, int]) -> bool:
    """Whether any event lies beyond the sensor; two greatest values are quicker than a mask."""
    return bool(len(events)) and (int(events.y.max()) >= sensor[0] or int(events.x.max()) >= sensor[1])


class EventWriter(ABC):
    """Takes events piece by piece; `finish` once, before the file is closed by whoever opened it."""

    @abstractmethod
    def write(self, events: Events) -> None:
        """Append events."""

    def finish(self) -> None:
        """Write what belongs at the end."""


def open_events_file(path: str | os.PathLike[str], *, sensor: tuple[int, int] | None = None) -> EventFile:
    """Open a recording.

    Parameters
    ----------
    path : path
        ``.raw`` (EVT 2, 2.1, 3, told by its header), ``.dat``, ``.aedat4``, ``.h5``, ``.npz``, ``.txt``, ``.bin`` and
        ``.bs2`` (N-MNIST).
    sensor : (rows, columns), optional
        Where the file does not tell; wins where it does.

    Raises
    ------
    SourceError
        If there is no such file, or it is no recording of that kind.
    MissingExtraError
        If HDF5 or AEDAT 4 is asked for without the extra ``events``.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    kinds: dict[str, type[EventFile]] = {
        ".raw": _WordFile, ".dat": _WordFile, ".npz": _NpzFile, ".txt": _TextFile, ".bin": _NmnistFile,
        ".bs2": _NmnistFile, ".h5": _Hdf5File, ".hdf5": _Hdf5File, ".aedat4": _AedatFile,
    }  # fmt: skip
    if suffix not in kinds:
        raise SourceError(
            f"no recording of events is called {file.name}: expected one of {', '.join(EVENT_SUFFIXES)}",
            source=str(path),
        )
    try:
        opened = kinds[suffix](file)
    except OSError as error:
        raise SourceError(f"cannot read events from {path}: {error.strerror or error}", source=str(path)) from error
    if sensor is not None:
        opened.sensor = sensor
    return opened


def create_events_file(
    kind: str, path: Path, file: IO[bytes], sensor: tuple[int, int] | None, form: str = "evt3"
) -> EventWriter:
    """Return what writes events of the suffix `kind` to `file`, open at `path`, for a sensor of (rows, columns).

    Raises
    ------
    SinkError
        If the format needs the sensor's size and none is given, or cannot hold it.
    MissingExtraError
        If HDF5 or AEDAT 4 is asked for without the extra ``events``.
    """
    if kind in {".raw", ".dat"}:
        return _WordWriter(file, "dat" if kind == ".dat" else form, path, sensor)
    if kind in {".h5", ".hdf5"}:
        return _Hdf5Writer(file, sensor)
    if kind == ".aedat4":
        return _AedatWriter(path, sensor)
    if kind == ".npz":
        return _NpzWriter(file, sensor)
    if kind == ".txt":
        return _TextWriter(file)
    return _NmnistWriter(file, path)


# Words: EVT 2, EVT 2.1, EVT 3, DAT --------------------------------------------------------------------------------------

_LONGEST_HEADER = 1 << 16


class _WordFile(EventFile):
    """A header of lines that begin with ``%``, then words."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as file:
            self._facts, self._start = _header(file)
        self._swapped, self._at_once = False, 0
        if path.suffix.lower() == ".dat":
            self._form, self._start = "dat", self._start + self._dat_kind()
        else:
            self._form = self._evt_form()
        self.sensor = self._told_sensor()
        self._offset = int(self._facts.get("time_offset_us", "0") or 0)

    def read(self) -> Events:
        """Return all events at once, decoded into one piece."""
        self._at_once = max(1, self.path.stat().st_size)
        try:
            return super().read()
        finally:
            self._at_once = 0

    def _dat_kind(self) -> int:
        """Check the two bytes that say what a DAT file holds; return that there are two."""
        with self.path.open("rb") as file:
            file.seek(self._start)
            kind = file.read(2)
        if len(kind) < 2 or kind[1] != 8 or kind[0] not in {0, 12}:
            raise self._bad(f"its header ends with {kind.hex() or 'nothing'}, where 00 08 says that CD events follow")
        return 2

    def _evt_form(self) -> str:
        told = self._facts.get("format", "").upper() or f"EVT{self._facts.get('evt', '')}"
        version = told.partition(";")[0].replace("EVT", "").strip()
        self._swapped = "ENDIANNESS=LEGACY" in told
        forms = {"2": "evt2", "2.0": "evt2", "2.1": "evt2.1", "21": "evt2.1", "3": "evt3", "3.0": "evt3"}
        if version not in forms:
            raise self._bad(
                f"its header names no format that is known: got {told[:40]!r}" if version else "it has no header",
                "Raw recordings begin with lines such as '% evt 3.0'; raw samples of other kinds need ?shape=...&dtype=...",
            )
        return forms[version]

    def _told_sensor(self) -> tuple[int, int] | None:
        facts = self._facts
        fields = dict(item.partition("=")[::2] for item in facts.get("format", "").split(";"))
        for width, height in (
            (fields.get("width"), fields.get("height")),
            facts.get("geometry", "x").lower().partition("x")[::2],
            (facts.get("width"), facts.get("height")),
        ):
            if width and height and width.strip().isdecimal() and height.strip().isdecimal():
                return int(height), int(width)
        plugin = facts.get("plugin_name", "").lower()
        return next((size for name, size in _SENSORS.items() if name in plugin), None)

    def _read(self) -> Iterator[Events]:
        from hyperframes.media.evt import MEMORY, decode, new_memory, word_dtype

        dtype, memory = word_dtype(self._form), new_memory()
        with self.path.open("rb") as file:
            file.seek(self._start)
            while len(words := np.fromfile(file, dtype, self._at_once or PIECE_EVENTS)):
                if self._swapped:
                    words = words << np.uint64(32) | words >> np.uint64(32)
                t, x, y, p = decode(self._form, words, memory)
                yield Events(t + self._offset if self._offset else t, x, y, p, self.sensor)
            if spare := (self.path.stat().st_size - self._start) % dtype.itemsize:
                self.report.append(f"the last {spare} bytes are no whole word: the file was cut")
        told = dict(zip(MEMORY, memory.tolist(), strict=True))
        for name, sentence in (
            ("untimed", "{} events before the first time were left out"),
            ("leaps", "{} times leapt and came back at once: they were taken for damage"),
            ("strange", "{} words of kinds that the format does not have were left out"),
            ("triggers", "{} external triggers were left out: only events are read"),
        ):
            if told[name]:
                self.report.append(sentence.format(told[name]))


def _header(file: IO[bytes]) -> tuple[dict[str, str], int]:
    """Return what the ``% key value`` lines at the front say, keys in lower case, and where they end."""
    facts: dict[str, str] = {}
    while file.tell() < _LONGEST_HEADER:
        start = file.tell()
        line = file.readline(4096)
        if not line.startswith(b"%") or not line.endswith(b"\n"):
            return facts, start
        key, _, value = line[1:].decode("latin-1").strip().partition(" ")
        facts[key.lower()] = value.strip()
        if key.lower() == "end":
            break
    return facts, file.tell()


class _WordWriter(EventWriter):
    def __init__(self, file: IO[bytes], form: str, path: Path, sensor: tuple[int, int] | None) -> None:
        from hyperframes.media.evt import new_memory

        limit = (1 << 14) if form == "dat" else (1 << 11)
        if sensor is not None and max(sensor) > limit:
            raise SinkError(
                f"cannot write {path}: {form} holds sensors of at most {limit} pixels a side, got {sensor[1]}x{sensor[0]}",
                sink=str(path),
            )
        self._file, self._form, self._sensor = file, form, sensor
        self._memory, self._offset = new_memory(), 0
        self._limit, self._path, self._begun = limit, path, False

    def write(self, events: Events) -> None:
        from hyperframes.media.evt import encode

        if not len(events):
            return
        if max(int(events.x.max()), int(events.y.max())) >= self._limit:
            raise SinkError(f"cannot write {self._path}: {self._form} holds columns and rows below {self._limit}")
        if not self._begun:
            self._begin(int(events.t[0]))
        t = events.t - self._offset
        if int(t.min()) < 0:
            raise SinkError(
                f"cannot write {self._path}: times fall below that of the first event by more than it allows"
            )
        self._file.write(encode(self._form, t, events.x, events.y, events.p, self._memory).tobytes())

    def _begin(self, first: int) -> None:
        """Write the header; what is too large for the words' times stands in it."""
        self._begun = True
        bits = {"evt3": 24, "evt2": 34, "evt2.1": 34, "dat": 32}[self._form]
        self._offset = first >> bits << bits if first >= 0 else first
        rows, columns = self._sensor or (0, 0)
        lines = []
        if self._form == "dat":
            lines += ["Data file containing CD events.", "Version 2"]
            lines += [f"Width {columns}", f"Height {rows}"] if self._sensor else []
        else:
            version = {"evt2": "2.0", "evt2.1": "2.1", "evt3": "3.0"}[self._form]
            size = f";height={rows};width={columns}" if self._sensor else ""
            lines += [f"evt {version}", f"format EVT{version.removesuffix('.0').replace('.', '')}{size}"]
            lines += [f"geometry {columns}x{rows}"] if self._sensor else []
        lines += [f"time_offset_us {self._offset}"] if self._offset else []
        lines += ["end"]
        self._file.write("".join(f"% {line}\n" for line in lines).encode())
        if self._form == "dat":
            self._file.write(bytes((0, 8)))

    def finish(self) -> None:
        if not self._begun:
            self._begin(0)


# N-MNIST --------------------------------------------------------------------------------------------------------------


class _NmnistFile(EventFile):
    """Five bytes an event: column, row, then one bit of polarity and 23 of time, big-endian."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sensor = (34, 34)

    def _read(self) -> Iterator[Events]:
        with self.path.open("rb") as file:
            while data := file.read(5 * PIECE_EVENTS):
                if spare := len(data) % 5:
                    self.report.append(f"the last {spare} bytes are no whole event: the file was cut")
                rows = np.frombuffer(data, np.uint8, len(data) // 5 * 5).reshape(-1, 5)
                high, middle, low = (rows[:, i].astype(np.int64) for i in (2, 3, 4))
                yield self._events((high & 0x7F) << 16 | middle << 8 | low, rows[:, 0], rows[:, 1], rows[:, 2] >> 7)


class _NmnistWriter(EventWriter):
    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path

    def write(self, events: Events) -> None:
        if len(events) and (
            max(int(events.x.max()), int(events.y.max())) > 255 or not 0 <= events.t.min() <= events.t.max() < 1 << 23
        ):
            raise SinkError(
                f"cannot write {self._path}: N-MNIST's format holds 256 columns and rows and times from 0 to 8.39 s",
                sink=str(self._path),
                hint="Write .raw or .npz.",
            )
        rows = np.empty((len(events), 5), np.uint8)
        rows[:, 0], rows[:, 1] = events.x, events.y
        rows[:, 2] = events.p.astype(np.int64) << 7 | events.t >> 16
        rows[:, 3], rows[:, 4] = events.t >> 8 & 0xFF, events.t & 0xFF
        self._file.write(rows.tobytes())


# Text -----------------------------------------------------------------------------------------------------------------

_ROW = re.compile(rb"\s*(-?\d+)(?:\.(\d*))?[\s,]+(\d+)[\s,]+(\d+)[\s,]+(-?[01])\s*\Z")


class _TextFile(EventFile):
    """A line an event: ``seconds x y p``, by spaces or commas; a first line ``width height`` and comments may stand before.

    Times without a point are microseconds. p is 0 or -1 where the light fell.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as file:
            self._is_preface(0, file.readline(4096))

    def _read(self) -> Iterator[Events]:
        columns: tuple[list[int], ...] = ([], [], [], [])
        strange = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file):
                match = _ROW.match(line)
                if match is None:
                    strange += not self._is_preface(number, line)
                    continue
                whole, part, x, y, p = match.groups()
                columns[0].append(_microseconds(whole, part))
                for column, value in zip(columns[1:], (int(x), int(y), max(0, int(p))), strict=True):
                    column.append(min(value, 0xFFFF))
                if len(columns[0]) == PIECE_EVENTS:
                    yield self._events(*columns)
                    columns = ([], [], [], [])
        if strange:
            self.report.append(f"{strange} lines that are no event were left out")
        yield self._events(*columns)

    def _is_preface(self, number: int, line: bytes) -> bool:
        if re.fullmatch(rb"\s*\d+\s+\d+\s*", line) and number == 0:
            width, height = line.split()
            self.sensor = self.sensor or (int(height), int(width))
            return True
        return not line.strip() or line.startswith((b"#", b"%", b"//")) or (number == 0 and line[:1].isalpha())


def _microseconds(whole: bytes, part: bytes | None) -> int:
    """Return exact microseconds of decimal seconds, or of whole microseconds where there is no point."""
    if part is None:
        return int(whole)
    digits = (part + b"0000000")[:7]
    micro = int(digits[:6]) + (digits[6:7] >= b"5")
    return int(whole) * 1_000_000 + (-micro if whole.startswith(b"-") else micro)


class _TextWriter(EventWriter):
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, events: Events) -> None:
        seconds, micro = np.divmod(events.t, 1_000_000)
        rows = zip(
            seconds.tolist(), micro.tolist(), events.x.tolist(), events.y.tolist(), events.p.tolist(), strict=True
        )
        self._file.write("".join(f"{s}.{u:06d} {x} {y} {p}\n" for s, u, x, y, p in rows).encode())


# NPZ ------------------------------------------------------------------------------------------------------------------


class _NpzFile(EventFile):
    """Arrays t, x, y, p of one length; t in microseconds, or in seconds where it is of floats."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._arrays() as arrays:
            missing = [name for name in "txyp" if name not in arrays]
            if missing:
                raise self._bad(f"it has no array {missing[0]!r}: expected t, x, y and p")
            if "sensor" in arrays and arrays["sensor"].shape == (2,):
                self.sensor = int(arrays["sensor"][0]), int(arrays["sensor"][1])

    @contextmanager
    def _arrays(self) -> Iterator[Any]:
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                yield arrays
        except (ValueError, BadZipFile, EOFError) as error:
            raise self._bad(f"it is no NPZ file of numbers: {error}") from error

    def _read(self) -> Iterator[Events]:
        with self._arrays() as arrays:
            t, x, y, p = (arrays[name] for name in "txyp")
        yield from _sliced(self, t, x, y, p)


class _NpzWriter(EventWriter):
    """Holds everything: the format has its lengths at the front."""

    def __init__(self, file: IO[bytes], sensor: tuple[int, int] | None) -> None:
        self._file, self._sensor = file, sensor
        self._parts: list[Events] = []

    def write(self, events: Events) -> None:
        self._parts.append(Events(events.t.copy(), events.x.copy(), events.y.copy(), events.p.copy()))

    def finish(self) -> None:
        events = Events.concatenate(self._parts)
        sensor = {} if self._sensor is None else {"sensor": np.array(self._sensor)}
        np.savez_compressed(self._file, t=events.t, x=events.x, y=events.y, p=events.p, **sensor)  # type: ignore[arg-type]


def _sliced(file: EventFile, t: Any, x: Any, y: Any, p: Any, offset: int = 0) -> Iterator[Events]:
    """Yield events of four columns that can be sliced, piece by piece, after a look at their kinds."""
    lengths = {len(column) for column in (t, x, y, p)}
    if len(lengths) > 1:
        file.report.append(f"its columns are of {', '.join(map(str, sorted(lengths)))} values: the shortest counts")
    seconds = np.dtype(t.dtype).kind == "f"
    for start in range(0, min(lengths), PIECE_EVENTS):
        cut = slice(start, min(start + PIECE_EVENTS, *lengths))
        times = (
            np.rint(np.asarray(t[cut], np.float64) * 1e6).astype(np.int64) if seconds else np.asarray(t[cut], np.int64)
        )
        column, row = (np.clip(np.asarray(values[cut]).astype(np.int64), 0, 0xFFFF) for values in (x, y))
        yield file._events(times + offset, column, row, (np.asarray(p[cut]).astype(np.int64) > 0))


# HDF5 -----------------------------------------------------------------------------------------------------------------


def _h5py() -> Any:
    try:
        import h5py
        import hdf5plugin  # noqa: F401 - importing it makes its filters known
    except ImportError as error:
        raise MissingExtraError("events in HDF5", "events") from error
    return h5py


class _Hdf5File(EventFile):
    """``/events/{t,x,y,p}`` (with ``/t_offset`` as in DSEC), or Prophesee's ``/CD/events``; times in microseconds."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        h5py = _h5py()
        if not path.is_file():
            raise FileNotFoundError(2, "No such file or directory", str(path))
        if not h5py.is_hdf5(path):
            raise self._bad("it is no HDF5 file, or was cut before its end")
        with h5py.File(path, "r") as file:
            attributes = {**dict(file.attrs), **dict(self._group(file).attrs)}
            if {"height", "width"} <= set(attributes):
                self.sensor = int(attributes["height"]), int(attributes["width"])

    def _group(self, file: Any) -> Any:
        group = next((file[name] for name in ("events", "CD/events") if name in file), None)
        if group is None:
            raise self._bad(f"it has no /events: got {', '.join(sorted(file)) or 'nothing'}")
        return group

    def _read(self) -> Iterator[Events]:
        h5py = _h5py()
        with h5py.File(self.path, "r") as file:
            group = self._group(file)
            compound = isinstance(group, h5py.Dataset)
            names = {name: name for name in "txyp"} if not compound or "t" in group.dtype.names else {}
            try:
                columns = [group.fields(name) if compound else group[name] for name in names]
                offset = int(file["t_offset"][()]) if "t_offset" in file else 0
                t, x, y, p = columns
                yield from _sliced(self, t, x, y, p, offset)
            except (KeyError, TypeError, ValueError) as error:
                raise self._bad(f"/events has no columns t, x, y and p: {error}") from error
            except OSError as error:
                raise self._bad(
                    f"a part cannot be decompressed or is missing: {error}",
                    "Files with Prophesee's ECF filter need its HDF5 plugin; convert them to EVT 3 with its tools.",
                ) from error


class _Hdf5Writer(EventWriter):
    def __init__(self, file: IO[bytes], sensor: tuple[int, int] | None) -> None:
        self._h5 = _h5py().File(file, "w")
        self._group = self._h5.create_group("events")
        if sensor is not None:
            self._group.attrs["height"], self._group.attrs["width"] = sensor
        for name, dtype in (("t", "<i8"), ("x", "<u2"), ("y", "<u2"), ("p", "u1")):
            self._group.create_dataset(name, (0,), dtype, maxshape=(None,), chunks=(1 << 16,), compression="gzip",
                                       compression_opts=1, shuffle=True)  # fmt: skip

    def write(self, events: Events) -> None:
        for name in "txyp":
            column, values = self._group[name], getattr(events, name)
            column.resize(len(column) + len(values), axis=0)
            column[len(column) - len(values) :] = values

    def finish(self) -> None:
        self._h5.close()


# AEDAT 4 --------------------------------------------------------------------------------------------------------------


def _dv() -> Any:
    try:
        import dv_processing
    except ImportError as error:
        raise MissingExtraError("events in AEDAT 4", "events") from error
    return dv_processing


class _AedatFile(EventFile):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        dv = _dv()
        if not path.is_file():
            raise FileNotFoundError(2, "No such file or directory", str(path))
        try:
            recording = dv.io.MonoCameraRecording(str(path))
            if not recording.isEventStreamAvailable():
                raise self._bad("it has no stream of events")
            width, height = recording.getEventResolution()
        except RuntimeError as error:
            raise self._bad(f"it is no AEDAT 4 file, or was cut: {_first_line(error)}") from error
        self.sensor = int(height), int(width)

    def _read(self) -> Iterator[Events]:
        recording = _dv().io.MonoCameraRecording(str(self.path))
        while True:
            try:
                batch = recording.getNextEventBatch()
            except RuntimeError as error:
                self.report.append(f"the rest cannot be read: {_first_line(error)}")
                return
            if batch is None:
                return
            rows = batch.numpy()
            if len(rows):
                yield self._events(rows["timestamp"], rows["x"], rows["y"], rows["polarity"])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class _AedatWriter(EventWriter):
    def __init__(self, path: Path, sensor: tuple[int, int] | None) -> None:
        if sensor is None:
            raise SinkError(
                f"cannot write {path}: AEDAT 4 tells the size of its sensor, and none is known", sink=str(path),
                hint="Read the events with ?sensor=HEIGHT,WIDTH.",
            )  # fmt: skip
        self._dv = _dv()
        config = self._dv.io.MonoCameraWriter.Config("hyperframes")
        config.addEventStream((sensor[1], sensor[0]))
        self._writer = self._dv.io.MonoCameraWriter(str(path), config)

    def write(self, events: Events) -> None:
        store = self._dv.EventStore()
        for t, x, y, p in zip(events.t.tolist(), events.x.tolist(), events.y.tolist(), events.p.tolist(), strict=True):
            store.push_back(t, x, y, p > 0)
        if len(events):
            self._writer.writeEvents(store)

    def finish(self) -> None:
        del self._writer  # closing is destroying
