"""Work on chosen squares only: a map a frame of where something matters, and any operator on the squares it chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.activity import Activity, has_luma, shrinking
from hyperframes.operators.checks import check_count, check_number, frame_spec
from hyperframes.operators.create import create
from hyperframes.packing import Halo, Header, Hyperframe
from hyperframes.semantic.features import dense_flow
from hyperframes.semantic.flow_model import new_search
from hyperframes.semantic.regions import MAP_SIDE, region_confidence, select_patches

if TYPE_CHECKING:
    from hyperframes.frames import Array, Spec
    from hyperframes.semantic.regions import Patches

__all__ = ["Patchwise", "Regions"]

_AT_ONCE: Final = 64
_MAP: Final = FrameSpec.array((MAP_SIDE, MAP_SIDE), np.float32)


@dataclass(frozen=True)
class Regions(Operator):
    """Say where in each frame something matters: a map of shape (64, 64), dtype float32, in [0, 1].

    Pictures of any size -> one map a frame, of motion against the frame before and of what stands out, both on small luma;
    see `hyperframes.semantic.regions.region_confidence`. The halo is 1 frame before.
    """

    name: ClassVar[str] = "regions"
    formats: ClassVar[tuple[str, ...] | None] = Activity.formats

    side: int = 160
    """Longer side of the small luma, in pixels."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: a map a frame."""
        spec = frame_spec(self.name, inputs, kinds="u")
        check_count(self.name, "side", self.side, 16, 4096)
        if not has_luma(spec):
            raise PipelineError(
                f"operator {self.name!r} works on pictures with a luma plane: got {spec}",
                stage=self.name,
                got=spec,
                hint="Convert before it: --operator convert:format=gray",
            )
        made = FrameSpec.array((MAP_SIDE, MAP_SIDE), np.float32, time_base=spec.time_base, rate=spec.rate)
        return Contract((Output("regions", "frames", made),), Halo(1, 0), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Write the core's maps."""
        (hyperframe,), (view,) = inputs, outputs
        size = Activity(side=self.side).small_size(hyperframe.spec)
        shrink, search = shrinking(hyperframe.spec, size), new_search()
        before, after = np.empty(size, np.uint8), np.empty(size, np.uint8)
        first = hyperframe.core.start
        if len(view):
            shrink(hyperframe.planes[0][first - 1], before)
        for t in range(len(view)):
            shrink(hyperframe.planes[0][first + t], after)
            known = bool(hyperframe.mask[first + t - 1])
            flow = dense_flow(search, before, after) if known else None
            view.data[t] = region_confidence(flow, after)
            before, after = after, before


@dataclass(frozen=True)
class Patchwise(Operator):
    """Run another operator on the squares of each picture in which something matters; the others stay as they are.

    Reads grey or RGB pictures, dtype uint8, and a map of shape (64, 64), dtype float32, a frame, such as those of `regions`; gives
    pictures like the first. No halo. Squares go through the other operator as if they were frames, many at once, so what is
    not chosen costs nothing. It must be independent, without a halo, and give one frame of the same form a frame.

    Notes
    -----
    Each square is handed over with `margin` pixels around it, which are cut off again: with a margin as large as the reach
    of the other operator, chosen squares come out as if it had run on whole pictures. Beyond the borders the edge is
    repeated. Work grows with the squares chosen; margins and calls make a square about twice as dear as its share of a whole
    picture, and the map costs some milliseconds, so it pays for dear operators on less than a third of the picture.
    """

    name: ClassVar[str] = "patchwise"
    formats: ClassVar[tuple[str, ...] | None] = ("rgb24", "gray")
    reads_both: ClassVar[bool] = True

    operator: str
    """The other operator, NAME or NAME:parameter=value."""
    side: int = 64
    """Of a square, in pixels."""
    margin: int = 8
    """Pixels around a square that the other operator sees."""
    threshold: float = 0.3
    """A square is chosen where the map is above this somewhere in it."""
    most: int = 0
    """No more squares of a picture than this, those of the highest confidence; 0: all."""

    @property
    def compiles(self) -> bool:  # type: ignore[override]  # as the other operator does
        """Whether the other operator compiles or loads something."""
        return create(self.operator).compiles

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: pictures like those that come in."""
        check_count(self.name, "side", self.side, 4, 4096)
        check_count(self.name, "margin", self.margin, 0, 1024)
        check_number(self.name, "threshold", self.threshold, 0, 1)
        check_count(self.name, "most", self.most, 0, 1_000_000)
        match inputs:
            case (FrameSpec() as pictures, FrameSpec() as maps) if (
                maps.shapes == _MAP.shapes and maps.dtype == _MAP.dtype
            ):
                self._inner(pictures)
                return Contract((Output("frames", "frames", pictures),))
        raise PipelineError(
            f"operator {self.name!r} reads pictures and one map of (64, 64) float32 a frame: got {', '.join(map(str, inputs))}",
            stage=self.name,
            hint="Put regions before it: --operator regions --operator patchwise:operator=bilateral",
        )

    def _inner(self, pictures: FrameSpec) -> tuple[Operator, Contract, FrameSpec]:
        """Return the other operator, its contract and what it reads; refuse what cannot be run on squares."""
        inner, length = create(self.operator), self.side + 2 * self.margin
        spec = FrameSpec.picture(length, length, pictures.pixel_format)
        contract = inner.configure((spec,))
        fits = [o for o in contract.outputs if o.kind == "frames" and o.ratio == 1 and o.spec.shapes == spec.shapes]  # type: ignore[union-attr]  # frames
        same = len(contract.outputs) == 1 and bool(fits) and fits[0].spec.dtype == spec.dtype  # type: ignore[union-attr]
        if contract.dependency != "independent" or contract.halo != Halo() or not same:
            raise PipelineError(
                f"operator {self.name!r} cannot run {self.operator!r} on squares: expected an independent operator without a halo "
                "that gives one frame of the same form a frame",
                stage=self.name,
                got=self.operator,
                hint="Operators over time need whole frames; so do those that change the size.",
            )
        return inner, contract, spec

    def prepare(self, worker: Worker) -> tuple[Worker, Any]:
        """Prepare the other operator."""
        return worker, create(self.operator).prepare(worker)

    def apply(
        self,
        inputs: tuple[Hyperframe, ...],
        outputs: tuple[View, ...],
        state: State | None,
        prepared: tuple[Worker, Any],
    ) -> None:
        """Copy the core's frames, and write the chosen squares over them, some at a time."""
        (hyperframe, maps), (view,) = inputs, outputs
        inner, contract, spec = self._inner(hyperframe.spec)
        pictures, confidence = hyperframe.core_data, maps.core_data
        np.copyto(view.data, pictures)
        shape = pictures.shape[1:3]
        squares = [(t, row, column) for t in range(len(pictures)) for row, column in self._chosen(confidence[t], shape)]
        length = self.side + 2 * self.margin
        held = np.empty((min(_AT_ONCE, len(squares)), length, length, *pictures.shape[3:]), np.uint8)
        written = np.empty_like(held)
        for start in range(0, len(squares), _AT_ONCE):
            some = squares[start : start + _AT_ONCE]
            for k, (t, row, column) in enumerate(some):
                self._cut(pictures[t], row, column, held[k])
            out = View(contract.outputs[0], 0, len(some), (written[: len(some)],))
            inner.apply((_as_frames(held[: len(some)], spec),), (out,), None, prepared[1])
            for k, (t, row, column) in enumerate(some):
                self._put(written[k], view.data[t], row, column)

    def _chosen(self, confidence: Array, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        patches: Patches = select_patches(
            confidence, (shape[0], shape[1]), self.side, self.threshold, self.most or None
        )
        return [(row, column) for row, column in patches.chosen.tolist()]

    def _cut(self, picture: Array, row: int, column: int, out: Array) -> None:
        """Copy a square with its margin; beyond the borders the edge is repeated."""
        length = len(out)
        top, left = row * self.side - self.margin, column * self.side - self.margin
        rows, columns = (
            min(length + at, n) - max(at, 0) for at, n in ((top, picture.shape[0]), (left, picture.shape[1]))
        )
        inside = picture[max(top, 0) : max(top, 0) + rows, max(left, 0) : max(left, 0) + columns]
        above, before = max(-top, 0), max(-left, 0)
        if (rows, columns) == (length, length):
            out[...] = inside
        else:
            below, after = length - rows - above, length - columns - before
            out[...] = cv2.copyMakeBorder(inside, above, below, before, after, cv2.BORDER_REPLICATE)

    def _put(self, square: Array, picture: Array, row: int, column: int) -> None:
        top, left, m = row * self.side, column * self.side, self.margin
        target = picture[top : top + self.side, left : left + self.side]
        target[...] = square[m : m + target.shape[0], m : m + target.shape[1]]


def _as_frames(squares: Array, spec: FrameSpec) -> Hyperframe:
    """Return squares as a hyperframe that owns them all."""
    count = len(squares)
    index = np.arange(count)
    header = Header(0, "patches", ("0",), (0, count), (0, count), 0, 0, index, index, spec.time_base)
    held = squares.view()
    held.setflags(write=False)
    return Hyperframe(header, (held,), slice(0, count), np.ones(count, bool), spec)
