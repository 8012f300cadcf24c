"""Which stage waits for which: graphs of named stages, checked for cycles by Kahn's algorithm."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from hyperframes.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    Node = TypeVar("Node", bound=Hashable)

__all__ = ["StageGraph", "StageNode", "topological_order"]


@dataclass(frozen=True, slots=True)
class StageNode:
    """One stage as the scheduler sees it."""

    name: str
    resource: str = "compute"
    """Class of workers that run it: ``compute``, ``memory``, ``io`` or ``device:NAME``."""
    sequential: bool = False
    """True when it waits for the same stage of the previous hyperframe of its stream."""
    after: tuple[int, ...] = ()
    """Positions of stages of the same hyperframe that must finish first."""


@dataclass(frozen=True, slots=True)
class StageGraph:
    """The stages every hyperframe goes through, as successor lists and counts of predecessors.

    Raises
    ------
    PipelineError
        If there are no stages, if a stage waits for one that does not exist, or if stages wait for each other in a
        circle; the message names the circle.

    Examples
    --------
    >>> graph = StageGraph((StageNode("decode", "io"), StageNode("blur", after=(0,)), StageNode("flow", after=(0,))))
    >>> graph.successors, graph.indegree
    (((1, 2), (), ()), (0, 1, 1))
    """

    nodes: tuple[StageNode, ...]
    successors: tuple[tuple[int, ...], ...] = field(init=False)
    """Of each stage: positions of the stages that wait for it."""
    indegree: tuple[int, ...] = field(init=False)
    """Of each stage: how many stages it waits for."""
    sequential: tuple[int, ...] = field(init=False)
    """Positions of the sequential stages."""

    def __post_init__(self) -> None:
        nodes = tuple(self.nodes)
        if not nodes:
            raise PipelineError("a stage graph needs stages: expected at least 1, got none")
        edges = [(before, place) for place, node in enumerate(nodes) for before in dict.fromkeys(node.after)]
        for before, place in edges:
            if not 0 <= before < len(nodes):
                raise PipelineError(
                    f"stage {nodes[place].name!r} waits for stage {before}: "
                    f"expected a position in [0, {len(nodes)}), got {before}",
                    stage=nodes[place].name,
                    got=before,
                )
        topological_order(range(len(nodes)), edges, name=lambda place: nodes[place].name)
        successors: list[list[int]] = [[] for _ in nodes]
        for before, place in edges:
            successors[before].append(place)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "successors", tuple(map(tuple, successors)))
        object.__setattr__(self, "indegree", tuple(len(set(node.after)) for node in nodes))
        object.__setattr__(self, "sequential", tuple(i for i, node in enumerate(nodes) if node.sequential))

    @classmethod
    def single(cls, name: str = "stage", resource: str = "compute", *, sequential: bool = False) -> StageGraph:
        """Return the graph of one stage: what a fused chain of operators is to the scheduler."""
        return cls((StageNode(name, resource, sequential),))


def topological_order(
    nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]], *, name: Callable[[Node], str] = str
) -> list[Node]:
    """Return `nodes` so that each comes after everything it waits for; else in the order given (Kahn).

    Parameters
    ----------
    nodes : iterable of hashable
        Each once.
    edges : iterable of (before, after)
        Both ends among `nodes`.
    name : callable, optional
        What a node is called in messages.

    Raises
    ------
    PipelineError
        If nodes wait for each other in a circle; the message names it, first node repeated at the end.

    References
    ----------
    .. [1] A. B. Kahn, "Topological sorting of large networks", Communications of the ACM 5(11), 1962,
       doi:10.1145/368996.369025.

    Examples
    --------
    >>> topological_order(["write", "blur", "read"], [("read", "blur"), ("blur", "write")])
    ['read', 'blur', 'write']
    """
    place = {node: index for index, node in enumerate(nodes)}
    by_place = list(place)
    successors: list[list[int]] = [[] for _ in by_place]
    waits_for: list[set[int]] = [set() for _ in by_place]
    for before, after in edges:
        if place[before] not in waits_for[place[after]]:
            waits_for[place[after]].add(place[before])
            successors[place[before]].append(place[after])
    missing = [len(before) for before in waits_for]
    free = [index for index, count in enumerate(missing) if count == 0]  # ascending: already a heap
    order = []
    while free:
        index = heapq.heappop(free)
        order.append(by_place[index])
        for successor in successors[index]:
            missing[successor] -= 1
            if missing[successor] == 0:
                heapq.heappush(free, successor)
    if len(order) < len(by_place):
        circle = _circle(waits_for, missing)
        names = [name(by_place[index]) for index in circle]
        raise PipelineError(
            f"stages wait for each other in a circle: {' -> '.join(names)}",
            stage=names[0],
            got=names,
            hint="Let one of them take its input from the source or from a stage outside the circle.",
        )
    return order


def _circle(waits_for: list[set[int]], missing: list[int]) -> list[int]:
    """Return one circle in the direction of the flow; walking backwards from a blocked node must meet one."""
    index = next(i for i, count in enumerate(missing) if count)
    path: list[int] = []
    while index not in path:
        path.append(index)
        index = min(before for before in waits_for[index] if missing[before])
    circle = path[path.index(index) :][::-1]
    first = circle.index(min(circle))
    circle = circle[first:] + circle[:first]
    return [*circle, circle[0]]
