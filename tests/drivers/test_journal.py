"""The journal's file, and values as bytes."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays

from hyperframes.drivers.journal import Journal, Life, LockedJournalError, Safe, journal_beside, packed, unpacked
from hyperframes.errors import SinkError

DTYPES = st.sampled_from(["u1", "<i8", ">f4", "f8", "c16", "?", "U5"])
ARRAYS = arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.complex_numbers(), st.just(np.float32(0.1))
)


@pytest.mark.slow
@given(values=st.dictionaries(st.text(), st.one_of(ARRAYS, SCALARS), max_size=6))
def test_values_come_back_from_bytes_with_type_and_every_bit(values):
    found = unpacked(packed(values))
    assert list(found) == list(values)
    for key, value in values.items():
        assert type(found[key]) is type(value)
        if isinstance(value, np.ndarray | np.generic):
            assert found[key].dtype == value.dtype
            assert found[key].shape == value.shape
            assert found[key].tobytes() == value.tobytes()
        else:
            assert repr(found[key]) == repr(value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1], "'k' is a list: expected an array, a number or a text"),
        ({}, "'k' is a dict: expected an array, a number or a text"),
        (np.array([None]), "'k' is an array of objects: expected numbers"),
    ],
)
def test_what_is_no_number_is_not_packed(value, said):
    with pytest.raises(TypeError, match=said):
        packed({"k": value})


@pytest.mark.parametrize("data", [b"", b"[", b'[["a", "array", null]]\n\x93NUMPY', packed({"a": np.arange(9)})[:-3]])
def test_bytes_that_were_cut_off_are_not_taken_for_values(data):
    with pytest.raises(ValueError, match=r".+"):
        unpacked(data)


def lives(*stops, **fields):
    return [Life(stop // 4, f"h{stop}", start=stop - 4, stop=stop, outcome="delivered", frames_out=stop, filtered=0, **fields)
            for stop in stops]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return journal_beside(tmp_path / "out.npy")


def test_what_was_written_is_there_when_the_file_is_opened_again(path):
    journal = Journal(path)
    run = journal.begin("run", "offline", 4, {"source": "a"})
    state = packed({"seen": 3})
    journal.write(run, lives(4, 8), {"out": Safe(8, None, {"bytes": 7, "pts": np.arange(3)})}, (8, state))
    journal.close()
    journal = Journal(path)
    assert journal.last_run() == (4, {"source": "a"}, None, "")
    safe = journal.outputs()["out"]
    assert (safe.frame, safe.wanted, safe.token["bytes"], safe.token["pts"].tolist()) == (8, None, 7, [0, 1, 2])
    assert journal.lives() == lives(4, 8)
    assert journal.reached(7) == lives(4)[0]
    assert journal.reached(3) is None
    assert journal.snapshot(9) == (8, {"seen": 3})
    assert journal.snapshot(7) is None
    journal.remove()
    assert list(path.parent.iterdir()) == []


def test_large_states_are_kept_in_pieces(path, monkeypatch):
    monkeypatch.setattr("hyperframes.drivers.journal._PIECE_BYTES", 1000)
    journal = Journal(path)
    run = journal.begin("run", "offline", 4, {})
    values = {"model": np.arange(1000)}
    journal.write(run, lives(4), {}, (4, packed(values)))
    found = journal.snapshot(4)
    assert found is not None
    assert found[1]["model"].tolist() == values["model"].tolist()
    journal.close()


def test_what_resume_needs_and_what_failed_outlives_the_rest(path, monkeypatch):
    monkeypatch.setattr("hyperframes.drivers.journal.KEPT_LIVES", 2)
    journal = Journal(path)
    run = journal.begin("run", "offline", 4, {})
    failed = lives(12, reason="failed", error="the lamp is off")[0]
    failed.outcome = "dropped"
    journal.write(run, [*lives(4, 8), failed, *lives(16, 20, 24, 28, 32, 36, 40)], {}, (20, packed({})), needed_from=26)
    assert [life.stop for life in journal.lives()] == [12, 20, 24, 28, 32, 36, 40]
    journal.write(run, lives(44), {}, (40, packed({})), needed_from=42)
    assert [life.stop for life in journal.lives()] == [12, 40, 44]
    assert journal.snapshot(39) is None
    journal.close()


def test_a_write_that_fails_leaves_what_was_there(path):
    journal = Journal(path)
    run = journal.begin("run", "offline", 4, {})
    journal.write(run, lives(4), {"out": Safe(4, None, {})})
    journal._db.execute("PRAGMA max_page_count = 1")
    with pytest.raises(SinkError, match=f"cannot write the journal {path}: disk full") as caught:
        journal.write(run, lives(8), {"out": Safe(8, None, {})}, (8, bytes(1 << 20)))
    assert caught.value.hint == "Free some space, and check that its folder may be written to."
    assert journal.outputs()["out"].frame == 4
    assert [life.stop for life in journal.lives()] == [4]
    journal.close()


def test_a_journal_that_is_open_is_locked(path, monkeypatch):
    journal = Journal(path)
    monkeypatch.setattr("hyperframes.drivers.journal._BUSY_SECONDS", 0.01)
    with pytest.raises(
        LockedJournalError, match=r"another run is writing the same output: its journal .* is locked"
    ) as caught:
        Journal(path)
    assert caught.value.hint == "Wait for it, stop it, or write to another name."
    journal.close()


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(SinkError, match=r"cannot write the journal .*: unable to open database file"):
        Journal(tmp_path / "nowhere" / ".out.journal")
