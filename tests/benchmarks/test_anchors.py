"""The comparison of anchors with others: its films, its ways to choose and its figures."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from hyperframes.semantic import find_anchors

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_anchors.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_anchors", FILE)
    module = sys.modules["bench_anchors"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.media
@pytest.mark.slow
def test_transitions_of_a_spliced_film_are_found(bench, media, tmp_path):
    """One clip of each camera: cuts to nearly the same view are another matter."""
    names = ("fi002", "fi044", "fi074", "nofi003", "nofi018", "nofi093")
    clips = [media / f"actions/surveillance_fights/{name}.mp4" for name in names]
    truth = bench.splice(clips, tmp_path / "film.mp4", seed=3, size=(320, 180))
    found = find_anchors(tmp_path / "film.mp4")
    told = bench.score([round(bench.RATE * anchor.seconds) for anchor in found.cuts], truth)
    assert len(truth.cuts) + len(truth.fades) == 5
    assert told["f1"] >= 0.8


@pytest.mark.media
@pytest.mark.slow
def test_chosen_frames_are_more_often_in_events_than_even_ones(bench, media):
    """On the part that nothing was tuned on; coverage and balance are in the report."""
    stream = bench.falls(media, "test")
    count = 4 * len(stream.events)
    ours = bench.figures(find_anchors(stream.path).choose(count), stream.events)
    evenly = bench.figures(bench.uniform(stream.frames, count), stream.events)
    assert ours["precision"] > evenly["precision"]
    assert ours["coverage"] == 1


def test_a_clip_has_the_label_of_the_nearest_one_of_another_recording(bench):
    def track(label, split, recording, place):
        return bench.Track(label, split, ("set1", recording), np.eye(4, dtype=np.float32)[[place] * 5], None)

    people = [track("kick", "train", "1", 0), track("hug", "train", "1", 1)]
    people += [track("kick", "test", "2", 0), track("kick", "test", "2", 1)]
    first = lambda track, count: np.arange(count)
    assert bench.right(people, first, 3).tolist() == [True, False, True, False]
    low, high = bench.interval(np.array([True, False, True, False]), ["1", "1", "2", "2"])
    assert low == high == 0.5
    assert bench.pose(np.zeros((112, 80), np.uint8)).shape == (12 * 8 * 9,)


def test_scores_match_each_transition_once(bench):
    truth = bench.Truth([10, 50], [(80, 100)])
    assert bench.score([10, 11, 50, 90, 200], truth) == pytest.approx({"precision": 0.6, "recall": 1.0, "f1": 0.75})
    assert bench.figures([1, 5, 20], [(0, 10), (30, 40)]) == {"precision": 2 / 3, "coverage": 0.5, "balance": 0.0}
    assert bench.by_scenes([40], 100, 3).tolist() == [20, 55, 85]
