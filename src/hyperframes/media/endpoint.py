"""Live inputs through PyAV: what each protocol needs to open fast, wait briefly and lose nothing."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import parse_qsl, urlsplit

import av

from hyperframes.errors import PipelineError, SourceError, without_credentials
from hyperframes.media.container import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LOSSES", "Connection", "Endpoint", "reason_of"]

LOSSES: Final = (av.FFmpegError, OSError)
"""What a connection that breaks off raises; a plain end is another way to break off."""

_OPEN_SECONDS: Final = 5.0
_NO_TIMES: Final = frozenset({"mpjpeg", "h264", "hevc", "mjpeg"})
_WAIT_OPTION: Final = {
    "rtsp": "timeout",
    "rtsps": "timeout",
    "tcp": "timeout",
    "udp": "timeout",
    "http": "rw_timeout",
    "https": "rw_timeout",
}
"""What FFmpeg calls the longest wait for the network, in microseconds."""
_SAYS_SILENT: Final = frozenset({"rtsp", "rtsps", "tcp"})
"""Schemes whose reads end by themselves after that, and say why."""
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_UNESCAPED: Final = re.compile(r"(?s).*\s|[^:]+://[^/?#:@\[]+:(?!\d{1,5}[/?#])[^/?#@]*[/?#].*@")
_DEVICE: Final = re.compile(r"/dev/video\d+$")
_MPEGTS_PROBE: Final = {"probesize": "500000", "analyzeduration": "1000000", "fpsprobesize": "0"}
# The first packets of these bring all that a decoder needs: looking for more would cost a second a camera.
_RTSP_PROBE: Final = {"probesize": "32", "fpsprobesize": "0"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a live stream comes from, and how to open it as often as need be. Made by `Endpoint.of`."""

    place: Place
    live: bool
    """Whether its end is a fault: cameras go on for ever, files do not."""
    pace: Literal["own", "free"] = "own"
    """For files: frames at the times that they carry, or as fast as they are taken."""
    loop: bool = False
    """For files: begin again at the end, as a camera restarted with new times."""

    @classmethod
    def of(cls, url: str, *, transport: Literal["tcp", "udp"] = "tcp", **options: str) -> Self:
        """Return the endpoint that `url` names.

        Parameters
        ----------
        url : str
            ``rtsp://``, ``udp://``, ``tcp://``, ``http(s)://`` (MJPEG, HLS, ...), a V4L2 device such as
            ``/dev/video0``, or a file, to which ``?pace=free`` (as fast as it goes) or ``?loop=1`` may be added.
        transport : {'tcp', 'udp'}
            What RTSP sends pictures over.
        **options : str
            FFmpeg's options of protocol and container; ``format`` names the container where it cannot be told.

        Raises
        ------
        PipelineError
            If the transport or a file's option is unknown.
        """
        if transport not in {"tcp", "udp"}:
            raise PipelineError(f"RTSP goes over 'tcp' or 'udp': got {transport!r}", got=transport)
        scheme = _scheme_of(url)
        if scheme and scheme != "file":
            return cls(_network_place(url, scheme, transport, dict(options)), live=True)
        if _DEVICE.match(url):
            return cls(Place(url, format=options.pop("format", "v4l2"), options=dict(options)), live=True)
        return cls._of_file(url.removeprefix("file://"), dict(options))

    @classmethod
    def _of_file(cls, path: str, options: dict[str, str]) -> Self:
        asked: dict[str, str] = {}
        if not os.path.exists(path) and "?" in path:
            path, _, query = path.partition("?")
            asked = dict(parse_qsl(query))
        pace, loop = asked.pop("pace", "own"), asked.pop("loop", "0")
        if asked or pace not in {"own", "free"} or loop not in {"0", "1"}:
            unknown = next(iter(asked), None)
            got = f"?{unknown}=" if unknown else f"?pace={pace}&loop={loop}"
            raise PipelineError(f"a file replayed live takes ?pace=own|free and ?loop=0|1: got {got}", got=got)
        return cls(Place(path, format=options.pop("format", None), options=options), False, pace, loop == "1")  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """The URL without credentials."""
        return self.place.name

    def connect(self, silence_seconds: float, *, watched: bool = False) -> Connection:
        """Open the stream; a read that waits longer than `silence_seconds` fails.

        Parameters
        ----------
        silence_seconds : float
            Longest wait for a packet.
        watched : bool
            Whether somebody else looks whether pictures come. Reads of RTSP and TCP then end only where nothing at all
            comes for so long, which is left to FFmpeg: PyAV's limit takes Python's lock at every look at the socket, and
            makes a thread of many change its turn twice for every frame.

        Raises
        ------
        SourceError
            If nothing answers or what answers is no video; the message carries no credentials.
        """
        return Connection(self, silence_seconds, watched=watched)

    def within(self, silence_seconds: float, *, watched: bool) -> Place:
        """Return the place with its limits of time; those of the user's options stay."""
        scheme = _scheme_of(self.place.url)
        limits = {_WAIT_OPTION[scheme]: str(round(silence_seconds * 1e6))} if scheme in _WAIT_OPTION else {}
        reading = None if watched and scheme in _SAYS_SILENT else silence_seconds
        options = {**limits, **self.place.options}
        return replace(self.place, options=options, timeout_seconds=(_OPEN_SECONDS, reading))


def _scheme_of(url: str) -> str:
    scheme = _SCHEME.match(url)
    return scheme[1].lower() if scheme else ""


def _network_place(url: str, scheme: str, transport: str, options: dict[str, str]) -> Place:
    if _UNESCAPED.match(url):  # FFmpeg would look for a host that is called as the user is; the URL stays untold
        raise PipelineError(
            f"a {scheme} URL has a space, or a password with / ? or # in it",
            hint="Write %20 for a space, %2F for /, %3F for ?, %23 for #.",
        )
    container = options.pop("format", None)
    defaults: dict[str, str] = {}
    if scheme in {"rtsp", "rtsps"}:
        # Without video only, a camera's microphone would be set up, sent and thrown away.
        defaults = {"rtsp_transport": transport, "allowed_media_types": "video", **_RTSP_PROBE}
        if transport == "udp":
            defaults["buffer_size"] = str(1 << 20)
    elif scheme == "udp":
        defaults = {"fifo_size": "50000", "overrun_nonfatal": "1", **_MPEGTS_PROBE}
    elif scheme in {"tcp", "http", "https"}:
        defaults = _MPEGTS_PROBE
        if scheme != "tcp" and urlsplit(url).path.endswith((".mjpg", ".mjpeg")):
            container = container or "mpjpeg"
    return Place(url, format=container, options={**defaults, **options})


class Connection:
    """One open live input and its decoder, until either breaks off. For one thread; closed by it."""

    def __init__(self, endpoint: Endpoint, silence_seconds: float, *, watched: bool = False) -> None:
        self.endpoint = endpoint
        place = endpoint.within(silence_seconds, watched=watched) if endpoint.live else endpoint.place
        began = time.monotonic()
        try:
            self._container, self.stream = place.open()
        except SourceError as error:
            if not endpoint.live:
                raise
            why: tuple[str, str] | None
            if time.monotonic() - began >= _OPEN_SECONDS:  # FFmpeg says "Invalid data" or "Immediate exit requested"
                why = f"sent no picture within {_OPEN_SECONDS:g} s", "Is it running, and does it send video?"
            else:
                why = _unreached(place.url, error.__cause__)
            if why is None:
                raise
            raise SourceError(f"{endpoint.name!r} {why[0]}", source=place.url, hint=why[1]) from error
        self.format: str = self._container.format.name
        self.keeps_time = self.format not in _NO_TIMES
        """Whether pts are the sender's: some demuxers count frames and call that time."""
        context = self.stream.codec_context
        # Frame threads would hold pictures back, and as many threads as cores for each of many cameras.
        context.thread_type, context.thread_count = "NONE", 1

    @property
    def rate(self) -> Fraction | None:
        """Nominal frames a second, where the sender says or showed them while opening; never a tick rate."""
        average = self.stream.average_rate if self.keeps_time else None
        return Fraction(average) if average else None

    def packets(self) -> Iterator[Any]:
        """Yield PyAV packets as they come; the last one, without data, flushes the decoder."""
        return iter(self._container.demux(self.stream))

    def decode(self, packet: Any) -> list[Any]:
        """Return the frames that `packet` completes.

        Raises
        ------
        av.FFmpegError
            If the packet is damaged.
        """
        return packet.decode()  # type: ignore[no-any-return]  # PyAV packets are untyped here

    def close(self) -> None:
        """Close decoder and container; safe to call twice."""
        self._container.close()


_UNREACHED: Final[tuple[tuple[type[BaseException], str, str], ...]] = (
    (av.ConnectionRefusedError, "refuses the connection", "Is it on, and is the port right?"),
    (
        av.HTTPUnauthorizedError,
        "wants another user and password (401)",
        "Write them before the host, USER:PASSWORD@HOST, with %2F for /, %3F for ?, %23 for # and %40 for @.",
    ),
    (
        av.HTTPForbiddenError,
        "does not let this user see the stream (403)",
        "Give the user the right to, in the camera.",
    ),
    (av.HTTPNotFoundError, "has no stream of that path (404)", "The path stands in the camera's manual or web page."),
    (
        av.ProtocolNotFoundError,
        "cannot be opened: FFmpeg has no such protocol here",
        "Use rtsp, udp, tcp, http or https.",
    ),
    (
        av.InvalidDataError,
        "does not answer as a camera of that kind does",
        "Is it the right port, and the right scheme?",
    ),
)
"""What keeps a camera from being opened, and what to look at."""


def _unreached(url: str, error: BaseException | None) -> tuple[str, str] | None:
    """Return why a camera was not opened, and what to look at; None where FFmpeg's own words are the best there are."""
    if isinstance(error, av.OSError) and error.errno == errno.EIO:  # what FFmpeg says where it finds no host
        host = urlsplit(url).hostname or ""
        if not _is_known(host):
            return f"is at a host that nobody knows: {host!r}", "Check the name and the network, or write its address."
        return "sends no video", "Does it show any in a player, such as ffplay?"
    return next(((what, hint) for kind, what, hint in _UNREACHED if isinstance(error, kind)), None)


def _is_known(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True


def reason_of(error: BaseException) -> str:
    """Return why a connection broke off, without credentials; ``silent`` where nothing came for too long."""
    if isinstance(error, TimeoutError | av.error.ExitError):
        return "silent"
    return without_credentials(getattr(error, "strerror", None) or str(error))
