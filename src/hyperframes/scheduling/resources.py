"""How many workers each resource gets: a function of the machine's facts, which drivers read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hyperframes.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["IO_FACTOR", "MachineFacts", "process_limit_warning", "worker_counts", "workers_for"]

IO_FACTOR = 1.25
"""I/O workers per compute worker: in the middle of 1.2 to 1.5, since they mostly wait."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What the machine gives this process.

    Examples
    --------
    >>> MachineFacts(physical=16, logical=32, affinity=8, quota=2.5).cores
    3
    """

    physical: int
    """Physical cores."""
    logical: int
    """Logical CPUs: hardware threads."""
    affinity: int
    """Physical cores among the CPUs this process may run on."""
    quota: float | None = None
    """CPU seconds a second that the container may use; None without a limit."""

    @property
    def cores(self) -> int:
        """Cores that can be kept busy: physical, allowed and paid for; a part of one counts as one."""
        cores = min(self.physical, self.affinity)
        if self.quota is not None:
            cores = min(cores, math.ceil(self.quota))
        return max(1, cores)


def workers_for(resource: str, compute: int) -> int:
    """Return how many workers `resource` gets beside `compute` workers.

    ``compute`` all of them; ``memory`` half, since bandwidth is the limit; ``io`` 1.25 times as many, since they wait;
    a device one, since a second would only queue on it.

    Examples
    --------
    >>> [workers_for(resource, 8) for resource in ("compute", "memory", "io", "device:cuda:0")]
    [8, 4, 10, 1]
    """
    if resource == "compute":
        return compute
    if resource == "memory":
        return max(1, compute // 2)
    if resource == "io":
        return math.ceil(IO_FACTOR * compute)
    if resource.startswith("device:"):
        return 1
    raise PipelineError(
        f"unknown resource {resource!r}: expected compute, memory, io or device:NAME",
        got=resource,
        hint="An operator's contract names it.",
    )


def worker_counts(
    facts: MachineFacts, resources: Iterable[str] = ("compute",), workers: int | str = "auto"
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return how many workers each resource gets, and warnings about the number asked for.

    Parameters
    ----------
    facts : MachineFacts
        Of this machine.
    resources : iterable of str
        Those that the stages need.
    workers : int or "auto"
        Compute workers asked for; ``auto`` takes as many as there are cores. More than twice the cores are cut to
        that, with a warning: beyond it switching between threads eats the gain.

    Raises
    ------
    PipelineError
        If `workers` is neither ``auto`` nor a number of at least 1, or a resource is unknown.

    Examples
    --------
    >>> worker_counts(MachineFacts(4, 8, 4), ["compute", "memory"])
    ({'compute': 4, 'memory': 2}, ())
    """
    cores, warnings = facts.cores, []
    if workers == "auto":
        compute = cores
    elif isinstance(workers, int) and workers >= 1:
        compute = min(workers, 2 * cores)
        if workers > compute:
            warnings.append(
                f"{workers} workers are more than twice the {_cores(cores)} of this machine: {compute} are used"
            )
    else:
        raise PipelineError(f"workers: expected auto or a number of at least 1, got {workers!r}", got=workers)
    # Explicitly few workers are meant to be few; I/O waits, so it may pass the cores but never twice their number.
    counts = {r: min(workers_for(r, compute), max(2 * cores, compute)) for r in dict.fromkeys(resources)}
    return counts, tuple(warnings)


def _cores(number: int) -> str:
    return "one core" if number == 1 else f"{number} cores"


def process_limit_warning(needed: int, used: int, limit: int | None) -> str | None:
    """Return what to say where `needed` more threads and processes do not fit under the user's limit; else None.

    Parameters
    ----------
    needed : int
        Threads and processes the run will start.
    used : int
        Those the user runs now.
    limit : int or None
        ``ulimit -u`` or the container's limit; None for none.
    """
    if limit is None or used + needed <= limit:
        return None
    return (
        f"this run starts {needed} threads, but only {max(0, limit - used)} more are allowed "
        f"({used} of {limit} in use): use fewer --workers, or raise the limit with ulimit -u"
    )
