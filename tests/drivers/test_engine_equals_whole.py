"""The core property: what sinks receive does not depend on size, halo, boundary, workers or policy."""

from contextlib import contextmanager
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.drivers.exact_operators import Resample, RunningSum, WindowMax, WindowSum, as_stream, frames_of
from tests.reference.padded import padded, window_sums

import hyperframes as hf
from hyperframes.drivers import execute, setup
from hyperframes.operators import Contract, Operator, Output
from hyperframes.pipeline import Stage
from hyperframes.sinks.memory import MemorySink

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


steps = st.sampled_from([None, 1, 2, 3, 5])


@contextmanager
def in_steps_of(step):
    """Make fused chains go `step` source frames at a time, or as they would."""
    with pytest.MonkeyPatch.context() as patch:
        if step is not None:
            patch.setattr(execute, "steps_of", lambda plan, group: step)
            patch.setattr(setup, "steps_of", lambda plan, group: step)
        yield


@pytest.mark.requirement("A1")
@pytest.mark.requirement("A22")
@pytest.mark.requirement("A70")
@pytest.mark.requirement("A40")
@pytest.mark.requirement("A41")
@pytest.mark.requirement("W1")
@pytest.mark.requirement("X2")
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
@given(lengths, sides, sides, sides, how, steps)
def test_a_chain_equals_running_its_operators_one_after_another(count, first, second, third, options, step_frames):
    frames = frames_of(count)
    mode, _, value = options["boundary"].partition(":")
    step = window_sums(frames, first, second, mode, int(value or 0))
    step = window_sums(step, second, third, mode, int(value or 0))
    step = window_sums(step, third, 0, mode, int(value or 0))
    chain = [WindowSum(first, second), WindowSum(second, third), WindowSum(third, 0)]
    with in_steps_of(step_frames):
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


@given(lengths, st.sampled_from(["1/2", "1/3", "2/5", "1", "2", "3/2"]), sides, sides, how, steps)
def test_rates_are_exact_whatever_the_size(count, ratio, before, after, options, step_frames):
    frames = frames_of(count)
    ratio = Fraction(ratio)
    mode, _, value = options["boundary"].partition(":")
    step = window_sums(frames, before, 0, mode, int(value or 0))
    step = step[[int(j / ratio) for j in range(-int(-count * ratio // 1))]]
    step = window_sums(step, 1, after, mode, int(value or 0))
    with in_steps_of(step_frames):
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


@given(lengths, sides, sides, how, steps)
def test_steps_through_a_chain_keep_what_several_readers_and_sinks_need(count, near, far, options, step_frames):
    """One port is read by a sink and by two stages of different halo, which meet again; another counts rows."""

    class Total(Operator):
        name = "total"

        def configure(self, inputs):
            return Contract((Output("rows", "records", hf.RecordSpec((hf.Field("total", np.int64),))),))

        def apply(self, inputs, outputs, state, prepared):
            totals = inputs[0].core_data.sum(axis=(1, 2))
            outputs[0].add(np.arange(outputs[0].start, outputs[0].stop), total=totals)

    class Sum(Operator):
        name = "sum"

        def configure(self, inputs):
            return Contract((Output("frames", "frames", inputs[0]),))

        def apply(self, inputs, outputs, state, prepared):
            np.add(inputs[0].core_data, inputs[1].core_data, out=outputs[0].data)

    frames = frames_of(count)
    mode, _, value = options["boundary"].partition(":")
    mid = window_sums(frames, 1, near, mode, int(value or 0))
    ends = window_sums(mid, near, far, mode, int(value or 0)), window_sums(mid, far, 0, mode, int(value or 0))
    stages = [
        Stage("mid", WindowSum(1, near), ("source",)),
        Stage("wide", WindowSum(near, far), ("mid",)),
        Stage("late", WindowSum(far, 0), ("mid",)),
        Stage("sum", Sum(), ("wide", "late")),
        Stage("total", Total(), ("sum",)),
    ]
    sinks = {name: MemorySink(name=name) for name in ("mid", "sum", "total")}
    with in_steps_of(step_frames):
        hf.run(as_stream(frames), stages, to=sinks, **options)
    assert sinks["mid"].result.planes[0].tobytes() == mid.tobytes()
    assert sinks["sum"].result.planes[0].tobytes() == (ends[0] + ends[1]).tobytes()
    assert sinks["total"].result.columns["total"].tolist() == (ends[0] + ends[1]).sum(axis=(1, 2)).tolist()


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
