"""Every registered operator keeps to the interface: the suite for authors, run over the built-in ones."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from tests.neural.networks import networks
from tests.operators.onnx_files import means

from hyperframes import registry
from hyperframes.errors import PipelineError
from hyperframes.frames import EVENT_NAMES, FrameSpec
from hyperframes.testing.operators import OperatorSuite

SPECS = (
    FrameSpec.picture(9, 11, "yuv420p"),
    FrameSpec.picture(8, 12, "rgb24"),
    FrameSpec.picture(7, 9, "gray"),
    FrameSpec.picture(6, 8, "gray16le"),
    FrameSpec.array((5, 6), "f4"),
    FrameSpec.array((4,), "f8"),
    FrameSpec.array((3,), "i2"),
    FrameSpec.array((), "f4"),
    FrameSpec.picture(32, 33, "gray"),
    FrameSpec(((3,),), np.dtype(np.uint16), names=EVENT_NAMES, sensor=(8, 9)),
)

_folder = tempfile.TemporaryDirectory(prefix="hyperframes-")
MODEL = means(Path(_folder.name) / "means.onnx")
WEIGHTS = networks(Path(_folder.name))

ENCODERS = ("mch", "sch", "hybrid")
LEARNED = {*ENCODERS, "edh", "region_net", "refine_anchors", "project_task"}
VARIANTS = {
    "temporal_mean": ({"radius": 0}, {"before": 3, "after": 0}),
    "temporal_median": ({"radius": 1}, {"radius": 3}, {"radius": 4}),
    "temporal_gaussian": ({"sigma": 0.6, "radius": 2},),
    "denoise": ({"radius": 1, "strength": 40.0}, {"strength": 0}),
    "background": ({"rate": 0.2, "threshold": 2.0},),
    "stabilize": ({"radius": 2}, {"mode": "cumulative", "radius": 2}),
    "frame_difference": ({"lag": 3}, {"mode": "signed"}),
    "gaussian": ({"sigma": 2.5},),
    "convolve": ({"kernel": "box"}, {"kernel": (1, 2, 1, 0, 0, 0, -1, -2, -1), "offset": 128}, {"divisor": 1.5}),
    "sobel": ({"depth": "float32"},),
    "bilateral": ({"diameter": 3, "sigma_color": 60.0},),
    "resize": ({"width": 5, "height": 13}, {"width": 6}, {"height": 4, "interpolation": "cubic"}),
    "crop": ({"x": 2, "y": 2, "width": 3, "height": 1},),
    "convert": ({"dtype": "float32"}, {"layout": "NCHW"}),
    "normalize": ({"mean": (0.5,), "std": (0.2,)}, {"scale": 1.0}),
    "optical_flow": ({"preset": "ultrafast"}, {"method": "farneback"}),
    "lbp": ({"radius": 2, "method": "uniform"}, {"points": 4}),
    "activity": ({"side": 16}, {"side": 33}),
    "every": ({"n": 1}, {"n": 3}),
    "select_motion": ({"threshold": 0.05},),
    "window_mean": ({"length": 3, "hop": 2}, {"length": 2, "hop": 5}),
    "still_spans": ({"min_frames": 2, "threshold": 2.5}, {"min_frames": 1, "threshold": 1e6}),
    "event_denoise": ({"window": 3},),
    "voxel_grid": ({"length": 3, "hop": 2}, {"length": 2, "hop": 5, "bins": 1}),
    "time_surface": ({"length": 3, "hop": 2, "tau": 2.0},),
    "simulate_events": ({"leak": 30.0, "threshold": 0.5}, {"refractory": 0, "mismatch": 0.0, "leak": 0.0}),
    "onnx": ({"model": MODEL, "batch": 3}, {"model": MODEL, "outputs": ("mean",), "scale": 1.0}),
    **{
        name: ({"weights": WEIGHTS[name]}, {"weights": WEIGHTS[name], "hop": 1, "keep": "embedding"})
        for name in ENCODERS
    },
    "edh": ({"weights": WEIGHTS["edh"], "length": 4, "hop": 3},),
    "region_net": ({"weights": WEIGHTS["region_net"]},),
    "refine_anchors": ({"weights": WEIGHTS["anchor_refiner"]},),
    "project_task": ({"weights": WEIGHTS["task_generator"]},),
}
"""Further parameters to test, by operator; needed where there are no defaults."""

REFUSED = {
    "temporal_mean": ({"radius": -1}, {"radius": 1.5}, {"before": -2}),
    "temporal_median": ({"radius": -1}, {"radius": None}),
    "temporal_gaussian": ({"sigma": 0}, {"sigma": float("nan")}, {"radius": -1}),
    "denoise": ({"strength": -1.0}, {"radius": 8}),
    "background": ({"rate": 0}, {"rate": 1.5}, {"threshold": 0}),
    "stabilize": ({"mode": "both"}, {"radius": 0}),
    "frame_difference": ({"mode": "squared"}, {"lag": 0}),
    "gaussian": ({"sigma": 0}, {"sigma": float("nan")}),
    "convolve": ({"kernel": (1, 2)}, {"kernel": "sharp"}, {"divisor": -1.0}, {"offset": float("inf")}),
    "sobel": ({"depth": "int8"},),
    "bilateral": ({"diameter": 4}, {"sigma_color": 0.0}, {"sigma_space": float("nan")}),
    "resize": ({"width": -1}, {"width": 100_000}, {"width": 4, "interpolation": "best"}),
    "crop": ({"x": -1}, {"width": 99}, {"x": 1}),
    "convert": ({"format": "rgb25"}, {"dtype": "float33"}, {"layout": "CHW"}),
    "normalize": ({"mean": (float("nan"),)}, {"std": (0.0,)}, {"scale": 0.0}, {"mean": (1.0, 2.0)}),
    "optical_flow": ({"method": "raft"}, {"preset": "slow"}),
    "lbp": ({"points": 6}, {"radius": 0}, {"method": "rotation"}),
    "activity": ({"side": 8}, {"side": 12.5}),
    "every": ({"n": 0}, {"n": True}),
    "select_motion": ({"threshold": -1.0}, {"threshold": "much"}),
    "window_mean": ({"length": 0}, {"hop": 0}),
    "still_spans": ({"threshold": 0}, {"min_frames": 0}),
    "event_denoise": ({"window": 0},),
    "voxel_grid": ({"bins": 0}, {"hop": 0}, {"length": 0}),
    "time_surface": ({"tau": 0.0},),
    "simulate_events": ({"threshold": 0.0}, {"leak": -1.0}, {"refractory": 0.5}),
    "onnx": ({"model": MODEL, "batch": -1}, {"model": MODEL, "mean": (1.0, 2.0)}, {"model": "model.onnx"}),
    **{name: ({"weights": WEIGHTS[name], "keep": "all"}, {"weights": WEIGHTS["region_net"]}) for name in ENCODERS},
    "edh": ({"weights": WEIGHTS["edh"], "length": 0}, {"weights": "none.safetensors"}, {"weights": 3}),
    "region_net": ({"weights": WEIGHTS["mch"]}, {"weights": MODEL}),
    "refine_anchors": ({"weights": WEIGHTS["mch"]},),
    "project_task": ({"weights": WEIGHTS["mch"]},),
}
"""Parameters that must be refused, by operator."""


def _fits(operator, spec):
    if operator.formats is not None and spec.pixel_format not in operator.formats:
        return False
    try:
        operator.configure((spec,))
    except PipelineError:
        return False
    return True


def _suite(name):
    """Return the suite for the operator called `name`; specs that it refuses are left out."""
    factory = registry.operators.get(name)
    variants = VARIANTS.get(name, ())
    try:
        operators = (factory(), *(factory(**parameters) for parameters in variants))
    except (TypeError, PipelineError):
        operators = tuple(factory(**parameters) for parameters in variants)
    specs = tuple(spec for spec in SPECS if all(_fits(operator, spec) for operator in operators))
    suite = type(name, (OperatorSuite,), {})
    suite.operators, suite.specs, suite.refused = operators, specs, REFUSED.get(name, ())
    if name in LEARNED:
        suite.max_frames = 5  # networks take their time
    return suite()


CHECKS = sorted(check for check in vars(OperatorSuite) if check.startswith("test_"))


SEVERAL_INPUTS = {"overlay", "patchwise"}
"""Operators that read more than frames; their own tests run them in pipelines."""


@pytest.fixture(scope="module", params=[name for name in registry.operators if name not in SEVERAL_INPUTS])
def suite(request):
    return _suite(request.param)


def test_the_registered_name_is_the_operators_own(suite):
    assert suite.operators, "give VARIANTS for operators without defaults"
    assert type(suite.operators[0]).__name__.lower() == suite.operators[0].name.replace("_", "")
    assert registry.operators.get(suite.operators[0].name) is type(suite.operators[0])


def test_some_frames_fit(suite):
    assert suite.specs


@pytest.mark.parametrize("check", CHECKS)
def test_the_suite_holds(suite, check):
    getattr(suite, check)()
