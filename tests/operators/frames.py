"""What tests of operators share: running one on frames."""

import numpy as np

from hyperframes.frames import FrameSpec
from hyperframes.operators import create
from hyperframes.testing.operators import run_whole


def results(operator, spec, *planes):
    """Return the planes that come out of `operator` (or its text) for planes (N, ...)."""
    return run_whole(create(operator), planes, np.arange(len(planes[0])), spec)["frames"].planes


def one(operator, image, **fields):
    """Return the single array that comes out for one image."""
    (out,) = results(operator, FrameSpec.array(image.shape, image.dtype, **fields), image[None])
    return out[0]


def noise(shape, dtype=np.uint8, seed=0):
    """Return an image of noise over the whole range of integers, or normal floats."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return (random.normal(size=shape) * 50 + 100).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype, endpoint=True)
