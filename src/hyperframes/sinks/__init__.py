"""Where results go: one file per kind behind `Sink`; `open_sink` finds the kind."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

from hyperframes import registry
from hyperframes.errors import SinkError
from hyperframes.sinks.base import Checkpoint, Sink, Target
from hyperframes.sinks.callback import CallbackSink
from hyperframes.sinks.memory import MemorySink
from hyperframes.sinks.null import NullSink

__all__ = ["CallbackSink", "Checkpoint", "MemorySink", "NullSink", "Sink", "Target", "open_sink"]

_VIDEO_SUFFIXES = (".mp4", ".mkv", ".mov", ".webm", ".avi")
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
_SUFFIXES = {
    **dict.fromkeys(_VIDEO_SUFFIXES, "video"),
    ".npy": "npy",
    ".zarr": "zarr",
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "lines",
    ".y4m": "y4m",
    **dict.fromkeys((".raw", ".dat", ".aedat4", ".h5", ".npz", ".txt", ".bin"), "events"),
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_NUMBERED = re.compile(r"%0?\d*d")


def open_sink(what: Any, **options: Any) -> Sink:
    """Return the sink that writes to `what`; it is opened by whoever runs the pipeline.

    Parameters
    ----------
    what : path, URL, function, Sink or None
        ``.mp4 .mkv .mov .webm .avi`` video, ``.npy``, ``.zarr``, a folder or ``out/%06d.png`` of images,
        ``.parquet``, ``.lance``, ``.csv``, ``.jsonl``, ``.raw .dat .aedat4 .h5`` and others of events, ``.y4m`` or ``-`` (y4m on
        standard output), ``null:``, ``mqtt://`` and ``nats://``; a function is called
        with the results of every hyperframe; None collects them in memory. A plugin whose registered name equals the
        scheme or suffix comes first.
    **options
        Given to the kind that writes: `codec`, `quality`, `max_bytes`, ...

    Raises
    ------
    SinkError
        If no sink writes to such a name, its folder does not exist, or something else stands there.

    Examples
    --------
    >>> open_sink("null:").name
    'null:'
    """
    if isinstance(what, Sink):
        return what
    if what is None:
        return MemorySink(**options)
    if isinstance(what, str | os.PathLike):
        location = os.fspath(what)
        kind = _kind(location)
        sink: Sink = registry.sinks.get(kind)(location.removeprefix("file://"), **options)
        return sink
    if callable(what):
        return CallbackSink(what, **options)
    raise SinkError(f"a sink is a path, a URL, a function or a Sink: got {type(what).__name__}")


def _kind(location: str) -> str:
    """Return the registered name of what writes to `location`; refuse what cannot be written there."""
    if location == "-":
        return "y4m"
    scheme = _SCHEME.match(location)
    if scheme and scheme[1] in registry.sinks:
        return scheme[1]
    if "://" in location and not location.startswith("file://"):
        raise SinkError(
            f"no sink writes to {location.partition('://')[0]}://: known are {_known()}",
            sink=location,
            hint="Install the plugin that registers it, or write to a file.",
        )
    path = Path(location.removeprefix("file://"))
    kind = _path_kind(path, location)
    _check_place(
        path.parent if kind == "images" and _NUMBERED.search(path.name) else path,
        folder=kind in {"images", "zarr", "lance"},
    )
    return kind


def _path_kind(path: Path, location: str) -> str:
    suffix = path.suffix.lower()
    if _NUMBERED.search(path.name):
        if suffix in _IMAGE_SUFFIXES:
            return "images"
    elif suffix[1:] in registry.sinks:
        return suffix[1:]
    elif suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    elif location.endswith("/") or not suffix or (path.is_dir() and suffix not in _IMAGE_SUFFIXES):
        return "images"
    raise SinkError(
        f"no sink writes {path.name!r}: known are {_known()}, folders and patterns of images",
        sink=location,
        hint=_near(path),
    )


def _known() -> str:
    suffixes = {*_SUFFIXES, *(f".{name}" for name in registry.sinks if f".{name}" not in _SUFFIXES)}
    hidden = {".video", ".images", ".lines", ".null", ".mqtt", ".mqtts", ".nats", ".events"}
    return ", ".join(sorted(suffixes - hidden))


def _near(path: Path) -> str:
    if path.suffix.lower() in _IMAGE_SUFFIXES:
        return f"Number the images: '{path.with_name('%06d' + path.suffix)}'."
    if _NUMBERED.search(path.name):
        return f"Number images: '{path.with_suffix('.png')}'."
    likeness = {suffix: difflib.SequenceMatcher(None, path.suffix.lower(), suffix).ratio() for suffix in _SUFFIXES}
    near = max(likeness, key=lambda suffix: likeness[suffix])  # the first of equals
    return f"Did you mean '{path.with_suffix(near)}'?" if likeness[near] > 0.5 else "Take one of these suffixes."


def _check_place(path: Path, *, folder: bool) -> None:
    """Refuse early what could only fail after the work is done."""
    parent = path.parent
    if not parent.is_dir():
        problem = "is not a folder" if parent.exists() else "does not exist"
        raise SinkError(
            f"cannot write {path}: {str(parent)!r} {problem}", sink=str(path), hint=f"Make it first: mkdir -p {parent}"
        )
    if path.is_dir() and not folder:
        raise SinkError(
            f"cannot write {path}: a folder stands there", sink=str(path), hint="Give the file another name."
        )
    if path.is_file() and folder:
        raise SinkError(
            f"cannot write {path}: a file stands there", sink=str(path), hint="Give the folder another name."
        )
    if not os.access(parent, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise SinkError(
            f"cannot write {path}: no permission to write in {str(parent)!r}",
            sink=str(path),
            hint="Write to another folder, or change its permissions.",
        )
