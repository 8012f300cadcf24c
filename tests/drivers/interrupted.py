"""Runs that take their time, so that they can be killed: ``python -m tests.drivers.interrupted CASE FOLDER [--resume]``."""

import sys
import time
from pathlib import Path

import numpy as np

import hyperframes as hf
from hyperframes.frames import Field, RecordSpec
from hyperframes.operators import Contract, Operator, Output, create
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.sinks.video import VideoSink

NUM_FRAMES, SIZE = 96, 4
PAUSE_SECONDS = 0.015


class Slow(Operator):
    """Passes frames through, and takes a while over each hyperframe."""

    name = "slow"

    def __init__(self, seconds=PAUSE_SECONDS):
        self.seconds = seconds

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),))

    def apply(self, inputs, outputs, state, prepared):
        time.sleep(self.seconds)
        for source, target in zip(inputs[0].core_planes, outputs[0].planes, strict=True):
            target[...] = source


class Trail(Operator):
    """Sequential: a mean that fades, with two frames before and one after; keeps arrays and numbers in its state."""

    name = "trail"

    def __init__(self, snapshot=True):
        self.snapshot = snapshot

    def configure(self, inputs):
        halo = hf.Halo(2, 1)
        return Contract((Output("frames", "frames", inputs[0]),), halo, dependency="sequential", snapshot=self.snapshot)

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        model = state["model"].copy() if state else given.core_planes[0][0].astype(np.float64)
        seen = state["seen"] if state else 0
        for t in range(len(view)):
            around = given.planes[0][t : t + 4].astype(np.float64).mean(axis=0)
            model = 0.9 * model + 0.1 * around
            view.planes[0][t] = np.clip(model + seen % 7, 0, 255).astype(view.planes[0].dtype)
            seen += 1
        return {"model": model, "seen": seen, "scale": np.float32(0.5)}


class Bright(Operator):
    """Records: none, one or two rows a frame, with a text."""

    name = "bright"

    def configure(self, inputs):
        fields = (
            Field("mean", np.dtype(np.float64)),
            Field("corner", np.dtype(np.uint8), (2,)),
            Field("word", np.dtype("U8")),
        )
        return Contract((Output("rows", "records", RecordSpec(fields, inputs[0].time_base)),))

    def apply(self, inputs, outputs, state, prepared):
        (given,), (view,) = inputs, outputs
        for t, frame in enumerate(given.core_data, given.header.core[0]):
            for row in range(t % 3):
                view.add(t, mean=frame.mean(), corner=frame.reshape(-1)[None, row : row + 2], word=f"w{t}")


class Moving(Operator):
    """Leaves out two frames of every five."""

    name = "moving"

    def configure(self, inputs):
        return Contract((Output("frames", "frames", inputs[0]),), selects=True)

    def apply(self, inputs, outputs, state, prepared):
        outputs[0].data[...] = inputs[0].core_data
        outputs[0].keep(np.arange(*inputs[0].header.core) % 5 > 1)


def video(path, **options):
    return VideoSink(path, part_frames=10, preset="ultrafast", **options)


CHAIN = [Slow(), "temporal_mean:radius=2"]


def _branches():
    """A sequential stage in the middle, records beside it."""
    return [
        Stage("slow", Slow()),
        Stage("trail", Trail(), ("slow",)),
        Stage("rows", Bright(), ("slow",)),
        Stage("mean", create("temporal_mean:radius=1"), ("trail",)),
    ]


CASES = {
    "npy": lambda at: (CHAIN, at / "out.npy", {}),
    "y4m": lambda at: (CHAIN, at / "out.y4m", {}),
    "zarr": lambda at: ([*CHAIN, Moving()], at / "out.zarr", {}),
    "planes": lambda at: ([*CHAIN, "convert:format=yuv420p"], at / "out.zarr", {"size": 5}),
    "images": lambda at: ([*CHAIN, Moving()], at / "out", {}),
    "jpegs": lambda at: (CHAIN, at / "pictures" / "f%04d.jpg", {}),
    "csv": lambda at: ([Slow(), Bright()], at / "out.csv", {}),
    "parquet": lambda at: ([Slow(), Bright()], at / "out.parquet", {}),
    "spans": lambda at: ([Slow(), "still_spans:threshold=30,min_frames=2"], at / "out.jsonl", {}),
    "video": lambda at: (CHAIN, video(at / "out.mp4"), {}),
    "selected": lambda at: ([*CHAIN, Moving()], video(at / "out.mkv"), {"range": (7, 91)}),
    "thinned": lambda at: ([*CHAIN, "every:n=3"], video(at / "out.mp4"), {"boundary": "reflect"}),
    "windows": lambda at: ([Slow(), "window_mean:length=7,hop=3"], at / "out.npy", {"range": (5, 90)}),
    "sequential": lambda at: (["temporal_mean:radius=2", Slow(), Trail(), "temporal_mean:radius=3"], at / "out.npy", {}),
    "model": lambda at: ([Slow(), "background", "temporal_mean:radius=1"], video(at / "out.mp4"), {"range": (3, None)}),
    "unsaved": lambda at: ([Slow(), Trail(snapshot=False)], at / "out.npy", {}),
    "several": lambda at: (
        _branches(),
        {"mean": video(at / "mean.mp4"), "rows": at / "rows.parquet", "trail": at / "trail.npy", "slow": "null:"},
        {},
    ),
}  # fmt: skip


def pipeline(case, folder, *, pause=PAUSE_SECONDS, **options):
    """Return the pipeline of `case`, which reads ``in.npy`` of `folder` and writes beside it."""
    folder = Path(folder)
    stages, to, own = CASES[case](folder)
    to = (
        {key: str(what) if isinstance(what, Path) else what for key, what in to.items()} if isinstance(to, dict) else to
    )
    for stage in stages:
        operator = stage.operator if isinstance(stage, Stage) else stage
        if isinstance(operator, Slow):
            operator.seconds = pause
    settings = {"size": SIZE, "workers": 2, "checkpoint_seconds": 0, **own, **options}
    return Pipeline.of(str(folder / "in.npy"), stages, to=str(to) if isinstance(to, Path) else to, **settings)


if __name__ == "__main__":
    case, folder, *more = sys.argv[1:]
    hf.run(pipeline(case, folder, resume="--resume" in more))
