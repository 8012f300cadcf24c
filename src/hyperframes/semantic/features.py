"""What a stretch of video looks like: 512 numbers a window of fixed length and hop, in four parts of 128.

Three operators. `Motion` (frames to windows) takes flow and a look from small luma; `Features` (independent, a window each)
makes the region map and the parts detection, flow and texture; `Change` (sequential) compares with the windows before, and
steadies the map. Nothing depends on the size of hyperframes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import Array, FrameSpec
from hyperframes.kernels import kernel
from hyperframes.operators import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.activity import MEASURES
from hyperframes.operators.checks import check_count, check_number
from hyperframes.packing import Halo
from hyperframes.semantic.coco import COCO_CLASSES
from hyperframes.semantic.detect import MAX_BOXES
from hyperframes.semantic.flow_model import flow_version, mark_version, new_search
from hyperframes.semantic.regions import MAP_SIDE, Patches, region_confidence, select_patches
from hyperframes.semantic.transitions import CUT_SCORE, cut_scores, is_cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = [
    "Change",
    "Features",
    "Motion",
    "change_part",
    "dense_flow",
    "detection_part",
    "flow_part",
    "texture_part",
]

PART: Final = 128
NUM_LAGS: Final = 4
GROUP: Final = 12
NUM_GROUPS: Final = 3 * PART // GROUP
_DIRECTIONS, _SPEEDS = 8, 16
SLOWEST_PX, FASTEST_PX = 0.125, 32.0
"""Speeds that the flow histogram tells apart, in pixels of the small luma a frame, in steps of a factor of 1.41."""
_CELLS, _SIZES = 4, (0.02, 0.15)
_AROUND: Final = 12  # frames to both sides that cuts are judged by
_SMALLEST_SIDE: Final = 32  # below, OpenCV's dense inverse search may read beyond its pyramid
_DIFFERENCE: Final = MEASURES.index("difference")


# Parts ----------------------------------------------------------------------------------------------------------------


def detection_part(boxes: Array, scores: Array) -> Array:
    """Return the part (128,) float32: 80 score maxima, then 48 bins of where boxes are and how large.

    Bin 16 s + 4 r + c has the greatest score of boxes with their centre in row r and column c of a 4 x 4 grid and of size
    s: below 2 % of the picture, below 15 %, larger. The whole is divided by its Euclidean norm where that is above 1: what
    is hardly seen stays small.

    Parameters
    ----------
    boxes : (K, 6) array of float32
        Left, top, right, bottom as shares, score, class; rows of score 0 are empty.
    scores : (80,) array of float32
        Greatest score of each class.
    """
    part = np.zeros(PART, np.float64)
    part[: len(COCO_CLASSES)] = scores
    for left, top, right, bottom, score, _ in boxes.astype(np.float64):
        if score > 0:
            row, column = (min(_CELLS - 1, int(_CELLS * (a + b) / 2)) for a, b in ((top, bottom), (left, right)))
            size = int(np.searchsorted(_SIZES, (right - left) * (bottom - top), side="right"))
            place = len(COCO_CLASSES) + _CELLS * _CELLS * size + _CELLS * row + column
            part[place] = max(part[place], score)
    return (part / max(1.0, float(np.sqrt(part @ part)))).astype(np.float32)


def flow_part(flow: Array, confidence: Array) -> Array:
    """Return the part (128,) float32: a histogram of flow, 8 directions by 16 speeds, weighted by confidence.

    Bin 16 d + s: direction d is centred on d * 45 degrees from right towards down; speed s counts steps of a factor of
    1.41 from 0.125 to 32 pixels a frame, and what is faster. Slower pixels do not count. The sum is 1, or 0 where hardly
    anything moves.

    Parameters
    ----------
    flow : (H, W, 2) array of float32
        Pixels a frame, to the right and down.
    confidence : (64, 64) array of float32
        Scaled to the picture, linear, centres aligned.
    """
    height, width = flow.shape[:2]
    weight = cv2.resize(confidence, (width, height), interpolation=cv2.INTER_LINEAR).astype(np.float64)
    speed = np.hypot(flow[..., 0], flow[..., 1]).astype(np.float64)
    steps = np.log2(np.maximum(speed, SLOWEST_PX) / SLOWEST_PX) * (_SPEEDS / math.log2(FASTEST_PX / SLOWEST_PX))
    turn = np.arctan2(flow[..., 1], flow[..., 0]).astype(np.float64) * (_DIRECTIONS / (2 * np.pi))
    direction = np.floor(turn + 0.5).astype(np.int64) % _DIRECTIONS
    bins = direction * _SPEEDS + np.clip(steps.astype(np.int64), 0, _SPEEDS - 1)
    moving = speed >= SLOWEST_PX
    counts = np.bincount(bins[moving], weight[moving], minlength=PART)
    total = counts.sum()
    return (counts / total if total > 1e-3 else np.zeros(PART)).astype(np.float32)


def texture_part(luma: Array, confidence: Array, threshold: float = 0.3) -> Array:
    """Return the part (128,) float32: a histogram of local binary patterns where confidence is above `threshold`.

    A code and its complement (c and 255 - c) share a bin, min(c, 255 - c), so that inverted contrast changes nothing. Only
    the patches that hold such places are coded. Where no place is above it, the whole picture counts. The sum is 1.

    Parameters
    ----------
    luma : (H, W) array of uint8
        Grey levels; beyond the borders the picture is mirrored without repeating the edge.
    confidence : (64, 64) array of float32
        The value of a pixel is that of the cell that holds its centre.
    threshold : float
        In [0, 1].

    References
    ----------
    .. [1] T. Ojala, M. Pietikainen, D. Harwood, "A comparative study of texture measures with classification based on
       featured distributions", Pattern Recognition 29, 1996. DOI: 10.1016/0031-3203(95)00067-4
    """
    height, width = luma.shape
    counts = count_patterns(
        luma, confidence, threshold, select_patches(confidence, (height, width), threshold=threshold)
    )
    if not counts.any():
        everywhere = np.ones_like(confidence)
        counts = count_patterns(luma, everywhere, 0.0, select_patches(everywhere, (height, width), threshold=0.0))
    return np.asarray(counts / counts.sum(), np.float32)


def count_patterns(luma: Array, confidence: Array, threshold: float, patches: Patches) -> Array:
    """Return how often each folded pattern occurs in the chosen patches where confidence is above, (128,) int64."""
    counts = np.zeros(PART, np.int64)
    _count_patterns(np.ascontiguousarray(luma), confidence, threshold, patches.chosen, patches.side, counts)
    return counts


@kernel
def _count_patterns(
    luma: Any, confidence: Any, threshold: float, chosen: Any, side: int, counts: Any
) -> None:  # pragma: no cover - compiled
    height, width = luma.shape
    for k in range(len(chosen)):
        for y in range(chosen[k, 0] * side, min(height, (chosen[k, 0] + 1) * side)):
            up, down = abs(y - 1), (y + 1 if y + 1 < height else height - 2)
            up, down = min(up, height - 1), max(down, 0)
            cells = confidence[(2 * y + 1) * MAP_SIDE // (2 * height)]
            for x in range(chosen[k, 1] * side, min(width, (chosen[k, 1] + 1) * side)):
                if cells[(2 * x + 1) * MAP_SIDE // (2 * width)] <= threshold:
                    continue
                left, right = abs(x - 1), (x + 1 if x + 1 < width else width - 2)
                left, right = min(left, width - 1), max(right, 0)
                centre = luma[y, x]
                code = np.int64(luma[y, right] >= centre) | np.int64(luma[up, right] >= centre) << 1
                code |= np.int64(luma[up, x] >= centre) << 2 | np.int64(luma[up, left] >= centre) << 3
                code |= np.int64(luma[y, left] >= centre) << 4 | np.int64(luma[down, left] >= centre) << 5
                code |= np.int64(luma[down, x] >= centre) << 6 | np.int64(luma[down, right] >= centre) << 7
                counts[min(code, 255 - code)] += 1


def change_part(history: Array) -> Array:
    """Return the part (128,) float32: how much 32 groups of 12 numbers changed over each of the last four steps.

    Number 4 g + l is the cosine distance of group g between windows l and l + 1 back, in [0, 1] as no number is negative;
    0 where both are zero, 1 where one is.

    Parameters
    ----------
    history : (5, 384) array of float32
        Detection, flow and texture of five windows running, the newest last.
    """
    groups = history[::-1].astype(np.float64).reshape(NUM_LAGS + 1, NUM_GROUPS, GROUP)
    norms = np.sqrt((groups**2).sum(axis=2))
    both = norms[:-1] * norms[1:]
    cosine = (groups[:-1] * groups[1:]).sum(axis=2) / np.where(both > 0, both, 1)
    still = (norms[:-1] == 0) & (norms[1:] == 0)
    return np.where(still, 0.0, np.clip(1 - cosine, 0, 1)).T.ravel().astype(np.float32)


# Operators ------------------------------------------------------------------------------------------------------------


def _refuse(name: str, wanted: str, inputs: tuple[Spec, ...]) -> PipelineError:
    return PipelineError(f"operator {name!r} reads {wanted}: got {', '.join(map(str, inputs))}", stage=name)


@dataclass(frozen=True)
class Motion(Operator):
    """Take motion and a look from small luma, a window at a time.

    Reads the two outputs of `Activity`: rows of shape (38,), dtype float32, and luma of shape (h, w), dtype uint8. Gives
    four outputs of windows: ``flow`` (h, w, 2) float32, the mean flow over `pairs` pairs of neighbouring frames, in pixels
    a frame; ``count`` (1,) float32, how many pairs there were; ``luma`` (h, w) uint8, the first frame; ``cut`` (1,)
    uint8, whether there is a cut between the first frame of the window before and its own. The halo is hop + 12 frames
    before and 12 after. Pairs never span a cut; where none is left, the pair that ends at the first frame is taken.

    References
    ----------
    .. [1] T. Kroeger, R. Timofte, D. Dai, L. Van Gool, "Fast Optical Flow Using Dense Inverse Search", ECCV 2016.
       DOI: 10.1007/978-3-319-46493-0_29
    """

    name: ClassVar[str] = "motion"

    length: int = 8
    """Frames of a window."""
    hop: int = 8
    """Frames from one window to the next."""
    pairs: int = 2
    """Pairs of frames that flow is taken from."""
    flow: str = ""
    """Model file of dense flow, see `hyperframes.semantic.flow_model`; none: OpenCV's."""

    def __post_init__(self) -> None:
        mark_version(self, flow_version(self.flow))

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: four outputs of windows."""
        check_count(self.name, "length", self.length, 2, 4096)
        check_count(self.name, "hop", self.hop, 1, 4096)
        check_count(self.name, "pairs", self.pairs, 1, 64)
        match inputs:
            case (FrameSpec() as rows, FrameSpec() as luma) if rows.names == MEASURES and luma.pixel_format == "gray":
                shape = luma.shapes[0]
            case _:
                raise _refuse(self.name, "the two outputs of 'activity'", inputs)
        rate = None if luma.rate is None else luma.rate / self.hop
        specs = {
            "flow": FrameSpec.array((*shape, 2), np.float32, rate=rate),
            "count": FrameSpec.array((1,), np.float32, rate=rate),
            "luma": FrameSpec.array(shape, np.uint8, rate=rate),
            "cut": FrameSpec.array((1,), np.uint8, rate=rate),
        }
        outputs = [Output(name, "windows", spec, length=self.length, hop=self.hop) for name, spec in specs.items()]
        return Contract(tuple(outputs), Halo(self.hop + _AROUND, _AROUND), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Write the windows that start in the core."""
        measures, pictures = inputs
        flow, count, luma, cut = outputs
        rows, frames, mask = measures.planes[0], pictures.planes[0], measures.mask
        origin = measures.core.start - measures.header.core[0]
        cuts = _cuts(rows, mask)
        search = new_search(self.flow)
        for j in range(len(flow)):
            first = origin + (flow.start + j) * self.hop
            cut.data[j] = cuts[max(0, first - self.hop + 1) : first + 1].any()
            luma.data[j] = frames[first]
            steps = self._steps(first, cuts, mask)
            count.data[j] = len(steps)
            flow.data[j] = 0
            for t in steps:
                flow.data[j] += dense_flow(search, frames[t - 1], frames[t]) / np.float32(len(steps))

    def _steps(self, first: int, cuts: Array, mask: Array) -> list[int]:
        """Return the frames whose motion against the one before counts for the window that starts at `first`."""
        stop = first + 1
        while stop < min(first + self.length, len(mask)) and mask[stop] and not cuts[stop]:
            stop += 1
        num = min(self.pairs, stop - first - 1)
        if num:
            return [first + 1 + (2 * k + 1) * (stop - first - 1) // (2 * num) for k in range(num)]
        return [first] if first and mask[first] and mask[first - 1] and not cuts[first] else []


def _cuts(rows: Array, mask: Array) -> Array:
    """Return which frames begin at a cut, (T,) bool, judged by the 12 real frames to both sides."""
    scores, found = cut_scores(rows), np.zeros(len(rows), bool)
    real = np.flatnonzero(mask)
    for c in real[1:]:
        if scores[c] < CUT_SCORE:  # most: the rest need not be gone through
            continue
        near = real[(real >= c - _AROUND) & (real <= c + _AROUND) & (real > real[0])]
        at = int(np.searchsorted(near, c))
        found[c] = is_cut(scores[near], rows[near, _DIFFERENCE], at)
    return found


def dense_flow(search: Any, before: Array, after: Array) -> Array:
    """Return the dense flow between two grey pictures; small ones are extended by their edges first."""
    height, width = after.shape
    below, right = max(0, _SMALLEST_SIDE - height), max(0, _SMALLEST_SIDE - width)
    if below or right:
        before, after = (cv2.copyMakeBorder(p, 0, below, 0, right, cv2.BORDER_REPLICATE) for p in (before, after))
    return np.asarray(search.calc(before, after, None))[:height, :width]


_PORTS: Final = {
    "detect": ((MAX_BOXES, 6), (len(COCO_CLASSES),)),
    "faces": ((MAX_BOXES, 6),),
    "maps": ((MAP_SIDE, MAP_SIDE),),
}
"""What `Features` reads besides motion, in this order, each or not: shapes of a window's arrays."""


def _ports(shapes: Sequence[Any]) -> list[str]:
    """Return which of `_PORTS` there are, as far as the shapes go."""
    found, at = [], 0
    for name, wanted in _PORTS.items():
        if tuple(shapes[at : at + len(wanted)]) == wanted:
            found.append(name)
            at += len(wanted)
    return found


@dataclass(frozen=True)
class Features(Operator):
    """Make a region map and three parts of the features of each window.

    Reads the outputs ``flow``, ``count`` and ``luma`` of `Motion` and, where there is a detector, ``boxes`` of shape (32, 6)
    and ``scores`` of shape (80,) of `Detect`, one a window; then, where there is a face model, ``boxes`` of `Faces`, and, where another
    operator says where something matters, its maps of shape (64, 64), which stand in place of ours. Gives ``parts`` of shape (384,), dtype float32 (detection,
    flow, texture), ``valid`` (3,) uint8 and ``regions`` (64, 64) float32. No halo.
    """

    name: ClassVar[str] = "features"
    compiles: ClassVar[bool] = True

    threshold: float = 0.3
    """Texture is looked at where confidence is above this."""
    least_area: float = 0.0
    """Detections count only where more than this share of the picture is above `threshold`; 0: always, for small targets."""
    least_box: float = 0.0
    """Boxes smaller than this share of the picture are left out; 0: none."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: parts, validity and map of each window."""
        for name in ("threshold", "least_area", "least_box"):
            check_number(self.name, name, getattr(self, name), 0, 1)
        shapes = [spec.shapes[0] if isinstance(spec, FrameSpec) else None for spec in inputs]
        seen = len(shapes) >= 3 and shapes[0] == (*(shapes[2] or ()), 2) and shapes[1] == (1,)
        if not seen or sum(len(_PORTS[name]) for name in _ports(shapes[3:])) != len(shapes) - 3:
            wanted = (
                "motion.flow, motion.count, motion.luma and, where there are such, detect.boxes and detect.scores, faces.boxes "
                "and maps"
            )
            raise _refuse(self.name, wanted, inputs)
        outputs = {"parts": ((3 * PART,), "f4"), "valid": ((3,), "u1"), "regions": ((MAP_SIDE, MAP_SIDE), "f4")}
        return Contract(
            tuple(Output(name, "frames", FrameSpec.array(*form)) for name, form in outputs.items()), takes_mask=True
        )

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Write the core's windows."""
        flow, count, luma, *more = (port.core_data for port in inputs)
        ports = _ports([array.shape[1:] for array in more])
        held = iter(more)
        seen = {name: [next(held) for _ in _PORTS[name]] for name in ports}
        parts, valid, regions = outputs
        for j in range(len(parts)):
            boxes, scores = (port[j] for port in seen["detect"]) if "detect" in seen else (None, None)
            motion = flow[j] if count[j, 0] else None
            confidence = self._confidence(motion, luma[j], boxes, {name: arrays[0][j] for name, arrays in seen.items()})
            out = parts.data[j].reshape(3, PART)
            out[:] = 0
            if boxes is not None and scores is not None:
                out[0] = self._detection(boxes, scores, confidence)
            if motion is not None:
                out[1] = flow_part(motion, confidence)
            out[2] = texture_part(luma[j], confidence, self.threshold)
            valid.data[j] = (boxes is not None, motion is not None, True)
            regions.data[j] = confidence

    @staticmethod
    def _confidence(motion: Array | None, luma: Array, boxes: Array | None, seen: dict[str, Array]) -> Array:
        if "maps" in seen:
            return np.asarray(np.clip(np.nan_to_num(seen["maps"]), 0, 1), np.float32)
        several = [found for found in (boxes, seen.get("faces")) if found is not None]
        return region_confidence(motion, luma, np.concatenate(several) if several else None)

    def _detection(self, boxes: Array, scores: Array, confidence: Array) -> Array:
        area = float((confidence > self.threshold).mean())
        if self.least_area and area <= self.least_area:
            return np.zeros(PART, np.float32)
        sizes = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        return detection_part(boxes[sizes >= self.least_box], scores)


@dataclass(frozen=True)
class Change(Operator):
    """Compare each window with those before it, and steady the region map.

    Reads ``parts`` of shape (384,), dtype float32, ``valid`` and ``regions`` of `Features` and ``cut`` of `Motion`. Gives
    ``features`` (512,) float32, ``valid`` (4,) uint8 and ``regions`` (64, 64) uint8, 255 for 1. Sequential, no halo; begins
    anew at cuts and at gaps. The part change is valid from the fifth window on; until then it is zero.
    """

    name: ClassVar[str] = "change"

    keep: float = 0.6
    """Share of the last map in the next one."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: features, validity and map of each window."""
        check_number(self.name, "keep", self.keep, 0, 0.99)
        shapes = [spec.shapes[0] if isinstance(spec, FrameSpec) else None for spec in inputs]
        if shapes != [(3 * PART,), (3,), (MAP_SIDE, MAP_SIDE), (1,)]:
            raise _refuse(self.name, "features.parts, features.valid, features.regions and motion.cut", inputs)
        outputs = {"features": ((4 * PART,), "f4"), "valid": ((4,), "u1"), "regions": ((MAP_SIDE, MAP_SIDE), "u1")}
        made = tuple(Output(name, "frames", FrameSpec.array(*form)) for name, form in outputs.items())
        return Contract(made, dependency="sequential")

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> State:
        """Write the core's windows; the state is the last five windows and the last map."""
        parts, valid, regions, cut = (port.core_data for port in inputs)
        features, known, maps = outputs
        history = np.zeros((NUM_LAGS + 1, 3 * PART), np.float32) if state is None else state["history"].copy()
        steady = np.zeros((MAP_SIDE, MAP_SIDE), np.float32) if state is None else state["map"]
        seen = 0 if state is None else int(state["seen"])
        for j in range(len(features)):
            seen = 0 if cut[j, 0] else seen
            history = np.concatenate([history[1:], parts[j][None]])
            share = np.float32(self.keep if seen else 0)
            steady = share * steady + (1 - share) * regions[j]
            seen += 1
            full = seen > NUM_LAGS
            features.data[j, : 3 * PART] = parts[j]
            features.data[j, 3 * PART :] = change_part(history) if full else 0
            known.data[j] = (*valid[j], full)
            maps.data[j] = np.floor(steady * np.float32(255) + np.float32(0.5)).astype(np.uint8)
        return {"history": history, "map": steady, "seen": min(seen, NUM_LAGS + 1)}
