"""The stretches of a stream in which nothing moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hyperframes.frames import Field, RecordSpec
from hyperframes.operators._planes import check_count, check_number, frame_spec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.measure import activities
from hyperframes.packing import Halo, Hyperframe

if TYPE_CHECKING:
    from hyperframes.frames import Spec

__all__ = ["StillSpans"]


@dataclass(frozen=True)
class StillSpans(Operator):
    """Spans of at least `min_frames` frames in which each frame differs little from the one before it.

    Frames of any shape and real dtype, (T, ...), give one row a span: its frames, half open, and `activity`, the
    mean over its frames but the first of the mean absolute difference of the first plane to the previous frame
    (float64, units of samples). Spans do not overlap; the last one is closed at the end of the stream. The halo
    is 1 frame before. Sequential: a span may begin many hyperframes before it ends.
    """

    name: ClassVar[str] = "still_spans"

    threshold: float = 1.0
    """A frame is still when its mean absolute difference is below this, in units of samples."""
    min_frames: int = 10
    """Shorter spans are left out."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one span output, sequential."""
        spec = frame_spec(self.name, inputs, kinds="iuf")
        check_number(self.name, "threshold", self.threshold, 0, 1e300, above=True)
        check_count(self.name, "min_frames", self.min_frames, 1, 1_000_000_000)
        spans = RecordSpec((Field("activity", np.dtype(np.float64)),), spec.time_base, spec.rate)
        output = Output("spans", "spans", spans)
        return Contract((output,), Halo(1, 0), dependency="sequential", takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> State:
        """Add the spans that end in the core; the state is the open span."""
        (hyperframe,), (view,) = inputs, outputs
        begin, end = hyperframe.header.core
        times = hyperframe.header.pts[hyperframe.core]
        span = {"start": begin, "pts": int(times[0]), "total": 0.0} if state is None else dict(state)
        for frame, pts, moved in zip(range(begin, end), times, activities(hyperframe), strict=True):
            if moved < self.threshold:
                span["total"] += float(moved)
            else:
                self._close(view, span, frame)
                span = {"start": frame, "pts": int(pts), "total": 0.0}
        if hyperframe.header.end:
            self._close(view, span, end)
        return span

    def _close(self, view: View, span: State, stop: int) -> None:
        frames = stop - span["start"]
        if frames >= self.min_frames:
            view.add(span["start"], stop=stop, pts=span["pts"], activity=span["total"] / max(1, frames - 1))
