"""The main job beside the limits of the machine: copying frames in memory, and decoding without doing anything.

Read the ratios within one run: copying bounds the mean in memory, decoding bounds the mean of a file.
"""

from importlib.resources import files

import av
import numpy as np
import pytest

import hyperframes as hf

CLIP = str(files("hyperframes") / "data" / "big_buck_bunny.mp4")
NUM_FRAMES = 132


@pytest.fixture(scope="module")
def frames():
    """64 frames of textured 360p."""
    return np.random.default_rng(1).integers(0, 256, (64, 360, 640, 3), np.uint8)


@pytest.mark.benchmark(group="in memory")
def test_a_plain_copy(benchmark, frames):
    target = np.empty_like(frames)
    benchmark(np.copyto, target, frames)
    assert target[-1, -1, -1, -1] == frames[-1, -1, -1, -1]


@pytest.mark.benchmark(group="in memory")
def test_the_mean_in_memory(benchmark, frames):
    result = benchmark(hf.run, frames, "temporal_mean:radius=2", to="null:", size=16)
    assert result.frames == len(frames)


@pytest.mark.benchmark(group="from file")
def test_plain_decoding(benchmark):
    def decode():
        with av.open(CLIP) as container:
            container.streams.video[0].thread_type = "AUTO"
            return sum(1 for _ in container.decode(video=0))

    assert benchmark(decode) == NUM_FRAMES


@pytest.mark.benchmark(group="from file")
def test_the_mean_of_a_file(benchmark):
    result = benchmark(hf.run, CLIP, "temporal_mean:radius=2", to="null:", size=16)
    assert result.frames == NUM_FRAMES
