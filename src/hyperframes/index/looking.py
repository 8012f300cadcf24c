"""Pictures and stretches of video described as descriptors are, so that they can be compared with them."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyperframes.drivers import run
from hyperframes.errors import FrameError, SourceError
from hyperframes.index.copies import KNOWN_SECONDS
from hyperframes.semantic import DegradedWarning, Descriptor, describe
from hyperframes.semantic.look import Looks
from hyperframes.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hyperframes.frames import Array
    from hyperframes.index.position import Position

__all__ = ["Stretch", "look_around", "look_at"]

_BEFORE_SECONDS: Final = KNOWN_SECONDS + 1.0
"""What is read before an instant: its looks, and windows enough for how features change."""


class Stretch(NamedTuple):
    """What is known around an instant of a video."""

    descriptor: Descriptor
    """Of the span that holds it."""
    looks: Looks
    """Of the span and those around it."""
    seconds: float
    """The instant."""


def look_around(position: Position, models: Mapping[str, str]) -> Stretch:
    """Describe a video around a position, as far as searches for what is like it need.

    Parameters
    ----------
    position : Position
        In a file.
    models : mapping of str to str
        Name and version of those that the dataset was made with.

    Raises
    ------
    SourceError
        If it cannot be read, or does not reach the position.
    FrameError
        If the dataset was made with another version of a model.
    """
    source = open_source(position.source)
    try:
        tick, times = float(source.spec.time_base), source.times()
        seconds = times * tick
        at = _time_of(seconds, position)
        first = int(np.searchsorted(seconds, at - _BEFORE_SECONDS))
        stop = int(np.searchsorted(seconds, at + KNOWN_SECONDS, side="right"))
        found = _described(source, models, range=(first, stop)) if first < stop else []
    finally:
        source.close()
    for descriptor in found:
        _check_models(descriptor, models, "the clip")
    holding = [d for d in found if d.seconds[0] <= at < d.seconds[1]]
    if not holding:
        raise SourceError(
            f"{position.source} has no frame at {position}: it ends at {seconds[-1] if len(seconds) else 0:.3f} s",
            source=position.source,
            hint="Name a second before its end, as in clip.mp4@2.5.",
        )
    return Stretch(holding[0], Looks.joined([d.looks for d in found]), at)


def _time_of(seconds: Array, position: Position) -> float:
    if position.seconds is not None:
        return position.seconds
    if position.frame is None or position.frame >= len(seconds):
        raise SourceError(f"{position.source} has no frame {position.frame}", source=position.source)
    return float(seconds[position.frame])


def _described(source: Any, models: Mapping[str, str], **options: Any) -> list[Descriptor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegradedWarning)  # without a detector the other parts are compared
        return list(describe(source, detector="auto" if "detector" in models else None, text=None, **options))


def _check_models(found: Descriptor, models: Mapping[str, str], what: str) -> None:
    for name, version in found.models.items():
        if models.get(name, version) != version:
            raise FrameError(
                f"{what} was looked at with {name} {version!r}: expected {models[name]!r}, as in the dataset",
                expected=models[name],
                got=version,
                hint="Point HYPERFRAMES_MODELS at the models that the dataset was made with.",
            )


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
    _check_models(found, models, "the picture")
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
