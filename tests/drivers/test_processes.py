"""Workers as processes: the same results, whatever dies; what goes wrong is told; nobody is left behind."""

import contextlib
import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from tests.drivers.exact_operators import Resample, RunningSum, WindowMax, WindowSum, as_stream, frames_of
from tests.drivers.process_operators import (
    Brighter,
    CannotBeMade,
    DiesOn,
    ExitsInPrepare,
    FailsToPrepare,
    LeavesAChild,
    OddState,
    RaisesOn,
    Same,
    Slow,
    Threads,
)
from tests.reference.padded import window_sums

import hyperframes as hf
from hyperframes import errors
from hyperframes.drivers import processes, set_up
from hyperframes.drivers.processes import WorkerTraceback
from hyperframes.errors import CancelledError, HyperframesError, OperatorError, PipelineError
from hyperframes.operators import create
from hyperframes.packing import Packer, SlabPool
from hyperframes.pipeline import Stage
from hyperframes.sinks import MemorySink
from hyperframes.sinks.null import NullSink

pytestmark = pytest.mark.slow  # processes take a moment to start

ROOT = Path(__file__).parents[2]
few = settings(max_examples=3)
options = st.fixed_dictionaries(
    {
        "size": st.sampled_from([1, 3, 7, 16, 50]),
        "workers": st.integers(1, 2),
        "boundary": st.sampled_from(["replicate", "reflect", "constant:9"]),
        "scheduling_policy": st.sampled_from(["fifo", "priority_by_index", "priority_by_cost"]),
        "frame_dependency": st.sampled_from(["independent", "sequential"]),
    }
)
lengths, sides = st.integers(1, 40), st.integers(0, 5)


def run(source, operators, **how):
    return hf.run(source, operators, executor="processes", **{"workers": 2, **how})


def summed(frames, before, after, how):
    mode, _, value = how["boundary"].partition(":")
    return window_sums(frames, before, after, mode, int(value or 0))


def worker_processes():
    return [p for p in psutil.Process().children() if _works(p)]


def _works(process):
    try:
        return any("drivers.child" in word for word in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False  # it ended, and nobody has asked how


@pytest.fixture(autouse=True)
def nobody_is_left():
    """Whatever a test does, its worker processes have ended with it, and so have their ends of slabs and lines."""
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    yield
    assert not worker_processes()
    gc.collect()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


# The same results -----------------------------------------------------------------------------------------------------


@few
@given(lengths, sides, sides, options, st.booleans())
def test_state_runs_once_over_every_frame_between_windows(count, before, after, how, streamed):
    frames = frames_of(count)
    step = summed(np.cumsum(summed(frames, before, 1, how), axis=0), 2, after, how)
    source = as_stream(frames) if streamed else frames
    result = run(source, [WindowSum(before, 1), RunningSum(), WindowSum(2, after)], **how)
    assert result.array.tobytes() == step.tobytes()
    assert (result.frames_in, result.frames_out, result.executor) == (count, count, "processes")


@few
@given(lengths, st.sampled_from(["1/3", "2/5", "3/2"]), sides, st.integers(1, 9), st.integers(1, 9), options)
def test_rates_and_windows_do_not_depend_on_the_executor(count, ratio, side, length, hop, how):
    stages = [
        Stage("sum", WindowSum(side, 1), ("source",)),
        Stage("other_rate", Resample(ratio), ("sum",)),
        Stage("again", WindowSum(1, side), ("other_rate",)),
        Stage("windows", WindowMax(length, hop), ("source",)),
    ]
    there, here = (
        hf.run(frames_of(count), stages, {"again": MemorySink(), "windows": MemorySink()}, executor=executor, **how)
        for executor in ("processes", "threads")
    )
    for name in ("again", "windows"):
        assert_same(there.sinks[name].result, here.sinks[name].result)


def assert_same(one, other):
    """Frames or records, with their times and places."""
    if hasattr(one, "columns"):
        assert list(one.columns) == list(other.columns)
        parts = [(one.columns[name], other.columns[name]) for name in one.columns]
    else:
        parts = list(zip(one.planes, other.planes, strict=True))
    for a, b in [*parts, (one.index, other.index), (one.pts, other.pts)]:
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@pytest.mark.parametrize("size", [6, 64])  # 64: one hyperframe, split over both workers
def test_records_spans_and_what_is_kept_come_out_as_from_threads(size):
    frames = np.repeat(frames_of(30, (8, 6)), [1, 3] * 15, axis=0)
    texts = ("measure", "still_spans:min_frames=2", "select_motion:threshold=80")
    stages = [Stage(text, create(text), ("source",)) for text in texts]
    there, here = (
        hf.run(frames, stages, {text: MemorySink() for text in reversed(texts)}, executor=e, workers=2, size=size)
        for e in ("processes", "threads")
    )
    for text in texts:
        assert_same(there.sinks[text].result, here.sinks[text].result)
        assert len(there.sinks[text].result)
    assert there.filtered == here.filtered > 0


def test_records_are_handed_from_stage_to_stage():
    stages = [
        Stage("measure", create("measure"), ("source",)),
        Stage("sum", RunningSum(), ("source",)),
        Stage("brighter", Brighter(), ("sum", "measure")),
    ]
    there, here = (hf.run(frames_of(40), stages, executor=e, workers=2, size=7) for e in ("processes", "threads"))
    assert_same(there.value, here.value)
    assert there.array.any()


def test_a_video_comes_out_as_from_threads():
    clip, chain = (
        ROOT / "src/hyperframes/data/big_buck_bunny.mp4",
        ["temporal_mean:radius=2", "resize:width=64,height=36"],
    )
    how = {"range": (3, 40), "size": 8, "workers": 2, "checksum": True}
    there, here = (hf.run(clip, chain, NullSink(), executor=executor, **how) for executor in ("processes", "threads"))
    assert there.frames_sha256 == here.frames_sha256
    assert set(there.stages) == set(here.stages)
    assert all(seconds > 0 for seconds in there.stages.values())


# Memory ---------------------------------------------------------------------------------------------------------------


def test_arrays_are_copied_to_slabs_and_the_plan_counts_them():
    pipelines = [
        hf.Pipeline.of(frames_of(40), WindowSum(1, 1), executor=executor, size=8, workers=2)
        for executor in ("threads", "processes")
    ]
    viewed, copied = (set_up(pipeline) for pipeline in pipelines)
    assert (viewed.input_slabs(0), copied.input_slabs(0)) == (0, 3)
    assert copied.memory_bytes() == viewed.memory_bytes() + 3 * 64 * -(-copied.input_capacity(0) * 6 // 64)


def test_a_slab_says_at_which_slot_a_hyperframe_begins():
    spec = hf.FrameSpec.array((2,), np.uint8)
    packer = Packer(spec, 2, hf.Halo(1, 1), SlabPool(spec, 8, 3))
    sealed = []
    for t in range(9):
        packer.slot()[0][...] = t
        sealed.append(packer.push(t))
    for hyperframe in [*filter(None, sealed), *packer.finish()]:
        start, stop = hyperframe.header.read
        held = hyperframe.slab.planes[0][hyperframe.offset : hyperframe.offset + stop - start]
        assert np.shares_memory(held, hyperframe.planes[0])
        assert held.tobytes() == hyperframe.planes[0].tobytes()


@pytest.mark.requirement("A66", "C106")
def test_libraries_keep_to_one_thread_in_every_worker_process(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    assert np.unique(run(frames_of(4), Threads()).array).tolist() == [1]
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"


# Worker processes that die --------------------------------------------------------------------------------------------


class Watched:
    """Sees that every slab is given back by the end, and calls `at_done` whenever a task is."""

    def __init__(self, at_done=lambda seen: None):
        self.at_done, self.leased, self.handle, self.failed = at_done, None, None, 0

    def observe(self, seen):
        if seen["kind"] == "done":
            self.at_done(self)
        self.failed += seen["kind"] == "failed"
        if seen["kind"] == "finished":
            engine = self.handle._engine
            pools = (*engine._input_pools.values(), *engine._export_pools.values())
            self.leased = [pool.leased for pool in pools]

    def start(self, *arguments, **how):
        self.handle = hf.start(*arguments, instruments=(self,), executor="processes", **{"workers": 2, **how})
        return self.handle


@pytest.mark.parametrize("seed", range(2))
def test_killing_workers_at_random_moments_changes_nothing_but_counts(seed, tmp_path):
    frames, chance = frames_of(200, (16, 16)), random.Random(seed)
    operators = [Slow(30_000, str(tmp_path)), WindowSum(2, 1), RunningSum(), WindowSum(1, 2)]
    kill_at = set(chance.sample(range(5, 60), 3))  # three: a hyperframe may lose its worker as often
    tasks, timers = iter(range(10_000)), []

    def kill(seen):
        if next(tasks) in kill_at:
            ready = [process for process in worker_processes() if (tmp_path / str(process.pid)).exists()]
            victim = chance.choice(ready or [None])
            timers.append(threading.Timer(chance.random() * 0.02, kill_quietly, [victim]))
            timers[-1].start()

    watched = Watched(kill)
    result = watched.start(as_stream(frames), operators, size=4).wait(120)
    for timer in timers:
        timer.join()
    expected = window_sums(np.cumsum(window_sums(frames, 2, 1, "replicate"), axis=0), 1, 2, "replicate")
    assert result.array.tobytes() == expected.tobytes()
    assert watched.leased == [0] * len(watched.leased)
    assert result.retries == watched.failed
    assert result.retries >= 1
    assert any("started again: killed by SIGKILL" in warning for warning in result.warnings)


def kill_quietly(process):
    with contextlib.suppress(psutil.NoSuchProcess, AttributeError):  # it was killed before
        process.kill()


def test_a_worker_that_crashes_once_is_replaced_and_its_hyperframe_run_again(tmp_path):
    frames = frames_of(40)
    result = run(as_stream(frames), DiesOn(9, once=str(tmp_path / "died")), size=4)
    assert result.array.tobytes() == frames.tobytes()
    assert result.retries == 1
    (warning,) = result.warnings
    assert warning == "1 worker process died and was started again: killed by SIGSEGV on frames 8 to 11"


def test_a_hyperframe_that_takes_every_worker_down_ends_the_run_with_its_frames():
    watched = Watched()
    with pytest.raises(
        OperatorError,
        match=r"stage 'dies_on' took its worker process down on frames 8 to 11 \(hyperframe .*\): killed by SIGSEGV",
    ) as caught:
        watched.start(as_stream(frames_of(40)), DiesOn(9), size=4).wait(60)
    assert caught.value.frames == (8, 12)
    assert caught.value.hint == ("Too little memory, or a crash in native code; run it alone: --range 8:12 --workers 1")
    assert watched.leased == [0] * len(watched.leased)
    assert watched.failed == 4


def test_with_continue_the_others_come_out_all_the_same():
    frames = frames_of(40) | 1
    result = run(as_stream(frames), DiesOn(9, 3), size=4, on_error="continue")
    expected = frames.copy()
    expected[8:12] = 0
    assert result.array.tobytes() == expected.tobytes()
    assert [failed["frames"] for failed in result.failed] == [[8, 12]]
    assert "took its worker process down on frames 8 to 11" in result.failed[0]["error"]
    assert result.failed[0]["error"].endswith("exit code 3")
    assert result.warnings[0].startswith(
        "4 worker processes died and were started again: exit code 3 on frames 8 to 11"
    )
    assert result.warnings[0].endswith(", and 1 more")


def test_a_process_that_a_dead_worker_left_behind_does_not_hold_the_run_up(tmp_path):
    frames = frames_of(12)
    began = time.monotonic()
    result = run(as_stream(frames), LeavesAChild(5, once=str(tmp_path / "died")), size=4)
    assert result.array.tobytes() == frames.tobytes()
    assert time.monotonic() - began < 60  # and not until somebody kills it


def test_workers_that_were_killed_while_idle_are_replaced_too():
    frames, go = frames_of(24), threading.Event()

    class Waits(type(as_stream(frames))):
        def read(self, start=0, stop=None):
            for frame in super().read(start, stop):
                if frame.index == 12:
                    assert go.wait(60)
                yield frame

    done = threading.Semaphore(0)
    watched = Watched(lambda seen: done.release())
    handle = watched.start(Waits(frames), Same(), size=4)
    assert done.acquire(timeout=60)
    assert done.acquire(timeout=60)
    for victim in worker_processes():
        victim.kill()
    go.set()
    result = handle.wait(60)
    assert result.array.tobytes() == frames.tobytes()
    assert 1 <= result.retries <= 2


# Errors ---------------------------------------------------------------------------------------------------------------


def test_an_error_in_a_worker_process_reads_as_in_a_thread_and_keeps_its_traceback():
    raised = []
    for executor in ("processes", "threads"):
        with pytest.raises(OperatorError) as caught:
            hf.run(as_stream(frames_of(40)), RaisesOn(9), size=4, workers=2, executor=executor)
        raised.append(caught.value)
    there, here = raised
    assert str(there).replace(there.hyperframe, "ID") == str(here).replace(here.hyperframe, "ID")
    assert (there.hint, there.frames, there.stage) == (here.hint, here.frames, here.stage)
    assert isinstance(there.__cause__, WorkerTraceback)
    assert str(there.__cause__).startswith("in a worker process\n")
    for told in ("process_operators.py", "in before", "ValueError: the lamp is off", "direct cause"):
        assert told in str(there.__cause__)


def test_a_retry_in_processes_counts_as_in_threads():
    with pytest.raises(OperatorError, match="the lamp is off"):
        run(as_stream(frames_of(20)), RaisesOn(9, "odd"), size=4, on_error="retry:2")


def test_what_prepare_raises_ends_the_run_before_a_task_begins():
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: 'model.onnx'") as caught:
        run(as_stream(frames_of(8)), FailsToPrepare())
    assert "in prepare" in str(caught.value.__cause__)


def test_a_process_that_ends_while_it_prepares_is_told_with_its_exit_code():
    with pytest.raises(HyperframesError, match="worker process 0 ended before it was ready: exit code 7") as caught:
        run(as_stream(frames_of(8)), ExitsInPrepare(), workers=1)
    assert "if __name__ == '__main__':" in caught.value.hint


def test_a_process_that_is_killed_while_it_starts_is_started_again(monkeypatch):
    begin, killed = processes.RemoteRunner._start, []

    def start(self):
        line = begin(self)
        if not killed:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return line

    monkeypatch.setattr(processes.RemoteRunner, "_start", start)
    result = run(frames_of(8), Same(), workers=1)
    assert result.array.tobytes() == frames_of(8).tobytes()
    assert result.warnings == ["1 worker process died and was started again: killed by SIGKILL while it started"]


def test_a_process_that_cannot_be_started_says_why(monkeypatch):
    def refuse(*arguments, **how):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(processes.subprocess, "Popen", refuse)
    with pytest.raises(HyperframesError, match="worker process 0 cannot be started: Resource temporarily") as caught:
        run(frames_of(8), Same(), workers=1)
    assert "fewer --workers" in caught.value.hint


def test_an_operator_that_cannot_be_pickled_is_named_before_a_frame_is_read():
    class Local(Same):
        name = "local"

    source = as_stream(frames_of(8))
    source.read = None  # calling it would fail
    with pytest.raises(PipelineError, match=r"stage 'local' cannot be handed to worker processes: .*Local") as caught:
        run(source, [Same(), Local()])
    assert caught.value.stage == "local"
    assert caught.value.hint == (
        "Define its operator at the top level of a file that can be imported, or use executor='threads'."
    )


def test_an_operator_that_cannot_be_made_in_a_worker_is_named():
    with pytest.raises(
        PipelineError,
        match="stage 'cannot_be_made' cannot be made in a worker process: RuntimeError: not in this process",
    ) as caught:
        run(frames_of(8), CannotBeMade())
    assert "use executor='threads'" in caught.value.hint


def test_a_state_that_cannot_leave_the_process_is_refused():
    with pytest.raises(
        OperatorError, match="stage 'odd_state' returned what cannot leave its worker process"
    ) as caught:
        run(frames_of(8), OddState())
    assert caught.value.hint == "State and records hold arrays, numbers and text, nothing else."


def every_error():
    yield from (errors.SourceError("a", source="b", pts=1, hint="c"), errors.SinkError("a", sink="b"))
    yield from (errors.FrameError("a", expected=1, got=2, index=3), errors.PipelineError("a", stage="b"))
    yield errors.OperatorError("a", stage="b", hyperframe="c", frames=(1, 2), hint="d")
    yield from (errors.RegistryError("operator", "blurr", ["blur"]), errors.MissingExtraError("x", "y"))
    yield from (errors.DeadlineError("a"), errors.CancelledError("a"), errors.SchedulingError("a", events=(1,)))


@pytest.mark.parametrize("error", list(every_error()), ids=lambda error: type(error).__name__)
def test_every_error_of_ours_survives_the_way_between_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)
    assert isinstance(again, type(error).__mro__[2])  # the built-in one that strangers catch


# Endings --------------------------------------------------------------------------------------------------------------


def test_cancelling_ends_worker_processes_too():
    watched = Watched()
    handle = watched.start(as_stream(frames_of(2000)), Slow(), size=4)
    watched.at_done = lambda seen: handle.cancel("enough")
    with pytest.raises(CancelledError, match="enough"):
        handle.wait(60)
    assert watched.leased == [0] * len(watched.leased)


def test_killing_a_worker_of_a_cancelled_run_does_not_hold_it_up():
    watched = Watched()
    handle = watched.start(as_stream(frames_of(2000)), Slow(3_000_000), size=4)

    def cancel_and_kill(seen):
        handle.cancel("enough")
        for victim in worker_processes():
            kill_quietly(victim)

    watched.at_done = cancel_and_kill
    with pytest.raises(CancelledError, match="enough"):
        handle.wait(60)
    assert watched.leased == [0] * len(watched.leased)


def script(tmp_path, text, name="script.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


def python(*arguments, **how):
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **how}
    return subprocess.Popen([sys.executable, *map(str, arguments)], env={**os.environ, "PYTHONPATH": paths}, **how)


OWN_FUNCTION = """
import numpy as np
import hyperframes as hf

@hf.operator(halo=1)
def mean3(frames):
    return (frames[:-2] + frames[1:-1] + frames[2:]) // 3

def plain(frames):
    return frames + 1

print("imported")
"""
RUN = "print(hf.run(np.arange(6.0), [mean3, plain], executor='processes', workers=1, size=3).array.tolist())"


def test_functions_of_a_script_are_found_by_worker_processes(tmp_path):
    text = f"{OWN_FUNCTION}\nif __name__ == '__main__':\n    {RUN}\n"
    out, err = python(script(tmp_path, text)).communicate(timeout=60)
    assert err == ""
    assert out.splitlines() == ["imported", "imported", "[1.0, 2.0, 3.0, 4.0, 5.0, 5.0]"]


def test_a_script_without_the_usual_guard_is_told_to_have_one(tmp_path):
    process = python(script(tmp_path, f"{OWN_FUNCTION}\n{RUN}\n"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "a worker process imports this script to find its operators, and the script starts a run when it is" in err
    assert "worker process 0 ended before it was ready" not in err
    assert "PipelineError" in err.splitlines()[-1]


def test_a_script_that_brings_no_operators_needs_no_guard(tmp_path):
    text = "import numpy as np, hyperframes as hf\nprint('once')\n" + RUN.replace("[mean3, plain]", "'every:n=2'")
    out, err = python(script(tmp_path, text)).communicate(timeout=60)
    assert (out.splitlines(), err) == (["once", "[0.0, 2.0, 4.0]"], "")


def test_functions_of_an_interactive_session_are_refused(tmp_path):
    process = python("-c", OWN_FUNCTION + RUN)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stage 'mean3' is defined in an interactive session, which worker processes cannot import" in err


LONG_RUN = """
import sys
import numpy as np
import hyperframes as hf
from hyperframes.sinks import CallbackSink
from tests.drivers.process_operators import Slow

class Endless(type(hf.open(np.zeros((1, 4))))):
    def arrays(self):
        return None

if __name__ == "__main__":
    frames = np.broadcast_to(np.zeros((1, 4)), (10_000_000, 4))
    hf.run(Endless(frames), Slow(int(sys.argv[2]), sys.argv[1]), CallbackSink(lambda r: None), executor="processes",
           workers=2, size=4)
"""


def started(tmp_path, steps):
    """Start a run without end in a process group of its own; return it and its two worker processes."""
    folder = tmp_path / "workers"
    folder.mkdir()
    process = python(script(tmp_path, LONG_RUN), folder, steps, start_new_session=True)
    wait_until(lambda: len(os.listdir(folder)) == 2 or process.poll() is not None)
    assert process.poll() is None, process.communicate()[1]
    return process, [psutil.Process(int(name)) for name in os.listdir(folder)]


def wait_until(happened, seconds=60):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def gone(process):
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("steps", [1000, 100_000_000])  # at rest between tasks, and deep in a long one
def test_worker_processes_end_when_their_driver_is_killed(tmp_path, steps):
    process, workers = started(tmp_path, steps)
    process.kill()
    process.communicate()
    wait_until(lambda: all(map(gone, workers)))


def test_ctrl_c_ends_the_run_in_order_and_workers_print_nothing(tmp_path):
    process, workers = started(tmp_path, 1000)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody hears it
    _, err = process.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert err.count("Traceback") == 1
    assert all(map(gone, workers))
