"""The short form of an operator: a Python function over arrays of frames."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import sys
import types
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import PIXEL_FORMATS, Array, FrameSpec
from hyperframes.operators.base import Contract, Dependency, Operator, Output, State, View, Worker
from hyperframes.packing import Halo, Hyperframe

if TYPE_CHECKING:
    from hyperframes.frames import Layout, Spec

__all__ = ["FunctionOperator", "operator"]

Function = Callable[..., Any]

_PROBE_FRAMES = 3
# The formats that plain arrays are read as (FrameSpec.array) come as they are; all others become grey or RGB.
_FORMATS = ("gray", "rgb24", "=gray16le", "=rgb48le", "=rgba")


@overload
def operator(function: Function, /, *, name: str | None = None) -> FunctionOperator: ...
@overload
def operator(
    *,
    halo: int | tuple[int, int] | Halo = 0,
    dependency: Dependency = "independent",
    resource: str = "compute",
    planes: bool = False,
    layout: Layout | None = None,
    output: Any = None,
    name: str | None = None,
    version: int | None = None,
    takes_mask: bool = False,
) -> Callable[[Function], FunctionOperator]: ...
def operator(function: Function | None = None, /, **options: Any) -> Any:
    """Make a function over arrays an operator; the decorated function can still be called as before.

    Parameters
    ----------
    function : callable
        ``frames -> frames``: takes an array (T + halo, ...) per input port, returns (T, ...). Sequential ones:
        ``(frames, state) -> (frames, state)``, where `state` is a dict of arrays and numbers, empty at the start.
    halo : int or (before, after)
        Frames read on each side of those returned.
    dependency : {'independent', 'sequential'}
        Whether the halo is enough, or state is carried from one call to the next.
    resource : str
        ``compute``, ``memory``, ``io`` or ``device:NAME``.
    planes : bool
        True: each port's frames come as a tuple of native planes, and a tuple (or the one array) is returned. False:
        video comes as ``rgb24`` or ``gray``; arrays that are no pictures come as they are.
    layout : {'NHWC', 'NCHW'}, optional
        Axis order of the pictures it takes; they are converted once for all stages that want it. Default: as they come.
    output : FrameSpec, str, dtype, tuple or dict, optional
        What comes out where it should not be found by a probe: a whole spec, a pixel format of the input's size,
        a dtype, the shape of one frame, or a dict of ``shape``, ``dtype`` and ``pixel_format``.
    name : str, optional
        Default: the function's name.
    version : int, optional
        Raised when results change. Default: a checksum of the function's code, so that an edited function is not
        taken for the old one on resume (what it calls does not enter).
    takes_mask : bool
        True: the function also gets ``mask=``, (T + halo,) bool, False where the boundary stands.

    Raises
    ------
    PipelineError
        If an option is unknown or makes no sense.

    Notes
    -----
    The frames given are read-only. The state handed to a sequential function is a copy (once per hyperframe), so it
    may be changed in place.

    Examples
    --------
    >>> @operator(halo=1)
    ... def mean3(frames):
    ...     return (frames[:-2] + frames[1:-1] + frames[2:]) / 3
    >>> mean3(np.arange(5.0))
    array([1., 2., 3.])
    """
    _check_options(options)
    if function is None:
        return functools.partial(_decorate, options=options)
    return _decorate(function, options)


def _check_options(options: dict[str, Any]) -> None:
    known = [name for name in inspect.signature(FunctionOperator).parameters if name != "function"]
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1, cutoff=0.5)
            raise PipelineError(
                f"@hf.operator has no option {option!r}: expected one of {', '.join(known)}",
                expected=tuple(known),
                got=option,
                hint=f"Did you mean {near[0]!r}?" if near else "Parameters of its own make it an Operator class.",
            )


def _decorate(function: Function, options: dict[str, Any]) -> FunctionOperator:
    return FunctionOperator(function, **options)


class FunctionOperator(Operator):
    """A function as an operator; see `operator` for the parameters."""

    def __init__(
        self,
        function: Function,
        *,
        halo: int | tuple[int, int] | Halo = 0,
        dependency: Dependency = "independent",
        resource: str = "compute",
        planes: bool = False,
        layout: Layout | None = None,
        output: Any = None,
        name: str | None = None,
        version: int | None = None,
        takes_mask: bool = False,
    ) -> None:
        if not callable(function):
            raise PipelineError(f"an operator is made from a function: got a {type(function).__name__}", got=function)
        functools.update_wrapper(self, function)
        called: str = name or str(getattr(function, "__name__", type(function).__name__))
        if dependency not in {"independent", "sequential"}:
            raise PipelineError(
                f"function {called!r}: expected dependency 'independent' or 'sequential', got {dependency!r}",
                stage=called,
                got=dependency,
            )
        self.function, self.halo, self.dependency, self.resource = function, Halo.of(halo), dependency, resource
        self.planes, self.output, self.takes_mask = planes, output, takes_mask
        self.name = called  # type: ignore[misc]  # one class, one name per function
        self.version = code_checksum(function) if version is None else version  # type: ignore[misc]
        self.formats = None if planes else _FORMATS  # type: ignore[misc]
        self.wants_layout = layout  # type: ignore[misc]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the plain function."""
        return self.function(*arguments, **keywords)

    @property
    def path(self) -> str:
        """``module.name`` of the function."""
        function = self.function
        module = getattr(function, "__module__", "") or "__main__"
        return f"{module}.{getattr(function, '__qualname__', self.name)}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by reference where the decorated name can be imported, as functions are; else with the function."""
        module, _, attribute = self.path.rpartition(".")
        if getattr(sys.modules.get(module), attribute, None) is self:
            return _imported, (module, attribute)
        return FunctionOperator.restored, (self.function, self.settings())

    def settings(self) -> dict[str, Any]:
        """Return what the operator knows besides what its function is called; `restored` takes it back."""
        return {k: v for k, v in self.__dict__.items() if k not in (*functools.WRAPPER_ASSIGNMENTS, "__wrapped__")}

    @classmethod
    def restored(cls, function: Function, settings: dict[str, Any]) -> FunctionOperator:
        """Return the operator of `function` that had such `settings`."""
        made = cls(function)
        made.__dict__.update(settings)
        return made

    def __repr__(self) -> str:
        halo = f", halo=({self.halo.before}, {self.halo.after})" if self.halo.total else ""
        sequential = ", sequential" if self.dependency == "sequential" else ""
        return f"operator({self.path}{halo}{sequential})"

    # The interface ----------------------------------------------------------------------------------------------------

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return what comes out, found by running the function once on zeros where `output` does not say it.

        Raises
        ------
        PipelineError
            If an input has records or planes it does not take, if the function fails on the probe, or if it returns
            something other than T frames for T + halo.
        """
        specs = tuple(self._checked(spec) for spec in inputs)
        spec = self._probed(specs) if self.output is None else _declared(self.output, specs[0], self.name)
        return Contract(
            (Output("frames", "frames", spec),),
            self.halo,
            self.dependency,
            self.resource,
            self.takes_mask,
        )

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> State | None:
        """Run the function on one hyperframe and check what it returns."""
        arguments = [h.planes if self.planes else h.data for h in inputs]
        result, new_state = self._call(arguments, inputs[0].mask, state)
        (view,) = outputs
        spec = view.output.spec
        assert isinstance(spec, FrameSpec)
        planes = self._as_planes(result)
        expected = tuple((len(view), *shape) for shape in spec.shapes)
        got = tuple(plane.shape for plane in planes)
        if got != expected or any(plane.dtype != spec.dtype for plane in planes):
            raise FrameError(
                f"function {self.name!r} must return {_shapes(expected)} of {spec.dtype} for {len(inputs[0])} frames "
                f"({len(view)} and a halo of {self.halo.total}), got {_shapes(got)} of "
                f"{', '.join(dict.fromkeys(str(p.dtype) for p in planes))}",
                expected=expected,
                got=got,
            )
        for target, plane in zip(view.planes, planes, strict=True):
            np.copyto(target, plane)
        return new_state

    def _call(self, arguments: list[Any], mask: Array, state: State | None) -> tuple[Any, State | None]:
        keywords = {"mask": mask} if self.takes_mask else {}
        if self.dependency == "independent":
            return self.function(*arguments, **keywords), None
        result = self.function(*arguments, _copied(state or {}), **keywords)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
            raise FrameError(
                f"the sequential function {self.name!r} must return (frames, state) with a dict as state, "
                f"got {_describe(result)}",
                got=result,
            )
        for key, value in result[1].items():
            if not isinstance(value, np.ndarray | np.generic | int | float | complex | str | bytes):
                raise FrameError(
                    f"the state of function {self.name!r} must hold arrays, numbers and text: "
                    f"got a {type(value).__name__} for {key!r}",
                    got=value,
                )
        return result[0], dict(result[1])

    def _as_planes(self, result: Any) -> tuple[Array, ...]:
        if self.planes and isinstance(result, tuple | list):
            return tuple(np.asarray(plane) for plane in result)
        if isinstance(result, tuple | dict) or result is None:
            raise FrameError(f"function {self.name!r} must return an array of frames, got {_describe(result)}")
        return (np.asarray(result),)

    # Before the first frame -------------------------------------------------------------------------------------------

    def _checked(self, spec: Spec) -> FrameSpec:
        if not isinstance(spec, FrameSpec):
            raise PipelineError(
                f"function {self.name!r} takes frames, got records", stage=self.name, hint="Feed it a frames output."
            )
        if len(spec.shapes) > 1 and not self.planes:
            raise PipelineError(
                f"function {self.name!r} takes one array per frame, got {len(spec.shapes)} planes of {spec}",
                stage=self.name,
                hint="Convert before it (convert:format=rgb24), or declare @hf.operator(planes=True).",
            )
        return spec

    def _probed(self, specs: tuple[FrameSpec, ...]) -> FrameSpec:
        count = _PROBE_FRAMES + self.halo.total
        arguments = []
        for spec in specs:
            planes = tuple(_frozen(np.zeros((count, *shape), spec.dtype)) for shape in spec.shapes)
            arguments.append(planes if self.planes else planes[0])
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # zeros divide badly; real frames may warn
                result, _ = self._call(arguments, np.ones(count, bool), None)
                planes = self._as_planes(result)
        except FrameError as error:
            raise PipelineError(str(error), stage=self.name, got=error.got) from error
        except (Exception, SystemExit) as error:
            shapes = _shapes(tuple((count, *shape) for shape in specs[0].shapes))
            raise PipelineError(
                f"function {self.name!r} failed on a probe of zeros, {shapes} of {specs[0].dtype}: "
                f"{type(error).__name__}: {error}",
                stage=self.name,
                hint="Mend it, or say what it returns with @hf.operator(output=...), which leaves the probe out.",
            ) from error
        for plane in planes:
            if plane.ndim < 1 or len(plane) != _PROBE_FRAMES or plane.dtype == object:
                expected = f"({_PROBE_FRAMES}, ...)"
                raise PipelineError(
                    f"function {self.name!r} must return T frames for T + {self.halo.total}: expected {expected} "
                    f"for a probe of {count} frames, got {plane.shape} of {plane.dtype}",
                    stage=self.name,
                    expected=expected,
                    got=plane.shape,
                    hint="Declare the frames it reads on each side with @hf.operator(halo=...).",
                )
        if len({plane.dtype for plane in planes}) > 1:
            raise PipelineError(
                f"function {self.name!r} must return planes of one dtype, got "
                f"{', '.join(str(plane.dtype) for plane in planes)}",
                stage=self.name,
            )
        return _like(specs[0], tuple(plane.shape[1:] for plane in planes), planes[0].dtype)


# Specs ----------------------------------------------------------------------------------------------------------------


def _like(spec: FrameSpec, shapes: tuple[tuple[int, ...], ...], dtype: np.dtype[Any]) -> FrameSpec:
    """Return the spec of arrays that were made from frames of `spec`: what stays true is kept."""
    if shapes == spec.shapes and dtype == spec.dtype:
        return spec
    if len(shapes) > 1:
        return spec.replace(shapes=shapes, dtype=dtype, pixel_format=_planar_format(spec, shapes, dtype))
    pixel_format = FrameSpec.array(shapes[0], dtype).pixel_format
    if shapes == spec.shapes:
        return spec.replace(dtype=dtype, pixel_format=pixel_format)
    return spec.replace(shapes=shapes, dtype=dtype, pixel_format=pixel_format, layout="NHWC", names=())


def _planar_format(spec: FrameSpec, shapes: tuple[tuple[int, ...], ...], dtype: np.dtype[Any]) -> str:
    """Return the input's format where planes of another size still fit it, else no format."""
    if spec.pixel_format and dtype == spec.dtype and len(shapes[0]) >= 2:
        picture = FrameSpec.picture(shapes[0][0], shapes[0][1], spec.pixel_format)
        if picture.shapes == shapes:
            return spec.pixel_format
    return ""


def _declared(output: Any, spec: FrameSpec, name: str) -> FrameSpec:
    """Return the spec that ``output=`` says, filled up from the input's."""
    if isinstance(output, FrameSpec):
        return output
    if isinstance(output, str) and output in PIXEL_FORMATS:
        output = {"pixel_format": output}
    elif isinstance(output, tuple):
        output = {"shape": output}
    elif not isinstance(output, Mapping):
        output = {"dtype": output}
    unknown = set(output) - {"shape", "dtype", "pixel_format"}
    if unknown:
        raise PipelineError(
            f"function {name!r}: output has no {min(unknown)!r}: expected shape, dtype or pixel_format",
            stage=name,
        )
    if "pixel_format" in output:
        height, width = output.get("shape", (0, 0))[:2] if "shape" in output else (spec.height, spec.width)
        picture = FrameSpec.picture(height, width, output["pixel_format"])
        return spec.replace(
            shapes=picture.shapes, dtype=picture.dtype, pixel_format=picture.pixel_format, layout="NHWC"
        )
    try:
        dtype = np.dtype(output.get("dtype", spec.dtype))
    except TypeError as error:
        raise PipelineError(
            f"function {name!r}: output {output['dtype']!r} is neither a pixel format nor a dtype", stage=name
        ) from error
    return _like(spec, (tuple(output["shape"]),) if "shape" in output else spec.shapes, dtype)


# Small things ---------------------------------------------------------------------------------------------------------


def code_checksum(function: Function) -> int:
    """Return a number that changes when the code of `function` does, or a plain value it was made with."""
    code = getattr(function, "__code__", None)
    if code is None:
        return 1
    cells = [value for cell in function.__closure__ or () for value in _held_by(cell)]
    values = [*(function.__defaults__ or ()), *cells]
    plain = [repr(value) for value in values if isinstance(value, int | float | str | bool | None)]
    return zlib.crc32(f"{_code_text(code)} {plain}".encode())


def _held_by(cell: types.CellType) -> tuple[Any, ...]:
    """Return what a cell holds; nothing where the name gets its value later."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _code_text(code: types.CodeType) -> str:
    constants = [
        _code_text(c)
        if isinstance(c, types.CodeType)
        else repr(sorted(map(repr, c)) if isinstance(c, frozenset) else c)
        for c in code.co_consts
    ]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _imported(module: str, attribute: str) -> FunctionOperator:
    found: FunctionOperator = getattr(importlib.import_module(module), attribute)
    return found


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _copied(state: State) -> State:
    return {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in state.items()}


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return " and ".join(str(shape) for shape in shapes)


def _describe(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_describe(item) for item in value) + ")"
    if isinstance(value, np.ndarray):
        return f"an array {value.shape}"
    return "None" if value is None else f"a {type(value).__name__}"
