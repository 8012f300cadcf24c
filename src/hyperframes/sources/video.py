"""Video files and streams through PyAV: exact times, native planes, the same frames for any number of threads."""

from __future__ import annotations

import functools
import hashlib
import os
from array import array
from fractions import Fraction
from itertools import chain, islice, pairwise, repeat
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import Array, Clip, Frame
from hyperframes.media.container import Place, has_alpha_beside, passthrough_of
from hyperframes.media.decode import DamagedError, Decoder, Playback
from hyperframes.media.index import read_index
from hyperframes.media.picture import is_direct, picture_spec
from hyperframes.media.pixels import Reshaper, Views
from hyperframes.media.ranged import RANGED_SCHEMES, RangedPlace
from hyperframes.media.times import Repair
from hyperframes.packing import result_array
from hyperframes.sources.base import Source, positions
from hyperframes.sources.chosen import ChosenFrames, UnprovenError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hyperframes.media import Passthrough
    from hyperframes.media.decode import Key
    from hyperframes.media.index import PacketIndex


__all__ = ["VideoSource", "open_video", "open_y4m"]

SizeChange = Literal["scale", "split", "fail"]

_PROVEN_FRAMES: Final = 8
_REFERENCES: Final = 4
"""Pictures that others refer to, with most encoders' settings."""
_LENT: Final = 2
"""The picture that is read and the one after it."""
_KEYS_TRIED: Final = 3
_HASHED_BYTES: Final = 1 << 16
_NETWORK_TIMEOUT_SECONDS: Final = 30.0


def open_video(
    path: str | os.PathLike[str],
    *,
    threads: int | Literal["auto"] = "auto",
    on_size_change: SizeChange = "scale",
    stream: int = 0,
    timeout_seconds: float = _NETWORK_TIMEOUT_SECONDS,
    ranged: bool = False,
) -> VideoSource:
    """Open a video file or URL.

    Parameters
    ----------
    path : str or path
        A file, or a URL (``http``, ``https``, ``file``, ...) as FFmpeg takes it.
    threads : int or 'auto'
        Decoder threads; the frames never depend on it.
    on_size_change : {'scale', 'split', 'fail'}
        What to do where the size or pixel format changes inside the stream: scale to the first one with a warning,
        end there (see `VideoSource.changed_at`), or fail.
    stream : int
        Which of the video streams, from 0.
    timeout_seconds : float
        How long to wait for the network.
    ranged : bool
        Whether a URL is read in ranges (extra ``cluster``): only what is wanted, from any position. ``s3`` always is.

    Raises
    ------
    SourceError
        If it cannot be opened, or if not one frame of it decodes.
    PipelineError
        If an option has a value that is none of the above.
    """
    url = os.fspath(path)
    if url.startswith("file://"):
        url = url.removeprefix("file://")
    timeout = timeout_seconds if "://" in url else None
    kind = RangedPlace if "://" in url and (ranged or url.partition("://")[0] in RANGED_SCHEMES) else Place
    place = kind(url, stream, timeout_seconds=timeout)
    return VideoSource(place, threads=threads, on_size_change=on_size_change)


def open_y4m(path: str | os.PathLike[str] = "-") -> VideoSource:
    """Open YUV4MPEG2 frames: a file, or ``-`` for the standard input, which can be read once only.

    Raises
    ------
    SourceError
        If what comes is not YUV4MPEG2, or holds no frame.
    """
    url = os.fspath(path)
    place = Place("pipe:0", format="yuv4mpegpipe", reopens=False) if url == "-" else Place(url, format="yuv4mpegpipe")
    return VideoSource(place, threads=1)


class VideoSource(Source):
    """The frames of one video stream in presentation order, with their exact times.

    Made by `open_video` and `open_y4m`. Opening decodes the first frame, so that `spec` is known and a stream without
    frames is an error. Frames are read-only views on the decoder's planes; formats without planes of their own here
    (packed, palette, big-endian, ...) are converted, which `warnings` says. Rotation and mirroring are left to the
    reader of `spec`: the arrays lie as they are coded.

    Positions are those of a whole sequential read. Reading from a later position and `frames` seek by the packet
    index and compare all that they decode with it; where it is wrong they read from the start instead. A frame they
    return is bit for bit the one of that time in a whole read of a sound file. Damage in pictures that nothing has
    decoded yet can go unseen (other groups of pictures and, for `frames`, pictures that no other refers to), so that a
    whole read shows a frame less and counts later ones from there: after a whole read or `count`, nothing is left to
    trust, and `exact` is True. Damage that a decoder conceals without a word (flipped bytes in FFV1, Motion JPEG or
    VP8) may be concealed with other pixels there than in a whole read.

    Parameters
    ----------
    place : Place
        What to open.
    threads : int or 'auto'
        Decoder threads.
    on_size_change : {'scale', 'split', 'fail'}
        As for `open_video`.
    first : int
        Frame of the stream at which this source begins; its times are kept, its positions start at 0.
    index : PacketIndex, optional
        Of its packets, where another process has read it before.
    """

    lasting = True  # a view keeps the decoder's picture, which nobody writes to again meanwhile

    def __init__(
        self,
        place: Place,
        *,
        threads: int | Literal["auto"] = "auto",
        on_size_change: SizeChange = "scale",
        first: int = 0,
        index: PacketIndex | None = None,
    ) -> None:
        if threads != "auto" and threads < 1:
            raise PipelineError(f"decoder threads are 'auto' or at least 1: got {threads!r}", got=threads)
        if on_size_change not in {"scale", "split", "fail"}:
            raise PipelineError(
                f"on_size_change is 'scale', 'split' or 'fail': got {on_size_change!r}", got=on_size_change
            )
        self.name = place.name
        self.changed_at: int | None = None
        """Position at which a read with ``on_size_change='split'`` ended; go on with `next_part`."""
        self._place, self._first, self._on_size_change = place, first, on_size_change
        self._threads = 0 if threads == "auto" else threads
        self._notes: dict[str, str] = {}
        self._times: Array | None = None
        self._indexed = index
        self.rereadable = place.reopens
        self._distrusted = not place.reopens
        self._runs: set[_Run] = set()
        self._primed: tuple[_Run, Iterator[_Timed]] | None = self._prime()

    # Opening ----------------------------------------------------------------------------------------------------------

    def _prime(self) -> tuple[_Run, Iterator[_Timed]]:
        """Decode the first frame for the spec; return the started run, which the first read goes on with."""
        run = self._new_run()
        try:
            frames = iter(run)
            head = self._first_of(run, frames)
            self._describe(run.playback, head[0])
            self._step = run.repair.step
        except BaseException:
            self._close_run(run)
            raise
        return run, chain([head], frames)

    def _first_of(self, run: _Run, frames: Iterator[_Timed]) -> _Timed:
        head = next(islice(frames, self._first, None), None)
        if head is None:
            if self._first:
                raise self._place.error(f"has no frame {self._first}", hint="Start at an earlier frame.")
            raise self._place.nothing_decodes(run.playback.stream, run.playback.tally.errors)
        return head

    def _describe(self, playback: Playback, frame: Any) -> None:
        stream, name = playback.stream, frame.format.name
        try:
            self.spec = picture_spec(stream, frame, nominal_rate(stream))
        except FrameError as error:
            raise self._place.error(f"cannot be read: {error}", hint=error.hint) from error
        self._direct = is_direct(name, self.spec.pixel_format)
        if not self._direct:
            self._note("format", f"pixel format {name} is converted to {self.spec.pixel_format}")
        context = stream.codec_context
        ahead = context.thread_count + playback.pictures_ahead
        self._decoder_pictures: int = _REFERENCES + context.reorder_depth + ahead + _LENT
        self._coded: _Coded = (name, frame.height, frame.width)
        self._declared: int = stream.frames
        # Where the container has no durations, demuxers fill some in, but not the same ones on every way to a frame.
        self._has_durations = bool(frame.duration)
        if has_alpha_beside(stream):
            self._note("alpha", "the alpha channel is coded beside the picture and is not decoded: frames are opaque")

    def _new_run(self, at: int = 0) -> _Run:
        run = _Run(Playback(self._place, self._threads), at)
        self._runs.add(run)
        return run

    def _close_run(self, run: _Run) -> None:
        self._runs.discard(run)
        run.playback.close()

    def _note(self, about: str, text: str) -> None:
        self._notes[about] = text
        self.warnings = tuple(self._notes.values())

    # Reading in order -------------------------------------------------------------------------------------------------

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the frames [start, stop) in presentation order, lent as read-only views on the decoder's planes.

        Raises
        ------
        SourceError
            If the size changes and ``on_size_change='fail'``, if a pipe is read again, or if the input breaks off.
        FrameError
            If a position is negative.
        """
        spec, lend, first, timed = self.spec, self._lender(), self._first, self._has_durations
        for frame, pts, position in self._timed(start, stop):
            yield Frame(lend(frame), pts, position - first, spec, frame.duration if timed else 0)

    def _timed(self, start: int, stop: int | None = None) -> Iterator[_Timed]:
        """Yield (PyAV frame, time, position in the stream) for the positions [start, stop) of this source."""
        if start < 0 or (stop is not None and stop < 0):
            raise FrameError(f"frame positions start at 0: got {start}:{stop}", got=(start, stop))
        if stop is not None and stop <= start:
            return
        low, high = start + self._first, -1 if stop is None else stop + self._first - 1
        run, frames = self._run_at(low)
        try:
            for timed in frames:
                frame, pts, position = timed
                if position < self._first:
                    continue
                if self._coded != (frame.format.name, frame.height, frame.width) and not self._changed(frame, position):
                    self._finish(run, position)
                    return
                if position >= low:
                    self._compare(pts, position)
                    yield timed
                    if position == high:
                        return
            self._finish(run)
        finally:
            self.sure = self.sure and not run.playback.tally.damaged
            self._close_run(run)

    def _compare(self, pts: int | None, position: int) -> None:
        """Note where a frame, or None for the end of the stream, does not stand where the index says."""
        index = self._indexed
        if index is not None and index.sound and self.sure:
            says = int(index.pts[position]) if position < len(index) else None
            self.sure = says == pts

    def _run_at(self, position: int) -> tuple[_Run, Iterator[_Timed]]:
        """Return a run that begins at or before `position` of the stream, and its frames."""
        primed, self._primed = self._primed, None
        if position > self._first:
            sought = self._sought(position)
            if sought is not None:
                if primed is not None:
                    self._close_run(primed[0])
                return sought, iter(sought)
        if primed is not None:
            return primed
        if not self._place.reopens:
            raise self._place.error("can be read only once: it is a pipe", hint="Write it to a file first.")
        run = self._new_run()
        return run, iter(run)

    def _sought(self, position: int) -> _Run | None:
        """Return a run that was proven to begin at `position`, or None where only the start of the stream is sure."""
        timeline = self._timeline()
        if timeline is None or position >= len(timeline):
            return None
        for skip in range(_KEYS_TRIED):
            key = self._index.key_before(int(timeline[position]), skip)
            at = 0 if key is None else int(np.searchsorted(timeline, key.pts))
            if key is None or at == 0:
                return None
            run = self._new_run(position)
            expected = timeline[at : position + _PROVEN_FRAMES].tolist()
            if run.playback.seek(key, expected, position - at):
                return run
            self._close_run(run)
        self._distrusted = True
        return None

    def _lender(self) -> Callable[[Any], tuple[Array, ...]]:
        """Return what turns a decoded frame into planes of `spec`."""
        spec, coded = self.spec, self._coded if self._direct else None
        view = Views(spec.pixel_format, spec.height, spec.width)
        reshape = Reshaper(spec.pixel_format, spec.height, spec.width)

        def lend(frame: Any) -> tuple[Array, ...]:
            as_coded = (frame.format.name, frame.height, frame.width) == coded
            return view(frame if as_coded else reshape(frame))

        return lend

    def _changed(self, frame: Any, position: int) -> bool:
        """React to a frame of another size or format; return whether it is to be scaled."""
        index = position - self._first
        before = f"{self._coded[2]}x{self._coded[1]} {self._coded[0]}"
        after = f"{frame.width}x{frame.height} {frame.format.name}"
        if self._on_size_change == "fail":
            raise self._place.error(
                f"changes from {before} to {after} at frame {index}",
                hint="Scale what follows with on_size_change='scale', or end there with 'split'.",
                pts=frame.pts,
            )
        if self._on_size_change == "split":
            self.changed_at = index
            self._note("size", f"the picture changes from {before} to {after} at frame {index}: reading ends there")
            return False
        if "size" not in self._notes:
            self._note("size", f"frame {index} is {after}, the first one {before}: such frames are scaled to the first")
        return True

    def _finish(self, run: _Run, stop: int | None = None) -> None:
        """Note what a run that reached the end of the stream, or position `stop` where it is split, has shown."""
        tally, repaired = run.playback.tally, run.repair.repaired
        if stop is None:
            self._compare(None, run.position)
        if run.whole:
            self._times = run.times()[:stop]
            self.exact = True
            self.repaired_pts = repaired > 0
            if self._declared and self._declared != len(self._times) and stop is None:
                self._note("count", f"the container declares {self._declared} frames, {len(self._times)} decode")
        if tally.errors:
            self._note("errors", f"{_many(tally.errors, 'packet')} could not be decoded")
        if tally.corrupt:
            self._note("corrupt", f"{_many(tally.corrupt, 'frame')} decoded with damage that the decoder concealed")
        if tally.broken:
            self._note("broken", f"the file is damaged: reading it ended early ({tally.broken})")
        if tally.unindexed:
            self._note("unindexed", f"{_many(tally.unindexed, 'frame')} came with a time that no packet has")
        if repaired:
            self._note("times", f"times of {_many(repaired, 'frame')} were missing or out of order and were rebuilt")
        self._distrusted = self._distrusted or tally.damaged or repaired > 0

    # Beginning in the middle ------------------------------------------------------------------------------------------

    def reopener(self) -> Callable[[], Source] | None:
        """Return what opens it again, with one decoder thread and the index as it is known; None for pipes."""
        if not self._place.reopens:
            return None
        place = self._place.anywhere()
        index = self._index if self._place.has_index else None
        return functools.partial(
            VideoSource, place, threads=1, on_size_change=self._on_size_change, first=self._first, index=index
        )

    @property
    def seeks(self) -> bool:  # type: ignore[override]  # found out when asked for
        """Whether the index is sound."""
        return self._timeline() is not None

    def keys(self) -> Array | None:
        """Return the positions of the key frames, (K,) int64."""
        timeline = self._timeline()
        if timeline is None:
            return np.empty(0, np.int64)
        pts = [self._index.key(number).pts for number in range(self._index.num_keys)]
        found = np.searchsorted(timeline, pts) - self._first
        return found[found >= 0]

    def prove(self, position: int) -> bool:
        """Decode across the key frame before `position`, and from it; return whether the frames after it are the same."""
        timeline = self._timeline()
        if timeline is None or position + self._first >= len(timeline):
            return False
        pts = int(timeline[position + self._first])
        key, earlier = self._index.key_before(pts), self._index.key_before(pts, 1)
        at = 0 if key is None else int(np.searchsorted(timeline, key.pts))
        if key is None or at == 0:
            return True  # that is the start of the stream
        expected = timeline[at : at + _PROVEN_FRAMES].tolist()
        across, directly = self._shown(earlier, expected), self._shown(key, expected)
        return (
            across is not None
            and directly is not None
            and all(np.array_equal(a, b) for a, b in zip(across, directly, strict=True))
        )

    def _shown(self, key: Key | None, expected: list[int]) -> list[Array] | None:
        """Return all planes of the frames at the times `expected`, decoded from `key`; None if others come."""
        decoder, lend, found = Decoder(self._place, self._threads, strict=True, seeks=True), self._lender(), []
        try:
            frames = decoder.frames() if key is None else decoder.from_key(key)
            wanted = iter(expected)
            for frame in frames or ():
                if frame.pts is None or frame.pts < expected[0]:
                    continue
                if frame.pts != next(wanted) or frame.is_corrupt:
                    return None
                found += [np.array(plane) for plane in lend(frame)]
                if frame.pts == expected[-1]:
                    return found
        except DamagedError:
            return None
        finally:
            decoder.close()
        return None

    # Positions and times ----------------------------------------------------------------------------------------------

    @property
    def _index(self) -> PacketIndex:
        if self._indexed is None:
            self._indexed = read_index(self._place, self._step)
        return self._indexed

    def _timeline(self) -> Array | None:
        """Return the time of every frame of the stream where they are sure enough for seeking, else None."""
        if self._distrusted or not self._place.has_index:
            return None
        if self._on_size_change != "scale" and (self._times is None or self.changed_at is not None):
            return None  # only a whole read says where the size changes
        if not self._index.sound:
            return None
        return self._index.pts if self._times is None else self._times

    @property
    def num_frames(self) -> int | None:  # type: ignore[override]  # found out when asked for
        """How many frames there are: certain after a whole read, else the hint of index or container."""
        if self._times is not None:
            return len(self._times) - self._first
        if self._place.has_index:
            return max(0, len(self._index) - self._first)
        return self._declared - self._first if self._declared else None

    def count(self) -> int:
        """Return the exact number of frames; decodes the stream unless it was read whole before."""
        return len(self._counted()) - self._first

    def times(self) -> Array:
        """Return the exact pts of every frame, (N,) int64; decodes the stream unless it was read whole before."""
        return self._counted()[self._first :].copy()

    def _counted(self) -> Array:
        if self._times is None:
            if not self._place.reopens:
                raise self._place.error("cannot be counted before it is read: it is a pipe", hint="Write it to a file.")
            for _ in self._timed(0):
                pass
        if self._times is None:
            raise self._place.error("ended before its frames could be counted", hint="Open it again.")
        return self._times

    def _known_times(self) -> Array:
        timeline = self._timeline()
        return (self._counted() if timeline is None else timeline)[self._first :]

    def frames(self, indices: Sequence[int]) -> Clip:
        """Return the frames at `indices`, in the order asked for, as arrays of their own.

        Requests are sorted and grouped by group of pictures; each group is decoded once, from its key frame, without
        pictures that are neither asked for nor referred to by another; several at a time, where that is faster.

        Raises
        ------
        FrameError
            If a position is negative or past the end.
        """
        wanted = positions(indices)
        timeline = self._timeline() if wanted.size and wanted.min() >= 0 else None
        if timeline is None or wanted.max() + self._first >= len(timeline):
            return super().frames(indices)
        unique, inverse = np.unique(wanted, return_inverse=True)
        planes = [result_array((len(unique), *shape), self.spec.dtype) for shape in self.spec.shapes]
        durations = np.zeros(len(unique), np.int64)

        def taker() -> Callable[[int, Any], None]:
            lend = self._lender()

            def take(number: int, frame: Any) -> None:
                for target, plane in zip(planes, lend(frame), strict=True):
                    target[number] = plane
                durations[number] = frame.duration if self._has_durations else 0

            return take

        try:
            chosen = ChosenFrames(self._place, self._index, timeline, self._coded, unique + self._first)
            chosen.visit(self._threads, taker)
        except (UnprovenError, DamagedError):
            self._distrusted = True
            return super().frames(indices)
        order = slice(None) if np.array_equal(unique, wanted) else inverse
        return Clip(
            tuple(plane[order] for plane in planes),
            timeline[wanted + self._first].copy(),
            wanted,
            self.spec,
            durations[order],
        )

    def _ends_at(self, pts: Array) -> Fraction:
        index = self._index if self._place.is_file else None
        last = int(index.durations[-1]) if index is not None and len(index) else 0
        return max(super()._ends_at(pts), (int(pts[-1]) + last) * self.spec.time_base)

    # Around the frames ------------------------------------------------------------------------------------------------

    def next_part(self) -> VideoSource | None:
        """Return the stream from `changed_at` on as a source of its own, with positions from 0; None if it is whole.

        After a read with ``on_size_change='split'`` has ended: read on with ``next_part()`` until it is None.
        """
        if self.changed_at is None:
            return None
        return VideoSource(
            self._place,
            threads=self._threads or "auto",
            on_size_change=self._on_size_change,
            first=self._first + self.changed_at,
        )

    def passthrough(self) -> Passthrough | None:
        """Return audio and subtitle streams, metadata and chapters of the container; None for pipes."""
        return passthrough_of(self._place) if self._place.reopens else None

    def decoder_bytes(self, *, lent: bool = False) -> int:
        """Return the bytes of the pictures that the decoder holds: referred to, reordered, one a thread, and lent.

        Those referred to were shown a moment ago, and are still held with `lent`.
        """
        return (self._decoder_pictures - lent * (_REFERENCES + _LENT)) * self.spec.nbytes

    def identity(self) -> str:
        """Return path, size, time of change and a hash of both ends of a file; the URL of anything else."""
        part = f"#{self._place.stream}+{self._first}"
        if not self._place.is_file:
            return self.name + part
        path = os.path.abspath(self._place.url)
        facts = os.stat(path)
        with open(path, "rb") as file:
            ends = hashlib.sha256(file.read(_HASHED_BYTES))
            file.seek(max(0, facts.st_size - _HASHED_BYTES))
            ends.update(file.read(_HASHED_BYTES))
        return f"{path}{part}:{facts.st_size}:{facts.st_mtime_ns}:{ends.hexdigest()[:32]}"

    def close(self) -> None:
        """Close all decoders, also those of reads that were not finished; not while another thread reads."""
        self._primed = None
        for run in tuple(self._runs):
            self._close_run(run)


_Timed = tuple[Any, int, int]
"""PyAV frame, time in ticks, position in the stream."""
_Coded = tuple[str, int, int]
"""Pixel format, height and width as they come from the decoder."""


class _Run:
    """One pass of the decoder: frames with repaired times and positions, and a record of times if from the start."""

    def __init__(self, playback: Playback, at: int = 0) -> None:
        rate = nominal_rate(playback.stream)
        self.playback, self.at = playback, at
        self.position = at
        """One past the last frame so far."""
        self.repair = Repair(round(1 / (rate * playback.stream.time_base)) if rate else 1)
        self.whole = at == 0
        self._times = array("q")

    def __iter__(self) -> Iterator[_Timed]:
        repair, note_time, whole = self.repair, self._times.append, self.whole
        stream = self.playback.stream
        # AVI holds no pts; those of reordered frames are the demuxer's guesses, often wrong, while dts are counted.
        guessed = stream.container.format.name == "avi" and stream.codec_context.reorder_depth > 0
        for position, (frame, following) in enumerate(self._with_following(), self.at):
            pts = repair(None if guessed else frame.pts, frame.dts, following)
            if whole:
                note_time(pts)
            self.position = position + 1
            yield frame, pts, position

    def _with_following(self) -> Iterator[tuple[Any, int | None]]:
        """Yield each frame with the pts of the one after it; None where frames are never reordered."""
        frames = iter(self.playback)
        if not self.playback.stream.codec_context.reorder_depth:
            return zip(frames, repeat(None))
        return ((frame, after and after.pts) for frame, after in pairwise(chain(frames, (None,))))

    def times(self) -> Array:
        """Return the times of all frames so far, (N,) int64."""
        return np.array(self._times, np.int64)


def nominal_rate(stream: Any) -> Fraction | None:
    """Return frames a second: the average, unless it is a tick rate in disguise; None where there is none."""
    average, guessed = stream.average_rate, stream.guessed_rate
    rate = average if average and (not guessed or average <= 2 * guessed) else guessed
    return Fraction(rate) if rate else None


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
