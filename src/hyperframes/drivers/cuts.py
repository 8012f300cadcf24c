"""Where a run over several machines is cut into segments: arithmetic on positions, and what proves a cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.plan import Port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hyperframes.drivers.setup import Setup
    from hyperframes.frames import Array
    from hyperframes.plan import Range
    from hyperframes.sinks import Target

__all__ = ["MIN_GROUPS", "Cuts", "Multiple", "find_cuts", "place_cuts"]

MIN_GROUPS = 20
"""Groups of pictures that a segment has at least: what is decoded before its first frame is then 5 % at most."""
SEGMENTS_A_WORKER = 8
"""At most: the last segments then keep all workers busy to within an eighth of the run."""


@dataclass(frozen=True, slots=True)
class Multiple:
    """A condition on cuts: an output of `port` has a multiple of `results` entries between the start and the cut."""

    port: Port
    results: int

    def holds(self, start: int, cut: int) -> bool:
        """Return whether a run from `start` may be cut at `cut`."""
        return (self.port.owned((0, cut))[1] - self.port.owned((0, start))[1]) % self.results == 0


@dataclass(frozen=True, slots=True)
class Cuts:
    """The segments of a run."""

    ranges: tuple[tuple[int, int | None], ...]
    """Of source frames; together the range of the run."""
    reason: str = ""
    """Why there is one only, where there is."""


def find_cuts(setup: Setup, told: dict[str, Target], workers: int) -> Cuts:
    """Return the segments of the run of `setup` for so many workers; cuts were proven by decoding."""
    whole = setup.pipeline.options.range
    multiples = []
    for key, sink in setup.sinks.items():
        port, results = setup.plan.ports[setup.plan.sinks[key]], sink.piece_results(told[key])
        if results is None:
            return Cuts((whole,), f"{sink.name} cannot be written in pieces")
        if port.selects and results > 1:
            return Cuts((whole,), f"{sink.name} has parts of {results} frames, and {port.name} leaves some out")
        multiples.append(Multiple(port, results))
    for source in setup.sources.values():
        if not source.seeks or source.num_frames is None:
            return Cuts((whole,), f"{source.name} cannot be read from the middle")
    counts = [source.num_frames for source in setup.sources.values() if source.num_frames is not None]
    stop = min(counts) if whole[1] is None else min(*counts, whole[1])
    groups = max((_groups(source.keys(), setup.size, stop) for source in setup.sources.values()), key=_width)

    def proven(cut: int) -> bool:
        margins = setup.plan.margins
        return all(source.prove(max(0, cut - margins[port].before)) for port, source in setup.sources.items())

    cuts = place_cuts((whole[0], stop), groups, multiples, workers, proven)
    ends = [*cuts, whole[1]]
    reason = "" if cuts else f"a segment takes {MIN_GROUPS} groups of pictures or more, and two need twice as many"
    return Cuts(tuple(zip([whole[0], *cuts], ends, strict=True)), reason)


def _groups(keys: Array | None, size: int, stop: int) -> Array:
    """Return where groups of pictures start; sources without any are read by hyperframes."""
    return np.arange(0, stop, size) if keys is None else keys


def _width(groups: Array) -> float:
    """Return how many frames a group has on average, more or less: the widest decide."""
    return float(groups[-1] / len(groups)) if len(groups) else float("inf")


def place_cuts(
    frames: Range, groups: Array, multiples: Sequence[Multiple], workers: int, proven: Callable[[int], bool]
) -> list[int]:
    """Return where to cut `frames`, ascending, each cut allowed by all `multiples` and `proven`.

    Parameters
    ----------
    frames : (start, stop)
        Of the whole run.
    groups : (K,) int
        Ascending: where groups of pictures start.
    multiples : sequence of Multiple
        What outputs ask for.
    workers : int
        For how many there should be segments: a multiple of it where there are enough groups.
    proven : function
        Whether the frames from a position on are those of a read from the start; a cut that is not is moved to the
        next group of pictures.
    """
    start, stop = frames
    inside = np.asarray(groups)[(groups >= start) & (groups < stop)]
    wanted = min(len(inside) // MIN_GROUPS, SEGMENTS_A_WORKER * workers)
    if wanted > workers:
        wanted -= wanted % workers
    cuts: list[int] = []
    for number in range(1, wanted):
        at = number * len(inside) // wanted
        while (cut := _allowed(start, int(inside[at]), stop, multiples)) is not None:
            last = cuts[-1] if cuts else start
            before, after = (_count(inside, a, b) for a, b in ((last, cut), (cut, stop)))
            if after < MIN_GROUPS:
                break
            if before >= MIN_GROUPS and proven(cut):
                cuts.append(cut)
                break
            at = int(np.searchsorted(inside, cut, side="right"))
            if at == len(inside):
                break
    return cuts


def _count(groups: Array, start: int, stop: int) -> int:
    return int(np.searchsorted(groups, stop) - np.searchsorted(groups, start))


def _allowed(start: int, cut: int, stop: int, multiples: Sequence[Multiple]) -> int | None:
    """Return the first cut from `cut` on, before `stop`, that all multiples allow; None where there is none."""
    for place in range(max(cut, start + 1), stop):
        if all(multiple.holds(start, place) for multiple in multiples):
            return place
    return None
