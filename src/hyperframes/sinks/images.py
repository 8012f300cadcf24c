"""Frames as numbered images in a folder: PNG, JPEG, TIFF."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import SinkError
from hyperframes.sinks.base import Checkpoint, Sink, Target
from hyperframes.sinks.checks import frames_only, opened, taken_clip
from hyperframes.sinks.failed import without_failed
from hyperframes.sinks.pieces import move_into
from hyperframes.sinks.staging import StagedFolder, partial_of, sync

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hyperframes.frames import Array, Clip, Records, Spec

__all__ = ["ImagesSink"]

_LOSSLESS = ("gray", "gray16le", "rgb24", "rgba", "rgb48le", "rgba64le")
_FORMATS = {
    ".png": _LOSSLESS,
    ".tif": _LOSSLESS,
    ".tiff": _LOSSLESS,
    ".jpg": ("gray", "rgb24"),
    ".jpeg": ("gray", "rgb24"),
}
_NUMBERED = re.compile(r"%0?\d*d")
_NAME = "%06d.png"
_PNG_LEVEL = 1
"""Of zlib: the fastest; higher levels take several times as long for a few per cent."""


class ImagesSink(Sink):
    """One image a frame, numbered by the frame's position in the stream.

    Parameters
    ----------
    path : path
        A folder (images are called ``000000.png``, ...) or a pattern such as ``out/%06d.jpg``. The folder must not
        exist or be empty; it is filled as ``.NAME.part`` and renamed when whole.
    quality : int or float
        Of JPEG, a whole number from 0 to 100; higher is better.

    Notes
    -----
    16 bits a sample are kept in PNG and TIFF. Failed frames are left out; the numbers tell which.
    """

    resumable = True

    def __init__(self, path: str | os.PathLike[str], *, quality: float = 95) -> None:
        self.name = os.fspath(path)
        place = Path(self.name)
        numbered = _NUMBERED.search(place.name) is not None
        self._folder, self._pattern = (place.parent, place.name) if numbered else (place, _NAME)
        self._suffix = Path(self._pattern).suffix.lower()
        if self._suffix not in _FORMATS:
            raise SinkError(
                f"images are written as {', '.join(sorted(_FORMATS))}: got {self._suffix or 'no suffix'!r}",
                sink=self.name,
            )
        if self._folder.name in {"", ".."}:
            raise SinkError(
                f"images go to a folder of their own: got {self.name!r}",
                sink=self.name,
                hint=f"Name the folder: out/{self._pattern}.",
            )
        if not 0 <= quality <= 100 or quality != int(quality):
            raise SinkError(f"JPEG quality is a whole number from 0 to 100: got {quality}", sink=self.name)
        self._quality = int(quality)
        self._staged: StagedFolder | None = None
        self._encoders: ThreadPoolExecutor | None = None
        self._format = ""
        self._wanted = 0  # position in the stream after the last frame taken
        self._unsafe: list[str] = []  # names of images that no checkpoint told of

    def accepts(self, spec: Spec) -> tuple[str, ...] | None:
        """Return the pixel formats that the kind of image holds."""
        return _FORMATS[self._suffix]

    def open(self, target: Target) -> None:
        """Make the temporary folder.

        Raises
        ------
        SinkError
            For records, for formats that these images do not hold, or if the folder is not empty or cannot be made.
        """
        self._prepare(target)
        self._staged = StagedFolder(self._folder)

    def _prepare(self, target: Target) -> None:
        spec = frames_only(target, self.name, "a folder of images")
        if spec.pixel_format not in _FORMATS[self._suffix]:
            raise SinkError(
                f"{self._suffix} images hold {', '.join(_FORMATS[self._suffix])}: "
                f"got {spec.pixel_format or f'arrays of shape {spec.shapes[0]}'}",
                sink=self.name,
                hint="Ask for pictures with --pixel-format rgb24 or gray.",
            )
        if spec.layout != "NHWC":
            raise SinkError(f"images are written from NHWC: got {spec.layout}", sink=self.name)
        self._format, self._wanted, self._unsafe = spec.pixel_format, 0, []
        self._encoders = ThreadPoolExecutor(min(4, os.cpu_count() or 1), "encode-images")

    def place(self) -> Path:
        """Return the folder."""
        return self._folder

    def settings(self) -> Mapping[str, Any]:
        """Return how images are named and encoded."""
        return {"pattern": self._pattern, "quality": self._quality}

    def checkpoint(self) -> Checkpoint:
        """Flush the images written since the last time."""
        staged, encoders = opened(self._staged, self.name), opened(self._encoders, self.name)
        with staged.guarded():
            for _ in encoders.map(sync, [[staged.partial / name] for name in self._unsafe]):
                pass
        staged.checkpoint(())
        self._unsafe = []
        return Checkpoint({"wanted": self._wanted})

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint | None:
        """Remove the images that the checkpoint does not tell of; None if the folder is gone."""
        folder, wanted = partial_of(self._folder), int(token["wanted"])
        if not folder.is_dir():
            return None
        self._prepare(target)
        self._staged, self._wanted = StagedFolder(self._folder, resume=True), wanted
        before, after = _NUMBERED.split(self._pattern, maxsplit=1)
        for path in folder.iterdir():
            number = path.name.removeprefix(before).removesuffix(after)
            if not number.isdecimal() or int(number) >= wanted:
                path.unlink()
        return Checkpoint(token)

    def piece_results(self, target: Target) -> int:
        """Return 1: every image is a file."""
        return 1

    def piece(self, path: Path, first: int) -> ImagesSink:
        """Return one that fills a folder of its own."""
        return ImagesSink(path / self._pattern, quality=self._quality)

    def gather(self, target: Target, pieces: Sequence[Path]) -> str:
        """Move all images into one folder."""
        staged = StagedFolder(self._folder)
        with staged.guarded():
            for piece in pieces:
                move_into(staged.partial, ((path, path.name) for path in sorted(piece.iterdir())))
        staged.commit()
        return self.name

    def write(self, result: Clip | Records) -> None:
        """Encode and write the frames, several at once."""
        clip = without_failed(taken_clip(result, self.name))
        staged, encoders = opened(self._staged, self.name), opened(self._encoders, self.name)
        with staged.guarded():
            self._unsafe += encoders.map(self._write_one, clip.data, clip.index.tolist())
        if len(clip):
            self._wanted = int(clip.index[-1]) + 1

    def _write_one(self, picture: Array, index: int) -> str:
        """Write an image and return its name."""
        folder, name = opened(self._staged, self.name).partial, self._pattern % index
        (folder / name).write_bytes(encode(picture, self._format, self._suffix, self._quality))
        return name

    def close(self) -> str:
        """Give the folder its name."""
        staged = opened(self._staged, self.name)
        self._end_encoders()
        self._staged = None
        staged.commit()
        return self.name

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove the temporary folder."""
        self._end_encoders()
        if self._staged is not None:
            self._staged.discard(keep=keep_parts)
            self._staged = None

    def _end_encoders(self) -> None:
        if self._encoders is not None:
            self._encoders.shutdown()
            self._encoders = None


def encode(picture: Array, pixel_format: str, suffix: str, quality: int = 95) -> Any:
    """Return `picture` (H, W[, C]) of gray or RGB order as the bytes of an image file."""
    import cv2

    order = {"rgb24": cv2.COLOR_RGB2BGR, "rgb48le": cv2.COLOR_RGB2BGR, "rgba": cv2.COLOR_RGBA2BGRA}
    order["rgba64le"] = cv2.COLOR_RGBA2BGRA
    if pixel_format in order:
        picture = cv2.cvtColor(picture, order[pixel_format])
    parameters = {
        ".png": [cv2.IMWRITE_PNG_COMPRESSION, _PNG_LEVEL],
        ".jpg": [cv2.IMWRITE_JPEG_QUALITY, quality],
        ".jpeg": [cv2.IMWRITE_JPEG_QUALITY, quality],
    }
    encoded, data = cv2.imencode(suffix, np.ascontiguousarray(picture), parameters.get(suffix, []))
    if not encoded:
        raise SinkError(f"cannot encode a picture of shape {picture.shape} as {suffix}")
    return data.data
