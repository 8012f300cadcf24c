"""Where writers wait for memory: every one of them gets to look, one after the other."""

import signal
import threading

import pytest

from hyperframes.drivers.room import Room


def _waiting(room, number, *, looks=1):
    """Start `number` more writers that look for room `looks` times; return their threads once all of them wait."""
    before = len(room._waiting)
    seen = [threading.Event() for _ in range(number)]

    def wait(begun):
        for _ in range(looks):
            count = room.count
            begun.set()
            room.wait(count)

    threads = [threading.Thread(target=wait, args=(begun,), daemon=True) for begun in seen]
    for thread, begun in zip(threads, seen, strict=True):
        thread.start()
        assert begun.wait(10)
    while len(room._waiting) < before + number:
        threading.Event().wait(0.001)
    return threads


@pytest.mark.parametrize("number", [1, 2, 40])
def test_memory_given_back_once_lets_every_writer_look_once(number):
    room = Room()
    threads = _waiting(room, number, looks=2)
    room.freed()
    while len(room._waiting) < number or any(seen < 1 for seen, _ in room._waiting):
        threading.Event().wait(0.001)
    assert all(thread.is_alive() for thread in threads), "each looks once, and then waits for more"
    room.freed()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_nobody_waits_for_memory_that_was_given_back_since_the_last_look():
    room = Room()
    room.freed()
    room.wait(0)


def test_once_it_is_open_nobody_waits():
    room = Room()
    threads = _waiting(room, 5, looks=3)
    room.open()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    room.wait(room.count)


def test_memory_that_comes_back_all_the_time_leaves_nobody_behind():
    room, left = Room(), threading.Semaphore(0)
    looks = [0] * 8

    def write(number):
        for _ in range(200):
            room.wait(room.count)
            looks[number] += 1
        left.release()

    for number in range(8):
        threading.Thread(target=write, args=(number,), daemon=True).start()
    ended = 0
    while ended < 8:
        room.freed()
        ended += left.acquire(timeout=0.0005)
    assert looks == [200] * 8


def test_a_writer_whose_wait_is_broken_off_leaves_the_others_their_turn():
    room = Room()

    def interrupt(*_):
        raise InterruptedError("broken off")

    def break_off():
        while not room._waiting:
            threading.Event().wait(0.001)
        threads.extend(_waiting(room, 3))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    threads, before = [], signal.signal(signal.SIGUSR1, interrupt)
    helper = threading.Thread(target=break_off)
    try:
        helper.start()
        with pytest.raises(InterruptedError, match="broken off"):
            room.wait(room.count)
    finally:
        signal.signal(signal.SIGUSR1, before)
    helper.join(10)
    room.freed()
    for thread in threads:
        thread.join(10)
    assert len(threads) == 3
    assert not any(thread.is_alive() for thread in threads)
