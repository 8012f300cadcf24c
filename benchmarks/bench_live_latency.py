"""How long hyperframes take from their seal to their result: one series, many streams, a budget, and overload.

    python benchmarks/bench_live_latency.py [--only series streams budget overload] [--save FILE]

The operator waits (as a device would be waited for), so that what is measured beside it is the run's own time. Each figure has
its limit beside it: the operator's time, or an ideal single server without any overhead that takes the recorded hyperframes in
the order of their seals, each when it was sealed and for as long as the operator was seen to take.
"""

import argparse
import gc
import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

import hyperframes as hf
from hyperframes.scheduling.budget import LiveLoad, budget_for_latency

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
import machine

SHAPE = (24, 32, 3)
FPS = 30
BUDGET_SECONDS = 0.5


class Lives:
    """Arrival of the first frame, seal, time at work and end of every hyperframe, in monotonic nanoseconds."""

    def __init__(self):
        self.first, self.sealed, self.ended, self.service = {}, {}, {}, {}
        self.started, self.done = {}, {}
        self.dropped_ns = []

    def observe(self, observation):
        kind = observation["kind"]
        if kind == "sealed":
            number = observation["hyperframe"]
            self.sealed[number] = observation["ns"]
            self.first[number] = observation["ns"] - observation["wait_ns"]
        elif kind == "started":
            self.started[observation["hyperframe"]] = observation["ns"]
        elif kind == "done":
            self.done[observation["hyperframe"]] = observation["ns"]
            self.service[observation["hyperframe"]] = observation["duration_ns"]
        elif kind == "delivered":
            self.ended[observation["hyperframe"]] = observation["ns"]
        elif kind in {"dropped", "frames_dropped"}:
            self.dropped_ns.append(observation["ns"])


def waiting(seconds_per_hyperframe):
    """Return an operator that takes so long for a hyperframe, whatever its size."""

    @hf.operator(output=(1,))
    def wait(frames):
        time.sleep(seconds_per_hyperframe[0])
        return np.zeros((len(frames), 1), np.uint8)

    return wait


def play(live, streams, seconds, fps=FPS):
    """Push `fps` frames a second of each stream, out of phase, for `seconds`."""
    begin = time.monotonic() + 0.1

    def one(number):
        inlet = live.inlet(f"cam{number}")
        inlet.open(hf.FrameSpec.array(SHAPE, np.uint8), rate=fps)
        frame = np.full(SHAPE, number, np.uint8)
        for k in range(int(seconds * fps)):
            time.sleep(max(0.0, begin + number / streams / fps + k / fps - time.monotonic()))
            slot = inlet.slot(frame_id=k, capture_ns=None, arrival_ns=time.time_ns())
            if slot is not None:
                np.copyto(slot[0], frame)
                inlet.push()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(streams)]
    for thread in threads:
        thread.start()
    return threads


def ideal(lives):
    """Return seal to end in ns, by hyperframe, of a single server that takes them as they were sealed, without any overhead."""
    free, waits = 0, {}
    for number, sealed in sorted(lives.sealed.items(), key=lambda item: item[1]):
        if number in lives.service:
            free = max(free, sealed) + lives.service[number]
            waits[number] = free - sealed
    return waits


def own_ns(lives):
    """Return what the run adds to each hyperframe: idle before its start while it was sealed, and all but the operator after."""
    free, own = 0, []
    for number, started in sorted(lives.started.items(), key=lambda item: item[1]):
        if number in lives.ended:
            own.append(
                started - max(free, lives.sealed[number]) + lives.ended[number] - started - lives.service[number]
            )
            free = started + lives.service[number]
    return own


def percentile(values, q):
    return float(np.percentile(list(values), q)) / 1e6 if len(values) else 0.0


def at_load(share, streams, size, seconds, **options):
    """Run at a share of what the worker can do; return the lives, the stats and figures in ms."""
    service = [share * size / (FPS * streams)]
    lives = Lives()
    live = hf.LiveRuntime(
        packing=hf.Packing(size=size), operator=waiting(service), instruments=(lives,), **options
    ).start()
    for thread in play(live, streams, seconds):
        thread.join()
    stats = live.stop()
    took = {n: lives.ended[n] - lives.sealed[n] for n in lives.ended}
    servers = ideal(lives)
    return (
        lives,
        stats,
        {
            "operator_ms": 1000 * service[0],
            "measured_operator_ms": [percentile(lives.service.values(), q) for q in (50, 99)],
            "result_ms": [percentile(took.values(), q) for q in (50, 99)],
            "ideal_ms": [percentile(servers.values(), q) for q in (50, 99)],
            "own_ms": [percentile(own_ns(lives), q) for q in (50, 99)],
            "hyperframes": len(took),
            "dropped": stats["dropped"],
        },
    )


def series(seconds):
    """One stream at 70 % load: its p99 should stay within 1.2 times the operator's time."""
    _, _, figures = at_load(0.7, 1, 4, seconds)
    return {
        "what": "one series, 70 % load",
        **figures,
        "p99_over_operator": figures["result_ms"][1] / figures["operator_ms"],
    }


def streams(seconds):
    """Twelve streams at 70 % load: within 10 % of the ideal server, own time at most 20 % of the operator's."""
    _, _, figures = at_load(0.7, 12, 4, seconds)
    return {
        "what": "12 streams, 70 % load",
        **figures,
        "p99_over_ideal": figures["result_ms"][1] / figures["ideal_ms"][1],
        "own_p99_over_operator": figures["own_ms"][1] / figures["operator_ms"],
    }


def budget(seconds):
    """24 streams at 90 % load within a budget: how many hyperframes kept it, from their first frame's arrival."""
    load = LiveLoad(fps=FPS, sources=24, infer_per_frame=0.9 / (24 * FPS))
    answer = budget_for_latency(load, BUDGET_SECONDS, max_size=8)
    lives, _, figures = at_load(0.9, 24, answer.size, seconds, queue=answer.queue_depth + 24, ttl=BUDGET_SECONDS)
    total = [lives.ended[n] - lives.first[n] for n in lives.ended]
    kept = sum(ns <= BUDGET_SECONDS * 1e9 for ns in total)
    return {
        "what": "24 streams, 90 % load, 500 ms budget",
        "size": answer.size,
        **figures,
        "total_ms": [percentile(total, q) for q in (50, 99, 99.9)],
        "kept": kept / max(1, len(lives.sealed)),
    }


def resident_mb():
    """Return the memory of this process at present."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def overload(seconds, when_full="drop_oldest"):
    """150 % load, then almost none: bounded latency, counted drops, stable memory, and how soon it is as before."""
    service = [1.5 * 4 / (FPS * 4)]
    lives = Lives()
    live = hf.LiveRuntime(
        packing=hf.Packing(size=4), operator=waiting(service), instruments=(lives,), when_full=when_full
    ).start()
    threads = play(live, 4, 1.5 * seconds)
    time.sleep(seconds / 3)
    gc.collect()
    memory = resident_mb()
    time.sleep(2 * seconds / 3)
    grown, busy = resident_mb() - memory, live.stats()
    service[0] = 0.002
    eased = time.monotonic_ns()
    while live.stats()["queue"]["depth"] and time.monotonic_ns() - eased < 10e9:
        time.sleep(0.005)
    emptied = time.monotonic_ns()
    for thread in threads:
        thread.join()
    stats = live.stop()
    last_drop = max([ns for ns in lives.dropped_ns if ns > eased], default=eased)
    total = [lives.ended[n] - lives.first[n] for n in lives.ended if lives.ended[n] < eased]
    return {
        "what": f"4 streams, 150 % load, then calm; {when_full}",
        "seconds": seconds,
        "level_when_busy": busy["level"],
        "total_ms": [percentile(total, q) for q in (50, 99, 100)],
        "memory_grown_mb": grown,
        "queue_empty_after_s": (emptied - eased) / 1e9,
        "last_drop_after_s": (last_drop - eased) / 1e9,
        "level_at_the_end": stats["level"],
        "captured": stats["captured"],
        "delivered": stats["delivered"],
        "dropped": stats["dropped"],
        "adds_up": stats["captured"] == stats["delivered"] + sum(stats["dropped"].values()),
    }


PARTS = {
    "series": (lambda scale: [series(30 * scale)]),
    "streams": (lambda scale: [streams(30 * scale)]),
    "budget": (lambda scale: [budget(62 * scale)]),
    "overload": (lambda scale: [overload(20 * scale), overload(20 * scale, "degrade")]),
}


def main(argv=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="of all durations; at 1 it takes some 3 minutes")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the figures there, as JSON")
    options = parser.parse_args(argv)
    rows = []
    busy, began = machine.busy_seconds() - time.process_time(), time.monotonic()
    for part in options.only:
        for row in PARTS[part](options.scale):
            rows.append(row)
            sys.stdout.write(json.dumps(row) + "\n")
    if options.save:
        others = (machine.busy_seconds() - time.process_time() - busy) / (time.monotonic() - began)
        told = {
            "workload": "live_latency",
            **machine.provenance("numpy"),
            "other_cores": max(0.0, others),
            "rows": rows,
        }
        options.save.write_text(json.dumps(told, indent=1) + "\n")


def test_overload_is_counted_and_passes():
    """A short run: nothing is timed here."""
    assert overload(0.3)["adds_up"]


def test_the_ideal_server_takes_hyperframes_one_after_the_other():
    lives = Lives()
    lives.sealed, lives.service = {0: 0, 1: 10, 2: 500}, {0: 100, 1: 100, 2: 50}
    assert ideal(lives) == {0: 100, 1: 190, 2: 50}
    lives.started, lives.ended = {0: 1, 1: 103, 2: 500}, {0: 102, 1: 210, 2: 555}
    assert own_ns(lives) == [1 + 1, 2 + 7, 5]


if __name__ == "__main__":
    main()
