"""Chains along time in tiles: what comes out is what the operators give one after another over the whole sequence."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import temporal

import hyperframes as hf
from hyperframes.drivers import set_up, tiles
from hyperframes.drivers.gather import gather
from hyperframes.errors import OperatorError
from hyperframes.frames import Clip, Frame, FrameSpec
from hyperframes.operators import Contract, frames_out
from hyperframes.operators.samplewise import Samplewise
from hyperframes.packing import Halo, LentPlane
from hyperframes.sources import Source
from hyperframes.testing.operators import random_planes

STEPS = {
    "mean": (lambda n: f"temporal_mean:radius={n}", lambda n: (temporal.mean, n, n)),
    "trailing": (lambda n: f"temporal_mean:before={n},after=0", lambda n: (temporal.mean, n, 0)),
    "median": (lambda n: f"temporal_median:radius={n}", lambda n: (temporal.median, n, n)),
    "gaussian": (
        lambda n: f"temporal_gaussian:sigma=1.5,radius={n}",
        lambda n: (lambda window: temporal.gaussian(window, 1.5), n, n),
    ),
}
chains = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 4)), min_size=1, max_size=4)
specs = st.sampled_from(
    [
        FrameSpec.picture(5, 7, "yuv420p"),
        FrameSpec.picture(4, 6, "rgb24"),
        FrameSpec.picture(3, 5, "gray"),
        FrameSpec.picture(4, 6, "gray16le"),
        FrameSpec.array((5, 3), np.float32),
        FrameSpec.array((4,), np.int64),
    ]
)


@contextmanager
def tiles_of(samples):
    """Make every chain along time run in tiles of `samples` (or as many as usual), and yield how many chains did."""
    ran = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "LEAST_SAMPLES", 1)
        if samples is not None:
            patch.setattr(tiles, "tile_samples", lambda sample_bytes, cache_bytes: samples)
        once = tiles.TiledChain.run
        patch.setattr(tiles.TiledChain, "run", lambda *arguments: ran.append(1) or once(*arguments))
        yield ran


@pytest.mark.requirement("A42")
@given(
    specs,
    chains,
    st.integers(1, 14),
    st.sampled_from([1, 2, 3, 5, 50]),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.sampled_from([None, 2, 4, 16]),
    st.integers(0, 10_000),
)
def test_a_chain_in_tiles_equals_its_operators_over_the_whole_sequence(
    spec, chain, length, size, boundary, samples, seed
):
    planes = random_planes(spec, length, seed, nans=True)
    chain = [(name, n) for name, n in chain if name != "gaussian" or spec.is_picture]  # whole weights: exact
    expected = list(planes)
    for name, n in chain:
        reference, before, after = STEPS[name][1](n)
        expected = [temporal.per_frame(reference, plane, before, after, boundary) for plane in expected]
    clip = Clip(planes, np.arange(length), np.arange(length), spec)
    with tiles_of(samples) as ran:
        got = hf.run(clip, [STEPS[name][0](n) for name, n in chain], size=size, boundary=boundary, workers=2)
    assert bool(ran) == bool(chain)
    for plane, wanted in zip(got.value.planes, expected, strict=True):
        np.testing.assert_array_equal(plane, wanted)


def test_what_is_no_chain_along_time_alone_goes_frame_by_frame():
    frames = random_planes(FrameSpec.array((8, 6), np.uint8), 9, 0)[0]
    with tiles_of(4) as ran:
        hf.run(frames, ["temporal_mean:radius=1", "gaussian:sigma=1", "temporal_median:radius=1"])
    assert not ran


class LendingSource(Source):
    """Lends frames whose rows lie `gap` samples apart, each in memory of its own; the sooner gone the sooner overwritten."""

    lasting = True
    name = "lending"

    def __init__(self, planes, spec, gap):
        self.spec, self.num_frames, self._planes, self._gap = spec, len(planes[0]), planes, gap

    def read(self, start=0, stop=None):
        for t in range(start, self.num_frames if stop is None else min(stop, self.num_frames)):
            yield Frame([self._lent(plane[t]) for plane in self._planes], t, t, self.spec)

    def _lent(self, frame):
        room = np.zeros((frame.shape[0], frame.shape[1] + self._gap, *frame.shape[2:]), frame.dtype)
        view = room[:, : frame.shape[1]]
        view[...] = frame
        return view


@pytest.mark.requirement("A54")
@given(
    st.sampled_from(
        [FrameSpec.picture(5, 7, "yuv420p"), FrameSpec.picture(4, 6, "rgb24"), FrameSpec.picture(4, 6, "gray16le")]
    ),
    chains,
    st.integers(1, 14),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.sampled_from([0, 3]),
    st.integers(0, 10_000),
)
def test_frames_that_stay_with_their_source_give_what_copied_ones_give(spec, chain, length, size, boundary, gap, seed):
    planes = random_planes(spec, length, seed)
    steps = [STEPS[name][0](n) for name, n in chain]
    expected = hf.run(Clip(planes, np.arange(length), np.arange(length), spec), steps, boundary=boundary).value.planes
    with tiles_of(None) as ran:
        got = hf.run(LendingSource(planes, spec, gap), steps, size=size, boundary=boundary, workers=2)
    assert ran
    for plane, wanted in zip(got.value.planes, expected, strict=True):
        np.testing.assert_array_equal(plane, wanted)


def test_frames_are_copied_where_somebody_else_reads_them_too():
    planes = random_planes(FrameSpec.picture(64, 96, "gray"), 9, 0)

    def lends(operators, **options):
        source = LendingSource(planes, FrameSpec.picture(64, 96, "gray"), 0)
        return set_up(hf.Pipeline.of(source, operators, to="null:", **options)).lends(0)

    assert lends(["temporal_mean"])
    assert not lends(["gaussian"])
    assert not lends(["temporal_mean"], executor="processes")
    assert not lends(["temporal_mean"], scheduling_policy="priority_by_cost")
    assert not lends([])


def test_samples_of_lent_frames_are_brought_side_by_side():
    frames = [np.arange(60, dtype=np.uint16).reshape(5, 12)[:, :9] + 100 * t for t in range(3)]
    room = np.zeros((3, 20), np.uint16)
    plane = LentPlane.of(tuple(frames))
    gather(plane, room, 7, 25)
    for t, frame in enumerate(frames):
        np.testing.assert_array_equal(room[t, :18], frame.reshape(-1)[7:25])
    assert not room[:, 18:].any()
    with pytest.raises(IndexError):
        gather(plane, room, 40, 46)
    with pytest.raises(IndexError):
        gather(plane, room, 0, 21)


class Broken(Samplewise):
    """Fails where it sees a certain frame."""

    name = "broken"
    halo = Halo(0, 0)

    def configure(self, inputs):
        return Contract((frames_out(inputs),))

    def sample_kernel(self, source, out):
        def kernel(start, stop, shift):
            if (source[:, start:stop] == 200).any():
                raise ValueError("a sample of 200")
            out[:, start + shift : stop + shift] = source[:, start:stop]

        return kernel


def test_an_error_in_a_tile_names_the_chain_and_the_frames():
    frames = np.zeros((12, 4, 4), np.uint8)
    frames[5] = 200
    with (
        tiles_of(4),
        pytest.raises(
            OperatorError,
            match=r"stage 'temporal_median \+ broken' failed on frames 4 to 7 .*: ValueError: a sample of 200",
        ),
    ):
        hf.run(frames, ["temporal_median:radius=0", Broken()], size=4)


def test_what_tiles_take_is_counted_as_memory_of_the_run():
    frames = np.zeros((64, 270, 480), np.uint8)
    chain = ["temporal_mean:radius=2", "temporal_median:radius=1"]

    def planned(operators):
        return set_up(hf.Pipeline.of(frames, operators, to="null:", workers=2, size=16)).memory_bytes()

    alone = planned(chain[:1])
    assert alone < planned(chain) < alone + 2 * 2 * tiles.own_cache()
