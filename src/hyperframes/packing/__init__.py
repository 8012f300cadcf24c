"""The hyperframe: which frames it owns and reads, how it is packed, padded and unpacked."""

from hyperframes.packing.halo import Boundary, Halo
from hyperframes.packing.hyperframe import Header, Hyperframe, window
from hyperframes.packing.pack import (
    Packer,
    hyperframe_id,
    pack,
    pad,
    repack,
    slab_capacity,
    view,
)
from hyperframes.packing.ranges import Ranges, core_ranges, ranges, validate_size
from hyperframes.packing.slab import Slab, SlabPool
from hyperframes.packing.unpack import unpack

__all__ = [
    "Boundary",
    "Halo",
    "Header",
    "Hyperframe",
    "Packer",
    "Ranges",
    "Slab",
    "SlabPool",
    "core_ranges",
    "hyperframe_id",
    "pack",
    "pad",
    "ranges",
    "repack",
    "slab_capacity",
    "unpack",
    "validate_size",
    "view",
    "window",
]
