"""Copies of planes: the same samples whatever the layout, the dtype and the size."""

import numpy as np
import pytest

from hyperframes.frames import copy_planes
from hyperframes.frames.copying import KEPT_BYTES

DTYPES = ["u1", "i2", "u2", ">u2", "f2", "f4", "f8", "c8", "?"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (6, 8, 3), (2, 3, 4, 5)])
def test_what_was_copied_is_what_was_there(dtype, shape):
    plane = (np.arange(max(1, int(np.prod(shape)))).reshape(shape) % 2).astype(dtype)
    target = np.zeros(shape, dtype)
    copy_planes((target,), (plane,))
    assert np.array_equal(target, plane)


@pytest.mark.parametrize("shape", [(5, 7), (600, 40)])
@pytest.mark.parametrize("cut", [np.s_[:, 2:-3], np.s_[::2], np.s_[:, ::2], np.s_[::-1, ::-1]])
def test_rows_with_something_between_them_are_copied_alone(shape, cut):
    wide = np.random.default_rng(1).integers(0, 255, shape).astype(np.uint8)
    memory = np.full(shape, 9, np.uint8)
    copy_planes((memory[cut],), (wide[cut],))
    expected = np.full(shape, 9, np.uint8)
    expected[cut] = wide[cut]
    assert np.array_equal(memory, expected)


def test_large_planes_are_copied_too():
    plane = np.arange(KEPT_BYTES + 10, dtype=np.uint8)
    target = np.zeros_like(plane)
    copy_planes((target,), (plane,))
    assert np.array_equal(target, plane)


def test_a_plane_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="could not broadcast"):
        copy_planes((np.zeros((4, 6), np.uint8),), (np.zeros((4, 5), np.uint8),))
    with pytest.raises(ValueError, match="zip"):
        copy_planes((np.zeros((4, 6), np.uint8),), ())


def test_other_dtypes_are_converted_where_that_loses_nothing():
    target = np.zeros(3, np.int32)
    copy_planes((target,), (np.array([1, 2, 3], np.uint8),))
    assert target.tolist() == [1, 2, 3]
