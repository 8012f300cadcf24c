"""The live run under virtual time: triggers, queue, expiry, degradation, streams that fail, callbacks."""

import gc
import threading
import weakref
from fractions import Fraction

import numpy as np
import pytest
from tests.drivers.live_runs import FPS, Run, check_ledger, picture

import hyperframes as hf
from hyperframes.operators import Contract, Operator, Output
from hyperframes.scheduling.budget import LiveLoad, budget_for_size

pytestmark = pytest.mark.requirement("B21", "B33")


@hf.operator
def second_pixel(frames):
    return frames.reshape(len(frames), -1)[:, 1:2].astype(np.int64)


@hf.operator(takes_mask=True)
def masked(frames, mask):
    return np.stack([np.full((1,), len(frames) if real else -1, np.int64) for real in mask])


# Packing --------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("B27", "B32")
def test_a_full_hyperframe_is_sealed_at_once_and_gives_one_result_a_frame():
    run = Run(packing=hf.Packing(size=4), operator=second_pixel)
    run.play(["cam0"], 8)
    assert run.ids() == list(range(8))
    assert [result.value[0] for result in run.results] == list(range(8))
    assert {seen["seal_reason"] for seen in run.kinds("sealed")} == {"full"}


@pytest.mark.requirement("B80")
@pytest.mark.requirement("B29", "B49", "B79", "B99", "X3")
def test_a_quiet_camera_does_not_keep_frames_beyond_the_timeout():
    run = Run(packing=hf.Packing(size=8, timeout=0.2))
    run.play(["cam0"], 3)
    run.crew.advance(0.08)
    assert run.results == []
    run.crew.advance(0.05)
    assert run.ids() == [0, 1, 2]
    (sealed,) = run.kinds("sealed")
    assert (sealed["seal_reason"], sealed["frames"]) == ("timeout", 3)
    assert sealed["wait_ns"] == pytest.approx(200e6, abs=3e6)


@pytest.mark.requirement("B89")
def test_without_a_timeout_it_follows_from_the_rate_and_the_budget():
    slow = hf.Packing(size=8)
    assert slow.timeout_ns(1e9 / 30, 8) == pytest.approx(400e6)
    assert hf.Packing(size=8, latency=0.5).timeout_ns(1e9 / 30, 8) == pytest.approx(300e6)


@pytest.mark.requirement("B89")
def test_an_instant_waits_longer_than_a_frame_and_a_half_for_a_thread_that_was_held_up_if_the_budget_lets_it():
    instants = hf.Packing(kind="spatial")
    assert instants.timeout_ns(1e9 / 30, 1) == pytest.approx(150e6)
    assert instants.timeout_ns(1e9 / 5, 1) == pytest.approx(300e6)
    assert hf.Packing(kind="spatial", latency=0.1).timeout_ns(1e9 / 30, 1) == pytest.approx(60e6)


@pytest.mark.requirement("B26")
def test_windows_seal_at_multiples_of_their_length():
    run = Run(packing=hf.Packing(size=100, trigger="window", window=0.5))
    run.play(["cam0"], 45)
    assert [seen["seal_reason"] for seen in run.kinds("sealed")] == ["window", "window"]
    for number, seen in enumerate(run.kinds("sealed")):
        assert set((seen["pts"] - 1000 * 10**9) // (10**9 // 2)) == {number}
    run.stop()


@pytest.mark.requirement("B28")
def test_an_event_seals_what_is_there():
    run = Run(packing=hf.Packing(size=8, trigger="event"))
    run.play(["cam0"], 3)
    run.live.event("cam0")
    run.crew.settle()
    assert run.ids() == [0, 1, 2]
    assert run.kinds("sealed")[0]["seal_reason"] == "event"


@pytest.mark.requirement("B28")
def test_an_event_starts_a_hyperframe_and_frames_between_two_are_filtered():
    run = Run(packing=hf.Packing(size=2, trigger="event", event="start"))
    run.play(["cam0"], 3)
    run.live.event()
    run.play(["cam0"], 4, first=3)
    stats = run.stop()
    assert run.ids() == [3, 4]
    assert stats["dropped"] == {"filtered": 5}


@pytest.mark.requirement("A102", "B39")
def test_the_latency_trigger_seals_before_waiting_longer_would_break_the_budget():
    run = Run(packing=hf.Packing(size=8, trigger="latency", latency=0.2), operator=second_pixel, service=0.05)
    run.play(["cam0"], 60)
    run.stop()
    totals = run.live.stats()["latency_seconds"]["total"]
    assert totals["p95"] <= 0.2
    assert {seen["seal_reason"] for seen in run.kinds("sealed")} >= {"latency"}


@pytest.mark.requirement("B44")
def test_a_preset_stands_for_size_and_timeout():
    assert hf.LiveRuntime(packing="balanced").packing == hf.Packing(size=8, timeout=0.3)
    with pytest.raises(hf.PipelineError, match="preset: expected one of latency-first, balanced, throughput-first"):
        hf.LiveRuntime(packing="fast")


@pytest.mark.requirement("B39", "B97", "W4")
def test_with_a_latency_and_no_size_the_size_follows_from_how_long_operators_take():
    cost = [0.010]
    run = Run(
        packing=hf.Packing(latency=0.5),
        operator=second_pixel,
        service=lambda entries: cost[0] * sum(entry.frames for entry in entries),
    )
    run.play(["a", "b"], 90)
    assert run.live._adapting.size == 9
    cost[0] = 0.0163  # two streams of 30 frames/s: 98 % of the worker, and a burst of two takes long
    run.play(["a", "b"], 150, first=90)
    assert run.live._adapting.size < 9
    run.stop()


@pytest.mark.requirement("B36", "B38", "B40", "W4")
@pytest.mark.parametrize(
    ("sources", "size", "base", "per_frame"), [(1, 8, 0.02, 0.005), (3, 6, 0.01, 0.004), (1, 1, 0.015, 0)]
)
def test_the_latency_that_the_budget_foretells_is_the_one_measured(sources, size, base, per_frame):
    load = LiveLoad(fps=30, sources=sources, infer_base=base, infer_per_frame=per_frame)
    foretold = budget_for_size(load, size, latency=0.8)
    assert foretold.feasible
    run = Run(
        packing=hf.Packing(size=size, timeout=foretold.timeout_seconds),
        queue=foretold.queue_depth + sources,
        operator=second_pixel,
        service=lambda entries: sum(base + per_frame * entry.frames for entry in entries),
    )
    run.play([f"cam{i}" for i in range(sources)], 20 * size)
    longest = run.live.stats()["latency_seconds"]["total"]["max"]
    assert longest == pytest.approx(foretold.latency.total, rel=0.15)
    run.stop()


@pytest.mark.requirement("B48")
def test_a_change_of_size_seals_what_is_there_and_begins_an_epoch():
    run = Run(packing=hf.Packing(size=4), operator=second_pixel)
    run.play(["cam0"], 3)
    run.live.feed("cam0", picture(7, (4, 4)), frame_id=3)
    run.stop()
    assert [(seen["frames"], seen["seal_reason"], seen["epoch"]) for seen in run.kinds("sealed")] == [
        (3, "change", 0),
        (1, "end", 1),
    ]
    assert [result.value[0] for result in run.results] == [0, 1, 2, 7]


@pytest.mark.requirement("B71", "B90")
def test_ids_that_begin_again_begin_an_epoch_and_late_frames_are_counted():
    run = Run(packing=hf.Packing(size=2))
    for number in (10, 11, 12, 13, -11, 0, 1):
        run.crew.advance(1 / FPS)
        now = run.clock.now_ns() / 1e9
        run.feed("cam0", abs(number), timestamp=now if number >= 0 else 1000 + 2 / FPS)
    stats = run.stop()
    assert stats["streams"]["cam0"]["epoch"] == 1
    assert [(r.epoch, r.frame_id) for r in run.results] == [(0, 10), (0, 11), (0, 12), (0, 13), (1, 0), (1, 1)]
    assert stats["dropped"] == {"duplicate": 1}


@pytest.mark.requirement("B13")
def test_missing_frames_are_recorded_as_gaps():
    run = Run(packing=hf.Packing(size=3))
    for number in (0, 1, 4, 6, 7, 8):
        run.feed("cam0", number)
    run.stop()
    assert [seen["gaps"] for seen in run.kinds("sealed")] == [((2, 4),), ((5, 6),)]


@pytest.mark.requirement("B68")
def test_frames_that_were_overtaken_are_put_in_order():
    run = Run(packing=hf.Packing(size=4, lateness=0.2), operator=second_pixel)
    for number in (0, 2, 1, 4, 3, 5, 6, 7, 8, 9):
        run.feed("cam0", number, timestamp=1000 + number / FPS)
        run.crew.advance(1 / FPS)
    run.stop()
    assert run.ids() == list(range(10))
    assert [result.value[0] for result in run.results] == list(range(10))


# Spatial --------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("B94", "B70", "X4")
def test_a_spatial_hyperframe_holds_one_instant_in_a_fixed_order():
    run = Run(packing=hf.Packing(kind="spatial"), operator=second_pixel)
    names = ["a", "b", "c"]
    for name in names:
        run.live.inlet(name)
    for number in range(6):
        for place, name in enumerate(reversed(names)):
            run.feed(name, 10 * number + place, timestamp=1000 + number / FPS + place * 0.004)
        run.crew.advance(1 / FPS)
    stats = run.stop()
    sealed = run.kinds("sealed")
    assert all(seen["streams"] == ("a", "b", "c") for seen in sealed)
    assert [seen["frame_ids"].tolist() for seen in sealed[1:]] == [
        [10 * n + 2, 10 * n + 1, 10 * n] for n in range(1, 6)
    ]
    assert stats["dropped"] == {"late": 2}  # nobody waits for cameras that never came: the first instant is one's alone
    assert all(result.value[0] == result.frame_id for result in run.results)


@pytest.mark.requirement("B79", "B94")
def test_a_camera_that_missed_an_instant_leaves_a_place_that_the_mask_marks():
    run = Run(packing=hf.Packing(kind="spatial", timeout=0.02), operator=masked)
    for number in range(6):
        for name in ("a", "b"):
            if (number, name) != (3, "b"):
                run.feed(name, number, timestamp=1000 + number / FPS)
        run.crew.advance(1 / FPS)
    run.stop()
    short = [seen for seen in run.kinds("sealed") if -1 in seen["frame_ids"].tolist()]
    assert [3, -1] in [seen["frame_ids"].tolist() for seen in short]
    assert all(result.value[0] >= 1 for result in run.results)


@pytest.mark.requirement("B69", "X16")
@pytest.mark.parametrize("off", [-0.9, -0.3, -0.17, 0.17, 0.3, 0.9])
def test_a_camera_whose_clock_is_wrong_is_lined_up_with_the_others(off):
    run = Run(packing=hf.Packing(kind="spatial"))
    for name in "abc":
        run.live.inlet(name)
    for number in range(180):
        for name in "abc":
            run.feed(name, number, timestamp=run.clock.now_ns() / 1e9 + (off if name == "b" else 0))
        run.crew.advance(1 / FPS)
    run.stop()
    later = [seen["frame_ids"].tolist() for seen in run.kinds("sealed")][-60:]
    assert all(ids in ([n, n, n], [n + 1, n, n + 1], [n, n + 1, n]) for ids in later if (n := min(ids)) >= 0)
    dropped = [seen for seen in run.kinds("frames_dropped") if seen["frame_ids"][0] > 110]
    assert dropped == []  # once its clock has been watched for 3 s


@pytest.mark.requirement("B69")
def test_clocks_that_differ_by_less_than_is_waited_for_are_believed():
    run = Run(packing=hf.Packing(kind="spatial"))
    for name in "ab":
        run.live.inlet(name)
    for number in range(60):
        now = run.clock.now_ns() / 1e9
        run.feed("a", number, timestamp=now - 0.035)
        run.feed("b", number, timestamp=now - 0.035 - 2 / FPS)  # what it shows is two frames older
        run.crew.advance(1 / FPS)
    run.stop()
    later = [seen["frame_ids"].tolist() for seen in run.kinds("sealed") if -1 not in seen["frame_ids"].tolist()]
    assert len(later) > 50
    assert all(a == b - 2 for a, b in later)


@pytest.mark.requirement("B94")
@pytest.mark.parametrize("fps", [10, 25, 29.97, 50, 60])
def test_instants_are_as_far_apart_as_the_frames_whatever_the_rate(fps):
    run = Run(packing=hf.Packing(kind="spatial"))
    inlets = [run.live.inlet(name) for name in "ab"]
    for number in range(150):
        for place, inlet in enumerate(inlets):
            if not number:
                inlet.open(hf.FrameSpec.array((4, 6), np.uint8), rate=None)
            now = run.clock.now_ns() + place * 2_000_000
            if inlet.slot(frame_id=number, capture_ns=now, arrival_ns=now) is not None:
                inlet.push()
        run.crew.advance(1 / fps)
    run.stop()
    later = [seen["frame_ids"].tolist() for seen in run.kinds("sealed")][-80:]
    assert all(a == b for a, b in later[:-1])
    assert [b for _, b in later[1:-1]] == [b + 1 for _, b in later[:-2]]


@pytest.mark.requirement("B34", "B94")
def test_writers_that_wait_for_each_other_lose_no_frame_of_an_instant():
    live = hf.LiveRuntime(packing=hf.Packing(kind="spatial", timeout=5.0), when_full="block")
    live.start()
    inlets = [live.inlet(f"cam{i}") for i in range(6)]
    for inlet in inlets:
        inlet.trusted = True  # times run ahead of the clock
        inlet.open(hf.FrameSpec.array((6, 8), np.uint8), rate=FPS)

    def push(place):
        for number in range(80):
            at = round((number + place / 6) / FPS * 1e9)
            if inlets[place].slot(frame_id=number, capture_ns=10**18 + at, arrival_ns=10**18) is not None:
                inlets[place].push()

    threads = [threading.Thread(target=push, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = live.stop()
    assert stats["dropped"] == {}
    assert stats["delivered"] == 6 * 80


def test_a_frozen_camera_is_waited_for_only_until_it_is_stale():
    run = Run(packing=hf.Packing(kind="spatial", timeout=0.3))
    for name in "abc":
        run.live.inlet(name)
    for number in range(60):
        for name in "abc":
            if name != "c" or not 20 <= number < 40:
                run.feed(name, number, timestamp=1000 + number / FPS)
        run.crew.advance(1 / FPS)
    stats = run.stop()
    assert run.ids("a") == list(range(60))
    assert run.ids("b") == list(
        range(1, 60)
    )  # it came when the first instant, with the only camera there was, was over
    states = [(seen["state"]) for seen in run.kinds("stream") if seen["stream"] == "c"]
    assert states == ["added", "connected", "stale", "recovered", "ended"]
    assert stats["latency_seconds"]["pack"]["p95"] < 0.15


def test_both_packs_instants_of_all_streams_one_after_the_other():
    run = Run(packing=hf.Packing(kind="both", size=3), operator=second_pixel)
    for name in "ab":
        run.live.inlet(name)
    for number in range(6):
        for name in "ab":
            run.feed(name, number, timestamp=1000 + number / FPS)
        run.crew.advance(1 / FPS)
    run.stop()
    assert [seen["frame_ids"].tolist() for seen in run.kinds("sealed")] == [
        [[0, 0], [1, 1], [2, 2]],
        [[3, 3], [4, 4], [5, 5]],
    ]
    assert run.ids("a") == run.ids("b") == list(range(6))


def test_operators_that_need_neighbours_are_refused_for_spatial_hyperframes():
    with pytest.raises(hf.PipelineError, match="in which frames of one stream are no neighbours"):
        hf.LiveRuntime(packing=hf.Packing(kind="spatial"), operator="temporal_mean:radius=1")


def test_operators_of_which_only_frames_tell_that_they_need_neighbours_are_refused_with_the_first():
    class Pairs(Operator):
        name = "pairs"

        def configure(self, inputs):
            if inputs[0].shapes != ((6, 8),):
                raise hf.PipelineError("these are frames of a small sensor")
            return Contract((Output("frames", "frames", inputs[0]),), hf.Halo(1, 0))

        def apply(self, inputs, outputs, state, prepared):
            raise AssertionError("never called")

    run = Run(packing=hf.Packing(kind="spatial"), operator=Pairs())
    with pytest.raises(hf.PipelineError, match="in which frames of one stream are no neighbours"):
        run.feed("cam0", 0)
    run.stop()


# Queue, expiry, degradation -------------------------------------------------------------------------------------------


@pytest.mark.requirement("B54", "B41", "B74")
@pytest.mark.parametrize(("when_full", "kept"), [("drop_newest", "first"), ("drop_oldest", "last")])
def test_a_full_queue_gives_up_the_newest_or_the_oldest(when_full, kept):
    run = Run(packing=hf.Packing(size=2), queue=2, when_full=when_full, service=10.0, ttl=100, operator=second_pixel)
    for number in range(16):
        run.feed("cam0", number)
        run.crew.settle()
    stats = run.stop(timeout=100.0)
    assert stats["dropped"]["queue_full"] == 10
    assert run.ids() == ([0, 1, 2, 3, 4, 5] if kept == "first" else [0, 1, 12, 13, 14, 15])


@pytest.mark.requirement("B30", "B57")
def test_what_waited_too_long_is_given_up_while_the_worker_is_busy():
    run = Run(packing=hf.Packing(size=1), queue=10, ttl=0.5, service=3.0, operator=second_pixel)
    for number in range(4):
        run.feed("cam0", number)
    run.crew.advance(1.0)
    dropped = run.kinds("dropped")
    assert [seen["reason"] for seen in dropped] == ["expired"] * 3
    assert run.live.stats()["in_flight"] == 1  # and the worker is still at the first
    run.stop()


@pytest.mark.requirement("B78")
@pytest.mark.requirement("B42", "B77", "X17")
def test_overload_degrades_by_rule_and_recovers_when_it_is_calm():
    load = [0.050]
    run = Run(
        packing=hf.Packing(size=2),
        when_full="degrade",
        queue=4,
        operator=second_pixel,
        service=lambda entries: load[0],
    )
    run.play(["a", "b"], 300)  # 60 frames/s at 25 ms each: 150 % of the worker
    busy = run.live.stats()
    assert busy["dropped"]["degraded"] > 5 * busy["dropped"]["queue_full"]  # by rule, not as it happens
    load[0] = 0.001
    run.play(["a", "b"], 300, first=300)
    assert run.live.stats()["level"] == 0
    rules = [(seen["kind"], seen["level"]) for seen in run.seen if seen["kind"] in {"degraded", "recovered"}]
    assert rules[0] == ("degraded", 1)
    assert rules[-1] == ("recovered", 0)
    run.stop()


@pytest.mark.requirement("A29")
def test_streams_of_higher_priority_go_first_and_others_take_turns():
    run = Run(packing=hf.Packing(size=1), queue=100, service=0.01, operator=second_pixel, ttl=10)
    run.live.inlet("late", priority=1)
    for number in range(5):
        for name in ("a", "b", "late"):
            run.feed(name, number)
    run.stop()
    order = [seen["streams"][0] for seen in run.kinds("started")]
    assert order[1:6] == ["late"] * 5 or order[:5] == ["late"] * 5
    rest = [name for name in order if name != "late"]
    assert all(set(rest[i : i + 2]) == {"a", "b"} for i in range(1, 8, 2))


@pytest.mark.requirement("B56", "B57")
def test_a_poisoned_hyperframe_is_given_up_and_the_rest_goes_on():
    @hf.operator
    def fails_on_five(frames):
        if 5 in frames[:, 1, 1]:
            raise ValueError("five")
        return frames

    run = Run(packing=hf.Packing(size=2), operator=fails_on_five)
    run.play(["cam0"], 10)
    stats = run.stop()
    assert stats["dropped"] == {"failed": 2}
    assert run.ids() == [0, 1, 2, 3, 6, 7, 8, 9]
    assert "five" in run.kinds("dropped")[0]["error"]


@pytest.mark.requirement("B59")
@pytest.mark.requirement("B43", "B18")
@pytest.mark.parametrize("pad", [False, True])
def test_several_hyperframes_go_through_the_operator_in_one_call_filled_up_to_a_fixed_size(pad):
    calls = []

    @hf.operator
    def counted(frames):
        calls.append(len(frames))
        return frames.reshape(len(frames), -1)[:, 1:2]

    run = Run(
        packing=hf.Packing(size=2, pad=pad, timeout=0.05), operator=counted, join=3, queue=20, service=0.1, ttl=10
    )
    for number in range(13):
        for name in ("a", "b"):
            run.feed(name, number)
    calls.clear()
    run.stop()
    assert set(calls) == {6} if pad else 6 in calls
    for name in ("a", "b"):
        assert [(r.frame_id, int(r.value[0])) for r in run.results if r.stream == name] == [(n, n) for n in range(13)]


def test_of_hyperframes_in_one_call_only_the_poisoned_one_is_lost():
    @hf.operator
    def fails_on_five(frames):
        if 5 in frames[:, 1, 1]:
            raise ValueError("five")
        return frames.reshape(len(frames), -1)[:, 1:2]

    run = Run(packing=hf.Packing(size=2), operator=fails_on_five, join=4, queue=20, service=0.1, ttl=10)
    for number in range(12):
        run.feed("a", number)
    stats = run.stop()
    assert stats["dropped"] == {"failed": 2}
    assert run.ids("a") == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]


# Gaps and state -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_gap", ["reset", "keep"])
def test_after_a_gap_an_operators_state_is_reset_or_kept(on_gap):
    @hf.operator(dependency="sequential")
    def counts(frames, state):
        first = state.get("seen", 0)
        out = np.arange(first, first + len(frames), dtype=np.int64)[:, None]
        return out, {"seen": first + len(frames)}

    run = Run(packing=hf.Packing(size=2), operator=counts, on_gap=on_gap, on_result=None)
    values = []
    run.live._handing_over._callbacks = (lambda result: values.append((result.frame_id, int(result.value[0]))),)
    run.play(["cam0"], 4)
    run.live._stations["cam0"].restart("reconnected")
    run.play(["cam0"], 4, first=100)
    run.stop()
    assert values[:4] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    again = 0 if on_gap == "reset" else 4
    assert values[4:] == [(100 + i, again + i) for i in range(4)]


def test_frames_of_a_dropped_hyperframe_still_serve_as_halo():
    @hf.operator(halo=(2, 0))
    def back(frames):
        return frames[:-2, :1, 1].astype(np.int64)

    run = Run(packing=hf.Packing(size=2), operator=back, queue=1, when_full="drop_newest", service=0.01)
    for number in range(8):
        run.feed("cam0", number)  # all at once: those in the middle find the queue full
    run.crew.advance(0.1)
    run.play(["cam0"], 4, first=8)
    stats = run.stop()
    assert stats["dropped"]["queue_full"] > 0
    for result in run.results:
        assert result.value[0] == max(0, result.frame_id - 2)


# Results --------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("B75", "B31")
def test_nothing_holds_on_to_frames_once_their_results_were_handed_over():
    kept, planes = [], []

    @hf.operator
    def spy(frames):
        planes.append(weakref.ref(frames))
        return frames.reshape(len(frames), -1)[:, :1]

    run = Run(packing=hf.Packing(size=4), operator=spy, on_result=kept.append)
    run.play(["cam0"], 12)
    run.stop()
    gc.collect()
    assert len(kept) == 12
    assert planes
    assert all(plane() is None for plane in planes)


@pytest.mark.requirement("B100")
def test_the_first_result_of_a_hyperframe_may_come_before_it_is_full():
    run = Run(packing=hf.Packing(size=8), operator=second_pixel, provisional=True, service=0.001)
    run.play(["a", "b"], 16)
    stats = run.stop()
    early = [result for result in run.results if result.provisional]
    assert [(r.stream, r.frame_id) for r in early] == [("a", 0), ("b", 0), ("a", 8), ("b", 8)]
    final = [result for result in run.results if not result.provisional]
    assert stats["delivered"] == len(final) == 32
    for result in early:
        (same,) = [r for r in final if (r.stream, r.frame_id) == (result.stream, result.frame_id)]
        assert same.value == result.value
        assert run.results.index(result) < run.results.index(same)


def test_provisional_results_need_operators_that_look_at_one_frame_at_a_time():
    run = Run(packing=hf.Packing(size=8), operator="temporal_mean:radius=1", provisional=True)
    with pytest.raises(hf.PipelineError, match="provisional results need temporal packing"):
        run.feed("a", 0)


def test_a_callback_that_raises_is_counted_and_told_and_stops_nothing():
    got = []

    def fails(result):
        raise RuntimeError("mine")

    run = Run(on_result=[fails, got.append])
    run.play(["cam0"], 8)
    stats = run.stop()
    assert stats["callback_errors"] == 8
    assert len(got) == stats["delivered"] == 8
    assert "on_result raised RuntimeError: mine" in run.kinds("warning")[0]["message"]


@pytest.mark.requirement("B53")
@pytest.mark.requirement("B34")
def test_a_slow_callback_is_bounded_by_the_queue():
    run = Run(packing=hf.Packing(size=1), queue=3, handing_over=1.0, operator=second_pixel)
    run.play(["cam0"], 60)
    stats = run.live.stats()
    assert stats["in_flight"] <= 12
    assert sum(stats["dropped"].values()) > 0
    run.stop()


def test_selected_out_frames_count_as_filtered():
    run = Run(packing=hf.Packing(size=4), operator="every:n=4")
    run.play(["cam0"], 12)
    stats = run.stop()
    assert run.ids() == [0, 4, 8]
    assert stats["dropped"] == {"filtered": 9}


# Streams --------------------------------------------------------------------------------------------------------------


def test_streams_come_and_go_while_it_runs():
    run = Run(packing=hf.Packing(size=2))
    run.play(["a"], 4)
    run.play(["a", "b"], 4, first=4)
    run.live.remove_source("a")
    run.play(["b"], 4, first=8)
    run.play(["a", "b"], 2, first=12)
    stats = run.stop()
    assert run.ids("a") == [0, 1, 2, 3, 4, 5, 6, 7, 12, 13]
    assert run.ids("b") == list(range(4, 14))
    assert stats["streams"]["a"]["epoch"] == 1
    with pytest.raises(hf.PipelineError, match="takes no frames"):
        run.feed("c", 0)


@pytest.mark.parametrize("ends", ["push", "drop"])
def test_a_stream_that_comes_while_a_frame_is_being_written_overtakes_nobody(ends):
    run = Run(packing=hf.Packing(kind="spatial", timeout=0.05))
    first, second = (run.live.inlet(name) for name in "ab")
    spec = hf.FrameSpec.array((6, 8), np.uint8)
    for inlet in (first, second):
        inlet.open(spec, rate=Fraction(FPS))
    began = run.clock.now_ns()
    first.slot(frame_id=0, capture_ns=began, arrival_ns=began)  # and its copy takes long
    second.slot(frame_id=0, capture_ns=began, arrival_ns=began)
    second.push()
    run.live.inlet("c")
    for number in range(1, 4):
        run.crew.advance(1 / FPS)
        now = run.clock.now_ns()
        second.slot(frame_id=number, capture_ns=now, arrival_ns=now)
        second.push()
    run.crew.advance(0.2)
    assert run.ids("b") == []
    first.push() if ends == "push" else first.drop("corrupt")
    run.crew.advance(0.2)
    assert run.ids("b") == [0, 1, 2, 3]
    check_ledger(run.live.stats())
    run.stop()


@pytest.mark.parametrize(("kind", "size"), [("spatial", 1), ("both", 3)])
def test_frames_of_instants_keep_the_epoch_in_which_they_came(kind, size):
    run = Run(packing=hf.Packing(kind=kind, size=size, timeout=1.0), when_full="block")
    for name in "ab":
        run.live.inlet(name)
    for number in range(4):
        for name in "ab":
            run.feed(name, 100 + number, timestamp=1000 + number / FPS)
    run.feed("a", 104, timestamp=1000 + 4 / FPS)  # b's is missing: the instant stays open
    for number in range(4):  # a's numbers begin anew
        run.feed("a", number, timestamp=1000 + (5 + number) / FPS)
        run.feed("b", 105 + number, timestamp=1000 + (5 + number) / FPS)
        run.crew.advance(1 / FPS)
    run.stop()
    got = [(result.epoch, result.frame_id) for result in run.results if result.stream == "a"]
    assert got == [*((0, number) for number in range(100, 105)), *((1, number) for number in range(4))]


def test_a_source_that_is_not_there_cannot_be_removed():
    run = Run()
    run.play(["a"], 1)
    with pytest.raises(hf.PipelineError, match="no source named 'b'; known: a"):
        run.live.remove_source("b")


@pytest.mark.requirement("B15", "B55")
def test_stopping_without_draining_gives_up_what_waits():
    run = Run(packing=hf.Packing(size=2), queue=10, service=1.0, operator=second_pixel)
    for number in range(9):
        run.feed("cam0", number)
    run.crew.settle()
    stats = run.stop(drain=False)
    assert stats["dropped"]["cancelled"] == 7
    assert run.ids() == [0, 1]


@pytest.mark.requirement("B69", "B73")
def test_stats_tell_rate_age_span_error_and_drift():
    run = Run(packing=hf.Packing(size=4))
    origin = run.clock.now_ns()
    for number in range(300):
        now = run.clock.now_ns()
        camera = origin + (now - origin) * 1.0001 + 5e9  # a clock 100 ppm fast, and 5 s ahead
        run.feed("cam0", number, timestamp=camera / 1e9)
        run.crew.advance(1 / FPS)
    stream = run.live.stats()["streams"]["cam0"]
    assert stream["fps"] == pytest.approx(30, rel=0.05)
    assert stream["drift_ppm"] == pytest.approx(100, rel=0.1)
    assert abs(stream["span_error_seconds"]) < 0.001
    run.crew.advance(3.0)
    stream = run.live.stats()["streams"]["cam0"]
    assert stream["fps"] == 0
    assert stream["last_frame_age_seconds"] == pytest.approx(3.0, abs=0.1)
    run.stop()


@pytest.mark.requirement("B23")
def test_files_and_iterables_are_replayed_flat_out_without_loss_when_writers_wait():
    frames = np.stack([picture(n) for n in range(50)])
    results = []
    live = hf.LiveRuntime(
        {"array": frames, "generator": (picture(n) for n in range(30)), "file": "synthetic:moving?frames=20"},
        packing=hf.Packing(size=4),
        operator=second_pixel,
        on_result=results.append,
        pace="flat",
        when_full="block",
    )
    with live:
        assert live.wait(30.0)
    stats = live.stats()
    assert {name: stream["delivered"] for name, stream in stats["streams"].items()} == {
        "array": 50,
        "generator": 30,
        "file": 20,
    }
    assert [r.value[0] for r in results if r.stream == "array"] == list(range(50))


def test_a_source_that_cannot_be_opened_ends_and_the_others_go_on(tmp_path):
    told = []

    class Watch:
        def observe(self, observation):
            told.append(observation)

    sources = {"there": np.zeros((5, 4, 4), np.uint8), "missing": str(tmp_path / "none.mp4")}
    live = hf.LiveRuntime(sources, packing=hf.Packing(size=4), pace="flat", when_full="block", instruments=(Watch(),))
    with live:
        assert live.wait(30.0)
    ended = {seen["stream"]: seen["reason"] for seen in told if seen["kind"] == "stream" and seen["state"] == "ended"}
    assert ended["missing"].startswith("failed: no such file")
    assert live.stats()["delivered"] == 5


def test_a_camera_that_never_connected_is_unreachable_and_only_one_that_did_can_be_lost():
    run = Run()
    inlet = run.live.inlet("door")
    inlet.lost("Connection refused")
    inlet.open(hf.FrameSpec.array((4, 6), np.uint8), rate=None)
    inlet.lost("ended")
    inlet.open(hf.FrameSpec.array((4, 6), np.uint8), rate=None)
    told = [(seen["state"], seen["reason"]) for seen in run.seen if seen["kind"] == "stream"]
    run.stop()
    assert told == [
        ("added", ""),
        ("unreachable", "Connection refused"),
        ("connected", ""),
        ("lost", "ended"),
        ("reconnected", ""),
    ]


def test_an_inlet_can_be_written_by_whoever_captures():
    run = Run(packing=hf.Packing(size=2))
    inlet = run.live.inlet("cam0")
    inlet.open(hf.FrameSpec.array((4, 4), np.uint8), rate=Fraction(30))
    for number in range(4):
        (plane,) = inlet.slot(frame_id=number, capture_ns=None, arrival_ns=run.clock.now_ns())
        plane[...] = number
        inlet.push()
    inlet.drop("corrupt", 2)
    inlet.end("ended")
    stats = run.stop()
    assert run.ids() == [0, 1, 2, 3]
    assert stats["dropped"] == {"corrupt": 2}


def test_callbacks_and_stats_are_safe_from_other_threads():
    results, live = [], None

    def ask(result):
        results.append(live.stats()["captured"])

    live = hf.LiveRuntime(packing=hf.Packing(size=2), on_result=ask, when_full="block")
    with live:
        threads = [
            threading.Thread(target=lambda n=n: [live.feed(f"s{n}", picture(i)) for i in range(20)]) for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert live.stats()["delivered"] == len(results) == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"when_full": "drop"}, "when_full: expected one of drop_oldest, drop_newest, block, degrade, got 'drop'"),
        ({"queue": 0}, "queue: expected at least 1, got 0"),
        ({"on_gap": "stop"}, "on_gap: expected one of reset, keep"),
        ({"pace": "fast"}, "pace: expected one of real, flat"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(hf.PipelineError, match=message):
        hf.LiveRuntime(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "expected at least 1, got 0"),
        ({"timeout": 0}, "packing.timeout: expected from 1e-06 to"),
        ({"kind": "spacial"}, "packing.kind: expected one of temporal, spatial, both"),
        ({"trigger": "latency"}, "the trigger 'latency' needs a budget"),
        ({"lateness": -1}, "packing.lateness: expected from 0 to"),
    ],
)
def test_packings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(hf.PipelineError, match=message):
        hf.Packing(**options)
