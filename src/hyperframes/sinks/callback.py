"""Results given to a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperframes.sinks.base import Sink, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from hyperframes.frames import Clip, Records

__all__ = ["CallbackSink"]


class CallbackSink(Sink):
    """Calls `function` with the results of every hyperframe, in stream order; what it raises ends the run.

    Parameters
    ----------
    function : function (Clip or Records) -> anything
        Its argument's arrays are lent until it returns: copy what you keep.
    """

    takes_records = True

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.name = f"callback {getattr(function, '__qualname__', repr(function))}"
        self._function = function

    def open(self, target: Target) -> None:
        """There is nothing to prepare."""

    def write(self, result: Clip | Records) -> None:
        """Call the function."""
        self._function(result)

    def close(self) -> None:
        """There is nothing to finish."""
