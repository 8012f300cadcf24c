"""What the machine is, what others do on it, and what memory a process tree holds."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def describe() -> dict[str, object]:
    """Return processor, cores, memory and system."""
    info = Path("/proc/cpuinfo").read_text()
    facts = dict(line.split(":", 1) for line in info.split("\n\n")[0].splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    memory = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    return {
        "processor": f"{facts.get('model name', platform.machine())}, family {facts.get('cpu family', '?')}, "
        f"model {facts.get('model', '?')}",
        "cores": len(os.sched_getaffinity(0)),
        "cache": facts.get("cache size", "?"),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.release()}",
    }


def provenance(*packages: str) -> dict[str, object]:
    """Return when, where and on which commit and versions of `packages` something is measured."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=, changed"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    found = {"commit": commit or "unknown", "python": sys.version.split()[0]}
    for package in ("hyperframes-engine", *packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"when": when, "machine": describe(), "versions": {"hyperframes": found}}


def busy_seconds() -> float:
    """Return the CPU seconds that all processes of the machine have used so far."""
    user, nice, system, _idle, _wait, irq, soft, stolen, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + soft + stolen) / _TICKS


def wait_until_quiet(cores: float, patience_seconds: float) -> None:
    """Return once less than `cores` are busy over a quarter of a second, or when patience is over."""
    until = time.monotonic() + patience_seconds
    while time.monotonic() < until:
        before = busy_seconds()
        time.sleep(0.25)
        if (busy_seconds() - before) / 0.25 < cores:
            return


def tree(root: int) -> list[int]:
    """Return the processes that descend from `root`, itself included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def proportional_bytes(processes: list[int]) -> int:
    """Return the memory of processes, what they share divided among those that share it."""
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it has ended
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


class MemoryWatch(threading.Thread):
    """Looks at the memory of a process tree until it is told to stop; `peak_bytes` is the most it saw."""

    def __init__(self, root: int, every_seconds: float = 0.05) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._root, self._every, self._over = root, every_seconds, threading.Event()

    def run(self) -> None:
        """Look until told to stop."""
        while not self._over.is_set():
            self.peak_bytes = max(self.peak_bytes, proportional_bytes(tree(self._root)))
            self._over.wait(self._every)

    def stop(self) -> int:
        """Stop, and return the most that was seen."""
        self._over.set()
        self.join()
        return self.peak_bytes
