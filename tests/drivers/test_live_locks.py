"""What writers of live frames wait for: each other hardly ever, operators, callbacks and the coordinator never."""

import threading
import time

import numpy as np
import pytest
from tests.drivers.live_runs import Run, check_ledger, picture

import hyperframes as hf
from hyperframes.console.metrics import Metrics, render

PATIENCE = 20


@pytest.mark.requirement("B82")
def test_waiting_for_the_lock_of_the_instants_is_measured_and_served():
    live = hf.LiveRuntime(packing=hf.Packing(kind="spatial", timeout=30.0), when_full="block")
    with live:
        for name in "ab":
            live.inlet(name)
            live.feed(name, picture(0), timestamp=1000)
        before = live.stats()["lock_wait_share"]
        with live._instants.lock:
            writer = threading.Thread(target=live.feed, args=("a", picture(1)), kwargs={"timestamp": 1000 + 1 / 30})
            writer.start()
            time.sleep(0.2)  # the wait that is to be seen
        writer.join(PATIENCE)
        stats = live.stats()
    waited = stats["lock_wait_share"] * stats["seconds"]
    assert waited >= 0.15
    assert stats["lock_wait_share"] > 10 * before
    told = [line for line in render(stats, Metrics()).splitlines() if line.startswith("hyperframes_lock_wait_share")]
    assert float(told[-1].split()[-1]) == pytest.approx(stats["lock_wait_share"], rel=1e-3)


@pytest.mark.requirement("B84")
def test_whoever_seals_leaves_the_hyperframe_and_waits_for_nobody_who_is_busy_with_others():
    results = []
    live = hf.LiveRuntime(packing=hf.Packing(size=2), queue=100, on_result=results.append, ttl=60.0)
    with live:
        for name in "abc":
            live.feed(name, picture(0), frame_id=0)
        with live._coordinator._busy:  # somebody is at it, and takes long

            def push(name):
                for number in range(1, 40):
                    live.feed(name, picture(number), frame_id=number)

            writers = [threading.Thread(target=push, args=(name,)) for name in "abc"]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join(PATIENCE)
            assert not any(writer.is_alive() for writer in writers), "they wait"
            assert len(live.brought) >= 60  # a deque: append and popleft are one step each
            assert not results
    assert {name: [r.frame_id for r in results if r.stream == name] for name in "abc"} == {
        name: list(range(40)) for name in "abc"
    }


@pytest.mark.requirement("B86")
@pytest.mark.parametrize("kind", ["temporal", "spatial", "both"])
def test_nothing_slow_is_done_under_a_lock(kind):
    """One thread does it all here, so a lock that is held where something slow begins is held by whoever does it."""
    held = []

    def look(what):
        stations = run.live._stations.values()
        locks = [station.lock for station in stations] + [station._shared._lock for station in stations]
        held.append((what, any(lock.locked() for lock in locks)))

    @hf.operator
    def works(frame):
        look("operator")
        return frame

    run = Run(packing=hf.Packing(kind=kind, size=2), operator=works, on_result=lambda result: look("callback"))
    inlets = [run.live.inlet(name) for name in "ab"]
    spec = hf.FrameSpec.array((6, 8), np.uint8)
    for inlet in inlets:
        inlet.open(spec, rate=None)
    for number in range(6):
        for inlet in inlets:
            now = run.clock.now_ns()
            slot = inlet.slot(frame_id=number, capture_ns=now, arrival_ns=now)
            look("copy")
            slot[0][...] = picture(number)
            inlet.push()
        run.crew.advance(1 / 30)
    check_ledger(run.stop())
    assert {what for what, _ in held} == {"operator", "callback", "copy"}
    assert not any(is_held for _, is_held in held)


@pytest.mark.requirement("B88")
def test_frames_are_packed_as_they_came_and_another_size_begins_another_hyperframe():
    seen = []
    run = Run(
        packing=hf.Packing(size=4), operator=lambda frame: frame, on_result=lambda got: seen.append(got.value.copy())
    )
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (6, 8) if number < 6 else (4, 5), np.uint8) for number in range(10)]
    for number, frame in enumerate(frames):
        run.live.feed("cam0", frame, frame_id=number, timestamp=1000 + number / 30)
        run.crew.advance(1 / 30)
    run.stop()
    sealed = [(told["frame_ids"].tolist(), told["seal_reason"]) for told in run.kinds("sealed")]
    assert sealed == [([0, 1, 2, 3], "full"), ([4, 5], "change"), ([6, 7, 8, 9], "full")]
    for got, frame in zip(seen, frames, strict=True):
        np.testing.assert_array_equal(got, frame)


@pytest.mark.requirement("B63")
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_a_hyperframe_is_one_task_one_call_and_one_delivery_however_many_frames_it_holds(size):
    run = Run(packing=hf.Packing(size=size), operator="gaussian", queue=1000)
    calls = []
    hand = run.crew.hand
    run.crew.hand = lambda worker, task, entries: (calls.append(len(entries)), hand(worker, task, entries))
    run.play(["cam0"], 64)
    assert run.stop()["delivered"] == 64
    for kind in ("sealed", "started", "done", "delivered"):
        assert len(run.kinds(kind)) == 64 // size
    assert sum(calls) == 64 // size


@pytest.mark.requirement("B92", "B102")
@pytest.mark.parametrize(
    ("service", "gain"),
    [(lambda frames: 0.010 * frames, 1.0), (lambda frames: 0.010, 8.0), (lambda frames: 0.002 + 0.008 * frames, 1.21)],
    ids=["one frame's inference is the limit", "all is fixed cost", "little is"],
)
def test_packing_helps_by_the_fixed_cost_of_a_call_and_not_where_there_is_none(service, gain):
    def seconds(size):
        run = Run(
            packing=hf.Packing(size=size),
            operator=lambda frame: frame,
            service=lambda entries: service(sum(entry.frames for entry in entries)),
            queue=1000,
            ttl=1000.0,
        )
        began = run.clock.now_ns()
        for number in range(64):
            run.feed("cam0", number)
        assert run.stop(timeout=None)["delivered"] == 64
        return (run.clock.now_ns() - began) / 1e9

    assert seconds(1) / seconds(8) == pytest.approx(gain, rel=0.05)


@pytest.mark.requirement("B60")
def test_files_come_at_their_own_pace_or_as_fast_as_they_are_taken():
    """A load test above the rate of its file replays it flat out: at its own pace it would measure the file."""
    frames = [picture(number) for number in range(20)]

    def seconds(pace):
        live = hf.LiveRuntime({"cam0": frames}, packing=hf.Packing(size=4), when_full="block", pace=pace)
        with live:
            assert live.wait(PATIENCE)
        assert live.stats()["delivered"] == 20
        return live.stats()["seconds"]

    assert seconds("real") >= 19 / 30
    assert seconds("flat") < seconds("real") / 2
