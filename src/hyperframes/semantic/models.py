"""Where model files lie: no model ships with the package, and everything works without one, only worse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hyperframes.errors import SourceError

__all__ = [
    "CLASSIFIER",
    "CLASS_NAMES",
    "DETECTOR",
    "MODELS_VARIABLE",
    "TEXT_MODEL",
    "TEXT_TOKENIZER",
    "find_model",
    "get_model",
]

MODELS_VARIABLE: Final = "HYPERFRAMES_MODELS"
"""Environment variable with the folders that are searched, separated as in PATH."""
DETECTOR: Final = "nanodet-416.onnx"
CLASSIFIER: Final = "efficientnet-lite0.onnx"
CLASS_NAMES: Final = "imagenet-class-names.json"
TEXT_MODEL: Final = "minilm-l6-int8.onnx"
TEXT_TOKENIZER: Final = "minilm-l6-tokenizer.json"


def find_model(name: str) -> Path | None:
    """Return the file called `name` in the first folder of ``HYPERFRAMES_MODELS`` that has it, or None."""
    for folder in filter(None, os.environ.get(MODELS_VARIABLE, "").split(os.pathsep)):
        path = Path(folder) / name
        if path.is_file():
            return path
    return None


def get_model(name: str, what: str) -> Path:
    """Return the file called `name`; `what` says in errors what it is needed for.

    Raises
    ------
    SourceError
        If no folder of ``HYPERFRAMES_MODELS`` has it.
    """
    path = find_model(name)
    if path is None:
        raise SourceError(
            f"{what} needs the model file {name}: expected it in a folder of {MODELS_VARIABLE}, "
            f"got {os.environ.get(MODELS_VARIABLE) or 'nothing there'}",
            source=name,
            hint=f"Put the file in a folder and set {MODELS_VARIABLE}=FOLDER.",
        )
    return path
