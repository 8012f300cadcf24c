"""Print lines of code per file, and the difference to main, so that growth is seen in review.

Lines are those with code on them: no blank lines, comments or docstrings.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "benchmarks", "examples", "tools")
_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Return how many lines of `source` hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def here(root: Path) -> dict[str, int]:
    """Return lines per file of the working tree."""
    files = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py")))
    return {path.relative_to(root).as_posix(): code_lines(path.read_text(encoding="utf-8")) for path in files}


def there(root: Path, branch: str) -> dict[str, int]:
    """Return lines per file of `branch`; empty where it does not exist."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    names = [n for n in git("ls-tree", "-r", "--name-only", branch, *FOLDERS).splitlines() if n.endswith(".py")]
    return {name: code_lines(git("show", f"{branch}:{name}")) for name in names}


def report(now: dict[str, int], before: dict[str, int]) -> str:
    """Return the table: folders in sum, files that differ one by one."""
    rows = [f"{'lines':>7} {'to main':>8}  file"]
    for name in sorted({*now, *before}):
        change = now.get(name, 0) - before.get(name, 0)
        rows.append(
            f"{now.get(name, 0):7} {change or '':>+8}  {name}" if change else f"{now.get(name, 0):7} {'':8}  {name}"
        )
    sums, old = Counter[str](), Counter[str]()
    for table, total in ((now, sums), (before, old)):
        for name, lines in table.items():
            total[name.partition("/")[0]] += lines
    rows += [f"{sums[folder]:7} {sums[folder] - old[folder]:>+8}  {folder}/ in all" for folder in FOLDERS]
    return "\n".join(rows)


if __name__ == "__main__":
    branch = sys.argv[1] if len(sys.argv) > 1 else "main"
    sys.stdout.write(report(here(ROOT), there(ROOT, branch)) + "\n")
