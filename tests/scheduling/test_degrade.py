"""The ladder: one step down when the queue stays full, one up when it stays empty, slower after each relapse."""

import pytest

from hyperframes.scheduling.degrade import RUNGS, Ladder

MS = 1_000_000


def levels(ladder, shares, *, begin=0, step=50 * MS):
    return [ladder.look(share, begin + i * step) for i, share in enumerate(shares)]


@pytest.mark.requirement("B42", "X17")
def test_it_steps_down_while_the_queue_stays_full_and_stops_at_the_last_rung():
    found = levels(Ladder(), [1.0] * 40)
    assert found[:4] == [0] * 4
    assert sorted(set(found)) == [0, 1, 2, 3] == list(range(len(RUNGS)))


def test_a_queue_that_was_full_for_a_moment_changes_nothing():
    assert levels(Ladder(), [1.0, 1.0, 0.2, 1.0, 1.0, 0.2] * 5) == [0] * 30


def test_a_queue_that_overflows_now_and_then_is_full_however_it_looks_in_between():
    ladder = Ladder()
    found = [ladder.look(0.5, (1000 + i * 50) * MS, overflowed=i % 3 == 0) for i in range(8)]
    assert (found[3], found[4]) == (0, 1)


@pytest.mark.requirement("C111")
def test_it_steps_up_one_rung_at_a_time_and_is_up_again_within_2_s_of_calm():
    ladder = Ladder()
    levels(ladder, [1.0] * 40)
    found = levels(ladder, [0.0] * 40, begin=10_000 * MS)  # every 50 ms
    assert found == [3] * 12 + [2] * 12 + [1] * 12 + [0] * 4


@pytest.mark.requirement("C111")
def test_a_relapse_makes_it_wait_longer_before_the_next_step_up():
    ladder = Ladder()
    now = 0

    def until(share, level):
        nonlocal now
        began = now
        while ladder.look(share, now) != level:
            now += 50 * MS
        return (now - began) / 1e9

    until(1.0, 1)
    first = until(0.0, 0)
    until(1.0, 1)
    second = until(0.0, 0)
    assert second >= 1.8 * first
