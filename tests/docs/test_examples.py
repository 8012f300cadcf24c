"""Examples and the code on pages run as they are printed, and print what they say."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCKS = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)
PAGES = ("README.md", "docs/python.md")
PRINTED = [
    pytest.param(*match.groups(), id=f"{page}-{number}")
    for page in PAGES
    for number, match in enumerate(BLOCKS.finditer((ROOT / page).read_text(encoding="utf-8")))
]


def run(code_or_path, folder):
    arguments = ["-c", code_or_path] if isinstance(code_or_path, str) else [str(code_or_path)]
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def matches(wanted, got):
    return doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_stands_beside_it(path, tmp_path):
    wanted = path.with_suffix(".out").read_text(encoding="utf-8")
    got = run(path, tmp_path)
    assert matches(wanted, got), f"expected:\n{wanted}\ngot:\n{got}"


@pytest.mark.slow
@pytest.mark.parametrize(("code", "wanted"), PRINTED)
def test_a_block_on_a_page_runs_and_prints_what_it_says(code, wanted, tmp_path):
    got = run(code, tmp_path)
    assert matches(wanted or "", got), f"expected:\n{wanted}\ngot:\n{got}"


def test_the_readme_begins_with_an_example_and_the_two_commands():
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:45])
    assert len(PRINTED) > 6
    for part in ("```python", "```text", "make demo", "make test", "flow.svg"):
        assert part in first_screen, part
