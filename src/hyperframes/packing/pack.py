"""Frames in, hyperframes out: one packer for files and cameras, sealing as frames arrive."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from itertools import count, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hyperframes.errors import FrameError, SchedulingError
from hyperframes.frames import Counting, Frame
from hyperframes.packing.align import missing_ranges
from hyperframes.packing.halo import Boundary, Halo
from hyperframes.packing.hyperframe import Header, Hyperframe, window
from hyperframes.packing.ranges import validate_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hyperframes.frames import Array, FrameSpec
    from hyperframes.packing.lent import LentPlane
    from hyperframes.packing.slab import Slab, SlabPool

__all__ = ["Memory", "Packer", "hyperframe_id", "pack", "pad", "repack", "shape_error", "slab_capacity", "view"]


def slab_capacity(size: int, halo: Halo) -> int:
    """Return how many frames a slab should hold so that halo frames are seldom copied.

    One hyperframe a slab when the core is at least as long as the halo, several small ones otherwise.
    """
    per_slab = max(1, -(-halo.total // size))
    return halo.before + per_slab * size + max(halo.after, 1)


def hyperframe_id(plan_id: str, core: tuple[int, int]) -> str:
    """Return the id of the hyperframe that owns `core`: the same in every run of one plan."""
    return f"{plan_id}[{core[0]},{core[1]})"


def shape_error(stream: str, index: int, *, expected: tuple[int, ...], got: tuple[int, ...]) -> FrameError:
    """Return the error about a frame of another shape than its stream's."""
    return FrameError(
        f"all frames of {stream} must have one shape: expected {expected}, got {got} in frame {index}",
        expected=expected,
        got=got,
        index=index,
    )


class Memory(NamedTuple):
    """Where the frames of a hyperframe lie."""

    planes: tuple[Array, ...]
    slab: Slab | None
    offset: int
    """Slot of the slab at which they begin."""
    lent: tuple[LentPlane, ...] = ()
    """Where they stay with their source: by plane."""


class Packer:
    """Copies frames into slabs and seals hyperframes that view them.

    A hyperframe is sealed once its halo has arrived and it is known whether the stream goes on, so the last core
    is held back until the next frame or the end; a live run does not wait for that. Nothing is taken on trust: the length
    is what was pushed. Not thread-safe; whoever releases slabs must share the pool's lock with `slot`.

    Parameters
    ----------
    spec : FrameSpec
        Of every frame.
    size : int
        Frames a full hyperframe owns.
    halo : Halo
        Frames to hold on each side of the core where the stream has them (already widened by `Boundary.reach`).
    slabs : SlabPool
        Of `slab_capacity(size, halo)` frames each.
    stream : str
        Name of the stream, for headers.
    plan_id : str
        Source and plan hash, the front of every hyperframe's id.
    first_frame : int
        Position of the first frame that will be pushed.
    cores : (start, stop)
        The part of the stream that cores cover; frames outside are halo only. `stop` None: to the end.
    holds_back : bool
        Whether the last core waits until it is known to be the last.
    """

    def __init__(
        self,
        spec: FrameSpec,
        size: int,
        halo: Halo,
        slabs: SlabPool,
        *,
        stream: str = "source",
        plan_id: str = "",
        first_frame: int = 0,
        cores: tuple[int, int | None] = (0, None),
        holds_back: bool = True,
    ) -> None:
        self.spec, self._size, self.halo, self.slabs = spec, validate_size(size), halo, slabs
        self.clock: Literal["media", "capture", "arrival"] = "media"
        """What the times pushed count; for headers."""
        self.stream, self.plan_id = stream, plan_id
        self.num_frames = first_frame
        """One past the position of the last frame pushed."""
        self.num_sealed = 0
        self.repaired_pts = False
        """Set by the driver when the source says that it rebuilt times."""
        self._first_frame = first_frame
        self._core_start, self._last_core = cores
        self._slab: Slab | None = None
        self._base = first_frame  # stream position of the slab's first slot
        self._times: deque[tuple[int, int, int]] = deque()  # (pts, duration, id) from self._times_from on
        self._times_from = first_frame
        self._ahead = max(halo.after, 1) if holds_back else halo.after
        self._id_before: int | None = None  # of the last frame sealed
        self._read_stop = first_frame  # of the last hyperframe sealed
        self._fits_until = first_frame  # frames before this position go to the slab at hand, nothing asked

    @property
    def size(self) -> int:
        """Frames a full hyperframe owns; it may change at any time."""
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        self._size, self._fits_until = size, 0

    @property
    def wants_frames(self) -> bool:
        """Whether another frame can matter: False once the last core of a range is sealed."""
        return self._last_core is None or self._core_start < self._last_core

    @property
    def num_open(self) -> int:
        """Frames pushed that no hyperframe owns yet."""
        return self.num_frames - self._core_start

    @property
    def num_ready(self) -> int:
        """Of those: frames whose halo has arrived, and the frame after them where that is waited for."""
        ready = self.num_frames - self._core_start - self._ahead
        return 0 if ready < 0 else min(ready, self._size)

    @property
    def is_full(self) -> bool:
        """Whether as many frames are ready as a full hyperframe owns."""
        return self.num_frames - self._core_start - self._ahead >= self._size

    @property
    def has_room(self) -> bool:
        """Whether one more frame fits in a slab with those that are still needed."""
        return self.num_frames + 1 - self._keep_from() <= self.slabs.capacity

    @property
    def num_movable(self) -> int:
        """Frames at the end that no sealed hyperframe reads."""
        return self.num_frames - max(self._read_stop, self._core_start)

    def slot(self) -> tuple[Array, ...]:
        """Return the writable arrays of the next frame's slot, one per plane."""
        slot = self.find_slot()
        if slot is None:
            raise SchedulingError(f"no free slab: all {self.slabs.count} are leased")
        return slot

    def find_slot(self) -> tuple[Array, ...] | None:
        """Return the writable arrays of the next frame's slot, one per plane; None while all slabs are held."""
        slab = self._slab
        if slab is None or self.num_frames >= self._fits_until:
            if slab is None:
                slab, self._base = self.slabs.find(), self.num_frames
            elif self._room_needed() - self._base > slab.capacity:
                slab = self._carry_over(slab)
            if slab is None:
                return None
            self._slab = slab
            whole = self._core_start + self._size + self._ahead
            self._fits_until = self._base + slab.capacity if whole - self._base <= slab.capacity else 0
        return slab.slot(self.num_frames - self._base)

    def push(self, pts: int, duration: int = 0) -> Hyperframe | None:
        """Count the frame written to the slot; return the hyperframe that it completes, if it does."""
        self.add(pts, duration, self.num_frames)
        stop = self._core_stop()
        last = stop == self._last_core
        needed = stop + (self.halo.after if last else self._ahead)
        if not self.wants_frames or self.num_frames < needed:
            return None
        return self._seal(stop, end=last, stream_length=None)

    def add(self, pts: int, duration: int, frame_id: int, *, back: int = 0) -> None:
        """Count the frame written to the slot, under an id of its own; seal nothing.

        `back` says how many frames it came too late by, at most `num_movable`: it is moved in front of them.
        """
        times = self._times
        times.append((pts, duration, frame_id))
        self.num_frames += 1
        if back and self._slab is not None:
            last = self.num_frames - 1 - self._base
            for plane in self._slab.planes:
                frame = plane[last].copy()
                plane[last - back + 1 : last + 1] = plane[last - back : last]
                plane[last - back] = frame
            times.rotate(1)  # to the front, and from there to its place
            moved = times.popleft()
            times.insert(len(times) - back, moved)

    def seal(self, reason: str) -> Hyperframe | None:
        """Seal the frames whose halo has arrived, now; None where there are none."""
        ready = self.num_ready
        return self._seal(self._core_start + ready, end=False, stream_length=None, reason=reason) if ready else None

    def first(self) -> Hyperframe | None:
        """Return the first frame that no hyperframe owns yet as one of its own, which changes nothing; None if there is none.

        For packers without a halo.
        """
        start, slab = self._core_start, self._slab
        if slab is None or not self.num_open:
            return None
        pts, duration, frame_id = self._times[start - self._times_from]
        self.slabs.hold(slab)
        return _hyperframe(
            tuple(plane[start - self._base : start - self._base + 1] for plane in slab.planes),
            (np.array([pts], np.int64), np.array([duration], np.int64)),
            (start, start + 1),
            (start, start + 1),
            self.spec,
            sequence=self.num_sealed,
            stream=self.stream,
            plan_id=self.plan_id,
            end=False,
            stream_length=None,
            slab=slab,
            frame_ids=np.array([frame_id], np.int64),
            clock=self.clock,
            seal_reason="provisional",
        )

    def time_at(self, place: int) -> int:
        """Return the pts of the `place`-th frame of the core that is being filled."""
        return self._times[self._core_start + place - self._times_from][0]

    def open_times(self) -> Iterator[tuple[int, int]]:
        """Yield (pts, id) of the frames that may still move, the newest first."""
        for number, (pts, _, frame_id) in enumerate(reversed(self._times)):
            if number >= self.num_movable:
                return
            yield pts, frame_id

    def finish(self, reason: str = "end") -> list[Hyperframe]:
        """Return what is left now that the stream has ended, the last with ``header.end`` set; let the slab go."""
        total = self.num_frames
        if self._last_core is not None:
            total = min(total, self._last_core)
        sealed = []
        while self._core_start < total:
            stop = min(self._core_start + self.size, total)
            full = stop - self._core_start == self.size and reason != "end"
            sealed.append(
                self._seal(stop, end=stop == total, stream_length=self.num_frames, reason="full" if full else reason)
            )
        self.abandon()
        return sealed

    def abandon(self) -> None:
        """Let the current slab go; the packer takes no more frames."""
        if self._slab is not None:
            self.slabs.release(self._slab)
            self._slab = None

    def _core_stop(self) -> int:
        stop = self._core_start + self.size
        return stop if self._last_core is None else min(stop, self._last_core)

    def _room_needed(self) -> int:
        """One past the last frame that must lie in the slab of the hyperframe now being filled."""
        return max(self._core_start + self.size + self._ahead, self.num_frames + 1)

    def _keep_from(self) -> int:
        return max(self._first_frame, self._core_start - self.halo.before)

    def _carry_over(self, old: Slab) -> Slab | None:
        """Move the frames still needed to the front of a slab: halo frames are copied here and nowhere else."""
        low, high = min(self._keep_from(), self.num_frames) - self._base, self.num_frames - self._base
        new = old if old.references == 1 else self.slabs.find()
        if new is None:
            return None
        for source, target in zip(old.planes, new.planes, strict=True):
            target[: high - low] = source[low:high]
        if new is not old:
            self.slabs.release(old)
        self._base += low
        return new

    def _memory(self, read: tuple[int, int]) -> Memory:
        """Return where the frames `read` lie, held for the hyperframe that is being sealed."""
        slab = self._slab
        if slab is None:
            raise FrameError(f"no frames were pushed for {read}")
        self.slabs.hold(slab)
        start, stop = read[0] - self._base, read[1] - self._base
        return Memory(tuple(plane[start:stop] for plane in slab.planes), slab, start)

    def _seal(self, stop: int, *, end: bool, stream_length: int | None, reason: str = "full") -> Hyperframe:
        core = (self._core_start, stop)
        read = (self._keep_from(), min(self.num_frames, stop + self.halo.after))
        memory = self._memory(read)
        while self._times_from < read[0]:
            self._times.popleft()
            self._times_from += 1
        num = read[1] - read[0]
        held = self._times
        pts, durations, ids = zip(*(held if len(held) == num else islice(held, num)), strict=True)
        first, last = ids[core[0] - read[0]], ids[core[1] - read[0] - 1]
        frame_ids = np.array(ids, np.int64)
        gaps: tuple[tuple[int, int], ...] = ()
        if last - (first - 1 if self._id_before is None else self._id_before) != core[1] - core[0]:
            gaps = missing_ranges(frame_ids[core[0] - read[0] : core[1] - read[0]], self._id_before)
        sealed = _hyperframe(
            memory.planes,
            (np.array(pts, np.int64), np.array(durations, np.int64) if any(durations) else _no_durations(num)),
            read,
            core,
            self.spec,
            sequence=self.num_sealed,
            stream=self.stream,
            plan_id=self.plan_id,
            end=end,
            stream_length=stream_length,
            repaired_pts=self.repaired_pts,
            slab=memory.slab,
            offset=memory.offset,
            lent=memory.lent,
            frame_ids=frame_ids,
            clock=self.clock,
            gaps=gaps,
            seal_reason="end" if end and reason == "full" else reason,
        )
        self._id_before = last
        self._read_stop = read[1]
        self._core_start, self._fits_until = stop, 0
        self.num_sealed += 1
        return sealed


def _hyperframe(
    planes: tuple[Array, ...],
    times: tuple[Array, Array | None],
    read: tuple[int, int],
    core: tuple[int, int],
    spec: FrameSpec,
    *,
    sequence: int,
    stream: str,
    plan_id: str,
    end: bool,
    stream_length: int | None,
    repaired_pts: bool = False,
    slab: Slab | None = None,
    offset: int = 0,
    lent: tuple[LentPlane, ...] = (),
    frame_ids: Array | None = None,
    clock: Literal["media", "capture", "arrival"] = "media",
    gaps: tuple[tuple[int, int], ...] = (),
    seal_reason: str | None = None,
) -> Hyperframe:
    """Put a hyperframe together; its planes are made read-only views."""
    for plane in planes:
        plane.flags.writeable = False
    header = Header(
        sequence=sequence,
        id=hyperframe_id(plan_id, core),
        streams=(stream,),
        core=core,
        read=read,
        pad_before=0,
        pad_after=0,
        frame_ids=np.arange(*read) if frame_ids is None else frame_ids,
        pts=times[0],
        time_base=spec.time_base,
        durations=times[1],
        clock=clock,
        gaps=gaps,
        repaired_pts=repaired_pts,
        seal_reason=seal_reason or ("end" if end else "full"),
        end=end,
        stream_length=stream_length,
    )
    return Hyperframe(
        header,
        planes,
        slice(core[0] - read[0], core[1] - read[0]),
        _all_real(read[1] - read[0]),
        spec,
        slab,
        offset,
        lent=lent,
    )


@lru_cache(maxsize=64)
def _no_durations(count: int) -> Array:
    """Return the durations of `count` frames of which none is known, read-only as many share it."""
    durations = np.zeros(count, np.int64)
    durations.flags.writeable = False
    return durations


@lru_cache(maxsize=64)
def _all_real(count: int) -> Array:
    """Return the mask of `count` real frames, read-only as many share it."""
    mask = np.ones(count, bool)
    mask.flags.writeable = False
    return mask


def view(
    planes: tuple[Array, ...],
    pts: Array | Counting,
    spec: FrameSpec,
    size: int | Callable[[int], int],
    halo: Halo,
    *,
    stream: str = "source",
    plan_id: str = "",
    cores: tuple[int, int | None] = (0, None),
) -> Iterator[Hyperframe]:
    """Yield hyperframes that view arrays (N, ...) already in memory or mapped: nothing is copied.

    `size` may be a function of the frame at which a core starts.
    """
    num_frames = len(pts)
    start, stop = cores[0], num_frames if cores[1] is None else min(cores[1], num_frames)
    for sequence in count():
        if start >= stop:
            return
        core = (start, min(stop, start + validate_size(size(start) if callable(size) else size)))
        read = (max(0, core[0] - halo.before), min(num_frames, core[1] + halo.after))
        yield _hyperframe(
            tuple(plane[read[0] : read[1]] for plane in planes),
            (times := pts[read[0] : read[1]], None),
            read,
            core,
            spec,
            sequence=sequence,
            stream=stream,
            plan_id=plan_id,
            end=core[1] == stop,
            stream_length=num_frames,
            frame_ids=times if isinstance(pts, Counting) else None,
        )
        start = core[1]


def pack(frames: Sequence[Frame], *, halo: Halo | int | tuple[int, int] = 0) -> Hyperframe:
    """Pack frames into one hyperframe.

    Parameters
    ----------
    frames : sequence of Frame, length T
        Frames in ascending `pts`, one shape and one dtype for all.
    halo : Halo, int or (before, after), optional
        How many of the frames at each end are context, not owned.

    Returns
    -------
    Hyperframe
        `planes` have shape (T, ...) and the dtype of the frames.

    Raises
    ------
    FrameError
        If `frames` is empty, unordered, shorter than the halo, or of more than one shape.

    See Also
    --------
    hyperframes.packing.unpack : The inverse.

    Notes
    -----
    One copy of all samples.
    """
    around = Halo.of(halo)
    if len(frames) <= around.total:
        raise FrameError(
            f"a hyperframe owns at least one frame: expected more than {around.total} frames, got {len(frames)}",
            expected=around.total + 1,
            got=len(frames),
        )
    given: Sequence[object] = frames  # of callers that check no types
    strange = next((item for item in given if not isinstance(item, Frame)), None)
    if strange is not None:
        raise FrameError(f"a hyperframe is packed from frames: expected frames, got {type(strange).__name__}")
    spec = frames[0].spec
    for index, frame in enumerate(frames):
        if not spec.same_arrays(frame.spec):
            raise FrameError(
                f"all frames of a hyperframe must have one shape: expected {spec.shapes[0]} as in frame 0, "
                f"got {frame.spec.shapes[0]} in frame {index}",
                expected=spec.shapes,
                got=frame.spec.shapes,
                index=index,
            )
        if index and frame.pts < frames[index - 1].pts:
            raise FrameError(
                f"frames must be in order of time: expected pts of at least {frames[index - 1].pts}, "
                f"got {frame.pts} in frame {index}",
                index=index,
            )
    planes = tuple(np.stack([f.planes[i] for f in frames]) for i in range(len(spec.shapes)))
    times = (
        np.array([f.pts for f in frames], np.int64),
        np.array([f.duration for f in frames], np.int64),
    )
    core = (around.before, len(frames) - around.after)
    return _hyperframe(
        planes,
        times,
        (0, len(frames)),
        core,
        spec,
        sequence=0,
        stream="frames",
        plan_id="frames",
        end=True,
        stream_length=len(frames),
    )


def pad(hyperframe: Hyperframe, halo: Halo, boundary: Boundary) -> Hyperframe:
    """Return `hyperframe` with exactly `halo` around its core, the boundary standing in beyond the stream's ends."""
    header = hyperframe.header
    wanted = (header.core[0] - halo.before, header.core[1] + halo.after)
    if wanted == header.read:
        return hyperframe
    planes, ids = window(hyperframe.planes, header.read[0], wanted, header.stream_length, boundary)
    return repack(hyperframe, planes, ids, wanted)


def repack(
    hyperframe: Hyperframe,
    planes: tuple[Array, ...],
    stand_in: Array,
    wanted: tuple[int, int],
) -> Hyperframe:
    """Return a hyperframe over `planes`, the frames `wanted` of the same stream, with a header that fits."""
    header = hyperframe.header
    positions = np.arange(*wanted)
    inside = (stand_in >= 0) & (positions == stand_in)  # -1 is no frame, and a position too
    held = np.clip(stand_in - header.read[0], 0, len(header.pts) - 1)
    for plane in planes:
        plane.flags.writeable = False
    padded = Header(
        sequence=header.sequence,
        id=header.id,
        streams=header.streams,
        core=header.core,
        read=(int(positions[inside][0]), int(positions[inside][-1]) + 1),
        pad_before=int(np.argmax(inside)),
        pad_after=int(np.argmax(inside[::-1])),
        frame_ids=stand_in,
        pts=header.pts[held],
        time_base=header.time_base,
        durations=None if header.durations is None else header.durations[held],
        kind=header.kind,
        clock=header.clock,
        gaps=header.gaps,
        repaired_pts=header.repaired_pts,
        seal_reason=header.seal_reason,
        attempt=header.attempt,
        end=header.end,
        stream_length=header.stream_length,
    )
    core = slice(header.core[0] - wanted[0], header.core[1] - wanted[0])
    return Hyperframe(padded, planes, core, inside, hyperframe.spec, hyperframe.slab)
