"""Order, ids and times of live frames: against rules written out frame by frame, and against known clocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperframes as hf
from hyperframes.packing import ClockFit, Sequencer, fit_clock, interpolate, nearest, span_error
from hyperframes.packing.align import missing_ranges


def judged(frames, **options):
    """Return verdict, id and time of each (id, time) in turn; times are the sender's."""
    sequencer = Sequencer(**options)
    found = []
    for frame_id, time_ns in frames:
        verdict = sequencer.judge(frame_id, time_ns, sender=True)
        found.append((verdict, sequencer.frame_id, sequencer.time_ns))
    return found


def verdicts(frames, **options):
    return [verdict for verdict, _, _ in judged(frames, **options)]


MS = 1_000_000


@pytest.mark.requirement("B71")
@pytest.mark.parametrize("wrap", [1 << 16, 1 << 24, 1 << 32])
def test_ids_go_on_where_a_counter_wraps(wrap):
    frames = [((wrap - 3 + i) % wrap, i * 33 * MS) for i in range(6)]
    assert verdicts(frames) == [""] * 6
    assert [frame_id for _, frame_id, _ in judged(frames)] == [wrap - 3 + i for i in range(6)]


@pytest.mark.requirement("B71")
def test_ids_that_begin_again_while_time_goes_on_are_a_new_count():
    frames = [(100, 0), (101, 33 * MS), (0, 66 * MS), (1, 99 * MS)]
    assert verdicts(frames) == ["", "", "restart", ""]


def test_time_that_runs_back_while_ids_go_on_is_a_clock_that_was_set():
    frames = [(i, (1000 + 33 * i) * MS) for i in range(5)] + [(5 + i, 33 * i * MS) for i in range(3)]
    assert verdicts(frames) == ["", "", "", "", "", "restart", "", ""]


def test_a_small_step_back_of_the_clock_is_made_good():
    frames = [(0, 0), (1, 33 * MS), (2, 32 * MS + 900_000), (3, 99 * MS)]
    assert [(verdict, time) for verdict, _, time in judged(frames)] == [
        ("", 0),
        ("", 33 * MS),
        ("", 33 * MS),
        ("", 99 * MS),
    ]


def test_doubles_are_told_by_id_and_time_and_without_ids_by_time():
    assert verdicts([(0, 0), (1, 33 * MS), (1, 33 * MS), (2, 66 * MS)]) == ["", "", "duplicate", ""]
    assert verdicts([(None, 0), (None, 33 * MS), (None, 33 * MS)]) == ["", "", "duplicate"]


def test_two_frames_of_one_arrival_time_are_two_frames():
    sequencer = Sequencer()
    assert [sequencer.judge(None, 7, sender=False) for _ in range(3)] == ["", "", ""]
    assert sequencer.frame_id == 2


def test_three_frames_that_only_fit_each_other_are_a_new_count_even_by_arrival_time():
    sequencer = Sequencer()
    for i in range(10):
        sequencer.judge(i, i, sender=False)
    found = [sequencer.judge(i, 100 + i, sender=False) for i in range(4)]
    assert found == ["duplicate", "duplicate", "restart", ""]


def test_frames_captured_but_not_taken_leave_a_gap_in_the_count():
    sequencer = Sequencer()
    sequencer.judge(None, 0, sender=False)
    sequencer.skip(3)
    sequencer.judge(None, 1, sender=False)
    assert sequencer.frame_id == 4


@given(st.permutations(range(12)))
def test_however_near_frames_are_shuffled_each_is_taken_once(order):
    frames = [(number, number * 33 * MS) for number in order]
    assert verdicts(frames) == [""] * 12
    assert verdicts(frames + frames)[12:] == ["duplicate"] * 2 + verdicts(frames + frames)[14:]


@pytest.mark.requirement("B69", "X16", "D99")
@pytest.mark.parametrize("ppm", [-200.0, 0.0, 35.0])
def test_offset_and_drift_are_found_through_a_network_that_delays(ppm):
    rng = np.random.default_rng(3)
    fit = ClockFit()
    for k in range(30 * 60):
        capture = k / 30
        arrival = (capture - 2.5) / (1 + ppm * 1e-6) + 0.020 + rng.exponential(0.005)
        fit.add(round(capture * 1e9), round(arrival * 1e9))
    assert fit.drift_ppm == pytest.approx(ppm, abs=6)
    assert fit.offset_ns == pytest.approx(-2.5e9 + 20e6 - max(0, ppm) * 60e3, abs=15e6)


def test_a_model_of_a_clock_turns_its_times_back():
    times = np.arange(50.0)
    model = fit_clock(times, 3 + times * 1.0001)
    np.testing.assert_allclose(model.to_reference(3 + times * 1.0001), times, atol=1e-9)
    assert model.residual < 1e-9
    with pytest.raises(hf.FrameError, match="a clock is fitted to pairs of times"):
        fit_clock(times, times[:3])


@pytest.mark.requirement("B70")
@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=20, unique=True).map(sorted),
    st.lists(st.integers(-50, 1050), min_size=1, max_size=10),
    st.integers(0, 100),
)
def test_the_nearest_frame_is_the_nearest_within_the_tolerance(times, wanted, tolerance):
    found = nearest(np.array(times), np.array(wanted), tolerance)
    for want, position in zip(wanted, found, strict=True):
        least = min(abs(time - want) for time in times)
        assert (position == -1) == (least > tolerance)
        assert position == -1 or abs(times[position] - want) == least


def test_without_frames_none_is_near():
    assert nearest(np.array([]), np.array([1, 2]), 5).tolist() == [-1, -1]


def test_times_between_frames_are_interpolated_and_ends_hold():
    assert interpolate(np.array([0, 40, 120]), np.array([-10, 20, 80, 500])).tolist() == [0.0, 0.5, 1.5, 2.0]


@pytest.mark.requirement("B73")
def test_the_span_of_evenly_spaced_frames_has_no_error():
    assert span_error(np.arange(8) * 33.0, 33.0) == 0
    assert span_error(np.array([0.0, 33.0, 99.0]), 33.0) == 33
    assert span_error(np.array([]), 33.0) == 0


@given(st.sets(st.integers(0, 60), min_size=1, max_size=30))
def test_missing_ids_are_those_between_that_did_not_come(ids):
    present = sorted(ids)
    missing = {n for start, stop in missing_ranges(np.array(present)) for n in range(start, stop)}
    assert missing == set(range(present[0], present[-1])) - ids


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(-50, 50)), min_size=1, max_size=60),
    st.integers(1, 4),
)
def test_the_offset_of_a_clock_is_the_least_delay_of_the_last_stretches(steps, stretches):
    fit = ClockFit(stretch_ns=20, recent=stretches)
    arrival, least = 0, []  # (begin of a stretch, its least delay)
    for step, delay in steps:
        arrival += step
        fit.add(arrival - delay, arrival)
        if not least or arrival - least[-1][0] >= 20:
            least.append((arrival, delay))
        least[-1] = (least[-1][0], min(delay, least[-1][1]))
        assert fit.offset_ns == min(found for _, found in least[-stretches:])
    fit.forget()
    assert fit.offset_ns is None


@pytest.mark.requirement("B69", "B89")
@given(
    st.integers(-900, 900),
    st.integers(-900, 900),
    st.floats(0, 40),
    st.integers(0, 1000),
)
def test_a_clock_that_was_set_is_followed_within_two_stretches_whatever_the_network_does(before, after, jitter, seed):
    rng = np.random.default_rng(seed)
    fit = ClockFit()
    delays = []
    for k in range(30 * 9):
        off = before if k < 30 * 4 else after
        delay = off * MS + 5 * MS + round(rng.exponential(jitter) * MS)
        arrival = 10**18 + k * 33 * MS
        fit.add(arrival - delay, arrival)
        delays.append(delay)
        if k == 30 * 4 - 1 or k >= 30 * 6 + 2:  # two whole stretches after the step
            assert min(delays[max(0, k - 65) : k + 1]) <= fit.offset_ns <= min(delays[k - 27 : k + 1])


def test_a_step_of_the_clock_is_no_drift():
    fit = ClockFit()
    for k in range(30 * 20):
        fit.add(k * 33 * MS - (300 * MS if k > 300 else 0), k * 33 * MS + 2 * MS)
    assert fit.drift_ppm == pytest.approx(0, abs=1)
