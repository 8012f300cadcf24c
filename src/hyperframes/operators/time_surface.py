"""How fresh each pixel's last event is, after each window of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperframes.frames import FrameSpec, time_surface
from hyperframes.operators._events import event_spec, event_windows, sensor_of
from hyperframes.operators.base import Contract, Operator, Output, State, View
from hyperframes.operators.checks import check_count, check_number

if TYPE_CHECKING:
    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = ["TimeSurface"]


@dataclass(frozen=True)
class TimeSurface(Operator):
    """A surface of active events for each window: window j covers the events ``[j * hop, j * hop + length)``.

    Frames of events, shape (T, 3) and dtype uint16, of x, y and p, give (ceil(T / hop), 2, rows, columns) float32, with
    no halo beyond the windows; darker before brighter:
    ``exp(-(now - t) / tau)`` with the time t of each pixel's last event in the window and the time ``now`` of the
    window's last event; 0 where there was none.

    References
    ----------
    .. [1] X. Lagorce et al., "HOTS: a hierarchy of event-based time-surfaces for pattern recognition", IEEE PAMI 39(7),
       2017, doi:10.1109/TPAMI.2016.2574707.
    """

    name: ClassVar[str] = "time_surface"

    length: int = 20_000
    """Events a window covers."""
    hop: int = 20_000
    """Events from the start of one window to that of the next."""
    tau: float = 10_000.0
    """Microseconds in which a surface falls to 1 / e."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one window output."""
        spec = event_spec(self.name, inputs)
        check_count(self.name, "length", self.length, 1, 10_000_000)
        check_count(self.name, "hop", self.hop, 1, 10_000_000)
        check_number(self.name, "tau", self.tau, 0, 1e12, above=True)
        surfaces = FrameSpec(((2, *sensor_of(self.name, spec)),), np.dtype(np.float32), time_base=spec.time_base)
        return Contract((Output("windows", "windows", surfaces, length=self.length, hop=self.hop),), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> None:
        """Write the surfaces of the windows that start in the core."""
        (hyperframe,), (view,) = inputs, outputs
        sensor = sensor_of(self.name, hyperframe.spec)
        for j, events in event_windows(hyperframe, view, self.length, self.hop):
            view.data[j] = time_surface(events, sensor, int(events.t[-1]) if len(events) else 0, self.tau)
