"""The Journal of a live run: an instrument that writes down every hyperframe from its seal to its end.

`observe` puts what it is told in a bounded queue and returns; a thread of its own writes what came in a fifth of a second
in one transaction. Where the run records its frames, seals are with the operating system before `observe` returns
(`SealLog`), so that a kill takes nothing that was sealed. A disk that is full or fails never stops the run: what could not
be written is counted, told, and written down as missing once there is room again.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hyperframes.drivers.journal import Journal, Life
from hyperframes.drivers.seals import SealLog, read_seals, remove_seals
from hyperframes.errors import SinkError, without_credentials

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from hyperframes.instruments import Observation
    from hyperframes.packing import Header

__all__ = ["LiveJournal", "Retention"]

COMMIT_SECONDS = 0.2
"""Between two transactions; what a kill can take with it, of seals only where nothing is recorded."""
RETRY_SECONDS = 1.0
RETAIN_SECONDS = 10.0
MAX_WAITING = 50_000
"""Observations that may wait to be written: half a minute of 1,440 frames a second in hyperframes of 8."""
_TOLD = frozenset({"sealed", "queued", "started", "done", "delivered", "dropped"})


@dataclass(frozen=True, slots=True)
class Retention:
    """What a live journal keeps at most; the oldest goes first."""

    hyperframes: int | None = 1_000_000
    nbytes: int | None = None
    """Bytes of the file."""
    seconds: float | None = None
    """Age."""

    @classmethod
    def of(cls, seconds: float | None) -> Self:
        """Return what keeps hyperframes until they are so old; None: the usual number of them."""
        return cls() if seconds is None else cls(hyperframes=None, seconds=seconds)

    def __post_init__(self) -> None:
        for name in ("hyperframes", "nbytes", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"retention.{name}: expected more than 0, got {value!r}")


class LiveJournal:
    """Writes down what a live run tells; give it to the run as an instrument.

    Parameters
    ----------
    path : Path
        The file; made when it is missing, continued when it is there.
    retention : Retention, optional
        What it keeps. Default: a million hyperframes.
    max_waiting : int
        Observations that may wait to be written.

    Attributes
    ----------
    next_sequence : int
        Number of the first hyperframe of a run that goes on with this file.
    num_lost : int
        Observations that could not be written: the queue was full while the disk was.
    failing : str
        What keeps it from writing at present; empty where nothing does.

    Raises
    ------
    SinkError
        If the file is no journal, or another run writes it.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, hyperframes as hf
    >>> from hyperframes.drivers.live_journal import LiveJournal
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "live.journal"
    >>> with LiveJournal(path) as journal:
    ...     journal.observe({"kind": "stream", "stream": "cam0", "state": "added", "unix_ns": 1})
    """

    def __init__(self, path: Path, *, retention: Retention | None = None, max_waiting: int = MAX_WAITING) -> None:
        self.path = path
        self.retention = retention or Retention()
        self.num_lost = 0
        self.num_written = 0
        self.failing = ""
        self._journal = Journal(path, shared=True)
        if left := read_seals(path):
            self._journal.adopt(left)
        remove_seals(path)
        self._seals: SealLog | None = None
        self._sealing = threading.Lock()  # held to write a seal down and to go on in the other file
        self._is_written = True  # all that stands in the file written before
        self.next_sequence = self._journal.next_sequence()
        self._waiting: deque[Observation] = deque()
        self._max_waiting = max_waiting
        self._told_lost = 0
        self._failed_ns, self._why = 0, ""
        self._batch = _Batch()
        self._run: int | None = None
        self._outcome = ""
        self._retain_at = time.monotonic() + RETAIN_SECONDS
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="hyperframes-journal", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def observe(self, observation: Observation) -> None:
        """Take note of one observation; never waits, but for the seal of frames that are recorded to be written."""
        if observation["kind"] == "sealed" and self._seals is not None:
            self._seal(self._seals, observation)
            return
        if observation["kind"] == "began" and (observation.get("settings") or {}).get("record"):
            self._begin_seals()
        self._put(observation)

    def _put(self, observation: Observation) -> None:
        if len(self._waiting) < self._max_waiting:
            self._waiting.append(observation)
        else:
            self.num_lost += 1

    def _begin_seals(self) -> None:
        try:
            self._seals = SealLog(self.path)
        except OSError as error:
            self.failing = self._why = f"seals cannot be written at once: {error.strerror}"

    def _seal(self, seals: SealLog, observation: Observation) -> None:
        life = _life_of(observation)
        with self._sealing:
            try:
                seals.append(life)
            except OSError as error:  # a kill may take it now, as without a recording
                self.failing = self._why = f"seals cannot be written at once: {error.strerror}"
            self._put({"kind": "sealed", "hyperframe": life.sequence, "life": life, "unix_ns": life.sealed_ns})

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what users should know."""
        lost = (f"{self.num_lost} observations are missing from the journal {self.path}",) if self.num_lost else ()
        return (*lost, *((f"the journal {self.path} is not being written: {self.failing}",) if self.failing else ()))

    def stats(self) -> dict[str, Any]:
        """Return how the writing goes: ``written``, ``waiting``, ``lost``, ``failing``."""
        return {
            "written": self.num_written,
            "waiting": len(self._waiting) + self._batch.size,
            "lost": self.num_lost,
            "failing": self.failing,
        }

    def close(self) -> None:
        """Write what waits, and close the file; safe to call twice."""
        self._closing.set()
        self._thread.join()
        with self._sealing:
            seals, self._seals = self._seals, None
        if seals is not None:
            seals.close(written=self._is_written and not self._waiting)
        self._journal.close()

    # The thread ---------------------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while not self._closing.wait(RETRY_SECONDS if self.failing else COMMIT_SECONDS):
            self._write()
            self._retain()
        self._write()
        if self._run is not None and not self.failing:
            self._tried(lambda: self._journal.end(self._run or 0, self._outcome or "stopped"))

    def _write(self) -> None:
        """Write what came since the last time; what cannot be written waits, as long as there is room for it."""
        if self._seals is not None and self._is_written:
            with self._sealing:
                self._seals.turn()
        room = self._max_waiting - self._batch.size
        self._is_written = len(self._waiting) <= room
        for _ in range(min(len(self._waiting), room)):
            observation = self._waiting.popleft()
            kind = observation["kind"]
            if kind == "began":
                self._began(observation)
            elif kind == "finished":
                self._outcome = "finished"
            else:
                self._batch.add(observation)
        if not self._batch.size and self.num_lost == self._told_lost:
            return
        if self._run is None:
            self._began({"run": "", "settings": {}})
        batch = self._batch
        if self._tried(lambda: self._commit(batch)):
            self.num_written += batch.size
            self._batch = batch.carried_on()
        else:
            self._is_written = False

    def _commit(self, batch: _Batch) -> None:
        assert self._run is not None  # it began
        lost, now = self.num_lost - self._told_lost, time.time_ns()
        gaps = [(lost, self._failed_ns or now, now, self._why or "too much came at once")] if lost else []
        self._journal.write_live(self._run, batch.touched.values(), batch.losses(), batch.states, gaps)
        self._told_lost += lost
        self._failed_ns, self._why = 0, ""

    def _began(self, observation: Observation) -> None:
        settings = json.dumps(observation.get("settings") or {}, default=str)
        facts = json.loads(without_credentials(settings))
        size = int(facts.get("size") or 0) if isinstance(facts, dict) else 0

        def begin() -> None:
            self._run = self._journal.begin(str(observation.get("run", "")), "live", size, facts)

        if not self._tried(begin):
            self._waiting.appendleft(observation)

    def _retain(self) -> None:
        if time.monotonic() < self._retain_at or self.failing:
            return
        self._retain_at = time.monotonic() + RETAIN_SECONDS
        keep = self.retention
        before_ns = None if keep.seconds is None else time.time_ns() - round(keep.seconds * 1e9)

        def remove() -> None:
            while self._journal.retain(rows=keep.hyperframes, nbytes=keep.nbytes, before_ns=before_ns):
                if len(self._waiting) > self._max_waiting // 2:
                    self._retain_at = 0.0  # go on once what waits is written
                    return

        self._tried(remove)

    def _tried(self, write: Any) -> bool:
        """Run `write`; what goes wrong is told by `failing`, and tried again later."""
        try:
            write()
        except SinkError as error:
            self._failed_ns = self._failed_ns or time.time_ns()
            self.failing = self._why = str(error)
            return False
        self.failing = ""
        return True


class _Batch:
    """What is to be written in one transaction, and the hyperframes that are still under way."""

    def __init__(self, open_lives: dict[int, Life] | None = None) -> None:
        self.open: dict[int, Life] = open_lives or {}
        self.touched: dict[int, Life] = {}
        self.states: list[tuple[Any, ...]] = []
        self._losses: dict[tuple[str, Any, str], _Loss] = {}
        self.size = 0

    def carried_on(self) -> _Batch:
        """Return an empty batch that knows what is under way."""
        return _Batch(self.open)

    def add(self, observation: Observation) -> None:
        """Take in one observation; kinds that a journal does not hold are left aside."""
        kind = observation["kind"]
        if kind in _TOLD:
            self._hyperframe(kind, observation)
        elif kind == "frames_dropped":
            key = (observation["stream"], observation.get("epoch"), observation["reason"])
            loss = self._losses.get(key)
            if loss is None:
                loss = self._losses[key] = _Loss()
            loss.add(observation)
        elif kind == "stream":
            reason = without_credentials(str(observation.get("reason") or observation.get("spec") or ""))
            row = (observation["stream"], _json(observation.get("epoch")), observation["state"], reason)
            self.states.append((*row, observation["unix_ns"]))
        else:
            return
        self.size += 1

    def _hyperframe(self, kind: str, observation: Observation) -> None:
        sequence = observation["hyperframe"]
        if kind == "sealed":
            life = self.open[sequence] = observation.get("life") or _life_of(observation)
        else:
            found = self.open.get(sequence)
            if found is None:
                return  # its seal was lost
            life = found
        self.touched[sequence] = life
        ns = observation["unix_ns"]
        if kind == "queued":
            life.queued_ns = ns
        elif kind == "started":
            life.started_ns, life.worker = ns, observation.get("worker")
            life.attempts += 1
        elif kind == "done":
            life.done_ns, life.duration_ns = ns, observation.get("duration_ns")
        elif kind in {"delivered", "dropped"}:
            life.ended_ns, life.outcome, life.reason = ns, kind, observation.get("reason") or ""
            del self.open[sequence]
        error = observation.get("error")
        if error:
            life.error = without_credentials(str(error))

    def losses(self) -> list[tuple[Any, ...]]:
        """Return the rows of frames that were given up outside of hyperframes."""
        return [(stream, _json(epoch), reason, *loss.row()) for (stream, epoch, reason), loss in self._losses.items()]


class _Loss:
    """Frames of one stream given up for one reason."""

    def __init__(self) -> None:
        self.count = 0
        self.ids: list[int] = []
        self.times: list[int] = []
        self.ended_ns = 0

    def add(self, observation: Observation) -> None:
        ids, pts = np.atleast_1d(observation["frame_ids"]), np.atleast_1d(observation["pts"])
        self.ids += ids.tolist()
        self.times += [ns for ns in pts.tolist() if ns >= 0]
        self.count += int(observation.get("count", len(ids)))
        self.ended_ns = observation["unix_ns"]

    def row(self) -> tuple[Any, ...]:
        first, last = (min(self.times), max(self.times)) if self.times else (None, None)
        return self.count, json.dumps(self.ids), first, last, self.ended_ns


_LEFT_OUT = frozenset({"kind", "ns"})


def _life_of(observation: Observation) -> Life:
    """Return the row that a hyperframe begins with."""
    epoch, pts = observation["epoch"], observation["pts"].tolist()  # so few numbers are sooner looked at in lists
    times = pts if pts and isinstance(pts[0], int) else [ns for row in pts for ns in row]
    first, last = min(times), max(times)
    if first < 0:  # some frames are missing
        first = min([ns for ns in times if ns >= 0], default=-1)
    header = observation.get("header")
    core = (0, 0) if header is None else header.core
    return Life(
        observation["hyperframe"],
        observation["id"],
        stream="\n".join(observation["streams"]),
        kind=observation["hyperframe_kind"],
        start=int(core[0]),
        stop=int(core[1]),
        frame_ids=str(
            observation["frame_ids"].tolist()
        ),  # whole numbers in lists read as JSON, at a quarter of its cost
        seal_reason=observation["seal_reason"],
        sealed_ns=observation["unix_ns"],
        frames=observation["frames"],
        epoch=str(epoch if isinstance(epoch, int) else list(epoch)),
        pts=str(pts),
        clocks=_clocks_text(tuple(observation["clocks"])),
        first_ns=None if first < 0 else first,
        last_ns=None if last < 0 else last,
        wait_ns=observation.get("wait_ns"),
        span_error_seconds=observation.get("span_error_seconds"),
        gaps=_json(observation["gaps"]) if observation.get("gaps") else None,
        core=None if header is None else _more(header),
    )


def _more(header: Header) -> str | None:
    """Return what a replay needs besides, as JSON; None for the many that have neither halo nor end."""
    more: dict[str, Any] = {}
    if header.read != header.core:
        more = {"read": header.read, "frame_ids": header.frame_ids.tolist(), "pts": header.pts.tolist()}
    if header.end or header.stream_length is not None:
        more |= {"end": header.end, "length": header.stream_length}
    return json.dumps(more) if more else None


@functools.lru_cache(maxsize=256)
def _clocks_text(clocks: tuple[str, ...]) -> str:
    return json.dumps(clocks)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
