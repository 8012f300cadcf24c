"""How a pipeline travels to other machines: what opens its sources, its sinks before they are opened, its operators.

Frames never travel: sources are opened again where they are read. Code of the user's own script goes by value, as Ray
sends its tasks; everything else by the name under which the other machine can import it.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperframes.errors import PipelineError
from hyperframes.operators import FunctionOperator
from hyperframes.pipeline import Pipeline, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hyperframes.drivers.setup import Setup
    from hyperframes.operators import Operator
    from hyperframes.pipeline import Options
    from hyperframes.sinks import Sink
    from hyperframes.sources import Source

__all__ = ["Package", "packaged", "unpacked"]


@dataclass(frozen=True, slots=True)
class _ByValue:
    """An operator made of a function of the script that was started: its module has another name elsewhere."""

    function: Callable[..., Any]
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Package:
    """A pipeline on its way, and where modules are found."""

    pickled: bytes
    path: tuple[str, ...]
    """Of the sender's ``sys.path``."""


def packaged(setup: Setup, pickler: Any) -> Package:
    """Return the sources and stages of `setup`, pickled by `pickler`, which is Ray's.

    Raises
    ------
    PipelineError
        If a source lies in this process's memory, or an operator cannot be pickled; it says which.
    """
    sources = {}
    for port, source in setup.sources.items():
        reopen = source.reopener()
        if reopen is None:
            raise PipelineError(
                f"the ray executor reads sources where the work is done, and {source.name} exists in this process only",
                got=source.name,
                hint="Write it to a file (numpy.save('in.npy', array)), or use executor='threads'.",
            )
        sources[setup.plan.ports[port].name] = reopen
    stages = tuple(_travelling(stage, pickler) for stage in setup.pipeline.stages)
    return Package(pickler.dumps((sources, stages)), tuple(sys.path))


def _travelling(stage: Stage, pickler: Any) -> tuple[str, bytes, tuple[str, ...]]:
    operator: Any = stage.operator
    if isinstance(operator, FunctionOperator) and operator.path.startswith("__main__."):
        operator = _ByValue(operator.function, operator.settings())
    try:
        return stage.name, pickler.dumps(operator), stage.inputs
    except Exception as error:
        raise PipelineError(
            f"stage {stage.name!r} cannot be sent to other machines: {type(error).__name__}: {error}",
            stage=stage.name,
            hint="Keep files, locks and connections out of it: make them in `prepare`, or use executor='threads'.",
        ) from error


def unpacked(package: Package, sinks: Mapping[str, Sink], options: Options) -> Pipeline:
    """Return the pipeline of `package` with sources that are open, for `sinks` and `options`; the other end.

    Raises
    ------
    PipelineError
        If an operator cannot be made here; it says which.
    """
    sys.path += [place for place in package.path if place not in sys.path]
    opened: dict[str, Callable[[], Source]]
    opened, stages = pickle.loads(package.pickled)
    made = tuple(Stage(name, _operator(name, pickled), inputs) for name, pickled, inputs in stages)
    return Pipeline({name: reopen() for name, reopen in opened.items()}, made, sinks, options)


def _operator(stage: str, pickled: bytes) -> Operator:
    try:
        operator = pickle.loads(pickled)
    except Exception as error:
        raise PipelineError(
            f"stage {stage!r} cannot be made on another machine: {type(error).__name__}: {error}",
            stage=stage,
            hint="Install the package that defines it there, too, in the same version.",
        ) from error
    if isinstance(operator, _ByValue):
        return FunctionOperator.restored(operator.function, operator.fields)
    return operator  # type: ignore[no-any-return]  # the sender's
