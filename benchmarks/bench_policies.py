"""What the scheduling policies gain on uneven content: measured costs of a content-dependent operator, replayed.

Each hyperframe's cost is measured once, in processor time of this thread, so that it is the machine's and not that of
whoever else uses it. The scheduler then runs them on four workers whose clock is moved by those costs: policies differ
in nothing but order. Times to read are in `extra_info`: the end, the tail (from the first worker that finds nothing to
do to the end) and the first output, each in seconds.
"""

import heapq
import json
import math
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.drivers import engine
from hyperframes.scheduling import POLICIES, Scheduler, StageGraph, StageNode
from hyperframes.scheduling.events import Done, Emit, MemoryFreed, Sealed, Start, StreamEnded, WorkerJoined
from hyperframes.sources import ArraySource

RIVALS = Path(__file__).parent / "rivals"
RESULT = Path(__file__).parent / "results" / "policies.json"
"""What the page of benchmarks shows; written when timing is enabled."""
WORKERS, SIZE, HYPERFRAMES = 4, 4, 24
HEAVY = (3, 17, 22)
"""Hyperframes full of motion, one of them near the end."""


def _frames():
    """Still pictures with noise only where something moves: everywhere in a heavy hyperframe, nowhere else."""
    random = np.random.default_rng(0)
    frames = np.full((SIZE * HYPERFRAMES, 90, 160), 60, np.uint8)
    for heavy in HEAVY:
        span = slice(heavy * SIZE, (heavy + 1) * SIZE)
        frames[span] = random.integers(0, 255, frames[span].shape, np.uint8)
    return frames


def _refine(frames):
    """Take the median of nine rows around each, in one pass where nothing moves and in ten where something does."""
    out = frames[:-1].copy()
    moving = (frames[1:] != frames[:-1]).any(axis=2)
    for t, y in np.ndindex(moving.shape):
        rows = frames[t, max(0, y - 4) : y + 5].astype(np.float32)
        for _ in range(10 if moving[t, y] else 1):
            rows = np.sort(rows, axis=0)
        out[t, y] = rows[len(rows) // 2]
    return out


@pytest.fixture(scope="module")
def costs():
    """(measured seconds, cost expected from the share of pixels that change) of every hyperframe."""
    return _measured()


def _measured():
    found = []
    for hyperframe in ArraySource(_frames()).hyperframes(size=SIZE, halo=(0, 1)):
        _refine(hyperframe.data)  # warm
        began = time.thread_time()
        _refine(hyperframe.data)
        seconds = time.thread_time() - began
        found.append((seconds, float((hyperframe.data[1:] != hyperframe.data[:-1]).mean())))
    return found


ONE = StageGraph.single()
TWO = StageGraph((StageNode("refine"), StageNode("draw", after=(0,))))


def replay(costs, graph, policy):
    """Run the scheduler with all hyperframes sealed; return end, tail and first output in seconds of its clock."""
    scheduler = Scheduler(graph, policy=policy, capacity=len(costs), results=len(costs))
    now, running, order, busy_until, idle_from, first = 0.0, [], 0, 0.0, None, None

    def carry_out(instructions):
        nonlocal order, first, busy_until
        for instruction in instructions:
            if isinstance(instruction, Start):
                seconds = costs[instruction.task.id][0] / len(graph.nodes)
                order += 1
                busy_until = max(busy_until, now + seconds)
                heapq.heappush(running, (now + seconds, order, instruction.task, seconds))
            elif isinstance(instruction, Emit):
                first = now if first is None else first
                carry_out(scheduler.step(MemoryFreed(1), int(now * 1e9)))

    carry_out(scheduler.start())
    for number, (_, expected) in enumerate(costs):
        carry_out(scheduler.step(Sealed(number, cost=expected, frames=SIZE), 0))
    carry_out(scheduler.step(StreamEnded(), 0))
    for worker in range(WORKERS):
        carry_out(scheduler.step(WorkerJoined(worker), 0))
    while running:
        now, _, task, seconds = heapq.heappop(running)
        carry_out(scheduler.step(Done(task, int(seconds * 1e9)), int(now * 1e9)))
        if idle_from is None and len(running) < WORKERS:
            idle_from = now
        if len(running) == WORKERS:
            idle_from = None
    return {"end": now, "tail": now - (now if idle_from is None else idle_from), "first_output": first}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("graph", [ONE, TWO], ids=["one stage", "two stages"])
def test_a_policy_on_uneven_content(benchmark, costs, graph, policy):
    benchmark.extra_info.update(benchmark(replay, costs, graph, policy))


def test_all_policies_are_kept_for_the_page(benchmark):
    """Five measurements of the costs, each replayed under every policy: medians."""
    found = [_measured() for _ in range(5 if benchmark.enabled else 1)]
    told = {
        name: {policy: _medians([replay(costs, graph, policy) for costs in found]) for policy in POLICIES}
        for name, graph in (("one stage", ONE), ("two stages", TWO))
    }
    benchmark.pedantic(replay, (found[0], ONE, "fifo"))
    assert told["one stage"]["priority_by_cost"]["tail"] < told["one stage"]["fifo"]["tail"]
    if benchmark.enabled:
        heavy = statistics.median(seconds for costs in found for n, (seconds, _) in enumerate(costs) if n in HEAVY)
        light = statistics.median(seconds for costs in found for n, (seconds, _) in enumerate(costs) if n not in HEAVY)
        keep({"policies": told, "heavy_seconds": heavy, "light_seconds": light})


def _medians(runs):
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def keep(told):
    """Write what was measured where the page of benchmarks looks for it."""
    if str(RIVALS) not in sys.path:
        sys.path.insert(0, str(RIVALS))
    import machine

    told |= {"hyperframes": HYPERFRAMES, "heavy": len(HEAVY), "workers": WORKERS}
    told |= machine.provenance("numpy")
    RESULT.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


def test_priority_by_cost_shortens_the_tail(costs):
    fifo, by_cost = (replay(costs, ONE, policy) for policy in ("fifo", "priority_by_cost"))
    assert by_cost["tail"] < 0.5 * fifo["tail"]
    assert by_cost["end"] < fifo["end"]


def test_priority_by_index_brings_the_first_output_earlier(costs):
    fifo, by_index = (replay(costs, TWO, policy) for policy in ("fifo", "priority_by_index"))
    assert by_index["first_output"] < 0.5 * fifo["first_output"]


# In a real run ----------------------------------------------------------------------------------------------------------

RUN_SIZE, RUN_HYPERFRAMES, RUN_WORKERS = 16, 30, 2
RUN_HEAVY = (9, 14, 20, 27)


def _uneven():
    """Still pictures, and some stretches of noise."""
    random = np.random.default_rng(0)
    frames = np.full((RUN_SIZE * RUN_HYPERFRAMES, 96, 128), 60, np.uint8)
    for heavy in RUN_HEAVY:
        span = slice(heavy * RUN_SIZE, (heavy + 1) * RUN_SIZE)
        frames[span] = random.integers(0, 255, frames[span].shape, np.uint8)
    return frames


@hf.operator(halo=(2, 2))
def _median_where_it_moves(frames):
    """Take the median of five frames; iterate it where something moves (sorting leaves the interpreter lock)."""
    out = frames[2:-2].copy()
    for t in range(len(out)):
        moving = bool((frames[t + 2] != frames[t + 1]).any())
        for _ in range(10 if moving else 2):
            out[t] = np.sort(frames[t : t + 5], axis=0)[2]
    return out


def run_uneven(heavy, policy="fifo"):
    """Run it with heavy hyperframes split from `heavy` medians on; return seconds and the share that workers idle."""
    spans = []

    class Watch:
        def observe(self, observation):
            if observation["kind"] == "done":
                spans.append((observation["begin_ns"], observation["begin_ns"] + observation["duration_ns"]))

    before, engine.HEAVY = engine.HEAVY, heavy
    try:
        options = {"size": RUN_SIZE, "workers": RUN_WORKERS, "scheduling_policy": policy}
        result = hf.run(_uneven(), _median_where_it_moves, to="null:", instruments=(Watch(),), **options)
    finally:
        engine.HEAVY = before
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    busy = sum(stop - start for start, stop in spans)
    return {"seconds": result.seconds, "idle_share": 1 - busy / (RUN_WORKERS * (end - begin))}


@pytest.mark.parametrize("heavy", [2.0, math.inf], ids=["heavy ones split", "none split"])
def test_a_run_over_uneven_content(benchmark, heavy):
    benchmark.extra_info.update(benchmark(run_uneven, heavy))
