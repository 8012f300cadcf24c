"""The packed unit: arrays of consecutive frames, the context around them, and a header that says what they are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.frames import Array, FrameSpec, Records, single_plane
from hyperframes.packing.lent import LentPlane
from hyperframes.packing.slab import Slab

if TYPE_CHECKING:
    from hyperframes.packing.halo import Boundary

__all__ = ["Header", "Hyperframe", "window"]


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """Everything a hyperframe says about itself; arrays, never one object per frame.

    Its repr is short, as frames have ids and times by the hundred.
    """

    sequence: int
    """Position among the hyperframes of the run, from 0."""
    id: str
    """Stable across retries and resumes: source, plan and core range."""
    streams: tuple[str, ...]
    core: tuple[int, int]
    """Frames it owns, half open, in stream positions."""
    read: tuple[int, int]
    """Real frames it holds: core plus halo, clipped to the stream."""
    pad_before: int
    """Frames at the front that the boundary stands in for."""
    pad_after: int
    """Frames at the back that the boundary stands in for."""
    frame_ids: Array
    """(T,) int64 positions in presentation order; -1 where no real frame stands."""
    pts: Array
    """(T,) int64 ticks of `time_base`; a padded frame has the pts of the frame that stands in for it."""
    time_base: Fraction
    durations: Array | None = None
    """(T,) int64 ticks; 0 where unknown."""
    kind: Literal["temporal", "spatial", "both"] = "temporal"
    clock: Literal["media", "capture", "arrival"] = "media"
    """What `pts` counts: the file's time line, the sender's clock, or when the frame arrived."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Ranges of frames known to be missing inside or just before the core."""
    repaired_pts: bool = False
    """True when times were missing or out of order and were rebuilt from decode times or the rate."""
    seal_reason: str = "full"
    """``full``, ``end``, ``timeout``, ``event``, ``latency``, ``change``."""
    attempt: int = 0
    end: bool = False
    """True when the run's last core is this one."""
    stream_length: int | None = None
    """N where the stream's end was seen when this was sealed, else None."""

    def number(self, sequence: int) -> None:
        """Set `sequence`, for drivers: among several streams only they can tell, before anybody else has the header."""
        object.__setattr__(self, "sequence", sequence)

    def __repr__(self) -> str:
        pads = f", pads {self.pad_before} + {self.pad_after}" if self.pad_before or self.pad_after else ""
        return (
            f"Header({self.id!r}, {self.kind}, sequence {self.sequence}, core {list(self.core)}, read {list(self.read)}{pads}, "
            f"sealed: {self.seal_reason})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Hyperframe:
    """A contiguous array of frames per plane, with the frames it owns in the middle.

    Examples
    --------
    >>> from hyperframes.packing import pack
    >>> from hyperframes.frames import Frame
    >>> h = pack([Frame(np.zeros((4, 6, 3), np.uint8), pts=t) for t in range(5)])
    >>> h.data.shape, h.core
    ((5, 4, 6, 3), slice(0, 5, None))
    """

    header: Header
    planes: tuple[Array, ...]
    """One read-only C-contiguous array (T, h, w[, c]) per plane; T counts core, halo and padding."""
    core: slice
    """The frames it owns, as a slice of the leading axis."""
    mask: Array
    """(T,) bool: True where a real frame stands, False where the boundary does."""
    spec: FrameSpec
    slab: Slab | None = None
    """The memory the planes lie in, for drivers; None for arrays of others."""
    offset: int = 0
    """Frame slot of the slab at which the planes begin."""
    records: Records | None = None
    """Rows of the frames held, where an operator reads records; `planes` is empty then."""
    lent: tuple[LentPlane, ...] = ()
    """By plane: frames where their source has them, for drivers; `planes` is empty then."""

    def __len__(self) -> int:
        """T: frames held, halo and padding included."""
        return len(self.mask)

    @property
    def size(self) -> int:
        """Frames owned."""
        return self.core.stop - self.core.start  # type: ignore[no-any-return]  # slices are untyped

    @property
    def data(self) -> Array:
        """The single plane (T, ...) of one-plane formats, else a FrameError naming ``--pixel-format rgb24``."""
        return single_plane(self.planes, self.spec)

    @property
    def core_data(self) -> Array:
        """The frames it owns of the single plane."""
        return self.data[self.core]

    @property
    def core_planes(self) -> tuple[Array, ...]:
        """The frames it owns, per plane."""
        return tuple(plane[self.core] for plane in self.planes)

    def let_go(self) -> None:
        """Hold lent frames no longer, for drivers: nobody reads them again."""
        object.__setattr__(self, "lent", ())

    def __repr__(self) -> str:
        start, stop = self.header.core
        shapes = ", ".join(str(plane.shape) for plane in self.planes)
        return f"Hyperframe({self.header.id}, core [{start}, {stop}), {self.spec.pixel_format or 'array'} {shapes})"


def window(
    planes: tuple[Array, ...],
    first: int,
    wanted: tuple[int, int],
    num_frames: int | None,
    boundary: Boundary,
    scratch: tuple[Array, ...] | None = None,
    positions: Array | None = None,
) -> tuple[tuple[Array, ...], Array]:
    """Return the frames `wanted` of a stream of which `planes` holds the frames from `first` on.

    Inside the stream this is a view; where `wanted` reaches beyond an end the frames are gathered by the
    boundary's index map (W1), so that a hyperframe's result equals that of the whole sequence.

    Parameters
    ----------
    planes : tuple of arrays (T, ...)
        Frames [first, first + T) of the stream.
    first : int
        Position of ``planes[i][0]``.
    wanted : (start, stop)
        Positions asked for; may be negative or from N on.
    num_frames : int or None
        N; None while the end is not known, and then `wanted` must be held in full from 0 on.
    boundary : Boundary
        What stands beyond the ends.
    scratch : tuple of arrays (>= stop - start, ...), optional
        Where gathered frames go; new arrays are made without it.
    positions : (stop - start,) array, optional
        The positions `wanted` themselves, where the caller has them.

    Returns
    -------
    planes, (stop - start,) indices of the frames that stand there (-1: none)

    Raises
    ------
    FrameError
        If frames are needed that `planes` does not hold.
    """
    start, stop = wanted
    held = first + len(planes[0])
    index = np.arange(start, stop) if positions is None else positions
    if start >= 0 and stop <= held and (num_frames is None or stop <= num_frames):
        if start < first:
            raise _not_held(wanted, first, held)
        return tuple(plane[start - first : stop - first] for plane in planes), index
    if num_frames is None and stop > held:
        raise _not_held(wanted, first, held)
    stand_in = boundary.source_index(index, held if num_frames is None else num_frames)
    real = stand_in >= 0
    if stand_in[real].size and (stand_in[real].min() < first or stand_in.max() >= held):
        raise _not_held(wanted, first, held)
    if scratch is None:
        scratch = tuple(np.empty((stop - start, *p.shape[1:]), p.dtype) for p in planes)
    gathered = []
    fill = boundary.value if boundary.mode == "constant" else 0
    for plane, out in zip(planes, scratch, strict=True):
        target = out[: stop - start]
        for t, source in enumerate(stand_in):
            if source >= 0:
                target[t] = plane[source - first]
            else:
                target[t] = fill
        gathered.append(target)
    return tuple(gathered), stand_in


def _not_held(wanted: tuple[int, int], first: int, held: int) -> FrameError:
    return FrameError(
        f"frames {wanted} are needed: expected all of them or their stand-ins in hand, got [{first}, {held})",
        expected=wanted,
        got=(first, held),
    )
