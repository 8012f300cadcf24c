"""Denoising against a slow reference, and against frames whose truth is known."""

import itertools

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import temporal

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.denoise import Denoise
from hyperframes.operators.temporal_mean import TemporalMean
from hyperframes.testing.operators import random_planes, run_split, run_whole

SPECS = (
    FrameSpec.picture(5, 7, "yuv420p"),
    FrameSpec.picture(4, 6, "rgb24"),
    FrameSpec.picture(3, 1, "rgb24"),
    FrameSpec.picture(1, 2, "gray"),
    FrameSpec.picture(4, 6, "gray16le"),
    FrameSpec.picture(4, 6, "gray10le"),
    FrameSpec.array((3, 2), np.uint8, pixel_format=""),
    FrameSpec.array((5,), np.uint16),
    FrameSpec.array((), np.uint8),
)


def _planes(spec, length, seed):
    """Frames of small and of large changes, within the range of the format."""
    planes = random_planes(spec, length, seed)
    if spec.pixel_format == "gray10le":
        return tuple(plane >> 6 for plane in planes)
    return planes


@pytest.mark.requirement("A42")
@given(
    st.sampled_from(SPECS),
    st.integers(0, 9),
    st.integers(1, 10),
    st.integers(0, 4),
    st.sampled_from([0, 0.1, 2.0, 7.5, 60.0]),
    st.sampled_from(["replicate", "reflect", "constant:7"]),
    st.integers(0, 10_000),
)
def test_split_results_equal_the_slow_reference(spec, length, size, radius, strength, boundary, seed):
    planes = _planes(spec, length, seed)
    got = run_split(Denoise(strength, radius), planes, np.arange(length), spec, boundary, size=size)["frames"]
    top = 1023 if spec.pixel_format == "gray10le" else np.iinfo(spec.dtype).max
    channels = 3 if spec.pixel_format == "rgb24" else 1

    def mean(window):
        rows = window.reshape(*window.shape[:2], -1) if spec.is_picture else window
        result = temporal.denoise(rows, strength, top, channels=channels, picture=spec.is_picture)
        return result.reshape(window.shape[1:])

    for plane, out in zip(planes, got.planes, strict=True):
        np.testing.assert_array_equal(out, temporal.per_frame(mean, plane, radius, radius, boundary))


def _scene(num_frames, height, width):
    """A still textured picture with a textured square that crosses it, 5 pixels a frame; uint8."""
    y, x = np.mgrid[:height, :width]
    still = 110 + 50 * np.sin(x / 6) * np.cos(y / 9) + 20 * ((x // 12 + y // 12) % 2)
    frames = np.repeat(still[None], num_frames, axis=0)
    for t in range(num_frames):
        left = 4 + 5 * t
        inner = 30 + 12 * ((x[:24, :24] // 4 + y[:24, :24] // 4) % 2)
        frames[t, 20:44, left : left + 24] = inner
    return frames


def _psnr(frames, truth):
    return 10 * np.log10(255**2 / np.mean((frames.astype(float) - truth) ** 2))


@pytest.mark.parametrize("sigma", [3, 6, 10])
def test_noise_of_known_strength_falls_by_several_decibels_and_moving_things_leave_no_trail(sigma):
    truth = _scene(12, 64, 96)
    noise = np.random.default_rng(sigma).normal(scale=sigma, size=truth.shape)
    noisy = np.clip(np.rint(truth + noise), 0, 255).astype(np.uint8)
    spec = FrameSpec.picture(64, 96, "gray")
    clean = run_whole(Denoise(strength=sigma), [noisy], np.arange(12), spec)["frames"].data
    assert _psnr(clean, truth) > _psnr(noisy, truth) + 4.5  # the best of 5 frames is 10 log10(5) = 7 dB
    mean = noisy[4:9].astype(float).mean(axis=0)
    trail = np.s_[20:44, 14:58]  # where the square passes
    assert _psnr(clean[6][trail], truth[6][trail]) > _psnr(mean[trail], truth[6][trail]) + 6
    assert _psnr(clean[6][trail], truth[6][trail]) > _psnr(noisy[6][trail], truth[6][trail])


@pytest.mark.media
@pytest.mark.parametrize(("name", "gain"), [("bikes.mp4", 4.0), ("cockatoo.mp4", 3.0), ("carphone_pristine.mp4", 2.5)])
def test_noise_added_to_real_film_falls_where_a_plain_mean_loses(media, name, gain):
    with av.open(str(media / "video" / name)) as container:
        film = [f.to_ndarray(format="gray")[:480, :640] for f in itertools.islice(container.decode(video=0), 10)]
    truth = np.array(film)
    noisy = truth + np.random.default_rng(6).normal(scale=6, size=truth.shape)
    noisy = np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
    spec = FrameSpec.picture(*truth.shape[1:], "gray")
    clean = run_whole(Denoise(strength=6), [noisy], np.arange(10), spec)["frames"].data
    mean = run_whole(TemporalMean(radius=2), [noisy], np.arange(10), spec)["frames"].data
    assert _psnr(clean, truth) > _psnr(noisy, truth) + gain
    assert _psnr(mean, truth) < _psnr(noisy, truth)


def test_a_cut_between_scenes_stays_sharp():
    spec = FrameSpec.picture(8, 8, "gray")
    frames = np.zeros((6, 8, 8), np.uint8)
    frames[3:] = 200
    np.testing.assert_array_equal(run_whole(Denoise(), [frames], np.arange(6), spec)["frames"].data, frames)


def test_floats_and_planes_first_are_refused():
    with pytest.raises(PipelineError, match="'denoise' cannot work on int16 samples: expected uint8 or uint16"):
        Denoise().configure((FrameSpec.array((2,), np.int16),))
    planes_first = FrameSpec.picture(4, 6, "rgb24").replace(shapes=((3, 4, 6),), layout="NCHW")
    with pytest.raises(PipelineError, match="channels last: expected NHWC, got NCHW"):
        Denoise().configure((planes_first,))
    with pytest.raises(PipelineError, match="radius is a whole number: expected 0 to 7, got 8"):
        Denoise(radius=8).configure((SPECS[0],))
