"""Spans of a dataset, put together to the videos that they are of, with their looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hyperframes.index.copies import Tracks
from hyperframes.semantic.arrow import looks_from
from hyperframes.semantic.look import Looks

if TYPE_CHECKING:
    from hyperframes.index.copies import Copy

__all__ = ["ANSWER", "Hit", "Videos"]

ANSWER = ("descriptor_id", "source", "start_seconds", "stop_seconds")
"""Columns that hits are made of."""


class Hit(NamedTuple):
    """One span that was found."""

    source: str
    start_seconds: float
    stop_seconds: float
    score: float
    """How alike it is, 1 for the same: a cosine, or the like of it for a task (see `Index.search`)."""
    descriptor_id: str
    at_seconds: float | None = None
    """When what was asked for stands in it, where it is a copy of that."""


@dataclass(frozen=True, eq=False)
class Videos:
    """What was described in one way of one content, video by video."""

    COLUMNS: ClassVar[tuple[str, ...]] = (*ANSWER, "content_hash", "stream", "parameters", "looks")
    """What it is made of."""
    spans: list[list[Hit]]
    """Of each video, in order of time; their score is 1."""
    looks: list[Looks]
    tracks: Tracks
    """Of all of them, by number."""
    place: list[tuple[int, int]]
    """For each row that it was made of, which video and which span of it."""

    @classmethod
    def of(cls, rows: Any) -> Videos:
        """Return the videos of the spans in `rows`, a pyarrow Table with `COLUMNS`."""
        hits = [Hit(**row, score=1.0) for row in rows.select(ANSWER).to_pylist()]
        keys = zip(*(rows.column(name).to_pylist() for name in cls.COLUMNS[1:2] + cls.COLUMNS[4:7]), strict=True)
        looks = looks_from(rows.column("looks"))
        videos: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(keys):
            videos.setdefault(key, []).append(row)
        ordered = [sorted(video, key=lambda row: hits[row].start_seconds) for video in videos.values()]
        place = {row: (v, n) for v, video in enumerate(ordered) for n, row in enumerate(video)}
        joined = [Looks.joined([looks[row] for row in video]) for video in ordered]
        spans = [[hits[row] for row in video] for video in ordered]
        return cls(spans, joined, Tracks.of(joined), [place[row] for row in range(len(hits))])

    def span_of(self, copy: Copy) -> Hit | None:
        """Return the span that a copy was found in, with when and how alike; None where it lies between spans."""
        for span in self.spans[copy.video]:
            if span.start_seconds <= copy.seconds < span.stop_seconds:
                return span._replace(score=copy.score, at_seconds=copy.seconds)
        return None
