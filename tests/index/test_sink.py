"""The sink for `.lance`: tables of a run's results, searched by vector; datasets of descriptors are never replaced."""

import lancedb
import numpy as np
import pytest
from tests.index.library import spans

import hyperframes as hf
from hyperframes.errors import SinkError
from hyperframes.index import sink

RAMP = np.arange(40 * 4 * 6, dtype=np.int64).reshape(40, 4, 6).astype(np.uint8)


def means(path):
    return lancedb.connect(path.parent).open_table(path.stem).search().to_arrow().sort_by("row")


def test_a_run_writes_rows_and_a_second_one_replaces_them(tmp_path):
    for frames in (RAMP, RAMP[:10]):
        hf.run(frames, ["measure"], to=tmp_path / "out.lance", size=7)
        table = means(tmp_path / "out.lance")
        assert table["frame"].to_pylist() == list(range(len(frames)))
        assert table["row"].to_pylist() == list(range(len(frames)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.lance"]


def test_many_rows_are_several_fragments_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(sink, "_GROUP_ROWS", 16)
    hf.run(RAMP, ["measure"], to=tmp_path / "out.lance", size=5)
    assert means(tmp_path / "out.lance")["frame"].to_pylist() == list(range(40))
    assert len(list((tmp_path / "out.lance" / "data").iterdir())) == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_with_numbers_that_are_none_are_written_as_they_are(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(sink, "_GROUP_ROWS", 8)
    rows = np.arange(60, dtype=dtype).reshape(20, 3)
    rows[[2, 11], 1] = np.nan
    rows[3] = np.inf
    hf.run(rows, "every:n=1", to=tmp_path / "out.lance", size=5)
    table = means(tmp_path / "out.lance")
    assert table["row"].to_pylist() == list(range(20))
    np.testing.assert_array_equal(np.array(table["values"].to_pylist(), dtype), rows)


def test_what_is_no_table_of_its_own_is_not_replaced(tmp_path):
    hf.open_index(tmp_path / "library.lance").add(spans())
    with pytest.raises(SinkError, match=r"library.lance: it holds descriptors") as caught:
        hf.run(RAMP, ["measure"], to=tmp_path / "library.lance")
    assert "hyperframes describe" in caught.value.hint
    assert len(hf.open_index(tmp_path / "library.lance")) == 3
    (tmp_path / "other.lance").mkdir()
    (tmp_path / "other.lance" / "mine").write_text("")
    with pytest.raises(SinkError, match="the folder is not empty"):
        hf.run(RAMP, ["measure"], to=tmp_path / "other.lance")


def test_a_run_that_fails_leaves_nothing(tmp_path):
    @hf.operator
    def broken(frames):
        raise ValueError("broken")

    with pytest.raises(hf.HyperframesError):
        hf.run(RAMP, [broken, "measure"], to=tmp_path / "out.lance")
    assert not list(tmp_path.iterdir())
