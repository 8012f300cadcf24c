"""Search by text, picture and task: exact and by LanceDB, against slow references; what cannot be asked is said."""

import dataclasses

import cv2
import numpy as np
import pytest
from tests.index.library import span
from tests.semantic.test_bridge import Sight

import hyperframes as hf
from hyperframes.errors import FrameError, PipelineError, SourceError
from hyperframes.index import search
from hyperframes.semantic import Projection, Tasks, ZeroShotWarning, describe, tasks

LEVELS = [20, 60, 100, 140, 180, 220]


def picture(level, seed=0):
    """Noise about a grey level, with a bar that stands elsewhere for every seed."""
    noise = np.random.default_rng(seed).integers(-9, 10, (48, 64, 1))
    made = np.clip(level + noise, 0, 255).astype(np.uint8).repeat(3, axis=2)
    made[:, 6 * seed % 50 : 6 * seed % 50 + 8] //= 2
    return made


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Films of one level each, seen by brightness; one span without a text vector."""
    index = hf.open_index(tmp_path_factory.mktemp("library") / "library.lance")
    for level in LEVELS:
        film = np.stack([picture(level, seed) for seed in range(12)])
        source = hf.open(film)
        made = list(describe(source, detector=None, text=Sight()))
        index.add([_named(d, f"{level}.mp4") for d in made])
    index.add(span("blind.mp4", models={}))
    return index


def _named(descriptor, name):
    return dataclasses.replace(descriptor, source=name, content_hash=name)


@pytest.fixture(params=["in memory", "asked of LanceDB"])
def asked(request, library, monkeypatch):
    if request.param != "in memory":
        monkeypatch.setattr(search, "IN_MEMORY_ROWS", 1)
    return library


@pytest.mark.parametrize("where", [None, "source != '220.mp4'"])
def test_a_text_finds_what_is_seen(asked, where):
    hits = asked.search(text="bright", encoder=Sight(), top=4, where=where)
    told = [d for d in asked.descriptors(where) if d.text_vector is not None]
    scored = sorted(((float(d.text_vector[1]), d) for d in told), key=lambda pair: -pair[0])[:4]
    assert [h.descriptor_id for h in hits] == [d.descriptor_id for _, d in scored]
    assert [h.score for h in hits] == pytest.approx([score for score, _ in scored], abs=1e-3)
    assert hits[0].source == ("220.mp4" if where is None else "180.mp4")
    assert "blind.mp4" not in [h.source for h in asked.search(text="dark", encoder=Sight(), top=100)]


def test_a_picture_finds_the_film_it_is_of(asked, tmp_path):
    cv2.imwrite(str(tmp_path / "seen.png"), picture(140, seed=3))
    hits = asked.search(image=tmp_path / "seen.png", encoder=Sight(), top=3)
    assert hits[0].source == "140.mp4"
    assert hits == asked.search(image=picture(140, seed=3), encoder=Sight(), top=3)
    looked = next(describe(picture(140, seed=3)[None], detector=None, text=Sight()))
    best = {d.descriptor_id: d for d in asked.descriptors()}[hits[0].descriptor_id]
    ours, theirs = (d.semantic_features[256:384].astype(float) for d in (looked, best))
    seen = float(looked.text_vector.astype(float) @ best.text_vector.astype(float))
    texture = float(ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs))
    assert looked.feature_parts == (False, False, True, False)
    assert hits[0].score == pytest.approx((texture + seen) / 2, abs=2e-3)


@pytest.fixture
def registry(monkeypatch):
    made = Tasks()
    monkeypatch.setattr(tasks, "TASKS", made)
    monkeypatch.setattr(search, "TASKS", made)
    return made


@pytest.mark.requirement("C86")
@pytest.mark.parametrize("where", [None, "source != '100.mp4'"])
def test_a_task_compares_what_matters_for_it(asked, registry, where):
    matrix = np.random.default_rng(5).normal(size=(512, 256)).astype(np.float32)
    registry.register(Projection("sort", matrix))
    like = span("query").semantic_features
    hits = asked.search(like=like, task="sort", top=4, where=where)
    everything = asked.descriptors()
    projected = {d.descriptor_id: d.semantic_features.astype(float) @ matrix.astype(float) for d in everything}
    query = like.astype(float) @ matrix.astype(float)
    near = sorted(asked.descriptors(where), key=lambda d: ((projected[d.descriptor_id] - query) ** 2).sum())[:4]
    assert [h.descriptor_id for h in hits] == [d.descriptor_id for d in near]
    same = asked.search(like=everything[0], task="sort", top=1)[0]
    assert (same.descriptor_id, same.score) == (everything[0].descriptor_id, pytest.approx(1, abs=1e-4))
    if where is None:
        points = np.stack(list(projected.values()))
        variance = ((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()
        distance = ((projected[hits[0].descriptor_id] - query) ** 2).sum()
        assert hits[0].score == pytest.approx(1 - distance / (2 * variance), rel=1e-3)


def test_a_task_that_is_only_guessed_is_told(library, registry):
    registry.register(Projection("guess", np.eye(512, 256), zero_shot=True))
    with pytest.warns(ZeroShotWarning, match="task 'guess' is zero-shot"):
        library.search(like=span("query"), task="guess")


class Foreign(Sight):
    model_id = "sight 2"


def test_what_cannot_be_asked_is_said(library, tmp_path):
    with pytest.raises(PipelineError, match="expected one of like, image and text, got none"):
        library.search()
    with pytest.raises(PipelineError, match="got like and text"):
        library.search(like="a@1", text="bright")
    with pytest.raises(PipelineError, match="a task compares features: expected it together with like") as caught:
        library.search(text="bright", task="sort")
    assert "search for what is like it" in caught.value.hint
    with pytest.raises(FrameError, match=r"text vectors in .* were made with sight 1: got a question by sight 2"):
        library.search(text="bright", encoder=Foreign())
    with pytest.raises(SourceError, match=r"no such picture: none\.png"):
        library.search(image="none.png")
    with pytest.raises(FrameError, match=r"expected \(H, W, 3\) uint8, got \(4, 4\) float64"):
        library.search(image=np.zeros((4, 4)))
    empty = hf.open_index(tmp_path / "empty.lance")
    empty.add(span())
    with pytest.raises(FrameError, match=r"no descriptor in .* has a text vector") as caught:
        empty.search(text="bright", encoder=Sight())
    assert "HYPERFRAMES_MODELS" in caught.value.hint


def test_without_models_a_text_is_refused_with_what_is_missing(library, monkeypatch):
    monkeypatch.delenv("HYPERFRAMES_MODELS", raising=False)
    with pytest.raises(SourceError, match=r"needs the model file minilm-l6-int8\.onnx"):
        library.search(text="bright")


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.requirement("C105")
def test_real_films_are_found_by_text_and_by_a_frame_of_them(media, tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERFRAMES_MODELS", str(media.parent / "models"))
    index = hf.open_index(tmp_path / "library.lance")
    films = ["bikes.mp4", "cockatoo.mp4", "carphone_pristine.mp4", "bottle-detection.mp4"]
    for film in films:
        index.add(hf.describe(media / "video" / film, range=(0, 100)))
    for text, film in [("a parrot", "cockatoo.mp4"), ("a bicycle in the street", "bikes.mp4")]:
        assert index.search(text=text, top=1)[0].source.endswith(film)
    for film in films:
        frame = hf.run(hf.open(media / "video" / film).at(seconds=1.1), [], pixel_format="rgb24").array[0]
        assert index.search(image=frame, top=1)[0].source.endswith(film)
    with pytest.raises(FrameError, match="the sentence encoder reads English"):
        index.search(text="检测电路板上的虚焊")
