"""One mean frame for each window of the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hyperframes.operators._planes import check_count, flat, frame_spec
from hyperframes.operators.base import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.temporal_mean import mean_kernel

if TYPE_CHECKING:
    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = ["WindowMean"]


@dataclass(frozen=True)
class WindowMean(Operator):
    """Mean frame of each window: window j covers the frames ``[j * hop, j * hop + length)``.

    Frames of any shape, every plane alike: (T, ...) gives (ceil(T / hop), ...) of the same dtype, rounded as by
    `temporal_mean`. There is a window for every j with ``j * hop`` in the stream; frames past its end are the
    boundary's. No halo beyond the windows themselves.
    """

    name: ClassVar[str] = "window_mean"

    length: int = 16
    """Frames a window covers."""
    hop: int = 16
    """Frames from the start of one window to that of the next."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one window output of the frames' shape."""
        spec = frame_spec(self.name, inputs)
        check_count(self.name, "length", self.length, 1, 4095)
        check_count(self.name, "hop", self.hop, 1, 1_000_000)
        windows = spec.replace(rate=None if spec.rate is None else spec.rate / self.hop)
        output = Output("windows", "windows", windows, length=self.length, hop=self.hop)
        return Contract((output,))

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Write the windows that start in the core."""
        (hyperframe,), (view,) = inputs, outputs
        origin = hyperframe.core.start - hyperframe.header.core[0]
        for plane, means in zip(hyperframe.planes, view.planes, strict=True):
            for j in range(len(view)):
                start = origin + (view.start + j) * self.hop
                source = flat(plane[start : start + self.length])
                kernel = mean_kernel(source, flat(means[j : j + 1]), self.length)
                prepared.split(source.shape[1], lambda start, stop, kernel=kernel: kernel(start, stop, 0))  # type: ignore[misc]
