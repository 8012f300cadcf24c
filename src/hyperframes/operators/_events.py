"""What operators on events share: the check that frames are events, and their columns."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import EVENT_NAMES, Events
from hyperframes.operators.checks import frame_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.frames import FrameSpec, Spec
    from hyperframes.operators.base import View
    from hyperframes.packing import Hyperframe

__all__ = ["event_spec", "event_windows", "sensor_of"]


def event_spec(operator: str, inputs: tuple[Spec, ...]) -> FrameSpec:
    """Return the spec of the only input, which must be frames of x, y and p."""
    spec = frame_spec(operator, inputs, kinds="iu")
    if spec.names != EVENT_NAMES:
        raise PipelineError(
            f"operator {operator!r} works on events: expected frames of x, y and p, got {spec}",
            stage=operator,
            got=spec,
            hint="Read a recording of an event camera without ?window=, such as in.raw.",
        )
    return spec


def sensor_of(operator: str, spec: FrameSpec) -> tuple[int, int]:
    """Return rows and columns of the sensor, which must be known."""
    if spec.sensor is None:
        raise PipelineError(
            f"operator {operator!r} needs the size of the sensor, which the recording does not tell",
            stage=operator,
            hint="Give it with the source: 'in.txt?sensor=480,640' (rows, columns).",
        )
    return spec.sensor


def event_windows(hyperframe: Hyperframe, view: View, length: int, hop: int) -> Iterator[tuple[int, Events]]:
    """Yield the place in `view` and the events of each window that starts in the core."""
    micro = float(Fraction(hyperframe.header.time_base) * 1_000_000)
    origin = hyperframe.core.start - hyperframe.header.core[0]
    for j in range(len(view)):
        start = origin + (view.start + j) * hop
        yield j, _events_of(hyperframe, micro, slice(start, start + length))


def _events_of(hyperframe: Hyperframe, time_base_us: float, cut: slice) -> Events:
    """Return the real events in `cut` of what a hyperframe holds; those beyond the sensor are left out."""
    rows, real = hyperframe.planes[0][cut], hyperframe.mask[cut]
    height, width = hyperframe.spec.sensor or (1 << 16, 1 << 16)
    real = real & (rows[:, 0] < width) & (rows[:, 1] < height)
    rows = rows[real]
    ticks = hyperframe.header.pts[cut][real]
    times = ticks if time_base_us == 1 else np.floor(ticks * time_base_us).astype(np.int64)
    return Events(times, rows[:, 0], rows[:, 1], (rows[:, 2] > 0).astype(np.uint8), hyperframe.spec.sensor)
