"""Descriptors and what they are made of: speed and memory of describing, motion vectors, patches, sound against picture.

    HYPERFRAMES_TEST_MEDIA=... HYPERFRAMES_MODELS=... python benchmarks/bench_descriptors.py --results descriptors.json

Processor time, in turn, medians of ratios within rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np
import psutil
import pytest

import hyperframes as hf
from hyperframes.media.audio import read_sound
from hyperframes.operators import View, Worker, create
from hyperframes.operators.activity import Activity
from hyperframes.packing import Halo, view
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic import find_anchors
from hyperframes.semantic.features import texture_part
from hyperframes.semantic.luma import as_small_luma
from hyperframes.semantic.patchwise import Patchwise, Regions
from hyperframes.semantic.regions import select_patches
from hyperframes.semantic.sync import Onsets, _motion, estimate_lag, onset_strength
from hyperframes.sinks import NullSink

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parent))  # as it is for scripts

from bench_anchors import count_frames, excerpt, read_labels, splice


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def in_turn(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return processor seconds of each work by round, after one that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            began = cpu_seconds()
            work()
            if turn:
                taken[name].append(cpu_seconds() - began)
    return taken


# Motion vectors -------------------------------------------------------------------------------------------------------


def decode(path: Path, *, vectors: bool = False, read: bool = False) -> int:
    """Decode all frames; return how many had motion vectors."""
    found = 0
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        if vectors:
            stream.codec_context.options = {"flags2": "+export_mvs"}
        for frame in container.decode(stream):
            if read:
                for data in frame.side_data:
                    if data.type.name == "MOTION_VECTORS":
                        moved = data.to_ndarray()
                        found += bool(np.hypot(moved["motion_x"], moved["motion_y"]).mean() >= 0)
    return found


def luma_activity(path: Path) -> None:
    with hf.open(path) as source:
        small = as_small_luma(source, Activity())
        hf.run(Pipeline.of(small, [Stage("activity", Activity())], {"activity.measures": NullSink()}))


def motion_vectors(paths: list[Path], rounds: int) -> list[dict]:
    rows = []
    for path in paths:
        frames = count_frames(path)
        works = {
            "decode": lambda path=path: decode(path),
            "exported": lambda path=path: decode(path, vectors=True),
            "exported and read": lambda path=path: decode(path, vectors=True, read=True),
            "luma activity": lambda path=path: luma_activity(path),
        }
        taken = in_turn(works, rounds)
        rows.append(
            {"file": path.name, "frames": frames, "with_vectors": decode(path, vectors=True, read=True)}
            | {
                name: {
                    "cpu_ms_a_frame": 1e3 * statistics.median(times) / frames,
                    "over_decode": statistics.median(a / b for a, b in zip(times, taken["decode"], strict=True)),
                }
                for name, times in taken.items()
            }
        )
    return rows


# Patches --------------------------------------------------------------------------------------------------------------


def patches(path: Path, rounds: int, count: int = 24, work: str = "bilateral:diameter=15") -> dict:
    """Compare an operator on whole pictures with the same on the squares that matter, their choice included."""
    frames = np.stack(excerpt(path, 0.3, count, (1280, 720)))
    grey = np.ascontiguousarray(frames[..., 1])
    whole, chosen = create(work), Patchwise(work, side=64, margin=8)
    applied = {
        "whole pictures": lambda: apply(whole, grey),
        "choosing": lambda: apply(Regions(), grey),
        "choosing and patches": lambda: apply(chosen, grey, apply(Regions(), grey)),
    }
    taken = in_turn(applied, rounds)
    kept = [select_patches(picture, (720, 1280), chosen.side).share for picture in apply(Regions(), grey)]
    return {
        "operator": work,
        "frames": count,
        "share_of_squares": float(np.mean(kept)),
        "cpu_ms_a_frame": {name: 1e3 * statistics.median(times) / count for name, times in taken.items()},
        "patches_over_whole": statistics.median(
            a / b for a, b in zip(taken["choosing and patches"], taken["whole pictures"], strict=True)
        ),
    }


def apply(operator: hf.Operator, frames: np.ndarray, maps: np.ndarray | None = None) -> np.ndarray:
    """Run an operator over all frames at once, without a driver."""
    from hyperframes.frames import FrameSpec
    from hyperframes.packing import pad
    from hyperframes.packing.halo import Boundary

    inputs = [(frames, FrameSpec.picture(*frames.shape[1:3], "gray"))]
    inputs += [] if maps is None else [(maps, FrameSpec.array((64, 64), np.float32))]
    contract = operator.configure(tuple(spec for _, spec in inputs))
    pts = np.arange(len(frames))
    ports = [next(iter(view((a,), pts, spec, len(a), Halo()))) for a, spec in inputs]
    ports = [pad(port, contract.halo, Boundary()) for port in ports]
    made = np.empty((len(frames), *contract.outputs[0].spec.shapes[0]), contract.outputs[0].spec.dtype)
    operator.apply(
        tuple(ports), (View(contract.outputs[0], 0, len(frames), (made,)),), None, operator.prepare(Worker())
    )
    return made


# Describing -----------------------------------------------------------------------------------------------------------


def describing(path: Path) -> dict:
    """Describe a film with all models there are; the resident memory after each descriptor."""
    process, memory, frames = psutil.Process(), [], 0
    began, used = time.perf_counter(), cpu_seconds()
    models: dict[str, str] = {}
    for descriptor in hf.describe(path):
        frames, models = descriptor.core[1], dict(descriptor.models)
        memory.append((frames, process.memory_info().rss))
    wall, cpu = time.perf_counter() - began, cpu_seconds() - used
    half = next(rss for at, rss in memory if at >= frames / 3)
    return {
        "frames": frames,
        "models": models,
        "frames_per_second": frames / wall,
        "cpu_ms_a_frame": 1e3 * cpu / frames,
        "rss_after_a_third_bytes": half,
        "rss_at_the_end_bytes": memory[-1][1],
    }


# Sound against picture ------------------------------------------------------------------------------------------------

SHIFTS = (-0.3, -0.12, 0.2, 0.36)


def made_clips(media: Path, folder: Path, count: int, rate: int = 25) -> list[Path]:
    """Films of real scenes cut at uneven times, with a hit of noise at each cut: onsets that are clearly seen and heard."""
    source = media / "actions/interactions"
    scenes = [source / row["file"] for row in read_labels(source) if row["split"] == "test"]
    paths = []
    for seed in range(count):
        dice, target = random.Random(seed), folder / f"clear{seed}.mkv"
        times, frames = [], []
        while len(frames) < 12 * rate:
            cut = excerpt(dice.choice(scenes), dice.random(), dice.randint(8, 22), (320, 240))
            times += [len(frames) / rate] if frames else []
            frames += cut
        write_film(target, frames, times, rate, seed)
        paths.append(target)
    return paths


def write_film(target: Path, frames: list[np.ndarray], times: list[float], rate: int, seed: int) -> None:
    noise, hz = np.random.default_rng(seed), 16_000
    sound = noise.normal(0, 3e-3, round(hz * len(frames) / rate))
    for at in times:
        start = round(at * hz)
        hit = np.exp(-np.arange(2400) / 500) * noise.normal(0, 0.25, 2400)
        sound[start : start + 2400] += hit[: len(sound) - start]
    with av.open(str(target), "w") as container:
        video = container.add_stream("libx264", rate=rate, options={"crf": "20", "preset": "veryfast"})
        video.width, video.height, video.pix_fmt = 320, 240, "yuv420p"
        audio = container.add_stream("aac", rate=hz, layout="mono")
        for picture in frames:
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(video.encode(None))
        samples = np.clip(sound, -1, 1).astype(np.float32)[None]
        for start in range(0, samples.shape[1], 1024):
            frame = av.AudioFrame.from_ndarray(samples[:, start : start + 1024], format="fltp", layout="mono")
            frame.sample_rate, frame.pts = hz, start
            container.mux(audio.encode(frame))
        container.mux(audio.encode(None))


def sync(media: Path, folder: Path, count: int) -> dict:
    """Lags of films with clear onsets, as they are and with the sound moved, and of real files that show none."""
    clear = [lags(path) for path in made_clips(media, folder, count)]
    real = sorted((media / "video").glob("*.m*")) + sorted((media / "actions/grid_speech").glob("*.mpg"))
    unclear = [lags(path, shifts=()) for path in real if has_both(path)]
    right = [
        abs(found - wanted) <= 1 / 25 for row in clear for wanted, found in row["lags"].items() if found is not None
    ]
    asked = sum(len(row["lags"]) for row in clear)
    return {
        "clear": len(clear),
        "estimates_asked_for": asked,
        "within_a_frame": sum(right) / asked,
        "worst_seconds": max(abs(f - w) for row in clear for w, f in row["lags"].items() if f is not None),
        "real": len(unclear),
        "real_with_an_estimate": {row["file"]: row["lags"][0.0] for row in unclear if row["lags"][0.0] is not None},
    }


def has_both(path: Path) -> bool:
    try:
        with av.open(str(path)) as container:
            return bool(container.streams.audio and container.streams.video) and (container.duration or 0) < 60e6
    except av.FFmpegError:
        return False


def lags(path: Path, shifts: tuple[float, ...] = SHIFTS) -> dict:
    timeline, onsets = find_anchors(path), onset_strength(read_sound(path))
    motion = _motion(timeline)
    found = {
        shift: estimate_lag(Onsets(onsets.seconds + shift, onsets.strength), timeline.seconds, motion).lag_seconds
        for shift in (0.0, *shifts)
    }
    return {"file": path.name, "lags": found}


# Script ---------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", action="append", choices=("motion_vectors", "patches", "describe", "sync"))
    parser.add_argument("--work", type=Path, help="where the film is kept for the next time")
    given = parser.parse_args()
    media = Path(os.environ["HYPERFRAMES_TEST_MEDIA"]).resolve()
    told = json.loads(given.results.read_text()) if given.results.exists() else {}
    vectors = [media / "video/bikes.mp4", media / "video/example_video.mp4", Path(hf.__file__).parent / CLIP]
    with tempfile.TemporaryDirectory() as name:
        parts: dict[str, Callable[[], object]] = {
            "motion_vectors": lambda: motion_vectors(vectors, given.rounds),
            "patches": lambda: [patches(media / f"video/{file}", given.rounds) for file in PATCHED],
            "describe": lambda: describing(large_film(media, given.work or Path(name))),
            "sync": lambda: sync(media, Path(name), 12),
        }
        for part, work in parts.items():
            if given.part is None or part in given.part:
                told[part] = work()
                given.results.write_text(json.dumps(told, indent=1) + "\n")


def large_film(media: Path, folder: Path) -> Path:
    """Return a film of 1920 x 1080 spliced of real clips; one in the folder is taken as it is."""
    film = folder / "film1080.mp4"
    if not film.exists():
        splice(sorted((media / "actions/interactions").glob("*.avi")) * 2, film, seed=0, size=(1920, 1080))
    return film


CLIP = "data/big_buck_bunny.mp4"
PATCHED = ("bottle-detection.mp4", "example_video.mp4", "bikes.mp4")


# As a benchmark -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C83", "C125")
def test_the_texture_part_of_a_picture_of_256_by_448(benchmark):
    random_ = np.random.default_rng(0)
    luma = random_.integers(0, 256, (256, 448), np.uint8)
    part = benchmark(texture_part, luma, np.ones((64, 64), np.float32))
    assert part.sum() == pytest.approx(1)


@pytest.mark.requirement("C93")
@pytest.mark.parametrize("share", [1.0, 0.25])
def test_patches_of_a_share_of_a_picture(benchmark, share):
    frames = np.random.default_rng(0).integers(0, 256, (2, 128, 256), np.uint8)
    maps = np.zeros((2, 64, 64), np.float32)
    maps[:, : round(64 * share)] = 1
    benchmark(apply, Patchwise("bilateral"), frames, maps)


if __name__ == "__main__":
    main()
