"""Measure a chain on this machine: sweeps over size and workers, the profile they leave, and how near the limit it is."""

from hyperframes.tuning.plots import save_plot
from hyperframes.tuning.roofline import CopyLimit, Roofline, copy_limit, roofline
from hyperframes.tuning.sweep import Cell, Measurement, Sweep, sweep

__all__ = [
    "Cell",
    "CopyLimit",
    "Measurement",
    "Roofline",
    "Sweep",
    "copy_limit",
    "roofline",
    "save_plot",
    "sweep",
]
