"""docs/formats.md names everything that can be read and written, and its configuration runs."""

import re

import pytest

from hyperframes import registry, sinks, sources
from hyperframes.cli._app import app
from hyperframes.cli._show import exit_code_of
from hyperframes.media.encode import CONTAINERS


@pytest.fixture
def page(root):
    return (root / "docs/formats.md").read_text(encoding="utf-8")


def part(page, heading):
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def kinds(text):
    return set(re.findall(r"\| `(\w+)` \|$", text, re.MULTILINE)) - {"NAME"}


def test_every_registered_source_and_sink_has_a_row(page):
    assert kinds(part(page, "Read")) == set(registry.sources)
    assert kinds(part(page, "Written")) == set(registry.sinks)


def test_every_suffix_that_is_read_or_written_is_named(page):
    read, written = part(page, "Read"), part(page, "Written")
    assert [suffix for suffix in sources._SUFFIXES if not re.search(rf"{re.escape(suffix)}\b", read)] == []
    suffixes = [*sinks._SUFFIXES, *sinks._IMAGE_SUFFIXES, *CONTAINERS]
    assert [suffix for suffix in suffixes if not re.search(rf"{re.escape(suffix)}\b", written)] == []


def test_the_sinks_that_the_suffixes_of_video_lead_to_can_write_them():
    assert set(sinks._VIDEO_SUFFIXES) == set(CONTAINERS)


@pytest.mark.parametrize(
    "name", ["-", "null:", "%06d.png", "--config", "--rate", "--codec", "--quality", "several sources"]
)
def test_the_page_tells_of(page, name):
    assert name.lower() in page.lower()


def test_the_configuration_on_the_page_plans_and_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    source = "synthetic:moving?frames=20&width=64&height=48"
    (tmp_path / "job.toml").write_text(toml.replace('"in.mp4"', f'"{source}"'))
    assert exit_code_of(app, ["run", "--config", "job.toml", "--size", "16", "--quiet"]) == 0, capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"job.toml", "clean.mp4", "motion.mp4", "measured.csv"}
    assert len((tmp_path / "measured.csv").read_text().splitlines()) == 21


def test_the_help_of_run_names_what_is_read_and_written(capsys):
    assert exit_code_of(app, ["run", "--help"]) == 0
    said = capsys.readouterr().out
    suffixes = {*CONTAINERS, ".npy", ".zarr", ".csv", ".tsv", ".parquet", ".jsonl", "y4m", "null:", "docs/formats.md"}
    assert [name for name in suffixes if name not in said] == []
