"""A position in a video, as users write it: ``clip.mp4@12.5`` (seconds) or ``clip.mp4@#375`` (frame). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hyperframes.errors import PipelineError

__all__ = ["Position"]

_FORM: Final = re.compile(r"(?P<source>.+)@(?:(?P<seconds>\d+(?:\.\d*)?|\.\d+)|#(?P<frame>\d+))")


@dataclass(frozen=True, slots=True)
class Position:
    """An instant of a source, by its time or by its frame.

    Examples
    --------
    >>> Position.parse("clip.mp4@12.5")
    Position(source='clip.mp4', seconds=12.5, frame=None)
    >>> str(Position.parse("clip.mp4@#375"))
    'clip.mp4@#375'
    """

    source: str
    seconds: float | None = None
    frame: int | None = None

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.frame is None):
            raise PipelineError(f"position in {self.source!r}: expected either seconds or a frame")

    @classmethod
    def parse(cls, text: str) -> Position:
        """Return what `text` says.

        Raises
        ------
        PipelineError
            If it is neither ``SOURCE@SECONDS`` nor ``SOURCE@#FRAME``.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise PipelineError(
                f"position in a video: expected SOURCE@SECONDS or SOURCE@#FRAME, got {text!r}",
                expected="SOURCE@SECONDS or SOURCE@#FRAME",
                got=text,
                hint="For example: clip.mp4@12.5 or clip.mp4@#375.",
            )
        if match["frame"] is not None:
            return cls(match["source"], frame=int(match["frame"]))
        return cls(match["source"], seconds=float(match["seconds"]))

    def __str__(self) -> str:
        return f"{self.source}@{f'{self.seconds:g}' if self.frame is None else f'#{self.frame}'}"
