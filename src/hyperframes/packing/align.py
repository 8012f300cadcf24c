"""Frames of one stream in order, and the times of several on one line.

Which frame is late, double or the first of a new count; which stands nearest to an instant; how far clocks are apart and
how fast they drift. Pure: times are given, in integer nanoseconds (arrays may have any unit). Cameras, trigger skew and audio lag share it.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import FrameError

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["ClockFit", "ClockModel", "Sequencer", "fit_clock", "interpolate", "missing_ranges", "nearest", "span_error"]

REORDER = 64
"""How many ids back a frame may come and still be one that was overtaken."""
WRAPS = tuple(1 << bits for bits in (16, 24, 31, 32, 63))
"""Where senders' counters begin again."""
SETTLED = 3
"""Stretches of time after which a clock is known."""
RECENT = 2
"""Stretches that tell how far off a clock is: one whole at least."""
STEP_NS = 25_000_000
"""From one stretch to the next a delay changes by more only where a clock was set."""
SUSPECTS = 3
"""Frames in a row that do not fit what came before, but each other: then it is the count that began again."""


class Sequencer:
    """Gives every frame of one stream an id and a time that can be compared with those before it.

    Parameters
    ----------
    lateness_ns : int
        How far back in time a frame may come, where frames have no ids.
    period_ns : float, optional
        Time between two frames as far as known; it is measured as they come.

    Notes
    -----
    Ids that wrap at 2^16, 2^24, 2^31, 2^32 or 2^63 go on counting. Ids that run back while the sender's time goes on,
    a sender's time that runs back while ids go on, and three frames in a row that look double or far too old but follow
    each other, are a new count: verdict ``restart``.

    Examples
    --------
    >>> sequencer = Sequencer()
    >>> [sequencer.judge(id, 40 * id, sender=True) for id in [7, 8, 10, 9, 10]]
    ['', '', '', '', 'duplicate']
    >>> sequencer.judge(0, 440, sender=True)
    'restart'
    """

    def __init__(self, *, lateness_ns: int = 0, period_ns: float | None = None) -> None:
        self.lateness_ns = lateness_ns
        self.period_ns = period_ns
        self.frame_id = -1
        """Of the frame judged last: the sender's id without its wraps, or its count."""
        self.time_ns = 0
        """Of the frame judged last; a small step back of the sender's clock is made good."""
        self.numbered = False
        """Whether the sender numbers its frames."""
        self._wrapped = 0
        self._begin()

    def _begin(self) -> None:
        self._newest_id = self._newest_ns = -1
        self._sender = False
        self._recent: deque[int] = deque(maxlen=REORDER)
        self._seen: set[int] = set()
        self._suspects: list[tuple[int, int]] = []
        self._run_from = -1  # ids from here to the newest came one after the other, and are not remembered yet

    def judge(self, frame_id: int | None, time_ns: int, *, sender: bool) -> str:
        """Return what the next frame to arrive is.

        Parameters
        ----------
        frame_id : int or None
            The sender's number.
        time_ns : int
            When it was taken, or else arrived.
        sender : bool
            Whether `time_ns` is the sender's clock.

        Returns
        -------
        str
            Empty: take it, in the order of `frame_id` and `time_ns`. ``restart``: the same, in a new epoch.
            ``duplicate``: it was here. ``late``: so far back that it belongs nowhere.
        """
        numbered = frame_id is not None
        newest = self._newest_id
        if (
            newest >= 0
            and numbered == self.numbered
            and sender == self._sender
            and (time_ns > self._newest_ns >= 0)
            and (frame_id is None or frame_id + self._wrapped == newest + 1)
        ):  # the next frame, as nearly always: nothing that is asked below can be so
            if self._suspects:
                self._suspects.clear()
            step_ns, period = time_ns - self._newest_ns, self.period_ns
            if period is not None and period < 2 * step_ns < 4 * period:
                self.period_ns = period + (step_ns - period) / 32
            else:
                self._measure(step_ns)
            if not numbered:
                self._remember(time_ns)
            elif self._run_from < 0:
                self._run_from = newest + 1
            self._newest_id = self.frame_id = newest + 1
            self._newest_ns = self.time_ns = time_ns
            return ""
        self._remember_run()
        if self._newest_id >= 0 and (numbered != self.numbered or (sender != self._sender and not numbered)):
            self._change_of_stamp(numbered)
        self.numbered = numbered
        number = self._unwrapped(frame_id) if frame_id is not None else self._newest_id + 1
        verdict = self._verdict(number, time_ns, sender=sender)
        if verdict in {"duplicate", "late"}:
            self._suspects.append((number, time_ns))
            if not self._began_again():
                return verdict
            verdict = "restart"
        self._suspects.clear()
        if verdict == "restart":
            self._begin()
            self.numbered = numbered
            self._wrapped = 0
            number = frame_id if frame_id is not None else number
        self._take(number, time_ns, sender=sender)
        return verdict

    def skip(self, count: int = 1) -> None:
        """Count frames that were captured but never judged, so that the count of frames without ids shows a gap."""
        if not self.numbered and self._newest_id >= 0:
            self._newest_id += count

    def _change_of_stamp(self, numbered: bool) -> None:
        """Compare nothing across a change from counting to ids, or from arrival to the sender's clock."""
        self._recent.clear()
        self._seen.clear()
        self._newest_ns = -1
        if numbered:
            self._newest_id = -1

    def _unwrapped(self, frame_id: int) -> int:
        number = frame_id + self._wrapped
        if number < self._newest_id - REORDER and frame_id < REORDER:
            for wrap in WRAPS:
                if 0 <= self._wrapped + wrap - self._newest_id <= REORDER:
                    self._wrapped += wrap
                    return frame_id + self._wrapped
        if self._wrapped and number > self._newest_id + (WRAPS[0] >> 1):  # overtaken by the first after the wrap
            for wrap in WRAPS:
                if 0 <= self._newest_id - (number - wrap) <= REORDER:
                    return number - wrap
        return number

    def _verdict(self, number: int, time_ns: int, *, sender: bool) -> str:
        if self._newest_id < 0:
            return ""
        comparable = self._newest_ns >= 0 and sender == self._sender
        if self.numbered:
            if number > self._newest_id:
                stepped = sender and comparable and time_ns < self._newest_ns - self._slack()
                return "restart" if stepped else ""
            if sender and comparable and time_ns > self._newest_ns:
                return "restart"
            if number in self._seen:
                return "duplicate"
            return "" if number > self._newest_id - REORDER else "late"
        if not (sender and comparable):
            return ""
        if time_ns in self._seen:
            return "duplicate"
        return "" if time_ns >= self._newest_ns - self.lateness_ns else "late"

    def _slack(self) -> float:
        return max(self.lateness_ns, 2 * (self.period_ns or 0), 1_000_000)

    def _began_again(self) -> bool:
        last = self._suspects = self._suspects[-SUSPECTS:]
        pairs = list(itertools.pairwise(last))
        if self.numbered:
            follows = all(0 < after[0] - before[0] <= REORDER for before, after in pairs)
        else:
            follows = all(before[1] < after[1] for before, after in pairs)
        return len(last) == SUSPECTS and follows

    def _take(self, number: int, time_ns: int, *, sender: bool) -> None:
        if number > self._newest_id and self._newest_ns >= 0 and sender == self._sender:
            self._measure((time_ns - self._newest_ns) / (number - self._newest_id))
            if self.numbered:
                time_ns = max(time_ns, self._newest_ns)  # a clock that stepped back a little
        self._remember(number if self.numbered else time_ns)
        self._sender = sender
        self._newest_id = max(self._newest_id, number)
        self._newest_ns = max(self._newest_ns, time_ns)
        self.frame_id, self.time_ns = number, time_ns

    def _remember(self, key: int) -> None:
        recent = self._recent
        if len(recent) == REORDER:
            self._seen.discard(recent[0])
        recent.append(key)
        self._seen.add(key)

    def _remember_run(self) -> None:
        """Remember the newest of the ids that came one after the other: only frames out of order are looked for among them."""
        if self._run_from >= 0:
            for number in range(max(self._run_from, self._newest_id + 1 - REORDER), self._newest_id + 1):
                self._remember(number)
            self._run_from = -1

    def _measure(self, step_ns: float) -> None:
        """Let the period follow what is measured; a frame that was lost or held up moves it little."""
        if step_ns <= 0:
            return
        period = self.period_ns
        if period is None:
            self.period_ns = step_ns
            return
        if step_ns < period / 2:
            step_ns = period / 2
        elif step_ns > period * 2:
            step_ns = period * 2
        self.period_ns = period + (step_ns - period) / 32


@dataclass(frozen=True, slots=True)
class ClockModel:
    """How one clock reads against another: ``observed = reference + offset + drift * (reference - origin)``."""

    origin: float
    offset: float
    """Observed minus reference at `origin`, in the unit of the times."""
    drift_ppm: float
    """How much faster the observed clock runs, in parts per million."""
    residual: float
    """Root mean square of what the model leaves over."""

    def to_reference(self, observed: Array) -> Array:
        """Return reference times for `observed` ones."""
        drift = self.drift_ppm * 1e-6
        return (np.asarray(observed, float) - self.offset - self.origin) / (1 + drift) + self.origin


def fit_clock(reference: Array, observed: Array) -> ClockModel:
    """Fit offset and drift of one clock against another from times of the same events, by least squares.

    Parameters
    ----------
    reference, observed : array (N,)
        When each event happened by either clock; N at least 1, in one unit.

    Examples
    --------
    >>> seconds = np.arange(100.0)
    >>> model = fit_clock(seconds, 3 + seconds * 1.00005)
    >>> round(model.offset, 6), round(model.drift_ppm, 3)
    (3.0, 50.0)
    """
    times, seen = np.asarray(reference, float), np.asarray(observed, float)
    if times.shape != seen.shape or times.ndim != 1 or not len(times):
        raise FrameError(
            "a clock is fitted to pairs of times: expected two arrays (N,) with N >= 1, "
            f"got {times.shape} and {seen.shape}",
            expected=times.shape,
            got=seen.shape,
        )
    origin = float(times[0])
    x, delay = times - origin, seen - times
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (delay - delay.mean())) / spread if spread > 0 else 0.0
    offset = float(delay.mean() - slope * x.mean())
    left = delay - offset - slope * x
    return ClockModel(origin, offset, slope * 1e6, float(np.sqrt(np.mean(left * left))))


class ClockFit:
    """Follows a sender's clock by the smallest delays seen in each stretch of time: the rest is the network's.

    Parameters
    ----------
    stretch_ns : int
        Of each stretch.
    stretches : int
        How many are remembered, for the drift.
    recent : int
        The last so many of them, the one that goes on included, tell the offset: a clock that was set, or a frame that was
        stamped while its sender was still setting it, must not count for longer than that.
    """

    def __init__(self, stretch_ns: int = 1_000_000_000, stretches: int = 120, recent: int = RECENT) -> None:
        self._stretch_ns, self._recent = stretch_ns, recent
        self._least: deque[tuple[int, int]] = deque(maxlen=stretches)  # (arrival, arrival - capture)
        self._began: int | None = None
        self._is_settled = False
        self.offset_ns: int | None = None
        """Our clock minus the sender's, a frame's shortest way included; None before the first frame."""

    def add(self, capture_ns: int, arrival_ns: int) -> None:
        """Take note of one frame."""
        delay = arrival_ns - capture_ns
        if self._began is None or abs(arrival_ns - self._began) >= self._stretch_ns:
            self._began = arrival_ns
            self._least.append((arrival_ns, delay))
            self._is_settled = len(self._least) >= SETTLED
            last = itertools.islice(reversed(self._least), self._recent)
            self.offset_ns = min([least for _, least in last])  # one that was forgotten may have been it
        elif delay < self._least[-1][1]:
            self._least[-1] = (arrival_ns, delay)
            if self.offset_ns is None or delay < self.offset_ns:
                self.offset_ns = delay

    @property
    def settled(self) -> bool:
        """Whether it was followed for long enough that the shortest delay is no accident: from the third stretch on."""
        return self._is_settled

    def forget(self) -> None:
        """Begin anew: another clock, or the same after a step."""
        self._least.clear()
        self._began = self.offset_ns = None
        self._is_settled = False

    @property
    def drift_ppm(self) -> float | None:
        """How much faster the sender's clock runs than this machine's; None before the third stretch.

        A step counts as none: only what came after the last one is fitted.
        """
        if not self._is_settled:
            return None
        least = tuple(self._least)
        steps = [i for i in range(1, len(least)) if abs(least[i][1] - least[i - 1][1]) > STEP_NS]
        least = least[steps[-1] if steps else 0 :]
        if len(least) < SETTLED:
            return None
        arrival = np.array([at for at, _ in least], float)
        delay = np.array([d for _, d in least], float)
        return fit_clock(arrival, arrival - delay).drift_ppm


def nearest(times: Array, wanted: Array, tolerance: float) -> Array:
    """Return for each wanted time the position of the nearest of `times` (ascending), -1 beyond `tolerance`.

    Examples
    --------
    >>> nearest(np.array([0, 33, 66]), np.array([1, 60, 200]), 16)
    array([ 0,  2, -1])
    """
    times, wanted = np.asarray(times), np.asarray(wanted)
    if not len(times):
        return np.full(wanted.shape, -1, np.int64)
    after = np.clip(np.searchsorted(times, wanted), 1, max(1, len(times) - 1))
    before = after - 1
    after = np.minimum(after, len(times) - 1)
    closer = np.where(wanted - times[before] <= times[after] - wanted, before, after)
    return np.where(np.abs(times[closer] - wanted) <= tolerance, closer, -1)


def interpolate(times: Array, wanted: Array) -> Array:
    """Return at which position between `times` (ascending) each wanted time falls: 1.25 is a quarter from 1 to 2.

    Beyond the ends it is the end's position. Times are interpolated, never pictures.

    Examples
    --------
    >>> interpolate(np.array([0, 40, 80]), np.array([10, 80, 100]))
    array([0.25, 2.  , 2.  ])
    """
    times = np.asarray(times)
    origin = times[0]
    position: Array = np.interp(np.asarray(wanted) - origin, times - origin, np.arange(len(times), dtype=float))
    return position


def span_error(times: Array, period: float) -> float:
    """Return how much longer a hyperframe's frames last than they should: span minus (n - 1) periods (B73).

    Examples
    --------
    >>> round(span_error(np.array([0.0, 0.04, 0.12]), 0.04), 9)
    0.04
    """
    return float(times[-1] - times[0]) - (len(times) - 1) * period if len(times) else 0.0


def missing_ranges(ids: Array, before: int | None = None) -> tuple[tuple[int, int], ...]:
    """Return the ranges of ids missing inside `ids` (ascending), and between `before` and the first.

    Examples
    --------
    >>> missing_ranges(np.array([5, 6, 9]), before=3)
    ((4, 5), (7, 9))
    """
    known = np.asarray(ids, np.int64)
    first = known[0] if before is None else before
    if known[-1] - first == len(known) - (before is None):  # as nearly always
        return ()
    if before is not None:
        known = np.concatenate([[before], known])
    at = np.flatnonzero(np.diff(known) > 1)
    return tuple((int(known[i]) + 1, int(known[i + 1])) for i in at)
