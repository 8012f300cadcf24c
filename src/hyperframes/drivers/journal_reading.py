"""Reading a Journal, also while a run writes it: what became of which hyperframes, and which frames were lost where."""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from hyperframes.drivers.journal import VERSION, Life
from hyperframes.drivers.journal_where import Condition, compile_where
from hyperframes.drivers.seals import read_seals
from hyperframes.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

__all__ = ["Found", "JournalReader", "Loss", "Merged", "RunEntry", "life_to_json", "merged"]

_COLUMNS = [f.name for f in fields(Life)]
_JSON = ("frame_ids", "epoch", "pts", "clocks", "gaps", "core")


@dataclass(frozen=True, slots=True)
class Loss:
    """Frames of one stream that were given up outside of hyperframes, for one reason, at about one time."""

    run: int
    stream: str
    epoch: str | None
    reason: str
    frames: int
    frame_ids: str
    first_ns: int | None
    last_ns: int | None
    ended_ns: int

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told = asdict(self)
        return told | {name: json.loads(told[name]) for name in ("epoch", "frame_ids") if told[name]}


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run in the file."""

    run: int
    id: str
    driver: str
    facts: dict[str, Any]
    began_ns: int
    ended_ns: int | None
    outcome: str
    """Nothing where it goes on, or was killed."""
    unwritten: int
    """Observations that are missing."""


@dataclass(slots=True)
class Found:
    """What was asked for."""

    hyperframes: list[Life] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    num_hyperframes: int = 0
    """How many there are; more than `hyperframes` where a limit cut them."""
    num_losses: int = 0
    outcomes: dict[tuple[str, str], int] = field(default_factory=dict)
    """Frames by (outcome, reason), over everything found."""


@dataclass(slots=True)
class Merged:
    """What was found in several journals, as in one; each with the name of its journal."""

    hyperframes: list[tuple[str, Life]]
    """By the time of their first frame."""
    losses: list[tuple[str, Loss]]
    num_hyperframes: int
    num_losses: int
    outcomes: dict[tuple[str, str], int]
    """Frames by (outcome, reason), over everything found."""


def merged(found: Mapping[str, Found], *, limit: int | None = None) -> Merged:
    """Return what was found in journals, by name, in one order: the newest `limit` of hyperframes and of losses."""
    lives = [(name, life) for name, one in found.items() for life in one.hyperframes]
    losses = [(name, loss) for name, one in found.items() for loss in one.losses]
    lives.sort(key=lambda entry: entry[1].first_ns or entry[1].sealed_ns or 0)
    losses.sort(key=lambda entry: entry[1].first_ns or entry[1].ended_ns)
    outcomes: dict[tuple[str, str], int] = {}
    for one in found.values():
        for key, frames in one.outcomes.items():
            outcomes[key] = outcomes.get(key, 0) + frames
    first = 0 if limit is None else -limit
    return Merged(
        lives[first:],
        losses[first:],
        sum(one.num_hyperframes for one in found.values()),
        sum(one.num_losses for one in found.values()),
        outcomes,
    )


class JournalReader:
    """An open journal, read-only; a run may write it meanwhile.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    SourceError
        If there is none, or it is no journal of this version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise self._wrong("no such file")
        log = path.with_name(f"{path.name}-wal")
        self._is_whole = not log.exists() or not log.stat().st_size  # nobody writes it, or was killed while writing
        self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", 2.0, uri=True)
        try:
            self._check()
            self._add_seals()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        with self._told():
            found = self._db.execute("PRAGMA user_version").fetchone()[0]
            query = "SELECT count(*) FROM sqlite_master WHERE name = 'hyperframes'"
            is_journal = self._db.execute(query).fetchone()[0]
        if not is_journal or found != VERSION:
            raise self._wrong(f"it is of version {found}: expected {VERSION}" if is_journal else "it is no journal")

    def _add_seals(self) -> None:
        """Let every question see what was sealed and is in no transaction yet: a killed run may have left it."""
        left = read_seals(self.path)
        with self._told():
            if not left or not self._is_missing(left):
                return
            self._db.execute("CREATE TEMP TABLE sealed AS SELECT * FROM main.hyperframes LIMIT 0")
            oldest = self._db.execute("SELECT coalesce(min(number), 0) FROM main.hyperframes").fetchone()[0]
            run = self._db.execute("SELECT coalesce(max(run), 1) FROM runs").fetchone()[0]
            query = f"INSERT INTO sealed (number, run, {', '.join(_COLUMNS)}) VALUES (?, ?, {', '.join('?' * len(_COLUMNS))})"
            rows = [(life.sequence, run, *astuple(life)) for life in left if life.sequence >= oldest]
            self._db.executemany(query, rows)
            self._db.commit()  # or every later question would be answered as of now
            self._db.execute(
                "CREATE TEMP VIEW hyperframes AS SELECT * FROM main.hyperframes UNION ALL SELECT * FROM sealed "
                "WHERE NOT EXISTS (SELECT 1 FROM main.hyperframes AS written WHERE written.number = sealed.number)"
            )

    def _is_missing(self, left: list[Life]) -> bool:
        query = "SELECT number FROM main.hyperframes WHERE number >= ?"
        written = {number for (number,) in self._db.execute(query, (left[0].sequence,))}
        return any(life.sequence not in written for life in left)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what reading it put beside it goes, unless a run has begun to write it meanwhile.

        A connection that may only read makes the files of the write-ahead log and cannot remove them. The last one that may
        write removes them as it closes, by SQLite's own locks, so that no writer can lose anything.
        """
        self._db.close()
        if self._is_whole:
            with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(self.path, 0.0)) as last:
                last.execute("PRAGMA user_version").fetchone()

    def _wrong(self, why: str) -> SourceError:
        return SourceError(
            f"cannot read the journal {self.path}: {why}",
            source=str(self.path),
            hint="Name the file that 'hyperframes live --journal FILE' wrote.",
        )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._wrong(str(error)) from error

    def condition(self, where: str) -> Condition:
        """Return `where` compiled; times without a date are of the day of the newest hyperframe.

        Raises
        ------
        PipelineError
            If it cannot be read.
        """
        with self._told():
            newest = self._db.execute("SELECT max(sealed_ns) FROM hyperframes").fetchone()[0]
        # The zone is the user's own: what the clock on the wall showed.
        day = datetime.datetime.fromtimestamp(newest / 1e9).astimezone().date() if newest else datetime.date.today()
        return compile_where(where, day)

    def find(self, where: str = "", *, limit: int | None = None) -> Found:
        """Return what satisfies `where`, the newest `limit` of it, in order.

        Raises
        ------
        PipelineError
            If `where` cannot be read.
        """
        condition = self.condition(where)
        with self._told():
            found = Found()
            most = -1 if limit is None else limit
            query = f"SELECT {', '.join(_COLUMNS)} FROM hyperframes WHERE {condition.hyperframes} ORDER BY number DESC LIMIT ?"
            rows = self._db.execute(query, (*condition.hyperframes_values, most)).fetchall()
            found.hyperframes = [Life(*row) for row in reversed(rows)]
            names = [f.name for f in fields(Loss)]
            query = f"SELECT {', '.join(names)} FROM losses WHERE {condition.losses} ORDER BY number DESC LIMIT ?"
            rows = self._db.execute(query, (*condition.losses_values, most)).fetchall()
            found.losses = [Loss(*row) for row in reversed(rows)]
            self._count(found, condition)
        return found

    def _count(self, found: Found, condition: Condition) -> None:
        counted = "count(*), coalesce(sum(coalesce(frames, stop - start)), 0)"
        query = (
            f"SELECT outcome, reason, {counted} FROM hyperframes WHERE {condition.hyperframes} GROUP BY outcome, reason"
        )
        for outcome, reason, count, frames in self._db.execute(query, condition.hyperframes_values):
            found.num_hyperframes += count
            key = (outcome or "open", reason)
            found.outcomes[key] = found.outcomes.get(key, 0) + frames
        query = f"SELECT reason, count(*), sum(frames) FROM losses WHERE {condition.losses} GROUP BY reason"
        for reason, count, frames in self._db.execute(query, condition.losses_values):
            found.num_losses += count
            found.outcomes["dropped", reason] = found.outcomes.get(("dropped", reason), 0) + frames

    def unfinished(self) -> list[Life]:
        """Return the hyperframes that were sealed and never came to an end, in order."""
        with self._told():
            query = f"SELECT {', '.join(_COLUMNS)} FROM hyperframes WHERE outcome = '' ORDER BY number"
            return [Life(*row) for row in self._db.execute(query)]

    def runs(self) -> list[RunEntry]:
        """Return the runs in the file, in order."""
        with self._told():
            query = (
                "SELECT run, id, driver, facts, began_ns, ended_ns, outcome, "
                "(SELECT coalesce(sum(observations), 0) FROM unwritten WHERE unwritten.run = runs.run) FROM runs ORDER BY run"
            )
            return [
                RunEntry(run, name, driver, json.loads(facts), began_ns, ended_ns, outcome, unwritten)
                for run, name, driver, facts, began_ns, ended_ns, outcome, unwritten in self._db.execute(query)
            ]

    def states(self, stream: str | None = None) -> list[dict[str, Any]]:
        """Return what became of streams, in order: ``run, stream, epoch, state, reason, told_ns``."""
        with self._told():
            names = ("run", "stream", "epoch", "state", "reason", "told_ns")
            query = f"SELECT {', '.join(names)} FROM states WHERE ? IS NULL OR stream = ? ORDER BY number"
            return [dict(zip(names, row, strict=True)) for row in self._db.execute(query, (stream, stream))]


def life_to_json(life: Life) -> dict[str, Any]:
    """Return a hyperframe's life as JSON values."""
    told = asdict(life) | {"streams": life.streams}
    del told["stream"]
    return told | {name: json.loads(told[name]) for name in _JSON if told[name]}
