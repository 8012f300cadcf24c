"""Write docs/commands.md from the command line itself: usage, what a command does, its options.

python tools/commands.py           write the file
python tools/commands.py --check   fail when the file is not what would be written
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import typer

from hyperframes.cli._app import app

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/commands.md")

HEAD = """# Commands

<!-- Written by tools/commands.py from the command line itself: `make docs`. -->

Results go to standard output, all else to standard error. Exit codes: 0 done, 1 the run failed, 2 wrong usage,
130 interrupted.
"""


def page() -> str:
    """Return the text of docs/commands.md."""
    group: Any = typer.main.get_command(app)
    commands = [command for command in group.commands.values() if not command.hidden]
    index = [
        f"- [hyperframes {command.name}](#hyperframes-{command.name}): {_summary(command)}" for command in commands
    ]
    return "\n".join([HEAD, *index, *(section(command) for command in commands)]) + "\n"


def section(command: Any) -> str:
    """Return the part of the page about one command."""
    context = command.context_class(command, info_name=f"hyperframes {command.name}")
    usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
    lines = ["", f"## hyperframes {command.name}", "", f"    {usage}", "", _wrapped(command.help or "")]
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            panel = getattr(parameter, "rich_help_panel", None) or ""
            panels.setdefault(panel, []).append(f"| `{_cell(record[0])}` | {_cell(record[1])} |")
    for panel, rows in panels.items():
        lines += ["", f"| {panel} | |".replace("  ", " "), "| --- | --- |", *rows]
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    """Return paragraphs that fit a page; an example stays whole, to be copied."""
    parts = text.split("\n\n")
    return "\n\n".join(part if part.startswith("Example: ") else textwrap.fill(part, 120) for part in parts)


def _summary(command: Any) -> str:
    return (command.help or "").partition("\n")[0]


def _cell(text: str) -> str:
    return re.sub(r" <[^>]*>$", "", " ".join(text.split())).replace("|", "\\|")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check the page; return the exit code."""
    text = page()
    target = root / PAGE
    if "--check" not in arguments:
        target.write_text(text, encoding="utf-8")
    elif not target.exists() or target.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"error: {PAGE} is not what the command line says: make docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
