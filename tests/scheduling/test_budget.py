"""The latency budget, both ways, against the worked derivation W4."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import PipelineError
from hyperframes.scheduling.budget import LiveLoad, budget_for_latency, budget_for_size, cost_per_frame


def test_cost_per_frame_adds_up():
    assert cost_per_frame(8, 0.001, 0.01, 0.002, 0.03, prepare_discount=0.75) == pytest.approx(0.001 + 0.0075 + 0.004)


def test_the_wait_for_8_frames_at_30_fps_is_233_ms():
    load = LiveLoad(fps=30)
    assert load.wait_first(8) == pytest.approx(7 / 30)
    assert load.wait_first(16) == pytest.approx(0.5)
    assert LiveLoad(fps=30, halo_after=2).wait_first(8) == pytest.approx(9 / 30)


def test_latency_by_stage_for_a_given_size():
    load = LiveLoad(fps=30, infer_base=0.02, infer_per_frame=0.004, prepare=0.002, unpack=0.001, transport=0.01)
    answer = budget_for_size(load, 8, latency=0.5)
    stages = answer.latency
    assert stages.pack == pytest.approx(7 / 30)
    assert stages.prepare == pytest.approx(0.8 * 8 * 0.002)
    assert stages.infer == pytest.approx(0.02 + 8 * 0.004)
    assert (stages.queue, stages.unpack, stages.transport) == (0.0, 0.001, 0.01)
    assert stages.total == pytest.approx(sum([stages.pack, stages.prepare, stages.infer, 0.001, 0.01]))
    assert answer.feasible
    assert answer.timeout_seconds == pytest.approx(0.3)  # min(1.5 * 8 / 30, 0.6 * 0.5)
    assert answer.ttl_seconds == pytest.approx(0.5 - 0.052 - 0.01)
    assert answer.frames_per_second_capacity == pytest.approx(8 / (0.0128 + 0.052 + 0.001))


def test_the_halo_costs_time_in_pack_and_operator():
    plain, wide = (
        budget_for_size(LiveLoad(fps=30, infer_per_frame=0.002, halo_before=before, halo_after=after), 8, latency=1.0)
        for before, after in ((0, 0), (2, 1))
    )
    assert wide.latency.pack - plain.latency.pack == pytest.approx(1 / 30)
    assert wide.latency.infer - plain.latency.infer == pytest.approx(3 * 0.002)


def test_queue_depth_follows_from_the_rate_not_from_frames():
    """One stream of 30 fps and 0.2 s to spare: 0.75 of a hyperframe of 8, so 1; 48 streams: 36."""
    for sources, depth in ((1, 1), (48, 36)):
        answer = budget_for_size(LiveLoad(fps=30, sources=sources), 8, latency=7 / 30 + 0.2)
        assert answer.queue_depth == depth


def test_a_full_queue_of_given_depth_is_waited_through():
    load = LiveLoad(fps=30, infer_base=0.05)
    assert budget_for_size(load, 8, queue_depth=3).latency.queue == pytest.approx(0.15)
    assert budget_for_size(
        LiveLoad(fps=30, infer_base=0.05, workers=2), 8, queue_depth=3
    ).latency.queue == pytest.approx(0.1)


def test_a_burst_of_all_sources_is_waited_through():
    assert budget_for_size(LiveLoad(fps=30, sources=4, infer_base=0.01), 8).latency.queue == pytest.approx(0.03)


def test_a_timeout_before_the_size_can_fill_is_warned_of():
    answer = budget_for_size(LiveLoad(fps=30), 8, timeout=0.2)
    assert answer.latency.pack == 0.2
    assert answer.warnings == (
        "the timeout of 200 ms comes before size 8 can fill (233.3 ms): hyperframes will hold about 7 frames",
    )
    (told,) = budget_for_size(LiveLoad(fps=30), 8, timeout=0.01).warnings
    assert told.endswith("hyperframes will hold about 1 frame")


def test_workers_that_are_nearly_always_busy_are_warned_of():
    answer = budget_for_size(LiveLoad(fps=30, infer_base=0.24), 8)
    assert answer.feasible
    assert answer.warnings == ("the workers are busy 90 % of the time: above 80 % waiting grows fast",)


def test_a_rate_that_cannot_be_kept_is_a_reason():
    answer = budget_for_size(LiveLoad(fps=30, sources=48, infer_base=0.016), 16)
    assert not answer.feasible
    assert answer.reasons == ("48 sources at 30 frames/s bring 1440 frames/s: 1 worker can do 1000 at size 16",)


def test_a_latency_that_cannot_be_kept_is_a_reason_with_all_stages():
    answer = budget_for_size(LiveLoad(fps=30, infer_base=0.1), 16, latency=0.3, timeout=1.0)
    assert answer.reasons == (
        (
            "size 16 takes up to 600 ms: pack 500 ms, queue 0 ms, prepare 0 ms, infer 100 ms, unpack 0 ms, "
            "transport 0 ms; 300 ms are allowed"
        ),
    )


def test_half_a_second_at_30_fps_gives_the_worked_bound_of_9():
    answer = budget_for_latency(LiveLoad(fps=30, infer_base=0.02, infer_per_frame=0.005), 0.5)
    assert answer.feasible
    assert answer.size == 9 == math.floor(round(0.3 * 30, 9))
    assert answer.timeout_seconds == pytest.approx(0.3)
    assert answer.warnings == ()


def test_an_operator_slower_than_the_budget_has_no_size():
    answer = budget_for_latency(LiveLoad(fps=30, infer_base=0.6), 0.5)
    assert not answer.feasible
    assert "500 ms are allowed" in " ".join(answer.reasons)


def test_too_many_sources_are_told_how_many_workers_would_do():
    answer = budget_for_latency(LiveLoad(fps=30, sources=48, infer_per_frame=0.002), 0.5)
    assert not answer.feasible
    assert answer.reasons[0].startswith("48 sources at 30 frames/s bring 1440 frames/s: 1 worker can do 500 at size")
    assert answer.reasons[-1] == "3 workers, fewer sources or fewer frames a second would keep up"


@given(
    st.builds(
        LiveLoad,
        fps=st.sampled_from([5.0, 25.0, 30.0, 60.0]),
        sources=st.integers(1, 48),
        infer_base=st.floats(0, 0.05),
        infer_per_frame=st.floats(0, 0.01),
        prepare=st.floats(0, 0.002),
        unpack=st.floats(0, 0.001),
        transport=st.floats(0, 0.05),
        workers=st.integers(1, 4),
        halo_before=st.integers(0, 2),
        halo_after=st.integers(0, 2),
    ),
    st.sampled_from([0.05, 0.2, 0.5, 2.0]),
)
def test_both_ways_of_the_budget_agree(load, latency):
    """What backwards calls feasible is so forwards, and no larger size within the pack budget is."""
    answer = budget_for_latency(load, latency)
    again = budget_for_size(load, answer.size, latency=latency)
    assert (again.feasible, again.latency, again.timeout_seconds) == (
        answer.feasible,
        answer.latency,
        answer.timeout_seconds,
    )
    if answer.feasible:
        assert answer.latency.total <= latency * (1 + 1e-6)
        assert answer.frames_per_second_capacity >= load.total_fps
        assert answer.queue_depth >= 1
        assert 0 <= answer.ttl_seconds <= 1
    else:
        assert answer.reasons


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LiveLoad(fps=0), r"^fps: expected more than 0, got 0$"),
        (lambda: LiveLoad(fps=30, sources=0), r"^sources: expected at least 1, got 0$"),
        (lambda: budget_for_size(LiveLoad(fps=30), 0), r"^size: expected at least 1, got 0$"),
        (lambda: budget_for_latency(LiveLoad(fps=30), 0), r"^latency: expected more than 0 seconds, got 0$"),
    ],
)
def test_wrong_numbers_are_named(call, message):
    with pytest.raises(PipelineError, match=message):
        call()
