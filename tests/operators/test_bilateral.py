"""The bilateral filter against its definition."""

import numpy as np
import pytest
from tests.operators.frames import noise, one
from tests.reference import spatial

from hyperframes.errors import PipelineError
from hyperframes.frames import FrameSpec
from hyperframes.operators.bilateral import Bilateral


@pytest.mark.parametrize("shape", [(12, 14), (9, 10, 3), (2, 3)])
@pytest.mark.parametrize("parameters", [(5, 25.0, 2.0), (3, 80.0, 1.0), (9, 40.0, 3.0)])
def test_bytes_are_within_one_level_of_the_definition(shape, parameters):
    image = noise(shape)
    assert np.abs(one(Bilateral(*parameters), image) - spatial.bilateral(image, *parameters)).max() <= 1


def test_floats_are_close_to_the_definition():
    image = noise((10, 12), "float32")
    expected = spatial.bilateral(image, 5, 25.0, 2.0)
    assert np.abs(one(Bilateral(), image) - expected).max() < 0.01 * np.ptp(image)


def test_channels_other_than_three_are_filtered_one_by_one():
    image = noise((6, 7, 2))
    alone = [one(Bilateral(), np.ascontiguousarray(image[..., c])) for c in range(2)]
    np.testing.assert_array_equal(one(Bilateral(), image), np.stack(alone, axis=-1))


def test_an_edge_stays_and_noise_goes():
    random = np.random.default_rng(0)
    step = np.where(np.arange(32) < 16, 60.0, 180.0) + random.normal(0, 4, (32, 32))
    smooth = one("bilateral:diameter=9,sigma_color=30,sigma_space=3", step.astype(np.uint8)).astype(float)
    assert smooth[:, :16].std() < 2
    assert smooth[:, 16].min() - smooth[:, 15].max() > 100


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"diameter": 4}, "expected an odd diameter from 3 to 31 pixels, got 4"),
        ({"diameter": 33}, "got 33"),
        ({"sigma_color": 0.0}, "expected sigma_color above 0, got 0.0"),
        ({"sigma_space": float("nan")}, "expected sigma_space above 0, got nan"),
    ],
)
def test_parameters_are_checked(parameters, sentence):
    with pytest.raises(PipelineError, match=sentence):
        Bilateral(**parameters)


def test_deep_pictures_are_refused():
    with pytest.raises(PipelineError, match="operator 'bilateral' takes uint8, float32: got frames of uint16"):
        Bilateral().configure((FrameSpec.picture(4, 6, "gray16le"),))
