"""Functions as operators: what they are given, what they must return, and how that is found out."""

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.frames import results

from hyperframes.errors import FrameError, PipelineError
from hyperframes.frames import Field, FrameSpec, RecordSpec
from hyperframes.operators import FunctionOperator, operator
from hyperframes.packing import Halo
from hyperframes.testing.operators import OperatorSuite, assert_same, random_planes, run_split, run_whole


@operator(halo=2)
def mean5(frames):
    """Mean of five."""
    wide = frames.astype(np.uint16)
    total = sum(wide[k : k + len(frames) - 4] for k in range(5))
    return ((2 * total + 5) // 10).astype(frames.dtype)


@operator
def doubled(frames):
    return frames * np.uint8(2)


@operator(dependency="sequential")
def running(frames, state):
    total = state.get("total", np.zeros(frames.shape[1:], np.int64))
    out = np.empty(frames.shape, np.int64)
    for t, frame in enumerate(frames):
        total += frame
        out[t] = total
    return out, {"total": total, "count": state.get("count", 0) + len(frames)}


@operator(planes=True, halo=(1, 0))
def later_luma(planes):
    y, u, v = planes
    return y[1:], u[:-1], v[1:]


@operator(halo=1, takes_mask=True)
def real_neighbours(frames, mask):
    count = mask[:-2].astype(np.uint8) + mask[1:-1] + mask[2:]
    return count.reshape(-1, *[1] * (frames.ndim - 1)) + np.zeros_like(frames[1:-1])


GRAY = FrameSpec.picture(4, 6, "gray")
RGB = FrameSpec.picture(4, 6, "rgb24")


class TestMean5(OperatorSuite):
    operators = (mean5,)
    specs = (GRAY, RGB, FrameSpec.array((3,), "u1"), FrameSpec.array((), "u1"))
    test_the_docstring_says_shapes_dtype_and_halo = None  # of dataclasses only
    test_wrong_parameters_are_refused_by_name_before_the_first_frame = None


@given(st.integers(0, 9), st.integers(1, 9), st.integers(0, 99))
def test_a_sequential_function_gives_the_same_whatever_the_size(length, size, seed):
    planes = random_planes(GRAY, length, seed)
    pts = np.arange(length)
    split = run_split(running, planes, pts, GRAY, size=size)
    assert_same(split, run_whole(running, planes, pts, GRAY))
    np.testing.assert_array_equal(split["frames"].data, np.cumsum(planes[0], axis=0, dtype=np.int64))


def test_the_state_given_may_be_changed_and_the_old_one_stays():
    (output,) = running.configure((GRAY,)).outputs
    hyperframe = next(iter(_hyperframes(np.ones((2, 4, 6), np.uint8))))
    old = {"total": np.zeros((4, 6), np.int64), "count": 0}
    new = running.apply((hyperframe,), (_view(output, 2),), old, None)
    assert old["total"].max() == 0
    assert (new["total"].max(), new["count"]) == (2, 2)


def test_a_decorated_function_is_still_a_function():
    assert doubled(np.array([3], np.uint8))[0] == 6
    assert (mean5.__name__, mean5.__doc__, mean5.name) == ("mean5", "Mean of five.", "mean5")
    assert mean5.halo == Halo(2, 2)
    assert isinstance(doubled, FunctionOperator)
    assert repr(mean5).endswith("test_function.mean5, halo=(2, 2))")
    assert repr(running).endswith("running, sequential)")


def test_planes_come_native_and_go_native():
    spec = FrameSpec.picture(5, 7, "yuv420p")
    planes = random_planes(spec, 4, 1)
    out = results(later_luma, spec, *planes)
    np.testing.assert_array_equal(out[0], planes[0])
    np.testing.assert_array_equal(out[1], planes[1][[0, 0, 1, 2]])
    assert later_luma.formats is None


def test_without_planes_video_comes_as_grey_or_rgb_and_plain_arrays_as_they_are():
    assert {"gray", "rgb24", "=gray16le", "=rgb48le", "=rgba"} == set(mean5.formats)


def test_the_mask_says_what_the_boundary_stands_in_for():
    assert real_neighbours.configure((GRAY,)).takes_mask
    out = results(real_neighbours, GRAY, np.zeros((3, 4, 6), np.uint8))[0]
    np.testing.assert_array_equal(out[:, 0, 0], [2, 3, 2])


def test_several_ports_come_as_several_arguments():
    minus = operator(lambda a, b: a.astype(np.int16) - b, name="minus")
    (output,) = minus.configure((GRAY, GRAY)).outputs
    a, b = (next(iter(_hyperframes(np.full((2, 4, 6), k, np.uint8)))) for k in (3, 5))
    view = _view(output, 2)
    minus.apply((a, b), (view,), None, None)
    assert view.data.dtype == np.int16
    assert (view.data == -2).all()


# What comes out is known before the first frame ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "shape", "dtype", "pixel_format"),
    [
        (lambda f: f, (4, 6, 3), np.uint8, "rgb24"),
        (lambda f: f.mean(axis=-1), (4, 6), np.float64, ""),
        (lambda f: f[..., 0], (4, 6), np.uint8, "gray"),
        (lambda f: f[:, ::2, ::2], (2, 3, 3), np.uint8, "rgb24"),
        (lambda f: f.reshape(len(f), -1).max(axis=1), (), np.uint8, ""),
        (lambda f: f.astype(np.uint16), (4, 6, 3), np.uint16, "rgb48le"),
        (lambda f: f > 3, (4, 6, 3), np.bool_, ""),
        (lambda f: 1 / f.astype(np.float32), (4, 6, 3), np.float32, ""),
    ],
)
def test_a_probe_finds_shape_dtype_and_format(function, shape, dtype, pixel_format):
    spec = operator(function, name="f").configure((RGB.replace(rate=25),)).outputs[0].spec
    assert (spec.shapes, spec.dtype, spec.pixel_format, spec.rate) == ((shape,), dtype, pixel_format, 25)


@pytest.mark.parametrize(
    ("output", "shape", "dtype", "pixel_format"),
    [
        ("gray", (4, 6), np.uint8, "gray"),
        ("float32", (4, 6, 3), np.float32, ""),
        (np.uint16, (4, 6, 3), np.uint16, "rgb48le"),
        ((7,), (7,), np.uint8, ""),
        ({"shape": (2, 3), "dtype": "int32"}, (2, 3), np.int32, ""),
        ({"shape": (2, 3), "pixel_format": "gray16le"}, (2, 3), np.uint16, "gray16le"),
        (FrameSpec.array((2,), "f4"), (2,), np.float32, ""),
    ],
)
def test_output_says_what_comes_out_and_leaves_the_probe_out(output, shape, dtype, pixel_format):
    def never(frames):
        raise AssertionError

    spec = operator(output=output)(never).configure((RGB,)).outputs[0].spec
    assert (spec.shapes, spec.dtype, spec.pixel_format) == ((shape,), dtype, pixel_format)


def test_planes_of_another_size_keep_their_format():
    half = operator(planes=True)(lambda p: tuple(plane[:, ::2, ::2] for plane in p))
    spec = half.configure((FrameSpec.picture(8, 12, "yuv420p"),)).outputs[0].spec
    assert (spec.pixel_format, spec.shapes) == ("yuv420p", ((4, 6), (2, 3), (2, 3)))
    wide = operator(planes=True)(lambda p: tuple(plane[:, ::2] for plane in p[:2]))
    assert wide.configure((FrameSpec.picture(8, 12, "yuv420p"),)).outputs[0].spec.pixel_format == ""


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            operator(halo=1, name="f")(lambda f: f),
            (
                "function 'f' must return T frames for T + 2: expected (3, ...) for a probe of 5 frames, "
                "got (5, 4, 6) of uint8"
            ),
        ),
        (
            operator(lambda f: f.mean(), name="f"),
            "function 'f' must return T frames for T + 0: expected (3, ...) for a probe of 3 frames, got () of float64",
        ),
        (
            operator(lambda f: f[99], name="f"),
            (
                "function 'f' failed on a probe of zeros, (3, 4, 6) of uint8: IndexError: index 99 is out of bounds for "
                "axis 0 with size 3"
            ),
        ),
        (operator(lambda f: None, name="f"), "function 'f' must return an array of frames, got None"),
        (
            operator(lambda f: (f, f), name="f"),
            "function 'f' must return an array of frames, got (an array (3, 4, 6), an array (3, 4, 6))",
        ),
        (
            operator(dependency="sequential", name="f")(lambda f, s: f),
            "the sequential function 'f' must return (frames, state) with a dict as state, got an array (3, 4, 6)",
        ),
        (
            operator(dependency="sequential", name="f")(lambda f, s: (f, {"seen": [1]})),
            "the state of function 'f' must hold arrays, numbers and text: got a list for 'seen'",
        ),
        (
            operator(planes=True, name="f")(lambda p: (p[0], p[0].astype(float))),
            "function 'f' must return planes of one dtype, got uint8, float64",
        ),
        (operator(output="colour", name="f")(lambda f: f), "function 'f': output 'colour' is neither a pixel format"),
        (operator(output={"size": 3}, name="f")(lambda f: f), "function 'f': output has no 'size': expected shape"),
    ],
)
def test_what_a_function_gets_wrong_is_said_before_the_first_frame(made, sentence):
    with pytest.raises(PipelineError, match="^" + re.escape(sentence)):
        made.configure((GRAY,))


def test_planes_and_records_are_refused_where_they_do_not_fit():
    with pytest.raises(PipelineError, match="function 'mean5' takes one array per frame, got 3 planes of yuv420p 6x4"):
        mean5.configure((FrameSpec.picture(4, 6, "yuv420p"),))
    with pytest.raises(PipelineError, match="function 'mean5' takes frames, got records"):
        mean5.configure((RecordSpec((Field("x", "f4"),)),))


def test_wrong_options_are_refused():
    with pytest.raises(PipelineError, match="expected dependency 'independent' or 'sequential', got 'chained'"):
        operator(dependency="chained")(lambda f: f)
    with pytest.raises(PipelineError, match="an operator is made from a function: got a int"):
        operator(3)


def test_a_result_that_changes_its_mind_is_an_error():
    def fickle(frames):
        return frames if not frames.any() else frames[:, :2].astype(np.float32)

    with pytest.raises(
        FrameError,
        match=r"function 'fickle' must return \(2, 4, 6\) of uint8 for 2 frames \(2 and a halo of 0\), "
        r"got \(2, 2, 6\) of float32",
    ):
        results(operator(fickle), GRAY, np.ones((2, 4, 6), np.uint8))


# Identity -----------------------------------------------------------------------------------------------------------


def test_the_version_follows_the_code_and_the_values_it_was_made_with():
    def made(k):
        return operator(lambda f: f[k:])

    assert made(1).version == made(1).version
    assert made(1).version != made(2).version
    assert operator(lambda f: f + 1).version != operator(lambda f: f + 2).version
    assert operator(version=7)(lambda f: f).version == 7
    assert operator(np.negative).version == 1


def test_a_name_that_gets_its_value_later_does_not_stand_in_the_way():
    def frame_of(f):
        return later(f)

    made = operator(frame_of)
    later = np.negative
    assert made.function is frame_of
    assert operator(frame_of).version == made.version  # functions are no plain values


def undecorated(frames):
    return frames[2:]


def test_pickles_are_by_name_where_the_name_can_be_imported(tmp_path, monkeypatch):
    (tmp_path / "pickled_filters.py").write_text(
        "import hyperframes.operators as o\n@o.operator(halo=1)\ndef inner(frames):\n    return frames[1:-1]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import pickled_filters

    assert pickle.loads(pickle.dumps(pickled_filters.inner)) is pickled_filters.inner


def test_operators_of_importable_functions_pickle_with_their_options():
    made = operator(halo=(2, 0), name="cut", version=3)(undecorated)
    copy = pickle.loads(pickle.dumps(made))
    assert (copy.name, copy.version, copy.halo, copy.function) == ("cut", 3, Halo(2, 0), undecorated)


def _hyperframes(frames):
    from hyperframes.packing import view

    return view((frames,), np.arange(len(frames)), GRAY, len(frames), Halo())


def _view(output, count):
    from hyperframes.operators import View

    planes = tuple(np.zeros((count, *shape), output.spec.dtype) for shape in output.spec.shapes)
    return View(output, 0, count, planes)


def test_an_option_that_is_nearly_right_is_put_right():
    with pytest.raises(PipelineError) as caught:
        operator(haloo=1)
    assert str(caught.value) == (
        "@hf.operator has no option 'haloo': expected one of halo, dependency, resource, planes, layout, output, name, "
        "version, takes_mask"
    )
    assert caught.value.hint == "Did you mean 'halo'?"
    with pytest.raises(PipelineError) as caught:
        operator(strength=1)
    assert caught.value.hint == "Parameters of its own make it an Operator class."
