"""Runs workloads: all contestants in turn, round by round, and writes what was measured as JSON.

    python benchmarks/rivals/runner.py                         all workloads, results in benchmarks/results
    python benchmarks/rivals/runner.py file_yuv --rounds 3     one, in fewer rounds
    python benchmarks/rivals/runner.py --frames 60             on short clips, to see whether everything works

Every contestant is a process of its own in an environment of its own, and stays for all rounds: starting, importing,
compiling and a first round are not counted. What a round keeps is wall time, CPU time, and how many cores other
processes used meanwhile; what is made of it is for `summary.py`. Times, not results, vary: results are compared once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import inputs as making
import machine
from agreement import Stored, compare
from environments import UnavailableError, python_of
from measure import Inputs
from tasks import PYTHON_FRAMES, SCALING_FRAMES, STORED_FRAMES, non_uniform
from workloads import MEMORY_FRAMES, PACKAGES, WORKLOADS, Workload, find

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTESTANTS = HERE / "contestants"
USE_SOURCE = ("hyperframes", "dask")
"""Contestants that import the package of this repository; dask runs its kernel."""
PATIENCE_SECONDS = 300.0
"""How long a contestant may take for one answer."""
HANG_SECONDS = 60.0
"""The same where it is only asked for frames of a small clip."""


class Process:
    """A contestant that is running; `ask` gives it one request."""

    def __init__(self, path: Path, python: str, workload: Workload, inputs: Inputs) -> None:
        command = [python, str(HERE / "measure.py"), str(path), workload.name, json.dumps(inputs._asdict())]
        environment = dict(os.environ)
        for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            environment.pop(variable, None)  # they slow linear algebra; nothing here may be held back
        self.name = path.stem
        environment["PYTHONPATH"] = str(ROOT / "src") if self.name in USE_SOURCE else ""
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
        )
        self.pid = self._popen.pid
        self._rest = b""
        self._patience = HANG_SECONDS if workload.kind == "position" else PATIENCE_SECONDS
        first = self._answer()
        self.labels: dict[str, list[bool]] = first.get("labels", {})
        self.error: str | None = first.get("error")

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer, or an error where there is none in time."""
        if self._popen.poll() is not None:
            return {"error": "it has ended"}
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(request).encode() + b"\n")
        return self._answer()

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        try:
            self._popen.wait(10)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        if self._popen.stdout is not None:
            self._popen.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self._popen.stdout is not None
        until = time.monotonic() + self._patience
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._popen.stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self._popen.kill()
                return {"error": f"no answer in {self._patience:.0f} s"}
            data = os.read(self._popen.stdout.fileno(), 1 << 20)
            if not data:
                return {"error": f"it ended with code {self._popen.wait()}"}
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)  # type: ignore[no-any-return]


@contextlib.contextmanager
def started(
    workload: Workload, pythons: dict[str, str], inputs: Inputs, names: Sequence[str]
) -> Iterator[dict[str, Process]]:
    """Start contestants and end them; yield the one that answers to each label."""
    processes = [Process(CONTESTANTS / f"{name}.py", pythons[name], workload, inputs) for name in names]
    try:
        yield {label: process for process in processes for label in process.labels}
    finally:
        for process in processes:
            process.close()


def timed_rounds(labels: dict[str, Process], rounds: int, quiet: float) -> dict[str, list[dict[str, Any]]]:
    """Return what each label's rounds took, one round of all after another; the first round is left out."""
    taken: dict[str, list[dict[str, Any]]] = {label: [] for label, p in labels.items() if p.labels[label][0]}
    failed: set[str] = set()
    for number in range(rounds + 1):
        for label, counted in taken.items():
            if label in failed:
                continue
            machine.wait_until_quiet(quiet, 2.0 if number else 0.0)
            busy = machine.busy_seconds()
            answer = labels[label].ask(do="run", label=label)
            busy = machine.busy_seconds() - busy
            if "error" in answer:
                failed.add(label)
                counted[:] = [answer]
            elif number:
                answer["other_cores"] = max(0.0, busy - answer["cpu_seconds"]) / answer["seconds"]
                counted.append(answer)
    return taken


def kept_positions(workload: Workload, length: int) -> list[int] | None:
    """Return which results' samples are compared: both ends and some in between, or None for all."""
    if workload.keep == "all" or workload.dtype != "u1":
        return None
    if workload.keep == "every fifth":
        return list(range(0, length, 5))
    middle = length // 2
    ends = {*range(4), *range(length - 4, length)}
    return sorted(p for p in ends | set(range(middle - 4, middle + 4)) if 0 <= p < length)


def compared(workload: Workload, labels: dict[str, Process], scratch: Path, length: int) -> dict[str, Any]:
    """Return how far each label's results agree with the reference's."""
    if workload.reference not in labels:
        return {}
    keep = kept_positions(workload, length)

    def stored(label: str) -> Stored | dict[str, Any]:
        target = scratch / "frames"
        answer = labels[label].ask(do="frames", label=label, keep=keep, target=str(target))
        if "error" in answer:
            return answer
        facts[label] = answer["facts"]
        with target.open("rb") as file:
            samples = {p: np.frombuffer(file.read(size), workload.dtype) for p, size in answer["kept"]}
        target.unlink()
        return Stored(answer["digests"], samples)

    facts: dict[str, Any] = {}
    reference = stored(workload.reference)
    if isinstance(reference, dict):
        return {workload.reference: reference}
    found: dict[str, Any] = {workload.reference: {"num_frames": len(reference.digests), "reference": True}}
    for label, process in labels.items():
        if label != workload.reference and process.labels[label][1]:
            other = stored(label)
            found[label] = other if isinstance(other, dict) else compare(reference, other).to_json()
    for label, told in facts.items():
        if told:
            found[label]["facts"] = told
    return found


def measured_memory(
    workload: Workload, pythons: dict[str, str], inputs: Inputs, rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """Return peak memory of every label: a fresh process each time, its children counted."""
    taken: dict[str, list[dict[str, Any]]] = {}
    for name in (name for name in workload.contestants if name in pythons):
        for _ in range(rounds):
            with started(workload, pythons, inputs, [name]) as labels:
                todo = list(labels)
            for label in todo:
                with started(workload, pythons, inputs, [name]) as labels:
                    watch = machine.MemoryWatch(labels[label].pid)
                    watch.start()
                    answer = labels[label].ask(do="run", label=label)
                    peak = watch.stop()
                taken.setdefault(label, []).append({**answer, "peak_bytes": peak})
    return taken


def versions_of(name: str, python: str) -> dict[str, str]:
    """Return the versions of what a contestant runs on."""
    if name == "ffmpeg":
        line = subprocess.run(["ffmpeg", "-version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        return {"ffmpeg": line.split()[2]}
    command = [python, str(HERE / "measure.py"), "versions", *PACKAGES[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    if name == "hyperframes":
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        found["commit"] = done.stdout.strip() or "unknown"
    return found


def run_workload(
    workload: Workload, pythons: dict[str, str], inputs: Inputs, *, rounds: int, quiet: float, scratch: Path
) -> dict[str, Any]:
    """Return everything that was measured of one workload."""
    names = [name for name in workload.contestants if name in pythons]
    result: dict[str, Any] = {
        "workload": workload.name,
        "num_frames": inputs.num_frames,
        "num_memory": inputs.num_memory,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine.describe(),
        "versions": {name: versions_of(name, pythons[name]) for name in names},
    }
    if workload.kind == "memory":
        return {**result, "rounds": measured_memory(workload, pythons, inputs, min(rounds, 3))}
    if workload.kind == "position":
        return {**result, "agreement": positions(workload, pythons, inputs, scratch)}
    processes_failed = {}
    with started(workload, pythons, inputs, names) as labels:
        processes_failed = {n: "did not start" for n in names if n not in {p.name for p in labels.values()}}
        result["contestant"] = {label: process.name for label, process in labels.items()}
        result["agreement"] = compared(workload, labels, scratch, _length(workload, inputs))
        result["rounds"] = timed_rounds(labels, rounds, quiet)
    return {**result, **({"failed": processes_failed} if processes_failed else {})}


def positions(workload: Workload, pythons: dict[str, str], inputs: Inputs, scratch: Path) -> dict[str, Any]:
    """Compare one contestant at a time with the reference, since some hang and must be ended."""
    first, *others = (name for name in workload.contestants if name in pythons)
    found: dict[str, Any] = {}
    for name in others:
        with started(workload, pythons, inputs, [name]) as alone:
            todo = list(alone)
        for label in todo:
            with started(workload, pythons, inputs, [first, name]) as labels:
                only = {workload.reference: labels[workload.reference], label: labels[label]}
                found.update(compared(workload, only, scratch, 0))
    return found


def _length(workload: Workload, inputs: Inputs) -> int:
    if workload.name in ("memory_rgb", "median_yuv", "chain"):
        return inputs.num_memory
    lengths = {
        "sampling": len(non_uniform(inputs.num_frames)),
        "scaling": min(SCALING_FRAMES, inputs.num_memory),
        "python_only": PYTHON_FRAMES,
        "arrays_out": min(STORED_FRAMES, inputs.num_memory),
    }
    return lengths.get(workload.name, inputs.num_frames)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the workloads asked for; return the exit code."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what lies in memory is let go
    media, scratch = options.media, options.media / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    chosen = [find(name) for name in options.workloads] or list(WORKLOADS)
    pythons: dict[str, str] = {}
    for name in dict.fromkeys(name for workload in chosen for name in workload.contestants):
        try:
            pythons[name] = python_of(name, options.environments, dict(options.interpreter))
        except UnavailableError as error:
            sys.stderr.write(f"{name} is left out: {error}\n")
    num_memory = min(MEMORY_FRAMES, options.frames or MEMORY_FRAMES)
    with tempfile.TemporaryDirectory(prefix="rivals-", dir=options.raw) as raw:
        held = any(workload.in_memory for workload in chosen)
        memory = making.memory(media, num_memory, Path(raw)) if held else media
        odd = making.odd_files(media)
        for workload in chosen:
            num_frames = min(workload.num_frames, options.frames or workload.num_frames)
            clip = making.cut(media, num_frames)
            inputs = Inputs(str(clip), num_frames, str(memory), num_memory, odd, str(scratch))
            began = time.monotonic()
            result = run_workload(
                workload, pythons, inputs, rounds=options.rounds, quiet=options.quiet, scratch=scratch
            )
            options.results.mkdir(parents=True, exist_ok=True)
            text = json.dumps(result, indent=1, sort_keys=True) + "\n"
            (options.results / f"{workload.name}.json").write_text(text)
            sys.stderr.write(f"{workload.name}: {time.monotonic() - began:.0f} s\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hyperframes-rivals"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help="names of workloads; all if none is given")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (5)")
    parser.add_argument("--frames", type=int, default=0, help="at most so many frames, to try things out")
    parser.add_argument("--quiet", type=float, default=0.2, help="start a case when fewer cores are busy (0.2)")
    parser.add_argument("--environments", type=Path, default=cache / "environments", help="where rivals are installed")
    parser.add_argument("--media", type=Path, default=cache / "media", help="where inputs are kept")
    parser.add_argument("--raw", default="/dev/shm", help="a folder in memory, for frames that ffmpeg reads")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="where JSON is written")
    parser.add_argument(
        "--interpreter",
        action="append",
        default=[],
        type=lambda text: tuple(text.split("=", 1)),
        metavar="3.12=PATH",
        help="an interpreter for environments that need that Python",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
