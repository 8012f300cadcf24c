"""What operators share that make each frame from the same frame of their input: one loop, split over idle workers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import Array, FrameSpec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker, frames_out

if TYPE_CHECKING:
    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = ["Framewise", "Kernel", "Prepared", "images", "refuse_choice", "refuse_dtype"]

Kernel = Callable[[tuple[Array, ...], tuple[Array, ...]], None]
"""``kernel(sources, targets)`` fills the planes of one output frame from those of one input frame."""


@dataclass(slots=True, eq=False)
class Prepared:
    """What one worker keeps: itself, and per input spec what a kernel needs (tables, converters)."""

    worker: Worker
    kernels: dict[FrameSpec, Kernel] = field(default_factory=dict)


class Framewise(Operator):
    """An operator without context in time. Subclasses say what comes out and give the kernel for one frame.

    A frame's result depends on nothing but that frame, so it is the same in every hyperframe; frames are shared out
    to idle workers, so a kernel may be called from several threads at once.
    """

    @abstractmethod
    def output_spec(self, spec: FrameSpec) -> FrameSpec:
        """Return the spec of the results for frames of `spec`, or raise a PipelineError."""

    @abstractmethod
    def frame_kernel(self, spec: FrameSpec) -> Kernel:
        """Return the kernel for frames of `spec`; called once per worker and spec (A10)."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return a contract without halo: one frame out for one frame in."""
        spec = frames_out(inputs).spec
        assert isinstance(spec, FrameSpec)
        return Contract((Output("frames", "frames", self.output_spec(spec)),))

    def prepare(self, worker: Worker) -> Prepared:
        """Return the worker with room for its kernels."""
        return Prepared(worker)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Prepared
    ) -> State | None:
        """Run the kernel over the core, frame by frame."""
        (hyperframe,), (view,) = inputs, outputs
        spec = hyperframe.spec
        if spec not in prepared.kernels:
            prepared.kernels[spec] = self.frame_kernel(spec)
        kernel = prepared.kernels[spec]
        sources, targets = hyperframe.core_planes, view.planes

        def part(start: int, stop: int) -> None:
            for t in range(start, stop):
                # The ellipsis keeps frames without axes arrays.
                kernel(tuple(plane[t, ...] for plane in sources), tuple(plane[t, ...] for plane in targets))

        prepared.worker.split(len(view), part)
        return None


def images(plane: Array, spec: FrameSpec, most_channels: int | None = None) -> Iterator[Array]:
    """Yield `plane` of one frame as images (H, W) or (H, W, C) that OpenCV takes, as views.

    Channels come one at a time where they stand first (NCHW), or where there are more than `most_channels`.
    """
    if plane.ndim == 2:
        yield plane
    elif spec.layout == "NHWC" and plane.shape[2] == 1:
        yield plane[..., 0]
    elif spec.layout == "NCHW":
        yield from plane
    elif most_channels is not None and plane.shape[2] > most_channels:
        yield from np.moveaxis(plane, 2, 0)
    else:
        yield plane


def refuse_choice(name: str, key: str, value: object, choices: Iterable[object]) -> None:
    """Raise a PipelineError unless `value` is one of `choices`."""
    known = tuple(choices)
    if value not in known:
        raise PipelineError(
            f"operator {name!r}: expected {key} to be one of {', '.join(map(str, known))}, got {value!r}",
            stage=name,
            expected=known,
            got=value,
        )


def refuse_dtype(name: str, spec: FrameSpec, accepted: tuple[str, ...]) -> None:
    """Raise a PipelineError unless the frames are images (H, W[, C]) of an accepted dtype."""
    for shape in spec.shapes:
        if len(shape) not in {2, 3}:
            raise PipelineError(
                f"operator {name!r} works on images: expected frames of shape (H, W) or (H, W, C), got {shape}",
                stage=name,
                expected="(H, W[, C])",
                got=shape,
            )
    if spec.dtype.name not in accepted:
        raise PipelineError(
            f"operator {name!r} takes {', '.join(accepted)}: got frames of {spec.dtype}",
            stage=name,
            expected=accepted,
            got=spec.dtype.name,
            hint=f"Convert before it: --operator convert:dtype={'float32' if 'float32' in accepted else accepted[0]}",
        )
