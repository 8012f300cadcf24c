"""What flows: Frame, Clip, Records, their specs and their time."""

from hyperframes.frames.frame import Array, Clip, Frame, Records, single_plane
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
    "PIXEL_FORMATS",
    "Array",
    "Clip",
    "Colour",
    "Counting",
    "Field",
    "Frame",
    "FrameSpec",
    "Layout",
    "PlaneLayout",
    "RecordSpec",
    "Records",
    "Spec",
    "rescale",
    "single_plane",
    "to_seconds",
]
