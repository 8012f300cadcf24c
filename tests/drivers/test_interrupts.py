"""Ctrl-C is held back while a run begins, so that it always finds something to cancel."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.drivers.engine import Engine
from hyperframes.drivers.interrupts import interrupts_apart, interrupts_held


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_arrives_when_the_block_ends():
    reached = []

    def block():
        with interrupts_held():
            press_ctrl_c()
            reached.append("the end of the block")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert reached == ["the end of the block"]


def test_without_an_interrupt_nothing_happens_and_the_handler_is_back():
    before = signal.getsignal(signal.SIGINT)
    with interrupts_held():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_in_the_block_comes_first():
    before = signal.getsignal(signal.SIGINT)

    def block():
        with interrupts_held():
            press_ctrl_c()
            raise ValueError("broken")

    with pytest.raises(ValueError, match=r"^broken$"):
        block()
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_the_handler_alone():
    seen = []

    def elsewhere():
        with interrupts_held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_ctrl_c_while_a_run_begins_leaves_nothing_but_what_a_resumed_run_takes_up(monkeypatch, tmp_path):
    """The moment between opening the sinks and the handle being there."""
    made = Engine._make_pools

    def interrupted(engine):
        press_ctrl_c()
        made(engine)

    monkeypatch.setattr(Engine, "_make_pools", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hf.run(np.zeros((4_000, 32, 32), np.uint8), "temporal_mean:radius=2", to=tmp_path / "out.npy", size=4)
    assert {path.name for path in tmp_path.iterdir()} in (set(), {".out.npy.part", ".out.npy.journal"})


def test_an_interrupt_right_after_another_is_the_same_one(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    came = []

    def press(seconds_later):
        now[0] += seconds_later
        try:
            press_ctrl_c()
        except KeyboardInterrupt:
            came.append(round(now[0] - 100, 1))

    with interrupts_apart():
        for later in (0.0, 0.1, 0.1, 5.0, 0.2):
            press(later)
    press(0.0)
    assert came == [0.0, 5.2, 5.4]
