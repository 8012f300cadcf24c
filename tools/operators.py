"""Write docs/operators.md from the registry: a heading for every operator, its parameters and its docstring.

python tools/operators.py           write the file
python tools/operators.py --check   fail when the file is not what would be written
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from hyperframes import registry
from hyperframes.cli.operators import body_of, described, facts_of, value_text

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/operators.md")
OWN = "hyperframes."
"""Operators of other distributions are left out: the page is the same on every machine."""

HEAD = """# Operators

<!-- Written by tools/operators.py from the operators' docstrings: `make docs`. -->

Given as `NAME` or `NAME:key=value,key=value` to `--operator`, as a string or an object to `hf.run`. The halo is what an
operator reads before + after the frames it owns. `hyperframes operators NAME` prints the same.
"""


def page() -> str:
    """Return the text of docs/operators.md."""
    operators = {name: registry.operators.get(name) for name in registry.operators}
    own = {name: described(name, cls) for name, cls in operators.items() if cls.__module__.startswith(OWN)}
    index = [f"- [{name}](#{name}): {_markdown(told['help'])}" for name, told in own.items()]
    return "\n".join([HEAD, *index, *(section(told) for told in own.values())]) + "\n"


def section(told: dict[str, Any]) -> str:
    """Return the part of the page about one operator, of which `told` is what the command line knows."""
    lines = ["", f"## {told['name']}", "", _markdown(told["help"])]
    if told["parameters"]:
        lines += ["", "| parameter | type | default | meaning |", "| --- | --- | --- | --- |"]
        lines += [_row(parameter) for parameter in told["parameters"]]
    facts = [f"{name} {_cell(value)}" for name, value in facts_of(told).items()]
    lines += ["", " · ".join(facts)]
    if body := body_of(told):
        lines += ["", _markdown(body)]
    return "\n".join(lines)


def _row(parameter: dict[str, Any]) -> str:
    default = "needed" if parameter["required"] else f"`{value_text(parameter['default'])}`".replace("``", "")
    return f"| `{parameter['name']}` | {_cell(parameter['type'])} | {default} | {_cell(_markdown(parameter['help']))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


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
