"""Slow references of operators within frames, in plain NumPy, sample by sample. Imports nothing from the package."""

import math

import numpy as np


def mirrored(position, length):
    """Return which of `length` samples stands at `position`, mirroring without repeating the edge."""
    if length == 1:
        return 0
    folded = position % (2 * (length - 1))
    return folded if folded < length else 2 * (length - 1) - folded


def widened(image, radius):
    """Return an image (H, W[, C]) with `radius` mirrored rows and columns on every side."""
    rows = [mirrored(y, image.shape[0]) for y in range(-radius, image.shape[0] + radius)]
    columns = [mirrored(x, image.shape[1]) for x in range(-radius, image.shape[1] + radius)]
    return image[rows][:, columns]


def correlated(image, kernel):
    """Return the sums of `kernel` (odd, odd) over the neighbourhoods of `image`, in the kernel's dtype."""
    kernel = np.asarray(kernel)
    radius = kernel.shape[0] // 2
    wide = widened(image, radius).astype(kernel.dtype)
    total = np.zeros(image.shape, kernel.dtype)
    for i in range(kernel.shape[0]):
        for j in range(kernel.shape[1]):
            total += kernel[i, j] * wide[i : i + image.shape[0], j : j + image.shape[1]]
    return total


def gaussian(image, sigma_rows, sigma_columns):
    """Return the float64 blur, with the kernels cut off at 3 sigma."""

    def weights(sigma):
        radius = math.ceil(3 * sigma)
        w = np.array([math.exp(-(k**2) / (2 * sigma**2)) for k in range(-radius, radius + 1)])
        return w / w.sum()

    down, across = weights(sigma_rows), weights(sigma_columns)
    out = np.zeros(image.shape)
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            for i, wy in enumerate(down):
                row = image[mirrored(y + i - len(down) // 2, image.shape[0])]
                for j, wx in enumerate(across):
                    out[y, x] += wy * wx * row[mirrored(x + j - len(across) // 2, image.shape[1])]
    return out


def sobel(image):
    """Return the gradient magnitude in float64."""
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float64)
    return np.sqrt(correlated(image, across) ** 2 + correlated(image, across.T) ** 2)


def bilateral(image, diameter, sigma_color, sigma_space):
    """Return the float64 result for (H, W), or (H, W, C) with the channels weighed together."""
    radius = diameter // 2
    stacked = image.reshape(*image.shape[:2], -1).astype(np.float64)
    wide = widened(stacked, radius)
    out = np.zeros(stacked.shape)
    for y in range(stacked.shape[0]):
        for x in range(stacked.shape[1]):
            total, weight = 0.0, 0.0
            for i in range(-radius, radius + 1):
                for j in range(-radius, radius + 1):
                    if i * i + j * j > radius * radius:
                        continue
                    there = wide[y + radius + i, x + radius + j]
                    apart = np.abs(there - stacked[y, x]).sum()
                    w = math.exp(-(i * i + j * j) / (2 * sigma_space**2) - apart**2 / (2 * sigma_color**2))
                    total, weight = total + w * there, weight + w
            out[y, x] = total / weight
    return out.reshape(image.shape)


def resized_nearest(image, height, width):
    """Return the samples whose centres are nearest."""
    rows = [(2 * y + 1) * image.shape[0] // (2 * height) for y in range(height)]
    columns = [(2 * x + 1) * image.shape[1] // (2 * width) for x in range(width)]
    return image[rows][:, columns]


def resized_linear(image, height, width):
    """Return the float64 bilinear interpolation at the new centres, the edge repeated."""

    def along(values, length):
        out = []
        for k in range(length):
            at = (k + 0.5) * len(values) / length - 0.5
            low = math.floor(at)
            first, second = (min(max(i, 0), len(values) - 1) for i in (low, low + 1))
            out.append(values[first] * (1 - (at - low)) + values[second] * (at - low))
        return np.array(out)

    rows = along(image.astype(np.float64), height)
    return np.swapaxes(along(np.swapaxes(rows, 0, 1), width), 0, 1)


def resized_area(image, height, width):
    """Return the float64 mean over the area that each new sample covers; only for shrinking."""

    def along(values, length):
        out, step = [], len(values) / length
        for k in range(length):
            total = 0.0
            for i in range(len(values)):
                share = min(i + 1, (k + 1) * step) - max(i, k * step)
                if share > 0:
                    total = total + share * values[i]
            out.append(total / step)
        return np.array(out)

    rows = along(image.astype(np.float64), height)
    return np.swapaxes(along(np.swapaxes(rows, 0, 1), width), 0, 1)


def lbp(image, points, radius, uniform):
    """Return the codes by the definition, pixel by pixel."""
    places = [(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)][:: 8 // points]

    def changes(code):
        bits = [(code >> k) & 1 for k in range(points)]
        return sum(bits[k] != bits[k - 1] for k in range(points))

    labels = {}
    for code in range(1 << points):
        if changes(code) <= 2:
            labels[code] = len(labels)
    out = np.zeros(image.shape, np.uint8)
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            code = 0
            for k, (dy, dx) in enumerate(places):
                row, column = mirrored(y + dy * radius, image.shape[0]), mirrored(x + dx * radius, image.shape[1])
                code |= int(image[row, column] >= image[y, x]) << k
            out[y, x] = labels.get(code, len(labels)) if uniform else code
    return out


# Colour -------------------------------------------------------------------------------------------------------------


WEIGHTS = {"bt709": (0.2126, 0.0722), "smpte170m": (0.299, 0.114), "bt2020nc": (0.2627, 0.0593)}


def levels(bits, full):
    """Return black, white less black, grey chroma, span of chroma."""
    if full:
        return 0, 2**bits - 1, 2 ** (bits - 1), 2**bits - 1
    unit = 2 ** (bits - 8)
    return 16 * unit, 219 * unit, 128 * unit, 224 * unit


def yuv_to_rgb(y, u, v, matrix, bits, full, out_bits):
    """Return float64 (H, W, 3) from planes of one size, before rounding and clipping."""
    kr, kb = WEIGHTS[matrix]
    kg = 1 - kr - kb
    black, span, centre, chroma = levels(bits, full)
    luma, cb, cr = (y - black) / span, (u - centre) / chroma, (v - centre) / chroma
    red, blue = luma + 2 * (1 - kr) * cr, luma + 2 * (1 - kb) * cb
    green = (luma - kr * red - kb * blue) / kg
    return np.stack([red, green, blue], axis=-1) * (2**out_bits - 1)
