"""Descriptors of every shape, for property tests, and rows of them written out by hand."""

import numpy as np
from hypothesis import strategies as st

from hyperframes.semantic import PARTS, Anchor, Descriptor, Looks, Trajectory

NAMES = st.text("abcö-/ .", max_size=6)
SECONDS = st.floats(-1e6, 1e6, allow_subnormal=False)
SHARE = st.floats(0, 1)


def _times(count):
    return st.lists(SECONDS, min_size=count, max_size=count, unique=True).map(sorted)


def _anchors():
    kinds = st.sampled_from(["motion", "cut", "fade", "flash", "start", "end"])
    place = st.none() | SHARE
    return st.lists(SECONDS, max_size=5, unique=True).flatmap(
        lambda times: st.tuples(*(st.builds(Anchor, st.just(t), SHARE, kinds, place, place) for t in sorted(times)))
    )


def _looks(random):
    return st.lists(SECONDS, max_size=4, unique=True).map(
        lambda times: Looks(np.array(sorted(times), float), random.normal(size=(len(times), 63)).astype(np.float16))
    )


@st.composite
def descriptors(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parts = draw(st.tuples(*[st.booleans()] * 4))
    features = random.normal(size=512).astype(np.float32)
    for where, valid in zip(PARTS.values(), parts, strict=True):
        features[where] *= valid
    tasks = draw(st.lists(st.sampled_from(["default", "find dry joints", "fall"]), max_size=3, unique=True))
    text = draw(st.booleans())
    lag = draw(st.none() | st.floats(-0.5, 0.5))
    start = draw(st.integers(0, 2**40))
    return Descriptor(
        source=draw(NAMES),
        content_hash=draw(NAMES),
        core=(start, start + draw(st.integers(0, 1000))),
        seconds=tuple(draw(_times(2))),
        parameters=draw(NAMES),
        stream=draw(NAMES),
        hyperframe=draw(NAMES),
        models=draw(st.dictionaries(NAMES, NAMES, max_size=2)),
        statistics=draw(st.sampled_from(["causal", "two-pass"])),
        anchors=draw(_anchors()),
        trajectories=tuple(
            Trajectory(*draw(_times(2)), random.normal(size=(2, 4)).astype(np.float32))
            for _ in range(draw(st.integers(0, 3)))
        ),
        regions={task: random.integers(0, 256, (64, 64), np.uint8) for task in tasks},
        spatial_kernels=random.normal(size=(3, 3, 3, 3)).astype(np.float32),
        semantic_features=features,
        feature_parts=parts,
        looks=draw(_looks(random)),
        tasks=dict.fromkeys(tasks, "1"),
        text_vector=random.normal(size=384).astype(np.float16) if text else None,
        text_model="encoder 1" if text else "",
        lag_seconds=lag,
        lag_confidence=0.0 if lag is None else draw(SHARE),
        static=draw(st.booleans()),
        cut=draw(st.booleans()),
        degraded=draw(st.booleans()),
    )


def row(d):
    """One row as plain Python values, column by column."""
    return {
        "descriptor_id": d.descriptor_id,
        "schema_version": 2,
        "source": d.source,
        "content_hash": d.content_hash,
        "stream": d.stream,
        "core_start": d.core[0],
        "core_stop": d.core[1],
        "start_seconds": d.seconds[0],
        "stop_seconds": d.seconds[1],
        "hyperframe": d.hyperframe,
        "parameters": d.parameters,
        "models": [{"name": name, "version": version} for name, version in sorted(d.models.items())],
        "statistics": d.statistics,
        "anchors": [{"seconds": a[0], "weight": a[1], "kind": a[2], "x": a[3], "y": a[4]} for a in d.anchors],
        "trajectories": [
            {"start_seconds": t[0], "stop_seconds": t[1], "coefficients": [float(v) for line in t[2] for v in line]}
            for t in d.trajectories
        ],
        "region_confidence": [int(v) for line in d.regions["default"] for v in line],
        "task_regions": [
            {"task": task, "confidence": bytes(int(v) for line in d.regions[task] for v in line)}
            for task in sorted(d.regions)
            if task != "default"
        ],
        "spatial_kernels": [float(v) for v in d.spatial_kernels.ravel()],
        "semantic_features": [float(v) for v in d.semantic_features],
        "feature_parts": list(d.feature_parts),
        "looks": [
            {"seconds": float(at), "values": [float(v) for v in values]} for at, values in zip(*d.looks, strict=True)
        ],
        "tasks": [{"name": name, "version": version} for name, version in sorted(d.tasks.items())],
        "text_vector": None if d.text_vector is None else [float(v) for v in d.text_vector],
        "text_model": d.text_model,
        "lag_seconds": d.lag_seconds,
        "lag_confidence": d.lag_confidence,
        "static": d.static,
        "cut": d.cut,
        "degraded": d.degraded,
    }
