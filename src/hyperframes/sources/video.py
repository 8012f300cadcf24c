"""Video files and streams through PyAV: exact times, native planes, the same frames for any number of threads."""

from __future__ import annotations

import os
from array import array
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import Array, Frame, FrameSpec
from hyperframes.media.colour import colour_of
from hyperframes.media.container import Place, has_alpha_beside
from hyperframes.media.decode import Playback
from hyperframes.media.index import PacketIndex
from hyperframes.media.orientation import orientation_of
from hyperframes.media.pixels import Reshaper, Views, listed_format
from hyperframes.media.times import Repair
from hyperframes.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = ["VideoSource", "open_video", "open_y4m"]

SizeChange = Literal["scale", "split", "fail"]

_PROVEN_FRAMES: Final = 8
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
    place = Place(url, stream, timeout_seconds=timeout)
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
    index and compare all that they decode with it; where it is wrong they read from the start instead. Damage in a
    group of pictures that nothing has decoded yet can go unseen: after a whole read or `count`, nothing is left to
    trust, and `exact` is True.

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
    """

    def __init__(
        self,
        place: Place,
        *,
        threads: int | Literal["auto"] = "auto",
        on_size_change: SizeChange = "scale",
        first: int = 0,
    ) -> None:
        if threads != "auto" and not (isinstance(threads, int) and threads >= 1):
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
        self._verified: tuple[Array, Array] | None = None
        self._indexed: PacketIndex | None = None
        self._hint: int | None = None
        self._distrusted = not place.reopens
        self._runs: set[_Run] = set()
        self._primed: tuple[_Run, Iterator[_Timed]] | None = self._prime()

    # Opening ----------------------------------------------------------------------------------------------------------

    def _prime(self) -> tuple[_Run, Iterator[_Timed]]:
        """Decode the first frame for the spec; return the started run, which the first read goes on with."""
        run = self._new_run()
        try:
            frames = iter(run)
            head = next(islice(frames, self._first, None), None)
            if head is None:
                if self._first:
                    raise self._place.error(f"has no frame {self._first}", hint="Start at an earlier frame.")
                raise self._place.nothing_decodes(run.playback.stream, run.playback.tally.errors)
            self._describe(run.playback.stream, head[0])
        except BaseException:
            self._close_run(run)
            raise
        return run, chain([head], frames)

    def _describe(self, stream: Any, frame: Any) -> None:
        name = frame.format.name
        try:
            pixel_format, full_range = listed_format(name)
        except FrameError as error:
            raise self._place.error(f"cannot be read: {error}", hint=error.hint) from error
        self._direct = name == pixel_format or full_range
        if not self._direct:
            self._note("format", f"pixel format {name} is converted to {pixel_format}")
        rotation, mirrored = orientation_of(frame)
        self.spec = FrameSpec.picture(
            frame.height,
            frame.width,
            pixel_format,
            colour=colour_of(frame, full_range=full_range),
            sample_aspect_ratio=Fraction(stream.sample_aspect_ratio or 1),
            rotation=rotation,
            mirrored=mirrored,
            field_order=field_order_of(stream, frame),
            time_base=Fraction(stream.time_base),
            rate=nominal_rate(stream),
        )
        self._coded: _Coded = (name, frame.height, frame.width)
        self._declared: int = stream.frames
        if has_alpha_beside(stream):
            self._note("alpha", "the alpha channel is coded beside the picture and is not decoded: frames are opaque")

    def _new_run(self) -> _Run:
        run = _Run(Playback(self._place, self._threads))
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
        if start < 0 or (stop is not None and stop < 0):
            raise FrameError(f"frame positions start at 0: got {start}:{stop}", got=(start, stop))
        if stop is not None and stop <= start:
            return
        run, frames = self._run_at(start)
        lend, spec = self._lender(), self.spec
        low, high = start + self._first, None if stop is None else stop + self._first
        try:
            for frame, pts, position in frames:
                if position < low:
                    continue
                planes = lend(frame, position - self._first)
                if planes is None:
                    return
                yield Frame(planes, pts, position - self._first, spec, frame.duration or 0)
                if high is not None and position + 1 >= high:
                    return
            self._finish(run)
        finally:
            self._close_run(run)

    def _run_at(self, start: int) -> tuple[_Run, Iterator[_Timed]]:
        """Return a run that begins at or before position `start`."""
        primed, self._primed = self._primed, None
        if primed is not None:
            return primed
        if not self._place.reopens:
            raise self._place.error("can be read only once: it is a pipe", hint="Write it to a file first.")
        run = self._new_run()
        return run, iter(run)

    def _lender(self) -> Callable[[Any, int], tuple[Array, ...] | None]:
        """Return what turns a decoded frame into planes of `spec`; it gives None where the stream is to be split."""
        spec, coded = self.spec, self._coded
        view = Views(spec.pixel_format, spec.height, spec.width)
        reshape = Reshaper(spec.pixel_format, spec.height, spec.width)
        direct = self._direct

        def lend(frame: Any, index: int) -> tuple[Array, ...] | None:
            if (frame.format.name, frame.height, frame.width) != coded:
                if not self._changed(frame, index):
                    return None
                return view(reshape(frame))
            return view(frame if direct else reshape(frame))

        return lend

    def _changed(self, frame: Any, index: int) -> bool:
        """React to a frame of another size or format; return whether it is to be scaled."""
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
            self._note(
                "size", f"the picture changes from {before} to {after} at frame {index}: scaled to the first size"
            )
        return True

    def _finish(self, run: _Run) -> None:
        """Note what a run that reached the end of the stream has shown."""
        tally, repaired = run.playback.tally, run.repair.repaired
        if run.whole:
            times, durations = run.shown()
            self._verified = times[self._first :], durations[self._first :]
            self._hint, self.exact = len(times) - self._first, True
            if self._declared and self._declared != len(times):
                self._note("count", f"the container declares {self._declared} frames, {len(times)} decode")
            self.repaired_pts = repaired > 0
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

    def close(self) -> None:
        """Close all decoders, also those of reads that were not finished."""
        self._primed = None
        for run in tuple(self._runs):
            self._close_run(run)


_Timed = tuple[Any, int, int]
"""PyAV frame, time in ticks, position in the stream."""
_Coded = tuple[str, int, int]
"""Pixel format, height and width as they come from the decoder."""


class _Run:
    """One pass of the decoder: frames with repaired times and positions, and a record of both if from the start."""

    def __init__(self, playback: Playback, at: int = 0) -> None:
        rate = nominal_rate(playback.stream)
        self.playback, self.at = playback, at
        self.repair = Repair(round(1 / (rate * playback.stream.time_base)) if rate else 1)
        self.whole = at == 0
        self._times, self._durations = array("q"), array("q")

    def __iter__(self) -> Iterator[_Timed]:
        repair, note_time, note_duration = self.repair, self._times.append, self._durations.append
        for position, frame in enumerate(self.playback, self.at):
            pts = repair(frame.pts, frame.dts)
            if self.whole:
                note_time(pts)
                note_duration(frame.duration or 0)
            yield frame, pts, position

    def shown(self) -> tuple[Array, Array]:
        """Return times and durations of all frames so far, (N,) int64 each."""
        return np.array(self._times, np.int64), np.array(self._durations, np.int64)


def nominal_rate(stream: Any) -> Fraction | None:
    """Return frames a second: the average, unless it is a tick rate in disguise; None where there is none."""
    average, guessed = stream.average_rate, stream.guessed_rate
    rate = average if average and (not guessed or average <= 2 * guessed) else guessed
    return Fraction(rate) if rate else None


def field_order_of(stream: Any, frame: Any) -> Literal["progressive", "tff", "bff"]:
    """Return which field of an interlaced frame is shown first; DV says nothing and is bottom field first."""
    if not frame.interlaced_frame:
        return "progressive"
    context = stream.codec_context
    default = context.name != "dvvideo"
    # AVFieldOrder: TT, BB, TB, BT (coded first, then shown first).
    top = {2: True, 3: False, 4: False, 5: True}.get(int(context.field_order), default)
    return "tff" if top else "bff"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
