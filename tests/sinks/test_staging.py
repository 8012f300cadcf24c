"""Output appears whole or not at all: full disks, folders that cannot be written, left-overs of killed runs."""

import csv
import os
import resource
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hyperframes.errors import SinkError
from hyperframes.frames import Clip, Field, FrameSpec, Records, RecordSpec
from hyperframes.sinks import open_sink, staging
from hyperframes.sinks.rows import whole_lines
from hyperframes.sinks.staging import FolderClaim, StagedFile, StagedFolder, partial_of, pieces_of, remove_pieces
from hyperframes.sinks.table import CsvSink
from hyperframes.testing.sinks import clip_like, target_for

PICTURES = FrameSpec.picture(64, 64, "rgb24")
PLANES = FrameSpec.picture(64, 64, "yuv420p")
ROWS = FrameSpec.array((64,), "f8")
FILES = [("out.npy", PICTURES), ("out.y4m", PLANES), ("out.parquet", ROWS), ("out.csv", ROWS), ("out.jsonl", ROWS)]
FOLDERS = [("out.zarr", PICTURES), ("out", PICTURES), ("frames/%d.tiff", PICTURES)]


@contextmanager
def small_files(limit):
    """No file may grow beyond `limit` bytes: the same error path as a full disk, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(sink, spec):
    """Write until the sink gives up."""
    sink.open(target_for(spec))
    fill_open(sink, spec)


def fill_open(sink, spec):
    for number in range(100):
        sink.write(clip_like(spec, 100, seed=number))
    sink.close()


@pytest.mark.parametrize(("name", "spec"), FILES + FOLDERS)
def test_a_sink_that_runs_out_of_room_says_so_and_leaves_nothing(tmp_path, name, spec):
    sink = open_sink(tmp_path / name)
    with (
        small_files(8000),
        pytest.raises(SinkError, match=r"cannot write .*: the file grows larger than is allowed") as caught,
    ):
        fill(sink, spec)
    sink.abort()
    assert "nothing incomplete was left behind" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full on this system")
@pytest.mark.parametrize(("name", "spec"), FILES)
def test_a_full_disk_is_called_so(tmp_path, name, spec):
    (tmp_path / f".{name}.part").symlink_to("/dev/full")
    sink = open_sink(tmp_path / name)
    with pytest.raises(SinkError, match=r"cannot write .*: disk full") as caught:
        fill(sink, spec)
    sink.abort()
    assert caught.value.hint.startswith("Free some space")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_at_the_last_byte_leaves_nothing(tmp_path, monkeypatch):
    sink = open_sink(tmp_path / "out.npy")
    sink.open(target_for(ROWS))
    sink.write(clip_like(ROWS, 3))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SinkError, match="disk full"):
        sink.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "spec"), [("out.npy", PICTURES), ("out.zarr", PICTURES), ("out.zarr", PLANES), ("out", PICTURES)]
)
def test_everything_is_on_the_disk_before_it_gets_its_name_and_the_name_before_the_run_ends(
    tmp_path, monkeypatch, name, spec
):
    """What a power cut leaves is what was given to the disk: files as they are, then names in folders, then the new name."""
    final, synced, renamed = tmp_path / name, {}, []
    fsync, replace, rename = os.fsync, Path.replace, Path.rename

    def noted(descriptor):
        facts = os.fstat(descriptor)
        fsync(descriptor)
        synced[facts.st_ino] = facts.st_mtime_ns

    def is_safe(path):
        return synced.get(path.stat().st_ino) == path.stat().st_mtime_ns

    def checked(move):
        def run(path, target):
            if Path(target) == final:
                assert [p for p in (path, *path.rglob("*")) if not is_safe(p)] == []
                renamed.append(path)
            return move(path, target)

        return run

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(staging, "_data_sync", noted)
    monkeypatch.setattr(staging, "_AHEAD_BYTES", 20_000)
    monkeypatch.setattr(Path, "replace", checked(replace))
    monkeypatch.setattr(Path, "rename", checked(rename))
    sink = open_sink(final)
    sink.open(target_for(spec))
    for number in range(5):
        sink.write(clip_like(spec, 3, seed=number))
    sink.close()
    assert len(renamed) == 1
    assert is_safe(tmp_path)


@pytest.mark.parametrize("name", ["out.npy", "out.zarr"])
def test_what_the_disk_refuses_while_frames_still_come_is_told_and_leaves_nothing(tmp_path, monkeypatch, name):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(staging, "_data_sync", full)
    monkeypatch.setattr(staging, "_AHEAD_BYTES", 20_000)
    sink = open_sink(tmp_path / name)
    sink.open(target_for(PICTURES))
    monkeypatch.setattr(staging, "sync", full)
    with pytest.raises(SinkError, match="disk full"):
        fill_open(sink, PICTURES)
    sink.abort()
    assert list(tmp_path.iterdir()) == []


@contextmanager
def somebody_else():
    """Be a user without rights, where tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("name", ["out.npy", "out.zarr", "out.csv", "out/%d.png"])
def test_a_folder_that_may_not_be_written_to_is_refused_before_anything_runs(name):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with somebody_else(), pytest.raises(SinkError, match=r"cannot write .*: no permission to write in") as caught:
            open_sink(f"{folder}/{name}")
        assert "permissions" in caught.value.hint
        with somebody_else(), pytest.raises(SinkError, match=r"cannot write .*: Permission denied"):
            StagedFile(Path(folder) / "x.npy")
        Path(folder).chmod(0o755)


def test_what_stood_there_is_replaced_only_by_what_is_whole(tmp_path):
    np.save(tmp_path / "out.npy", np.arange(3))
    (tmp_path / ".out.npy.part").write_bytes(b"left over by a run that was killed")
    sink = open_sink(tmp_path / "out.npy")
    sink.open(target_for(ROWS))
    sink.write(clip_like(ROWS, 2))
    assert np.load(tmp_path / "out.npy").tolist() == [0, 1, 2]
    sink.abort()
    assert np.load(tmp_path / "out.npy").tolist() == [0, 1, 2]
    sink.open(target_for(ROWS))
    sink.close()
    assert np.load(tmp_path / "out.npy").shape == (0, 64)


def test_a_zarr_folder_is_replaced_but_nobody_elses(tmp_path):
    for seed in (1, 2):
        sink = open_sink(tmp_path / "out.zarr")
        sink.open(target_for(ROWS))
        sink.write(clip_like(ROWS, 3, seed))
        sink.close()
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "thesis.txt").touch()
    with pytest.raises(SinkError, match=r"cannot write .*mine\.zarr: the folder is not empty") as caught:
        open_sink(tmp_path / "mine.zarr").open(target_for(ROWS))
    assert caught.value.hint == "Write to a new folder, or remove what is in it."
    assert (tmp_path / "mine.zarr" / "thesis.txt").exists()


def test_images_are_not_mixed_with_what_is_there(tmp_path):
    (tmp_path / "out").mkdir()
    sink = open_sink(tmp_path / "out")
    sink.open(target_for(PICTURES))
    sink.write(clip_like(PICTURES, 1))
    sink.close()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["000000.png"]
    with pytest.raises(SinkError, match="the folder is not empty"):
        open_sink(tmp_path / "out").open(target_for(PICTURES))


def test_a_file_where_a_folder_should_be_and_the_reverse_are_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match=r"cannot write .*: a file stands there"):
        StagedFolder(tmp_path / "file")
    with pytest.raises(SinkError, match=r"cannot write .*: a folder stands there"):
        StagedFile(tmp_path)


@pytest.mark.parametrize("name", ["out.npy", "out.zarr", "out.parquet", "out.csv", "out.jsonl", "out.y4m", "out"])
def test_writing_before_opening_is_an_error(tmp_path, name):
    sink = open_sink(tmp_path / name)
    with pytest.raises(SinkError, match="is not open for writing"):
        sink.write(clip_like(ROWS, 1) if name != "out.y4m" else clip_like(PLANES, 1))


def test_a_clip_whose_only_frame_failed_is_still_valid(tmp_path):
    clip = clip_like(PICTURES, 1)
    failed = Clip(clip.planes, clip.pts, clip.index, PICTURES, None, np.array([False]))
    for name, files in (("a.npy", None), ("b", [])):
        sink = open_sink(tmp_path / name)
        sink.open(target_for(PICTURES))
        sink.write(failed)
        sink.close()
        if files is None:
            assert not np.load(tmp_path / name).any()
        else:
            assert list((tmp_path / name).iterdir()) == files


def test_pieces_that_a_killed_run_left_go_and_those_of_another_run_stay(tmp_path):
    out = tmp_path / "out.npy"
    remove_pieces(out)
    claim = FolderClaim(pieces_of(out), out)
    (pieces_of(out) / "000000-1").mkdir()
    with pytest.raises(SinkError, match=r"out\.npy: another run is writing it"):
        remove_pieces(out)
    assert pieces_of(out).is_dir()
    claim.release()  # as its process's end does
    remove_pieces(out)
    assert list(tmp_path.iterdir()) == []


# Going on with lines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, (1 << 16) - 3, 200_000])
def test_lines_that_a_killed_run_left_are_gone_on_with_and_a_torn_one_is_cut_off(tmp_path, size):
    path = tmp_path / "out.jsonl"
    partial_of(path).write_bytes(b"a whole one\n" + b"x" * size)
    staged = StagedFile.continued(path, whole_lines)
    staged.write(b"another\n")
    staged.commit()
    assert path.read_bytes() == b"a whole one\nanother\n"
    assert [left.name for left in tmp_path.iterdir()] == ["out.jsonl"]


def test_what_stands_under_its_name_is_gone_on_with_and_keeps_it_where_nothing_is_added(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"a line\n")
    staged = StagedFile.continued(path, whole_lines)
    assert not path.exists()
    staged.discard(keep=True)
    assert path.read_bytes() == b"a line\n"
    staged = StagedFile.continued(path, whole_lines)
    staged.write(b"more\n")
    staged.discard(keep=True)
    assert partial_of(path).read_bytes() == b"a line\nmore\n"
    assert not path.exists()


def test_lines_that_are_kept_stay_on_a_full_disk_and_the_error_says_where(tmp_path):
    path = tmp_path / "out.jsonl"
    staged = StagedFile.continued(path, whole_lines)
    staged.write(b"a line\n" * 10)
    staged.flush()
    with small_files(100), pytest.raises(SinkError, match="cannot write") as caught:
        staged.write(b"x" * 100_000)
    assert str(partial_of(path)) in caught.value.hint
    assert partial_of(path).read_bytes().startswith(b"a line\n" * 10)


def test_rows_of_a_table_are_gone_on_with_at_the_last_whole_one_and_only_under_the_same_head(tmp_path):
    words = RecordSpec((Field("word", np.dtype("U16")),))

    def write(texts, spec=words, *, resumed=True):
        sink = CsvSink(tmp_path / "out.csv")
        sink.open_kept(target_for(spec, kind="records"), resumed=resumed)
        count = np.arange(len(texts))
        sink.write(Records({spec.fields[0].name: np.array(texts)}, count, count, spec))
        sink.flush()
        return sink

    write(["a", "b,\r\nstill b"], resumed=False).abort(keep_parts=True)
    part = partial_of(tmp_path / "out.csv")
    part.write_bytes(part.read_bytes() + b'2,2.0,"torn \r\n')
    with pytest.raises(SinkError, match="the killed run wrote other columns") as caught:
        write(["x"], RecordSpec((Field("other", np.dtype("U16")),)))
    assert "operators of that run" in caught.value.hint
    write(["c"]).close()
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row[-1] for row in csv.reader(file)] == ["word", "a", "b,\r\nstill b", "c"]
