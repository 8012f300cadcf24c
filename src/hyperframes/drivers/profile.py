"""Saved tuning: what a sweep measured for one chain of operators on one machine, and where it is kept.

`hyperframes.tuning` writes profiles, `--size auto` reads them. One JSON file per chain, frame layout and machine below
`cache_folder`; a file that cannot be used is ignored with a warning, since a run without tuning is only slower.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hyperframes.drivers.machine import machine_facts, processor_name
from hyperframes.drivers.quantity import bytes_text, count_text, rate_text, seconds_text
from hyperframes.operators.create import as_text
from hyperframes.scheduling.sizing import SizeChoice, best_size, starting_point, sweep_candidates, sweep_sizes

if TYPE_CHECKING:
    from hyperframes.frames import FrameSpec
    from hyperframes.pipeline import Pipeline

__all__ = [
    "Costs",
    "Found",
    "Profile",
    "ProfileKey",
    "cache_folder",
    "find_profile",
    "profile_key",
    "profile_path",
    "save_profile",
    "tuned_size",
]

FORMAT = 2
"""Raised when the meaning of a profile file changes; files of another format are ignored."""


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """What a profile is about; profiles of another key say nothing about this one."""

    chain: str
    """Operators with parameters and versions, conversions included, and the boundary."""
    frame: str
    """Pixel format, dtype, layout and shapes of the frames."""
    machine: str
    """Processor and the cores that may be used."""
    release: str
    """Version of this package: another one may be faster or slower."""

    @property
    def name(self) -> str:
        """Name of the file: the chain and the machine first, so that other frame sizes of theirs stand beside it."""
        return f"{_hash(self.chain)}-{_hash(self.machine)}-{_hash(self.frame)}.json"


@dataclass(frozen=True, slots=True)
class Costs:
    """s and t of W3 for one number of workers: what a hyperframe costs whatever its size, and what a frame costs."""

    fixed_seconds: float
    frame_seconds: float

    def text(self, scale: float = 1.0) -> str:
        """Return both as a clause, for frames that cost `scale` times as much.

        Examples
        --------
        >>> Costs(0.004, 0.003).text(), Costs(0.0, 0.003).text()
        ('a hyperframe costs 4 ms whatever its size and 3 ms a frame', 'a frame costs 3 ms, a hyperframe nothing that shows beside that')
        """
        frame = seconds_text(self.frame_seconds * scale)
        if self.fixed_seconds < 1e-9:
            return f"a frame costs {frame}, a hyperframe nothing that shows beside that"
        return f"a hyperframe costs {seconds_text(self.fixed_seconds)} whatever its size and {frame} a frame"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a sweep found."""

    key: ProfileKey
    created: str
    """Local time, ISO 8601."""
    size: int
    """Knee at `workers`: the smallest size within 3 % of the best."""
    workers: int
    """Compute workers that were fastest."""
    frames_per_second: float
    """Measured at the knee."""
    knees: dict[int, int]
    """The knee for each number of compute workers that was measured."""
    rates: dict[int, float]
    """Frames a second at each of those."""
    costs: dict[int, Costs]
    """For each number of compute workers."""
    halo: tuple[int, int]
    frame_bytes: int
    """Of one source frame."""
    bandwidth: float
    """Bytes a second that a copy on one thread moves, reads and writes counted."""
    layout: str
    """The order of axes that was fastest for the operators, with the same results bit for bit."""

    def costs_for(self, workers: int) -> Costs:
        """Return the costs measured with as many workers, or with the number nearest to it."""
        return self.costs[min(self.costs, key=lambda measured: (abs(measured - workers), measured))]

    def to_json(self) -> dict[str, Any]:
        """Return what is written to the file."""
        told = {"format": FORMAT, **dataclasses.asdict(self)}
        told["costs"] = {str(workers): dataclasses.asdict(costs) for workers, costs in self.costs.items()}
        for name in ("knees", "rates"):
            told[name] = {str(workers): value for workers, value in told[name].items()}
        return told

    @classmethod
    def from_json(cls, told: Any) -> Self:
        """Return the profile that `to_json` gave `told` for.

        Raises
        ------
        ValueError
            If something is missing, of another format, or no possible measurement.
        """
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise ValueError(
                f"expected format {FORMAT}, got {told.get('format') if isinstance(told, dict) else told!r}"
            )
        try:
            profile = cls(
                key=ProfileKey(**told["key"]),
                created=str(told["created"]),
                size=int(told["size"]),
                workers=int(told["workers"]),
                frames_per_second=float(told["frames_per_second"]),
                knees={int(workers): int(size) for workers, size in told["knees"].items()},
                rates={int(workers): float(rate) for workers, rate in told["rates"].items()},
                costs={
                    int(workers): Costs(float(cost["fixed_seconds"]), float(cost["frame_seconds"]))
                    for workers, cost in told["costs"].items()
                },
                halo=(int(told["halo"][0]), int(told["halo"][1])),
                frame_bytes=int(told["frame_bytes"]),
                bandwidth=float(told["bandwidth"]),
                layout=str(told["layout"]),
            )
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        profile._check()
        return profile

    def _check(self) -> None:
        sizes = [self.size, self.workers, self.frame_bytes, *self.knees, *self.knees.values(), *self.costs]
        amounts = [self.frames_per_second, self.bandwidth, *self.rates.values()]
        amounts += [value for costs in self.costs.values() for value in (costs.fixed_seconds, costs.frame_seconds)]
        possible = all(map(math.isfinite, amounts)) and min(amounts) >= 0 and min(sizes) >= 1 and bool(self.costs)
        possible &= self.knees.keys() == self.rates.keys()
        if not possible:
            raise ValueError("a size below 1 or a time below 0")
        if self.layout not in {"NHWC", "NCHW"}:
            raise ValueError(f"no layout: {self.layout!r}")


@dataclass(frozen=True, slots=True)
class Found:
    """What is kept about a chain."""

    profile: Profile | None = None
    """Of exactly the chain, frames and machine asked for."""
    related: Profile | None = None
    """Else the nearest of the same chain and machine over frames of other sizes."""
    warnings: tuple[str, ...] = ()
    """Files that could not be used, and why."""


def profile_key(pipeline: Pipeline, spec: FrameSpec) -> ProfileKey:
    """Return what tells profiles apart for the stages of `pipeline` over frames of `spec` on this machine.

    Range, sinks (and the conversions they need) and the length of the stream are left out: a chain is tuned once.
    """
    from hyperframes import __version__

    options = pipeline.options
    wanted = [options.boundary, options.pixel_format, options.dtype, options.layout, options.frame_dependency]
    stages = [
        f"{as_text(stage.operator)}#{stage.operator.version}@{','.join(stage.inputs)}" for stage in pipeline.stages
    ]
    frame = f"{spec.pixel_format or 'array'} {spec.dtype} {spec.layout} {'/'.join(map(str, spec.shapes))}"
    return ProfileKey(" | ".join([" ".join(filter(None, wanted)), *stages]), frame, _machine(), __version__)


def _machine() -> str:
    facts = machine_facts()
    quota = "" if facts.quota is None else f", quota {facts.quota:g}"
    return f"{processor_name()}, {facts.physical} cores, {facts.logical} threads, {facts.affinity} allowed{quota}"


def cache_folder() -> Path:
    """Return where things that can be made again are kept.

    ``$HYPERFRAMES_CACHE``, else ``hyperframes`` in ``$XDG_CACHE_HOME``, else in ``~/.cache``.
    """
    if chosen := os.environ.get("HYPERFRAMES_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperframes"


def profile_path(key: ProfileKey) -> Path:
    """Return the file of `key`'s profile."""
    return cache_folder() / "profiles" / key.name


def save_profile(profile: Profile) -> Path:
    """Write `profile` in one step, so that no reader ever sees a part of it, and return where.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    path = profile_path(profile.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=".json", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(profile.to_json(), file, indent=2)
            file.write("\n")
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def find_profile(key: ProfileKey) -> Found:
    """Return what is kept for `key`; see `Found`."""
    warnings: list[str] = []
    path = profile_path(key)
    exact = _read(path, warnings) if path.exists() else None
    if exact is not None and exact.key != key:
        stale = exact.key.release != key.release and dataclasses.replace(exact.key, release=key.release) == key
        if stale:
            warnings.append(
                f"the tuning of {exact.created[:10]} was measured with version {exact.key.release} and is not used: "
                "run 'hyperframes tune' again"
            )
        exact = None
    if exact is not None:
        return Found(exact, None, tuple(warnings))
    return Found(None, _related(key, warnings), tuple(warnings))


def _related(key: ProfileKey, warnings: list[str]) -> Profile | None:
    prefix = key.name.rpartition("-")[0]
    others = []
    for path in sorted(profile_path(key).parent.glob(f"{prefix}-*.json")):
        other = None if path.name == key.name else _read(path, warnings)
        if other is not None and (other.key.chain, other.key.machine, other.key.release) == (
            key.chain,
            key.machine,
            key.release,
        ):
            others.append(other)
    return max(others, key=lambda profile: profile.created, default=None)


def _read(path: Path, warnings: list[str]) -> Profile | None:
    try:
        return Profile.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:  # not JSON is a ValueError too
        warnings.append(f"the saved tuning {path} cannot be used and is ignored: {error}")
        return None


# What it means for a run ----------------------------------------------------------------------------------------------

LONG_STREAM = 100_000
"""Frames that the model counts with where nobody knows the length."""


def tuned_size(
    found: Found, *, frame_bytes: int, workers: int, parallel: int, num_frames: int | None, halo: int
) -> SizeChoice | None:
    """Return the size that measurements speak for, and why; None where there are none.

    Parameters
    ----------
    found : Found
        What is kept about the chain.
    frame_bytes : int
        Of one source frame.
    workers : int
        Compute workers of the run.
    parallel : int
        P: hyperframes that are worked on at once.
    num_frames : int or None
        N, where it is known.
    halo : int
        Frames of both sides.

    Notes
    -----
    The sweep's own knee where it was measured with as many workers and the stream is long enough to give each of them a
    hyperframe of that size. Else the size with the shortest makespan (W3) from the measured costs; over frames of
    another size the cost of a frame is taken to grow with its bytes.
    """
    profile = found.profile
    if profile is not None and workers in profile.knees:
        size = profile.knees[workers]
        if num_frames is None or size * parallel <= max(num_frames, 1):
            measured = f"{count_text(workers, 'worker')}: {rate_text(profile.rates[workers])}"
            reason = f"tuned on {profile.created[:10]} with {measured}"
            return SizeChoice(size, (reason, profile.costs_for(workers).text(), _formula_text(profile, workers, 1.0)))
    basis = profile or found.related
    if basis is None:
        return None
    scale = frame_bytes / basis.frame_bytes
    costs = basis.costs_for(workers)
    length = LONG_STREAM if num_frames is None else max(1, num_frames)
    sizes = sweep_candidates(num_frames=max(1, -(-length // parallel)), sizes=sweep_sizes(frame_bytes))
    size = best_size(length, parallel, costs.fixed_seconds, costs.frame_seconds * scale, halo, candidates=sizes)
    long = "a long stream" if num_frames is None else count_text(num_frames, "frame")
    reason = (
        f"shortest makespan by the model for {long} on {count_text(parallel, 'worker')}, "
        f"with costs measured on {basis.created[:10]}"
    )
    if scale != 1:
        reason += f" over frames of {bytes_text(basis.frame_bytes)}"
    return SizeChoice(size, (reason, basis.costs_for(workers).text(scale), _formula_text(basis, workers, scale)))


def _formula_text(profile: Profile, workers: int, scale: float) -> str:
    """Say what the formula of A32 gives, which is a starting point and no prediction."""
    seconds, frame_bytes = profile.costs_for(workers).frame_seconds * scale, round(profile.frame_bytes * scale)
    start = starting_point(seconds, profile.bandwidth, frame_bytes)
    return (
        f"the formula sqrt(2 * t * bandwidth / bytes) would start at {start:.1f}: t = {seconds_text(seconds)}, "
        f"{bytes_text(profile.bandwidth)}/s, {bytes_text(frame_bytes)} a frame; it counts no fixed cost and predicts nothing"
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
