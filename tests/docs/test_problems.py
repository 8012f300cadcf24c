"""The table of problems names only what there is."""

import re

import pytest


@pytest.mark.requirement("A84")
def test_every_option_command_and_switch_it_names_exists(root):
    page, commands = (root / "docs/problems.md").read_text(), (root / "docs/commands.md").read_text()
    known = set(re.findall(r"--[a-z-]+", commands))
    assert set(re.findall(r"--[a-z-]+", page)) - known == set()
    for command in set(re.findall(r"`hyperframes ([a-z]+)", page)):
        assert f"hyperframes {command}" in commands, command
    source = "\n".join(path.read_text() for path in (root / "src").rglob("*.py"))
    assert [name for name in set(re.findall(r"HYPERFRAMES_[A-Z_]+", page)) if name not in source] == []


@pytest.mark.requirement("A84")
def test_every_line_of_it_says_what_to_do(root):
    rows = [line for line in (root / "docs/problems.md").read_text().splitlines() if line.startswith("|")][2:]
    for row in rows:
        see, look, cause = (cell.strip() for cell in row.strip("|").split("|"))
        assert see.startswith("**") or ((look or see) and cause), row
    assert len(rows) > 15
