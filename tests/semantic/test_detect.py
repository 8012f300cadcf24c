"""Detection: the decode as a slow reference has it, and real pictures with a real model where there is one."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.onnx_files import means

import hyperframes as hf
from hyperframes.errors import PipelineError, SourceError
from hyperframes.frames import FrameSpec
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic.coco import COCO_CLASSES
from hyperframes.semantic.detect import Detect, decode, suppress
from hyperframes.semantic.models import DETECTOR, find_model, get_model
from hyperframes.sinks import MemorySink


def test_boxes_lie_where_the_expected_distances_say():
    side, random = 64, np.random.default_rng(0)
    outputs = []
    for stride in (8, 16, 32):
        n = (side // stride) ** 2
        outputs += [random.random((n, 80)).astype("f4"), random.normal(size=(n, 44)).astype("f4")]
    scores, corners = decode(outputs[::-1], side)
    assert scores.shape == (64 + 16 + 4, 80)
    cell, stride, logits = 64 + 6, 16, outputs[3][6].astype(float)  # row 1, column 2 of the 4 x 4 cells of stride 16
    reach = []
    for k in range(4):
        shares = [math.exp(v) for v in logits[11 * k : 11 * k + 11]]
        reach.append(stride * sum(b * s for b, s in enumerate(shares)) / sum(shares))
    centre = (2.5 * 16, 1.5 * 16)
    expected = [centre[0] - reach[0], centre[1] - reach[1], centre[0] + reach[2], centre[1] + reach[3]]
    np.testing.assert_allclose(corners[cell], np.clip(np.array(expected) / side, 0, 1), atol=1e-9)
    np.testing.assert_array_equal(scores[cell], outputs[2][6])


def overlap(a, b):
    width, height = (max(0.0, min(a[k + 2], b[k + 2]) - max(a[k], b[k])) for k in (0, 1))
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return width * height / max(1e-12, sum(areas) - width * height)


@given(st.integers(0, 10_000), st.integers(0, 40))
def test_of_boxes_that_overlap_the_best_of_its_class_is_kept(seed, count):
    random = np.random.default_rng(seed)
    low = random.random((count, 2)) * 0.5
    corners = np.concatenate([low, low + random.uniform(0.2, 0.5, (count, 2))], axis=1).astype("f4")
    scores = np.zeros((count, 80), "f4")
    scores[np.arange(count), random.integers(0, 2, count)] = random.permutation(count) / 50
    found = suppress(scores, corners, 0.3, 0.5)
    kept = []
    for score, cell, kind in sorted(((float(scores[i, k]), i, k) for i in range(count) for k in (0, 1)), reverse=True):
        rivals = [corners[i].astype(float) for _, i, k in kept if k == kind]
        if score >= np.float32(0.3) and all(overlap(corners[cell].astype(float), r) <= 0.5 for r in rivals):
            kept.append((score, cell, kind))
    assert [(float(row[4]), int(row[5])) for row in found if row[4] > 0] == [(s, k) for s, _, k in kept[:32]]


def test_other_models_are_refused_in_a_sentence(tmp_path):
    model = means(tmp_path / "means.onnx")
    with pytest.raises(PipelineError, match="is no NanoDet detector of COCO: expected scores"):
        Detect(str(model)).configure((FrameSpec.picture(8, 8, "rgb24"),))
    with pytest.raises(PipelineError, match="threshold is a number: expected above 0 to 1, got 0"):
        Detect(str(model), threshold=0)


def test_models_are_looked_for_in_the_folders_that_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERFRAMES_MODELS", f"{tmp_path / 'none'}{os.pathsep}{tmp_path}")
    assert find_model(DETECTOR) is None
    with pytest.raises(SourceError, match=r"finding people needs the model file nanodet-416\.onnx") as caught:
        get_model(DETECTOR, "finding people")
    assert caught.value.hint == "Put the file in a folder and set HYPERFRAMES_MODELS=FOLDER."
    (tmp_path / DETECTOR).write_bytes(b"")
    assert get_model(DETECTOR, "finding people") == tmp_path / DETECTOR


@pytest.fixture(scope="module")
def detector(media):
    """The published detector beside the real files."""
    path = find_model(DETECTOR) or Path(media).parent / "models" / DETECTOR
    if not path.is_file():
        pytest.fail(f"no {DETECTOR}") if os.environ.get("CI") == "true" else pytest.skip(f"no {DETECTOR}")
    return str(path)


def found_in(source, detector, **options):
    sinks = {"detect.boxes": MemorySink(), "detect.scores": MemorySink()}
    hf.run(Pipeline.of(source, [Stage("detect", Detect(detector))], dict(sinks), **options))
    return [np.array(sink.result.data) for sink in sinks.values()]


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "frames", "kind", "least"),
    [
        ("multicam_people/cam01.mp4", (10, 11), "person", 0.5),
        ("bottle-detection.mp4", (300, 301), "bottle", 0.4),
    ],
)
def test_what_real_pictures_show_is_found(media, detector, name, frames, kind, least):
    boxes, scores = found_in(media / "video" / name, detector, range=frames)
    number = COCO_CLASSES.index(kind)
    seen = boxes[0][(boxes[0, :, 4] > 0) & (boxes[0, :, 5] == number)]
    assert len(seen)
    assert seen[0, 4] >= least
    assert scores[0, number] == seen[0, 4]
    assert (seen[:, 2] > seen[:, 0]).all()
    assert (seen[:, 3] > seen[:, 1]).all()
