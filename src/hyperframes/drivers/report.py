"""What a run did, told as HTML or JSON with the same content: what ran, how fast, where the time and memory went."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.machine import allowed_cpus, numa_nodes
from hyperframes.drivers.quantity import count_text, share_text
from hyperframes.drivers.recorder import MAX_OUTLIERS, OUTLIER_RATIO, Durations, Recorder, TaskRecord
from hyperframes.errors import PipelineError, SinkError, without_credentials
from hyperframes.operators.create import as_text
from hyperframes.pipeline import Options

if TYPE_CHECKING:
    from hyperframes.drivers.result import RunResult
    from hyperframes.drivers.setup import Setup

__all__ = ["Recorder", "Report"]

MAX_POINTS = 240
HYPERFRAMES_A_POINT = 3
SCHEDULER_LIMIT = 0.10
"""Scheduler share, of the workers' time, above which the report warns (A79)."""


class Report:
    """The account of one run.

    Parameters
    ----------
    content : dict
        What `to_json` returns; numbers, text, lists and dicts only.
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def __repr__(self) -> str:
        run = self._content["run"]
        return (
            f"Report({self._content['id']}, {count_text(run['frames_out'], 'frame')}: .save('report.html'), .to_json())"
        )

    @classmethod
    def of(cls, result: RunResult) -> Report:
        """Return the report of a finished run.

        Raises
        ------
        PipelineError
            If no `Recorder` watched the run.
        """
        recorder = result.recorder
        if not isinstance(recorder, Recorder):
            raise PipelineError(
                "the run was not recorded, so there is nothing to report",
                hint="Start it with hf.run, or hand a Recorder to the engine and set result.recorder to it.",
            )
        return cls(_content(result, recorder))

    def to_json(self) -> dict[str, Any]:
        """Return the content: run, what, timeline, durations, outliers, idle, scheduler, memory, throughput, warnings, failed."""
        return self._content

    def to_html(self) -> str:
        """Return one page that needs nothing else: no network, no scripts; light and dark as the reader prefers."""
        from hyperframes.drivers.page import page

        return page(self._content)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report to ``*.html`` or ``*.json`` and return where.

        Raises
        ------
        PipelineError
            If the suffix is another one.
        SinkError
            If the file cannot be written.
        """
        target = check_report_path(path)
        text = self.to_html() if target.suffix.lower() in _HTML else json.dumps(self._content, indent=1) + "\n"
        try:
            _write_whole(target, text)
        except OSError as error:
            raise SinkError(
                f"cannot write the report {target}: {error.strerror or error}",
                sink=str(target),
                hint="Name a file in a folder that exists and can be written.",
            ) from error
        return target


_HTML = {".html", ".htm"}


def check_report_path(path: str | os.PathLike[str]) -> Path:
    """Return `path`, or refuse at once what could only fail after the work is done."""
    target = Path(path)
    if target.suffix.lower() not in _HTML | {".json"}:
        raise PipelineError(
            f"a report is .html or .json: got {target.name!r}",
            got=target.name,
            hint=f"For example: --report {target.stem or 'report'}.html",
        )
    if target.is_dir() or not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        what = (
            "a folder stands there" if target.is_dir() else f"{str(target.parent)!r} is no folder that can be written"
        )
        raise SinkError(
            f"cannot write the report {target}: {what}",
            sink=str(target),
            hint="Name a file in a folder that exists and can be written.",
        )
    return target


def _write_whole(target: Path, text: str) -> None:
    """Write beside the final name and rename, so that nothing incomplete ever stands there."""
    descriptor, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        os.fchmod(descriptor, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


# Content --------------------------------------------------------------------------------------------------------------


def _content(result: RunResult, recorder: Recorder) -> dict[str, Any]:
    begin = recorder.begin_ns or 0
    return {
        "id": result.id,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": result.to_json(),
        "what": _what(recorder.setup) if recorder.setup is not None else None,
        "machine": _machine(),
        "counts": {**recorder.counts, "dropped": dict(recorder.dropped)},
        "workers": _workers(recorder, result),
        "idle": {"source_share": recorder.starved_ns / max(1, recorder.gap_ns)},
        "timeline": {
            "one_hyperframe_in": recorder.stride,
            "tasks": [_task(task, begin) for task in sorted(recorder.tasks, key=lambda task: task.begin_ns)],
        },
        "durations": [_durations(stage, durations) for stage, durations in recorder.durations.items()],
        "outliers": _outliers(recorder, begin),
        "scheduler": _scheduler(result),
        "memory": {
            "peak_bytes": result.peak_memory_bytes,
            "step_seconds": recorder.memory.step_ns / 1e9,
            "bytes": recorder.memory.values,
        },
        "throughput": _throughput(recorder),
        "conversions": result.conversions,
        "warnings": result.warnings,
        "failed": result.failed,
    }


def _what(setup: Setup) -> dict[str, Any]:
    """Return what ran, as text: sources, stages, sinks, and the options that were not left alone."""
    plan, options = setup.plan, setup.pipeline.options
    sources = [
        {"name": without_credentials(source.name), "frames": source.num_frames, "spec": str(source.spec)}
        for source in setup.sources.values()
    ]
    stages = [
        {
            "name": stage.name,
            "operator": _operator_text(stage.operator),
            "inputs": [plan.ports[port].name for port in stage.inputs],
            "halo": {"before": stage.halo.before, "after": stage.halo.after},
            "dependency": stage.contract.dependency,
            "resource": stage.contract.resource,
            "planned": stage.implicit,
        }
        for stage in plan.stages
    ]
    sinks = [
        {"name": without_credentials(sink.name), "takes": plan.ports[plan.sinks[key]].name}
        for key, sink in setup.sinks.items()
    ]
    changed = [f.name for f in dataclasses.fields(Options) if getattr(options, f.name) != f.default]
    return {
        "sources": sources,
        "stages": stages,
        "sinks": sinks,
        "options": {name: getattr(options, name) for name in changed},
        "workers": dict(setup.workers),
        "memory_bytes": setup.memory_bytes(),
        "plan": plan.fingerprint,
    }


def _operator_text(operator: Any) -> str:
    try:
        return as_text(operator)
    except PipelineError:  # a parameter that has no text form, such as an array
        return repr(operator)


def _machine() -> dict[str, Any]:
    from hyperframes import __version__

    return {
        "hyperframes": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": allowed_cpus(),  # A86: which ones the run was allowed to use
        "nodes": {str(node): cpus for node, cpus in numa_nodes().items()},  # A49
    }


def _workers(recorder: Recorder, result: RunResult) -> list[dict[str, Any]]:
    return [
        {"worker": worker, "busy_seconds": ns / 1e9, "busy_share": ns / 1e9 / max(1e-9, result.seconds)}
        for worker, ns in sorted(recorder.busy_ns.items())
    ]


def _task(task: TaskRecord, begin_ns: int) -> dict[str, Any]:
    return {
        "id": task.id,
        "sequence": task.sequence,
        "frames": None if task.frames is None else list(task.frames),
        "stage": task.stage,
        "part": task.part,
        "worker": task.worker,
        "begin_seconds": (task.begin_ns - begin_ns) / 1e9,
        "duration_seconds": task.duration_ns / 1e9,
        "first_of_worker": task.first,
    }


def _durations(stage: str, durations: Durations) -> dict[str, Any]:
    return {
        "stage": stage,
        "count": durations.count,
        "total_seconds": durations.total_ns / 1e9,
        "mean_seconds": durations.total_ns / 1e9 / max(1, durations.count),
        "min_seconds": durations.least_ns / 1e9,
        "median_seconds": durations.quantile_ns(0.5) / 1e9,
        "p95_seconds": durations.quantile_ns(0.95) / 1e9,
        "max_seconds": durations.most_ns / 1e9,
        "outliers": durations.num_outliers,
        "histogram": _histogram(durations),
    }


def _histogram(durations: Durations, bars: int = 48) -> dict[str, Any]:
    """Return counts in equal steps up to three times the median, and what lies above: the tail must not hide the bulk."""
    median = durations.quantile_ns(0.5)
    top = min(3 * median, max(1.2 * durations.most_ns, 2.2 * median)) or 1.0
    counts, above = [0] * bars, 0
    for ns, count in durations.spread():
        place = int(ns / top * bars)
        if place < bars:
            counts[place] += count
        else:
            above += count
    return {"step_seconds": top / bars / 1e9, "counts": counts, "above": above}


def _outliers(recorder: Recorder, begin_ns: int) -> list[dict[str, Any]]:
    """Return the hyperframes that took over twice the median of their stage, the most extreme first."""
    found = []
    for durations in recorder.durations.values():
        median = durations.quantile_ns(0.5)
        found += [{**_task(task, begin_ns), "times_median": task.duration_ns / median} for task in durations.outliers()]
    found.sort(key=lambda outlier: -outlier["times_median"])
    return found[:MAX_OUTLIERS]


def _scheduler(result: RunResult) -> dict[str, Any]:
    share = result.scheduler_share
    warning = None
    if share > SCHEDULER_LIMIT:
        warning = (
            f"the scheduler share is {share_text(share)} of the workers' time: expected at most "
            f"{share_text(SCHEDULER_LIMIT)}. A larger --size makes fewer, longer tasks."
        )
    return {"share": share, "warning": warning, "outlier_ratio": OUTLIER_RATIO}


def _throughput(recorder: Recorder) -> dict[str, Any]:
    """Return frames a second over time, in steps long enough for several hyperframes: they come out one at a time."""
    values = [value or 0.0 for value in recorder.frames.values]
    points = min(MAX_POINTS, max(1, recorder.counts["emitted"] // HYPERFRAMES_A_POINT))
    together = max(1, -(-len(values) // points))
    step_ns = recorder.frames.step_ns * together
    sums = [sum(values[start : start + together]) for start in range(0, len(values), together)]
    rates = [frames * 1e9 / step_ns for frames in sums]
    if rates and recorder.begin_ns is not None and recorder.end_ns is not None:
        last_ns = recorder.end_ns - recorder.begin_ns - (len(rates) - 1) * step_ns
        if len(rates) > 1 and last_ns < step_ns / 2:  # too short a step to be one of its own
            rates.pop()
            sums[-2:] = [sums[-2] + sums[-1]]
            last_ns += step_ns
        rates[-1] = sums[-1] * 1e9 / max(last_ns, recorder.frames.step_ns)
    return {"step_seconds": step_ns / 1e9, "frames_per_second": rates}
