"""Derivation W1: cores partition the stream, read ranges hold the halo, boundaries map indices."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.reference.padded import padded

from hyperframes.errors import PipelineError
from hyperframes.packing import Boundary, Halo, core_ranges


@pytest.mark.requirement("A39")
@pytest.mark.requirement("A58")
@pytest.mark.requirement("A59")
@given(st.integers(0, 500), st.integers(1, 70), st.integers(0, 80), st.integers(0, 80))
def test_cores_partition_the_stream_and_reads_hold_the_halo(count, size, before, after):
    places = list(core_ranges(count, size, Halo(before, after)))
    owned = [t for place in places for t in range(*place.core)]
    assert owned == list(range(count))
    for i, place in enumerate(places):
        start, stop = place.core
        assert place.index == i
        assert start < stop
        assert start == i * size
        assert place.read == (max(0, start - before), min(count, stop + after))
        assert place.pad_before == max(0, before - start)
        assert place.pad_after == max(0, stop + after - count)
        held = place.read[1] - place.read[0] + place.pad_before + place.pad_after
        assert held == stop - start + before + after


@pytest.mark.requirement("A57")
def test_the_tail_that_left_a_hyperframe_without_output_in_the_source_has_one_here():
    places = list(core_ranges(90, 28, Halo(4, 4)))
    assert [place.core for place in places] == [(0, 28), (28, 56), (56, 84), (84, 90)]


@pytest.mark.requirement("A36")
def test_two_neighbours_share_both_halos():
    first, second = core_ranges(60, 30, Halo(2, 2))
    assert first.read[1] - second.read[0] == 4


@pytest.mark.requirement("A57")
@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_is_refused(size):
    with pytest.raises(
        PipelineError, match=rf"size counts the frames a hyperframe owns: expected at least 1, got {size}"
    ):
        list(core_ranges(10, size, Halo()))


def test_a_negative_halo_is_refused():
    with pytest.raises(PipelineError, match="a halo counts frames: expected 0 or more, got before=-1, after=0"):
        Halo(-1, 0)


@pytest.mark.requirement("A41")
@given(st.integers(1, 30), st.integers(0, 70), st.integers(0, 70), st.sampled_from(["replicate", "reflect"]))
def test_boundaries_map_positions_as_padding_the_whole_sequence_does(count, before, after, mode):
    frames = np.arange(count)[:, None]
    index = Boundary.parse(mode).source_index(np.arange(-before, count + after), count)
    assert index.tolist() == padded(frames, before, after, mode).ravel().tolist()


@pytest.mark.parametrize("mode", ["constant", "none"])
def test_no_real_frame_stands_beyond_the_ends_of_a_constant_boundary(mode):
    assert Boundary.parse(mode).source_index(np.arange(-2, 4), 2).tolist() == [-1, -1, 0, 1, -1, -1]


@pytest.mark.parametrize("text", ["mirror", "reflect:3", ""])
def test_unknown_boundaries_are_refused_with_the_known_ones(text):
    with pytest.raises(PipelineError, match="unknown boundary") as caught:
        Boundary.parse(text)
    assert "replicate, reflect, constant" in caught.value.hint


def test_a_constant_boundary_needs_a_number():
    with pytest.raises(PipelineError, match="boundary 'constant:grey' needs a number after the colon"):
        Boundary.parse("constant:grey")


def test_a_boundary_reads_back_from_its_text():
    for text in ("replicate", "reflect", "constant:16", "none"):
        assert str(Boundary.parse(text)) == text
