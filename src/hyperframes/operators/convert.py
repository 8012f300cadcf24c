"""Convert frames: pixel format, dtype and layout. The pipeline puts it in where an operator or sink needs it."""

from __future__ import annotations

import dataclasses
import difflib
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import PIXEL_FORMATS, Array, FrameSpec, PlaneLayout
from hyperframes.operators.framewise import Framewise, Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hyperframes.frames import Colour, Layout
    from hyperframes.media.pixels import Converter

__all__ = ["Convert", "choose_format", "luma_tables"]

_TRIED_SIDE = 8


@dataclass(frozen=True)
class Convert(Framewise):
    """Convert each frame to another pixel format, dtype or layout; what is left empty stays.

    Pictures in any planes -> the planes of `format`; arrays of any shape and dtype -> the same in `dtype`; (H, W, C) -> (C, H, W)
    and back. No halo in time.

    Parameters
    ----------
    format : str
        FFmpeg's name of the pixel format: ``rgb24``, ``gray``, ``yuv420p``, ``rgb48le``, ``gray16le``, ...
    dtype : str
        NumPy's name. Values stay as they are (uint8 to float32 keeps 0 to 255); to integers they are rounded half up
        and saturated, NaN becomes 0.
    layout : str
        ``NHWC`` or ``NCHW``; frames without a channel axis stay as they are.

    Notes
    -----
    Pixel formats are converted by FFmpeg's swscale on one thread, with the flags that PyAV uses by default: the result
    is bit for bit that of PyAV's ``frame.reformat(format=...)`` and ``frame.to_ndarray(format=...)``. The bits may
    differ between types of processor, as swscale's do.

    - Unspecified matrices are read as BT.601, whatever the size; unspecified range as limited for YUV. RGB and grey
      are full range; what is made from them in YUV is limited range. Matrix, primaries and transfer stay as said,
      unspecified ones too, so that YUV comes back from RGB as it was; ``gbr`` becomes ``smpte170m``, which was used.
    - Grey is luma by BT.601 at full range: of YUV in that matrix its own luma, of RGB and of other matrices computed
      from RGB.
    - Deeper samples are dithered on the way to 8 bits, in a fixed pattern of 8 x 8 pixels.
    - Chroma stands where `FrameSpec.chroma_location` says; fields of interlaced pictures are converted apart.
    - Alpha is kept where both formats have it, dropped where the new one has none, opaque where the old one has none.

    One copy of the frame to swscale's memory and one back; grey of BT.601 up to 10 bits is
    looked up in a table of swscale's results for each value.
    """

    name: ClassVar[str] = "convert"
    compiles: ClassVar[bool] = True
    format: str = ""
    dtype: str = ""
    layout: str = ""

    def __post_init__(self) -> None:
        if self.layout not in {"", "NHWC", "NCHW"}:
            raise PipelineError(
                f"operator 'convert': expected layout NHWC or NCHW, got {self.layout!r}",
                stage=self.name,
                got=self.layout,
            )
        if self.format and self.format not in PIXEL_FORMATS:
            near = [f"Did you mean {n!r}?" for n in difflib.get_close_matches(self.format, PIXEL_FORMATS, n=1)]
            raise PipelineError(
                f"operator 'convert': expected format to be a pixel format, got {self.format!r}",
                stage=self.name,
                expected=sorted(PIXEL_FORMATS),
                got=self.format,
                hint=near[0] if near else f"Known are {', '.join(sorted(PIXEL_FORMATS))}.",
            )
        if self.dtype and not _is_number_dtype(self.dtype):
            raise PipelineError(
                f"operator 'convert': expected dtype of integers, floats or bool, got {self.dtype!r}",
                stage=self.name,
                got=self.dtype,
                hint="For example float32, float16, uint8 or uint16.",
            )

    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return `spec` in the new format, dtype and layout."""
        return self._steps(spec)[-1][1]

    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the conversion, as one kernel."""
        return _chained(self._steps(spec))

    def _steps(self, spec: FrameSpec) -> list[tuple[Callable[[], Kernel], FrameSpec]]:
        """Return the conversions needed, each as what makes its kernel and the spec it gives."""
        steps: list[tuple[Callable[[], Kernel], FrameSpec]] = []
        now = spec
        wanted = self.layout or spec.layout
        if self.format and self.format != spec.pixel_format:
            target = _picture_spec(spec, self.format)
            if _is_turned(spec):
                now = _turned(spec, "NHWC")
                steps.append((lambda: _move_channels(-1), now))
            source = now
            steps.append((lambda: _picture_kernel(source, target), target))
            now = target
        if self.dtype and np.dtype(self.dtype) != now.dtype:
            now = _with_dtype(now, np.dtype(self.dtype))
            cast = now.dtype
            steps.append((lambda: _cast(cast), now))
        if wanted != now.layout:
            channels = any(len(shape) == 3 for shape in now.shapes)
            now = _turned(now, wanted)  # type: ignore[arg-type]  # checked when made
            to = -1 if wanted == "NHWC" else 0
            steps.append((lambda: _move_channels(to) if channels else _copy, now))
        return steps or [(lambda: _copy, spec)]


def choose_format(spec: FrameSpec, formats: Iterable[str] | None) -> str | None:
    """Return which of the accepted pixel formats loses least for pictures of `spec`; what it has if that is accepted.

    Parameters
    ----------
    spec : FrameSpec
        Of the frames there are.
    formats : iterable of str or None
        Accepted pixel formats. One written ``=gray16le`` is taken as it is, but nothing is converted to it.

    Returns
    -------
    str or None
        None where there is nothing to choose: any format will do, or the frames are no pictures.

    Raises
    ------
    PipelineError
        If nothing accepted can be reached.

    Notes
    -----
    In this order: colour is kept, depth is kept, chroma resolution is kept, the family (YUV, RGB, grey) stays, alpha
    is kept, nothing is made deeper or wider than it must be, and then the first one named.

    Examples
    --------
    >>> choose_format(FrameSpec.picture(4, 6, "yuv420p10le"), ("gray", "rgb24"))
    'rgb24'
    >>> choose_format(FrameSpec.picture(4, 6, "gray"), ("rgb24", "gray"))
    'gray'
    """
    if formats is None or not spec.is_picture:
        return None
    named = list(formats)
    if spec.pixel_format in {name.removeprefix("=") for name in named}:
        return spec.pixel_format
    targets = [name for name in named if name in PIXEL_FORMATS]
    if not targets:
        raise PipelineError(
            f"frames in {spec.pixel_format} are not taken: expected {', '.join(n.removeprefix('=') for n in named)}",
            expected=named,
            got=spec.pixel_format,
        )
    return min(targets, key=lambda name: _loss(spec.pixel_format, name))


def _loss(source: str, target: str) -> tuple[Any, ...]:
    """Return what is lost, worst first; the lowest is the nearest."""
    old, new = PIXEL_FORMATS[source], PIXEL_FORMATS[target]
    chroma, new_chroma = _chroma_steps(old), _chroma_steps(new)
    coarser = max(0, new_chroma[0] * new_chroma[1] - chroma[0] * chroma[1]) if old.family != "gray" else 0
    return (
        old.family != "gray" and new.family == "gray",
        max(0, old.bits - new.bits),
        coarser,
        old.family != new.family,
        (old.family, new.family) == ("gray", "yuv"),
        _has_alpha(source) and not _has_alpha(target),
        max(0, new.bits - old.bits),
        chroma[0] * chroma[1] - new_chroma[0] * new_chroma[1],
        _has_alpha(target) and not _has_alpha(source),
    )


def _is_number_dtype(name: str) -> bool:
    try:
        return np.dtype(name).kind in "biuf"
    except TypeError:
        return False


# Specs ----------------------------------------------------------------------------------------------------------------


def _picture_spec(spec: FrameSpec, pixel_format: str) -> FrameSpec:
    if not spec.is_picture:
        raise PipelineError(
            f"operator 'convert': only pictures have pixel formats: expected pictures, got {spec}",
            stage="convert",
            got=spec.pixel_format,
            hint="Convert arrays by dtype first: uint8 (H, W) is gray, (H, W, 3) is rgb24.",
        )
    try:
        picture = FrameSpec.picture(spec.height, spec.width, pixel_format)
    except FrameError as error:
        raise PipelineError(str(error), stage="convert") from error
    small = FrameSpec.picture(_TRIED_SIDE, _TRIED_SIDE, spec.pixel_format, colour=spec.colour)
    refusal = _refusal(small, pixel_format)
    if refusal:
        raise PipelineError(
            f"operator 'convert': FFmpeg does not convert {spec.pixel_format} of colour matrix {spec.colour.matrix!r} to {pixel_format}: "
            f"{refusal}",
            stage="convert",
            got=(spec.pixel_format, spec.colour.matrix),
            hint="Keep the native planes (--pixel-format native), or convert the file's colour beforehand.",
        )
    return spec.replace(
        shapes=picture.shapes,
        dtype=picture.dtype,
        pixel_format=pixel_format,
        layout="NHWC",
        colour=_colour(spec, pixel_format),
    )


def _colour(spec: FrameSpec, pixel_format: str) -> Colour:
    """Return the colour that pictures of `spec` have in another format: RGB and grey are full range, YUV of them not."""
    old, new = PIXEL_FORMATS[spec.pixel_format].family, PIXEL_FORMATS[pixel_format].family
    if new != "yuv":
        return dataclasses.replace(spec.colour, range="pc")
    if old == "yuv":
        return spec.colour
    matrix = "smpte170m" if spec.colour.matrix in {"gbr", "rgb"} else spec.colour.matrix
    return dataclasses.replace(spec.colour, matrix=matrix, range="tv")


def _with_dtype(spec: FrameSpec, dtype: np.dtype[Any]) -> FrameSpec:
    """Return `spec` in another dtype: still a picture only where its arrays still are one."""
    nhwc = _turned(spec, "NHWC") if _is_turned(spec) else spec
    guessed = FrameSpec.array(nhwc.shapes[0], dtype).pixel_format if len(spec.shapes) == 1 else ""
    return spec.replace(dtype=dtype, pixel_format=guessed)


def _is_turned(spec: FrameSpec) -> bool:
    return spec.layout == "NCHW" and any(len(shape) == 3 for shape in spec.shapes)


def _turned(spec: FrameSpec, layout: Layout) -> FrameSpec:
    """Return `spec` in `layout`: the channel axis of every plane that has one moves."""

    def moved(shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(shape) != 3 or layout == spec.layout:
            return shape
        return (*shape[1:], shape[0]) if layout == "NHWC" else (shape[2], *shape[:2])

    return spec.replace(shapes=tuple(moved(shape) for shape in spec.shapes), layout=layout)


# Kernels --------------------------------------------------------------------------------------------------------------


class _Spare:
    """Arrays that calls take and give back, so that concurrent ones never share and nothing is made twice."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._spare = make, deque[Any]()

    def take(self) -> Any:
        try:
            return self._spare.pop()
        except IndexError:
            return self._make()

    def give(self, taken: Any) -> None:
        self._spare.append(taken)


def _planes_of(spec: FrameSpec) -> tuple[Array, ...]:
    return tuple(np.empty(shape, spec.dtype) for shape in spec.shapes)


def _chained(steps: list[tuple[Callable[[], Kernel], FrameSpec]]) -> Kernel:
    kernels = [make() for make, _ in steps]
    if len(kernels) == 1:
        return kernels[0]
    between = _Spare(lambda: [_planes_of(spec) for _, spec in steps[:-1]])

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        scratch = between.take()
        stops = [sources, *scratch, targets]
        for kernel, source, target in zip(kernels, stops, stops[1:], strict=False):
            kernel(source, target)
        between.give(scratch)

    return run


def _copy(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
    for source, target in zip(sources, targets, strict=True):
        np.copyto(target, source)


def _move_channels(to: int) -> Kernel:
    origin = 0 if to == -1 else -1

    def move(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        for source, target in zip(sources, targets, strict=True):
            np.copyto(target, np.moveaxis(source, origin, to) if source.ndim == 3 else source)

    return move


def _cast(dtype: np.dtype[Any]) -> Kernel:
    def cast(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        for source, target in zip(sources, targets, strict=True):
            if np.can_cast(source.dtype, dtype, "safe"):
                np.copyto(target, source)
            else:
                target[...] = _values_as(source, dtype)

    return cast


def _values_as(source: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "fb":
        with np.errstate(over="ignore"):  # beyond float16 lies infinity
            return source.astype(dtype)
    info = np.iinfo(dtype)
    if source.dtype.kind == "f":
        rounded = np.floor(np.nan_to_num(source.astype(np.float64), posinf=np.inf, neginf=-np.inf) + 0.5)
        # Clipped as integers: the largest int64 is no float64.
        inside = np.clip(rounded, float(info.min), np.nextafter(float(info.max) + 1, 0))
        return inside.astype(dtype)
    return np.clip(source, max(info.min, np.iinfo(source.dtype).min), min(info.max, np.iinfo(source.dtype).max)).astype(
        dtype
    )


# Pictures -------------------------------------------------------------------------------------------------------------

_DITHER = 8
_TABLE_BITS = 10


def _picture_kernel(source: FrameSpec, target: FrameSpec) -> Kernel:
    """Return the kernel between pixel formats."""
    tables = luma_tables(source, target)
    if tables is not None:
        return _table_kernel(tables)
    converters = _Spare(lambda: _converter(source, target.pixel_format))

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        converter = converters.take()
        converter(sources, targets)
        converters.give(converter)

    return run


def _converter(source: FrameSpec, pixel_format: str) -> Converter:
    from hyperframes.media.pixels import Converter  # loads PyAV

    return Converter(source, pixel_format)


def _table_kernel(tables: Array) -> Kernel:
    from hyperframes.operators.pixel_kernels import look_up, look_up_dithered

    if (tables == tables[0, 0]).all():
        table = tables[0, 0].copy()
        return lambda sources, targets: look_up(sources[0], table, targets[0])
    return lambda sources, targets: look_up_dithered(sources[0], tables, targets[0])


def luma_tables(source: FrameSpec, target: FrameSpec) -> Array | None:
    """Return what swscale makes of every value of luma, for each place of its pattern of dither.

    Parameters
    ----------
    source : FrameSpec
        Of the pictures there are.
    target : FrameSpec
        Of the pictures they become.

    Returns
    -------
    ndarray, shape (8, 8, 256) for 8 bits, (8, 8, 65536) otherwise, or None
        By row and column modulo 8, and by value; values beyond the depth are as the largest. None where the result is
        not grey of one plane, where it depends on chroma too (swscale goes by RGB where the matrix is not BT.601's),
        above 10 bits, and for interlaced pictures, whose fields are dithered apart.
    """
    old, new = PIXEL_FORMATS[source.pixel_format], PIXEL_FORMATS[target.pixel_format]
    if (old.family, new.family, new.planes) != ("yuv", "gray", ((1, 1, 1),)):
        return None
    if old.bits > _TABLE_BITS or source.field_order != "progressive":
        return None
    num_values = 1 << old.bits
    ramp = FrameSpec.picture(_DITHER, num_values * _DITHER, source.pixel_format, colour=source.colour)
    planes = [np.full(shape, num_values // 2, ramp.dtype) for shape in ramp.shapes]
    planes[0][:] = np.repeat(np.arange(num_values), _DITHER)
    gray, other = (np.empty(ramp.shapes[0], target.dtype) for _ in range(2))
    convert = _converter(ramp, target.pixel_format)
    convert(planes, [gray])
    for plane in planes[1:3]:
        plane[:] = num_values // 3
    convert(planes, [other])
    if not np.array_equal(gray, other):
        return None
    tables = gray.reshape(_DITHER, num_values, _DITHER).swapaxes(1, 2)  # (8, 8, num_values)
    beyond = (1 << 8 * source.dtype.itemsize) - num_values
    return np.pad(tables, ((0, 0), (0, 0), (0, beyond)), mode="edge")


@lru_cache(maxsize=256)
def _refusal(spec: FrameSpec, pixel_format: str) -> str:
    """Return why swscale does not convert pictures like those of `spec`, or nothing where it does."""
    target = FrameSpec.picture(spec.height, spec.width, pixel_format)
    try:
        _converter(spec, pixel_format)(*(tuple(np.zeros(s, x.dtype) for s in x.shapes) for x in (spec, target)))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _chroma_steps(layout: PlaneLayout) -> tuple[int, int]:
    return layout.planes[1][:2] if layout.family == "yuv" else (1, 1)


def _has_alpha(pixel_format: str) -> bool:
    return sum(channels for _, _, channels in PIXEL_FORMATS[pixel_format].planes) in {2, 4}
