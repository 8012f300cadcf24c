"""Tasks: what a fitted projection gains on labelled clips, and how well the closed-form generator guesses one left out.

    HYPERFRAMES_TEST_MEDIA=... HYPERFRAMES_MODELS=... python benchmarks/bench_tasks.py --results tasks.json --work FOLDER

A task is to tell one kind of clip from the rest of its collection: seven from the clips of persons and of surveillance cameras. Each is fitted
on the training part alone. Then each is left out in turn and guessed from its text and the six others. What counts is the mean average
precision with which a test clip of the kind finds the training clips of its kind, by what is projected.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hyperframes as hf
from hyperframes.semantic import Tasks, load, save

FOLDERS = ("person_tracks", "surveillance_fights")
TASKS = {
    "people shaking hands": ("person_tracks", "handshake"),
    "people hugging each other": ("person_tracks", "hug"),
    "a person kicking another": ("person_tracks", "kick"),
    "a person pointing with a finger": ("person_tracks", "point"),
    "a person punching another": ("person_tracks", "punch"),
    "a person pushing another away": ("person_tracks", "push"),
    "people fighting": ("surveillance_fights", "fight"),
}


class Clip(NamedTuple):
    folder: str
    label: str
    split: str
    features: np.ndarray
    """(k, 512): of its spans."""


def clips(media: Path, work: Path) -> list[Clip]:
    found = []
    for folder in FOLDERS:
        with (media / "actions" / folder / "labels.csv").open() as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            kept = work / f"{folder}-{row['file']}.arrow"
            if not kept.exists():
                save(list(hf.describe(media / "actions" / folder / row["file"], text=None)), kept)
            several = np.stack([d.semantic_features for d in load(kept)])
            found.append(Clip(folder, row["label"], row["split"], several))
    return found


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def average_precision(clips_of: list[Clip], label: str, matrix: np.ndarray, mean: np.ndarray) -> float:
    """Return the mean over test clips of the kind; clips are compared by the cosine of what is projected of their means."""
    projected = unit((np.stack([clip.features.mean(axis=0) for clip in clips_of]) - mean) @ matrix)
    train = [k for k, clip in enumerate(clips_of) if clip.split == "train"]
    right = np.array([clips_of[k].label == label for k in train])
    told = []
    for k, clip in enumerate(clips_of):
        if clip.split == "test" and clip.label == label:
            order = np.argsort(-(projected[train] @ projected[k]), kind="stable")
            hits = right[order]
            told.append(float((np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1)).mean()))
    return statistics.mean(told)


def measured(every: list[Clip]) -> dict[str, object]:
    tasks, rows = Tasks(), {}
    for task, (folder, label) in TASKS.items():
        train = [clip for clip in every if clip.folder == folder and clip.split == "train"]
        given = [(row, clip.label == label) for clip in train for row in clip.features]
        features, labels = np.stack([row for row, _ in given]), [is_it for _, is_it in given]
        from hyperframes.semantic.tasks import fit_projection

        tasks.register(fit_projection(task, features, labels))
    cosines = tasks.leave_one_out()
    for task, (folder, label) in TASKS.items():
        those = [clip for clip in every if clip.folder == folder]
        mean = np.concatenate([clip.features for clip in those if clip.split == "train"]).mean(axis=0)
        guess = tasks._guess(task, [name for name in tasks.names if name != task])
        matrices = {"features": np.eye(512), "guessed": guess.matrix, "fitted": tasks.projection(task).matrix}
        rows[task] = {
            "test_clips": sum(clip.split == "test" and clip.label == label for clip in those),
            "chance": statistics.mean(clip.label == label for clip in those if clip.split == "train"),
            **{name: average_precision(those, label, matrix, mean) for name, matrix in matrices.items()},
            "guess_cosine": cosines[task],
        }
    names = ("chance", "features", "guessed", "fitted", "guess_cosine")
    return {"tasks": rows, "mean": {name: statistics.mean(row[name] for row in rows.values()) for name in names}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where descriptors are kept for the next time")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    media = Path(os.environ["HYPERFRAMES_TEST_MEDIA"]).resolve()
    given.results.write_text(json.dumps(measured(clips(media, given.work)), indent=1) + "\n")


if __name__ == "__main__":
    main()
