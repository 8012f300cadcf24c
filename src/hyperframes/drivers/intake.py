"""From one source to sealed hyperframes, offline: as fast as a gate lets it, frame by frame or as views of arrays."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.drivers.execute import OneByOne
from hyperframes.packing import FrameRooms, LentPacker, Packer, shape_error, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.drivers.base import Gate
    from hyperframes.drivers.pace import Pace
    from hyperframes.drivers.setup import Setup
    from hyperframes.frames import Array, Frame
    from hyperframes.packing import Hyperframe, SlabPool
    from hyperframes.sources import Source

__all__ = ["Intake"]


class Intake:
    """Reads one source and seals its hyperframes, in a thread of its own.

    Parameters
    ----------
    setup : Setup
        Of the run.
    port : int
        Of the source.
    cores : (start, stop)
        Source frames that are owned by a hyperframe of this run.
    pace : Pace
        How large hyperframes are.
    gate : Gate
        Lets it begin one hyperframe after the other.
    pool : SlabPool, optional
        Memory that frames are copied to; none where they stay where they are.
    sealed : function
        Called with each hyperframe.
    stopping : function
        Tells whether the run is over, so that nothing more is to be read.
    """

    def __init__(
        self,
        setup: Setup,
        port: int,
        *,
        cores: tuple[int, int | None],
        pace: Pace,
        gate: Gate,
        pool: SlabPool | None,
        sealed: Callable[[Hyperframe], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._setup, self._port, self._cores, self._pace = setup, port, cores, pace
        self._gate, self._pool, self._sealed, self._stopping = gate, pool, sealed, stopping
        self._margin = setup.plan.margins[port]
        self.conversion: OneByOne | None = None
        """What lent frames go through before they are packed, if anything."""

    def read(self) -> int:
        """Read the source to the end of the run and return how many frames there were, halos included."""
        source = self._setup.sources[self._port]
        held = source.arrays() if self._setup.views(self._port) else None
        return self._pack(source) if held is None else self._view(source, held)

    def _pack(self, source: Source) -> int:
        margin = self._margin
        start, stop = self._cores
        first = max(0, start - margin.before)
        packer, keep = self._packer(source, first), self._keeper()
        granted = 0
        try:
            for frame in source.read(first, None if stop is None else stop + margin.after):
                if granted == packer.num_sealed:
                    self._gate.pass_one()
                    granted += 1
                if self._stopping():
                    return packer.num_frames
                if isinstance(packer, LentPacker):
                    packer.take(keep(frame), frame.index)
                else:
                    _copy_into(packer.slot(), frame.planes, frame.index, source.name)
                packer.repaired_pts = source.repaired_pts
                sealed = packer.push(frame.pts, frame.duration)
                if sealed is not None:
                    packer.size = self._pace.size_at(sealed.header.core[1])
                    self._sealed(sealed)
                if not packer.wants_frames:
                    break
            for sealed in packer.finish():
                if granted == sealed.header.sequence:
                    self._gate.pass_one()
                    granted += 1
                self._sealed(sealed)
        finally:
            packer.abandon()
        return packer.num_frames

    def _packer(self, source: Source, first: int) -> Packer:
        size, margin = self._pace.size_at(self._cores[0]), self._margin
        told: dict[str, Any] = {
            "stream": source.name,
            "plan_id": self._setup.run_id,
            "first_frame": first,
            "cores": self._cores,
        }
        if self._setup.lends(self._port):
            return LentPacker(self._setup.packed_spec(self._port), size, margin, **told)
        assert self._pool is not None  # frames that do not stay where they are go there
        return Packer(source.spec, size, margin, self._pool, **told)

    def _keeper(self) -> Callable[[Frame], tuple[Array, ...]]:
        """Return what gives the planes of a lent frame as they are packed: converted where a conversion reads them."""
        stages = [stage for stage in self._setup.plan.stages if self._port in stage.inputs and stage.implicit]
        if not stages or not self._setup.lends(self._port):
            return attrgetter("planes")
        (stage,) = stages
        spec = self._setup.packed_spec(self._port)
        self.conversion = OneByOne(stage, self._setup.sources[self._port].spec, FrameRooms(spec))
        return self.conversion

    def _view(self, source: Source, held: tuple[Any, Any]) -> int:
        planes, pts = held
        hyperframes = view(
            planes,
            pts,
            source.spec,
            self._pace.size_at,
            self._margin,
            stream=source.name,
            plan_id=self._setup.run_id,
            cores=self._cores,
        )
        for hyperframe in hyperframes:
            self._gate.pass_one()
            if self._stopping():
                break
            in_flight = self._setup.in_flight * self._setup.largest
            source.let_go(hyperframe.header.read[0] - in_flight)  # what no hyperframe in flight reads
            self._sealed(hyperframe)
        return len(pts)


def _copy_into(slot: tuple[Any, ...], planes: tuple[Any, ...], index: int, source: str) -> None:
    for target, plane in zip(slot, planes, strict=True):
        if target.shape != plane.shape:
            raise shape_error(source, index, expected=target.shape, got=plane.shape)
        np.copyto(target, plane)
