"""What a live run hands out: what a kill leaves of it, signals, readers that leave, operators that fail."""

import csv
import json
import re
import shlex
import signal
import sys
import threading
import time

import av
import numpy as np
import pytest

from hyperframes.drivers.journal_reading import JournalReader

MOVING, SMALL = "synthetic:moving?frames=4000", "synthetic:moving?frames=4"
OWN_OPERATORS = """
import time

import hyperframes as hf


@hf.operator(output={"shape": (), "dtype": "f8"})
def slow(frames):
    time.sleep(0.3)
    return frames.reshape(len(frames), -1).mean(1)


@hf.operator(output={"shape": (), "dtype": "f8"})
def hung(frames):
    time.sleep(1000)


@hf.operator
def refusing(frames):
    raise RuntimeError("no such model")


@hf.operator(output={"shape": (), "dtype": "f8"})
def dirty(frames):
    raise ValueError("the lens is dirty")


@hf.operator(output={"shape": (), "dtype": "f8"})
def picky(frames):
    if frames[0, 0, 0] > 250:
        raise ValueError("a white corner")
    return frames.reshape(len(frames), -1).mean(1)
"""


@pytest.fixture
def operators(tmp_path, monkeypatch):
    """The module of operators above, in a folder that can be imported from."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "plant_operators.py").write_text(OWN_OPERATORS)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("plant_operators", None)


def wait_until(there, process, seconds=60):
    end = time.monotonic() + seconds
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def lines_in(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def killed(spawn, folder, *arguments, lines=40, **options):
    """Start a live run that writes out.jsonl, and kill it once so many lines stand there."""
    process = spawn("live", *arguments, "--to", "out.jsonl", "--journal", "J", "--record", "R", "-q", **options)
    wait_until(lambda: lines_in(folder / ".out.jsonl.part") >= lines, process)
    process.kill()
    process.communicate()


def frames_of(journal, where=""):
    """Return (id of the hyperframe, frame id) of every frame that the journal knows."""
    with JournalReader(journal) as reader:
        return {(life.id, i) for life in reader.find(where).hyperframes for i in json.loads(life.frame_ids)}


def rows_of(path):
    """Return the same of every line of results."""
    return {(row["hyperframe"], row["frame_id"]) for row in map(json.loads, path.read_text().splitlines())}


SOURCES = ("--source", f"a={MOVING}", "--source", f"b={MOVING}", "--size", "4", "-p", "measure")


@pytest.mark.slow
@pytest.mark.requirement("B91")
def test_after_a_kill_and_resuming_every_frame_that_was_sealed_has_a_line(call, spawn, tmp_path):
    killed(spawn, tmp_path, *SOURCES, "--to", "out.csv")
    part = tmp_path / ".out.jsonl.part"
    assert frames_of(tmp_path / "J", "outcome = delivered") <= rows_of_part(part)
    sealed = frames_of(tmp_path / "J")
    for torn in (part, tmp_path / ".out.csv.part"):
        with torn.open("ab") as file:
            file.write(b'{"stream": "a", "fra')
    to = ("--to", "out.jsonl", "--to", "out.csv", "--journal", "J", "--record", "R", "--resume")
    done = call("live", *SOURCES, "--duration", "1s", *to)
    assert done.code == 0, done.err
    assert sealed <= rows_of(tmp_path / "out.jsonl")
    assert rows_of(tmp_path / "out.jsonl") == frames_of(tmp_path / "J")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert {(row["hyperframe"], int(row["frame"])) for row in csv.DictReader(file)} == frames_of(tmp_path / "J")
    assert not list(tmp_path.glob(".*.part"))


def rows_of_part(part):
    whole = part.read_bytes().rpartition(b"\n")[0]
    return {(row["hyperframe"], row["frame_id"]) for row in map(json.loads, whole.splitlines())}


@pytest.mark.slow
@pytest.mark.requirement("B91")
def test_what_cannot_be_gone_on_with_is_named_with_the_command_that_makes_it_again(call, spawn, tmp_path):
    killed(spawn, tmp_path, *SOURCES, "-p", "overlay", "--to", "out.mp4")
    delivered = frames_of(tmp_path / "J", "outcome = delivered")
    to = ("--to", "out.jsonl", "--to", "out.mp4", "--journal", "J", "--record", "R", "--resume")
    done = call("live", *SOURCES, "-p", "overlay", "--duration", "1s", *to)
    assert done.code == 0, done.err
    (warning,) = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert f"out.mp4 does not hold the {len(delivered)} frames that the killed run had delivered" in warning
    again = call(*shlex.split(warning.partition("hyperframes ")[2]))
    assert again.code == 0, again.err
    videos = [av.open(str(tmp_path / f"out-run1-{name}.mp4")) for name in "ab"]
    assert sum(sum(1 for _ in video.decode(video=0)) for video in videos) >= len(delivered)


@pytest.mark.slow
def test_a_run_that_is_resumed_adds_to_what_stands_under_its_name_and_leaves_it_alone_where_it_cannot_begin(
    call, tmp_path
):
    to = ("--to", "out.jsonl", "--journal", "J", "--record", "R")
    few = ("--source", "synthetic:moving?frames=8", "--pace", "flat", "--when-full", "block")
    for _ in range(2):
        assert call("live", *few, *to, "--resume").code == 0
    assert lines_in(tmp_path / "out.jsonl") == 16
    assert call("live", *few, *to, "--resume", "-p", "mesure").code == 2
    assert (lines_in(tmp_path / "out.jsonl"), list(tmp_path.glob(".out*"))) == (16, [])


@pytest.mark.slow
def test_an_operator_that_refuses_to_work_off_a_killed_run_leaves_what_there_is_for_the_next(
    call, spawn, operators, tmp_path
):
    slowly = ("--source", f"a={MOVING}", "--size", "2", "--queue", "50", "--ttl", "60s")
    killed(spawn, tmp_path, *slowly, "-p", "plant_operators.slow", lines=6, python_path=operators)
    held = (tmp_path / ".out.jsonl.part").read_bytes()
    to = ("--to", "out.jsonl", "--journal", "J", "--record", "R", "--resume")
    done = call("live", "--source", SMALL, "-p", "plant_operators.refusing", *to)
    assert done.code == 2
    assert "no such model" in done.error
    assert (tmp_path / ".out.jsonl.part").read_bytes() == held
    assert not (tmp_path / "out.jsonl").exists()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("hyperframes")] == []
    assert call("live", "--source", SMALL, "-p", "plant_operators.slow", *to).code == 0
    assert frames_of(tmp_path / "J") == rows_of(tmp_path / "out.jsonl")


# Signals --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("apart_seconds", [0.0, 0.6])
def test_a_second_signal_gives_up_what_waits_unless_it_is_the_first_ones_echo(
    spawn, operators, tmp_path, apart_seconds
):
    source = ("--source", f"a={MOVING}", "--size", "2", "--queue", "50", "--ttl", "60s")
    outputs = ("--to", "out.jsonl", "--to", "out.csv")
    process = spawn("live", *source, "-p", "plant_operators.slow", *outputs, "--json", python_path=operators)
    wait_until(lambda: lines_in(tmp_path / ".out.jsonl.part") >= 10, process)
    process.send_signal(signal.SIGTERM)
    time.sleep(apart_seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    stats = json.loads(out)
    assert stats["captured"] == stats["delivered"] + sum(stats["dropped"].values())
    assert lines_in(tmp_path / "out.jsonl") == stats["delivered"] == lines_in(tmp_path / "out.csv") - 1
    if apart_seconds:
        assert process.returncode == 130
        assert stats["dropped"]["cancelled"] > 0
        assert f"{stats['dropped']['cancelled']} frames were given up" in err
    else:
        assert (process.returncode, stats["dropped"]) == (0, {})


@pytest.mark.slow
def test_the_first_signal_lets_a_run_finish_that_was_finishing_anyway(spawn, operators, tmp_path):
    source = ("--source", "a=synthetic:moving?frames=16", "--pace", "flat", "--when-full", "block", "--size", "2")
    process = spawn("live", *source, "-p", "plant_operators.slow", "--to", "out.jsonl", python_path=operators)
    told = iter(process.stderr.readline, "")
    assert any(line == "a: ended\n" for line in told)
    time.sleep(0.3)  # the sources are asked a few times a second whether they have ended
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "stopping: what was captured is finished first" in err
    assert lines_in(tmp_path / "out.jsonl") == 16


@pytest.mark.slow
def test_a_third_signal_ends_a_run_whose_operator_hangs_and_the_journal_keeps_what_it_held(spawn, operators, tmp_path):
    to = ("--to", "out.jsonl", "--journal", "J", "--record", "R")
    process = spawn("live", "--source", f"a={MOVING}", "-p", "plant_operators.hung", *to, python_path=operators)
    wait_until(lambda: (tmp_path / "J-seals0").exists() and (tmp_path / "J-seals0").stat().st_size > 0, process)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "what is being worked on is left as it is" in err
    with JournalReader(tmp_path / "J") as reader:
        assert [life.sequence for life in reader.unfinished()] == [0]


@pytest.mark.slow
def test_a_signal_while_a_killed_run_is_worked_off_ends_it_with_its_outputs(call, spawn, operators, tmp_path):
    slowly = ("--source", f"a={MOVING}", "--size", "2", "--queue", "50", "--ttl", "60s", "-p", "plant_operators.slow")
    to = ("--to", "out.jsonl", "--journal", "J", "--record", "R", "-q")
    killed(spawn, tmp_path, *slowly, lines=6, python_path=operators)
    before = lines_in(tmp_path / ".out.jsonl.part")
    again = spawn("live", *slowly, *to, "--resume", python_path=operators)
    wait_until(lambda: lines_in(tmp_path / ".out.jsonl.part") >= before + 2, again)
    again.send_signal(signal.SIGTERM)
    _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    sealed = frames_of(tmp_path / "J")
    done = frames_of(tmp_path / "J", "outcome = delivered")
    assert done <= rows_of(tmp_path / "out.jsonl")
    assert done < sealed
    assert (
        call("live", "--source", "a=synthetic:moving?frames=2", "-p", "plant_operators.slow", *to, "--resume").code == 0
    )
    assert sealed <= rows_of(tmp_path / "out.jsonl")


# Readers that leave ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--to", "all.jsonl")])
def test_who_reads_lines_has_each_at_once_and_ends_the_run_by_leaving(spawn, tmp_path, more):
    process = spawn("live", *SOURCES, "--to", "-", *more, "--journal", "J", "-q")
    rows = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.stdout.close()
    assert {row["stream"] for row in rows} <= {"a", "b"}
    with process.stderr as told:
        err = told.read()
    assert process.wait(timeout=20) == 1
    assert not re.search("error|warning|Traceback|Exception", err), err
    with JournalReader(tmp_path / "J") as reader:
        assert reader.unfinished() == []
        assert [run.outcome for run in reader.runs()] == ["finished"]
    if more:
        assert frames_of(tmp_path / "J", "outcome = delivered") == rows_of(tmp_path / "all.jsonl")


# Operators that fail --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("B47")
def test_operators_that_fail_on_everything_are_told_and_fail_the_run(call, operators, tmp_path):
    source = ("--source", "synthetic:moving?frames=20", "--pace", "flat", "--when-full", "block", "--size", "2")
    done = call("live", *source, "-p", "plant_operators.dirty", "--json", "-q", "--to", "out.jsonl")
    assert done.code == 1
    assert json.loads(done.out)["dropped"] == {"failed": 20}
    assert "there is no result: operators failed on all 20 frames that they were given: stage 'dirty'" in done.error
    assert "--debug" in done.hint
    warnings = [line for line in done.err.splitlines() if line.startswith("warning: cam0: stage 'dirty' failed")]
    assert [re.search(r"\((\d+) hyperframes so far\)|$", line)[1] for line in warnings] == [None, "2", "4", "8"]
    assert all("ValueError: the lens is dirty" in line for line in warnings)


def test_operators_that_fail_now_and_then_are_told_and_the_run_is_done(call, operators, tmp_path):
    frames = np.zeros((8, 6, 8), np.uint8)
    frames[4] = 255
    np.save(tmp_path / "in.npy", frames)
    source = ("--source", "in.npy", "--pace", "flat", "--when-full", "block", "--size", "2")
    done = call("live", *source, "-p", "plant_operators.picky", "--json", "-q")
    assert done.code == 0, done.err
    assert json.loads(done.out)["dropped"] == {"failed": 2}
    assert "warning: cam0: stage 'picky' failed on frames 4 to 5" in done.err


# Replay ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_replay_runs_operators_and_writes_what_the_run_wrote(call, tmp_path):
    source = ("--source", "a=synthetic:moving?frames=12", "--pace", "flat", "--when-full", "block")
    assert call("live", *source, "-p", "measure", "--to", "out.jsonl", "--journal", "J", "--record", "R").code == 0
    done = call("replay", "J", "-p", "measure", "--to", "again.jsonl")
    assert done.code == 0, done.err
    first, again = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("out.jsonl", "again.jsonl")
    )
    assert again == first
    assert len(again) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "measure"), "operators make results: got no --to"),
        (("--to", "x.jsonl", "--json"), "--json prints what tells hyperframes apart, --to writes results"),
    ],
)
def test_a_replay_that_contradicts_itself_is_refused(call, arguments, message):
    done = call("replay", "J", *arguments)
    assert done.code == 2
    assert message in done.error
    assert done.hint
