"""Descriptors as Arrow: one row each, the same columns in memory, in files and in the index. No pickle."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import FrameError, MissingExtraError, SinkError, SourceError
from hyperframes.semantic.descriptor import DEFAULT, SCHEMA_VERSION, Anchor, Descriptor, Trajectory
from hyperframes.semantic.look import NUM_LOOK, Looks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["check_path", "from_table", "load", "load_one", "looks_from", "save", "schema", "to_table"]

_SUFFIXES = (".arrow", ".parquet")
_VERSION_KEY = "hyperframes.descriptor"


def _arrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("descriptors as Arrow", "semantic") from error
    return pa


def schema() -> Any:
    """Return the pyarrow Schema of descriptors.

    Raises
    ------
    MissingExtraError
        If pyarrow is not installed.
    """
    pa = _arrow()
    text, real = pa.string(), pa.float32()
    named = pa.list_(pa.struct([("name", text), ("version", text)]))
    exact = pa.float64()
    anchor = pa.struct([("seconds", exact), ("weight", exact), ("kind", text), ("x", exact), ("y", exact)])
    path = pa.struct([("start_seconds", exact), ("stop_seconds", exact), ("coefficients", pa.list_(real, 8))])
    columns = {
        "descriptor_id": text,
        "schema_version": pa.int32(),
        "source": text,
        "content_hash": text,
        "stream": text,
        "core_start": pa.int64(),
        "core_stop": pa.int64(),
        "start_seconds": pa.float64(),
        "stop_seconds": pa.float64(),
        "hyperframe": text,
        "parameters": text,
        "models": named,
        "statistics": text,
        "anchors": pa.list_(anchor),
        "trajectories": pa.list_(path),
        "region_confidence": pa.list_(pa.uint8(), 64 * 64),
        "task_regions": pa.list_(pa.struct([("task", text), ("confidence", pa.binary(64 * 64))])),
        "spatial_kernels": pa.list_(real, 81),
        "semantic_features": pa.list_(real, 512),
        "feature_parts": pa.list_(pa.bool_(), 4),
        "looks": pa.list_(pa.struct([("seconds", exact), ("values", pa.list_(pa.float16(), NUM_LOOK))])),
        "tasks": named,
        "text_vector": pa.list_(pa.float16(), 384),
        "text_model": text,
        "lag_seconds": pa.float64(),
        "lag_confidence": pa.float64(),
        "static": pa.bool_(),
        "cut": pa.bool_(),
        "degraded": pa.bool_(),
    }
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()], {_VERSION_KEY: str(SCHEMA_VERSION)})


# To Arrow -------------------------------------------------------------------------------------------------------------

_PLAIN = (
    *("descriptor_id", "schema_version", "source", "content_hash", "stream", "hyperframe", "parameters"),
    *("statistics", "text_model", "lag_seconds", "lag_confidence", "static", "cut", "degraded"),
)


def to_table(descriptors: Sequence[Descriptor]) -> Any:
    """Return a pyarrow Table with one row a descriptor, in the given order, of the type that `schema` says.

    Raises
    ------
    MissingExtraError
        If pyarrow is not installed.
    """
    pa = _arrow()
    kinds = schema()
    columns: dict[str, Any] = {name: [getattr(d, name) for d in descriptors] for name in _PLAIN}
    cores = np.array([d.core for d in descriptors], np.int64).reshape(-1, 2)
    seconds = np.array([d.seconds for d in descriptors], np.float64).reshape(-1, 2)
    columns |= {"core_start": cores[:, 0], "core_stop": cores[:, 1]}
    columns |= {"start_seconds": seconds[:, 0], "stop_seconds": seconds[:, 1]}
    for name in ("models", "tasks"):
        columns[name] = [_named(getattr(d, name)) for d in descriptors]
    columns["task_regions"] = [
        [{"task": task, "confidence": m.tobytes()} for task, m in d.regions.items() if task != DEFAULT]
        for d in descriptors
    ]
    made = {name: pa.array(values, kinds.field(name).type) for name, values in columns.items()}
    made["anchors"] = _anchors(pa, descriptors, kinds.field("anchors").type)
    made["trajectories"] = _trajectories(pa, descriptors, kinds.field("trajectories").type)
    made["looks"] = _looks(pa, descriptors, kinds.field("looks").type)
    for name in ("spatial_kernels", "semantic_features"):
        made[name] = _fixed(pa, [getattr(d, name) for d in descriptors], kinds.field(name).type)
    made["region_confidence"] = _fixed(
        pa, [d.regions[DEFAULT] for d in descriptors], kinds.field("region_confidence").type
    )
    made["feature_parts"] = _fixed(pa, [d.feature_parts for d in descriptors], kinds.field("feature_parts").type)
    made["text_vector"] = _fixed(pa, [d.text_vector for d in descriptors], kinds.field("text_vector").type)
    return pa.Table.from_arrays([made[field.name] for field in kinds], schema=kinds)


def _fixed(pa: Any, values: Sequence[Any], kind: Any) -> Any:
    """Return a fixed-size list column of equal arrays, null where there is None, with one copy of the numbers."""
    dtype = kind.value_type.to_pandas_dtype()
    stacked = np.zeros((len(values), kind.list_size), dtype)
    missing = np.array([v is None for v in values], bool)
    for row, value in zip(stacked, values, strict=True):
        if value is not None:
            row[:] = value.reshape(-1) if isinstance(value, np.ndarray) else value
    flat = pa.array(stacked.ravel(), kind.value_type)
    return pa.FixedSizeListArray.from_arrays(flat, type=kind, mask=pa.array(missing) if missing.any() else None)


def _named(versions: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "version": version} for name, version in versions.items()]


def _anchors(pa: Any, descriptors: Sequence[Descriptor], kind: Any) -> Any:
    """Return the list column of anchors, column by column: there are many."""
    anchors = list(itertools.chain.from_iterable(d.anchors for d in descriptors))
    fields = list(kind.value_type)
    values = zip(*anchors, strict=True) if anchors else [()] * len(fields)
    structs = pa.StructArray.from_arrays(
        [pa.array(column, field.type) for column, field in zip(values, fields, strict=True)], fields=fields
    )
    offsets = np.concatenate([[0], np.cumsum([len(d.anchors) for d in descriptors])]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=kind)


def _trajectories(pa: Any, descriptors: Sequence[Descriptor], kind: Any) -> Any:
    """Return the list column of paths, from flat arrays: there may be many."""
    counts = [len(d.trajectories) for d in descriptors]
    paths = list(itertools.chain.from_iterable(d.trajectories for d in descriptors))
    fields = kind.value_type
    structs = pa.StructArray.from_arrays(
        [
            pa.array([path.start_seconds for path in paths], pa.float64()),
            pa.array([path.stop_seconds for path in paths], pa.float64()),
            _fixed(pa, [path.coefficients for path in paths], fields.field("coefficients").type),
        ],
        fields=list(fields),
    )
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=kind)


def _looks(pa: Any, descriptors: Sequence[Descriptor], kind: Any) -> Any:
    """Return the list column of looks, from flat arrays: there are many."""
    fields = kind.value_type
    several = [d.looks for d in descriptors]
    seconds = np.concatenate([np.zeros(0), *(looks.seconds for looks in several)])
    values = np.concatenate([Looks.none().values, *(looks.values for looks in several)])
    flat = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), type=fields.field("values").type)
    structs = pa.StructArray.from_arrays([pa.array(seconds), flat], fields=list(fields))
    offsets = np.concatenate([[0], np.cumsum([len(looks.seconds) for looks in several])]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=kind)


def looks_from(column: Any) -> list[Looks]:
    """Return the looks in a column of them, one a row, as views of two arrays."""
    chunk = column.combine_chunks()
    structs = chunk.flatten()
    seconds = structs.field("seconds").to_numpy()
    flat = structs.field("values").flatten().to_numpy(zero_copy_only=False)
    values = flat.reshape(len(seconds), NUM_LOOK)
    ends = np.cumsum(chunk.value_lengths().to_numpy(zero_copy_only=False))
    edges = [0, *ends.tolist()]
    return [Looks(seconds[a:b], values[a:b]) for a, b in itertools.pairwise(edges)]


# From Arrow -----------------------------------------------------------------------------------------------------------


def from_table(table: Any) -> list[Descriptor]:
    """Return the descriptors in a pyarrow Table or RecordBatch; further columns, such as scores, are left out."""
    pa = _arrow()
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    for column in schema():
        if column.name not in table.column_names or table.schema.field(column.name).type != column.type:
            known = column.name in table.column_names
            got = str(table.schema.field(column.name).type) if known else "no such column"
            raise FrameError(
                f"column {column.name!r} of descriptors: expected {column.type}, got {got}",
                expected=str(column.type),
                got=got,
                hint="Describe the source again with this version.",
            )
    arrays = {
        name: _stacked(table.column(name), shape)
        for name, shape in (("spatial_kernels", (3, 3, 3, 3)), ("semantic_features", (512,)), ("text_vector", (384,)))
    }
    arrays["region_confidence"] = _stacked(table.column("region_confidence"), (64, 64))
    arrays["looks"] = looks_from(table.column("looks"))
    rows = table.select([field.name for field in schema() if field.name not in arrays]).to_pylist()
    return [_descriptor(row, {name: column[k] for name, column in arrays.items()}) for k, row in enumerate(rows)]


def _stacked(column: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return one read-only array a row, None where the row is null, as views of one array."""
    chunk = column.combine_chunks()
    size, start = chunk.type.list_size, chunk.offset
    values = chunk.values[start * size : (start + len(chunk)) * size]
    stacked = values.to_numpy(zero_copy_only=False).reshape(len(chunk), *shape)
    stacked = stacked.view()
    stacked.setflags(write=False)
    valid = chunk.is_valid().to_pylist()
    return [stacked[k] if valid[k] else None for k in range(len(chunk))]


def _descriptor(row: dict[str, Any], arrays: dict[str, Any]) -> Descriptor:
    maps = {
        entry["task"]: np.frombuffer(entry["confidence"], np.uint8).reshape(64, 64) for entry in row["task_regions"]
    }
    return Descriptor(
        source=row["source"],
        content_hash=row["content_hash"],
        core=(row["core_start"], row["core_stop"]),
        seconds=(row["start_seconds"], row["stop_seconds"]),
        parameters=row["parameters"],
        stream=row["stream"],
        hyperframe=row["hyperframe"],
        models={entry["name"]: entry["version"] for entry in row["models"]},
        statistics=row["statistics"],
        anchors=tuple(Anchor(**anchor) for anchor in row["anchors"]),
        trajectories=tuple(
            Trajectory(
                path["start_seconds"], path["stop_seconds"], np.array(path["coefficients"], np.float32).reshape(2, 4)
            )
            for path in row["trajectories"]
        ),
        regions={DEFAULT: arrays["region_confidence"], **maps},
        spatial_kernels=arrays["spatial_kernels"],
        semantic_features=arrays["semantic_features"],
        feature_parts=tuple(row["feature_parts"]),
        looks=arrays["looks"],
        tasks={entry["name"]: entry["version"] for entry in row["tasks"]},
        text_vector=arrays["text_vector"],
        text_model=row["text_model"],
        lag_seconds=row["lag_seconds"],
        lag_confidence=row["lag_confidence"],
        static=row["static"],
        cut=row["cut"],
        degraded=row["degraded"],
        schema_version=row["schema_version"],
    )


# Files ----------------------------------------------------------------------------------------------------------------


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that `save` could not write: before the work, not after it.

    Raises
    ------
    SinkError
        If the suffix is another one, or there is no such folder.
    """
    path = Path(path)
    _suffix(path, lambda message, hint: SinkError(message, sink=str(path), hint=hint))
    if not path.parent.is_dir():
        raise SinkError(f"cannot write {path}: there is no folder {path.parent}", sink=str(path))


def save(descriptors: Sequence[Descriptor], path: str | os.PathLike[str]) -> None:
    """Write descriptors to a file, ``.arrow`` (IPC, read without copying) or ``.parquet`` (smaller).

    The file is written beside its name first, so an incomplete one never stands there.

    Raises
    ------
    SinkError
        If the suffix is another one, or the file cannot be written.
    MissingExtraError
        If pyarrow is not installed.
    """
    pa, path = _arrow(), Path(path)
    suffix = _suffix(path, lambda message, hint: SinkError(message, sink=str(path), hint=hint))
    table, partial = to_table(descriptors), path.with_name(path.name + ".part")
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, partial)
        else:
            with pa.OSFile(str(partial), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SinkError(f"cannot write {path}: {error.strerror or error}", sink=str(path)) from error


def load(path: str | os.PathLike[str]) -> list[Descriptor]:
    """Read the descriptors in a file that `save` wrote.

    Raises
    ------
    SourceError
        If it cannot be read or holds no descriptors.
    FrameError
        If it is of another schema version, or a row is no valid descriptor.
    MissingExtraError
        If pyarrow is not installed.
    """
    pa, path = _arrow(), Path(path)
    suffix = _suffix(path, lambda message, hint: SourceError(message, source=str(path), hint=hint))
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            return from_table(pq.read_table(path))
        with pa.OSFile(str(path), "rb") as file, pa.ipc.open_file(file) as reader:
            return from_table(reader.read_all())
    except (OSError, pa.ArrowInvalid) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise SourceError(
            f"cannot read descriptors from {path}: {reason}", source=str(path), hint="Give a file that save wrote."
        ) from error


def load_one(path: str | os.PathLike[str]) -> Descriptor:
    """Read the only descriptor of a file."""
    found = load(path)
    if len(found) != 1:
        raise SourceError(
            f"{os.fspath(path)} holds {len(found)} descriptors: expected one",
            source=os.fspath(path),
            hint="Read it with hyperframes.semantic.load, which returns all.",
        )
    return found[0]


def _suffix(path: Path, error: Any) -> str:
    if path.suffix.lower() not in _SUFFIXES:
        raise error(
            f"descriptors are kept in files ending in {' or '.join(_SUFFIXES)}: got {path.name!r}",
            f"For example: {path.stem}.arrow",
        )
    return path.suffix.lower()
