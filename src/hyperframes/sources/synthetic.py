"""Made-up frames that are the same on every machine: moving textured shapes with noise and cuts, sensor rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import numpy as np

from hyperframes.errors import SourceError
from hyperframes.frames import PIXEL_FORMATS, Array, FrameSpec
from hyperframes.sources.array import StoredArrays, exact_rate

if TYPE_CHECKING:
    from hyperframes.sources.base import Source

__all__ = ["open_synthetic"]

_FORMATS = ("yuv420p", "yuv422p", "yuv444p", "gray", "rgb24")
_ROW_BLOCK = 4096
_NUM_SHAPES = 6
_MOST_NOISE = 16


def open_synthetic(location: str = "synthetic:moving", **options: Any) -> Source:
    """Open made-up frames, as in ``synthetic:moving?frames=250&width=640&height=360&rate=25&seed=0``.

    Parameters
    ----------
    location : str
        ``synthetic:moving`` (pictures) or ``synthetic:rows`` (sensor values); fields follow after ``?``.
    **options
        The same fields as keywords. Pictures: `frames` (250), `width` (640), `height` (360), `rate` (25), `seed` (0),
        `pixel_format` (yuv420p; also yuv422p, yuv444p, gray, rgb24), `cut` (frames between cuts, 100; 0: none),
        `noise` (amplitude in grey levels, 0 to 16; 4). Rows: `frames` (1000), `columns` (8), `rate` (1000), `seed` (0),
        `noise` (standard deviation, 0.05).

    Returns
    -------
    Source
        Every frame depends on its position and the fields only, so any range gives the same frames.

    Raises
    ------
    SourceError
        If the kind or a field is not known, or a value makes no sense.
    """
    kind, _, query = location.removeprefix("synthetic:").partition("?")
    fields = {**dict(parse_qsl(query, keep_blank_values=True)), **options}
    if kind in {"", "moving"}:
        return _moving(_checked(fields, _MOVING_DEFAULTS, location), location)
    if kind == "rows":
        return _rows(_checked(fields, _ROWS_DEFAULTS, location), location)
    raise SourceError(
        f"no synthetic frames named {kind!r}: expected moving or rows",
        source=location,
        hint="synthetic:moving?frames=250",
    )


_MOVING_DEFAULTS: dict[str, Any] = {
    "frames": 250,
    "width": 640,
    "height": 360,
    "rate": Fraction(25),
    "seed": 0,
    "pixel_format": "yuv420p",
    "cut": 100,
    "noise": 4,
}
_ROWS_DEFAULTS: dict[str, Any] = {"frames": 1000, "columns": 8, "rate": Fraction(1000), "seed": 0, "noise": 0.05}
_LEAST = {"frames": 0, "width": 1, "height": 1, "columns": 0, "seed": 0, "cut": 0, "noise": 0}


def _checked(fields: dict[str, Any], defaults: dict[str, Any], location: str) -> dict[str, Any]:
    unknown = sorted(fields.keys() - defaults.keys())
    if unknown:
        raise SourceError(f"{location} does not know {unknown[0]!r}: expected {', '.join(defaults)}", source=location)
    values = dict(defaults)
    for key, value in fields.items():
        try:
            values[key] = exact_rate(value) if key == "rate" else type(defaults[key])(value)
        except (ValueError, TypeError):
            raise SourceError(f"{key} of {location} must be a number: got {value!r}", source=location) from None
        if key in _LEAST and values[key] < _LEAST[key]:
            raise SourceError(f"{key} of {location} must be at least {_LEAST[key]}: got {value}", source=location)
    if "width" in values and values["noise"] > _MOST_NOISE:
        raise SourceError(f"noise of {location} must be at most {_MOST_NOISE}: got {values['noise']}", source=location)
    if values.get("pixel_format", "gray") not in _FORMATS:
        raise SourceError(
            f"synthetic pictures are {', '.join(_FORMATS)}: got {values['pixel_format']!r}", source=location
        )
    return values


# Pictures ------------------------------------------------------------------------------------------------------------


def _moving(fields: dict[str, Any], location: str) -> Source:
    rate = fields["rate"]
    spec = FrameSpec.picture(fields["height"], fields["width"], fields["pixel_format"], rate=rate, time_base=1 / rate)
    pictures = _Pictures(spec.height, spec.width, spec.pixel_format, fields["seed"], fields["cut"], fields["noise"])
    num_frames = fields["frames"]
    return StoredArrays(
        lambda start, stop: pictures.run(start, stop),
        num_frames,
        1,
        spec,
        np.arange(num_frames, dtype=np.int64),
        name=location,
        identity=f"synthetic {sorted((key, str(value)) for key, value in fields.items())}",
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """A disc or a rectangle that moves in a straight line and wraps around."""

    start: tuple[int, int]
    velocity: tuple[int, int]
    """Rows, columns a frame: whole even pixels, so that subsampled chroma moves along exactly."""
    size: tuple[int, int]
    is_disc: bool
    texture_at: tuple[int, int]


class _Scene:
    """What is seen between two cuts: a texture that pans and shapes cut out of other textures."""

    def __init__(self, seed: int, number: int, height: int, width: int, channels: int) -> None:
        random = np.random.Generator(np.random.Philox(key=[seed, number]))
        self.side = 256
        repeats = (-(-height // self.side) + 1, -(-width // self.side) + 1)  # any window is one slice
        self.backgrounds = [np.tile(_texture(random, self.side, 60, 180), repeats) for _ in range(channels)]
        self.skins = [_texture(random, self.side, 16, 235) for _ in range(channels)]
        self.pan = _even(random, 4)
        largest = max(4, min(height, width) // 3)
        self.shapes = [
            _Shape(
                (int(random.integers(0, height)), int(random.integers(0, width))),
                _even(random, 6),
                (int(random.integers(2, largest)), int(random.integers(2, largest))),
                bool(random.integers(0, 2)),
                (int(random.integers(0, self.side)), int(random.integers(0, self.side))),
            )
            for _ in range(_NUM_SHAPES)
        ]


class _Pictures:
    """Draws frame t of the stream from t alone; whole numbers only, so that every machine draws the same."""

    def __init__(self, height: int, width: int, pixel_format: str, seed: int, cut: int, noise: int) -> None:
        self._height, self._width, self._format = height, width, pixel_format
        self._seed, self._cut, self._noise = seed, cut, noise
        layout = PIXEL_FORMATS[pixel_format]
        self._factors = [(1, 1)] * 3 if pixel_format == "rgb24" else [(d, a) for d, a, _ in layout.planes]
        random = np.random.Generator(np.random.Philox(key=[seed, 1 << 40]))
        levels = random.integers(-noise, noise + 1, (height + 64, width + 64), dtype=np.int16) if noise else None
        # Every frame takes another window of it. As textures keep 16 levels from both ends, sums modulo 256 are sums.
        self._grain = None if levels is None else levels.astype(np.uint8)
        self._scene = lru_cache(maxsize=2)(self._make_scene)

    def _make_scene(self, number: int) -> _Scene:
        return _Scene(self._seed, number, self._height, self._width, len(self._factors))

    def run(self, start: int, stop: int) -> tuple[Array, ...]:
        """Return the planes of the frames [start, stop)."""
        drawn = [self._draw(t) for t in range(start, stop)]
        if self._format == "rgb24":
            return (np.stack([np.stack(channels, axis=-1) for channels in drawn]),)
        return tuple(np.stack([planes[i] for planes in drawn]) for i in range(len(self._factors)))

    def _draw(self, t: int) -> list[Array]:
        number, since = divmod(t, self._cut) if self._cut else (0, t)
        scene = self._scene(number)
        return [self._draw_plane(scene, channel, since, t) for channel in range(len(self._factors))]

    def _draw_plane(self, scene: _Scene, channel: int, since: int, t: int) -> Array:
        down, across = self._factors[channel]
        height, width = -(-self._height // down), -(-self._width // across)
        top, left = since * scene.pan[0] // down % scene.side, since * scene.pan[1] // across % scene.side
        plane: Array = scene.backgrounds[channel][top : top + height, left : left + width].copy()  # (H, W)
        for shape in scene.shapes:
            _paint(plane, scene.skins[channel], shape, since, (self._height, self._width), (down, across))
        if self._grain is None or (channel and self._format != "rgb24"):
            return plane
        top, left = (t * 37 + channel * 11) % 64, (t * 23 + channel * 29) % 64
        plane += self._grain[top : top + height, left : left + width]
        return plane


def _paint(
    plane: Array, skin: Array, shape: _Shape, since: int, picture: tuple[int, int], factors: tuple[int, int]
) -> None:
    """Draw `shape` where it is `since` frames after the cut; what hangs over an edge is not drawn."""
    places = []
    for axis in (0, 1):
        position = (shape.start[axis] + since * shape.velocity[axis]) % picture[axis] // factors[axis]
        size = max(1, shape.size[axis] // factors[axis])
        places.append((position, min(position + size, plane.shape[axis]), size))
    (top, bottom, high), (left, right, wide) = places
    y, x = np.arange(bottom - top), np.arange(right - left)
    patch = skin[(y[:, None] + shape.texture_at[0]) % len(skin), (x + shape.texture_at[1]) % len(skin)]
    target = plane[top:bottom, left:right]
    if not shape.is_disc:
        target[:] = patch
        return
    inside = ((2 * y[:, None] + 1 - high) * wide) ** 2 + ((2 * x + 1 - wide) * high) ** 2 <= (high * wide) ** 2
    np.copyto(target, patch, where=inside)


def _texture(random: np.random.Generator, side: int, low: int, high: int) -> Array:
    """Return a (side, side) uint8 texture that wraps around: random grids of four scales on top of one another."""
    total = np.zeros((side, side), np.int64)
    for cell, weight in ((64, 8), (16, 4), (4, 2), (1, 1)):
        grid = random.integers(0, 256, (side // cell, side // cell))
        total += weight * _smooth(np.kron(grid, np.ones((cell, cell), np.int64)), cell)
    spread = total - total.min()
    texture: Array = (low + spread * (high - low) // max(1, int(spread.max()))).astype(np.uint8)
    return texture


def _smooth(grid: Array, cell: int) -> Array:
    """Return the wrapped box mean over `cell` x `cell`, in whole numbers."""
    for axis in (0, 1):
        turned = np.moveaxis(grid, axis, 0)
        sums = np.cumsum(np.concatenate([turned[-cell:], turned]), axis=0)
        grid = np.moveaxis((sums[cell:] - sums[:-cell]) // cell, 0, axis)
    return grid


def _even(random: np.random.Generator, most: int) -> tuple[int, int]:
    return 2 * int(random.integers(-most // 2, most // 2 + 1)), 2 * int(random.integers(-most // 2, most // 2 + 1))


# Sensor rows ---------------------------------------------------------------------------------------------------------


def _rows(fields: dict[str, Any], location: str) -> Source:
    rate, columns, num_frames = fields["rate"], fields["columns"], fields["frames"]
    shape = (columns,) if columns else ()
    names = tuple(f"sensor{i}" for i in range(columns)) or ("sensor",)
    spec = FrameSpec((shape,), np.dtype(np.float64), rate=rate, time_base=1 / rate, names=names)
    width = max(1, columns)

    def block(number: int) -> Array:
        random = np.random.Generator(np.random.Philox(key=[fields["seed"], number]))
        t = np.arange(number * _ROW_BLOCK, (number + 1) * _ROW_BLOCK)[:, None]
        period = 50 + 37 * np.arange(width)
        drift = 1e-5 * t * np.arange(width)
        noise = fields["noise"] * random.standard_normal((_ROW_BLOCK, width))
        values: Array = np.sin(2 * math.pi * (t % period) / period) + drift + noise  # (4096, columns)
        return values

    cached = lru_cache(maxsize=2)(block)

    def load(start: int, stop: int) -> tuple[Array, ...]:
        parts = []
        for number in range(start // _ROW_BLOCK, -(-stop // _ROW_BLOCK)):
            first = number * _ROW_BLOCK
            parts.append(cached(number)[max(0, start - first) : stop - first])
        rows = np.concatenate(parts)
        return (rows if columns else rows[:, 0].copy(),)

    return StoredArrays(
        load,
        num_frames,
        _ROW_BLOCK,
        spec,
        np.arange(num_frames, dtype=np.int64),
        name=location,
        identity=f"synthetic {sorted((key, str(value)) for key, value in fields.items())}",
    )
