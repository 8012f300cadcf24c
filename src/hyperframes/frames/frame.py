"""The data that flows: one frame, a run of frames, a run of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.frames.spec import FrameSpec, RecordSpec
from hyperframes.frames.time import to_seconds

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["Array", "Clip", "Frame", "Records", "single_plane"]

Array = np.ndarray[Any, np.dtype[Any]]


class Frame:
    """One timestamped set of arrays of one stream: a picture or a row of sensor values.

    Parameters
    ----------
    planes : array or sequence of arrays
        One array per plane, (H, W[, C]) for pictures, any shape otherwise. Sources may lend arrays that
        are overwritten when the next frame is asked for: copy what you keep.
    pts : int
        Presentation time in ticks of `time_base`.
    index : int
        Position in presentation order, from 0.
    spec : FrameSpec, optional
        Guessed from the array when left out.
    duration : int
        Ticks the frame stays; 0 when unknown.

    Examples
    --------
    >>> Frame(np.zeros((4, 6, 3), np.uint8), pts=2)
    Frame(#0, pts=2, rgb24 6x4)
    """

    __slots__ = ("duration", "index", "planes", "pts", "spec")

    def __init__(
        self,
        planes: Array | Sequence[Array],
        pts: int = 0,
        index: int = 0,
        spec: FrameSpec | None = None,
        duration: int = 0,
    ) -> None:
        self.planes: tuple[Array, ...] = (planes,) if isinstance(planes, np.ndarray) else tuple(planes)
        self.pts, self.index, self.duration = pts, index, duration
        self.spec = spec or FrameSpec.array(self.planes[0].shape, self.planes[0].dtype)

    @property
    def data(self) -> Array:
        """The single plane of one-plane formats; a FrameError that names ``--pixel-format rgb24`` otherwise."""
        return single_plane(self.planes, self.spec)

    @property
    def seconds(self) -> float:
        """Presentation time in seconds."""
        return to_seconds(self.pts, self.spec.time_base)

    def __repr__(self) -> str:
        return f"Frame(#{self.index}, pts={self.pts}, {self.spec})"


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """T consecutive or selected frames (or windows) of one stream, with their times.

    ``len(clip)`` is T; iterating gives `Frame` objects that view the clip's arrays.
    """

    planes: tuple[Array, ...]
    """One array (T, ...) per plane."""
    pts: Array
    """(T,) int64, ticks of ``spec.time_base``."""
    index: Array
    """(T,) int64, positions in the stream."""
    spec: FrameSpec
    durations: Array | None = None
    """(T,) int64 ticks, or None where unknown."""
    mask: Array | None = None
    """(T,) bool, False where a failed frame is stood in for by zeros; None when all are real."""
    hyperframe: str = ""
    """Id of the hyperframe the frames came through."""

    @property
    def data(self) -> Array:
        """The single plane (T, ...) of one-plane formats, else a FrameError."""
        return single_plane(self.planes, self.spec)

    @property
    def time_base(self) -> Fraction:
        """Seconds a tick."""
        return self.spec.time_base

    @property
    def seconds(self) -> Array:
        """(T,) float64 presentation times in seconds."""
        return self.pts * float(self.spec.time_base)

    def __len__(self) -> int:
        return len(self.pts)

    def __iter__(self) -> Iterator[Frame]:
        for t in range(len(self)):
            duration = 0 if self.durations is None else int(self.durations[t])
            yield Frame(
                [plane[t] for plane in self.planes],
                int(self.pts[t]),
                int(self.index[t]),
                self.spec,
                duration,
            )

    def __repr__(self) -> str:
        shapes = ", ".join(str(plane.shape) for plane in self.planes)
        span = f", {self.seconds[0]:.3f}..{self.seconds[-1]:.3f} s" if len(self) else ""
        return f"Clip({len(self)} frames, {self.spec.pixel_format or 'array'} {shapes}{span})"


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Rows that operators return beside or instead of frames: detections, measures, spans.

    Every column has one row per record. `index` names the frame of each row; spans also have `stop`.
    """

    columns: Mapping[str, Array]
    index: Array
    """(R,) int64: the frame a row belongs to; the first frame of a span. Ascending."""
    pts: Array
    """(R,) int64: presentation time of that frame."""
    spec: RecordSpec
    stop: Array | None = None
    """(R,) int64: one past the last frame of a span; None for records of single frames."""
    hyperframe: str = ""

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Records({len(self)} rows, {', '.join(self.columns)})"


def single_plane(planes: tuple[Array, ...], spec: FrameSpec) -> Array:
    """Return the only plane, or raise a FrameError that says how to get one."""
    if len(planes) != 1:
        raise FrameError(
            f"{spec.pixel_format} frames have {len(planes)} planes and no single array: use .planes",
            expected=1,
            got=len(planes),
            hint="Ask for one array a frame with --pixel-format rgb24 (pixel_format='rgb24').",
        )
    return planes[0]
