"""What a sink is: takes results in order, writes beside its final name, and renames when whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from hyperframes.frames import Clip, Records, Spec
from hyperframes.media import Passthrough

__all__ = ["Sink", "Target"]


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


class Sink(ABC):
    """Where results go. `open`, then `write` in stream order, then `close` or `abort`; never more than one thread."""

    name: str
    """What users call it: path or URL, without credentials."""
    formats: ClassVar[tuple[str, ...] | None] = None
    """Pixel formats it takes; pictures in another one are converted to the nearest before it. None: any."""
    takes_records: ClassVar[bool] = False
    takes_frames: ClassVar[bool] = True
    takes_passthrough: ClassVar[bool] = False
    """Whether it keeps the source's audio, subtitles and metadata; only then is a target given them."""

    def accepts(self, spec: Spec) -> tuple[str, ...] | None:
        """Return the pixel formats this sink takes for frames of `spec`; None for any."""
        return self.formats

    def beside(self, path: str) -> Sink | None:
        """Return a sink with the same settings that writes to `path`; None where it does not write to a path."""
        return None

    @abstractmethod
    def open(self, target: Target) -> None:
        """Make ready to write; refuse what it cannot take with a SinkError that says what it can."""

    @abstractmethod
    def write(self, result: Clip | Records) -> None:
        """Take the results of one hyperframe; its arrays are lent until this returns."""

    @abstractmethod
    def close(self) -> str | None:
        """Finish; only now does output appear under its final name, which is returned."""

    def abort(self, *, keep_parts: bool = False) -> None:
        """Stop without finishing: remove what is incomplete; keep complete parts if asked to."""
