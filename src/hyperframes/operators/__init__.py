"""Steps over hyperframes: the interface here, one file per operator beside it."""

from hyperframes.operators.base import (
    Contract,
    Dependency,
    Operator,
    Output,
    Result,
    State,
    View,
    Worker,
    frames_out,
    parse_stage,
)

__all__ = [
    "Contract",
    "Dependency",
    "Operator",
    "Output",
    "Result",
    "State",
    "View",
    "Worker",
    "frames_out",
    "parse_stage",
]
