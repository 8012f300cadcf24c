"""Descriptors for tests of the index: spans of a few sources, with features that differ."""

import numpy as np

from hyperframes.semantic import PARTS, Descriptor


def span(source="a.mp4", number=0, *, parts=(True,) * 4, seed=None, **fields):
    """Two seconds, fifty frames; the same arguments give the same descriptor."""
    random = np.random.default_rng([*source.encode(), number] if seed is None else seed)
    features = random.random(512, np.float32)
    for where, valid in zip(PARTS.values(), parts, strict=True):
        features[where] *= valid
    given = {
        "source": source,
        "content_hash": f"hash of {source}",
        "core": (50 * number, 50 * number + 50),
        "seconds": (2.0 * number, 2.0 * number + 2),
        "parameters": "p1",
        "models": {"detector": "1"},
        "semantic_features": features,
        "feature_parts": parts,
    }
    return Descriptor(**given | fields)


def spans(source="a.mp4", count=3, **fields):
    return [span(source, number, **fields) for number in range(count)]
