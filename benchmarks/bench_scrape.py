"""What a scrape of the metrics costs a live run, by how many sources it has.

    python benchmarks/bench_scrape.py [--rounds 3] [--json benchmarks/results/scrape.json]

Runs of hyperframes of 8 frames of each source, under virtual time, with a journal and the console as instruments; then the metrics
are asked for, again and again. ``text`` is the processor time of the thread that counts and writes the text: it holds the
interpreter's lock meanwhile, and frames wait for that. ``http`` is that of the whole process for a request over HTTP, less what the
asking thread takes. Beside them prometheus_client writes the same families, already counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

import hyperframes as hf

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
import machine

from hyperframes.clock import ManualClock
from hyperframes.console.server import Console
from hyperframes.drivers.live_journal import LiveJournal
from hyperframes.testing.live import VirtualCrew

SOURCES = (1, 12, 48, 96)
SECONDS, FPS = 4, 30


def measure(sources, times):
    """Return milliseconds a scrape of a run with so many sources, and what the text holds."""
    clock = ManualClock(10**18)
    crew = VirtualCrew(clock)
    with (
        tempfile.TemporaryDirectory() as folder,
        LiveJournal(Path(folder) / "live.journal") as journal,
        Console("127.0.0.1:0") as console,
    ):
        live = hf.LiveRuntime(
            packing=hf.Packing(size=8), clock=clock, crew=crew, queue=4 * sources, instruments=(journal, console)
        ).start()
        console.watch(live.stats, journal.stats)
        frame = np.zeros((4, 6), np.uint8)
        for number in range(SECONDS * FPS):
            for source in range(sources):
                live.feed(f"camera at gate {source}", frame, frame_id=number, timestamp=clock.now_ns() / 1e9)
            clock.advance(1 / FPS)
            crew.settle()
        text = console.text()
        told = {
            "text_ms": median_ms(console.text, times, time.thread_time),
            "http_ms": asked_ms(f"{console.url}/metrics", times),
            "prometheus_client_ms": median_ms(prometheus(text), times, time.thread_time),
            "lines": text.count("\n"),
            "bytes": len(text),
        }
        live.stop()
    return told


def median_ms(call, times, clock):
    """Return the median of what `call` takes by `clock`."""
    took = []
    for _ in range(times):
        began = clock()
        call()
        took.append(1e3 * (clock() - began))
    return statistics.median(took)


def asked_ms(url, times):
    """Return what a request takes of all threads but this one."""

    def others():
        return time.process_time() - time.thread_time()

    def ask():
        with urllib.request.urlopen(url) as answer:
            assert answer.read().startswith(b"# HELP")

    return median_ms(ask, times, others)


def prometheus(text):
    """Return what writes the families in `text` by prometheus_client, without collecting them."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.parser import text_string_to_metric_families

    families = list(text_string_to_metric_families(text))

    class Collector:
        def collect(self):
            return families

    registry = CollectorRegistry()
    registry.register(Collector())
    return lambda: generate_latest(registry)


def main(argv=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=100, help="scrapes of each round")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args(argv)
    busy, cpu, began = machine.busy_seconds(), time.process_time(), time.monotonic()
    rounds = [{sources: measure(sources, given.times) for sources in SOURCES} for _ in range(given.rounds)]
    others = (machine.busy_seconds() - busy - (time.process_time() - cpu)) / (time.monotonic() - began)
    found = {
        sources: {what: statistics.median(one[sources][what] for one in rounds) for what in rounds[0][sources]}
        for sources in SOURCES
    }
    for sources, told in found.items():
        print(sources, json.dumps(told))  # noqa: T201 - the result
    if given.json:
        told = {"workload": "scrape", **machine.provenance("numpy", "prometheus-client"), "rounds": given.rounds}
        told |= {"other_cores": max(0.0, others), "sources": found}
        given.json.write_text(json.dumps(told, indent=1) + "\n")


def test_a_scrape_holds_every_source():
    """Nothing is timed here."""
    few, more = measure(1, 1), measure(4, 1)
    assert more["lines"] > few["lines"]
    assert all(told[what] > 0 for told in (few, more) for what in ("text_ms", "prometheus_client_ms"))


if __name__ == "__main__":
    main()
