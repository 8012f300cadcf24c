"""Integer kernels between YUV, RGB and grey; serial, exact to the rounding of their coefficients.

Chroma is sited as in MPEG-2 and H.264 where they do not say otherwise: on the left luma column, between luma rows.
Up: linear interpolation; down: its adjoint (1 2 1 across, the mean down, for 4:2:0). Beyond the borders the edge is
repeated. One set of kernels computes in 32 bits for 8-bit samples, one in 64 bits for deeper ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from hyperframes.frames import Array
    from hyperframes.operators.colour import RgbToYuv, YuvToRgb

__all__ = ["look_up", "resample_chroma", "rgb_to_yuv", "scratch_lines", "yuv_to_rgb"]


@njit(nogil=True, cache=True)
def look_up(source: Any, table: Any, target: Any) -> None:
    """Write ``table[source]`` to `target`; both (H, W) with the same shape."""
    for row in range(source.shape[0]):
        line, out = source[row], target[row]
        for x in range(len(line)):
            out[x] = table[line[x]]


@njit(nogil=True, cache=True)
def _upsampled_line(plane: Any, row: int, down: int, across: int, blended: Any, line: Any) -> None:
    """Write one full-resolution row of a chroma plane, times 2 * down * across, to `line`."""
    position = 2 * row + 1 - down
    upper = position // (2 * down)
    weight = position - 2 * down * upper
    last = plane.shape[0] - 1
    first, second = plane[min(max(upper, 0), last)], plane[min(max(upper + 1, 0), last)]
    columns = plane.shape[1]
    for x in range(columns):
        blended[x] = first[x] * (2 * down - weight) + second[x] * weight
    blended[columns] = blended[columns - 1]
    if across == 1:
        for x in range(columns):
            line[x] = blended[x]
    elif across == 2:
        for x in range(columns):
            line[2 * x] = 2 * blended[x]
            line[2 * x + 1] = blended[x] + blended[x + 1]
    else:
        for x in range(columns):
            for k in range(across):
                line[across * x + k] = blended[x] * (across - k) + blended[x + 1] * k


def _yuv_to_rgb(integer: Any) -> Any:
    @njit(nogil=True, cache=True)
    def kernel(
        y: Any, u: Any, v: Any, out: Any, down: int, across: int, matrix: Any, offsets: Any, top: int, lines: Any
    ) -> None:
        height, width = y.shape
        blended, us, vs = lines[0], lines[1], lines[2]
        scale = 2 * down * across
        yy, rv, bu = integer(matrix[0] * scale), integer(matrix[1]), integer(matrix[4])
        gu, gv = integer(matrix[2]), integer(matrix[3])
        black, centre = integer(offsets[0]), integer(offsets[1] * scale)
        shift = integer(offsets[2])
        half, most, zero = integer(1 << (offsets[2] - 1)), integer(top), integer(0)
        for row in range(height):
            _upsampled_line(u, row, down, across, blended, us)
            _upsampled_line(v, row, down, across, blended, vs)
            luminance, flat = y[row], out[row].reshape(-1)
            for x in range(width):
                base = integer(integer(yy * integer(integer(luminance[x]) - black)) + half)
                cu, cv = integer(us[x] - centre), integer(vs[x] - centre)
                r = integer(integer(base + integer(rv * cv)) >> shift)
                g = integer(integer(base + integer(integer(gu * cu) + integer(gv * cv))) >> shift)
                b = integer(integer(base + integer(bu * cu)) >> shift)
                flat[3 * x] = min(max(r, zero), most)
                flat[3 * x + 1] = min(max(g, zero), most)
                flat[3 * x + 2] = min(max(b, zero), most)

    return kernel


def _rgb_to_yuv(integer: Any) -> Any:
    @njit(nogil=True, cache=True)
    def kernel(
        rgb: Any,
        y: Any,
        u: Any,
        v: Any,
        matrix: Any,
        offsets: Any,
        top: int,
        down: int,
        across: int,
        lines: Any,
    ) -> None:
        height, width = y.shape
        red, green, blue, us, vs = lines[0], lines[1], lines[2], lines[3], lines[4]
        yr, yg, yb = integer(matrix[0, 0]), integer(matrix[0, 1]), integer(matrix[0, 2])
        ur, ug, ub = integer(matrix[1, 0]), integer(matrix[1, 1]), integer(matrix[1, 2])
        vr, vg, vb = integer(matrix[2, 0]), integer(matrix[2, 1]), integer(matrix[2, 2])
        black, shift = integer(((2 * offsets[0] + 1) << offsets[2]) >> 1), integer(offsets[2])
        chroma_shift = offsets[2] + offsets[3]
        centre = ((2 * offsets[1] + 1) << chroma_shift) >> 1
        with_chroma, most = len(u) > 0, integer(top)
        for row in range(down * ((height + down - 1) // down)):
            flat = rgb[min(row, height - 1)].reshape(-1)
            for x in range(width):
                red[x], green[x], blue[x] = flat[3 * x], flat[3 * x + 1], flat[3 * x + 2]
            if row < height:
                line = y[row]
                for x in range(width):
                    value = integer(integer(integer(yr * red[x]) + integer(yg * green[x])) + integer(yb * blue[x]))
                    line[x] = min(integer(integer(value + black) >> shift), most)
            if not with_chroma:
                continue
            first = row % down == 0
            for x in range(width):
                cu = integer(integer(integer(ur * red[x]) + integer(ug * green[x])) + integer(ub * blue[x]))
                cv = integer(integer(integer(vr * red[x]) + integer(vg * green[x])) + integer(vb * blue[x]))
                us[x] = cu if first else integer(us[x] + cu)
                vs[x] = cv if first else integer(vs[x] + cv)
            if row % down == down - 1:
                _decimated_line(us, width, across, centre, chroma_shift, top, u[row // down])
                _decimated_line(vs, width, across, centre, chroma_shift, top, v[row // down])

    return kernel


@njit(nogil=True, cache=True)
def _decimated_line(summed: Any, width: int, across: int, base: int, shift: int, most: int, line: Any) -> None:
    """Write the triangle-weighted sums of `summed` around every `across`-th column, shifted down."""
    if across == 1:
        for x in range(width):
            line[x] = min(max((summed[x] + base) >> shift, 0), most)
        return
    for x in range(len(line)):
        total = across * summed[across * x]
        for k in range(1, across):
            left, right = max(across * x - k, 0), min(across * x + k, width - 1)
            total += (across - k) * (summed[left] + summed[right])
        line[x] = min(max((total + base) >> shift, 0), most)


_yuv_to_rgb_8, _yuv_to_rgb_16 = _yuv_to_rgb(np.int32), _yuv_to_rgb(np.int64)
_rgb_to_yuv_8, _rgb_to_yuv_16 = _rgb_to_yuv(np.int32), _rgb_to_yuv(np.int64)


@njit(nogil=True, cache=True)
def _upsample(plane: Any, out: Any, down: int, across: int, shift: int, lines: Any) -> None:
    half = (1 << shift) >> 1
    for row in range(out.shape[0]):
        _upsampled_line(plane, row, down, across, lines[0], lines[1])
        line, target = lines[1], out[row]
        for x in range(len(target)):
            target[x] = (line[x] + half) >> shift


@njit(nogil=True, cache=True)
def _downsample(plane: Any, out: Any, down: int, across: int, shift: int, lines: Any) -> None:
    height, width = plane.shape
    summed, half = lines[0], (1 << shift) >> 1
    for row in range(out.shape[0]):
        for k in range(down):
            source = plane[min(row * down + k, height - 1)]
            for x in range(width):
                summed[x] = source[x] + (summed[x] if k else 0)
        _decimated_line(summed, width, across, half, shift, 1 << 16, out[row])


# Doors ----------------------------------------------------------------------------------------------------------------


def scratch_lines(width: int, deep: bool) -> Array:
    """Return the rows of intermediate values that the kernels for pictures of `width` columns need."""
    return np.empty((5, width + 8), np.int64 if deep else np.int32)


def yuv_to_rgb(
    planes: tuple[Array, ...], out: Array, steps: tuple[int, int], conversion: YuvToRgb, lines: Array
) -> None:
    """Convert one frame.

    Parameters
    ----------
    planes : (H, W), (h, w), (h, w) of uint8 or uint16
        Luma and chroma.
    out : (H, W, 3) of uint8 or uint16
        Red, green, blue.
    steps : (down, across)
        By how much rows and columns of chroma are divided.
    conversion : YuvToRgb
        Coefficients.
    lines : (5, W + 8) of int32 or int64
        From `scratch_lines`.
    """
    down, across = steps
    kernel = _yuv_to_rgb_16 if conversion.deep else _yuv_to_rgb_8
    shift = conversion.fraction_bits + _bits(2 * down * across)
    offsets = np.array([conversion.black, conversion.centre, shift], np.int64)
    kernel(*planes[:3], out, down, across, conversion.matrix, offsets, conversion.top, lines)


def rgb_to_yuv(rgb: Array, out: tuple[Array, ...], steps: tuple[int, int], conversion: RgbToYuv, lines: Array) -> None:
    """Convert one frame (H, W, 3) to planes (H, W), (h, w), (h, w); the arguments are those of `yuv_to_rgb`.

    With one plane in `out` only luma is computed.
    """
    down, across = steps
    kernel = _rgb_to_yuv_16 if conversion.deep else _rgb_to_yuv_8
    y, u, v = out[:3] if len(out) > 1 else (out[0], out[0][:0], out[0][:0])
    offsets = (conversion.black, conversion.centre, conversion.fraction_bits, _bits(down * across * across))
    kernel(rgb, y, u, v, conversion.matrix, np.array(offsets, np.int64), conversion.top, down, across, lines)


def resample_chroma(plane: Array, out: Array, source: tuple[int, int], target: tuple[int, int], lines: Array) -> None:
    """Bring a chroma plane from one subsampling to another; both axes of (down, across) must go one way."""
    if source >= target:
        down, across = source[0] // target[0], source[1] // target[1]
        _upsample(plane, out, down, across, _bits(2 * down * across), lines)
    else:
        down, across = target[0] // source[0], target[1] // source[1]
        _downsample(plane, out, down, across, _bits(down * across * across), lines)


def _bits(power_of_two: int) -> int:
    return power_of_two.bit_length() - 1
