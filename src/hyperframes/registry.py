"""Names to factories: entry points of this and other distributions, plus what a program registers itself.

Built-ins use the same door as plugins: the groups ``hyperframes.operators``, ``hyperframes.sources``,
``hyperframes.sinks``, ``hyperframes.encoders`` (pictures and texts in one space) and ``hyperframes.generators``
(projections of tasks from their text). Nothing is imported before it is asked for.
"""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from hyperframes.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Registry", "encoders", "generators", "operators", "sinks", "sources"]


class Registry:
    """A table of factories by name.

    Examples
    --------
    >>> table = Registry("colour", group="hyperframes.none")
    >>> table.register("red", lambda: "#f00")
    >>> table.get("red")()
    '#f00'
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind, self.group = kind, group
        self._registered: dict[str, Any] = {}

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def register(self, name: str, factory: Any) -> None:
        """Add `factory` under `name` for this process; refuses a name that is taken.

        Raises
        ------
        ValueError
            If another factory has the name.
        """
        if self._registered.get(name, factory) is not factory or name in self._entry_points:
            raise ValueError(f"{self.kind} {name!r} is registered already")
        self._registered[name] = factory

    def get(self, name: str) -> Any:
        """Return the factory called `name`, importing it if need be.

        Raises
        ------
        RegistryError
            If no factory has the name; it lists the known names and the nearest.
        """
        if name in self._registered:
            return self._registered[name]
        if name in self._entry_points:
            return self._entry_points[name].load()
        raise RegistryError(self.kind, name, self)

    def origin(self, name: str) -> str:
        """Return name and version of the distribution that brings `name`; nothing where a program registered it."""
        point = None if name in self._registered else self._entry_points.get(name)
        return f"{point.dist.name} {point.dist.version}" if point is not None and point.dist is not None else ""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._registered, *self._entry_points}))

    def __contains__(self, name: object) -> bool:
        return name in self._registered or name in self._entry_points


operators = Registry("operator", "hyperframes.operators")
sources = Registry("source", "hyperframes.sources")
sinks = Registry("sink", "hyperframes.sinks")
networks = Registry("network", "hyperframes.networks")
"""Trained networks by kind: ``networks.get(kind)(path)`` is a function from arrays to arrays, whatever computes it."""
encoders = Registry("encoder", "hyperframes.encoders")
generators = Registry("task generator", "hyperframes.generators")
