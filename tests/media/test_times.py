"""Repaired presentation times."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hyperframes.media.times import Repair

_TICKS = st.none() | st.integers(-1000, 1000)


def _repaired(pts, dts=None, step=10):
    repair = Repair(step)
    return [
        repair(p, d, n) for p, d, n in zip(pts, dts or [None] * len(pts), [*pts[1:], None], strict=True)
    ], repair.repaired


def test_times_in_order_are_kept_whatever_their_gaps():
    pts = [-30, 0, 1, 500, 510]
    assert _repaired(pts) == (pts, 0)


def test_missing_times_come_from_dts_and_else_from_the_rate():
    assert _repaired([None, None, None], [5, 15, 25])[0] == [5, 15, 25]
    assert _repaired([None, None, None])[0] == [0, 10, 20]
    assert _repaired([7, None, None, 40])[0] == [7, 17, 27, 40]


def test_times_out_of_order_give_way_to_dts_as_in_ffmpeg():
    # Decoder output of an AVI file with two B-frames, whose demuxer guesses pts; expected: ffprobe 5.1.9.
    pts, dts = [1, 2, 4, 3, 5, 7, 6, 8], [1, 2, 3, 4, 5, 6, 7, 8]
    assert _repaired(pts, dts, step=1) == ([1, 2, 3, 4, 5, 6, 7, 8], 4)


def test_a_doubled_time_moves_by_one_tick_and_leaves_the_others_alone():
    assert _repaired([0, 10, 10, 20]) == ([0, 10, 11, 20], 1)


def test_a_clock_that_was_reset_goes_on_where_it_stopped():
    assert _repaired([1000, 1010, 1020, 0, 10, 25])[0] == [1000, 1010, 1020, 1030, 1040, 1055]


@given(st.lists(st.tuples(_TICKS, _TICKS)))
def test_times_always_grow(pairs):
    repair = Repair(4)
    times = [repair(pts, dts) for pts, dts in pairs]
    assert all(a < b for a, b in pairwise(times))
