"""Made-up frames: the same everywhere, with motion and cuts in them."""

import hashlib

import numpy as np
import pytest

from hyperframes.errors import SourceError
from hyperframes.sources import open_source


def test_the_same_fields_give_the_same_frames_and_another_seed_others():
    where = "synthetic:moving?frames=3&width=40&height=30&seed={}"
    first, again, other = (open_source(where.format(seed)).frames(range(3)) for seed in (1, 1, 2))
    for i in range(3):
        np.testing.assert_array_equal(first.planes[i], again.planes[i])
        assert (first.planes[i] != other.planes[i]).any()


def test_pictures_are_drawn_in_whole_numbers_so_that_every_machine_draws_the_same():
    clip = open_source("synthetic:moving?frames=8&width=64&height=48&cut=4").frames(range(8))
    digest = hashlib.sha256(b"".join(plane.tobytes() for plane in clip.planes)).hexdigest()
    assert digest[:16] == "fd9c9aa6588c1bb3"


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p", "yuv444p", "gray", "rgb24"])
def test_every_format_and_odd_sizes(pixel_format):
    source = open_source(f"synthetic:moving?frames=2&width=33&height=21&pixel_format={pixel_format}")
    assert source.spec.pixel_format == pixel_format
    assert source.frames([0, 1]).planes[0].shape[1:3] == (21, 33)


def test_something_moves_from_frame_to_frame_and_everything_changes_at_a_cut():
    luma = open_source("synthetic:moving?frames=12&width=160&height=120&cut=6&noise=0&pixel_format=gray").frames(
        range(12)
    )
    step = np.abs(np.diff(luma.data.astype(int), axis=0)).mean(axis=(1, 2))
    assert (step > 0).all()
    assert step.argmax() == 5  # between frames 5 and 6
    assert step[5] > 2 * np.delete(step, 5).max()


def test_noise_has_the_amplitude_asked_for():
    where = "synthetic:moving?frames=3&width=50&height=40&pixel_format=gray&noise={}"
    clean, noisy = (open_source(where.format(noise)).frames(range(3)).data.astype(int) for noise in (0, 16))
    assert np.abs(noisy - clean).max() == 16
    assert (noisy - clean).std() > 8


def test_rows_have_names_a_rate_and_exact_time():
    with open_source("synthetic:rows?frames=10000&columns=4&rate=200") as source:
        assert source.spec.names == ("sensor0", "sensor1", "sensor2", "sensor3")
        assert source.frames([5000]).seconds.tolist() == [25.0]
        np.testing.assert_array_equal(source.frames([5000]).data[0], next(iter(source.read(5000))).data)
    assert open_source("synthetic:rows?columns=0&frames=5").frames([1, 2]).data.shape == (2,)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("synthetic:bouncing", "no synthetic frames named 'bouncing': expected moving or rows"),
        ("synthetic:moving?size=4", "does not know 'size': expected frames, width, height, rate, seed"),
        ("synthetic:moving?width=wide", "width of .* must be a number: got 'wide'"),
        ("synthetic:moving?width=0", "width of .* must be at least 1: got 0"),
        ("synthetic:moving?noise=99", "noise of .* must be at most 16: got 99"),
        ("synthetic:moving?rate=0", "a rate is a positive number of frames a second: got '0'"),
        ("synthetic:moving?pixel_format=cmyk", r"synthetic pictures are yuv420p, .*: got 'cmyk'"),
    ],
)
def test_what_makes_no_sense_is_refused(location, message):
    with pytest.raises(SourceError, match=message):
        open_source(location)
