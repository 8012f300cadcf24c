"""What is written about the repository is true: folders, targets, links, example code, notices."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"]


def pages(root):
    return [*(root / name for name in PAGES), *sorted((root / "docs").rglob("*.md"))]


def tracked(root):
    done = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a clone: files are listed by git")
    return [Path(name) for name in done.stdout.splitlines()]


def test_architecture_names_every_folder(root):
    text = (root / "ARCHITECTURE.md").read_text()
    package = root / "src/hyperframes"
    folders = [path.name for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"]
    files = [path.name for path in package.glob("*.py")]
    top = {path.parts[0] for path in tracked(root) if len(path.parts) > 1}
    missing = [name for name in folders if f"{name}/" not in text]
    missing += [name for name in files if name not in text]
    missing += [name for name in top if f"{name}/" not in text]
    assert missing == []


def test_every_make_target_is_documented(root):
    makefile = (root / "Makefile").read_text()
    targets = set(re.findall(r"(?m)^([a-z-]+):(?!=)", makefile))
    described = set(re.findall(r"(?m)^([a-z-]+):.*  ## \S", makefile))
    assert targets - described == {"debian"}  # part of others, never called by people
    contributing = (root / "CONTRIBUTING.md").read_text()
    assert [target for target in described if f"make {target}" not in contributing] == []


def test_make_help_lists_every_described_target(root):
    done = subprocess.run(["make", "-s", "help"], cwd=root, capture_output=True, text=True, check=True)
    described = set(re.findall(r"(?m)^([a-z-]+):.*  ## \S", (root / "Makefile").read_text()))
    assert {line.split()[0] for line in done.stdout.splitlines()} == described


def test_nothing_that_was_built_or_downloaded_is_tracked(root):
    assert [name for name in tracked(root) if name.suffix in {".whl", ".gz", ".zip", ".so", ".pyc", ".npy"}] == []


def test_every_row_of_a_table_stands_under_its_head(root):
    stray = []
    for page in pages(root):
        lines = ["", *re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL).splitlines(), ""]
        stray += [
            f"{page.relative_to(root)}: {line}"
            for before, line, after in zip(lines, lines[1:], lines[2:], strict=False)
            if line.startswith("| ") and not before.startswith("|") and not after.startswith("| -")
        ]
    assert stray == []


def test_links_lead_somewhere(root):
    broken = []
    for page in pages(root):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)|src=\"([^\"]+)\"", text):
            link = target[0] or target[1]
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.relative_to(root)}: {link}")
    assert broken == []


def test_contributing_fits_on_two_screens(root):
    assert len((root / "CONTRIBUTING.md").read_text().splitlines()) < 120


def test_decisions_are_numbered_without_gaps_and_have_four_parts(root):
    files = sorted((root / "docs/decisions").glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in files] == list(range(1, len(files) + 1))
    for path in files:
        headings = re.findall(r"(?m)^## (.+)$", path.read_text())
        assert headings == ["Question", "Options", "Choice", "What would change our mind"], path.name


def test_every_dependency_has_a_decision(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = [name for items in project["optional-dependencies"].values() for name in items]
    names = {re.split(r"[\s<>=!;\[]", name)[0] for name in [*project["dependencies"], *extras]}
    text = "\n".join(path.read_text() for path in (root / "docs/decisions").glob("[0-9]*.md"))
    assert sorted(name for name in names - {"hyperframes-engine"} if f"`{name}`" not in text) == []


@pytest.mark.requirement("A50")
@pytest.mark.requirement("A51")
@pytest.mark.requirement("A52")
def test_versions_are_not_older_than_asked_for(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    least = dict(re.match(r"([\w-]+)>=([\d.]+)", item).groups() for item in project["dependencies"])
    asked = {"numpy": (1, 24), "numba": (0, 57), "opencv-python-headless": (4,)}
    for name, version in asked.items():
        assert tuple(map(int, least[name].split("."))) >= version
    assert project["requires-python"] == ">=3.11"
    assert any("Linux" in line for line in project["classifiers"])


def test_all_asks_for_every_extra(root):
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras.pop("all")
    assert everything == f"hyperframes-engine[{','.join(extras)}]"


def test_lint_tools_are_pinned_exactly(root):
    lint = tomllib.loads((root / "pyproject.toml").read_text())["dependency-groups"]["lint"]
    assert [item for item in lint if not re.fullmatch(r"[a-z-]+==[\d.]+", item)] == []


def test_pre_commit_calls_installed_tools_only(root):
    text = (root / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert {entry.rpartition("/")[0] for entry in re.findall(r"entry: (\S+)", text)} == {".venv/bin"}


def test_the_clip_that_ships_is_credited(root):
    credit = "(c) 2008 Blender Foundation"
    for name in ("NOTICE", "src/hyperframes/data/CREDITS.txt"):
        text = (root / name).read_text()
        assert credit in text
        assert "creativecommons.org/licenses/by/3.0" in text
    assert (root / "src/hyperframes/data/big_buck_bunny.mp4").stat().st_size < 1_100_000


def test_the_weights_that_ship_are_credited_and_have_a_card(root):
    weights = root / "src/hyperframes/data/edh_nmnist.safetensors"
    for name in ("NOTICE", "src/hyperframes/data/CREDITS.txt", "docs/models.md"):
        text = (root / name).read_text()
        assert weights.name.partition(".")[0] in text
        assert "N-MNIST" in text
        assert "CC BY-SA 4.0" in text or "creativecommons.org/licenses/by-sa/4.0" in text
    assert f"{weights.stat().st_size:,} bytes" in (root / "docs/models.md").read_text()
    assert weights.stat().st_size < 500_000


def test_the_notice_says_that_pyav_carries_gpl_encoders(root):
    text = (root / "NOTICE").read_text()
    assert "libx264" in text
    assert "General Public License" in text


def test_no_file_names_a_path_of_one_machine(root):
    home = re.compile(r"(?<![\w.])/(?:work|home/\w+|Users/\w+)/")
    found = [
        f"{path}:{number}"
        for path in tracked(root)
        if path.suffix in {".py", ".md", ".toml", ".sh", ".yaml", ".json", ""} and (root / path).is_file()
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1)
        if home.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("present", [True, False])
def test_debian_packages_are_only_named_outside_ci(root, tmp_path, present):
    for program in ("sh", "id", "tr", "echo"):
        (tmp_path / program).symlink_to(
            f"/bin/{program}" if Path(f"/bin/{program}").exists() else f"/usr/bin/{program}"
        )
    if present:
        for program in ("ffprobe", "redis-server", "mosquitto", "nats-server", "gst-launch-1.0"):
            (tmp_path / program).symlink_to("/bin/true")
    done = subprocess.run(
        [str(tmp_path / "sh"), "tools/debian.sh"],
        cwd=root, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    if present:
        assert done.stderr == ""
    else:
        assert "not installed: ffmpeg (tests use ffprobe for time stamps and counts beside FFmpeg's own)" in done.stderr
        assert "to run them too: sudo apt-get install ffmpeg redis-server" in done.stderr
