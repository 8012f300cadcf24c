"""What a source must keep to, as tests that its author subclasses. Needs pytest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

from hyperframes.errors import FrameError

if TYPE_CHECKING:
    from pathlib import Path

    from hyperframes.frames import Array, Frame
    from hyperframes.sources import Source

__all__ = ["SourceSuite"]


class SourceSuite(ABC):
    """Subclass as ``class TestMySource(SourceSuite)`` and say how to open one source of at least 3 frames.

    The source must end by itself and give the same frames whenever it is opened.
    """

    rereadable: ClassVar[bool] = True
    """Whether it can be read more than once; False for pipes."""

    @abstractmethod
    def opened(self, folder: Path) -> Source:
        """Return the source, open; `folder` is empty at first, kept between calls of one test, and may be written to."""

    def expected(self) -> tuple[Array, ...] | None:
        """Return the planes (N, ...) that must come out; None where only the author's own tests know."""
        return None

    @pytest.fixture
    def source(self, tmp_path: Path) -> Source:
        """Return one open source."""
        return self.opened(tmp_path)

    def test_every_frame_is_as_the_spec_says(self, source: Source) -> None:
        with source:
            for frame in source.read():
                assert tuple(plane.shape for plane in frame.planes) == source.spec.shapes
                assert {plane.dtype for plane in frame.planes} == {source.spec.dtype}
                assert all(isinstance(plane, np.ndarray) for plane in frame.planes)

    def test_frames_come_in_order_of_position_and_time(self, source: Source) -> None:
        with source:
            taken = [(frame.index, frame.pts) for frame in source.read()]
        assert [index for index, _ in taken] == list(range(len(taken)))
        assert len(taken) >= 3
        assert [pts for _, pts in taken] == sorted(pts for _, pts in taken)

    def test_the_frames_are_the_expected_ones(self, source: Source) -> None:
        with source:
            expected = self.expected()
            held = _planes(source)
        if expected is None:
            assert all(len(plane) for plane in held)
            return
        assert len(held) == len(expected)
        for got, wanted in zip(held, expected, strict=True):
            np.testing.assert_array_equal(got, wanted)

    def test_a_second_reading_gives_the_same_frames(self, source: Source, tmp_path: Path) -> None:
        with source:
            first = _planes(source)
            again = _planes(source) if self.rereadable else _planes(self.opened(tmp_path))
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_a_range_equals_that_slice_of_the_whole(self, source: Source) -> None:
        if not self.rereadable:
            return
        with source:
            whole = _frames(source)
            total = len(whole)
            for start, stop in (
                (0, None),
                (1, None),
                (1, 2),
                (total - 1, total),
                (0, total + 5),
                (total, None),
                (2, 2),
            ):
                part = [(frame.index, frame.pts) for frame in source.read(start, stop)]
                assert part == [(frame.index, frame.pts) for frame in whole[start:stop]]
            second = next(iter(source.read(1)))
            for got, wanted in zip(second.planes, whole[1].planes, strict=True):
                np.testing.assert_array_equal(got, wanted)

    def test_frames_by_position_come_in_the_order_asked_for_and_own_their_arrays(self, source: Source) -> None:
        if not self.rereadable:
            return
        with source:
            whole = _planes(source)
            wanted = [2, 0, 0, len(whole[0]) - 1]
            clip = source.frames(wanted)
            assert clip.index.tolist() == wanted
            assert clip.pts.tolist() == source.times()[wanted].tolist()
            for got, plane in zip(clip.planes, whole, strict=True):
                np.testing.assert_array_equal(got, plane[wanted])
                got[...] = 0  # arrays of its own: writable, and the source does not see it
            for got, wanted_plane in zip(source.frames([2]).planes, whole, strict=True):
                np.testing.assert_array_equal(got[0], wanted_plane[2])

    def test_a_position_beyond_the_end_is_an_error(self, source: Source) -> None:
        if not self.rereadable:
            return
        with source:
            total = source.count()
            with pytest.raises(FrameError, match=rf"has no frame {total}"):
                source.frames([total])

    def test_count_and_times_agree_with_what_is_read(self, source: Source) -> None:
        if not self.rereadable:
            return
        with source:
            pts = [frame.pts for frame in source.read()]
            assert source.count() == len(pts)
            assert source.times().tolist() == pts
            assert source.times().dtype == np.int64
            if source.exact:
                assert source.num_frames == len(pts)

    def test_arrays_hold_what_is_read(self, source: Source) -> None:
        if not self.rereadable:
            return
        with source:
            whole, times = _planes(source), source.times()
            held = source.arrays()
            if held is None:
                return
            for got, wanted in zip(held[0], whole, strict=True):
                np.testing.assert_array_equal(got, wanted)
                assert got.flags.c_contiguous
            np.testing.assert_array_equal(held[1], times)

    def test_hyperframes_own_every_frame_once(self, source: Source, tmp_path: Path) -> None:
        with source:
            whole = _planes(source)
        again = self.opened(tmp_path)
        with again:
            cores = [
                [plane[h.core].copy() for plane in h.planes]
                for h in again.hyperframes(size=2, halo=1, boundary="reflect")
            ]
        for i, plane in enumerate(whole):
            np.testing.assert_array_equal(np.concatenate([core[i] for core in cores]), plane)

    def test_a_reading_that_is_given_up_can_be_closed_and_closing_twice_is_safe(self, source: Source) -> None:
        reading = source.read()
        next(iter(reading))
        source.close()
        source.close()

    def test_the_identity_is_the_same_for_the_same_input(self, source: Source, tmp_path: Path) -> None:
        with source, self.opened(tmp_path) as other:
            assert source.identity() == other.identity() != ""


def _frames(source: Source) -> list[Frame]:
    """Return all frames with arrays of their own: those that `read` lends are overwritten."""
    frames = []
    for frame in source.read():
        frame.planes = tuple(plane.copy() for plane in frame.planes)
        frames.append(frame)
    return frames


def _planes(source: Source) -> tuple[Array, ...]:
    frames = _frames(source)
    return tuple(np.stack([frame.planes[i] for frame in frames]) for i in range(len(source.spec.shapes)))
