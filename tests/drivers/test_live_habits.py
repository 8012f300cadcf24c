"""What live runs do with memory, threads and defaults, whatever they run."""

import threading

import numpy as np
import pytest
from tests.drivers.live_runs import Run, picture

import hyperframes as hf
from hyperframes.scheduling.budget import cost_per_frame


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.requirement("B45")
def test_what_nobody_said_is_eight_frames_one_worker_and_the_oldest_given_up():
    run = Run(packing=hf.Packing())
    settings = run.live.settings()
    assert (settings["size"], settings["kind"], settings["trigger"]) == (8, "temporal", "count")
    assert (settings["workers"], settings["when_full"], settings["on_gap"]) == (1, "drop_oldest", "reset")
    run.stop()


@pytest.mark.requirement("B50")
def test_frames_are_copied_when_they_are_fed_so_that_senders_may_use_their_memory_again():
    level = hf.operator(lambda f: f.reshape(len(f), -1).max(1), name="level", output={"shape": (), "dtype": "u1"})
    run = Run(packing=hf.Packing(size=4), operator=level)
    frame = np.zeros((6, 8), np.uint8)
    for number in range(8):
        frame[...] = number
        run.live.feed("cam0", frame, frame_id=number)
        frame[...] = 99
    run.stop()
    assert [int(result.value) for result in run.results] == list(range(8))


@pytest.mark.requirement("B65", "B66", "B67")
def test_frames_lie_in_the_same_few_slabs_from_the_first_hyperframe_to_the_last():
    seen = []

    @hf.operator
    def look(frames):
        seen.append(address(frames))
        return frames.reshape(len(frames), -1)[:, :1]

    run = Run(packing=hf.Packing(size=4), operator=look, queue=2)
    run.play(["cam0"], 200)
    run.stop()
    assert len(seen) >= 50
    assert set(seen[25:]) <= set(seen[:25]), "nothing is allocated once it goes"


@pytest.mark.requirement("B52", "B58", "B83")
def test_senders_only_copy_and_one_thread_works_on_what_all_of_them_bring():
    workers, senders = set(), set()

    @hf.operator
    def look(frames):
        workers.add(threading.current_thread())
        return frames.reshape(len(frames), -1)[:, :1]

    def send(stream):
        senders.add(threading.current_thread())
        for number in range(40):
            live.feed(stream, picture(number), frame_id=number)

    results = []
    with hf.LiveRuntime(
        packing=hf.Packing(size=4),
        operator=["resize:width=16,height=12", look],
        on_result=results.append,
        when_full="block",
    ) as live:
        live.feed("first", picture(0))  # planned from here on, which tries operators
        workers.clear()
        threads = [threading.Thread(target=send, args=(f"cam{i}",)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not workers & senders
    assert len(workers) == 1
    for i in range(8):
        assert [r.frame_id for r in results if r.stream == f"cam{i}"] == list(range(40))


@pytest.mark.requirement("B85")
def test_the_next_hyperframe_fills_while_one_is_worked_on():
    begun, go = threading.Event(), threading.Event()

    @hf.operator
    def slow(frames):
        begun.set()
        assert go.wait(10)
        return frames.reshape(len(frames), -1)[:, :1]

    go.set()
    with hf.LiveRuntime(packing=hf.Packing(size=4), operator=slow, when_full="block") as live:
        live.feed("cam0", picture(0), frame_id=0)  # planned, tried and compiled from here on
        go.clear()
        begun.clear()
        for number in range(1, 4):
            live.feed("cam0", picture(number), frame_id=number)
        assert begun.wait(10)
        for number in range(4, 8):
            assert live.feed("cam0", picture(number), frame_id=number)
        assert live.stats()["captured"] == 8
        go.set()
    assert live.stats()["delivered"] == 8


@pytest.mark.requirement("B35", "B36", "B37")
def test_the_worked_example_takes_four_and_a_half_milliseconds_a_frame_alone_and_about_half_packed_by_eight():
    alone = cost_per_frame(1, 0.5e-3, 1e-3, 1e-3, 2e-3, prepare_discount=1.0)
    packed = cost_per_frame(8, 0.5e-3, 1e-3, 1e-3, 7e-3)
    assert (alone, packed) == (pytest.approx(4.5e-3), pytest.approx(2.3e-3))
    assert alone / packed == pytest.approx(1.96, abs=0.01)
