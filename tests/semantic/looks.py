"""Runs the stages of features over made footage."""

import numpy as np

import hyperframes as hf
from hyperframes.operators.activity import Activity
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.semantic.features import Change, Features, Motion
from hyperframes.sinks import MemorySink


def stages(motion=None, detections=()):
    return [
        Stage("activity", Activity(side=64)),
        Stage("motion", motion or Motion(), ("activity.measures", "activity.luma")),
        Stage("features", Features(), ("motion.flow", "motion.count", "motion.luma", *detections)),
        Stage("change", Change(), ("features.parts", "features.valid", "features.regions", "motion.cut")),
    ]


def looked(frames, size=16, motion=None):
    """Return by name what comes out for (T, H, W) grey frames: features, valid, regions, cut."""
    sinks = {name: MemorySink() for name in ("change.features", "change.valid", "change.regions", "motion.cut")}
    hf.run(Pipeline.of(np.asarray(frames), stages(motion), dict(sinks), size=size))
    return {name.partition(".")[2]: np.array(sink.result.data) for name, sink in sinks.items()}
