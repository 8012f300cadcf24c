"""When a live stream is stale, when it is lost, and how long to wait before trying again: pure decisions."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.sources.patience import Backoff, FrameAge, Patience

MS = 1_000_000
SECOND = 1_000 * MS


def _fed(age, count, period_ns, start_ns=0):
    for i in range(count):
        age.frame(start_ns + i * period_ns)
    return age


def test_a_stream_is_stale_after_three_periods_and_lost_after_one_and_a_half_seconds():
    age = _fed(FrameAge(Patience(), 0, Fraction(30)), 10, 33 * MS)
    last = 9 * 33 * MS
    assert age.judge(last + 99 * MS) == "fresh"
    assert age.judge(last + 101 * MS) == "stale"
    assert age.judge(last + 1500 * MS) == "stale"
    assert age.judge(last + 1501 * MS) == "lost"


def test_without_a_nominal_rate_the_period_is_what_the_frames_show():
    age = FrameAge(Patience(), 0)
    assert age.period_ns() is None
    _fed(age, 5, 400 * MS, 1000 * MS)
    assert age.period_ns() == 400 * MS
    assert age.judge(2600 * MS + 1201 * MS) == "stale"


def test_a_slow_stream_is_lost_after_five_of_its_periods():
    age = _fed(FrameAge(Patience(), 0), 3, 10 * SECOND)
    assert age.judge(20 * SECOND + 49 * SECOND) == "stale"
    assert age.judge(20 * SECOND + 51 * SECOND) == "lost"


def test_the_first_frame_may_take_as_long_as_a_group_of_pictures():
    age = FrameAge(Patience(), 0, Fraction(30))
    assert age.judge(14 * SECOND) == "fresh"
    assert age.judge(16 * SECOND) == "lost"


def test_doubt_doubles_the_time_to_be_lost_up_to_a_minute():
    limits = [_fed(FrameAge(Patience(), 0, None, doubt), 1, 0).limit_ns() for doubt in range(8)]
    assert limits[:4] == [1500 * MS, 3 * SECOND, 6 * SECOND, 12 * SECOND]
    assert limits[-1] == 60 * SECOND


def test_a_connection_is_good_after_a_second_of_frames():
    assert not _fed(FrameAge(Patience(), 0), 29, 33 * MS).good
    assert _fed(FrameAge(Patience(), 0), 30, 33 * MS).good


@given(st.lists(st.integers(0, 5 * SECOND), min_size=1, max_size=20), st.integers(0, 100 * SECOND))
def test_age_grows_with_time_and_staleness_never_turns_back_without_a_frame(gaps, later):
    age, now = FrameAge(Patience(), 0), 0
    for gap in gaps:
        now += gap
        age.frame(now)
    order = ("fresh", "stale", "lost")
    verdicts = [order.index(age.judge(now + later * k // 10)) for k in range(11)]
    assert verdicts == sorted(verdicts)
    assert age.age_ns(now + later) == later


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_waits_double_up_to_a_limit_and_are_jittered_by_half(seed, tries):
    backoff = Backoff(random.Random(seed), first=0.2, longest=5)
    waits = [backoff.next() for _ in range(tries)]
    for i, wait in enumerate(waits):
        full = min(5.0, 0.2 * 2.0**i)
        assert full / 2 <= wait <= full
    backoff.reset()
    assert backoff.next() <= 0.2


def test_cameras_that_fail_together_do_not_try_again_together():
    waits = {Backoff(random.Random(seed)).next() for seed in range(48)}
    assert len(waits) == 48
    assert max(waits) - min(waits) == pytest.approx(0.1, rel=0.2)
