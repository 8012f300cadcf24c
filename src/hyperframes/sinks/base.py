"""What a sink is: takes results in order, writes beside its final name, and renames when whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hyperframes.errors import SinkError
from hyperframes.frames import Array, Clip, Records, Spec
from hyperframes.media import Passthrough

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Checkpoint", "Sink", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a sink is told before the first result."""

    name: str
    """Of the output it takes."""
    kind: Literal["frames", "records", "windows", "spans"]
    spec: Spec
    num_frames: int | None
    """Expected number of results; a hint."""
    passthrough: Passthrough | None = None
    fingerprint: str = ""
    """Of the plan: parts written under another one are not reused."""
    size: int = 16
    """Frames a full hyperframe delivers."""
    journaled: bool = False
    """Whether `Sink.checkpoint` will be called: what only that needs can be left out otherwise."""
    cores: int = 1
    """Processor cores that the sink may keep busy; what it writes never depends on it."""
    spare_bytes: int = 0
    """Memory it may use to do so."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a sink has safe on the disk, whatever happens to the process."""

    token: Mapping[str, Any]
    """Arrays, numbers and texts that `Sink.resume` gets back."""
    wanted: int | None = None
    """Position of the first result that is not safe; None: all that was written is."""


class Sink(ABC):
    """Where results go. `open`, then `write` in stream order, then `close` or `abort`; never more than one thread."""

    name: str
    """What users call it: path or URL, without credentials."""
    formats: ClassVar[tuple[str, ...] | None] = None
    """Pixel formats it takes; pictures in another one are converted to the nearest before it. None: any."""
    takes_records: ClassVar[bool] = False
    takes_frames: ClassVar[bool] = True
    resumable: bool = False
    """Whether it has `checkpoint` and `resume`: a run can go on after it was killed only where every sink has."""
    takes_passthrough: ClassVar[bool] = False
    """Whether it keeps the source's audio, subtitles and metadata; only then is a target given them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, 'name', '')!r})"

    def accepts(self, spec: Spec) -> tuple[str, ...] | None:
        """Return the pixel formats this sink takes for frames of `spec`; None for any."""
        return self.formats

    def beside(self, path: str) -> Sink | None:
        """Return a sink with the same settings that writes to `path`; None where it does not write to a path."""
        return None

    @abstractmethod
    def open(self, target: Target) -> None:
        """Make ready to write; refuse what it cannot take with a SinkError that says what it can."""

    def lend(self, start: int, stop: int) -> tuple[Array, ...] | None:
        """Return writable arrays in which the run's frames [start, stop), counted from its first, may be made.

        Asked for before they are made, in any order and possibly more than once; `write` gets them in order as always,
        mostly as these very arrays, but as others where frames were left out or a hyperframe failed. None: the sink
        has no memory for them, and they are made in the driver's.
        """
        return None

    @abstractmethod
    def write(self, result: Clip | Records) -> None:
        """Take the results of one hyperframe; its arrays are lent until this returns."""

    def settle(self) -> None:
        """Finish what was given whole and is still under way; comes before the last checkpoint of an interrupted run."""

    @abstractmethod
    def close(self) -> str | None:
        """Finish; only now does output appear under its final name, which is returned."""

    def abort(self, *, keep_parts: bool = False) -> None:
        """Stop without finishing: remove what is incomplete; keep what the last checkpoint told of if asked to."""

    def memory_bytes(self, spec: Spec, cores: int, spare_bytes: int) -> int:
        """Return how many bytes of its own it holds at most for frames of `spec`, told that it may use so much."""
        return 0

    # Going on after an interruption, for sinks that are `resumable` ----------------------------------------------------

    def place(self) -> Path | None:
        """Return the file or folder that it makes; None where it makes none."""
        return None

    def settings(self) -> Mapping[str, Any]:
        """Return what decides what it writes besides the results, as numbers and texts; part of fingerprints."""
        return {}

    @property
    def part_finished(self) -> bool:
        """Whether something became safe by itself since the last checkpoint, so that a new one is worth its while."""
        return False

    def checkpoint(self) -> Checkpoint:
        """Make what was written safe, and return what is needed to go on from there.

        What is safe is never changed again, only followed by more, until `close`.
        """
        raise SinkError(f"{self.name} cannot go on after an interruption", sink=self.name)

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint | None:
        """Open to go on after an interruption, in place of `open`: forget what was written after the checkpoint of `token`.

        Returns
        -------
        Checkpoint or None
            What is safe, no less than `token` tells of; None if that is gone, in which case nothing was changed.
        """
        raise SinkError(f"{self.name} cannot go on after an interruption", sink=self.name)

    # Written by several machines, for sinks whose output can be put together from pieces ---------------------------------

    def piece_results(self, target: Target) -> int | None:
        """Return at multiples of how many results the output may be cut into pieces; None: it is written as a whole."""
        return None

    def piece(self, path: Path, first: int) -> Sink:
        """Return a sink, not opened, that writes results from position `first` of the output on as a piece at `path`.

        Pieces are written apart, by other processes and machines, in any order: what is returned can be pickled.
        """
        raise SinkError(f"{self.name} cannot be written in pieces", sink=self.name)

    def gather(self, target: Target, pieces: Sequence[Path]) -> str | None:
        """Put finished pieces together, in order, to what one sink would have written, under its final name.

        Nothing is encoded again. Called on a sink that was not opened, in place of all else.

        Returns
        -------
        str or None
            The final name, as `close` returns it.

        Raises
        ------
        SinkError
            If a piece is not whole.
        """
        raise SinkError(f"{self.name} cannot be written in pieces", sink=self.name)
