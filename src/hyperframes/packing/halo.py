"""Context around the frames a hyperframe owns, and what stands in for it beyond the ends of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hyperframes.errors import PipelineError

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["Boundary", "Halo"]


@dataclass(frozen=True, slots=True)
class Halo:
    """How many frames are read but not owned, on each side.

    Examples
    --------
    >>> Halo.of(2) + Halo.of((1, 0))
    Halo(before=3, after=2)
    """

    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        if self.before < 0 or self.after < 0:
            raise PipelineError(
                f"a halo counts frames: expected 0 or more, got before={self.before}, after={self.after}"
            )

    @classmethod
    def of(cls, value: int | tuple[int, int] | Halo) -> Halo:
        """Return a Halo from one number for both sides, or a pair (before, after)."""
        if isinstance(value, Halo):
            return value
        sides: object = (value, value) if isinstance(value, int) else value
        if not isinstance(sides, tuple | list) or len(sides) != 2 or not all(isinstance(side, int) for side in sides):
            raise PipelineError(
                f"a halo counts frames: expected a whole number or (before, after), got {value!r}", got=value
            )
        return cls(*sides)

    def __add__(self, other: Halo) -> Halo:
        return Halo(self.before + other.before, self.after + other.after)

    @property
    def total(self) -> int:
        """Frames of both sides."""
        return self.before + self.after


@dataclass(frozen=True, slots=True)
class Boundary:
    """What stands in for halo frames beyond the ends of a stream.

    ``replicate`` repeats the end frame, ``reflect`` mirrors without repeating it (period 2 (N - 1)), ``constant``
    fills every sample of every plane with `value`, ``none`` leaves zeros that only operators which take a mask may see.

    Examples
    --------
    >>> Boundary.parse("constant:16")
    Boundary(mode='constant', value=16.0)
    """

    mode: Literal["replicate", "reflect", "constant", "none"] = "replicate"
    value: float = 0.0

    @classmethod
    def parse(cls, text: str | Boundary) -> Boundary:
        """Return the boundary that `text` names: ``replicate``, ``reflect``, ``constant[:VALUE]`` or ``none``."""
        if isinstance(text, Boundary):
            return text
        hint = "Use replicate, reflect, constant, constant:VALUE or none."
        if not isinstance(text, str):
            raise PipelineError(f"a boundary is a name: got {text!r}", got=text, hint=hint)
        mode, _, value = text.partition(":")
        if mode not in {"replicate", "reflect", "constant", "none"} or (value and mode != "constant"):
            raise PipelineError(f"unknown boundary {text!r}", got=text, hint=hint)
        try:
            return cls(mode, float(value or 0))  # type: ignore[arg-type]  # checked above
        except ValueError as error:
            raise PipelineError(f"boundary {text!r} needs a number after the colon", got=text, hint=hint) from error

    def __str__(self) -> str:
        return f"constant:{self.value:g}" if self.mode == "constant" else self.mode

    def reach(self, halo: Halo) -> Halo:
        """Return how far a stream must be read so that `halo` can be stood in for at its ends.

        Mirroring at one end reads as far on the other side of the core.
        """
        if self.mode != "reflect":
            return halo
        side = max(halo.before, halo.after)
        return Halo(side, side)

    def source_index(self, index: Array, num_frames: int) -> Array:
        """Return, for global frame positions, which real frame stands there; -1 for none (W1).

        Parameters
        ----------
        index : array of int64
            Positions, also below 0 and from `num_frames` on.
        num_frames : int
            N, the length of the stream; at least 1.
        """
        if self.mode == "replicate":
            return np.clip(index, 0, num_frames - 1)
        if self.mode == "reflect":
            if num_frames == 1:
                return np.zeros_like(index)
            folded = np.mod(index, 2 * (num_frames - 1))
            return np.where(folded < num_frames, folded, 2 * (num_frames - 1) - folded)
        return np.where((index >= 0) & (index < num_frames), index, -1)
