"""``hyperframes operators``: what is registered, and what each takes."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from typing import Annotated, Any

import typer

from hyperframes.cli import _options, _show

__all__ = ["body_of", "described", "facts_of", "operators", "value_text"]


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
        told = described(name, registry.operators.get(name))
        print(json.dumps(told, indent=2, default=str)) if as_json else _print_one(told)
        return
    listed = [_found(known) for known in registry.operators]
    print(json.dumps(listed, indent=2, default=str)) if as_json else _print_list(listed)


def _found(name: str) -> dict[str, Any]:
    """Describe one of many; a plugin that cannot be loaded is listed with the reason, the others stay usable."""
    from hyperframes import registry

    try:
        return described(name, registry.operators.get(name))
    except (ImportError, AttributeError) as error:
        return {"name": name, "help": f"cannot be loaded: {error}", "parameters": [], "broken": True}


def described(name: str, factory: Any) -> dict[str, Any]:
    """Return what there is to say about an operator, as ``--json`` prints it."""
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

    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("operator", no_wrap=True)
    table.add_column("halo", no_wrap=True, justify="right")
    table.add_column("what it does")
    for entry in listed:
        said = Text(_plain(entry["help"]), "red" if entry.get("broken") else "")
        table.add_row(Text(entry["name"], "bold"), _halo_text(entry.get("halo")), said)
    console = _show.console()
    console.print(table)
    console.print(
        "\nThe halo is what is read before + after with default parameters; - where some must be given first."
    )
    console.print("One in full: hyperframes operators NAME")


def _print_one(told: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = _show.console()
    console.print(Text(told["name"], "bold"), Text(_plain(told["help"])), sep="  ")
    if told["parameters"]:
        table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
        for heading in ("parameter", "type", "default", "meaning"):
            table.add_column(heading)
        for p in told["parameters"]:
            default = "needed" if p["required"] else value_text(p["default"])
            table.add_row(*(Text(str(cell)) for cell in (p["name"], p["type"], default, _plain(p["help"]))))
        console.print()
        console.print(table)
    facts = facts_of(told)
    console.print()
    console.print(Text(", ".join(f"{name} {value}" for name, value in facts.items())))
    for heading, text in _sections(body_of(told)):
        console.print()
        if heading:
            console.print(Text(heading, "bold"))
        console.print(Text(_reflowed(text)))


def facts_of(told: dict[str, Any]) -> dict[str, str]:
    """Return halo, dependency and outputs, and what else is worth a word, as text by name."""
    facts = {"halo": _halo_text(told["halo"]) + ("" if told["halo"] is None else " with default parameters")}
    if told["halo"] is None:
        facts["halo"] = "depends on its parameters"
    else:
        facts["dependency"] = told["dependency"]
        facts["outputs"] = " and ".join(
            o["name"] if o["name"] == o["kind"] else f"{o['name']} ({o['kind']})" for o in told["outputs"]
        )
        facts["resource"] = told["resource"]
    if told["formats"]:
        facts["takes"] = f"{', '.join(f.removeprefix('=') for f in told['formats'])} (other pictures are converted)"
    return facts


def body_of(told: dict[str, Any]) -> str:
    """Return the documentation below the first line, without the section that repeats the parameters."""
    body: str = told["documentation"].partition("\n")[2].strip("\n")
    return re.sub(r"(?ms)^Parameters\n-+\n.*?(?=^\S[^\n]*\n-+\n|\Z)", "", body).strip("\n")


def value_text(value: Any) -> str:
    """Return a parameter's value as it is typed."""
    if value is None:
        return "none"
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _halo_text(halo: dict[str, int] | None) -> str:
    return "-" if halo is None else f"{halo['before']} + {halo['after']}"


def _sections(body: str) -> list[tuple[str, str]]:
    """Return (heading, text) of every section; the first has no heading."""
    parts = re.split(r"(?m)^(\S[^\n]*)\n-{3,}\n", body)
    found = [("", parts[0].strip("\n")), *zip(parts[1::2], (text.strip("\n") for text in parts[2::2]), strict=True)]
    return [(heading, text) for heading, text in found if text]


def _plain(text: str) -> str:
    """Return `text` without the marks of reStructuredText."""
    text = re.sub(r"(?m)^\.\. \[(\d+)\] ", r"[\1] ", text)
    return re.sub(r"``?([^`]+)``?", r"\1", text.replace("]_", "]"))


def _reflowed(text: str) -> str:
    """Return `text` plain, the lines of each paragraph and list item joined, so that they wrap where the terminal does."""
    blocks = []
    for block in text.split("\n\n"):
        if block.lstrip().startswith(">>>"):
            blocks.append(block)
            continue
        items = re.sub(r"\n(?!- |\.\. \[)\s*", " ", block)
        blocks.append(_plain(items))
    return "\n\n".join(blocks)
