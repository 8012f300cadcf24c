"""Events without the background activity of the sensor: what has no neighbour in space and time is noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperframes.kernels import kernel
from hyperframes.operators._events import event_spec, sensor_of
from hyperframes.operators.base import Contract, Operator, State, View, frames_out
from hyperframes.operators.checks import check_count

if TYPE_CHECKING:
    from hyperframes.frames import Array, Spec
    from hyperframes.packing import Hyperframe

__all__ = ["EventDenoise"]

_NEVER = -(1 << 62)


@dataclass(frozen=True)
class EventDenoise(Operator):
    """Only events with a neighbour: another event on one of the 8 pixels around it in the last `window` microseconds.

    Frames of events, shape (T, 3) and dtype uint16, of x, y and p; the others are counted as filtered. No halo.
    Sequential: the time of the last event
    of every pixel is the state, (rows, columns) int64.

    References
    ----------
    .. [1] T. Delbruck, "Frame-free dynamic digital vision", Proceedings of the International Symposium on Secure-Life
       Electronics, 2008 (the background activity filter).
    """

    name: ClassVar[str] = "event_denoise"
    compiles: ClassVar[bool] = True

    window: int = 5000
    """Microseconds that a neighbour may be older."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output like the input, some frames of which are left out."""
        spec = event_spec(self.name, inputs)
        sensor_of(self.name, spec)
        check_count(self.name, "window", self.window, 1, 1_000_000_000)
        return Contract((frames_out(inputs),), dependency="sequential", selects=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> State:
        """Copy the core's events and mark those that are kept; return when each pixel fired last."""
        (hyperframe,), (view,) = inputs, outputs
        rows, columns = sensor_of(self.name, hyperframe.spec)
        last = np.full((rows + 2, columns + 2), _NEVER) if state is None else state["last"].copy()
        core = hyperframe.core_planes[0]
        view.planes[0][:] = core
        kept = np.empty(len(core), np.bool_)
        tick = float(hyperframe.header.time_base * 1_000_000)
        times = np.floor(hyperframe.header.pts[hyperframe.core] * tick).astype(np.int64)
        _supported(np.ascontiguousarray(core), times, last, self.window, kept)
        view.keep(kept)
        return {"last": last}


@kernel
def _supported(events: Array, times: Array, last: Array, window: int, kept: Array) -> None:  # pragma: no cover
    """Say which events have a neighbour; `last` has a border of one pixel, so that no edge is special."""
    for i in range(times.size):
        x, y, oldest = np.int64(events[i, 0]) + 1, np.int64(events[i, 1]) + 1, times[i] - window
        if y >= last.shape[0] - 1 or x >= last.shape[1] - 1:
            kept[i] = False
            continue
        found = False
        for row in range(y - 1, y + 2):
            for column in range(x - 1, x + 2):
                if (row != y or column != x) and last[row, column] >= oldest:
                    found = True
        kept[i] = found
        last[y, x] = times[i]
