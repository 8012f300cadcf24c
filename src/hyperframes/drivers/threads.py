"""Libraries' own threads, off while a driver's workers run and restored afterwards."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["single_threaded_libraries"]


@contextmanager
def single_threaded_libraries() -> Iterator[None]:
    """Keep OpenCV to the calling thread: the workers are the parallelism, and results must not depend on theirs.

    Operators that use OpenCV import it before a run starts, so a module that is not loaded needs no care.
    """
    cv2 = sys.modules.get("cv2")
    if cv2 is None:
        yield
        return
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)
