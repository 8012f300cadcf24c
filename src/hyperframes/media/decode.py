"""Decoding packet by packet: every frame once, in presentation order, the same for any number of decoder threads.

Frame threads report errors late and can lose frames beside them, and what a decoder puts in place of damaged parts
depends on them. So decoding is strict at first, with threads, and stops at the first sign of damage; from the last
sound key frame before it a lenient decoder without threads goes on. A single thread takes the same way. Where a codec
has no threads, several decoders may take the packets in turn (`Turns`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, dropwhile, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import av

from hyperframes.errors import SourceError
from hyperframes.media.turns import Turns, num_cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hyperframes.media.container import Place
    from hyperframes.media.turns import Task

__all__ = ["DamagedError", "Decoder", "Key", "Playback", "Tally", "is_hidden"]

_KEYS_KEPT: Final = 256
_UNSHOWN_KEPT: Final = 128
_SEARCHED_PACKETS: Final = 4096
_MARKS_UNREFERRED: Final = frozenset({"h264", "mpeg1video", "mpeg2video"})


class Key(NamedTuple):
    """What tells one key packet from all others of its stream."""

    pts: int
    dts: int | None
    size: int
    position: int | None
    """Byte in the file: some demuxers give packets the times asked for, whatever packets they are."""

    @classmethod
    def of(cls, packet: Any) -> Key:
        """Return the key of a PyAV packet that has a pts."""
        return cls(packet.pts, packet.dts, packet.size, packet.pos)


@dataclass(slots=True)
class Tally:
    """What went wrong while decoding."""

    errors: int = 0
    """Packets that the decoder refused."""
    corrupt: int = 0
    """Frames that the decoder marked as damaged and concealed."""
    unindexed: int = 0
    """Frames whose time is that of no packet."""
    silent: int = 0
    """Packets that should have shown a frame and did not."""
    broken: str = ""
    """Why demuxing stopped before the end of the file."""
    finished: bool = False
    """Whether the end of the stream was reached."""

    @property
    def damaged(self) -> bool:
        """Whether anything of the stream is not as it was encoded."""
        return bool(self.errors or self.corrupt or self.broken)


class _BrokenError(Exception):
    """The demuxer found nothing that it understands before the end of the file."""


class DamagedError(Exception):
    """A strict decoder met damage; the frames that it held back must be decoded again by a lenient one."""


class Decoder:
    """One open container and its decoder: packets in, PyAV frames out.

    Parameters
    ----------
    place : Place
        What to open.
    threads : int
        0 for as many as the machine has, 1 for no threads, more for that many. Where the codec has none, a strict
        decoder that does not seek again and again is that many, in turn.
    strict : bool
        Whether to stop at damage with a `DamagedError`, instead of counting it and going on.
    seeks : bool
        Whether it will seek again and again: then only damage that decoders report by themselves counts, since an
        open group tells them to forget pictures that they never saw, which is none.
    """

    def __init__(self, place: Place, threads: int = 1, *, strict: bool = False, seeks: bool = False) -> None:
        self.place = place
        self.container, self.stream = place.open()
        self.tally = Tally()
        self.keys: deque[Key] = deque(maxlen=_KEYS_KEPT)
        self._unshown: dict[int, int] = {}
        self._num_fed = 0
        self._floor = -(1 << 63)
        self.skips = False
        self._closed = False
        self._wanted: set[int] = set()
        self._context = self.stream.codec_context
        self._hides = self._context.name if self._context.name in {"vp8", "vp9"} else ""
        self._strict = strict
        self._context.thread_type = "NONE" if threads == 1 else "AUTO"
        self._context.thread_count = threads
        if strict and not seeks:
            # Damage inside a slice is passed over in silence otherwise.
            self._context.options = {"err_detect": "explode"}
        self._turns = Turns.of(self._context, place, threads) if strict and not seeks else None

    @property
    def pictures_ahead(self) -> int:
        """How many pictures are decoded before they are asked for, beside those of the codec's own threads."""
        return self._turns.pictures if self._turns else 0

    def skip_unreferred(self, wanted: list[int]) -> None:
        """From now on do not decode pictures that no other refers to, but for those at the times `wanted`.

        Does nothing for codecs whose marks are not good enough to stay exact: temporal layers of HEVC may refer to
        pictures that their own layer does not.
        """
        self._wanted = set(wanted)
        self.skips = self._context.name in _MARKS_UNREFERRED
        if self.skips and self._context.thread_count == 0:
            self._context.thread_count = 2 * (
                num_cores() + 1
            )  # a thread whose picture is skipped is idle until its next turn

    def close(self) -> None:
        """Close decoder and container; safe to call twice."""
        self._closed = True
        if self._turns is not None:
            self._turns.close()
        self.container.close()

    def frames(self, first: Any = None) -> Iterator[Any]:
        """Yield the frames of packet `first` (if any) and of all that follow it.

        Raises
        ------
        DamagedError
            From a strict decoder at the first damage; frames that it may have touched were not yielded.
        """
        packets = self._demuxed() if first is None else chain([first], self._demuxed())
        tasks = self._tasks(packets)
        return self._strictly(tasks) if self._strict else self._leniently(tasks)

    def _tasks(self, packets: Iterator[Any]) -> Iterator[Task]:
        """Yield each packet with what decodes it, and None for the end."""
        if self._turns is None:
            decode = self._context.decode
            yield from self._until_broken((packet, partial(decode, packet)) for packet in packets)
            yield None, partial(decode, None)
            return
        for task in self._until_broken(self._turns.ahead(packets)):
            self._still_open()
            yield task
        yield None, self._turns.flush

    def from_key(self, key: Key) -> Iterator[Any] | None:
        """Yield the frames from the key frame of `key` on, or return None if the seek cannot be proven.

        Proven means: the demuxer delivers that very packet, and the decoder a sound key frame of its time.
        """
        packet = self._seek(key)
        if packet is None:
            return None
        frames = self.frames(packet)
        for frame in frames:
            if frame.pts is None:
                return None
            if frame.pts < key.pts:
                continue  # leading pictures of an open group: they need the group before
            if frame.pts != key.pts or not frame.key_frame or frame.is_corrupt:
                return None
            return chain([frame], frames)
        return None

    def _seek(self, key: Key) -> Any:
        self._context.options = {}  # as for `seeks`; only before the first packet is this of any use
        dts = key.pts if key.dts is None else key.dts
        for target in dict.fromkeys((key.pts, dts, dts - self._second())):
            try:
                self.container.seek(target, stream=self.stream, backward=True)
            except (av.FFmpegError, OSError):
                continue
            self._unshown.clear()
            self._floor = key.pts
            for searched, packet in enumerate(self._until_broken(self._demuxed())):
                if packet.pts == key.pts and Key.of(packet) == key:
                    return packet
                if searched > _SEARCHED_PACKETS or (packet.dts is not None and packet.dts > dts):
                    break
        return None

    def _second(self) -> int:
        return int(1 / self.stream.time_base)

    def _until_broken(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield what comes of demuxing; where it breaks off, note that."""
        try:
            yield from items
        except _BrokenError as error:
            self.tally.broken = str(error)

    def _demuxed(self) -> Iterator[Any]:
        self._still_open()
        try:
            for packet in self.container.demux(self.stream):
                if packet.size:  # an empty packet would end the decoder's stream
                    yield packet
                    self._still_open()
        except SourceError:
            raise  # an OSError too, but not the demuxer's
        except av.InvalidDataError as error:
            raise _BrokenError(error.strerror or str(error)) from error
        except (av.FFmpegError, OSError) as error:
            raise self.place.error(
                f"could not be read to its end: {getattr(error, 'strerror', None) or error}",
                hint="Check the connection or the disk, then start again.",
            ) from error

    def _still_open(self) -> None:
        """Refuse to go on after `close`: PyAV would use memory that is no longer there."""
        if self._closed:
            raise self.place.error("was closed while it was being read", hint="Read it inside its with block.")

    def _fed(self, packet: Any) -> None:
        """Note a packet before it is decoded."""
        pts = packet.pts
        if self.skips:
            self._context.skip_frame = "DEFAULT" if pts in self._wanted else "NONREF"
        if pts is None:
            return
        if packet.is_keyframe:
            self.keys.append(Key.of(packet))
        if (
            pts >= self._floor
            and (not self.skips or pts in self._wanted)
            and not (packet.is_discard or (self._hides and is_hidden(self._hides, packet)))
        ):
            self._num_fed += 1
            self._unshown[pts] = self._num_fed

    def _shown(self, frame: Any) -> None:
        """Check a frame's time against the packets fed so far."""
        pts = frame.pts
        if pts is not None and not self._unshown.pop(pts, 0) and not self.skips and pts >= self._floor:
            self.tally.unindexed += 1
        if len(self._unshown) > _UNSHOWN_KEPT and pts is not None:
            late = [time for time in self._unshown if time < pts]
            self.tally.silent += len(late)
            for time in late:
                del self._unshown[time]

    def _leniently(self, tasks: Iterator[Task]) -> Iterator[Any]:
        """Decode on at damage: errors cost the frames that they cost, and are counted."""
        tally = self.tally
        for packet, decoded in tasks:
            if packet is not None:
                self._fed(packet)
            try:
                frames = decoded()
            except av.FFmpegError:
                tally.errors += 1
                continue
            for frame in frames:
                self._shown(frame)
                tally.corrupt += frame.is_corrupt
                yield frame
        tally.silent += len(self._unshown)
        tally.finished = True

    def _strictly(self, tasks: Iterator[Task]) -> Iterator[Any]:
        """Stop at the first damage.

        A damaged reference can come out after pictures that were predicted from it, so frames are held back by as
        many as the stream may reorder.
        """
        held: deque[Any] = deque()
        for packet, decoded in tasks:
            if packet is None:
                delay = self._context.thread_count + self._context.reorder_depth
                in_flight = [pts for pts, number in self._unshown.items() if number > self._num_fed - delay]
            else:
                self._fed(packet)
                if packet.is_corrupt:
                    raise DamagedError
            try:
                frames = decoded()
            except av.FFmpegError as error:
                raise DamagedError from error
            for frame in frames:
                self._shown(frame)
                if frame.is_corrupt and (frame.pts is None or frame.pts >= self._floor):
                    raise DamagedError
                held.append(frame)
                if len(held) > self._context.reorder_depth:
                    yield held.popleft()
        # PyAV ends its last call at an error without saying so: then frames are missing among the last ones.
        if self.tally.broken or any(pts in self._unshown for pts in in_flight):
            raise DamagedError
        yield from held
        self.tally.finished = True


class Playback:
    """The frames of a stream from its start, or from a proven key frame, each exactly once.

    Parameters
    ----------
    place : Place
        What to play.
    threads : int
        As for `Decoder`; pipes are decoded without threads and leniently, since they cannot be opened again.
    """

    def __init__(self, place: Place, threads: int) -> None:
        self._place = place
        self._decoder = Decoder(place, threads if place.reopens else 1, strict=place.reopens)
        self._frames = self._decoder.frames()
        self._from_start = True
        self._carried = Tally()

    @property
    def stream(self) -> Any:
        """PyAV's stream."""
        return self._decoder.stream

    @property
    def pictures_ahead(self) -> int:
        """As of `Decoder`."""
        return self._decoder.pictures_ahead

    @property
    def tally(self) -> Tally:
        """What went wrong so far."""
        tally = self._decoder.tally
        return replace(
            tally,
            unindexed=tally.unindexed + self._carried.unindexed,
            silent=tally.silent + self._carried.silent,
        )

    def close(self) -> None:
        """Close what is open; safe to call twice."""
        self._decoder.close()

    def seek(self, key: Key, expected: list[int], skip: int) -> bool:
        """Go to the frame `skip` after the key frame of `key`; return whether the way there was as `expected`.

        Parameters
        ----------
        key : Key
            A key packet of the index.
        expected : list of int
            The times of the frames from the key frame on: `skip` of them and a few more.
        skip : int
            How many frames from the key frame on are not wanted.
        """
        try:
            frames = self._decoder.from_key(key)
            kept: list[Any] = []
            for count, pts in enumerate(expected if frames else ()):
                frame = next(frames, None)  # type: ignore[arg-type]  # not None inside this loop
                if frame is None or frame.pts != pts or frame.is_corrupt:
                    return False
                if count >= skip:
                    kept.append(frame)
        except DamagedError:
            return False
        if frames is None:
            return False
        self._frames, self._from_start = chain(kept, frames), False
        return True

    def __iter__(self) -> Iterator[Any]:
        shown, last, in_order = 0, None, True
        try:
            for frame in self._frames:
                pts = frame.pts
                in_order = in_order and pts is not None and (last is None or pts > last)
                last = pts
                shown += 1
                yield frame
        except DamagedError:
            yield from self._resumed(shown, last if in_order else None)

    def _resumed(self, shown: int, last: int | None) -> Iterator[Any]:
        """Go on leniently after `shown` frames, the last of them at time `last` (None: times are no use)."""
        old = self._decoder
        self._carried = old.tally
        old.close()
        if last is None and not self._from_start:
            raise self._place.error(
                "is damaged where its times are out of order: what follows cannot be found again from the middle",
                hint="Read it from its first frame.",
            )
        key = next((key for key in reversed(old.keys) if last is not None and key.pts <= last), None)
        self._decoder = Decoder(self._place)
        frames = None if key is None else self._decoder.from_key(key)
        if frames is None:
            self._decoder.close()
            self._decoder = Decoder(self._place)
            frames = self._decoder.frames()
            if self._from_start:
                last = None
                frames = islice(frames, shown, None)
        if last is not None:
            frames = dropwhile(lambda frame: frame.pts is None or frame.pts <= last, frames)
        yield from frames


def is_hidden(codec: str, packet: Any) -> bool:
    """Whether a VP8 or VP9 packet holds only a frame that is never shown (an alternative reference)."""
    data = memoryview(packet)
    if codec == "vp8":
        return not data[0] & 0x10
    last = data[-1]
    if last & 0xE0 == 0xC0:
        length = 2 + ((last & 7) + 1) * ((last >> 3 & 3) + 1)
        if len(data) >= length and data[-length] == last:
            return False  # a superframe: hidden frames packed with a shown one
    bits = data[0] << 8 | (data[1] if len(data) > 1 else 0)
    at = 4 + (bits >> 12 & 3 == 3)  # marker, profile, and one reserved bit in profile 3
    if bits >> (15 - at) & 1:
        return False  # shows a frame decoded before
    return not bits >> (15 - at - 2) & 1
