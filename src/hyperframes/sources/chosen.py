"""Frames at chosen positions of a video: each group of pictures decoded once, several at a time."""

from __future__ import annotations

import heapq
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hyperframes.frames import Array
from hyperframes.media.container import Place
from hyperframes.media.decode import Decoder
from hyperframes.media.index import PacketIndex
from hyperframes.media.turns import MOST_DECODERS, num_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hyperframes.media.decode import Key

    Take = Callable[[int, Any], None]
    """``take(number, frame)`` keeps one of the wanted frames, a PyAV frame."""

__all__ = ["ChosenFrames", "Part", "UnprovenError", "are_worth_it", "parts_of"]

_PARTS_EACH: Final = 4
"""Parts for each decoder, where there are key frames enough: the last one to end is not far behind then."""
_THREADS_LOSE: Final = 1.25
"""Wall time of a codec's own threads over that of as many decoders with one each: threads wait for each other."""


class UnprovenError(Exception):
    """What was decoded is not what the index says: only reading from the start is sure."""


class Part(NamedTuple):
    """Wanted frames that one decoder takes, one group of pictures after another."""

    start: int
    """Position of the key frame in front of the first one."""
    first: int
    """Number of the first one among those wanted."""
    stop: int
    cost: int
    """Frames from key frames to the last one wanted behind each."""


def parts_of(positions: Array, starts: Array, num_decoders: int) -> list[Part]:
    """Return the wanted frames in parts to be decoded apart: first the one at the stream's start, then the longest.

    Parameters
    ----------
    positions : (N,) array of int
        Of the wanted frames, ascending; at least one.
    starts : (N,) array of int
        For each, the position of the key frame in front of it.
    num_decoders : int
        How many there are.

    Examples
    --------
    >>> parts = parts_of(np.array([3, 12, 14, 39]), np.array([0, 10, 10, 20]), 2)
    >>> [(part.first, part.stop, part.cost) for part in parts]
    [(0, 1, 4), (3, 4, 20), (1, 3, 5)]
    """
    stops = [*(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(positions)]
    groups = [
        Part(int(starts[first]), first, stop, int(positions[stop - 1] + 1 - starts[first]))
        for first, stop in zip([0, *stops], stops, strict=False)
    ]
    most = sum(group.cost for group in groups) // (_PARTS_EACH * num_decoders)
    parts: list[Part] = []
    for group in groups:  # neighbours stay together where parts are short: nothing is sought between them
        if parts and parts[-1].cost + group.cost <= most:
            parts[-1] = parts[-1]._replace(stop=group.stop, cost=parts[-1].cost + group.cost)
        else:
            parts.append(group)
    return sorted(parts, key=lambda part: (part.start > 0, -part.cost))


def are_worth_it(parts: list[Part], num_decoders: int, num_cores: int) -> bool:
    """Whether decoders of one thread each are done with `parts` before one decoder whose codec has a thread a core."""
    ends = [0] * num_decoders
    for part in parts:
        heapq.heapreplace(ends, ends[0] + part.cost)
    return max(ends) * num_cores <= _THREADS_LOSE * sum(ends)


@dataclass(frozen=True, slots=True)
class ChosenFrames:
    """Frames of a stream whose index is sound."""

    place: Place
    index: PacketIndex
    timeline: Array
    """(N,) int64: the time of every frame of the stream."""
    coded: tuple[str, int, int]
    """Pixel format, height and width of every frame."""
    positions: Array
    """(n,) int64, ascending: those wanted."""

    def visit(self, threads: int, taker: Callable[[], Take]) -> None:
        """Give every wanted frame to a function that `taker` makes, one for each thread that calls it; in any order.

        Parameters
        ----------
        threads : int
            Decoder threads, in one decoder or several; 0 for as many as suit the machine.
        taker : callable
            ``taker()(number, frame)`` keeps the wanted frame of that number.

        Raises
        ------
        UnprovenError
            Where the index is wrong.
        DamagedError
            At damage.
        """
        cores = threads or num_cores()
        most = min(cores, MOST_DECODERS) if self.place.is_file else 1  # one connection
        keys = [self.index.key_before(pts) for pts in self.timeline[self.positions].tolist()]
        at = np.searchsorted(self.timeline, [self.timeline[0] if key is None else key.pts for key in keys])
        parts = parts_of(self.positions, at, most)
        if most > 1 and len(parts) > 1 and are_worth_it(parts, most, cores):
            self._apart(parts, keys, min(most, len(parts)), taker)
        else:
            whole = Part(int(at[0]), 0, len(self.positions), 0)
            self._work(deque([whole]), keys, threads, taker)

    def _apart(self, parts: list[Part], keys: list[Key | None], num_decoders: int, taker: Callable[[], Take]) -> None:
        left = deque(parts)
        with ThreadPoolExecutor(num_decoders, "decode") as pool:
            try:
                for done in [pool.submit(self._work, left, keys, 1, taker) for _ in range(num_decoders)]:
                    done.result()
            finally:
                left.clear()  # where one failed, the others end too

    def _work(self, left: deque[Part], keys: list[Key | None], threads: int, taker: Callable[[], Take]) -> None:
        """Decode parts until none is left."""
        take, decoder = taker(), Decoder(self.place, threads, strict=True, seeks=True)
        try:
            decoder.skip_unreferred(self.timeline[self.positions].tolist())
            way = _Way(self, decoder)
            while True:
                try:
                    part = left.popleft()
                except IndexError:
                    return
                for number in range(part.first, part.stop):
                    take(number, way.to(int(self.positions[number]), keys[number]))
        finally:
            decoder.close()


class _Way:
    """One decoder's way from frame to frame, compared with the index at every step."""

    def __init__(self, chosen: ChosenFrames, decoder: Decoder) -> None:
        self._timeline, self._coded, self._decoder = chosen.timeline, chosen.coded, decoder
        self._frames: Iterator[Any] = decoder.frames()
        self._at = 0
        """Position of the frame that comes next."""

    def to(self, position: int, key: Key | None) -> Any:
        """Return the PyAV frame at `position`, from `key` on where that is nearer than what comes next."""
        start = 0 if key is None else int(np.searchsorted(self._timeline, key.pts))
        if start > self._at or position < self._at:
            if self._at == 0:  # a decoder of H.264 that never saw an IDR picture calls all others corrupt
                next(self._frames, None)
            found = None if key is None else self._decoder.from_key(key)
            if found is None:
                raise UnprovenError
            self._frames, self._at = found, start
        for frame in self._frames:
            if frame.pts is None or (frame.format.name, frame.height, frame.width) != self._coded:
                raise UnprovenError
            here = int(np.searchsorted(self._timeline, frame.pts, side="right")) - 1
            expected = position if self._decoder.skips else self._at
            if self._timeline[here] != frame.pts or here > expected:
                raise UnprovenError
            self._at = here + 1
            if here == position:
                return frame
        raise UnprovenError
