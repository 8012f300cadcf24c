"""Ray with two workers against threads, on one machine and one long 1080p file: what cutting into segments costs.

Both do the same: a temporal mean in YUV, from H.264 to H.264. Runs alternate; the start of the cluster and one short run of
each, which compiles kernels and starts workers, are left out. `extra_info` has the medians of wall and CPU seconds of all
processes together and their ratios: on a machine that others use too, CPU seconds tell more.
"""

import json
import os
import statistics
import sys
import time
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import av
import psutil
import pytest

import hyperframes as hf
from hyperframes.drivers.connection import connected
from hyperframes.sinks.video import VideoSink

SECONDS = float(os.environ.get("HYPERFRAMES_BENCH_SECONDS", "300"))
PAIRS = int(os.environ.get("HYPERFRAMES_BENCH_PAIRS", "3"))
RIVALS = Path(__file__).parent / "rivals"
RESULT = Path(__file__).parent / "results" / "cluster.json"
"""What the page of benchmarks shows; written when timing is enabled."""


def long_clip(path, *, height, seconds):
    """Write the clip that ships with the package, scaled and with a key frame a second, over and over."""
    once = path.with_name("once.mp4")
    with (
        av.open(str(files("hyperframes") / "data" / "big_buck_bunny.mp4")) as source,
        av.open(str(once), "w") as container,
    ):
        given = source.streams.video[0]
        rate = Fraction(given.average_rate)
        stream = container.add_stream(
            "libx264", rate=rate, options={"preset": "veryfast", "crf": "20", "bf": "0", "g": str(round(rate))}
        )
        stream.height, stream.width, stream.pix_fmt = height, height * 16 // 9 // 2 * 2, "yuv420p"
        for number, frame in enumerate(source.decode(given)):
            scaled = frame.reformat(stream.width, height, "yuv420p")
            scaled.pts, scaled.time_base = number, 1 / rate
            container.mux(stream.encode(scaled))
        container.mux(stream.encode(None))
    with av.open(str(path), "w") as container:
        stream, offset, end = None, 0, 0.0
        while end < seconds:
            with av.open(str(once)) as source:
                given = source.streams.video[0]
                stream = stream or container.add_stream_from_template(given)
                packets = [packet for packet in source.demux(given) if packet.size]
                for packet in packets:
                    packet.pts, packet.dts = packet.pts + offset, packet.dts + offset
                    packet.stream = stream
                following = packets[-1].pts + packets[-1].duration
                container.mux(packets)
                offset, end = following, float(following * given.time_base)
    return path


def cpu_seconds():
    """CPU time of this process and all that it has started, which are still there."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(spent.user + spent.system for spent in times)


def timed(source, sink, executor, **options):
    began, cpu, busy = time.perf_counter(), cpu_seconds(), machine().busy_seconds()
    result = hf.run(str(source), "temporal_mean:radius=2", to=sink, executor=executor, workers=2, **options)
    seconds, spent, busy = time.perf_counter() - began, cpu_seconds() - cpu, machine().busy_seconds() - busy
    return result, seconds, spent, max(0.0, busy - spent) / seconds


def machine():
    """The runner's module on the machine, which is in no package."""
    if str(RIVALS) not in sys.path:
        sys.path.insert(0, str(RIVALS))
    import machine

    return machine


def keep(spent):
    """Write what was measured where the page of benchmarks looks for it."""
    rounds = {
        f"{executor}, 2 workers": [
            {"seconds": wall, "cpu_seconds": cpu, "done": result.frames_in, "other_cores": others}
            for result, wall, cpu, others in found
        ]
        for executor, found in spent.items()
    }
    told = {
        "workload": "cluster",
        "num_frames": spent["ray"][0][0].frames_in,
        **machine().provenance("ray", "av", "numpy", "numba"),
        "rounds": rounds,
        "agreement": {
            "threads, 2 workers": {"reference": True, "num_frames": spent["threads"][0][0].frames_in},
            "ray, 2 workers": dict.fromkeys(("identical", "num_frames", "num_expected"), spent["ray"][0][0].frames_in),
        },
    }
    RESULT.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


@pytest.mark.slow
def test_ray_on_one_machine_against_threads(benchmark, tmp_path):
    height, seconds = (1080, SECONDS) if benchmark.enabled else (90, 45)
    source = long_clip(tmp_path / "in.mp4", height=height, seconds=seconds)
    spent = {"threads": [], "ray": []}
    with connected("", 2):
        for executor in spent:
            timed(source, "null:", executor, range=(0, 1000))

        def pairs():
            for _ in range(PAIRS if benchmark.enabled else 1):
                for executor, found in spent.items():
                    found.append(timed(source, VideoSink(tmp_path / f"{executor}.mp4"), executor))

        benchmark.pedantic(pairs, rounds=1)
    assert (tmp_path / "ray.mp4").read_bytes() == (tmp_path / "threads.mp4").read_bytes()
    assert not any("not cut" in warning for result, *_ in spent["ray"] for warning in result.warnings)
    if benchmark.enabled:
        keep(spent)
    frames = spent["ray"][0][0].frames_in
    for executor, found in spent.items():
        wall, cpu = (statistics.median(run[at] for run in found) for at in (1, 2))
        benchmark.extra_info[f"{executor}_seconds"] = round(wall, 2)
        benchmark.extra_info[f"{executor}_frames_per_second"] = round(frames / wall, 1)
        benchmark.extra_info[f"{executor}_cpu_seconds"] = round(cpu, 2)
    for what, at in (("speed", 1), ("cpu", 2)):
        ratios = [threads[at] / ray[at] for threads, ray in zip(*spent.values(), strict=True)]
        benchmark.extra_info[f"{what}_of_threads"] = round(statistics.median(ratios), 3)
