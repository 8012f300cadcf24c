"""Anchors against others: cuts and speed beside PySceneDetect, and which frames to look at.

    HYPERFRAMES_TEST_MEDIA=... python benchmarks/bench_anchors.py --scenedetect ENV/bin/python --results anchors.json

ENV is an environment with the packages of anchors/scenedetect.txt. Films with transitions are made of real clips when it runs; what is labelled is cut by the labels' own split, and nothing was tuned on
the test part.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import math
import os
import random
import resource
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import av
import cv2
import numpy as np
import pytest

import hyperframes as hf
from hyperframes.operators.activity import Activity
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic import Timeline, find_anchors
from hyperframes.semantic.luma import as_small_luma
from hyperframes.sinks import NullSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Films whose transitions are known -----------------------------------------------------------------------------------

RATE = 25


@dataclass
class Truth:
    """What happens when, in frames."""

    cuts: list[int] = field(default_factory=list)
    fades: list[tuple[int, int]] = field(default_factory=list)
    """First frame that darkens, one past the last that brightens."""
    flashes: list[int] = field(default_factory=list)
    frames: int = 0


def excerpt(path: Path, start: float, count: int, size: tuple[int, int]) -> list[np.ndarray]:
    """Return up to `count` frames (H, W, 3) of `path` from the share `start` of it on, scaled to `size`."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
    first = int(start * max(0, len(frames) - count))
    return [cv2.resize(f, size, interpolation=cv2.INTER_AREA) for f in frames[first : first + count]]


def splice(clips: Sequence[Path], target: Path, *, seed: int, size: tuple[int, int] = (640, 360)) -> Truth:
    """Write a film of one excerpt a clip and return what is in it.

    Each excerpt has 30 to 75 frames. Three in five are joined by a cut, the others by a fade through black of 8 to 20
    frames on each side; one in three holds a flash of one to three frames, brighter by 60 to 120 grey levels.
    """
    dice, truth = random.Random(seed), Truth()
    order = list(clips)
    dice.shuffle(order)
    with av.open(str(target), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"crf": "20", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for frame in _frames(order, dice, truth, size):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            truth.frames += 1
        container.mux(stream.encode(None))
    return truth


def _frames(order: list[Path], dice: random.Random, truth: Truth, size: tuple[int, int]) -> Iterator[np.ndarray]:
    fading = 0  # frames over which the one before went black
    for number, path in enumerate(order):
        pictures = excerpt(path, dice.random(), dice.randint(30, 75), size)
        if len(pictures) < 24:
            continue
        start = truth.frames
        if fading:
            truth.fades.append((start - fading, start + fading))
        elif start:
            truth.cuts.append(start)
        brightness = np.ones(len(pictures))
        if fading:
            brightness[:fading] = np.linspace(0, 1, fading)
        fading = dice.randint(8, min(20, len(pictures) // 3)) if dice.random() < 0.4 and number + 1 < len(order) else 0
        if fading:
            brightness[-fading:] *= np.linspace(1, 0, fading)
        flash, by = np.zeros(len(pictures)), dice.uniform(60, 120)
        if dice.random() < 1 / 3 and len(pictures) >= 50:
            at, length = dice.randint(22, len(pictures) - 25), dice.randint(1, 3)
            flash[at : at + length] = by
            truth.flashes.append(start + at)
        for picture, share, more in zip(pictures, brightness, flash, strict=True):
            yield np.clip(picture * share + more, 0, 255).astype(np.uint8)


def score(found: Sequence[int], truth: Truth, tolerance: int = 2) -> dict[str, float]:
    """Return precision, recall and F1 of transitions, each matched once; a fade is met anywhere in it."""
    open_ = [(cut - tolerance, cut + tolerance) for cut in truth.cuts]
    open_ += [(start - tolerance, stop + tolerance) for start, stop in truth.fades]
    total, hits = len(open_), 0
    for frame in found:
        match = next((span for span in open_ if span[0] <= frame <= span[1]), None)
        if match is not None:
            open_.remove(match)
            hits += 1
    precision, recall = hits / max(1, len(found)), hits / max(1, total)
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / max(1e-9, precision + recall)}


# Which frames to look at -------------------------------------------------------------------------------------------

FALLS = {"train": "20200628_145326", "test": "20200628_183032"}
EVENTS_OF_FALLS = {"falling", "standup", "sitdown"}
"""What changes; walking and lying are what goes on."""


@dataclass(frozen=True)
class Stream:
    """A film and what matters in it."""

    name: str
    path: Path
    frames: int
    events: tuple[tuple[int, int], ...]
    """[start, stop) in frames."""


def read_labels(folder: Path) -> list[dict[str, str]]:
    with (folder / "labels.csv").open() as file:
        return list(csv.DictReader(file))


def falls(media: Path, split: str) -> Stream:
    """A person under a ceiling camera; events are falls and getting up, by the thermal sensor's labels."""
    folder, name = media / "actions/thermal_falls", FALLS[split]
    path = folder / f"{name}_camera.mp4"
    with gzip.open(folder / f"{name}_thermal.csv.gz", "rt") as file:
        stamps = [line.split(",")[0] for line in file][1:]
    began = datetime.strptime(name, "%Y%m%d_%H%M%S")
    seconds = [(datetime.fromisoformat(stamp) - began).total_seconds() for stamp in stamps]
    rows = [row for row in read_labels(folder) if row["recording"] == name]
    rate, count = 25, count_frames(path)
    events = [
        (
            round(rate * seconds[int(row["start_frame"])]),
            round(rate * seconds[min(int(row["end_frame"]), len(seconds) - 1)]),
        )
        for row in rows
        if row["label"] in EVENTS_OF_FALLS
    ]
    return Stream(f"falls, {split}", path, count, tuple((a, min(b, count)) for a, b in events if a < count))


def fights(media: Path, split: str, target: Path) -> Stream:
    """Clips of surveillance cameras, one after another; events are those in which people fight."""
    folder = media / "actions/surveillance_fights"
    rows = [row for row in read_labels(folder) if row["split"] == split]
    rows.sort(key=lambda row: row["file"][::-1])  # mixes both kinds, and is no choice of ours
    events, frames = [], 0
    with av.open(str(target), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "20", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = 480, 360, "yuv420p"
        for row in rows:
            start = frames
            with av.open(str(folder / row["file"])) as clip:
                for frame in clip.decode(video=0):
                    small = frame.reformat(480, 360, "yuv420p").to_ndarray()
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(small, format="yuv420p")))
                    frames += 1
            if row["label"] == "fight":
                events.append((start, frames))
        container.mux(stream.encode(None))
    return Stream(f"fights, {split}", target, frames, tuple(events))


def count_frames(path: Path) -> int:
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


# Ways to choose -------------------------------------------------------------------------------------------------------


def uniform(frames: int, count: int) -> np.ndarray:
    return ((np.arange(count) + 0.5) * frames / count).astype(int)


def by_scenes(cuts: Sequence[int], frames: int, count: int) -> np.ndarray:
    """Share `count` frames out over scenes as evenly as can be, longer scenes first; even steps within a scene."""
    edges = [0, *sorted(c for c in set(cuts) if 0 < c < frames), frames]
    scenes = sorted(itertools.pairwise(edges), key=lambda scene: scene[0] - scene[1])
    each, more = divmod(count, len(scenes))
    chosen: list[int] = []
    for k, (start, stop) in enumerate(scenes):
        number = each + (k < more)
        chosen += (start + (np.arange(number) + 0.5) * (stop - start) / max(1, number)).astype(int).tolist()
    return np.unique(chosen)


def key_frames(path: Path, frames: int, count: int) -> np.ndarray:
    """The stream's own key frames; thinned evenly, or, where there are too few, further frames evenly between them."""
    with av.open(str(path)) as container:
        keys = [k for k, frame in enumerate(container.decode(video=0)) if frame.key_frame]
    if len(keys) >= count:
        return np.array(keys)[uniform(len(keys), count)]
    return by_scenes(keys, frames, count)


# Figures --------------------------------------------------------------------------------------------------------------


def figures(chosen: Sequence[int], events: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Return precision (share of frames in events), coverage (share of events met), balance (entropy over events)."""
    hits = np.array([sum(start <= frame < stop for frame in chosen) for start, stop in events], float)
    shares = hits[hits > 0] / max(1, hits.sum())
    balance = float(-(shares * np.log(shares)).sum() / math.log(len(events))) if len(events) > 1 else 1.0
    inside = sum(any(start <= frame < stop for start, stop in events) for frame in chosen)
    return {"precision": inside / max(1, len(chosen)), "coverage": float((hits > 0).mean()), "balance": abs(balance)}


# Frames a classifier needs ----------------------------------------------------------------------------------------------


@dataclass
class Track:
    """A person cut out of a scene."""

    label: str
    split: str
    recording: tuple[str, str]
    poses: np.ndarray
    """(T, D) of unit length: histograms of oriented gradients."""
    timeline: Timeline


def tracks(media: Path, limit: int | None = None) -> list[Track]:
    folder = media / "actions/person_tracks"
    rows = read_labels(folder)[:limit]
    return [
        Track(
            row["label"],
            row["split"],
            (row["scene"], row["sequence"]),
            np.array([pose(f) for clip in hf.stream(folder / row["file"], "convert:format=gray") for f in clip.data]),
            find_anchors(folder / row["file"]),
        )
        for row in rows
    ]


def pose(grey: np.ndarray) -> np.ndarray:
    small = cv2.resize(grey, (64, 96), interpolation=cv2.INTER_AREA).astype(np.float32)
    gx, gy = cv2.Sobel(small, cv2.CV_32F, 1, 0), cv2.Sobel(small, cv2.CV_32F, 0, 1)
    strength, angle = np.hypot(gx, gy), (np.arctan2(gy, gx) % np.pi) / np.pi * 9
    away = np.abs(angle[..., None] - np.arange(9) - 0.5)
    shares = np.maximum(0, 1 - np.minimum(away, 9 - away)) * strength[..., None]
    cells = shares.reshape(12, 8, 8, 8, 9).sum((1, 3)).ravel()
    return cells / (np.linalg.norm(cells) + 1e-3)


def right(every: list[Track], choose: Callable[[Track, int], np.ndarray], count: int) -> np.ndarray:
    """Return for each clip whether its nearest neighbour in all other recordings has its label, (clips,) bool.

    Clips are compared by the greatest of each entry over `count` poses.
    """
    vectors = np.stack([track.poses[choose(track, min(count, len(track.poses)))].max(axis=0) for track in every])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    for k, track in enumerate(every):
        alike[k, [other.recording == track.recording for other in every]] = -np.inf
    labels = np.array([track.label for track in every])
    return np.asarray(labels[alike.argmax(axis=1)] == labels)


def interval(values: np.ndarray, groups: Sequence[object], rounds: int = 2000) -> list[float]:
    """Return the 95 % interval of the mean of `values`, drawing whole groups with replacement."""
    names = list(dict.fromkeys(groups))
    sums = np.array([values[[g == name for g in groups]].sum() for name in names])
    sizes = np.array([sum(g == name for g in groups) for name in names])
    drawn = np.random.default_rng(0).integers(0, len(names), (rounds, len(names)))
    return np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), (0.025, 0.975)).tolist()


# Speed ------------------------------------------------------------------------------------------------------------------


def decode(path: Path) -> None:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        for _ in container.decode(stream):
            pass


def coarse(path: Path) -> None:
    """The pass over every frame: small luma and its measures."""
    with hf.open(path) as source:
        small = as_small_luma(source, Activity())
        hf.run(Pipeline.of(small, [Stage("activity", Activity())], {"activity.measures": NullSink()}))


def timed(work: Callable[[Path], object], path: Path) -> tuple[float, float]:
    """Return wall and CPU seconds."""
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    work(path)
    now = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter() - began, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


# The report -------------------------------------------------------------------------------------------------------------


def rival_cuts(python: str, detectors: str, path: Path) -> list[dict]:
    script = Path(__file__).parent / "anchors/scenedetect_cuts.py"
    done = subprocess.run([python, str(script), detectors, str(path)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def clips_of_tests(media: Path) -> list[Path]:
    folders = [media / "actions" / name for name in ("interactions", "surveillance_fights")]
    return [folder / row["file"] for folder in folders for row in read_labels(folder) if row["split"] == "test"]


def transitions(media: Path, python: str, folder: Path, films: int) -> dict:
    clips = clips_of_tests(media)
    found: dict[str, list[dict]] = {}
    flashes = [0, 0]
    for seed in range(films):
        path = folder / f"spliced{seed}.mp4"
        truth = splice(random.Random(seed).sample(clips, min(20, len(clips))), path, seed=seed)
        timeline = find_anchors(path)
        frames = {kind: [round(RATE * a.seconds) for a in timeline.anchors if a.kind == kind] for kind in ("flash",)}
        flashes[0] += sum(any(abs(f - at) <= 1 for f in frames["flash"]) for at in truth.flashes)
        flashes[1] += len(truth.flashes)
        found.setdefault("anchors", []).append(score([round(RATE * a.seconds) for a in timeline.cuts], truth))
        for told in rival_cuts(python, "content,adaptive,content+threshold,histogram", path):
            found.setdefault(f"scenedetect {told['version']} {told['detector']}", []).append(score(told["cuts"], truth))
    means = {name: {k: statistics.mean(s[k] for s in many) for k in many[0]} for name, many in found.items()}
    return {"films": films, "flashes_found": flashes[0], "flashes": flashes[1], "mean": means}


def speed(python: str, paths: Sequence[Path], rounds: int) -> dict:
    told = {}
    for path in paths:
        frames = count_frames(path)
        works: dict[str, Callable[[], tuple[float, float]]] = {
            "decode": lambda path=path: timed(decode, path),
            "coarse": lambda path=path: timed(coarse, path),
            "anchors": lambda path=path: timed(find_anchors, path),
            "scenedetect content": lambda path=path: tuple(
                rival_cuts(python, "content", path)[0][key] for key in ("seconds", "cpu_seconds")
            ),
        }
        for work in works.values():
            work()
        measured = {name: [] for name in works}
        for _ in range(rounds):
            for name, work in works.items():
                measured[name].append(work())
        told[path.name] = {"frames": frames} | {
            name: {
                "frames_per_second": frames / statistics.median(wall for wall, _ in times),
                "cpu_ms_a_frame": 1e3 * statistics.median(cpu for _, cpu in times) / frames,
                "cpu_over_decode": statistics.median(
                    cpu / plain for (_, cpu), (_, plain) in zip(times, measured["decode"], strict=True)
                ),
            }
            for name, times in measured.items()
        }
    return told


def selection(media: Path, python: str, folder: Path) -> dict:
    rows = []
    for stream in (falls(media, "test"), fights(media, "test", folder / "fights.mp4")):
        timeline = find_anchors(stream.path)
        (told,) = rival_cuts(python, "content", stream.path)
        for times in (1, 2, 4):
            count = times * len(stream.events)
            ways = {
                "anchors": timeline.choose(count),
                "uniform": uniform(stream.frames, count),
                "scenedetect": by_scenes(told["cuts"], stream.frames, count),
                "key frames": key_frames(stream.path, stream.frames, count),
            }
            rows += [
                {"stream": stream.name, "count": count, "way": way, **figures(chosen, stream.events)}
                for way, chosen in ways.items()
            ]
    ways = dict.fromkeys(row["way"] for row in rows)
    mean = {
        way: {k: statistics.mean(r[k] for r in rows if r["way"] == way) for k in ("precision", "coverage", "balance")}
        for way in ways
    }
    return {"rows": rows, "mean": mean}


COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
PHASES = (1 / 16, 3 / 16, 5 / 16, 7 / 16, 9 / 16, 11 / 16, 13 / 16, 15 / 16)


def needed(media: Path) -> dict:
    """Compare curves over all clips, each against all other recordings; even steps are the mean over eight places to begin."""
    people = tracks(media)

    def stepped(phase: float) -> Callable[[Track, int], np.ndarray]:
        return lambda track, count: ((np.arange(count) + phase) * len(track.poses) / count).astype(int)

    curves = {
        "anchors": {
            n: right(people, lambda track, count: track.timeline.choose(count), n).astype(float) for n in COUNTS
        },
        "uniform": {n: np.mean([right(people, stepped(phase), n) for phase in PHASES], axis=0) for n in COUNTS},
    }
    groups = [track.recording for track in people]
    gain = np.mean([curves["anchors"][n] - curves["uniform"][n] for n in COUNTS], axis=0)
    most = float(curves["uniform"][COUNTS[-1]].mean())
    enough = {
        way: next((n for n in COUNTS if all(curve[m].mean() >= most for m in COUNTS if m >= n)), None)
        for way, curve in curves.items()
    }
    first = {way: next((n for n in COUNTS if curve[n].mean() >= most), None) for way, curve in curves.items()}
    return {
        "clips": len(people),
        "recordings": len(set(groups)),
        "accuracy": {way: {n: float(rows.mean()) for n, rows in curve.items()} for way, curve in curves.items()},
        "interval": {way: {n: interval(rows, groups) for n, rows in curve.items()} for way, curve in curves.items()},
        "mean_gain": float(gain.mean()),
        "mean_gain_interval": interval(gain, groups),
        "accuracy_of_most": most,
        "first_reached_with": first,
        "held_from": enough,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenedetect", required=True, help="Python of an environment with anchors/scenedetect.txt")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--films", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", action="append", choices=("transitions", "selection", "needed", "speed"))
    parser.add_argument("--work", type=Path, help="where films are kept for the next time")
    given = parser.parse_args()
    media = Path(os.environ["HYPERFRAMES_TEST_MEDIA"]).resolve()
    told = json.loads(given.results.read_text()) if given.results.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = given.work or Path(name)
        parts: dict[str, Callable[[], dict]] = {
            "transitions": lambda: transitions(media, given.scenedetect, folder, given.films),
            "selection": lambda: selection(media, given.scenedetect, folder),
            "needed": lambda: needed(media),
            "speed": lambda: speed(given.scenedetect, films(media, folder), given.rounds),
        }
        for part, work in parts.items():
            if given.part is None or part in given.part:
                told[part] = work()
                given.results.write_text(json.dumps(told, indent=1) + "\n")


def films(media: Path, folder: Path) -> list[Path]:
    """Return two films to measure speed on; those in the folder are taken as they are."""
    small, large = folder / "spliced0.mp4", folder / "spliced0_1080.mp4"
    clips = clips_of_tests(media)
    if not small.exists():
        splice(random.Random(0).sample(clips, min(20, len(clips))), small, seed=0)
    if not large.exists():
        splice(sorted((media / "actions/interactions").glob("*.avi"))[:12], large, seed=0, size=(1920, 1080))
    return [small, large]


# As a benchmark ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("work", [decode, coarse, find_anchors])
def test_a_pass_over_the_clip_that_ships(benchmark, work):
    clip = Path(hf.__file__).parent / "data/big_buck_bunny.mp4"
    benchmark.pedantic(work, (clip,), rounds=7 if benchmark.enabled else 1, warmup_rounds=int(benchmark.enabled))


if __name__ == "__main__":
    main()
