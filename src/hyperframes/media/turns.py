"""Several decoders of one stream that take its packets in turn, for codecs that FFmpeg decodes on one thread.

Only where a packet alone says what its frame is. Frames come in the order of the packets, errors where one decoder
would have told them; nothing is sought, and how many packets are under way is bounded.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

from av.codec import Capabilities

from hyperframes.errors import SourceError
from hyperframes.media.jpeg import jpeg_form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from hyperframes.media.container import Place
    from hyperframes.media.jpeg import Form

    Task = tuple[Any, Callable[[], list[Any]]]
    """A packet, and what waits for the frames of it."""

__all__ = ["MOST_DECODERS", "Turns", "num_cores"]

MOST_DECODERS: Final = 8
_UNDER_WAY: Final = 2
"""Packets for each decoder: the one in work and the next, so that it never waits for whoever takes the frames."""
_OWN_THREADS: Final = Capabilities.frame_threads | Capabilities.slice_threads | Capabilities.auto_threads
_SETTINGS: Final = ("name", "codec_tag", "width", "height", "pix_fmt", "bits_per_coded_sample", "field_order")


def num_cores() -> int:
    """Return on how many cores this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Turns:
    """Hands packets of one stream to several decoders.

    Parameters
    ----------
    context : PyAV codec context
        The first decoder, whose options are set.
    place : Place
        Where the stream is; opened again for each further decoder, as a decoder cannot be copied.
    most : int
        Decoders at most.

    Notes
    -----
    Every packet is compared with the first one of the stream in what a decoder would keep for later packets. Where
    they differ, that packet and all that follow go to the decoder of the packet before it, which has seen what a
    single decoder would have kept, and are decoded when they are asked for.
    """

    def __init__(self, context: Any, place: Place, most: int) -> None:
        self._place, self._most = place, most
        self._contexts = [context]
        self._containers: list[Any] = []
        self._threads: list[ThreadPoolExecutor] = []
        self._form = _FORMS[context.name]
        self._first: Form | None = None
        self._number = self._last = 0
        self._apart = True

    @classmethod
    def of(cls, context: Any, place: Place, threads: int) -> Turns | None:
        """Return what decodes with so many decoders (0: as many as the machine has cores); None where one is right."""
        most = min(threads or num_cores(), MOST_DECODERS)
        codec = context.codec
        alone = codec.intra_only and not codec.delay and not codec.capabilities & _OWN_THREADS
        if most < 2 or not alone or codec.name not in _FORMS or not place.is_file:
            return None
        return cls(context, place, most)

    @property
    def pictures(self) -> int:
        """How many decoded pictures it holds at most."""
        return self._most * _UNDER_WAY

    def ahead(self, packets: Iterable[Any]) -> Iterator[Task]:
        """Yield each packet when its turn has come, while those after it are being decoded.

        The first goes alone: whoever wants no more than one frame pays for no more.

        Raises
        ------
        Exception
            What `packets` raises, after everything before it.
        """
        under_way: deque[tuple[Any, Future[list[Any]]]] = deque()
        source, end, room = iter(packets), None, 1
        try:
            while True:
                while end is None and len(under_way) < room:
                    try:
                        packet = next(source)
                    except Exception as error:  # noqa: BLE001 - the end too; raised when its turn has come
                        end = error
                    else:
                        under_way.append((packet, self._begin(packet)))
                if not under_way:
                    break
                packet, decoded = under_way.popleft()
                yield packet, decoded.result
                room = self.pictures if self._apart else 1
        finally:
            _end(decoded for _, decoded in under_way)
        if end is not None and not isinstance(end, StopIteration):
            raise end

    def flush(self) -> list[Any]:
        """Return what the decoder of the last packet still holds."""
        return list(self._contexts[self._last].decode(None))

    def close(self) -> None:
        """Let running decoders end, and close those that were opened for it; safe to call twice."""
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)
        for container in self._containers:
            container.close()

    def _begin(self, packet: Any) -> Future[list[Any]]:
        if self._apart:
            form = self._form(packet, self._contexts[0])
            if self._number == 0:
                self._first = form
            self._apart = form is not None and form == self._first
            if self._apart:
                self._last = self._free()
        self._number += 1
        while len(self._threads) <= self._last:
            self._threads.append(ThreadPoolExecutor(1, "decode"))
        return self._threads[self._last].submit(self._contexts[self._last].decode, packet)

    def _free(self) -> int:
        """Return whose turn it is."""
        at = self._number % self._most
        if at == len(self._contexts) and not self._open_another():
            self._most = len(self._contexts)
            at = self._number % self._most
        return at

    def _open_another(self) -> bool:
        """Open a decoder like the first; return False where the file is no longer the one that was opened."""
        first = self._contexts[0]
        try:
            container, stream = self._place.open()
        except SourceError:
            return False
        self._containers.append(container)
        context = stream.codec_context
        if any(getattr(context, name) != getattr(first, name) for name in _SETTINGS):
            return False
        if bytes(context.extradata or b"") != bytes(first.extradata or b""):
            return False
        context.thread_type, context.thread_count, context.options = "NONE", 1, dict(first.options)
        self._contexts.append(context)
        return True


def _end(begun: Iterable[Future[list[Any]]]) -> None:
    wait([decoded for decoded in begun if not decoded.cancel()])


# What decoders keep from packet to packet -----------------------------------------------------------------------------


def _nothing(packet: Any, context: Any) -> Form:
    """For decoders that keep nothing."""
    return ()


def _jpeg(packet: Any, context: Any) -> Form | None:
    return jpeg_form(packet, context.height)


_FORMS: Final[dict[str, Callable[[Any, Any], Form | None]]] = {
    "mjpeg": _jpeg,
    "asv1": _nothing,
    "asv2": _nothing,
    "cljr": _nothing,
    "r210": _nothing,
}
"""Decoders of which it is known what they keep from packet to packet."""
