"""Watching is not doing: what observers of a run may implement, all of it optional.

Offline runs tell: ``began``, ``prepared``, ``sealed``, ``started``, ``done``, ``failed``, ``dropped``, ``emitted``,
``memory``, ``warning``, ``finished``.

Live runs tell of every hyperframe, in this order, exactly one of the last two: ``sealed``, ``queued``, ``started``,
``done``, ``delivered`` or ``dropped``. Each of them has

    hyperframe      its sequence number in the run, from where the journal left off
    id              the same in a replay: run, stream, epoch and positions
    streams         names, in the fixed order of the leading axis where it is spatial
    frames          how many real frames it owns
    kind            the observation's kind; `hyperframe_kind` is ``temporal``, ``spatial`` or ``both``
    frame_ids, pts  int64 arrays of the core, (T,), (S,) or (T, S): -1 where no frame stands; pts in Unix nanoseconds
    clocks          of each stream: what pts is, ``capture`` (the sender's clock) or ``arrival``
    epoch           of its stream; a tuple, one a stream, where it is spatial
    seal_reason     ``full``, ``timeout``, ``window``, ``event``, ``latency``, ``watermark``, ``change``, ``restart``,
                    ``stale``, ``end``
    reason          ``dropped`` only: ``queue_full``, ``expired``, ``failed``, ``cancelled``, ...
    error           ``done`` and ``dropped``: what an operator or a callback raised, if it did
    header          the hyperframe's Header: arrays of ids and times, no pixels
    span_error_seconds, gaps, wait_ns (first frame's arrival to the seal)            ``sealed``
    worker, duration_ns                                                             ``done``

and beside them:

    frames_dropped  frames given up outside a hyperframe: `stream`, `epoch`, `frame_ids`, `pts`, `reason` (``late``,
                    ``duplicate``, ``queue_full``, ``unmatched``, ``corrupt``, ``filtered``, ``degraded``, ...), `count`
    stream          `stream`, `state` (``added``, ``unreachable`` (it never connected), ``connected``, ``lost``,
                    ``reconnected``, ``stale``, ``recovered``, ``ended``, ``removed``), `reason`, `epoch`, `spec` (text; ``connected``)
    degraded        one step down when full: `level` from 1, `rule`; ``recovered``: one step up again, `level` from 0
    began           `run` (id), `settings`; ``finished``: `stats`, the last ones
    warning         `message`

All have `ns` (monotonic) and live ones also `unix_ns`. Arrays are the observer's to keep. Every frame captured appears
in exactly one ``delivered``, ``dropped`` or ``frames_dropped``.
"""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Instrument", "Observation", "Observers"]

Observation = dict[str, Any]
"""What happened: ``kind``, ``ns`` (monotonic), and the fields of that kind, as listed above."""


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
