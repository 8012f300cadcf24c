"""What sinks refuse: records where frames go, frames where rows go, writing before opening."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hyperframes.errors import SinkError
from hyperframes.frames import Clip, FrameSpec, Records

if TYPE_CHECKING:
    from hyperframes.sinks.base import Target

__all__ = ["frames_only", "opened", "taken_clip"]

T = TypeVar("T")


def frames_only(target: Target, name: str, what: str) -> FrameSpec:
    """Return the spec of frames; a SinkError says where records go."""
    if not isinstance(target.spec, FrameSpec):
        raise SinkError(
            f"{name} is {what}: expected frames, got {target.kind} from output {target.name!r}",
            sink=name,
            hint="Write records to .parquet, .csv or .jsonl.",
        )
    return target.spec


def taken_clip(result: Clip | Records, name: str) -> Clip:
    """Return `result` if it holds frames."""
    if not isinstance(result, Clip):
        raise SinkError(f"{name} takes frames: got {result!r}", sink=name)
    return result


def opened(value: T | None, name: str) -> T:
    """Return what `open` made; a SinkError if it has not been called, or `close` has."""
    if value is None:
        raise SinkError(f"{name} is not open for writing", sink=name)
    return value
