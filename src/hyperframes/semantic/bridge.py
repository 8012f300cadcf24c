"""Pictures in the space of sentences: what a classifier and a detector call them, or an encoder that a plugin brings."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

import cv2
import numpy as np

from hyperframes.drivers.profile import cache_folder
from hyperframes.errors import PipelineError, SourceError
from hyperframes.frames import Array, FrameSpec
from hyperframes.operators import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.checks import frame_spec
from hyperframes.operators.onnx_model import form_of, identity, model_id
from hyperframes.registry import encoders
from hyperframes.semantic.cache import DiskCache
from hyperframes.semantic.coco import COCO_CLASSES
from hyperframes.semantic.models import CLASS_NAMES, CLASSIFIER, find_model
from hyperframes.semantic.text import find_encoder, get_encoder

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe
    from hyperframes.semantic.text import TextEncoder

__all__ = [
    "Classifier",
    "ImageEncoder",
    "LabelBridge",
    "See",
    "find_image_encoder",
    "get_image_encoder",
    "label_bridge",
]

NUM_TEXT: Final = 384
_BEST_LABELS: Final = 10
_LEAST_SCORE: Final = 0.1
_LEAST_LENGTH: Final = 0.05  # of a mix of labels: below it the classifier sees everything and nothing
_FLAT: Final = 2.0  # grey levels: pictures of a single tone show nothing
_FOR_GOOD: Final = 10 * 365 * 86400.0


@runtime_checkable
class ImageEncoder(Protocol):
    """What brings pictures and texts into one space of 384 numbers; plug in CLIP or SigLIP where there are weights.

    Register a factory of it with `hyperframes.registry.encoders`, or as an entry point of ``hyperframes.encoders``. A model
    with more numbers is reduced to 384 by its plugin, texts and pictures alike.
    """

    model_id: str
    """Vectors of encoders with different ids must not be compared."""

    def encode(self, texts: Sequence[str]) -> Array:
        """Return (n, 384) float32, unit length; a FrameError for a text that means nothing to it."""
        ...

    def see(self, picture: Array) -> Array:
        """Return (384,) float32 for an RGB picture (H, W, 3) of uint8: the longer, the surer; zeros for nothing."""
        ...


class Classifier:
    """An ImageNet classifier with the names of its classes: EfficientNet-lite0 on ONNX Runtime.

    Parameters
    ----------
    model : path
        ``efficientnet-lite0.onnx``, or another model (n, 3, H, W) of RGB as ``(px - 127) / 128`` whose first output is
        the logits.
    names : path, optional
        ``imagenet-class-names.json``: the names in order; by default beside the model.

    Raises
    ------
    SourceError
        If the names cannot be read.
    PipelineError
        If the model cannot.
    MissingExtraError
        Without onnxruntime.

    References
    ----------
    .. [1] M. Tan, Q. Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019.
       arXiv:1905.11946
    """

    def __init__(self, model: str | os.PathLike[str], names: str | os.PathLike[str] | None = None) -> None:
        self._path = Path(model)
        self._names_path = Path(names) if names is not None else self._path.with_name(CLASS_NAMES)
        try:
            self.names = tuple(map(str, json.loads(self._names_path.read_text(encoding="utf-8"))))
        except (OSError, ValueError) as error:
            raise SourceError(
                f"cannot read the names of the classifier's classes: {error}",
                source=str(self._names_path),
                hint=f"Put {CLASS_NAMES} beside {self._path.name}.",
            ) from error
        self._form = form_of(*identity(str(self._path)), threads=1)
        self.model_id = model_id(self._path)

    def __reduce__(self) -> tuple[Any, ...]:
        return Classifier, (self._path, self._names_path)

    def classify(self, picture: Array) -> Array:
        """Return the share of each class, (C,) float64, for an RGB picture (H, W, 3) of uint8, stretched to the model's size."""
        height, width = self._form.height or 224, self._form.width or 224
        shrinks = picture.shape[0] >= height and picture.shape[1] >= width
        small = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
        fed = ((small.astype(np.float32) - 127) / 128).transpose(2, 0, 1)[None]
        logits = self._form.session.run(self._form.outputs[:1], {self._form.input: np.ascontiguousarray(fed)})[0][0]
        shares = np.exp(logits.astype(np.float64) - logits.max())
        return np.asarray(shares / shares.sum())


class LabelBridge:
    """What a classifier and a detector call a picture, as one vector in the space of sentences.

    The sentences "a photo of a NAME" of the ten classes with the highest shares, weighted by these, added; those of the ten
    highest scores of the detector likewise. It knows nothing outside ImageNet and COCO: search for other things finds what
    is like them, at best.

    Parameters
    ----------
    encoder : TextEncoder
        Whose space it is.
    classifier : Classifier, optional
        Without one only the detector's classes are known.
    """

    def __init__(self, encoder: TextEncoder, classifier: Classifier | None = None) -> None:
        self.model_id = encoder.model_id
        self.models = {} if classifier is None else {"classifier": classifier.model_id}
        """Name and version of models besides the encoder."""
        self._encoder, self._classifier = encoder, classifier
        self._objects = _named(encoder, COCO_CLASSES)
        self._classes = None if classifier is None else _named(encoder, classifier.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return LabelBridge, (self._encoder, self._classifier)

    def encode(self, texts: Sequence[str]) -> Array:
        """Return (n, 384) float32, unit length, as the encoder has them."""
        return self._encoder.encode(texts)

    def see(self, picture: Array) -> Array:
        """Return (384,) float32: the mix of the classifier's labels; zeros without one and for pictures of a single tone."""
        if self._classifier is None or self._classes is None or float(picture.std()) < _FLAT:
            return np.zeros(NUM_TEXT, np.float32)
        shares = self._classifier.classify(picture)
        best = np.argsort(-shares, kind="stable")[:_BEST_LABELS]
        return np.asarray(shares[best] @ self._classes[best], np.float32)

    def vector(self, scores: Array, seen: Array | None = None) -> Array | None:
        """Return (384,) float16, unit length, for (80,) scores of the detector and what `see` saw; None for nothing.

        Parameters
        ----------
        scores : (80,) array
            Of the detector's classes; zeros where it took no part.
        seen : (384,) array, optional
            The mean of what was seen.
        """
        best = np.argsort(-scores, kind="stable")[:_BEST_LABELS]
        mixed = np.zeros(NUM_TEXT) if seen is None else seen.astype(np.float64)
        if scores[best[0]] >= _LEAST_SCORE:
            mixed = mixed + np.maximum(scores[best], 0).astype(np.float64) @ self._objects[best]
        return unit(mixed)


def unit(mixed: Array) -> Array | None:
    """Return the vector as (384,) float16 of unit length; None where it is too short to mean anything."""
    length = float(np.sqrt(mixed.astype(np.float64) @ mixed))
    return np.asarray(mixed / length, np.float16) if length > _LEAST_LENGTH else None


def _named(encoder: TextEncoder, names: Sequence[str]) -> Array:
    """Return the (n, 384) float32 sentence vectors of classes; a thousand take seconds, so they are kept on the disk."""
    told = hashlib.sha256(json.dumps([encoder.model_id, *names]).encode()).hexdigest()
    kept = DiskCache(cache_folder() / "labels", ttl_seconds=_FOR_GOOD)
    size = 4 * NUM_TEXT * len(names)
    found = kept.get(told)
    if found is not None and len(found) == size + 32 and hashlib.sha256(found[32:]).digest() == found[:32]:
        return np.frombuffer(found[32:], np.float32).reshape(len(names), NUM_TEXT)
    made = np.asarray(encoder.encode([f"a photo of a {name}" for name in names]), np.float32)
    kept.put(told, hashlib.sha256(made.tobytes()).digest() + made.tobytes())
    return made


@functools.lru_cache(maxsize=2)
def _bridge(encoder: Any, model: str | None, _changed: tuple[Any, ...]) -> LabelBridge:
    return LabelBridge(encoder, None if model is None else Classifier(model))


def label_bridge(encoder: TextEncoder | None = None) -> LabelBridge:
    """Return the bridge from what lies in the folders of ``HYPERFRAMES_MODELS``, loaded once.

    Parameters
    ----------
    encoder : TextEncoder, optional
        In place of the one that lies there.

    Raises
    ------
    SourceError
        If there is no sentence encoder.
    """
    held: Any = encoder or get_encoder()
    model = find_model(CLASSIFIER)
    if model is None or find_model(CLASS_NAMES) is None:
        return _bridge(held, None, ())
    return _bridge(held, str(model), identity(str(model)))


def find_image_encoder(text: Any) -> ImageEncoder | None:
    """Return the encoder that ``text`` of `describe` names, or None where none is wanted or there is none.

    Parameters
    ----------
    text : str, ImageEncoder, TextEncoder or None
        ``auto`` is the label bridge where there is a sentence encoder; other names are those of `registry.encoders`; a
        sentence encoder is given a label bridge.
    """
    if text is None or (text == "auto" and find_encoder() is None):
        return None
    return get_image_encoder(text)


def get_image_encoder(text: Any = "auto") -> ImageEncoder:
    """Return the encoder that `text` names, as for `find_image_encoder`.

    Raises
    ------
    RegistryError
        If no encoder has the name.
    SourceError
        If it is the label bridge and there is no sentence encoder.
    """
    if isinstance(text, str):
        found: ImageEncoder = encoders.get("labels" if text == "auto" else text)()
        return found
    return text if isinstance(text, ImageEncoder) else label_bridge(text)


@dataclass(frozen=True)
class See(Operator):
    """Bring pictures into the space of sentences.

    RGB frames of shape (H, W, 3), dtype uint8 -> frames ``vector`` of shape (384,), float32. No halo.
    """

    name: ClassVar[str] = "see"
    formats: ClassVar[tuple[str, ...] | None] = ("rgb24",)

    models: str
    """What tells its encoder from others."""
    encoder: ClassVar[Any] = None
    """An `ImageEncoder`: no parameter that can be written as text; see `of`."""

    @classmethod
    def of(cls, encoder: ImageEncoder) -> See:
        """Return the operator that looks with `encoder`."""
        told = json.dumps([encoder.model_id, getattr(encoder, "models", {})])
        made = cls(hashlib.sha256(told.encode()).hexdigest()[:16])
        object.__setattr__(made, "encoder", encoder)
        return made

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: a vector for each frame."""
        spec = frame_spec(self.name, inputs, kinds="u")
        if spec.pixel_format != "rgb24":
            raise PipelineError(f"operator 'see' works on rgb24 pictures, got {spec}", stage=self.name, got=spec)
        vector = FrameSpec.array((NUM_TEXT,), np.float32, rate=spec.rate)
        return Contract((Output("vector", "frames", vector),), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Look at the core's frames one by one."""
        (hyperframe,), (vector,) = inputs, outputs
        first = hyperframe.core.start
        for t in range(len(vector)):
            picture = hyperframe.planes[0][first + t]
            vector.data[t] = self.encoder.see(picture) if hyperframe.mask[first + t] else 0
