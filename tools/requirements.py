"""Write docs/requirements.md: for every requirement, where it lives and which test shows it, or which issue will.

Nothing is imported. A test names what it shows with ``@pytest.mark.requirement("A40")``; code names what it follows
by writing the number in a docstring or a comment. Numbers, titles and issues are in docs/requirements.toml.

    python tools/requirements.py           write the file
    python tools/requirements.py --check   fail when the file is not what would be written, or a marker names no row
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("docs/requirements.toml")
PAGE = Path("docs/requirements.md")
NUMBER = re.compile(r"(?<![\w.-])([ABCDWX][1-9]\d{0,2})(?![\w-])")
SETTINGS = ("pyproject.toml", "Makefile")
"""Files beside the code whose comments may name rows."""
SHOWN = 3
"""Places and tests listed for a row; the rest is counted."""

PART = {
    "A": "Offline hyperframes",
    "B": "Live packing",
    "C": "Semantic record",
    "D": "Tensors and learned operators",
    "W": "Worked derivations",
    "X": "Conflicts between the sources",
}


INTRODUCTION = (
    "What Hyperframes has to do, row by row: the requirements of its makers, taken from the four documents that describe the",
    "product. **A** is offline work on hyperframes, **B** live packing, **C** the semantic record, **D** tensors and learned",
    "operators. **W** are derivations worked out from them (the arithmetic of halos, latency, matching), which win over the",
    "rows that they correct; **X** are places where the documents contradict each other, and how each was settled. Rows are",
    "named in code comments, tests and decisions, so that one can find why something is as it is.",
)


@dataclass(frozen=True)
class Rows:
    """What docs/requirements.toml holds."""

    titles: dict[str, str]
    """By number, in order."""
    issues: dict[str, list[int]]
    """Which issues build a row."""
    issue_titles: dict[int, str]
    context: frozenset[str]
    """Rows that state background."""


def expand(text: str) -> Iterator[str]:
    """Yield the numbers that ``A1-A3 W1`` stands for."""
    for word in text.split():
        first, _, last = word.partition("-")
        for n in range(int(first[1:]), int(last[1:] if last else first[1:]) + 1):
            yield f"{first[0]}{n}"


def read_rows(root: Path) -> Rows:
    """Read the table of rows."""
    data = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))
    issues: dict[str, list[int]] = defaultdict(list)
    for key, issue in data["issues"].items():
        for number in expand(issue["rows"]):
            issues[number].append(int(key))
    titles = {int(key): issue["title"] for key, issue in data["issues"].items()}
    return Rows(data["rows"], issues, titles, frozenset(expand(data["context"])))


def markers(source: str) -> Iterator[tuple[str, str]]:
    """Yield (test name, number) for every requirement marker on a test, its class or its module."""
    tree = ast.parse(source)
    module: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "pytestmark" for t in node.targets):
            module += _numbers([node.value])
    yield from _marked(tree.body, module, "")


def _marked(body: list[ast.stmt], outer: list[str], prefix: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test_"):
                for number in [*outer, *_numbers(node.decorator_list)]:
                    yield prefix + node.name, number
        elif isinstance(node, ast.ClassDef):
            own = [*outer, *_numbers(node.decorator_list)]
            if node.name.endswith("Machine"):  # hypothesis: `TestX = Machine.TestCase` is the test
                for number in own:
                    yield prefix + node.name, number
            yield from _marked(node.body, own, f"{prefix}{node.name}.")


def _numbers(expressions: list[ast.expr]) -> list[str]:
    found = []
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "requirement":
                found += [str(getattr(argument, "value", ast.unparse(argument))) for argument in node.args]
    return found


def prose(source: str) -> Iterator[str]:
    """Yield the docstrings and comments of a Python file."""
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        starts = previous in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT}
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and starts):
            yield token.string
        if token.type != tokenize.ENCODING:
            previous = token.type


def references(root: Path, known: dict[str, str]) -> dict[str, list[str]]:
    """Return which files name which rows."""
    found: dict[str, list[str]] = defaultdict(list)
    sources = ((path, path.read_text(encoding="utf-8")) for path in sorted((root / "src").rglob("*.py")))
    files = [(path, prose(source)) for path, source in sources if NUMBER.search(source)]
    for name in SETTINGS:
        path = root / name
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            files.append((path, iter([line.partition("# ")[2] for line in lines])))
    for path, texts in files:
        numbers = {n for text in texts for n in NUMBER.findall(text) if n in known}
        for number in numbers:
            found[number].append(path.relative_to(root).as_posix())
    return found


def tests(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Return which tests, as (file, name), show which rows."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for folder in ("tests", "benchmarks"):
        for path in sorted((root / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            for name, number in markers(source) if ".requirement(" in source else ():
                found[number].append((path.relative_to(root).as_posix(), name))
    return found


def unknown(rows: Rows, shown: dict[str, list[tuple[str, str]]]) -> list[str]:
    """Return one sentence for every marker that names no row."""
    return [
        f"{file}::{name} is marked with requirement {number!r}: docs/requirements.toml has no such row"
        for number, where in shown.items()
        if number not in rows.titles
        for file, name in where
    ]


def page(rows: Rows, found: dict[str, list[str]], shown: dict[str, list[tuple[str, str]]]) -> str:
    """Return the text of docs/requirements.md."""
    by_hand = {n for n in rows.context if n not in shown}
    built = [n for n in rows.titles if n in shown]
    lines = [
        "# Requirements",
        "",
        "<!-- Written by tools/requirements.py from markers on tests and references in code: `make requirements`. -->",
        "",
        *INTRODUCTION,
        "",
        f"{len(rows.titles)} rows: {len(built)} shown by tests, {len(by_hand)} context.",
        "A row with neither test nor context names the issue that builds it.",
        "",
    ]
    lines += [f"- issue {n}: {title}" for n, title in rows.issue_titles.items()]
    for letter, part in PART.items():
        lines += [
            "",
            f"## {letter}: {part}",
            "",
            "| row | what | where it lives | shown by |",
            "| --- | --- | --- | --- |",
        ]
        for number, title in rows.titles.items():
            if number[0] == letter and number not in by_hand:
                lines.append(f"| {number} | {title} | {_places(found[number])} | {_shown(number, rows, shown)} |")
    lines += [
        "",
        "## Context",
        "",
        "Headlines, anecdotes and background of the sources; nothing is built for them alone.",
        "",
    ]
    lines += [f"- {number}: {title}" for number, title in rows.titles.items() if number in by_hand]
    return "\n".join(lines) + "\n"


def _places(files: list[str]) -> str:
    return _short([f"[{_name(file)}](../{file})" for file in files])


def _name(file: str) -> str:
    return file.removeprefix("src/hyperframes/")


def _shown(number: str, rows: Rows, shown: dict[str, list[tuple[str, str]]]) -> str:
    if number in shown:
        return _short([f"[{name}](../{file})" for file, name in dict.fromkeys(shown[number])])
    return ", ".join(f"issue {n}" for n in rows.issues[number])


def _short(items: list[str]) -> str:
    rest = len(items) - SHOWN
    return "<br>".join(items[:SHOWN]) + (f"<br>and {rest} more" if rest > 0 else "")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check the page; return the exit code."""
    rows = read_rows(root)
    shown = tests(root)
    wrong = unknown(rows, shown)
    text = page(rows, references(root, rows.titles), shown)
    target = root / PAGE
    if "--check" in arguments:
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            wrong.append(f"{PAGE} is not what the tests and the code say: make requirements")
    else:
        target.write_text(text, encoding="utf-8")
    for sentence in wrong:
        sys.stderr.write(f"error: {sentence}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
