"""Which hyperframe runs when: pure decisions, no I/O, no clock, no threads."""

from hyperframes.scheduling.graph import StageGraph, StageNode, topological_order
from hyperframes.scheduling.policies import POLICIES, OnError
from hyperframes.scheduling.scheduler import Metrics, Scheduler

__all__ = ["POLICIES", "Metrics", "OnError", "Scheduler", "StageGraph", "StageNode", "topological_order"]
