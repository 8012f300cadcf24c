"""An operator in plain Python, which holds the interpreter's lock: threads and processes, one worker and two.

The median is the whole run, start of the workers included; `extra_info` has the frames a second while both work, from the
first task's beginning to the last one's end, and the CPU seconds of all processes together: on a machine that others use
too, twice one thread's CPU seconds over those of two processes tells how they would scale on two free cores.
"""

import json
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.operators import Contract, Operator, Output
from hyperframes.sinks.null import NullSink

RIVALS = Path(__file__).parent / "rivals"
RESULT = Path(__file__).parent / "results" / "processes.json"
"""What the page of benchmarks shows; written when timing is enabled."""
CASES = [("threads", 1), ("threads", 2), ("processes", 1), ("processes", 2)]
ROUNDS = 3


class Threshold(Operator):
    """Marks what is brighter than its neighbour on the left, sample by sample in Python."""

    name = "threshold"

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),))

    def apply(self, inputs, outputs, state, prepared):
        for frame, out in zip(inputs[0].core_data, outputs[0].data, strict=True):
            for row, line in zip(frame.tolist(), out, strict=True):
                line[...] = [255 if b > a else 0 for a, b in zip([0, *row], row, strict=False)]


class Busy:
    """Sees when the first task began and the last one ended."""

    def __init__(self):
        self.begins, self.ends = [], []

    def observe(self, seen):
        if seen["kind"] == "done":
            self.begins.append(seen["begin_ns"])
            self.ends.append(seen["begin_ns"] + seen["duration_ns"])

    def frames_per_second(self, frames):
        return frames / (max(self.ends) - min(self.begins)) * 1e9


def cpu_seconds():
    """CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def timed(frames, executor, workers):
    """Run it and return wall seconds without the start, CPU seconds with it, and frames."""
    seen, cpu = Busy(), cpu_seconds()
    result = hf.run(frames, Threshold(), NullSink(), executor=executor, workers=workers, size=8, instruments=(seen,))
    seconds = len(frames) / seen.frames_per_second(len(frames))
    return {"seconds": seconds, "cpu_seconds": cpu_seconds() - cpu, "done": result.frames_out}


@pytest.mark.slow
def test_all_are_kept_for_the_page(benchmark):
    """Rounds of all four, one after another, so that whatever the machine does meets all of them."""
    frames = np.random.default_rng(0).integers(0, 256, (600 if benchmark.enabled else 24, 180, 320), np.uint8)

    def rounds():
        return [
            [timed(frames, executor, workers) for executor, workers in CASES]
            for _ in range(ROUNDS if benchmark.enabled else 1)
        ]

    found = benchmark.pedantic(rounds, rounds=1)
    assert all(run["done"] == len(frames) for runs in found for run in runs)
    if benchmark.enabled:
        keep(found)


def keep(found):
    """Write what was measured where the page of benchmarks looks for it."""
    if str(RIVALS) not in sys.path:
        sys.path.insert(0, str(RIVALS))
    import machine

    told = {f"{executor}, {workers}": [runs[at] for runs in found] for at, (executor, workers) in enumerate(CASES)}
    ratio = statistics.median(runs[2]["seconds"] / runs[3]["seconds"] for runs in found)
    told = {"rounds": told, "two_processes_against_one": ratio}
    told |= machine.provenance("numpy")
    RESULT.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize(("executor", "workers"), CASES)
def test_an_operator_that_holds_the_lock(benchmark, executor, workers):
    count = 1200 if benchmark.enabled else 24
    frames = np.random.default_rng(0).integers(0, 256, (24, 180, 320), np.uint8)
    left = np.pad(frames, ((0, 0), (0, 0), (1, 0)))[:, :, :-1]
    expected = np.where(frames > left, 255, 0).astype(np.uint8)
    frames = np.concatenate([frames] * (count // 24))
    seen = Busy()

    def run():
        began, cpu = time.perf_counter(), cpu_seconds()
        sink = NullSink() if benchmark.enabled else None
        result = hf.run(frames, Threshold(), sink, executor=executor, workers=workers, size=8, instruments=(seen,))
        return result, time.perf_counter() - began, cpu_seconds() - cpu

    result, seconds, cpu = benchmark.pedantic(run, rounds=1)
    if not benchmark.enabled:
        assert result.array.tobytes() == expected.tobytes()
    assert result.frames_out == count
    benchmark.extra_info["frames_per_second_with_start"] = round(count / seconds, 1)
    benchmark.extra_info["frames_per_second"] = round(seen.frames_per_second(count), 1)
    benchmark.extra_info["cpu_seconds"] = round(cpu, 2)
    benchmark.extra_info["scheduler_share"] = round(result.scheduler_share, 4)
    benchmark.extra_info["peak_memory_bytes"] = result.peak_memory_bytes
