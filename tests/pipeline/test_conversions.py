"""Conversions are put in where needed, once for all who need them, and counted."""

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.pipeline import Stage


def pictures(count=6):
    return np.random.default_rng(3).integers(0, 256, (count, 8, 10, 3), np.uint8)


@hf.operator(layout="NCHW")
def brightest_plane(frames):  # (T, C, H, W) -> (T, H, W)
    assert frames.shape[1:] == (3, 8, 10)
    assert frames.flags.c_contiguous
    return frames.max(axis=1)


@hf.operator(layout="NCHW")
def darkest_plane(frames):  # (T, C, H, W) -> (T, H, W)
    return frames.min(axis=1)


@hf.operator
def difference(high, low):
    return high - low


@pytest.mark.requirement("A19")
@pytest.mark.requirement("A20")
@pytest.mark.requirement("A21")
def test_an_operator_gets_the_axis_order_that_its_inner_loop_wants():
    frames = pictures()
    assert hf.run(frames, brightest_plane, size=4).array.tobytes() == frames.max(axis=3).tobytes()
    turned = hf.run(frames, "convert:layout=NCHW", size=4)
    assert turned.array.tobytes() == np.ascontiguousarray(frames.transpose(0, 3, 1, 2)).tobytes()
    again = hf.run(turned.value, ["convert:layout=NHWC"], size=4)
    assert again.array.tobytes() == frames.tobytes()


@pytest.mark.requirement("X7")
@pytest.mark.requirement("A104")
def test_a_layout_is_converted_once_for_all_stages_that_want_it_and_counted():
    frames = pictures()
    stages = [
        Stage("high", brightest_plane, ("source",)),
        Stage("low", darkest_plane, ("source",)),
        Stage("difference", difference, ("high", "low")),
    ]
    result = hf.run(frames, stages, size=4)
    assert result.conversions == ["source->NCHW"]
    assert result.array.tobytes() == (frames.max(axis=3) - frames.min(axis=3)).tobytes()


def test_a_sink_of_pictures_gets_channels_last(tmp_path):
    frames = pictures(2)
    result = hf.run(frames, "convert:layout=NCHW", to=tmp_path / "out")
    assert len(result.conversions) == 1
    with hf.open(tmp_path / "out") as images:
        assert images[0:2].data.tobytes() == frames.tobytes()


def test_a_function_gets_rgb_or_grey_unless_it_asks_for_planes():
    seen = []

    @hf.operator
    def look(frames):
        seen.append(frames.shape[1:])
        return frames

    @hf.operator(planes=True)
    def look_native(planes):
        seen.append(tuple(plane.shape[1:] for plane in planes))
        return planes

    clip = "synthetic:moving?frames=3&width=32&height=16"
    assert hf.run(clip, look).conversions == ["source->rgb24"]
    assert hf.run(clip, look_native).conversions == []
    assert (16, 32, 3) in seen
    assert ((16, 32), (8, 16), (8, 16)) in seen
