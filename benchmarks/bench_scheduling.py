"""What the scheduler itself costs a hyperframe: every step of its life, nothing else."""

import pytest

from hyperframes.scheduling import Scheduler, StageGraph, StageNode
from hyperframes.scheduling.events import Done, MemoryFreed, Sealed, Task, WorkerJoined

HYPERFRAMES = 500

GRAPHS = {
    "one stage": StageGraph.single(),
    "sequential": StageGraph.single(sequential=True),
    "three stages": StageGraph(
        (StageNode("read"), StageNode("track", sequential=True, after=(0,)), StageNode("draw", after=(1,)))
    ),
}


@pytest.mark.parametrize("policy", ["fifo", "priority_by_cost"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_steps_of_500_hyperframes(benchmark, name, policy):
    graph = GRAPHS[name]

    def run():
        scheduler = Scheduler(graph, policy=policy, capacity=64, results=64)
        scheduler.step(WorkerJoined(0))
        for first in range(0, HYPERFRAMES, 50):
            for i in range(first, first + 50):
                scheduler.step(Sealed(i))
            for _ in range(50 * len(graph.nodes)):
                (task,) = scheduler._running
                scheduler.step(Done(Task(*task), 1000))
            scheduler.step(MemoryFreed(50))
        return scheduler.metrics()

    metrics = benchmark(run)
    assert (metrics.inputs, metrics.results, metrics.mean_task_ns) == (0, 0, 1000.0)
