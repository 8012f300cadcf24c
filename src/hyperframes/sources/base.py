"""What a source is: frames in presentation order, a spec before the first one, exact positions, a sure end."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.frames import Array, Clip, Counting, Frame, FrameSpec
from hyperframes.packing import Boundary, Halo, Hyperframe, Packer, SlabPool, pad, slab_capacity, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from hyperframes.media import Passthrough

__all__ = ["Source", "clip_of", "positions"]


class Source(ABC):
    """Frames of one stream. Opened when made; a context manager; closed also on errors."""

    name: str
    """What users call it: path or URL, without credentials."""
    spec: FrameSpec
    """Of every frame that `read` yields."""
    num_frames: int | None = None
    """How many frames there are, as far as known; only a hint unless `exact`."""
    exact: bool = False
    """Whether `num_frames` is certain."""
    bounded: bool = True
    """Whether it ends by itself."""
    rereadable: bool = True
    """Whether it can be read more than once: pipes cannot."""
    repaired_pts: bool = False
    """Whether times were missing or out of order and were rebuilt."""
    identifiable: bool = True
    """Whether `identity` is the same for the same frames in another process."""
    opener: Callable[[], Source] | None = None
    """Opens it again, as `open_source` did."""
    seeks: bool = False
    """Whether `read` from any position costs no more than what it reads."""
    lasting: bool = False
    """Whether the arrays of a frame that `read` yields stay as they are for as long as somebody holds them."""
    sure: bool = True
    """Whether all that was read so far lay where `num_frames` and `keys` say: False after damage."""
    warnings: tuple[str, ...] = ()
    """What users should know: damaged packets, wrong counts, repaired times. Grows while reading."""

    @abstractmethod
    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the frames [start, stop) in presentation order; their arrays are lent until the next one.

        Raises
        ------
        SourceError
            If frames cannot be decoded; never a silently short or wrong result.
        """

    def close(self) -> None:
        """Close files; safe to call twice."""

    def identity(self) -> str:
        """Return what tells this input from another: path, size, time of change; part of fingerprints."""
        return self.name

    def passthrough(self) -> Passthrough | None:
        """Return what else is in the container and can be copied to an output; None where there is nothing."""
        return None

    def arrays(self) -> tuple[tuple[Array, ...], Array | Counting] | None:
        """Return (planes (N, ...), pts (N,)) where all frames already lie in memory or a map, else None."""
        return None

    def reopener(self) -> Callable[[], Source] | None:
        """Return what opens it again in another process, to which it is pickled; None for arrays and pipes."""
        return self.opener

    def keys(self) -> Array | None:
        """Return the ascending positions, (K,) int64, at which decoding can start; None: at every frame."""
        return None

    def prove(self, position: int) -> bool:
        """Return whether reading from `position` on gives the frames of a read from the start; costs some decoding."""
        return True

    def decoder_bytes(self, *, lent: bool = False) -> int:
        """Return the bytes of the pictures that a decoder holds while frames are read; 0 where there is none.

        With `lent` without those that whoever reads holds for some time anyway.
        """
        return 0

    def let_go(self, stop: int) -> None:
        """Take note that no frame before `stop` is needed again soon: mapped memory may be given back."""

    # Built on the above -----------------------------------------------------------------------------------------------

    def count(self) -> int:
        """Return the exact number of frames, reading everything where nothing less is certain."""
        if self.exact and self.num_frames is not None:
            return self.num_frames
        return sum(1 for _ in self.read())

    def frames(self, indices: Sequence[int]) -> Clip:
        """Return the frames at `indices`, in the order asked for, as arrays of their own.

        Sources with random access override this; here the stream is read once up to the last one.
        """
        wanted = positions(indices)
        unique, inverse = np.unique(wanted, return_inverse=True)
        if unique.size and unique[0] < 0:
            raise FrameError(f"frame positions start at 0: got {unique[0]}", got=int(unique[0]))
        taken: list[Frame] = []
        if unique.size:
            for frame in self.read(int(unique[0]), int(unique[-1]) + 1):
                if len(taken) < unique.size and frame.index == unique[len(taken)]:
                    copies = [np.array(plane) for plane in frame.planes]
                    taken.append(Frame(copies, frame.pts, frame.index, frame.spec, frame.duration))
        if len(taken) < unique.size:
            missing = int(unique[len(taken)])
            raise FrameError(
                f"{self.name} has no frame {missing}", got=missing, hint="Count them: hyperframes plan --count"
            )
        return clip_of([taken[i] for i in inverse], self.spec)

    def times(self) -> Array:
        """Return the pts of every frame, (N,) int64; reads everything where no index exists."""
        return np.array([frame.pts for frame in self.read()], np.int64)

    def at(self, *, seconds: Sequence[float] | float) -> Clip:
        """Return for each time the frame that is on screen then: the last one that starts at or before it.

        Raises
        ------
        FrameError
            If a time lies before the first frame or after the last one has gone.
        """
        pts, base = self._known_times(), self.spec.time_base
        wanted = [seconds] if isinstance(seconds, int | float) else list(seconds)
        exact = [Fraction(s).limit_denominator(10**9) for s in wanted]
        first, end = (Fraction(int(pts[0])) * base, self._ends_at(pts)) if len(pts) else (Fraction(0), Fraction(0))
        for given, time in zip(wanted, exact, strict=True):
            if not first <= time < end:
                raise FrameError(
                    f"{self.name} shows frames from {float(first):.3f} to {float(end):.3f} s: "
                    f"no frame is on screen at {given:.3f} s",
                    expected=(float(first), float(end)),
                    got=given,
                )
        found = np.searchsorted(pts, [math.floor(time / base) for time in exact], side="right") - 1
        return self.frames(found.tolist())

    def _known_times(self) -> Array:
        """Return the pts of every frame, as sure as `frames` needs them."""
        return self.times()

    def _ends_at(self, pts: Array) -> Fraction:
        """Return the seconds at which the last of the frames with the times `pts` has been shown.

        Where nothing says how long that is, it is as long as the one before it.
        """
        step = int(pts[-1] - pts[-2]) * self.spec.time_base if len(pts) > 1 else self.spec.time_base
        return int(pts[-1]) * self.spec.time_base + max(step, 1 / self.spec.rate if self.spec.rate else step)

    def hyperframes(
        self,
        size: int,
        halo: Halo | int | tuple[int, int] = 0,
        boundary: str | Boundary = "replicate",
    ) -> Iterator[Hyperframe]:
        """Yield the stream as hyperframes with exactly `halo` around each core; each is valid until the next.

        Examples
        --------
        >>> from hyperframes.sources.array import ArraySource
        >>> source = ArraySource(np.arange(5.0))
        >>> [h.data.tolist() for h in source.hyperframes(size=3, halo=1)]
        [[0.0, 0.0, 1.0, 2.0, 3.0], [2.0, 3.0, 4.0, 4.0]]
        """
        around, edge = Halo.of(halo), Boundary.parse(boundary)
        reach = edge.reach(around)
        held = self.arrays()
        if held is not None:
            for hyperframe in view(*held, self.spec, size, reach, plan_id=self.name):
                self.let_go(hyperframe.header.read[0])
                yield pad(hyperframe, around, edge)
            return
        slabs = SlabPool(self.spec, slab_capacity(size, reach), 2, shared=False)
        packer = Packer(self.spec, size, reach, slabs, plan_id=self.name)
        for sealed in _sealed(self.read(), packer):
            yield pad(sealed, around, edge)
            if sealed.slab is not None:
                slabs.release(sealed.slab)

    def __getitem__(self, key: int | slice) -> Any:
        """Frames by position: ``source[7]`` is a Frame, ``source[100:200]`` a Clip; both own their arrays."""
        if isinstance(key, slice):
            if key.step == 0:
                raise FrameError("frames cannot be taken in steps of 0", got=key)
            start, stop, step = key.indices(self._length_for(key))
            return self.frames(range(start, stop, step))
        key = int(positions([key])[0])
        index = key if key >= 0 else self.count() + key
        (frame,) = self.frames([index])
        return frame

    def _length_for(self, key: slice) -> int:
        stop: int | None = key.stop
        if stop is None or stop < 0 or (key.start or 0) < 0 or self.exact:
            return self.count()
        return stop

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        count = "?" if self.num_frames is None else f"{'' if self.exact else '~'}{self.num_frames}"
        return f"{type(self).__name__}({self.name!r}, {count} frames, {self.spec})"


def _sealed(frames: Iterator[Frame], packer: Packer) -> Iterator[Hyperframe]:
    for frame in frames:
        for target, plane in zip(packer.slot(), frame.planes, strict=True):
            np.copyto(target, plane)
        sealed = packer.push(frame.pts, frame.duration)
        if sealed is not None:
            yield sealed
    yield from packer.finish()


def positions(indices: Sequence[int]) -> Array:
    """Return frame positions as int64.

    Raises
    ------
    FrameError
        If they are no whole numbers.
    """
    wanted = np.asarray(indices)
    if wanted.size and not np.issubdtype(wanted.dtype, np.integer):
        raise FrameError(f"frame positions are whole numbers: got {wanted.flat[0]!r}", got=wanted.flat[0])
    return wanted.astype(np.int64).reshape(-1)


def clip_of(frames: Sequence[Frame], spec: FrameSpec) -> Clip:
    """Return `frames` as one Clip with arrays of its own."""
    planes = tuple(
        np.stack([frame.planes[i] for frame in frames]) if frames else np.empty((0, *shape), spec.dtype)
        for i, shape in enumerate(spec.shapes)
    )
    return Clip(
        planes,
        np.array([frame.pts for frame in frames], np.int64),
        np.array([frame.index for frame in frames], np.int64),
        spec,
        np.array([frame.duration for frame in frames], np.int64),
    )
