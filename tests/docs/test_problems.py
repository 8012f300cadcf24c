"""The table of problems names only what there is."""

import re

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.console.metrics import Metrics, render


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


@pytest.mark.requirement("B81", "B77", "B78", "B80", "B99")
def test_what_it_names_of_a_live_runs_latency_is_told_by_one(root):
    page = (root / "docs/problems.md").read_text().partition("**Live latency**")[2]
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) >= 12
    live = hf.LiveRuntime(packing=hf.Packing(size=2), operator=lambda frames: frames.mean((1, 2)))
    with live:
        for number in range(4):
            live.feed("cam0", np.zeros((4, 6), np.uint8), frame_id=number)
    stats = live.stats()
    told = {*stats, *stats["latency_seconds"], *stats["streams"]["cam0"]}
    names = set(re.findall(r"`([a-z_]+)`", page))
    reasons = {"queue_full", "expired", "late", "unmatched", "arrival", "provisional", "clocks", "value", "size"}
    metrics = render(stats, Metrics())
    assert [name for name in names - told - reasons if name not in metrics] == []
