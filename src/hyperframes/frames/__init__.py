"""What flows: Frame, Clip, Records, their specs and their time."""

from hyperframes.frames.copying import copy_planes
from hyperframes.frames.events import EVENT_NAMES, Events, event_histogram, time_surface, voxel_grid
from hyperframes.frames.frame import Array, Clip, Frame, Records, single_plane
from hyperframes.frames.shake import shake, steadied
from hyperframes.frames.spec import (
    PIXEL_FORMATS,
    Colour,
    Field,
    FrameSpec,
    Layout,
    PlaneLayout,
    RecordSpec,
    Spec,
)
from hyperframes.frames.time import Counting, rescale, to_seconds

__all__ = [
    "EVENT_NAMES",
    "PIXEL_FORMATS",
    "Array",
    "Clip",
    "Colour",
    "Counting",
    "Events",
    "Field",
    "Frame",
    "FrameSpec",
    "Layout",
    "PlaneLayout",
    "RecordSpec",
    "Records",
    "Spec",
    "copy_planes",
    "event_histogram",
    "rescale",
    "shake",
    "single_plane",
    "steadied",
    "time_surface",
    "to_seconds",
    "voxel_grid",
]
