"""Frames from image files: a folder, a glob or a numbered pattern."""

from __future__ import annotations

import glob
import os
import re
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import SourceError
from hyperframes.frames import Array, Clip, Frame, FrameSpec
from hyperframes.sources.array import checked_indices, timed
from hyperframes.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

__all__ = ["ImagesSource", "open_images"]

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".pgm", ".ppm", ".exr", ".jp2")
_NUMBERED = re.compile(r"%(0?)(\d*)d")
_DIGITS = re.compile(r"(\d+)")
_TURNED_BY_READER = (".jpg", ".jpeg")
_FORMATS = {(4, "uint16"): "rgba64le"}


class ImagesSource(Source):
    """Image files in natural order, one a frame; RGB order, 8 or 16 bits as stored, grey kept grey.

    Parameters
    ----------
    files : sequence of Path
        In order.
    name : str
        What users call it.
    rate : number or Fraction, optional
        Frames a second; 25 as in FFmpeg's image reader.
    threads : int, optional
        Images decoded at once. Default: the cores this process may use, at most 4.

    Notes
    -----
    The first image sets size, channels and depth; others are refused by name. Photographs (JPEG) are turned
    upright as their EXIF orientation says. Cut-off PNG and JPEG files are errors, not half pictures.
    """

    exact = True
    seeks = True

    def __init__(self, files: Sequence[Path], name: str, *, rate: Any = None, threads: int | None = None) -> None:
        self.name, self.files = name, list(files)
        self.num_frames = len(self.files)
        first = read_image(self.files[0])
        channels = first.shape[2] if first.ndim == 3 else 1
        pixel_format = _FORMATS.get((channels, first.dtype.name))
        guessed = FrameSpec.array(first.shape, first.dtype)
        self.spec = timed(
            guessed.replace(pixel_format=pixel_format) if pixel_format else guessed, rate, None, has_pts=False
        )
        self._threads = threads or min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the pictures [start, stop), a few decoded ahead."""
        last = len(self.files) if stop is None else min(stop, len(self.files))
        with closing(self._decoded(range(start, last))) as pictures:
            for index, picture in zip(range(start, last), pictures, strict=True):
                yield Frame([picture], index, index, self.spec)

    def frames(self, indices: Sequence[int]) -> Clip:
        """Return the pictures at `indices`, reading only their files."""
        wanted = checked_indices(indices, len(self.files), self.name)
        unique, inverse = np.unique(wanted, return_inverse=True)
        held = np.empty((len(unique), *self.spec.shapes[0]), self.spec.dtype)
        for place, picture in enumerate(self._decoded(unique.tolist())):
            held[place] = picture
        return Clip((held[inverse],), wanted.copy(), wanted, self.spec)

    def times(self) -> Array:
        """Return pts (N,) int64."""
        return np.arange(len(self.files), dtype=np.int64)

    def identity(self) -> str:
        """Return names, sizes and times of change, summed up."""
        facts = [file.stat() for file in self.files]
        newest = max(fact.st_mtime_ns for fact in facts)
        return f"{self.files[0].resolve()} {len(facts)} {sum(fact.st_size for fact in facts)} {newest}"

    def _decoded(self, indices: Sequence[int]) -> Generator[Array]:
        """Yield the pictures in order; twice as many as there are threads are under way."""
        if self._threads == 1 or len(indices) < 2:
            yield from map(self._picture, indices)
            return
        with ThreadPoolExecutor(self._threads, "decode-images") as pool:
            ahead: deque[Future[Array]] = deque()
            try:
                for index in indices:
                    ahead.append(pool.submit(self._picture, index))
                    if len(ahead) >= 2 * self._threads:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _picture(self, index: int) -> Array:
        picture = read_image(self.files[index])
        if picture.shape != self.spec.shapes[0] or picture.dtype != self.spec.dtype:
            raise SourceError(
                f"all images of {self.name} must be alike: expected {self.spec.shapes[0]} of {self.spec.dtype} "
                f"as in {self.files[0].name!r}, got {picture.shape} of {picture.dtype} in {self.files[index].name!r}",
                source=self.name,
                pts=index,
                hint="Bring them to one size first, or name those that belong together: 'folder/left_*.png'.",
            )
        return picture


def open_images(location: str | os.PathLike[str], *, rate: Any = None, threads: int | None = None) -> ImagesSource:
    """Open a folder, a glob (``shots/*.png``), a pattern (``shots/%06d.png``) or one image.

    Parameters
    ----------
    location : path
        What to open.
    rate : number or Fraction, optional
        Frames a second. Default: 25.
    threads : int, optional
        Images decoded at once.

    Raises
    ------
    SourceError
        If there is no image, or the first one cannot be decoded.
    """
    name = os.fspath(location)
    path = Path(name)
    numbered = _NUMBERED.search(path.name)
    if path.is_dir():
        files = [file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")]
    elif path.is_file():
        files = [path]
    elif numbered:
        files = _numbered_files(path, numbered)
    else:
        files = [file for file in map(Path, glob.glob(name)) if file.is_file()]
    if not files:
        raise SourceError(
            f"no images in {name}: expected files ending in {', '.join(SUFFIXES[:6])}, ...",
            source=name,
            hint="Give a folder of images, 'folder/*.png' or 'folder/%06d.png'; videos in a folder are named one by one.",
        )
    return ImagesSource(sorted(files, key=natural_order), name, rate=rate, threads=threads)


def natural_order(file: Path) -> list[tuple[int, int, str]]:
    """Return a key that sorts ``9.png`` before ``10.png``.

    Examples
    --------
    >>> sorted(map(Path, ["b10", "b9", "a11"]), key=natural_order)[1].name
    'b9'
    """
    return [(0, int(part), part) if part.isdigit() else (1, 0, part) for part in _DIGITS.split(str(file)) if part]


def _numbered_files(path: Path, numbered: re.Match[str]) -> list[Path]:
    before, after = path.name[: numbered.start()], path.name[numbered.end() :]
    width = int(numbered[2]) if numbered[1] and numbered[2] else 1
    wanted = re.compile(re.escape(before) + rf"(\d{{{width},}})" + re.escape(after))
    if not path.parent.is_dir():
        return []
    return [file for file in path.parent.iterdir() if wanted.fullmatch(file.name)]


def read_image(file: Path) -> Array:
    """Return the picture in `file`: (H, W) or (H, W, C), RGB order, dtype as stored.

    Raises
    ------
    SourceError
        If the file cannot be read, is cut off or is no image.
    """
    import cv2

    try:
        data = file.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot open {file}: {error.strerror}", source=str(file)) from error
    if _is_cut_off(data):
        raise SourceError(f"{file} is cut off: its end is missing", source=str(file), hint="Copy it again.")
    # JPEG carries no alpha, so its orientation may be applied; the other flag keeps alpha and ignores orientation.
    upright = cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH
    flags = upright if file.suffix.lower() in _TURNED_BY_READER else cv2.IMREAD_UNCHANGED
    try:
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), flags) if data else None
    except cv2.error as error:
        raise SourceError(f"cannot decode {file}: {error.err}", source=str(file)) from error
    if picture is None:
        raise SourceError(f"{file} is no image that can be decoded", source=str(file), hint="Remove or convert it.")
    if picture.ndim == 3 and picture.shape[2] in (3, 4):
        return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB if picture.shape[2] == 3 else cv2.COLOR_BGRA2RGBA)
    return picture


def _is_cut_off(data: bytes) -> bool:
    """Whether a PNG or JPEG lacks its end: the decoder would fill the rest with grey and say nothing."""
    if data.startswith(b"\x89PNG"):
        return b"IEND" not in data
    if not data.startswith(b"\xff\xd8"):
        return False
    position = 2
    while data[position : position + 1] == b"\xff" and data[position + 1 : position + 2] != b"\xda":
        length = int.from_bytes(data[position + 2 : position + 4], "big")  # thumbnails in here have ends of their own
        position += 2 + length
    return data.find(b"\xff\xd9", position) < 0
