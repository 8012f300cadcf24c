"""Stabilisation of clips whose shake is known, and the same frames whatever the size."""

import itertools

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.stabilize import Stabilize, estimate_motion
from hyperframes.testing.operators import assert_same, run_split, run_whole


def _texture(height, width, seed=3):
    noise = np.random.default_rng(seed).normal(size=(height, width)).astype(np.float32)
    rough, fine = cv2.GaussianBlur(noise, (0, 0), 9), cv2.GaussianBlur(noise, (0, 0), 1.6)
    picture = rough / rough.std() + fine / fine.std()
    return np.clip(120 + 32 * picture, 0, 255).astype(np.float32)


def _clip(shifts, angles=None, height=120, width=160):
    """Look at a large picture through a window moved by `shifts` (N, 2) and turned by `angles`; (N, H, W) uint8."""
    large = _texture(height + 160, width + 160)
    angles = np.zeros(len(shifts)) if angles is None else angles
    frames = []
    for (x, y), angle in zip(shifts, angles, strict=True):
        turn = cv2.getRotationMatrix2D((80 + width / 2, 80 + height / 2), np.degrees(angle), 1)
        turn[:, 2] += (x - 80, y - 80)
        view = cv2.warpAffine(large, turn, (width, height), flags=cv2.INTER_CUBIC)
        frames.append(np.clip(np.rint(view), 0, 255).astype(np.uint8))
    return np.array(frames)


def _jitter(frames):
    """Return the RMS change of the motion between frames, in pixels, seen in their middle."""
    inner = frames[:, 24:-24, 24:-24].astype(np.float32)
    window = cv2.createHanningWindow(inner.shape[:0:-1], cv2.CV_32F)
    moves = [cv2.phaseCorrelate(a, b, window)[0] for a, b in itertools.pairwise(inner)]
    return float(np.sqrt(np.mean(np.diff(np.array(moves), axis=0) ** 2)))


def _shaken(num_frames=40, pan=0.5):
    random = np.random.default_rng(8)
    return random.normal(scale=2.0, size=(num_frames, 2)) + pan * np.arange(num_frames)[:, None]


@pytest.mark.parametrize("model", ["similarity", "translation"])
@pytest.mark.parametrize("mode", ["windowed", "cumulative"])
def test_the_shake_of_a_known_clip_falls_to_a_fraction(mode, model):
    frames = _clip(_shaken())
    spec = FrameSpec.picture(120, 160, "gray")
    operator = Stabilize(mode=mode, model=model, radius=10)
    steady = run_split(operator, [frames], np.arange(40), spec, size=9)["frames"].data
    assert _jitter(frames) > 2.5
    assert _jitter(steady[10:30]) < 0.2 * _jitter(frames[10:30])


def test_turning_is_taken_out_by_similarities():
    angles = np.random.default_rng(4).normal(scale=0.02, size=30)
    frames = _clip(_shaken(30, pan=0), angles)
    spec = FrameSpec.picture(120, 160, "gray")
    steady = run_whole(Stabilize(radius=12), [frames], np.arange(30), spec)["frames"].data

    def change(clip):
        inner = clip[12:18, 20:-20, 20:-20].astype(float)
        return np.abs(np.diff(inner, axis=0)).mean()

    assert change(steady) < 0.35 * change(frames)


@pytest.mark.parametrize("model", ["similarity", "translation"])
def test_known_shifts_are_measured_to_a_tenth_of_a_pixel(model):
    before, after = _clip(np.array([[0, 0], [3.25, -1.5]]))
    a, b = estimate_motion(before, after, before.shape, model)
    assert abs(a - 1) < 0.003
    assert b == pytest.approx(3.25 - 1.5j, abs=0.1)


def test_a_steady_pan_is_left_alone_by_the_window():
    frames = _clip(np.arange(15)[:, None] * np.array([[2.0, 0]]))
    spec = FrameSpec.picture(120, 160, "gray")
    got = run_whole(Stabilize(radius=4), [frames], np.arange(15), spec)["frames"].data
    assert np.abs(got[:, 8:-8, 8:-8].astype(int) - frames[:, 8:-8, 8:-8]).mean() < 2.5


def test_chroma_moves_with_luma():
    luma = np.stack([cv2.GaussianBlur(frame, (0, 0), 2) for frame in _clip(_shaken(12, pan=0))])
    chroma = np.stack([cv2.resize(frame, (80, 60), interpolation=cv2.INTER_AREA) for frame in luma])
    spec = FrameSpec.picture(120, 160, "yuv420p")
    got = run_whole(Stabilize(radius=5), [luma, chroma, chroma], np.arange(12), spec)["frames"].planes
    inner = np.s_[:, 12:-12, 12:-12]
    halved = np.stack([cv2.resize(y, (80, 60), interpolation=cv2.INTER_AREA) for y in got[0]])[inner].astype(int)
    assert np.abs(halved - got[1][inner]).mean() < 0.1 * np.abs(halved - chroma[inner]).mean()


def test_a_cut_or_an_empty_picture_counts_as_no_motion():
    spec = FrameSpec.picture(40, 60, "gray")
    frames = np.zeros((6, 40, 60), np.uint8)
    frames[3:] = 200
    for model in ("similarity", "translation"):
        got = run_whole(Stabilize(radius=2, model=model), [frames], np.arange(6), spec)["frames"].data
        np.testing.assert_array_equal(got, frames)


@pytest.mark.requirement("A42")
@given(
    st.integers(1, 11),
    st.integers(1, 12),
    st.sampled_from([("windowed", 1), ("windowed", 4), ("cumulative", 3)]),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.sampled_from(["similarity", "translation"]),
)
def test_neither_size_nor_boundary_changes_a_frame(length, size, kind, boundary, model):
    frames = _clip(_shaken(length), height=48, width=64)
    spec = FrameSpec.picture(48, 64, "gray")
    operator = Stabilize(*kind, model=model)
    got = run_split(operator, [frames], np.arange(length), spec, boundary, size=size)
    assert_same(got, run_whole(operator, [frames], np.arange(length), spec))


def test_arrays_that_are_no_pictures_are_refused():
    with pytest.raises(PipelineError, match="moves pictures with channels last: expected uint8, uint16 or float32"):
        Stabilize().configure((FrameSpec.array((4,), np.float32),))
