"""Convert frames: pixel format, dtype and layout. The pipeline puts it in where an operator or sink needs it."""

from __future__ import annotations

import difflib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import PIXEL_FORMATS, Array, FrameSpec, PlaneLayout
from hyperframes.operators.colour import (
    Levels,
    chroma_table,
    level_table,
    levels_of,
    luma_weights,
    resolved_colour,
    rgb_to_yuv_coefficients,
    yuv_to_rgb_coefficients,
)
from hyperframes.operators.framewise import Framewise, Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hyperframes.frames import Layout

__all__ = ["Convert", "choose_format"]


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
    Integer arithmetic, rounded to nearest (coefficients are exact to 2**-15 of a level step for 8 bits), no dependence
    on width, threads or processor.

    - Unspecified colour is read as BT.709 from 720 rows up and as BT.601 below, limited range for YUV, full for grey;
      RGB is full range. The result says outright which matrix was used.
    - Grey of YUV is its luma plane, brought to full range by a table made once per worker. Grey of RGB is its luma by
      the matrix of the stream.
    - Chroma sits on the left luma column, between rows (MPEG-2, H.264). It is interpolated linearly on the way up and
      filtered with the adjoint (1 2 1 across, mean down) on the way down; odd sizes repeat the last column or row.
    - Depth changes by ``top_out / top_in`` for full range, by shifts of the limited levels otherwise.
    - Alpha is kept where both formats have it, dropped where the new one has none, opaque where the old one has none.

    References
    ----------
    .. [1] Recommendation ITU-R BT.709-6, 2015; BT.601-7, 2011; BT.2020-2, 2015.
    """

    name: ClassVar[str] = "convert"
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
    colour = resolved_colour(spec)
    old, new = PIXEL_FORMATS[spec.pixel_format].family, PIXEL_FORMATS[pixel_format].family
    if old != new:
        luma_weights(colour.matrix)
        span = "tv" if new == "yuv" else "pc"
        colour = type(colour)(colour.matrix, span, colour.primaries, colour.transfer)
    return spec.replace(
        shapes=picture.shapes, dtype=picture.dtype, pixel_format=pixel_format, layout="NHWC", colour=colour
    )


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


def _picture_kernel(source: FrameSpec, target: FrameSpec) -> Kernel:
    """Return the kernel between pixel formats; grey, RGB and YUV each have one form that the others go through."""
    old, new = PIXEL_FORMATS[source.pixel_format], PIXEL_FORMATS[target.pixel_format]
    if old.family == "yuv":
        colour = {"gray": _yuv_to_gray, "rgb": _yuv_to_rgb, "yuv": _yuv_to_yuv}[new.family]
    elif old.family == "rgb":
        colour = {"gray": _rgb_to_gray, "rgb": _rgb_to_rgb, "yuv": _rgb_to_yuv}[new.family]
    else:
        colour = {"gray": _gray_to_gray, "rgb": _gray_to_rgb, "yuv": _gray_to_yuv}[new.family]
    convert, alpha = colour(source, target), _alpha(source, target)

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        convert(sources, targets)
        alpha(sources, targets)

    return run


def _levels(spec: FrameSpec) -> Levels:
    """Return the levels of `spec`; floating-point grey counts as 16 bits of full range."""
    levels = levels_of(spec)
    return Levels(16, True) if levels.bits == 32 else levels


def _chroma_steps(layout: PlaneLayout) -> tuple[int, int]:
    return layout.planes[1][:2] if layout.family == "yuv" else (1, 1)


def _table_kernel(source: Levels, target: Levels) -> Callable[[Array, Array], None]:
    """Return what brings a plane of luma, grey or one colour from one depth and range to another."""
    if source == target:
        return lambda plane, out: np.copyto(out, plane)
    from hyperframes.operators.pixel_kernels import look_up

    table = level_table(source, target)

    def run(plane: Array, out: Array) -> None:
        look_up(plane, table, out) if plane.ndim == 2 else look_up(
            plane.reshape(len(plane), -1), table, out.reshape(len(out), -1)
        )

    return run


def _yuv_to_gray(source: FrameSpec, target: FrameSpec) -> Kernel:
    write = _gray_writer(levels_of(source), target)
    return lambda sources, targets: write(sources[0], targets)


def _gray_to_gray(source: FrameSpec, target: FrameSpec) -> Kernel:
    read, write = _gray_reader(source), _gray_writer(_levels(source), target)
    return lambda sources, targets: write(read(sources), targets)


def _gray_to_rgb(source: FrameSpec, target: FrameSpec) -> Kernel:
    import cv2

    read, write = _gray_reader(source), _rgb_writer(target)
    change = _table_kernel(_levels(source), Levels(PIXEL_FORMATS[target.pixel_format].bits, full=True))
    spare = _Spare(lambda: (np.empty(_size(target), target.dtype), np.empty((*_size(target), 3), target.dtype)))

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        gray, rgb = taken = spare.take()
        change(read(sources), gray)
        cv2.merge((gray, gray, gray), rgb)
        write(rgb, targets)
        spare.give(taken)

    return run


def _gray_to_yuv(source: FrameSpec, target: FrameSpec) -> Kernel:
    read, levels = _gray_reader(source), levels_of(target)
    change = _table_kernel(_levels(source), levels)

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        change(read(sources), targets[0])
        for plane in targets[1:3]:
            plane[...] = levels.centre

    return run


def _yuv_to_rgb(source: FrameSpec, target: FrameSpec) -> Kernel:
    from hyperframes.operators import pixel_kernels

    bits, levels = PIXEL_FORMATS[target.pixel_format].bits, levels_of(source)
    conversion = yuv_to_rgb_coefficients(luma_weights(resolved_colour(source).matrix), levels, bits)
    steps, write = _chroma_steps(PIXEL_FORMATS[source.pixel_format]), _rgb_writer(target)
    lines = _Spare(lambda: pixel_kernels.scratch_lines(source.width, conversion.deep))
    direct = target.pixel_format in {"rgb24", "rgb48le"}
    packed = _Spare(lambda: np.empty((*_size(target), 3), target.dtype))

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        scratch = lines.take()
        rgb = targets[0] if direct else packed.take()
        pixel_kernels.yuv_to_rgb(sources, rgb, steps, conversion, scratch)
        lines.give(scratch)
        if not direct:
            write(rgb, targets)
            packed.give(rgb)

    return run


def _rgb_to_yuv(source: FrameSpec, target: FrameSpec) -> Kernel:
    from hyperframes.operators import pixel_kernels

    bits, levels = PIXEL_FORMATS[source.pixel_format].bits, levels_of(target)
    conversion = rgb_to_yuv_coefficients(luma_weights(resolved_colour(target).matrix), bits, levels)
    steps, read = _chroma_steps(PIXEL_FORMATS[target.pixel_format]), _rgb_reader(source)
    lines = _Spare(lambda: pixel_kernels.scratch_lines(source.width, conversion.deep))

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        scratch = lines.take()
        pixel_kernels.rgb_to_yuv(read(sources), targets, steps, conversion, scratch)
        lines.give(scratch)

    return run


def _rgb_to_gray(source: FrameSpec, target: FrameSpec) -> Kernel:
    from hyperframes.operators import pixel_kernels

    bits, levels = PIXEL_FORMATS[source.pixel_format].bits, _levels(target)
    conversion = rgb_to_yuv_coefficients(luma_weights(resolved_colour(source).matrix), bits, levels)
    read, write = _rgb_reader(source), _gray_writer(levels, target)
    depth = np.uint8 if levels.bits == 8 else np.uint16
    spare = _Spare(lambda: (np.empty(_size(source), depth), pixel_kernels.scratch_lines(source.width, conversion.deep)))

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        gray, lines = taken = spare.take()
        pixel_kernels.rgb_to_yuv(read(sources), (gray,), (1, 1), conversion, lines)
        write(gray, targets)
        spare.give(taken)

    return run


def _rgb_to_rgb(source: FrameSpec, target: FrameSpec) -> Kernel:
    read, write = _rgb_reader(source), _rgb_writer(target)
    old, new = (PIXEL_FORMATS[s.pixel_format].bits for s in (source, target))
    change = _table_kernel(Levels(old, full=True), Levels(new, full=True))
    spare = _Spare(lambda: np.empty((*_size(target), 3), target.dtype))

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        rgb = spare.take()
        change(read(sources), rgb)
        write(rgb, targets)
        spare.give(rgb)

    return run


def _yuv_to_yuv(source: FrameSpec, target: FrameSpec) -> Kernel:
    """Return the kernel that brings luma and chroma to the new depth, and chroma to the new resolution."""
    from hyperframes.operators import pixel_kernels

    old, new = levels_of(source), levels_of(target)
    steps, to = (_chroma_steps(PIXEL_FORMATS[s.pixel_format]) for s in (source, target))
    # One step where both axes go the same way, else through the finest of both.
    finest = (min(steps[0], to[0]), min(steps[1], to[1]))
    luma, chroma = _table_kernel(old, new), _depth_kernel(old, new)
    lines = _Spare(lambda: pixel_kernels.scratch_lines(source.width, source.dtype.itemsize > 1))
    fine = (-(-source.height // finest[0]), -(-source.width // finest[1]))
    spare = _Spare(lambda: (np.empty(fine, source.dtype), np.empty(target.shapes[1], source.dtype)))

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        luma(sources[0], targets[0])
        scratch, between = lines.take(), spare.take()
        for plane, out in zip(sources[1:3], targets[1:3], strict=True):
            now = plane
            for start, stop, place in ((steps, finest, between[0]), (finest, to, between[1])):
                if start != stop:
                    pixel_kernels.resample_chroma(now, place, start, stop, scratch)
                    now = place
            chroma(now, out)
        lines.give(scratch)
        spare.give(between)

    return run


def _depth_kernel(source: Levels, target: Levels) -> Callable[[Array, Array], None]:
    """Return what brings a chroma plane to another depth; the range never changes between YUV formats."""
    if source == target:
        return lambda plane, out: np.copyto(out, plane)
    from hyperframes.operators.pixel_kernels import look_up

    table = chroma_table(source, target)
    return lambda plane, out: look_up(plane, table, out)


# Reading and writing grey and RGB of every packing --------------------------------------------------------------------

_CHANNELS = {
    "rgb24": (0, 1, 2, None),
    "bgr24": (2, 1, 0, None),
    "rgba": (0, 1, 2, 3),
    "bgra": (2, 1, 0, 3),
    "argb": (1, 2, 3, 0),
    "abgr": (3, 2, 1, 0),
    "rgb48le": (0, 1, 2, None),
    "rgba64le": (0, 1, 2, 3),
}


def _size(spec: FrameSpec) -> tuple[int, int]:
    return spec.height, spec.width


def _gray_reader(spec: FrameSpec) -> Callable[[tuple[Array, ...]], Array]:
    if spec.pixel_format == "ya8":
        return lambda planes: planes[0][..., 0]
    if spec.dtype.kind == "f":  # 0 to 1
        return lambda planes: np.floor(np.clip(np.nan_to_num(planes[0]), 0, 1) * 65535 + 0.5).astype(np.uint16)
    return lambda planes: planes[0]


def _gray_writer(source: Levels, target: FrameSpec) -> Callable[[Array, tuple[Array, ...]], None]:
    if target.dtype.kind == "f":
        low, span = source.black, source.luma_span

        def write(plane: Array, targets: tuple[Array, ...]) -> None:
            targets[0][...] = np.clip((plane.astype(np.float64) - low) / span, 0, 1)

        return write
    change = _table_kernel(source, _levels(target))
    if target.pixel_format == "ya8":
        return lambda plane, targets: change(plane, targets[0][..., 0])
    return lambda plane, targets: change(plane, targets[0])


def _rgb_reader(spec: FrameSpec) -> Callable[[tuple[Array, ...]], Array]:
    """Return what gives a frame as contiguous (H, W, 3)."""
    if spec.pixel_format in {"rgb24", "rgb48le"}:
        return lambda planes: np.ascontiguousarray(planes[0])
    if len(spec.shapes) > 1:
        return lambda planes: np.stack([planes[2], planes[0], planes[1]], axis=-1)  # planes are G, B, R
    order = list(_CHANNELS[spec.pixel_format][:3])
    return lambda planes: np.ascontiguousarray(planes[0][..., order])


def _rgb_writer(spec: FrameSpec) -> Callable[[Array, tuple[Array, ...]], None]:
    planar = len(spec.shapes) > 1
    order = (2, 0, 1) if planar else _CHANNELS[spec.pixel_format][:3]

    def write(rgb: Array, targets: tuple[Array, ...]) -> None:
        for channel, place in enumerate(order):
            np.copyto(targets[place] if planar else targets[0][..., place], rgb[..., channel])

    return write


# Alpha ----------------------------------------------------------------------------------------------------------------


def _has_alpha(pixel_format: str) -> bool:
    return _alpha_of(pixel_format) is not None


def _alpha_of(pixel_format: str) -> tuple[int, int | None] | None:
    """Return in which plane, and which channel of it, alpha stands."""
    if pixel_format == "ya8":
        return 0, 1
    if pixel_format in _CHANNELS:
        channel = _CHANNELS[pixel_format][3]
        return None if channel is None else (0, channel)
    return (3, None) if len(PIXEL_FORMATS[pixel_format].planes) == 4 else None


def _alpha(source: FrameSpec, target: FrameSpec) -> Kernel:
    where, to = _alpha_of(source.pixel_format), _alpha_of(target.pixel_format)
    if to is None:
        return lambda sources, targets: None
    levels = Levels(PIXEL_FORMATS[target.pixel_format].bits, full=True)
    change = _table_kernel(Levels(PIXEL_FORMATS[source.pixel_format].bits, full=True), levels)

    def run(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
        out = _channel(targets, to)
        if where is None:
            out[...] = levels.top
        else:
            change(_channel(sources, where), out)

    return run


def _channel(planes: tuple[Array, ...], place: tuple[int, int | None]) -> Array:
    plane, channel = place
    return planes[plane] if channel is None else planes[plane][..., channel]
