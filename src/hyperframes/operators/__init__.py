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
from hyperframes.operators.convert import choose_format
from hyperframes.operators.create import Parameter, as_text, create, parameters
from hyperframes.operators.function import FunctionOperator, operator

__all__ = [
    "Contract",
    "Dependency",
    "FunctionOperator",
    "Operator",
    "Output",
    "Parameter",
    "Result",
    "State",
    "View",
    "Worker",
    "as_text",
    "choose_format",
    "create",
    "frames_out",
    "operator",
    "parameters",
    "parse_stage",
]
