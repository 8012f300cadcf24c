"""Files of events: raw words of Prophesee's formats, text, NPZ, HDF5, AEDAT 4, and N-MNIST; read in pieces and written.

`open_events_file` and `create_events_file` choose by suffix and header. Readers give `Events` in the order of the file
and a report of what could not be read; a file that ends too soon gives what is whole.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

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
_LARGEST_SENSOR = 1 << 14
_LATEST_US = 1 << 62
"""Times beyond it are damage: sums of them would overflow."""
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


def _sensor_of(rows: Any, columns: Any) -> tuple[int, int] | None:
    """Return a sensor's size as a file tells it; None where that makes no sense."""
    try:
        size = int(rows), int(columns)
    except (TypeError, ValueError, OverflowError):
        return None
    return size if min(size) >= 1 and max(size) <= _LARGEST_SENSOR else None


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
    except SourceError:
        raise
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
        offset = self._facts.get("time_offset_us", "0") or "0"
        if not re.fullmatch(r"-?[0-9]{1,18}", offset):
            raise self._bad(f"its header says time_offset_us {offset[:40]!r}, which is no number of microseconds")
        self._offset = int(offset)

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
            if size := _sensor_of(height, width):
                return size
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
        with path.open("rb"):
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

_ROW = re.compile(rb"\s*(-?\d{1,18})(?:\.(\d*))?[\s,]+(\d{1,9})[\s,]+(\d{1,9})[\s,]+(-?[01])\s*\Z")
_LONGEST_LINE = 4096


class _TextFile(EventFile):
    """A line an event: ``seconds x y p``, by spaces or commas; a first line ``width height`` and comments may stand before.

    Times without a point are microseconds. p is 0 or -1 where the light fell.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as file:
            self._is_preface(0, file.readline(_LONGEST_LINE))

    def _read(self) -> Iterator[Events]:
        columns: tuple[list[int], ...] = ([], [], [], [])
        strange = known = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(_lines(file)):
                match = _ROW.match(line)
                if match is None:
                    strange += not self._is_preface(number, line)
                    continue
                whole, part, x, y, p = match.groups()
                event = (_microseconds(whole, part), int(x), int(y), max(0, int(p)))
                if abs(event[0]) >= _LATEST_US or max(event[1:]) > 0xFFFF:
                    strange += 1
                    continue
                known += 1
                for column, value in zip(columns, event, strict=True):
                    column.append(value)
                if len(columns[0]) == PIECE_EVENTS:
                    yield self._events(*columns)
                    columns = ([], [], [], [])
        if strange and not known:
            raise self._bad("no line of it is an event", "A line is 'seconds x y p', such as '0.001250 17 4 1'.")
        if strange:
            self.report.append(f"{strange} lines that are no event were left out")
        yield self._events(*columns)

    def _is_preface(self, number: int, line: bytes) -> bool:
        if re.fullmatch(rb"\s*\d{1,9}\s+\d{1,9}\s*", line) and number == 0:
            width, height = line.split()
            self.sensor = self.sensor or _sensor_of(height, width)
            return True
        return not line.strip() or line.startswith((b"#", b"%", b"//")) or (number == 0 and line[:1].isalpha())


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines; of those that are longer than any event's only the front, so that memory is bounded."""
    while line := file.readline(_LONGEST_LINE):
        yield line
        while not line.endswith(b"\n") and (line := file.readline(_LONGEST_LINE)):
            pass


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
        with self._opened() as archive:
            names = archive.namelist()
            missing = [name for name in "txyp" if f"{name}.npy" not in names]
            if missing:
                raise self._bad(f"it has no array {missing[0]!r}: expected t, x, y and p")
            try:
                if "sensor.npy" in names:
                    sensor = _NpzColumn(archive, "sensor")
                    self.sensor = _sensor_of(*sensor[0:2].tolist()) if len(sensor) == 2 else None
            except _NPZ_DAMAGE as error:
                raise self._bad(f"it is no NPZ file of numbers: {error}") from error

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except _NPZ_DAMAGE as error:
            raise self._bad(f"it is no NPZ file of numbers: {error}") from error

    def _read(self) -> Iterator[Events]:
        with self._opened() as archive:
            try:
                t, x, y, p = (_NpzColumn(archive, name) for name in "txyp")
                yield from _sliced(self, t, x, y, p)
            except _NPZ_DAMAGE as error:
                raise self._bad(f"it is no NPZ file of numbers, or damaged: {error}") from error


_NPZ_DAMAGE = (ValueError, zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError)
"""What reading a damaged archive, or one with a password, raises."""


class _NpzColumn:
    """An array of an NPZ file, unpacked as its slices are asked for in their order: however large, a piece is held."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._stream = archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(self._stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read is None:
            raise ValueError(f"{name}.npy is of version {version} of its format")
        self.shape, _, self.dtype = read(self._stream)

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else 0

    def __getitem__(self, cut: slice) -> Any:
        size = (cut.stop - cut.start) * self.dtype.itemsize
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError("an array is shorter than it says")
        if cut.stop == len(self):
            self._stream.read(1)  # at its end the checksum is compared
        return np.frombuffer(data, self.dtype)


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
    for name, column in zip("txyp", (t, x, y, p), strict=True):
        shape, kind = getattr(column, "shape", (0,)), np.dtype(column.dtype)
        if len(shape) != 1 or kind.kind not in "biuf":
            raise file._bad(f"its {name} is {shape} of {kind}: expected one number an event")
    lengths = {len(column) for column in (t, x, y, p)}
    if len(lengths) > 1:
        file.report.append(f"its columns are of {', '.join(map(str, sorted(lengths)))} values: the shortest counts")
    scale, strange = 1e6 if np.dtype(t.dtype).kind == "f" else 1, 0
    for start in range(0, min(lengths), PIECE_EVENTS):
        cut = slice(start, min(start + PIECE_EVENTS, *lengths))
        times, columns, rows, signs = (np.asarray(values[cut]) for values in (t, x, y, p))
        times = np.rint(times.astype(np.float64) * scale) if scale > 1 else times
        good = (times > -_LATEST_US) & (times < _LATEST_US)  # False of NaN
        for values in (columns, rows):
            good &= (values >= 0) & (values <= 0xFFFF)
        if not good.all():
            strange += len(good) - int(good.sum())
            times, columns, rows, signs = times[good], columns[good], rows[good], signs[good]
        yield file._events(times.astype(np.int64) + offset, columns.astype(np.int64), rows.astype(np.int64), signs > 0)
    if strange:
        file.report.append(f"{strange} events with times or places that are no numbers of theirs were left out")


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
        try:
            with h5py.File(path, "r") as file:
                attributes = {**dict(file.attrs), **dict(self._group(file).attrs)}
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise self._bad(f"it is damaged: {error}") from error
        self.sensor = _sensor_of(attributes.get("height"), attributes.get("width"))

    def _group(self, file: Any) -> Any:
        group = next((file[name] for name in ("events", "CD/events") if name in file), None)
        if group is None:
            raise self._bad(f"it has no /events: got {', '.join(sorted(file)) or 'nothing'}")
        return group

    def _read(self) -> Iterator[Events]:
        h5py = _h5py()
        try:
            with h5py.File(self.path, "r") as file:
                group = self._group(file)
                compound = isinstance(group, h5py.Dataset)
                names = "txyp" if not compound or "t" in (group.dtype.names or ()) else ""
                columns = [group.fields(name) if compound else group[name] for name in names]
                offset = int(file["t_offset"][()]) if "t_offset" in file else 0
                t, x, y, p = columns
                if abs(offset) >= _LATEST_US:
                    raise self._bad(f"its t_offset is {offset}, which is no time in microseconds")
                yield from _sliced(self, t, x, y, p, offset)
        except SourceError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._bad(f"/events has no columns t, x, y and p: {error}") from error
        except (OSError, RuntimeError) as error:
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
