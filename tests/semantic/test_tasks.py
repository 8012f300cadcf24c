"""Tasks: projections that are fitted mean something, those that are guessed say so, and text is never embedded as noise."""

import os
import warnings

import numpy as np
import pytest

from hyperframes.errors import FrameError, SourceError
from hyperframes.semantic import TASKS, Descriptor, LabelBridge, MiniLm, Projection, Tasks, ZeroShotWarning
from hyperframes.semantic.coco import COCO_CLASSES
from hyperframes.semantic.models import TEXT_MODEL, find_model
from hyperframes.semantic.tasks import fit_projection


def descriptor(features):
    return Descriptor("a.mp4", "0", (0, 8), (0.0, 0.3), semantic_features=features, feature_parts=(True,) * 4)


class Words:
    """Encodes by the words of a text: each has a direction of its own."""

    model_id = "words"

    def encode(self, texts):
        found = np.zeros((len(texts), 384), np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.split():
                row += np.random.default_rng(list(word.encode())).normal(size=384)
            row /= np.linalg.norm(row)
        return found


def labelled(random, count=300):
    """Features with three labels told apart by numbers 200 and 201 only, under much noise elsewhere."""
    labels = random.integers(0, 3, count)
    features = random.normal(0, 1.0, (count, 512)) * np.where(np.arange(512) < 100, 1, 0.01)
    features[:, 200] += 0.3 * (labels == 1)
    features[:, 201] += 0.3 * (labels == 2)
    return features.astype(np.float32), labels.tolist()


def nearest(known, labels, asked):
    gaps = ((asked[:, None] - known[None]) ** 2).sum(axis=2)
    return [labels[k] for k in gaps.argmin(axis=1)]


@pytest.mark.requirement("C86", "C87")
def test_a_fitted_projection_finds_what_tells_labels_apart():
    random = np.random.default_rng(0)
    features, labels = labelled(random)
    others, wanted = labelled(random)
    plain = np.mean([a == b for a, b in zip(nearest(features, labels, others), wanted, strict=True)])
    found = fit_projection("sort", features, labels)
    near = nearest(features @ found.matrix, labels, others @ found.matrix)
    assert np.mean([a == b for a, b in zip(near, wanted, strict=True)]) > 0.95 > plain + 0.3
    assert found.matrix[:, 2:].max() == 0
    assert (found.matrix**2).sum() == pytest.approx(1)
    assert not found.zero_shot


@pytest.mark.requirement("C88", "C121")
def test_projections_stay_in_the_registry_with_a_version():
    tasks = Tasks(Words())
    features, labels = labelled(np.random.default_rng(1))
    found = tasks.fit("sort", [descriptor(f) for f in features], labels)
    assert tasks.projection("sort") is found
    assert tasks.names == ["sort"]
    assert found.matrix.nbytes == 524_288
    again = fit_projection("sort", features, labels)
    assert again.version == found.version
    assert found.version.startswith("fitted ")
    assert tasks.register(Projection("sort", np.ones((512, 256)))).version != found.version
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tasks.project(features, "sort").shape == (300, 256)


@pytest.mark.requirement("C87")
def test_a_task_without_labels_is_guessed_from_its_text_and_says_so():
    tasks = Tasks(Words())
    features = np.eye(512, dtype=np.float32)
    with pytest.warns(ZeroShotWarning, match="task 'count every bicycle' is zero-shot"):
        found = tasks.project(features, "count every bicycle")
    strength = (found**2).sum(axis=1)
    assert int(strength.argmax()) == COCO_CLASSES.index("bicycle")
    assert not strength[80:].any()
    assert tasks.projection("count every bicycle").version.startswith("zero-shot ")


@pytest.mark.slow
def test_fitted_tasks_help_to_guess_those_like_them():
    tasks, random = Tasks(Words()), np.random.default_rng(2)
    for name in ("defect on white boards", "defect on black boards", "defect on grey boards"):
        tasks.fit(name, *fitting(random))
    matrix = tasks.projection("defect on green boards").matrix
    assert int((matrix**2).sum(axis=1).argmax()) in {200, 201}
    assert min(tasks.leave_one_out().values()) > 0.5


def fitting(random):
    features, labels = labelled(random)
    return [descriptor(f) for f in features], labels


def test_wrong_labels_and_matrices_are_told():
    features, labels = labelled(np.random.default_rng(3))
    with pytest.raises(FrameError, match=r"two different ones or more: got \(300, 512\) and 300 labels, 1 different"):
        fit_projection("sort", features, [0] * 300)
    with pytest.raises(FrameError, match=r"got .* and 299 labels"):
        fit_projection("sort", features, labels[:-1])
    with pytest.raises(FrameError, match="the features of task 'sort' are the same for all labels"):
        fit_projection("sort", np.ones((4, 512)), [0, 1, 0, 1])
    with pytest.raises(FrameError, match=r"the projection of task 'sort': expected finite numbers \(512, 256\)"):
        Projection("sort", np.full((512, 256), np.nan))


def test_without_an_encoder_a_task_without_labels_is_an_error_that_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("HYPERFRAMES_MODELS", raising=False)
    with pytest.raises(SourceError, match=r"understanding text needs the model file minilm-l6-int8\.onnx"):
        Tasks().projection("find dry solder joints")


def test_descriptors_project_themselves(monkeypatch):
    monkeypatch.setattr("hyperframes.semantic.tasks.TASKS", Tasks(Words()))
    from hyperframes.semantic import tasks

    tasks.TASKS.register(Projection("all", np.eye(512, 256)))
    made = descriptor(np.arange(512, dtype=np.float32))
    np.testing.assert_array_equal(made.project("all"), np.arange(256))
    assert TASKS.names == []


def test_the_bridge_mixes_the_labels_that_are_seen():
    bridge, words = LabelBridge(Words()), Words()
    scores = np.zeros(80, np.float32)
    assert bridge.vector(scores) is None
    scores[[1, 2]] = 0.9, 0.3
    expected = np.array([0.9, 0.3]) @ words.encode(["a photo of a bicycle", "a photo of a car"]).astype(float)
    found = bridge.vector(scores)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-3)


@pytest.fixture(scope="module")
def encoder(media):
    path = find_model(TEXT_MODEL) or media.parent / "models" / TEXT_MODEL
    if not path.is_file():
        pytest.fail(f"no {TEXT_MODEL}") if os.environ.get("CI") == "true" else pytest.skip(f"no {TEXT_MODEL}")
    return MiniLm(path)


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.requirement("C85", "C105")
def test_sentences_that_mean_alike_are_near_and_other_languages_are_refused(encoder):
    one, like, other = encoder.encode(
        ["count cars at a crossing", "traffic and vehicles on a road", "an elderly person collapses"]
    )
    np.testing.assert_allclose(np.linalg.norm([one, like, other], axis=1), 1, atol=1e-3)
    assert one @ like > 0.35
    assert one @ other < 0.2
    for text in ("检测电路板上的虚焊", "поиск людей", "", "猫"):
        with pytest.raises(FrameError, match="the sentence encoder reads English") as caught:
            encoder.encode([text])
        assert "multilingual encoder" in caught.value.hint
    assert int((Tasks(encoder).projection("find bicycles").matrix ** 2).sum(axis=1).argmax()) == 1
