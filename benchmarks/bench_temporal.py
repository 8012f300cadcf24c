"""Kernels over time beside a copy of the same arrays, which no kernel that reads and writes each frame once can beat.

Frames a second are frames over the median; the copy's cases stand first, one and two threads.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hyperframes import registry
from hyperframes.frames import FrameSpec
from hyperframes.operators import View, Worker
from hyperframes.packing import Boundary, pad, view

NUM_FRAMES = 16


def _planes(spec):
    random = np.random.default_rng(0)
    return tuple(random.integers(0, 256, (NUM_FRAMES, *shape), np.uint8) for shape in spec.shapes)


def _split(pool):
    """Return a `Worker.split` that gives each of two threads one half."""

    def split(total, part):
        list(pool.map(part, (0, total // 2), (total // 2, total)))

    return split


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pixel_format", ["rgb24", "yuv420p"])
def test_a_copy(benchmark, pool, pixel_format, threads):
    planes = _planes(FrameSpec.picture(1080, 1920, pixel_format))
    outs = tuple(np.zeros_like(plane) for plane in planes)

    def copy(start, stop):
        for plane, out in zip(planes, outs, strict=True):
            np.copyto(out[start:stop], plane[start:stop])

    if threads == 1:
        benchmark(copy, 0, NUM_FRAMES)
    else:
        benchmark(_split(pool), NUM_FRAMES, copy)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pixel_format", ["rgb24", "yuv420p"])
@pytest.mark.parametrize("name", ["temporal_mean", "temporal_median", "temporal_gaussian", "denoise"])
def test_a_kernel_over_time(benchmark, pool, name, pixel_format, threads):
    spec = FrameSpec.picture(1080, 1920, pixel_format)
    operator = registry.operators.get(name)()
    contract = operator.configure((spec,))
    planes, boundary = _planes(spec), Boundary()
    (whole,) = view(planes, np.arange(NUM_FRAMES), spec, NUM_FRAMES, contract.halo)
    hyperframe = pad(whole, contract.halo, boundary)
    outputs = (View(contract.outputs[0], 0, NUM_FRAMES, tuple(np.zeros_like(plane) for plane in planes)),)
    prepared = operator.prepare(Worker() if threads == 1 else Worker(split=_split(pool)))
    operator.apply((hyperframe,), outputs, None, prepared)
    benchmark(operator.apply, (hyperframe,), outputs, None, prepared)
