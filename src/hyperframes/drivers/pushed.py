"""What users give a live run, checked before anything counts it: names of streams, arrays as planes of a frame, their stamp."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import FrameSpec

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["MOST", "check_stamp", "check_stream", "is_like", "planes_of", "spec_of", "stamp_of"]

MOST = 1 << 62
"""Ids and nanoseconds stay below that, so that what is added to them still fits 64 bits."""
PLAIN_KINDS = "biufc"
"""Of dtypes: numbers and truth values."""
NAME_MOST = 96
"""Characters of a stream's name: columns of results have room for them."""


def check_stream(name: Any) -> None:
    """Refuse what cannot be the name of a stream, in a row, a file, a folder.

    Raises
    ------
    PipelineError
        Saying what names may be.
    """
    if isinstance(name, str) and 0 < len(name) <= NAME_MOST and name.isprintable() and name.strip(". "):
        return
    got = f"{len(name)} characters" if isinstance(name, str) and len(name) > NAME_MOST else repr(name)
    raise PipelineError(
        f"the name of a stream is text of 1 to {NAME_MOST} printable characters, not only dots: got {got}", got=got
    )


def planes_of(frame: Any) -> tuple[Array, ...]:
    """Return the planes of a frame, which is an array or a sequence of them."""
    if isinstance(frame, np.ndarray):
        return (frame,)
    planes = tuple(frame) if isinstance(frame, tuple | list) else (frame,)
    if not planes or not all(isinstance(plane, np.ndarray) for plane in planes):
        got = ", ".join(type(plane).__name__ for plane in planes) or "nothing"
        raise FrameError(
            f"a frame is a NumPy array, or a tuple of them: got {got}", got=got, hint="Convert it with numpy.asarray."
        )
    return planes


def is_like(spec: FrameSpec, planes: tuple[Array, ...]) -> bool:
    """Whether `planes` are a frame of `spec`."""
    if len(planes) == 1:  # nearly always, and for every frame
        return planes[0].dtype == spec.dtype and (planes[0].shape,) == spec.shapes
    return tuple(plane.shape for plane in planes) == spec.shapes and all(p.dtype == spec.dtype for p in planes)


def spec_of(planes: tuple[Array, ...]) -> FrameSpec:
    """Return the spec of frames like these planes."""
    dtypes = {plane.dtype for plane in planes}
    empty = [plane.shape for plane in planes if not plane.size]
    if len(dtypes) > 1 or empty or planes[0].dtype.kind not in PLAIN_KINDS:
        got = ", ".join(f"{plane.shape} of {plane.dtype}" for plane in planes)
        raise FrameError(
            f"the planes of a frame are arrays of numbers, not empty, all of one dtype: got {got}", got=got
        )
    if len(planes) == 1:
        return FrameSpec.array(planes[0].shape, planes[0].dtype)
    return FrameSpec(tuple(plane.shape for plane in planes), planes[0].dtype)


def stamp_of(stream: str, frame_id: Any, timestamp: Any) -> tuple[int | None, int | None]:
    """Return a sender's number as an int, and its seconds as nanoseconds; None where there is none.

    Raises
    ------
    FrameError
        Naming the stream.
    """
    try:
        number = None if frame_id is None else operator.index(frame_id)
    except TypeError:
        raise FrameError(f"stream {stream!r}: frame_id is a whole number: got {frame_id!r}", got=frame_id) from None
    try:
        capture_ns = None if timestamp is None else round(timestamp * 1e9)
    except (TypeError, ValueError, OverflowError):  # no number, not a number, endless
        raise FrameError(f"stream {stream!r}: timestamp is seconds: got {timestamp!r}", got=timestamp) from None
    check_stamp(stream, number, capture_ns)
    return number, capture_ns


def check_stamp(stream: str, frame_id: int | None, capture_ns: int | None) -> None:
    """Refuse numbers and times that no header can hold.

    Raises
    ------
    FrameError
        Naming the stream.
    """
    if frame_id is not None and not 0 <= frame_id < MOST:
        raise FrameError(
            f"stream {stream!r}: frame ids are from 0 to {MOST - 1}: got {frame_id}",
            got=frame_id,
            hint="Leave frame_id out: frames are counted then.",
        )
    if capture_ns is not None and not -MOST < capture_ns < MOST:
        raise FrameError(
            f"stream {stream!r}: times are within {MOST // 10**9} seconds of 0: got {capture_ns / 1e9:.6g}",
            got=capture_ns,
            hint="Divide milliseconds by 1,000; or leave the time out: the time of arrival is taken then.",
        )
