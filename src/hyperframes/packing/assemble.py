"""When frames of live streams become a hyperframe: consecutive frames of one stream, or one instant of several.

Pure: time is given in monotonic nanoseconds (`now_ns`, when something happens here) and in Unix nanoseconds (`time_ns`, when
a frame was taken). Frames are written where they stay; nobody waits and nothing is locked here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.packing.hyperframe import Header, Hyperframe
from hyperframes.packing.ranges import validate_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hyperframes.frames import Array, FrameSpec
    from hyperframes.packing.pack import Packer
    from hyperframes.packing.slab import Slab, SlabPool

__all__ = ["LIVE_TIME_BASE", "Filled", "Instants", "Packing", "Series"]

LIVE_TIME_BASE = Fraction(1, 1_000_000_000)
"""Live frames count Unix nanoseconds."""
USUAL_PERIOD_NS = 1e9 / 30
"""Between two frames, until it is known."""
SPATIAL_LEAST_NS = 150_000_000
"""How long an instant waits for a stream that is there, where the budget leaves the time: a busy machine lets a capture
thread wait longer than one and a half frames, and its frames are not lost for that."""
PACK_SHARE = 0.6
"""Share of a latency budget that waiting for frames may take (W4)."""
OPEN_GROUPS, OPEN_GROUPS_MOST = 4, 8
"""Instants (or runs of them) that may be open at once, at least and at most; a frame of a later one seals the first."""
SHORTEST_SECONDS, LONGEST_SECONDS = 1e-6, 1e9
"""Of every time that a packing or a run is told: from a microsecond to 31 years."""
SKIPPED_AT_ONCE = 2
"""Instants that a frame may skip beyond those for which there was time: one further ahead has a clock that is wrong, and must
not make the frames of all others late."""
MISFITS = 3
"""Frames in a row that fit no instant, of more than half of the streams: then it is the instants that are wrong."""
JITTER_NS = 2_000_000
"""How far from half a period a frame may be and still belong to an instant: what senders' clocks wander."""

PERIOD_ERROR = 0.01
"""Share by which the time between two instants may be wrong: less is followed by itself."""
FOLLOW = 1 / 64
"""Share of what frames have moved against their instants, on average, by which the instants to come are moved; of that, a quarter of the
same share goes to the time between two, so that clocks which run a little off are met in the middle (a second-order loop)."""


def _is_time(value: object, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= LONGEST_SECONDS


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


@dataclass(frozen=True, slots=True)
class Packing:
    """How live frames become hyperframes.

    Raises
    ------
    PipelineError
        If a value makes no sense, or two do not fit together.

    Examples
    --------
    >>> Packing(size=8, timeout=0.2)
    Packing(size=8, timeout=0.2, kind='temporal', trigger='count')
    >>> Packing(kind="spatial").instants
    1
    """

    size: int | None = None
    """Core frames of a full hyperframe, by default 8; spatial: instants, by default 1."""
    timeout: float | None = None
    """Seconds after its first frame at which a hyperframe is sealed short; default ``min(1.5 * size / fps, 0.6 * latency)``,
    where instants of several streams wait for at least 0.15 s rather than 1.5 instants."""
    kind: Literal["temporal", "spatial", "both"] = "temporal"
    trigger: Literal["count", "window", "event", "latency"] = "count"
    """``count``: when full or after the timeout. ``window``: at every multiple of `window`, or when full. ``event``: when
    told. ``latency``: when full, or when waiting longer would break the budget."""
    window: float = field(default=0.5, repr=False)
    """Seconds, for the trigger of that name."""
    event: Literal["seal", "start"] = field(default="seal", repr=False)
    """``seal``: an event seals what is there. ``start``: an event starts a hyperframe; frames between two are filtered."""
    latency: float | None = field(default=None, repr=False)
    """Seconds from a hyperframe's first frame to its result: the budget that timeout, queue and age limit follow from."""
    tolerance: float | None = field(default=None, repr=False)
    """Seconds a frame may be away from its instant; default half a period, and 2 ms for the clocks."""
    lateness: float = field(default=0.0, repr=False)
    """Seconds that a full hyperframe waits for frames that were overtaken."""
    pad: bool = field(default=False, repr=False)
    """Whether operators that look at one frame at a time always get full calls: short ones are filled up by their last
    frame, and the mask says so."""

    def __post_init__(self) -> None:
        for name, known in _WORDS.items():
            if getattr(self, name) not in known:
                raise PipelineError(
                    f"packing.{name}: expected one of {', '.join(known)}, got {getattr(self, name)!r}",
                    expected=known,
                    got=getattr(self, name),
                )
        if self.size is not None:
            validate_size(self.size)
        for name in ("timeout", "window", "latency", "tolerance", "lateness"):
            value: object = getattr(self, name)  # of callers that check no types
            least = 0 if name == "lateness" else SHORTEST_SECONDS
            if (name in {"window", "lateness"} or value is not None) and not _is_time(value, least):
                said = f"from {least:g} to {LONGEST_SECONDS:g} seconds"
                raise PipelineError(f"packing.{name}: expected {said}, got {value!r}", got=value)
        if self.trigger == "latency" and self.latency is None:
            raise PipelineError("the trigger 'latency' needs a budget", hint="For example --latency 200ms.")

    @property
    def instants(self) -> int:
        """`size` or its default."""
        if self.size is not None:
            return self.size
        return 8 if self.kind == "temporal" else 1

    def timeout_ns(self, period_ns: float, size: int) -> int:
        """Return how long a hyperframe of `size` frames `period_ns` apart may fill."""
        if self.timeout is not None:
            return _ns(self.timeout)
        window = 1.5 * size * period_ns
        if self.kind != "temporal":
            window = max(window, SPATIAL_LEAST_NS)
        return round(window if self.latency is None else min(window, PACK_SHARE * self.latency * 1e9))

    def deadline_ns(self, opened_ns: int, period_ns: float, size: int, ahead_ns: int) -> int | None:
        """Return when a hyperframe opened at `opened_ns` is to be sealed, full or not; None: when told.

        `ahead_ns` is what it will still take from the seal to its result.
        """
        if self.trigger == "window":
            width = _ns(self.window)
            return (opened_ns // width + 1) * width
        if self.trigger == "latency" and self.latency is not None:
            return opened_ns + max(0, min(_ns(self.latency) - ahead_ns, self.timeout_ns(period_ns, size)))
        if self.trigger == "event" and self.timeout is None:
            return None
        return opened_ns + self.timeout_ns(period_ns, size)

    def open_groups(self, period_ns: float) -> int:
        """Return how many instants `period_ns` apart (or runs of them) may be open at once: those that begin until the first is due."""
        begun = 1 + math.ceil(self.timeout_ns(period_ns, self.instants) / (period_ns * self.instants))
        return min(max(OPEN_GROUPS, begun), OPEN_GROUPS_MOST)

    @property
    def deadline_reason(self) -> str:
        """Why a hyperframe is sealed at its deadline."""
        return self.trigger if self.trigger in {"window", "latency"} else "timeout"


_WORDS = {
    "kind": ("temporal", "spatial", "both"),
    "trigger": ("count", "window", "event", "latency"),
    "event": ("seal", "start"),
}


class Filled(NamedTuple):
    """A hyperframe just sealed."""

    hyperframe: Hyperframe
    opened_ns: int
    """When its first frame came, monotonic."""
    epochs: tuple[int, ...] = ()
    """Of instants: that of each stream's frames, -1 where it has none."""


class Series:
    """Consecutive frames of one stream's epoch: a packer and the rules when it seals.

    Parameters
    ----------
    packer : Packer
        That holds nothing back.
    packing : Packing
        The rules.
    ahead_ns : function
        Returns what it takes at present from a seal to its result.
    """

    def __init__(self, packer: Packer, packing: Packing, ahead_ns: Callable[[], int]) -> None:
        self.packer, self.packing = packer, packing
        self.period_ns = USUAL_PERIOD_NS
        self.opened_ns: int | None = None
        """When the first frame of the hyperframe being filled came; None while there is none."""
        self.deadline_ns: int | None = None
        """When it is sealed, full or not; None where it is not, or while there is none."""
        self._ahead_ns = ahead_ns
        self._started = packing.trigger != "event" or packing.event == "seal"
        self._lateness_ns = _ns(packing.lateness)
        self._newest_ns = -1
        self._newest_key = self._sealed_key = -1
        self.key_is_id = True
        """Whether frames are ordered by their ids, not their times."""
        self._stamp = (0, 0, 0)  # id, time and key of the frame being written
        self._back = 0

    def slot(self, frame_id: int, time_ns: int, key: int) -> tuple[Array, ...] | str:
        """Return where the next frame goes, or why it is not taken: ``late``, ``filtered``, ``queue_full``.

        `key` orders frames: the id where the sender gives one, else the time.
        """
        if not self._started:
            return "filtered"
        back = 0
        if key < self._newest_key:
            if key <= self._sealed_key:
                return "late"
            back = sum(1 for held in self._open_keys() if held > key)
            if back > self.packer.num_movable:
                return "late"
        planes = self.packer.find_slot()
        if planes is None:
            return "queue_full"
        self._stamp, self._back = (frame_id, time_ns, key), back
        return planes

    def _open_keys(self) -> Iterator[int]:
        by_id = self.key_is_id
        for pts, frame_id in self.packer.open_times():
            yield frame_id if by_id else pts

    def order_by(self, *, ids: bool) -> None:
        """Say whether keys are ids or times."""
        if ids != self.key_is_id:
            self.key_is_id = ids
            self._newest_key = self._sealed_key = -1

    def push(self, now_ns: int) -> list[Filled]:
        """Take the frame that was written; return what it completes."""
        frame_id, time_ns, key = self._stamp
        packer = self.packer
        packer.add(time_ns, 0, frame_id, back=self._back)
        if time_ns > self._newest_ns:  # noqa: PLR1730 - asked for every frame, and a call of max costs more
            self._newest_ns = time_ns
        if key > self._newest_key:  # noqa: PLR1730 - as above
            self._newest_key = key
        if self.opened_ns is None:
            self._open(now_ns)
        deadline = self.deadline_ns
        if not packer.is_full and (deadline is None or now_ns < deadline):
            return []
        return self.due(now_ns)

    def _open(self, now_ns: int | None) -> None:
        """Begin to fill a hyperframe now; None: there is none to be filled."""
        self.opened_ns = now_ns
        self.deadline_ns = None
        if now_ns is not None:
            ahead_ns = self._ahead_ns() if self.packing.trigger == "latency" else 0
            self.deadline_ns = self.packing.deadline_ns(now_ns, self.period_ns, self.packer.size, ahead_ns)

    def _is_due(self, now_ns: int) -> bool:
        deadline = self.deadline_ns
        return deadline is not None and now_ns >= deadline

    def due(self, now_ns: int) -> list[Filled]:
        """Return what is full, or was to be sealed by now."""
        sealed = []
        while self.packer.num_ready >= self.packer.size and (self._passed() or not self.packer.has_room):
            sealed.append(self._seal("full", now_ns))
        if self._is_due(now_ns) and self.packer.num_ready:
            sealed.append(self._seal(self.packing.deadline_reason, now_ns))
        return sealed

    def _passed(self) -> bool:
        """Whether no frame of the full hyperframe can be missing any more: the watermark has passed its last."""
        if not self._lateness_ns:
            return True
        return self._newest_ns - self._lateness_ns >= self.packer.time_at(self.packer.size - 1)

    def event(self, now_ns: int) -> list[Filled]:
        """Take note of an event: seal what is there, or start."""
        sealed = [self._seal("event", now_ns)] if self.packer.num_ready else []
        self._started = True
        return sealed

    def finish(self, reason: str) -> list[Filled]:
        """Return what is left: no frame follows in this epoch."""
        opened_ns = self.opened_ns or 0
        self._open(None)
        return [Filled(hyperframe, opened_ns) for hyperframe in self.packer.finish(reason)]

    def _seal(self, reason: str, now_ns: int) -> Filled:
        hyperframe = self.packer.seal(reason)
        assert hyperframe is not None  # frames were ready
        opened_ns = now_ns if self.opened_ns is None else self.opened_ns
        header = hyperframe.header
        last = (header.frame_ids if self.key_is_id else header.pts)[hyperframe.core][-1]
        self._sealed_key = max(self._sealed_key, int(last))
        self._open(now_ns if self.packer.num_open else None)
        self._started = self.packing.trigger != "event" or self.packing.event == "seal"
        return Filled(hyperframe, opened_ns)


def blank_missing(hyperframe: Hyperframe) -> None:
    """Make the frames that a sealed hyperframe has none of black: the slab still holds older ones there.

    It takes a copy's time a frame, so whoever works on the hyperframe does it: the lock under which instants are sealed
    is one that every stream waits for.
    """
    slab, offset = hyperframe.slab, hyperframe.offset
    if slab is None or hyperframe.mask.all():
        return
    for missing in np.flatnonzero(~hyperframe.mask).tolist():
        for plane in slab.planes:
            plane[offset + missing] = 0


class _Group:
    """One run of instants being filled: rows of as many places as there are streams."""

    __slots__ = (
        "arrived",
        "count",
        "deadline_ns",
        "epochs",
        "first",
        "ids",
        "last",
        "mask",
        "opened_ns",
        "passed",
        "pts",
        "reason",
        "slab",
        "width",
        "writing",
    )

    def __init__(self, slab: Slab, first: int, size: int, width: int, opened_ns: int) -> None:
        self.slab, self.first, self.width, self.opened_ns = slab, first, width, opened_ns
        self.last = first + size - 1
        self.deadline_ns: int | None = None
        self.mask = bytearray(size * width)
        self.ids = [-1] * (size * width)  # lists: to set one number of an array costs five times that
        self.pts = [-1] * (size * width)
        self.epochs = [-1] * width
        self.count = 0
        """Frames written."""
        self.arrived: list[int] = []
        """Places of frames whose sender does not tell when they were taken."""
        self.writing = 0
        """Frames being copied."""
        self.passed = 0
        """Streams that are there and will bring no more frame for it."""
        self.reason = ""
        """Why it is sealed as soon as nobody writes to it; empty while it is open."""

    @property
    def sender(self) -> bool:
        """Whether all times are the senders'."""
        return not self.arrived

    def is_full(self) -> bool:
        """Whether every place has its frame."""
        return self.count == len(self.mask)

    def num_rows(self) -> int:
        """Return how many rows there are up to the last one that holds a frame."""
        return -(-(self.mask.rfind(1) + 1) // self.width)


class Instants:
    """One instant after the other over several streams: each frame goes to the instant it is nearest to.

    Instants are a period apart. A run of `size` of them is sealed when every stream that is there has brought its frame
    or a later one, at its deadline, or when a frame of a much later instant comes. Frames after that are late; a frame that
    is ahead of the time that has passed is `unmatched`. Where most streams' frames fit no instant any more, instants begin
    anew with the next frame. What lies in the place of a missing frame is whatever was there: see `blank_missing`.

    Parameters
    ----------
    spec : FrameSpec
        Of every frame of every stream.
    streams : sequence of str
        In the fixed order of the leading axis.
    slabs : SlabPool
        Of ``size * len(streams)`` frames each.
    packing : Packing
        The rules.
    plan_id : str
        The front of every hyperframe's id.
    ahead_ns : function
        Returns what it takes at present from a seal to its result.
    first : int
        Number of the first instant.
    waits : bool
        Whether a frame so far ahead that the first open instant would be sealed for it is refused as ``queue_full``:
        whoever writes it waits for the other streams.
    """

    def __init__(
        self,
        spec: FrameSpec,
        streams: Sequence[str],
        slabs: SlabPool,
        packing: Packing,
        *,
        plan_id: str,
        ahead_ns: Callable[[], int],
        first: int = 0,
        waits: bool = False,
    ) -> None:
        self.waits = waits
        self.spec, self.streams, self.slabs, self.packing, self.plan_id = spec, tuple(streams), slabs, packing, plan_id
        self.size = packing.instants
        self._anchor: tuple[int, float] | None = None  # an instant and its time
        self._centred = 0  # 1: the instants are in the middle of where frames stood once; 2: by the senders' clocks
        self._offs: list[float | None] = [None] * len(self.streams)  # of each stream's last frame from its instant
        self._moved_ns = 0.0  # how far frames have moved against their instants since, on average
        self.next_first = first
        """The first instant that no group holds yet, nor one before it."""
        self._sealed_until = first  # frames of instants before this one come too late
        self.set_period(USUAL_PERIOD_NS)
        self._ahead_ns = ahead_ns
        self._groups: list[_Group] = []
        self._present = [False] * len(self.streams)
        self._num_present = 0
        self._last = [first - 1] * len(self.streams)  # the newest instant of each stream
        self._oldest = [-(1 << 62)] * len(self.streams)  # the first instant that frames of its present epoch may be of
        self._last_ns = [-1] * len(self.streams)  # the time of its frame there
        self._opened_ns: int | None = None  # when the newest group was opened
        self._misfits = [0] * len(self.streams)  # frames in a row of each stream that fitted no instant
        self._num_misfits = 0  # streams that had so many of them that the instants may be wrong
        self._writing: list[tuple[_Group, int, int, int, int, bool] | None] = [None] * len(self.streams)
        self._started = packing.trigger != "event" or packing.event == "seal"

    def instant_ns(self, instant: int) -> float:
        """Return when `instant` is."""
        assert self._anchor is not None  # set by the first frame
        return self._anchor[1] + (instant - self._anchor[0]) * self.period_ns

    def set_period(self, period_ns: float) -> None:
        """Let instants that are not open yet be `period_ns` apart; the next frame says when the first of them is."""
        self._begin_anew()
        self.period_ns = period_ns
        self._tolerance_ns = period_ns / 2 + JITTER_NS
        self._arrival_sticks_ns = period_ns  # frames do not arrive as evenly as they are taken
        if self.packing.tolerance is not None:
            self._tolerance_ns = self._arrival_sticks_ns = self.packing.tolerance * 1e9
        self._most_open = OPEN_GROUPS if self.waits else self.packing.open_groups(period_ns)

    def _begin_anew(self) -> None:
        """Let the next frame say when the next instant is."""
        self._anchor = None
        self._centred = 0
        self._offs = [None] * len(self.streams)
        self._moved_ns = 0.0

    def meet_period(self, period_ns: float) -> None:
        """Let instants be as far apart as the streams' frames, where that is not nearly so already."""
        if abs(period_ns - self.period_ns) > PERIOD_ERROR * self.period_ns:
            self.set_period(period_ns)

    def slot(self, stream: int, frame_id: int, time_ns: int, now_ns: int, *, sender: bool) -> tuple[Array, ...] | str:
        """Return where a frame goes, or why it is not taken: ``late``, ``unmatched``, ``filtered``, ``queue_full``."""
        if not self._started:
            return "filtered"
        if self._anchor is None:
            self._anchor = (self.next_first, time_ns)
        at, at_ns = self._anchor
        period_ns, tolerance_ns = self.period_ns, self._tolerance_ns
        instant = self._last[stream] + 1  # the following, so that a camera between two stays with one of them
        sticks_ns = tolerance_ns if sender else self._arrival_sticks_ns
        if not -sticks_ns <= time_ns - at_ns - (instant - at) * period_ns <= sticks_ns:
            instant = at + math.floor((time_ns - at_ns) / period_ns + 0.5)
            if abs(time_ns - at_ns - (instant - at) * period_ns) > tolerance_ns:
                return "unmatched"
            if instant < self._last[stream] and time_ns > self._last_ns[stream]:
                return "unmatched"  # the instants began anew: it must not come before a frame that it follows
            if instant < self._oldest[stream]:
                self._note_misfit(stream)
                return "unmatched"
        for group in self._groups:
            if group.first <= instant <= group.last and not group.reason:
                break
        else:
            found = self._group_of(instant, now_ns)
            if isinstance(found, str):
                if found != "queue_full":
                    self._note_misfit(stream)
                return found
            group = found
        if self._misfits[stream]:
            self._fits_again(stream)
        place = (instant - group.first) * group.width + stream
        if group.mask[place]:
            return "unmatched"
        group.writing += 1
        self._writing[stream] = (group, instant, place, frame_id, time_ns, sender)
        return group.slab.slot(place)

    def _group_of(self, instant: int, now_ns: int) -> _Group | str:
        """Open a group for an instant that no open one holds."""
        if any(group.first <= instant <= group.last for group in self._groups):
            return "late"
        if instant < self.next_first:
            return self._fill_in(instant, now_ns)
        if self.waits and len(self._groups) >= self._most_open and self.deadline_ns is not None:
            return "queue_full"  # until that passes, at the latest
        first = instant - (instant - self.next_first) % self.size
        if first > self.next_first and self._is_astray(first, now_ns):
            return "unmatched"
        opened = self._open(first, now_ns, len(self._groups))
        if opened is None:
            return "queue_full"
        self._opened_ns = now_ns
        self.next_first = first + self.size
        return opened

    def _fill_in(self, instant: int, now_ns: int) -> _Group | str:
        """Open a group between others: for instants that a stream whose clock is ahead has skipped."""
        place = sum(group.last < instant for group in self._groups)
        low = self._groups[place - 1].last + 1 if place else self._sealed_until
        if instant < low or any(group.reason for group in self._groups[place:]):
            return "late"
        first = instant - (instant - low) % self.size
        if place < len(self._groups) and first + self.size > self._groups[place].first:
            return "late"
        group = self._open(first, now_ns, place)
        if group is None:
            return "queue_full"
        group.passed = self._num_passed(group)
        return group

    def _open(self, first: int, now_ns: int, place: int) -> _Group | None:
        """Open a group that begins with the instant `first`, before the one at `place`; None while there is no memory."""
        slab = self.slabs.find()
        if slab is None:
            return None
        group = _Group(slab, first, self.size, len(self.streams), now_ns)
        ahead_ns = self._ahead_ns() if self.packing.trigger == "latency" else 0
        group.deadline_ns = self.packing.deadline_ns(now_ns, self.period_ns, self.size, ahead_ns)
        self._groups.insert(place, group)
        return group

    def _is_astray(self, instant: int, now_ns: int) -> bool:
        """Whether more instants would be skipped than can have passed since the newest one began."""
        if (
            self.waits or self._opened_ns is None
        ):  # those who wait for each other are no further apart than that lets them
            return False
        passed = (now_ns - self._opened_ns) / self.period_ns
        return instant - self.next_first > passed + SKIPPED_AT_ONCE * self.size

    def _note_misfit(self, stream: int) -> None:
        """Take note of a frame that came too late or far too early; begin anew where that is so for most streams."""
        self._misfits[stream] += 1
        if self._misfits[stream] != MISFITS:
            return
        self._num_misfits += 1
        if 2 * self._num_misfits > max(1, self._num_present):
            self._begin_anew()
            self._misfits = [0] * len(self.streams)
            self._num_misfits = 0

    def _fits_again(self, stream: int) -> None:
        self._num_misfits -= self._misfits[stream] >= MISFITS
        self._misfits[stream] = 0

    def push(self, stream: int, epoch: int = 0) -> list[Filled]:
        """Take the frame that a stream has written in its epoch of that number; return what it completes."""
        writing = self._writing[stream]
        assert writing is not None  # a slot was given
        self._writing[stream] = None
        group, instant, place, frame_id, time_ns, sender = writing
        group.mask[place] = 1
        group.ids[place], group.pts[place] = frame_id, time_ns
        group.epochs[stream] = epoch
        group.count += 1
        if not sender:
            group.arrived.append(place)
        group.writing -= 1
        before = self._last[stream]
        if instant > before:
            self._last[stream], self._last_ns[stream] = instant, time_ns
            if self._present[stream]:
                for other in self._groups:
                    if before < other.last <= instant:
                        other.passed += 1
        first = self._groups[0]
        if not first.reason and first.passed < self._num_present and len(self._groups) <= self._most_open:
            return []  # as nearly always
        return self._collect()

    def give_up(self, stream: int) -> list[Filled]:
        """Take back a slot that could not be written; return what waited for it."""
        writing = self._writing[stream]
        if writing is not None:
            self._writing[stream] = None
            writing[0].writing -= 1
        return self._collect()

    def present(self, stream: int, there: bool) -> list[Filled]:
        """Say whether a stream is there to be waited for; return what need not wait any more."""
        self._present[stream] = there
        self._num_present = sum(self._present)
        for group in self._groups:
            group.passed = self._num_passed(group)
        return self._collect()

    def _num_passed(self, group: _Group) -> int:
        """Return how many streams are there and will bring no more frame for `group`."""
        return sum(there and last >= group.last for there, last in zip(self._present, self._last, strict=True))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is open or being written."""
        return not self._groups

    @property
    def deadline_ns(self) -> int | None:
        """When the first open group is sealed, full or not."""
        for group in self._groups:
            if not group.reason:
                return group.deadline_ns
        return None

    def due(self, now_ns: int) -> list[Filled]:
        """Return what was to be sealed by now."""
        while (deadline := self.deadline_ns) is not None and now_ns >= deadline:
            self._close_first(self.packing.deadline_reason)
        return self._collect()

    def event(self) -> list[Filled]:
        """Take note of an event: seal what is there, or start."""
        sealed = self._close_all("event")
        self._started = True
        return sealed

    def restart(self, stream: int) -> list[Filled]:
        """Begin another epoch of a stream: its frames come after all those before, no run of instants holds some of two."""
        self._oldest[stream] = self._last[stream] + 1
        if self.size == 1:
            return []
        last = max([i for i, group in enumerate(self._groups) if group.epochs[stream] >= 0], default=-1)
        while any(not group.reason for group in self._groups[: last + 1]):
            self._close_first("restart")
        return self._collect()

    def finish(self, reason: str) -> list[Filled]:
        """Seal everything that is open; what is being written is sealed with it by the last `push`."""
        return self._close_all(reason)

    def _close_all(self, reason: str) -> list[Filled]:
        while any(not group.reason for group in self._groups):
            self._close_first(reason)
        return self._collect()

    def _close_first(self, reason: str) -> None:
        """Seal the first open group as soon as nobody writes to it; instants that it has no frame of go to the next."""
        group = next(group for group in self._groups if not group.reason)
        group.reason = "full" if group.is_full() else reason
        if group is self._groups[-1] and self.size > 1:
            writing = [w[1] - group.first + 1 for w in self._writing if w is not None and w[0] is group]
            self.next_first = group.first + max([group.num_rows(), *writing, 1])

    def _collect(self) -> list[Filled]:
        """Take out what is complete or closed, and nobody writes to, in order."""
        sealed = []
        while self._groups:
            group = self._groups[0]
            if not group.reason and self._num_present and group.passed >= self._num_present:
                group.reason = "full" if group.is_full() else "watermark"
            if not group.reason and len(self._groups) > self._most_open:
                group.reason = "watermark"
            if not group.reason or group.writing:
                break
            self._groups.pop(0)
            self._sealed_until = min(group.last + 1, self.next_first)
            if not group.count:  # all its slots were given up
                self.slabs.release(group.slab)
                continue
            sealed.append(Filled(self._sealed(group), group.opened_ns, tuple(group.epochs)))
            self._started = self.packing.trigger != "event" or self.packing.event == "seal"
        return sealed

    def _follow(self, group: _Group) -> None:
        """Let the instants to come go with the streams' clocks, which are not exactly as fast as they say.

        What counts is how far each stream's frames have moved against their instants. Where they stand does not: streams that
        are spread over a whole period have no middle, and to look for one would turn the instants round and round.
        """
        if self._anchor is None:
            return
        low = group.mask.rfind(1) // group.width * group.width
        expected_ns, after = self.instant_ns(group.first + low // group.width), group.last + 1
        there = group.mask[low : low + group.width]
        offs = [ns - expected_ns if is_there else None for ns, is_there in zip(group.pts[low:], there, strict=False)]
        if 2 * len(group.arrived) < group.count:  # those who tell their times speak for all
            for place in group.arrived:
                if place >= low:
                    offs[place - low] = None
        held = sorted([off for off in offs if off is not None])
        if group.is_full() and self._centred < (2 if group.sender else 1):
            self._centred = 2 if group.sender else 1  # arrival may be all that was known before
            middle = held[len(held) // 2]
            self._anchor = (after, self.instant_ns(after) + middle)
            self._offs = [off - middle if off is not None else None for off in offs]
            self._moved_ns = 0.0
            return
        half = self.period_ns / 2
        moves = [
            move
            for off, before in zip(offs, self._offs, strict=True)
            if off is not None
            and before is not None
            and abs(move := (off - before + half) % self.period_ns - half)
            < half / 2  # whichever instant it was nearest to
        ]
        self._offs = [before if off is None else off for off, before in zip(offs, self._offs, strict=True)]
        if moves:
            self._moved_ns += sum(moves) / len(moves)
        self._anchor = (after, self.instant_ns(after) + self._moved_ns * FOLLOW)
        self.period_ns += self._moved_ns * FOLLOW * FOLLOW / 4 / self.size

    def _sealed(self, group: _Group) -> Hyperframe:
        self._follow(group)
        rows = self.size
        if self.size > 1 and not self.packing.pad:
            rows = group.num_rows()
        num = rows * group.width
        planes = []
        for plane in group.slab.planes:
            view = plane[:num]
            view.flags.writeable = False
            planes.append(view)
        header = Header(
            sequence=0,
            id=f"{self.plan_id}[{group.first},{group.first + rows})",
            streams=self.streams,
            core=(0, num),
            read=(0, num),
            pad_before=0,
            pad_after=0,
            frame_ids=np.array(group.ids[:num], np.int64),
            pts=np.array(group.pts[:num], np.int64),
            time_base=LIVE_TIME_BASE,
            kind=self.packing.kind,
            clock="capture" if group.sender else "arrival",
            seal_reason=group.reason,
        )
        mask = np.frombuffer(group.mask, bool, num)
        return Hyperframe(header, tuple(planes), slice(0, num), mask, self.spec, group.slab)
