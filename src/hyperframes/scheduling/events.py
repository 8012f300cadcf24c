"""What the scheduler is told (events) and what it answers (instructions). Values only.

Nobody changes one; they are not frozen all the same, since that makes them three times as slow to make, and a live run makes
ten for each hyperframe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "AlreadyDone",
    "Cancel",
    "Done",
    "Drop",
    "Emit",
    "Event",
    "Failed",
    "Instruction",
    "Join",
    "MemoryFreed",
    "Pull",
    "Release",
    "Sealed",
    "Split",
    "Start",
    "Stop",
    "StreamEnded",
    "Task",
    "Tick",
    "WakeAt",
    "WorkerJoined",
    "WorkerLost",
]


class Task(NamedTuple):
    """One stage of one hyperframe, or one part of it after a Split."""

    id: int
    """Sequence number of the hyperframe."""
    stage: int
    """Position in the stage graph."""
    part: int = 0


# Events ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, unsafe_hash=True)
class Sealed:
    """A hyperframe is complete and may be processed."""

    id: int
    cost: float = 1.0
    """Expected cost, any unit; the larger goes first under `priority_by_cost`."""
    deadline_ns: int | None = None
    """Drop it if it has not started by then."""
    priority: int = 0
    """Of its stream, live: higher first."""
    stream: str = ""
    after: tuple[int, ...] = ()
    """Further hyperframes whose tasks of the same stage must be done first (explicit graphs); sealed before this one."""
    frames: int = 1
    """Frames it owns; bounds how many parts a Split may make."""


@dataclass(slots=True, unsafe_hash=True)
class StreamEnded:
    """No more hyperframes will be sealed for `stream`."""

    stream: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Done:
    """A task finished."""

    task: Task
    ns: int = 0
    """How long it ran."""


@dataclass(slots=True, unsafe_hash=True)
class Failed:
    """A task raised; `transient` failures may be retried."""

    task: Task
    transient: bool = True


@dataclass(slots=True, unsafe_hash=True)
class MemoryFreed:
    """Sinks gave back the results of `slots` hyperframes."""

    slots: int = 1


@dataclass(slots=True, unsafe_hash=True)
class WorkerJoined:
    """A worker of a resource is there and idle."""

    worker: int
    resource: str = "compute"


@dataclass(slots=True, unsafe_hash=True)
class WorkerLost:
    """A worker died; what it ran is run again elsewhere."""

    worker: int


@dataclass(slots=True, unsafe_hash=True)
class AlreadyDone:
    """A hyperframe finished in an earlier run (resume); told before its Sealed or instead of it."""

    id: int


@dataclass(slots=True, unsafe_hash=True)
class Cancel:
    """Stop: start nothing more, let what runs finish."""

    reason: str = "cancelled"


@dataclass(slots=True, unsafe_hash=True)
class Tick:
    """Time passed (a WakeAt came due)."""


Event = Sealed | StreamEnded | Done | Failed | MemoryFreed | WorkerJoined | WorkerLost | AlreadyDone | Cancel | Tick


# Instructions ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, unsafe_hash=True)
class Start:
    """Run a task on a worker, now idle."""

    task: Task
    worker: int
    attempt: int = 0
    """How often it was started before: after failures that are retried and lost workers."""


@dataclass(slots=True, unsafe_hash=True)
class Join:
    """Run several hyperframes' tasks of one stage in one go (one transfer to a device)."""

    tasks: tuple[Task, ...]
    worker: int


@dataclass(slots=True, unsafe_hash=True)
class Split:
    """Treat the tasks of a hyperframe's stage as `parts` parts: equal shares of its core, halos kept."""

    id: int
    stage: int
    parts: int


@dataclass(slots=True, unsafe_hash=True)
class Drop:
    """Give a hyperframe up: ``expired``, ``queue_full``, ``failed``, ``cancelled``, ``ancestor_failed``."""

    id: int
    reason: str


@dataclass(slots=True, unsafe_hash=True)
class Release:
    """No task of a hyperframe will run again: its input memory may go."""

    id: int


@dataclass(slots=True, unsafe_hash=True)
class Emit:
    """Hand a finished hyperframe's results to the sinks; ordered within its stream."""

    id: int


@dataclass(slots=True, unsafe_hash=True)
class Pull:
    """The source may fill `n` more hyperframes."""

    n: int = 1


@dataclass(slots=True, unsafe_hash=True)
class WakeAt:
    """Send a Tick at this time."""

    ns: int


@dataclass(slots=True, unsafe_hash=True)
class Stop:
    """Nothing is left to do."""

    error: str | None = None
    """Why the run ends early: which hyperframe failed, or the reason of a Cancel; None at a normal end."""
    failed: tuple[int, ...] = ()
    """Hyperframes that failed themselves, in order; those dropped with them were told by Drop."""


Instruction = Start | Join | Split | Drop | Release | Emit | Pull | WakeAt | Stop
