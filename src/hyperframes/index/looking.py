"""A picture described as descriptors are, so that it can be compared with them."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers import run
from hyperframes.errors import FrameError, SourceError
from hyperframes.semantic import DegradedWarning, Descriptor, describe
from hyperframes.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hyperframes.frames import Array

__all__ = ["look_at"]


def look_at(image: str | os.PathLike[str] | Array, encoder: Any, models: Mapping[str, str]) -> Descriptor:
    """Return the descriptor of a picture as a video of one frame.

    Parameters
    ----------
    image : path or (H, W, 3) array of uint8
        The picture.
    encoder : str, ImageEncoder or None
        As ``text`` of `describe`; None for no text vector.
    models : mapping of str to str
        Name and version of those that the dataset was made with: one without a detector is not asked by one.

    Raises
    ------
    SourceError
        If it cannot be read, or holds more than one picture.
    FrameError
        If it is no picture, or the dataset was made with another version of a model.
    """
    picture = _read(image) if isinstance(image, str | os.PathLike) else np.asarray(image)
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or 0 in picture.shape:
        raise FrameError(
            f"a picture to look for: expected (H, W, 3) uint8, got {picture.shape} {picture.dtype}",
            expected="(H, W, 3) uint8",
            got=picture.shape,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegradedWarning)  # without a detector the other parts are compared
        detector = "auto" if "detector" in models else None
        (found,) = describe(picture[None], detector=detector, text=encoder)
    for name, version in found.models.items():
        if models.get(name, version) != version:
            raise FrameError(
                f"the picture was looked at with {name} {version!r}: expected {models[name]!r}, as in the dataset",
                expected=models[name],
                got=version,
                hint="Point HYPERFRAMES_MODELS at the models that the dataset was made with.",
            )
    return found


def _read(path: str | os.PathLike[str]) -> Array:
    if not Path(path).is_file():
        raise SourceError(f"no such picture: {os.fspath(path)}", source=os.fspath(path))
    source = open_source(path)
    try:
        clip = source[:2]
        frames = run(clip, [], pixel_format="rgb24", workers=1).array
    finally:
        source.close()
    assert isinstance(frames, np.ndarray)
    if len(frames) != 1:
        raise SourceError(
            f"{os.fspath(path)} holds {'more than one picture' if len(frames) else 'no picture'}: expected one",
            source=os.fspath(path),
            hint="To look for a frame of a described video: --like CLIP@T.",
        )
    picture: Array = frames[0]
    return picture
