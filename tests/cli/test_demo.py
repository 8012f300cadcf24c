"""`hyperframes demo`: the main job on the clip that ships with the package."""

import json
from types import SimpleNamespace

import av
import pytest

from hyperframes.cli.demo import _compare_text
from hyperframes.drivers.memory import tree_pss_bytes


@pytest.fixture(scope="module")
def quick():
    """Race once: which kind is quicker is not what these tests are about."""
    from hyperframes.cli import demo

    before, demo.ROUNDS = demo.ROUNDS, 1
    yield
    demo.ROUNDS = before


@pytest.mark.slow
def test_the_demo_writes_a_video_and_a_report_and_says_what_it_did(call, quick, tmp_path):
    outcome = call("demo", "--quiet")
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "hyperframes-demo"
    assert sorted(path.name for path in folder.iterdir()) == ["demo.mp4", "report.html"]
    with av.open(folder / "demo.mp4") as container:
        assert sum(1 for _ in container.decode(video=0)) == 132
        assert [stream.type for stream in container.streams] == ["video", "audio"]
    steps = [line.split(" ")[0] for line in outcome.out.splitlines() if line[:1].isalpha()]
    assert steps == ["Hyperframes", "plan", "check", "run", "compare", "video", "report", "next"]
    assert "packed equals whole, bit for bit, on all 132 frames" in outcome.out
    assert " times as fast" in outcome.out
    assert outcome.err == ""


@pytest.mark.slow
def test_the_demo_in_json_proves_that_both_kinds_gave_the_same_frames(call, quick, tmp_path):
    before = tree_pss_bytes()
    told = json.loads(call("demo", "--json", "--quiet", "--out", "here").out)
    assert told["run"]["frames_sha256"] == told["plain_loop"]["frames_sha256"]
    assert told["check"]["equal"]
    assert told["plan"]["hyperframes"] > 1
    assert told["times_as_fast"] == pytest.approx(told["plain_loop"]["seconds"] / told["run"]["seconds"])
    assert (tmp_path / "here" / "report.html").exists()
    # The check held all frames and their results, 365 MB, in a process of its own: that is not the run's memory.
    assert told["run"]["peak_memory_bytes"] - before < told["plan"]["memory_bytes"] + 330e6


def test_a_folder_that_cannot_be_made_is_said(call, tmp_path):
    (tmp_path / "file").touch()
    outcome = call("demo", "--out", "file/deeper")
    assert outcome.code == 2
    assert outcome.error == "cannot make the folder file/deeper: Not a directory"
    assert outcome.hint == "Name another one with --out DIR."


@pytest.mark.parametrize(
    ("seconds", "rounds", "said"),
    [
        (2.0, 3, "packed is 2 times as fast (the quickest of 3 runs each)"),
        (2.0, 2, "(the quickest of 2 runs each); the machine was too busy for 3 runs each: run it again when it is idle"),
        (2.0, 1, "(1 run each); the machine was too busy for 3 runs each: run it again when it is idle"),
        (1.05, 3, "each); that close, it may be that the machine was busy: run it again when it is idle"),
        (0.95, 3, "each); that close, it may be that the machine was busy: run it again when it is idle"),
        (0.5, 3, "packed is 0.5 times as fast (the quickest of 3 runs each)"),
    ],
)  # fmt: skip
def test_a_comparison_that_says_little_says_so(seconds, rounds, said):
    text = _compare_text(SimpleNamespace(seconds=1.0), SimpleNamespace(seconds=seconds, frames=100), rounds)
    assert text.endswith(said)
