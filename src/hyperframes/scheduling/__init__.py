"""Which hyperframe runs when: pure decisions, no I/O, no clock, no threads."""

from hyperframes.scheduling.graph import StageGraph, StageNode, topological_order
from hyperframes.scheduling.policies import POLICIES, OnError
from hyperframes.scheduling.resources import MachineFacts, worker_counts
from hyperframes.scheduling.scheduler import Metrics, Scheduler
from hyperframes.scheduling.sizing import default_size

__all__ = [
    "POLICIES",
    "MachineFacts",
    "Metrics",
    "OnError",
    "Scheduler",
    "StageGraph",
    "StageNode",
    "default_size",
    "topological_order",
    "worker_counts",
]
