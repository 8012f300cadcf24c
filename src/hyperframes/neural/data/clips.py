"""Samples as arrays and windows: each source is read once through the flow, and nothing is written on the way."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from hyperframes.drivers import run
from hyperframes.errors import FrameError
from hyperframes.frames import EVENT_NAMES, Clip, Events
from hyperframes.neural.event_encoder import event_grid
from hyperframes.operators import create
from hyperframes.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hyperframes.frames import Array
    from hyperframes.neural.data.samples import Sample

__all__ = ["Batch", "Clips", "Form", "Windows", "read_clip"]

Form = Literal["pictures", "rows", "events"]
_CACHE_BYTES: Final = 2 << 30


class Batch(NamedTuple):
    """N windows and what is known of them."""

    clips: torch.Tensor
    """(N, C, T, H, W) float32, as a rule in [0, 1]."""
    labels: torch.Tensor
    """(N,) int64."""
    group: torch.Tensor
    """(N,) int64: which sample each comes from."""
    order: torch.Tensor
    """(N,) int64: its place in that sample; neighbours are one apart."""


def read_clip(
    sample: Sample,
    *,
    form: Form = "pictures",
    size: tuple[int, int] = (64, 64),
    limits: tuple[float, float] = (0.0, 255.0),
    bins: int = 16,
    sensor: tuple[int, int] | None = None,
) -> Array:
    """Return the frames of a sample as one array, read through the flow in one pass.

    Parameters
    ----------
    sample : Sample
    form : {"pictures", "rows", "events"}
        Pictures are decoded to RGB and scaled to `size`; rows of a table are pictures of `size` in their last columns;
        the events of a recording become one grid of voxels (`event_grid`).
    size : (rows, columns)
    limits : (low, high)
        Of rows: what becomes 0 and 1.
    bins : int
        Slices in time of a grid of events.
    sensor : (rows, columns), optional
        Of events, where the file does not tell.

    Returns
    -------
    (T, H, W, C)
        uint8 for pictures; float32 for rows (C 1) and events (C 2, darker and brighter, T `bins`).

    Raises
    ------
    SourceError
        If it cannot be read.
    FrameError
        If the range holds no frame, or rows have too few columns.
    """
    span = (sample.start, sample.stop)
    options: dict[str, Any] = {"workers": 1, "range": span}
    if form == "pictures":
        resize = create(f"resize:width={size[1]},height={size[0]}")
        frames = np.asarray(run(sample.source, resize, pixel_format="rgb24", **options).array)
    elif form == "rows":
        frames = _pictures_of_rows(np.asarray(run(sample.source, **options).array), size, limits, sample.source)
    else:
        frames = _voxels(sample, (bins, *size), sensor)
    if len(frames) == 0:
        raise FrameError(f"{sample.source} has no frames in {span}", got=span)
    return frames


def _pictures_of_rows(rows: Array, size: tuple[int, int], limits: tuple[float, float], name: str) -> Array:
    wanted = size[0] * size[1]
    if rows.ndim != 2 or rows.shape[1] < wanted:
        raise FrameError(f"rows of {name} make no pictures of {size}: expected {wanted} columns, got {rows.shape[1:]}")
    scaled = (rows[:, -wanted:].astype(np.float32) - limits[0]) / np.float32(limits[1] - limits[0])
    return np.asarray(np.nan_to_num(scaled).clip(0, 1).reshape(-1, *size, 1), np.float32)


def _voxels(sample: Sample, size: tuple[int, int, int], sensor: tuple[int, int] | None) -> Array:
    known: dict[str, Any] = {} if sensor is None else {"sensor": sensor}
    with open_source(sample.source, **known) as source:
        clip = run(source, workers=1, range=(sample.start, sample.stop)).value
    if not isinstance(clip, Clip) or clip.spec.names != EVENT_NAMES:
        raise FrameError(f"{sample.source} is no recording of events: expected x, y and p, got {source.spec}")
    values = clip.data
    events = Events.of(clip.pts, values[:, 0], values[:, 1], values[:, 2], clip.spec.sensor or sensor)
    return event_grid(events, size).numpy().transpose(1, 2, 3, 0)


class Clips:
    """The frames of samples by position; those that were read are kept, up to `cache_bytes`.

    Parameters
    ----------
    samples : sequence of Sample
    cache_bytes : int
        What was used longest ago is read again when it is needed.
    **reading
        See `read_clip`.
    """

    def __init__(self, samples: Sequence[Sample], *, cache_bytes: int = _CACHE_BYTES, **reading: Any) -> None:
        self.samples = list(samples)
        self._reading, self._most = reading, cache_bytes
        self._kept: OrderedDict[int, Array] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Array:
        if index in self._kept:
            self._kept.move_to_end(index)
            return self._kept[index]
        frames = read_clip(self.samples[index], **self._reading)
        self._kept[index] = frames
        self._bytes += frames.nbytes
        while self._bytes > self._most and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return frames


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a fixed length and hop over clips, with their labels as numbers.

    What training sees at a step depends on `seed` and the step alone, so that a run that was interrupted goes on with the
    windows it would have had.
    """

    clips: Clips
    classes: tuple[str, ...]
    frames: int = 8
    """T of a window."""
    stride: int = 1
    """Frames of the source from one frame of a window to the next."""
    hop: int = 0
    """Frames of the source from one window to its neighbour; 0: half of what a window spans."""
    flip: bool = False
    """Whether training mirrors half of the windows, left for right."""
    shift: int = 0
    """By how many pixels training moves windows at most; what comes in repeats the edge."""
    brightness: float = 0.0
    """By what share training makes windows brighter or darker at most."""
    turn: float = 0.0
    """By how many degrees training turns windows at most."""
    zoom: float = 0.0
    """By what share training makes windows wider and higher, or narrower and lower, at most; each side by itself."""
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = sorted({sample.label for sample in self.clips.samples} - set(self.classes))
        if unknown:
            raise FrameError(f"no class is called {unknown[0]!r}; known: {', '.join(self.classes)}", got=unknown)
        small = self.hop >= 0 and self.shift >= 0 and self.turn >= 0 and 0 <= self.brightness < 1 and 0 <= self.zoom < 1
        if self.frames < 1 or self.stride < 1 or not small:
            raise FrameError(f"windows have frames, a stride and small changes: got {self}")

    def __len__(self) -> int:
        return len(self.clips)

    @property
    def _hop(self) -> int:
        return self.hop or max(1, self.frames * self.stride // 2)

    def window(self, index: int, start: int) -> torch.Tensor:
        """Return frames from `start` on, (C, T, H, W) float32; beyond the end the last one is repeated."""
        clip = self.clips[index]
        places = np.minimum(start + self.stride * np.arange(self.frames), len(clip) - 1)
        window = torch.from_numpy(np.ascontiguousarray(clip[places].transpose(3, 0, 1, 2)))
        return window.float() / 255 if window.dtype == torch.uint8 else window

    def views(self, index: int, count: int) -> torch.Tensor:
        """Return `count` windows spread evenly over a clip, (count, C, T, H, W)."""
        room = max(0, len(self.clips[index]) - (self.frames - 1) * self.stride - 1)
        starts = [round(room * (i + 0.5) / count) for i in range(count)]
        return torch.stack([self.window(index, start) for start in starts])

    def batch(self, step: int, size: int, *, pairs: bool = False) -> Batch:
        """Return the windows of one training step.

        Every sample is seen once before any is seen again. `pairs` takes two neighbours of each of half as many samples.
        """
        draw = np.random.default_rng((self.seed, 1, step))
        each = 2 if pairs else 1
        count = max(1, size // each)
        windows, labels, group, order = [], [], [], []
        for index in self._drawn(step * count, count):
            length = (self.frames - 1) * self.stride + 1 + (self._hop if pairs else 0)
            start = int(draw.integers(0, max(1, len(self.clips[index]) - length + 1)))
            change, placed = self._change(draw), self._placed(draw)
            for k in range(each):
                windows.append(_resampled(_changed(self.window(index, start + k * self._hop), *change), placed))
                labels.append(self.classes.index(self.clips.samples[index].label))
                group.append(index)
                order.append(k)
        return Batch(torch.stack(windows), torch.tensor(labels), torch.tensor(group), torch.tensor(order))

    def _drawn(self, first: int, count: int) -> Iterator[int]:
        """Yield the samples at the places [first, first + count) of an endless row of shuffled passes."""
        number = -1
        for place in range(first, first + count):
            if place // len(self) != number:
                number = place // len(self)
                order = np.random.default_rng((self.seed, 0, number)).permutation(len(self))
            yield int(order[place % len(self)])

    def _change(self, draw: np.random.Generator) -> tuple[bool, int, int, float]:
        down, right = draw.integers(-self.shift, self.shift + 1, 2)
        factor = 1 + self.brightness * (2 * draw.random() - 1)
        return bool(self.flip and draw.random() < 0.5), int(down), int(right), float(factor)

    def _placed(self, draw: np.random.Generator) -> Array | None:
        """Return where a window's places are read from, (2, 3) in shares of its half sides; None: where they are."""
        if not self.turn and not self.zoom:
            return None
        angle = np.radians(self.turn * (2 * draw.random() - 1))
        wider, higher = 1 + self.zoom * (2 * draw.random(2) - 1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.array([[cos / wider, -sin / wider, 0], [sin / higher, cos / higher, 0]])

    def weights(self) -> torch.Tensor:
        """Return (K,) float32: how much each class counts so that rare ones count as much as frequent ones."""
        counts = np.bincount(
            [self.classes.index(sample.label) for sample in self.clips.samples], minlength=len(self.classes)
        )
        return torch.tensor(counts.sum() / np.maximum(counts, 1) / len(counts), dtype=torch.float32)


def _changed(window: torch.Tensor, flip: bool, down: int, right: int, factor: float) -> torch.Tensor:
    if flip:
        window = window.flip(-1)
    if down or right:
        height, width = window.shape[-2:]
        rows = (torch.arange(height) - down).clamp(0, height - 1)
        columns = (torch.arange(width) - right).clamp(0, width - 1)
        window = window[..., rows[:, None], columns]
    return (window * factor).clamp(max=1.0) if factor != 1 else window


def _resampled(window: torch.Tensor, placed: Array | None) -> torch.Tensor:
    """Return (C, T, H, W) read from other places, bilinearly; beyond the edge stands the edge."""
    if placed is None:
        return window
    maps = window.flatten(0, 1).unsqueeze(0)
    grid = functional.affine_grid(torch.from_numpy(placed).to(maps.dtype)[None], [1, 1, *maps.shape[2:]], False)
    return functional.grid_sample(maps, grid, "bilinear", "border", align_corners=False).reshape(window.shape)
