"""A timeline as a picture: weights, activity, anchors and segments over time."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.errors import MissingExtraError, PipelineError

if TYPE_CHECKING:
    from hyperframes.semantic.timeline import Timeline

__all__ = ["check_timeline_path", "plot_timeline"]

_COLOURS = {"motion": "#2563eb", "cut": "#dc2626", "fade": "#9333ea", "flash": "#ea580c"}


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("a plot as .png", "plot") from error
    return Figure


def check_timeline_path(path: str | os.PathLike[str]) -> Path:
    """Return `path`, if a plot can be written there.

    Raises
    ------
    PipelineError
        If it does not end in .png, or its folder does not exist.
    MissingExtraError
        If matplotlib is not installed.
    """
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise PipelineError(
            f"a plot of anchors is written as .png: got {str(path)!r}",
            got=str(path),
            hint="For example: --plot anchors.png",
        )
    if not target.parent.is_dir():
        raise PipelineError(f"the folder of {str(path)!r} does not exist", got=str(path))
    _matplotlib()
    return target


def plot_timeline(timeline: Timeline, path: str | os.PathLike[str], title: str = "") -> Path:
    """Draw a timeline to a .png file, in one step (extra ``plot``).

    Raises
    ------
    PipelineError, MissingExtraError
        See `check_timeline_path`.
    """
    target = check_timeline_path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=".png", dir=target.parent)
    os.close(handle)
    beside = Path(name)
    try:
        _drawn(timeline, title).savefig(beside)
        beside.chmod(0o644)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return target


def _drawn(timeline: Timeline, title: str) -> Any:
    figure = _matplotlib()(figsize=(12, 5), dpi=110, layout="constrained")
    weights, activity = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    seconds = timeline.seconds
    weights.fill_between(seconds, timeline.weights, step="mid", color="#cbd5e1", label="weight")
    for kind, colour in _COLOURS.items():
        some = [anchor for anchor in timeline.anchors if anchor.kind == kind]
        if some:
            times, heights = [a.seconds for a in some], [a.weight for a in some]
            weights.vlines(times, 0, heights, colors=colour, linewidth=1.0)
            weights.plot(times, heights, "o", color=colour, markersize=3, label=f"{kind} ({len(some)})")
    named_as = {False: "segments (shades alternate)", True: "static segments"}
    for number, segment in enumerate(timeline.segments):
        at = int(timeline.index.searchsorted(segment.start))
        end = int(timeline.index.searchsorted(segment.stop))
        stop = seconds[end] if end < len(seconds) else seconds[-1]
        shade = "#94a3b8" if segment.static else ("#bbf7d0" if number % 2 else "#dcfce7")
        activity.axvspan(seconds[at], stop, color=shade, linewidth=0, label=named_as.pop(segment.static, None))
    activity.plot(seconds, timeline.activity, color="#0f172a", linewidth=0.8, label="activity")
    weights.set(ylim=(0, 1.05), ylabel="weight")
    weights.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=5, fontsize=8, frameon=False)  # over no anchor
    activity.set(ylabel="activity (px a frame)", xlabel="time (s)")
    activity.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize=8, frameon=False)
    for axes in (weights, activity):
        axes.margins(x=0.01)
    levels = "whole file" if timeline.statistics == "two-pass" else "60 s before each frame"
    count = len(timeline.anchors)
    anchors = f"{count} anchor{'' if count == 1 else 's'}"
    figure.suptitle(f"{title + ': ' if title else ''}{anchors}, noise and levels from the {levels}")
    return figure
