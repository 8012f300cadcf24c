"""Where frames come from: one file per kind behind `Source`; `open_source` finds the kind."""

from __future__ import annotations

import difflib
import functools
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from hyperframes import registry
from hyperframes.errors import SourceError
from hyperframes.frames import Clip
from hyperframes.sources.array import ArraySource
from hyperframes.sources.base import Source, clip_of

__all__ = ["ArraySource", "Source", "clip_of", "open_source"]

_SUFFIXES = {
    ".npy": "npy",
    ".zarr": "zarr",
    ".csv": "table",
    ".tsv": "table",
    ".csv.gz": "table",
    ".tsv.gz": "table",
    ".parquet": "table",
    **dict.fromkeys((".raw", ".dat", ".aedat4", ".h5", ".hdf5", ".npz", ".txt", ".bin", ".bs2"), "events"),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".pgm", ".ppm"), "images"),
}
_ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_DEVICE = re.compile(r"/dev/video\d+$")
_NUMBERED = re.compile(r"%0?\d*d")


def open_source(what: Any, *, on_size_change: str = "scale", ranged: bool = False, **options: Any) -> Source:
    """Open whatever holds frames.

    Parameters
    ----------
    what : path, URL, array, tuple of planes, Clip or Source
        Video files, cameras (``rtsp://``, ``udp://``, ``tcp://``, ``/dev/video0``), ``-`` (y4m on standard input),
        folders, globs and ``%06d`` patterns of images,
        ``.npy``, ``x.raw?shape=480,640,3&dtype=uint8``, ``.zarr``, ``.csv``, ``.csv.gz``, ``.parquet``,
        recordings of events (``.raw .dat .aedat4 .h5 .npz .txt .bin .bs2``, ``x.raw?window=10ms&form=voxel``),
        ``synthetic:moving?frames=250``; arrays (N, ...); a source that is open already. A plugin whose registered
        name equals the scheme or suffix comes first.
    on_size_change : {"scale", "split", "fail"}
        What a video does where its frame size changes mid-stream; other sources have one size.
    ranged : bool
        Whether a video of a web server is read in ranges, from any position at no more than what it reads.
    **options
        Given to the kind that opens it: `rate`, `pixel_format`, `columns`, ...

    Returns
    -------
    Source
        Open: use it in a ``with`` statement or close it.

    Raises
    ------
    SourceError
        If there is nothing, or nothing that can be read; the hint names files that are nearly called so.

    Examples
    --------
    >>> open_source(np.zeros((3, 4)))
    ArraySource('array', 3 frames, array (4,) float64)
    """
    if isinstance(what, Source):
        return what
    if isinstance(what, Clip):
        return ArraySource.from_clip(what)
    if isinstance(what, tuple) or hasattr(what, "__array_interface__"):
        return ArraySource(what, **options)
    if isinstance(what, str | os.PathLike):
        location, given = _local(os.fspath(what)), dict(options)
        kind = _kind(location)
        if kind == "video" and on_size_change != "scale":
            options["on_size_change"] = on_size_change
        if kind == "video" and ranged and "://" in location:
            options["ranged"] = True
        source: Source = registry.sources.get(kind)(location, **options)
        if location != "-":
            source.opener = functools.partial(open_source, _anywhere(location), on_size_change=on_size_change, **given)
        return source
    if hasattr(what, "__dlpack__"):
        return ArraySource(np.from_dlpack(what), **options)
    if hasattr(what, "__array__"):
        return ArraySource(np.asarray(what), **options)
    raise SourceError(
        f"a source is a path, a URL, an array or a Source: got {type(what).__name__}",
        hint="Lists of arrays: numpy.stack(frames). Planes of one stream: a tuple of arrays.",
    )


def _local(location: str) -> str:
    """Return the path that a ``file:`` URL names (RFC 8089), anything else as it is."""
    if not location.lower().startswith("file:"):
        return location
    url = urlsplit(location)
    if url.netloc not in {"", "localhost"}:
        raise SourceError(
            f"a file: URL names a file of this machine: got the host {url.netloc!r}",
            source=location,
            hint="Write file:///folder/in.mp4, or the path alone.",
        )
    return unquote(url.path) + (f"?{url.query}" if url.query else "")


def _anywhere(location: str) -> str:
    """Return `location` so that it means the same from another working folder."""
    scheme = _SCHEME.match(location)
    return location if "://" in location or (scheme and scheme[1] in registry.sources) else os.path.abspath(location)


def _kind(location: str) -> str:
    """Return the registered name of what opens `location`."""
    if location == "-":
        return "y4m"
    if _DEVICE.match(location):
        return "v4l2"
    scheme = _SCHEME.match(location)
    if scheme and scheme[1] in registry.sources:
        return scheme[1]
    if "://" in location:
        suffix = Path(location.partition("?")[0]).suffix[1:]
        return suffix if suffix in registry.sources and suffix not in {"npy", "zarr"} else "video"
    path = Path(location)
    if path.is_dir():
        return _folder_kind(path)
    if not path.exists():
        if "?" in location and "=" in location.partition("?")[2]:
            bare, _, settings = location.partition("?")
            raw = any(item.startswith(("shape=", "dtype=", "offset=")) for item in settings.split("&"))
            kind = _suffix_kind(Path(bare))
            return _present(Path(bare), "events" if kind == "events" and not raw else "memmap")
        if _NUMBERED.search(path.name) or any(sign in location for sign in "*?["):
            return "images"
    return _present(path, _suffix_kind(path))


def _folder_kind(path: Path) -> str:
    if path.suffix[1:] in registry.sources:
        return path.suffix[1:]
    return "zarr" if any((path / name).exists() for name in _ZARR_FILES) else "images"


def _suffix_kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    for suffix in ("".join(suffixes[-2:]), "".join(suffixes[-1:])):
        if suffix[1:] in registry.sources and suffix != ".y4m":
            return suffix[1:]
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
    return "video"


def _present(path: Path, kind: str) -> str:
    """Return `kind` if `path` exists; say what else is there if not."""
    if path.exists():
        return kind
    raise SourceError(f"no such file: {path}", source=str(path), hint=_near(path))


def _near(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"The folder {str(folder)!r} does not exist."
    names = os.listdir(folder)
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    near = near or sorted(name for name in names if Path(name).stem == path.stem)[:3]
    if near:
        return f"Did you mean {' or '.join(repr(str(folder / name)) for name in near)}?"
    return f"The folder {str(folder)!r} holds nothing of a similar name."
