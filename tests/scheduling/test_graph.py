import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import PipelineError
from hyperframes.scheduling import StageGraph, StageNode, topological_order


def test_a_graph_knows_successors_and_counts_of_predecessors():
    graph = StageGraph((StageNode("a"), StageNode("b", after=(0,)), StageNode("c", sequential=True, after=(0, 1, 1))))
    assert graph.successors == ((1, 2), (2,), ())
    assert graph.indegree == (0, 1, 2)
    assert graph.sequential == (2,)


@pytest.mark.requirement("A64")
def test_a_circle_of_stages_is_refused_and_named():
    nodes = (
        StageNode("in"),
        StageNode("blur", after=(0, 3)),
        StageNode("flow", after=(1,)),
        StageNode("mix", after=(2,)),
    )
    with pytest.raises(
        PipelineError, match=r"^stages wait for each other in a circle: blur -> flow -> mix -> blur$"
    ) as e:
        StageGraph(nodes)
    assert e.value.hint == "Let one of them take its input from the source or from a stage outside the circle."


def test_a_stage_that_waits_for_itself_is_a_circle():
    with pytest.raises(PipelineError, match=r"circle: a -> a$"):
        StageGraph((StageNode("a", after=(0,)),))


def test_a_graph_needs_stages():
    with pytest.raises(PipelineError, match=r"^a stage graph needs stages: expected at least 1, got none$"):
        StageGraph(())


def test_a_stage_that_waits_for_one_that_does_not_exist_is_refused():
    with pytest.raises(
        PipelineError, match=re.escape("stage 'a' waits for stage 4: expected a position in [0, 1), got 4")
    ):
        StageGraph((StageNode("a", after=(4,)),))


def test_order_follows_the_edges_and_else_stays_as_given():
    assert topological_order("dcba", [("a", "d")]) == ["c", "b", "a", "d"]
    assert topological_order("abc", []) == ["a", "b", "c"]


@given(st.data())
def test_any_order_of_any_graph_keeps_all_edges_or_names_a_real_circle(data):
    count = data.draw(st.integers(1, 8))
    node = st.integers(0, count - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=12))
    try:
        order = topological_order(range(count), edges)
    except PipelineError as error:
        circle = [int(name) for name in error.got]
        assert circle[0] == circle[-1]
        assert len(set(circle[1:])) == len(circle) - 1
        assert all(pair in edges for pair in itertools.pairwise(circle))
    else:
        assert sorted(order) == list(range(count))
        assert all(order.index(before) < order.index(after) for before, after in edges)
