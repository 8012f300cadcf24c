"""The memory that live frames are written to."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hyperframes.drivers.machine import available_memory
from hyperframes.drivers.quantity import bytes_text
from hyperframes.errors import PipelineError
from hyperframes.packing import SlabPool

if TYPE_CHECKING:
    from hyperframes.frames import FrameSpec

__all__ = ["live_slabs"]

TOUCHED = 2
"""Slabs whose pages are there before the first frame: one is filled while another is worked on."""


def live_slabs(spec: FrameSpec, capacity: int, count: int) -> SlabPool:
    """Return `count` slabs for `capacity` frames each, the first of them ready to be written.

    Raises
    ------
    PipelineError
        If not even those fit this machine's memory.
    """
    needed, there = TOUCHED * capacity * spec.nbytes, available_memory()
    if needed > there:
        raise PipelineError(
            f"hyperframes with room for {capacity:,} frames of {spec} need {bytes_text(needed)}: "
            f"{bytes_text(there)} of memory are free",
            got=capacity,
            hint="Use a smaller --size.",
        )
    slabs = SlabPool(spec, capacity, count, threading.Lock(), shared=False)
    slabs.touch(TOUCHED)
    return slabs
