"""A live run for as long as wanted, with the three curves to watch: what a frame costs, how long it waits, how memory grows.

    python benchmarks/bench_live_soak.py --hours 24 [--streams 8] [--source rtsp://CAMERA ...] [--save FILE]

Every interval one line: processor time a frame of everything, the operator included; how long hyperframes waited to be full; resident
memory. At the end a straight line through the memory, in megabytes an hour with its 95 % interval: it says whether a day can
become a month. Without `--source` threads push pictures of 320x240. Ledger, journal (kept for an hour) and metrics are on.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.console.metrics import Metrics, render
from hyperframes.drivers.live_journal import LiveJournal, Retention

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
import machine

FPS, SHAPE = 30, (360, 320)
WARM = 0.1
"""Share of the time that the line leaves out: pools and caches fill up first."""


@hf.operator(output=(1,))
def level(frames):
    """Return how bright each frame is."""
    return frames.reshape(len(frames), -1)[:, ::16].mean(1, keepdims=True).astype(np.uint8)


def resident_mb():
    """Return the memory of this process at present."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def slope(hours, megabytes):
    """Return the slope of a straight line in MB an hour, and half the width of its 95 % interval."""
    x, y = np.asarray(hours) - np.mean(hours), np.asarray(megabytes) - np.mean(megabytes)
    rise = float(x @ y / (x @ x))
    left = y - rise * x
    return rise, float(1.96 * np.sqrt(left @ left / max(1, len(x) - 2) / (x @ x)))


def push(live, number, ended):
    """Push pictures of one stream until `ended`."""
    frame, k, begin = np.full(SHAPE, number, np.uint8), 0, time.monotonic()
    while not ended.wait(max(0.0, begin + k / FPS - time.monotonic())):
        live.feed(f"cam{number}", frame, frame_id=k)
        k += 1


def soak(seconds, every, streams, sources, tell):
    """Run for `seconds`; call `tell` with what each interval showed, and return all of that."""
    metrics, ended, rows = Metrics(), threading.Event(), []
    with tempfile.TemporaryDirectory() as folder:
        with (
            LiveJournal(Path(folder) / "live.journal", retention=Retention(seconds=3600)) as journal,
            hf.LiveRuntime(
                sources, operator="activity", instruments=(metrics, journal), on_result=lambda result: None
            ) as live,
        ):
            threads = [threading.Thread(target=push, args=(live, i, ended)) for i in range(0 if sources else streams)]
            for thread in threads:
                thread.start()
            began, cpu, seen = time.monotonic(), time.process_time(), live.stats()["delivered"]
            while (elapsed := time.monotonic() - began) < seconds:
                time.sleep(min(every, seconds - elapsed))
                render(stats := live.stats(), metrics)
                now = time.process_time()
                rows.append(
                    {
                        "hours": (time.monotonic() - began) / 3600,
                        "frames": stats["delivered"] - seen,
                        "cpu_us_a_frame": 1e6 * (now - cpu) / max(1, stats["delivered"] - seen),
                        "pack_ms": {k: 1000 * v for k, v in stats["latency_seconds"].get("pack", {}).items()},
                        "resident_mb": resident_mb(),
                        "dropped": stats["dropped"],
                    }
                )
                cpu, seen = now, stats["delivered"]
                tell(rows[-1])
            ended.set()
            for thread in threads:
                thread.join()
        stats = live.stats()
    assert stats["captured"] == stats["delivered"] + sum(stats["dropped"].values())
    return rows


def summary(rows):
    """Return the three curves in a few numbers."""
    held = rows[int(WARM * len(rows)) :]
    rise, half = slope([r["hours"] for r in held], [r["resident_mb"] for r in held]) if len(held) > 2 else (0.0, 0.0)
    return {
        "hours": rows[-1]["hours"],
        "frames": sum(r["frames"] for r in rows),
        "cpu_us_a_frame": [held[0]["cpu_us_a_frame"], held[-1]["cpu_us_a_frame"]],
        "pack_p99_ms": [held[0]["pack_ms"].get("p99"), held[-1]["pack_ms"].get("p99")],
        "resident_mb": [held[0]["resident_mb"], held[-1]["resident_mb"]],
        "growth_mb_an_hour": rise,
        "growth_half_interval": half,
        "dropped": rows[-1]["dropped"],
    }


def main(argv=None):
    """Run, print a line an interval and one at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--source", action="append", metavar="URL")
    parser.add_argument("--save", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    rows = soak(
        3600 * options.hours,
        options.every,
        options.streams,
        options.source,
        lambda row: sys.stdout.write(json.dumps(row) + "\n"),
    )
    found = summary(rows)
    sys.stdout.write(json.dumps(found) + "\n")
    if options.save:
        told = {"workload": "live_soak", **machine.provenance("numpy"), "summary": found, "rows": rows}
        options.save.write_text(json.dumps(told, indent=1) + "\n")


def test_a_line_is_found_through_memory_that_grows_and_wavers():
    hours = np.linspace(0, 24, 1000)
    rise, half = slope(hours, 200 + 1.5 * hours + np.random.default_rng(1).normal(0, 3, 1000))
    assert abs(rise - 1.5) < half < 0.1


@pytest.mark.slow
@pytest.mark.requirement("B93", "B101")
def test_a_long_run_tells_what_a_frame_costs_how_long_it_waits_and_how_memory_grows():
    """A short run: nothing is timed here."""
    rows = soak(2, 0.25, 2, None, lambda row: None)
    assert len(rows) >= 2
    assert all(row["cpu_us_a_frame"] > 0 and row["resident_mb"] > 1 for row in rows)
    assert rows[-1]["pack_ms"]["p99"] > 0
    found = summary(rows)
    assert found["frames"] > 20
    assert found["growth_half_interval"] >= 0


if __name__ == "__main__":
    main()
