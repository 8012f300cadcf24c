"""Whether hyperframes are worth it somewhere, and which kind: rules over what was measured, and nothing else.

Each rule is a finding that shows its value, its threshold and what follows from it. Advice is given, nothing is refused.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from hyperframes.errors import PipelineError

__all__ = [
    "KINDS",
    "TARGETS",
    "Advice",
    "Finding",
    "ModelMeasures",
    "SourceMeasures",
    "Symptoms",
    "Target",
    "advice_on_events",
    "advice_on_model",
    "advice_on_source",
    "target_named",
]

LEAST_GAIN: Final = 1.10
"""Times as fast: less is within what machines vary by."""
LEAST_COUPLING: Final = 0.5
STILL_PX, MOVING_PX = 0.1, 2.0
FASTEST_SHARE: Final = 0.1
"""Of the longer side, a frame: what moves further has left before it is compared."""
MOST_USED: Final = 0.5
LEAST_EVENTS: Final = 1000.0
MOST_LATENCY_MS: Final = 120.0
MOST_MEMORY_SHARE: Final = 0.65
MOST_DROP_POINTS: Final = 18.0
MOST_MODELS_RATIO: Final = 3.0

Verdict = Literal["worth it", "hardly worth it", "not worth it"]
KINDS: Final = {
    "MCH": f"motion-compensated: motion of {MOVING_PX:g} px a frame or more that neighbouring frames share",
    "SCH": f"slow change: weak motion, from {STILL_PX:g} to {MOVING_PX:g} px a frame, over long stretches",
    "EDH": "event-driven: events of a sensor, or motion too fast for frames",
    "none": "no strong temporal coupling, or nothing that moves: descriptors only",
}
"""Kinds of hyperframe tensors, and what they are for."""


@dataclass(frozen=True)
class Target:
    """What a run has to fit."""

    name: str
    memory_bytes: int | None
    """None: this machine's own."""
    reserve_bytes: int = 0
    """What the device's own software takes."""


TARGETS: Final = {
    "this": Target("this", None),
    "edge-2gb": Target("edge-2gb", 2 << 30, 256 << 20),
    "edge-8gb": Target("edge-8gb", 8 << 30, 1 << 30),
    "gpu-24gb": Target("gpu-24gb", 24 << 30, 1 << 30),
}


def target_named(name: str) -> Target:
    """Return the target called `name`.

    Raises
    ------
    PipelineError
        If there is none.
    """
    if name not in TARGETS:
        raise PipelineError(f"no target named {name!r}: expected one of {', '.join(TARGETS)}", got=name)
    return TARGETS[name]


@dataclass(frozen=True)
class Symptoms:
    """What users see of a system that they have; None is not known."""

    latency_ms: float | None = None
    """Of one 1080p stream, end to end."""
    memory_share: float | None = None
    """Of the device's memory, in [0, 1]."""
    accuracy_drop: float | None = None
    """Points lost from one scene to another, indoors to outdoors for example."""
    relabel: bool = False
    """Every new model needs all labels anew."""
    memory_hurts: bool = False
    """More device memory lowers accuracy."""
    jitters: bool = False
    """Good offline, unsteady online."""
    models_ratio: float | None = None
    """Time of all small models together over that of one."""

    def __post_init__(self) -> None:
        """Refuse what cannot have been seen.

        Raises
        ------
        PipelineError
            If a number is not finite, a time or ratio is negative, or a share is not in [0, 1].
        """
        ranges = {"latency_ms": (0, math.inf), "memory_share": (0, 1), "models_ratio": (0, math.inf)}
        for name, (least, most) in {**ranges, "accuracy_drop": (-math.inf, math.inf)}.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and least <= value <= most):
                expected = f"a number in [{least:g}, {most:g}]" if math.isfinite(least) else "a finite number"
                what = name.replace("_", " ")
                raise PipelineError(f"{what}: expected {expected}, got {value:g}", expected=expected, got=value)


@dataclass(frozen=True)
class SourceMeasures:
    """What was measured of a source; None where it could not be."""

    frames: int
    """Looked at."""
    side_px: int
    """Longer side of the picture."""
    decode_ms: float
    """A frame."""
    median_px: float
    """Of all pixels, in pixels of the source a frame; noise is no motion."""
    fast_px: float
    """99th percentile of the same."""
    coupling: float
    """Share of a frame's variance that the one before explains once it is moved along the flow, the median, at most 1."""
    cuts: int
    busy_share: float
    """Of frames with a weight of 0.15 or more."""
    area_share: float
    """Of 16-pixel squares of the small luma chosen at a confidence of 0.3, the mean over frames."""
    gain: float | None = None
    """Times as fast a mean over 5 frames is packed than frame by frame, decoding included."""
    size: int | None = None
    """Of the hyperframes that were measured."""


@dataclass(frozen=True)
class ModelMeasures:
    """What was measured of a model file."""

    milliseconds: dict[int, float]
    """A frame, by frames in one call."""
    fixed_batch: int | None
    """Number of frames that the file itself fixes."""
    length: int
    """Frames that one result is made from."""
    memory_bytes: int
    """Weights and the most that a call took, at the largest number."""


@dataclass(frozen=True)
class Finding:
    """One rule: what was measured, what it is held against, and what follows."""

    name: str
    value: float | None
    unit: str
    threshold: str
    speaks_for: bool | None
    """Hyperframes; None: neither for nor against, or not measured."""
    why: str


@dataclass(frozen=True)
class Advice:
    """What follows from the findings."""

    subject: str
    verdict: Verdict
    kind: str
    """One of `KINDS`; of models ``batch``, ``window`` or ``none``."""
    reason: str
    target: str
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return a dict of plain values."""
        return asdict(self)


def advice_on_source(subject: str, seen: SourceMeasures, symptoms: Symptoms, target: Target) -> Advice:
    """Return what is advised for a source."""
    kind, why = _kind(seen)
    findings = [*_source_findings(seen, kind, why), *_symptom_findings(symptoms)]
    for_it = [f for f in findings if f.speaks_for]
    if kind == "none":
        verdict: Verdict = "hardly worth it" if seen.gain is not None and seen.gain >= LEAST_GAIN else "not worth it"
        reason = why
    else:
        verdict = "worth it" if len(for_it) > 1 else "hardly worth it"
        reason = "; ".join(f.why for f in for_it[:3])
    return Advice(subject, verdict, kind, reason, target.name, tuple(findings))


def advice_on_events(subject: str, events_per_second: float, symptoms: Symptoms, target: Target) -> Advice:
    """Return what is advised for a sensor of events."""
    enough = events_per_second >= LEAST_EVENTS
    why = (
        "events are sparse in space and time: frames made of them are grids of few events"
        if enough
        else "too few events"
    )
    rate = Finding("events", events_per_second, "a second", f"at least {LEAST_EVENTS:g}", enough, why)
    verdict: Verdict = "worth it" if enough else "not worth it"
    findings = (rate, *_symptom_findings(symptoms))
    return Advice(subject, verdict, "EDH" if enough else "none", why, target.name, findings)


def _kind(seen: SourceMeasures) -> tuple[str, str]:
    if seen.coupling < LEAST_COUPLING:
        return (
            "none",
            f"neighbouring frames have little in common ({100 * max(0.0, seen.coupling):.0f} % of a frame is in the one before)",
        )
    if seen.fast_px < STILL_PX:
        return "none", f"hardly anything moves ({seen.fast_px:.2f} px a frame at the 99th percentile)"
    if seen.fast_px >= FASTEST_SHARE * seen.side_px:
        return "EDH", f"motion of {seen.fast_px:.0f} px a frame is faster than frames follow"
    if seen.fast_px >= MOVING_PX:
        return "MCH", f"motion of {seen.fast_px:.1f} px a frame at the 99th percentile, in frames that are alike"
    return "SCH", f"weak motion of {seen.fast_px:.2f} px a frame at the 99th percentile, in frames that are alike"


def _source_findings(seen: SourceMeasures, kind: str, why: str) -> list[Finding]:
    shared = (
        "packing shares halo, calls and memory"
        if (seen.gain or 0) >= LEAST_GAIN
        else "decoding or one frame is the limit"
    )
    return [
        Finding(
            "motion, median", seen.median_px, "px/frame", "for information", None, "how much the whole picture moves"
        ),
        Finding(
            "motion, 99th percentile",
            seen.fast_px,
            "px/frame",
            f"SCH from {STILL_PX:g}, MCH from {MOVING_PX:g}, EDH from {FASTEST_SHARE * seen.side_px:.0f}",
            kind != "none" if seen.fast_px >= STILL_PX else False,
            why,
        ),
        Finding(
            "coupling of neighbouring frames",
            seen.coupling,
            "share",
            f"at least {LEAST_COUPLING:g}",
            None if seen.coupling >= LEAST_COUPLING else False,
            f"{seen.cuts} cuts in {seen.frames} frames",
        ),
        Finding(
            "frames that matter",
            seen.busy_share,
            "share",
            f"at most {MOST_USED:g}",
            seen.busy_share <= MOST_USED,
            f"anchors find {100 * seen.busy_share:.0f} % of the frames worth looking at",
        ),
        Finding(
            "picture that matters",
            seen.area_share,
            "share",
            f"at most {MOST_USED:g}",
            seen.area_share <= MOST_USED,
            f"patches cover {100 * seen.area_share:.0f} % of the picture",
        ),
        Finding(
            "packed against frame by frame",
            seen.gain,
            "times as fast",
            f"at least {LEAST_GAIN:g}",
            None if seen.gain is None else seen.gain >= LEAST_GAIN,
            "not measured: it can be read only once" if seen.gain is None else shared,
        ),
        Finding(
            "decoding", seen.decode_ms, "ms/frame", "for information", None, "nothing but a faster decoder helps here"
        ),
    ]


def _symptom_findings(told: Symptoms) -> list[Finding]:
    """Return what follows from what users said; C22's three, two at once or more, count as one reason of their own."""
    found = []

    def above(name: str, value: float | None, limit: float, unit: str, why: str) -> None:
        if value is not None:
            found.append(Finding(name, value, unit, f"over {limit:g}", value > limit, why))

    above(
        "latency of one 1080p stream",
        told.latency_ms,
        MOST_LATENCY_MS,
        "ms",
        "one stream takes too long frame by frame",
    )
    above(
        "device memory in use",
        told.memory_share,
        MOST_MEMORY_SHARE,
        "share",
        "memory runs out: chosen patches and frames need less",
    )
    above(
        "accuracy lost between scenes",
        told.accuracy_drop,
        MOST_DROP_POINTS,
        "points",
        "what is learned holds for one scene only",
    )
    if told.relabel:
        why = "descriptors and projections outlive a model: labels need not be made anew"
        found.append(Finding("labels anew for each model", 1.0, "", "yes", True, why))
    together = [
        *(["more memory lowers accuracy"] if told.memory_hurts else []),
        *(["good offline, unsteady online"] if told.jitters else []),
        *(["small models take long together"] if (told.models_ratio or 0) > MOST_MODELS_RATIO else []),
    ]
    if told.models_ratio is not None:
        why = "one representation can serve all of them"
        above("all small models over one", told.models_ratio, MOST_MODELS_RATIO, "times", why)
    if together:
        why = "at least two of fixed sampling, whole pictures and separate sound act together: " + ", ".join(together)
        found.append(Finding("symptoms of more than one cause", float(len(together)), "", "any", True, why))
    return found


def advice_on_model(subject: str, seen: ModelMeasures, symptoms: Symptoms, target: Target, memory_bytes: int) -> Advice:
    """Return what is advised for a model file on a target with `memory_bytes`."""
    best = min(seen.milliseconds, key=lambda n: seen.milliseconds[n])
    single = seen.milliseconds[min(seen.milliseconds)]
    gain = single / seen.milliseconds[best]
    room = max(1, memory_bytes - target.reserve_bytes)
    share = seen.memory_bytes / room
    steps = ", ".join(f"{n}: {ms:.2f}" for n, ms in sorted(seen.milliseconds.items()))
    batch = (
        f"the file fixes {seen.fixed_batch} frames a call"
        if seen.fixed_batch is not None
        else f"ms a frame by frames in one call: {steps}"
    )
    findings = [
        Finding(
            "gain of many frames in one call",
            gain,
            "times as fast",
            f"at least {LEAST_GAIN:g}",
            gain >= LEAST_GAIN,
            batch,
        ),
        Finding(
            "latency of one frame",
            single,
            "ms",
            f"over {MOST_LATENCY_MS:g}",
            single > MOST_LATENCY_MS,
            "fewer frames and patches are what helps: give it anchors only"
            if single > MOST_LATENCY_MS
            else "fast enough frame by frame",
        ),
        Finding(
            "memory of the target in use",
            share,
            "share",
            f"over {MOST_MEMORY_SHARE:g}",
            share > MOST_MEMORY_SHARE,
            f"weights and the largest call take {seen.memory_bytes / 2**20:.0f} MiB of {room / 2**20:.0f}"
            + ("; it does not fit: take fewer frames a call, patches, or a smaller model" if share > 1 else ""),
        ),
        Finding(
            "frames of one result",
            float(seen.length),
            "frames",
            "2 or more",
            seen.length > 1,
            "models of several frames read windows of a hyperframe",
        ),
        *_symptom_findings(symptoms),
    ]
    for_it = [f for f in findings if f.speaks_for]
    kind = "window" if seen.length > 1 else "batch" if gain >= LEAST_GAIN else "none"
    if kind == "none":
        verdict: Verdict = "hardly worth it" if for_it else "not worth it"
        reason = for_it[0].why if for_it else f"this model gains nothing by many frames in one call here ({batch})"
    else:
        verdict = "worth it"
        reason = f"{best} frames in one call are {gain:.2f} times as fast" if kind == "batch" else findings[3].why
    return Advice(subject, verdict, kind, reason, target.name, tuple(findings))
