"""Who stops a live run, from where, and what it takes from whom: nobody waits for ever, and nothing is lost in silence."""

import contextlib
import sys
import threading
import time

import numpy as np
import pytest
from tests.drivers.live_runs import Run, check_ledger, picture

import hyperframes as hf

PATIENCE = 20
"""Seconds after which a run counts as hanging."""


def ended(act):
    """Return what `act` returns, or fail if it does not within reason."""
    got = []
    thread = threading.Thread(target=lambda: got.append(act()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it hangs"
    return got[0]


def push_all(live, frames=12):
    """Push frames until the run takes no more; return how many it took."""
    for number in range(frames):
        try:
            live.feed("cam0", picture(number), frame_id=number)
        except hf.PipelineError:
            return number
    return frames


def test_a_callback_may_stop_the_run():
    results = []

    def enough(result):
        results.append(result.frame_id)
        if result.frame_id == 3:
            live.stop()

    live = hf.LiveRuntime(packing=hf.Packing(size=2), on_result=enough, when_full="block").start()
    pushed = push_all(live)
    stats = ended(live.stop)
    check_ledger(stats)
    assert stats["in_flight"] == 0
    assert results == list(range(pushed))  # what was taken was finished
    with pytest.raises(hf.PipelineError, match="takes no frames"):
        live.feed("other", picture(0))


def test_an_operator_and_a_source_may_stop_the_run():
    @hf.operator
    def stops(frame):
        live.stop()
        return frame

    def frames():
        for number in range(1000):
            if number == 5:
                live.stop()
            yield picture(number)

    live = hf.LiveRuntime(packing=hf.Packing(size=2), operator=stops, when_full="block").start()
    push_all(live)
    check_ledger(ended(live.stop))
    live = hf.LiveRuntime({"cam0": frames()}, packing=hf.Packing(size=2), when_full="block", pace="flat").start()
    assert ended(lambda: live.wait(PATIENCE))
    stats = ended(live.stop)
    check_ledger(stats)
    assert stats["delivered"] == stats["captured"] <= 6


@pytest.mark.parametrize("drain", [True, False])
def test_a_callback_may_stop_a_run_under_virtual_time(drain):
    run = Run(packing=hf.Packing(size=2), on_result=lambda result: run.live.stop(drain=drain))
    run.feed("cam0", 0)
    run.feed("cam0", 1)
    run.crew.settle()
    with pytest.raises(hf.PipelineError, match="draining: it takes no frames"):
        run.feed("cam1", 2)
    assert run.stop()["delivered"] == 2


@pytest.mark.requirement("B55")
def test_what_a_callback_raises_is_its_own_also_an_exit():
    def leaves(result):
        if result.frame_id < 2:
            sys.exit(3)
        raise KeyboardInterrupt

    run = Run(packing=hf.Packing(size=2), on_result=[leaves, lambda result: run.results.append(result)])
    run.play(["cam0"], 4)
    stats = run.stop()
    assert stats["delivered"] == 4 == stats["callback_errors"]
    assert run.ids() == [0, 1, 2, 3]
    assert [seen["message"] for seen in run.kinds("warning")] == [
        "on_result raised SystemExit: 3",
        "on_result raised SystemExit: 3 (2 times so far)",
        "on_result raised KeyboardInterrupt (4 times so far)",
    ]


def test_a_source_that_exits_ends_its_stream_and_says_why():
    def frames():
        yield picture(0)
        sys.exit("no more film")

    run = Run(packing=hf.Packing(size=2), when_full="block", pace="flat")
    run.live.add_source("cam0", frames())
    assert run.live.wait(PATIENCE)
    run.stop()
    assert ("ended", "failed: no more film") in [(seen["state"], seen["reason"]) for seen in run.kinds("stream")]


def test_a_bug_where_results_are_handed_over_ends_the_run_and_is_raised(monkeypatch):
    def broken(entry):
        raise RuntimeError("a bug")

    monkeypatch.setattr("hyperframes.drivers.live_results.values_of", broken)
    live = hf.LiveRuntime(packing=hf.Packing(size=2)).start()
    push_all(live, 4)

    def stop():
        with pytest.raises(RuntimeError, match="a bug"):
            live.stop()
        return True

    assert ended(stop)


def test_several_threads_may_stop_a_run_and_all_get_the_last_stats():
    live = hf.LiveRuntime(packing=hf.Packing(size=2), when_full="block").start()
    push_all(live)
    got = []
    threads = [threading.Thread(target=lambda: got.append(live.stop())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [stats["delivered"] for stats in got] == [12] * 4


def test_stop_after_a_stop_that_was_interrupted_gives_up_what_waits():
    run = Run(packing=hf.Packing(size=2), queue=10, service=5.0, operator=lambda frame: frame)
    for number in range(8):
        run.feed("cam0", number)
    wait, run.crew.wait = run.crew.wait, interrupted
    with pytest.raises(KeyboardInterrupt):
        run.live.stop(timeout=None)
    run.crew.wait = wait
    stats = run.stop(drain=False)
    assert stats["delivered"] == 2
    assert stats["dropped"] == {"cancelled": 6}


@pytest.mark.parametrize("kind", ["temporal", "spatial"])
def test_who_opens_a_stream_while_the_run_is_stopped_does_not_wait_for_workers_that_are_gone(kind):
    for _ in range(20):
        threads_before = threading.active_count()
        live = hf.LiveRuntime(packing=hf.Packing(size=2, kind=kind), operator=lambda frame: frame).start()
        refused, begin = [], threading.Barrier(4)

        def feed(name, live=live, refused=refused, begin=begin):
            begin.wait()
            try:
                live.feed(name, picture(0))
            except hf.PipelineError as error:
                refused.append(error)

        writers = [threading.Thread(target=feed, args=(name,)) for name in "abc"]
        for writer in writers:
            writer.start()
        begin.wait()
        stats = ended(live.stop)
        for writer in writers:
            writer.join(PATIENCE)
        assert not any(writer.is_alive() for writer in writers), "they wait"
        check_ledger(stats)
        assert threading.active_count() == threads_before, "workers are left"


def interrupted(event, timeout):
    raise KeyboardInterrupt


# What it takes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stamp", "message"),
    [
        ({"frame_id": 1 << 62}, "stream 'cam0': frame ids are from 0 to 4611686018427387903: got 4611686018427387904"),
        ({"frame_id": -1}, "stream 'cam0': frame ids are from 0 to .*: got -1"),
        ({"frame_id": 1.5}, "stream 'cam0': frame_id is a whole number: got 1.5"),
        ({"frame_id": "7"}, "stream 'cam0': frame_id is a whole number: got '7'"),
        ({"timestamp": 1.78e12}, r"stream 'cam0': times are within 4611686018 seconds of 0: got 1.78e\+12"),
        ({"timestamp": float("nan")}, "stream 'cam0': timestamp is seconds: got nan"),
        ({"timestamp": float("inf")}, "stream 'cam0': timestamp is seconds: got inf"),
        ({"timestamp": "12:00"}, "stream 'cam0': timestamp is seconds: got '12:00'"),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
def test_numbers_and_times_that_are_none_are_refused_and_spoil_nothing(stamp, message, known):
    run = Run(packing=hf.Packing(size=2))
    if known:
        run.feed("cam0", 0)
    with pytest.raises(hf.FrameError, match=message):
        run.live.feed("cam0", picture(1), **stamp)
    assert ("cam0" in run.live.stats()["streams"]) is known
    run.play(["cam0"], 3, first=1)
    assert run.stop()["delivered"] == (4 if known else 3)


def test_the_largest_number_and_the_furthest_times_are_taken():
    run = Run(packing=hf.Packing(size=1))
    for stream, number, timestamp in [("a", (1 << 62) - 1, 4.6e9), ("b", np.int64(5), -4.6e9), ("c", True, 0)]:
        run.live.feed(stream, picture(0), frame_id=number, timestamp=timestamp)
        run.live.feed(stream, picture(0))
    run.crew.settle()
    assert run.stop()["delivered"] == 6


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (7, "a frame is a NumPy array, or a tuple of them: got int"),
        ([], "a frame is a NumPy array, or a tuple of them: got nothing"),
        ([[1, 2], [3, 4]], "got list, list"),
        (np.zeros((0, 4), np.uint8), r"arrays of numbers, not empty, all of one dtype: got \(0, 4\) of uint8"),
        (np.array([["a"]]), "arrays of numbers"),
        (np.array([[None]]), "arrays of numbers"),
        ((np.zeros((6, 8), np.uint8), np.zeros((3, 4), np.uint16)), r"all of one dtype: got .* of uint8, .* of uint16"),
    ],
)
def test_frames_that_are_none_are_refused_and_spoil_nothing(frame, message):
    run = Run(packing=hf.Packing(size=2))
    with pytest.raises(hf.FrameError, match=message):
        run.live.feed("cam0", frame)
    assert run.live.stats()["streams"] == {}
    run.play(["cam0"], 2)
    with pytest.raises(hf.FrameError, match=message):
        run.live.feed("cam0", frame)
    assert run.stop()["delivered"] == 2


def test_a_second_plane_of_another_dtype_is_not_cut_down_in_silence():
    run = Run(packing=hf.Packing(size=2))
    planes = np.zeros((6, 8), np.uint8), np.full((3, 4), 7, np.uint8)
    run.live.feed("cam0", planes)
    with pytest.raises(hf.FrameError, match="all of one dtype"):
        run.live.feed("cam0", (planes[0], np.full((3, 4), 300, np.uint16)))
    run.stop()


def test_sources_are_asked_for_before_the_start_frames_only_after_it():
    live = hf.LiveRuntime(packing=hf.Packing(size=2), when_full="block", pace="flat")
    live.add_source("cam0", [picture(number) for number in range(5)], priority=1)
    with pytest.raises(hf.PipelineError, match="a source named 'cam0' is there already"):
        live.add_source("cam0", [picture(0)])
    threads = threading.active_count()
    with pytest.raises(hf.PipelineError, match="was not started"):
        live.feed("cam1", picture(0))
    assert threading.active_count() == threads
    with live:
        assert live.wait(PATIENCE)
    assert live.stats()["delivered"] == 5


def test_observers_that_fail_are_told_at_the_end():
    class Broken:
        def observe(self, observation):
            raise ValueError("no room for notes")

    run = Run(instruments=(Broken(),))
    run.play(["cam0"], 4)
    run.stop()
    assert run.live.warnings == ["an observer failed and was left out: no room for notes"]


# Who waits for room ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["temporal", "spatial"])
def test_a_stream_that_is_removed_while_its_writer_waits_gives_its_frame_to_nobody_else(kind):
    """By threads: the writers of three streams wait for room that a slow operator gives back, and two of them go."""
    results = []

    def slow(frames):
        time.sleep(0.002)
        return frames

    live = hf.LiveRuntime(
        packing=hf.Packing(kind=kind, timeout=0.05, size=1),
        operator=slow,
        when_full="block",
        queue=1,
        on_result=lambda got: results.append((got.stream, int(got.value.flat[0]))),
    )
    names = {"a": 1, "b": 2, "c": 3}

    def feed(name):
        for number in range(150):
            try:
                live.feed(name, np.full((6, 8), names[name], np.uint8), frame_id=number, timestamp=1000 + number / 30)
            except hf.PipelineError:
                return

    with live:
        for name in names:
            live.inlet(name)
        writers = [threading.Thread(target=feed, args=(name,)) for name in names]
        for writer in writers:
            writer.start()
        for name in "abab":
            time.sleep(0.03)
            with contextlib.suppress(hf.PipelineError):  # it may have come and gone
                live.remove_source(name)
            check_ledger(live.stats())
        for writer in writers:
            writer.join(PATIENCE)
        assert not any(writer.is_alive() for writer in writers), "they wait"
    stats = live.stats()
    check_ledger(stats)
    assert stats["in_flight"] == 0
    assert all(names[stream] == value for stream, value in results)


def test_instants_that_only_an_event_seals_do_not_let_writers_wait_for_ever():
    run = Run(packing=hf.Packing(kind="spatial", trigger="event"), when_full="block")
    for name in "ab":
        run.live.inlet(name)
    for number in range(40):  # b's clock is behind by six frames: every instant lacks one of them for long
        run.feed("a", number, timestamp=1000 + (number + 6) / 30)
        run.feed("b", number, timestamp=1000 + number / 30)
        run.crew.advance(1 / 30)
        run.check()
    assert run.stop()["captured"] == 80


def test_where_writers_wait_a_budget_gives_nothing_up():
    run = Run(packing=hf.Packing(size=2, latency=0.1), when_full="block", queue=50, service=0.05)
    for number in range(20):
        run.feed("cam0", number)
    assert run.stop(timeout=None)["delivered"] == 20


def test_times_before_1970_are_times():
    run = Run(packing=hf.Packing(kind="spatial"))
    run.live.inlet("a")
    for number in range(6):
        run.feed("a", number, timestamp=-5 + number / 30)
        run.crew.advance(1 / 30)
        run.check()
    assert run.stop()["in_flight"] == 0
