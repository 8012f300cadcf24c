"""Pushing frames into a live run without decoding them, beside a list + `np.stack` + `queue.Queue`, and a plain copy.

    python benchmarks/bench_live_push.py [--core ROUNDS] [--paced SECONDS] [--unpaced SECONDS] [--save FILE]

Frames are 4:2:0 pictures in one plane, as decoders deliver them. Ledger, journal and an instrument that counts are on.
Core: everything but copies and threads, on tiny frames under virtual time, as processor time of this process with the journal's
thread; beside it what a plain loop in Python takes, since clock rates change: the figure that holds up on a busy machine.
Paced: 48 producers of 30 frames/s each, out of phase as cameras are; CPU is that of the whole process, producers and their
copies included. Unpaced: as fast as 48 producers can. Read ratios to the copy limit of the same run: a busy machine slows both.
"""

import argparse
import json
import queue
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import hyperframes as hf

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
import machine

from hyperframes.clock import ManualClock
from hyperframes.drivers.live_journal import LiveJournal
from hyperframes.frames import copy_planes
from hyperframes.testing.live import VirtualCrew

PRODUCERS, FPS = 48, 30
SIZES = {"320x240": (360, 320), "640x480": (720, 640)}


class Counts:
    """An instrument that counts what it is told."""

    def __init__(self):
        self.kinds = {}

    def observe(self, observation):
        kind = observation["kind"]
        self.kinds[kind] = self.kinds.get(kind, 0) + 1


def live_run(shape, kind, size, seconds, *, paced):
    """Push for `seconds`; return frames a second delivered, CPU microseconds a frame, and the latencies."""
    counts, got = Counts(), [0]

    def take(result):
        got[0] += 1

    with tempfile.TemporaryDirectory() as folder, LiveJournal(Path(folder) / "live.db") as journal:
        when_full = "drop_oldest" if paced else "block"
        live = hf.LiveRuntime(
            packing=hf.Packing(
                size=size, kind=kind, timeout=None if paced else 10.0
            ),  # unpaced, cameras wait for each other
            on_result=take,
            when_full=when_full,
            instruments=(counts, journal),
        ).start()
        inlets = [live.inlet(f"cam{i}") for i in range(PRODUCERS)]

        began_ns = time.time_ns()

        def push(number, k, frame, stop):
            inlet = inlets[number]
            capture_ns = began_ns + round((k + number / PRODUCERS) / FPS * 1e9)  # by the cameras' own clocks
            slot = inlet.slot(frame_id=k, capture_ns=capture_ns, arrival_ns=time.time_ns())
            if slot is not None:
                copy_planes(slot, (frame,))
                inlet.push()
            return not stop.is_set()

        for inlet in inlets:
            inlet.trusted = True  # unpaced, their clocks run ahead of ours
            inlet.open(hf.FrameSpec.array(shape, np.uint8), rate=FPS if paced else None)
        wall, cpu, _ = produce(shape, push, seconds, paced=paced)
        took = live.stats()["latency_seconds"]  # stopping seals what is not full, long after its last frame came
        stats = live.stop()
    assert stats["captured"] == stats["delivered"] + sum(stats["dropped"].values())
    assert got[0] == stats["delivered"]
    return {
        "frames_per_second": stats["delivered"] / wall,
        "cpu_us_per_frame": 1e6 * cpu / max(1, stats["captured"]),
        "cores": cpu / wall,
        "dropped": stats["dropped"],
        "last_to_result_ms": {k: 1000 * v for k, v in took.get("last", {}).items()},
        "lock_wait_share": stats["lock_wait_share"],
        "hyperframes": stats["hyperframes"],
    }


def core_run(kind, size, rounds):
    """Push tiny frames of 48 streams under virtual time; return CPU microseconds a frame, and those of a plain loop."""
    clock, got = ManualClock(10**18), [0]
    crew = VirtualCrew(clock)

    def take(result):
        got[0] += 1

    with tempfile.TemporaryDirectory() as folder, LiveJournal(Path(folder) / "live.db") as journal:
        live = hf.LiveRuntime(
            packing=hf.Packing(size=size, kind=kind, timeout=10.0),
            on_result=take,
            clock=clock,
            crew=crew,
            queue=4 * PRODUCERS,
            instruments=(Counts(), journal),
        ).start()
        inlets = [live.inlet(f"cam{i}") for i in range(PRODUCERS)]
        for inlet in inlets:
            inlet.open(hf.FrameSpec.array((8, 8), np.uint8), rate=FPS)

        def play(first, stop):
            for k in range(first, stop):
                for number, inlet in enumerate(inlets):
                    at_ns = 10**18 + round((k + number / PRODUCERS) / FPS * 1e9)
                    if inlet.slot(frame_id=k, capture_ns=at_ns, arrival_ns=at_ns) is not None:
                        inlet.push()
                clock.advance(1 / FPS)
                crew.settle()

        play(0, 40)  # codes are warm, memory is there
        figures = []
        for number in range(rounds):
            cpu = time.process_time()
            play(40 + 80 * number, 120 + 80 * number)
            time.sleep(0.25)  # the journal's thread writes every 0.2 s
            figures.append((time.process_time() - cpu) / 80 / PRODUCERS * 1e6)
        stats = live.stop()
    assert stats["captured"] == stats["delivered"] == got[0]
    return {
        "cpu_us_per_frame": statistics.median(figures),
        "least_cpu_us_per_frame": min(figures),
        "plain_loop_ms": plain_loop_ms(),
    }


def plain_loop_ms():
    """Return the CPU milliseconds of 20,000 turns of a loop that counts in a dict, the least of five."""

    def turn():
        counts = {}
        for i in range(20_000):
            counts[i & 63] = counts.get(i & 63, 0) + i

    found = []
    for _ in range(5):
        cpu = time.thread_time()
        turn()
        found.append(1000 * (time.thread_time() - cpu))
    return min(found)


def naive_run(shape, size, seconds, *, paced):
    """The usual design: every producer hands its frame on, one thread stacks, another calls back for each frame."""
    frames, stacked = queue.Queue(maxsize=2 * size), queue.Queue(maxsize=4)
    got = [0]

    def stack():
        held = []
        while (item := frames.get()) is not None:
            held.append(item)
            if len(held) == size:
                stacked.put((np.stack([frame for frame, _ in held]), [meta for _, meta in held]))
                held = []
        stacked.put(None)

    def consume():
        while (item := stacked.get()) is not None:
            for _ in item[1]:
                got[0] += 1

    threads = [threading.Thread(target=stack), threading.Thread(target=consume)]
    for thread in threads:
        thread.start()

    def push(number, k, frame, stop):
        frames.put((frame.copy(), (number, time.time_ns())))  # a camera's buffer is used again: it must be copied
        return not stop.is_set()

    wall, cpu, pushed = produce(shape, push, seconds, paced=paced)
    frames.put(None)
    for thread in threads:
        thread.join()
    return {"frames_per_second": got[0] / wall, "cpu_us_per_frame": 1e6 * cpu / max(1, pushed), "cores": cpu / wall}


def produce(shape, push, seconds, *, paced):
    """Run the producers for `seconds`; return wall seconds, CPU seconds and frames pushed."""
    stop, pushed = threading.Event(), [0] * PRODUCERS
    begin = time.monotonic() + 0.2

    def produce_one(number):
        frame = np.full(shape, number, np.uint8)
        phase, k = number / PRODUCERS / FPS, 0
        goes_on = True
        while goes_on:
            if paced:
                time.sleep(max(0.0, begin + phase + k / FPS - time.monotonic()))
            goes_on = push(number, k, frame, stop)
            pushed[number] = k = k + 1

    threads = [threading.Thread(target=produce_one, args=(i,)) for i in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    time.sleep(1.5)  # what only the first frames cost is not counted: fresh memory
    before, cpu, wall = sum(pushed), time.process_time(), time.monotonic()
    time.sleep(seconds)
    cpu, wall, after = time.process_time() - cpu, time.monotonic() - wall, sum(pushed)
    stop.set()
    for thread in threads:
        thread.join()
    share = (after - before) / max(1, sum(pushed))
    return wall / max(share, 1e-9), cpu / max(share, 1e-9), sum(pushed)


def copy_limit(shape, seconds=1.0):
    """Return the frames a second that one thread copies, over more memory than caches hold."""
    target = np.empty((256, *shape), np.uint8)
    frame = np.full(shape, 7, np.uint8)
    sources = [frame.copy() for _ in range(PRODUCERS)]
    for slot in target:
        np.copyto(slot, frame)
    began, copied = time.process_time(), 0
    while time.process_time() - began < seconds:
        for i in range(len(target)):
            np.copyto(target[i], sources[i % PRODUCERS])
        copied += len(target)
    return copied / (time.process_time() - began)


def main(argv=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", type=int, default=5)
    parser.add_argument("--paced", type=float, default=5.0)
    parser.add_argument("--unpaced", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write medians of the rounds there, as JSON")
    options = parser.parse_args(argv)
    rows = []
    busy, began = machine.busy_seconds() - time.process_time(), time.monotonic()
    for number in range(options.rounds):
        if options.core:
            for kind, size in (("spatial", 1), ("temporal", 8)):
                row = {"mode": "core", "what": f"live {kind} {size if size > 1 else PRODUCERS}"}
                rows.append({"round": number, **row, **core_run(kind, size, options.core)})
                sys.stdout.write(json.dumps(rows[-1]) + "\n")
        for name in SIZES if options.paced or options.unpaced else ():
            for row in measured(name, options.paced, options.unpaced):
                rows.append({"round": number, **row})
                sys.stdout.write(json.dumps(rows[-1]) + "\n")
    if options.save:
        others = (machine.busy_seconds() - time.process_time() - busy) / (time.monotonic() - began)
        told = {"workload": "live_push", **machine.provenance("numpy"), "rounds": options.rounds}
        told |= {"other_cores": max(0.0, others), "rows": medians(rows)}
        options.save.write_text(json.dumps(told, indent=1) + "\n")


def medians(rows):
    """Return one row for each contender: the median of every number over the rounds."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row.get(key) for key in ("size", "mode", "what")), []).append(row)
    return [_median([{**row, "round": len(same)} for row in same]) for same in found.values()]


def _median(values):
    first = values[0]
    if isinstance(first, dict):
        return {key: _median([value.get(key, 0) for value in values]) for key in first}
    return first if isinstance(first, str) else statistics.median(values)


def measured(name, paced_seconds, unpaced_seconds):
    """Yield a row for each contender, in turn."""
    shape = SIZES[name]
    yield {"size": name, "what": "copy", "frames_per_second": copy_limit(shape)}
    for mode, seconds in (("paced", paced_seconds), ("unpaced", unpaced_seconds)):
        if seconds:
            paced = mode == "paced"
            base = {"size": name, "mode": mode}
            yield {**base, "what": "live spatial 48", **live_run(shape, "spatial", 1, seconds, paced=paced)}
            yield {**base, "what": "live temporal 8", **live_run(shape, "temporal", 8, seconds, paced=paced)}
            yield {**base, "what": "list + stack + queue", **naive_run(shape, PRODUCERS, seconds, paced=paced)}


def test_the_core_loses_no_frame_under_virtual_time():
    """A short run: nothing is timed here."""
    assert core_run("spatial", 1, 1)["cpu_us_per_frame"] > 0


def test_the_push_path_delivers_every_frame_when_writers_wait():
    """A short run: nothing is timed here."""
    found = live_run((24, 32, 3), "temporal", 8, 0.2, paced=False)
    assert not found["dropped"]


if __name__ == "__main__":
    main()
