"""Joining encoded parts, exact times, and what is copied from the source, into one container without encoding."""

from __future__ import annotations

import heapq
import io
import math
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import av
import av.error
from av.audio.stream import AudioStream

from hyperframes.frames import FrameSpec, rescale
from hyperframes.media.encode import Container, has_alpha, nominal_rate
from hyperframes.media.matroska import PLACEHOLDER, set_display_size
from hyperframes.media.ranged import readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from av.container import InputContainer, OutputContainer
    from av.packet import Packet
    from av.stream import Stream

    from hyperframes.media.passthrough import Passthrough

__all__ = ["EncodedPart", "Times", "join", "place"]

_MILLISECOND = Fraction(1, 1000)
_TICKS = 1 << 31
"""MP4 and MOV count ticks a second, and ticks from one frame to the next, in numbers below it."""


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """A file with packets whose times are ``step`` milliseconds times the frame's number in the part."""

    path: Path
    num_frames: int
    step: int


@dataclass(frozen=True, slots=True)
class Times:
    """When each frame is shown, in whole ticks of `time_base`, as the container will say."""

    time_base: Fraction
    pts: Sequence[int]
    durations: Sequence[int]
    moved: int
    """Frames whose time is not exactly the one asked for."""
    farthest: Fraction
    """By how many seconds at most."""
    offset: Fraction
    """Seconds added to all streams because the container cannot start where they do."""


def place(
    pts: Sequence[int],
    last_duration: int,
    spec: FrameSpec,
    container: Container,
    start: Fraction = Fraction(0),
) -> Times:
    """Return the times of frames in `container`: exact where its ticks allow, else the nearest free tick.

    Parameters
    ----------
    pts : sequence of int
        Rising times in ticks of ``spec.time_base``.
    last_duration : int
        Ticks the last frame stays; 0 when unknown, then the nominal rate or the gap before it says.
    spec : FrameSpec
        Of the frames: time base and nominal rate.
    container : Container
        What is written.
    start : Fraction
        Seconds on the source's time line that become 0.
    """
    exact = _Exact(pts, spec.time_base, start)
    if exact.ticks[0] < 0 or not container.late_start:
        exact.offset = -exact.ticks[0]
    time_base = _time_base(exact, spec, container)
    placed, moved, farthest = _nearest(exact, time_base)
    durations = array("q", (after - before for before, after in pairwise(placed)))
    durations.append(_last(last_duration, durations, spec, time_base))
    return Times(time_base, placed, durations, moved, farthest, exact.offset * exact.unit)


class _Exact:
    """Times as integers of a unit in which all are whole: a number of eight bytes a frame, however many there are."""

    def __init__(self, pts: Sequence[int], time_base: Fraction, start: Fraction) -> None:
        per_second = math.lcm(time_base.denominator, start.denominator)
        self.unit = Fraction(1, per_second)
        step, origin = int(time_base * per_second), int(start * per_second)
        self.ticks = array("q", (ticks * step - origin for ticks in pts))
        self.offset = 0
        """Units added to all."""

    def __iter__(self) -> Iterator[int]:
        return (tick + self.offset for tick in self.ticks)


def _nearest(exact: _Exact, time_base: Fraction) -> tuple[array[int], int, Fraction]:
    """Return rising ticks next to `exact`, how many differ, and the largest difference in seconds."""
    up, down = (exact.unit / time_base).as_integer_ratio()
    placed = array("q")
    moved = farthest = 0
    last = -(1 << 62)
    for value in exact:
        last = max((2 * value * up + down) // (2 * down), last + 1)
        error = abs(last * down - value * up)
        moved += error > 0
        farthest = max(farthest, error)
        placed.append(last)
    return placed, moved, farthest * time_base / down


def _time_base(exact: _Exact, spec: FrameSpec, container: Container) -> Fraction:
    if isinstance(container.tick, Fraction):
        return container.tick
    if container.tick == "rate":
        return _steady(exact, spec.rate)
    scale = spec.time_base.denominator
    widest = max((after - before for before, after in pairwise(exact)), default=0) * exact.unit * scale
    return Fraction(1, scale if scale < _TICKS and widest < _TICKS else 90_000)


def _steady(exact: _Exact, rate: Fraction | None) -> Fraction:
    """Return the tick of the lowest rate at which no frame moves by more than a millisecond, else a millisecond."""
    common = [Fraction(r) for r in (25, 30, 60, 120)] + [Fraction(r * 1000, 1001) for r in (30, 60)]
    for candidate in [*([rate] if rate else []), *sorted(common)]:
        if _nearest(exact, 1 / candidate)[2] <= _MILLISECOND:
            return 1 / candidate
    return _MILLISECOND


def _last(given: int, durations: Sequence[int], spec: FrameSpec, time_base: Fraction) -> int:
    if given > 0:
        return max(1, rescale(given, spec.time_base, time_base))
    if spec.rate:
        return max(1, rescale(1, 1 / spec.rate, time_base))
    return durations[-1] if durations else max(1, rescale(1, Fraction(1, 25), time_base))


def join(
    file: IO[bytes],
    container: Container,
    parts: Sequence[EncodedPart],
    delay: int,
    times: Times,
    spec: FrameSpec,
    passthrough: Passthrough | None = None,
) -> list[str]:
    """Write all packets of `parts` and what `passthrough` names into `file`; return warnings.

    Parameters
    ----------
    file : binary file
        Open for writing and reading at its start; stays the caller's to close.
    container : Container
        What to write.
    parts : sequence of EncodedPart
        In order; together they hold one packet for each of `times`.
    delay : int
        By how many frames coding runs ahead of showing, in the worst part: frame ``i - delay`` has been shown when
        the i-th packet is decoded, so that is its decoding time.
    times : Times
        Of all frames.
    spec : FrameSpec
        What the picture's samples mean, for the container's own fields.
    passthrough : Passthrough, optional
        Other streams and metadata of the source.
    """
    aspect = container.format in {"matroska", "webm"} and spec.sample_aspect_ratio != 1
    with ExitStack() as stack:
        source = _Extras(stack, passthrough, container, times.offset) if passthrough is not None else None
        rates = source.rates if source is not None else []
        output = stack.enter_context(
            av.open(
                file,
                "w",
                format=container.format,
                options=_options(container, times, aspect, rates),
                buffer_size=1 << 20,
            )
        )
        first = stack.enter_context(av.open(str(parts[0].path)))
        video = output.add_stream_from_template(first.streams.video[0], opaque=True)
        if has_alpha(spec.pixel_format) and container.format in {"matroska", "webm"}:
            video.metadata["alpha_mode"] = "1"
        if aspect:
            video.metadata["title"] = PLACEHOLDER
        warnings = _describe(video, spec, times, container)
        if source is not None:
            source.attach(output)
            warnings += source.warnings
        output.start_encoding()
        packets = _video_packets(parts, delay, times, video)
        others = source.packets() if source is not None else iter(())
        for _, _, packet in heapq.merge(packets, others, key=lambda item: item[:2]):
            if packet.stream is video:
                output.mux_one(packet)
            elif source is not None:
                source.mux(packet)
        if source is not None:
            warnings += source.damage()
    if aspect:
        set_display_size(file, spec.width, spec.height, spec.sample_aspect_ratio)
    return warnings


def _options(container: Container, times: Times, aspect: bool, rates: Sequence[int]) -> dict[str, str]:
    options = {"fflags": "+bitexact", "avoid_negative_ts": "disabled"}
    if aspect:
        options["write_crc32"] = "0"  # checksums would be of the header before the display size is filled in
    if container.tick == "any":
        scale = times.time_base.denominator
        # The movie's own scale limits how exactly the start of each stream is kept.
        common = math.lcm(scale, *rates)
        options["video_track_timescale"] = str(scale)
        options["movie_timescale"] = str(common if common < _TICKS else scale)
    return options


def _describe(video: Any, spec: FrameSpec, times: Times, container: Container) -> list[str]:
    """Write what the picture means into the container's fields; return what it cannot say."""
    context = video.codec_context
    video.time_base = times.time_base
    context.sample_aspect_ratio = spec.sample_aspect_ratio
    context.field_order = {"progressive": 1, "tff": 2, "bff": 3}[spec.field_order]
    context.framerate = _average_rate(spec, times)
    if container.format in {"mp4", "mov"} and context.name == "hevc":
        context.codec_tag = "hvc1"  # Apple's players want parameter sets in the header
    if not spec.rotation and not spec.mirrored:
        return []
    if container.format == "avi":
        return ["avi files cannot say that players turn or mirror the picture: it shows as it is stored"]
    # A mirror before a turn is the mirror after the opposite turn; FFmpeg counts turns against the clock.
    video.set_display_rotation(spec.rotation if spec.mirrored else -spec.rotation, hflip=spec.mirrored)
    return []


def _average_rate(spec: FrameSpec, times: Times) -> Fraction:
    if spec.rate and not times.moved:
        ends = min(times.durations), max(times.durations)
        if all(abs(step * times.time_base - 1 / spec.rate) <= times.time_base for step in ends):
            return spec.rate
    span = (times.pts[-1] - times.pts[0] + times.durations[-1]) * times.time_base
    return (len(times.pts) / span).limit_denominator(100_000) if span else nominal_rate(spec)


def _video_packets(
    parts: Sequence[EncodedPart], delay: int, times: Times, video: Any
) -> Iterator[tuple[Fraction, int, Packet[Any]]]:
    first, position = 0, 0
    lead = times.durations[0]
    for part in parts:
        with av.open(str(part.path)) as container:
            for packet in container.demux(container.streams.video[0]):
                if not packet.size:
                    continue
                assert packet.pts is not None
                frame = first + packet.pts // part.step
                before = position - delay
                dts = times.pts[before] if before >= 0 else times.pts[0] + before * lead
                packet.pts, packet.dts, packet.duration = times.pts[frame], dts, times.durations[frame]
                packet.time_base = times.time_base
                packet.stream = video
                yield dts * times.time_base, 0, packet
                position += 1
        first += part.num_frames
        if position != first:
            raise ValueError(
                f"{part.path.name} holds {position - first + part.num_frames} packets, not {part.num_frames}"
            )


class _Extras:
    """Audio, subtitles, chapters and metadata of the source, copied as far as the container holds them."""

    def __init__(self, stack: ExitStack, given: Passthrough, container: Container, offset: Fraction) -> None:
        self.warnings: list[str] = []
        self._given, self._container = given, container
        self._shift = offset - given.start
        self._templates: list[Stream] = []
        self._streams: dict[int, Stream] = {}
        self._refused: dict[int, int] = {}
        self._started: set[int] = set()
        self._late: list[str] = []
        self._source: InputContainer | None = None
        self._output: OutputContainer
        try:
            self._source = stack.enter_context(av.open(readable(given.path)))
        except (av.error.FFmpegError, OSError) as error:
            if given.streams:
                self.warnings.append(f"nothing but the pictures was kept: {given.path} cannot be opened: {error}")
            return
        for index in given.streams:
            template = self._source.streams[index]
            reason = _refusal(given.path, template, container)
            if reason is None:
                self._templates.append(template)
            else:
                what = f"{template.type} stream {index} ({_codec_name(template)})"
                self.warnings.append(f"{what} was left out: {reason}")

    @property
    def rates(self) -> list[int]:
        """Samples a second of each sound stream that is copied."""
        return [t.codec_context.sample_rate for t in self._templates if isinstance(t, AudioStream)]

    def attach(self, output: OutputContainer) -> None:
        """Add the streams, tags and chapters to `output`."""
        self._output = output
        output.metadata.update(_kept_tags(self._given.metadata))
        if self._source is None:
            return
        for template in self._templates:
            stream = output.add_stream_from_template(template, opaque=True)
            stream.metadata.update(_kept_tags(template.metadata))
            stream.disposition = template.disposition
            self._streams[template.index] = stream
        self._copy_chapters(self._source)

    def _copy_chapters(self, source: InputContainer) -> None:
        kept = []
        for chapter in source.chapters() if self._container.format != "avi" else ():
            base = chapter["time_base"] or Fraction(1)
            begin, end = (ticks * base + self._shift for ticks in (chapter["start"], chapter["end"]))
            until = math.inf if self._given.stop is None else self._given.stop + self._shift
            if end > 0 and begin < until:
                # AV_TIME_BASE-like microseconds hold any shift closely enough for a mark in a menu.
                micro = Fraction(1, 1_000_000)
                clipped = max(begin, Fraction(0)), min(end, until)
                kept.append(
                    {
                        **chapter,
                        "time_base": micro,
                        "start": round(clipped[0] / micro),
                        "end": round(clipped[1] / micro),
                    }
                )
        if kept:
            self._output.set_chapters(kept)  # type: ignore[arg-type]

    def packets(self) -> Iterator[tuple[Fraction, int, Packet[Any]]]:
        """Yield (decoding time in seconds, order, packet) for all copied streams, times moved to the output's."""
        if self._source is None or not self._streams:
            return
        wanted = [self._source.streams[index] for index in self._streams]
        start, stop = self._given.start, self._given.stop
        latest = Fraction(-1 << 40)
        for packet in self._source.demux(wanted):
            time = packet.pts if packet.pts is not None else packet.dts
            if not packet.size or time is None:
                continue
            base = packet.time_base
            seconds = time * base
            if (start and seconds < start) or (stop is not None and seconds >= stop):
                continue
            if not self._container.late_start and not self._starts(packet.stream, seconds + self._shift):
                continue
            self._move(packet, base)
            order = packet.dts if packet.dts is not None else packet.pts
            assert order is not None
            latest = max(latest, order * packet.time_base)
            packet.stream = self._streams[packet.stream.index]
            yield latest, 1, packet

    def _starts(self, stream: Stream, seconds: Fraction) -> bool:
        """Return whether a packet at `seconds` has its place in a file where all streams start at 0."""
        if seconds >= 0 and stream.index not in self._started:
            self._started.add(stream.index)
            if seconds > Fraction(1, 20):
                self._late.append(f"{stream.type} stream {stream.index} starts {float(seconds):.3f} s too early")
        return seconds >= 0

    def _move(self, packet: Packet[Any], base: Fraction) -> None:
        if not self._shift:
            return
        ticks = rescale(1, self._shift, base)
        packet.pts = None if packet.pts is None else packet.pts + ticks
        packet.dts = None if packet.dts is None else packet.dts + ticks

    def mux(self, packet: Packet[Any]) -> None:
        """Write `packet`; one that the container refuses is counted and left out."""
        index = packet.stream.index
        try:
            self._output.mux_one(packet)
        except (av.error.InvalidDataError, av.error.ArgumentError):
            self._refused[index] = self._refused.get(index, 0) + 1

    def damage(self) -> Iterable[str]:
        """Return warnings about packets that were left out or come at another time."""
        yield from (f"{self._container.format} files start all streams at 0: {late}" for late in self._late)
        for index, count in self._refused.items():
            yield f"{count} damaged packets of output stream {index} were left out"


_TECHNICAL = {"major_brand", "minor_version", "compatible_brands", "encoder", "vendor_id", "duration"}


def _kept_tags(tags: dict[str, str]) -> dict[str, str]:
    """Drop what describes the source's container, not its content."""
    return {
        name: value
        for name, value in tags.items()
        if name.lower() not in _TECHNICAL and not name.upper().startswith(("_STATISTICS", "NUMBER_OF_", "BPS"))
    }


def _codec_name(stream: Stream) -> str:
    context: Any = stream.codec_context
    return "unknown codec" if context is None else str(context.codec.canonical_name)


def _refusal(path: str, template: Stream, container: Container) -> str | None:
    """Try the beginning of `template`, a stream of `path`, in a file of the kind; return why it cannot be copied."""
    if template.type not in {"audio", "subtitle"}:
        return f"{template.type} streams are not copied"
    if container.format == "avi" and _codec_name(template) == "vorbis":
        return "avi files cannot keep its times"
    try:
        with av.open(readable(path)) as source, av.open(io.BytesIO(), "w", format=container.format) as trial:
            stream = trial.add_stream_from_template(template, opaque=True)
            trial.start_encoding()
            packet = next((packet for packet in source.demux(source.streams[template.index]) if packet.size), None)
            if packet is not None:  # some headers are written with the first packet only
                packet.stream = stream
                trial.mux_one(packet)
    except (av.error.FFmpegError, ValueError):
        return f"{container.format} files cannot hold it"
    return None
