"""Each guide's commands and blocks run as they stand, on real files, and print what it says."""

import doctest
import re
import shlex
import shutil
import subprocess
import sys

import pytest

GUIDES = ("cameras", "inspection", "surgery", "short-videos", "event-cameras")
COMMANDS = re.compile(r"(?m)^    (hyperframes .*)$")
PARTS = re.compile(r"(?ms)^```(python|toml)\n(.*?)^```|^    (hyperframes [^\n]*)$|^```text\n(.*?)^```")
FILES = {
    "left.mp4": "video/multicam_people/cam01.mp4",
    "right.mp4": "video/multicam_people/cam02.mp4",
    "belt.mp4": "video/bottle-detection.mp4",
    "op.mkv": "video/flipping_a_pancake.mkv",
    "dvs.raw": "events/evt3_gen41_1280x720.raw",
    "clips/bikes.mp4": "video/bikes.mp4",
    "clips/cockatoo.mp4": "video/cockatoo.mp4",
}
"""What stands for the names on the pages."""
COPY = "-ss 3 -t 3 -i clips/bikes.mp4 -vf scale=320:-2,eq=brightness=0.05 -an copy.mp4"


def test_every_guide_is_named_where_people_begin(root):
    listed = set(re.findall(r"\(([a-z-]+)\.md\)", (root / "docs/guides/README.md").read_text()))
    assert listed == set(GUIDES) == {path.stem for path in (root / "docs/guides").glob("*.md")} - {"README"}
    assert "(docs/guides/README.md)" in (root / "README.md").read_text()


@pytest.mark.parametrize("name", GUIDES)
def test_every_command_has_the_options_it_is_shown_with(root, name):
    commands = (root / "docs/commands.md").read_text()
    found = COMMANDS.findall((root / f"docs/guides/{name}.md").read_text())
    assert len(found) >= 4
    for line in found:
        words = shlex.split(line)
        section = commands.partition(f"\n## hyperframes {words[1]}\n")[2].partition("\n## ")[0]
        assert section, line
        for option in (word for word in words if word.startswith("--")):
            assert f"{option}`" in section or f"{option} " in section, (line, option)


@pytest.fixture
def desk(media, tmp_path):
    """A folder with the files that the guides name."""
    (tmp_path / "clips").mkdir()
    for name, real in FILES.items():
        (tmp_path / name).symlink_to(media / real)
    (tmp_path / "classes.onnx").symlink_to(media.parent / "models/efficientnet-lite0.onnx")
    rows = "".join(f"{i / 100:.2f},{(i * 37 % 100) / 50:.3f}\n" for i in range(2000))
    (tmp_path / "rows.csv").write_text(f"seconds,vibration\n{rows}")
    subprocess.run([shutil.which("ffmpeg"), "-v", "error", *COPY.split()], cwd=tmp_path, check=True)
    return tmp_path


def run(program, folder, models):
    environment = {
        "HYPERFRAMES_MODELS": str(models),
        "HYPERFRAMES_CACHE": str(folder / "cache"),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=280
    )  # fmt: skip
    assert done.returncode == 0, (program, done.stderr)
    return done.stdout


def matches(wanted, got, *, exactly):
    """Numbers that come from measuring, or from another machine's arithmetic, may differ: their places may not."""
    if not exactly:
        wanted, got = (re.sub(r"[\d][\d.,]*( [mkMG]?[sB]\b)?", "#", text) for text in (wanted, got))
    return doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_runs_as_it_stands(root, desk, media, name):
    models, printed, exactly = media.parent / "models", [], False
    for language, block, command, text in PARTS.findall((root / f"docs/guides/{name}.md").read_text()):
        if language == "toml":
            (desk / re.match(r"# (\S+)\n", block)[1]).write_text(block)
        elif language == "python":
            printed, exactly = [run([sys.executable, "-c", block], desk, models)], True
        elif command:
            words = [sys.executable, "-m", "hyperframes", *shlex.split(command)[1:]]
            printed, exactly = [*(printed if not exactly else []), run(words, desk, models)], False
        else:
            assert any(matches(text, said, exactly=exactly) for said in printed), (text, printed)
