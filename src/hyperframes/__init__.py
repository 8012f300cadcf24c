"""Frames in, hyperframes through, results out: sources -> packing -> scheduling -> operators -> sinks.

The folders are the stages: `sources` open files and arrays, `packing` seals hyperframes, `scheduling` decides what runs
when, `operators` compute, `sinks` write, `drivers` carry it out, and `pipeline` is the map of a run. Names below are
imported when first used, so that ``import hyperframes`` stays light.

Begin with `run` (operators over a file or array), `open` (frames by position and time), `stream` (results as they come),
`operator` (a function of your own), `LiveRuntime` (cameras), `describe` and `open_index` (what happens where, and finding it
again). Errors are classes under `HyperframesError`, and `error.hint` says what to do.

Examples
--------
>>> import numpy as np
>>> import hyperframes as hf
>>> hf.run(np.arange(5.0), "temporal_mean:radius=1").array.tolist()
[0.3333333333333333, 1.0, 2.0, 3.0, 3.6666666666666665]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperframes.drivers import LiveResult, LiveRuntime, Run, RunResult, run, start, stream
    from hyperframes.errors import (
        CancelledError,
        DeadlineError,
        FrameError,
        HyperframesError,
        MissingExtraError,
        OperatorError,
        PipelineError,
        RegistryError,
        SchedulingError,
        SinkError,
        SourceError,
    )
    from hyperframes.frames import Clip, Colour, Field, Frame, FrameSpec, Records, RecordSpec
    from hyperframes.index import Index, open_index
    from hyperframes.operators import Contract, Operator, Output, View, Worker, operator
    from hyperframes.packing import Boundary, Halo, Header, Hyperframe, Packing, pack, unpack
    from hyperframes.pipeline import Options, Pipeline, Stage
    from hyperframes.semantic import Descriptor, describe
    from hyperframes.sinks import Sink, open_sink
    from hyperframes.sources import Source
    from hyperframes.sources import open_source as open  # noqa: A004 - hf.open is the contract's name

__version__ = "0.1.0"

__all__ = [
    "Boundary",
    "CancelledError",
    "Clip",
    "Colour",
    "Contract",
    "DeadlineError",
    "Descriptor",
    "Field",
    "Frame",
    "FrameError",
    "FrameSpec",
    "Halo",
    "Header",
    "Hyperframe",
    "HyperframesError",
    "Index",
    "LiveResult",
    "LiveRuntime",
    "MissingExtraError",
    "Operator",
    "OperatorError",
    "Options",
    "Output",
    "Packing",
    "Pipeline",
    "PipelineError",
    "RecordSpec",
    "Records",
    "RegistryError",
    "Run",
    "RunResult",
    "SchedulingError",
    "Sink",
    "SinkError",
    "Source",
    "SourceError",
    "Stage",
    "View",
    "Worker",
    "describe",
    "open",
    "open_index",
    "open_sink",
    "operator",
    "pack",
    "run",
    "start",
    "stream",
    "unpack",
]

_HOMES = {
    "drivers": ("LiveResult", "LiveRuntime", "Run", "RunResult", "run", "start", "stream"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "frames": ("Clip", "Colour", "Field", "Frame", "FrameSpec", "RecordSpec", "Records"),
    "index": ("Index", "open_index"),
    "operators": ("Contract", "Operator", "Output", "View", "Worker", "operator"),
    "packing": ("Boundary", "Halo", "Header", "Hyperframe", "Packing", "pack", "unpack"),
    "pipeline": ("Options", "Pipeline", "Stage"),
    "semantic": ("Descriptor", "describe"),
    "sinks": ("Sink", "open_sink"),
    "sources": ("Source", "open"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_RENAMED = {"open": "open_source"}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hyperframes' has no attribute {name!r}")
    value = getattr(import_module(f"hyperframes.{_HOME_OF[name]}"), _RENAMED.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
