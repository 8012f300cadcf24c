"""What a run tells, as plain counts and a few histograms, and how Prometheus reads them.

Written from plain numbers and not through a metrics library: a scrape of 48 streams is some 1,500 lines, which a general
registry needs 13 ms of the interpreter's lock for, and frames wait for that lock too.
"""

from __future__ import annotations

import bisect
import os
import resource
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hyperframes.instruments import Observation

__all__ = ["BUCKETS", "Histogram", "Metrics", "render"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds in seconds."""
_MOST_OPEN = 100_000  # hyperframes whose end may be awaited; beyond that their times are not counted


class Histogram:
    """How often a time fell into which of `BUCKETS`; one writer at a time, any number of readers."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one time."""
        self.count(bisect.bisect_left(BUCKETS, seconds), seconds)

    def count(self, bucket: int, seconds: float) -> None:
        """Count one time that falls in a bucket."""
        self.counts[bucket] += 1
        self.total += seconds


class Metrics:
    """An instrument that counts what Prometheus asks for.

    Live runs keep most counts themselves (`LiveRuntime.stats`); what is kept here are histograms, and for offline runs
    the counts too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, list[int]] = {}  # live: ns of seal, start, done; and what it waited before
        self.stages: dict[str, Histogram] = {}
        """Time of hyperframes by stage: pack, queue, infer, unpack, total; of offline runs by the operators' stages."""
        self.streams: dict[str, Histogram] = {}
        """Time from the seal to the result by stream."""
        self.ended: dict[str, int] = {}
        """Live: hyperframes by outcome."""
        self._frames = {"captured": 0, "delivered": 0}
        self._dropped: dict[str, int] = {}
        self._sealed: dict[str, int] = {}
        self._cores: dict[int, int] = {}
        self.began_ns = time.monotonic_ns()
        self.finished = False
        self.num_warnings = 0

    def observe(self, observation: Observation) -> None:
        """Take note of one observation."""
        with self._lock:
            if "hyperframe" in observation:
                self._live(observation["kind"], observation)
            else:
                self._offline(observation["kind"], observation)

    def _live(self, kind: str, observation: Observation) -> None:
        number, ns = observation["hyperframe"], observation["ns"]
        if kind == "sealed":
            wait_ns = observation.get("wait_ns") or 0
            self._time("pack", wait_ns)
            if len(self._open) < _MOST_OPEN:
                self._open[number] = [ns, 0, 0, wait_ns]
        elif kind == "started" and number in self._open:
            self._open[number][1] = ns
            self._time("queue", ns - self._open[number][0])
        elif kind == "done" and number in self._open:
            self._open[number][2] = ns
            self._time("infer", observation.get("duration_ns") or 0)
        elif kind in {"delivered", "dropped"}:
            self.ended[kind] = self.ended.get(kind, 0) + 1
            times = self._open.pop(number, None)
            if times is None or kind == "dropped":
                return
            self._time("unpack", ns - (times[2] or ns))
            self._time("total", ns - times[0] + times[3])  # from its first frame, as everywhere else
            seconds = (ns - times[0]) / 1e9
            bucket = bisect.bisect_left(BUCKETS, seconds)  # one for tens of streams
            for stream in observation["streams"]:
                histogram = self.streams.get(stream)
                if histogram is None:
                    histogram = self.streams[stream] = Histogram()
                histogram.count(bucket, seconds)

    def _time(self, stage: str, ns: int) -> None:
        histogram = self.stages.get(stage)
        if histogram is None:
            histogram = self.stages[stage] = Histogram()
        histogram.add(ns / 1e9)

    def _offline(self, kind: str, observation: Observation) -> None:
        if kind == "sealed":
            start, stop = observation["core"]
            self._cores[observation["sequence"]] = stop - start
            self._frames["captured"] += stop - start
            reason = observation.get("seal_reason", "full")
            self._sealed[reason] = self._sealed.get(reason, 0) + 1
        elif kind == "done":
            self._time(observation["stage"], observation["duration_ns"])
        elif kind == "emitted":
            frames = self._cores.pop(observation["sequence"], 0)
            if observation["whole"]:
                self._frames["delivered"] += frames
            else:
                self._dropped["failed"] = self._dropped.get("failed", 0) + frames
        elif kind == "dropped":
            reason = observation["reason"]
            self._dropped[reason] = self._dropped.get(reason, 0) + self._cores.pop(observation["sequence"], 0)
        elif kind == "warning":
            self.num_warnings += 1
        elif kind == "finished":
            self.finished = True

    def stats(self) -> dict[str, Any]:
        """Return the counts of an offline run, under the names that live runs have for them."""
        with self._lock:
            dropped = dict(self._dropped)
            return {
                **self._frames,
                "dropped": dropped,
                "in_flight": self._frames["captured"] - self._frames["delivered"] - sum(dropped.values()),
                "hyperframes": sum(self._sealed.values()),
                "sealed": dict(self._sealed),
                "streams": {},
                "finished": self.finished,
                "seconds": (time.monotonic_ns() - self.began_ns) / 1e9,
            }


# Prometheus text --------------------------------------------------------------------------------------------------------

_STREAM_COUNTERS = {
    "captured": ("hyperframes_captured_frames_total", "Frames taken in."),
    "delivered": ("hyperframes_delivered_frames_total", "Frames whose result was handed over."),
    "reconnects": ("hyperframes_reconnects_total", "Times the stream came back."),
    "unrecorded": ("hyperframes_unrecorded_frames_total", "Frames that could not be recorded."),
}
_STREAM_GAUGES = {
    "in_flight": ("hyperframes_in_flight_frames", "Frames under way."),
    "fps": ("hyperframes_stream_frames_per_second", "Frames a second of late."),
    "last_frame_age_seconds": ("hyperframes_last_frame_age_seconds", "Since the last frame came."),
    "epoch": ("hyperframes_stream_epoch", "How often the stream began anew."),
    "span_error_seconds": (
        "hyperframes_span_error_seconds",
        "By how much the last hyperframe's span is off (n - 1) / fps.",
    ),
    "drift_ppm": ("hyperframes_clock_drift_ppm", "Of the sender's clock against ours."),
}
_TOTALS = {
    "hyperframes": ("hyperframes_sealed_hyperframes_total", "counter", "Hyperframes sealed."),
    "partial": ("hyperframes_partial_hyperframes_total", "counter", "Of these, not full."),
    "callback_errors": ("hyperframes_callback_errors_total", "counter", "Callbacks that raised."),
    "level": ("hyperframes_degradation_level", "gauge", "Steps that the run went down because it was full."),
    "lock_wait_share": ("hyperframes_lock_wait_share", "gauge", "Share of time in which capture waited for a lock."),
    "seconds": ("hyperframes_run_seconds", "gauge", "Since the run began."),
}
_QUEUE = {
    "depth": ("hyperframes_queue_depth", "Hyperframes that wait."),
    "capacity": ("hyperframes_queue_capacity", "Hyperframes that may wait."),
    "mean_depth": ("hyperframes_queue_mean_depth", "Mean of hyperframes that waited."),
}


def render(stats: Mapping[str, Any], metrics: Metrics, extra: Mapping[str, Any] | None = None) -> str:
    """Return Prometheus text (format 0.0.4).

    Parameters
    ----------
    stats : mapping
        What `LiveRuntime.stats` or `Metrics.stats` returned.
    metrics : Metrics
        The histograms.
    extra : mapping, optional
        What `LiveJournal.stats` returned, where there is a journal.
    """
    lines: list[str] = []
    streams: Mapping[str, Mapping[str, Any]] = stats.get("streams") or {}
    labelled = [(f'{{stream="{_escaped(name)}"}}', stream) for name, stream in streams.items()] or [("", stats)]
    for key, (name, help_text) in _STREAM_COUNTERS.items():
        _family(lines, name, "counter", help_text, ((label, s[key]) for label, s in labelled if key in s))
    for key, (name, help_text) in _STREAM_GAUGES.items():
        _family(lines, name, "gauge", help_text, ((label, s[key]) for label, s in labelled if s.get(key) is not None))
    dropped = (
        (f'{label[:-1] + "," if label else "{"}reason="{_escaped(reason)}"}}', count)
        for label, stream in labelled
        for reason, count in stream.get("dropped", {}).items()
    )
    _family(lines, "hyperframes_dropped_frames_total", "counter", "Frames given up, by reason.", dropped)
    _run(lines, stats)
    for reason_family, counts in (
        (("hyperframes_seal_reasons_total", "counter", "Why hyperframes were sealed."), stats.get("sealed") or {}),
        (("hyperframes_ended_hyperframes_total", "counter", "Hyperframes by what became of them."), metrics.ended),
    ):
        label = "reason" if "seal" in reason_family[0] else "outcome"
        _family(lines, *reason_family, ((f'{{{label}="{_escaped(key)}"}}', n) for key, n in tuple(counts.items())))
    _histograms(lines, "hyperframes_stage_seconds", "Time of hyperframes by stage.", "stage", metrics.stages)
    _histograms(lines, "hyperframes_latency_seconds", "From the seal to the result.", "stream", metrics.streams)
    _journal(lines, extra or stats.get("journal") or {})
    _process(lines)
    return "\n".join(lines) + "\n"


def _run(lines: list[str], stats: Mapping[str, Any]) -> None:
    for key, (name, kind, help_text) in _TOTALS.items():
        if stats.get(key) is not None:
            _family(lines, name, kind, help_text, [("", stats[key])])
    queue: Mapping[str, Any] = stats.get("queue") or {}
    for key, (name, help_text) in _QUEUE.items():
        if key in queue:
            _family(lines, name, "gauge", help_text, [("", queue[key])])
    device: Mapping[str, Any] = stats.get("device") or {}
    if "busy_share" in device:
        label = f'{{device="{_escaped(str(device.get("resource", "")))}"}}'
        help_text = "Share of time in which its workers worked."
        _family(lines, "hyperframes_device_busy_share", "gauge", help_text, [(label, device["busy_share"])])
        failures = [(label, device.get("failures", 0))]
        _family(lines, "hyperframes_device_failures_total", "counter", "Hyperframes whose operators failed.", failures)


def _journal(lines: list[str], journal: Mapping[str, Any]) -> None:
    for key, kind, help_text in (
        ("written", "counter", "Observations written to the journal."),
        ("lost", "counter", "Observations that the journal could not hold."),
        ("waiting", "gauge", "Observations that wait to be written."),
    ):
        if key in journal:
            name = f"hyperframes_journal_{key}{'_total' if kind == 'counter' else ''}"
            _family(lines, name, kind, help_text, [("", journal[key])])
    if "failing" in journal:
        failing = [("", int(bool(journal["failing"])))]
        _family(lines, "hyperframes_journal_failing", "gauge", "1 while the journal cannot be written.", failing)


def _process(lines: list[str]) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = [("", used.ru_utime + used.ru_stime)]
    _family(lines, "process_cpu_seconds_total", "counter", "CPU time of the process.", seconds)
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
        resident = [("", pages * os.sysconf("SC_PAGE_SIZE"))]
        _family(lines, "process_resident_memory_bytes", "gauge", "Resident memory.", resident)


def _family(lines: list[str], name: str, kind: str, help_text: str, samples: Iterable[tuple[str, Any]]) -> None:
    rows = [f"{name}{label} {value}" for label, value in samples]
    if rows:
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *rows]


def _histograms(lines: list[str], name: str, help_text: str, label: str, found: Mapping[str, Histogram]) -> None:
    rows = []
    for key, histogram in tuple(found.items()):
        text, count = f'{label}="{_escaped(key)}"', 0
        counts = tuple(histogram.counts)
        for edge, n in zip(_EDGES, counts, strict=True):
            count += n
            rows.append(f'{name}_bucket{{{text},le="{edge}"}} {count}')
        rows += [f"{name}_sum{{{text}}} {histogram.total}", f"{name}_count{{{text}}} {count}"]
    if rows:
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} histogram", *rows]


_EDGES = (*(f"{bucket:g}" for bucket in BUCKETS), "+Inf")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
