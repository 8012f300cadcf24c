"""What is learned from: labelled stretches of sources, read through the flow, split so that nothing leaks."""

from __future__ import annotations

from hyperframes.neural.data.clips import Clips, Windows, read_clip
from hyperframes.neural.data.filters import area_rate, bin_scales, least_tile_ssim, moving_areas, tile_ssim
from hyperframes.neural.data.labels import LabelAnchor, LabelTrack, heat_maps, pseudo_label
from hyperframes.neural.data.queueing import Candidate, hardest
from hyperframes.neural.data.samples import Sample, check_leaks, read_folder, read_table, split

__all__ = [
    "Candidate",
    "Clips",
    "LabelAnchor",
    "LabelTrack",
    "Sample",
    "Windows",
    "area_rate",
    "bin_scales",
    "check_leaks",
    "hardest",
    "heat_maps",
    "least_tile_ssim",
    "moving_areas",
    "pseudo_label",
    "read_clip",
    "read_folder",
    "read_table",
    "split",
    "tile_ssim",
]
