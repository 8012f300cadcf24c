"""What an event camera would tell of a video."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperframes.frames import Field, RecordSpec
from hyperframes.kernels import kernel
from hyperframes.operators.base import Contract, Operator, Output, State, View
from hyperframes.operators.checks import check_count, check_number, frame_spec

if TYPE_CHECKING:
    from hyperframes.frames import Array, Spec
    from hyperframes.packing import Hyperframe

__all__ = ["SimulateEvents"]

_NEVER = -(1 << 62)
_DARK = 0.02
"""Share of full light added before the logarithm: a sensor does not tell black from nearly black."""


@dataclass(frozen=True)
class SimulateEvents(Operator):
    """Events where the logarithm of the light crosses thresholds: records of t (microseconds), x, y and p (1 brighter).

    Frames of grey pictures of shape (T, H, W) and dtype uint8; no halo. Each pixel keeps the level at which it fired last; between two frames its log
    light is taken to change evenly, and every level it crosses is an event at the time of the crossing. Sequential: the
    levels, the last log light and the last event of every pixel are the state. Events of one frame interval are in
    order of time, then row, then column.

    Notes
    -----
    Noise: thresholds differ from pixel to pixel by a normal `mismatch`, and each pixel leaks brighter events at
    `leak` a second on average. Both are drawn from `seed` and the position alone, so that they do not depend on how
    the stream is cut.

    References
    ----------
    .. [1] Y. Hu, S.-C. Liu, T. Delbruck, "v2e: from video frames to realistic DVS events", CVPRW 2021, arXiv:2006.07722.
    """

    name: ClassVar[str] = "simulate_events"
    compiles: ClassVar[bool] = True
    formats: ClassVar[tuple[str, ...] | None] = ("gray",)

    threshold: float = 0.2
    """Change of the natural logarithm of the light that makes an event."""
    mismatch: float = 0.03
    """Standard deviation of thresholds from pixel to pixel, as a share of the threshold."""
    refractory: int = 100
    """Microseconds after an event in which its pixel tells nothing."""
    leak: float = 0.05
    """Events a second and pixel without any change."""
    seed: int = 0
    """Of the noise."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: records, sequential."""
        spec = frame_spec(self.name, inputs, kinds="u")
        check_number(self.name, "threshold", self.threshold, 0.01, 10)
        check_number(self.name, "mismatch", self.mismatch, 0, 0.3)
        check_count(self.name, "refractory", self.refractory, 0, 10_000_000)
        check_number(self.name, "leak", self.leak, 0, 1000)
        check_count(self.name, "seed", self.seed, 0, 2**31)
        columns = (("t", np.int64), ("x", np.uint16), ("y", np.uint16), ("p", np.uint8))
        fields = tuple(Field(name, np.dtype(dtype)) for name, dtype in columns)
        records = RecordSpec(fields, spec.time_base, spec.rate, sensor=(spec.height, spec.width))
        return Contract((Output("records", "records", records),), dependency="sequential")

    def prepare(self, worker: Any) -> Any:
        """Return a place for what the first frame tells, thresholds by sensor size; compile the kernel, if need be."""
        none, ticks = np.empty(0), np.empty(0, np.int64)
        _crossings(none, none, none, none, ticks, 0, 0, self.refractory, ticks, ticks, np.empty(0, np.uint8))
        return {}

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> State | None:
        """Add the events between the frames of the core and the ones before them."""
        (hyperframe,), (view,) = inputs, outputs
        frames = hyperframe.core_planes[0]
        if not len(frames):
            return state
        thresholds = prepared.setdefault(frames.shape[1:], None)
        if thresholds is None:
            draws = np.random.default_rng(self.seed).standard_normal(frames.shape[1:])
            thresholds = prepared[frames.shape[1:]] = self.threshold * np.maximum(1 + self.mismatch * draws, 0.2)
        micro = Fraction(hyperframe.header.time_base) * 1_000_000
        times = [int(tick * micro) for tick in hyperframe.header.pts[hyperframe.core].tolist()]
        table = np.log(np.arange(256) / 255 + _DARK)
        new: State = {k: np.copy(v) for k, v in state.items()} if state else self._begin(table[frames[0]], thresholds)
        for position, (frame, now) in enumerate(zip(frames, times, strict=True), hyperframe.header.core[0]):
            if position:
                t, x, y, p = self._between(table[frame], now, thresholds, new)
                view.add(np.full(len(t), position), t=t, x=x, y=y, p=p)
            new["light"], new["time"] = table[frame], now
        return new

    def _begin(self, light: Array, thresholds: Array) -> State:
        """Return the state before the first frame: levels spread evenly, as those of a sensor long running."""
        phase = np.random.default_rng(self.seed + 1).random(light.shape) - 0.5
        return {"level": light + phase * thresholds, "light": light, "last": np.full(light.shape, _NEVER), "time": 0}

    def _between(self, light: Array, now: int, thresholds: Array, state: State) -> tuple[Array, ...]:
        """Return t, x, y and p of the events since the last frame, and move the levels."""
        then = int(state["time"])
        leaked = thresholds * (self.leak * (now - then) * 1e-6)
        state["level"] -= leaked  # a leak is a level that sinks
        steps = np.abs(light - state["level"]) / thresholds
        most = int(np.floor(steps).sum() + np.floor(np.abs(state["light"] - state["level"]) / thresholds).sum()) + 1
        t, site, p = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.uint8)
        args = (
            state["light"].ravel(),
            light.ravel(),
            state["level"].ravel(),
            thresholds.ravel(),
            state["last"].ravel(),
        )
        count = _crossings(*args, then, now, self.refractory, t, site, p)
        order = np.lexsort((site[:count], t[:count]))
        t, site, p = t[:count][order], site[:count][order], p[:count][order]
        width = light.shape[1]
        return t, (site % width).astype(np.uint16), (site // width).astype(np.uint16), p


@kernel
def _crossings(
    before: Array,
    after: Array,
    level: Array,
    threshold: Array,
    last: Array,
    then: int,
    now: int,
    refractory: int,
    t: Array,
    site: Array,
    p: Array,
) -> int:  # pragma: no cover - compiled
    """Write the events of one interval; events in a refractory time move the level but are not told."""
    count = 0
    for i in range(after.size):
        rise = after[i] - before[i]
        while count < t.size:
            up = after[i] - level[i] >= threshold[i]
            if not up and level[i] - after[i] < threshold[i]:
                break
            level[i] += threshold[i] if up else -threshold[i]
            share = (level[i] - before[i]) / rise if rise != 0 else 1.0
            time = then + np.int64((now - then) * min(max(share, 0.0), 1.0))
            if time - last[i] >= refractory:
                t[count], site[count], p[count] = time, i, 1 if up else 0
                count += 1
                last[i] = time
    return count
