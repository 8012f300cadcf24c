"""Recorded streams brought back into inlets: the same frames, ids and times, in the order they arrived."""

from __future__ import annotations

import heapq
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hyperframes.media.recording import RecordedFrame, Recording
    from hyperframes.sources.inlet import Inlet

__all__ = ["replay"]


def replay(
    recording: Recording,
    inlets: Mapping[str, Inlet],
    *,
    speed: float | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Bring recorded streams into their inlets; return how many frames were brought.

    Frames of all streams come in the order of their arrival, from this one thread, so that what depends on the order
    of streams is the same every time. An epoch that began while it was recorded begins again with ``restart("replay")``.

    Parameters
    ----------
    recording : Recording
        Where they are.
    inlets : mapping of str to Inlet
        By stream; other streams are left out.
    speed : float, optional
        1: as it was; 10: ten times faster. The default is as fast as the inlets take them.
    stop : threading.Event, optional
        Ends it early when set.
    """
    halted = stop or threading.Event()
    seen: dict[str, RecordedFrame] = {}
    count, first_ns, began = 0, 0, 0.0
    for frame in heapq.merge(*(recording.read(name) for name in inlets), key=lambda frame: frame.arrival_ns):
        if not count:
            first_ns, began = frame.arrival_ns, time.monotonic()
        if speed is not None:
            halted.wait(began + (frame.arrival_ns - first_ns) / 1e9 / speed - time.monotonic())
        inlet = inlets[frame.stream]
        if halted.is_set() or inlet.closed:
            break
        _bring(inlet, frame, seen.get(frame.stream))
        seen[frame.stream] = frame
        count += 1
    for inlet in inlets.values():
        inlet.end("ended")
    return count


def _bring(inlet: Inlet, frame: RecordedFrame, before: RecordedFrame | None) -> None:
    if before is not None and before.epoch != frame.epoch:
        inlet.restart("replay")
    if before is None or before.spec != frame.spec:
        inlet.open(frame.spec, rate=frame.spec.rate)
    slot = inlet.slot(frame_id=frame.frame_id, capture_ns=frame.capture_ns, arrival_ns=frame.arrival_ns)
    if slot is not None:
        for target, plane in zip(slot, frame.planes, strict=True):
            np.copyto(target, plane)
        inlet.push()
