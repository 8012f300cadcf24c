"""What matters for a task, as a checked matrix."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperframes.errors import FrameError
from hyperframes.frames import Array

__all__ = ["NUM_FEATURES", "NUM_PROJECTED", "Projection"]

NUM_FEATURES: Final = 512
NUM_PROJECTED: Final = 256


@dataclass(frozen=True, eq=False)
class Projection:
    """What matters for a task.

    Raises
    ------
    FrameError
        If the matrix has another shape, or holds NaN or infinity.
    """

    task: str
    matrix: Array
    """(512, 256) float32, read-only."""
    zero_shot: bool = False
    """Guessed from the task's text: no labels of it were seen."""

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, np.float32)
        if matrix.shape != (NUM_FEATURES, NUM_PROJECTED) or not np.isfinite(matrix).all():
            raise FrameError(
                f"the projection of task {self.task!r}: expected finite numbers ({NUM_FEATURES}, {NUM_PROJECTED}), "
                f"got {matrix.shape}",
                expected=(NUM_FEATURES, NUM_PROJECTED),
                got=matrix.shape,
            )
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @property
    def version(self) -> str:
        """What tells this matrix from every other, and whether it is only guessed."""
        return f"{'zero-shot' if self.zero_shot else 'fitted'} {hashlib.sha256(self.matrix.tobytes()).hexdigest()[:12]}"

    def __repr__(self) -> str:
        return f"Projection({self.task!r}, {self.version})"
