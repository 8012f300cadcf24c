"""Workers: idle ones help with parts of a task, all cores are used, and nothing is made anew per hyperframe."""

import importlib
import pkgutil
import threading
import time

import numpy as np
import pytest
from tests.drivers.test_engine_equals_whole import WindowSum, as_stream, frames_of
from tests.drivers.test_scheduler_share import Takes

import hyperframes as hf
from hyperframes import operators, packing
from hyperframes.drivers.base import Gate, start_workers
from hyperframes.operators import Contract, Operator, Output
from hyperframes.scheduling.resources import MachineFacts


def stop(workers):
    for worker in workers.values():
        worker.inbox.put(None)
        worker.thread.join()


def run_on(worker, work):
    done = threading.Event()
    worker.inbox.put(lambda: (work(), done.set()))
    assert done.wait(10)


@pytest.mark.requirement("A66")
def test_idle_workers_help_with_the_parts_of_a_task_and_nobody_else_does():
    workers = start_workers({"compute": 3})
    together, threads, covered = threading.Barrier(3), set(), []

    def part(start, stop_):
        if len(threads) < 3 and threading.current_thread() not in threads:
            threads.add(threading.current_thread())
            together.wait(10)  # passes only if all three work at once
        covered.append((start, stop_))

    deadline = time.monotonic() + 10
    while len(workers[0]._idle) < 3 and time.monotonic() < deadline:
        threading.Event().wait(0.001)
    run_on(workers[0], lambda: workers[0].worker.split(100, part))
    assert threads == {worker.thread for worker in workers.values()}
    assert sorted(t for start, stop_ in covered for t in range(start, stop_)) == list(range(100))
    stop(workers)


@pytest.mark.parametrize(
    ("cores", "counts", "threads"), [(8, {"compute": 2}, 4), (2, {"compute": 3}, 1), (4, {"a": 1}, 4)]
)
def test_libraries_get_each_workers_share_of_the_cores(monkeypatch, cores, counts, threads):
    monkeypatch.setattr("hyperframes.drivers.base.machine_facts", lambda: MachineFacts(cores, cores, cores))
    workers = start_workers(counts)
    assert {worker.worker.threads for worker in workers.values()} == {threads}
    stop(workers)


@pytest.mark.requirement("A66")
def test_a_task_is_not_cut_while_all_others_are_busy():
    workers = start_workers({"compute": 2})
    hold, busy = threading.Event(), threading.Event()
    workers[1].inbox.put(lambda: (busy.set(), hold.wait(10)))
    assert busy.wait(10)
    calls = []
    run_on(workers[0], lambda: workers[0].worker.split(100, lambda *part: calls.append(part)))
    assert calls == [(0, 100)]
    hold.set()
    stop(workers)


def test_an_error_in_a_helper_reaches_the_one_that_asked():
    workers = start_workers({"compute": 2})
    caught = []

    def fail(start, stop_):
        raise ValueError(f"no rows {start} to {stop_}")

    def ask():
        try:
            workers[0].worker.split(10, fail)
        except ValueError as error:
            caught.append(str(error))

    run_on(workers[0], ask)
    assert caught
    assert caught[0].startswith("no rows")
    stop(workers)


def test_a_gate_lets_through_what_was_granted_and_all_once_open():
    gate, passed = Gate(), []

    def walk():
        for step in range(3):
            gate.pass_one()
            passed.append(step)

    walker = threading.Thread(target=walk)
    gate.grant(2)
    walker.start()
    deadline = time.monotonic() + 10
    while len(passed) < 2 and time.monotonic() < deadline:
        threading.Event().wait(0.001)
    assert passed == [0, 1]
    gate.open()
    walker.join(10)
    assert passed == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.requirement("A5")
def test_two_workers_do_independent_work_in_little_over_half_the_time():
    frames = np.zeros((160, 4), np.uint8)

    def seconds(workers):
        return hf.run(frames, Takes(5e-3), to="null:", size=16, workers=workers).seconds

    assert min(seconds(1) for _ in range(2)) / min(seconds(2) for _ in range(2)) > 1.6


@pytest.mark.requirement("A4")
def test_no_frame_memory_is_made_once_every_slot_has_been_used(monkeypatch):
    made = []
    whole = packing.Slab.__init__

    def counted(self, *arguments, **options):
        made.append(self)
        whole(self, *arguments, **options)

    monkeypatch.setattr(packing.Slab, "__init__", counted)
    result = hf.run(as_stream(frames_of(400)), WindowSum(1, 1), to="null:", size=4, workers=2)
    assert result.hyperframes == 100
    assert len(made) <= 2 * (result.workers + 1)


class Overlaps(Operator):
    """Counts how many of its calls run at once, and notes the order of the cores."""

    name = "overlaps"

    def __init__(self):
        self.now = self.most = 0
        self.cores = []
        self.lock = threading.Lock()

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),))

    def apply(self, inputs, outputs, state, prepared):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.cores.append(inputs[0].header.core[0])
        time.sleep(0.005)
        outputs[0].data[...] = inputs[0].core_data
        with self.lock:
            self.now -= 1


@pytest.mark.requirement("A3")
@pytest.mark.requirement("A17")
def test_frame_dependency_decides_whether_hyperframes_run_side_by_side():
    together, one_by_one = Overlaps(), Overlaps()
    hf.run(frames_of(64), together, size=4, workers=2)
    hf.run(frames_of(64), one_by_one, size=4, workers=2, frame_dependency="sequential")
    assert together.most == 2
    assert one_by_one.most == 1
    assert one_by_one.cores == sorted(one_by_one.cores)


@pytest.mark.requirement("A67")
def test_every_kernel_releases_the_interpreter_lock_and_starts_no_threads_of_its_own():
    from numba.core.registry import CPUDispatcher

    kernels = {}
    for module in pkgutil.iter_modules(operators.__path__, "hyperframes.operators."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, CPUDispatcher):
                kernels[f"{module.name}.{name}"] = value.targetoptions
    assert len(kernels) > 10
    for name, options in kernels.items():
        assert options.get("nogil"), name
        assert not options.get("parallel"), name
        assert not options.get("fastmath"), name
