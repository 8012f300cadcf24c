"""Sound and subtitles beside a video: samples of one channel with exact times, and when text is on screen."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import av
import numpy as np

from hyperframes.errors import SourceError, without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.frames import Array

__all__ = ["Sound", "read_cues", "read_sound"]


class Sound(NamedTuple):
    """Samples that follow one another without a gap."""

    start_seconds: float
    """Presentation time of the first one."""
    samples: Array
    """(N,) float32 in [-1, 1], the mean of all channels."""


def read_sound(url: str | os.PathLike[str], rate: int = 16_000) -> Iterator[Sound]:
    """Yield the sound of the first audio stream in pieces, by the stream's own times; nothing where there is none.

    Packets that do not decode are left out: what follows them has its own time.

    Parameters
    ----------
    url : str or path
        A file, or a URL as FFmpeg takes it.
    rate : int
        Samples a second to yield.

    Raises
    ------
    SourceError
        If it cannot be opened.
    """
    with closing(_opened(url)) as container:
        if not container.streams.audio:
            return
        stream = container.streams.audio[0]
        if stream.codec_context is None:
            return
        resampler, start, taken = av.AudioResampler(format="flt", layout="mono", rate=rate), 0.0, 0
        for frame in _frames(container, stream):
            at = None if frame.pts is None else float(frame.pts * stream.time_base)
            if at is not None and abs(at - (start + taken / rate)) > 0.04:  # a gap, or the very beginning
                resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
                start, taken = at, 0
            frame.pts = None
            for piece in resampler.resample(frame):
                samples = piece.to_ndarray().ravel()
                yield Sound(start + taken / rate, samples.astype(np.float32))
                taken += len(samples)


def read_cues(url: str | os.PathLike[str]) -> list[tuple[float, float]]:
    """Return when text of the first subtitle stream is on screen: (start, stop) in seconds, in order.

    Raises
    ------
    SourceError
        If it cannot be opened.
    """
    with closing(_opened(url)) as container:
        if not container.streams.subtitles:
            return []
        stream = container.streams.subtitles[0]
        cues = [
            (float(packet.pts * stream.time_base), float((packet.pts + (packet.duration or 0)) * stream.time_base))
            for packet in _packets(container, stream)
            if packet.pts is not None and packet.size
        ]
        return sorted(cues)


def _opened(url: str | os.PathLike[str]) -> Any:
    name = os.fspath(url)
    try:
        return av.open(name)
    except (av.FFmpegError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(
            f"{without_credentials(name)} cannot be opened for its sound: {reason}", source=name
        ) from error


def _packets(container: Any, stream: Any) -> Iterator[Any]:
    """Yield packets up to the end, or to where the file breaks off."""
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except (StopIteration, av.FFmpegError):
            return
        yield packet


def _frames(container: Any, stream: Any) -> Iterator[Any]:
    for packet in _packets(container, stream):
        try:
            yield from packet.decode()
        except av.FFmpegError:
            continue
