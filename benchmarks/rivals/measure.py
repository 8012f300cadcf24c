"""Runs one contestant in an interpreter of its own, timed, as the runner asks.

Needs the standard library only, since it runs in every rival's environment. A contestant is a file with one function,
`contest(workload, inputs)`, that returns its cases by label; imports stand inside it. Requests and answers are lines of
JSON: ``run`` times a case once, ``frames`` stores some of its results for comparing.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import json
import os
import platform
import resource
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Inputs(NamedTuple):
    """What a contestant works on."""

    clip: str
    """1080p H.264."""
    num_frames: int
    """Frames in `clip`."""
    memory: str
    """Folder with frames to hold in memory: rgb.npy (N, 1080, 1920, 3), yuv.npy (N, 1620, 1920), raw copies of both."""
    num_memory: int
    """Frames in `memory`."""
    odd: dict[str, str]
    """Clips that are awkward to address by position, by name."""
    scratch: str
    """Folder for what is written."""


class Case(NamedTuple):
    """One way of doing a workload."""

    run: Callable[[], int] | None
    """The work that is timed: returns how many frames or rows it did. None where there is only something to compare."""
    frames: Callable[[], Iterable[Any]] | None = None
    """Its results as buffers, a frame each, laid out alike by all contestants: planes one after another, packed RGB."""
    before: Callable[[], object] | None = None
    """Run before each round, not timed."""
    facts: Callable[[], dict[str, Any]] | None = None
    """What else to keep of the last run, not timed: bytes written, memory predicted."""
    seconds: Callable[[], float] | None = None
    """Wall time of the last run that counts, where some of it is left out: then `facts` tells what."""


def load(path: str) -> Callable[[str, Inputs], dict[str, Case]]:
    """Return the function `contest` of a contestant's file; the module's name is no rival's."""
    spec = importlib.util.spec_from_file_location(f"contestant_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise LookupError(f"no contestant in {path!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.contest  # type: ignore[no-any-return]


def cpu_seconds() -> float:
    """Return CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def run(case: Case) -> dict[str, Any]:
    """Run a case once and return its times."""
    if case.run is None:
        raise ValueError("this case is only compared, not timed")
    if case.before is not None:
        case.before()
    gc.collect()
    cpu, began = cpu_seconds(), time.perf_counter()
    done = case.run()
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    if case.seconds is not None:
        seconds = case.seconds()
    facts = {} if case.facts is None else case.facts()
    return {"seconds": seconds, "cpu_seconds": cpu, "done": done, **({"facts": facts} if facts else {})}


def store(case: Case, keep: list[int] | None, target: str) -> dict[str, Any]:
    """Write the frames at the positions `keep` (None: all) to `target`, one after another; return what came out."""
    if case.frames is None:
        raise ValueError("this case has nothing to compare")
    if case.before is not None:
        case.before()
    wanted = None if keep is None else set(keep)
    digests, kept = [], []
    with open(target, "wb") as file:
        for position, frame in enumerate(case.frames()):
            data = memoryview(frame).cast("B")
            digests.append(hashlib.sha256(data).hexdigest()[:16])
            if wanted is None or position in wanted:
                kept.append([position, len(data)])
                file.write(data)
    return {"digests": digests, "kept": kept, "facts": {} if case.facts is None else case.facts()}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed here."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def serve(path: str, workload: str, inputs: Inputs) -> None:
    """Answer requests on standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print what they like; answers go where only answers go

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")

    try:
        cases = load(path)(workload, inputs)
    except Exception as error:  # noqa: BLE001 - whatever a rival raises is a result
        answer({"error": f"{type(error).__name__}: {error}"[:400]})
        return
    answer({"labels": {label: [case.run is not None, case.frames is not None] for label, case in cases.items()}})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            case = cases[request["label"]]
            if request["do"] == "run":
                answer(run(case))
            else:
                answer(store(case, request["keep"], request["target"]))
        except Exception as error:  # noqa: BLE001 - whatever a rival raises is a result
            answer({"error": f"{type(error).__name__}: {error}"[:400]})


if __name__ == "__main__":
    if sys.argv[1] == "versions":
        sys.stdout.write(json.dumps(versions(sys.argv[2:])) + "\n")
    else:
        serve(sys.argv[1], sys.argv[2], Inputs(**json.loads(sys.argv[3])))
