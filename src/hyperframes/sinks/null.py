"""Takes results and discards them: for timing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperframes.sinks.base import Checkpoint, Sink, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from hyperframes.frames import Clip, Records

__all__ = ["NullSink"]


class NullSink(Sink):
    """Takes everything, keeps nothing but the number of results."""

    takes_records = True
    resumable = True

    def __init__(self, location: str = "null:") -> None:
        self.name = location
        self.num_results = 0

    def open(self, target: Target) -> None:
        """Count from 0."""
        self.num_results = 0

    def write(self, result: Clip | Records) -> None:
        """Count the results."""
        self.num_results += len(result)

    def close(self) -> None:
        """There is nothing to finish."""

    def piece_results(self, target: Target) -> int:
        """Return 1: nothing is written, so it may be cut anywhere."""
        return 1

    def piece(self, path: Path, first: int) -> NullSink:
        """Return one like this."""
        return NullSink(self.name)

    def gather(self, target: Target, pieces: Sequence[Path]) -> None:
        """There is nothing to put together."""

    def checkpoint(self) -> Checkpoint:
        """Return the count."""
        return Checkpoint({"results": self.num_results})

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint:
        """Go on counting."""
        self.num_results = int(token["results"])
        return Checkpoint(token)
