"""The other scripts of tools/: what they count and write."""

import re
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

import hyperframes as hf
from hyperframes import registry
from hyperframes.cli._app import app
from hyperframes.cli._show import exit_code_of
from hyperframes.cli.operators import described
from hyperframes.operators import Contract, Operator, Output
from hyperframes.packing import Halo


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


@dataclass(frozen=True)
class Sharpen(Operator):
    """Sharpen pictures by `amount`.

    Keeps ``uint8``.

    Parameters
    ----------
    amount : float
        How much.

    Examples
    --------
    >>> Sharpen(2.0).amount
    2.0
    """

    name: ClassVar[str] = "sharpen"
    amount: float = 1.0
    """How much: ``0|1``."""

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),), Halo(1, 0))

    def apply(self, inputs, outputs, state, prepared):
        raise AssertionError("it is only described")


def test_an_operator_section_has_its_parameters_its_halo_and_its_docstring(tool):
    text = tool("operators").section(described("sharpen", Sharpen))
    assert (
        text
        == """
## sharpen

Sharpen pictures by `amount`.

| parameter | type | default | meaning |
| --- | --- | --- | --- |
| `amount` | float | `1.0` | How much: `0\\|1`. |

halo 1 + 0 with default parameters · dependency independent · outputs frames · resource compute

Keeps `uint8`.

### Examples

```pycon
>>> Sharpen(2.0).amount
2.0
```"""
    )


@pytest.mark.parametrize("name", sorted(registry.operators))
def test_the_page_and_the_command_line_say_the_same_of_an_operator(root, capsys, name):
    """Word for word, but for marks: what `hyperframes operators NAME` prints stands on the page, and the other way."""
    assert exit_code_of(app, ["operators", name]) == 0
    section = re.search(rf"(?ms)^## {name}\n(.*?)(?=^## |\Z)", (root / "docs/operators.md").read_text()).group(1)

    def words(text):
        return sorted(set(re.findall(r"\w+", re.sub(r"```(pycon)?|(?m:^\d\. )|\[\d+\]_?", " ", text))))

    assert set(words(capsys.readouterr().out)) - {name} == set(words(section)) - {name}


@pytest.mark.parametrize("name", ["operators", "commands", "api"])
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
        ("api", "error: docs/api.md is not what the package says: make docs"),
    ],
)
def test_a_page_that_is_not_current_fails_the_check(tool, tmp_path, capsys, name, message):
    (tmp_path / "docs").mkdir()
    module = tool(name)
    assert module.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err.strip() == message
    assert module.main([], tmp_path) == 0
    assert module.main(["--check"], tmp_path) == 0


def test_every_public_name_stands_on_a_page(root):
    page = (root / "docs/api.md").read_text()
    assert [name for name in hf.__all__ if not re.search(rf"(?m)^\| `{name}[`(]", page)] == []


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
