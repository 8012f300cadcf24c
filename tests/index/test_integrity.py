"""Damaged files: what can be told is told, and nothing else than an error comes of them."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from tests.index.library import span, spans

import hyperframes as hf
from hyperframes.errors import HyperframesError, SourceError
from hyperframes.index import Store, find_damaged
from hyperframes.index.store import _stored


def changed(table, column, values):
    return table.set_column(table.schema.get_field_index(column), table.schema.field(column), values)


def test_what_was_written_is_not_damaged(tmp_path):
    index = hf.open_index(tmp_path / "library.lance")
    index.add([*spans(), span("b.mp4", parts=(False, True, True, False)), span("c.mp4", parts=(False,) * 4)])
    assert index.find_damaged() == []


def test_a_changed_number_of_the_features_of_the_vector_or_of_the_identity_is_told_with_its_row():
    table = _stored(spans())
    features = np.stack(table.column("semantic_features").to_pylist()).astype(np.float32)
    features[1, 300] += 1
    wrong = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), 512)
    told = find_damaged(changed(table, "semantic_features", wrong))
    assert told == ["a.mp4 2.0 to 4.0 s: its vector is not that of its features"]
    vectors = np.stack(table.column("vector").to_pylist()).astype(np.float32)
    vectors[2, 0] = np.nan
    wrong = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 512)
    assert find_damaged(changed(table, "vector", wrong)) == [
        "a.mp4 4.0 to 6.0 s: its vector is not that of its features"
    ]
    told = find_damaged(changed(table, "core_stop", pa.array([50, 101, 150])))
    assert told == ["a.mp4 2.0 to 4.0 s: its id is not that of its content"]
    told = find_damaged(changed(table, "core_stop", pa.array([50, 100, 0])))
    assert told[0].startswith("a.mp4 4.0 to 6.0 s: it is no valid descriptor: ")


@pytest.mark.slow
def test_damaged_files_give_errors_or_are_told(tmp_path):
    whole = tmp_path / "whole.lance"
    Store(whole).add(spans(count=12))
    random = np.random.default_rng(0)
    seen = 0
    for number in range(30):
        path = tmp_path / f"{number}.lance"
        shutil.copytree(whole, path)
        (file,) = (path / "data").iterdir()
        content = bytearray(file.read_bytes())
        at = int(random.integers(len(content) - 64))
        content[at : at + 64] = random.bytes(64)
        file.write_bytes(bytes(content))
        index = hf.open_index(path)
        try:
            seen += bool(index.find_damaged())
            index.search(like=span(number=3))
        except HyperframesError:
            seen += 1
    assert seen >= 10  # in the rest other valid numbers stand in the place of regions or anchors


def test_vectors_that_nobody_wrote_are_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr("hyperframes.index.store.comparable", lambda features: 1e20 * features)
    index = hf.open_index(tmp_path / "library.lance")
    index.add(spans())
    with pytest.raises(SourceError, match="is damaged: 3 of its 3 vectors are not of unit length") as raised:
        index.search(like=span())
    assert raised.value.hint.endswith("--verify' tells which.")


def test_a_dataset_that_goes_away_while_it_is_open_is_an_error_that_says_so(tmp_path):
    index = hf.open_index(tmp_path / "library.lance")
    index.add(spans())
    index.search(like=span())
    shutil.rmtree(tmp_path / "library.lance")
    with pytest.raises(SourceError, match=r"library\.lance"):
        index.search(like=span())
