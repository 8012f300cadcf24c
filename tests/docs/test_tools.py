"""The other scripts of tools/: what they count and write."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from hyperframes import registry


def test_code_lines_leave_out_blanks_comments_and_docstrings(tool):
    source = '"""Module."""\n\n# a comment\nimport os\n\n\ndef f():\n    """One\n    more."""\n    return (\n        os\n    )\n'
    assert tool("size").code_lines(source) == 5


def test_size_prints_lines_per_file_and_the_difference_to_main(tool, tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/old.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "src/same.py").write_text("a = 1\n")
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / "src/old.py").unlink()
    (tmp_path / "src/new.py").write_text("a = 1\nb = 2\nc = 3\n")
    size = tool("size")
    assert [line.split() for line in size.report(size.here(tmp_path), size.there(tmp_path, "main")).splitlines()][
        :5
    ] == [
        ["lines", "to", "main", "file"],
        ["3", "+3", "src/new.py"],
        ["0", "-2", "src/old.py"],
        ["1", "src/same.py"],
        ["4", "+1", "src/", "in", "all"],
    ]


@dataclass
class Sharpen:
    """Sharpen pictures.

    Halo 0. Keeps ``uint8``.

    Parameters
    ----------
    amount : float
        How much.

    Examples
    --------
    >>> Sharpen(2.0).amount
    2.0
    """

    amount: float = 1.0


def test_an_operator_section_has_its_parameters_and_its_docstring(tool):
    text = tool("operators").section("sharpen", Sharpen)
    assert text.startswith("\n## sharpen\n\nSharpen pictures.\n\n| parameter | type | default |")
    assert "| `amount` | float | `1.0` |" in text
    assert "Halo 0. Keeps `uint8`." in text
    assert "### Parameters" in text
    assert text.endswith("```pycon\n>>> Sharpen(2.0).amount\n2.0\n```")


@pytest.mark.parametrize("name", ["operators", "commands"])
def test_a_page_made_from_code_is_current(root, name):
    done = subprocess.run(
        [sys.executable, f"tools/{name}.py", "--check"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("operators", "error: docs/operators.md is not what the docstrings say: make docs"),
        ("commands", "error: docs/commands.md is not what the command line says: make docs"),
    ],
)
def test_a_page_that_is_not_current_fails_the_check(tool, tmp_path, capsys, name, message):
    (tmp_path / "docs").mkdir()
    module = tool(name)
    assert module.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err.strip() == message
    assert module.main([], tmp_path) == 0
    assert module.main(["--check"], tmp_path) == 0


def test_every_command_has_a_heading_and_its_options(root):
    text = (root / "docs/commands.md").read_text()
    for command in ("run", "plan", "operators", "doctor", "demo"):
        assert f"\n## hyperframes {command}\n" in text
    for option in ("--operator", "--size", "--boundary", "--max-memory", "--check", "--report"):
        assert option in text


def test_every_registered_operator_has_a_heading(root):
    headings = {
        line.removeprefix("## ")
        for line in (root / "docs/operators.md").read_text().splitlines()
        if line.startswith("## ")
    }
    assert set(registry.operators) <= headings
