"""What compiles does so before the clock starts, on a throw-away frame, and changes no result."""

import importlib
import time
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

import hyperframes as hf
from hyperframes import registry
from hyperframes.drivers.execute import GroupRunner, warm_up
from hyperframes.drivers.recorder import Recorder
from hyperframes.frames import EVENT_NAMES, FrameSpec
from hyperframes.operators import Contract, Operator, Output, Worker, create, frames_out
from hyperframes.packing import Halo
from hyperframes.pipeline import Pipeline
from hyperframes.plan import plan_pipeline
from hyperframes.sources import ArraySource


class Seen(Operator):
    """Notes what it is called with; its first call takes long, as one that compiles does."""

    name: ClassVar[str] = "seen"
    compiles: ClassVar[bool] = True

    def __init__(self, first_seconds=0.0, *, sequential=False, outputs=()):
        self.calls = []
        self.first_seconds, self.sequential, self.outputs = first_seconds, sequential, outputs

    def configure(self, inputs):
        return Contract(
            (frames_out(inputs), *self.outputs),
            Halo(2, 1),
            dependency="sequential" if self.sequential else "independent",
        )

    def apply(self, inputs, outputs, state, prepared):
        (h,) = inputs
        if not self.calls:
            time.sleep(self.first_seconds)
        self.calls.append((h.header.id, h.core_data.shape, h.data.dtype, h.data.flags.c_contiguous, state))
        outputs[0].data[:] = h.core_data
        return {"count": (state or {"count": 0})["count"] + len(h.core_data)} if self.sequential else None


FRAMES = np.arange(20 * 6, dtype=np.uint16).reshape(20, 2, 3)


@pytest.mark.requirement("A88")
def test_the_first_call_is_on_one_frame_of_zeros_of_the_real_dtype_and_layout():
    operator = Seen()
    result = hf.run(FRAMES, operator, size=8, workers=1)
    ids, shapes, dtypes, contiguous, _ = zip(*operator.calls, strict=True)
    assert ids.count("warm-up") == 1
    assert ids[0] == "warm-up"
    assert shapes[0] == (1, 2, 3)
    assert set(dtypes) == {np.dtype(np.uint16)}
    assert all(contiguous)
    assert (result.array == FRAMES).all()


@pytest.mark.requirement("A88", "C109")
def test_what_the_first_call_takes_is_not_in_the_figures():
    recorder = Recorder()
    result = hf.run(FRAMES, Seen(first_seconds=0.5), size=8, workers=1, instruments=(recorder,))
    assert result.prepare_seconds >= 0.5
    assert result.seconds < 0.5
    assert result.stages["seen"] < 0.5
    assert recorder.busy_ns[0] < 0.5e9
    assert result.to_json()["prepare_seconds"] == result.prepare_seconds
    assert all(task["begin_seconds"] < 0.5 for task in result.report().to_json()["timeline"]["tasks"])


def test_a_sequential_operator_forgets_the_warm_up():
    operator = Seen(sequential=True)
    hf.run(FRAMES, operator, size=8, workers=2)
    states = [(name, state) for name, *_, state in operator.calls]
    assert [state for name, state in states if name == "warm-up"] == [None, None]
    real = [state for name, state in states if name != "warm-up"]
    assert real[0] is None
    assert real[-1]["count"] < 20


def test_an_operator_that_compiles_nothing_is_not_called_before_its_frames():
    class Plain(Seen):
        compiles = False

    operator = Plain()
    hf.run(FRAMES, operator, size=8, workers=1)
    assert "warm-up" not in [name for name, *_ in operator.calls]


def test_decimating_outputs_have_an_entry_to_compile_for():
    spec = FrameSpec.array((2, 3), np.uint16)
    widths = []

    class Decimating(Seen):
        def apply(self, inputs, outputs, state, prepared):
            widths.extend(len(view) for view in outputs)

    thirds = Output("thirds", "frames", spec, ratio=Fraction(1, 3))
    windows = Output("windows", "windows", spec, length=4, hop=5)
    pipeline = Pipeline.of(FRAMES, Decimating(outputs=(thirds, windows)))
    plan = plan_pipeline(pipeline, {"source": spec})
    warm_up(plan, 0, Worker())
    assert widths == [1, 1, 1]


def test_a_warm_up_that_fails_ends_the_run_with_its_error():
    class Broken(Seen):
        def apply(self, inputs, outputs, state, prepared):
            raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="no compiler"):
        hf.run(FRAMES, Broken(), size=8)


COMPILING = [name for name in registry.operators if registry.operators.get(name).compiles]


def loads_a_model(name):
    """Those have a slow first call, but no kernels; an operator that wraps another has the other's."""
    module = registry.operators.get(name).__module__.rpartition(".")[2]
    return module in {"onnx", "learned", "patchwise"}


def test_operators_with_compiled_kernels_say_so():
    assert {"background", "convolve", "denoise", "lbp", "measure", "sobel"} <= set(COMPILING)
    assert {"temporal_gaussian", "temporal_mean", "temporal_median", "convert"} <= set(COMPILING)
    assert "crop" not in COMPILING


@pytest.mark.slow  # compiles, where nothing is cached yet
@pytest.mark.parametrize("name", [name for name in COMPILING if not loads_a_model(name)])
def test_no_kernel_is_compiled_for_the_first_hyperframe(name):
    """Every kernel that the real frames need has its version after the warm-up."""
    text = {"convert": "convert:format=rgb24"}.get(name, name)
    spec = FrameSpec.picture(16, 24, "yuv420p" if name not in {"lbp", "simulate_events"} else "gray")
    if name == "event_denoise":
        spec = FrameSpec(((3,),), np.dtype(np.uint16), names=EVENT_NAMES, sensor=(4, 4))
    pipeline = Pipeline.of("unused", text)
    plan = plan_pipeline(pipeline, {"source": spec})
    GroupRunner(plan, Worker()).prepare()
    module = importlib.import_module(type(create(text)).__module__)
    kernels = [value for value in vars(module).values() if hasattr(value, "nopython_signatures")]
    before = [len(kernel.nopython_signatures) for kernel in kernels]
    planes = tuple(np.zeros((9, *shape), spec.dtype) for shape in spec.shapes)
    hf.run(ArraySource(planes, spec=spec), text, size=4, workers=1)
    assert [len(kernel.nopython_signatures) for kernel in kernels] == before
