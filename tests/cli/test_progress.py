"""Progress on stderr: a bar on a terminal, else a line now and then, and none when asked to be quiet."""

import io
import re
import time
from types import SimpleNamespace

import pytest

from hyperframes.cli import _progress
from hyperframes.cli._progress import Progress, watched
from hyperframes.clock import ManualClock


def begun(total=100):
    clock = ManualClock()
    progress = Progress(clock)
    progress.observe({"kind": "began", "setup": SimpleNamespace(num_frames=total)})
    progress.observe({"kind": "sealed", "core": (0, 10)})
    return clock, progress


def emit(progress, start, stop):
    progress.observe({"kind": "emitted", "core": (start, stop), "whole": True})


def test_the_line_has_frames_rate_time_left_and_dropped():
    clock, progress = begun()
    clock.advance(2)
    emit(progress, 0, 20)
    assert progress.line() == "20 of 100 frames, 10.0 frames/s, 0:08 left, 0 dropped"


def test_time_left_is_only_told_where_the_length_is_known():
    clock, progress = begun(total=None)
    clock.advance(2)
    emit(progress, 0, 20)
    assert progress.line() == "20 frames, 10.0 frames/s, 0 dropped"


def test_long_times_are_told_in_hours():
    clock, progress = begun(total=80_000)
    clock.advance(1)
    emit(progress, 0, 20)
    assert "1:06:39 left" in progress.line()


def test_before_the_first_frame_it_is_preparing():
    assert Progress(ManualClock()).line() == "preparing"


def test_hyperframes_given_up_are_counted_as_dropped_and_not_as_frames():
    clock, progress = begun()
    clock.advance(1)
    progress.observe({"kind": "dropped", "core": (0, 10), "reason": "failed"})
    progress.observe({"kind": "emitted", "core": (0, 10), "whole": False})
    assert progress.line() == "0 of 100 frames, 0.0 frames/s, 10 dropped"


def test_a_second_run_under_the_same_bar_starts_from_nothing():
    clock, progress = begun()
    emit(progress, 0, 100)
    progress.observe({"kind": "began", "setup": SimpleNamespace(num_frames=50)})
    assert progress.line() == "preparing"
    progress.observe({"kind": "sealed", "core": (0, 10)})
    clock.advance(1)
    emit(progress, 0, 10)
    assert progress.line().startswith("10 of 50 frames")


def test_quiet_means_no_instrument_and_no_word():
    stream = io.StringIO()
    with watched(quiet=True, stream=stream) as instruments:
        assert instruments == ()
    assert stream.getvalue() == ""


def test_where_there_is_no_terminal_a_plain_line_comes_now_and_then(monkeypatch):
    monkeypatch.setattr(_progress, "LINE_SECONDS", 0.01)
    stream = io.StringIO()
    with watched(quiet=False, name="check", stream=stream) as (progress, _):
        wait_for_lines(stream, 1)
        time.sleep(0.1)  # ten more times to say it
        assert stream.getvalue() == "check: preparing\n"
        progress.observe({"kind": "began", "setup": SimpleNamespace(num_frames=50)})
        progress.observe({"kind": "sealed", "core": (0, 10)})
        emit(progress, 0, 10)
        wait_for_lines(stream, 3)
    assert re.fullmatch(r"check: preparing\n(check: 10 of 50 frames, .*\n){2,}", stream.getvalue())


def wait_for_lines(stream, count):
    deadline = time.monotonic() + 10
    while stream.getvalue().count("\n") < count and time.monotonic() < deadline:
        time.sleep(0.005)


def test_a_short_run_says_nothing_where_there_is_no_terminal():
    stream = io.StringIO()
    with watched(quiet=False, stream=stream) as (progress, _):
        emit(progress, 0, 10)
    assert stream.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_on_a_terminal_there_is_a_bar_that_goes_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with watched(quiet=False, name="run", stream=stream) as (progress, _):
        progress.observe({"kind": "began", "setup": SimpleNamespace(num_frames=20)})
        progress.observe({"kind": "sealed", "core": (0, 10)})
        emit(progress, 0, 10)
        time.sleep(0.2)
    assert "10 of 20 frames" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_kernels_that_take_a_while_to_compile_are_said_once(monkeypatch):
    monkeypatch.setattr(_progress, "COMPILING_SECONDS", 0.01)
    from numba import njit

    @njit
    def kernel(x):
        return x + 1

    stream = io.StringIO()
    with watched(quiet=False, name="check", stream=stream) as instruments:
        for instrument in instruments:
            instrument.observe({"kind": "began", "setup": SimpleNamespace(num_frames=1)})
        kernel(1)
        kernel(1.0)
        deadline = time.monotonic() + 10
        while not stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
    assert stream.getvalue() == "check: compiling kernels (first run only)...\n"


def test_kernels_that_are_compiled_before_the_first_hyperframe_is_done_soon_are_not_said(monkeypatch):
    monkeypatch.setattr(_progress, "COMPILING_SECONDS", 60)
    said = []
    notice = _progress.CompilingNotice(said.append)
    notice.observe({"kind": "began"})
    notice.compiling()
    timer = notice._timer
    notice.observe({"kind": "done"})
    timer.join(10)
    assert not timer.is_alive()
    assert said == []
