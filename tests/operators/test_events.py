"""Operators on events against slow references, and the simulator against what light does."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperframes as hf
from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import EVENT_NAMES, Events, FrameSpec, event_histogram, time_surface, voxel_grid
from hyperframes.operators.event_denoise import EventDenoise
from hyperframes.operators.simulate_events import SimulateEvents
from hyperframes.operators.time_surface import TimeSurface
from hyperframes.operators.voxel_grid import VoxelGrid
from hyperframes.testing.operators import run_split

SENSOR = (12, 16)
SPEC = FrameSpec(((3,),), np.dtype(np.uint16), time_base=hf.open(np.zeros(1)).spec.time_base / 1_000_000,
                 names=EVENT_NAMES, sensor=SENSOR)  # fmt: skip


def drawn(seed, count=80):
    random = np.random.default_rng(seed)
    rows = random.integers(0, [SENSOR[1], SENSOR[0], 2], (count, 3)).astype(np.uint16)
    return rows, np.cumsum(random.integers(0, 400, count))


def as_events(rows, times):
    return Events.of(times, rows[:, 0], rows[:, 1], rows[:, 2], SENSOR)


# Pictures of events ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(0, 60))
def test_no_mass_is_lost_and_the_events_are_left_as_they_were(seed, bins, count):
    rows, times = drawn(seed, count)
    events, before = as_events(rows, times), rows.copy()
    span = (int(times[0]), int(times[-1])) if count else (0, 1)
    grid = voxel_grid(events, SENSOR, bins, span)
    assert grid.sum() == pytest.approx(float((2 * rows[:, 2].astype(int) - 1).sum()), abs=1e-4)
    np.testing.assert_array_equal(rows, before)


@given(st.integers(0, 10_000), st.integers(2, 7))
def test_a_voxel_grid_is_that_of_a_slow_loop(seed, bins):
    rows, times = drawn(seed, 40)
    wanted = np.zeros((bins, *SENSOR))
    for (x, y, p), t in zip(rows.tolist(), times.tolist(), strict=True):
        place = (t - times[0]) * (bins - 1) / max(times[-1] - times[0], 1)
        for b in range(bins):
            wanted[b, y, x] += (1 if p else -1) * max(0.0, 1 - abs(place - b))
    got = voxel_grid(as_events(rows, times), SENSOR, bins, (int(times[0]), int(times[-1])))
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@given(st.integers(0, 10_000))
def test_surfaces_and_counts_are_those_of_slow_loops(seed):
    rows, times = drawn(seed, 50)
    now, last, counts = int(times[-1]) - 500, {}, np.zeros((2, *SENSOR), int)
    for (x, y, p), t in zip(rows.tolist(), times.tolist(), strict=True):
        counts[p, y, x] += 1
        if t <= now:
            last[p, y, x] = t
    surface = np.zeros((2, *SENSOR))
    for place, t in last.items():
        surface[place] = math.exp(-(now - t) / 3000)
    events = as_events(rows, times)
    np.testing.assert_array_equal(event_histogram(events, SENSOR), counts)
    np.testing.assert_allclose(time_surface(events, SENSOR, now, 3000.0), surface, rtol=1e-5)


def test_events_beyond_a_sensor_are_an_error_not_a_wrong_pixel():
    with pytest.raises(FrameError, match="expected columns below 2 and rows below 1, got 3 and 0"):
        event_histogram(Events.of([0], [3], [0], [1]), (1, 2))


# Operators ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 90), st.integers(1, 5000))
def test_only_events_with_a_neighbour_are_kept(seed, size, window):
    rows, times = drawn(seed)
    kept = []
    for i, ((x, y, _), t) in enumerate(zip(rows.astype(int).tolist(), times.tolist(), strict=True)):
        last = {}
        for (a, b, _), s in zip(rows[:i].astype(int).tolist(), times[:i].tolist(), strict=True):
            last[a, b] = s
        around = [(x + i, y + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        if any(place in last and last[place] >= t - window for place in around):
            kept.append(i)
    got = run_split(EventDenoise(window), [rows], times, SPEC, size=size)["frames"]
    np.testing.assert_array_equal(got.index, kept)
    np.testing.assert_array_equal(got.data, rows[kept])


@given(st.integers(0, 10_000), st.integers(1, 90), st.integers(1, 30), st.integers(1, 30))
def test_windows_of_events_hold_the_events_they_cover(seed, size, length, hop):
    rows, times = drawn(seed, 70)
    grids = run_split(VoxelGrid(length, hop, 3), [rows], times, SPEC, size=size)["windows"]
    surfaces = run_split(TimeSurface(length, hop, 900.0), [rows], times, SPEC, size=size)["windows"]
    assert len(grids) == len(surfaces) == -(-70 // hop)
    for j, (grid, surface) in enumerate(zip(grids.data, surfaces.data, strict=True)):
        cut = slice(j * hop, j * hop + length)
        events = as_events(rows[cut], times[cut])
        span = (int(events.t[0]), int(events.t[-1]))
        np.testing.assert_array_equal(grid, voxel_grid(events, SENSOR, 3, span))
        np.testing.assert_array_equal(surface, time_surface(events, SENSOR, span[1], 900.0))


def test_operators_on_events_say_what_they_need():
    with pytest.raises(PipelineError, match=r"works on events: expected frames of x, y and p"):
        VoxelGrid().configure((FrameSpec.picture(4, 4, "gray"),))
    with pytest.raises(PipelineError, match="needs the size of the sensor"):
        EventDenoise().configure((SPEC.replace(sensor=None),))


# Simulator ------------------------------------------------------------------------------------------------------------

QUIET = {"mismatch": 0.0, "leak": 0.0, "refractory": 0}
GRAY = FrameSpec.picture(6, 8, "gray", time_base=hf.open(np.zeros(1)).spec.time_base / 1000)


def simulated(frames, pts, size=3, **options):
    return run_split(SimulateEvents(**{**QUIET, **options}), [frames], pts, GRAY, size=size)["records"]


def test_still_light_makes_no_events_and_a_step_makes_as_many_as_its_logarithm_says():
    frames = np.full((4, 6, 8), 50, np.uint8)
    frames[2:] = 200
    records = simulated(frames, np.arange(4) * 40, threshold=0.25)
    assert set(records.index.tolist()) == {2}
    assert set(records.columns["p"].tolist()) == {1}
    expected = math.log((200 / 255 + 0.02) / (50 / 255 + 0.02)) / 0.25
    counts = np.bincount(records.columns["y"] * 8 + records.columns["x"].astype(int), minlength=48)
    assert set(counts.tolist()) <= {math.floor(expected - 0.5), math.floor(expected + 0.5)}  # levels start in between
    assert counts.mean() == pytest.approx(expected - 0.5, rel=0.1)


def test_events_of_a_moving_edge_lie_on_it():
    frames = np.full((8, 6, 8), 30, np.uint8)
    for t in range(8):
        frames[t, :, : t + 1] = 220
    records = simulated(frames, np.arange(8) * 10)
    assert len(records)
    np.testing.assert_array_equal(records.columns["x"], records.index)
    assert set(records.columns["p"].tolist()) == {1}
    time, frame = records.columns["t"], records.index
    assert np.all((time >= (frame - 1) * 10_000) & (time <= frame * 10_000))
    assert np.all(np.diff(time) >= 0)


def test_a_refractory_time_leaves_events_out_and_leaks_come_at_their_rate():
    frames = np.full((2, 6, 8), 10, np.uint8)
    frames[1] = 250
    many, few = (simulated(frames, np.array([0, 10]), refractory=r) for r in (0, 100_000))
    assert len(few) == 48 < len(many)
    still = np.full((101, 6, 8), 90, np.uint8)
    leaks = simulated(still, np.arange(101) * 100, leak=2.0)
    assert len(leaks) == pytest.approx(48 * 10 * 2, rel=0.05)
    assert set(leaks.columns["p"].tolist()) == {1}


@given(st.integers(0, 1000), st.integers(1, 9))
def test_simulated_events_do_not_depend_on_the_size(seed, size):
    frames = np.random.default_rng(seed).integers(0, 256, (9, 6, 8), np.uint8)
    options = {"mismatch": 0.1, "leak": 5.0, "refractory": 2000, "seed": seed}
    whole, split = (simulated(frames, np.arange(9) * 33, size=s, **options) for s in (9, size))
    for name in "txyp":
        np.testing.assert_array_equal(split.columns[name], whole.columns[name])


# In the flow ----------------------------------------------------------------------------------------------------------


def recorded(path, seed=1, count=3000):
    rows, times = drawn(seed, count)
    np.savez(path, t=times, x=rows[:, 0], y=rows[:, 1], p=rows[:, 2], sensor=SENSOR)
    return rows, times


@pytest.mark.parametrize("size", [7, 500, 10_000])
def test_a_run_writes_the_events_that_were_kept(tmp_path, size):
    rows, times = recorded(tmp_path / "in.npz")
    whole = run_split(EventDenoise(), [rows], times, SPEC, size=3000)["frames"]
    hf.run(tmp_path / "in.npz", "event_denoise", to=tmp_path / "out.raw", size=size, workers=2)
    with hf.open(f"{tmp_path}/out.raw") as out:
        (got,), pts = out.arrays()
    np.testing.assert_array_equal(got, whole.data)
    np.testing.assert_array_equal(pts, times[whole.index])


@pytest.mark.requirement("D37")
def test_video_becomes_a_recording_and_pictures_again(tmp_path):
    source = hf.open("synthetic:moving?frames=12&width=64&height=48&cut=0")
    hf.run(source, "simulate_events:threshold=0.3", to=tmp_path / "sim.raw")
    with hf.open(f"{tmp_path}/sim.raw") as events, hf.open(f"{tmp_path}/sim.raw?window=40ms") as pictures:
        assert events.spec.sensor == (48, 64)
        total = sum(int(frame.data.sum()) for frame in pictures.read())
        assert total == events.count() > 100


@pytest.mark.requirement("D126")
def test_an_event_camera_that_shakes_tells_of_every_edge():
    """The claim that events shrug off vibration does not hold: this measures by how much it fails."""
    random = np.random.default_rng(3)
    texture = np.kron(random.integers(40, 220, (8, 8)), np.ones((8, 8))).astype(np.uint8)
    spec = FrameSpec.picture(48, 48, "gray", time_base=GRAY.time_base)

    def told(shake):
        frames = np.stack([texture[4 + s : 52 + s, 4:52] for s in (shake * np.array([0, 1, 0, -1] * 3)).tolist()])
        return len(run_split(SimulateEvents(**QUIET), [frames], np.arange(12) * 20, spec, size=4)["records"])

    assert told(0) == 0
    assert told(2) > 1.5 * told(1) > 1000
