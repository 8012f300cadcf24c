"""A live run written down in TOML: read, checked, and refused with the line that is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hyperframes.drivers.pushed import check_stream
from hyperframes.drivers.quantity import seconds_of
from hyperframes.errors import PipelineError, RegistryError
from hyperframes.operators.create import create
from hyperframes.packing import Boundary, Packing
from hyperframes.packing.assemble import LONGEST_SECONDS
from hyperframes.scheduling.budget import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LiveConfig", "check_keep", "check_run", "preset_packing", "read_live_config", "seconds_from"]

_TIMES = {"timeout", "window", "latency", "tolerance", "lateness", "ttl", "duration", "keep"}
_RUN = {
    "queue": int,
    "when_full": str,
    "ttl": float,
    "on_gap": str,
    "workers": int,
    "join": int,
    "pace": str,
    "preset": str,
    "duration": float,
    "boundary": str,
    "pixel_format": str,
}
_OUTPUT = {"journal": str, "record": str, "keep": float, "to": list, "serve": str, "model": str, "cluster": str}
_CHOICES = {
    "when_full": ("drop_oldest", "drop_newest", "block", "degrade"),
    "on_gap": ("reset", "keep"),
    "pace": ("real", "flat"),
}
_SOURCE = {"url": str, "priority": int, "pace": str, "rate": float, "transport": str}


@dataclass(slots=True)
class LiveConfig:
    """What a live run is made of."""

    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name: ``url`` and options of that source."""
    packing: dict[str, Any] = field(default_factory=dict)
    """Fields of `Packing`."""
    operators: list[str] = field(default_factory=list)
    run: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] = field(default_factory=dict)

    def make_packing(self) -> Packing:
        """Return the packing; a preset gives size and timeout where they are not said."""
        given = dict(self.packing)
        if preset := self.run.get("preset"):
            given = {**preset_packing(preset), **given}
        return Packing(**given)


def preset_packing(name: str) -> dict[str, Any]:
    """Return size and timeout of a preset (B44), or raise a PipelineError that lists them."""
    if name not in PRESETS:
        raise PipelineError(
            f"preset: expected one of {', '.join(PRESETS)}, got {name!r}", expected=list(PRESETS), got=name
        )
    size, timeout = PRESETS[name]
    return {"size": size, "timeout": timeout}


def check_run(**given: Any) -> None:
    """Raise a PipelineError where an option of a live run has a value that it does not take.

    Parameters
    ----------
    **given
        By name: ``when_full``, ``on_gap``, ``pace``, ``queue``, ``workers``, ``join``, ``ttl``, ``boundary``; others are
        passed over.
    """
    for name, known in _CHOICES.items():
        if name in given and given[name] not in known:
            got = given[name]
            raise PipelineError(f"{name}: expected one of {', '.join(known)}, got {got!r}", expected=known, got=got)
    for name in ("queue", "workers", "join"):
        value = given.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise PipelineError(f"{name}: expected at least 1, got {value!r}", got=value)
    ttl = given.get("ttl")
    if ttl is not None and not (isinstance(ttl, int | float) and 0 < ttl <= LONGEST_SECONDS):
        raise PipelineError(f"ttl: expected more than 0 seconds, got {ttl!r}", got=ttl)
    if "boundary" in given:
        try:
            Boundary.parse(given["boundary"])
        except PipelineError as error:
            raise PipelineError(f"boundary: {error}", got=error.got, hint=error.hint) from error


def check_keep(seconds: float | None) -> None:
    """Raise a PipelineError where a time that journal and recording are kept is none."""
    if seconds is not None and not 0 < seconds <= LONGEST_SECONDS:
        raise PipelineError(f"keep: expected more than 0 seconds, got {seconds!r}", got=seconds, hint="For example 7d.")


def seconds_from(value: Any) -> float:
    """Return seconds from a number or from text such as ``200ms``.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(value, bool):
        raise ValueError("a time such as '200ms'")
    if isinstance(value, int | float):
        seconds = float(min(value, 10 * LONGEST_SECONDS))  # whole numbers in TOML have no end
    elif isinstance(value, str):
        seconds = seconds_of(value)
    else:
        raise ValueError("a time such as '200ms' or '1.5s'")
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError(f"a time from 0 to {LONGEST_SECONDS:g} seconds")
    return seconds


def read_live_config(text: str, name: str = "the configuration") -> LiveConfig:
    """Return what a TOML text says of a live run.

    Tables: ``[sources]`` (name = URL, or a table with ``url``, ``priority``, ``pace``, ``rate``), ``[packing]`` (fields of
    `Packing`), ``[[stages]]`` (``operator``), ``[run]`` (``queue``, ``when_full``, ``ttl``, ``workers``, ``preset``, ...) and
    ``[output]`` (``journal``, ``record``, ``keep``, ``to``, ``serve``, ``model``, ``cluster``). Times are seconds or text such as ``200ms``.

    Raises
    ------
    PipelineError
        Naming file and line.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{name} is not TOML: {error}") from error
    reader = _Reader(text, name)
    reader.check_keys("", tables, {"sources", "packing", "stages", "run", "output"})
    config = LiveConfig()
    for source, value in reader.table(tables, "sources").items():
        config.sources[source] = reader.source(source, value)
    fields = {f.name: _kind_of(f) for f in dataclasses.fields(Packing)}
    config.packing = reader.values("packing", reader.table(tables, "packing"), fields)
    config.run = reader.values("run", reader.table(tables, "run"), _RUN)
    config.output = reader.values("output", reader.table(tables, "output"), _OUTPUT)
    config.operators = reader.stages(tables.get("stages", []))
    reader.told("packing", config.make_packing)
    reader.told("run", lambda: check_run(**config.run))
    reader.told("output", lambda: check_keep(config.output.get("keep")))
    return config


def _kind_of(packing_field: Any) -> type:
    if packing_field.name in _TIMES:
        return float
    return {"size": int, "pad": bool}.get(packing_field.name, str)


class _Reader:
    """Checks tables, and knows on which line their keys stand."""

    def __init__(self, text: str, name: str) -> None:
        self._lines, self._name = text.splitlines(), name

    def error(self, table: str, key: str, message: str, hint: str | None = None, nth: int = 0) -> PipelineError:
        line = self._line(table, key, nth) or self._line(*table.rpartition(".")[::2])  # a table inside braces
        where = f"{self._name}, line {line}" if line else self._name
        return PipelineError(f"{where}: {message}", stage=f"{table}.{key}" if key else table, hint=hint)

    def _line(self, table: str, key: str, nth: int = 0) -> int | None:
        """Return the line on which `key` of `table`, the `nth` of that name, stands, else that of the table's head."""
        current, found, heads = "", None, -1 if table else 0
        for number, line in enumerate(self._lines, 1):
            head = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
            if head:
                current = head[1].replace('"', "").replace("'", "")
                heads += current == table
                found = number if current in {table, f"{table}.{key}"} and heads <= nth else found
                if current == f"{table}.{key}":
                    return number
            stands = re.match(r"""\s*["']?([\w.-]+)["']?\s*=""", line)
            if stands and stands[1] == key and current == table and heads == nth:
                return number
        return found

    def check_keys(self, table: str, values: Mapping[str, Any], known: set[str]) -> None:
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                what = f"[{table}] has no {key!r}" if table else f"there is no table [{key}]"
                raise self.error(
                    table or key,
                    key if table else "",
                    f"{what}; known: {', '.join(sorted(known))}",
                    f"Did you mean {near[0]!r}?" if near else None,
                )

    def table(self, tables: Mapping[str, Any], name: str) -> dict[str, Any]:
        found = tables.get(name, {})
        if not isinstance(found, dict):
            raise self.error(name, "", f"[{name}] is a table: got {found!r}")
        return found

    def values(self, table: str, given: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
        self.check_keys(table, given, set(kinds))
        return {key: self._value(table, key, value, kinds[key]) for key, value in given.items()}

    def _value(self, table: str, key: str, value: Any, kind: type) -> Any:
        if key in _TIMES:
            try:
                return seconds_from(value)
            except ValueError as error:
                raise self.error(table, key, f"{key}: expected {error}, got {value!r}") from error
        if kind is list:
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
                raise self.error(table, key, f"{key}: expected text or a list of texts, got {value!r}")
            return value
        fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
            raise self.error(table, key, f"{key}: expected {words[kind]}, got {value!r}")
        return value

    def source(self, name: str, value: Any) -> dict[str, Any]:
        try:
            check_stream(name)
        except PipelineError as error:
            raise self.error("sources", name, str(error)) from error
        if isinstance(value, str):
            return {"url": value}
        if not isinstance(value, dict):
            raise self.error("sources", name, f"source {name!r} is a URL or a table with one: got {value!r}")
        given = self.values(f"sources.{name}", value, _SOURCE)
        if "url" not in given:
            raise self.error("sources", name, f"source {name!r} needs a url")
        return given

    def stages(self, given: Any) -> list[str]:
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            hint = 'For example [[stages]], and below it: operator = "temporal_mean:radius=2"'
            raise self.error("stages", "", f"[[stages]] is a list of tables: got {given!r}", hint)
        found = []
        for number, entry in enumerate(given):
            self.check_keys("stages", entry, {"operator"})
            if not isinstance(entry.get("operator"), str):
                raise self.error(
                    "stages",
                    "",
                    "a stage needs an operator",
                    'For example: operator = "temporal_mean:radius=2"',
                    number,
                )
            try:
                create(entry["operator"])
            except (PipelineError, RegistryError) as error:
                raise self.error("stages", "operator", str(error), error.hint, number) from error
            found.append(entry["operator"])
        return found

    def told(self, table: str, make: Callable[[], Any]) -> Any:
        """Return what `make` makes; an error of its gets the line of the key it names."""
        try:
            return make()
        except PipelineError as error:
            named = re.match(r"(?:packing\.)?(\w+)", str(error))
            key = named[1] if named else ""
            raise self.error("run" if key == "preset" else table, key, str(error), error.hint) from error
