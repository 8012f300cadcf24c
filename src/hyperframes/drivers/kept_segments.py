"""Which segments of a run over several machines are done, in the journal beside its output: it goes on with the others.

A segment is written down when its task has ended, with a checksum of each of its files. A resumed run takes over the cuts
of the interrupted one, and of its segments those whose files are as they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hyperframes.drivers.cuts import Cuts
from hyperframes.drivers.journal import Journal, LockedJournalError, Safe, journal_beside, packed, remove_files
from hyperframes.drivers.resume import (
    carried_of,
    changes,
    facts_of,
    flattened,
    refuse_changes,
    take_size,
    unknown_input,
)
from hyperframes.drivers.segment import Outcome
from hyperframes.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hyperframes.drivers.setup import Setup

__all__ = ["KeptSegments"]

_CUTS: Final = "cuts"
_SEGMENT: Final = "segment "
_COUNTED: Final = ("frames_in", "frames_out", "filtered", "hyperframes", "failed", "warnings", "output", "sure")
"""What of an outcome is kept; times, retries and workers are those of the last run alone, as anywhere."""


class KeptSegments:
    """The journal of one run of `setup` in segments; used by one thread at a time.

    Parameters
    ----------
    setup : Setup
        Of the run; it takes over the size of an interrupted run that goes on.
    chained : bool
        Whether each segment needs what the one before carried.
    unpieced : iterable of str
        Names of outputs that are not written in pieces, so that nothing of them can be kept.
    """

    def __init__(self, setup: Setup, *, chained: bool, unpieced: Iterable[str] = ()) -> None:
        self._setup, self._chained = setup, chained
        self.cuts: Cuts | None = None
        """Of the interrupted run that goes on; None where none does."""
        self.done: dict[int, tuple[Outcome, dict[str, Path]]] = {}
        """By number: what became of a segment, and where its pieces stand, by sink."""
        self.warnings: list[str] = []
        places = [place for sink in setup.sinks.values() if (place := sink.place()) is not None]
        self._path = journal_beside(places[0]) if places else None
        self._name = next((sink.name for sink in setup.sinks.values() if sink.place() is not None), "")
        pieces = "".join(f"{name} is not written in pieces" for name in list(unpieced)[:1])
        self._obstacle = "nothing is written to a file" if self._path is None else unknown_input(setup) or pieces
        self._journal: Journal | None = None
        self._run = 0

    @property
    def holds(self) -> bool:
        """Whether there is something that a later run could go on from."""
        return self._journal is not None and bool(self.done)

    @property
    def frames(self) -> int:
        """How many frames were read by the segments that are done."""
        return sum(outcome.frames_in for outcome, _ in self.done.values())

    # Beginning --------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take over what an interrupted run left, where that is asked for and possible; else replace it.

        Raises
        ------
        PipelineError
            If the interrupted run had another input, operators or options: it says which, and nothing is touched.
        SinkError
            If the journal is damaged, or another run is writing it.
        """
        if self._setup.pipeline.options.resume:
            if self._obstacle:
                self.warnings.append(f"resume: the run started over: {self._obstacle}")
            elif self._take_over():
                return
        if self._path is not None and self._path.exists():
            self._replace(self._path)

    def _take_over(self) -> bool:
        if self._path is not None and self._path.exists():
            with contextlib.ExitStack() as stack:
                journal = Journal(self._path)
                stack.callback(journal.close)
                found, rows = journal.last_run(), journal.outputs()
                if found is not None:
                    refuse_changes(self._name, found.facts, self._facts())
                    if _CUTS in rows:
                        self.warnings += take_size(self._setup, found.size)
                        self.cuts = _cuts_of(rows[_CUTS].token)
                        self.done = self._sound(journal, rows)
                if self.done:
                    self._journal = journal
                    stack.pop_all()
                    count, total = len(self.done), len(self.cuts.ranges) if self.cuts else 0
                    self.warnings.append(f"resumed with {count} of {total} segments done: {self.frames} frames")
                    return True
        self.cuts = None
        self.warnings.append(f"resume: nothing was left of {self._name} to go on from: the run started over")
        return False

    def _sound(self, journal: Journal, rows: Mapping[str, Safe]) -> dict[int, tuple[Outcome, dict[str, Path]]]:
        """Return the segments whose files are as they were; of a chain those before the first that is not."""
        assert self.cuts is not None
        found: dict[int, tuple[Outcome, dict[str, Path]]] = {}
        for number, (_, stop) in enumerate(self.cuts.ranges):
            row = rows.get(f"{_SEGMENT}{number}")
            told = None if row is None else json.loads(row.token["outcome"])
            sound = told is not None and all(
                _digest(Path(path)) == (size, digest) for path, (size, digest) in told["files"].items()
            )
            carried = {}
            if sound and self._chained and stop is not None:
                snapshot = journal.snapshot(stop)
                sound = snapshot is not None and snapshot[0] == stop
                carried = carried_of(snapshot[1]) if sound and snapshot is not None else {}
            if not sound or told is None:
                if self._chained:
                    break
                continue
            files = {Path(path): size for path, (size, _) in told["files"].items()}
            kept = {name: told[name] for name in _COUNTED}
            outcome = Outcome(**kept, retries=0, stages={}, coordination_seconds=0.0, carried=carried, files=files)
            found[number] = outcome, {key: Path(path) for key, path in told["folders"].items()}
        return found

    def _replace(self, path: Path) -> None:
        told = f"what an interrupted run left of {self._name} was replaced"
        try:
            journal = Journal(path)
        except LockedJournalError:
            raise
        except SinkError:  # damaged: nobody can go on from it
            pass
        else:
            with contextlib.closing(journal):
                found, rows = journal.last_run(), journal.outputs()
            count = sum(name.startswith(_SEGMENT) for name in rows)
            if found and count and not self._obstacle and not changes(found.facts, self._facts()):
                told += f"; --resume would have kept {count} segments"
        remove_files(path)
        self.warnings.append(told)

    def _facts(self) -> dict[str, str]:
        return facts_of(self._setup) | {"executor": "ray"}

    # While it runs ----------------------------------------------------------------------------------------------------

    def end(self, cuts: Cuts, number: int, outcome: Outcome, folders: Mapping[str, Path]) -> None:
        """Write down that a segment is done; the first one makes the journal."""
        if self._obstacle or self._path is None:
            return
        stop = cuts.ranges[number][1]
        try:
            told = {name: getattr(outcome, name) for name in _COUNTED}
            told["files"] = {str(path): (size, _digest(path)[1]) for path, size in outcome.files.items()}
            told["folders"] = {key: str(path) for key, path in folders.items()}
            snapshot = None if not self._chained or stop is None else (stop, packed(flattened(outcome.carried)))
            token = {"outcome": json.dumps(told)}
        except TypeError as error:
            self._give_up(f"what a segment left cannot be saved: {error}")
            return
        rows = {f"{_SEGMENT}{number}": Safe(cuts.ranges[number][0], None, token)}
        if self._journal is None or not self._run:
            rows[_CUTS] = Safe(0, None, {"ranges": json.dumps(cuts.ranges), "reason": cuts.reason})
        try:
            self._journal = self._journal or Journal(self._path)
            self._run = self._run or self._journal.begin(self._setup.run_id, "ray", self._setup.size, self._facts())
            self._journal.write(self._run, [], rows, snapshot)
        except LockedJournalError:
            raise
        except SinkError as error:
            self._give_up(str(error))
            return
        self.done[number] = outcome, dict(folders)

    def _give_up(self, why: str) -> None:
        """Go on without a journal: it costs the run its resumption, not its result."""
        self.warnings.append(f"{why}: if this run were interrupted, it would start over")
        self._obstacle = why
        self.forget()

    def forget(self) -> None:
        """Remove the journal: the run came to its end, or nothing of it is kept."""
        self.done, self.cuts, self._run = {}, None, 0
        if self._journal is not None:
            self._journal.remove()
            self._journal = None

    def leave(self) -> None:
        """Close the journal, for a run that goes on later."""
        if self._journal is not None:
            with contextlib.suppress(SinkError):
                self._journal.end(self._run, "interrupted")
            self._journal.close()
            self._journal = None


def _cuts_of(token: Mapping[str, Any]) -> Cuts:
    return Cuts(tuple((start, stop) for start, stop in json.loads(token["ranges"])), token["reason"])


def _digest(path: Path) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file; -1 and nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return file.tell(), digest.hexdigest()
    except OSError:
        return -1, ""
