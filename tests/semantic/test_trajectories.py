"""Paths between anchors: what moves is followed, what stands is left out, what is lost too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import FrameError
from hyperframes.semantic import Descriptor, trajectories_between

HEIGHT, WIDTH = 90, 160


def squares(centres):
    """A bright square at each of `centres` (x, y), a frame each, on grey."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    frames = [100 + 120 * ((np.abs(x - cx) < 6) & (np.abs(y - cy) < 6)) for cx, cy in centres]
    return np.array(frames, np.uint8)


@pytest.mark.requirement("C14")
@given(st.floats(-2, 2), st.floats(-1, 1), st.integers(4, 20))
def test_corners_of_a_thing_that_moves_evenly_go_where_it_goes(vx, vy, count):
    seconds = 3 + np.arange(count) / 25
    centres = [(80 + round(vx * t), 45 + round(vy * t)) for t in range(count)]
    found = trajectories_between(squares(centres), seconds)
    dx, dy = centres[-1][0] - 80, centres[-1][1] - 45
    if max(abs(dx), abs(dy)) >= 2:
        assert found
    for path in found:
        assert (path.start_seconds, path.stop_seconds) == (seconds[0], seconds[-1])
        way = (path.at(1.0) - path.at(0.0)) * (WIDTH, HEIGHT)
        np.testing.assert_allclose(way, (dx, dy), atol=1.2)
        assert max(abs(path.at(0.0) * (WIDTH, HEIGHT) - (80, 45))) < 8
    Descriptor("a.mp4", "c", (0, count), (3.0, 4.0), trajectories=found)


def test_a_turn_is_in_the_path():
    """Out and back: start and end say nothing, the middle does."""
    out = list(range(80, 100, 2))
    found = trajectories_between(squares([(x, 45) for x in [*out, *out[::-1]]]), np.arange(20) / 25)
    assert found
    for path in found:
        assert (path.at(0.5) - path.at(0.0))[0] * WIDTH == pytest.approx(18, abs=4)
        assert (path.at(1.0) - path.at(0.0))[0] * WIDTH == pytest.approx(0, abs=3)


def test_what_stands_still_or_leaves_has_no_path():
    seconds = np.arange(12) / 25
    assert trajectories_between(squares([(80, 45)] * 12), seconds) == ()
    assert trajectories_between(np.full((12, HEIGHT, WIDTH), 9, np.uint8), seconds) == ()
    assert trajectories_between(squares([(140 + 4 * t, 45) for t in range(12)]), seconds) == ()


def test_one_and_two_frames_are_no_trouble():
    assert trajectories_between(squares([(80, 45)]), np.zeros(1)) == ()
    (path, *_) = trajectories_between(squares([(80, 45), (83, 45)]), np.array([0.0, 0.04]))
    assert not path.coefficients[:, 2:].any()


def test_times_must_fit():
    frames = squares([(80, 45), (83, 45)])
    with pytest.raises(FrameError, match="ascending times, one a frame: expected 2, got 3"):
        trajectories_between(frames, np.arange(3.0))
    with pytest.raises(FrameError, match="ascending times"):
        trajectories_between(frames, np.zeros(2))
