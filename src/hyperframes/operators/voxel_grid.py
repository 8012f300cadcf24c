"""A voxel grid for each window of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperframes.frames import FrameSpec, voxel_grid
from hyperframes.operators._events import event_spec, event_windows, sensor_of
from hyperframes.operators.base import Contract, Operator, Output, State, View
from hyperframes.operators.checks import check_count

if TYPE_CHECKING:
    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = ["VoxelGrid"]


@dataclass(frozen=True)
class VoxelGrid(Operator):
    """Events voted into slices of time: window j covers the events ``[j * hop, j * hop + length)``.

    Frames of events, shape (T, 3) and dtype uint16, of x, y and p, give (ceil(T / hop), bins, rows, columns) float32, with
    no halo beyond the windows; every event weighs +1 or
    -1, shared between the two slices nearest in time, so that the sum of a grid is its brighter less its darker events.
    The slices span the window's first to last event. Windows at the end of the stream hold what there is.

    References
    ----------
    .. [1] A. Z. Zhu, L. Yuan, K. Chaney, K. Daniilidis, "Unsupervised event-based learning of optical flow, depth, and
       egomotion", CVPR 2019, arXiv:1812.08156.
    """

    name: ClassVar[str] = "voxel_grid"

    length: int = 20_000
    """Events a window covers."""
    hop: int = 20_000
    """Events from the start of one window to that of the next."""
    bins: int = 5
    """Slices of time."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one window output."""
        spec = event_spec(self.name, inputs)
        check_count(self.name, "length", self.length, 1, 10_000_000)
        check_count(self.name, "hop", self.hop, 1, 10_000_000)
        check_count(self.name, "bins", self.bins, 1, 256)
        shape = (self.bins, *sensor_of(self.name, spec))
        grids = FrameSpec((shape,), np.dtype(np.float32), time_base=spec.time_base)
        return Contract((Output("windows", "windows", grids, length=self.length, hop=self.hop),), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> None:
        """Write the grids that start in the core."""
        (hyperframe,), (view,) = inputs, outputs
        sensor = sensor_of(self.name, hyperframe.spec)
        for j, events in event_windows(hyperframe, view, self.length, self.hop):
            span = (int(events.t[0]), int(events.t[-1])) if len(events) else (0, 1)
            view.data[j] = voxel_grid(events, sensor, self.bins, span)
