"""What a sink must keep to, as tests that its author subclasses. Needs pytest."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pytest

from hyperframes.errors import SinkError
from hyperframes.frames import Clip, Field, FrameSpec, Records, RecordSpec
from hyperframes.sinks.base import Sink, Target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hyperframes.frames import Spec

__all__ = ["SinkSuite", "clip_like", "deliver", "records_like", "target_for"]

Kind = Literal["frames", "records", "windows", "spans"]


def clip_like(spec: FrameSpec, num_frames: int, seed: int = 0) -> Clip:
    """Return a clip of random values: whole range of whole numbers, [0, 1) of floats."""
    random = np.random.default_rng(seed)
    planes = []
    for shape in spec.shapes:
        if spec.dtype.kind in "iu":
            most = (1 << _bits(spec)) - 1 if spec.is_picture else int(np.iinfo(spec.dtype).max)
            values = random.integers(0, most, (num_frames, *shape), dtype=spec.dtype, endpoint=True)
        else:
            values = random.random((num_frames, *shape)).astype(spec.dtype)
        planes.append(values)
    index = np.arange(num_frames, dtype=np.int64)
    return Clip(tuple(planes), index * 3, index, spec)


def _bits(spec: FrameSpec) -> int:
    from hyperframes.frames import PIXEL_FORMATS

    return PIXEL_FORMATS[spec.pixel_format].bits


def records_like(spec: RecordSpec, num_rows: int, *, spans: bool = False, seed: int = 0) -> Records:
    """Return records of random values, two rows for every other frame."""
    random = np.random.default_rng(seed)
    columns = {f.name: (100 * random.random((num_rows, *f.shape))).astype(f.dtype) for f in spec.fields}
    index = np.arange(num_rows, dtype=np.int64) * 2 // 3
    return Records(columns, index, index * 3, spec, index + 2 if spans else None)


def target_for(spec: Spec, kind: Kind = "frames", *, num_frames: int | None = None, size: int = 4) -> Target:
    """Return what a driver tells a sink."""
    return Target("output", kind, spec, num_frames, size=size)


def deliver(sink: Sink, target: Target, result: Clip | Records, sizes: Sequence[int]) -> str | None:
    """Open, write `result` in pieces of `sizes` (the last one repeats) and close, with arrays lent as a driver lends them."""
    sink.open(target)
    start, sizes = 0, list(sizes)
    while start < len(result):
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        piece = part_of(result, start, min(start + size, len(result)))
        sink.write(piece)
        _spoil(piece)
        start += size
    return sink.close()


def part_of(result: Clip | Records, start: int, stop: int) -> Any:
    """Return copies of the results [start, stop)."""

    def cut(array: Any) -> Any:
        return None if array is None else array[start:stop].copy()

    if isinstance(result, Clip):
        planes = tuple(map(cut, result.planes))
        return Clip(planes, cut(result.pts), cut(result.index), result.spec, cut(result.durations), cut(result.mask))
    columns = {name: cut(column) for name, column in result.columns.items()}
    return Records(columns, cut(result.index), cut(result.pts), result.spec, cut(result.stop))


def _spoil(piece: Clip | Records) -> None:
    """Overwrite lent arrays, as the next hyperframe does."""
    arrays = piece.planes if isinstance(piece, Clip) else tuple(piece.columns.values())
    for array in arrays:
        array[...] = 0 if array.dtype.kind in "fOU" else 77


class SinkSuite(ABC):
    """Subclass as ``class TestMySink(SinkSuite)`` and say how to make one, what it takes and how to read it back."""

    targets: ClassVar[tuple[tuple[Spec, Kind], ...]]
    """Specs and kinds it takes."""
    refused: ClassVar[tuple[tuple[Spec, Kind], ...]] = ()
    """Specs and kinds it refuses."""

    @abstractmethod
    def sink(self, folder: Path) -> Sink:
        """Return a new sink that writes in `folder`."""

    def final(self, folder: Path) -> Path | None:
        """Return the final name; None where nothing is written to disk."""
        return None

    @abstractmethod
    def check(self, sink: Sink, folder: Path, result: Clip | Records) -> None:
        """Assert that what stands there now is `result`."""

    def failed_as(self, result: Clip) -> Clip:
        """Return what is written of a clip with failed frames: without them, or with zeros."""
        from hyperframes.sinks.failed import without_failed

        return without_failed(result)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return an empty folder."""
        return tmp_path

    @pytest.mark.parametrize("sizes", [(4,), (1,), (3, 1, 5), (100,)], ids=str)
    def test_what_is_written_comes_back_however_it_is_cut(self, folder: Path, sizes: tuple[int, ...]) -> None:
        for number, (spec, kind) in enumerate(self.targets):
            place = folder / str(number)
            place.mkdir()
            result = self.result(spec, kind, 10)
            sink = self.sink(place)
            deliver(sink, target_for(spec, kind), result, sizes)
            self.check(sink, place, result)

    @pytest.mark.parametrize("expected", [None, 3, 10, 30])
    def test_the_expected_number_is_only_a_hint(self, folder: Path, expected: int | None) -> None:
        spec, kind = self.targets[0]
        result = self.result(spec, kind, 10)
        sink = self.sink(folder)
        deliver(sink, target_for(spec, kind, num_frames=expected), result, (4,))
        self.check(sink, folder, result)

    @pytest.mark.parametrize("length", [0, 1])
    def test_none_and_one_are_written_like_many(self, folder: Path, length: int) -> None:
        for number, (spec, kind) in enumerate(self.targets):
            place = folder / str(number)
            place.mkdir()
            result = self.result(spec, kind, length)
            sink = self.sink(place)
            deliver(sink, target_for(spec, kind), result, (4,))
            self.check(sink, place, result)

    def test_frames_that_failed_are_stood_in_for_or_left_out(self, folder: Path) -> None:
        spec, kind = self.targets[0]
        if not isinstance(spec, FrameSpec):
            return
        clip = self.result(spec, kind, 6)
        mask = np.array([True, False, True, True, False, False])
        result = Clip(clip.planes, clip.pts, clip.index, spec, None, mask)
        sink = self.sink(folder)
        deliver(sink, target_for(spec, kind), result, (4,))
        self.check(sink, folder, self.failed_as(result))

    def test_nothing_stands_under_the_final_name_before_the_end(self, folder: Path) -> None:
        spec, kind = self.targets[0]
        sink, final = self.sink(folder), self.final(folder)
        sink.open(target_for(spec, kind))
        sink.write(self.result(spec, kind, 5))
        assert final is None or not final.exists()
        returned = sink.close()
        if final is not None:
            assert final.exists()
            assert returned == sink.name
            assert [path.name for path in folder.iterdir()] == [final.name]

    def test_what_is_given_up_leaves_nothing(self, folder: Path) -> None:
        spec, kind = self.targets[0]
        sink = self.sink(folder)
        sink.open(target_for(spec, kind))
        sink.write(self.result(spec, kind, 5))
        sink.abort()
        sink.abort()
        assert list(folder.iterdir()) == []

    def test_what_follows_a_checkpoint_is_forgotten_by_the_sink_that_resumes(self, folder: Path) -> None:
        for number, (spec, kind) in enumerate(self.targets):
            place = folder / str(number)
            place.mkdir()
            result, target = self.result(spec, kind, 20), dataclasses.replace(target_for(spec, kind), journaled=True)
            sink = self.sink(place)
            if not sink.resumable:
                return
            sink.open(target)
            for start, stop in ((0, 4), (4, 6), (6, 11)):
                sink.write(part_of(result, start, stop))
                if stop == 6:
                    mark = sink.checkpoint()
            sink.abort(keep_parts=True)
            resumed = self.sink(place)
            found = resumed.resume(target, mark.token)
            assert found == mark
            position = 6 if mark.wanted is None else mark.wanted
            for start, stop in ((position, 13), (13, 20)):
                resumed.write(part_of(result, start, stop))
                resumed.checkpoint()
            resumed.close()
            self.check(resumed, place, result)
            if (final := self.final(place)) is not None:
                assert [path.name for path in place.iterdir()] == [final.name]

    def test_what_is_gone_cannot_be_resumed(self, folder: Path) -> None:
        spec, kind = self.targets[0]
        target = dataclasses.replace(target_for(spec, kind), journaled=True)
        sink = self.sink(folder)
        if not sink.resumable or sink.place() is None:
            return
        sink.open(target)
        sink.write(part_of(self.result(spec, kind, 8), 0, 8))
        mark = sink.checkpoint()
        sink.abort()
        assert self.sink(folder).resume(target, mark.token) is None
        assert list(folder.iterdir()) == []

    def test_giving_up_before_opening_is_safe(self, folder: Path) -> None:
        self.sink(folder).abort()
        assert list(folder.iterdir()) == []

    def test_what_it_cannot_take_is_refused_with_a_hint(self, folder: Path) -> None:
        for spec, kind in self.refused:
            sink = self.sink(folder)
            with pytest.raises(SinkError) as caught:
                sink.open(target_for(spec, kind))
            sink.abort()
            assert caught.value.hint
            assert list(folder.iterdir()) == []

    def result(self, spec: Spec, kind: Kind, length: int) -> Any:
        """Return results of `spec` to write."""
        if isinstance(spec, FrameSpec):
            return clip_like(spec, length)
        return records_like(spec, length, spans=kind == "spans")


DETECTIONS = RecordSpec(
    (Field("score", np.dtype("f4")), Field("label", np.dtype("i4")), Field("box", np.dtype("f8"), (4,))),
    Fraction(1, 25),
)
"""Records for tests: a number, a whole number and a vector."""
