"""Sizes by preset, model and measurement, against the worked derivation W3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import PipelineError
from hyperframes.scheduling.sizing import (
    SWEEP,
    adjusted_size,
    best_size,
    choose_size,
    default_size,
    knee,
    largest_size_in,
    makespan,
    memory_bytes,
    modest_size,
    starting_point,
    step_size,
    sweep_candidates,
    tile_samples,
)

FULL_HD_YUV = 1920 * 1080 * 3 // 2

# Presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A14")
def test_full_hd_pictures_get_16_to_64_frames():
    sizes = [default_size(FULL_HD_YUV, is_picture=True, pixels=1920 * 1080, halo=halo) for halo in (0, 4, 8, 16, 64)]
    assert sizes == [16, 16, 21, 21, 64]  # halos grow a core to 64 MiB, beyond that to their own length only
    assert default_size(4 * FULL_HD_YUV, is_picture=True) == 16
    assert default_size(FULL_HD_YUV // 36, is_picture=True) == 64


@pytest.mark.requirement("A15")
def test_sensor_rows_get_128_to_256_frames_and_tiny_ones_more():
    assert [default_size(nbytes, is_picture=False) for nbytes in (4096, 1500, 1024)] == [128, 174, 256]
    assert default_size(64, is_picture=False) == 65536
    assert default_size(65, is_picture=False) == 4032
    assert default_size(4096, is_picture=False, halo=50) == 200


def test_a_large_array_is_sized_like_a_picture():
    assert default_size(8 << 20, is_picture=False) == 16


def test_a_halo_longer_than_the_preset_lifts_the_size_to_itself():
    assert default_size(FULL_HD_YUV, is_picture=True, halo=100) == 100


@pytest.mark.requirement("A14")
def test_the_preset_is_cut_to_the_memory():
    choice = choose_size(FULL_HD_YUV, is_picture=True, halo=4, workers=8, max_memory=500_000_000)
    assert choice.size == largest_size_in(500_000_000, FULL_HD_YUV, halo=4, workers=8) == 8
    assert 8 * (2 * 8 + 4) * FULL_HD_YUV <= 500_000_000 < 8 * (2 * 9 + 4) * FULL_HD_YUV
    assert choice.reasons == (
        "pictures of 2073600 pixels: preset 16 to 64",
        "500000000 bytes of memory hold 8 x (2 x 8 + 4) frames",
    )


def test_a_memory_too_small_for_one_frame_is_named():
    with pytest.raises(
        PipelineError, match=r"^8 workers need 49766400 bytes for one frame a hyperframe: expected at most 1$"
    ):
        default_size(FULL_HD_YUV, is_picture=True, workers=8, max_memory=1)


@pytest.mark.requirement("A14")
def test_a_preset_keeps_full_hd_video_near_160_mb_and_small_pictures_as_they_are():
    assert modest_size(16, FULL_HD_YUV, halo=4, in_flight=3) == 6
    assert 3 * (2 * 6 + 4) * FULL_HD_YUV <= 160 << 20 < 3 * (2 * 7 + 4) * FULL_HD_YUV
    assert modest_size(16, FULL_HD_YUV, halo=10, in_flight=3) == 10  # never less than is read for neighbours
    assert modest_size(16, 4 * FULL_HD_YUV, in_flight=9) == 4
    assert modest_size(2, 4 * FULL_HD_YUV, in_flight=9) == 2
    assert modest_size(64, FULL_HD_YUV // 36, halo=4, in_flight=3) == 64
    assert modest_size(65536, 8, in_flight=3) == 65536


@pytest.mark.requirement("A14")
def test_64_float_pictures_for_8_workers_take_12_7_gb():
    assert memory_bytes(64, 0, 1, 1920 * 1080 * 12, 0, inputs=1) == 1_592_524_800
    assert memory_bytes(64, 0, 8, 1920 * 1080 * 12, 0, inputs=8) == 12_740_198_400
    assert memory_bytes(10, 4, 2, 3, 5, inputs=3, results=4, scratch_bytes=7) == 3 * 14 * 3 + 4 * 10 * 5 + 2 * 7


# W3 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A12")
def test_the_makespan_model_gives_the_worked_example():
    times = [round(makespan(18000, size, 8, 0.001, 0.005, 4), 1) for size in (30, 32, 64)]
    assert times == [12.8, 12.9, 12.3]
    assert 18000 * 0.005 / 8 == 11.25


@given(
    st.integers(1, 5000),
    st.integers(1, 300),
    st.integers(1, 16),
    st.floats(0, 0.1),
    st.floats(1e-6, 0.1),
    st.integers(0, 20),
)
def test_no_run_is_faster_than_the_ideal(frames, size, workers, fixed, each, halo):
    assert makespan(frames, size, workers, fixed, each, halo) >= frames * each / workers * (1 - 1e-9)


@pytest.mark.requirement("A13")
def test_small_sizes_pay_the_fixed_cost_too_often_and_large_ones_leave_workers_idle():
    """By the model of W3: 18,000 frames of 5 ms on 8 workers, 1 ms a hyperframe, halo of 4."""
    times = {size: makespan(18000, size, 8, 0.001, 0.005, 4) for size in (1, 4, 64, 4000, 18000)}
    assert times[1] > times[4] > times[64]
    assert times[18000] > times[4000] > times[64]
    assert times[18000] == pytest.approx(18000 * 0.005, rel=1e-2)  # one worker does it all, the others wait


def test_the_best_size_by_the_model_is_the_smallest_of_the_fastest():
    assert best_size(18000, 8, 0.001, 0.005, 4) == min(
        SWEEP, key=lambda size: (makespan(18000, size, 8, 0.001, 0.005, 4), size)
    )
    assert best_size(1000, 1, 0.0, 0.001) == 8
    assert best_size(100, 4, 0.001, 0.001, candidates=[25, 50, 100]) == 25


@pytest.mark.requirement("A33")
def test_the_source_formula_gives_2_2_frames_of_float_and_4_4_of_bytes():
    assert round(starting_point(0.003, 20e9, 1920 * 1080 * 12), 1) == 2.2
    assert round(starting_point(0.003, 20e9, 1920 * 1080 * 3), 1) == 4.4


@pytest.mark.requirement("A15")
@pytest.mark.requirement("A32")
def test_the_source_formula_gives_about_10_for_small_rows_so_presets_are_needed():
    assert round(starting_point(10e-6, 20e9, 4096)) == 10


@pytest.mark.requirement("A35")
def test_the_knee_is_the_smallest_size_within_3_percent_of_the_best():
    curve = {8: 50.0, 16: 90.0, 32: 97.0, 64: 100.0, 128: 99.0}
    assert knee(curve) == 32
    assert knee(curve, tolerance=0.02) == 64
    assert knee({5: 1.0}) == 5
    with pytest.raises(PipelineError, match=r"^a knee needs measurements: expected at least one size, got none$"):
        knee({})


@pytest.mark.requirement("A35")
@pytest.mark.requirement("A85")
def test_a_sweep_tries_8_to_256_with_neighbours_of_powers_of_two():
    assert sweep_candidates() == (8, 16, 24, 30, 31, 32, 33, 47, 64, 96, 128, 192, 256)
    assert sweep_candidates(num_frames=40) == (8, 16, 24, 30, 31, 32, 33)
    assert sweep_candidates(num_frames=5) == (5,)
    assert sweep_candidates(frame_bytes=10, workers=2, max_memory=700, halo=3) == (8, 16)


def test_a_size_below_one_is_named():
    with pytest.raises(PipelineError, match=r"^size: expected at least 1, got 0$"):
        makespan(10, 0, 1, 0, 0)


@pytest.mark.requirement("A82")
def test_steps_of_a_chain_stay_in_the_cache_but_are_not_shorter_than_their_halos_bear():
    assert step_size(0, halo=4, cache_bytes=1 << 24) is None  # nothing passes between stages
    assert step_size(1 << 20, halo=2, cache_bytes=32 << 20) == 30
    assert step_size(8 << 20, halo=2, cache_bytes=32 << 20) == 16
    assert step_size(8 << 20, halo=12, cache_bytes=32 << 20) == 48


# During a run -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A35")
@pytest.mark.parametrize(
    ("size", "tried", "seconds", "expected"),
    [
        (64, {64: 1e4}, 0.001, 256),  # short: four times as large
        (64, {64: 1e4}, 0.006, 128),  # twice, where four times would be long enough
        (64, {64: 1e4}, 0.05, 64),  # neither short nor long
        (64, {64: 1e4}, 3.0, 32),  # long
        (8, {8: 1e4}, 3.0, 8),  # long, but the halo is as long
        (512, {512: 1e4}, 0.001, 1024),  # no room for four times as many
        (1024, {1024: 1e4}, 0.001, 1024),  # no room for twice as many
        (256, {64: 1e4, 256: 1.02e4}, 0.004, 64),  # within 3 % of a smaller one
        (256, {64: 1e4, 256: 2e4}, 0.004, 1024),
        (32, {64: 1e4, 32: 0.99e4}, 1.5, 32),  # half as large costs nothing
        (32, {64: 1e4, 32: 0.9e4}, 1.5, 64),  # but here it does
    ],
)
def test_a_run_goes_on_with_the_knee_of_what_it_tried_or_tries_another_size(size, tried, seconds, expected):
    assert adjusted_size(size, tried, seconds, least=8, most=1024) == expected


@given(
    size=st.sampled_from([1, 3, 16, 64, 100]),
    fixed=st.floats(1e-6, 1e-2),
    frame=st.floats(1e-7, 1.0),
    least=st.integers(1, 16),
    grown=st.sampled_from([1, 2, 5, 16, 1000]),
)
def test_sizes_stay_within_their_bounds_and_settle(size, fixed, frame, least, grown):
    least, most = min(size, least), size * grown
    tried = {}
    for _ in range(40):
        spent = fixed + size * frame
        tried[size] = size / spent
        following = adjusted_size(size, tried, spent, least=least, most=most)
        assert least <= following <= most
        if following == size or following in tried:
            break
        size = following
    assert following == size or following in tried
    assert tried[following] >= 0.97 * max(tried.values())


@pytest.mark.parametrize("sample_bytes", [1, 3, 17, 72, 300, 5000])
def test_tiles_fill_half_a_core_s_cache_and_no_two_frames_fall_into_the_same_places(sample_bytes):
    samples = tile_samples(sample_bytes, 2 << 20)
    assert samples * sample_bytes <= 1 << 20 or samples == 1984  # a shorter one would be most calls
    assert samples % 64 == 0
    assert all(samples * itemsize % 4096 for itemsize in (1, 2, 4, 8))
