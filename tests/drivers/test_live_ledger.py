"""Every frame is accounted for, at every moment, whatever happens to it."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drivers.live_runs import Run, check_ledger, picture

import hyperframes as hf
from hyperframes.drivers.ledger import Latencies

streams = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.just("feed"), streams, st.integers(-3, 3)),
    st.tuples(st.just("again"), streams, st.just(0)),
    st.tuples(st.just("wait"), streams, st.integers(1, 120)),
    st.tuples(st.just("restart"), streams, st.just(0)),
    st.tuples(st.just("lost"), streams, st.just(0)),
    st.tuples(st.just("unwritten"), streams, st.just(0)),
    st.tuples(st.just("drop"), streams, st.integers(1, 3)),
    st.tuples(st.just("event"), streams, st.just(0)),
    st.tuples(st.just("remove"), streams, st.just(0)),
    st.tuples(st.just("larger"), streams, st.integers(0, 1)),
)
packings = st.builds(
    hf.Packing,
    size=st.integers(1, 5),
    timeout=st.sampled_from([None, 0.02, 0.2]),
    kind=st.sampled_from(["temporal", "temporal", "spatial", "both"]),
    trigger=st.sampled_from(["count", "window", "event"]),
    event=st.sampled_from(["seal", "start"]),
    lateness=st.sampled_from([0.0, 0.05]),
    pad=st.booleans(),
)


@hf.operator
def poisoned(frames):
    """Fails on every picture that shows 13."""
    flat = frames.reshape(len(frames), -1)
    if (flat[:, 1] == 13).any():
        raise ValueError("13")
    return flat[:, :2].astype(np.int64)


@pytest.mark.requirement("B54", "B76", "X17")
@settings(max_examples=60, deadline=None)
@given(
    schedule=st.lists(steps, max_size=60),
    packing=packings,
    when_full=st.sampled_from(["drop_oldest", "drop_newest", "degrade"]),
    queue=st.integers(1, 4),
    service=st.sampled_from([0.0, 0.01, 0.08]),
    workers=st.integers(1, 2),
    join=st.integers(1, 2),
    drain=st.booleans(),
)
def test_the_ledger_closes_at_every_moment(schedule, packing, when_full, queue, service, workers, join, drain):
    run = Run(
        packing=packing,
        when_full=when_full,
        queue=queue,
        service=service,
        workers=workers,
        join=join,
        operator=poisoned,
    )
    play(run, schedule)
    stats = run.stop(drain=drain)
    check_outcomes(run, stats)


def play(run, schedule):
    number = dict.fromkeys("abc", 5)
    shape = (6, 8)
    for what, stream, value in schedule:
        number[stream] += 1
        now = run.clock.now_ns() / 1e9
        station = run.live._stations.get(stream)
        there = station is not None and not station.over and station.spec is not None
        if what == "feed":
            frame = picture(number[stream], shape)
            try:
                run.live.feed(stream, frame, frame_id=max(0, number[stream] + value), timestamp=now + value / 30)
            except hf.FrameError:
                assert run.live.packing.kind != "temporal"  # another size than the other streams'
        elif what == "again":
            run.feed(stream, number[stream] - 1) if shape == (6, 8) else None
        elif what == "wait":
            run.crew.advance(value / 1000, step=0.004)
        elif what == "event":
            run.live.event()
        elif what == "larger":
            shape = (6, 8) if value or run.live.packing.kind != "temporal" else (4, 4)
        elif there:
            act(run, station, what, value)
        run.check()


def act(run, station, what, value):
    if what == "restart":
        station.restart("reconnected")
    elif what == "lost":
        station.lost("gone")
    elif what == "drop":
        station.drop("corrupt", value)
    elif what == "remove":
        run.live.remove_source(station.name)
    elif what == "unwritten":
        station.slot(frame_id=None, capture_ns=None, arrival_ns=run.clock.now_ns())


def check_outcomes(run, stats):
    """Each frame has one result or one reason, results are in order, and observers were told the same."""
    run.results = [result for result in run.results if not result.provisional]
    assert stats["delivered"] == len(run.results)
    told = sum(seen["count"] for seen in run.kinds("frames_dropped")) + sum(
        seen["frames"] for seen in run.kinds("dropped")
    )
    assert told == sum(stats["dropped"].values())
    assert sum(seen["frames"] for seen in run.kinds("delivered")) == stats["delivered"]
    sealed = [seen["hyperframe"] for seen in run.kinds("sealed")]
    ended = sorted(seen["hyperframe"] for seen in run.seen if seen["kind"] in {"delivered", "dropped"})
    assert sealed == ended == list(range(len(sealed)))
    for stream in "abc":
        of_stream = [(r.epoch, r.sequence) for r in run.results if r.stream == stream]
        assert of_stream == sorted(of_stream)
    for result in run.results:
        assert result.value[1] == result.frame_id % 251 or result.value[1] > 0


@pytest.mark.requirement("B51", "B87")
@pytest.mark.slow
def test_the_ledger_closes_while_many_threads_feed():
    delivered, stop = [], threading.Event()
    live = hf.LiveRuntime(
        packing=hf.Packing(size=8, timeout=0.02), on_result=delivered.append, queue=4, operator=poisoned
    )

    def feed(name):
        for number in range(300):
            live.feed(name, picture(number), frame_id=number)

    def watch():
        while not stop.is_set():
            check_ledger(live.stats())

    with live:
        threads = [threading.Thread(target=feed, args=(f"cam{i}",)) for i in range(8)]
        watcher = threading.Thread(target=watch)
        for thread in (*threads, watcher):
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        watcher.join()
    stats = live.stats()
    check_ledger(stats)
    assert stats["captured"] == 8 * 300
    assert stats["in_flight"] == 0
    assert stats["delivered"] == len(delivered)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60))
def test_latencies_tell_the_quantiles_of_the_recent_ones_and_the_longest_ever(times):
    latencies = Latencies()
    latencies.KEPT = 16
    for ns in times:
        latencies.add("pack", ns)
    told = latencies.seconds()["pack"]
    for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert told[name] == pytest.approx(float(np.quantile(times[-16:], q)) / 1e9, rel=1e-9, abs=1e-12)
    assert told["max"] == max(times) / 1e9
