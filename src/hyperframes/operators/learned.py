"""Trained networks as operators: the files say what they read and give, `registry.networks` what computes them."""

from __future__ import annotations

import functools
import json
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from hyperframes import registry
from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators._events import event_spec, event_windows, sensor_of
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.checks import check_choice, check_count, frame_spec

if TYPE_CHECKING:
    from hyperframes.frames import Array, Spec
    from hyperframes.packing import Hyperframe

__all__ = ["Edh", "Hybrid", "Mch", "ProjectTask", "RefineAnchors", "RegionNet", "Sch"]

_HEADER = "hyperframes_network"
_MOST_HEADER = 16 << 20
_FORMAT = {1: "gray", 3: "rgb24"}


@dataclass(frozen=True, slots=True)
class _File:
    """What a file of weights says of itself."""

    kind: str
    length: int
    channels: int
    outputs: dict[str, tuple[int, ...]]
    checksum: int


@functools.lru_cache(maxsize=32)
def _read(path: str, _changed_ns: int, _size: int) -> _File:
    """Read the header of a safetensors file; the numbers stay where they are."""
    data = Path(path).read_bytes()
    try:
        (length,) = struct.unpack("<Q", data[:8])
        length = min(length, _MOST_HEADER)
        told = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][_HEADER])
        outputs = {name: tuple(map(int, shape)) for name, shape in told["outputs"].items()}
        return _File(told["kind"], int(told["length"]), int(told["channels"]), outputs, zlib.crc32(data))
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("it holds no network") from error


@dataclass(frozen=True)
class _Learned(Operator):
    """What operators with weights share."""

    kind: ClassVar[str] = ""
    """Of the network that the file must hold."""
    compiles: ClassVar[bool] = True

    weights: str
    """Safetensors file, as `hyperframes.neural.save_weights` writes it."""

    def __post_init__(self) -> None:
        if not isinstance(self.weights, str):
            raise self._wrong(f"expected the path of a file for weights, got {self.weights!r}", self.weights)
        # Other numbers under the same name are another operator: resumed runs must not take one for the other.
        object.__setattr__(self, "version", max(1, self.file.checksum))
        if self.file.channels in _FORMAT and self.reads_pictures:
            object.__setattr__(self, "formats", (_FORMAT[self.file.channels],))

    reads_pictures: ClassVar[bool] = True

    @property
    def file(self) -> _File:
        """What the file says."""
        path = os.path.realpath(self.weights)
        try:
            found = os.stat(path)
            told = _read(path, found.st_mtime_ns, found.st_size)
        except (OSError, ValueError) as error:
            why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
            raise self._wrong(f"expected a file of weights, got {self.weights}: {why}", self.weights) from error
        if told.kind != self.kind:
            raise self._wrong(f"expected weights of {self.kind!r}, got {self.weights} of {told.kind!r}", told.kind)
        return told

    def _wrong(self, message: str, got: Any) -> PipelineError:
        return PipelineError(
            f"operator {self.name!r}: weights: {message}",
            stage=self.name,
            got=got,
            hint="Train one with 'hyperframes train', or write one with hyperframes.neural.save_weights.",
        )

    def prepare(self, worker: Worker) -> Any:
        """Return the network; each worker has its own."""
        return registry.networks.get(self.kind)(self.weights)

    def _check_channels(self, spec: FrameSpec) -> None:
        wanted = _FORMAT.get(self.file.channels, "")
        if spec.pixel_format != wanted or spec.layout != "NHWC":
            raise PipelineError(
                f"operator {self.name!r} with these weights reads {wanted} pictures: got {spec}",
                stage=self.name,
                got=spec,
                hint=f"Convert before it: --operator convert:format={wanted}",
            )

    def _check_values(self, spec: FrameSpec, name: str) -> None:
        if spec.shapes != ((self.file.channels,),):
            raise PipelineError(
                f"operator {self.name!r} with these weights reads {name} of {self.file.channels} values: got {spec}",
                stage=self.name,
                got=spec,
            )


@dataclass(frozen=True)
class _Encode(_Learned):
    """What encoders share: one tensor or vector for each window."""

    hop: int = 0
    """Frames from the start of one window to that of the next; 0: as many as a window covers."""
    keep: Literal["tensor", "embedding"] = "tensor"
    """The packed tensor, (C, H, W), or its mean over places, (C,)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.name, "hop", self.hop, 0, 1_000_000)
        check_choice(self.name, "keep", self.keep, ("tensor", "embedding"))

    def _contract(self, spec: FrameSpec, length: int) -> Contract:
        hop = self.hop or length
        rate = None if spec.rate is None else spec.rate / hop
        made = FrameSpec(
            (self.file.outputs[self.keep],), np.dtype(np.float32), time_base=spec.time_base, rate=rate, layout="NCHW"
        )
        return Contract((Output("windows", "windows", made, length=length, hop=hop),), takes_mask=True)

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one window output."""
        spec = frame_spec(self.name, inputs, kinds="u")
        self._check_channels(spec)
        return self._contract(spec, self.file.length)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> None:
        """Write the windows that start in the core; each by itself, so that none depends on the size."""
        (hyperframe,), (view,) = inputs, outputs
        origin = hyperframe.core.start - hyperframe.header.core[0]
        for j in range(len(view)):
            start = origin + (view.start + j) * view.output.hop
            view.data[j] = prepared(_filled(hyperframe, start, view.output.length), self.keep)


def _filled(hyperframe: Hyperframe, start: int, length: int) -> Array:
    """Return the frames of a window; where there is none, its last real one stands in."""
    cut = slice(start, start + length)
    frames, real = hyperframe.data[cut], hyperframe.mask[cut]
    if real.all():
        return frames
    places = np.maximum.accumulate(np.where(real, np.arange(length), 0))
    return frames[places]


@dataclass(frozen=True)
class Mch(_Encode):
    """Motion-centric hyperframe tensor of each window: frames brought to one along their motion, and what that leaves.

    Pictures of any size, dtype uint8 -> one window of shape (C, H, W), or (C,), dtype float32, as the weights say, every
    `hop` frames; no halo beyond the windows. Windows that reach past the end of the stream repeat its last frame.
    """

    name: ClassVar[str] = "mch"
    kind: ClassVar[str] = "mch"


@dataclass(frozen=True)
class Sch(_Encode):
    """Semantic-consistent hyperframe tensor of each window: several scales pooled by attention, like frames merged.

    Pictures of any size, dtype uint8 -> one window of shape (C, H, W), or (C,), dtype float32, as the weights say, every
    `hop` frames; no halo beyond the windows. Windows that reach past the end of the stream repeat its last frame.
    """

    name: ClassVar[str] = "sch"
    kind: ClassVar[str] = "sch"


@dataclass(frozen=True)
class Hybrid(_Encode):
    """Motion-centric and semantic-consistent hyperframe tensor of each window, side by side.

    Pictures of any size, dtype uint8 -> one window of shape (C, H, W), or (C,), dtype float32, as the weights say, every
    `hop` frames; no halo beyond the windows. Windows that reach past the end of the stream repeat its last frame.
    """

    name: ClassVar[str] = "hybrid"
    kind: ClassVar[str] = "hybrid"


@dataclass(frozen=True)
class Edh(_Encode):
    """Event-driven hyperframe tensor of each window of events.

    Frames of events, shape (T, 3) and dtype uint16, of x, y and p -> one window of shape (C, H, W), or (C,), dtype float32,
    every `hop` events; no halo beyond the windows. Windows at the end of the stream hold what there is.
    """

    name: ClassVar[str] = "edh"
    kind: ClassVar[str] = "edh"
    reads_pictures: ClassVar[bool] = False

    length: int = 20_000
    """Events a window covers."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one window output."""
        spec = event_spec(self.name, inputs)
        sensor_of(self.name, spec)
        check_count(self.name, "length", self.length, 1, 10_000_000)
        return self._contract(spec, self.length)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> None:
        """Write the windows that start in the core."""
        (hyperframe,), (view,) = inputs, outputs
        for j, events in event_windows(hyperframe, view, view.output.length, view.output.hop):
            view.data[j] = prepared(events, self.keep)


@dataclass(frozen=True)
class RegionNet(_Learned):
    """Where something matters in each frame, by a trained net.

    Pictures of any size, dtype uint8 -> maps of shape (64, 64), dtype float32, in [0, 1], one a frame; no halo. A cell
    covers the same share of the picture's height and width.
    """

    name: ClassVar[str] = "region_net"
    kind: ClassVar[str] = "region_net"

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one map a frame."""
        spec = frame_spec(self.name, inputs, kinds="u")
        self._check_channels(spec)
        maps = FrameSpec((self.file.outputs["map"],), np.dtype(np.float32), time_base=spec.time_base, rate=spec.rate)
        return Contract((Output("frames", "frames", maps),))

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> None:
        """Write the maps of the core's frames."""
        for frame, out in zip(inputs[0].core_data, outputs[0].data, strict=True):
            out[...] = prepared(frame, "map")


@dataclass(frozen=True)
class RefineAnchors(_Learned):
    """How much each frame of a window matters, from how much moved, by a trained LSTM.

    Rows of motion, shape (T, D) and dtype float32, such as `activity` gives -> one window of weights of shape (length,),
    dtype float32, in [0, 1]; no halo beyond the windows. Row t tells of the step from frame t - 1 to t.
    """

    name: ClassVar[str] = "refine_anchors"
    kind: ClassVar[str] = "anchor_refiner"
    reads_pictures: ClassVar[bool] = False

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one window output, window after window."""
        spec = frame_spec(self.name, inputs, kinds="f")
        self._check_values(spec, "rows")
        length = self.file.length
        weights = FrameSpec((self.file.outputs["weights"],), np.dtype(np.float32), time_base=spec.time_base)
        return Contract((Output("windows", "windows", weights, length=length, hop=length),), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> None:
        """Write the weights of the windows that start in the core."""
        (hyperframe,), (view,) = inputs, outputs
        origin = hyperframe.core.start - hyperframe.header.core[0]
        for j in range(len(view)):
            start = origin + (view.start + j) * view.output.hop
            rows = np.nan_to_num(_filled(hyperframe, start, view.output.length), posinf=0, neginf=0)
            view.data[j] = prepared(rows, "weights")


@dataclass(frozen=True)
class ProjectTask(_Learned):
    """What matters for a task, from its text, by a trained generator.

    Text vectors as frames of shape (384,), dtype float32 -> matrices of shape (512, 256), dtype float32, one each; no halo.
    """

    name: ClassVar[str] = "project_task"
    kind: ClassVar[str] = "task_generator"
    reads_pictures: ClassVar[bool] = False

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one matrix a text."""
        spec = frame_spec(self.name, inputs, kinds="f")
        self._check_values(spec, "vectors")
        matrices = FrameSpec((self.file.outputs["matrix"],), np.dtype(np.float32), time_base=spec.time_base)
        return Contract((Output("frames", "frames", matrices),))

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Any
    ) -> None:
        """Write the matrices of the core's texts."""
        for text, out in zip(inputs[0].core_data, outputs[0].data, strict=True):
            out[...] = prepared(text, "matrix")
