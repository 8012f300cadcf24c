"""The clocks of a live run's streams beside each other: how far apart frames are, and whose times are to be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.drivers.station import Station
    from hyperframes.packing import Packing

__all__ = ["compare_clocks", "usual_period_ns"]


def usual_period_ns(stations: Sequence[Station]) -> float | None:
    """Return the time between two frames of most streams; None while none has said what its frames look like."""
    periods = sorted([one.nominal_period_ns for one in stations if one.spec is not None and not one.over])
    return periods[len(periods) // 2] if periods else None


def compare_clocks(stations: Sequence[Station], packing: Packing) -> None:
    """Let cameras whose clocks are wrong, or whose way is long, take part in the instants that the others set."""
    there = [(station, delay) for station in stations if (delay := station.delay_ns) is not None]
    if there:
        delays = sorted(delay for _, delay in there)
        usual = delays[(len(delays) - 1) // 2]
        waits = packing.timeout_ns(max(station.period_ns for station, _ in there), packing.instants)
        for station in stations:
            station.compare_clock(usual, waits // 2)
