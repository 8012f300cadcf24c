"""A learning rate that follows a cosine, and the curvature of what is being learned."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hyperframes.errors import FrameError

__all__ = ["CurvatureCosine"]


@dataclass(slots=True)
class CurvatureCosine:
    """Learning rate by step: a cosine from `peak` to `floor` after a linear warm-up, times k in [1 - alpha, 1 + alpha].

    ``k = 1 + alpha * clip((kbar - kema) / kema, -1, 1)`` with the mean curvature kbar of the batch and its running
    mean kema: higher where the batch is more bent than usual, lower where it is less. `alpha` 0 is the plain cosine.

    References
    ----------
    .. [1] I. Loshchilov, F. Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017,
       arXiv:1608.03983.
    """

    steps: int
    """Of the whole training."""
    peak: float = 1e-3
    floor: float = 1e-5
    warm_up: int = 0
    """Steps."""
    alpha: float = 0.3
    follow: float = 0.05
    """How fast the running mean follows."""
    usual: float | None = None
    """kema, once a batch was seen; part of what a checkpoint keeps."""

    def __post_init__(self) -> None:
        if self.steps < 1 or not 0 <= self.warm_up <= self.steps or not 0 <= self.alpha < 1 or self.floor > self.peak:
            raise FrameError(
                f"a schedule has steps, a warm-up within them, alpha in [0, 1) and a floor below its peak: got {self}"
            )

    def cosine(self, step: int) -> float:
        """Return the rate of `step`, from 0 on, without the curvature."""
        if step < self.warm_up:
            return self.peak * (step + 1) / self.warm_up
        share = min(1.0, (step - self.warm_up) / max(1, self.steps - self.warm_up))
        return self.floor + (self.peak - self.floor) * (1 + math.cos(math.pi * share)) / 2

    def rate(self, step: int, curvature: float) -> float:
        """Return the rate of `step` for a batch of mean `curvature`, and take note of it."""
        if self.usual is None:
            self.usual = curvature
        usual = self.usual
        self.usual += self.follow * (curvature - usual)
        change = (curvature - usual) / usual if usual > 0 else 0.0
        return self.cosine(step) * (1 + self.alpha * max(-1.0, min(1.0, change)))
