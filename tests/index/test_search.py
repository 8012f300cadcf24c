"""Search: the exact one finds what a slow reference finds, and says what it cannot look for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.index.library import span, spans

import hyperframes as hf
from hyperframes.errors import FrameError, PipelineError, SourceError
from hyperframes.index import Position, search
from hyperframes.index.vectors import best, comparable

VALID = st.tuples(*[st.booleans()] * 4)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    index = hf.open_index(tmp_path_factory.mktemp("library") / "library.lance")
    index.add([*spans("a.mp4", 20), *spans("b.mp4", 20), span("c.mp4", parts=(True, False, False, True))])
    return index


def cosine(a, b):
    """How alike two features are, part by part, in plain Python."""
    unit = []
    for features in (a, b):
        parts = [features[k : k + 128].astype(float) for k in range(0, 512, 128)]
        parts = [part / np.sqrt((part**2).sum()) if part.any() else part for part in parts]
        whole = np.concatenate(parts)
        unit.append(whole / np.sqrt((whole**2).sum()) if whole.any() else whole)
    return float((unit[0] * unit[1]).sum())


# Vectors


@given(st.integers(0, 2**32 - 1), VALID, VALID, st.floats(1e-3, 1e3))
def test_comparable_vectors_have_the_mean_cosine_of_their_parts(seed, ours, theirs, scale):
    a, b = span(parts=ours, seed=seed).semantic_features, span(parts=theirs, seed=seed + 1).semantic_features
    x, y = comparable(np.stack([a, b * np.float32(scale)]))
    assert x.dtype == np.float32
    assert x @ y == pytest.approx(cosine(a, b), abs=1e-6)
    assert x @ x == pytest.approx(float(any(ours)), abs=1e-6)


@given(
    vectors=arrays.arrays(np.float32, st.tuples(st.integers(1, 40), st.just(3)), elements=st.integers(-2, 2)),
    queries=arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.just(3)), elements=st.integers(-2, 2)),
    top=st.integers(1, 50),
    block=st.sampled_from([4, 64, 1 << 20]),
    data=st.data(),
)
def test_the_scan_finds_what_sorting_finds(vectors, queries, top, block, data):
    """Whole numbers, so that sums are exact and many scores are equal: then the lower row comes first."""
    allowed = data.draw(st.none() | arrays.arrays(bool, len(vectors)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hyperframes.index.vectors._BLOCK_BYTES", block)
        rows, scores = best(vectors, queries, top, allowed)
    may = [k for k in range(len(vectors)) if allowed is None or allowed[k]]
    for query, found, how in zip(queries, rows, scores, strict=True):
        expected = sorted(may, key=lambda k: (-float(vectors[k] @ query), k))[:top]
        assert found.tolist() == expected
        assert how.tolist() == [float(vectors[k] @ query) for k in expected]


# Asking


@pytest.mark.parametrize("where", [None, "source = 'b.mp4' and start_seconds >= 10", "source = 'none.mp4'"])
def test_search_equals_comparing_with_every_descriptor(library, where):
    features = span("query").semantic_features
    hits = library.search(like=features, top=7, where=where)
    scored = [(cosine(features, d.semantic_features), d) for d in library.descriptors(where)]
    expected = sorted(scored, key=lambda pair: -pair[0])[:7]
    assert [hit.descriptor_id for hit in hits] == [d.descriptor_id for _, d in expected]
    for hit, (score, descriptor) in zip(hits, expected, strict=True):
        assert hit.score == pytest.approx(score, abs=1e-5)
        assert hit[:3] == (descriptor.source, *descriptor.seconds)


def test_a_descriptor_a_vector_and_a_position_ask_the_same(library):
    wanted = span("a.mp4", 3)
    hits = library.search(like=wanted, top=3)
    assert hits[0].descriptor_id == wanted.descriptor_id
    assert hits[0].score == pytest.approx(1, abs=1e-6)
    for like in (wanted.semantic_features, "a.mp4@7.99", "a.mp4@#150", Position("a.mp4", seconds=6.0)):
        assert library.search(like=like, top=3) == hits


def test_several_are_searched_as_one_by_one(library):
    queries = np.stack([span("query", number).semantic_features for number in range(5)])
    many = library.search_many(queries, top=4)
    for query, hits in zip(queries, many, strict=True):
        alone = library.search(like=query, top=4)
        assert [h.descriptor_id for h in hits] == [h.descriptor_id for h in alone]


def test_what_is_added_and_deleted_is_seen_by_the_next_search(tmp_path):
    index, other = (hf.open_index(tmp_path / "library.lance") for _ in range(2))
    index.add(spans())
    assert index.search(like=span("b.mp4"), top=1)[0].source == "a.mp4"
    other.add(spans("b.mp4"))
    assert index.search(like=span("b.mp4"), top=1)[0].source == "b.mp4"
    other.delete("source = 'b.mp4'")
    assert {hit.source for hit in index.search(like=span("b.mp4"))} == {"a.mp4"}


def test_what_is_too_large_for_memory_is_asked_of_lancedb_and_answered_the_same(library, monkeypatch):
    where = "start_seconds > 5"
    exact = [library.search(like=span("query"), top=5, where=w) for w in (None, where)]
    monkeypatch.setattr(search, "IN_MEMORY_ROWS", 1)
    for w, expected in zip((None, where), exact, strict=True):
        hits = library.search(like=span("query"), top=5, where=w)
        assert [h.descriptor_id for h in hits] == [h.descriptor_id for h in expected]
        assert [h.score for h in hits] == pytest.approx([h.score for h in expected], abs=1e-5)


def test_what_cannot_be_looked_for_is_refused(library, tmp_path):
    with pytest.raises(PipelineError, match="top: expected 1 or more, got 0"):
        library.search(like="a.mp4@1", top=0)
    with pytest.raises(FrameError, match=r"expected \(512,\) numbers, got \(3,\) float64"):
        library.search(like=np.zeros(3))
    with pytest.raises(FrameError, match="has no features"):
        library.search(like=span(parts=(False,) * 4))
    with pytest.raises(FrameError, match="expected finite numbers"):
        library.search(like=np.full(512, np.nan))
    with pytest.raises(FrameError, match="was described with detector '2': expected '1'"):
        library.search(like=span(models={"detector": "2"}))
    with pytest.raises(PipelineError, match=r"where 'start_seconds ='.*makes no sense"):
        library.search(like="a.mp4@1", where="start_seconds =")
    with pytest.raises(SourceError, match="there is no dataset at"):
        hf.open_index(tmp_path / "none.lance").search(like=np.ones(512))


def test_a_position_that_was_not_described_is_said(library):
    with pytest.raises(SourceError, match=r"holds no descriptor at a.mp4@99: its 20 descriptors there do not reach it"):
        library.search(like="a.mp4@99")
    with pytest.raises(SourceError, match=r"z.mp4@1: nothing of this source is there"):
        library.search(like="z.mp4@1")
    for wrong in ("a.mp4", "a.mp4@", "a.mp4@x", "@3", "a.mp4@-1"):
        with pytest.raises(PipelineError, match="expected SOURCE@SECONDS or SOURCE@#FRAME"):
            library.search(like=wrong)
