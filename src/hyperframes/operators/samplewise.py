"""What operators share that look along time only: one kernel over frames held as rows, for any range of their samples."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from hyperframes.operators.base import Operator, State, View, Worker

if TYPE_CHECKING:
    from hyperframes.frames import Array
    from hyperframes.packing import Halo, Hyperframe, LentPlane

__all__ = ["SampleKernel", "Samplewise", "flat"]

SampleKernel = Callable[[int, int, int], None]
"""``kernel(start, stop, shift)`` fills the samples [start + shift, stop + shift) of every output frame from the samples
[start, stop) of the input frames; start and shift are even wherever shift is not 0."""


def flat(plane: Array) -> Array:
    """Return a contiguous `plane` (T, ...) as rows (T, P), without a copy."""
    return plane.reshape(len(plane), math.prod(plane.shape[1:]))


class Samplewise(Operator):
    """An operator that makes each sample from the same sample of the frames around it, every plane alike.

    One input, one output of as many frames. Since no sample depends on its neighbours in space, samples are shared out to
    idle workers, and a chain of such operators takes a few thousand samples at a time through all its stages: what they
    hand to each other never leaves the core's own cache. So a kernel may be called from several threads at once.
    """

    @property
    @abstractmethod
    def halo(self) -> Halo:
        """Frames read on each side."""

    @abstractmethod
    def sample_kernel(self, source: Array, out: Array) -> SampleKernel:
        """Return the kernel for one plane.

        Parameters
        ----------
        source : (n + halo, P) array
            Frames, contiguous.
        out : (n, Q) array
            Row j is made from the rows ``[j, j + halo]`` of `source`. Contiguous.

        Returns
        -------
        callable
        """

    def apart_kernel(self, source: LentPlane, out: Array) -> SampleKernel | None:
        """Return the kernel for frames that lie apart, each in one piece; None: they are brought side by side for it.

        Parameters
        ----------
        source : LentPlane of n + halo frames
            Some may be in it several times, beyond the ends of a stream.
        out : (n, Q) array
            As for `sample_kernel`.

        Returns
        -------
        callable or None
        """
        return None

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> State | None:
        """Write the core's frames."""
        (hyperframe,), (view,) = inputs, outputs
        first = hyperframe.core.start - self.halo.before
        for plane, out in zip(hyperframe.planes, view.planes, strict=True):
            source = flat(plane[first:])
            kernel = self.sample_kernel(source, flat(out))
            prepared.split(source.shape[1], lambda start, stop, kernel=kernel: kernel(start, stop, 0))  # type: ignore[misc]
        return None
