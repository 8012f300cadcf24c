"""What a live run hands over: one result a frame, to callbacks whose faults are their own. Called by one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperframes.drivers.entry import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hyperframes.drivers.entry import Entry
    from hyperframes.instruments import Observation

__all__ = ["Failures", "HandingOver", "LiveResult"]


class LiveResult:
    """What came out for one frame; holds no pixels of it.

    Pictures that an operator makes are lent: copy `value` to keep it beyond the callback.
    """

    __slots__ = (
        "__weakref__",
        "clock",
        "epoch",
        "frame_id",
        "hyperframe",
        "provisional",
        "pts_ns",
        "sequence",
        "stream",
        "value",
    )

    stream: str
    frame_id: int
    """The sender's number, or a count from 0 in each epoch."""
    pts_ns: int
    """Unix nanoseconds by `clock`."""
    clock: str
    """``capture``: the sender's; ``arrival``: when it came here."""
    value: Any
    """The operator's output for this frame: an array, or a dict of columns for records; by name where it has several.
    Spans come when they have ended, with `start`, `stop` (positions in the epoch) and `start_ns`."""
    hyperframe: str
    """Id of the hyperframe it was in."""
    sequence: int
    """Number of that hyperframe; -1 while it has none."""
    epoch: int
    provisional: bool
    """True for a result that came before the hyperframe was full; the final one of the same frame follows."""

    def __init__(
        self,
        stream: str,
        frame_id: int,
        pts_ns: int,
        clock: str,
        value: Any,
        hyperframe: str,
        sequence: int,
        epoch: int,
        *,
        provisional: bool = False,
    ) -> None:
        self.stream, self.frame_id, self.pts_ns, self.clock, self.value = stream, frame_id, pts_ns, clock, value
        self.hyperframe, self.sequence, self.epoch = hyperframe, sequence, epoch
        self.provisional = provisional

    @property
    def timestamp(self) -> float:
        """`pts_ns` in seconds."""
        return self.pts_ns / 1e9

    def __repr__(self) -> str:
        return f"LiveResult({self.stream!r}, frame {self.frame_id}, {self.timestamp:.3f} s)"


class HandingOver:
    """Unpacks hyperframes whose operators are done, and calls back for each of their frames.

    Parameters
    ----------
    on_result : function or sequence of functions, optional
        The callbacks. Those that have a method `settle` are told by it that all frames of a hyperframe were given: only when
        it returns may observers be told that the hyperframe was delivered.
    now_ns : function
        Tells the time.
    tell : function
        Tells observers of callbacks that raise.
    provisional : bool
        Whether the first frame of a hyperframe may have a result before the others.
    """

    def __init__(
        self,
        on_result: Callable[[LiveResult], Any] | Iterable[Callable[[LiveResult], Any]] | None,
        now_ns: Callable[[], int],
        tell: Callable[..., None],
        *,
        provisional: bool,
    ) -> None:
        self.errors = 0
        """How often a callback raised."""
        self._callbacks = _callbacks(on_result)
        self._settles = tuple(callback.settle for callback in self._callbacks if hasattr(callback, "settle"))
        self._now_ns, self._tell, self._provisional = now_ns, tell, provisional
        self._handed: dict[str, tuple[int, int]] = {}  # by stream, where provisional: epoch and end of the last core

    def final(self, entry: Entry) -> None:
        """Give each real frame's result to the callbacks; the delivering thread calls it."""
        hyperframe, header, stations = entry.hyperframe, entry.hyperframe.header, entry.stations
        core = hyperframe.core
        values, left_out = values_of(entry)
        ids, pts, mask = header.frame_ids[core].tolist(), header.pts[core].tolist(), hyperframe.mask[core].tolist()
        epochs = entry.epoch if isinstance(entry.epoch, tuple) else (entry.epoch,)
        width = len(stations)
        delivered, filtered = [0] * width, [0] * width
        names = [station.name for station in stations]
        callbacks, clock, id_, sequence = self._callbacks, header.clock, header.id, entry.sequence
        for i, frame_id in enumerate(ids):
            if not mask[i]:
                continue
            place = i % width
            if left_out is not None and left_out[i]:
                filtered[place] += 1
                continue
            delivered[place] += 1
            if callbacks:
                result = LiveResult(names[place], frame_id, pts[i], clock, values[i], id_, sequence, epochs[place])
                for callback in callbacks:
                    try:
                        callback(result)
                    except BaseException as error:  # noqa: BLE001 - a callback's fault is its own, also sys.exit()
                        self._raised(error)
        for settle in self._settles:
            try:
                settle()
            except BaseException as error:  # noqa: BLE001 - a callback's fault is its own, also sys.exit()
                self._raised(error)
        if self._provisional:
            self._handed[stations[0].name] = (entry.epoch, header.core[1])
        for station, count, fewer in zip(stations, delivered, filtered, strict=True):
            station.account.deliver(count, filtered=fewer)
        entry.handed_ns = self._now_ns()

    def first(self, entry: Entry) -> None:
        """Give a provisional result to the callbacks, unless the final one was quicker."""
        header, (station,) = entry.hyperframe.header, entry.stations
        if self._handed.get(station.name, (-1, 0)) >= (entry.epoch, header.core[1]):
            return
        values, left_out = values_of(entry)
        if left_out is None or not left_out[0]:
            at, pts = int(header.frame_ids[0]), int(header.pts[0])
            result = LiveResult(
                station.name, at, pts, header.clock, values[0], header.id, -1, entry.epoch, provisional=True
            )
            for callback in self._callbacks:
                try:
                    callback(result)
                except BaseException as error:  # noqa: BLE001 - a callback's fault is its own, also sys.exit()
                    self._raised(error)

    def _raised(self, error: BaseException) -> None:
        """Count what a callback raised, and tell it."""
        self.errors += 1
        if self.errors & (self.errors - 1) == 0:  # 1, 2, 4, 8, ...: no storm of warnings
            times = "" if self.errors == 1 else f" ({self.errors} times so far)"
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._tell("warning", message=f"on_result raised {said}{times}")


class Failures:
    """Hyperframes on which operators failed, as people are told of them: the first, second, fourth, eighth, ... only."""

    def __init__(self) -> None:
        self.first = ""
        """What the first one said."""
        self._count = 0

    def note(self, observation: Observation) -> str | None:
        """Take note where an observation tells of one; return what to tell people, or None."""
        if observation["kind"] != "dropped" or observation["reason"] != "failed":
            return None
        self._count += 1
        error = observation.get("error") or "an operator failed"
        self.first = self.first or error
        if self._count & (self._count - 1):
            return None
        times = "" if self._count == 1 else f" ({self._count} hyperframes so far)"
        return f"{', '.join(observation['streams'])}: {error}{times}"


def _callbacks(on_result: Any) -> tuple[Callable[[LiveResult], Any], ...]:
    if on_result is None:
        return ()
    return (on_result,) if callable(on_result) else tuple(on_result)
