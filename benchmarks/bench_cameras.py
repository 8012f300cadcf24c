"""Many real RTSP cameras on one machine: capture, a live run packed as wide as there are cameras, and two plain readers.

    python benchmarks/bench_cameras.py                       # 48 cameras, 320x240, 30 frames/s, 10 s each
    python benchmarks/bench_cameras.py --size 640x480 --seconds 20 --only capture live

Each contender runs in a process of its own against one camera server on Debian's packages (tests/farm), one after the other,
for as many rounds as asked; then one of the cameras freezes and the others are counted for twice as long, from that moment on.
Processor time is the contender's own and holds up on a busy machine; frames/s and latencies do not.
"""

from __future__ import annotations

import argparse
import json
import queue
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks" / "rivals")]

import machine


class Counts:
    """What a contender has done so far: frames called back of each camera, and how old they were."""

    def __init__(self, cameras: int) -> None:
        self.frames = [0] * cameras
        self.ages_ns: list[int] = []
        self.stats = dict
        """What a live run says of itself."""
        self.scrape = None
        """Makes the text of a live run's metrics."""
        self.stale: list[float] = []
        """When the first camera was said to be stale, by the monotonic clock."""

    def observe(self, observation) -> None:
        """Take note of what a live run tells (Instrument)."""
        if observation["kind"] == "stream" and (observation["stream"], observation["state"]) == ("cam0", "stale"):
            self.stale.append(time.monotonic())

    def called_back(self, camera: int, since_ns: int | None) -> None:
        self.frames[camera] += 1
        if since_ns is not None:
            self.ages_ns.append(time.time_ns() - since_ns)


# Contenders: each starts to read all URLs and returns what ends it ----------------------------------------------------


def capture(urls, counts):
    """Decode and copy into a slot, nothing else."""
    from hyperframes.sources.camera import Capture

    class Slot:
        closed = False

        def __init__(self, camera):
            self.camera, self.planes, self.since_ns = camera, (), 0

        def open(self, spec, *, rate):
            self.planes = tuple(np.empty(shape, spec.dtype) for shape in spec.shapes)

        def slot(self, *, frame_id, capture_ns, arrival_ns):
            self.since_ns = arrival_ns if capture_ns is None else capture_ns
            return self.planes

        def push(self):
            counts.called_back(self.camera, self.since_ns)

        def drop(self, reason, count=1): ...
        def lost(self, reason): ...
        def restart(self, reason): ...
        def end(self, reason): ...

    captures = [Capture(url, Slot(i)).start() for i, url in enumerate(urls)]
    return lambda: [one.close() for one in captures]


def live(urls, counts):
    """A live run with journal and metrics: one instant of all cameras a hyperframe, a callback for each frame."""
    import hyperframes as hf
    from hyperframes.console.metrics import Metrics, render
    from hyperframes.drivers.live_journal import LiveJournal

    names = {f"cam{i}": url for i, url in enumerate(urls)}
    place = {name: i for i, name in enumerate(names)}

    def on_result(result):
        counts.called_back(place[result.stream], result.pts_ns)

    metrics, journal = Metrics(), LiveJournal(Path(tempfile.mkdtemp()) / "live.journal")
    runtime = hf.LiveRuntime(
        names, packing=hf.Packing(kind="spatial"), on_result=on_result, instruments=(counts, metrics, journal)
    )
    counts.stats = runtime.stats
    counts.scrape = lambda: render(runtime.stats(), metrics)
    runtime.start()

    def end():
        runtime.stop(drain=False)
        journal.close()
        shutil.rmtree(journal.path.parent)

    return end


def _stacked(reader, urls, counts):
    """Threads put frames on a queue; one consumer stacks as many as there are cameras and calls back for each."""
    waiting, ended = queue.Queue(maxsize=2 * len(urls)), threading.Event()

    def consume():
        while not ended.is_set():
            group = [waiting.get() for _ in urls]
            np.stack([frame for _, _, frame in group])
            for camera, since_ns, _ in group:
                counts.called_back(camera, since_ns)

    threads = [
        threading.Thread(target=reader, args=(i, url, waiting, ended), daemon=True) for i, url in enumerate(urls)
    ]
    for thread in [*threads, threading.Thread(target=consume, daemon=True)]:
        thread.start()
    return ended.set


def pyav(urls, counts):
    """A plain PyAV loop a camera, BGR arrays, numpy.stack."""
    import av

    def read(camera, url, waiting, ended):
        container = av.open(url, options={"rtsp_transport": "tcp"}, timeout=(10, 5))
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for frame in container.decode(stream):
            if ended.is_set():
                return
            waiting.put((camera, time.time_ns(), frame.to_ndarray(format="bgr24", threads=1)))

    return _stacked(read, urls, counts)


def opencv(urls, counts):
    """A cv2.VideoCapture a camera, numpy.stack."""
    import os

    os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "rtsp_transport;tcp"
    import cv2

    def read(camera, url, waiting, ended):
        reader = cv2.VideoCapture(url, cv2.CAP_FFMPEG)
        while not ended.is_set():
            there, frame = reader.read()
            if there:
                waiting.put((camera, time.time_ns(), frame))

    return _stacked(read, urls, counts)


CONTENDERS = {"capture": capture, "live": live, "pyav": pyav, "opencv": opencv}
AGES = {"capture": "camera", "live": "camera", "pyav": "read", "opencv": "read"}


# One contender in a process of its own --------------------------------------------------------------------------------


def measure(counts, seconds, healthy):
    """Return what happened in `seconds`: frames/s of the cameras `healthy`, processor time a frame, age of frames."""
    stats, before, cpu = counts.stats(), list(counts.frames), time.process_time()
    counts.ages_ns.clear()
    began = time.monotonic()
    time.sleep(seconds)
    elapsed, cpu = time.monotonic() - began, time.process_time() - cpu
    ages = sorted(counts.ages_ns)
    rates = [(after - start) / elapsed for start, after in zip(before, counts.frames, strict=True)]
    frames = sum(counts.frames) - sum(before)
    dropped, was = counts.stats().get("dropped", {}), stats.get("dropped", {})
    return {
        "dropped": {
            reason: count - was.get(reason, 0) for reason, count in dropped.items() if count > was.get(reason, 0)
        },
        "frames_per_second": sum(rates[i] for i in healthy),
        "slowest": min(rates[i] for i in healthy),
        "cpu_us_a_frame": cpu / max(frames, 1) * 1e6,
        "cores": cpu / elapsed,
        "age_ms": [ages[int(q * (len(ages) - 1))] / 1e6 for q in (0.5, 0.99)] if ages else [],
    }


def scrape_ms(scrape, times=21):
    """Return the processor time of the thread that makes the text of the metrics, while frames come."""
    took = []
    for _ in range(times):
        cpu = time.thread_time()
        scrape()
        took.append(1000 * (time.thread_time() - cpu))
        time.sleep(0.05)
    return statistics.median(took)


def child(name, base, cameras, seconds):
    """Run a contender; tell the parent when each phase is over, on standard output."""
    counts = Counts(cameras)
    began = time.monotonic()
    end = CONTENDERS[name]([f"{base}/cam{i}" for i in range(cameras)], counts)
    while min(counts.frames) < 1 and time.monotonic() - began < 90:
        time.sleep(0.005)
    result = {"start_seconds": time.monotonic() - began, "streaming": sum(count > 0 for count in counts.frames)}
    time.sleep(10)  # sender reports are in, at most 5 s apart, clocks were compared for 3 s, queues are level
    result["healthy"] = measure(counts, seconds, range(cameras))
    if counts.scrape is not None:
        result["scrape_ms"] = scrape_ms(counts.scrape)
    result["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("measured", flush=True)  # noqa: T201 - the parent reads it
    if cameras > 1 and (frozen := sys.stdin.readline()):
        result["one_frozen"] = measure(counts, 2 * seconds, range(1, cameras))
        told = [at - float(frozen) for at in counts.stale if at > float(frozen)]
        print("measured", flush=True)  # noqa: T201 - the parent reads it
        thawed, seen = float(sys.stdin.readline()), counts.frames[0]
        while counts.frames[0] == seen and time.monotonic() - thawed < 10:
            time.sleep(0.005)
        back = time.monotonic() - thawed if counts.frames[0] > seen else None
        result["frozen"] = {"told_after_seconds": told[0] if told else None, "back_after_seconds": back}
    print(json.dumps(result), flush=True)  # noqa: T201 - the parent reads it
    sys.stdout.flush()
    threading.Timer(5, lambda: __import__("os")._exit(0)).start()  # a reader that hangs must not hold the others up
    end()
    __import__("os")._exit(0)


def contend(name, cameras_server, cameras, seconds):
    """Run one contender against the server; return its figures."""
    command = [
        sys.executable,
        __file__,
        "--child",
        name,
        f"rtsp://127.0.0.1:{cameras_server.port}",
        str(cameras),
        str(seconds),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "measured\n", f"{name} ended with {process.wait()}"
        if cameras > 1:
            for what in ("freeze", "thaw"):
                cameras_server(what, 0)
                process.stdin.write(f"{time.monotonic()}\n")  # one clock for all processes
                process.stdin.flush()
                if what == "freeze":
                    assert process.stdout.readline() == "measured\n", f"{name} ended with {process.wait()}"
        return json.loads(process.stdout.readline())


def serve(folder, height, width, cameras, rate=30):
    """Return a camera server with a clip of groups of 15 pictures."""
    from tests.farm import Cameras
    from tests.farm.clip import encoded, write_units

    clip = write_units(Path(folder) / "clip", encoded(300, height, width, intra=False, slices=1))
    return Cameras(clip, cameras=cameras, rate=rate, stagger_ms=1000 / rate / cameras)


def available():
    """Return the contenders that this tree has."""
    import hyperframes as hf

    return [name for name in CONTENDERS if name != "live" or hasattr(hf, "LiveRuntime")]


def table(results):
    """Return the figures of all contenders as lines."""
    head = (
        f"{'':10} {'start s':>8} {'frames/s':>9} {'slowest':>8} {'us/frame':>9} {'cores':>6} {'RSS MB':>7} "
        f"{'age p50':>8} {'p99 ms':>7} | one frozen: {'frames/s':>8} {'slowest':>8} {'p50':>6} {'p99':>6}"
    )
    lines = [head]
    for name, rounds in results.items():
        one = {key: statistics.median(r[key] for r in rounds) for key in ("start_seconds", "rss_mb")}
        good, bad = _median([r["healthy"] for r in rounds]), _median([r.get("one_frozen", {}) for r in rounds])
        ages, late = good.get("age_ms") or [0, 0], bad.get("age_ms") or [0, 0]
        lines.append(
            f"{name:10} {one['start_seconds']:8.1f} {good['frames_per_second']:9.0f} {good['slowest']:8.1f} "
            f"{good['cpu_us_a_frame']:9.0f} {good['cores']:6.2f} {one['rss_mb']:7.0f} {ages[0]:8.1f} {ages[1]:7.1f} | "
            f"            {bad.get('frames_per_second', 0):8.0f} {bad.get('slowest', 0):8.1f} {late[0]:6.1f} {late[1]:6.1f}"
            f"   age since {AGES[name]}"
        )
    return lines


def _median(rounds):
    keys = rounds[0].keys() - {"age_ms", "dropped"}
    found = {key: statistics.median(r[key] for r in rounds) for key in keys}
    reasons = sorted({reason for r in rounds for reason in r.get("dropped", {})})
    found["dropped"] = {reason: statistics.median(r["dropped"].get(reason, 0) for r in rounds) for reason in reasons}
    ages = [r["age_ms"] for r in rounds if r.get("age_ms")]
    return found | ({"age_ms": [statistics.median(a[i] for a in ages) for i in (0, 1)]} if ages else {})


def main() -> None:
    """Run all contenders and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--cameras", type=int, default=48)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS)
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write medians there, beside those of other sizes and contenders"
    )
    options = parser.parse_args()
    if options.child:
        name, base, cameras, seconds = options.child
        child(name, base, int(cameras), float(seconds))
        return
    width, height = map(int, options.size.split("x"))
    results: dict[str, list] = {name: [] for name in options.only or available()}
    busy, began = machine.busy_seconds(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, rounds in results.items():
                with serve(
                    folder, height, width, options.cameras
                ) as server:  # a server of its own: none inherits trouble
                    rounds.append(contend(name, server, options.cameras, options.seconds))
    print(f"{options.cameras} cameras, {options.size}, 30 frames/s, {options.seconds:g} s, median of {options.rounds}")  # noqa: T201 - the result
    print("\n".join(table(results)))  # noqa: T201 - the result
    if options.save:
        told = {"workload": "live_cameras", **machine.provenance("numpy", "av", "opencv-python-headless"), "sizes": {}}
        if options.save.exists():
            told["sizes"] = json.loads(options.save.read_text())["sizes"]
        beside = told["sizes"].get(options.size, {}).get("contenders", {})  # of an earlier call, with others
        told["sizes"][options.size] = {
            "cameras": options.cameras,
            "rounds": options.rounds,
            "busy_cores": (machine.busy_seconds() - busy) / (time.monotonic() - began),
            "contenders": {**beside, **{name: summary(rounds) for name, rounds in results.items()}},
        }
        options.save.write_text(json.dumps(told, indent=1) + "\n")


def summary(rounds):
    """Return the medians of one contender's rounds."""
    told = [r["frozen"] for r in rounds if r.get("frozen")]
    frozen = {}
    for key in ("told_after_seconds", "back_after_seconds"):
        there = [one[key] for one in told if one[key] is not None]
        frozen[key] = statistics.median(there) if there else None
    return {
        **{key: statistics.median(r[key] for r in rounds) for key in ("start_seconds", "rss_mb", "streaming")},
        "healthy": _median([r["healthy"] for r in rounds]),
        "one_frozen": _median([r["one_frozen"] for r in rounds if r.get("one_frozen")] or [{}]),
        "frozen": frozen,
        **({"scrape_ms": statistics.median(r["scrape_ms"] for r in rounds)} if "scrape_ms" in rounds[0] else {}),
    }


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", ["capture", "live", "pyav", "opencv"])
def test_every_contender_calls_back_for_every_camera(name, tmp_path):
    from tests.farm import have_programs

    have_programs()
    if name not in available():
        pytest.skip("this tree has no live runs")
    with serve(tmp_path, 96, 128, 3) as server:
        result = contend(name, server, 3, 1.0)
    assert result["streaming"] == 3
    assert result["healthy"]["slowest"] > 0


if __name__ == "__main__":
    main()
