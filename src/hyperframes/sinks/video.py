"""Video files, written as closed parts at fixed frame numbers and joined at the end."""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import itertools
import os
from array import array
from collections import deque
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

import av.error

from hyperframes.errors import FrameError, PipelineError, SinkError
from hyperframes.frames import PIXEL_FORMATS, Clip, FrameSpec, Records, Spec
from hyperframes.media.encode import (
    CODECS,
    CONTAINERS,
    Codec,
    Container,
    Encoding,
    PartEncoder,
    choose_format,
    find_codec,
    fits,
    formats_of,
    has_alpha,
)
from hyperframes.media.mux import EncodedPart, Times, join, place
from hyperframes.sinks.base import Checkpoint, Sink, Target
from hyperframes.sinks.part_writer import Lanes, PartWriter, Room
from hyperframes.sinks.parts import Part, PartsFolder, digest_of
from hyperframes.sinks.staging import disk_errors, sync

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

__all__ = ["VideoSink"]


class VideoSink(Sink):
    """A video file: ``.mp4``, ``.mkv``, ``.mov``, ``.webm`` or ``.avi``.

    Frames are encoded in closed parts of a fixed number of frames, each with an encoder of its own, several at the same
    time where there are cores for it, in a hidden folder beside the file; `close` joins them, with the source's audio,
    subtitles, chapters and metadata, by copying packets. The bytes depend on the frames, their times and the settings,
    never on how many arrive at once, on the machine, or on whether the run was interrupted.

    Times are exact in MP4 and MOV (a start before 0 is moved to 0, with everything else). Matroska and WebM count
    milliseconds and AVI frames of a steady rate from 0: times go to the nearest free tick and a warning says how many
    were moved. Encoders are told the nominal rate only, so times never change how frames are coded.

    Parameters
    ----------
    path : path
        Final name; appears only when all is written.
    codec : str, optional
        FFmpeg's encoder (``libx264``) or its format (``h264``). Default: ``libx264`` (mp4, mkv, mov),
        ``libvpx-vp9`` (webm), ``mpeg4`` (avi).
    quality : float, optional
        Lower is better. libx264, libx264rgb, libx265: constant rate factor 0 (lossless) to 51, default 20, 18, 24.
        libvpx-vp9: 0 to 63, default 31. libsvtav1: 1 to 63, default 30. mpeg4, mjpeg: quantiser 1 to 31, default 3.
        prores_ks: profile 0 (proxy) to 5, default 3 (4:2:2) or 4 (4:4:4). ffv1 is lossless and has none.
    preset : str, optional
        Speed of the encoder. libx264, libx265: ``ultrafast`` to ``veryslow``, default ``veryfast``; libsvtav1:
        ``0`` to ``13``, default ``10``; libvpx-vp9: its ``cpu-used``, default ``5``.
    pixel_format : str, optional
        What to encode; default: the frames' own where the codec takes it, else the nearest.
    part_frames : int, optional
        Frames in a part; default 250, or 125 above 1920x1088.
    resume : bool
        Go on after the whole parts that an interrupted run of the same plan left; `resume_at` says where.

    Attributes
    ----------
    warnings : tuple of str
        What users should know: times moved, streams left out, transparency dropped.
    num_failed : int
        Failed frames left out.
    resume_at : int
        Position in the stream of the first frame still wanted; earlier ones are ignored. 0 unless resumed.
    """

    takes_records: ClassVar[bool] = False
    resumable = True
    takes_passthrough: ClassVar[bool] = True

    def __init__(
        self,
        path: str | Path,
        *,
        codec: str | None = None,
        quality: float | None = None,
        preset: str | None = None,
        pixel_format: str | None = None,
        part_frames: int | None = None,
        resume: bool = False,
    ) -> None:
        self.path = Path(path)
        self.name = str(path)
        self._container = _container(self.path)
        self._codec = _codec(codec or self._container.codec, self.path.suffix.lower())
        _check(self._codec, quality, preset, part_frames)
        self._quality, self._preset, self._pixel_format = quality, preset, pixel_format
        self._part_frames, self._resume = part_frames, resume
        self.warnings: tuple[str, ...] = ()
        self.num_failed = 0
        self.resume_at = 0
        self._folder: PartsFolder | None = None
        self._parts: list[Part] = []
        self._num_told = 0  # parts that a checkpoint told of
        self._writing: PartWriter | None = None  # takes frames
        self._ending: deque[PartWriter] = deque()  # have all of theirs
        self._position = self._first = 0
        self._source_stop = 0
        self._last_pts: int | None = None
        self._joins = True  # a piece leaves its parts to `gather`

    def memory_bytes(self, spec: Spec, cores: int, spare_bytes: int) -> int:
        """Return the bytes of frames that wait to be encoded, and of all encoders but one."""
        if not isinstance(spec, FrameSpec) or not spec.is_picture:
            return 0
        encoding = Encoding.of(self._codec, spec, self._quality, self._preset, self._part_frames)
        return Lanes.of(encoding, cores, spare_bytes).held_frames() * spec.nbytes

    def beside(self, path: str) -> VideoSink:
        """Return a sink with the same settings that writes to `path`."""
        return VideoSink(
            path,
            codec=self._codec.name,
            quality=self._quality,
            preset=self._preset,
            pixel_format=self._pixel_format,
            part_frames=self._part_frames,
            resume=self._resume,
        )

    def accepts(self, spec: Spec) -> tuple[str, ...] | None:
        """Return the one pixel format in which pictures of `spec` are encoded; None for what is no picture.

        Raises
        ------
        SinkError
            If the codec takes no pictures of this size, or not the pixel format asked for.
        """
        if not isinstance(spec, FrameSpec) or not spec.is_picture:
            return None
        takes = formats_of(self._codec)
        if self._pixel_format is not None:
            if self._pixel_format not in takes:
                raise self._error(
                    f"{self._codec.name} does not encode {self._pixel_format}: expected one of {', '.join(takes)}",
                    "Choose one of them, or another codec.",
                )
            chosen: str | None = self._pixel_format
        else:
            chosen = choose_format(self._codec, spec)
        if chosen is None or not fits(self._codec, chosen, spec):
            raise self._error(
                f"{self._codec.name} cannot encode {spec.width}x{spec.height} pictures as {chosen or takes[0]}: "
                "odd sizes need full chroma",
                "Use pixel_format='yuv444p', another codec, or the crop or resize operator to make the size even.",
            )
        if has_alpha(spec.pixel_format) and not has_alpha(chosen):
            self._warn(f"{self._codec.name} keeps no transparency: it is dropped (ffv1, prores and vp9 keep it)")
        given, kept = PIXEL_FORMATS[spec.pixel_format].bits, PIXEL_FORMATS[chosen].bits
        if given > kept:
            self._warn(
                f"{self._codec.name} encodes {chosen}: samples of {given} bits are reduced to {kept} (ffv1 keeps up to 16)"
            )
        return (chosen,)

    def open(self, target: Target) -> None:
        """Check that pictures of the target's spec can be encoded, and open the first encoder.

        Raises
        ------
        SinkError
            If they cannot, or the folder beside the file cannot be written.
        """
        folder = self._prepare(target)
        self._begin(folder, folder.completed() if self._resume else [], resume=self._resume)

    def _prepare(self, target: Target) -> PartsFolder:
        self._target = target
        spec = self._spec = self._checked(target.spec)
        self._encoding = Encoding.of(self._codec, spec, self._quality, self._preset, self._part_frames)
        plan = f"{target.fingerprint}\n{self._encoding.fingerprint}"
        if self.path.is_dir():
            raise self._error("a folder stands there", "Give the file another name.")
        self._lanes = Lanes.of(self._encoding, target.cores, target.spare_bytes)
        return PartsFolder(self.path, hashlib.sha256(plan.encode()).hexdigest())

    def _begin(self, folder: PartsFolder, parts: Sequence[Part], *, resume: bool) -> None:
        """Start the part after `parts`, of which nothing else is left."""
        self._folder, self._parts, self._num_told = folder, list(parts), len(parts)
        with self._errors():
            folder.claim()
            folder.clear(parts)
        self._room = Room(self._lanes.frames)
        self._position = self._parts[-1].stop if parts else self._first
        self._last_pts = next((part.pts[-1] for part in reversed(parts) if part.pts), None)
        self.resume_at = self._safe_until()
        self.num_failed = sum(part.num_failed for part in parts)
        try:
            self._start_part()
        except BaseException:
            self.abort(keep_parts=resume)
            raise

    def _safe_until(self) -> int:
        return self._parts[-1].source_stop if self._parts else 0

    # Going on after an interruption -----------------------------------------------------------------------------------

    def place(self) -> Path:
        """Return the file."""
        return self.path

    def settings(self) -> Mapping[str, Any]:
        """Return how it encodes."""
        return {
            "codec": self._codec.name,
            "quality": self._quality,
            "preset": self._preset,
            "pixel_format": self._pixel_format,
            "part_frames": self._part_frames,
        }

    @property
    def part_finished(self) -> bool:
        """Whether a part was finished since the last checkpoint."""
        self._note_whole()
        return len(self._parts) > self._num_told

    def checkpoint(self) -> Checkpoint:
        """Return which parts are whole: each was flushed when it was finished."""
        self._note_whole()
        self._num_told = len(self._parts)
        return Checkpoint({"parts": len(self._parts), "digest": digest_of(self._parts)}, self._safe_until())

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint | None:
        """Go on after the parts that the checkpoint told of; None if they are not all there and whole."""
        folder = self._prepare(target)
        parts = folder.completed(int(token["parts"]))
        if len(parts) < int(token["parts"]) or digest_of(parts) != token["digest"]:
            self._folder = folder  # for `abort` to remove
            return None
        self._begin(folder, parts, resume=True)
        return Checkpoint(token, self.resume_at)

    def piece_results(self, target: Target) -> int:
        """Return how many frames a part has."""
        spec = self._checked(target.spec)
        return Encoding.of(self._codec, spec, self._quality, self._preset, self._part_frames).part_frames

    def piece(self, path: Path, first: int) -> VideoSink:
        """Return one that leaves its parts beside `path`, the first of them starting with frame `first`."""
        piece = self.beside(os.fspath(path))
        piece._first, piece._joins = first, False
        return piece

    def gather(self, target: Target, pieces: Sequence[Path]) -> str:
        """Join the parts of all pieces; each is read and compared with its checksum before."""
        folder = self._folder = self._prepare(target)
        files: list[Path] = []
        with self._errors():
            folder.claim()
            for piece in pieces:
                own = PartsFolder(piece, folder.fingerprint)
                found = own.completed()
                at = self._parts[-1].stop if self._parts else 0
                follows = all(part.start == stop for part, stop in zip(found, _stops(found, at), strict=False))
                if len(found) < own.count() or not follows:
                    raise self._error(f"the parts in {own.path} are not whole", "Run it again.")
                self._parts += found
                files += [own.file(part.number) for part in found if part.pts]
            self._check_rising()
        self.num_failed = sum(part.num_failed for part in self._parts)
        return self._put_together(files)

    def _check_rising(self) -> None:
        filled = [part for part in self._parts if part.pts]
        for before, after in itertools.pairwise(filled):
            if after.pts[0] <= before.pts[-1]:
                raise self._unordered(after.pts[0], before.pts[-1], after.start)

    def write(self, result: Clip | Records) -> None:
        """Encode the frames of a clip; failed ones are left out and counted.

        Raises
        ------
        SinkError
            If the disk is full, or the frames are of another size or pixel format than the first.
        FrameError
            If their times do not rise.
        """
        if not isinstance(result, Clip) or not result.spec.same_arrays(self._spec):
            got = result.spec if isinstance(result, Clip) else "records"
            raise self._error(
                f"all frames of a video must be alike: expected {self._spec}, got {got}",
                "Scale them to one size (--on-size-change scale), or write each size to its own file.",
            )
        with self._errors():
            for t in range(len(result)):
                if int(result.index[t]) >= self.resume_at:
                    self._take(result, t)

    def settle(self) -> None:
        """Wait for the parts that have all of their frames."""
        with self._errors():
            self._note_whole(leave=0)

    def close(self) -> str | None:
        """Join the parts, put the file under its name and return the name.

        Raises
        ------
        SinkError
            If there is no frame, or the disk is full; the parts stay until `abort`.
        """
        assert self._folder is not None, "close comes after open"
        with self._errors():
            self._finish_part()
            self._note_whole(leave=0)
            if not self._joins:
                self._folder.keep_only(self._parts)
                return str(self.path)
        return self._put_together([self._folder.file(part.number) for part in self._parts if part.pts])

    def _put_together(self, files: Sequence[Path]) -> str:
        assert self._folder is not None
        with self._errors():
            if not any(part.pts for part in self._parts):
                self.abort()
                raise self._error(
                    "a video needs a frame, and none was delivered"
                    + (f" ({self.num_failed} failed)" if self.num_failed else ""),
                    "Does --range begin before the stream ends, and do the operators leave some frames in?",
                )
            joined = self._folder.partial(self.path.name)
            with joined.open("w+b", _BUFFER_BYTES) as file:
                self._join(file, files)
                file.flush()
                os.fsync(file.fileno())
            joined.replace(self.path)
            sync([self.path.parent])
            self._folder.remove()
        return str(self.path)

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove what is incomplete, and whole parts unless told to keep them."""
        if keep_parts:
            with contextlib.suppress(SinkError):  # parts ahead of the one that failed are whole
                self.settle()
        while self._ending:
            self._ending.popleft().discard()
        if self._writing is not None:
            self._writing.discard()
            self._writing = None
        if self._folder is not None:
            if keep_parts:
                self._folder.keep_only(self._parts)
            else:
                self._folder.remove()

    # One part ---------------------------------------------------------------------------------------------------------

    def _start_part(self) -> None:
        assert self._folder is not None
        self._note_whole(leave=self._lanes.parts - 1)
        number = len(self._parts) + len(self._ending)
        encoder = PartEncoder(self._encoding, self._position)
        with self._errors():
            self._writing = PartWriter(self._folder, number, self._position, encoder, self._room)

    def _take(self, clip: Clip, t: int) -> None:
        if self._writing is None:
            self._start_part()
        assert self._writing is not None
        self._source_stop = int(clip.index[t]) + 1
        if clip.mask is None or clip.mask[t]:
            pts = int(clip.pts[t])
            if self._last_pts is not None and pts <= self._last_pts:
                raise self._unordered(pts, self._last_pts, int(clip.index[t]))
            duration = 0 if clip.durations is None else int(clip.durations[t])
            self._writing.add([plane[t] for plane in clip.planes], pts, duration)
            self._last_pts = pts
        else:
            self.num_failed += 1
        self._position += 1
        if self._position % self._encoding.part_frames == 0:
            self._finish_part()

    def _finish_part(self) -> None:
        writing, self._writing = self._writing, None
        if writing is None:
            return
        if self._position == writing.start:
            writing.discard()
            return
        writing.finish(self._position, self._source_stop)
        self._ending.append(writing)

    def _note_whole(self, leave: int | None = None) -> None:
        """Take note of the parts that are whole, in order; wait for some until at most `leave` are under way."""
        while self._ending and (self._ending[0].is_over or (leave is not None and len(self._ending) > leave)):
            self._ending[0].wait()
            part = self._ending.popleft().part
            assert part is not None, "what stopped it was raised"
            self._parts.append(part)

    # All together -----------------------------------------------------------------------------------------------------

    def _join(self, file: IO[bytes], files: Sequence[Path]) -> None:
        filled = [part for part in self._parts if part.pts]
        pts = array("q")
        for part in filled:
            pts.extend(part.pts)
        passthrough = self._target.passthrough
        start = passthrough.start if passthrough is not None else Fraction(0)
        times = place(pts, filled[-1].last_duration, self._spec, self._container, start)
        self._say_moved(times)
        parts = [EncodedPart(path, len(part.pts), part.step) for path, part in zip(files, filled, strict=True)]
        delay = max(part.delay for part in filled)
        for warning in join(file, self._container, parts, delay, times, self._spec, passthrough):
            self._warn(warning)

    def _say_moved(self, times: Times) -> None:
        if times.offset:
            where = "before 0" if self._container.late_start else "at any time but 0"
            self._warn(
                f"{self._container.format} files cannot start {where}: all times were moved by "
                f"{float(times.offset):.6f} s"
            )
        if times.moved:
            self._warn(
                f"{self._container.format} files keep times to {float(times.time_base):.6g} s: "
                f"{times.moved} of {len(times.pts)} frames were moved, by at most {float(times.farthest):.6f} s"
            )

    # What can be wrong ------------------------------------------------------------------------------------------------

    def _checked(self, spec: Spec) -> FrameSpec:
        if not isinstance(spec, FrameSpec) or not spec.is_picture:
            got = str(spec) if isinstance(spec, FrameSpec) else "records"
            raise self._error(f"a video takes pictures, got {got}", _where_else(spec))
        (takes,) = self.accepts(spec) or ("",)
        if spec.pixel_format != takes:
            raise self._error(
                f"{self._codec.name} was to get {takes} pictures, got {spec.pixel_format}",
                f"Convert them first: --operator convert:format={takes}",
            )
        return spec

    def _unordered(self, pts: int, last: int, index: int) -> FrameError:
        return FrameError(
            f"the times of a video's frames must rise: got {pts} after {last} at frame {index}",
            expected=last + 1,
            got=pts,
            index=index,
        )

    def _error(self, sentence: str, hint: str) -> SinkError:
        return SinkError(f"cannot write {self.path}: {sentence}", sink=self.name, hint=hint)

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings = (*self.warnings, warning)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the disk and of FFmpeg into SinkErrors."""
        with disk_errors(self.path):
            try:
                yield
            except av.error.FFmpegError as error:
                if isinstance(error, OSError) and error.errno in _DISK:
                    raise OSError(error.errno, os.strerror(error.errno)) from error
                raise self._error(
                    f"{self._codec.name} failed: {error}", "Use another codec or other settings; please report this."
                ) from error


_BUFFER_BYTES = 1 << 20

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS}


def _stops(parts: Sequence[Part], first: int) -> list[int]:
    """Return where each of `parts` must start, the first of them at `first`."""
    return [first, *(part.stop for part in parts)]


def _where_else(spec: Spec) -> str:
    """Return where results that are no pictures of 8 or more bits can go."""
    if not isinstance(spec, FrameSpec):
        return "Write records to .parquet, .csv or .jsonl."
    shape = spec.shapes[0]
    if len(shape) <= 1:
        return "Write rows to .csv, .parquet or .npy."
    if len(shape) == 2 or shape[-1] in {1, 3, 4}:
        return "Write .npy, or end with an operator that makes pictures of integers: --operator convert:dtype=uint8."
    return "Write .npy, which holds arrays of any shape."


def _container(path: Path) -> Container:
    container = CONTAINERS.get(path.suffix.lower())
    if container is None:
        raise SinkError(
            f"cannot write {path}: no video container has the suffix {path.suffix!r}",
            sink=str(path),
            hint=f"Use one of: {', '.join(CONTAINERS)}.",
        )
    return container


def _codec(name: str, suffix: str) -> Codec:
    codec = find_codec(name)
    if suffix not in codec.containers:
        fit = sorted(other.name for other in CODECS.values() if suffix in other.containers)
        raise PipelineError(
            f"{suffix} files do not hold {codec.name}: expected one of {', '.join(fit)}",
            expected=fit,
            got=name,
            hint=f"Use one of them, or a suffix that holds {codec.name}: {', '.join(sorted(codec.containers))}.",
        )
    return codec


def _check(codec: Codec, quality: float | None, preset: str | None, part_frames: int | None) -> None:
    if quality is not None:
        low, high = codec.quality_range
        if not codec.quality:
            raise PipelineError(f"{codec.name} is lossless: it has no quality", got=quality, hint="Leave it out.")
        if not low <= quality <= high:
            raise PipelineError(
                f"the quality of {codec.name} is a number from {low:g} to {high:g} ({codec.quality}), got {quality:g}",
                expected=(low, high),
                got=quality,
                hint=f"The default is {codec.default_quality:g}." if codec.default_quality is not None else None,
            )
    if preset is not None and not codec.preset_option:
        raise PipelineError(f"{codec.name} has no presets, got {preset!r}", got=preset, hint="Leave it out.")
    if preset is not None and codec.presets and preset not in codec.presets:
        near = difflib.get_close_matches(preset, codec.presets, n=1)
        raise PipelineError(
            f"{codec.name} has no preset {preset!r}: expected one of {', '.join(codec.presets)}",
            expected=codec.presets,
            got=preset,
            hint=f"Did you mean {near[0]!r}?" if near else f"The default is {codec.default_preset!r}.",
        )
    if part_frames is not None and part_frames < 1:
        raise PipelineError(f"a part has at least one frame, got part_frames={part_frames}", got=part_frames)
