"""Frames as arrays on disk: one ``.npy`` file, or a ``.zarr`` array in chunks of whole hyperframes."""

from __future__ import annotations

import json
import os
import struct
from array import array as typed_array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperframes.errors import MissingExtraError, SinkError
from hyperframes.sinks.base import Checkpoint, Sink, Target
from hyperframes.sinks.checks import frames_only, opened, taken_clip
from hyperframes.sinks.failed import zeroed
from hyperframes.sinks.pieces import append_files, move_into
from hyperframes.sinks.staging import StagedFile, StagedFolder, partial_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hyperframes.frames import Array, Clip, FrameSpec, Records

__all__ = ["NpySink", "ZarrSink"]

_HEADER_BYTES = 256
"""Of every file written here: fits any count of up to 20 digits and is a multiple of 64, as the format wants."""

_GROWTH_FRAMES = 1 << 16
"""By how many frames a zarr array of unknown length grows: each growth rewrites its metadata."""


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return a version 1.0 header of fixed length, so that the number of frames can be written when it is known.

    Raises
    ------
    ValueError
        If the shape has more axes than fit.
    """
    text = f"{{'descr': {np.lib.format.dtype_to_descr(dtype)!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    room = _HEADER_BYTES - 10 - 1
    if len(text) > room:
        raise ValueError(f"the header of shape {shape} takes {len(text)} bytes: expected at most {room}")
    magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", _HEADER_BYTES - 10)
    return magic + text.ljust(room).encode("latin1") + b"\n"


class NpySink(Sink):
    """One ``.npy`` file of shape (N, ...): plain sequential writes, the count patched at the end.

    On the disk when it gets its name, after a power cut too; the disk begins while frames still come.

    Parameters
    ----------
    path : path
        Final name; written beside it as ``.NAME.part``.

    Notes
    -----
    Takes frames and windows of one plane. Failed frames are zeros.
    """

    resumable = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._staged: StagedFile | None = None
        self._spec: FrameSpec | None = None
        self._num_frames = 0

    def open(self, target: Target) -> None:
        """Write a header for 0 frames.

        Raises
        ------
        SinkError
            For records, for frames of several planes, or if the file cannot be made.
        """
        self._spec, self._num_frames = frames_only(target, self.name, "one array"), 0
        if len(self._spec.shapes) != 1:
            raise SinkError(
                f"{self.name} holds one array: {self._spec.pixel_format or 'these'} frames have "
                f"{len(self._spec.shapes)} planes",
                sink=self.name,
                hint="Ask for one array a frame with --pixel-format rgb24 (pixel_format='rgb24'), or write .zarr.",
            )
        self._staged = StagedFile(Path(self.name))
        self._staged.write(self._header())

    def place(self) -> Path:
        """Return the file."""
        return Path(self.name)

    def checkpoint(self) -> Checkpoint:
        """Flush the file."""
        return Checkpoint({"bytes": opened(self._staged, self.name).checkpoint(), "frames": self._num_frames})

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint | None:
        """Cut the file to what the checkpoint told of; None if it is shorter."""
        self._spec, self._num_frames = frames_only(target, self.name, "one array"), int(token["frames"])
        self._staged = StagedFile.resumed(Path(self.name), int(token["bytes"]))
        return None if self._staged is None else Checkpoint(token)

    def piece_results(self, target: Target) -> int:
        """Return 1: files are put together at any frame."""
        return 1

    def piece(self, path: Path, first: int) -> NpySink:
        """Return one that writes a file of its own."""
        return NpySink(path)

    def gather(self, target: Target, pieces: Sequence[Path]) -> str:
        """Write the samples of all files behind one header."""
        self._spec = frames_only(target, self.name, "one array")
        self._num_frames = sum(_npy_frames(path) for path in pieces)
        return append_files(Path(self.name), pieces, head=self._header())

    def _header(self) -> bytes:
        spec = opened(self._spec, self.name)
        return npy_header((self._num_frames, *spec.shapes[0]), spec.dtype)

    def write(self, result: Clip | Records) -> None:
        """Append the frames."""
        (plane,) = zeroed(taken_clip(result, self.name))
        opened(self._staged, self.name).write(_bytes(plane))
        self._num_frames += len(plane)

    def close(self) -> str:
        """Write the count and give the file its name."""
        staged = opened(self._staged, self.name)
        with staged.guarded():
            staged.file.seek(0)
            staged.file.write(self._header())
        self._staged = None
        return staged.commit()

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove the file."""
        if self._staged is not None:
            self._staged.discard(keep=keep_parts)
            self._staged = None


def _npy_frames(path: Path) -> int:
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, *_ = np.lib.format.read_array_header_1_0(file)
        return int(shape[0])


class ZarrSink(Sink):
    """A zarr (version 3) array (N, ...) whose chunks are whole hyperframes; a group of arrays for several planes.

    Times and the facts of `FrameSpec` are kept in the attribute ``hyperframes``, times of groups in an array ``pts``,
    so that the source of the same name gives the same frames. On the disk when it gets its name, after a power cut too; the disk begins
    while frames still come.

    Parameters
    ----------
    path : path
        Final name; written beside it as ``.NAME.part``. An existing zarr folder is replaced when the new one is whole.
    compression : str
        ``none``, ``lz4`` or ``zstd``.

    Notes
    -----
    One hyperframe fills one chunk, so no chunk is written twice, but for the last. Chunks of zeros are written too:
    looking for them costs more than writing them. Failed frames are zeros.
    """

    resumable = True

    def __init__(self, path: str | os.PathLike[str], *, compression: str = "none") -> None:
        self.name = os.fspath(path)
        if compression not in {"none", "lz4", "zstd"}:
            raise SinkError(
                f"zarr compression {compression!r} is not known: expected none, lz4 or zstd", sink=self.name
            )
        self._compression = compression
        self._staged: StagedFolder | None = None
        self._spec: FrameSpec | None = None
        self._root: Any = None
        self._arrays: list[Any] = []
        self._pending: list[list[Array]] = []
        self._pts = typed_array("q")
        self._size = 1
        self._num_frames = self._num_written = self._num_synced = 0
        self._wanted = 0  # position in the stream of the first frame that is in no whole chunk yet

    def open(self, target: Target) -> None:
        """Make the arrays in a temporary folder.

        Raises
        ------
        SinkError
            For records, or if the folder cannot be made or holds something else.
        MissingExtraError
            If zarr is not installed.
        """
        zarr = _zarr()
        spec, self._staged = self._prepare(target), self._staging(resume=False)
        expected = target.num_frames or 0
        with self._staged.guarded():
            store = zarr.storage.LocalStore(self._staged.partial)
            if len(spec.shapes) == 1:
                self._root = self._array(zarr, store, None, spec.shapes[0], expected)
                self._arrays = [self._root]
            else:
                self._root = zarr.create_group(store, zarr_format=3, attributes={"hyperframes": _facts(spec)})
                self._arrays = [
                    self._array(zarr, store, name, shape, expected)
                    for name, shape in zip(plane_names(spec), spec.shapes, strict=True)
                ]
        self._pending = [[] for _ in self._arrays]

    def _prepare(self, target: Target) -> FrameSpec:
        spec = self._spec = frames_only(target, self.name, "a zarr array")
        self._size, self._num_frames, self._num_written, self._pts = max(1, target.size), 0, 0, typed_array("q")
        self._num_synced = self._wanted = 0
        return spec

    def _staging(self, *, resume: bool) -> StagedFolder:
        path = Path(self.name)
        old = path.with_name(f".{path.name}.old")
        stands = [path, old] if resume else [path]  # a kill may have come while renaming
        ours = any((folder / name).exists() for folder in stands for name in ("zarr.json", ".zarray", ".zgroup"))
        return StagedFolder(path, replaceable=ours, resume=resume)

    def place(self) -> Path:
        """Return the folder."""
        return Path(self.name)

    def settings(self) -> Mapping[str, Any]:
        """Return the compression; the chunks follow from the size, which a resumed run keeps."""
        return {"compression": self._compression}

    def checkpoint(self) -> Checkpoint:
        """Flush the chunks that are whole; frames after them are wanted again."""
        opened(self._staged, self.name).checkpoint(self._chunk_names(self._num_synced, self._num_written))
        self._num_synced = self._num_written
        pts = np.array(self._pts[: self._num_written], np.int64)
        token = {"frames": self._num_written, "size": self._size, "wanted": self._wanted, "pts": pts}
        return Checkpoint(token, self._wanted)

    def _chunk_names(self, start: int, stop: int) -> list[str]:
        """Return the files of the whole chunks that hold the frames [start, stop)."""
        chunks = range(start // self._size, stop // self._size)
        return [f"{folder}c/{chunk}{'/0' * rest}" for folder, rest in self._chunk_places() for chunk in chunks]

    def _chunk_places(self) -> list[tuple[str, int]]:
        """Return, per array, the folder in front of its chunks and how many axes each has after the first."""
        spec = opened(self._spec, self.name)
        folders = [""] if len(spec.shapes) == 1 else [f"{name}/" for name in plane_names(spec)]
        return [(folder, len(shape)) for folder, shape in zip(folders, spec.shapes, strict=True)]

    def resume(self, target: Target, token: Mapping[str, Any]) -> Checkpoint | None:
        """Go on after the whole chunks that the checkpoint told of; None if one is missing or the size is another."""
        zarr = _zarr()
        spec, folder, frames = self._prepare(target), partial_of(Path(self.name)), int(token["frames"])
        chunks = [f"c/{chunk}" for chunk in range(frames // self._size)]
        whole = all((folder / place / chunk).exists() for place, _ in self._chunk_places() for chunk in chunks)
        if int(token["size"]) != self._size or not whole:
            return None
        try:
            self._root = zarr.open(zarr.storage.LocalStore(folder), mode="r+")
            several = len(spec.shapes) > 1
            self._arrays = [self._root[name] for name in plane_names(spec)] if several else [self._root]
        except (OSError, ValueError, KeyError):  # metadata that was being written when the process was killed
            return None
        self._staged = self._staging(resume=True)
        for left in folder.rglob("*.partial"):  # what zarr was writing when the process was killed
            left.unlink()
        self._pending = [[] for _ in self._arrays]
        self._num_frames = self._num_written = self._num_synced = frames
        self._wanted = int(token["wanted"])
        self._pts.frombytes(np.ascontiguousarray(token["pts"], np.int64).tobytes())
        return Checkpoint(token, self._wanted)

    def piece_results(self, target: Target) -> int:
        """Return how many frames a chunk holds."""
        return max(1, target.size)

    def piece(self, path: Path, first: int) -> ZarrSink:
        """Return one that writes a folder of its own."""
        return ZarrSink(path, compression=self._compression)

    def gather(self, target: Target, pieces: Sequence[Path]) -> str:
        """Move the chunks of all folders into one."""
        self.open(target)
        staged = opened(self._staged, self.name)
        with staged.guarded():
            for piece in pieces:
                pts, first = self._pts_of(piece), self._num_frames // self._size
                for place, _ in self._chunk_places():
                    target_folder = staged.partial / place / "c"
                    target_folder.mkdir(exist_ok=True)
                    chunks = range(-(-len(pts) // self._size))
                    move_into(target_folder, ((piece / place / "c" / str(n), str(first + n)) for n in chunks))
                self._pts.frombytes(pts.tobytes())
                self._num_frames += len(pts)
        self._num_written = self._num_frames
        return self.close()

    def _pts_of(self, piece: Path) -> Array:
        """Return the times, (N,) int64, of the frames in the finished folder `piece`."""
        if len(self._arrays) > 1:
            zarr = _zarr()
            return np.asarray(zarr.open(zarr.storage.LocalStore(piece), mode="r")["pts"][:], np.int64)
        runs = json.loads((piece / "zarr.json").read_bytes())["attributes"]["hyperframes"]["pts_runs"]
        return np.concatenate(
            [np.empty(0, np.int64), *(first + step * np.arange(count) for first, step, count in runs)]
        )

    def _array(self, zarr: Any, store: Any, name: str | None, shape: tuple[int, ...], expected: int) -> Any:
        spec = opened(self._spec, self.name)
        blosc = zarr.codecs.BloscCodec(cname=self._compression, clevel=1) if self._compression != "none" else None
        return zarr.create_array(
            store,
            name=name,
            shape=(expected, *shape),
            chunks=(self._size, *(max(1, side) for side in shape)),
            dtype=spec.dtype,
            compressors=None if blosc is None else [blosc],
            fill_value=0,
            zarr_format=3,
            config={"write_empty_chunks": True},
        )

    def write(self, result: Clip | Records) -> None:
        """Write the chunks that are full; keep the rest for the next hyperframe."""
        opened(self._staged, self.name)
        clip = taken_clip(result, self.name)
        self._pts.frombytes(np.ascontiguousarray(clip.pts, np.int64).tobytes())
        self._num_frames += len(clip)
        aligned = self._num_written % self._size == 0 and not self._pending[0] and len(clip) % self._size == 0
        for pending, plane in zip(self._pending, zeroed(clip), strict=True):
            pending.append(plane if aligned else plane.copy())
        self._write_pending(self._num_frames - self._num_frames % self._size)
        waiting = self._num_frames - self._num_written
        if len(clip) and waiting <= len(clip):  # else the first frame that waits is an earlier one still
            self._wanted = int(clip.index[-waiting]) if waiting else int(clip.index[-1]) + 1

    def _write_pending(self, stop: int) -> None:
        """Write the frames up to `stop`, of which only the last chunk may be short."""
        count = stop - self._num_written
        if count <= 0:
            return
        staged = opened(self._staged, self.name)
        with staged.guarded():
            for array, pending in zip(self._arrays, self._pending, strict=True):
                frames = pending[0] if len(pending) == 1 else np.concatenate(pending)
                if stop > array.shape[0]:
                    array.resize((max(stop, array.shape[0] + _GROWTH_FRAMES), *array.shape[1:]))
                array[self._num_written : stop] = frames[:count]
                pending[:] = [frames[count:].copy()] if len(frames) > count else []
            staged.begin(self._chunk_names(self._num_written, stop))
        self._num_written = stop

    def close(self) -> str:
        """Write the last chunk and the times, set the length, and give the folder its name."""
        staged = opened(self._staged, self.name)
        self._write_pending(self._num_frames)
        spec, pts = opened(self._spec, self.name), np.array(self._pts, np.int64)
        with staged.guarded():
            if len(self._arrays) == 1:
                _finish(staged.partial, self._num_frames, {"hyperframes": _facts(spec) | {"pts_runs": pts_runs(pts)}})
            else:
                self._root.create_array("pts", data=pts, chunks=(max(1, len(pts)),), compressors=None, overwrite=True)
                for name in plane_names(spec):
                    _finish(staged.partial / name, self._num_frames, {})
        self._staged = None
        return staged.commit()

    def abort(self, *, keep_parts: bool = False) -> None:
        """Remove the temporary folder."""
        if self._staged is not None:
            self._staged.discard(keep=keep_parts)
            self._staged = None


def _zarr() -> Any:
    """Return the library."""
    try:
        import zarr
    except ImportError as error:
        raise MissingExtraError("writing .zarr", "zarr") from error
    return zarr


def plane_names(spec: FrameSpec) -> list[str]:
    """Return names for the planes of several-plane formats: y u v a, g b r a, or plane0, plane1, ..."""
    letters = "yuva" if spec.pixel_format.startswith("yuv") else "gbra" if spec.pixel_format.startswith("gbr") else ""
    count = len(spec.shapes)
    return list(letters[:count]) if letters else [f"plane{i}" for i in range(count)]


def pts_runs(pts: Iterable[int] | Array) -> list[list[int]]:
    """Return `pts` as runs of (first, step, count): one for a constant rate, exact for any.

    Examples
    --------
    >>> pts_runs([0, 2, 4, 9])
    [[0, 2, 3], [9, 0, 1]]
    """
    runs: list[list[int]] = []
    for value in map(int, pts):
        if runs and runs[-1][2] == 1:
            runs[-1][1:] = [value - runs[-1][0], 2]
        elif runs and value == runs[-1][0] + runs[-1][1] * runs[-1][2]:
            runs[-1][2] += 1
        else:
            runs.append([value, 0, 1])
    return runs


def _facts(spec: FrameSpec) -> dict[str, Any]:
    """Return what `spec` says beyond shape and dtype, as JSON values."""
    return {
        "pixel_format": spec.pixel_format,
        "time_base": str(spec.time_base),
        "rate": None if spec.rate is None else str(spec.rate),
        "colour": {
            "matrix": spec.colour.matrix,
            "range": spec.colour.range,
            "primaries": spec.colour.primaries,
            "transfer": spec.colour.transfer,
        },
        "sample_aspect_ratio": str(spec.sample_aspect_ratio),
        "rotation": spec.rotation,
        "mirrored": spec.mirrored,
        "field_order": spec.field_order,
        "chroma_location": spec.chroma_location,
        "layout": spec.layout,
        "names": list(spec.names),
        **({"planes": plane_names(spec)} if len(spec.shapes) > 1 else {}),
    }


def _finish(folder: Path, num_frames: int, attributes: dict[str, Any]) -> None:
    """Set length and attributes in an array's metadata; zarr's own `resize` would look for every chunk given up."""
    place = folder / "zarr.json"
    metadata = json.loads(place.read_bytes())
    metadata["shape"][0] = num_frames
    metadata["attributes"] |= attributes
    place.write_text(json.dumps(metadata, indent=2))


def _bytes(plane: Array) -> memoryview:
    """Return the samples as bytes without copying where they lie in one piece."""
    return np.ascontiguousarray(plane).reshape(-1).view(np.uint8).data
