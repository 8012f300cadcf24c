"""Clips that say which picture each picture is: a counter of 16 bits in black and white squares along the top."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

BITS = 16


def picture(index: int, height: int, width: int) -> np.ndarray:
    """Return picture `index`, (height, width, 3) uint8: moving ramps under the counter's squares."""
    side = width // BITS
    rows, columns = np.mgrid[0:height, 0:width]
    image = np.empty((height, width, 3), np.uint8)
    image[..., 0] = (columns + 3 * index) % 256
    image[..., 1] = (rows + 2 * index) % 256
    image[..., 2] = 40
    for bit in range(BITS):
        image[:side, side * bit : side * (bit + 1)] = 255 if index >> bit & 1 else 0
    return image


def counter(luma: np.ndarray) -> int:
    """Return the counter burnt into the luma plane (height, width) of a picture."""
    side = luma.shape[1] // BITS
    middles = luma[side // 2, side // 2 : side * BITS : side]
    return int(sum(1 << bit for bit in range(BITS) if middles[bit] > 128))


def encoded(
    num_pictures: int, height: int, width: int, *, intra: bool = True, slices: int = 1, rate: int = 30
) -> list[bytes]:
    """Return the access units of an H.264 clip; every picture is a key frame if `intra`, else every 15th."""
    context = av.CodecContext.create("libx264", "w")
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.framerate, context.time_base = Fraction(rate), Fraction(1, rate)
    every = 1 if intra else 15
    context.options = {
        "preset": "ultrafast",
        "tune": "zerolatency",
        "profile": "baseline",
        "crf": "28",
        "x264-params": f"aud=1:repeat-headers=1:sliced-threads=0:slices={slices}:keyint={every}:min-keyint={every}:scenecut=0",
    }
    units = []
    for index in range(num_pictures):
        frame = av.VideoFrame.from_ndarray(picture(index, height, width), format="rgb24")
        frame.pts = index
        units += [bytes(packet) for packet in context.encode(frame)]
    return units + [bytes(packet) for packet in context.encode(None)]


def write_units(path: Path, units: list[bytes]) -> Path:
    """Write `units` with their lengths in front, as the camera server reads them."""
    path.write_bytes(b"".join(struct.pack("<I", len(unit)) + unit for unit in units))
    return path
