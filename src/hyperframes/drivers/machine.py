"""What this machine gives the process: cores, memory nodes, CPU and memory limits of the container, room for threads."""

from __future__ import annotations

import functools
import math
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from hyperframes.scheduling.resources import MachineFacts, process_limit_warning

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ProcessRoom",
    "allowed_cpus",
    "available_memory",
    "cache_share",
    "check_process_limit",
    "cpu_list",
    "cpu_quota",
    "machine_facts",
    "memory_limit",
    "numa_nodes",
    "own_cache",
    "process_room",
    "processor_name",
]

ROOT = Path("/")


def machine_facts(root: Path = ROOT) -> MachineFacts:
    """Return how many cores this process can keep busy; `root` is where ``proc`` and ``sys`` stand."""
    logical = psutil.cpu_count(logical=True) or 1
    physical = psutil.cpu_count(logical=False) or logical
    return MachineFacts(physical, logical, _allowed_cores(root, physical, logical), cpu_quota(root))


def _allowed_cores(root: Path, physical: int, logical: int) -> int:
    """Return the physical cores among the CPUs that the process may run on: two threads of one core count once."""
    if not hasattr(os, "sched_getaffinity"):
        return physical
    allowed = os.sched_getaffinity(0)
    cores = set()
    for cpu in allowed:
        siblings = _siblings(root, cpu)
        if siblings is None:
            return math.ceil(len(allowed) * physical / logical)
        cores.add(siblings)
    return len(cores)


@functools.cache  # asked for several times a run, one file for each core; it does not change
def _siblings(root: Path, cpu: int) -> str | None:
    return _read(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")


@functools.cache
def processor_name() -> str:
    """Return what the processor calls itself."""
    for line in (_read(ROOT / "proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()  # not Linux, or a processor without a name


def allowed_cpus() -> list[int]:
    """Return the logical CPUs that this process may run on (A86)."""
    affinity = getattr(os, "sched_getaffinity", None)
    return sorted(affinity(0)) if affinity else list(range(os.cpu_count() or 1))


def numa_nodes(root: Path = ROOT) -> dict[int, list[int]]:
    """Return the logical CPUs of every memory node, by its number (A49); one node where the system shows none."""
    nodes = {}
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        text = _read(folder / "cpulist")
        if text:  # a node of memory alone has no CPUs
            nodes[int(folder.name.removeprefix("node"))] = _numbers(text)
    return dict(sorted(nodes.items())) or {0: list(range(psutil.cpu_count(logical=True) or 1))}


def _numbers(ranges: str) -> list[int]:
    """Return [0, 1, 2, 3, 8] for ``0-3,8``."""
    numbers: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def cpu_list(numbers: list[int]) -> str:
    """Return ``0-3,8`` for [0, 1, 2, 3, 8], as taskset and numactl take it.

    Examples
    --------
    >>> cpu_list([0, 1, 2, 3, 8])
    '0-3,8'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


@functools.cache
def cache_share(root: Path = ROOT) -> int:
    """Return the bytes of cache that one busy core has: its share of the largest, or all of the largest of its own."""
    shares = [1 << 20]  # where the system tells nothing
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        size, sharing = _read(folder / "size") or "", _read(folder / "shared_cpu_list") or "0"
        if size.endswith("K") and size[:-1].isdigit():
            shares.append((int(size[:-1]) << 10) // _count(sharing))
    return max(shares)


@functools.cache
def own_cache(root: Path = ROOT) -> int:
    """Return the bytes of second-level cache that one busy core has: the largest that others do not push it out of."""
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        size, sharing = _read(folder / "size") or "", _read(folder / "shared_cpu_list") or "0"
        if _read(folder / "level") == "2" and size.endswith("K") and size[:-1].isdigit():
            return (int(size[:-1]) << 10) // _count(sharing)
    return 1 << 20  # the system tells nothing


def _count(cpus: str) -> int:
    """Return how many CPUs a list such as ``0-3,8`` names."""
    bounds = [part.partition("-") for part in cpus.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in bounds)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Return the CPU seconds a second that control groups (v2 or v1) allow; None without a limit."""
    quotas = []
    for folder in _groups(root, "cpu"):
        words = (_read(folder / "cpu.max") or "").split()
        if len(words) != 2:
            words = [_read(folder / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
        if words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:  # not "max", not -1
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_limit(root: Path = ROOT) -> int | None:
    """Return the bytes that control groups allow; None without a limit."""
    return min((limit for limit, _ in _memory_groups(root)), default=None)


def available_memory(root: Path = ROOT) -> int:
    """Return the bytes that can be used now without swapping: what the machine has, at most what the container may."""
    rooms = [max(0, limit - used) for limit, used in _memory_groups(root)]
    return min([int(psutil.virtual_memory().available), *rooms])


def _memory_groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of every control group with a limit; file cache that can be given back is not use."""
    for folder in _groups(root, "memory"):
        for limit_name, use_name, cache_name in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit = _read(folder / limit_name) or ""
            if not limit.isdigit() or int(limit) >= 1 << 60:  # v1 writes a huge number for none
                continue
            stat = dict(line.split()[:2] for line in (_read(folder / "memory.stat") or "").splitlines() if " " in line)
            used = int(_read(folder / use_name) or 0) - int(stat.get(cache_name, 0))
            yield int(limit), max(0, used)


@dataclass(frozen=True, slots=True)
class ProcessRoom:
    """How many threads and processes the user has and may have."""

    used: int
    limit: int | None
    """None without a limit."""


def process_room(root: Path = ROOT) -> ProcessRoom:
    """Return the tighter of ``ulimit -u`` and the container's limit, with what counts against it."""
    rooms = []
    for folder in _groups(root, "pids"):
        limit, used = _read(folder / "pids.max") or "", _read(folder / "pids.current") or "0"
        if limit.isdigit():
            rooms.append(ProcessRoom(int(used), int(limit)))
    soft = _soft_limit()
    if soft is not None:
        rooms.append(ProcessRoom(_threads_of_user(), soft))
    return min(rooms, key=lambda room: (room.limit or 0) - room.used, default=ProcessRoom(0, None))


def check_process_limit(needed: int, root: Path = ROOT) -> str | None:
    """Return a warning where `needed` more threads do not fit, else None."""
    room = process_room(root)
    return process_limit_warning(needed, room.used, room.limit)


def _soft_limit() -> int | None:
    """Return ``ulimit -u``; None where there is none or where it does not bind, as for root."""
    try:
        import resource
    except ImportError:
        return None  # not a POSIX system
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return None if soft == resource.RLIM_INFINITY or os.geteuid() == 0 else soft


def _threads_of_user() -> int:
    user = os.getuid()
    threads = 0
    for process in psutil.process_iter():
        try:
            if process.uids().real == user:
                threads += process.num_threads()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended meanwhile, or is another user's
    return threads


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the process's control group and of those around it, for one controller.

    In a container the path that ``/proc/self/cgroup`` names may not exist below the mount: then only the mount is read.
    """
    mount = root / "sys/fs/cgroup"
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        names = [controllers, controller] if controllers else [""]  # v1 mounts cpu as cpu or cpu,cpuacct
        top = next((mount / name for name in names if (mount / name).is_dir()), None)
        if top is None:
            continue
        folder = top / path.strip("/")
        while folder != top:
            if folder.is_dir():
                yield folder
            folder = folder.parent
        yield top


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None  # this system has no such file, or does not show it
