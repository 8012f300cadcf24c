"""Video encoders: which there are, what they take, and one closed part of a stream through one of them.

Times never enter an encoder. It is fed frame numbers at the nominal rate, so neither variable rates, late or
negative starts nor odd time bases change what it makes; `hyperframes.media.mux` puts the exact times back.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import IO, TYPE_CHECKING, Any, Literal, cast

import av
import av.error
import av.filter
import numpy as np
from av.codec.context import Flags, ThreadType

from hyperframes.errors import PipelineError, SinkError
from hyperframes.frames import PIXEL_FORMATS, Array, Colour, FrameSpec
from hyperframes.media.colour import set_colour
from hyperframes.media.priority import ordinary_priority

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

__all__ = [
    "CODECS",
    "CONTAINERS",
    "Codec",
    "Container",
    "Encoding",
    "PartEncoder",
    "choose_format",
    "find_codec",
    "fits",
    "formats_of",
    "has_alpha",
    "nominal_rate",
]

_LAMBDA = 118
"""FFmpeg's FF_QP2LAMBDA: the unit of the quantisers of its own encoders."""
_MILLISECOND = Fraction(1, 1000)


@dataclass(frozen=True, slots=True)
class Container:
    """A file format: FFmpeg's name for it, its default encoder, how finely it keeps time."""

    format: str
    codec: str
    tick: Fraction | Literal["any", "rate"]
    """Seconds between two times it can tell apart: any time base, one frame at a rate, or a fixed step."""
    late_start: bool = True
    """Whether pictures may start after 0."""


CONTAINERS: Mapping[str, Container] = {
    ".mp4": Container("mp4", "libx264", "any"),
    ".mkv": Container("matroska", "libx264", _MILLISECOND),
    ".mov": Container("mov", "libx264", "any"),
    ".webm": Container("webm", "libvpx-vp9", _MILLISECOND),
    ".avi": Container("avi", "mpeg4", "rate", late_start=False),
}
"""By suffix."""


@dataclass(frozen=True, slots=True)
class Codec:
    """An encoder, and what its settings mean here."""

    name: str
    containers: frozenset[str]
    """Suffixes of the containers that hold it."""
    quality: Literal["crf", "quantiser", "profile", ""]
    """What `quality` is: a constant rate factor, a constant quantiser, a profile number, or nothing."""
    quality_range: tuple[float, float] = (0, 0)
    """Best and worst (profiles: lowest and highest) number."""
    default_quality: float | None = None
    default_preset: str | None = None
    preset_option: str = ""
    """FFmpeg's option that `preset` sets; empty where it has none."""
    presets: tuple[str, ...] = ()
    """What it may be; empty: whatever the encoder takes."""
    even: bool = False
    """Whether width and height must be multiples of the chroma subsampling."""
    keeps_all: bool = False
    """Lossless and intermediate codecs: RGB and full chroma stay where the codec takes them."""
    reorders: bool = False
    """Whether frames may be coded in another order than shown."""
    formats: tuple[str, ...] = ()
    """Pixel formats to use where not all that the encoder lists are wise; empty: all it lists."""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def lossless(self) -> bool:
        """Whether it gives back every sample whatever its settings."""
        return not self.quality

    def settings(self, quality: float | None, preset: str | None, pixel_format: str) -> dict[str, str]:
        """Return FFmpeg's options for `quality` and `preset`."""
        options = dict(self.options)
        preset = preset or self.default_preset
        if preset is not None:
            options[self.preset_option] = preset
        quality = self.default_quality if quality is None else quality
        if self.quality == "crf":
            # Constant rate 0 is lossless with 8 bits only; a constant quantiser of 0 with any.
            lossless = self.name.startswith("libx264") and quality == 0
            options["qp" if lossless else "crf"] = f"{quality:g}"
        if self.quality == "profile":
            chosen = quality if quality is not None else 4 if pixel_format != "yuv422p10le" else 3
            options["profile"] = f"{chosen:g}"
        if self.name == "libvpx-vp9" and has_alpha(pixel_format):
            options["auto-alt-ref"] = "0"
        return options


def _codecs() -> dict[str, Codec]:
    def suffixes(text: str) -> frozenset[str]:
        return frozenset(text.split())

    both = ".mp4 .mov .mkv"
    speeds = "ultrafast superfast veryfast faster fast medium slow slower veryslow placebo"
    named, numbered = tuple(speeds.split()), tuple(str(number) for number in range(14))
    yuv = ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le", "yuv444p10le")
    table = [
        Codec(
            "libx264",
            suffixes(both),
            "crf",
            (0, 51),
            20,
            "veryfast",
            "preset",
            named,
            even=True,
            reorders=True,
            formats=(*yuv, "gray", "gray10le"),
        ),
        Codec(
            "libx264rgb", suffixes(both), "crf", (0, 51), 18, "veryfast", "preset", named, keeps_all=True, reorders=True
        ),
        Codec(
            "libx265",
            suffixes(both),
            "crf",
            (0, 51),
            24,
            "veryfast",
            "preset",
            named,
            even=True,
            reorders=True,
            formats=(*yuv, "yuv420p12le", "yuv422p12le", "yuv444p12le", "gray", "gray10le", "gray12le"),
        ),
        Codec(
            "libvpx-vp9",
            suffixes(f"{both} .webm"),
            "crf",
            (0, 63),
            31,
            "5",
            "cpu-used",
            numbered[:9],
            formats=("yuv420p", "yuv422p", "yuv440p", "yuv444p", "yuva420p"),
            options={"b": "0", "deadline": "good", "row-mt": "1", "tile-columns": "2"},
        ),
        Codec("libsvtav1", suffixes(f"{both} .webm"), "crf", (1, 63), 30, "10", "preset", numbered),
        Codec(
            "ffv1",
            suffixes(".mkv .avi"),
            "",
            keeps_all=True,
            options={"level": "3", "slicecrc": "1", "g": "1"},
        ),
        Codec(
            "prores_ks",
            suffixes(".mov .mkv"),
            "profile",
            (0, 5),
            keeps_all=True,
            options={"vendor": "apl0", "alpha_bits": "16"},
        ),
        Codec("mpeg4", suffixes(f"{both} .avi"), "quantiser", (1, 31), 3),
        Codec(
            "mjpeg",
            suffixes(f"{both} .avi"),
            "quantiser",
            (1, 31),
            3,
            formats=("yuv420p", "yuv422p", "yuv444p"),
            options={"strict": "unofficial"},
        ),
    ]
    return {codec.name: codec for codec in table}


CODECS: Mapping[str, Codec] = _codecs()
"""By FFmpeg's encoder name."""

_ALIASES = {
    "h264": "libx264",
    "avc": "libx264",
    "x264": "libx264",
    "h265": "libx265",
    "hevc": "libx265",
    "x265": "libx265",
    "vp9": "libvpx-vp9",
    "av1": "libsvtav1",
    "prores": "prores_ks",
}


@functools.cache
def _available(name: str) -> bool:
    try:
        av.Codec(name, "w")
    except ValueError:  # av.codec.codec.UnknownCodecError
        return False
    return True


def find_codec(name: str) -> Codec:
    """Return the codec called `name` (an encoder's or a format's name).

    Raises
    ------
    PipelineError
        If there is none or this installation's FFmpeg lacks it; lists those that are there and the nearest.
    """
    codec = CODECS.get(_ALIASES.get(name, name))
    if codec is not None and _available(codec.name):
        return codec
    known = [codec for codec in CODECS if _available(codec)]
    near = difflib.get_close_matches(name, [*known, *_ALIASES], n=1, cutoff=0.55)
    reason = "is not in this installation's FFmpeg" if codec else "is not known"
    raise PipelineError(
        f"video codec {name!r} {reason}; available: {', '.join(known)}",
        expected=known,
        got=name,
        hint=f"Did you mean {_ALIASES.get(near[0], near[0])!r}?" if near else f"Use one of: {', '.join(known)}.",
    )


def has_alpha(pixel_format: str) -> bool:
    """Return whether `pixel_format` carries transparency."""
    return pixel_format.startswith(("yuva", "gbrap")) or pixel_format in {
        "rgba",
        "bgra",
        "argb",
        "abgr",
        "rgba64le",
        "ya8",
    }


def _chroma(pixel_format: str) -> tuple[int, int]:
    planes = PIXEL_FORMATS[pixel_format].planes
    return planes[1][:2] if len(planes) > 1 else (1, 1)


def formats_of(codec: Codec) -> tuple[str, ...]:
    """Return the pixel formats of `PIXEL_FORMATS` that the encoder takes."""
    listed = [video_format.name for video_format in av.Codec(codec.name, "w").video_formats or ()]
    return tuple(name for name in listed if name in PIXEL_FORMATS and name in (codec.formats or listed))


def choose_format(codec: Codec, spec: FrameSpec) -> str | None:
    """Return the pixel format in which `codec` keeps most of `spec`: its own where it can; None where the size fits none.

    Colour is kept before transparency, transparency before depth, depth before chroma resolution; among equals the
    smallest wins. Codecs made for delivery get RGB as 4:2:0, as players expect.
    """
    source = PIXEL_FORMATS[spec.pixel_format]
    down, across = _chroma(spec.pixel_format)
    if source.family == "rgb" and not codec.keeps_all:
        down, across = 2, 2

    def cost(name: str) -> tuple[Any, ...]:
        there = PIXEL_FORMATS[name]
        its_down, its_across = _chroma(name)
        same_family = there.family == source.family
        return (
            name != spec.pixel_format,
            there.family == "gray" and not same_family,
            has_alpha(spec.pixel_format) and not has_alpha(name),
            codec.keeps_all and not same_family,
            max(0, min(source.bits, 16) - there.bits),
            its_down > down or its_across > across,
            there.bits,
            has_alpha(name) and not has_alpha(spec.pixel_format),
            -its_down * its_across,
            name,
        )

    fitting = [name for name in formats_of(codec) if fits(codec, name, spec)]
    return min(fitting, key=cost, default=None)


def fits(codec: Codec, pixel_format: str, spec: FrameSpec) -> bool:
    """Return whether `codec` can encode `spec`'s size in `pixel_format`: some want whole chroma samples."""
    down, across = _chroma(pixel_format)
    return not codec.even or (spec.height % down == 0 and spec.width % across == 0)


def nominal_rate(spec: FrameSpec) -> Fraction:
    """Return the frames a second an encoder is told: it only guides how bits are spent over time."""
    rate = spec.rate or Fraction(25)
    # MPEG-4 part 2 counts at most 65,535 ticks a second.
    return min(max(rate, Fraction(1)), Fraction(500)).limit_denominator(1001)


@dataclass(frozen=True, slots=True)
class Encoding:
    """All that decides the bytes of a part, beside its frames; nothing in it depends on the machine."""

    codec: Codec
    spec: FrameSpec
    """Of the frames as they are given, in the pixel format that is encoded."""
    options: Mapping[str, str]
    threads: int
    part_frames: int
    quantiser: float | None = None

    @classmethod
    def of(
        cls,
        codec: Codec,
        spec: FrameSpec,
        quality: float | None = None,
        preset: str | None = None,
        part_frames: int | None = None,
    ) -> Encoding:
        """Return the encoding for frames of `spec`, with threads and part length by picture size only."""
        area = spec.width * spec.height
        options = codec.settings(quality, preset, spec.pixel_format)
        quantiser = None
        if codec.quality == "quantiser":
            quantiser = codec.default_quality if quality is None else quality
        threads = 1 if area < 100_000 else 2 if area < 500_000 else 4 if area <= 1920 * 1088 else 8
        if codec.name.startswith("libx264"):
            # Without it x264's AVX-512 code spends bits by what it finds in memory it never wrote.
            options["x264-params"] = "cpu-independent=1"
        if codec.name == "libx265":
            options["x265-params"] = f"log-level=none:pools={threads}:frame-threads={min(threads, 2)}:open-gop=0"
        if codec.name == "libsvtav1":
            options["svtav1-params"] = f"lp={threads}"
        length = part_frames or (250 if area <= 1920 * 1088 else 125)
        return cls(codec, spec, options, threads, length, quantiser)

    @property
    def interlaced(self) -> bool:
        """Whether the two fields of a frame are coded apart; other codecs code frames and only say so."""
        return self.spec.field_order != "progressive" and self.codec.name == "libx264"

    @property
    def fingerprint(self) -> str:
        """Text that two encodings share only if they give the same bytes for the same frames."""
        spec = self.spec
        versions = ",".join(f"{name}{number}" for name, number in sorted(av.library_versions.items()))
        return repr(
            (
                self.codec.name,
                sorted(self.options.items()),
                self.threads,
                self.part_frames,
                self.quantiser,
                (spec.width, spec.height, spec.pixel_format, spec.sample_aspect_ratio, spec.field_order),
                _colour(spec),
                spec.rate,
                versions,
            )
        )


def _colour(spec: FrameSpec) -> Colour:
    """Return what is written: grey and RGB are full range unless they say otherwise, RGB has no matrix."""
    colour, family = spec.colour, PIXEL_FORMATS[spec.pixel_format].family
    if family != "yuv":
        matrix = "gbr" if family == "rgb" else "unspecified"
        range_ = "pc" if colour.range == "unspecified" else colour.range
        return dataclasses.replace(colour, matrix=matrix, range=range_)
    return colour


class PartEncoder:
    """One closed part: an encoder of its own and a Matroska file that any player opens.

    Packets carry frame numbers within the part as times (`step` milliseconds a frame), in the order coded.

    Parameters
    ----------
    encoding : Encoding
        What to encode with.
    first : int
        Number of the part's first frame in the whole stream; codecs that count time inside go on from there.

    Raises
    ------
    SinkError
        If the encoder refuses the pictures.
    """

    def __init__(self, encoding: Encoding, first: int = 0) -> None:
        self.encoding, self._first = encoding, first
        self.rate = nominal_rate(encoding.spec)
        self.step = max(1, round(1000 / self.rate))
        self.num_frames = 0
        self.delay = 0
        """By how many frames coding ran ahead of showing."""
        self._ranks: list[int] = []
        self._container: OutputContainer | None = None
        self._file: IO[bytes] | None = None
        self._stream: VideoStream
        self._colour = _colour(encoding.spec)
        self._fields: _Fields | None = None
        if encoding.interlaced:
            self._fields = _Fields(encoding.spec, 1 / self.rate)

    def open(self, file: IO[bytes]) -> None:
        """Open the encoder and write to `file`, which stays the caller's to close."""
        encoding = self.encoding
        self._file = file
        self._container = av.open(file, "w", format="matroska", options={"fflags": "+bitexact"}, buffer_size=1 << 20)
        try:
            self._stream = cast("VideoStream", self._container.add_stream(encoding.codec.name, rate=self.rate))
            _configure(self._stream.codec_context, encoding, self.rate)
            with ordinary_priority():
                self._container.start_encoding()
        except (av.error.FFmpegError, ValueError) as error:
            self.discard()
            raise _refused(encoding, error) from error

    def copied(self, planes: Sequence[Array]) -> av.VideoFrame:
        """Return a frame for `encode` that holds a copy of `planes`; may be called by another thread."""
        return _frame(self.encoding.spec, planes)

    def encode(self, frame: av.VideoFrame) -> None:
        """Take the next frame, which `copied` returned."""
        frame.pts = self._first + self.num_frames
        frame.time_base = 1 / self.rate
        set_colour(frame, self._colour)
        if self._fields is not None:
            frame = self._fields.mark(frame)
        self.num_frames += 1
        self._mux(self._stream.encode(frame))

    def finish(self) -> None:
        """Drain the encoder and complete the file.

        Raises
        ------
        SinkError
            If the encoder did not give one packet for each frame.
        """
        assert self._container is not None
        self._mux(self._stream.encode(None))
        self._container.close()
        self._container = None
        if sorted(self._ranks) != list(range(self.num_frames)):
            raise SinkError(
                f"encoder {self.encoding.codec.name} gave {len(self._ranks)} packets for {self.num_frames} frames",
                hint="Use another codec; please report this.",
            )

    def discard(self) -> None:
        """Close the encoder without completing the file; safe to call twice."""
        container, self._container = self._container, None
        if container is not None:
            with contextlib.suppress(av.error.FFmpegError, OSError, ValueError):
                container.close()  # what it still writes is thrown away

    def _mux(self, packets: Sequence[Packet[VideoStream]]) -> None:
        assert self._container is not None
        for packet in packets:
            assert packet.pts is not None
            rank = packet.pts - self._first
            order = rank if packet.dts is None else packet.dts - self._first
            self.delay = max(self.delay, len(self._ranks) - rank)
            self._ranks.append(rank)
            packet.pts, packet.dts, packet.duration = rank * self.step, order * self.step, self.step
            packet.time_base = _MILLISECOND
            self._container.mux_one(packet)


def _configure(context: Any, encoding: Encoding, rate: Fraction) -> None:
    spec, codec = encoding.spec, encoding.codec
    context.width, context.height, context.pix_fmt = spec.width, spec.height, spec.pixel_format
    context.time_base = 1 / rate
    context.sample_aspect_ratio = spec.sample_aspect_ratio
    context.thread_count = encoding.threads
    context.thread_type = ThreadType.FRAME if codec.name.startswith("libx264") else ThreadType.SLICE
    set_colour(context, _colour(spec))
    context.flags |= Flags.bitexact
    if codec.reorders:
        context.flags |= Flags.closed_gop
    if encoding.interlaced:
        context.flags |= Flags.interlaced_dct | Flags.interlaced_me
    if encoding.quantiser is not None:
        context.qscale = True
        context.global_quality = round(encoding.quantiser * _LAMBDA)
        context.qmin = context.qmax = round(encoding.quantiser)
    context.options = dict(encoding.options)


def _refused(encoding: Encoding, error: Exception) -> SinkError:
    spec = encoding.spec
    return SinkError(
        f"encoder {encoding.codec.name} does not take {spec.pixel_format} pictures of {spec.width}x{spec.height} "
        f"with {', '.join(f'{k}={v}' for k, v in encoding.options.items())}: {error}",
        hint="Use another codec, preset, quality or pixel format, or resize the pictures.",
    )


def _frame(spec: FrameSpec, planes: Sequence[Array]) -> av.VideoFrame:
    """Return an encoder's frame that holds a copy of `planes`: the only copy from a slab to the encoder.

    Encoders may hold frames for as long as they like, so none is used twice; the allocator gives the same memory
    again once one is let go.
    """
    frame = av.VideoFrame(spec.width, spec.height, spec.pixel_format)
    for target, plane in zip(frame.planes, planes, strict=True):
        if spec.layout == "NCHW" and plane.ndim == 3:
            plane = np.moveaxis(plane, 0, -1)
        flat = plane.reshape(len(plane), -1)
        rows = np.frombuffer(cast("Any", target), np.uint8).reshape(len(plane), target.line_size)
        np.copyto(rows[:, : flat.shape[1] * flat.itemsize].view(flat.dtype), flat)
    return frame


class _Fields:
    """Marks frames as two fields, of which the top one is shown first or last; PyAV itself cannot."""

    def __init__(self, spec: FrameSpec, time_base: Fraction) -> None:
        graph = av.filter.Graph()
        self._in = graph.add_buffer(
            width=spec.width, height=spec.height, format=av.VideoFormat(spec.pixel_format), time_base=time_base
        )
        mark, self._out = graph.add("setfield", spec.field_order), graph.add("buffersink")
        self._in.link_to(mark)
        mark.link_to(self._out)
        graph.configure()
        self._graph = graph

    def mark(self, frame: av.VideoFrame) -> av.VideoFrame:
        """Return `frame` with its fields marked; its samples are not copied."""
        self._in.push(frame)
        return cast("av.VideoFrame", self._out.pull())
