"""Runs that are killed at any moment go on to the bytes of a run that was not."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.drivers import interrupted
from tests.drivers.interrupted import CASES, CHAIN, NUM_FRAMES, SIZE, Slow, Trail, pipeline

import hyperframes as hf
from hyperframes.drivers.journal import VERSION, Journal
from hyperframes.errors import CancelledError, PipelineError, SinkError
from hyperframes.sinks.parts import PartsFolder
from hyperframes.sinks.staging import StagedFile, StagedFolder
from hyperframes.sinks.video import VideoSink

ROOT = Path(__file__).parents[2]
SOURCES = Path(hf.__file__).parents[1]


def write_input(folder, seed=3):
    frames = np.random.default_rng(seed).integers(0, 256, (NUM_FRAMES, 24, 32), np.uint8)
    frames[20:40] = frames[20]  # stands still for a while
    np.save(folder / "in.npy", frames)


def contents(folder):
    """Return the bytes of every file below `folder` but the input, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "in.npy"
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an uninterrupted run of a case leaves, made once."""
    made = {}

    def run(case):
        if case not in made:
            folder = tmp_path_factory.mktemp("whole")
            write_input(folder)
            result = hf.run(pipeline(case, folder, pause=0))
            made[case] = contents(folder), counts(result)
        return made[case]

    return run


def counts(result):
    return {
        name: getattr(result, name) for name in ("frames_in", "frames_out", "filtered", "hyperframes", "size", "failed")
    }


def journal_of(folder):
    found = sorted(folder.glob(".*.journal"))
    return found[0] if found else None


def written(folder):
    """Return how many bytes the journal in `folder` has got, as far as its log tells."""
    path = journal_of(folder)
    log = path and path.with_name(path.name + "-wal")
    return log.stat().st_size if log and log.exists() else 0


TWO_CHECKPOINTS = 100_000
"""Bytes: the tables take 40,000, a checkpoint some 20,000."""


def kill(case, folder, after_seconds, *, resume=False):
    """Start a run and kill it so long after its second checkpoint, or after its start where it resumes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)])}
    command = [sys.executable, "-m", "tests.drivers.interrupted", case, str(folder), *(["--resume"] if resume else [])]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, cwd=folder)
    end = time.monotonic() + 60
    while not resume and time.monotonic() < end and process.poll() is None and written(folder) < TWO_CHECKPOINTS:
        time.sleep(0.002)
    time.sleep(after_seconds)
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode in {0, -signal.SIGKILL}, errors.decode()
    return process.returncode


def go_on(case, folder):
    return hf.run(pipeline(case, folder, pause=0, resume=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "seed"), [(case, 1) for case in CASES] + [(case, 2) for case in ("sequential", "several", "video")]
)
def test_a_killed_run_goes_on_to_the_bytes_of_an_uninterrupted_one(case, seed, tmp_path, whole):
    write_input(tmp_path)
    after = random.Random(f"{case} {seed}").uniform(0, NUM_FRAMES / SIZE / 2 * 0.015)
    kill(case, tmp_path, after)
    interrupted = journal_of(tmp_path) is not None  # a run that was whole when the kill came has put its journal away
    result = go_on(case, tmp_path)
    expected, counted = whole(case)
    assert contents(tmp_path) == expected
    assert counts(result) == counted
    if interrupted:
        (told,) = [warning for warning in result.warnings if "resume" in warning]
        assert told.startswith("resumed at frame"), told


@pytest.mark.slow
@pytest.mark.parametrize("case", ["several", "model"])
def test_a_run_that_is_killed_twice_goes_on_twice(case, tmp_path, whole):
    write_input(tmp_path)
    kill(case, tmp_path, 0.05)
    kill(case, tmp_path, 1.3, resume=True)
    result = go_on(case, tmp_path)
    expected, counted = whole(case)
    assert contents(tmp_path) == expected
    assert counts(result) == counted


@pytest.mark.slow
def test_a_run_that_is_killed_before_its_first_checkpoint_starts_over_and_says_so(tmp_path, whole):
    write_input(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)])}
    code = "from tests.drivers.interrupted import *; hf.run(pipeline('npy', '.', checkpoint_seconds=1000))"
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=tmp_path)
    while not (tmp_path / ".out.npy.part").exists() and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert journal_of(tmp_path) is None
    result = go_on("npy", tmp_path)
    assert contents(tmp_path) == whole("npy")[0]
    name = tmp_path / "out.npy"
    assert result.warnings == [f"resume: nothing was left of {name} to go on from: the run started over"]


# In this process: a run that is cancelled keeps what a killed one leaves ------------------------------------------------


def interrupt(case, folder, *, frames=40, **options):
    """Cancel a run of `case` once its sinks have got so many frames."""
    run = hf.start(pipeline(case, folder, pause=0.004, **options))
    while (seen := run.stats())["frames_out"] < frames and not seen["finished"]:
        time.sleep(0.001)
    run.cancel()
    with pytest.raises(CancelledError):
        run.wait(30)


@pytest.mark.slow
def test_a_chunk_that_was_being_written_when_the_process_was_killed_leaves_nothing_behind(tmp_path, whole):
    write_input(tmp_path)
    interrupt("planes", tmp_path)
    (chunk,) = {path.parent for path in tmp_path.glob(".out.zarr.part/v/c/0/0/0")}
    (chunk / "0.7a36a1e8c58d4c01ac25be15b71731fd.partial").write_bytes(b"half")
    go_on("planes", tmp_path)
    assert contents(tmp_path) == whole("planes")[0]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["npy", "sequential", "several"])
def test_a_cancelled_run_keeps_what_is_whole_and_goes_on(case, tmp_path, whole):
    write_input(tmp_path)
    interrupt(case, tmp_path)
    assert journal_of(tmp_path) is not None
    assert not {"out.npy", "mean.mp4", "trail.npy", "rows.parquet"} & set(contents(tmp_path))
    result = go_on(case, tmp_path)
    expected, counted = whole(case)
    assert contents(tmp_path) == expected
    assert counts(result) == counted
    assert 0 < result.frames_before < result.frames_in == NUM_FRAMES
    assert result.frames_per_second == (NUM_FRAMES - result.frames_before) / result.seconds
    assert any(warning.startswith("resumed at frame ") for warning in result.warnings)


@pytest.mark.slow
def test_a_run_of_threads_goes_on_in_processes(tmp_path, whole):
    write_input(tmp_path)
    interrupt("sequential", tmp_path)
    stopped = pipeline("sequential", tmp_path, pause=0, resume=True, executor="processes")
    result = hf.run(stopped)
    assert result.executor == "processes"
    assert result.frames_before > 0
    assert contents(tmp_path) == whole("sequential")[0]


def test_a_run_cancelled_before_anything_is_safe_leaves_nothing(tmp_path):
    write_input(tmp_path)
    run = hf.start(pipeline("npy", tmp_path, pause=0.2))
    run.cancel()
    run.join()
    assert contents(tmp_path) == {}


def test_frames_whose_results_are_there_are_computed_again_only_for_the_state_and_said(tmp_path):
    write_input(tmp_path)
    interrupt("unsaved", tmp_path)
    result = go_on("unsaved", tmp_path)
    (told,) = result.warnings
    assert "frames 0 to " in told
    assert told.endswith(" were computed again: trail cannot save its state")
    assert result.frames_before == 0


class Lists(Trail):
    """Keeps a list in its state."""

    def apply(self, inputs, outputs, state, prepared):
        return super().apply(inputs, outputs, state, prepared) | {"names": ["a"]}


def test_a_state_that_is_no_numbers_is_said_and_made_anew(tmp_path):
    np.save(tmp_path / "in.npy", np.arange(200, dtype=np.uint8).reshape(40, 5))
    options = {"to": str(tmp_path / "out.npy"), "size": 4, "checkpoint_seconds": 0}
    result = hf.run(str(tmp_path / "in.npy"), Lists(), **options)
    (told,) = result.warnings
    assert told == (
        "the state of a sequential stage cannot be saved: '0/state/names' is a list: expected an array, a number or a "
        "text: a resumed run makes it anew"
    )


# What must not change ---------------------------------------------------------------------------------------------------


def refusal(run):
    with pytest.raises(PipelineError) as caught:
        run()
    assert caught.value.hint == "Run it as it was, or without --resume to start over."
    return str(caught.value)


@pytest.mark.slow
def test_another_input_operator_option_or_setting_is_refused_and_nothing_is_lost(tmp_path, whole):
    write_input(tmp_path)
    interrupt("video", tmp_path)
    left = contents(tmp_path)
    name = tmp_path / "out.mp4"
    prefix = f"the interrupted run of {name} cannot be resumed: "

    def with_stages(*stages, **options):
        made = pipeline("video", tmp_path, pause=0, resume=True, **options)
        return lambda: hf.run(made.replace(stages=hf.Pipeline.of("", stages or [Slow(0), *CHAIN[1:]]).stages))

    told = refusal(with_stages(Slow(0), "temporal_mean:radius=3"))
    assert told.startswith(
        f"{prefix}stage 'temporal_mean' changed: temporal_mean version 1 of slow -> "
        "temporal_mean:radius=3 version 1 of slow"
    )
    assert f"{prefix}option boundary changed: replicate -> reflect" == refusal(with_stages(boundary="reflect"))
    assert f"{prefix}option range changed: (0, None) -> (4, None)" == refusal(with_stages(range=(4, None)))
    newer = type("Slow", (Slow,), {"version": 2})(0)
    assert "stage 'slow' changed: slow version 1 of source -> slow version 2 of source" in refusal(
        with_stages(newer, *CHAIN[1:])
    )
    made = pipeline("video", tmp_path, pause=0, resume=True)
    sink = interrupted.video(name, quality=30)
    told = refusal(lambda: hf.run(made.replace(sinks={"temporal_mean": sink})))
    assert "output 'temporal_mean' changed: " in told
    assert told.endswith("with codec=libx264, quality=30, preset=ultrafast, part_frames=10")
    before = (tmp_path / "in.npy").stat()
    write_input(tmp_path, seed=4)
    assert f"{prefix}source 'source' changed: {tmp_path / 'in.npy'}" in refusal(with_stages())
    assert contents(tmp_path) == left
    write_input(tmp_path)
    os.utime(tmp_path / "in.npy", ns=(before.st_atime_ns, before.st_mtime_ns))
    go_on("video", tmp_path)
    assert contents(tmp_path) == whole("video")[0]


def test_an_edited_function_is_another_operator(tmp_path):
    write_input(tmp_path)

    def make(offset):
        scope = {"np": np, "time": time}
        source = f"def lift(frames):\n    time.sleep(0.004)\n    return frames + np.uint8({offset})\n"
        exec(source, scope)  # noqa: S102 - stands for a module that somebody edits
        scope["lift"].__module__ = "lifting"
        return hf.operator(scope["lift"])

    options = {"to": str(tmp_path / "out.npy"), "size": 4, "checkpoint_seconds": 0}
    run = hf.start(str(tmp_path / "in.npy"), make(1), **options)
    while run.stats()["frames_out"] < 20:
        time.sleep(0.001)
    run.cancel()
    run.join()
    told = refusal(lambda: hf.run(str(tmp_path / "in.npy"), make(2), resume=True, **options))
    assert "stage 'lift' changed: lifting.lift version " in told


@pytest.mark.slow
def test_a_new_size_is_said_and_the_old_one_kept(tmp_path, whole):
    write_input(tmp_path)
    interrupt("zarr", tmp_path)
    result = hf.run(pipeline("zarr", tmp_path, pause=0, resume=True, size=7))
    assert "resume: the size of the interrupted run is kept: 4 instead of 7" in result.warnings
    assert contents(tmp_path) == whole("zarr")[0]


@pytest.mark.slow
def test_without_resume_what_was_left_is_replaced_and_the_option_named(tmp_path, whole):
    write_input(tmp_path)
    interrupt("npy", tmp_path)
    result = hf.run(pipeline("npy", tmp_path, pause=0))
    (told,) = result.warnings
    assert told.startswith(f"what an interrupted run left of {tmp_path / 'out.npy'} was replaced; ")
    assert "--resume would have gone on at frame " in told
    interrupt("npy", tmp_path)
    assert hf.run(pipeline("npy", tmp_path, pause=0, boundary="reflect")).warnings == [
        f"what an interrupted run left of {tmp_path / 'out.npy'} was replaced"
    ]


def test_what_cannot_be_resumed_starts_over_and_says_why(tmp_path, monkeypatch):
    frames = np.arange(64, dtype=np.uint8).reshape(16, 4)
    out = str(tmp_path / "out.npy")
    options = {"resume": True, "checkpoint_seconds": 0, "size": 4}
    result = hf.run(frames, "temporal_mean", to=lambda result: None, **options)
    assert result.warnings[0].startswith("resume: the run started over: callback ")
    assert result.warnings[0].endswith(" cannot go on after an interruption")
    result = hf.run(frames, "temporal_mean", to="null:", **options)
    assert result.warnings == ["resume: the run started over: nothing is written to a file"]
    monkeypatch.setattr("hyperframes.sources.array._IDENTITY_BYTES", 10)
    result = hf.run(frames, "temporal_mean", to=out, **options)
    assert result.warnings == ["resume: the run started over: nothing tells whether array is the same input as before"]
    assert sorted(contents(tmp_path)) == ["out.npy"]


def test_a_checksum_of_all_frames_and_resume_exclude_each_other():
    with pytest.raises(
        PipelineError, match="a checksum covers all frames, and a resumed run does not see those"
    ) as caught:
        hf.run(np.zeros((4, 2)), to="null:", checksum=True, resume=True)
    assert caught.value.hint == "Leave out --checksum or --resume."
    with pytest.raises(PipelineError, match="checkpoint_seconds: expected a number of at least 0, got -1"):
        hf.run(np.zeros((4, 2)), to="null:", checkpoint_seconds=-1)


# Failures -------------------------------------------------------------------------------------------------------------


class Fails(Slow):
    """Fails on the hyperframes of some frames."""

    def apply(self, inputs, outputs, state, prepared):
        if set(range(*inputs[0].header.core)) & {9, 50}:
            raise ValueError("the lamp is off")
        super().apply(inputs, outputs, state, prepared)


@pytest.mark.slow
@pytest.mark.parametrize("sequential", [False, True])
def test_failed_frames_are_listed_whether_they_failed_before_or_after_the_interruption(sequential, tmp_path):
    write_input(tmp_path)
    stages = [Fails(0.004), *([Trail()] if sequential else [])]
    options = {"size": 4, "checkpoint_seconds": 0, "on_error": "continue", "to": str(tmp_path / "out.npy")}
    source = str(tmp_path / "in.npy")
    expected = hf.run(source, stages, **options)
    made = contents(tmp_path)
    run = hf.start(source, stages, **options)
    while run.stats()["dropped"].get("failed", 0) < 1 or run.stats()["frames_out"] < (8 if sequential else 32):
        time.sleep(0.001)
    run.cancel()
    run.join()
    result = hf.run(source, stages, resume=True, **options)
    assert contents(tmp_path) == made
    assert [failed["frames"] for failed in result.failed] == [failed["frames"] for failed in expected.failed]
    assert "the lamp is off" in result.failed[0]["error"]
    assert counts(result) | {"failed": []} == counts(expected) | {"failed": []}


@pytest.mark.slow
def test_parts_that_are_gone_are_said_and_made_again(tmp_path, whole):
    write_input(tmp_path)
    interrupt("video", tmp_path)
    part = tmp_path / ".out.mp4.parts" / "part-000000.mkv"
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    result = go_on("video", tmp_path)
    assert result.warnings == [f"resume: the run started over: what was done of {tmp_path / 'out.mp4'} is gone"]
    assert contents(tmp_path) == whole("video")[0]
    interrupt("several", tmp_path)
    (tmp_path / ".trail.npy.part").unlink()
    go_on("several", tmp_path)
    assert contents(tmp_path).items() >= whole("several")[0].items()


def crash_states(monkeypatch, folder, kept):
    """Copy `folder` at every step of the end of a run, as a kill just then would leave it."""
    number = iter(range(100))

    def before(cls, name):
        original = getattr(cls, name)

        def copied(self, *arguments, **options):
            shutil.copytree(folder, kept / f"{next(number):02} {cls.__name__} {name}")
            return original(self, *arguments, **options)

        monkeypatch.setattr(cls, name, copied)

    before(VideoSink, "_join")
    before(VideoSink, "close")
    before(PartsFolder, "remove")
    before(StagedFile, "commit")
    before(StagedFile, "discard")
    before(StagedFolder, "commit")
    before(Journal, "remove")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["several", "zarr", "images"])
def test_a_run_that_is_killed_at_any_step_of_its_end_goes_on(case, tmp_path, tmp_path_factory, monkeypatch, whole):
    write_input(tmp_path)
    kept = tmp_path_factory.mktemp("kept")
    with monkeypatch.context() as patched:
        crash_states(patched, tmp_path, kept)
        hf.run(pipeline(case, tmp_path, pause=0))
    states = [state for state in sorted(kept.iterdir()) if journal_of(state)]
    assert "Journal remove" in states[-1].name
    assert len(states) >= 2
    facts = (tmp_path / "in.npy").stat()
    for state in states:
        for path in tmp_path.iterdir():
            if path.name != "in.npy":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(state, tmp_path, dirs_exist_ok=True)
        os.utime(tmp_path / "in.npy", ns=(facts.st_atime_ns, facts.st_mtime_ns))
        result = go_on(case, tmp_path)
        assert contents(tmp_path) == whole(case)[0], state.name
        assert counts(result) == whole(case)[1]
        assert not any("started over" in warning for warning in result.warnings), state.name
    assert result.frames_before == NUM_FRAMES


# The journal itself ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "garbage", "other", "older", "newer", "snapshot"])
def test_a_damaged_journal_is_an_error_with_a_way_out(damage, tmp_path, whole):
    write_input(tmp_path)
    interrupt("sequential", tmp_path)
    path = journal_of(tmp_path)
    expected = f"the journal {path} is damaged: "
    match damage:
        case "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "garbage":
            path.write_bytes(b"what is this" * 1000)
        case "other":
            path.unlink()
            with sqlite3.connect(path) as db:
                db.execute("CREATE TABLE birds (name TEXT)")
            db.close()
        case "older" | "newer":
            found = 1 if damage == "older" else VERSION + 1
            with sqlite3.connect(path) as db:
                db.execute(f"PRAGMA user_version = {found}")
            db.close()
            expected = f"the journal {path} is of version {found}: expected {VERSION}"
        case "snapshot":
            with sqlite3.connect(path) as db:
                db.execute("UPDATE snapshots SET data = zeroblob(length(data))")
            db.close()
    with pytest.raises(SinkError) as caught:
        go_on("sequential", tmp_path)
    assert str(caught.value).startswith(expected)
    assert caught.value.hint.startswith("Run without --resume")
    assert (tmp_path / ".out.npy.part").exists()
    result = hf.run(pipeline("sequential", tmp_path, pause=0))
    assert (
        result.warnings == [f"what an interrupted run left of {tmp_path / 'out.npy'} was replaced"]
        or damage == "snapshot"
    )
    assert contents(tmp_path) == whole("sequential")[0]


def test_a_full_disk_costs_the_journal_not_the_run(tmp_path, monkeypatch, whole):
    write_input(tmp_path)
    original = Journal._open

    def small(self):
        original(self)
        self._db.execute("PRAGMA max_page_count = 12")

    monkeypatch.setattr(Journal, "_open", small)
    result = hf.run(pipeline("sequential", tmp_path, pause=0))
    (told,) = result.warnings
    assert told.startswith(f"cannot write the journal {tmp_path / '.out.npy.journal'}: disk full: if this run were")
    assert contents(tmp_path) == whole("sequential")[0]


@pytest.mark.slow
def test_a_run_whose_journal_filled_the_disk_goes_on_from_what_was_written(tmp_path, monkeypatch, whole):
    write_input(tmp_path)
    original, numbers = Journal.write, iter(range(100))

    def filling(self, run, lives, outputs, snapshot=None, **options):
        if next(numbers) > 6:
            self._db.execute("PRAGMA max_page_count = 40")
            snapshot = (snapshot[0] if snapshot else 0, bytes(1 << 20))
        original(self, run, lives, outputs, snapshot, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "write", filling)
        interrupt("sequential", tmp_path, frames=80)
    result = go_on("sequential", tmp_path)
    assert 0 < result.frames_before < 80
    assert contents(tmp_path) == whole("sequential")[0]


@pytest.mark.slow
def test_two_runs_do_not_write_one_output(tmp_path):
    write_input(tmp_path)
    run = hf.start(pipeline("npy", tmp_path, pause=1))
    while journal_of(tmp_path) is None or run.stats()["frames_out"] < 4:
        time.sleep(0.001)
    code = "from tests.drivers.interrupted import *; hf.run(pipeline('npy', '.', resume=%s))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)])}
    other = subprocess.run(
        [sys.executable, "-c", code % True], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert not run.stats()["finished"], "the other process took too long"
    run.cancel()
    run.join()
    assert f"another run is writing the same output: its journal {journal_of(tmp_path).name}" in other.stderr


def test_the_journal_tells_the_life_of_every_hyperframe_and_stays_small(tmp_path, monkeypatch):
    write_input(tmp_path)
    interrupt("npy", tmp_path, frames=60)
    journal = Journal(journal_of(tmp_path))
    lives = journal.lives()
    delivered = [life for life in lives if life.outcome == "delivered"]
    assert len(delivered) >= 15
    for number, life in enumerate(delivered):
        assert (life.start, life.stop) == (4 * number, 4 * number + 4)
        assert life.id.endswith(f"[{life.start},{life.stop})")
        assert (life.stream, life.kind, life.seal_reason) == (str(tmp_path / "in.npy"), "temporal", "full")
        assert life.sealed_ns <= life.started_ns <= life.done_ns <= life.ended_ns
        assert (life.frames_out, life.filtered, life.attempts, life.error) == (life.stop, 0, 0, "")
    assert {life.reason for life in lives if life.outcome == "dropped"} <= {"cancelled"}
    journal.close()
    monkeypatch.setattr("hyperframes.drivers.journal.KEPT_LIVES", 3)
    run = hf.start(pipeline("npy", tmp_path, pause=0.004, resume=True))
    while run.stats()["frames_out"] < 80:
        time.sleep(0.001)
    run.cancel()
    run.join()
    journal = Journal(journal_of(tmp_path))
    assert len([life for life in journal.lives() if life.outcome == "delivered"]) <= 4
    journal.close()
