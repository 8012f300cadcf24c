"""The vector index of large datasets: made when there is enough, with its tail, and compared with an exact search."""

import numpy as np
import pytest
from tests.index.library import span

import hyperframes as hf
from hyperframes.clock import ManualClock
from hyperframes.errors import SourceError
from hyperframes.index import Coverage, search


def crowd(count, first=0):
    """Spans about 20 centres."""
    made = []
    for number in range(first, first + count):
        random = np.random.default_rng(number)
        centre = np.random.default_rng(number % 20).random(512, np.float32)
        made.append(span(f"{number % 7}.mp4", number, semantic_features=centre + 0.3 * random.random(512, np.float32)))
    return made


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "library.lance"
    hf.open_index(path).add(crowd(1500))
    return path


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(search, "IN_MEMORY_ROWS", 1000)


def test_a_small_dataset_is_searched_exactly_and_gets_no_index(library):
    index = hf.open_index(library)
    assert index.coverage() == index.optimize() == Coverage("exact", 1500, 0, 1500)
    assert index.check_recall(num_queries=20).recall == 1


@pytest.mark.slow
def test_a_large_dataset_gets_an_index_and_what_comes_later_is_found_too(library, small_memory):
    index = hf.open_index(library)
    assert index.coverage() == Coverage("scan", 1500, 0, 1500)
    assert index.optimize() == Coverage("index", 1500, 1500, 0)
    assert (
        index._need().index_stats("vector_idx").distance_type == "cosine"
    )  # what searches ask by; else it is not used
    told = index.check_recall(num_queries=50)
    assert (told.top, told.num_queries) == (10, 50)
    assert told.recall > 0.95
    later = crowd(5, first=5000)
    index.add(later)
    assert index.coverage() == Coverage("index", 1505, 1500, 5)
    assert [index.search(like=d, top=1)[0].descriptor_id for d in later] == [d.descriptor_id for d in later]
    where = "source = '3.mp4'"
    hits = index.search(like=later[0], top=10, where=where)
    assert {hit.source for hit in hits} == {"3.mp4"}
    assert len(hits) == 10
    features = np.stack([d.semantic_features for d in [*later, *crowd(3)]])
    for condition in (None, where):
        many = index.search_many(features, top=5, where=condition)
        assert many == [index.search_many(one[None], top=5, where=condition)[0] for one in features]
        assert [len(hits) for hits in many] == [5] * len(features)
    assert index.optimize() == Coverage("index", 1505, 1505, 0)


@pytest.mark.slow
def test_an_index_of_another_kind_is_made_anew(tmp_path, small_memory):
    from lancedb.index import IvfPq

    index = hf.open_index(tmp_path / "library.lance")
    index.add(crowd(1100))
    index._need().create_index("vector", config=IvfPq(distance_type="cosine", num_partitions=2), name="vector_idx")
    assert index.coverage().kind == "index"
    index.optimize()
    assert index._need().index_stats("vector_idx").index_type == "IVF_RQ"


def test_recall_is_what_a_worse_search_finds(library, monkeypatch):
    index = search.Index(library, clock=ManualClock())
    plain = index._near
    monkeypatch.setattr(index, "_near", lambda query, top: plain(query, top)[: top - 5])
    assert index.check_recall(num_queries=10).recall == pytest.approx(0.5)


def test_nothing_cannot_be_checked(tmp_path):
    with pytest.raises(SourceError, match="there is no dataset"):
        hf.open_index(tmp_path / "none.lance").coverage()
