"""`hyperframes demo`: the main job on the clip that ships with the package."""

import json

import av
import pytest


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
    told = json.loads(call("demo", "--json", "--quiet", "--out", "here").out)
    assert told["run"]["frames_sha256"] == told["plain_loop"]["frames_sha256"]
    assert told["check"]["equal"]
    assert told["plan"]["hyperframes"] > 1
    assert told["times_as_fast"] == pytest.approx(told["plain_loop"]["seconds"] / told["run"]["seconds"])
    assert (tmp_path / "here" / "report.html").exists()


def test_a_folder_that_cannot_be_made_is_said(call, tmp_path):
    (tmp_path / "file").touch()
    outcome = call("demo", "--out", "file/deeper")
    assert outcome.code == 2
    assert outcome.error == "cannot make the folder file/deeper: Not a directory"
    assert outcome.hint == "Name another one with --out DIR."
