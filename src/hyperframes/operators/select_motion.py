"""Only the frames in which something moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hyperframes.operators._planes import check_number, frame_spec
from hyperframes.operators.base import Contract, Operator, State, View, Worker, frames_out
from hyperframes.operators.measure import activities
from hyperframes.packing import Halo, Hyperframe

if TYPE_CHECKING:
    from hyperframes.frames import Spec

__all__ = ["SelectMotion"]


@dataclass(frozen=True)
class SelectMotion(Operator):
    """Only the frames that differ from the previous frame; the others are counted as filtered.

    Frames of any shape and real dtype, (T, ...) to (kept, ...), unchanged in dtype and time. A frame is kept when the
    mean absolute difference of its first plane to the previous frame is above `threshold`; the first frame of
    the stream always is. The halo is 1 frame before.
    """

    name: ClassVar[str] = "select_motion"

    threshold: float = 1.0
    """Mean absolute difference, in units of samples (of 255 for 8-bit pictures)."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output like the input, some frames of which are left out."""
        frame_spec(self.name, inputs, kinds="iuf")
        check_number(self.name, "threshold", self.threshold, 0, 1e300)
        return Contract((frames_out(inputs),), Halo(1, 0), takes_mask=True, selects=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Copy the core's frames and mark those that are kept."""
        (hyperframe,), (view,) = inputs, outputs
        first = ~hyperframe.mask[hyperframe.core.start - 1 : hyperframe.core.stop - 1]
        kept = first | (activities(hyperframe) > self.threshold)
        for source, out in zip(hyperframe.core_planes, view.planes, strict=True):
            for j in np.flatnonzero(kept):
                out[j] = source[j]
        view.keep(kept)
