"""Every n-th frame."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from hyperframes.operators._planes import check_count, frame_spec
from hyperframes.operators.base import Contract, Operator, State, View, Worker, frames_out

if TYPE_CHECKING:
    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = ["Every"]


@dataclass(frozen=True)
class Every(Operator):
    """Every `n`-th frame, from the first on: output j is frame ``j * n``.

    Frames of any shape and dtype: (T, ...) gives (ceil(T / n), ...), counted over the stream and not over
    hyperframes. No halo. Each frame keeps its time; the nominal rate falls by `n`.
    """

    name: ClassVar[str] = "every"

    n: int = 5
    """Frames from one that is kept to the next."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output with 1 / n of the frames."""
        spec = frame_spec(self.name, inputs, kinds="iufcb")
        check_count(self.name, "n", self.n, 1, 1_000_000)
        rate = None if spec.rate is None else spec.rate / self.n
        output = dataclasses.replace(frames_out(inputs, rate=rate), ratio=Fraction(1, self.n))
        return Contract((output,), resource="memory")

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> None:
        """Copy the frames that the core owns."""
        (hyperframe,), (view,) = inputs, outputs
        first = hyperframe.core.start + view.start * self.n - hyperframe.header.core[0]
        for source, out in zip(hyperframe.planes, view.planes, strict=True):
            for j in range(len(view)):
                out[j] = source[first + j * self.n]
