"""The lock that is only taken by a thread that runs."""

import threading

from hyperframes.drivers.awake_lock import AwakeLock


def test_one_thread_at_a_time_holds_it():
    lock, inside, most, count = AwakeLock(), [0], [0], [0]

    def enter():
        for _ in range(300):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                count[0] += 1
                inside[0] -= 1

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], count[0]) == (1, 2400)


def test_who_does_not_wait_is_told_that_it_is_taken():
    lock = AwakeLock()
    assert lock.acquire(blocking=False)
    assert not lock.acquire(blocking=False)
    lock.release()
    with lock:
        assert not lock.acquire(blocking=False)
    assert lock.acquire()


def test_a_waiter_has_it_once_it_is_released():
    lock, got = AwakeLock(), threading.Event()
    lock.acquire()
    waiter = threading.Thread(target=lambda: (lock.acquire(), got.set()))
    waiter.start()
    assert not got.is_set()
    lock.release()
    waiter.join(10)
    assert got.is_set()
