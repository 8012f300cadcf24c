"""Watching is not doing: what observers of a run may implement, all of it optional."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Instrument", "Observation", "Observers"]

Observation = dict[str, Any]
"""What happened: ``kind`` (``began``, ``prepared``, ``sealed``, ``started``, ``done``, ``failed``, ``dropped``, ``emitted``,
``memory``, ``warning``, ``finished``), ``ns`` (monotonic), and the fields of that kind."""


class Instrument(Protocol):
    """An observer of a run; called from the run's threads, so it must be quick and must not raise."""

    def observe(self, observation: Observation) -> None:
        """Take note of one observation."""
        ...


class Observers:
    """Passes observations on to any number of instruments; one that raises is left out from then on."""

    def __init__(self, instruments: tuple[Instrument, ...] = ()) -> None:
        self._instruments = list(instruments)
        self.failures: list[tuple[Instrument, Exception]] = []

    def observe(self, observation: Observation) -> None:
        """Tell every instrument."""
        for instrument in tuple(self._instruments):
            try:
                instrument.observe(observation)
            except Exception as error:  # noqa: BLE001 - an observer's fault must not end the run; it is reported at the end
                self._instruments.remove(instrument)
                self.failures.append((instrument, error))

    def __bool__(self) -> bool:
        return bool(self._instruments)
