"""What a live journal writes down, what it says later, and what it does when it cannot write."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.drivers.live_observations import NOON, SECOND, life, lost, sealed, stream, then

from hyperframes.drivers.journal import Journal, LockedJournalError
from hyperframes.drivers.journal_reading import JournalReader, life_to_json
from hyperframes.drivers.live_journal import LiveJournal, Retention
from hyperframes.errors import SinkError, SourceError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "live.journal"


def written(path, *lists, **options):
    with LiveJournal(path, **options) as journal:
        journal.observe({"kind": "began", "run": "r1", "settings": {"size": 8}, "ns": 0, "unix_ns": NOON})
        for observations in lists:
            for observation in observations:
                journal.observe(observation)
    return journal


def found(path, where="", **options):
    with JournalReader(path) as reader:
        return reader.find(where, **options)


@pytest.mark.requirement("X21")
@pytest.mark.requirement("B91")
def test_every_hyperframe_is_written_from_its_seal_to_its_end(path):
    written(path, life(0), life(1, dropped="expired"), life(2, first_id=16))
    first, second, third = found(path).hyperframes
    assert (first.outcome, first.reason, first.streams, first.seal_reason) == ("delivered", "", ["cam0"], "full")
    assert (first.sealed_ns, first.queued_ns, first.started_ns) == (NOON, NOON, NOON + 1_000_000)
    assert (first.done_ns, first.ended_ns, first.duration_ns) == (NOON + 19_000_000, NOON + 20_000_000, 5_000_000)
    assert (second.outcome, second.reason, second.started_ns) == ("dropped", "expired", None)
    told = life_to_json(third)
    assert told["frame_ids"] == list(range(16, 24))
    assert told["pts"][-1] == told["last_ns"] == NOON
    assert told["first_ns"] == told["pts"][0]


@pytest.mark.requirement("B94")
def test_a_spatial_hyperframe_is_found_by_each_of_its_streams(path):
    names = tuple(f"cam{i}" for i in range(48))
    written(path, life(0, streams=names, kind="spatial"))
    assert [life.streams for life in found(path, "stream = cam47").hyperframes] == [list(names)]
    assert found(path, "stream = cam4").num_hyperframes == 1
    assert found(path, "stream = cam48").num_hyperframes == 0


def test_frames_given_up_outside_of_hyperframes_are_written_by_stream_and_reason(path):
    written(
        path,
        [lost("cam3", "late", 7), lost("cam3", "late", [8, 9]), lost("cam3", "duplicate", 9), lost("cam4", "late", 1)],
    )
    assert {(loss.stream, loss.reason, loss.frames, loss.frame_ids) for loss in found(path).losses} == {
        ("cam3", "late", 3, "[7, 8, 9]"),
        ("cam3", "duplicate", 1, "[9]"),
        ("cam4", "late", 1, "[1]"),
    }


def test_what_became_of_streams_is_written(path):
    written(path, [stream("cam0", "added"), stream("cam0", "stale", reason="no frame for 2 s")])
    with JournalReader(path) as reader:
        assert [(s["state"], s["reason"]) for s in reader.states("cam0")] == [
            ("added", ""),
            ("stale", "no frame for 2 s"),
        ]


def test_a_run_that_ended_and_one_that_was_cut_off_are_told_apart(path):
    with LiveJournal(path) as journal:
        journal.observe({"kind": "began", "run": "r1", "settings": {}, "unix_ns": NOON})
        journal.observe(sealed(0))
        journal.observe({"kind": "finished", "stats": {}, "unix_ns": NOON})
    with JournalReader(path) as reader:
        (run,) = reader.runs()
        assert (run.id, run.driver, run.outcome) == ("r1", "live", "finished")
        assert [life.sequence for life in reader.unfinished()] == [0]


@pytest.mark.requirement("B91")
def test_numbers_go_on_where_the_file_left_off(path):
    written(path, life(0), life(1))
    with LiveJournal(path) as journal:
        assert journal.next_sequence == 2
    written(path, life(2))
    assert [life.sequence for life in found(path).hyperframes] == [0, 1, 2]
    assert found(path, "run = 2").num_hyperframes == 1


def test_it_can_be_read_while_it_is_written(path):
    with LiveJournal(path) as journal:
        for observation in life(0):
            journal.observe(observation)
        until = time.monotonic() + 10
        while not journal.num_written:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert found(path).num_hyperframes == 1
        for observation in life(1):
            journal.observe(observation)
    assert found(path).num_hyperframes == 2


def test_two_runs_cannot_write_one_journal(path):
    with LiveJournal(path), pytest.raises(LockedJournalError, match="another run is writing"):
        LiveJournal(path)
    LiveJournal(path).close()


def test_credentials_never_get_into_it(path):
    url = "rtsp://admin:hunter2@10.0.0.2/s"
    told = life(0)
    told[-1]["error"] = f"cannot reach {url}"
    with LiveJournal(path) as journal:
        journal.observe({"kind": "began", "run": "r", "settings": {"sources": {"cam0": url}}, "unix_ns": NOON})
        for observation in [*told, stream("cam0", "lost", reason=f"{url}: refused")]:
            journal.observe(observation)
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"***@10.0.0.2" in content
    assert b"hunter2" not in content


# Asking ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("B91")
def test_what_happened_to_a_camera_in_a_minute_is_one_question(path):
    minute = 60 * SECOND
    written(
        path,
        life(0, streams=("cam3",), at=NOON - minute),
        life(1, streams=("cam3",), at=NOON + 10 * SECOND),
        life(2, streams=("cam3",), at=NOON + 20 * SECOND, dropped="queue_full"),
        life(3, streams=("cam4",), at=NOON + 20 * SECOND, dropped="expired"),
        life(4, streams=("cam3",), at=NOON + 2 * minute, dropped="expired"),
        [lost("cam3", "late", 99, at=NOON + 30 * SECOND), lost("cam4", "late", 5, at=NOON + 30 * SECOND)],
    )
    asked = found(path, "stream = cam3 and time between 2026-11-30T12:00Z and 2026-11-30T12:01Z")
    assert [life.sequence for life in asked.hyperframes] == [1, 2]
    assert asked.outcomes == {("delivered", ""): 8, ("dropped", "queue_full"): 8, ("dropped", "late"): 1}
    dropped = found(
        path, "stream = cam3 and outcome = dropped and time between 2026-11-30T12:00Z and 2026-11-30T12:01Z"
    )
    assert [life.reason for life in dropped.hyperframes] == ["queue_full"]


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("outcome = dropped", [1]),
        ("outcome != dropped", [0, 2]),
        ("outcome = open", [3]),
        ("reason in (expired, queue_full)", [1]),
        ("not outcome = delivered", [1, 3]),
        ("latency > 30ms", [2]),
        ("latency between 0.01s and 25ms", [0, 1]),
        ("frame = 17", [2]),
        ("frames >= 8 and sequence < 2", [0, 1]),
        ("error ~ 'memory'", [2]),
        ("(sequence = 0 or sequence = 3) and stream = cam0", [0, 3]),
        ("kind = temporal and epoch = 0 and run = 1", [0, 1, 2, 3]),
        ("duration = 5ms", [0, 2]),
        ("seal_reason = 'full' AND NOT reason = expired", [0, 2, 3]),
    ],
)
def test_conditions_find_what_they_say(path, where, wanted):
    slow = life(2, latency_ms=40, first_id=16)
    slow[-2]["error"] = "out of memory"
    written(path, life(0), life(1, dropped="expired", first_id=8), slow, [sealed(3, first_id=24)])
    if where == "outcome != dropped":
        wanted = [0, 2, 3]
    assert [life.sequence for life in found(path, where).hyperframes] == wanted


def test_the_newest_are_shown_and_all_are_counted(path):
    written(path, *(life(i) for i in range(20)))
    asked = found(path, limit=3)
    assert [life.sequence for life in asked.hyperframes] == [17, 18, 19]
    assert (asked.num_hyperframes, asked.outcomes) == (20, {("delivered", ""): 160})


# What is no journal of ours -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wal", [False, True])
def test_another_programs_database_is_refused_without_a_byte_of_it_changing(tmp_path, wal):
    path = tmp_path / "history.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as foreign:
        foreign.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
        foreign.execute("CREATE TABLE visits (url TEXT)")
        foreign.commit()
    before = path.read_bytes()
    with pytest.raises(SinkError, match="it is another kind of database") as refused:
        LiveJournal(path)
    assert refused.value.hint == "Name another file, or move this one away."
    with pytest.raises(SourceError, match="it is no journal"):
        JournalReader(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["history.sqlite"]


def test_a_file_that_is_no_database_is_refused_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing to see here\n" * 100)
    before = path.read_bytes()
    with pytest.raises(SinkError, match="not a database"):
        LiveJournal(path)
    assert path.read_bytes() == before


def test_a_journal_of_which_a_full_disk_wrote_the_first_page_only_is_whole_with_its_log(tmp_path):
    whole, cut = tmp_path / "whole.journal", tmp_path / "cut.journal"
    with LiveJournal(whole) as journal:
        journal.observe({"kind": "stream", "stream": "c", "state": "added", "unix_ns": NOON})
        deadline = time.monotonic() + 10
        while not journal.num_written and time.monotonic() < deadline:
            time.sleep(0.01)
        for suffix in ("", "-wal"):  # as a kill leaves it
            shutil.copy(f"{whole}{suffix}", f"{cut}{suffix}")
    with cut.open("r+b") as file:
        file.write(whole.read_bytes()[:4096])
        file.truncate(4096)
    with LiveJournal(cut):
        pass
    with JournalReader(cut) as reader:
        assert [state["state"] for state in reader.states()] == ["added"]


def test_a_journal_that_another_run_writes_is_refused(tmp_path):
    with LiveJournal(tmp_path / "live.journal"), pytest.raises(SinkError, match="another run is writing the journal"):
        LiveJournal(tmp_path / "live.journal")


# When it cannot write ---------------------------------------------------------------------------------------------------


def fill_disk(journal):
    """Let the file not grow any more."""
    pages = journal._journal._db.execute("PRAGMA page_count").fetchone()[0]
    journal._journal._db.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_is_told_and_the_run_goes_on_and_what_is_missing_is_written_down_later(path):
    """SQLite's own limit stands for the disk's: it fails in the same way."""
    with LiveJournal(path, max_waiting=50) as journal:
        journal._closing.set()  # written by hand from here on
        journal._thread.join()
        journal.observe({"kind": "began", "run": "r", "settings": {}, "unix_ns": NOON})
        fill_disk(journal)
        for i in range(40):
            for observation in life(i, streams=tuple(f"camera-{n}" for n in range(300)), kind="spatial"):
                journal.observe(observation)
            journal._write()
        assert "disk full" in journal.failing
        assert journal.num_lost > 0
        assert len(journal._waiting) + journal._batch.size <= 100
        assert any("is not being written: " in warning for warning in journal.warnings)
        journal._journal._db.execute("PRAGMA max_page_count = 100000")
        for _ in range(5):
            journal._write()
        assert journal.failing == ""
        assert journal.stats()["waiting"] == 0
    with JournalReader(path) as reader:
        (run,) = reader.runs()
        assert run.unwritten == journal.num_lost
        assert reader.find().num_hyperframes > 0


def test_observing_never_waits_for_the_disk(path):
    journal = LiveJournal(path, max_waiting=100)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    for i in range(1000):
        for observation in life(i):
            journal.observe(observation)
    assert time.monotonic() - began < 1
    blocker.execute("ROLLBACK")
    blocker.close()
    journal.close()
    assert journal.num_lost >= 5000 - 300


# Retention --------------------------------------------------------------------------------------------------------------


def test_only_the_newest_hyperframes_are_kept(path):
    written(path, *(life(i) for i in range(100)), [lost("cam0", "late", 1, at=NOON - SECOND)])
    journal = Journal(path, shared=True)
    while journal.retain(rows=30, nbytes=None, before_ns=None, at_most=20):
        pass
    journal.close()
    assert [life.sequence for life in found(path).hyperframes] == list(range(70, 100))
    assert found(path).losses == []


def test_what_is_too_old_goes_but_the_last_number_stays(path):
    written(path, *(life(i, at=NOON + i * SECOND) for i in range(50)))
    journal = Journal(path, shared=True)
    while journal.retain(rows=None, nbytes=None, before_ns=NOON + 40 * SECOND):
        pass
    assert found(path).hyperframes[0].sequence == 40
    while journal.retain(rows=None, nbytes=None, before_ns=NOON + 1000 * SECOND):
        pass
    journal.close()
    assert [life.sequence for life in found(path).hyperframes] == [49]
    with LiveJournal(path) as again:
        assert again.next_sequence == 50


def test_a_file_over_its_bytes_loses_its_oldest_tenth(path):
    written(path, *(life(i) for i in range(500)))
    journal = Journal(path, shared=True)
    journal.retain(rows=None, nbytes=10_000, before_ns=None)
    journal.close()
    assert found(path).hyperframes[0].sequence == 49


@pytest.mark.parametrize("name", ["hyperframes", "nbytes", "seconds"])
def test_a_retention_of_nothing_is_refused(name):
    with pytest.raises(ValueError, match=f"retention.{name}: expected more than 0, got 0"):
        Retention(**{name: 0})


# A real kill ------------------------------------------------------------------------------------------------------------

_VICTIM = """
import sys, time
from pathlib import Path
from hyperframes.drivers.live_journal import LiveJournal
from tests.drivers.live_observations import life, sealed, NOON
journal = LiveJournal(Path(sys.argv[1]))
journal.observe({"kind": "began", "run": "victim", "settings": {}, "unix_ns": NOON})
for i in range(100_000_000):
    for observation in life(i) if i % 2 else [sealed(i)]:
        journal.observe(observation)
    if i % 50 == 0:
        time.sleep(0.001)
    if journal.num_written > 2000 and i % 50 == 0:
        print("going", flush=True)
"""


@pytest.mark.slow
@pytest.mark.requirement("B91")
def test_a_run_that_is_killed_leaves_a_whole_journal(path):
    root = Path(__file__).parents[2]
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(path)],
        cwd=root,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert victim.stdout.readline() == b"going\n"
    time.sleep(0.05)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    with JournalReader(path) as reader:
        everything = reader.find()
        (run,) = reader.runs()
        assert (run.id, run.outcome, run.ended_ns) == ("victim", "", None)
        assert [life.sequence for life in everything.hyperframes] == list(range(len(everything.hyperframes)))
        assert [life.sequence for life in reader.unfinished()][:5] == [0, 2, 4, 6, 8]
        assert reader._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with LiveJournal(path) as again:
        assert again.next_sequence == len(everything.hyperframes)


# What it refuses --------------------------------------------------------------------------------------------------------


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("no journal at all, and long enough to be read as one" * 20)
    with pytest.raises(SourceError, match="cannot read the journal"):
        JournalReader(tmp_path / "a.txt")
    with pytest.raises(SourceError, match="no such file") as caught:
        JournalReader(tmp_path / "none")
    assert "live --journal" in caught.value.hint
    sqlite3.connect(tmp_path / "other").executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    with pytest.raises(SourceError, match="it is no journal"):
        JournalReader(tmp_path / "other")
    with pytest.raises(SinkError, match="another kind of database"):
        LiveJournal(tmp_path / "other")


def test_hyperframes_whose_seal_is_missing_are_left_aside(path):
    written(path, [then(sealed(5), "delivered")], life(6))
    assert [life.sequence for life in found(path).hyperframes] == [6]


def test_it_takes_what_a_json_reader_takes(path):
    written(path, life(0))
    with JournalReader(path) as reader:
        assert json.loads(json.dumps([life_to_json(life) for life in reader.find().hyperframes]))[0]["epoch"] == 0
