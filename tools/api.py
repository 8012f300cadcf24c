"""Write docs/api.md from the package itself: every public name with its signature and what it is in a sentence.

python tools/api.py           write the file
python tools/api.py --check   fail when the file is not what would be written
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import hyperframes as hf

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/api.md")

HEAD = """# Names in Python

<!-- Written by tools/api.py from the package itself: `make docs`. -->

Every name of `import hyperframes as hf`, by the part that it is from. `help(hf.NAME)` says the rest: parameters, shapes, errors,
examples. How they are used: [in Python](python.md). What is not here may change; its own parts are imported from their packages
(`hyperframes.neural`, `hyperframes.operators`, `hyperframes.testing`, ...).
"""
PARTS = {
    "drivers": "Run",
    "sources": "Read",
    "sinks": "Write",
    "frames": "What flows",
    "packing": "Pack",
    "operators": "Operators",
    "pipeline": "Pipelines",
    "semantic": "Describe",
    "index": "Search",
    "errors": "Errors",
}


def page() -> str:
    """Return the text of docs/api.md."""
    lines = [HEAD.rstrip()]
    for part, heading in PARTS.items():
        names = [name for name in hf.__all__ if _part(name) == part]
        lines += ["", f"## {heading}", "", "| `hf.` | what it is |", "| --- | --- |", *map(_row, names)]
    return "\n".join(lines) + "\n"


def _part(name: str) -> str:
    module: str = getattr(hf, name).__module__
    return module.split(".")[1]


def _row(name: str) -> str:
    what = getattr(hf, name)
    told = " ".join((inspect.getdoc(what) or "").partition("\n\n")[0].split())
    return f"| `{name}{_parameters(what)}` | {told.replace('``', '`')} |".replace("\\", "\\\\")


def _parameters(what: Any) -> str:
    """Return what a function is called with; classes that are made from much are left to help()."""
    if inspect.isclass(what):
        return ""
    shown = []
    for parameter in inspect.signature(what).parameters.values():
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        if parameter.kind == parameter.KEYWORD_ONLY and not any(one.startswith("*") for one in shown):
            shown.append("*")
        shown.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(shown)})".replace("|", "\\|")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check the page; return the exit code."""
    text, target = page(), root / PAGE
    if "--check" not in arguments:
        target.write_text(text, encoding="utf-8")
    elif not target.exists() or target.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"error: {PAGE} is not what the package says: make docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
