"""Text, classes and functions to operators, and operators back to text."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import importlib
import inspect
import re
import textwrap
import types
import typing
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np

from hyperframes.errors import PipelineError, RegistryError
from hyperframes.operators.base import Operator, parse_stage
from hyperframes.operators.function import FunctionOperator, operator
from hyperframes.registry import operators

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Parameter", "as_text", "create", "parameters"]


class Parameter(NamedTuple):
    """One parameter of an operator, as users see it."""

    name: str
    type: str
    """Such as ``int``, ``float``, ``dis | farneback``, ``tuple of float``."""
    default: Any
    """``dataclasses.MISSING`` where there is none."""
    help: str


def create(what: Any, *, name: str | None = None, parameters: Mapping[str, Any] | None = None) -> Operator:
    """Return the operator that `what` stands for.

    Parameters
    ----------
    what : str, Operator, type or callable
        ``NAME[:key=value,...]`` of a registered operator or ``module.attribute`` of an importable one; an operator;
        an operator class; or a Python function over arrays, decorated or not.
    name : str, optional
        What a plain function is called; the others keep the name they have.
    parameters : mapping, optional
        More parameters, as text or as values (from TOML); the text's own win.

    Raises
    ------
    RegistryError
        If no operator has the name.
    PipelineError
        If a parameter is unknown, missing or of the wrong type, or `what` is no operator at all.

    Examples
    --------
    >>> create("crop:width=320,height=180")
    Crop(x=0, y=0, width=320, height=180)
    """
    given: dict[str, Any] = dict(parameters or {})
    factory, called = what, ""
    if isinstance(what, str):
        called, from_text = parse_stage(what)
        given |= from_text
        factory = _find(called)
    if isinstance(factory, type) and issubclass(factory, Operator):
        return _build(factory, called or _name(factory), given)
    if given:
        raise PipelineError(
            f"operator {called or str(what)!r} takes no parameters: got {', '.join(sorted(given))}",
            hint="Leave them out, or write the operator as a dataclass.",
        )
    if isinstance(factory, Operator):
        return factory
    if callable(factory) and not isinstance(factory, type):
        return operator(factory, name=name)
    raise PipelineError(
        f"expected an operator, its name or a function over frames, got {_kind(factory)}",
        got=what,
        hint="For example 'gaussian:sigma=2', Gaussian(sigma=2) or a function decorated with @hf.operator.",
    )


def parameters(operator_class: type[Operator] | Operator, *, described: bool = True) -> list[Parameter]:
    """Return the parameters of an operator in the order of its constructor; functions have none.

    Parameters
    ----------
    operator_class : type of Operator, or Operator
        Whose.
    described : bool
        Whether to find what they say about themselves, too: that takes some 50 ms, as sources are parsed for it.

    Examples
    --------
    >>> from hyperframes.operators.gaussian import Gaussian
    >>> [(p.name, p.type, p.default) for p in parameters(Gaussian)]
    [('sigma', 'float', 1.0)]
    """
    cls: Any = operator_class if isinstance(operator_class, type) else type(operator_class)
    if not dataclasses.is_dataclass(cls):
        return []
    hints, helps = _hints(typing.cast("type", cls)), _helps(cls) if described else {}
    found = []
    for field in dataclasses.fields(cls):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found.append(Parameter(field.name, _type_text(hints[field.name]), default, helps.get(field.name, "")))
    return found


@functools.lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def as_text(operator: Operator) -> str:
    """Return the one text that stands for `operator`; `create` takes it back.

    ``NAME[:key=value,...]`` with every parameter that differs from its default, in the order of the constructor;
    ``module.attribute`` for functions.

    Raises
    ------
    PipelineError
        If a parameter has no text form, as arrays have none.

    Examples
    --------
    >>> as_text(create("crop:height=180,width=320,x=0"))
    'crop:width=320,height=180'
    """
    if isinstance(operator, FunctionOperator):
        return operator.path
    written = []
    for parameter in parameters(operator, described=False):
        text = _value_text(getattr(operator, parameter.name), operator.name, parameter.name)
        default = parameter.default
        if default is dataclasses.MISSING or text != _value_text(default, operator.name, parameter.name):
            written.append(f"{parameter.name}={text}")
    return operator.name + (":" + ",".join(written) if written else "")


# Finding --------------------------------------------------------------------------------------------------------------


def _find(name: str) -> Any:
    """Return what is registered as `name`, or what stands at ``module.attribute``."""
    if name in operators or "." not in name:
        return operators.get(name)
    module_name, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        # A module that exists but misses something of its own is that module's error, told as it is.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise RegistryError("operator", name, operators) from error
    except (AttributeError, ValueError, TypeError) as error:  # no such attribute, or no module has such a name
        raise RegistryError("operator", name, operators) from error


def _name(cls: type[Operator]) -> str:
    return getattr(cls, "name", cls.__name__)


def _kind(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _build(cls: type[Operator], name: str, given: Mapping[str, Any]) -> Operator:
    known = {p.name: p for p in parameters(cls, described=False)}
    for key in given:
        if key not in known:
            raise _unknown(name, key, list(known))
    missing = [p.name for p in known.values() if p.default is dataclasses.MISSING and p.name not in given]
    if missing:
        raise PipelineError(
            f"operator {name!r} needs {' and '.join(missing)}: got {', '.join(sorted(given)) or 'no parameters'}",
            stage=name,
            hint=f"For example: --operator {name}:" + ",".join(f"{m}=..." for m in missing),
        )
    hints = _hints(cls)
    values = {}
    for key, value in given.items():
        try:
            values[key] = _parse(value, hints[key])
        except ValueError as error:
            raise PipelineError(
                f"operator {name!r}: expected {known[key].type} for {key}, got {value!r}",
                stage=name,
                expected=known[key].type,
                got=value,
                hint=f"See its parameters: hyperframes operators {name}",
            ) from error
    return cls(**values)


def _unknown(name: str, key: str, known: list[str]) -> PipelineError:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    listed = f"expected one of {', '.join(known)}" if known else "it takes none"
    hint = f"Did you mean {near[0]!r}?" if near else f"See its parameters: hyperframes operators {name}"
    return PipelineError(f"operator {name!r} has no parameter {key!r}: {listed}", stage=name, got=key, hint=hint)


# Values ---------------------------------------------------------------------------------------------------------------

_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}
_UNIONS = (Union, types.UnionType)


def _parse(value: Any, annotation: Any) -> Any:
    """Return `value` (text, or a value of a fitting type) as `annotation` says; ValueError if it does not fit."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in _UNIONS:
        return _parse_union(value, arguments)
    if origin is Literal:
        for choice in arguments:
            if value == choice or (isinstance(value, str) and value == str(choice)):
                return choice
        raise ValueError(value)
    if annotation is tuple or origin is tuple:
        return _parse_tuple(value, arguments)
    if annotation is types.NoneType:
        if value is None or value in {"", "none"}:
            return None
        raise ValueError(value)
    if annotation is bool:
        return _parse_bool(value)
    if annotation in {int, float, str}:
        return _parse_plain(value, annotation)
    if annotation is Any or isinstance(value, annotation):
        return value
    raise ValueError(value)


def _parse_plain(value: Any, annotation: type) -> Any:
    if isinstance(value, bool):
        raise ValueError(value)
    if isinstance(value, str) or (annotation is float and isinstance(value, int)) or isinstance(value, annotation):
        return annotation(value)
    raise ValueError(value)


def _parse_bool(value: Any) -> bool:
    text = str(value).lower()
    if text not in _TRUE | _FALSE:
        raise ValueError(value)
    return text in _TRUE


def _parse_union(value: Any, arguments: tuple[Any, ...]) -> Any:
    # None first, so that "none" never becomes a string; text last, so that "3" is a number where one may stand.
    for argument in sorted(arguments, key=lambda a: (a is not types.NoneType, a is str)):
        try:
            return _parse(value, argument)
        except ValueError:
            continue
    raise ValueError(value)


def _parse_tuple(value: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    items = list(filter(None, re.split(r"[\s/]+", value.strip("() ")))) if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        items = [items]
    if not arguments:
        return tuple(items)
    if arguments[-1] is Ellipsis:
        return tuple(_parse(item, arguments[0]) for item in items)
    if len(items) != len(arguments):
        raise ValueError(value)
    return tuple(_parse(item, argument) for item, argument in zip(items, arguments, strict=True))


def _value_text(value: Any, name: str, key: str) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and "," not in value:
        return value
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return "/".join(_value_text(item, name, key) for item in value)
    raise PipelineError(
        f"operator {name!r}: {key} cannot be written as text: expected a number, a name without commas or a tuple, "
        f"got {value!r}",
        stage=name,
        got=value,
    )


def _type_text(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in _UNIONS:
        return " or ".join(_type_text(a) for a in arguments)
    if origin is Literal:
        return " | ".join(str(a) for a in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"tuple of {_type_text(arguments[0])}"
    if origin is tuple:
        return f"({', '.join(_type_text(a) for a in arguments)})"
    if annotation is types.NoneType:
        return "none"
    return getattr(annotation, "__name__", str(annotation))


# Help -----------------------------------------------------------------------------------------------------------------


def _helps(cls: Any) -> dict[str, str]:
    """Return what the fields of `cls` say about themselves: docstrings under fields, else the Parameters section."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        found |= _section_helps(base) | _field_helps(base)
    return found


def _field_helps(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}  # a class typed in at a prompt has no source; it is shown without help
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    helps = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                helps[name] = " ".join(said.split())
    return helps


def _section_helps(cls: type) -> dict[str, str]:
    doc = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\S[^\n]*\n-+\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^(\w+) : [^\n]*\n((?:(?:[ \t]+[^\n]*)?\n?)*)", section.group(1), re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
