"""When pictures were taken, by the sender's own clock: RTCP sender reports as PyAV hands them on."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["SenderClock"]

_REMEMBERED: Final = 64
_SKIPPED: Final = 7
"""Packets in a row, an even step of pts apart, whose reference time follows from the one before: FFmpeg reckons it from the
last sender report, and to read it is dear."""
_AGREES_NS: Final = 500_000
"""Reference times that differ from the one before by less than this are of one sender report."""


class SenderClock:
    """Maps the pts of one connection's frames to Unix nanoseconds of the sender's clock.

    FFmpeg puts a producer reference time (``prft``: Unix microseconds) on every packet after the first sender report.
    Frames are matched by pts, since decoders reorder; a frame whose packet had none is placed by the last one that
    had, so that a sender clock once known stays known, and a frame without pts has the time of the frame before it.

    Parameters
    ----------
    time_base : Fraction
        Seconds a tick of pts.
    """

    def __init__(self, time_base: Fraction) -> None:
        self._tick_ns = float(time_base) * 1e9
        self._known: dict[int, int] = {}  # by pts, the oldest first
        self._anchor: tuple[int, int] | None = None
        self._latest: int | None = None
        self._begun = False
        self._pts = self._step = 0  # of the last packet, and from the one before it
        self._skipped = 0
        self._doubtful_ns: int | None = None  # by how much the packet before disagreed with what is known

    @property
    def known(self) -> bool:
        """Whether the sender has told its time."""
        return self._anchor is not None

    def packet(self, packet: Any) -> None:
        """Read the reference time of a PyAV packet, where it carries one.

        The very first is not taken: FFmpeg's parser hands out a packet when the next one begins, and where the packet
        itself has no reference time it gets that one's. Of packets that come evenly, most are not looked into.
        """
        pts = packet.pts
        if pts is not None:
            step = pts - self._pts
            even = abs(step - self._step) <= abs(self._step) >> 3
            self._pts, self._step = pts, step
            if even and self._anchor is not None and self._skipped < _SKIPPED:
                self._skipped += 1
                return
        if not packet.has_sidedata("prft"):
            return
        if not self._begun:
            self._begun = True
        elif pts is not None:
            (unix_us,) = struct.unpack_from("<q", bytes(packet.get_sidedata("prft")))
            self._consider(pts, unix_us * 1000)

    def _consider(self, pts: int, unix_ns: int) -> None:
        """Take a reference time that agrees with what is known, or that two packets in a row agree on.

        The parser hands out now and then a packet with the reference time of the one after it; a sender report that says
        something new holds for all packets that follow.
        """
        self._skipped = 0
        before, self._doubtful_ns = self._doubtful_ns, None
        if self._anchor is not None:
            off_ns = unix_ns - self._anchor[1] - round((pts - self._anchor[0]) * self._tick_ns)
            if abs(off_ns) > _AGREES_NS and (before is None or abs(off_ns - before) > _AGREES_NS):
                self._doubtful_ns, self._skipped = off_ns, _SKIPPED
                return
        self.note(pts, unix_ns)

    def note(self, pts: int, unix_ns: int) -> None:
        """Take note that the picture of `pts` was taken at `unix_ns`."""
        self._anchor = (pts, unix_ns)
        self._latest = unix_ns if self._latest is None else self._latest
        self._known[pts] = unix_ns
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def capture_ns(self, pts: int | None) -> int | None:
        """Return when the picture of `pts` was taken; None while the sender has not told."""
        anchor = self._anchor
        if anchor is None:
            return None
        if pts is not None:
            known = self._known.get(pts)
            self._latest = anchor[1] + round((pts - anchor[0]) * self._tick_ns) if known is None else known
        return self._latest
