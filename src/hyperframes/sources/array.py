"""Frames that lie in arrays: in memory, in mapped files (``.npy``, raw samples), or read in runs."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import uuid
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import numpy as np

from hyperframes.errors import FrameError, SourceError
from hyperframes.frames import PIXEL_FORMATS, Array, Clip, Counting, Frame, FrameSpec
from hyperframes.sources.base import Source, positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["ArraySource", "StoredArrays", "exact_rate", "open_memmap", "open_npy"]

PICTURES_A_SECOND = Fraction(25)
"""Rate of pictures that come without time, as in FFmpeg's image readers."""

_IDENTITY_BYTES = 64 << 20
_PASSED_BYTES = 16 << 20
"""How much of a mapped file is read before what lies behind is given back."""
NUMBER_KINDS = "biufc"


_CONDENSED = 1 << 13
"""Numbers of 64 bits that become one: as many as stay in the fastest cache."""


def exact_rate(value: Any) -> Fraction:
    """Return a number of frames a second as an exact Fraction.

    Raises
    ------
    SourceError
        If `value` is no positive number.

    Examples
    --------
    >>> exact_rate("30000/1001"), exact_rate(29.97)
    (Fraction(30000, 1001), Fraction(2997, 100))
    """
    try:
        rate = value if isinstance(value, Fraction) else Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if rate <= 0:
        raise SourceError(
            f"a rate is a positive number of frames a second: got {value!r}", hint="Write 25, 29.97 or 30000/1001."
        )
    return rate


def _condensed(array: Array) -> bytes:
    """Return what is to be digested of the bytes of `array`: for every 64 KiB two sums of 64 bits, and the rest.

    Each number is multiplied by a fixed odd one of its place. Of a high bit the product keeps little: of the highest, not
    even its place, so that turned signs would cancel. Hence the second sum, over the numbers with their bytes in reverse
    order: where two arrays differ, one of the two sees it low. Together they are equal for arrays that differ about once
    in 2**56 cases or fewer. It takes a third of the time of a digest of all bytes.
    """
    data = np.frombuffer(array.reshape(-1).view(np.uint8).data, np.uint8) if array.size else np.empty(0, np.uint8)
    whole = len(data) // (8 * _CONDENSED)
    places = np.random.default_rng(0).integers(0, 1 << 63, (2, _CONDENSED), np.uint64) * np.uint64(2) + np.uint64(1)
    sums = np.empty((whole, 2), np.uint64)
    for block, numbers in enumerate(data[: whole * 8 * _CONDENSED].view(np.uint64).reshape(whole, _CONDENSED)):
        sums[block] = np.dot(numbers, places[0]), np.dot(numbers.byteswap(), places[1])
    return sums.tobytes() + data[whole * 8 * _CONDENSED :].tobytes()


class ArraySource(Source):
    """Frames of an array (N, ...) in memory or mapped: viewed, not copied, where it is contiguous.

    Parameters
    ----------
    array : array (N, ...) or tuple of arrays
        One array, or one per plane with the same N. Of arrays that are not C-contiguous or not of the machine's byte
        order each hyperframe is copied by itself.
    pts : (N,) integers, optional
        Presentation times in ticks of `time_base`, ascending. Default: 0, 1, 2, ...
    rate : number or Fraction, optional
        Frames a second. Default: 25 for pictures without `pts`, else none.
    time_base : Fraction, optional
        Seconds a tick. Default: 1 / `rate`, or 1 where there is no rate.
    pixel_format : str, optional
        FFmpeg's name of the format. Default: guessed from shape and dtype for one plane, none for several.
    name : str
        What users call it.

    Raises
    ------
    FrameError
        If lengths, shapes, dtypes or times do not fit.

    Examples
    --------
    >>> ArraySource(np.zeros((10, 480, 640, 3), np.uint8), rate=30)
    ArraySource('array', 10 frames, rgb24 640x480)
    """

    exact = True
    seeks = True

    def __init__(
        self,
        array: Array | tuple[Array, ...],
        *,
        pts: Any = None,
        rate: Any = None,
        time_base: Any = None,
        pixel_format: str | None = None,
        name: str = "array",
        spec: FrameSpec | None = None,
        identity: str = "",
    ) -> None:
        planes = tuple(_usable(plane, name) for plane in (array if isinstance(array, tuple) else (array,)))
        lengths = [len(plane) for plane in planes]
        if len(set(lengths)) != 1:
            raise FrameError(
                f"all planes of {name} must hold the same number of frames: expected {lengths[0]}, got {lengths}",
                expected=lengths[0],
                got=lengths,
            )
        self.name, self.num_frames = name, lengths[0]
        native = planes[0].dtype.newbyteorder("=")
        self.spec = spec or spec_of([plane.shape[1:] for plane in planes], native, pixel_format)
        _check_planes(planes, self.spec, name)
        if spec is None:
            self.spec = timed(self.spec, rate, time_base, has_pts=pts is not None)
        self._planes = planes
        self._pts = Counting(self.num_frames) if pts is None else _checked_pts(pts, self.num_frames, name)
        self._identity = identity
        self.identifiable = bool(identity) or sum(plane.nbytes for plane in planes) <= _IDENTITY_BYTES

    @classmethod
    def from_clip(cls, clip: Clip, name: str = "clip") -> ArraySource:
        """Return a source over the frames of `clip`, with its times, counted from 0."""
        return cls(clip.planes, pts=clip.pts, spec=clip.spec, name=name)

    def arrays(self) -> tuple[tuple[Array, ...], Array | Counting] | None:
        """Return (planes (N, ...), pts (N,)): views; None where frames do not lie one after another as they are used."""
        ready = all(plane.flags.c_contiguous and plane.dtype.isnative for plane in self._planes)
        return (self._planes, self._pts) if ready else None

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield views of the frames [start, stop)."""
        stop = len(self._pts) if stop is None else min(stop, len(self._pts))
        for index in range(start, stop):
            pts = index if isinstance(self._pts, Counting) else int(self._pts[index])
            yield Frame(
                [np.asarray(plane[index, ...], self.spec.dtype) for plane in self._planes], pts, index, self.spec
            )

    def frames(self, indices: Sequence[int]) -> Clip:
        """Return copies of the frames at `indices`, in that order."""
        wanted = checked_indices(indices, len(self._pts), self.name)
        pts = wanted.copy() if isinstance(self._pts, Counting) else self._pts[wanted]
        planes = tuple(np.ascontiguousarray(plane[wanted], self.spec.dtype) for plane in self._planes)
        return Clip(planes, pts, wanted, self.spec)

    def times(self) -> Array:
        """Return pts (N,) int64."""
        return np.asarray(self._pts)

    def identity(self) -> str:
        """Return a digest of the samples; arrays over 64 MiB are told apart from everything else by a random number."""
        if not self._identity:
            digest = hashlib.blake2b(repr(self.spec).encode(), digest_size=16)
            if sum(plane.nbytes for plane in self._planes) > _IDENTITY_BYTES:
                digest.update(uuid.uuid4().bytes)
            else:
                for array in self._planes if isinstance(self._pts, Counting) else (*self._planes, self._pts):
                    digest.update(_condensed(np.ascontiguousarray(array, array.dtype.newbyteorder("="))))
            self._identity = f"{self.name} {digest.hexdigest()}"
        return self._identity


class MappedArray(ArraySource):
    """Frames of a mapped file; the memory of those that have passed is given back, whatever the file's length.

    Parameters
    ----------
    file : Path
        What is mapped, not empty.
    offset : int
        Bytes before the first frame.
    shape : (N, ...)
        Of all frames.
    dtype : dtype
        Of the machine's byte order.
    **options
        See `ArraySource`.
    """

    def __init__(self, file: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], **options: Any) -> None:
        self._map, array = map_array(file, offset, shape, dtype)
        super().__init__(array, **options)
        self._offset, self._passed = offset, 0

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield views of the frames [start, stop), giving back what lies behind now and then."""
        stride = run_length(self.spec, _PASSED_BYTES)
        for frame in super().read(start, stop):
            if frame.index % stride == 0:
                self.let_go(frame.index)
            yield frame

    def let_go(self, stop: int) -> None:
        """Give back the memory of frames before `stop`; who reads them again gets them from the file."""
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        page, end = mmap.PAGESIZE, self._offset + max(0, stop) * self.spec.nbytes
        end -= end % page
        if end > self._passed:
            self._map.madvise(mmap.MADV_DONTNEED, self._passed, end - self._passed)
        self._passed = end


class StoredArrays(Source):
    """Frames in arrays that are read in runs: chunked, compressed, in another byte order, or interleaved by plane.

    Parameters
    ----------
    load : function (start, stop) -> planes (stop - start, ...)
        Reads a run of frames.
    num_frames : int
        How many there are.
    step : int
        Frames a run; runs start at multiples of it, so that a stored chunk is read once.
    spec : FrameSpec
        Of every frame.
    pts : (N,) int64
        Times.
    name, identity : str
        See `Source`.
    close : function, optional
        Lets files go.
    """

    exact = True
    seeks = True

    def __init__(
        self,
        load: Callable[[int, int], tuple[Array, ...]],
        num_frames: int,
        step: int,
        spec: FrameSpec,
        pts: Array,
        *,
        name: str,
        identity: str,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.name, self.num_frames, self.spec = name, num_frames, spec
        self._load, self._step, self._pts = load, max(1, step), pts
        self._identity, self._close = identity, close

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Frame]:
        """Yield the frames [start, stop), holding one run in memory."""
        total = len(self._pts)
        last = total if stop is None else min(stop, total)
        position = start
        while position < last:
            run_stop = min(last, (position // self._step + 1) * self._step)
            planes = self._load(position, run_stop)
            for offset in range(run_stop - position):
                index = position + offset
                yield Frame([plane[offset, ...] for plane in planes], int(self._pts[index]), index, self.spec)
            position = run_stop

    def frames(self, indices: Sequence[int]) -> Clip:
        """Return the frames at `indices`; every run that holds some of them is read once."""
        wanted = checked_indices(indices, len(self._pts), self.name)
        planes = tuple(np.empty((len(wanted), *shape), self.spec.dtype) for shape in self.spec.shapes)
        runs = wanted // self._step
        for run in np.unique(runs):
            rows = np.flatnonzero(runs == run)
            low, high = int(wanted[rows].min()), int(wanted[rows].max()) + 1
            for target, loaded in zip(planes, self._load(low, high), strict=True):
                target[rows] = loaded[wanted[rows] - low]
        return Clip(planes, self._pts[wanted], wanted, self.spec)

    def times(self) -> Array:
        """Return pts (N,) int64."""
        return self._pts

    def identity(self) -> str:
        """Return path, size and time of change."""
        return self._identity

    def close(self) -> None:
        """Let files go."""
        if self._close is not None:
            self._close()
            self._close = None


# Mapped files --------------------------------------------------------------------------------------------------------


def open_npy(path: str | os.PathLike[str], **options: Any) -> Source:
    """Open a ``.npy`` file (N, ...): mapped, not loaded.

    Parameters
    ----------
    path : path
        Of the file.
    **options
        `rate`, `time_base`, `pts`, `pixel_format`: see `ArraySource`.

    Raises
    ------
    SourceError
        If the header is damaged, the file shorter than it says, the order Fortran's or the dtype not numbers.
    """
    name = os.fspath(path)
    file = Path(path)
    try:
        with file.open("rb") as stream:
            version = np.lib.format.read_magic(stream)
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read_header(stream)
            offset = stream.tell()
    except OSError as error:
        raise SourceError(f"cannot open {name}: {error.strerror}", source=name) from error
    except Exception as error:
        raise SourceError(
            f"{name} is no NumPy array file: {str(error).splitlines()[0]}",
            source=name,
            hint="Write it with numpy.save, or read raw samples with 'FILE.raw?shape=480,640,3&dtype=uint8'.",
        ) from error
    if dtype.kind not in NUMBER_KINDS:
        raise SourceError(
            f"{name} must hold numbers: got dtype {dtype}",
            source=name,
            hint="Save one plain numeric array: numpy.save(path, array.astype('float32')).",
        )
    if not shape:
        raise SourceError(f"{name} holds one number: expected frames along the first axis", source=name)
    if fortran and len(shape) > 1:
        raise SourceError(
            f"{name} is stored in Fortran order, in which no frame lies in one piece",
            source=name,
            hint="Save it once more: numpy.save(path, numpy.ascontiguousarray(array)).",
        )
    expected = math.prod(shape) * dtype.itemsize
    present = file.stat().st_size - offset
    if present < expected:
        frame_bytes = max(1, expected // max(1, shape[0]))
        raise SourceError(
            f"{name} is cut off: its header says {shape[0]} frames, it holds {max(0, present) // frame_bytes}",
            source=name,
            hint="Copy or write the file again.",
        )
    return _mapped(file, offset, shape[0], shape[1:], dtype, name, options)


def open_memmap(location: str | os.PathLike[str], **options: Any) -> Source:
    """Open raw samples without a header, as in ``x.raw?shape=480,640,3&dtype=uint8``: mapped, not loaded.

    `shape` is one frame's, comma separated (empty for single numbers); `dtype` any NumPy name (default uint8);
    `offset` bytes are skipped. With a `pixel_format` of several planes, `shape` is rows, columns and each frame
    holds its planes one after another, as in ``.yuv`` files.

    Parameters
    ----------
    location : str
        Path and, after ``?``, the fields above; `rate`, `pixel_format` and `time_base` may stand there too.
    **options
        The same fields as keywords.

    Raises
    ------
    SourceError
        If the size of the file is no multiple of a frame's, or a field makes no sense.
    """
    name = os.fspath(location)
    path, _, query = name.partition("?")
    fields: dict[str, Any] = {**dict(parse_qsl(query, keep_blank_values=True)), **options}
    known = {"shape", "dtype", "offset", "rate", "time_base", "pixel_format", "pts"}
    unknown = sorted(fields.keys() - known)
    if unknown or "shape" not in fields:
        problem = f"does not know {unknown[0]!r}" if unknown else "needs the shape of a frame"
        raise SourceError(
            f"raw source {name} {problem}: expected shape, dtype, offset, rate, pixel_format",
            source=name,
            hint="Write 'FILE.raw?shape=480,640,3&dtype=uint8'.",
        )
    shape, dtype = _shape(fields.pop("shape"), name), fields.pop("dtype", None)
    offset = _offset(fields.pop("offset", 0), name)
    pixel_format = fields.get("pixel_format")
    planes = PIXEL_FORMATS.get(pixel_format or "")
    sample = _sample_dtype(dtype or (planes.dtype if planes else np.uint8), name)
    several = planes is not None and len(planes.planes) > 1
    if several and len(shape) != 2:
        raise SourceError(f"shape of {pixel_format} in {name} is rows, columns: got {shape}", source=name)
    spec = FrameSpec.picture(shape[0], shape[1], pixel_format) if several and pixel_format else None
    frame_bytes = spec.nbytes if spec else math.prod(shape) * sample.itemsize
    file = Path(path)
    try:
        size = file.stat().st_size - offset
    except OSError as error:
        raise SourceError(f"cannot open {path}: {error.strerror}", source=name) from error
    if frame_bytes == 0 or size < 0 or size % frame_bytes:
        raise SourceError(
            f"{path} holds {size} bytes, no multiple of a frame's {frame_bytes} ({shape} of {sample})",
            source=name,
            hint="Check shape, dtype and offset; a file that was cut off can be shortened to whole frames.",
        )
    num_frames = size // frame_bytes
    if spec:
        return _interleaved(file, offset, num_frames, spec, name, fields)
    return _mapped(file, offset, num_frames, shape, sample, name, fields)


def _mapped(
    file: Path,
    offset: int,
    num_frames: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    name: str,
    options: dict[str, Any],
) -> Source:
    """Return a source that views the file, or reads it in runs where its bytes stand in the other order."""
    full = (num_frames, *shape)
    identity = file_identity(file)
    if math.prod(full) == 0:  # an empty file cannot be mapped
        return ArraySource(np.empty(full, dtype.newbyteorder("=")), name=name, identity=identity, **options)
    if dtype.isnative:
        return MappedArray(file, offset, full, dtype, name=name, identity=identity, **options)
    _, array = map_array(file, offset, full, dtype)
    spec, pts = described(
        ArraySource(np.empty((0, *shape), dtype.newbyteorder("=")), **without_pts(options)), options, num_frames, name
    )
    native = spec.dtype
    step = run_length(spec)
    return StoredArrays(
        lambda start, stop: (array[start:stop].astype(native),),
        num_frames,
        step,
        spec,
        pts,
        name=name,
        identity=identity,
    )


def _interleaved(
    file: Path, offset: int, num_frames: int, spec: FrameSpec, name: str, options: dict[str, Any]
) -> Source:
    """Return a source over frames whose planes follow one another in the file."""
    options = {key: value for key, value in options.items() if key != "pixel_format"}
    spec = timed(spec, options.get("rate"), options.get("time_base"), has_pts="pts" in options)
    pts = _checked_pts(options.get("pts"), num_frames, name)
    raw: Array = np.empty((0, spec.nbytes), np.uint8)
    if num_frames:
        _, raw = map_array(file, offset, (num_frames, spec.nbytes), np.dtype(np.uint8))

    def load(start: int, stop: int) -> tuple[Array, ...]:
        planes, position = [], 0
        for shape in spec.shapes:
            nbytes = math.prod(shape) * spec.dtype.itemsize
            rows = np.ascontiguousarray(raw[start:stop, position : position + nbytes])
            planes.append(rows.view(spec.dtype).reshape(stop - start, *shape))
            position += nbytes
        return tuple(planes)

    return StoredArrays(load, num_frames, 1, spec, pts, name=name, identity=file_identity(file))


# Shared by sources ---------------------------------------------------------------------------------------------------


def map_array(file: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[mmap.mmap, Array]:
    """Return the map of a file and the array in it, read-only; the map lives as long as either."""
    with file.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    return mapped, np.frombuffer(mapped, dtype, math.prod(shape), offset).reshape(shape)


def file_identity(file: Path) -> str:
    """Return what tells a file from another and from its former self: path, size, time of change."""
    facts = file.stat()
    return f"{file.resolve()} {facts.st_size} {facts.st_mtime_ns}"


def spec_of(shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any], pixel_format: str | None) -> FrameSpec:
    """Return the spec of planes of `shapes`; one plane's format is guessed where `pixel_format` is None."""
    if pixel_format:
        rows, columns = (*shapes[0], 0, 0)[:2]
        spec = FrameSpec.picture(rows, columns, pixel_format)
        if spec.shapes != tuple(shapes) or spec.dtype != dtype:
            raise FrameError(
                f"{pixel_format} frames have planes {spec.shapes} of {spec.dtype}: got {tuple(shapes)} of {dtype}",
                expected=spec.shapes,
                got=tuple(shapes),
            )
        return spec
    if len(shapes) == 1 and pixel_format is None:
        return FrameSpec.array(tuple(shapes[0]), dtype)
    return FrameSpec(tuple(tuple(shape) for shape in shapes), dtype)


def timed(spec: FrameSpec, rate: Any, time_base: Any, *, has_pts: bool) -> FrameSpec:
    """Return `spec` with a time base and a rate, by the rule of `ArraySource`."""
    exact = exact_rate(rate) if rate is not None else None
    if exact is None and spec.is_picture and not has_pts and time_base is None:
        exact = PICTURES_A_SECOND
    base = Fraction(time_base) if time_base is not None else (1 / exact if exact else Fraction(1))
    return spec.replace(rate=exact, time_base=base)


def checked_indices(indices: Sequence[int], num_frames: int, name: str) -> Array:
    """Return `indices` as int64; a FrameError names the first one that is not a frame."""
    wanted = positions(indices)
    outside = wanted[(wanted < 0) | (wanted >= num_frames)]
    if outside.size:
        raise FrameError(
            f"{name} has no frame {outside[0]}: it has {num_frames} frames, counted from 0",
            expected=num_frames,
            got=int(outside[0]),
        )
    return wanted


def _usable(given: Any, name: str) -> Array:
    array: Array = np.asarray(given)
    if array.ndim == 0:
        raise FrameError(f"{name} must have frames along its first axis: got a single number", got=())
    if array.dtype.kind not in NUMBER_KINDS:
        raise FrameError(f"{name} must hold numbers: got dtype {array.dtype}", got=array.dtype)
    return array


def _check_planes(planes: tuple[Array, ...], spec: FrameSpec, name: str) -> None:
    got = tuple(plane.shape[1:] for plane in planes)
    if got != spec.shapes or any(plane.dtype.newbyteorder("=") != spec.dtype for plane in planes):
        dtypes = ", ".join(sorted({str(plane.dtype) for plane in planes}))
        raise FrameError(
            f"planes of {name} must be {spec.shapes} of {spec.dtype}: got {got} of {dtypes}",
            expected=spec.shapes,
            got=got,
        )


def _checked_pts(pts: Any, num_frames: int, name: str) -> Array:
    if pts is None:
        return np.arange(num_frames, dtype=np.int64)
    times = np.asarray(pts)
    if times.dtype.kind not in "iu" and times.size:
        raise FrameError(
            f"pts of {name} must be integers: got {times.dtype}",
            got=times.dtype,
            hint="Give ticks and the length of a tick: pts=[0, 40, 80], time_base='1/1000'.",
        )
    if times.shape != (num_frames,):
        raise FrameError(
            f"pts of {name} must have one time per frame: expected shape ({num_frames},), got {times.shape}",
            expected=(num_frames,),
            got=times.shape,
        )
    times = times.astype(np.int64)
    falls = np.flatnonzero(np.diff(times) < 0)
    if falls.size:
        index = int(falls[0]) + 1
        raise FrameError(
            f"pts of {name} must ascend: expected at least {times[index - 1]}, got {times[index]} in frame {index}",
            index=index,
        )
    return times


def described(empty: ArraySource, options: dict[str, Any], num_frames: int, name: str) -> tuple[FrameSpec, Array]:
    """Return the spec that `empty` found for the options, and the times of `num_frames` frames."""
    spec = empty.spec
    if options.get("pts") is not None and "rate" not in options and "time_base" not in options:
        spec = spec.replace(rate=None, time_base=Fraction(1))
    return spec, _checked_pts(options.get("pts"), num_frames, name)


def without_pts(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != "pts"}


def run_length(spec: FrameSpec, run_bytes: int = 4 << 20) -> int:
    return max(1, run_bytes // max(1, spec.nbytes))


def _shape(text: Any, name: str) -> tuple[int, ...]:
    try:
        shape = tuple(text) if not isinstance(text, str) else tuple(int(side) for side in text.split(",") if side)
    except ValueError:
        shape = (0,)
    if any(side < 1 for side in shape):
        raise SourceError(f"a shape is positive sides with commas between: got {text!r} in {name}", source=name)
    return shape


def _offset(text: Any, name: str) -> int:
    try:
        offset = int(text)
    except ValueError:
        offset = -1
    if offset < 0:
        raise SourceError(f"offset of {name} is a number of bytes: got {text!r}", source=name)
    return offset


def _sample_dtype(dtype: Any, name: str) -> np.dtype[Any]:
    try:
        sample: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        sample = np.dtype(object)
    if sample.kind not in NUMBER_KINDS:
        raise SourceError(
            f"raw source {name} has no dtype {dtype!r}", source=name, hint="Write uint8, <u2, float32, ..."
        )
    return sample
