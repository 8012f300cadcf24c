"""The temporal mean against plain NumPy, for every dtype and shape of frames."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import temporal

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators import cache_lines
from hyperframes.operators.temporal_mean import TemporalMean, _magic, mean_kernel, row_kernel
from hyperframes.testing.operators import random_planes, run_split

SPECS = (
    FrameSpec.picture(5, 7, "yuv420p"),
    FrameSpec.picture(4, 6, "rgb24"),
    FrameSpec.picture(4, 6, "gray16le"),
    *(FrameSpec.array((3,), d) for d in ("i1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8")),
    FrameSpec.array((), np.float32),
    FrameSpec.array((2, 3, 4), np.float64),
    FrameSpec.array((1100,), np.float32),
)


@pytest.mark.requirement("A65")
@given(
    st.sampled_from(SPECS),
    st.integers(0, 12),
    st.integers(1, 14),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.integers(0, 10_000),
)
def test_split_means_equal_the_mean_over_the_whole_padded_sequence(spec, length, size, before, after, boundary, seed):
    planes = random_planes(spec, length, seed, nans=True)
    operator = TemporalMean(before=before, after=after)
    got = run_split(operator, planes, np.arange(length), spec, boundary, size=size)["frames"]
    for plane, out in zip(planes, got.planes, strict=True):
        expected = temporal.per_frame(temporal.mean, plane, before, after, boundary)
        assert out.dtype == plane.dtype
        np.testing.assert_array_equal(out, expected)


@given(
    st.integers(1, 9),
    st.sampled_from([1, 2, 5, 16]),
    st.integers(0, 40),
    st.sampled_from([2, 62, 64, 66, 128, 640, 1000]),
    st.integers(0, 200),
    st.integers(0, 200),
    st.sampled_from([0, 2, 64, 66]),
    st.integers(0, 1000),
)
def test_means_written_past_the_cache_are_the_same_wherever_lines_of_it_begin(
    count, num_frames, begin, samples, start, more, shift, seed
):
    """Rows of results begin `begin` pairs after a line; a range is written to places `shift` samples on."""
    rng = np.random.default_rng(seed)
    start, shift = (2 * min(start, samples) // 2 // 2 * 2, shift) if shift else (min(start, samples), 0)
    stop = min(samples, start + more)
    source = rng.integers(0, 256, (count + num_frames - 1, samples), np.uint8)
    outs = []
    for least in (0, 1 << 40):
        memory = np.zeros(count * 1280 + 64 + 2 * begin + 64, np.uint8)
        first = -memory.__array_interface__["data"][0] % 64 + 2 * begin
        out = memory[first : first + count * 1280].reshape(count, 1280)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cache_lines, "PASSING_BYTES", least)
            mean_kernel(source, out, num_frames)(start, stop, shift)
        outs.append(out.copy())
    np.testing.assert_array_equal(outs[0], outs[1])
    for j in range(count):
        expected = (2 * source[j : j + num_frames].sum(axis=0, dtype=np.int64) + num_frames) // (2 * num_frames)
        if start % 2 == stop % 2 == 0:
            np.testing.assert_array_equal(outs[0][j, start + shift : stop + shift], expected[start:stop])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("num_frames", [1, 2, 4, 5, 9])
def test_rows_are_averaged_along_time_to_the_bit_as_across_columns(dtype, columns, num_frames):
    rng = np.random.default_rng(columns)
    rows = (rng.standard_normal((3000, columns)) * 10.0 ** rng.integers(-30, 30, (3000, columns))).astype(dtype)
    rows[rng.random(rows.shape) < 0.01] = np.nan
    rows[rng.random(rows.shape) < 0.3] = -0.0
    across, along = (np.full((3001 - num_frames, columns), 7, dtype) for _ in range(2))
    mean_kernel(rows, across, num_frames)(0, columns, 0)
    kernel = row_kernel(rows, along, num_frames)
    kernel(0, 1234)
    kernel(1234, along.size)
    assert along.tobytes() == across.tobytes()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.int64, np.uint64])
@pytest.mark.parametrize("num_frames", [2, 15, 16, 17, 257])
def test_extreme_integers_neither_overflow_nor_round_wrongly(dtype, num_frames):
    info = np.iinfo(dtype)
    extremes = np.array([info.min, info.max, info.max - 1], dtype)
    plane = np.random.default_rng(num_frames).choice(extremes, (num_frames + 1, 20))
    plane[:, 0], plane[:, 1] = info.min, info.max
    operator = TemporalMean(before=num_frames - 1, after=0)
    spec = FrameSpec.array((20,), dtype)
    got = run_split(operator, [plane], np.arange(len(plane)), spec, size=2)["frames"].data
    np.testing.assert_array_equal(got, temporal.per_frame(temporal.mean, plane, num_frames - 1, 0, "replicate"))


@pytest.mark.parametrize(("bits", "shift"), [(8, 16), (8, 32), (16, 32)])
def test_division_by_multiplying_is_exact_for_every_sum(bits, shift):
    for divisor in (1, 2, 3, 5, 7, 9, 11, 15, 16, 25, 33, 64, 99):
        magic = _magic(divisor, bits, shift)
        if magic is not None:
            sums = np.arange(((1 << bits) - 1) * divisor + divisor // 2 + 1, dtype=np.uint64)
            np.testing.assert_array_equal(sums * np.uint64(magic) >> np.uint64(shift), sums // np.uint64(divisor))


def test_usual_windows_of_bytes_take_the_fast_division():
    assert all(_magic(n, 8, 16) is not None for n in range(2, 16))


def test_a_nan_reaches_only_the_frames_whose_window_holds_it():
    rows = np.ones((9, 1), np.float32)
    rows[4] = np.nan
    spec = FrameSpec.array((1,), np.float32)
    got = run_split(TemporalMean(radius=1), [rows], np.arange(9), spec, size=4)["frames"].data
    assert np.flatnonzero(np.isnan(got[:, 0])).tolist() == [3, 4, 5]


def test_a_causal_mean_reads_no_later_frame():
    assert TemporalMean(radius=3, after=0).configure((SPECS[0],)).halo.after == 0
    assert TemporalMean(radius=3, after=0).configure((SPECS[0],)).halo.before == 3


def test_a_negative_radius_is_refused():
    with pytest.raises(PipelineError, match=r"'temporal_mean': radius is a whole number: expected 0 to 2047, got -1"):
        TemporalMean(radius=-1).configure((SPECS[0],))


def test_booleans_are_refused():
    with pytest.raises(PipelineError, match=r"'temporal_mean' cannot work on bool samples: expected signed integers"):
        TemporalMean().configure((FrameSpec.array((2,), bool),))
