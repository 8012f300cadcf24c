"""When pictures were taken, by the sender's own clock: RTCP sender reports as PyAV hands them on."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["SenderClock"]

_REMEMBERED: Final = 64


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
        self._known: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        self._anchor: tuple[int, int] | None = None
        self._latest: int | None = None
        self._begun = False

    @property
    def known(self) -> bool:
        """Whether the sender has told its time."""
        return self._anchor is not None

    def packet(self, packet: Any) -> None:
        """Read the reference time of a PyAV packet, where it carries one.

        The very first is not taken: FFmpeg's parser hands out a packet when the next one begins, and where the packet
        itself has no reference time it gets that one's.
        """
        if not packet.has_sidedata("prft"):
            return
        if not self._begun:
            self._begun = True
        elif packet.pts is not None:
            (unix_us,) = struct.unpack_from("<q", bytes(packet.get_sidedata("prft")))
            self.note(packet.pts, unix_us * 1000)

    def note(self, pts: int, unix_ns: int) -> None:
        """Take note that the picture of `pts` was taken at `unix_ns`."""
        self._anchor = (pts, unix_ns)
        self._latest = unix_ns if self._latest is None else self._latest
        self._known.append(self._anchor)

    def capture_ns(self, pts: int | None) -> int | None:
        """Return when the picture of `pts` was taken; None while the sender has not told."""
        if self._anchor is None:
            return None
        if pts is not None:
            self._latest = self._at(pts, self._anchor)
        return self._latest

    def _at(self, pts: int, anchor: tuple[int, int]) -> int:
        for known, unix_ns in reversed(self._known):
            if known == pts:
                return unix_ns
        return anchor[1] + round((pts - anchor[0]) * self._tick_ns)
