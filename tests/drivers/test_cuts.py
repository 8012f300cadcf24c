"""Where runs are cut: every frame in one segment, enough groups of pictures in each, parts and chunks left whole."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.drivers.cuts import MIN_GROUPS, SEGMENTS_A_WORKER, Multiple, place_cuts
from hyperframes.frames import FrameSpec
from hyperframes.plan import Port

SPEC = FrameSpec.array((4, 6), np.uint8)


def port(*rates):
    return Port("out", "frames", SPEC, tuple(Fraction(rate) for rate in rates), 0, None)


EVERY = (Multiple(port(), 1),)


@st.composite
def streams(draw):
    """Return (start, stop) and where groups of pictures start."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=400))
    groups = np.concatenate([[0], np.cumsum(lengths)])
    start = draw(st.integers(0, int(groups[-1]) // 2))
    return (start, draw(st.integers(start, int(groups[-1])))), groups[:-1]


@pytest.mark.requirement("A98")
@given(
    streams(), st.integers(1, 9), st.integers(1, 60), st.sampled_from([(), ("1/3",), (2,), ("2/3", 2)]), st.randoms()
)
def test_cuts_leave_enough_groups_in_each_segment_and_parts_whole(stream, workers, results, rates, random):
    frames, groups = stream
    multiple = Multiple(port(*rates), results)
    tried = {}

    def proven(cut):
        return tried.setdefault(cut, random.random() < 0.7)

    cuts = place_cuts(frames, groups, (multiple,), workers, proven)
    edges = [frames[0], *cuts, frames[1]]
    assert len(cuts) < max(1, SEGMENTS_A_WORKER * workers)
    if cuts:
        assert all(np.count_nonzero((groups >= a) & (groups < b)) >= MIN_GROUPS for a, b in itertools.pairwise(edges))
    for cut in cuts:
        assert tried[cut]
        made = multiple.port.owned((0, cut))[1] - multiple.port.owned((0, frames[0]))[1]
        assert made % results == 0


@given(st.integers(1, 12), st.integers(1, 2000), st.integers(1, 30))
def test_steady_streams_are_cut_into_a_multiple_of_the_workers(workers, count, length):
    groups = np.arange(count) * length
    cuts = place_cuts((0, count * length), groups, EVERY, workers, lambda cut: True)
    segments, room = len(cuts) + 1, count // MIN_GROUPS
    assert segments <= max(1, room)
    if room >= workers:
        assert segments % workers == 0
    lengths = np.diff([0, *cuts, count * length])
    assert lengths.max() - lengths.min() <= length


def test_a_cut_that_cannot_be_proven_moves_to_the_next_group():
    groups = np.arange(0, 1000, 10)
    assert place_cuts((0, 1000), groups, EVERY, 2, lambda cut: True) == [250, 500, 750]
    assert place_cuts((0, 1000), groups, EVERY, 2, lambda cut: cut != 500) == [250, 510, 750]
    assert place_cuts((0, 1000), groups, EVERY, 2, lambda cut: cut < 400) == [250]
    assert place_cuts((0, 1000), groups, EVERY, 2, lambda cut: False) == []


def test_cuts_move_to_where_a_part_ends():
    groups = np.arange(0, 1000, 10)
    assert place_cuts((0, 1000), groups, (Multiple(port(), 7),), 2, lambda cut: True) == [252, 504, 756]
    both = (Multiple(port(), 7), Multiple(port("1/2"), 5))
    assert place_cuts((3, 1000), groups, both, 2, lambda cut: True) == [
        283,
        514,
        773,
    ]  # 280, 511 and 770 after the start
    assert place_cuts((0, 1000), groups, (Multiple(port(), 2000),), 2, lambda cut: True) == []


def test_too_few_groups_are_not_cut():
    assert place_cuts((0, 1000), np.arange(0, 390, 10), EVERY, 4, lambda cut: True) == []
    assert place_cuts((0, 0), np.arange(0), EVERY, 4, lambda cut: True) == []
