"""A live stream as a source: one connection, read frame by frame, for runs that take what comes until it ends.

Live runs use `hyperframes.sources.camera.Capture`, which connects again; here the stream is over when the connection is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal

from hyperframes.errors import FrameError, SourceError
from hyperframes.frames import Frame
from hyperframes.media.endpoint import LOSSES, Endpoint, reason_of
from hyperframes.media.picture import Lender, picture_spec
from hyperframes.media.times import Repair
from hyperframes.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["StreamSource", "open_stream"]

_USUAL_RATE: Final = Fraction(30)


def open_stream(
    url: str, *, transport: Literal["tcp", "udp"] = "tcp", timeout_seconds: float = 5.0, **options: str
) -> StreamSource:
    """Open a camera or another live stream.

    Parameters
    ----------
    url : str
        ``rtsp://``, ``udp://``, ``tcp://`` or a V4L2 device such as ``/dev/video0``.
    transport : {'tcp', 'udp'}
        What RTSP sends pictures over.
    timeout_seconds : float
        How long to wait for a frame.
    **options : str
        FFmpeg's options.

    Raises
    ------
    SourceError
        If nothing answers, or no frame comes.
    """
    return StreamSource(Endpoint.of(url, transport=transport, **options), timeout_seconds)


class StreamSource(Source):
    """The frames of one connection to a live stream. Made by `open_stream`, which waits for the first frame.

    Frames keep the sender's times, repaired where they are missing or run backwards. What the network lost is missing;
    why the stream ended and how many packets were damaged is in `warnings`. It can be read once.
    """

    bounded = False
    rereadable = False
    identifiable = False

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        self.name = endpoint.name
        self._connection = endpoint.connect(timeout_seconds)
        self._damaged, self._lost, self._taken, self._size_changed = 0, "", False, False
        try:
            self._frames = self._decoded()
            self._head = self._first()
            self.spec = picture_spec(self._connection.stream, self._head, self._connection.rate)
        except BaseException:
            self.close()
            raise

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the frames [start, stop) as they come; what comes before `start` is passed over.

        Raises
        ------
        SourceError
            If it was read before.
        FrameError
            If a position is negative.
        """
        if start < 0 or (stop is not None and stop < 0):
            raise FrameError(f"frame positions start at 0: got {start}:{stop}", got=(start, stop))
        if self._taken:
            raise SourceError(f"{self.name!r} can be read only once: it is live", source=self.name)
        self._taken = True
        lender, spec = Lender(self.spec, self._head), self.spec
        repair = Repair(round(1 / (spec.rate or _USUAL_RATE) / spec.time_base))
        for index, frame in enumerate(self._all()):
            if stop is not None and index >= stop:
                break
            if not lender.fits(frame):
                lender, self._size_changed = Lender(self.spec, frame), True
                self._note()
            pts = repair(frame.pts, frame.dts)
            if index >= start:
                yield Frame(lender(frame), pts, index, spec)
        self.repaired_pts = repair.repaired > 0
        self._note()

    def close(self) -> None:
        """End the connection; safe to call twice."""
        self._connection.close()

    def _first(self) -> Any:
        for frame in self._frames:
            return frame
        why = self._lost or "it ended"
        raise SourceError(f"{self.name!r} sent no frame: {why}", source=self.name, hint="Is it running?")

    def _all(self) -> Iterator[Any]:
        yield self._head
        self._head = None
        yield from self._frames

    def _decoded(self) -> Iterator[Any]:
        """Yield decoded frames until the connection ends."""
        try:
            for packet in self._connection.packets():
                try:
                    frames = self._connection.decode(packet)
                except LOSSES:
                    self._damaged += 1
                    continue
                yield from frames
        except LOSSES as error:
            self._lost = reason_of(error)

    def _note(self) -> None:
        notes = []
        if self._lost:
            notes.append(f"the connection was lost: {self._lost}")
        if self._damaged:
            notes.append(f"{self._damaged} packet{'s' * (self._damaged != 1)} could not be decoded")
        if self._size_changed:
            notes.append("the picture changed its size or format: what followed was scaled to the first")
        self.warnings = tuple(notes)
