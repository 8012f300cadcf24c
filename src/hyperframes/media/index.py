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
    """All packets of a stream that should show a frame, in presentation order, as far as the container tells."""

    pts: Array
    """(N,) int64: times of the frames, strictly increasing, repaired where need be."""
    durations: Array
    """(N,) int64 ticks, 0 where unknown."""
    sizes: Array
    """(N,) int32 bytes: how much there is to say about each frame, a free sign of activity."""
    packets: int
    """Packets in the file, shown or not."""
    repaired: int
    """Times that were missing or doubled, taken from dts or else from the rate."""
    sound: bool
    """Whether the times are the container's own and in order: only then is it any good for seeking."""
    _keys: Array
    """(K, 4) int64: pts, dts, size and position of the key packets, by pts; one array, as every packet may be one."""

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def num_keys(self) -> int:
        """How many key packets there are."""
        return len(self._keys)

    def key(self, number: int) -> Key:
        """Return key packet `number` in presentation order."""
        pts, dts, size, position = self._keys[number].tolist()
        return Key(pts, None if dts == _NONE else dts, size, None if position == _NONE else position)

    def key_before(self, pts: int, skip: int = 0) -> Key | None:
        """Return the last key packet at or before `pts`, or the one `skip` before it; None: the start of the stream."""
        number = int(np.searchsorted(self._keys[:, 0], pts, side="right")) - 1 - skip
        return self.key(number) if number >= 0 else None


def read_index(place: Place, step: int) -> PacketIndex:
    """Read the packets of `place` without decoding them; `step` is the nominal number of ticks a frame."""
    pts, dts, durations, sizes, flags, keys = (array("q") for _ in range(6))
    container, stream, marked = place.open_listing()
    if stream.codec_context.name in {"vp8", "vp9"}:  # which packets are hidden stands in them
        container.close()
        container, stream = place.open()
    hides = stream.codec_context.name if stream.codec_context.name in {"vp8", "vp9"} else ""
    try:
        for packet in container.demux(stream):
            if not packet.size:
                continue
            time = packet.pts
            hidden = packet.is_discard or (bool(hides) and is_hidden(hides, packet))
            if (packet.is_keyframe or packet.pos in marked) and not hidden and time is not None:
                keys.extend(_NONE if value is None else value for value in Key.of(packet))
            pts.append(_NONE if time is None else time)
            dts.append(_NONE if packet.dts is None else packet.dts)
            durations.append(packet.duration or 0)
            sizes.append(packet.size)
            flags.append(hidden << 1 | packet.is_corrupt << 2)
    except av.InvalidDataError:
        pass  # what follows cannot be demuxed by anybody; reading reports it
    finally:
        container.close()
    return _index(*(np.array(column, np.int64) for column in (pts, dts, durations, sizes, flags, keys)), step=step)


def _index(
    pts: Array, dts: Array, durations: Array, sizes: Array, flags: Array, keys: Array, *, step: int
) -> PacketIndex:
    """Sort packets, given in the order of the file, into presentation order, and repair their times."""
    shown = flags & 2 == 0
    known = np.where(pts != _NONE, pts, dts)[shown]
    missing = int(np.count_nonzero(pts[shown] == _NONE))
    order = np.argsort(known, kind="stable")
    times = known[order]
    if np.any(known == _NONE):
        given = known[known != _NONE]
        times = np.arange(known.size) * step + (int(given.min()) if given.size else 0)
    doubled = int(np.count_nonzero(times[1:] <= times[:-1]))
    if doubled:
        rising = np.arange(times.size)
        times = np.maximum.accumulate(times - rising) + rising
    displaced = int(np.max(np.abs(order - np.arange(order.size)), initial=0))
    keys = keys.reshape(-1, 4)
    return PacketIndex(
        pts=times,
        durations=durations[shown][order],
        sizes=sizes[shown][order].astype(np.int32),
        packets=len(pts),
        repaired=missing + doubled,
        sound=not missing and not doubled and displaced <= _MOST_REORDERING and not np.any(flags & 4),
        _keys=keys[np.argsort(keys[:, 0], kind="stable")],
    )
