"""Near duplicates: copies in other sources are paired, the rest is not."""

import numpy as np
import pytest
from tests.index.library import span, spans

import hyperframes as hf
from hyperframes.errors import PipelineError
from hyperframes.index import find_duplicates


def test_copies_in_other_sources_are_paired_once_the_most_alike_first(tmp_path):
    index = hf.open_index(tmp_path / "library.lance")
    noise = np.random.default_rng(1).random(512, np.float32)
    originals = spans("a.mp4", 4)
    features = originals[2].semantic_features
    index.add([*originals, span("b.mp4", 9, semantic_features=features + np.float32(0.1) * noise)])
    index.add([span("c.mp4", 1, semantic_features=2 * originals[0].semantic_features), span("a.mp4", 7, seed=5)])
    index.add(span("a.mp4", 8, seed=5))
    pairs = find_duplicates(index, threshold=0.95)
    assert [{pair.first.source, pair.second.source} for pair in pairs] == [{"a.mp4", "c.mp4"}, {"a.mp4", "b.mp4"}]
    assert pairs[0].score == pytest.approx(1, abs=1e-6)
    assert {pairs[1].first.start_seconds, pairs[1].second.start_seconds} == {4.0, 18.0}
    assert find_duplicates(index, threshold=0.95, where="source != 'c.mp4'") == pairs[1:]
    with pytest.raises(PipelineError, match="threshold: expected more than 0"):
        find_duplicates(index, threshold=0)
