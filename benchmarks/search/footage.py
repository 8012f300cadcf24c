"""Real clips made over: encoded anew, cropped, retimed; and the features of their windows and spans."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
import cv2
import numpy as np

import hyperframes as hf
from hyperframes.operators.activity import Activity
from hyperframes.operators.every import Every
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic.detect import Detect
from hyperframes.semantic.features import Change, Features, Motion
from hyperframes.semantic.models import DETECTOR, get_model
from hyperframes.sinks import MemorySink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOP, LENGTH = 4, 8
_BLACK = "long_180p_av1.mp4"


@dataclass(frozen=True)
class Way:
    """How a clip is made over."""

    name: str
    crop: float = 0.0
    """Share of width and height that is cut off, half on each side."""
    width: int = 320
    crf: int = 23
    leave_out: int = 0
    """Every so many-th frame is left out: the clip plays faster."""
    double: int = 0
    """Every so many-th frame is shown twice: it plays slower."""
    brightness: int = 0


WAYS = (Way("encoded anew"), Way("cropped", crop=0.1, crf=30))
ASKED = Way("asked for", crop=0.07, crf=33, leave_out=7)
"""What is looked for is made in a way that nothing in the dataset was."""


def clips(media: Path) -> list[Path]:
    """Return the clips: all of ``video`` and ``actions`` but the black one."""
    found = [p for folder in ("video", "actions") for p in sorted((media / folder).rglob("*"))]
    return [p for p in found if p.suffix in {".mp4", ".avi", ".mkv", ".webm", ".mov"} and p.name != _BLACK]


def frames_of(path: Path) -> Iterator[np.ndarray]:
    """Yield the frames, (H, W, 3) uint8 RGB."""
    with av.open(str(path)) as container:
        for frame in container.decode(container.streams.video[0]):
            yield frame.to_ndarray(format="rgb24")


def made_over(frames: Iterator[np.ndarray], way: Way, path: Path, rate: Fraction) -> int:
    """Write a clip made over in a way; return how many frames it has."""
    count = 0
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": str(way.crf), "preset": "ultrafast"})
        stream.pix_fmt = "yuv420p"
        for number, picture in enumerate(frames):
            if way.leave_out and number % way.leave_out == way.leave_out - 1:
                continue
            seen = one_made_over(picture, way)
            if not count:
                stream.height, stream.width = seen.shape[:2]
            for _ in range(2 if way.double and number % way.double == 0 else 1):
                frame = av.VideoFrame.from_ndarray(seen, format="rgb24")
                frame.pts = count
                container.mux(stream.encode(frame))
                count += 1
        container.mux(stream.encode(None))
    return count


def one_made_over(picture: np.ndarray, way: Way) -> np.ndarray:
    """Return a picture cropped, brightened and scaled, with even sides."""
    height, width = picture.shape[:2]
    top, left = round(height * way.crop / 2), round(width * way.crop / 2)
    cut = picture[top : height - top, left : width - left]
    wide = max(2, way.width // 2 * 2)
    tall = max(2, round(wide * cut.shape[0] / cut.shape[1]) // 2 * 2)
    small = cv2.resize(cut, (wide, tall), interpolation=cv2.INTER_AREA)
    return np.clip(small.astype(np.int16) + way.brightness, 0, 255).astype(np.uint8) if way.brightness else small


def windows(path: Path, way: Way) -> np.ndarray:
    """Return the features of the windows of a clip made over, (w, 512) float32."""
    with av.open(str(path)) as container:
        rate = container.streams.video[0].average_rate or Fraction(25)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "clip.mp4"
        made_over(frames_of(path), way, file, Fraction(rate).limit_denominator(1000))
        stages = [
            Stage("activity", Activity()),
            Stage("motion", Motion(length=LENGTH, hop=HOP), ("activity.measures", "activity.luma")),
            Stage("sampled", Every(HOP)),
            Stage("detect", Detect(str(get_model(DETECTOR, "the benchmark"))), ("sampled",)),
            Stage(
                "features", Features(), ("motion.flow", "motion.count", "motion.luma", "detect.boxes", "detect.scores")
            ),
            Stage("change", Change(), ("features.parts", "features.valid", "features.regions", "motion.cut")),
        ]
        sink = MemorySink()
        hf.run(Pipeline.of(str(file), stages, {"change.features": sink}, workers=1))
        return np.array(sink.result.data, np.float32)


def timings() -> Iterator[range | list[int]]:
    """Yield which windows, from its first on, make a span: all of a length, every second or third, and all but every n-th."""
    yield from (range(count) for count in range(1, 61))
    yield from (range(0, stride * count, stride) for stride in (2, 3) for count in range(2, 41))
    for left_out in (3, 4, 5, 6, 7):
        for count in range(left_out + 1, 61):
            if count % left_out:
                yield [k for k in range(count) if k % left_out != left_out - 1]


def merged_spans(found: np.ndarray, offsets: Sequence[int]) -> np.ndarray:
    """Return the features of every span of windows at `offsets` from its first, (n, 512), as descriptors merge theirs.

    The detection part is the greatest of each number, shortened to length 1; the others are means.
    """
    count = len(found) - offsets[-1]
    if count <= 0:
        return np.zeros((0, found.shape[1]), np.float32)
    best, total = found[:count, :128].copy(), found[:count, 128:].copy()
    for offset in offsets[1:]:
        np.maximum(best, found[offset : offset + count, :128], out=best)
        total += found[offset : offset + count, 128:]
    lengths = np.maximum(1, np.linalg.norm(best, axis=1, keepdims=True))
    return np.concatenate([best / lengths, total / len(offsets)], axis=1)
