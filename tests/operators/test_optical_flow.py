"""Optical flow on motion that is known."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.frames import results

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.optical_flow import OpticalFlow
from hyperframes.packing import Halo
from hyperframes.testing.operators import assert_same, run_split, run_whole

ALL = [OpticalFlow(method, preset) for method in ("dis", "farneback") for preset in ("ultrafast", "fast", "medium")]


def moving(num_frames, dx, dy, height=72, width=96, seed=0):
    """Return a texture that moves by (dx, dy) pixels a frame, (N, H, W)."""
    large = np.random.default_rng(seed).integers(0, 256, (height + 80, width + 80)).astype(np.float32)
    large = cv2.normalize(cv2.GaussianBlur(large, (0, 0), 2.5), None, 0, 255, cv2.NORM_MINMAX)
    frames = []
    for t in range(num_frames):
        shift = np.array([[1, 0, 40 - t * dx], [0, 1, 40 - t * dy]], np.float32)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        frames.append(cv2.warpAffine(large, shift, (width, height), flags=flags))
    return np.array(frames).round().astype(np.uint8)


@pytest.mark.requirement("X11")
@pytest.mark.requirement("A16")
@pytest.mark.parametrize("operator", ALL, ids=repr)
@pytest.mark.parametrize("motion", [(2.0, 1.0), (-1.5, 0.0), (0.0, -3.0)])
def test_flow_is_the_motion_from_the_frame_before(operator, motion):
    frames = moving(3, *motion)
    (flow,) = results(operator, FrameSpec.picture(72, 96, "gray"), frames)
    assert (flow.dtype, flow.shape) == (np.float32, (3, 72, 96, 2))
    inner = flow[1:, 12:-12, 12:-12].reshape(-1, 2)
    np.testing.assert_allclose(np.median(inner, axis=0), motion, atol=0.25)
    assert np.mean(np.linalg.norm(inner - motion, axis=1) < 0.5) > 0.9


@pytest.mark.parametrize("operator", ALL, ids=repr)
def test_the_first_frame_has_not_moved(operator):
    (flow,) = results(operator, FrameSpec.picture(72, 96, "gray"), moving(2, 3, 3))
    assert np.abs(flow[0]).max() <= (0 if operator.method == "dis" else 0.25)
    assert np.abs(flow[0, 12:-12, 12:-12]).max() < 0.01


@given(st.sampled_from(ALL), st.integers(0, 6), st.integers(1, 7), st.integers(0, 99))
def test_hyperframes_of_any_size_give_the_same_flow(operator, length, size, seed):
    frames, spec = (
        moving(length, 1, 2, 32, 40, seed) if length else np.zeros((0, 32, 40), np.uint8),
        FrameSpec.picture(32, 40, "gray"),
    )
    pts = np.arange(length)
    assert_same(
        run_split(operator, (frames,), pts, spec, size=size), run_whole(operator, (frames,), pts, spec, poison=1)
    )


def test_flow_does_not_depend_on_the_threads_of_opencv():
    frames, spec = moving(2, 2, 1, 120, 160), FrameSpec.picture(120, 160, "gray")
    before = cv2.getNumThreads()
    try:
        for operator in ALL:
            found = []
            for threads in (1, 2, 4):
                cv2.setNumThreads(threads)
                found.append(results(operator, spec, frames)[0])
            np.testing.assert_array_equal(found[0], found[1])
            np.testing.assert_array_equal(found[0], found[2])
    finally:
        cv2.setNumThreads(before)


def test_it_reads_one_frame_before_and_carries_no_state():
    contract = OpticalFlow().configure((FrameSpec.picture(40, 40, "gray"),))
    assert (contract.halo, contract.dependency) == (Halo(1, 0), "independent")


def test_small_and_coloured_frames_and_unknown_choices_are_refused():
    with pytest.raises(PipelineError, match="with method 'dis' needs at least 32x32 pixels, got 60x31"):
        OpticalFlow().configure((FrameSpec.picture(31, 60, "gray"),))
    with pytest.raises(PipelineError, match=r"works on grey frames \(H, W\) of uint8, got rgb24 40x40"):
        OpticalFlow().configure((FrameSpec.picture(40, 40, "rgb24"),))
    with pytest.raises(PipelineError, match="expected method to be one of dis, farneback, got 'raft'"):
        OpticalFlow("raft")
    with pytest.raises(PipelineError, match="expected preset to be one of ultrafast, fast, medium, got 'slow'"):
        OpticalFlow(preset="slow")
