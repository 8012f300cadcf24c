"""Presentation times that every frame has and that always grow, from what decoders report."""

from __future__ import annotations

__all__ = ["Repair"]


class Repair:
    """Turns the times of decoded frames into strictly increasing ones, in presentation order.

    A frame's own pts is taken while pts are in order; else its dts, as FFmpeg's ``best_effort_timestamp`` does; else
    the frame follows the one before it by the nominal step. A frame whose successor is said to come earlier is out of
    order already: some demuxers guess pts of B-frames wrongly. A time that falls back by more than a few frames is a
    clock that was reset: what follows is shifted to go on where it stopped.

    Parameters
    ----------
    step : int
        Ticks from one frame to the next at the nominal rate, at least 1.

    Examples
    --------
    >>> repair = Repair(step=10)
    >>> [repair(pts, None) for pts in (0, 10, None, 30, 30, 40)]
    [0, 10, 20, 30, 31, 40]
    >>> repair.repaired
    2
    """

    def __init__(self, step: int) -> None:
        self.step = max(1, step)
        self.repaired = 0
        """Frames whose time is not their own pts."""
        self._last: int | None = None
        self._shift = 0
        # The state of FFmpeg's guess_correct_pts.
        self._faulty_pts = self._faulty_dts = 0
        self._last_pts = self._last_dts = -(1 << 63)

    def __call__(self, pts: int | None, dts: int | None, following: int | None = None) -> int:
        """Return the time of the next frame in ticks; `following` is the pts of the one after it, where known."""
        best = self._best_effort(pts, dts, following)
        last = self._last
        if best is None:
            time = 0 if last is None else last + self.step
        else:
            time = best + self._shift
            if last is not None and time <= last:
                if last - time > 8 * self.step:
                    self._shift += last + self.step - time
                    time = last + self.step
                else:
                    time = last + 1
        self.repaired += time != pts
        self._last = time
        return time

    def _best_effort(self, pts: int | None, dts: int | None, following: int | None) -> int | None:
        if dts is not None:
            self._faulty_dts += dts <= self._last_dts
            self._last_dts = dts
        elif pts is not None:
            self._last_dts = pts
        if pts is not None:
            self._faulty_pts += pts <= self._last_pts or (following is not None and following < pts)
            self._last_pts = pts
        elif dts is not None:
            self._last_pts = dts
        if pts is not None and (dts is None or self._faulty_pts <= self._faulty_dts):
            return pts
        return dts
