"""The Journal: one SQLite file in which every hyperframe's life is written, and how far each output is safe.

Offline and live write the same tables; what to write and when is the driver's business.

    runs         one row for every start: what ran on what (`facts`), when, and how it ended
    hyperframes  one row a hyperframe: range, ids, when it was sealed, started, done and ended, what became of it and why
    losses       live: frames given up outside of hyperframes, by stream and reason
    states       live: streams that were added, lost, came back, ended
    unwritten    live: how much of this is missing, and why
    outputs      how far each output is safe on the disk, and what its sink needs to go on from there
    snapshots    what sequential stages carried after a hyperframe
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import operator
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyperframes.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Journal", "Life", "LockedJournalError", "Safe", "journal_beside", "packed", "remove_files", "unpacked"]

VERSION = 2
"""Of the tables; a journal of another version is not read."""
KEPT_LIVES = 10_000
"""Newest hyperframes that are kept, besides those that resume needs and those that failed."""
KEPT_LOSSES = 1_000_000
"""Newest rows of the other tables that a live journal keeps in any case."""
_APPLICATION = 0x48464A4C  # "HFJL": tells a journal from other SQLite files
_APPLICATION_AT = 68
"""Where that stands in the file."""
_PIECE_BYTES = 64 << 20  # SQLite holds blobs of less than 1 GB
_BUSY_SECONDS = 0.5

_TABLES = """
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    driver TEXT NOT NULL,
    size INTEGER NOT NULL,
    facts TEXT NOT NULL,
    began_ns INTEGER NOT NULL,
    ended_ns INTEGER,
    outcome TEXT NOT NULL DEFAULT ''
);
CREATE TABLE hyperframes (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    id TEXT NOT NULL,
    stream TEXT NOT NULL,
    kind TEXT NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    frame_ids TEXT,
    seal_reason TEXT NOT NULL,
    sealed_ns INTEGER,
    started_ns INTEGER,
    done_ns INTEGER,
    ended_ns INTEGER,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT NOT NULL,
    frames_out INTEGER,
    filtered INTEGER,
    frames INTEGER,
    epoch TEXT,
    pts TEXT,
    clocks TEXT,
    first_ns INTEGER,
    last_ns INTEGER,
    queued_ns INTEGER,
    wait_ns INTEGER,
    span_error_seconds REAL,
    gaps TEXT,
    worker INTEGER,
    duration_ns INTEGER,
    core TEXT,
    UNIQUE (run, sequence)
);
CREATE INDEX hyperframes_by_stop ON hyperframes (stop) WHERE frames_out IS NOT NULL;
CREATE INDEX hyperframes_by_seal ON hyperframes (sealed_ns);
CREATE TABLE losses (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    stream TEXT NOT NULL,
    epoch TEXT,
    reason TEXT NOT NULL,
    frames INTEGER NOT NULL,
    frame_ids TEXT NOT NULL,
    first_ns INTEGER,
    last_ns INTEGER,
    ended_ns INTEGER NOT NULL
);
CREATE TABLE states (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    stream TEXT NOT NULL,
    epoch TEXT,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    told_ns INTEGER NOT NULL
);
CREATE TABLE unwritten (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    observations INTEGER NOT NULL,
    from_ns INTEGER NOT NULL,
    until_ns INTEGER NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE outputs (name TEXT PRIMARY KEY, frame INTEGER NOT NULL, wanted INTEGER, token BLOB NOT NULL);
CREATE TABLE snapshots (
    frame INTEGER NOT NULL,
    piece INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (frame, piece)
);
"""


class LockedJournalError(SinkError):
    """Another run has the journal open."""


@dataclass(slots=True)
class Life:
    """What became of one hyperframe; times in nanoseconds since 1970, None where it did not come to that."""

    sequence: int
    id: str
    stream: str = ""
    kind: str = "temporal"
    start: int = 0
    """The core: frames [start, stop) of the stream."""
    stop: int = 0
    frame_ids: str | None = None
    """JSON, by stream, where the frames are not those of the core in order."""
    seal_reason: str = ""
    sealed_ns: int | None = None
    started_ns: int | None = None
    done_ns: int | None = None
    ended_ns: int | None = None
    outcome: str = ""
    """``delivered``, ``dropped``, or nothing while it is under way."""
    reason: str = ""
    """Why it was dropped."""
    attempts: int = 0
    """How often it failed."""
    error: str = ""
    frames_out: int | None = None
    """Results that the first output had got in all once this one had ended; None where none was owed to it in order."""
    filtered: int | None = None
    """Results left out in all by then."""

    # Live only: times of frames are Unix nanoseconds of the clock that they have.
    frames: int | None = None
    """Real frames it owns."""
    epoch: str | None = None
    """JSON: of its stream, or a list where it is of several."""
    pts: str | None = None
    """JSON: times of its frames, shaped like `frame_ids`; -1 where no frame stands."""
    clocks: str | None = None
    """JSON: of each stream, ``capture`` or ``arrival``."""
    first_ns: int | None = None
    """Time of its first frame."""
    last_ns: int | None = None
    """Time of its last frame."""
    queued_ns: int | None = None
    wait_ns: int | None = None
    """From its first frame's arrival to the seal."""
    span_error_seconds: float | None = None
    gaps: str | None = None
    """JSON: ranges of frames known to be missing."""
    worker: int | None = None
    duration_ns: int | None = None
    """At work."""
    core: str | None = None
    """JSON: what else its header says, for a replay."""

    @property
    def streams(self) -> list[str]:
        """Names of its streams in order."""
        return self.stream.split("\n")


@dataclass(frozen=True, slots=True)
class Safe:
    """How far an output is safe on the disk."""

    frame: int
    """Results of the source frames before this one were given to the sink."""
    wanted: int | None
    """Position of the first result that is not safe; None: all of those given are."""
    token: Mapping[str, Any]
    """What the sink said about it."""


class LastRun(NamedTuple):
    """What a journal says of a run as a whole."""

    size: int
    facts: dict[str, str]
    ended_ns: int | None
    outcome: str
    """``closing`` (all frames are done, outputs get their names), ``interrupted``, or nothing where it was killed."""


def journal_beside(output: Path | str) -> Path:
    """Return where the journal of a run that writes `output` stands: hidden, beside it.

    Examples
    --------
    >>> journal_beside("films/out.mp4").as_posix()
    'films/.out.mp4.journal'
    """
    output = Path(output)
    return output.with_name(f".{output.name}.journal")


class Journal:
    """An open journal, locked: no two runs write one.

    Parameters
    ----------
    path : Path
        Of the file; made when it is missing.
    shared : bool
        Whether others may read it meanwhile. Its transactions then survive a kill, but the last ones may not survive a
        power cut.

    Raises
    ------
    SinkError
        If it is no journal, damaged, of another version, locked by a run that is going on, or cannot be written.

    Notes
    -----
    Write-ahead logging and a transaction a write: a process killed at any moment leaves what the last one wrote; a
    power cut too, since every transaction is flushed. Used by one thread at a time.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path
        self._shared, self._lock_file = shared, -1
        with self._told():
            self._db = sqlite3.connect(path, _BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            with self._told():
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._check_kind()
        if self._shared:
            self._lock()
        else:
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {'NORMAL' if self._shared else 'FULL'}")
        with self._transaction():
            if self._number("PRAGMA user_version") == 0 and not self._number("SELECT count(*) FROM sqlite_master"):
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {VERSION}")
        found = self._number("PRAGMA user_version")
        if found != VERSION:
            raise SinkError(
                f"the journal {self.path} is of version {found}: expected {VERSION}",
                sink=str(self.path),
                hint="Name another file; the version of hyperframes that wrote this one can read it."
                if self._shared
                else "Run without --resume to start over, or resume with the version of hyperframes that began it.",
            )
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._damaged(str(verdict))

    def _check_kind(self) -> None:
        """Refuse what is another program's, before a byte of it changes."""
        if not self.path.stat().st_size:
            return
        with self.path.open("rb") as file:
            head = file.read(_APPLICATION_AT + 4)
        if head[_APPLICATION_AT:] == _APPLICATION.to_bytes(4, "big"):
            return  # the rest of it may stand in the log beside it: a full disk or a kill can leave it so
        look = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        with contextlib.closing(look):
            (kind,) = look.execute("PRAGMA application_id").fetchone()
            (tables,) = look.execute("SELECT count(*) FROM sqlite_master").fetchone()
        # Without tables it was killed before the first transaction was in the file itself.
        if kind != _APPLICATION and tables:
            raise self._damaged("it is another kind of database")

    def _lock(self) -> None:
        """Keep other writers out; readers may come. The lock goes with the process, however it ends."""
        import fcntl

        self._lock_file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise self._locked() from None

    def _number(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])

    # Writing ----------------------------------------------------------------------------------------------------------

    def begin(self, run_id: str, driver: str, size: int, facts: Mapping[str, str]) -> int:
        """Write down that a run began, and return its number in this file."""
        with self._told(), self._transaction():
            values = (run_id, driver, size, json.dumps(facts), time.time_ns())
            columns = "id, driver, size, facts, began_ns"
            return int(self._db.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?)", values).lastrowid or 0)

    def write(
        self,
        run: int,
        lives: Iterable[Life],
        outputs: Mapping[str, Safe],
        snapshot: tuple[int, bytes] | None = None,
        *,
        needed_from: int = 0,
    ) -> None:
        """Write, all or nothing, what happened since the last time.

        Parameters
        ----------
        run : int
            What `begin` returned.
        lives : iterable of Life
            New or changed ones.
        outputs : mapping of output name to Safe
            How far each is safe.
        snapshot : (frame, bytes), optional
            What sequential stages carried after the hyperframe that ends before `frame`.
        needed_from : int
            Frame from which on results may be wanted again: older snapshots and lives may go.
        """
        with self._told(), self._transaction():
            self._db.executemany(_UPSERT, [(run, *astuple(life)) for life in lives])
            for name, safe in outputs.items():
                values = (name, safe.frame, safe.wanted, packed(safe.token))
                self._db.execute("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)", values)
            if snapshot is not None:
                self._put_snapshot(*snapshot)
            self._prune(needed_from)

    def write_live(
        self,
        run: int,
        lives: Iterable[Life],
        losses: Iterable[tuple[Any, ...]] = (),
        states: Iterable[tuple[Any, ...]] = (),
        unwritten: Iterable[tuple[Any, ...]] = (),
    ) -> None:
        """Write, all or nothing, what a live run told since the last time.

        Parameters
        ----------
        run : int
            What `begin` returned.
        lives : iterable of Life
            New or changed ones; their sequence numbers are those of the file.
        losses : iterable of tuple
            (stream, epoch, reason, frames, frame_ids, first_ns, last_ns, ended_ns)
        states : iterable of tuple
            (stream, epoch, state, reason, told_ns)
        unwritten : iterable of tuple
            (observations, from_ns, until_ns, reason)
        """
        with self._told(), self._transaction():
            self._db.executemany(_PUT_LIVE, [(life.sequence, run, *_values(life)) for life in lives])
            self._db.executemany(_PUT_LOSS, [(run, *loss) for loss in losses])
            self._db.executemany(_PUT_STATE, [(run, *state) for state in states])
            self._db.executemany(_PUT_UNWRITTEN, [(run, *gap) for gap in unwritten])

    def adopt(self, lives: Iterable[Life]) -> None:
        """Write the seals of the last run that a kill kept from being written; what is there stays as it is."""
        with self._told(), self._transaction():
            run, oldest = self._db.execute(
                "SELECT (SELECT max(run) FROM runs), (SELECT coalesce(min(number), 0) FROM hyperframes)"
            ).fetchone()
            if run is None:  # it was killed before its first transaction
                values = ("", "live", 0, "{}", time.time_ns())
                columns = "id, driver, size, facts, began_ns"
                run = self._db.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?)", values).lastrowid
            rows = [(life.sequence, run, *_values(life)) for life in lives if life.sequence >= oldest]
            self._db.executemany(_PUT_LIVE.replace("REPLACE", "IGNORE", 1), rows)

    def next_sequence(self) -> int:
        """Return the number of the next hyperframe: one more than the last that was written down."""
        with self._told():
            return self._number("SELECT coalesce(max(number), -1) + 1 FROM hyperframes")

    def retain(self, *, rows: int | None, nbytes: int | None, before_ns: int | None, at_most: int = 5_000) -> bool:
        """Remove the oldest of what is over; return whether there is more to remove.

        Parameters
        ----------
        rows : int, optional
            Hyperframes to keep.
        nbytes : int, optional
            Bytes to keep.
        before_ns : int, optional
            Unix nanoseconds: what ended before goes.
        at_most : int
            Hyperframes removed at once, so that nobody waits long.
        """
        with self._told(), self._transaction():
            for table in ("losses", "states", "unwritten"):  # however few hyperframes there are
                query = f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?"
                self._db.execute(query, (rows or KEPT_LOSSES,))
            first, last = self._db.execute("SELECT min(number), max(number) FROM hyperframes").fetchone()
            if first is None:
                return False
            until = first
            if rows is not None:
                until = max(until, last - rows + 1)
            if before_ns is not None:
                query = "SELECT max(number) + 1 FROM (SELECT number FROM hyperframes WHERE sealed_ns < ? ORDER BY sealed_ns DESC LIMIT 1)"
                until = max(until, self._db.execute(query, (before_ns,)).fetchone()[0] or 0)
            if nbytes is not None and self._number("PRAGMA page_count") > 0:
                used = self._number("PRAGMA page_count") - self._number("PRAGMA freelist_count")
                if used * self._number("PRAGMA page_size") > nbytes:
                    until = max(until, first + max(1, (last - first) // 10))
            until = min(until, last)  # the newest stays, so that numbers go on from it
            stop = min(until, first + at_most)
            if stop <= first:
                return False
            self._db.execute("DELETE FROM hyperframes WHERE number < ?", (stop,))
            oldest = self._db.execute("SELECT sealed_ns FROM hyperframes ORDER BY number LIMIT 1").fetchone()[0] or 0
            self._db.execute("DELETE FROM losses WHERE ended_ns < ?", (oldest,))
            self._db.execute("DELETE FROM states WHERE told_ns < ?", (oldest,))
            return bool(stop < until)

    def _put_snapshot(self, frame: int, data: bytes) -> None:
        self._db.execute("DELETE FROM snapshots WHERE frame = ?", (frame,))
        view = memoryview(data)
        for number, at in enumerate(range(0, max(1, len(data)), _PIECE_BYTES)):
            piece = view[at : at + _PIECE_BYTES]
            values = (frame, number, hashlib.sha256(piece).hexdigest(), piece)
            self._db.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?)", values)

    def _prune(self, needed_from: int) -> None:
        query = "DELETE FROM snapshots WHERE frame < (SELECT max(frame) FROM snapshots WHERE frame <= ?)"
        self._db.execute(query, (needed_from,))
        self._db.execute(
            "DELETE FROM hyperframes WHERE number <= (SELECT max(number) FROM hyperframes) - ? AND outcome = 'delivered' "
            "AND stop < (SELECT max(stop) FROM hyperframes WHERE stop <= ? AND frames_out IS NOT NULL) "
            "AND stop < coalesce((SELECT min(frame) FROM snapshots), stop + 1)",
            (KEPT_LIVES, needed_from),
        )

    def end(self, run: int, outcome: str) -> None:
        """Write down how a run ended."""
        with self._told(), self._transaction():
            self._db.execute("UPDATE runs SET ended_ns = ?, outcome = ? WHERE run = ?", (time.time_ns(), outcome, run))

    # Reading ----------------------------------------------------------------------------------------------------------

    def last_run(self) -> LastRun | None:
        """Return what the newest run was; None where no run got as far as writing."""
        with self._told():
            query = "SELECT size, facts, ended_ns, outcome FROM runs ORDER BY run DESC LIMIT 1"
            row = self._db.execute(query).fetchone()
            return None if row is None else LastRun(row[0], json.loads(row[1]), row[2], row[3])

    def outputs(self) -> dict[str, Safe]:
        """Return how far each output is safe."""
        with self._told():
            rows = self._db.execute("SELECT name, frame, wanted, token FROM outputs").fetchall()
            return {name: Safe(frame, wanted, unpacked(token)) for name, frame, wanted, token in rows}

    def lives(self, where: str = "1", values: tuple[Any, ...] = (), order: str = "number") -> list[Life]:
        """Return the hyperframes that satisfy the SQL condition `where`."""
        with self._told():
            query = f"SELECT {_COLUMNS} FROM hyperframes WHERE {where} ORDER BY {order}"
            return [Life(*row) for row in self._db.execute(query, values)]

    def reached(self, frame: int) -> Life | None:
        """Return the last hyperframe that ends at or before `frame` and was owed to the outputs in order."""
        found = self.lives("frames_out IS NOT NULL AND stop <= ?", (frame,), "stop DESC, number DESC LIMIT 1")
        return found[0] if found else None

    def snapshot(self, frame: int) -> tuple[int, dict[str, Any]] | None:
        """Return (frame, what sequential stages carried there) of the last snapshot at or before `frame`."""
        with self._told():
            at = self._db.execute("SELECT max(frame) FROM snapshots WHERE frame <= ?", (frame,)).fetchone()[0]
            if at is None:
                return None
            query = "SELECT sha256, data FROM snapshots WHERE frame = ? ORDER BY piece"
            pieces = self._db.execute(query, (at,)).fetchall()
            if any(hashlib.sha256(data).hexdigest() != digest for digest, data in pieces):
                raise self._damaged(f"the snapshot at frame {at} does not have its checksum")
            return int(at), unpacked(b"".join(data for _, data in pieces))

    # Life -------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._db.close()
        lock_file, self._lock_file = self._lock_file, -1
        if lock_file >= 0:  # only now: closing it would take SQLite's own locks with it
            os.close(lock_file)

    def remove(self) -> None:
        """Close and remove the file."""
        self.close()
        remove_files(self.path)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # on a full disk SQLite has rolled back already
                self._db.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite says into a SinkError with a way out."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._said(error) from error
        except (ValueError, EOFError) as error:  # bytes that are no packed values
            raise self._damaged(str(error)) from error

    def _said(self, error: sqlite3.Error) -> SinkError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return self._locked()
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            return self._damaged(str(error))
        reason = "disk full" if code == sqlite3.SQLITE_FULL else str(error)
        return SinkError(
            f"cannot write the journal {self.path}: {reason}",
            sink=str(self.path),
            hint="Free some space, and check that its folder may be written to.",
        )

    def _locked(self) -> LockedJournalError:
        return LockedJournalError(
            f"another run is writing the {'journal' if self._shared else 'same output: its journal'} {self.path}"
            f"{'' if self._shared else ' is locked'}",
            sink=str(self.path),
            hint="Wait for it, stop it, or write to another name.",
        )

    def _damaged(self, how: str) -> SinkError:
        return SinkError(
            f"the journal {self.path} is damaged: {how}",
            sink=str(self.path),
            hint="Name another file, or move this one away."
            if self._shared
            else "Run without --resume: the run starts over and the damaged journal is replaced.",
        )


_NAMES = [field.name for field in fields(Life)]
_COLUMNS = ", ".join(_NAMES)
_values = operator.attrgetter(*_NAMES)
_UPSERT = f"INSERT OR REPLACE INTO hyperframes (run, {_COLUMNS}) VALUES (?, {', '.join('?' * len(_NAMES))})"
_PUT_LIVE = (
    f"INSERT OR REPLACE INTO hyperframes (number, run, {_COLUMNS}) VALUES (?, ?, {', '.join('?' * len(_NAMES))})"
)
_PUT_LOSS = (
    "INSERT INTO losses (run, stream, epoch, reason, frames, frame_ids, first_ns, last_ns, ended_ns) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_PUT_STATE = "INSERT INTO states (run, stream, epoch, state, reason, told_ns) VALUES (?, ?, ?, ?, ?, ?)"
_PUT_UNWRITTEN = "INSERT INTO unwritten (run, observations, from_ns, until_ns, reason) VALUES (?, ?, ?, ?, ?)"


def remove_files(path: Path) -> None:
    """Remove the journal at `path` and what SQLite keeps beside it; nothing happens where there is none."""
    path.unlink(missing_ok=True)  # first: without it the others mean nothing
    for suffix in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


# Values as bytes ------------------------------------------------------------------------------------------------------


def packed(values: Mapping[str, Any]) -> bytes:
    """Return a flat mapping of arrays, numbers and texts as bytes, without pickling anything.

    Parameters
    ----------
    values : mapping of str to array, number, text, bool or None
        NumPy scalars keep their type, floats every bit.

    Raises
    ------
    TypeError
        Naming the key of anything else.

    Notes
    -----
    One line of JSON that says what is what, then the arrays in NumPy's own format.

    Examples
    --------
    >>> unpacked(packed({"seen": 3, "gain": 0.1, "model": np.arange(3)}))
    {'seen': 3, 'gain': 0.1, 'model': array([0, 1, 2])}
    """
    header: list[list[Any]] = []
    body = io.BytesIO()
    for key, value in values.items():
        if isinstance(value, np.ndarray | np.generic):
            if value.dtype.hasobject:
                raise TypeError(f"{key!r} is an array of objects: expected numbers")
            header.append([key, "scalar" if isinstance(value, np.generic) else "array", None])
            np.lib.format.write_array(body, np.asanyarray(value), allow_pickle=False)
        elif isinstance(value, complex):
            header.append([key, "complex", [value.real, value.imag]])
        elif value is None or isinstance(value, bool | int | float | str):
            header.append([key, "value", value])
        else:
            raise TypeError(f"{key!r} is a {type(value).__name__}: expected an array, a number or a text")
    return json.dumps(header).encode() + b"\n" + body.getvalue()


def unpacked(data: bytes) -> dict[str, Any]:
    """Return what `packed` made bytes of.

    Raises
    ------
    ValueError
        If `data` is something else, or cut off.
    """
    stream = io.BytesIO(data)
    values: dict[str, Any] = {}
    for key, kind, value in json.loads(stream.readline()):
        if kind in {"array", "scalar"}:
            array = np.lib.format.read_array(stream, allow_pickle=False)
            values[key] = array if kind == "array" else array[()]
        else:
            values[key] = complex(*value) if kind == "complex" else value
    return values
