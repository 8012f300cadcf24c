"""Checks that operators make in `configure`: what comes in, and what their parameters may be.

Each raises a PipelineError with a sentence in the words of the house and a hint, so that every operator says the same
thing in the same way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec, Spec

__all__ = ["check_choice", "check_count", "check_number", "frame_spec", "is_number"]


def frame_spec(operator: str, inputs: tuple[Spec, ...], *, kinds: str = "iufc") -> FrameSpec:
    """Return the spec of the only input.

    Raises
    ------
    PipelineError
        If it is not frames, or its dtype is not of one of the NumPy `kinds`.
    """
    if len(inputs) != 1 or not isinstance(inputs[0], FrameSpec):
        raise PipelineError(
            f"operator {operator!r} takes one stream of frames: expected a FrameSpec, got {inputs}", stage=operator
        )
    if inputs[0].dtype.kind not in kinds:
        raise PipelineError(
            f"operator {operator!r} cannot work on {inputs[0].dtype} samples: "
            f"expected {', '.join(_KINDS[k] for k in kinds)}, got {inputs[0].dtype}",
            stage=operator,
            got=inputs[0].dtype,
            hint="Convert the samples first, for example with --dtype uint8.",
        )
    return inputs[0]


_KINDS = {"i": "signed integers", "u": "unsigned integers", "f": "floats", "c": "complex numbers", "b": "booleans"}


def is_number(value: Any) -> bool:
    """Whether `value` is a finite real number and no bool."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return real and math.isfinite(value)


def check_count(operator: str, name: str, value: Any, least: int, most: int) -> None:
    """Raise a PipelineError unless the parameter is a whole number from `least` to `most`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise PipelineError(
            f"operator {operator!r}: {name} is a whole number: expected {least} to {most}, got {value!r}",
            stage=operator,
            expected=(least, most),
            got=value,
            hint=f"For example: --operator {operator}:{name}={max(least, min(2, most))}",
        )


def check_number(operator: str, name: str, value: Any, least: float, most: float, *, above: bool = False) -> None:
    """Raise a PipelineError unless the parameter is a number from `least` (`above`: not itself) to `most`."""
    if not is_number(value) or not least <= value <= most or (above and value == least):
        raise PipelineError(
            f"operator {operator!r}: {name} is a number: expected {'above' if above else 'from'} {least:g} "
            f"to {most:g}, got {value!r}",
            stage=operator,
            expected=(least, most),
            got=value,
            hint=f"For example: --operator {operator}:{name}={max(least + 0.5 * above, min(1.0, most)):g}",
        )


def check_choice(operator: str, name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise a PipelineError unless the parameter is one of `choices`."""
    if value not in choices:
        raise PipelineError(
            f"operator {operator!r}: {name} is a choice: expected one of {', '.join(choices)}, got {value!r}",
            stage=operator,
            expected=choices,
            got=value,
            hint=f"For example: --operator {operator}:{name}={choices[0]}",
        )
