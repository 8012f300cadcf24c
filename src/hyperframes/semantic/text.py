"""Sentences as vectors; `semantic.bridge` brings pictures into the same space."""

from __future__ import annotations

import functools
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from hyperframes.errors import FrameError, MissingExtraError, SourceError
from hyperframes.operators.onnx_model import first_line, model_id
from hyperframes.semantic.models import TEXT_MODEL, TEXT_TOKENIZER, find_model, get_model

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from hyperframes.frames import Array

__all__ = ["MiniLm", "TextEncoder", "find_encoder", "get_encoder"]

_MOST_UNKNOWN: Final = 0.5


class TextEncoder(Protocol):
    """What turns sentences into vectors; plug in another one where English is not enough."""

    model_id: str
    """Vectors of encoders with different ids must not be compared."""

    def encode(self, texts: Sequence[str]) -> Array:
        """Return (n, 384) float32, unit length.

        Raises
        ------
        FrameError
            If a text means nothing to the encoder.
        """
        ...


class MiniLm:
    """The sentence encoder all-MiniLM-L6-v2 on ONNX Runtime: English, 384 numbers.

    Parameters
    ----------
    model : path, optional
        ``minilm-l6-int8.onnx``; by default from a folder of ``HYPERFRAMES_MODELS``.
    tokenizer : path, optional
        ``minilm-l6-tokenizer.json``; by default beside the model.

    Raises
    ------
    SourceError
        If a file is not there or is none of these.
    MissingExtraError
        Without onnxruntime or tokenizers.

    References
    ----------
    .. [1] N. Reimers, I. Gurevych, "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks", EMNLP 2019.
       DOI: 10.18653/v1/D19-1410
    """

    def __init__(
        self, model: str | os.PathLike[str] | None = None, tokenizer: str | os.PathLike[str] | None = None
    ) -> None:
        path = Path(model) if model is not None else get_model(TEXT_MODEL, "understanding text")
        words = Path(tokenizer) if tokenizer is not None else path.with_name(TEXT_TOKENIZER)
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtraError("understanding text", "semantic") from error
        try:
            self._tokenizer = Tokenizer.from_file(str(words))
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = 1, 4
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # both libraries raise what is only an Exception
            raise SourceError(
                f"cannot read the sentence encoder {path.name} and {words.name}: {first_line(error)}",
                source=str(path),
                hint=f"Put {TEXT_MODEL} and {TEXT_TOKENIZER} side by side.",
            ) from error
        self._tokenizer.no_padding()
        self.model_id = model_id(path)
        self._files = path, words

    def __reduce__(self) -> tuple[Any, ...]:
        return MiniLm, self._files  # other processes load the files themselves

    def encode(self, texts: Sequence[str]) -> Array:
        """Return (n, 384) float32, unit length; each text by itself, so that none depends on its neighbours."""
        found = np.zeros((len(texts), 384), np.float32)
        for row, text in zip(found, texts, strict=True):
            tokens = self._tokenizer.encode(text)
            self._check(text, tokens)
            fed = {
                "input_ids": np.array([tokens.ids], np.int64),
                "attention_mask": np.ones((1, len(tokens.ids)), np.int64),
            }
            row[:] = self._session.run(["sentence"], fed)[0][0]
        return found

    def _check(self, text: str, tokens: Any) -> None:
        """Refuse text that would be embedded as noise."""
        words = tokens.tokens[1:-1]
        letters = [c for c in text if c.isalpha()]
        foreign = sum(not unicodedata.name(c, "").startswith("LATIN") for c in letters)
        unknown = words.count("[UNK]")
        if not words or unknown >= _MOST_UNKNOWN * len(words) or foreign >= _MOST_UNKNOWN * max(1, len(letters)):
            raise FrameError(
                f"the sentence encoder reads English: expected words that it knows, got {text!r}",
                expected="English",
                got=text,
                hint="Write it in English, or plug in a multilingual encoder (hyperframes.semantic.TextEncoder).",
            )


@functools.lru_cache(maxsize=2)
def _encoder(path: str) -> MiniLm:
    return MiniLm(path)


def find_encoder() -> TextEncoder | None:
    """Return the sentence encoder in the folders of ``HYPERFRAMES_MODELS``, loaded once, or None."""
    path = find_model(TEXT_MODEL)
    return None if path is None else _encoder(str(path))


def get_encoder() -> TextEncoder:
    """Return the sentence encoder in the folders of ``HYPERFRAMES_MODELS``, loaded once.

    Raises
    ------
    SourceError
        If none of them has it.
    """
    return _encoder(str(get_model(TEXT_MODEL, "understanding text")))
