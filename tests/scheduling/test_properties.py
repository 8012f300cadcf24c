"""The scheduler against a simple model: whatever happens in whatever order, its promises hold and it never locks up."""

import random
from collections import defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hyperframes.scheduling import OnError, Scheduler, StageGraph, StageNode
from hyperframes.scheduling.events import (
    AlreadyDone,
    Cancel,
    Done,
    Drop,
    Emit,
    Failed,
    Join,
    MemoryFreed,
    Pull,
    Release,
    Sealed,
    Split,
    Start,
    Stop,
    StreamEnded,
    Task,
    Tick,
    WakeAt,
    WorkerJoined,
    WorkerLost,
)

STREAMS = ("a", "b")
RESOURCES = ("compute", "io")


class Draws:
    """Choices made by hypothesis, with the methods of `random.Random` that the model uses."""

    def __init__(self, data):
        self.data = data

    def randint(self, low, high):
        return self.data.draw(st.integers(low, high))

    def choice(self, values):
        return self.data.draw(st.sampled_from(values))


def some_graph(dice):
    """One to four stages; each may wait for earlier ones and for its own turn."""
    nodes = []
    for place in range(dice.choice([1, 1, 2, 3, 4])):
        after = tuple(before for before in range(place) if dice.randint(0, 2) == 0)
        nodes.append(StageNode(f"s{place}", dice.choice(RESOURCES), sequential=dice.randint(0, 1) == 1, after=after))
    return StageGraph(tuple(nodes))


def some_options(dice):
    return {
        "policy": dice.choice(["fifo", "priority_by_index", "priority_by_cost"]),
        "capacity": dice.randint(1, 6),
        "results": dice.randint(1, 4),
        "on_error": OnError(dice.choice(["fail", "continue"]), dice.randint(0, 2)),
        "ordered": dice.choice([True, True, False]),
        "when_full": dice.choice([None, None, "drop_newest", "drop_oldest", "block"]),
        "fair": dice.choice([True, False]),
        "split_frames": dice.choice([None, 1, 2]),
        "heavy": dice.choice([None, 1.0, 2.0]),
        "after_failure": dice.choice(["drop", "gap"]),
        "join": dice.choice([{}, {}, {"compute": 2}, {"io": 3}]),
        "worker_losses": dice.randint(0, 2),
    }


class Model:
    """Plays the driver; keeps the simplest books that can tell right from wrong."""

    def __init__(self, dice):
        self.graph, self.options = some_graph(dice), some_options(dice)
        self.join = self.options["join"]
        self.explicit_edges = dice.choice([True, False])
        self.deadlines = dice.choice([True, False])
        self.scheduler = Scheduler(self.graph, streams=STREAMS, **self.options)
        self.pulls = self.options["when_full"] not in {"drop_newest", "drop_oldest"}
        self.now = 0
        self.tokens = 0
        self.next_id = 0
        self.num_workers = 0
        self.workers = {}  # number -> (resource, set of tasks)
        self.sealed = {}  # id -> Sealed
        self.order = defaultdict(list)  # stream -> ids sealed
        self.done = set()  # (id, stage)
        self.parts = {}  # (id, stage) -> number of parts
        self.parts_done = set()  # tasks
        self.running = {}  # task -> worker
        self.dropped = {}  # id -> reason
        self.released, self.emitted, self.already = set(), [], set()
        self.started = set()
        self.returned = 0
        self.failed = set()
        self.open = set(STREAMS)
        self.stopping = self.stop = None
        self.wake = None
        self.take(self.scheduler.start())
        for _ in range(dice.randint(0, 4)):
            self.add_worker(dice)

    # What the instructions promise --------------------------------------------------------------------------------

    def send(self, event):
        self.take(self.scheduler.step(event, self.now))

    def take(self, instructions):
        for position, instruction in enumerate(instructions):
            match instruction:
                case Start(task, worker):
                    self.check_start((task,), worker)
                case Join(tasks, worker):
                    assert 1 < len(tasks) <= self.join[self.workers[worker][0]]
                    assert len({task.stage for task in tasks}) == 1
                    self.check_start(tasks, worker)
                case Split(id_, stage, parts):
                    assert (id_, stage) not in self.parts
                    assert parts * self.options["split_frames"] <= self.sealed[id_].frames
                    assert not self.graph.nodes[stage].sequential
                    self.parts[id_, stage] = parts
                    following = instructions[position + 1 : position + 1 + parts]
                    begun = [i.task for i in following if isinstance(i, Start) and i.task[:2] == (id_, stage)]
                    assert begun == [Task(id_, stage, part) for part in range(len(begun))]
                    assert len(begun) == parts if self.options["heavy"] is None else begun
                case Drop(id_, reason):
                    assert id_ in self.sealed
                    assert id_ not in self.dropped
                    assert id_ not in self.emitted
                    if reason == "expired":
                        assert id_ not in self.started
                        assert self.sealed[id_].deadline_ns <= self.now
                    if reason == "queue_full":
                        assert id_ not in self.started
                    if reason == "ancestor_failed":
                        self.check_ancestor(self.sealed[id_])
                    self.dropped[id_] = reason
                case Release(id_):
                    assert id_ not in self.released
                    assert not any(task.id == id_ for task in self.running)
                    self.released.add(id_)
                case Emit(id_):
                    self.check_emit(id_)
                case Pull(n):
                    assert self.pulls
                    self.tokens += n
                case WakeAt(ns):
                    assert ns > self.now
                    self.wake = ns
                case Stop():
                    assert position == len(instructions) - 1
                    assert self.stop is None
                    assert not self.running
                    self.stop = instruction

    def check_ancestor(self, sealed):
        """Only what depends on a failed one goes with it."""
        before = set(sealed.after)
        if self.graph.sequential:
            before |= {other for other in self.order[sealed.stream] if other < sealed.id}
        assert self.options["after_failure"] == "drop"
        assert any(self.dropped.get(other) in {"failed", "ancestor_failed"} for other in before)

    def check_start(self, tasks, worker):
        assert not self.stopping
        resource, busy = self.workers[worker]
        assert not busy
        for task in tasks:
            assert task not in self.running
            assert self.graph.nodes[task.stage].resource == resource
            assert (task.id, task.stage) not in self.done
            assert task not in self.parts_done
            assert task.id not in self.dropped
            assert task.id not in self.released
            assert all((task.id, before) in self.done for before in self.graph.nodes[task.stage].after)
            self.check_edges(task)
            busy.add(task)
            self.running[task] = worker
            self.started.add(task.id)

    def check_edges(self, task):
        """Earlier hyperframes that it depends on have done this stage, or left a gap."""
        sealed = self.sealed[task.id]
        before = list(sealed.after)
        if self.graph.nodes[task.stage].sequential:
            before += [id_ for id_ in self.order[sealed.stream] if id_ < task.id]
        for other in before:
            left_a_gap = self.dropped.get(other) in {"expired", "queue_full", "cancelled"} or (
                other in self.dropped and self.options["after_failure"] == "gap"
            )
            assert (other, task.stage) in self.done or other in self.already or left_a_gap

    def check_emit(self, id_):
        assert id_ not in self.emitted
        assert id_ not in self.dropped
        assert all((id_, stage) in self.done for stage in range(len(self.graph.nodes)))
        if self.options["ordered"]:
            stream = self.order[self.sealed[id_].stream]
            assert all(other in self.dropped or other in self.emitted or other in self.already for other in stream
                       if other < id_)  # fmt: skip
            if self.stopping:
                holes = {"cancelled"} | ({"failed"} if self.options["on_error"].then == "fail" else set())
                assert not any(self.dropped.get(other) in holes for other in stream if other < id_)
        self.emitted.append(id_)

    def inputs_and_results_stay_within_their_bounds(self):
        held = len(self.sealed) - len(self.released)
        assert held <= self.options["capacity"]
        making = {
            i for i in self.started if i not in self.emitted and (i not in self.dropped or i not in self.released)
        }
        assert len(making) + len(self.emitted) - self.returned <= self.options["results"]
        metrics = self.scheduler.metrics()
        assert (metrics.inputs, metrics.results) == (held, len(making) + len(self.emitted) - self.returned)
        assert sum(metrics.running.values()) == len(self.running)
        assert metrics.ready >= 0
        assert metrics.waiting >= 0
        if self.pulls and self.open and not self.stopping:
            assert self.tokens + held == self.options["capacity"]

    def no_ready_task_waits_beside_an_idle_worker_and_free_slots(self):
        """Work conservation, for the plain case: enough results slots for everybody."""
        if self.stopping or self.stop:
            return
        metrics = self.scheduler.metrics()
        if metrics.ready and metrics.results + 1 < self.options["results"] and len(self.graph.nodes) == 1:
            assert metrics.idle[self.graph.nodes[0].resource] == 0

    def nothing_is_kept_of_what_is_over(self):
        assert set(self.scheduler._lives) == set(self.sealed) - self.released
        assert set(self.scheduler._running) == set(self.running)

    def check(self):
        self.inputs_and_results_stay_within_their_bounds()
        self.no_ready_task_waits_beside_an_idle_worker_and_free_slots()
        self.nothing_is_kept_of_what_is_over()

    # What may happen ----------------------------------------------------------------------------------------------

    def may_seal(self):
        return bool(self.open) and (not self.pulls or self.tokens > 0)

    def seal(self, dice):
        stream = dice.choice(sorted(self.open))
        id_ = self.next_id
        self.next_id += 1
        after = set()
        if self.explicit_edges and id_:
            known = [other for other in range(max(0, id_ - 4), id_) if other in self.sealed or other in self.already]
            after = {dice.choice(known) for _ in range(dice.randint(0, 2)) if known}
        event = Sealed(
            id_,
            cost=dice.choice([1.0, 2.0, 5.0]),
            deadline_ns=self.now + dice.randint(1, 8) if self.deadlines and dice.randint(0, 1) else None,
            priority=dice.choice([0, 0, 1]),
            stream=stream,
            after=tuple(sorted(after)),
            frames=dice.randint(1, 6),
        )
        if self.pulls:
            self.tokens -= 1
        self.sealed[id_] = event
        self.order[stream].append(id_)
        self.send(event)

    def is_done_already(self):
        self.already.add(self.next_id)
        self.send(AlreadyDone(self.next_id))
        self.next_id += 1

    def finish(self, dice):
        self.finish_task(dice.choice(sorted(self.running)))

    def finish_task(self, task):
        self.workers[self.running.pop(task)][1].discard(task)
        key = (task.id, task.stage)
        self.parts_done.add(task)
        parts = self.parts.get(key, 1)
        if all(Task(*key, part) in self.parts_done for part in range(parts)):
            self.done.add(key)
        self.send(Done(task, 5))

    def fail(self, dice):
        task = dice.choice(sorted(self.running))
        self.workers[self.running.pop(task)][1].discard(task)
        before = set(self.dropped)
        transient = dice.randint(0, 1) == 1
        out = self.scheduler.step(Failed(task, transient), self.now)
        assert Drop(task.id, "failed") in out or task.id in before or (transient and not self.stopping)
        self.note_failures(out)
        self.take(out)

    def note_failures(self, instructions):
        for instruction in instructions:
            if isinstance(instruction, Drop) and instruction.reason == "failed":
                self.failed.add(instruction.id)
                self.stopping = self.stopping or self.options["on_error"].then == "fail"

    def add_worker(self, dice):
        self.join_worker(dice.choice(RESOURCES))

    def join_worker(self, resource):
        self.workers[self.num_workers] = (resource, set())
        self.num_workers += 1
        self.send(WorkerJoined(self.num_workers - 1, resource))

    def lose_worker(self, dice):
        number = dice.choice(sorted(self.workers))
        _, tasks = self.workers.pop(number)
        for task in tasks:
            del self.running[task]
        out = self.scheduler.step(WorkerLost(number), self.now)
        self.note_failures(out)
        self.take(out)

    def free(self, dice):
        slots = dice.randint(1, len(self.emitted) - self.returned)
        self.returned += slots
        self.send(MemoryFreed(slots))

    def end(self, dice):
        stream = dice.choice(sorted(self.open))
        self.open.discard(stream)
        self.send(StreamEnded(stream))

    def time_passes(self, dice):
        self.now += dice.randint(1, 5)
        self.send(Tick())

    def cancel(self):
        self.stopping = True
        self.send(Cancel("interrupted"))

    def moves(self):
        """Return what may happen now, the likelier the more often."""
        moves = []
        if self.may_seal():
            moves += [self.seal] * 8
        if self.running:
            moves += [self.finish] * 6 + [self.fail]
        if len(self.workers) < 4:
            moves += [self.add_worker]
        if self.workers:
            moves += [self.lose_worker]
        if len(self.emitted) > self.returned:
            moves += [self.free] * 3
        return [*moves, self.time_passes]

    # The end: whatever was played, finishing what runs must bring the run to its end ------------------------------

    def bring_to_the_end(self):
        for resource in RESOURCES:
            self.join_worker(resource)
        for stream in sorted(self.open):
            self.open.discard(stream)
            self.send(StreamEnded(stream))
        for _ in range(10_000):
            if self.running:
                self.finish_task(min(self.running))
            elif len(self.emitted) > self.returned:
                self.returned += 1
                self.send(MemoryFreed(1))
            else:
                break
        assert self.stop is not None, "the run is stuck"
        assert set(self.sealed) == set(self.emitted) | set(self.dropped)
        assert self.released == set(self.sealed)
        assert self.stop.failed == tuple(sorted(self.failed))
        assert (self.stop.error is None) == (not self.stopping)
        assert self.scheduler.metrics().ready == 0
        assert self.scheduler.metrics().waiting == 0
        if not self.stopping:
            assert self.scheduler.metrics().results == 0
        if not self.failed and not self.stopping:
            assert set(self.dropped.values()) <= {"expired", "queue_full"}


class SchedulerAgainstModel(RuleBasedStateMachine):
    """Lets hypothesis choose what happens next, and shrink what goes wrong."""

    model = None

    @initialize(data=st.data())
    def begin(self, data):
        self.model = Model(Draws(data))

    @precondition(lambda self: self.model and self.model.may_seal())
    @rule(data=st.data())
    def seal(self, data):
        self.model.seal(Draws(data))

    @precondition(lambda self: self.model and self.model.open)
    @rule()
    def is_done_already(self):
        self.model.is_done_already()

    @precondition(lambda self: self.model and self.model.running)
    @rule(data=st.data())
    def finish(self, data):
        self.model.finish(Draws(data))

    @precondition(lambda self: self.model and self.model.running)
    @rule(data=st.data())
    def fail(self, data):
        self.model.fail(Draws(data))

    @precondition(lambda self: self.model and len(self.model.workers) < 5)
    @rule(data=st.data())
    def add_worker(self, data):
        self.model.add_worker(Draws(data))

    @precondition(lambda self: self.model and self.model.workers)
    @rule(data=st.data())
    def lose_worker(self, data):
        self.model.lose_worker(Draws(data))

    @precondition(lambda self: self.model and len(self.model.emitted) > self.model.returned)
    @rule(data=st.data())
    def free(self, data):
        self.model.free(Draws(data))

    @precondition(lambda self: self.model and self.model.open)
    @rule(data=st.data())
    def end(self, data):
        self.model.end(Draws(data))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def time_passes(self, data):
        self.model.time_passes(Draws(data))

    @precondition(lambda self: self.model and not self.model.stop and not self.model.stopping)
    @rule(really=st.integers(0, 9))
    def cancel(self, really):
        if really == 0:
            self.model.cancel()

    @invariant()
    def promises_are_kept(self):
        if self.model:
            self.model.check()

    def teardown(self):
        if self.model:
            self.model.bring_to_the_end()


TestSchedulerAgainstModel = SchedulerAgainstModel.TestCase
TestSchedulerAgainstModel.settings = settings(stateful_step_count=50)


@pytest.mark.requirement("A25")
@pytest.mark.requirement("A60")
@pytest.mark.requirement("A64")
@pytest.mark.requirement("W2")
@pytest.mark.parametrize("seed", range(20))
def test_promises_hold_and_every_run_ends_whatever_happens(seed):
    """Many plain random runs: far more of them in the same time than hypothesis has."""
    for number in range(25):
        dice = random.Random(1000 * seed + number)
        model = Model(dice)
        stop_at = dice.choice([None, None, None, dice.randint(1, 100)])
        for step in range(dice.randint(5, 100)):
            if step == stop_at and not model.stopping:
                model.cancel()
            dice.choice(model.moves())(dice)
            model.check()
        model.bring_to_the_end()
