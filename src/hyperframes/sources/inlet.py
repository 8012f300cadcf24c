"""Where a capture thread puts frames: one writer a stream, no lock held while it copies.

    inlet.open(spec, rate=Fraction(30))
    while frames come:
        slot = inlet.slot(frame_id=None, capture_ns=..., arrival_ns=time.time_ns())
        if slot is not None:                 # None: not taken, and counted already
            copy into slot
            inlet.push()
    inlet.end("removed")

The stamp is given before the copy, so that a frame that is late, a duplicate, or for which there is no room is neither
converted nor copied, and so that a frame of a spatial hyperframe is written straight to its place in the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fractions import Fraction

    from hyperframes.frames import Array, FrameSpec

__all__ = ["Inlet"]


class Inlet(Protocol):
    """One stream's way into a live run; all calls come from the thread that captures the stream."""

    @property
    def closed(self) -> bool:
        """True once the stream was removed or the run is stopping: capture ends, and need not call `end`."""
        ...

    def open(self, spec: FrameSpec, *, rate: Fraction | None) -> None:
        """Say what the frames to come look like; before the first, and again where the size or format changes.

        A change seals what is there and begins a new epoch.

        Parameters
        ----------
        spec : FrameSpec
            Of every frame from now on.
        rate : Fraction or None
            Nominal frames a second; None where nobody knows: it is then measured.
        """
        ...

    def slot(self, *, frame_id: int | None, capture_ns: int | None, arrival_ns: int) -> tuple[Array, ...] | None:
        """Return the writable arrays of the next frame, one per plane; None where the frame is not taken.

        The frame counts as captured either way; one that is not taken is counted as dropped with its reason (``late``,
        ``duplicate``, ``unmatched``, ``queue_full``) by the inlet itself. Never waits, but for ``when_full="block"``.

        Parameters
        ----------
        frame_id : int or None
            The sender's number of the frame, from 0 to 2**62 - 1; None: frames are counted here. A number that runs
            back, by more than reordering explains, begins a new epoch.
        capture_ns : int or None
            When the frame was taken: Unix nanoseconds of the sender's clock; None where it does not tell.
        arrival_ns : int
            When it got here: Unix nanoseconds of this machine's clock.
        """
        ...

    def push(self) -> None:
        """Take the frame written to the slot: it may be sealed and read from now on."""
        ...

    def drop(self, reason: str, count: int = 1) -> None:
        """Count captured frames that get no slot (``corrupt``, ``filtered``, ...).

        After `slot` and before `push` it gives up the slot, whose frame could not be written: that one frame is
        counted, once.
        """
        ...

    def lost(self, reason: str) -> None:
        """Say that the connection is gone and is being tried again; what is there is sealed by the rules as usual."""
        ...

    def restart(self, reason: str) -> None:
        """Say that frames begin anew (``reconnected``, ``ids``): seals what is there; the next frame is a new epoch's."""
        ...

    def end(self, reason: str) -> None:
        """Say that no frame follows (``ended``, ``removed``, ``failed: ...``); what is there is sealed."""
        ...
