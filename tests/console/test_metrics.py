"""Prometheus text: read back by Prometheus's own reader, and cheap."""

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.drivers.live_observations import life

from hyperframes.console.metrics import BUCKETS, Histogram, Metrics, render


def stream(**more):
    told = {"captured": 10, "delivered": 7, "dropped": {"late": 1, "expired": 1}, "in_flight": 1, "fps": 29.9}
    return (
        told
        | {"last_frame_age_seconds": 0.01, "reconnects": 2, "epoch": 3, "span_error_seconds": 0.001, "drift_ppm": None}
        | more
    )


def stats(num_streams=2):
    return {
        "captured": 10 * num_streams,
        "streams": {f"cam{i}": stream() for i in range(num_streams)},
        "hyperframes": 5,
        "partial": 1,
        "sealed": {"full": 4, "timeout": 1},
        "queue": {"depth": 3, "capacity": 8, "mean_depth": 1.5},
        "device": {"resource": "device:cpu", "busy_share": 0.4, "failures": 0},
        "lock_wait_share": 0.001,
        "latency_seconds": {},
    }


def read(text):
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def watched(*lists):
    metrics = Metrics()
    for observations in lists:
        for observation in observations:
            metrics.observe(observation)
    return metrics


@pytest.mark.requirement("B76")
def test_depth_drops_and_reasons_are_read_by_prometheus(tmp_path):
    found = read(render(stats(), Metrics()))
    assert found["hyperframes_queue_depth", ()] == 3
    assert found["hyperframes_queue_mean_depth", ()] == 1.5
    assert found["hyperframes_dropped_frames_total", (("reason", "late"), ("stream", "cam1"))] == 1
    assert found["hyperframes_seal_reasons_total", (("reason", "timeout"),)] == 1
    assert found["hyperframes_reconnects_total", (("stream", "cam0"),)] == 2
    assert found["hyperframes_device_busy_share", (("device", "device:cpu"),)] == 0.4
    assert ("hyperframes_clock_drift_ppm", (("stream", "cam0"),)) not in found


@pytest.mark.requirement("B82")
@pytest.mark.requirement("B73")
def test_span_error_and_lock_wait_share_are_told():
    found = read(render(stats(), Metrics()))
    assert found["hyperframes_span_error_seconds", (("stream", "cam0"),)] == 0.001
    assert found["hyperframes_lock_wait_share", ()] == 0.001


@pytest.mark.requirement("B9")
def test_stages_and_streams_have_histograms():
    metrics = watched(life(0), life(1, latency_ms=200), life(2, streams=("cam1",)), life(3, dropped="expired"))
    found = read(render(stats(), metrics))
    assert found["hyperframes_stage_seconds_count", (("stage", "total"),)] == 3
    totals, packs = (found["hyperframes_stage_seconds_sum", (("stage", stage),)] for stage in ("total", "pack"))
    assert packs == pytest.approx(4 * 0.233)
    assert totals == pytest.approx(3 * 0.233 + sum(metrics.streams[name].total for name in ("cam0", "cam1")))
    assert found["hyperframes_stage_seconds_count", (("stage", "pack"),)] == 4
    assert found["hyperframes_latency_seconds_count", (("stream", "cam0"),)] == 2
    assert found["hyperframes_latency_seconds_bucket", (("le", "0.025"), ("stream", "cam0"))] == 1
    assert found["hyperframes_latency_seconds_sum", (("stream", "cam0"),)] == pytest.approx(0.22)
    assert found["hyperframes_ended_hyperframes_total", (("outcome", "dropped"),)] == 1
    assert metrics._open == {}


def test_a_histogram_counts_its_bounds_below_as_prometheus_does():
    histogram = Histogram()
    for seconds in (0.0, BUCKETS[0], BUCKETS[0] * 1.01, BUCKETS[-1] * 2):
        histogram.add(seconds)
    assert histogram.counts == [2, 1, *[0] * 9, 1]


def test_names_of_streams_cannot_break_the_text():
    odd = 'front "door"\\\n} 1'
    found = read(render(stats() | {"streams": {odd: stream()}}, Metrics()))
    assert found["hyperframes_captured_frames_total", (("stream", odd),)] == 10


def test_the_journals_state_is_told():
    told = {"written": 5, "waiting": 1, "lost": 2, "failing": "disk full"}
    found = read(render(stats(), Metrics(), told))
    assert found["hyperframes_journal_lost_total", ()] == 2
    assert found["hyperframes_journal_failing", ()] == 1


@pytest.mark.requirement("A106")
def test_an_offline_run_has_the_same_counts_without_streams():
    metrics = Metrics()
    for i in range(3):
        metrics.observe({"kind": "sealed", "ns": i, "sequence": i, "core": (4 * i, 4 * i + 4), "seal_reason": "full"})
    metrics.observe({"kind": "done", "ns": 9, "sequence": 0, "stage": "blur", "duration_ns": 2_000_000})
    metrics.observe({"kind": "emitted", "ns": 9, "sequence": 0, "core": (0, 4), "whole": True})
    metrics.observe({"kind": "dropped", "ns": 9, "sequence": 1, "reason": "failed"})
    told = metrics.stats()
    assert (told["captured"], told["delivered"], told["dropped"], told["in_flight"]) == (12, 4, {"failed": 4}, 4)
    found = read(render(told, metrics))
    assert found["hyperframes_captured_frames_total", ()] == 12
    assert found["hyperframes_dropped_frames_total", (("reason", "failed"),)] == 4
    assert found["hyperframes_stage_seconds_count", (("stage", "blur"),)] == 1


@pytest.mark.alone
def test_a_scrape_of_48_streams_costs_less_than_a_registrys():
    """The general registry of the field takes about three times as long; a ratio, since machines differ."""
    from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
    from prometheus_client import Histogram as Theirs

    metrics = watched(*(life(i, streams=(f"cam{i}",)) for i in range(48)))
    registry = CollectorRegistry()
    for n in range(8):
        counter = Counter(f"c{n}", "c", ["stream"], registry=registry)
        [counter.labels(f"cam{i}").inc() for i in range(48)]
    for n in range(4):
        gauge = Gauge(f"g{n}", "g", ["stream"], registry=registry)
        [gauge.labels(f"cam{i}").set(1) for i in range(48)]
    theirs = Theirs("h", "h", ["stream"], buckets=BUCKETS, registry=registry)
    [theirs.labels(f"cam{i}").observe(0.1) for i in range(48)]
    told = stats(48)

    def cost(call):
        times = []
        for _ in range(15):
            began = time.process_time()
            call()
            times.append(time.process_time() - began)
        return sorted(times)[7]

    assert cost(lambda: render(told, metrics)) < 0.8 * cost(lambda: generate_latest(registry))
