"""``hyperframes operators``: what is registered, and what each takes."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Annotated, Any

import typer

from hyperframes.cli import _options, _show

__all__ = ["operators"]


def operators(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this one in full.")] = None,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """List the operators, or show one with its parameters, halo and documentation.

    Example: hyperframes operators denoise
    """
    from hyperframes import registry

    if name is not None:
        told = _described(name, registry.operators.get(name))
        print(json.dumps(told, indent=2, default=str)) if as_json else _print_one(told)
        return
    listed = [_found(known) for known in registry.operators]
    print(json.dumps(listed, indent=2, default=str)) if as_json else _print_list(listed)


def _found(name: str) -> dict[str, Any]:
    """Describe one of many; a plugin that cannot be loaded is listed with the reason, the others stay usable."""
    from hyperframes import registry

    try:
        return _described(name, registry.operators.get(name))
    except (ImportError, AttributeError) as error:
        return {"name": name, "help": f"cannot be loaded: {error}", "parameters": [], "broken": True}


def _described(name: str, factory: Any) -> dict[str, Any]:
    from hyperframes.operators import Operator
    from hyperframes.operators.create import parameters

    text = inspect.cleandoc(inspect.getdoc(factory) or "")
    found = parameters(factory) if isinstance(factory, type | Operator) else []
    return {
        "name": name,
        "help": text.split("\n", 1)[0],
        "parameters": [
            {
                "name": p.name,
                "type": p.type,
                "default": None if p.default is dataclasses.MISSING else p.default,
                "required": p.default is dataclasses.MISSING,
                "help": p.help,
            }
            for p in found
        ],
        "formats": list(getattr(factory, "formats", None) or []) or None,
        "version": getattr(factory, "version", 1),
        **_contract(factory, found),
        "documentation": text,
    }


def _contract(factory: Any, found: list[Any]) -> dict[str, Any]:
    """Return halo, dependency and outputs with default parameters, for the first kind of frames it accepts."""
    from hyperframes.errors import HyperframesError
    from hyperframes.frames import FrameSpec

    unknown = {"halo": None, "dependency": None, "resource": None, "outputs": None}
    if any(p.default is dataclasses.MISSING for p in found):
        return unknown
    try:
        operator = factory() if isinstance(factory, type) else factory
    except HyperframesError:  # one of several parameters is needed, as width or height
        return unknown
    formats = getattr(operator, "formats", None) or ("yuv420p", "rgb24", "gray")
    for pixel_format in formats:
        for ports in (1, 2):
            try:
                contract = operator.configure((FrameSpec.picture(144, 256, pixel_format),) * ports)
            except (HyperframesError, ValueError):
                continue
            return {
                "halo": {"before": contract.halo.before, "after": contract.halo.after},
                "dependency": contract.dependency,
                "resource": contract.resource,
                "outputs": [{"name": o.name, "kind": o.kind} for o in contract.outputs],
            }
    return unknown


def _print_list(listed: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for entry in listed:
        table.add_row(Text(entry["name"], "bold"), Text(entry["help"], "red" if entry.get("broken") else ""))
    console = _show.console()
    console.print(table)
    console.print("\nOne in full: hyperframes operators NAME")


def _print_one(told: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = _show.console()
    console.print(Text(told["name"], "bold"), Text(told["help"]), sep="  ")
    if told["parameters"]:
        table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
        for heading in ("parameter", "type", "default", ""):
            table.add_column(heading)
        for p in told["parameters"]:
            default = "needed" if p["required"] else _value(p["default"])
            table.add_row(*(Text(str(cell)) for cell in (p["name"], p["type"], default, p["help"])))
        console.print()
        console.print(table)
    console.print()
    for line in _facts(told):
        console.print(Text(line))
    body = told["documentation"].partition("\n")[2].strip()
    if body:
        console.print()
        console.print(Text(_reflowed(body)))


def _reflowed(text: str) -> str:
    """Return `text` with the lines of each paragraph joined, so that they wrap where the terminal does."""
    blocks = []
    for block in text.split("\n\n"):
        lines = block.split("\n")
        head = lines[:2] if len(lines) > 1 and set(lines[1]) == {"-"} else []
        rest = lines[len(head) :]
        if not any(line.startswith((" ", ">>>", "..", "|")) for line in rest):
            rest = [" ".join(rest)] if rest else []
        blocks.append("\n".join([*head, *rest]))
    return "\n\n".join(blocks)


def _value(value: Any) -> str:
    return "none" if value is None else "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _facts(told: dict[str, Any]) -> list[str]:
    facts = []
    if told["halo"] is not None:
        facts.append(
            f"halo {told['halo']['before']} + {told['halo']['after']} with default parameters, {told['dependency']}, "
            f"{told['resource']}-bound"
        )
        facts.append("gives " + ", ".join(f"{o['name']} ({o['kind']})" for o in told["outputs"]))
    if told["formats"]:
        facts.append(f"takes {', '.join(told['formats'])}; other pictures are converted")
    return facts
