"""What a run returns: counts, figures, and the result itself where it stayed in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.quantity import bytes_text, count_text, rate_text, seconds_text, share_text
from hyperframes.errors import PipelineError
from hyperframes.frames import Array, Clip, Records
from hyperframes.packing import Halo
from hyperframes.sinks import MemorySink, Sink
from hyperframes.sources import Source

if TYPE_CHECKING:
    from hyperframes.drivers.report import Report

__all__ = ["RunResult"]


@dataclass(slots=True, eq=False)
class RunResult:
    """The outcome of a finished run; `to_json` has the keys of ``hyperframes run --json``."""

    id: str
    frames_in: int
    frames_out: int
    filtered: int
    """Outputs left out by a selecting operator."""
    hyperframes: int
    size: int
    """Of the hyperframes that most frames were in."""
    halo: Halo
    workers: int
    executor: str
    seconds: float
    peak_memory_bytes: int
    """Largest summed proportional set size of the process tree."""
    scheduler_share: float
    """(coordination CPU + worker idle while a task was ready) / (workers x wall)."""
    stages: dict[str, float]
    """Busy seconds per stage, summed over workers."""
    conversions: list[str]
    retries: int
    failed: list[dict[str, Any]]
    """Hyperframes that failed under ``on_error=continue``: id, frames, error."""
    output: list[str]
    warnings: list[str] = field(default_factory=list)
    frames_sha256: str | None = None
    prepare_seconds: float = 0.0
    """Before the clock started: workers prepared, kernels compiled or loaded (A88)."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Every first frame and the size that cores had from there on: more than one where ``size=auto`` changed it."""
    frames_before: int = 0
    """Input frames that interrupted runs had done: in `frames_in`, as their results are in the other counts."""
    sinks: Mapping[str, Sink] = field(default_factory=dict, repr=False)
    sources: Mapping[str, Source] = field(default_factory=dict, repr=False)
    recorder: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return two lines for people: what came out how fast, and how it was run."""
        noun, filtered = self._noun(), f" ({self.filtered:,} filtered)" if self.filtered else ""
        out = "" if self.frames_in == self.frames_out else f" to {count_text(self.frames_out, 'result')}{filtered}"
        name = ", ".join(self.output) or "done"
        return (
            f"{name}: {count_text(self.frames_in, noun)}{out} in {seconds_text(self.seconds)}, "
            f"{rate_text(self.frames_per_second, noun)}\n"
            f"{count_text(self.hyperframes, 'hyperframe')} of {self.size_text(noun)}, halo {self.halo.before} + "
            f"{self.halo.after}, {count_text(self.workers, 'worker')}, scheduler share "
            f"{share_text(self.scheduler_share)}, peak memory {bytes_text(self.peak_memory_bytes)}"
        )

    def size_text(self, noun: str) -> str:
        """Return how many of `noun` a hyperframe owned: a span where that changed during the run."""
        sizes = [min(size, self.frames_in) for size in (self.size, *(size for _, size in self.sizes))]
        least, most = min(sizes), max(sizes)
        return count_text(most, noun) if least == most else f"{least:,} to {count_text(most, noun)}"

    def _noun(self) -> str:
        """Return what a frame of the sources is called: single numbers and vectors are rows."""
        shapes = [source.spec.shapes[0] for source in self.sources.values()]
        return "row" if shapes and all(len(shape) <= 1 for shape in shapes) else "frame"

    def followed_by(self, other: RunResult) -> RunResult:
        """Return the result of two runs, one after the other, as one: counts add up, the larger peak stays."""
        seconds = self.seconds + other.seconds
        share = (self.scheduler_share * self.seconds + other.scheduler_share * other.seconds) / max(seconds, 1e-9)
        stages = {
            name: self.stages.get(name, 0.0) + other.stages.get(name, 0.0) for name in {**self.stages, **other.stages}
        }
        return dataclasses.replace(
            other,
            frames_in=self.frames_in + other.frames_in,
            frames_out=self.frames_out + other.frames_out,
            filtered=self.filtered + other.filtered,
            hyperframes=self.hyperframes + other.hyperframes,
            frames_before=self.frames_before + other.frames_before,
            seconds=seconds,
            peak_memory_bytes=max(self.peak_memory_bytes, other.peak_memory_bytes),
            scheduler_share=share,
            stages=stages,
            retries=self.retries + other.retries,
            prepare_seconds=self.prepare_seconds + other.prepare_seconds,
            failed=self.failed + other.failed,
            output=self.output + other.output,
            warnings=self.warnings + other.warnings,
            frames_sha256=None,
        )

    @property
    def frames(self) -> int:
        """Frames given to the sink."""
        return self.frames_out

    @property
    def frames_per_second(self) -> float:
        """Input frames of this run, without those done before, over wall seconds."""
        return (self.frames_in - self.frames_before) / self.seconds if self.seconds else 0.0

    @property
    def value(self) -> Clip | Records:
        """The result of a run without a sink.

        Raises
        ------
        PipelineError
            If the run had a sink: the result is there.
        """
        for sink in self.sinks.values():
            result = getattr(sink, "result", None)
            if result is not None:
                return result  # type: ignore[no-any-return]  # MemorySink's
        raise PipelineError("the run had a sink, so its result is there", hint="Leave `to` out to keep it in memory.")

    @property
    def array(self) -> Array:
        """The frames (T, ...) of a run without a sink; several planes are an error that names ``pixel_format``."""
        for sink in self.sinks.values():
            if isinstance(sink, MemorySink) and sink.planes is not None and len(sink.planes) == 1:
                return sink.planes[0]
        value = self.value
        if isinstance(value, Records):
            raise PipelineError("the run returned records, not frames: use .value")
        return value.data

    def report(self) -> Report:
        """Return the report of the run: what ran, throughput, timeline, outliers; `.to_html()`, `.to_json()`."""
        from hyperframes.drivers.report import Report

        return Report.of(self)

    def to_json(self) -> dict[str, Any]:
        """Return the keys of ``hyperframes run --json``."""
        values = {
            "frames_in": self.frames_in,
            "frames_out": self.frames_out,
            "filtered": self.filtered,
            "hyperframes": self.hyperframes,
            "size": self.size,
            "halo": {"before": self.halo.before, "after": self.halo.after},
            "workers": self.workers,
            "executor": self.executor,
            "seconds": self.seconds,
            "frames_per_second": self.frames_per_second,
            "peak_memory_bytes": self.peak_memory_bytes,
            "scheduler_share": self.scheduler_share,
            "stages": self.stages,
            "conversions": self.conversions,
            "retries": self.retries,
            "failed": self.failed,
            "output": self.output[0] if len(self.output) == 1 else self.output or None,
            "warnings": self.warnings,
            "prepare_seconds": self.prepare_seconds,
            "sizes": [{"frame": frame, "size": size} for frame, size in self.sizes],
        }
        if self.frames_sha256 is not None:
            values["frames_sha256"] = self.frames_sha256
        return values
