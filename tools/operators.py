"""Write docs/operators.md from the registry: a heading for every operator, its parameters and its docstring.

python tools/operators.py           write the file
python tools/operators.py --check   fail when the file is not what would be written
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from hyperframes import registry

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/operators.md")
OWN = "hyperframes."
"""Operators of other distributions are left out: the page is the same on every machine."""

HEAD = """# Operators

<!-- Written by tools/operators.py from the operators' docstrings: `make docs`. -->

Given as `NAME` or `NAME:key=value,key=value` to `--operator`, as a string or an object to `hf.run`. The halo is what an
operator reads on each side of the frames it owns. `hyperframes operators NAME` prints the same.
"""


def page() -> str:
    """Return the text of docs/operators.md."""
    operators = {name: registry.operators.get(name) for name in registry.operators}
    own = {name: cls for name, cls in operators.items() if cls.__module__.startswith(OWN)}
    index = [f"- [{name}](#{name}): {_summary(cls)}" for name, cls in own.items()]
    return "\n".join([HEAD, *index, *(section(name, cls) for name, cls in own.items())]) + "\n"


def section(name: str, cls: type) -> str:
    """Return the part of the page about one operator."""
    summary, _, rest = inspect.cleandoc(cls.__doc__ or "").partition("\n")
    lines = ["", f"## {name}", "", summary]
    fields = [field for field in dataclasses.fields(cls) if field.init]
    if fields:
        lines += ["", "| parameter | type | default |", "| --- | --- | --- |"]
        lines += [f"| `{field.name}` | {_type(field)} | {_default(field)} |" for field in fields]
    if rest.strip():
        lines += ["", _markdown(rest.strip("\n"))]
    return "\n".join(lines)


def _summary(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]


def _type(field: dataclasses.Field[Any]) -> str:
    name = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return name.replace("|", "or")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{field.default!r}`"
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()!r}`"
    return "required"


def _markdown(text: str) -> str:
    """Turn numpydoc sections into headings, double backticks into single ones, and examples into code blocks."""
    text = re.sub(r"(?m)^([A-Z][A-Za-z ]+)\n-{3,}$", r"### \1\n", text)
    text = text.replace("``", "`")
    text = re.sub(r"(?m)^\.\. \[(\d+)\] ", r"\1. ", text)
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        starts = line.startswith(">>>")
        if starts and not inside:
            out.append("```pycon")
        elif inside and not line.strip():
            out.append("```")
        inside = bool(line.strip()) and (starts or inside)
        out.append(line)
    return "\n".join([*out, "```"] if inside else out)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check the page; return the exit code."""
    text = page()
    target = root / PAGE
    if "--check" not in arguments:
        target.write_text(text, encoding="utf-8")
    elif not target.exists() or target.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"error: {PAGE} is not what the docstrings say: make docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
