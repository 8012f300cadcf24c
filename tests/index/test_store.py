"""The dataset: nothing is lost, nothing is written twice, nothing half, and what does not fit is refused."""

import datetime
import re
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.index.library import span, spans
from tests.semantic.descriptors import descriptors

import hyperframes as hf
from hyperframes.clock import ManualClock
from hyperframes.errors import FrameError, PipelineError, SinkError, SourceError
from hyperframes.index import Added, Store
from hyperframes.semantic import schema


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "library.lance")


def ids(many):
    return sorted(d.descriptor_id for d in many)


# Adding, replacing, deleting


@pytest.mark.slow
@given(many=st.lists(descriptors(), min_size=1, max_size=4, unique_by=lambda d: d.descriptor_id))
def test_what_is_added_comes_back_as_it_was(tmp_path_factory, many):
    store = Store(tmp_path_factory.mktemp("library") / "library.lance")
    same_models = [one for one in many if one.models == many[0].models]
    assert store.add(same_models) == Added(len(same_models), 0)
    by_id = {d.descriptor_id: d for d in store.descriptors()}
    assert by_id == {d.descriptor_id: d for d in same_models}


def test_what_is_there_is_not_written_again(store):
    assert store.add(spans()) == Added(3, 0)
    assert store.add([*spans(), span("b.mp4"), span("b.mp4")]) == Added(1, 4)
    assert len(store) == 4
    assert store.add([span(parameters="p2")]) == Added(1, 0)
    assert store.add([]) == Added(0, 0)


def test_replacing_leaves_nothing_old_of_the_same_sources_and_all_of_the_others(store):
    store.add([*spans(), *spans("b.mp4")])
    new = [span(content_hash="changed"), span(number=1)]
    assert store.replace(new) == Added(1, 1, 2)
    assert ids(store.descriptors()) == ids([*new, *spans("b.mp4")])
    assert store.replace(span("b.mp4")) == Added(0, 1, 2)
    assert store.replace([]) == Added(0, 0)


def test_deleting_takes_out_what_meets_the_condition(store):
    assert store.delete("static") == 0
    store.add([*spans(), *spans("it's.mp4")])
    assert store.delete("source = 'it''s.mp4' and start_seconds >= 2") == 2
    assert ids(store.descriptors()) == ids([*spans(), span("it's.mp4")])
    assert store.count("source like 'it%'") == store.count("not source = 'a.mp4'") == 1
    assert store.count() == len(store) == 4


def test_a_source_that_is_there_is_there_whole(store):
    assert not store.holds("hash of a.mp4", "p1")
    store.add(spans())
    assert store.holds("hash of a.mp4", "p1")
    assert store.holds("hash of a.mp4", "p1", stream="0")
    assert not store.holds("hash of a.mp4", "p1", stream="1")
    assert not store.holds("hash of a.mp4", "p2")


def test_what_was_committed_before_an_interruption_stays_and_the_rest_is_added_later(tmp_path):
    clock = ManualClock()
    store = Store(tmp_path / "library.lance", clock=clock)

    def described(*, interrupted):
        yield from spans()
        clock.advance(31)  # a source took half a minute: it is committed when the next begins
        yield span("b.mp4")
        if interrupted:
            raise KeyboardInterrupt
        yield span("b.mp4", 1)

    with pytest.raises(KeyboardInterrupt):
        store.add(described(interrupted=True))
    assert ids(store.descriptors()) == ids(spans())
    assert store.add(described(interrupted=False)) == Added(2, 3)


def test_every_change_is_a_version_that_can_be_opened(store, tmp_path):
    assert store.versions() == []
    assert store.version == 0
    store.add(spans())
    old = store.version
    store.add(spans("b.mp4"))
    then = Store(tmp_path / "library.lance", version=old)
    assert ids(then.descriptors()) == ids(spans())
    assert [v.num_descriptors for v in store.versions() if v.number >= old] == [3, 6]
    with pytest.raises(PipelineError, match=f"was opened at version {old}, which cannot change"):
        then.add(span())
    with pytest.raises(SourceError, match="has no version 99: expected one of 1 to"):
        Store(tmp_path / "library.lance", version=99).count()


def test_two_who_have_it_open_see_each_others_changes(store, tmp_path):
    other = Store(tmp_path / "library.lance")
    assert len(other) == 0
    store.add(spans())
    assert other.add([*spans(), span("b.mp4")]) == Added(1, 3)
    assert len(store) == 4


def test_compacting_keeps_every_descriptor_and_takes_away_old_versions(store):
    for number in range(4):
        store.add(span(number=number))
    before = len(store.versions())
    store.compact(keep=datetime.timedelta(milliseconds=1))
    assert ids(store.descriptors()) == ids(spans(count=4))
    assert len(store.versions()) < before


def test_the_repr_says_where_and_how_many(store):
    store.add(spans())
    assert re.fullmatch(r"Store\('.*library\.lance', 3 descriptors\)", repr(store))


# What is refused


def test_results_of_different_models_are_not_mixed(store):
    store.add(spans())
    with pytest.raises(FrameError, match=r"b.mp4 was described with detector '2': expected '1', as the rest of"):
        store.add(span("b.mp4", models={"detector": "2"}))
    text = {"text_vector": np.ones(384, np.float16)}
    store.add(span("b.mp4", text_model="encoder 1", **text))
    with pytest.raises(FrameError, match="the text encoder 'encoder 2': expected 'encoder 1'"):
        store.add([span("c.mp4"), span("d.mp4", text_model="encoder 2", **text)])
    assert len(store) == 4


def test_a_source_may_be_replaced_by_what_another_model_makes_of_it_when_it_is_the_only_one(store):
    store.add(spans())
    newer = spans(models={"detector": "2"})
    assert store.replace(newer) == Added(3, 0, 3)
    assert ids(store.descriptors()) == ids(newer)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("library", "a dataset of descriptors is a folder ending in .lance: got"),
        (".lance", "a dataset of descriptors is a folder ending in .lance: got"),
        ("my library.lance", "expected letters a to z, digits"),
        ("ümlaut.lance", "expected letters a to z, digits"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(tmp_path, name, message):
    with pytest.raises(SourceError, match=re.escape(message)) as raised:
        Store(f"{tmp_path}/{name}")
    example = raised.value.hint.removeprefix("For example: ").partition(";")[0]
    assert Store(f"{tmp_path}/my folder/{example}").name.endswith(example)


def test_what_an_interrupted_creation_left_is_no_dataset_and_stands_in_nobodys_way(tmp_path):
    for folder in ("_transactions", "_versions"):
        (tmp_path / "library.lance" / folder).mkdir(parents=True)
    (tmp_path / "library.lance" / "_transactions" / "0-a.txn").write_bytes(b"begun")
    store = Store(tmp_path / "library.lance")
    assert len(store) == 0
    assert store.add(spans()) == Added(3, 0)


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    Store(tmp_path / "new.lance").check_writable()
    Store("s3://bucket/new.lance", storage_options={"region": "x"})  # nobody can know there without writing
    with pytest.raises(SinkError, match="missing' does not exist"):
        Store(tmp_path / "missing" / "library.lance").check_writable()
    (tmp_path / "garbage.lance" / "_versions").mkdir(parents=True)
    (tmp_path / "garbage.lance" / "_versions" / "1.manifest").write_bytes(b"garbage")
    with pytest.raises(SourceError, match=r"cannot read .*garbage.lance: does not have sufficient data") as raised:
        Store(tmp_path / "garbage.lance").check_writable()
    assert "describe the sources again into another dataset" in raised.value.hint
    Store(tmp_path / "library.lance").add(span())
    monkeypatch.setattr("os.access", lambda path, _mode: path == str(tmp_path))
    Store(tmp_path / "new.lance").check_writable()
    with pytest.raises(SinkError, match=r"cannot write .*library.lance: permission denied"):
        Store(tmp_path / "library.lance").check_writable()


def test_what_is_something_else_is_not_touched(tmp_path):
    (tmp_path / "file.lance").write_text("mine")
    (tmp_path / "folder.lance").mkdir()
    (tmp_path / "folder.lance" / "notes.txt").write_text("mine")
    lancedb.connect(tmp_path).create_table("other", pa.table({"a": [1]}))
    for name, why in [("file", "it is a file"), ("folder", "it holds no LanceDB table"), ("other", "is another one")]:
        with pytest.raises(SourceError, match=f"{name}.lance is no dataset of descriptors: .*{why}"):
            Store(tmp_path / f"{name}.lance").add(span())
    assert (tmp_path / "file.lance").read_text() == "mine"


def test_a_dataset_of_another_schema_version_is_refused(tmp_path):
    newer = schema().with_metadata({"hyperframes.descriptor": "99", "hyperframes.index": "1"})
    lancedb.connect(tmp_path).create_table("library", schema=newer)
    with pytest.raises(SourceError, match=r"is of version 99 of hyperframes.descriptor: expected 2") as raised:
        Store(tmp_path / "library.lance").count()
    assert "Describe the sources again" in raised.value.hint


def test_what_is_not_there_is_said_where_it_is_read(store, tmp_path):
    with pytest.raises(SourceError, match="there is no dataset at") as raised:
        store.descriptors()
    assert "hyperframes describe SOURCE --to DATASET" in raised.value.hint
    with pytest.raises(SinkError, match="missing' does not exist"):
        Store(tmp_path / "missing" / "library.lance").add(span())
    assert not (tmp_path / "missing").exists()


def test_credentials_are_not_shown():
    assert hf.open_index("s3://key:secret@bucket/library.lance").name == "s3://***@bucket/library.lance"


# Disks that fail


@contextmanager
def small_files(limit):
    """No file may grow beyond `limit` bytes: the same error path as a full disk, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_leaves_the_dataset_as_it_was(store):
    store.add(spans())
    with small_files(20_000), pytest.raises(SinkError, match=r"cannot write .*library.lance: file too large") as raised:
        store.add(spans("b.mp4", 40))
    assert "what was there before is unharmed" in raised.value.hint
    assert ids(store.descriptors()) == ids(spans())
    assert store.add(spans("b.mp4", 40)) == Added(40, 0)


KILLED = """
import os, sys
from tests.index.library import spans
from hyperframes.index import Store
store = Store(sys.argv[1])
while True:
    for number in range(1000):
        store.add(spans(f"{number}.mp4"))
        print(number, flush=True)
"""


WRITER = """
import sys
from tests.index.library import spans
from hyperframes.index import Store
store = Store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    store.add(spans(f"{number}.mp4"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("made", [True, False], ids=["into one that is there", "into one that none has made"])
def test_of_writers_at_once_that_add_the_same_nothing_is_written_twice_or_lost(tmp_path, made):
    path = tmp_path / "library.lance"
    if made:
        Store(path).add(span("first.mp4"))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path)], **pipes) for _ in range(2)]
    for writer in writers:
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    expected = [d for number in range(10) for d in spans(f"{number}.mp4")] + ([span("first.mp4")] if made else [])
    assert ids(Store(path).descriptors()) == ids(expected)


@pytest.mark.slow
def test_a_killed_add_leaves_whole_sources_and_is_finished_by_the_next(tmp_path):
    path = tmp_path / "library.lance"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if int(line) == 4:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store = Store(path)
    there = {d.source for d in store.descriptors()}
    assert len(store) == 3 * len(there) >= 15
    everything = [d for number in range(20) for d in spans(f"{number}.mp4")]
    before = store.count("source in ({})".format(", ".join(f"'{number}.mp4'" for number in range(20))))
    assert store.add(everything) == Added(60 - before, before)
    assert ids(store.descriptors("source in ('0.mp4', '19.mp4')")) == ids([*spans("0.mp4"), *spans("19.mp4")])
