"""The instants of a spatial live run: one group of streams, made anew when streams come or go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hyperframes.drivers.awake_lock import AwakeLock
from hyperframes.drivers.live_clocks import usual_period_ns
from hyperframes.drivers.live_memory import live_slabs
from hyperframes.drivers.room import Room
from hyperframes.errors import FrameError
from hyperframes.packing import Instants, SlabPool
from hyperframes.packing.assemble import USUAL_PERIOD_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hyperframes.drivers.station import Station
    from hyperframes.frames import FrameSpec
    from hyperframes.packing import Packing
    from hyperframes.packing.assemble import Filled

__all__ = ["InstantsHost", "LiveInstants"]


class InstantsHost(Protocol):
    """What the instants need of the run that they belong to."""

    id: str
    packing: Packing
    waits: bool
    """Whether a writer waits for room rather than dropping its frame."""

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        ...

    def sealed(self, station: Station | None, filled: list[Filled], slabs: SlabPool, now_ns: int) -> None:
        """Take what was sealed; `lock` is held."""
        ...


class LiveInstants:
    """Which streams stand side by side, and the instants that are being filled with their frames.

    Parameters
    ----------
    host : InstantsHost
        The run.
    there : function
        Returns the streams that are not over, in their order.
    plan : function
        Plans for hyperframes of so many frames of a spec, once; may take long.
    slabs : function
        Returns how many hyperframes there is memory for beside those being filled.
    ahead_ns : function
        Returns how long a hyperframe takes at present from its seal to its result.

    Attributes
    ----------
    lock : AwakeLock
        Held to find the group of a frame, and to commit to it; under the lock of its stream.
    room : Room
        Where writers wait for memory.
    """

    def __init__(
        self,
        host: InstantsHost,
        *,
        there: Callable[[], Sequence[Station]],
        plan: Callable[[FrameSpec, int], object],
        slabs: Callable[[], int],
        ahead_ns: Callable[[], int],
    ) -> None:
        self.lock, self.room = AwakeLock(), Room()
        self._host, self._there, self._plan, self._slabs = host, there, plan, slabs
        self._ahead_ns = ahead_ns
        self._instants: Instants | None = None
        self._first = 0
        self._before: list[Instants] = []  # those before, to which somebody is still writing a frame
        self._held: list[tuple[Instants, list[Filled], int]] = []  # sealed meanwhile

    @property
    def current(self) -> Instants:
        """Those that streams write to; `lock` is held."""
        assert self._instants is not None  # made when the first stream was opened
        return self._instants

    @property
    def deadline_ns(self) -> int | None:
        """When the next one is to be sealed."""
        return None if self._instants is None else self._instants.deadline_ns

    @property
    def period_ns(self) -> float:
        """Between two of them."""
        return USUAL_PERIOD_NS if self._instants is None else self._instants.period_ns

    def open(self, station: Station, spec: FrameSpec) -> None:
        """Let a stream of frames of `spec` take part.

        Raises
        ------
        FrameError
            If those of the others have another shape.
        """
        if self._instants is None:
            self._plan(spec, max(1, len(self._there())))  # may load and compile: nobody is to wait for that at the lock
        with self.lock:
            if self._instants is None:
                self._make(spec)
            elif not self._instants.spec.same_arrays(spec):
                raise FrameError(
                    f"all streams of spatial hyperframes must have frames of one shape: "
                    f"expected {self._instants.spec}, got {spec} from {station.name!r}",
                    expected=self._instants.spec,
                    got=spec,
                    hint="Let the cameras send one size, or use --kind temporal.",
                )
            station.spec = spec  # from now on: a stream that comes or goes meanwhile makes the instants anew

    def regroup(self) -> None:
        """Begin anew with the streams that are there now: they fix the width of spatial hyperframes."""
        with self.lock:
            self._finish("change")
            spec = next((station.spec for station in self._there() if station.spec is not None), None)
            if spec is not None:
                self._make(spec)

    def _make(self, spec: FrameSpec) -> None:
        """Begin instants of frames of `spec` with the streams that are there; `lock` is held."""
        there, packing = self._there(), self._host.packing
        for place, station in enumerate(there):
            station.place = place
        self._plan(spec, len(there))
        period_ns = usual_period_ns(there) or (float(1e9 / spec.rate) if spec.rate else USUAL_PERIOD_NS)
        count = self._slabs() + packing.open_groups(period_ns) + 1
        slabs = live_slabs(spec, packing.instants * len(there), count)
        if self._host.waits:
            slabs.on_free = self.room.freed
        self._instants = Instants(
            spec,
            [station.name for station in there],
            slabs,
            packing,
            plan_id=f"{self._host.id}/instants",
            ahead_ns=self._ahead_ns,
            first=self._first,
            waits=self._host.waits,
        )
        self._instants.set_period(period_ns)
        for station in there:
            if station.spec is not None and station.state == "connected":
                self._instants.present(station.place, True)

    def finish(self) -> None:
        """Seal what is there, at the end of the run."""
        with self.lock:
            self._finish("end")

    def _finish(self, reason: str) -> None:
        old, self._instants = self._instants, None
        if old is not None:
            self._before.append(old)
            self.take(old, old.finish(reason), self._host.now_ns())
            self._first = old.next_first

    def take(self, instants: Instants, filled: list[Filled], now_ns: int) -> None:
        """Pass on what was sealed of `instants`, after all that was begun before them; `lock` is held."""
        if not self._before:  # as nearly always
            self._host.sealed(None, filled, instants.slabs, now_ns)
            return
        self._held.append((instants, filled, now_ns))
        while self._before:
            first = self._before[0]
            self._pass_on(first)
            if not first.is_empty:
                return
            self._before.pop(0)
        for one in dict.fromkeys(held for held, _, _ in self._held):
            self._pass_on(one)

    def _pass_on(self, instants: Instants) -> None:
        """Pass on what is held of `instants`."""
        held, self._held = self._held, [one for one in self._held if one[0] is not instants]
        for one, filled, now_ns in held:
            if one is instants:
                self._host.sealed(None, filled, instants.slabs, now_ns)

    def due(self, now_ns: int) -> None:
        """Seal what is due by now."""
        if self._instants is not None:
            with self.lock:
                if (instants := self._instants) is not None:
                    self.take(instants, instants.due(now_ns), now_ns)

    def event(self, now_ns: int) -> None:
        """Take note of an event."""
        with self.lock:
            if (instants := self._instants) is not None:
                self.take(instants, instants.event(), now_ns)

    def meet_period(self) -> None:
        """Let instants be as far apart as the frames of most streams."""
        period_ns = usual_period_ns(self._there())
        with self.lock:
            if self._instants is not None and period_ns is not None:
                self._instants.meet_period(period_ns)
