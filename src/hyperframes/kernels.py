"""How loops over samples are compiled. The one place that says so; importing it loads numba, so only kernels do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar, overload

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["kernel"]

_F = TypeVar("_F", bound="Callable[..., Any]")
_CACHED = os.environ.get("HYPERFRAMES_KERNEL_CACHE", "1") != "0"
_CHECKED = os.environ.get("HYPERFRAMES_KERNEL_CHECKS", "0") != "0"


@overload
def kernel(function: _F) -> _F: ...
@overload
def kernel(function: None = None, **options: Any) -> Callable[[_F], _F]: ...
def kernel(function: Any = None, **options: Any) -> Any:
    """Compile a function on its first call, to run without the interpreter's lock, in one thread and exactly as written.

    What is compiled is kept on disk for the next process, unless ``HYPERFRAMES_KERNEL_CACHE=0`` is set (A76). With
    ``HYPERFRAMES_KERNEL_CHECKS=1`` every index is checked and a wrong one raises IndexError, where it would read or write
    memory of something else (A77); that is slow and never kept, since numba's cache does not tell the two apart.

    Parameters
    ----------
    function : callable, optional
        Python that numba understands. Left out where options are given: ``@kernel(inline="always")``.
    **options
        More of `numba.njit`'s.

    Returns
    -------
    callable
        The compiled function, or what compiles it.
    """
    compiled = njit(nogil=True, cache=_CACHED and not _CHECKED, boundscheck=_CHECKED, **options)
    return compiled if function is None else compiled(function)
