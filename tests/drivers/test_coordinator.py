"""Calls of many threads, carried out one after the other by whoever brings them."""

import threading

import pytest

from hyperframes.clock import ManualClock
from hyperframes.drivers.coordinator import AT_ONCE, Coordinator


def make(look_around=lambda now: now, failed=None):
    errors = []
    coordinator = Coordinator(ManualClock().now_ns, look_around, lambda: True, failed or errors.append)
    return coordinator, errors


@pytest.mark.requirement("A80")
def test_whoever_attends_carries_out_what_was_brought_in_order():
    coordinator, done = make()[0], []
    for number in range(5):
        coordinator.bring(lambda n=number: done.append(n))
    assert done == []
    coordinator.attend()
    assert done == list(range(5))


def test_a_call_that_brings_another_does_not_run_it_inside_itself():
    coordinator, done = make()[0], []

    def first():
        coordinator.bring(lambda: done.append("second"))
        coordinator.attend()
        done.append("first")

    coordinator.bring(first)
    coordinator.attend()
    assert done == ["first", "second"]


def test_calls_of_many_threads_never_overlap_and_none_is_lost():
    coordinator, _ = make()
    done, inside, overlaps = [], [0], []

    def call(who, number):
        inside[0] += 1
        overlaps.append(inside[0] > 1)
        done.append((who, number))
        inside[0] -= 1

    def bring(who):
        for number in range(300):
            coordinator.bring(lambda n=number: call(who, n))
            coordinator.attend()

    threads = [threading.Thread(target=bring, args=(who,)) for who in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(overlaps)
    assert len(done) == 6 * 300
    for who in range(6):
        assert [number for by, number in done if by == who] == list(range(300))


def test_who_brings_frames_leaves_a_long_line_to_the_coordinating_thread():
    coordinator, done = make()[0], []
    for number in range(3 * AT_ONCE):
        coordinator.bring(lambda n=number: done.append(n))
    coordinator.attend()
    assert len(done) == AT_ONCE
    coordinator.turn(wait=True)  # it was called
    assert done == list(range(3 * AT_ONCE))


def test_a_bug_in_a_call_or_in_looking_around_is_told_and_the_others_are_carried_out():
    def look_around(now):
        raise ZeroDivisionError

    coordinator, errors = make(look_around)
    done = []
    coordinator.bring(lambda: {}["missing"])
    coordinator.bring(lambda: done.append(1))
    assert coordinator.turn(wait=False)
    assert [type(error) for error in errors] == [KeyError, ZeroDivisionError]
    assert done == [1]
