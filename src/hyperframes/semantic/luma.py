"""A source seen through small luma: all that anchors need, so that whole pictures are not packed for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hyperframes.frames import Frame, FrameSpec
from hyperframes.operators.activity import Activity, has_luma, shrinking
from hyperframes.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SmallLuma", "as_small_luma"]


class SmallLuma(Source):
    """The frames of another source as small grey pictures, the same that `Activity` would make of them.

    Parameters
    ----------
    source : Source
        Pictures whose first plane is luma; closed with this one.
    activity : Activity
        Says how small.
    """

    def __init__(self, source: Source, activity: Activity) -> None:
        self._source = source
        self.name, self.bounded, self.rereadable = source.name, source.bounded, source.rereadable
        self.identifiable = source.identifiable
        size = activity.small_size(source.spec)
        self._shrink = shrinking(source.spec, size)
        kept = {name: getattr(source.spec, name) for name in ("colour", "field_order", "time_base", "rate")}
        self.spec = FrameSpec.picture(*size, "gray", **kept)

    @property
    def num_frames(self) -> int | None:  # type: ignore[override]  # what is known grows with reading
        """Of the source."""
        return self._source.num_frames

    @property
    def exact(self) -> bool:  # type: ignore[override]  # as above
        """Of the source."""
        return self._source.exact

    @property
    def repaired_pts(self) -> bool:  # type: ignore[override]  # as above
        """Of the source."""
        return self._source.repaired_pts

    @property
    def warnings(self) -> tuple[str, ...]:  # type: ignore[override]  # as above
        """Of the source."""
        return self._source.warnings

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the frames [start, stop), lent until the next one."""
        small = np.empty(self.spec.shapes[0], np.uint8)
        lent = small.view()
        lent.setflags(write=False)
        for frame in self._source.read(start, stop):
            self._shrink(frame.planes[0], small)
            yield Frame(lent, frame.pts, frame.index, self.spec, frame.duration)

    def identity(self) -> str:
        """Return the source's identity, and how small."""
        return f"{self._source.identity()} luma {self.spec.width}x{self.spec.height}"

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def as_small_luma(source: Source, activity: Activity) -> Source:
    """Return `source` as small luma, or as it is where it has no luma or lies in memory, where it costs nothing to pack."""
    if source.arrays() is not None or not has_luma(source.spec):
        return source
    return SmallLuma(source, activity)
