"""Real frames of a source, held in memory and repeated for as long as a measurement needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import Array, Clip, Frame
from hyperframes.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Repeated", "take_sample"]

MOST_FRAMES = 256
"""Frames of a sample: enough to show what the content costs."""
MOST_BYTES = 256 << 20


def take_sample(source: Source, *, max_frames: int = MOST_FRAMES, max_bytes: int = MOST_BYTES) -> Clip:
    """Return the first frames of `source` as arrays of their own: at most `max_frames` of them and `max_bytes`.

    Raises
    ------
    PipelineError
        If the source has no frames.
    """
    count = max(2, min(max_frames, max_bytes // max(1, source.spec.nbytes)))
    planes: tuple[list[Array], ...] = tuple([] for _ in source.spec.shapes)
    pts = []
    for frame in source.read(0, count):
        for kept, plane in zip(planes, frame.planes, strict=True):
            kept.append(np.array(plane))
        pts.append(frame.pts)
    if not pts:
        raise PipelineError(
            f"{source.name} has no frames to measure with: expected at least one", hint="Tune on another source."
        )
    arrays = tuple(np.stack(kept) for kept in planes)
    return Clip(arrays, np.array(pts, np.int64), np.arange(len(pts)), source.spec)


class Repeated(Source):
    """A sample played forwards and backwards, so that motion goes on without a cut, for `num_frames` frames.

    Frame i is the sample's 0 1 2 1 0 1 2 ...

    Parameters
    ----------
    sample : Clip
        Of at least one frame.
    num_frames : int
        How many it delivers.
    viewed : bool
        Whether hyperframes may view the arrays instead of being filled frame by frame, as they do over arrays and maps.
    """

    exact = True

    def __init__(self, sample: Clip, num_frames: int, *, viewed: bool = False) -> None:
        self.name, self.spec = "sample", sample.spec
        self.num_frames = num_frames
        self._length, self._sample = num_frames, sample
        steps = np.diff(sample.pts)
        self._step = max(1, int(np.median(steps))) if len(steps) else 1
        self._held = self._laid_out() if viewed else None

    def arrays(self) -> tuple[tuple[Array, ...], Array] | None:
        """Return the whole stream, where it may be viewed."""
        return self._held

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield frames of the sample; time goes on evenly."""
        end = self._length if stop is None else min(stop, self._length)
        last = len(self._sample.pts) - 1
        for index in range(start, end):
            at = last - abs(index % (2 * last) - last) if last else 0
            planes = [plane[at] for plane in self._sample.planes]
            yield Frame(planes, index * self._step, index, self.spec, self._step)

    def _laid_out(self) -> tuple[tuple[Array, ...], Array]:
        indices, last = np.arange(self._length), len(self._sample.pts) - 1
        at = last - np.abs(indices % (2 * last) - last) if last else np.zeros_like(indices)
        return tuple(plane[at] for plane in self._sample.planes), indices * self._step
