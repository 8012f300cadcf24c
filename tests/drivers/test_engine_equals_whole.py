"""The core property: what sinks receive does not depend on size, halo, boundary, workers or policy."""

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.reference.padded import padded, window_sums

import hyperframes as hf
from hyperframes.operators import Contract, Operator, Output
from hyperframes.pipeline import Stage


class WindowSum(Operator):
    """Sum over an asymmetric window, as int64: shows each frame it was given, exactly."""

    name = "window_sum"

    def __init__(self, before, after):
        self.before, self.after = before, after

    def configure(self, inputs):
        spec = inputs[0].replace(dtype=np.dtype(np.int64), pixel_format="")
        return Contract((Output("frames", "frames", spec),), hf.Halo(self.before, self.after))

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        assert not any(plane.flags.writeable for plane in given.planes)
        assert given.core == slice(self.before, self.before + len(view))
        assert len(given) == self.before + len(view) + self.after
        for source, target in zip(given.planes, view.planes, strict=True):
            for t in range(len(view)):
                target[t] = source[t : t + self.before + 1 + self.after].sum(axis=0, dtype=np.int64)


class RunningSum(Operator):
    """Sequential: the sum of all frames so far."""

    name = "running_sum"

    def configure(self, inputs):
        spec = inputs[0].replace(dtype=np.dtype(np.int64), pixel_format="")
        return Contract((Output("frames", "frames", spec),), dependency="sequential")

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        total = state["total"] if state else np.zeros(given.planes[0].shape[1:], np.int64)
        for t in range(len(view)):
            total = total + given.core_planes[0][t]
            view.planes[0][t] = total
        return {"total": total}


class Resample(Operator):
    """Output j is the input frame at j / ratio."""

    name = "resample"

    def __init__(self, ratio):
        self.ratio = Fraction(ratio)

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0], ratio=self.ratio),))

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        start = given.header.core[0]
        for j in range(view.start, view.stop):
            view.planes[0][j - view.start] = given.core_planes[0][int(j / self.ratio) - start]


class WindowMax(Operator):
    """Windows of fixed length and hop: their maximum over real frames."""

    name = "window_max"

    def __init__(self, length, hop):
        self.length, self.hop = length, hop

    def configure(self, inputs):
        return Contract((Output("windows", "windows", inputs[0], length=self.length, hop=self.hop),))

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        first = given.header.core[0]
        for j in range(view.start, view.stop):
            at = j * self.hop - first
            real = given.mask[at : at + self.length]
            view.planes[0][j - view.start] = given.planes[0][at : at + self.length][real].max(axis=0)


def frames_of(count, shape=(3, 2), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


lengths = st.integers(1, 40)
sizes = st.sampled_from([1, 2, 3, 5, 7, 16, 50])
sides = st.integers(0, 6)
boundaries = st.sampled_from(["replicate", "reflect", "constant:9"])
how = st.fixed_dictionaries(
    {
        "size": sizes,
        "workers": st.integers(1, 3),
        "boundary": boundaries,
        "scheduling_policy": st.sampled_from(["fifo", "priority_by_index", "priority_by_cost"]),
        "frame_dependency": st.sampled_from(["independent", "sequential"]),
    }
)


def as_stream(frames):
    """A source that hides its arrays, so that frames go through slabs."""
    from hyperframes.sources.array import ArraySource

    class Streamed(ArraySource):
        def arrays(self):
            return None

    return Streamed(frames)


@pytest.mark.requirement("A1")
@pytest.mark.requirement("A22")
@pytest.mark.requirement("A70")
@pytest.mark.requirement("A40")
@pytest.mark.requirement("A41")
@pytest.mark.requirement("W1")
@given(lengths, sides, sides, how, st.booleans())
def test_a_window_gives_what_it_gives_over_the_whole_sequence(count, before, after, options, streamed):
    frames = frames_of(count)
    source = as_stream(frames) if streamed else frames
    mode, _, value = options["boundary"].partition(":")
    expected = window_sums(frames, before, after, mode, int(value or 0))
    result = hf.run(source, WindowSum(before, after), **options)
    assert result.array.tobytes() == expected.tobytes()
    assert (result.frames_in, result.frames_out) == (count, count)


@pytest.mark.requirement("A42")
@given(lengths, sides, sides, sides, how)
def test_a_chain_equals_running_its_operators_one_after_another(count, first, second, third, options):
    frames = frames_of(count)
    mode, _, value = options["boundary"].partition(":")
    step = window_sums(frames, first, second, mode, int(value or 0))
    step = window_sums(step, second, third, mode, int(value or 0))
    step = window_sums(step, third, 0, mode, int(value or 0))
    chain = [WindowSum(first, second), WindowSum(second, third), WindowSum(third, 0)]
    assert hf.run(as_stream(frames), chain, **options).array.tobytes() == step.tobytes()


@given(lengths, sides, sides, how, st.booleans())
def test_state_runs_once_over_every_frame_between_windows(count, before, after, options, streamed):
    frames = frames_of(count)
    mode, _, value = options["boundary"].partition(":")
    step = window_sums(frames, before, 1, mode, int(value or 0))
    step = np.cumsum(step, axis=0)
    step = window_sums(step, 2, after, mode, int(value or 0))
    source = as_stream(frames) if streamed else frames
    result = hf.run(source, [WindowSum(before, 1), RunningSum(), WindowSum(2, after)], **options)
    assert result.array.tobytes() == step.tobytes()


@given(lengths, st.sampled_from(["1/2", "1/3", "2/5", "1", "2", "3/2"]), sides, sides, how)
def test_rates_are_exact_whatever_the_size(count, ratio, before, after, options):
    frames = frames_of(count)
    ratio = Fraction(ratio)
    mode, _, value = options["boundary"].partition(":")
    step = window_sums(frames, before, 0, mode, int(value or 0))
    step = step[[int(j / ratio) for j in range(-int(-count * ratio // 1))]]
    step = window_sums(step, 1, after, mode, int(value or 0))
    result = hf.run(as_stream(frames), [WindowSum(before, 0), Resample(ratio), WindowSum(1, after)], **options)
    assert result.array.tobytes() == step.tobytes()


@given(lengths, st.integers(1, 9), st.integers(1, 9), how)
def test_windows_do_not_depend_on_the_size(count, length, hop, options):
    frames = frames_of(count)
    expected = [frames[j : j + length].max(axis=0) for j in range(0, count, hop)]
    result = hf.run(as_stream(frames), WindowMax(length, hop), **options)
    assert result.array.tobytes() == np.stack(expected).tobytes()


@given(lengths, st.integers(0, 45), st.integers(0, 45), sides, how)
def test_a_range_equals_that_slice_of_the_whole_run(count, start, extra, side, options):
    frames = frames_of(count)
    mode, _, value = options["boundary"].partition(":")
    expected = window_sums(frames, side, 1, mode, int(value or 0))[start : start + extra]
    result = hf.run(as_stream(frames), WindowSum(side, 1), range=(start, start + extra), **options)
    assert result.array.tobytes() == expected.tobytes()


@given(lengths, sides, how)
def test_stages_may_read_several_outputs(count, side, options):
    class Difference(Operator):
        name = "difference"

        def configure(self, inputs):
            return Contract((Output("frames", "frames", inputs[0]),))

        def apply(self, inputs, outputs, state, prepared):
            np.subtract(inputs[0].core_data, inputs[1].core_data, out=outputs[0].data)

    frames = frames_of(count)
    mode, _, value = options["boundary"].partition(":")
    wide = window_sums(frames, side, side, mode, int(value or 0))
    narrow = np.cumsum(window_sums(frames, 0, 0, mode), axis=0)
    stages = [
        Stage("wide", WindowSum(side, side), ("source",)),
        Stage("narrow", WindowSum(0, 0), ("source",)),
        Stage("sum", RunningSum(), ("narrow",)),
        Stage("difference", Difference(), ("wide", "sum")),
    ]
    assert hf.run(as_stream(frames), stages, **options).array.tobytes() == (wide - narrow).tobytes()


def test_no_frames_give_no_results():
    empty = hf.run(as_stream(frames_of(0)), WindowSum(1, 1))
    assert len(empty.array) == 0
    assert empty.hyperframes == 0


def test_the_reference_pads_as_w1_says():
    frames = np.arange(3)[:, None]
    assert padded(frames, 2, 2, "reflect").ravel().tolist() == [2, 1, 0, 1, 2, 1, 0]
    assert padded(frames, 2, 2, "replicate").ravel().tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert padded(frames, 1, 1, "constant", 9).ravel().tolist() == [9, 0, 1, 2, 9]
