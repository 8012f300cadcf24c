"""Frames in chunks on disk: ``.zarr`` arrays, and groups of planes as `ZarrSink` writes them."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import MissingExtraError, SourceError
from hyperframes.frames import Array, Colour
from hyperframes.sources.array import NUMBER_KINDS, ArraySource, StoredArrays, described, without_pts

if TYPE_CHECKING:
    from hyperframes.sources.base import Source

__all__ = ["open_zarr"]


def open_zarr(path: str | os.PathLike[str], **options: Any) -> Source:
    """Open a ``.zarr`` array (N, ...), or a group of planes written by `ZarrSink`; read chunk by chunk.

    Parameters
    ----------
    path : path
        Of the folder.
    **options
        `rate`, `time_base`, `pts`, `pixel_format`: see `ArraySource`.

    Raises
    ------
    SourceError
        If it holds no array of numbers, or a group that is not one of planes.
    MissingExtraError
        If zarr is not installed.
    """
    try:
        import zarr
    except ImportError as error:
        raise MissingExtraError("reading .zarr", "zarr") from error
    name = os.fspath(path)
    try:
        node = zarr.open(os.fspath(path), mode="r")
    except Exception as error:
        raise SourceError(f"{name} is no zarr array: {_first_line(error)}", source=name) from error
    facts: dict[str, Any] = dict(node.attrs).get("hyperframes", {})  # type: ignore[assignment]
    if isinstance(node, zarr.Array):
        arrays, stored_pts = (node,), facts.get("pts_runs")
    else:
        arrays, stored_pts = _group_planes(node, facts, name)
    for array in arrays:
        if not array.shape or array.dtype.kind not in NUMBER_KINDS:
            raise SourceError(
                f"{name} must hold numbers with frames along the first axis: got shape {array.shape} of {array.dtype}",
                source=name,
            )
    num_frames = arrays[0].shape[0]
    native = np.dtype(arrays[0].dtype).newbyteorder("=")
    empty = tuple(np.empty((0, *array.shape[1:]), native) for array in arrays)
    options = {**_spec_options(facts), **options}
    if stored_pts is not None and "pts" not in options:
        options["pts"] = _expand(stored_pts) if isinstance(stored_pts, list) else stored_pts[:]
    spec, pts = described(ArraySource(empty, **without_pts(options)), options, num_frames, name)
    spec = spec.replace(**_spec_facts(facts))

    def load(start: int, stop: int) -> tuple[Array, ...]:
        try:
            return tuple(np.ascontiguousarray(array[start:stop], native) for array in arrays)
        except Exception as error:  # codecs and stores raise what they like
            raise SourceError(
                f"cannot read frames {start} to {stop} of {name}: {_first_line(error)}", source=name
            ) from error

    step = (arrays[0].shards or arrays[0].chunks)[0]
    return StoredArrays(load, num_frames, step, spec, pts, name=name, identity=_tree_identity(Path(path)))


def _group_planes(group: Any, facts: dict[str, Any], name: str) -> tuple[tuple[Any, ...], Any]:
    planes = facts.get("planes")
    if not planes or any(plane not in group for plane in planes):
        arrays = sorted(key for key, _ in group.arrays())
        raise SourceError(
            f"{name} is a group, not an array: it holds {', '.join(map(repr, arrays)) or 'no arrays'}",
            source=name,
            hint=f"Open one of them: {name}/{arrays[0]}" if arrays else None,
        )
    return tuple(group[plane] for plane in planes), group.get("pts")


def _expand(runs: list[list[int]]) -> Array:
    """Return pts from runs of (first, step, count)."""
    parts = [first + step * np.arange(count, dtype=np.int64) for first, step, count in runs]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _spec_options(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what `ZarrSink` wrote beside the samples, as options of `ArraySource`."""
    options: dict[str, Any] = {}
    for key in ("rate", "time_base"):
        if facts.get(key):
            options[key] = Fraction(facts[key])
    if "pixel_format" in facts:
        options["pixel_format"] = facts["pixel_format"]
    return options


def _spec_facts(facts: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {
        key: facts[key] for key in ("rotation", "mirrored", "field_order", "chroma_location", "layout") if key in facts
    }
    if "colour" in facts:
        changes["colour"] = Colour(**facts["colour"])
    if "sample_aspect_ratio" in facts:
        changes["sample_aspect_ratio"] = Fraction(facts["sample_aspect_ratio"])
    if facts.get("names"):
        changes["names"] = tuple(facts["names"])
    return changes


def _tree_identity(folder: Path) -> str:
    newest, size, count = 0, 0, 0
    for root, _, files in os.walk(folder):
        for file in files:
            facts = Path(root, file).stat()
            newest, size, count = max(newest, facts.st_mtime_ns), size + facts.st_size, count + 1
    return f"{folder.resolve()} {count} {size} {newest}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
