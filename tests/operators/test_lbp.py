"""Local binary patterns against their definition."""

import numpy as np
import pytest
from tests.operators.frames import noise, one
from tests.reference import spatial

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.lbp import Lbp, uniform_labels


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("shape", [(9, 12), (1, 1), (2, 3), (1, 7)])
@pytest.mark.parametrize("points", [8, 4])
@pytest.mark.parametrize("radius", [1, 3])
@pytest.mark.parametrize("method", ["classic", "uniform"])
def test_codes_follow_the_definition(dtype, shape, points, radius, method):
    image = noise(shape, dtype) // 37  # so that neighbours are often equal
    expected = spatial.lbp(image, points, radius, method == "uniform")
    np.testing.assert_array_equal(one(Lbp(points, radius, method), image), expected)


def test_a_flat_picture_has_all_bits_set_also_where_it_is_black():
    assert (one(Lbp(), np.zeros((5, 6), np.uint8)) == 255).all()
    assert (one(Lbp(points=4), np.zeros((5, 6), np.uint8)) == 15).all()


def test_codes_do_not_change_with_brightness():
    image = noise((20, 20)) // 2
    np.testing.assert_array_equal(one(Lbp(), image), one(Lbp(), image + np.uint8(100)))


@pytest.mark.parametrize(("points", "count"), [(8, 59), (4, 15)])
def test_uniform_codes_have_their_known_number(points, count):
    assert len(np.unique(uniform_labels(points)[: 1 << points])) == count


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"points": 6}, "expected points to be one of 8, 4, got 6"),
        ({"radius": 0}, "expected radius from 1 to 64 pixels, got 0"),
        ({"method": "rotation"}, "expected method to be one of classic, uniform, got 'rotation'"),
    ],
)
def test_parameters_are_checked(parameters, sentence):
    with pytest.raises(PipelineError, match=sentence):
        Lbp(**parameters)


def test_colour_is_refused():
    with pytest.raises(PipelineError, match=r"operator 'lbp' works on grey frames of shape \(H, W\), got rgb24 6x4"):
        Lbp().configure((FrameSpec.picture(4, 6, "rgb24"),))
