"""Copies: clips cut out of real videos and made over, and whether their source and instant are found first.

    HYPERFRAMES_TEST_MEDIA=... python benchmarks/bench_copies.py --results copies.json [--cuts 60] [--work FOLDER]

Every video of `video` and `actions` is described, but for every sixth, which stays unknown. Cuts of four seconds are
taken at random places of those that last five or more; ffmpeg makes each over in five ways. The middle of each is looked for with
`search --like`, as users would; it is right if the first hit is of the cut's source and says its instant within half a second.
What was tuned was tuned on cuts of another seed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import hyperframes as hf
from hyperframes.index.copies import LEAST_SCORE

if TYPE_CHECKING:
    from hyperframes.index import Index

LENGTH, LEAST_LENGTH, TOLERANCE, RATE = 4.0, 5.0, 0.5, 1.25
BLACK = "long_180p_av1.mp4"

WAYS = {
    "encoded anew": ("null", 35),
    "rescaled": ("scale=trunc(iw*0.45/2)*2:trunc(ih*0.45/2)*2", 26),
    "cropped by 10 %": ("crop=trunc(iw*0.9/2)*2:trunc(ih*0.9/2)*2", 26),
    "brighter": ("eq=brightness=0.15", 26),
    "faster by a quarter": (f"setpts=PTS/{RATE}", 26),
}
"""ffmpeg's filter, and the rate factor of x264."""


class Video(NamedTuple):
    path: Path
    seconds: float


class Cut(NamedTuple):
    """A stretch of a video."""

    video: Video
    start: float


def videos(media: Path) -> list[Video]:
    with (media / "index.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [
        Video(media / row["path"], float(row["seconds"]))
        for row in rows
        if row["path"].startswith(("video/", "actions/"))
        and row["width"]
        and row["seconds"]
        and float(row["seconds"]) >= 1
        and not row["path"].endswith(BLACK)
    ]


def cuts_of(chosen: list[Video], count: int, seed: int) -> list[Cut]:
    dice, chosen = random.Random(seed), [video for video in chosen if video.seconds >= LEAST_LENGTH]
    return [Cut(v, dice.uniform(0, v.seconds - LENGTH - 0.2)) for v in dice.choices(chosen, k=count)]


def make_over(cut: Cut, way: str, target: Path) -> None:
    """Write the cut, made over; sides stay even, as the encoder wants them. Decoded from the start: seeking breaks some files."""
    filters, factor = WAYS[way]
    taken = ["-i", os.fspath(cut.video.path), "-an", "-sn", "-dn"]
    part = f"trim=start={cut.start:.3f}:duration={LENGTH},setpts=PTS-STARTPTS"
    written = ["-vf", f"{part},{filters},pad=ceil(iw/2)*2:ceil(ih/2)*2,format=yuv420p", "-c:v", "libx264"]
    written += ["-preset", "veryfast", "-crf", f"{factor}", os.fspath(target)]
    subprocess.run(["ffmpeg", "-v", "error", "-y", *taken, *written], check=True)


def first_seconds(path: Path) -> float:
    """Return when the first frame stands: ffmpeg counts from there."""
    with hf.open(path) as source:
        return float(next(iter(source.read(0, 1))).pts * source.spec.time_base)


def asked(index: Index, cut: Cut, way: str, folder: Path) -> dict[str, object]:
    """Look for the middle of a cut made over; say what came first."""
    clip = folder / "clip.mp4"
    make_over(cut, way, clip)
    middle = LENGTH / (2 * RATE) if way.startswith("faster") else LENGTH / 2
    truth = first_seconds(cut.video.path) + cut.start + LENGTH / 2
    began = time.perf_counter()
    hits = index.search(like=f"{clip}@{middle:.3f}", top=10)
    taken = time.perf_counter() - began
    copies = [hit for hit in hits if hit.at_seconds is not None]
    source = bool(hits) and hits[0].source == str(cut.video.path)
    error = abs(copies[0].at_seconds - truth) if copies and source else None
    return {
        "video": cut.video.path.name,
        "at": truth,
        "source": source,
        "right": error is not None and error <= TOLERANCE,
        "error_seconds": error,
        "score": copies[0].score if copies else None,
        "found": Path(copies[0].source).name if copies else None,
        "seconds": taken,
    }


def measured(index: Index, known: list[Cut], unknown: list[Cut], folder: Path) -> dict[str, object]:
    rows = {way: [asked(index, cut, way, folder) for cut in known] for way in WAYS}
    others = [asked(index, cut, next(iter(WAYS)), folder) for cut in unknown]
    false = [{name: row[name] for name in ("video", "found", "score")} for row in others if row["found"] is not None]
    errors = [r["error_seconds"] for way in rows.values() for r in way if r["right"]]
    every = [r for way in rows.values() for r in way]
    return {
        "cuts": len(known),
        "seconds": LENGTH,
        "spans": len(index),
        "ways": {
            way: {name: statistics.mean(r[name] for r in several) for name in ("source", "right")}
            for way, several in rows.items()
        },
        "right": statistics.mean(r["right"] for r in every),
        "median_error_seconds": statistics.median(errors),
        "median_search_seconds": statistics.median(r["seconds"] for r in every),
        "unknown_cuts": len(others),
        "unknown_called_copies": len(false),
        "unknown": false,
        "least_score": LEAST_SCORE,
        "wrong": [{"way": way, **r} for way, several in rows.items() for r in several if not r["right"]],
    }


def described(chosen: list[Video], folder: Path) -> Index:
    """Return a dataset of the videos, made without models: copies need none."""
    index = hf.open_index(folder / "library.lance")
    for video in chosen:
        found = hf.describe(video.path, detector=None, text=None)
        if not index.holds(found.content_hash, found.parameters):
            index.update(found)
    return index


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--cuts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--work", type=Path, help="where the dataset is kept for the next time")
    given = parser.parse_args()
    every = videos(Path(os.environ["HYPERFRAMES_TEST_MEDIA"]).resolve())
    unknown, known = every[::6], [video for number, video in enumerate(every) if number % 6]
    with tempfile.TemporaryDirectory() as name:
        index = described(known, given.work or Path(name))
        told = measured(
            index, cuts_of(known, given.cuts, given.seed), cuts_of(unknown, given.cuts // 2, given.seed), Path(name)
        )
    told |= {"videos": len(known), "video_seconds": sum(video.seconds for video in known)}
    given.results.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
