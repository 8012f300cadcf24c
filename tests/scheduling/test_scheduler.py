"""The scheduler, told as events and instructions."""

import pytest

from hyperframes.errors import PipelineError, SchedulingError
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

ONE = StageGraph.single()
CHAIN = StageGraph.single(sequential=True)


def scheduler(graph=ONE, *, workers=1, capacity=16, results=16, resource="compute", **options):
    made = Scheduler(graph, capacity=capacity, results=results, **options)
    for number in range(workers):
        made.step(WorkerJoined(number, resource))
    return made


def tell(made, *events, now_ns=0):
    """Send events; return what all of them led to."""
    return [instruction for event in events for instruction in made.step(event, now_ns)]


def kinds(instructions, *wanted):
    return [instruction for instruction in instructions if isinstance(instruction, wanted)]


def starts(instructions):
    return [instruction.task.id for instruction in kinds(instructions, Start)]


def emits(instructions):
    return [instruction.id for instruction in kinds(instructions, Emit)]


def drops(instructions):
    return [(instruction.id, instruction.reason) for instruction in kinds(instructions, Drop)]


# The plain case ---------------------------------------------------------------------------------------------------


def test_a_run_from_the_first_pull_to_the_stop():
    made = Scheduler(ONE, capacity=2, results=2)
    assert made.start() == [Pull(2)]
    script = [
        (WorkerJoined(0), []),
        (Sealed(0), [Start(Task(0, 0), 0)]),
        (Sealed(1), []),
        (Done(Task(0, 0)), [Release(0), Pull(1), Emit(0), Start(Task(1, 0), 0)]),
        (MemoryFreed(1), []),
        (StreamEnded(), []),
        (Done(Task(1, 0)), [Release(1), Emit(1)]),
        (MemoryFreed(1), [Stop()]),
    ]
    for event, answer in script:
        assert made.step(event) == answer


def test_the_first_event_brings_the_first_pull_where_start_was_not_called():
    assert Scheduler(ONE, capacity=3, results=1).step(WorkerJoined(0)) == [Pull(3)]


def test_an_empty_stream_stops_at_once():
    assert tell(scheduler(), StreamEnded()) == [Stop()]


def test_the_run_ends_when_all_streams_known_from_the_start_have_ended():
    made = scheduler(streams=("a", "b"))
    assert tell(made, StreamEnded("a")) == []
    assert tell(made, StreamEnded("b")) == [Stop()]


@pytest.mark.requirement("A63")
def test_a_worker_gets_its_next_task_only_when_it_is_idle():
    made = scheduler(workers=4)
    out = tell(made, *(Sealed(i) for i in range(12)))
    assert starts(out) == [0, 1, 2, 3]
    assert starts(tell(made, Done(Task(2, 0)))) == [4]


@pytest.mark.requirement("A63")
def test_priorities_are_decided_when_a_worker_is_free_not_when_work_arrives():
    made = scheduler(policy="priority_by_cost")
    tell(made, Sealed(0, cost=1), Sealed(1, cost=2), Sealed(2, cost=9))
    assert starts(tell(made, Done(Task(0, 0)))) == [2]


# Edges --------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A27")
@pytest.mark.requirement("A62")
def test_of_16_chained_hyperframes_and_4_workers_none_starts_before_its_predecessor_ended():
    """The source's code decremented everybody when one was done, so 2 to 15 all started at once."""
    made = scheduler(CHAIN, workers=4)
    out = tell(made, *(Sealed(i) for i in range(16)))
    assert starts(out) == [0]
    for i in range(16):
        assert starts(tell(made, Done(Task(i, 0)))) == ([i + 1] if i < 15 else [])


@pytest.mark.requirement("A26")
def test_waiting_tasks_move_to_ready_when_all_they_wait_for_is_done():
    diamond = StageGraph(
        (
            StageNode("read"),
            StageNode("blur", after=(0,)),
            StageNode("flow", after=(0,)),
            StageNode("mix", after=(1, 2)),
        )
    )
    made = scheduler(diamond, workers=2)
    assert kinds(tell(made, Sealed(0)), Start) == [Start(Task(0, 0), 1)]
    assert (made.metrics().ready, made.metrics().waiting) == (0, 3)
    assert [i.task.stage for i in tell(made, Done(Task(0, 0)))] == [1, 2]
    assert tell(made, Done(Task(0, 1))) == []
    assert [i.task.stage for i in tell(made, Done(Task(0, 2)))] == [3]


@pytest.mark.requirement("A61")
def test_only_the_sequential_stage_waits_for_the_previous_hyperframe():
    graph = StageGraph((StageNode("blur"), StageNode("track", sequential=True, after=(0,))))
    made = scheduler(graph, workers=4)
    assert starts(tell(made, Sealed(0), Sealed(1), Sealed(2))) == [0, 1, 2]
    assert kinds(tell(made, Done(Task(2, 0)), Done(Task(1, 0))), Start) == []
    assert [i.task for i in kinds(tell(made, Done(Task(0, 0))), Start)] == [Task(0, 1)]
    assert [i.task for i in kinds(tell(made, Done(Task(0, 1))), Start)] == [Task(1, 1)]


def test_sequential_stages_of_two_streams_do_not_wait_for_each_other():
    made = scheduler(CHAIN, workers=4)
    assert starts(tell(made, Sealed(0, stream="a"), Sealed(1, stream="b"), Sealed(2, stream="a"))) == [0, 1]


@pytest.mark.requirement("A64")
def test_explicit_edges_wait_for_every_hyperframe_named():
    made = scheduler(workers=4)
    assert starts(tell(made, Sealed(0), Sealed(1), Sealed(2, after=(0, 1)), Sealed(3))) == [0, 1, 3]
    assert starts(tell(made, Done(Task(1, 0)))) == []
    assert starts(tell(made, Done(Task(0, 0)))) == [2]


def test_an_edge_to_a_hyperframe_never_sealed_is_an_error():
    with pytest.raises(SchedulingError, match=r"hyperframe 1 waits for 7, which was not sealed before it"):
        tell(scheduler(), Sealed(0), Sealed(1, after=(7,)))


# Policies -----------------------------------------------------------------------------------------------------------


def started_in_order(policy, sealed, **options):
    made = scheduler(policy=policy, **options)
    order = starts(tell(made, *sealed))
    while len(order) < len(sealed):
        order += starts(tell(made, Done(Task(order[-1], 0)), MemoryFreed(0)))
    return order


@pytest.mark.requirement("A31")
@pytest.mark.parametrize(
    ("policy", "order"),
    [("fifo", [0, 1, 2, 3, 4]), ("priority_by_index", [0, 1, 2, 3, 4]), ("priority_by_cost", [0, 3, 1, 4, 2])],
)
def test_each_policy_has_its_order(policy, order):
    costs = [1, 5, 2, 7, 5]
    assert started_in_order(policy, [Sealed(i, cost) for i, cost in enumerate(costs)]) == order


@pytest.mark.requirement("A29")
def test_priority_by_index_starts_the_earliest_even_when_it_became_ready_last():
    graph = StageGraph((StageNode("read", "io"), StageNode("blur", after=(0,))))
    for policy, expected in (("priority_by_index", 0), ("fifo", 1)):
        made = scheduler(graph, workers=2, resource="io", policy=policy)
        tell(made, Sealed(0), Sealed(1), Done(Task(1, 0)), Done(Task(0, 0)))
        assert starts(tell(made, WorkerJoined(9, "compute"))) == [expected]


@pytest.mark.requirement("A30")
def test_largest_first_shortens_the_tail():
    """One long task of 8 at the end of many short ones: the run takes as long as the long one started late."""

    def makespan(policy):
        costs = [2, 2, 2, 2, 2, 8]
        made = scheduler(policy=policy, workers=0)
        tell(made, *(Sealed(i, cost) for i, cost in enumerate(costs)))
        free = {}
        now = 0
        out = tell(made, WorkerJoined(0), WorkerJoined(1))
        while True:
            free.update({i.task: now + costs[i.task.id] for i in kinds(out, Start)})
            if not free:
                return now
            task = min(free, key=lambda t: (free[t], t))
            now = free.pop(task)
            out = tell(made, Done(task))

    assert (makespan("fifo"), makespan("priority_by_cost")) == (12, 10)


def test_higher_priority_goes_first():
    assert started_in_order("fifo", [Sealed(0), Sealed(1), Sealed(2, priority=1), Sealed(3, priority=2)]) == [
        0,
        3,
        2,
        1,
    ]


def test_streams_of_equal_priority_take_turns():
    sealed = [Sealed(i, stream="busy") for i in range(4)] + [Sealed(4, stream="calm"), Sealed(5, stream="calm")]
    assert started_in_order("fifo", sealed, fair=True) == [0, 4, 1, 5, 2, 3]
    assert started_in_order("fifo", sealed) == [0, 1, 2, 3, 4, 5]


def test_a_stream_that_is_served_seldom_is_not_served_twice_in_a_row():
    made = scheduler(fair=True, workers=0)
    tell(made, *(Sealed(i, stream="a") for i in range(3)), *(Sealed(i, stream="b") for i in range(3, 6)))
    order = starts(tell(made, WorkerJoined(0)))
    for _ in range(5):
        order += starts(tell(made, Done(Task(order[-1], 0))))
    assert order == [0, 3, 1, 4, 2, 5]


@pytest.mark.requirement("A48")
def test_tasks_go_to_workers_of_their_resource():
    graph = StageGraph((StageNode("copy", "memory"), StageNode("blur", "compute", after=(0,))))
    made = scheduler(graph, workers=1)
    assert tell(made, Sealed(0)) == []
    assert kinds(tell(made, WorkerJoined(7, "memory")), Start) == [Start(Task(0, 0), 7)]
    assert kinds(tell(made, Done(Task(0, 0))), Start) == [Start(Task(0, 1), 0)]


# Results: order, slots ----------------------------------------------------------------------------------------------


def test_results_are_emitted_in_order_within_a_stream_and_not_across():
    made = scheduler(workers=3)
    tell(made, Sealed(0, stream="a"), Sealed(1, stream="a"), Sealed(2, stream="b"))
    assert emits(tell(made, Done(Task(1, 0)))) == []
    assert emits(tell(made, Done(Task(2, 0)))) == [2]
    assert emits(tell(made, Done(Task(0, 0)))) == [0, 1]


def test_unordered_results_are_emitted_as_they_finish():
    made = scheduler(workers=2, ordered=False)
    tell(made, Sealed(0), Sealed(1))
    assert emits(tell(made, Done(Task(1, 0)))) == [1]


def test_no_task_starts_a_hyperframe_without_a_results_slot():
    made = scheduler(workers=4, results=2)
    assert starts(tell(made, *(Sealed(i) for i in range(4)))) == [0, 1]
    assert emits(tell(made, Done(Task(0, 0)))) == [0]
    assert starts(tell(made, MemoryFreed(1))) == [2]


def test_the_last_slot_is_kept_for_the_lowest_so_that_the_largest_first_cannot_lock_up():
    made = scheduler(policy="priority_by_cost", workers=0, results=2)
    tell(made, Sealed(0, cost=1), Sealed(1, cost=5), Sealed(2, cost=9))
    assert starts(tell(made, WorkerJoined(0), WorkerJoined(1))) == [2, 0]
    assert emits(tell(made, Done(Task(2, 0)))) == []  # waits for 0 and 1, and holds a slot
    assert emits(tell(made, Done(Task(0, 0)))) == [0]
    assert starts(tell(made, MemoryFreed(1))) == [1]
    assert emits(tell(made, Done(Task(1, 0)))) == [1, 2]


def test_the_last_slot_is_not_for_the_lowest_of_a_stream_that_waits_for_another():
    """2 waits for 1, and 1 for 0, which has not started: with the last slot given to 2 all three would wait for ever."""
    graph = StageGraph((StageNode("blur"), StageNode("track", sequential=True, after=(0,))))
    made = scheduler(graph, workers=0, results=2, policy="priority_by_cost")
    tell(made, Sealed(0, cost=1, stream="x"), Sealed(1, cost=5, stream="x"), Sealed(2, cost=9, stream="y", after=(1,)))
    assert starts(tell(made, WorkerJoined(0))) == [1]
    assert starts(tell(made, Done(Task(1, 0)))) == [0]


def test_the_last_slot_may_go_to_anybody_while_the_lowest_holds_one():
    made = scheduler(workers=2, results=3)
    assert starts(tell(made, Sealed(0), Sealed(1), Sealed(2))) == [0, 1]
    assert starts(tell(made, Done(Task(1, 0)))) == [2]


# Failures -----------------------------------------------------------------------------------------------------------


def test_fail_lets_what_runs_finish_and_stops_naming_the_hyperframe_and_the_stage():
    made = scheduler(workers=2)
    tell(made, Sealed(0), Sealed(1), Sealed(2))
    assert tell(made, Failed(Task(1, 0))) == [
        Drop(1, "failed"), Release(1), Drop(2, "cancelled"), Release(2),
    ]  # fmt: skip
    assert tell(made, Done(Task(0, 0))) == [Release(0), Emit(0), Stop("hyperframe 1 failed in stage 'stage'", (1,))]
    assert tell(made, MemoryFreed(1), StreamEnded()) == []


def test_after_a_failure_no_result_comes_out_behind_the_hole():
    made = scheduler(workers=3)
    tell(made, Sealed(0), Sealed(1), Sealed(2), Done(Task(2, 0)))
    out = tell(made, Failed(Task(0, 0)))
    assert drops(out) == [(0, "failed"), (1, "cancelled"), (2, "cancelled")]
    assert tell(made, Done(Task(1, 0))) == [Release(1), Stop("hyperframe 0 failed in stage 'stage'", (0,))]


def test_a_transient_failure_is_retried_and_the_attempt_is_told():
    made = scheduler(on_error="retry:2")
    tell(made, Sealed(0))
    assert tell(made, Failed(Task(0, 0))) == [Start(Task(0, 0), 0, attempt=1)]
    assert tell(made, Failed(Task(0, 0))) == [Start(Task(0, 0), 0, attempt=2)]
    assert drops(tell(made, Failed(Task(0, 0)))) == [(0, "failed")]


def test_a_lasting_failure_is_not_retried():
    made = scheduler(on_error="retry:2")
    tell(made, Sealed(0))
    assert drops(tell(made, Failed(Task(0, 0), transient=False))) == [(0, "failed")]


def test_continue_gives_up_the_failed_one_alone_where_nothing_depends_on_it():
    made = scheduler(on_error="continue")
    tell(made, Sealed(0), Sealed(1), StreamEnded())
    assert tell(made, Failed(Task(0, 0))) == [Drop(0, "failed"), Release(0), Start(Task(1, 0), 0)]
    assert tell(made, Done(Task(1, 0)), MemoryFreed(1)) == [Release(1), Emit(1), Stop(None, (0,))]


def test_continue_gives_up_descendants_and_no_others():
    made = scheduler(on_error="continue", workers=4)
    tell(made, Sealed(0), Sealed(1), Sealed(2, after=(0,)), Sealed(3, after=(2,)), Sealed(4, after=(1,)))
    assert drops(tell(made, Failed(Task(0, 0)))) == [(0, "failed"), (2, "ancestor_failed"), (3, "ancestor_failed")]
    assert starts(tell(made, Done(Task(1, 0)))) == [4]
    assert drops(tell(made, Sealed(5, after=(3,)))) == [(5, "ancestor_failed")]


def test_a_failed_sequential_stage_takes_the_rest_of_its_stream_with_it():
    made = scheduler(CHAIN, on_error="continue", workers=2)
    tell(made, Sealed(0, stream="a"), Sealed(1, stream="b"), Sealed(2, stream="a"))
    assert drops(tell(made, Failed(Task(0, 0)))) == [(0, "failed"), (2, "ancestor_failed")]
    assert drops(tell(made, Sealed(3, stream="a"))) == [(3, "ancestor_failed")]
    assert starts(tell(made, Done(Task(1, 0)), Sealed(4, stream="b"))) == [4]


def test_live_a_failed_sequential_stage_may_be_a_gap_instead():
    made = scheduler(CHAIN, on_error="continue", after_failure="gap")
    tell(made, Sealed(0), Sealed(1))
    assert starts(tell(made, Failed(Task(0, 0)))) == [1]


def test_a_stage_that_failed_after_the_sequential_one_breaks_no_chain():
    graph = StageGraph((StageNode("track", sequential=True), StageNode("draw", after=(0,))))
    made = scheduler(graph, on_error="continue")
    tell(made, Sealed(0), Sealed(1), Done(Task(0, 0)))
    out = tell(made, Failed(Task(0, 1)))
    assert drops(out) == [(0, "failed")]
    assert starts(out) == [1]


def test_the_input_of_a_failed_hyperframe_is_kept_until_its_other_task_ended():
    graph = StageGraph((StageNode("a"), StageNode("b")))
    made = scheduler(graph, workers=2, on_error="continue")
    tell(made, Sealed(0))
    assert tell(made, Failed(Task(0, 0))) == [Drop(0, "failed")]
    assert tell(made, Done(Task(0, 1))) == [Release(0), Pull(1)]
    assert made.metrics().results == 0


# Workers ------------------------------------------------------------------------------------------------------------


def test_the_task_of_a_lost_worker_runs_again_elsewhere():
    made = scheduler(workers=2)
    tell(made, Sealed(0))
    assert tell(made, WorkerLost(1)) == [Start(Task(0, 0), 0, attempt=1)]


def test_a_lost_worker_does_not_count_as_a_failure_until_it_happens_too_often():
    made = scheduler(workers=0, on_error="continue", worker_losses=2)
    tell(made, Sealed(0))
    for number in range(2):
        assert starts(tell(made, WorkerJoined(number), WorkerLost(number))) == [0]
    assert drops(tell(made, WorkerJoined(9), WorkerLost(9))) == [(0, "failed")]


def test_a_lost_worker_takes_none_of_the_retries():
    made = scheduler(workers=2, on_error="retry:1")
    tell(made, Sealed(0), WorkerLost(1))
    assert tell(made, Failed(Task(0, 0))) == [Start(Task(0, 0), 0, attempt=2)]
    assert drops(tell(made, Failed(Task(0, 0)))) == [(0, "failed")]


def test_a_worker_that_joins_gets_work_at_once():
    made = scheduler(workers=0)
    tell(made, Sealed(0))
    assert tell(made, WorkerJoined(3)) == [Start(Task(0, 0), 3)]


@pytest.mark.requirement("A53")
@pytest.mark.requirement("A92")
@pytest.mark.requirement("A93")
def test_a_device_takes_several_ready_tasks_of_one_stage_at_once():
    graph = StageGraph.single("model", "device:cuda:0")
    made = scheduler(graph, workers=0, join={"device:cuda:0": 4})
    tell(made, *(Sealed(i) for i in range(6)))
    assert tell(made, WorkerJoined(0, "device:cuda:0")) == [Join(tuple(Task(i, 0) for i in range(4)), 0)]
    assert starts(tell(made, *(Done(Task(i, 0)) for i in range(3)))) == []
    assert kinds(tell(made, Done(Task(3, 0))), Join) == [Join((Task(4, 0), Task(5, 0)), 0)]


# Splitting ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A83")
def test_the_heaviest_tasks_are_split_over_idle_workers_when_the_stream_has_ended():
    made = scheduler(workers=0, split_frames=4)
    tell(made, Sealed(0, cost=2, frames=16), Sealed(1, cost=8, frames=16), StreamEnded())
    out = tell(made, WorkerJoined(0), WorkerJoined(1))
    assert kinds(out, Split) == []  # as many tasks as workers
    made = scheduler(workers=4, split_frames=4, results=1)
    tell(made, Sealed(0, cost=2, frames=16), Sealed(1, cost=8, frames=16), StreamEnded(), Done(Task(0, 0)))
    split, *parts = tell(made, MemoryFreed(1))
    assert split == Split(1, 0, 4)
    assert [(part.task, part.attempt) for part in parts] == [(Task(1, 0, part), 0) for part in range(4)]
    assert {part.worker for part in parts} == {0, 1, 2, 3}


def test_spare_workers_go_to_the_heaviest_first():
    made = scheduler(workers=5, split_frames=1, results=3)
    tell(made, Sealed(0, frames=1), Sealed(1, cost=2, frames=16, after=(0,)), Sealed(2, cost=8, frames=16, after=(0,)))
    tell(made, StreamEnded())
    assert kinds(tell(made, Done(Task(0, 0))), Split) == [Split(2, 0, 4)]


def test_sequential_stages_are_not_split():
    made = scheduler(CHAIN, workers=2, capacity=1, split_frames=4)
    assert kinds(tell(made, Sealed(0, frames=16)), Split) == []


@pytest.mark.requirement("A90")
def test_all_parts_of_a_split_task_are_done_before_anything_goes_on():
    made = scheduler(workers=2, capacity=1, split_frames=4)
    assert tell(made, Sealed(0, frames=9)) == [
        Split(0, 0, 2), Start(Task(0, 0, 0), 1), Start(Task(0, 0, 1), 0),
    ]  # fmt: skip
    assert tell(made, Done(Task(0, 0, 1))) == []
    assert tell(made, Done(Task(0, 0, 0))) == [Release(0), Pull(1), Emit(0)]


def test_a_task_is_not_split_while_more_will_come():
    made = scheduler(workers=2, capacity=2, split_frames=4)
    assert kinds(tell(made, Sealed(0, frames=9)), Split) == []


def test_a_task_is_not_split_below_the_least_frames_or_cost_of_a_part():
    assert kinds(tell(scheduler(workers=2, capacity=1, split_frames=4), Sealed(0, frames=7)), Split) == []
    costly = {"split_frames": 1, "split_cost": 2.0}
    assert kinds(tell(scheduler(workers=4, capacity=1, **costly), Sealed(0, cost=3, frames=9)), Split) == []
    assert kinds(tell(scheduler(workers=4, capacity=1, **costly), Sealed(0, cost=5, frames=9)), Split) == [
        Split(0, 0, 2)
    ]


def test_a_failed_part_is_retried_alone():
    made = scheduler(workers=2, capacity=1, split_frames=4, on_error="retry:1")
    tell(made, Sealed(0, frames=8))
    assert tell(made, Failed(Task(0, 0, 1))) == [Start(Task(0, 0, 1), 0, attempt=1)]


# Deadlines and full queues ----------------------------------------------------------------------------------------------


def test_a_hyperframe_that_has_not_started_by_its_deadline_is_dropped_while_the_worker_is_busy():
    made = scheduler()
    tell(made, Sealed(0))
    assert tell(made, Sealed(1, deadline_ns=100), now_ns=10) == [WakeAt(100)]
    assert tell(made, Tick(), now_ns=99) == []
    assert tell(made, Tick(), now_ns=100) == [Drop(1, "expired"), Release(1), Pull(1)]
    assert emits(tell(made, Done(Task(0, 0)), now_ns=200)) == [0]


def test_a_hyperframe_that_has_started_does_not_expire():
    made = scheduler()
    tell(made, Sealed(0, deadline_ns=100))
    assert tell(made, Tick(), now_ns=500) == []
    assert emits(tell(made, Done(Task(0, 0)), now_ns=600)) == [0]


def test_an_expired_hyperframe_is_not_given_to_the_worker_that_becomes_free_too_late():
    made = scheduler()
    tell(made, Sealed(0), Sealed(1, deadline_ns=100), Sealed(2))
    out = tell(made, Done(Task(0, 0)), now_ns=150)
    assert drops(out) == [(1, "expired")]
    assert starts(out) == [2]


def test_the_next_deadline_is_asked_for_when_one_has_passed():
    made = scheduler()
    out = tell(made, Sealed(0), Sealed(1, deadline_ns=300), Sealed(2, deadline_ns=200))
    assert kinds(out, WakeAt) == [WakeAt(300), WakeAt(200)]
    assert kinds(tell(made, Tick(), now_ns=200), WakeAt) == [WakeAt(300)]


def test_a_gap_in_a_chain_is_bridged():
    """After 1 expired, 2 still waits for 0."""
    made = scheduler(CHAIN, workers=2)
    tell(made, Sealed(0), Sealed(1, deadline_ns=10), Sealed(2))
    assert starts(tell(made, Tick(), now_ns=10)) == []
    assert starts(tell(made, Sealed(3), now_ns=10)) == []
    assert starts(tell(made, Done(Task(0, 0)), now_ns=11)) == [2]


def test_live_nothing_is_pulled():
    made = scheduler(when_full="drop_newest", capacity=1)
    assert made.start() == []
    assert kinds(tell(made, Sealed(0), Done(Task(0, 0))), Pull) == []


def test_drop_newest_gives_up_what_arrives_at_a_full_queue():
    made = scheduler(when_full="drop_newest", capacity=2)
    assert drops(tell(made, Sealed(0), Sealed(1), Sealed(2))) == [(2, "queue_full")]


def test_drop_oldest_gives_up_what_has_waited_longest_but_nothing_that_runs():
    made = scheduler(when_full="drop_oldest", capacity=3)
    assert drops(tell(made, Sealed(0), Sealed(1), Sealed(2), Sealed(3))) == [(1, "queue_full")]
    assert drops(tell(scheduler(when_full="drop_oldest", capacity=1), Sealed(0), Sealed(1))) == [(1, "queue_full")]


def test_drop_oldest_spares_higher_priorities_and_the_stream_that_holds_less():
    made = scheduler(when_full="drop_oldest", capacity=3, workers=0)
    tell(made, Sealed(0, priority=1), Sealed(1), Sealed(2))
    assert drops(tell(made, Sealed(3))) == [(1, "queue_full")]
    made = scheduler(when_full="drop_oldest", capacity=3, workers=0)
    tell(made, Sealed(0, stream="calm"), Sealed(1, stream="busy"), Sealed(2, stream="busy"))
    assert drops(tell(made, Sealed(3, stream="busy"))) == [(1, "queue_full")]


def test_drop_oldest_gives_up_the_new_one_where_all_others_matter_more():
    made = scheduler(when_full="drop_oldest", capacity=2, workers=0)
    assert drops(tell(made, Sealed(0, priority=1), Sealed(1, priority=1), Sealed(2))) == [(2, "queue_full")]


def test_block_paces_the_source_by_pulls():
    made = Scheduler(ONE, capacity=2, results=2, when_full="block")
    assert made.start() == [Pull(2)]


# Resume, cancel, the end ------------------------------------------------------------------------------------------------


def test_what_was_done_in_an_earlier_run_counts_as_emitted_and_meets_edges():
    made = scheduler(workers=2)
    tell(made, AlreadyDone(0), AlreadyDone(1))
    assert tell(made, Sealed(1)) == [Release(1), Pull(1)]  # sealed again, for its neighbours' sake
    assert starts(tell(made, Sealed(2, after=(0, 1)))) == [2]
    assert emits(tell(made, Done(Task(2, 0)))) == [2]


def test_holes_of_an_earlier_run_are_filled():
    made = scheduler(workers=2)
    tell(made, AlreadyDone(1), AlreadyDone(3), Sealed(0), Sealed(2), StreamEnded())
    out = tell(made, Done(Task(2, 0)), Done(Task(0, 0)))
    assert emits(out) == [0, 2]
    assert tell(made, MemoryFreed(2)) == [Stop()]


def test_cancel_starts_nothing_more_and_stops_when_what_runs_has_ended():
    made = scheduler()
    tell(made, Sealed(0), Sealed(1))
    assert tell(made, Cancel("interrupted")) == [Drop(1, "cancelled"), Release(1)]
    assert tell(made, Sealed(2)) == [Drop(2, "cancelled"), Release(2)]
    assert tell(made, Done(Task(0, 0))) == [Release(0), Emit(0), Stop("interrupted")]


def test_cancel_gives_up_a_hyperframe_whose_next_stage_has_not_started():
    made = scheduler(StageGraph((StageNode("a"), StageNode("b", after=(0,)))))
    tell(made, Sealed(0))
    assert tell(made, Cancel()) == [Drop(0, "cancelled")]
    assert tell(made, Done(Task(0, 0))) == [Release(0), Stop("cancelled")]


def test_cancel_of_an_idle_run_stops_at_once():
    assert tell(scheduler(), Cancel()) == [Stop("cancelled")]


# Errors of drivers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([Done(Task(0, 0))], r"^stage 0 of hyperframe 0 ended, but it was not running; the last events were:"),
        ([Sealed(0), Done(Task(0, 0, 1))], r"^stage 0 part 1 of hyperframe 0 ended, but it was not running"),
        ([Sealed(0), Done(Task(0, 0)), Done(Task(0, 0))], r"^stage 0 of hyperframe 0 ended, but it was not running"),
        ([Sealed(0), Sealed(0)], r"^hyperframe 0 was sealed twice"),
        ([Sealed(0), Done(Task(0, 0)), Sealed(0)], r"^hyperframe 0 was sealed twice"),
        ([Sealed(3), Sealed(2)], r"^hyperframes of one stream are sealed in order: 2 came after 3"),
        ([Sealed(i) for i in range(17)], r"^hyperframe 16 was sealed without a Pull"),
        ([Sealed(0), StreamEnded(), Sealed(1)], r"^stream '' has ended"),
        ([MemoryFreed(2)], r"^the results of 2 hyperframes were given back: 0 were out"),
        ([WorkerJoined(0)], r"^worker 0 joined twice"),
        ([WorkerLost(5)], r"^worker 5 was lost but never joined"),
        ([Sealed(0), AlreadyDone(0)], r"^hyperframe 0 was told to be done, but it is known already"),
    ],
)
def test_an_event_that_cannot_happen_is_an_error(events, message):
    with pytest.raises(SchedulingError, match=message):
        tell(scheduler(), *events)


def test_the_error_carries_the_last_64_events():
    made = scheduler()
    for i in range(100):
        tell(made, Sealed(i), Done(Task(i, 0)), MemoryFreed(1))
    with pytest.raises(SchedulingError) as caught:
        made.step(Done(Task(7, 0)), now_ns=5)
    assert len(caught.value.events) == 64
    assert caught.value.events[-1] == (5, Done(Task(7, 0)))
    assert caught.value.hint == "This is a bug in hyperframes: please report it with this message."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity counts hyperframes: expected at least 1, got 0"),
        ({"results": 0}, "results counts hyperframes: expected at least 1, got 0"),
        ({"join": {"compute": 0}}, "compute counts hyperframes: expected at least 1, got 0"),
        (
            {"policy": "lifo"},
            "unknown scheduling policy 'lifo': expected one of fifo, priority_by_index, priority_by_cost",
        ),
        ({"on_error": "retry:x"}, "unknown rule for errors 'retry:x': expected fail, continue or retry:N"),
        ({"on_error": "ignore"}, "unknown rule for errors 'ignore': expected fail, continue or retry:N"),
        ({"when_full": "grow"}, "unknown rule for a full queue 'grow': expected drop_newest, drop_oldest or block"),
    ],
)
def test_a_wrong_parameter_is_named(options, message):
    with pytest.raises(PipelineError) as caught:
        Scheduler(ONE, **{"capacity": 1, "results": 1, **options})
    assert str(caught.value) == message


def test_rules_for_errors_are_values():
    assert OnError.parse("fail") == OnError("fail", 0)
    assert OnError.parse("continue") == OnError("continue", 0)
    assert OnError.parse("retry:3") == OnError("fail", 3)
    assert OnError.parse(OnError("continue", 2)) == OnError("continue", 2)


# Metrics, memory ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A105")
def test_metrics_count_ready_waiting_running_and_time():
    made = scheduler(CHAIN, workers=2)
    tell(made, Sealed(0, stream="a"), Sealed(1, stream="a"), Sealed(2, stream="b"), Sealed(3, stream="c"))
    metrics = made.metrics()
    assert (metrics.ready, metrics.waiting, dict(metrics.running), dict(metrics.idle)) == (
        1, 1, {"compute": 2}, {"compute": 0},
    )  # fmt: skip
    tell(made, Done(Task(0, 0), ns=10), Done(Task(2, 0), ns=30))
    metrics = made.metrics()
    assert (metrics.mean_task_ns, metrics.busy_ns["compute"], metrics.inputs, metrics.results) == (20.0, 40, 2, 4)


def size_of_state(made):
    """Count everything reachable that grows with hyperframes."""
    streams = made._streams.values()
    queues = [q for stage in made._stages for q in (stage.going, stage.fresh)]
    return (
        len(made._lives) + len(made._running) + sum(len(s.line) for s in streams) + sum(map(len, queues))
        + made._finished.num_ranges + made._already.num_ranges + made._broken.num_ranges + len(made._deadlines)
        + len(made._ring)
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.requirement("A25")
def test_200_000_hyperframes_leave_no_more_behind_than_a_few():
    made = scheduler(CHAIN, capacity=2, results=2)
    far = 10**18
    for i in range(200_000):
        made.step(Sealed(i, deadline_ns=far))
        made.step(Done(Task(i, 0)))
        made.step(MemoryFreed(1))
    assert size_of_state(made) < 300


def test_what_is_dropped_while_a_worker_hangs_leaves_nothing_behind():
    """The live case that would fill memory: one task never ends, everything behind it expires."""
    made = scheduler(CHAIN, when_full="drop_oldest", capacity=4)
    for i in range(5_000):
        made.step(Sealed(i, deadline_ns=i + 3, priority=i % 3), now_ns=i)
    assert size_of_state(made) < 400
    assert starts(tell(made, Done(Task(0, 0)), now_ns=5_000)) == [4998]
