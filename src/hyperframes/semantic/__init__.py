"""What a stretch of video means: when something matters, where, what it looks like, and for which task."""

from hyperframes.semantic.anchors import Anchors
from hyperframes.semantic.arrow import load, save, schema, to_table
from hyperframes.semantic.descriptor import DEFAULT, PARTS, Anchor, Descriptor, Trajectory
from hyperframes.semantic.kernels import FIXED_KERNELS, attend
from hyperframes.semantic.sync import Lag, Sync, measure_sync
from hyperframes.semantic.timeline import Segment, Timeline, choose_frames, find_anchors
from hyperframes.semantic.trajectories import trajectories_between

__all__ = [
    "DEFAULT",
    "FIXED_KERNELS",
    "PARTS",
    "Anchor",
    "Anchors",
    "Descriptor",
    "Lag",
    "Segment",
    "Sync",
    "Timeline",
    "Trajectory",
    "attend",
    "choose_frames",
    "find_anchors",
    "load",
    "measure_sync",
    "save",
    "schema",
    "to_table",
    "trajectories_between",
]
