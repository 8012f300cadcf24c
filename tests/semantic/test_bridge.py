"""Pictures in the space of sentences: labels of a classifier and a detector, and encoders that plugins bring."""

import pickle

import numpy as np
import pytest
from tests.semantic.scenes import footage, moving
from tests.semantic.test_tasks import Words

import hyperframes as hf
from hyperframes import registry
from hyperframes.errors import RegistryError, SourceError
from hyperframes.semantic import Classifier, LabelBridge, bridge
from hyperframes.semantic.models import CLASS_NAMES, CLASSIFIER, MODELS_VARIABLE

FILM = np.repeat(footage(moving(1, 40, 2))[..., None], 3, axis=3)


class Sight:
    """Sees how bright a picture is: one direction for dark, one for bright."""

    model_id = "sight 1"

    def encode(self, texts):
        found = np.zeros((len(texts), 384), np.float32)
        found[np.arange(len(texts)), ["dark", "bright"].index(texts[0])] = 1
        return found

    def see(self, picture):
        found = np.zeros(384, np.float32)
        found[:2] = 1 - picture.mean() / 255, picture.mean() / 255
        return found


@pytest.fixture
def models(media, monkeypatch):
    folder = media.parent / "models"
    monkeypatch.setenv(MODELS_VARIABLE, str(folder))
    return folder


def test_an_encoder_of_a_plugin_gives_the_text_vector(monkeypatch):
    monkeypatch.setitem(registry.encoders._registered, "sight", Sight)
    made = list(hf.describe(FILM, detector=None, text="sight"))
    level = FILM.mean() / 255
    for descriptor in made:
        assert (descriptor.text_model, descriptor.models["text"]) == ("sight 1", "sight 1")
        expected = np.array([1 - level, level]) / np.hypot(1 - level, level)
        np.testing.assert_allclose(descriptor.text_vector[:2], expected, atol=0.02)
    assert made[0].parameters != next(hf.describe(FILM, detector=None, text=None)).parameters
    with pytest.raises(RegistryError, match="no encoder named 'sigth'"):
        hf.describe(FILM, detector=None, text="sigth")


def test_the_bridge_adds_the_labels_of_classifier_and_detector():
    words = Words()
    made = LabelBridge(words)
    car, bicycle = words.encode(["a photo of a car", "a photo of a bicycle"]).astype(float)
    scores = np.zeros(80, np.float32)
    assert made.vector(scores, np.zeros(384, np.float32)) is None
    np.testing.assert_allclose(made.vector(scores, car.astype(np.float32)), car, atol=1e-3)
    scores[1] = 0.5
    mixed = 0.25 * car + 0.5 * bicycle
    np.testing.assert_allclose(made.vector(scores, 0.25 * car), mixed / np.linalg.norm(mixed), atol=1e-3)
    assert not made.see(np.zeros((8, 8, 3), np.uint8)).any()


def test_labels_are_encoded_once_and_a_damaged_file_of_them_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERFRAMES_CACHE", str(tmp_path))
    asked = []

    class Counting(Words):
        def encode(self, texts):
            asked.append(len(texts))
            return super().encode(texts)

    first = bridge._named(Counting(), ["cat", "dog"])
    np.testing.assert_array_equal(bridge._named(Counting(), ["cat", "dog"]), first)
    assert asked == [2]
    (file,) = (tmp_path / "labels").iterdir()
    file.write_bytes(b"damaged")
    np.testing.assert_array_equal(bridge._named(Counting(), ["cat", "dog"]), first)
    assert asked == [2, 2]


@pytest.mark.media
@pytest.mark.slow
def test_real_footage_is_seen_by_the_classifier(models):
    made = bridge.label_bridge()
    assert set(made.models) == {"classifier"}
    film = models.parent / "data/video/bikes.mp4"
    (frame,) = hf.run(hf.open(film)[10:11], [], pixel_format="rgb24").array
    seen = made.see(frame)
    asked = made.encode(["a mountain bike", "a bowl of soup"])
    assert asked[0] @ seen > asked[1] @ seen
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).see(frame), seen)
    described = next(hf.describe(film, range=(0, 60)))
    assert set(described.models) == {"classifier", "detector", "text"}
    assert described.text_vector.shape == (384,)
    assert described.models["classifier"].startswith(CLASSIFIER)


@pytest.mark.media
def test_names_that_are_missing_are_told(models, tmp_path):
    with pytest.raises(SourceError, match="cannot read the names of the classifier's classes") as caught:
        Classifier(models / CLASSIFIER, tmp_path / CLASS_NAMES)
    assert CLASS_NAMES in caught.value.hint


def test_without_a_sentence_encoder_the_bridge_says_what_is_missing(monkeypatch):
    monkeypatch.delenv(MODELS_VARIABLE, raising=False)
    assert bridge.find_image_encoder("auto") is None
    with pytest.raises(SourceError, match=r"understanding text needs the model file minilm-l6-int8\.onnx"):
        bridge.get_image_encoder()
