"""The hyperframe: which frames it owns and reads, how it is packed, padded and unpacked."""

from hyperframes.packing.align import ClockFit, ClockModel, Sequencer, fit_clock, interpolate, nearest, span_error
from hyperframes.packing.assemble import LIVE_TIME_BASE, Instants, Packing, Series
from hyperframes.packing.halo import Boundary, Halo
from hyperframes.packing.hyperframe import Header, Hyperframe, window
from hyperframes.packing.lent import FrameRooms, LentPlane
from hyperframes.packing.pack import (
    Packer,
    hyperframe_id,
    pack,
    pad,
    repack,
    shape_error,
    slab_capacity,
    view,
)
from hyperframes.packing.pack_lent import LentPacker
from hyperframes.packing.ranges import Ranges, core_ranges, ranges, validate_size
from hyperframes.packing.slab import Slab, SlabPool, result_array, spare_for
from hyperframes.packing.unpack import unpack

__all__ = [
    "LIVE_TIME_BASE",
    "Boundary",
    "ClockFit",
    "ClockModel",
    "FrameRooms",
    "Halo",
    "Header",
    "Hyperframe",
    "Instants",
    "LentPacker",
    "LentPlane",
    "Packer",
    "Packing",
    "Ranges",
    "Sequencer",
    "Series",
    "Slab",
    "SlabPool",
    "core_ranges",
    "fit_clock",
    "hyperframe_id",
    "interpolate",
    "nearest",
    "pack",
    "pad",
    "ranges",
    "repack",
    "result_array",
    "shape_error",
    "slab_capacity",
    "span_error",
    "spare_for",
    "unpack",
    "validate_size",
    "view",
    "window",
]
