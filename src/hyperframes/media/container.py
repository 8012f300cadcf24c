"""Opening containers: the right error for every kind of bad file, the choice of stream, what to copy to an output."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import av
from av.stream import Discard

from hyperframes.errors import SourceError, without_credentials
from hyperframes.media.passthrough import Passthrough

__all__ = ["Place", "has_alpha_beside", "passthrough_of"]

_ATTACHED_PICTURE: Final = 0x0400  # AV_DISPOSITION_ATTACHED_PIC: cover art, not video
_STDIN: Final = "pipe:0"
_SNIFFED_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a video stream is, and how to open it as often as need be."""

    url: str
    """Path or URL as PyAV takes it."""
    stream: int = 0
    """Which of the video streams, from 0."""
    format: str | None = None
    """FFmpeg's name of the container format; None to find out."""
    reopens: bool = True
    """False for pipes, which can be read once only."""
    options: dict[str, str] = field(default_factory=dict)
    timeout_seconds: float | tuple[float, float | None] | None = None
    """How long to wait for the network, or (while opening, while reading); None for files, pipes and what ends by itself."""

    @property
    def name(self) -> str:
        """The path or URL without credentials, or what it stands for."""
        return "standard input" if self.url == _STDIN else without_credentials(self.url)

    @property
    def is_file(self) -> bool:
        """Whether it is a file of this machine, which can be looked at before it is opened."""
        return "://" not in self.url and not self.url.startswith(("pipe:", "fd:"))

    @property
    def has_index(self) -> bool:
        """Whether its packets can be listed without reading all over a network."""
        return self.is_file

    def anywhere(self) -> Self:
        """Return the same place as seen from another working folder."""
        return replace(self, url=os.path.abspath(self.url)) if self.is_file else self

    def open(self) -> tuple[Any, Any]:
        """Return (container, video stream), both PyAV's; the caller closes the container.

        Raises
        ------
        SourceError
            If there is no such file, it is no video, is damaged or encrypted, or has no such stream.
        """
        self._check_file()
        return self.opened(self.url)

    def open_listing(self) -> tuple[Any, Any, frozenset[int]]:
        """Return what `open` returns, for packets whose content nobody looks at, and where those of key frames lie.

        Only the positions of those that the packets themselves do not tell to be key frames without their content.
        """
        return (*self.open(), frozenset())

    def opened(self, what: Any) -> tuple[Any, Any]:
        """Return (container, video stream) of `what`: the path, the URL, or a file that is open."""
        try:
            container = av.open(what, format=self.format, options=dict(self.options), timeout=self.timeout_seconds)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise self._unopened(error) from error
        try:
            stream = self._choose(container)
            for other in container.streams:
                if other.index != stream.index:
                    other.discard = Discard.all
        except BaseException:
            container.close()
            raise
        return container, stream

    def _check_file(self) -> None:
        if not self.is_file:
            return
        if os.path.isdir(self.url):
            raise self.error(
                "is a folder, not a video file",
                hint="Name a file in it, or a pattern of images such as 'folder/*.png'.",
            )
        if not os.path.exists(self.url):
            raise self.error("does not exist", hint=_near(self.url))
        if not os.access(self.url, os.R_OK):
            raise self.error("may not be read by this user", hint="Check its permissions: ls -l")
        if os.path.isfile(self.url) and os.path.getsize(self.url) == 0:
            raise self.error("is empty: 0 bytes", hint="Copy or download it again.")

    def _choose(self, container: Any) -> Any:
        streams = [s for s in container.streams.video if not int(s.disposition) & _ATTACHED_PICTURE]
        if not streams:
            kinds = sorted({s.type for s in container.streams if s.type != "video"})
            holds = f"only {' and '.join(kinds)}" if kinds else "no streams at all"
            cover = ", and a cover picture" if container.streams.video else ""
            raise self.error(f"has no video stream: it holds {holds}{cover}", hint="Use a file with a picture track.")
        if not 0 <= self.stream < len(streams):
            raise self.error(
                f"has {len(streams)} video stream{'s' * (len(streams) > 1)}: there is no stream {self.stream}",
                hint=f"Streams are counted from 0: use stream=0{'' if len(streams) == 1 else f' to {len(streams) - 1}'}.",
            )
        chosen = streams[self.stream]
        if chosen.codec_context is None:
            raise self.error(
                "uses a video codec that FFmpeg cannot decode here", hint="Convert it to H.264 with a full FFmpeg."
            )
        return chosen

    def _unopened(self, error: Exception) -> SourceError:
        if self.is_file and os.path.isfile(self.url):
            head = _bytes(self.url)
            if _is_text(head):
                return self.error("is not a video: its content is text", hint="Check what the file really is.")
            if is_encrypted(head):
                return self.error("is encrypted and cannot be decoded without its key", hint=_DRM_HINT)
            boxes, broken = _boxes(self.url) if head[4:8] == b"ftyp" else ({b"moov"}, b"")
            if broken:
                return self.error(
                    f"is damaged: its {broken.decode('latin-1')!r} box has a size that cannot be",
                    hint="Copy or download it again.",
                )
            if b"moov" not in boxes:
                return self.error(
                    "has lost its index (the 'moov' box): the recording or copy was cut off before its end",
                    hint="Copy it again, or repair it with a tool that rebuilds 'moov' from a good file of the camera.",
                )
        if self.url == _STDIN:
            return self.error(
                "does not begin as YUV4MPEG2 does",
                hint="Send that: ffmpeg -i IN -f yuv4mpegpipe - | hyperframes run - OUT",
            )
        reason = getattr(error, "strerror", None) or str(error)
        return self.error(f"cannot be opened as a video: {reason}", hint="Check it with: ffprobe FILE")

    def nothing_decodes(self, stream: Any, errors: int) -> SourceError:
        """Return the error for a stream without one decodable frame: why, declared and decoded counts."""
        declared = f"{stream.frames} frames declared" if stream.frames else "an unknown number declared"
        counts = f"{declared}, 0 decode ({errors} decoder error{'s' * (errors != 1)})"
        if self.is_file and is_encrypted(_bytes(self.url)):
            return self.error(f"is encrypted and cannot be decoded without its key: {counts}", hint=_DRM_HINT)
        if errors:
            return self.error(
                f"has a damaged {stream.codec_context.name} stream in which no frame decodes: {counts}",
                hint="Copy or download it again; check it with: ffmpeg -v error -i FILE -f null -",
            )
        return self.error(
            f"has a {stream.codec_context.name} stream without frames: {counts}",
            hint="The file holds a header only; copy or download it again.",
        )

    def error(self, what: str, *, hint: str | None = None, pts: int | None = None) -> SourceError:
        """Return a SourceError about this place: '<name>' and `what` is wrong with it."""
        return SourceError(f"{self.name!r} {what}", source=self.url, pts=pts, hint=hint)


_DRM_HINT: Final = "Decrypt it first with the tools of its owner; this program handles no keys."


def has_alpha_beside(stream: Any) -> bool:
    """Whether a VP8 or VP9 stream carries alpha beside the picture, which the native decoders leave out."""
    tags = {key.lower(): value for key, value in stream.metadata.items()}
    return tags.get("alpha_mode") == "1"


def passthrough_of(place: Place) -> Passthrough | None:
    """Return the audio and subtitle streams, metadata and chapters of the container; None where there are none."""
    container, _ = place.open()
    try:
        streams = tuple(s.index for s in container.streams if s.type in {"audio", "subtitle"} and s.codec_context)
        metadata, chapters = dict(container.metadata), tuple(container.chapters())
    finally:
        container.close()
    if not (streams or metadata or chapters):
        return None
    return Passthrough(place.url, streams, metadata)


def is_encrypted(head: bytes) -> bool:
    """Whether ISO base media data has boxes of Common Encryption."""
    return head[4:8] in {b"ftyp", b"styp", b"moov"} and any(
        box in head for box in (b"encv", b"cenc", b"cbcs", b"pssh", b"sinf")
    )


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        head = file.read(_SNIFFED_BYTES)
        file.seek(max(len(head), os.path.getsize(path) - _SNIFFED_BYTES))
        return head + file.read(_SNIFFED_BYTES)


def _is_text(head: bytes) -> bool:
    sample = head[:4096]
    try:
        text = sample.decode("utf-8", "strict" if len(head) <= 4096 else "ignore")
    except UnicodeDecodeError:
        return False
    return sum(c.isprintable() or c in "\r\n\t" for c in text) > 0.99 * len(text) > 0


def _boxes(path: str) -> tuple[set[bytes], bytes]:
    """Return the names of the top-level boxes of an ISO base media file, and that of the first with a bad size."""
    found: set[bytes] = set()
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        at = 0
        while at + 8 <= size and len(found) < 1000:
            file.seek(at)
            head = file.read(16)
            length = int.from_bytes(head[:4], "big")
            if length == 1:
                length = int.from_bytes(head[8:16], "big")
            if length == 0:  # reaches to the end of the file
                length = size - at
            if length < 8 or not head[4:8].isalnum():
                return found, head[4:8] if head[4:8].isalnum() else b"".join([b"?"])
            found.add(head[4:8])
            at += length
    return found, b""


def _near(path: str) -> str:
    import difflib

    folder, name = os.path.split(path)
    try:
        known = os.listdir(folder or ".")
    except OSError:
        return f"There is no folder {folder!r} either."
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {os.path.join(folder, near[0])!r}?" if near else "Check the path."
