"""What a stretch of video means: when something matters, where, what it looks like, and for which task."""

from hyperframes.semantic.arrow import load, save, schema, to_table
from hyperframes.semantic.descriptor import DEFAULT, PARTS, Anchor, Descriptor, Trajectory
from hyperframes.semantic.kernels import FIXED_KERNELS, attend

__all__ = [
    "DEFAULT",
    "FIXED_KERNELS",
    "PARTS",
    "Anchor",
    "Descriptor",
    "Trajectory",
    "attend",
    "load",
    "save",
    "schema",
    "to_table",
]
