"""What happens when things go wrong, or are stopped: every frame accounted for, nothing half-written."""

import threading
import time

import numpy as np
import pytest
from tests.drivers.exact_operators import RunningSum, WindowSum, as_stream, frames_of

import hyperframes as hf
from hyperframes.errors import CancelledError, FrameError, OperatorError, PipelineError
from hyperframes.operators import Contract, Operator, Output
from hyperframes.sinks import CallbackSink


class FailsOn(Operator):
    """Passes frames through, but raises on the core that holds one of `frames`, `times` times."""

    name = "fails_on"

    def __init__(self, *frames, times=1_000_000):
        self.frames, self.left = set(frames), times

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),))

    def apply(self, inputs, outputs, state, prepared):
        start, stop = inputs[0].header.core
        if self.left and self.frames & set(range(start, stop)):
            self.left -= 1
            raise ValueError("the lamp is off")
        outputs[0].data[...] = inputs[0].core_data


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_error_ends_the_run_and_names_hyperframe_frames_and_cause(workers):
    with pytest.raises(
        OperatorError,
        match=r"stage 'fails_on' failed on frames 8 to 11 \(hyperframe .*\[8,12\)\): ValueError: the lamp",
    ) as caught:
        hf.run(as_stream(frames_of(40)), FailsOn(9), size=4, workers=workers)
    assert caught.value.frames == (8, 12)
    assert isinstance(caught.value.__cause__, ValueError)
    assert "--range 8:12" in caught.value.hint


@pytest.mark.requirement("A68")
@pytest.mark.parametrize("workers", [1, 2])
def test_continue_leaves_zeros_and_lists_what_failed(workers):
    frames = frames_of(20) | 1
    result = hf.run(as_stream(frames), FailsOn(9), size=4, workers=workers, on_error="continue")
    expected = frames.copy()
    expected[8:12] = 0
    assert result.array.tobytes() == expected.tobytes()
    assert [failed["frames"] for failed in result.failed] == [[8, 12]]
    assert "the lamp is off" in result.failed[0]["error"]
    assert result.frames_out == 16
    assert result.value.mask.tolist() == [not 8 <= t < 12 for t in range(20)]


@pytest.mark.requirement("A55")
def test_what_depends_on_a_failed_hyperframe_fails_with_it():
    result = hf.run(as_stream(frames_of(20)), [FailsOn(9), RunningSum()], size=4, on_error="continue")
    assert [failed["frames"] for failed in result.failed] == [[8, 12], [12, 16], [16, 20]]
    assert result.frames_out == 8


def test_a_retry_that_succeeds_leaves_no_trace_but_a_count():
    frames = frames_of(20)
    result = hf.run(as_stream(frames), FailsOn(9, times=2), size=4, on_error="retry:2")
    assert result.array.tobytes() == frames.tobytes()
    assert (result.retries, result.failed) == (2, [])


def test_a_retry_that_never_succeeds_is_the_error():
    with pytest.raises(OperatorError, match="the lamp is off"):
        hf.run(as_stream(frames_of(20)), FailsOn(9), size=4, on_error="retry:2")


def test_a_source_that_breaks_ends_the_run_with_its_error():
    source = as_stream(frames_of(20))
    whole = source.read

    def broken(start=0, stop=None):
        for frame in whole(start, stop):
            if frame.index == 11:
                raise hf.SourceError("frame 11 cannot be decoded", source="x", hint="Ask for a new tape.")
            yield frame

    source.read = broken
    with pytest.raises(hf.SourceError, match="frame 11 cannot be decoded"):
        hf.run(source, WindowSum(1, 1), size=4)


class _FailsToPrepare(WindowSum):
    def prepare(self, worker):
        raise FileNotFoundError(2, "No such file or directory", "model.onnx")


def test_a_worker_that_cannot_prepare_ends_the_run_however_early_that_is():
    for _ in range(20):  # it may be before the other threads have begun
        with pytest.raises(FileNotFoundError, match=r"model\.onnx"):
            hf.start(as_stream(frames_of(4)), _FailsToPrepare(1, 1), workers=1).wait(20)


def test_frames_of_another_shape_are_refused_with_their_position():
    source = as_stream(frames_of(6))
    whole = source.read
    source.read = lambda *a: (
        hf.Frame(f.data[:, :1] if f.index == 4 else f.data, f.pts, f.index, f.spec) for f in whole(*a)
    )
    with pytest.raises(FrameError, match=r"must have one shape: expected \(3, 2\), got \(3, 1\) in frame 4"):
        hf.run(source, WindowSum(1, 1), size=2)


def test_a_consumer_that_raises_ends_the_run_with_its_error():
    def refuse(result):
        raise RuntimeError("the consumer is full")

    run = hf.start(as_stream(frames_of(200)), WindowSum(1, 1), to=CallbackSink(refuse), size=4)
    with pytest.raises(RuntimeError, match="the consumer is full"):
        run.wait(10)
    stats = run.stats()
    assert stats["frames_out"] == 0
    assert stats["frames_in"] == 4 * sum(stats["dropped"].values())


@pytest.mark.requirement("A55")
def test_cancelling_stops_a_long_run_and_says_so():
    seen = threading.Event()

    def slow(result):
        if result.index[0] >= 12:  # by now hyperframes wait for this consumer
            seen.set()
        threading.Event().wait(0.01)  # a slow consumer

    run = hf.start(as_stream(frames_of(2000)), WindowSum(1, 1), to=CallbackSink(slow), size=4)
    assert seen.wait(10)
    run.cancel("enough")
    with pytest.raises(CancelledError, match="the run was cancelled: enough"):
        run.wait(10)
    stats = run.stats()
    assert stats["finished"]
    assert stats["frames_out"] < 2000
    assert stats["frames_in"] == stats["frames_out"] + 4 * sum(stats["dropped"].values())


def test_closing_a_stream_early_stops_its_run():
    before = threading.active_count()
    clips = hf.stream(as_stream(frames_of(2000)), WindowSum(1, 1), size=4)
    assert len(next(clips)) == 4
    clips.close()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert threading.active_count() == before


def test_streaming_gives_every_result_in_order():
    frames = frames_of(101)
    clips = list(hf.stream(as_stream(frames), WindowSum(1, 0), size=7))
    whole = hf.run(frames, WindowSum(1, 0)).array
    assert np.concatenate([clip.data for clip in clips]).tobytes() == whole.tobytes()
    assert [int(i) for clip in clips for i in clip.index] == list(range(101))


def test_a_stream_raises_what_ended_its_run():
    clips = hf.stream(as_stream(frames_of(40)), FailsOn(9), size=4)
    with pytest.raises(OperatorError, match="the lamp is off"):
        list(clips)


def test_a_result_too_large_for_memory_names_the_way_out():
    with pytest.raises(hf.HyperframesError, match="do not fit in memory") as caught:
        hf.run(as_stream(frames_of(5000)), WindowSum(1, 1), size=4, max_memory=100_000)
    assert "hf.stream" in caught.value.hint


def test_a_size_that_does_not_fit_the_memory_is_refused_before_reading():
    with pytest.raises(PipelineError, match=r"hyperframes of 1000 frames need .* MB: expected at most 0 MB"):
        hf.run(as_stream(frames_of(10)), WindowSum(1, 1), size=1000, max_memory=50_000)


def test_sources_of_different_length_are_refused_with_their_lengths():
    pair = hf.Pipeline.of(
        {"left": as_stream(frames_of(10)), "right": as_stream(frames_of(13))},
        [hf.Stage("sum", _Add(), ("left", "right"))],
    )
    with pytest.raises(FrameError, match="'left' has 10, 'right' has 13"):
        hf.run(pair)


class _Add(Operator):
    name = "add"

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),))

    def apply(self, inputs, outputs, state, prepared):
        np.add(inputs[0].core_data, inputs[1].core_data, out=outputs[0].data)


def test_two_sources_run_side_by_side():
    left, right = frames_of(23, seed=1) // 2, frames_of(23, seed=2) // 2
    pair = hf.Pipeline.of(
        {"left": as_stream(left), "right": right}, [hf.Stage("sum", _Add(), ("left", "right"))], size=5
    )
    assert hf.run(pair).array.tobytes() == (left + right).tobytes()


class _Held:
    """A frame that calls `hold` as it is copied into its slot."""

    def __init__(self, frame, hold):
        self.pts, self.index, self.duration = frame.pts, frame.index, frame.duration
        self._planes, self._hold = frame.planes, hold

    @property
    def planes(self):
        self._hold()
        return self._planes


def _held_at(index, hold):
    source = as_stream(frames_of(40))
    whole = source.read
    source.read = lambda *a: (_Held(frame, hold) if frame.index == index else frame for frame in whole(*a))
    return source


class _Leased:
    """Counts the slabs that are still held when the run says that it has finished."""

    def __init__(self):
        self.started = threading.Event()

    def start(self, pipeline):
        self.handle = hf.start(pipeline, instruments=(self,))
        self.started.set()
        return self.handle

    def cancel(self):
        assert self.started.wait(10)
        self.handle.cancel("enough")

    def observe(self, seen):
        if seen["kind"] == "finished":
            engine = self.handle._engine
            self.slabs = [pool.leased for pool in (*engine._input_pools.values(), *engine._export_pools.values())]


def test_what_is_sealed_as_a_run_is_cancelled_gives_its_memory_back():
    leased = _Leased()
    source = _held_at(4, leased.cancel)  # the frame that completes the first hyperframe
    with pytest.raises(CancelledError, match="enough"):
        leased.start(hf.Pipeline.of(source, WindowSum(0, 0), size=4)).wait(10)
    assert leased.slabs
    assert not any(leased.slabs)


def test_what_one_source_sealed_before_a_cancelled_other_gives_its_memory_back():
    leased, ahead = _Leased(), threading.Event()

    def cancel():
        assert ahead.wait(10)
        leased.cancel()

    stages = [hf.Stage("sum", _Add(), ("left", "right"))]
    sources = {"left": _held_at(5, ahead.set), "right": _held_at(4, cancel)}
    with pytest.raises(CancelledError, match="enough"):
        leased.start(hf.Pipeline.of(sources, stages, size=4)).wait(10)
    assert len(leased.slabs) >= 2
    assert not any(leased.slabs)


def test_events_tell_what_happened_to_every_hyperframe():
    gate = threading.Event()
    run = hf.start(as_stream(frames_of(40)), WindowSum(1, 1), to=CallbackSink(lambda r: gate.wait(10)), size=10)
    events = run.events()
    gate.set()
    seen = list(events)
    run.wait()
    assert seen[-1]["kind"] == "finished"
    assert [e["core"] for e in seen if e["kind"] == "emitted"][-1] == (30, 40)


def test_an_observer_that_raises_is_left_out_and_reported():
    class Broken:
        def observe(self, observation):
            raise KeyError("gone")

    result = hf.run(as_stream(frames_of(10)), WindowSum(1, 1), instruments=(Broken(),))
    assert any("an observer failed and was left out" in warning for warning in result.warnings)


def test_the_checksum_does_not_depend_on_the_size():
    frames = frames_of(30)
    sums = {hf.run(frames, WindowSum(1, 1), size=s, checksum=True).frames_sha256 for s in (1, 7, 30)}
    assert len(sums) == 1


def test_a_fault_while_ending_reaches_those_who_wait(monkeypatch):
    run = hf.start(as_stream(frames_of(20)), WindowSum(1, 1), size=4)
    run.wait(10)

    def broken(self, seconds, peak):
        raise OSError("the result cannot be made")

    monkeypatch.setattr("hyperframes.drivers.engine.Engine._make_result", broken)
    with pytest.raises(OSError, match="the result cannot be made"):
        hf.start(as_stream(frames_of(20)), WindowSum(1, 1), size=4).wait(10)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_run_that_gets_no_frame_memory_ends_with_that_and_never_hangs(monkeypatch, after):
    from hyperframes import packing

    whole, made = packing.Slab.__init__, []

    def refused(self, *arguments, **options):
        made.append(self)
        if len(made) > after:
            raise OSError(12, "Cannot allocate memory")
        whole(self, *arguments, **options)

    monkeypatch.setattr(packing.Slab, "__init__", refused)
    run = hf.start(as_stream(frames_of(60)), WindowSum(1, 1), size=4)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        run.wait(10)


def test_a_run_that_gets_no_thread_leaves_nothing_behind(monkeypatch, tmp_path):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("hyperframes.drivers.memory.MemorySampler.start", refused)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        hf.start(as_stream(frames_of(20)), WindowSum(1, 1), tmp_path / "out.npy", size=4)
    assert list(tmp_path.iterdir()) == []
