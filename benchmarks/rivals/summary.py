"""What is made of measured rounds: medians of quiet rounds, and ratios within each round. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workloads import Target

    Rounds = Sequence[Mapping[str, Any]]

QUIET_CORES = 0.3
"""A round counts when other processes used fewer cores than this while it ran."""
FEWEST_ROUNDS = 3
"""With fewer quiet rounds all rounds count, and the page says so."""


@dataclass(frozen=True)
class Figure:
    """What one label took for one frame or row."""

    seconds: float
    cpu_seconds: float
    quiet: int
    """Quiet rounds."""
    rounds: int

    @property
    def per_second(self) -> float:
        """Frames or rows a second of wall time."""
        return 1 / self.seconds


@dataclass(frozen=True)
class Ratio:
    """How many times as long the rival took, in the same rounds."""

    wall: float
    cpu: float
    quiet: int
    rounds: int

    @property
    def calm(self) -> bool:
        """Whether enough rounds were quiet for wall times to tell something."""
        return self.quiet >= FEWEST_ROUNDS

    def judged(self, *, by_cpu: bool = True) -> float:
        """Return the ratio that counts: of wall time, or of CPU time on a busy machine where that can tell it."""
        return self.cpu if by_cpu and not self.calm else self.wall


def counting(*labels: Rounds) -> list[int]:
    """Return the rounds that count: those quiet for all `labels`, or all where these are too few."""
    together = range(min(len(rounds) for rounds in labels))
    quiet = [n for n in together if all(rounds[n]["other_cores"] < QUIET_CORES for rounds in labels)]
    return quiet if len(quiet) >= FEWEST_ROUNDS else list(together)


def num_quiet(*labels: Rounds) -> int:
    """Return how many rounds were quiet for all `labels`."""
    return sum(all(r["other_cores"] < QUIET_CORES for r in rounds) for rounds in zip(*labels, strict=False))


def figure(rounds: Rounds) -> Figure:
    """Return the medians of a label's rounds."""
    chosen = [rounds[n] for n in counting(rounds)]
    return Figure(
        median(r["seconds"] / r["done"] for r in chosen),
        median(r["cpu_seconds"] / r["done"] for r in chosen),
        num_quiet(rounds),
        len(rounds),
    )


def ratio(measured: Mapping[str, Rounds], target: Target) -> Ratio | None:
    """Return the median over rounds of the rival's time over ours, or None where one of them has none."""
    names = [target.ours, target.rival, *([target.less] if target.less else [])]
    if not all(name in measured and "error" not in measured[name][0] for name in names):
        return None
    labels = [measured[name] for name in names]
    chosen = counting(*labels)

    def paired(key: str) -> float:
        def one(number: int) -> float:
            ours, rival, *less = (rounds[number][key] / rounds[number]["done"] for rounds in labels)
            return (rival - sum(less)) / max(ours, 1e-12)

        return median(one(number) for number in chosen)

    return Ratio(paired("seconds"), paired("cpu_seconds"), num_quiet(*labels), len(labels[0]))
