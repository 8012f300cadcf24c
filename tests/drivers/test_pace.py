"""Sizes that change during a run as measured: what decides, and that results do not depend on it."""

import hashlib
from itertools import cycle, pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.drivers.exact_operators import RunningSum, WindowSum, as_stream, frames_of
from tests.reference.padded import window_sums

from hyperframes.drivers.engine import Engine
from hyperframes.drivers.pace import TRIAL, Pace
from hyperframes.drivers.setup import GROWN_BYTES, set_up
from hyperframes.pipeline import Pipeline


class Machine:
    """Hyperframes that cost `fixed` and `frame` seconds, one after another, on a clock of its own."""

    def __init__(self, fixed, frame):
        self.fixed, self.frame, self.now = fixed, frame, 0.0

    def run(self, pace, frames):
        """Let `frames` frames pass; return the size of every hyperframe."""
        at, sizes = 0, []
        while at < frames:
            size = min(pace.size_at(at), frames - at)
            self.now += self.fixed + size * self.frame
            pace.done(at, size, self.fixed + size * self.frame)
            sizes.append(size)
            at += size
        return sizes


def sizes_on(machine, size, least, most, *, frames=100_000, workers=2):
    pace = Pace(size, least, most, workers=workers, processor_seconds=lambda: machine.now)
    machine.run(pace, frames)
    return pace.sizes(frames)


@pytest.mark.requirement("A35")
def test_sizes_grow_while_each_step_saves_processor_time():
    assert [size for _, size in sizes_on(Machine(8e-4, 2e-6), 64, 4, 2048)] == [64, 256, 1024, 2048]


def test_a_size_that_saves_nothing_is_given_up_for_good():
    assert [size for _, size in sizes_on(Machine(1e-7, 2e-5), 64, 4, 2048)] == [64, 256, 64]


def test_sizes_shrink_where_hyperframes_take_seconds_and_not_below_the_halo():
    assert [size for _, size in sizes_on(Machine(8e-4, 0.5), 64, 4, 64, frames=2000)] == [64, 32, 16, 8, 4]
    assert [size for _, size in sizes_on(Machine(8e-4, 0.5), 64, 20, 64, frames=2000)] == [64, 32]


def test_what_takes_neither_short_nor_long_keeps_its_size():
    assert sizes_on(Machine(8e-4, 0.01), 16, 4, 64) == ((0, 16),)


def test_hyperframes_of_the_size_before_do_not_count_in_a_trial():
    pace = Pace(8, 1, 64, workers=1, processor_seconds=cycle([0.0, 1.0]).__next__)
    assert pace.size_at(0) == 8
    for number in range(2 + TRIAL):
        pace.done(8 * number, 8, 0.001)
    following = 8 * (2 + TRIAL)
    assert pace.size_at(following) == 32
    for number in range(3):  # sealed before the change
        pace.done(following - 24 + 8 * number, 8, 0.001)
    assert pace.sizes(10_000) == ((0, 8), (following, 32))
    assert pace.sizes(following) == ((0, 8),)  # the stream ended there


# In runs --------------------------------------------------------------------------------------------------------------


def sizes_given(monkeypatch, sizes):
    """Make cores as long as `sizes` says, again and again."""
    following = cycle(sizes)
    monkeypatch.setattr(Pace, "size_at", lambda pace, frame: next(following))


@pytest.mark.slow
@pytest.mark.requirement("A22")
@pytest.mark.requirement("A35")
@given(
    count=st.integers(1, 60),
    before=st.integers(0, 6),
    after=st.integers(0, 6),
    sizes=st.lists(st.sampled_from([1, 2, 3, 7, 16, 64]), min_size=1, max_size=6),
    workers=st.integers(1, 3),
    boundary=st.sampled_from(["replicate", "reflect", "constant:9"]),
    streamed=st.booleans(),
)
def test_results_do_not_depend_on_sizes_that_change(count, before, after, sizes, workers, boundary, streamed):
    frames = frames_of(count)
    mode, _, value = boundary.partition(":")
    expected = window_sums(frames, before, after, mode, int(value or 0))
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        sizes_given(patch, sizes)
        engine = Engine(
            Pipeline.of(
                as_stream(frames) if streamed else frames,
                [WindowSum(before, after), RunningSum()],
                lambda clip: seen.append(clip.planes[0].copy()),
                workers=workers,
                boundary=boundary,
            )
        )
        assert engine.setup.adjusts
        run = engine.start()
        cores = sorted(o["core"] for o in run.events() if o["kind"] == "sealed")
        run.wait()
    assert np.concatenate(seen).tobytes() == expected.cumsum(axis=0).tobytes()
    assert all(stop == start for (_, stop), (start, _) in pairwise(cores))


@pytest.mark.slow
@pytest.mark.requirement("A35")
def test_a_run_over_small_pictures_finds_a_larger_size_within_the_memory_planned():
    frames = frames_of(10_000, shape=(16, 16))
    expected = ((2 * window_sums(frames, 1, 1, "replicate") + 3) // 6).astype(np.uint8)
    pipeline = Pipeline.of(frames, "temporal_mean:radius=1", "null:", workers=2, checksum=True)
    engine = Engine(pipeline)
    begun, planned = engine.setup.size, engine.setup.memory_bytes()
    result = engine.start().wait()
    used = [size for _, size in result.sizes]
    assert used[0] == begun == 64
    assert begun < max(used) <= engine.setup.largest
    assert planned <= GROWN_BYTES
    assert result.size in used
    assert result.to_json()["sizes"] == [{"frame": frame, "size": size} for frame, size in result.sizes]
    assert result.frames_sha256 == hashlib.sha256(expected.tobytes()).hexdigest()


def test_sizes_stay_where_something_is_laid_out_for_them(tmp_path):
    frames = frames_of(4000, shape=(16, 16))
    adjusting = {
        "in memory": set_up(Pipeline.of(frames, "temporal_mean", "null:")),
        "a given size": set_up(Pipeline.of(frames, "temporal_mean", "null:", size=64)),
        "a file": set_up(Pipeline.of(frames, "temporal_mean", tmp_path / "out.npy")),
        "processes": set_up(Pipeline.of(frames, "temporal_mean", "null:", executor="processes")),
    }
    for setup in adjusting.values():
        setup.close()
    assert [name for name, setup in adjusting.items() if setup.adjusts] == ["in memory"]
    assert [name for name, setup in adjusting.items() if setup.largest > setup.size] == ["in memory"]


def test_large_pictures_take_no_more_memory_than_they_did():
    setup = set_up(Pipeline.of(as_stream(frames_of(600, shape=(360, 640))), "temporal_mean:radius=2", "null:"))
    setup.close()
    assert setup.adjusts
    assert setup.largest == setup.size
