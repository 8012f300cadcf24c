"""Frame mode beside packed mode, live, with a real small network: frames a second, CPU, memory, latency, by size.

    python benchmarks/bench_live_model.py [--frames 200] [--rounds 3] [--json benchmarks/results/live_model.json]

Two operators tell two stories. The classifier (EfficientNet-Lite0, some 8 ms a frame on one core) is limited by its own
arithmetic: packing cannot make it faster, and larger inputs leave the cache. The level (mean of each frame, some 10 us) is
limited by what is paid for every hyperframe: packing shares that. Every case runs in a process of its own, flat out for
throughput, CPU and memory, and at 30 frames a second for latency; cases take turns, medians over the rounds are told.

What the latency calculator (`hyperframes budget`) foretells stands beside what was measured: it is told how long the operator
takes for hyperframes of 1 and of 16, and how long one of 1 is on its way to the operator and back besides, and foretells the time
from the first frame to the result for every size.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.scheduling.budget import LiveLoad, budget_for_size, fit_cost

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
import machine

SIZES = (1, 2, 4, 8, 16)
PACED, RATE = 128, 30.0
"""Frames that come at a camera's pace, and how many a second."""
CLIP = str(files("hyperframes") / "data" / "big_buck_bunny.mp4")


def model_path():
    """Return the classifier's file, beside the real test files."""
    root = os.environ.get("HYPERFRAMES_TEST_MEDIA")
    return None if root is None else Path(root).resolve().parent / "models" / "efficientnet-lite0.onnx"


def operator_for(name, size):
    if name == "level":
        return hf.operator(
            lambda frames: frames.mean((1, 2, 3), dtype=np.float32), name="level", output={"shape": (), "dtype": "f4"}
        )
    from hyperframes.operators.onnx import Onnx

    return Onnx(str(model_path()), ("logits",), "auto", 1.0, (127.0,), (128.0,), batch=size)


def pictures(count):
    """`count` pictures of 320x240, from the clip that ships, over and over."""
    held = hf.run(CLIP, "resize:width=320,height=240", pixel_format="rgb24", range=(0, 120)).array
    return held, [held[i % len(held)] for i in range(count)]


def usage():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def flat_out(name, size, count):
    """Feed as fast as frames are taken; nothing is dropped."""
    _, frames = pictures(count)
    done, warm, seen = threading.Event(), threading.Event(), []

    def take(result):
        if result.stream == "warm":
            warm.set()
            return
        seen.append(result.frame_id)
        if len(seen) == count:
            done.set()

    packing = hf.Packing(size=size, timeout=5.0)
    options = {"pixel_format": "rgb24"}
    live = hf.LiveRuntime(
        packing=packing, operator=operator_for(name, size), on_result=take, when_full="block", options=options
    )
    with live:
        live.feed("warm", frames[0], frame_id=0, timestamp=0.0)
        live.event("warm")
        assert warm.wait(60)
        cpu, began = usage(), time.perf_counter()
        for number, frame in enumerate(frames):
            live.feed("cam0", frame, frame_id=number, timestamp=number / 30)
        live.event("cam0")
        assert done.wait(300)
        seconds, cpu = time.perf_counter() - began, usage() - cpu
    assert seen == list(range(count))
    return {
        "frames_per_second": count / seconds,
        "cpu_ms_per_frame": 1e3 * cpu / count,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def paced(name, size, count, cameras=1):
    """Feed at the pace of cameras; return latencies from a frame's arrival to its result, and those of hyperframes."""
    _, frames = pictures(count)
    fed, took, warm = {}, {}, threading.Event()

    def take(result):
        if result.stream == "warm":
            warm.set()
            return
        took[result.stream, result.frame_id] = time.perf_counter()

    packing = hf.Packing(size=size, timeout=5.0)
    options = {"pixel_format": "rgb24"}
    live = hf.LiveRuntime(
        packing=packing, operator=operator_for(name, size), on_result=take, options=options, queue=4 * cameras
    )
    with live:
        for number in range(8):  # the first calls take longer
            live.feed("warm", frames[0], frame_id=number, timestamp=float(number))
        live.event("warm")
        assert warm.wait(60)
        time.sleep(0.5)
        live.remove_source("warm")
        live._tempo.latencies.__init__()  # what warming up took is not asked for
        began = time.perf_counter()
        for number, frame in enumerate(frames):
            time.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            for camera in range(cameras):
                fed[f"cam{camera}", number] = time.perf_counter()
                live.feed(f"cam{camera}", frame, frame_id=number, timestamp=number / RATE)
        live.event()
        time.sleep(0.5)
        stages = live.stats()["latency_seconds"]
    waits = sorted(1e3 * (took[key] - fed[key]) for key in fed if key in took)
    return {
        "p50_ms": waits[len(waits) // 2],
        "p99_ms": waits[int(len(waits) * 0.99)],
        "infer_ms": 1e3 * stages["infer"]["p50"],
        "own_ms": 1e3 * (stages["queue"]["p50"] + stages["unpack"]["p50"]),
        "total_ms": 1e3 * stages["total"]["p50"],
        "longest_ms": 1e3 * stages["total"]["max"],
        "delivered": len(waits),
        "fed": count * cameras,
    }


def foretold(told, cameras=1):
    """Return by size what `budget` foretells, told what sizes 1 and 16 take, and what was measured."""
    base, per_frame = fit_cost((1, 16), [told[size]["infer_ms"] / 1e3 for size in (1, 16)])
    own = told[1]["own_ms"] / 1e3  # where nothing waits
    load = LiveLoad(fps=RATE, sources=cameras, infer_base=base, infer_per_frame=per_frame, unpack=own)
    found = {}
    for size in SIZES:
        answer = budget_for_size(load, size, timeout=5.0)
        found[size] = {
            "foretold_ms": 1e3 * answer.latency.total,
            "measured_ms": told[size]["total_ms"],
            "off": answer.latency.total * 1e3 / told[size]["total_ms"] - 1,
            "feasible": answer.feasible,
            "reasons": list(answer.reasons),
        }
    return {"base_ms": 1e3 * base, "per_frame_ms": 1e3 * per_frame, "own_ms": 1e3 * own, "sizes": found}


def case(name, size, frames):
    """Measure one case in a process of its own."""
    told = subprocess.run(
        [sys.executable, __file__, "--case", name, "--size", str(size), "--frames", str(frames)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(told.stdout)


def compare(names, frames, rounds):
    """Return medians by operator and size."""
    found = {}
    for _ in range(rounds):
        for name in names:
            for size in SIZES:
                found.setdefault((name, size), []).append(case(name, size, frames * (20 if name == "level" else 1)))
    return {
        key: {what: statistics.median(run[what] for run in runs) for what in runs[0]} for key, runs in found.items()
    }


@pytest.mark.slow
@pytest.mark.media
@pytest.mark.requirement("B60")
@pytest.mark.requirement("B102")
@pytest.mark.requirement("B92")
@pytest.mark.parametrize("size", [1, 4])
def test_a_real_classifier_live(size):
    if model_path() is None or not model_path().is_file():
        reason = "HYPERFRAMES_TEST_MEDIA does not name the folder beside the real models"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    assert flat_out("classifier", size, 12)["frames_per_second"] > 0


@pytest.mark.requirement("B36")
def test_the_budget_foretells_a_latency_for_every_size():
    told = {
        size: {"infer_ms": 5 + 2 * size, "own_ms": 0.5, "total_ms": (size - 1) / 30 * 1e3 + 5.5 + 2 * size}
        for size in SIZES
    }
    answer = foretold(told)
    assert (answer["base_ms"], answer["per_frame_ms"], answer["own_ms"]) == pytest.approx((5, 2, 0.5))
    assert all(abs(size["off"]) < 1e-6 and size["feasible"] for size in answer["sizes"].values())


@pytest.mark.slow
@pytest.mark.requirement("B63")
@pytest.mark.parametrize("size", [1, 8])
def test_a_cheap_operator_live(size):
    told = paced("level", size, 24)
    assert told["delivered"] == told["fed"] == 24


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", choices=["classifier", "level"])
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    if given.case:
        told = flat_out(given.case, given.size, given.frames) | paced(given.case, given.size, PACED)
        print(json.dumps(told))  # noqa: T201 - read by the process that started this one
        return
    names = ["level"] if model_path() is None or not model_path().is_file() else ["classifier", "level"]
    busy, began = machine.busy_seconds(), time.perf_counter()
    found = compare(names, given.frames, given.rounds)
    others = max(0.0, machine.busy_seconds() - busy - _children()) / (time.perf_counter() - began)
    result = {
        "workload": "live_model",
        **machine.provenance("numpy", "onnxruntime"),
        "num_frames": given.frames,
        "rounds": given.rounds,
        "other_cores": others,
        "operators": {},
    }
    for name in names:
        sizes = {size: told for (operator, size), told in found.items() if operator == name}
        result["operators"][name] = {"sizes": sizes, "budget": foretold(sizes)}
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    print("operator    size  frames/s  CPU ms/frame  peak MB  p50 ms  p99 ms  measured ms  foretold ms")  # noqa: T201
    for (name, size), told in found.items():
        answer = result["operators"][name]["budget"]["sizes"][size]
        print(  # noqa: T201
            f"{name:10} {size:5} {told['frames_per_second']:9.1f} {told['cpu_ms_per_frame']:13.3f} "
            f"{told['peak_memory_mb']:8.0f} {told['p50_ms']:7.1f} {told['p99_ms']:7.1f} "
            f"{answer['measured_ms']:12.1f} {answer['foretold_ms']:12.1f} ({100 * answer['off']:+.1f} %)"
        )


def _children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
