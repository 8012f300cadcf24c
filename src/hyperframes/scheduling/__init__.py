"""Which hyperframe runs when: pure decisions, no I/O, no clock, no threads."""

from hyperframes.scheduling.graph import StageGraph, StageNode, topological_order
from hyperframes.scheduling.policies import POLICIES, OnError
from hyperframes.scheduling.resources import MachineFacts, worker_counts
from hyperframes.scheduling.scheduler import Metrics, Scheduler
from hyperframes.scheduling.sizing import MODEST_BYTES, SizeChoice, choose_size, modest_size, step_size, tile_samples

__all__ = [
    "MODEST_BYTES",
    "POLICIES",
    "MachineFacts",
    "Metrics",
    "OnError",
    "Scheduler",
    "SizeChoice",
    "StageGraph",
    "StageNode",
    "choose_size",
    "modest_size",
    "step_size",
    "tile_samples",
    "topological_order",
    "worker_counts",
]
