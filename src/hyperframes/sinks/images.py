"""Frames as numbered images in a folder: PNG, JPEG, TIFF."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import SinkError
from hyperframes.sinks.base import Sink, Target
from hyperframes.sinks.checks import frames_only, opened, taken_clip
from hyperframes.sinks.failed import without_failed
from hyperframes.sinks.staging import StagedFolder

if TYPE_CHECKING:
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
        exist or be empty; it is filled as ``NAME.part`` and renamed when whole.
    quality : int or float
        Of JPEG, a whole number from 0 to 100; higher is better.

    Notes
    -----
    16 bits a sample are kept in PNG and TIFF. Failed frames are left out; the numbers tell which.
    """

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
        self._format = spec.pixel_format
        self._staged = StagedFolder(self._folder)
        self._encoders = ThreadPoolExecutor(min(4, os.cpu_count() or 1), "encode-images")

    def write(self, result: Clip | Records) -> None:
        """Encode and write the frames, several at once."""
        clip = without_failed(taken_clip(result, self.name))
        staged, encoders = opened(self._staged, self.name), opened(self._encoders, self.name)
        with staged.guarded():
            for _ in encoders.map(self._write_one, clip.data, clip.index.tolist()):
                pass

    def _write_one(self, picture: Array, index: int) -> None:
        folder = opened(self._staged, self.name).partial
        (folder / (self._pattern % index)).write_bytes(encode(picture, self._format, self._suffix, self._quality))

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
            self._staged.discard()
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
