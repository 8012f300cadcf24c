"""The packet index of a video stream: times, key frames and sizes of all packets, found without decoding.

It says where to seek and how many frames to expect. It is not trusted: packets may not decode, hold hidden frames or
carry wrong times, so what is decoded is compared with it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import av
import numpy as np

from hyperframes.frames import Array
from hyperframes.media.decode import Key, is_hidden

if TYPE_CHECKING:
    from hyperframes.media.container import Place

__all__ = ["PacketIndex", "read_index"]

_NONE = -(1 << 63)
_MOST_REORDERING = 64  # packets; decoders reorder by 16 frames at most


@dataclass(frozen=True, slots=True, eq=False)
class PacketIndex:
    """All packets of a stream in presentation order, as far as the container tells."""

    pts: Array
    """(N,) int64: times of the frames that should be shown, strictly increasing, repaired where need be."""
    durations: Array
    """(N,) int64 ticks, 0 where unknown."""
    keys: tuple[Key, ...]
    """Key packets that are shown, in presentation order."""
    packets: int
    """Packets in the file, shown or not."""
    repaired: int
    """Times that were missing or doubled, taken from dts or else from the rate."""
    sound: bool
    """Whether the times are the container's own and in order: only then is it any good for seeking."""

    def __len__(self) -> int:
        return len(self.pts)

    def key_before(self, pts: int, skip: int = 0) -> Key | None:
        """Return the last key packet at or before `pts`, or the one `skip` before it; None: the start of the stream."""
        low, high = 0, len(self.keys)
        while low < high:
            middle = (low + high) // 2
            if self.keys[middle].pts <= pts:
                low = middle + 1
            else:
                high = middle
        at = low - 1 - skip
        return self.keys[at] if at >= 0 else None


def read_index(place: Place, step: int) -> PacketIndex:
    """Read the packets of `place` without decoding them; `step` is the nominal number of ticks a frame."""
    pts, dts, durations, flags = (array("q") for _ in range(4))
    keys: list[Key] = []
    container, stream = place.open()
    hides = stream.codec_context.name if stream.codec_context.name in {"vp8", "vp9"} else ""
    try:
        for packet in container.demux(stream):
            if not packet.size:
                continue
            time = packet.pts
            hidden = packet.is_discard or (bool(hides) and is_hidden(hides, packet))
            if packet.is_keyframe and not hidden and time is not None:
                keys.append(Key.of(packet))
            pts.append(_NONE if time is None else time)
            dts.append(_NONE if packet.dts is None else packet.dts)
            durations.append(packet.duration or 0)
            flags.append(hidden << 1 | packet.is_corrupt << 2)
    except av.InvalidDataError:
        pass  # what follows cannot be demuxed by anybody; reading reports it
    finally:
        container.close()
    return _index(*(np.frombuffer(column, np.int64) for column in (pts, dts, durations, flags)), keys=keys, step=step)


def _index(pts: Array, dts: Array, durations: Array, flags: Array, *, keys: list[Key], step: int) -> PacketIndex:
    shown = flags & 2 == 0
    known = np.where(pts != _NONE, pts, dts)[shown]
    missing = int(np.count_nonzero(pts[shown] == _NONE))
    order = np.argsort(known, kind="stable")
    times = known[order]
    if known.size and np.any(known == _NONE):
        times = np.arange(known.size) * step + (int(known[known != _NONE].min()) if np.any(known != _NONE) else 0)
    doubled = np.flatnonzero(times[1:] <= times[:-1])
    if doubled.size:
        times = np.maximum.accumulate(times - np.arange(times.size)) + np.arange(times.size)
    displaced = int(np.max(np.abs(order - np.arange(order.size)), initial=0))
    return PacketIndex(
        pts=times,
        durations=durations[shown][order],
        keys=tuple(sorted(keys, key=lambda key: key.pts)),
        packets=len(pts),
        repaired=missing + doubled.size,
        sound=not missing and not doubled.size and displaced <= _MOST_REORDERING and not np.any(flags & 4),
    )
