"""Colour names and code points."""

from types import SimpleNamespace

import av
import numpy as np
import pytest

from hyperframes.frames import Colour
from hyperframes.media.colour import MATRICES, PRIMARIES, RANGES, TRANSFERS, colour_of, set_colour


def test_every_description_survives_the_way_through_a_frame():
    for matrix, primaries, transfer in zip(MATRICES, PRIMARIES, TRANSFERS, strict=False):
        for sample_range in RANGES:
            colour = Colour(matrix, sample_range, primaries, transfer)
            frame = av.VideoFrame(16, 16, "yuv420p")
            set_colour(frame, colour)
            assert colour_of(frame) == colour


def test_the_name_of_a_full_range_format_wins_over_its_missing_flag():
    frame = av.VideoFrame.from_ndarray(np.zeros((24, 16), np.uint8), "yuv420p")
    assert colour_of(frame).range == "unspecified"
    assert colour_of(frame, full_range=True).range == "pc"


@pytest.mark.parametrize("code", [3, 255])
def test_code_points_without_a_name_are_unspecified(code):
    described = SimpleNamespace(colorspace=code, color_range=0, color_primaries=code, color_trc=code)
    assert colour_of(described) == Colour()


def test_names_that_ffmpeg_does_not_know_are_written_as_unspecified():
    frame = av.VideoFrame(16, 16, "yuv420p")
    set_colour(frame, Colour("mauve", "wide", "mauve", "mauve"))
    assert colour_of(frame) == Colour()
