"""When something matters: weights for every frame, anchors at the peaks, and the spans that descriptors describe.

One sequential operator behind the independent `Activity`: what it needs of the past is a ring of a second of rows and
small pictures, and a window of 60 seconds of numbers, so it is the same offline, live and on a cluster. What it says of a
frame comes a fixed number of frames later (`Anchors.delay`).
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import Array, Field, FrameSpec, RecordSpec
from hyperframes.operators import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.activity import LEVELS, MEASURES
from hyperframes.operators.checks import check_count, check_number
from hyperframes.operators.learned import RefineAnchors
from hyperframes.semantic.flow_model import flow_version, mark_version, new_search
from hyperframes.semantic.transitions import FLAT, cut_score, cut_scores, is_cut, returns

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe
    from hyperframes.semantic.descriptor import AnchorKind

__all__ = ["KINDS", "Anchors", "levels_of"]

KINDS: Final[tuple[AnchorKind, ...]] = ("motion", "cut", "fade", "flash")
"""Kinds of anchors by the number that stands in records."""
_MOTION, _CUT, _FADE, _FLASH = range(len(KINDS))

_SPREAD, _DIFFERENCE, _NOISE = (MEASURES.index(name) for name in ("spread", "difference", "noise"))
_FLOW = MEASURES.index("flow_0")
_DEFAULT_RATE: Final = 25.0
_NOISE_STEPS: Final = 4.0  # deviations: of normal noise, one change in 16,000 is greater
_NOISE_SHARE: Final = 10.0  # percentile of a window's noise: frames in which little moves show it
_FLOOR_PX: Final = 0.05  # least range that weights are stretched over: what moves less than this in all is still
_LEVELS_EVERY: Final = 8  # frames from one look at the window to the next
_ENTROPY_BINS: Final = 16
_ENTROPY_STEP_PX: Final = 0.5
_LOW_ENTROPY, _HIGH_ENTROPY = 0.15, 0.8
_CALM_STEPS: Final = 3
_CALM_PEAK: Final = 0.3
_RAISED: Final = 2
_CANDIDATE: Final = 0.15
_CUT_LIKE: Final = 0.25


@dataclass(frozen=True)
class Anchors(Operator):
    """Weights, anchors and segments from the outputs of `Activity`: rows (38,) of float32 and luma (h, w) of uint8.

        Sequential; no halo. Three outputs of spans, each in order of time: ``anchors`` (one frame each; ``weight`` float32
        in [0, 1], ``kind`` uint8 by `KINDS`), ``segments`` (``cut``, ``static`` bool, ``weight`` float32: the greatest in it) and
        ``weights`` (one frame each, all of them; ``weight``, ``activity`` float32 in pixels of the small luma a frame, ``entropy``
        float32 in [0, 1]).

    Notes
    -----
    *Activity* m is the mean normal flow of pixels that change by more than the noise floor, 4 deviations of the
    noise in the window's calmest tenth. Its *level* is ``(m - p5) / max(p95 - p5, 0.05)`` within [0, 1], percentiles
    of the window. Frames above 0.15, or that change by as much, are looked at closer: dense flow (DIS) against the
    frame before gives the entropy of the histogram of speeds, in 16 steps of half a pixel, over ``log(16)``; the level is
    multiplied by ``(1 + entropy) / 2``: many speeds at once say more than one. The weight of a frame is the greater of
    the levels of the steps before and after it.

    Anchors are peaks of the weight, the first frame after a cut or fade and each flash. Where entropy was below 0.15
    for three steps, peaks below 0.3 are left out; where it crosses 0.8 upwards there are two before and two after.
    A segment ends at cuts and fades, where motion begins or ends for half a second, after `max_seconds`, or at
    `max_anchors`.

    References
    ----------
    .. [1] T. Kroeger, R. Timofte, D. Dai, L. Van Gool, "Fast Optical Flow Using Dense Inverse Search", ECCV 2016.
       DOI: 10.1007/978-3-319-46493-0_29
    .. [2] Y. Zhi et al., "MGSampler: An Explainable Sampling Strategy for Video Action Recognition", ICCV 2021:
       weights from the change of motion.
    """

    name: ClassVar[str] = "anchors"

    window_seconds: float = 60.0
    """How far back noise and percentiles look."""
    max_seconds: float = 5.0
    """Longest segment."""
    max_anchors: int = 32
    """Most anchors of a segment."""
    peak_seconds: float = 0.1
    """An anchor has the greatest weight this far to both sides."""
    levels: tuple[float, ...] = ()
    """Noise, p5 and p95 of the whole file, in place of the window's, from a first pass over it."""
    flow: str = ""
    """Model file of dense flow, see `hyperframes.semantic.flow_model`; none: OpenCV's."""
    refiner: str = ""
    """Weights of a trained refiner (kind ``anchor_refiner``), which then says what candidates weigh; see `refine_anchors`."""

    def __post_init__(self) -> None:
        net = RefineAnchors(self.refiner).version if self.refiner else 0
        mark_version(self, zlib.crc32(f"{flow_version(self.flow)} {net}".encode()) if self.flow or self.refiner else 0)

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: three outputs of spans."""
        rows = self._rows(inputs)
        check_number(self.name, "window_seconds", self.window_seconds, 0, 3600, above=True)
        check_number(self.name, "max_seconds", self.max_seconds, 0, 3600, above=True)
        check_number(self.name, "peak_seconds", self.peak_seconds, 0, 60)
        check_count(self.name, "max_anchors", self.max_anchors, 1, 1_000_000)
        if self.refiner:
            _check_refiner(RefineAnchors(self.refiner), _Pace.of(self, rows.rate).ring)
        real, small, flag = np.dtype(np.float32), np.dtype(np.uint8), np.dtype(bool)
        records = {
            "anchors": (Field("weight", real), Field("kind", small)),
            "segments": (Field("cut", flag), Field("static", flag), Field("weight", real)),
            "weights": (Field("weight", real), Field("activity", real), Field("entropy", real)),
        }
        outputs = [
            Output(name, "spans", RecordSpec(fields, rows.time_base, rows.rate)) for name, fields in records.items()
        ]
        return Contract(tuple(outputs), dependency="sequential")

    def _rows(self, inputs: tuple[Spec, ...]) -> FrameSpec:
        """Return the spec of the rows, or refuse other inputs than those of `Activity`."""
        match inputs:
            case (FrameSpec() as rows, FrameSpec() as luma) if rows.names == MEASURES and luma.pixel_format == "gray":
                return rows
        raise PipelineError(
            f"operator 'anchors' reads the two outputs of 'activity': got {', '.join(map(str, inputs))}",
            stage=self.name,
            hint="Give it inputs=('activity.measures', 'activity.luma').",
        )

    def delay(self, rate: Fraction | None) -> int:
        """Return how many frames after a frame it is certain what is said of it, at `rate` frames a second."""
        pace = _Pace.of(self, rate)
        return pace.ahead + pace.weighed_behind

    def prepare(self, worker: Worker) -> _Refiner | None:
        """Return the trained refiner, if there is one."""
        if not self.refiner:
            return None
        told = RefineAnchors(self.refiner)
        return _Refiner(told.prepare(worker), told.file.length, told.file.channels)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: _Refiner | None
    ) -> State:
        """Take in the core's frames, and add what has become certain."""
        measures, luma = inputs
        first, stop = measures.header.core
        pace = _Pace.of(self, measures.spec.rate)
        memory = _Memory.start(first, pace, luma.spec.shapes[0]) if state is None else _Memory.load(state)
        tracker = _Tracker(self, pace, memory, outputs, prepared, new_search(self.flow))
        times = measures.header.pts[measures.core]
        rows, pictures = measures.core_data, luma.core_data
        for t in range(stop - first):
            tracker.push(rows[t], pictures[t], int(times[t]))
        if measures.header.end:
            tracker.finish()
        tracker.hand_over()
        return memory.save()


class _Refiner(NamedTuple):
    """A trained net that weighs the frames of a clip."""

    weigh: Callable[[Array, str], Array]
    """Rows (length, channels) of float32 and ``weights`` -> (length,) in [0, 1]."""
    length: int
    channels: int


def _check_refiner(told: RefineAnchors, most: int) -> None:
    if told.file.channels not in {1, len(MEASURES)} or told.file.length > most:
        raise PipelineError(
            f"operator 'anchors' takes a refiner of 1 or {len(MEASURES)} values a frame and at most {most} frames: got "
            f"{told.file.channels} and {told.file.length}",
            stage="anchors",
            got=(told.file.channels, told.file.length),
        )


@dataclass(frozen=True, slots=True)
class _Pace:
    """Lengths in frames."""

    ahead: int
    behind: int
    peak: int
    window: int
    longest: int
    steady: int

    @classmethod
    def of(cls, anchors: Anchors, rate: Fraction | None) -> _Pace:
        pace = float(rate) if rate else _DEFAULT_RATE
        ahead = min(40, max(3, math.ceil(0.3 * pace)))
        return cls(
            ahead,
            min(80, max(8, math.ceil(pace))),
            max(1, round(anchors.peak_seconds * pace)),
            max(2 * _LEVELS_EVERY, round(anchors.window_seconds * pace)),
            max(1, round(anchors.max_seconds * pace)),
            max(2, round(0.5 * pace)),
        )

    @property
    def weighed_behind(self) -> int:
        """Decided frames that must follow one before it is reported: its peak, and a jump of entropy two on."""
        return max(self.peak + 1, _RAISED)

    @property
    def ring(self) -> int:
        """Frames that are kept."""
        return self.ahead + self.behind + self.weighed_behind + 2


@dataclass(slots=True)
class _Memory:
    """What is carried from frame to frame: arrays and numbers."""

    first: int
    seen: int
    """Frames [first, seen) have come."""
    decided: int
    """Frames before this have a level."""
    weighed: int
    """Frames before this have been reported."""
    rows: Array
    scores: Array
    pts: Array
    luma: Array
    level: Array
    """Of the step from the frame before, by ring position; then what was measured for it."""
    active: Array
    entropy: Array
    mark: Array
    """Kind of anchor that a frame is by itself (0: none but motion)."""
    past_activity: Array
    past_noise: Array
    held: float = 0.0
    """Activity of the last step that was motion."""
    noise: float = 0.4
    low: float = 0.0
    high: float = 0.0
    flash_stop: int = -1
    flat_since: int = -1
    flat_cut: bool = False
    flat_depth: float = 0.0
    calm: int = 0
    """Steps of low entropy running."""
    last_anchor: int = -1
    segment: int = 0
    segment_pts: int = 0
    segment_cut: bool = False
    segment_weight: float = 0.0
    segment_anchors: int = 0
    moving: bool = False
    run_start: int = -1
    """First of the latest frames running that contradict `moving`; -1: the last one does not."""
    run_pts: int = 0
    run_weight: float = 0.0
    run_anchors: int = 0

    @classmethod
    def start(cls, first: int, pace: _Pace, size: tuple[int, ...]) -> _Memory:
        n, w = pace.ring, pace.window
        return cls(
            first=first,
            seen=first,
            decided=first,
            weighed=first,
            segment=first,
            rows=np.zeros((n, len(MEASURES)), np.float32),
            scores=np.zeros(n),
            pts=np.zeros(n, np.int64),
            luma=np.zeros((n, *size), np.uint8),
            level=np.zeros(n),
            active=np.zeros(n),
            entropy=np.zeros(n),
            mark=np.zeros(n, np.uint8),
            past_activity=np.zeros(w),
            past_noise=np.zeros(w),
        )

    @classmethod
    def load(cls, state: State) -> _Memory:
        """Return a copy: the state handed in must stay as it is."""
        copied: dict[str, Any] = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}
        return cls(**copied)

    def save(self) -> State:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}


@dataclass(slots=True, eq=False)
class _Tracker:
    """Goes through the frames one by one; all it knows is in `memory`."""

    anchors: Anchors
    pace: _Pace
    memory: _Memory
    views: tuple[View, ...]
    refiner: _Refiner | None
    flow: Any
    weights: list[tuple[int, int, float, float, float]] = field(default_factory=list)
    """Rows about frames, which are added all at once."""

    def push(self, row: Array, picture: Array, pts: int) -> None:
        """Take in a frame, and decide about the one `ahead` frames before it."""
        m = self.memory
        slot = m.seen % self.pace.ring
        m.rows[slot], m.luma[slot], m.pts[slot] = row, picture, pts
        m.scores[slot] = cut_score(m.rows[(m.seen - 1) % self.pace.ring], row) if m.seen > m.first else 0.0
        if m.seen == m.first:
            m.segment_pts = pts
        else:
            m.past_noise[(m.seen - m.first - 1) % self.pace.window] = row[_NOISE]
        m.seen += 1
        while m.decided < m.seen - self.pace.ahead:
            self._decide(m.decided)
            m.decided += 1
            self._report(m.decided - 1 - self.pace.weighed_behind)

    def finish(self) -> None:
        """Decide about the frames that are left, with what there is ahead of them."""
        m = self.memory
        while m.decided < m.seen:
            self._decide(m.decided)
            m.decided += 1
        self._report(m.seen - 1)
        m.segment_weight = max(m.segment_weight, m.run_weight)
        if m.seen > m.segment:
            self._close(m.seen)

    def hand_over(self) -> None:
        """Add the rows about frames."""
        if self.weights:
            index, pts, *columns = (np.array(column) for column in zip(*self.weights, strict=True))
            names = ("weight", "activity", "entropy")
            self.views[2].add(index, stop=index + 1, pts=pts, **dict(zip(names, columns, strict=True)))

    # One step ---------------------------------------------------------------------------------------------------------

    def _decide(self, c: int) -> None:
        """Find out what the step to frame `c` is, and how active."""
        m, slot = self.memory, c % self.pace.ring
        mark = self._transition(c)
        m.mark[slot] = mark
        self._look_back(c)
        moves = not mark and c > max(m.flash_stop, m.first)
        m.held = activity = self._activity(m.rows[slot]) if moves else m.held
        m.past_activity[(c - m.first) % self.pace.window] = activity
        level = min(1.0, max(0.0, (activity - m.low) / max(m.high - m.low, _FLOOR_PX)))
        before = m.level[(c - 1) % self.pace.ring] if c > m.first else 0.0
        entropy = 0.0
        if c > m.first and not mark and max(level, abs(level - before)) >= _CANDIDATE:
            level, entropy = self._refined(c, level)
        m.level[slot], m.active[slot], m.entropy[slot] = level, activity, entropy

    def _activity(self, row: Array) -> float:
        return float(row[_FLOW + _floor(self.memory.noise) :].sum(dtype=np.float64))

    def _look_back(self, c: int) -> None:
        """Take noise and percentiles from the window: at fixed positions, not for every frame."""
        m, window = self.memory, self.pace.window
        number = c - m.first
        if self.anchors.levels:
            m.noise, m.low, m.high = self.anchors.levels
        elif number % _LEVELS_EVERY == 0 or number < 2 * _LEVELS_EVERY:
            noise = m.past_noise[: min(m.seen - m.first - 1, window)]
            m.noise = float(np.percentile(noise, _NOISE_SHARE)) if noise.size else m.noise
            activity = m.past_activity[: min(number, window)]
            m.low, m.high = (float(v) for v in np.percentile(activity, [5, 95])) if activity.size else (0.0, 0.0)

    def _refined(self, c: int, level: float) -> tuple[float, float]:
        """Look at dense flow: uniform motion says less than motion of many speeds."""
        m, ring = self.memory, self.pace.ring
        before, after = m.luma[(c - 1) % ring], m.luma[c % ring]
        if min(before.shape) < 16:
            return level, 0.0
        flow = self.flow.calc(before, after, None)
        speed = np.hypot(flow[..., 0], flow[..., 1]).ravel()
        entropy = _entropy(speed)
        if self.refiner is not None:
            return self._learned(c, self.refiner), entropy
        return level * (0.5 + 0.5 * entropy), entropy

    def _learned(self, c: int, refiner: _Refiner) -> float:
        """Return what the refiner says of frame `c`, in the middle of a clip as far as frames have come."""
        m, ring = self.memory, self.pace.ring
        start = max(m.first, min(c - refiner.length // 2, m.seen - refiner.length))
        frames = np.minimum(np.arange(start, start + refiner.length), m.seen - 1)  # short streams: the last one again
        rows = m.rows[frames % ring]
        if refiner.channels == 1:
            rows = np.array([[self._activity(row)] for row in rows], np.float32)
        return float(np.clip(refiner.weigh(rows, "weights")[c - start], 0, 1))

    # Transitions ------------------------------------------------------------------------------------------------------

    def _transition(self, c: int) -> int:
        m, ring = self.memory, self.pace.ring
        if c == m.first:
            m.flat_since, m.flat_cut = (c, True) if m.rows[c % ring][_SPREAD] < FLAT else (-1, False)
            return 0
        around = np.arange(max(m.first + 1, c - self.pace.behind // 2), min(m.seen, c + self.pace.ahead + 1))
        scores, at = m.scores[around % ring], int(c - around[0])
        mark = 0
        if c > m.flash_stop:
            cut = is_cut(scores, m.rows[around % ring, _DIFFERENCE], at)
            if cut or self._jumps(around, c):
                stop = self._flash_stop(c)
                if stop > c:
                    m.flash_stop, mark = stop, _FLASH
                elif cut:
                    mark = _CUT
        return mark or self._fade(c, bool(mark))

    def _jumps(self, around: Array, c: int) -> bool:
        """Whether brightness jumps, as it does where a flash begins."""
        differences = self.memory.rows[around % self.pace.ring, _DIFFERENCE]
        here = float(self.memory.rows[c % self.pace.ring][_DIFFERENCE])
        return here >= 8.0 and here >= 4.0 * float(np.median(differences))

    def _flash_stop(self, c: int) -> int:
        """Return the frame at which the picture before `c` is back, or `c` where it is not within a fifth of a second."""
        m, ring = self.memory, self.pace.ring
        before, difference = m.luma[(c - 1) % ring], float(m.rows[c % ring][_DIFFERENCE])
        for later in range(c + 1, min(m.seen, c + 1 + max(2, 2 * self.pace.ahead // 3))):
            if returns(before, m.luma[later % ring], difference):
                return later
        return c

    def _fade(self, c: int, cut: bool) -> int:
        """Tell a passage through one tone: it begins and ends little by little, with pictures on both sides."""
        m, ring = self.memory, self.pace.ring
        flat = m.rows[c % ring][_SPREAD] < FLAT
        if flat and m.flat_since < 0:
            past = np.arange(max(m.first, c - self.pace.behind), c)
            m.flat_since, m.flat_cut = c, cut
            m.flat_depth = float(m.rows[past % ring, _SPREAD].max()) if past.size else 0.0
        elif not flat and m.flat_since >= 0:
            ahead = np.arange(c, min(m.seen, c + self.pace.ahead + 1))
            rises = float(m.rows[ahead % ring, _SPREAD].max()) >= 1.5 * FLAT
            faded = not (m.flat_cut or cut) and m.flat_depth >= 3 * FLAT and rises
            m.flat_since = -1
            return _FADE if faded else 0
        return 0

    # Reports ----------------------------------------------------------------------------------------------------------

    def _report(self, last: int) -> None:
        """Say what frames up to `last` weigh, which of them are anchors, and which segments have ended."""
        while self.memory.weighed <= last:
            self._say(self.memory.weighed)
            self.memory.weighed += 1

    def _weight(self, c: int) -> float:
        """Return the greater level of the steps to and from frame `c`."""
        m, ring = self.memory, self.pace.ring
        if m.mark[c % ring] in {_CUT, _FADE}:
            return 1.0
        after = m.level[(c + 1) % ring] if c + 1 < m.decided and not m.mark[(c + 1) % ring] else 0.0
        weight = float(max(m.level[c % ring], after))
        return max(weight, _HIGH_ENTROPY) if self._raised(c) else weight

    def _raised(self, c: int) -> bool:
        """Whether entropy crosses 0.8 upwards within two steps after frame `c`, or did so at it or just before."""
        m, ring = self.memory, self.pace.ring
        for j in range(max(m.first + 1, c - _RAISED + 1), min(m.decided, c + _RAISED + 1)):
            if m.entropy[(j - 1) % ring] < _HIGH_ENTROPY <= m.entropy[j % ring]:
                return True
        return False

    def _say(self, c: int) -> None:
        m, slot = self.memory, c % self.pace.ring
        weight, entropy, mark = self._weight(c), float(m.entropy[slot]), int(m.mark[slot])
        pts = int(m.pts[slot])
        self.weights.append((c, pts, weight, float(m.active[slot]), entropy))
        self._segment(c, mark, weight)
        m.calm = m.calm + 1 if entropy < _LOW_ENTROPY else 0
        if mark or self._raised(c) or self._peak(c, weight):
            self.views[0].add(c, stop=c + 1, pts=pts, weight=weight, kind=mark)
            m.last_anchor = c
            m.segment_anchors += 1
            m.run_anchors += m.run_start >= 0

    def _peak(self, c: int, weight: float) -> bool:
        m = self.memory
        least = _CALM_PEAK if m.calm >= _CALM_STEPS else _CANDIDATE
        if weight < least or (m.last_anchor >= 0 and c - m.last_anchor <= self.pace.peak):
            return False
        around = range(max(m.first, c - self.pace.peak), min(m.decided - 1, c + self.pace.peak) + 1)
        return weight >= max(self._weight(t) for t in around)

    def _segment(self, c: int, mark: int, weight: float) -> None:
        """End the segment before frame `c`, or before the run of frames that shows that motion began or ended."""
        m = self.memory
        changes = mark in {_CUT, _FADE}
        if changes or c - m.segment >= self.pace.longest or m.segment_anchors >= self.anchors.max_anchors:
            m.segment_weight = max(m.segment_weight, m.run_weight)
            self._begin(c, int(m.pts[c % self.pace.ring]), changes, 0)
        contrary = weight < _CANDIDATE / 2 if m.moving else weight >= _CANDIDATE
        if not contrary:
            m.segment_weight = max(m.segment_weight, m.run_weight, weight)
            m.run_start, m.run_weight, m.run_anchors = -1, 0.0, 0
            return
        if m.run_start < 0:
            m.run_start, m.run_pts = c, int(m.pts[c % self.pace.ring])
        m.run_weight = max(m.run_weight, weight)
        if c - m.run_start + 1 >= self.pace.steady:
            weight = m.run_weight
            m.moving = not m.moving
            self._begin(m.run_start, m.run_pts, m.segment_cut and m.run_start == m.segment, m.run_anchors)
            m.segment_weight = weight

    def _begin(self, start: int, pts: int, cut: bool, anchors: int) -> None:
        """Begin a segment at frame `start`, and close the one before it, if there is any."""
        m = self.memory
        if start > m.segment:
            self._close(start)
        m.segment, m.segment_pts, m.segment_cut, m.segment_anchors = start, pts, cut, anchors
        m.segment_weight, m.run_start, m.run_weight, m.run_anchors = 0.0, -1, 0.0, 0

    def _close(self, stop: int) -> None:
        m = self.memory
        self.views[1].add(
            m.segment,
            stop=stop,
            pts=m.segment_pts,
            cut=m.segment_cut,
            static=m.segment_weight < _CANDIDATE / 2,
            weight=m.segment_weight,
        )


def _floor(noise: float) -> int:
    """Return the least change in grey levels that is not noise."""
    return min(LEVELS - 1, max(2, math.ceil(_NOISE_STEPS * noise)))


def levels_of(rows: Array) -> tuple[float, float, float]:
    """Return noise, p5 and p95 of activity over all of a stream's rows (N, 38): the `Anchors.levels` of a second pass."""
    if not len(rows):
        return 0.4, 0.0, 0.0
    noise = float(np.percentile(rows[min(1, len(rows) - 1) :, _NOISE], _NOISE_SHARE))
    activity = rows[:, _FLOW + _floor(noise) :].sum(axis=1, dtype=np.float64)
    activity = activity[cut_scores(rows) < _CUT_LIKE]
    low, high = (float(v) for v in np.percentile(activity, [5, 95])) if activity.size else (0.0, 0.0)
    return noise, low, high


def _entropy(speed: Array) -> float:
    """Return the entropy in [0, 1] of the histogram of (P,) speeds in steps of half a pixel, the last one open."""
    bins = np.minimum(speed / _ENTROPY_STEP_PX, _ENTROPY_BINS - 1).astype(np.intp)
    counts = np.bincount(bins, minlength=_ENTROPY_BINS)
    shares = counts[counts > 0] / speed.size
    return abs(float((shares * np.log(shares)).sum())) / math.log(_ENTROPY_BINS)
