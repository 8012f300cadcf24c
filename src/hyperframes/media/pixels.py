"""Pixels of PyAV frames: views on planes, the nearest listed format, and one-thread conversion by swscale."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.filter import Graph
from av.video.format import VideoFormat
from av.video.reformatter import Interpolation, VideoReformatter

from hyperframes.errors import FrameError
from hyperframes.frames import PIXEL_FORMATS, FrameSpec
from hyperframes.media.colour import set_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.frames import Array

__all__ = ["SWSCALE_FLAGS", "Converter", "Reshaper", "Views", "blank_frame", "chroma_location_of", "listed_format"]

SWSCALE_FLAGS: Final = Interpolation.BILINEAR
"""Of every conversion: PyAV's default, so that pixels are those of its ``frame.reformat`` and ``frame.to_ndarray``."""

_CHROMA_LOCATIONS: Final = ("unspecified", "left", "topleft", "top", "bottomleft", "bottom")
"""FFmpeg's names; swscale reads ``unspecified`` as ``center``."""

_TABLE_YUV: Final = {"yuv420p", "yuv422p", "yuva420p"}
_TABLE_RGB: Final = {"rgba", "bgra", "argb", "abgr", "gbrp", "rgb48le"}
_FULL_VECTORS: Final = 32


class Views:
    """Lends the planes of PyAV frames of one format and size as arrays, without a copy; read-only but where asked for.

    The arrays keep the decoder's buffer alive; its row padding is sliced away, so rows are strided.
    """

    def __init__(self, pixel_format: str, height: int, width: int, *, writable: bool = False) -> None:
        self._writable = writable
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
            view.setflags(write=self._writable)
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
        return self._swscale.reformat(
            frame,
            width=self.width,
            height=self.height,
            format=self.pixel_format,
            interpolation=SWSCALE_FLAGS,
            threads=1,
        )


class Converter:
    """Converts planes of one spec to another pixel format: bit for bit what PyAV's ``frame.reformat`` makes of them.

    Keeps one frame, which every call fills by one copy a plane. For one thread at a time.

    Parameters
    ----------
    spec : FrameSpec
        Of the pictures to convert, in NHWC.
    pixel_format : str
        What they become.

    Notes
    -----
    Pictures in grey or RGB are full range, whatever their spec says: as YUV they become limited.
    """

    def __init__(self, spec: FrameSpec, pixel_format: str) -> None:
        if PIXEL_FORMATS[spec.pixel_format].family != "yuv":
            spec = spec.replace(colour=replace(spec.colour, range="unspecified"))
        height, width = spec.height, spec.width
        widened = _sure_width(spec, pixel_format)
        self._frame = blank_frame(spec.replace(shapes=FrameSpec.picture(height, widened, spec.pixel_format).shapes))
        self._places = Views(spec.pixel_format, height, width, writable=True)(self._frame)
        self._views = Views(pixel_format, height, width)
        self._reshape = Reshaper(pixel_format, height, widened)

    def __call__(self, planes: Sequence[Array], targets: Sequence[Array]) -> None:
        """Write `planes` of one frame, converted, to `targets`.

        Raises
        ------
        OSError
            If swscale does not know the colour matrix or the pair of formats.
        """
        for place, plane in zip(self._places, planes, strict=True):
            np.copyto(place, plane)
        for target, result in zip(targets, self._views(self._reshape(self._frame)), strict=True):
            np.copyto(target, result)


def _sure_width(spec: FrameSpec, pixel_format: str) -> int:
    """Return how wide the picture has to be for swscale to write all of its columns.

    Its tables from YUV to RGB (FFmpeg 8.1; they take pictures with an even number of rows) leave the last columns as
    memory was where a row of the result ends inside a vector. They work pixel by pixel, so that what stands in columns
    added at the right does not matter.
    """
    unsure = spec.pixel_format in _TABLE_YUV and pixel_format in _TABLE_RGB and spec.height % 2 == 0
    return -(-spec.width // _FULL_VECTORS) * _FULL_VECTORS if unsure else spec.width


def blank_frame(spec: FrameSpec) -> Any:
    """Return a PyAV frame of its own memory that carries all of `spec` that swscale looks at.

    That is size, format, matrix, range, where chroma sits and whether the picture is interlaced. PyAV sets the last
    two only by a filter.
    """
    frame: Any = av.VideoFrame(spec.width, spec.height, spec.pixel_format)
    interlaced = spec.field_order != "progressive"
    if interlaced or spec.chroma_location != "unspecified":
        graph = Graph()
        entry = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 25))
        fields = spec.field_order if interlaced else "prog"
        mark = graph.add("setparams", f"chroma_location={spec.chroma_location}:field_mode={fields}")
        out = graph.add("buffersink")
        entry.link_to(mark)
        mark.link_to(out)
        graph.configure()
        graph.push(frame)
        frame = graph.pull()
    set_colour(frame, spec.colour)
    return frame


def chroma_location_of(frame: Any) -> str:
    """Return where the chroma samples of a PyAV frame sit, in FFmpeg's names; ``center`` counts as ``unspecified``.

    Notes
    -----
    PyAV does not show that field, but every conversion hands it on: noise is put in a small frame made from `frame`,
    and the location is the one that swscale places its chroma by.
    """
    side = 32 if (frame.width, frame.height) != (32, 32) else 48  # never the same frame: it is written to
    try:
        probe = Reshaper("yuv420p", side, side)(frame)
    except OSError:  # a matrix that swscale does not know: nothing of that stream can be converted
        return "unspecified"
    spec = FrameSpec.picture(side, side, "yuv420p", field_order="tff" if frame.interlaced_frame else "progressive")
    set_colour(probe, spec.colour)
    placed = _placed_noise(probe)
    for location in _CHROMA_LOCATIONS:
        if placed == _expected_noise(spec.replace(chroma_location=location)):
            return location
    return "unspecified"


@lru_cache(maxsize=32)
def _expected_noise(spec: FrameSpec) -> bytes:
    return _placed_noise(blank_frame(spec))


def _placed_noise(frame: Any) -> bytes:
    """Fill a yuv420p frame with noise; return its first chroma plane at the size of luma."""
    height, width, random = frame.height, frame.width, np.random.default_rng(0)
    for plane in Views("yuv420p", height, width, writable=True)(frame):
        plane[...] = random.integers(0, 256, plane.shape, np.uint8)
    full = Reshaper("yuv444p", height, width)(frame)
    return Views("yuv444p", height, width)(full)[1].tobytes()
