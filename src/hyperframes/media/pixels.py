"""Pixels of PyAV frames: views on decoder planes, the nearest listed format, and one-thread conversion to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from av.video.format import VideoFormat
from av.video.reformatter import Interpolation, VideoReformatter

from hyperframes.errors import FrameError
from hyperframes.frames import PIXEL_FORMATS

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["SWSCALE_FLAGS", "Reshaper", "Views", "listed_format"]

SWSCALE_FLAGS = (
    Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INT
)
"""Of every conversion, so that pixels depend on neither machine nor version."""


class Views:
    """Lends the planes of PyAV frames of one format and size as read-only arrays, without a copy.

    The arrays keep the decoder's buffer alive; its row padding is sliced away, so rows are strided.
    """

    def __init__(self, pixel_format: str, height: int, width: int) -> None:
        layout = PIXEL_FORMATS[pixel_format]
        item = layout.dtype.itemsize
        self._dtype = layout.dtype
        self._planes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for down, across, channels in layout.planes:
            picture = (-(-height // down), -(-width // across))
            one = channels == 1
            self._planes.append((picture, (item,)) if one else ((*picture, channels), (item * channels, item)))

    def __call__(self, frame: Any) -> tuple[Array, ...]:
        """Return one array (h, w) or (h, w, c) per plane of `frame`."""
        views = []
        for plane, (shape, steps) in zip(frame.planes, self._planes, strict=False):
            stride = plane.line_size
            # Bottom-up pictures have negative strides: their buffer starts with the last row.
            view = np.ndarray(shape, self._dtype, plane, 0 if stride > 0 else (1 - shape[0]) * stride, (stride, *steps))
            view.setflags(write=False)
            views.append(view)
        return tuple(views)


def listed_format(name: str) -> tuple[str, bool]:
    """Return the format of `PIXEL_FORMATS` that holds pictures of FFmpeg's format `name`, and whether it is full range.

    ``yuvj*`` is the same bytes as ``yuv*`` in full range. Packed, palette, bit, big-endian and other formats get the
    nearest format that loses nothing: same subsampling, at least as many bits, alpha kept.

    Raises
    ------
    FrameError
        For formats without a counterpart: hardware surfaces, subsampling that no listed format has.

    Examples
    --------
    >>> listed_format("yuvj422p"), listed_format("nv12"), listed_format("gray10be")
    (('yuv422p', True), ('yuv420p', False), ('gray10le', False))
    """
    if name in PIXEL_FORMATS:
        return name, False
    if name.startswith("yuvj") and f"yuv{name[4:]}" in PIXEL_FORMATS:
        return f"yuv{name[4:]}", True
    little = name.removesuffix("be") + "le"
    found = little if name.endswith("be") and little in PIXEL_FORMATS else _counterpart(VideoFormat(name, 64, 64))
    if found is None:
        raise FrameError(
            f"pixel format {name!r} has no counterpart among the supported ones",
            expected=sorted(PIXEL_FORMATS),
            got=name,
            hint="Convert the file first, for example: ffmpeg -i IN -pix_fmt yuv420p OUT",
        )
    return found, False


def _counterpart(wanted: Any) -> str | None:
    """Return the listed format of the same family and subsampling with the fewest bits that hold those of `wanted`."""
    components = wanted.components
    if not components and not wanted.has_palette:
        return None
    alpha = wanted.has_palette or any(c.is_alpha for c in components)
    bits = 8 if wanted.has_palette else max(c.bits for c in components)
    if wanted.is_rgb or wanted.has_palette or wanted.name.startswith(("bayer", "xyz")):
        if bits <= 8 and "16" not in wanted.name:
            return "rgba" if alpha else "rgb24"
        return "rgba64le" if alpha else "rgb48le"
    if wanted.name.startswith(("gray", "mono", "ya")):
        if alpha:
            return "ya8" if bits <= 8 else "rgba64le"
        return "gray" if bits <= 8 else _deeper("gray", bits, 32)
    down, across = 64 // wanted.chroma_height(64), 64 // wanted.chroma_width(64)
    samplings = {(2, 2): "420", (1, 2): "422", (1, 1): "444", (1, 4): "411", (4, 4): "410", (2, 1): "440"}
    sampling = samplings.get((down, across))
    if sampling is None:
        return None
    if sampling == "440" and bits > 8:
        sampling = "444"  # no deep 4:4:0 is listed: repeat chroma columns, lose nothing
    stem = f"yuv{'a' if alpha else ''}{sampling}p"
    if stem not in PIXEL_FORMATS:
        return None
    return stem if bits <= 8 else _deeper(stem, bits, 16)


def _deeper(stem: str, bits: int, most: int) -> str | None:
    for depth in range(bits, most + 1):
        for name in (f"{stem}{depth}le", f"{stem}f{depth}le"):
            if name in PIXEL_FORMATS:
                return name
    return None


class Reshaper:
    """Brings PyAV frames to one format and size with one-thread swscale and fixed flags."""

    def __init__(self, pixel_format: str, height: int, width: int) -> None:
        self.pixel_format, self.height, self.width = pixel_format, height, width
        self._swscale = VideoReformatter()

    def __call__(self, frame: Any) -> Any:
        """Return `frame` in the format and size, as a new PyAV frame; the range of samples is kept."""
        sample_range = frame.color_range
        return self._swscale.reformat(
            frame,
            width=self.width,
            height=self.height,
            format=self.pixel_format,
            interpolation=SWSCALE_FLAGS,
            src_color_range=sample_range,
            dst_color_range=sample_range,
            threads=1,
        )
