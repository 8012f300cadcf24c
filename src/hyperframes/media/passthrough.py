"""What a video sink copies from the source beside the frames."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Passthrough"]


@dataclass(frozen=True, slots=True)
class Passthrough:
    """What a video sink copies beside the frames: audio, subtitles, metadata, chapters of the source."""

    path: str
    streams: tuple[int, ...]
    """Stream indices of audio and subtitles in the container at `path`."""
    metadata: dict[str, str]
    start: Fraction = Fraction(0)
    """Seconds on the source's time line where the frames used begin (``--range``)."""
    stop: Fraction | None = None
