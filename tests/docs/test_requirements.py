"""docs/requirements.md says what markers and code say, and no marker names a row that does not exist."""

import pytest

PYTHON = """
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("A1")]


@pytest.mark.requirement("A40", "W1")
def test_ranges_meet():
    pass


class TestPacker:
    @pytest.mark.parametrize("n", [1])
    @pytest.mark.requirement("A41")
    def test_padding(self, n):
        pass


def helper():
    pass
"""


def test_the_page_is_current(tool, capsys):
    assert tool("requirements").main(["--check"]) == 0, capsys.readouterr().err


def test_no_marker_names_an_unknown_row(tool, root):
    requirements = tool("requirements")
    assert requirements.unknown(requirements.read_rows(root), requirements.tests(root)) == []


def test_every_row_has_a_title_and_is_built_by_an_issue_or_is_context(tool, root):
    rows = tool("requirements").read_rows(root)
    last = {"A": 112, "B": 102, "C": 127, "D": 151, "W": 16, "X": 28}
    assert list(rows.titles) == [f"{letter}{n}" for letter, count in last.items() for n in range(1, count + 1)]
    assert [n for n in rows.titles if n not in rows.issues and n not in rows.context] == []
    assert set(rows.issues) | rows.context <= set(rows.titles)


def test_markers_are_read_from_functions_classes_and_modules(tool):
    assert sorted(tool("requirements").markers(PYTHON)) == [
        ("TestPacker.test_padding", "A1"),
        ("TestPacker.test_padding", "A41"),
        ("test_ranges_meet", "A1"),
        ("test_ranges_meet", "A40"),
        ("test_ranges_meet", "W1"),
    ]


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ('"""Cores partition the stream (W1, A40)."""', {"W1", "A40"}),
        ("x = 1  # A43: neighbours share", {"A43"}),
        ('def f():\n    """One line, A8."""\n', {"A8"}),
        ('x = "A9 in data is no reference"', set()),
        ('"""EPYC-A4, B8G8 and utf-A16 are no rows."""', set()),
    ],
)
def test_references_are_read_from_docstrings_and_comments_only(tool, source, numbers):
    requirements = tool("requirements")
    assert {n for text in requirements.prose(source) for n in requirements.NUMBER.findall(text)} == numbers


@pytest.fixture
def repository(tmp_path):
    """A repository of three rows, one test and one module."""
    for folder in ("docs", "tests", "src"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs/requirements.toml").write_text(
        'context = "A3"\n[issues]\n1 = { title = "First", rows = "A1-A2" }\n'
        '[rows]\nA1 = "one"\nA2 = "two"\nA3 = "three"\n'
    )
    (tmp_path / "src/code.py").write_text('"""Does what A2 asks."""\n')
    (tmp_path / "tests/test_one.py").write_text('@pytest.mark.requirement("A1")\ndef test_one(): ...\n')
    return tmp_path


def test_a_row_lists_its_test_or_its_issue_and_context_comes_last(tool, repository):
    requirements = tool("requirements")
    assert requirements.main([], repository) == 0
    text = (repository / "docs/requirements.md").read_text()
    assert "| A1 | one |  | [test_one](../tests/test_one.py) |" in text
    assert "| A2 | two | [src/code.py](../src/code.py) | issue 1 |" in text
    assert text.endswith("- A3: three\n")
    assert requirements.main(["--check"], repository) == 0


def test_a_page_that_is_not_current_fails_the_check(tool, repository, capsys):
    assert tool("requirements").main(["--check"], repository) == 1
    assert "docs/requirements.md is not what the tests and the code say: make requirements" in capsys.readouterr().err


def test_a_marker_without_a_row_is_named(tool, repository, capsys):
    (repository / "tests/test_two.py").write_text('@pytest.mark.requirement("A99")\ndef test_two(): ...\n')
    assert tool("requirements").main([], repository) == 1
    assert (
        "tests/test_two.py::test_two is marked with requirement 'A99': docs/requirements.toml has no such row"
        in capsys.readouterr().err
    )
