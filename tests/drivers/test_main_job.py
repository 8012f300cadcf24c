"""The main job on real video: exactly what NumPy gives over the whole sequence, whatever the settings."""

import av
import numpy as np
import pytest
from tests.reference.padded import window_sums

import hyperframes as hf


@pytest.fixture(scope="module")
def bikes(media):
    """The clip, and its frames decoded by PyAV as RGB, (250, 272, 640, 3)."""
    path = media / "video" / "bikes.mp4"
    with av.open(str(path)) as container:
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    return path, frames


@pytest.fixture(scope="module")
def mean_of_five(bikes):
    return ((2 * window_sums(bikes[1], 2, 2, "replicate") + 5) // 10).astype(np.uint8)


@pytest.mark.media
@pytest.mark.slow
@pytest.mark.requirement("A38")
@pytest.mark.requirement("A74")
@pytest.mark.parametrize("size", [1, 7, 32, 1000])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_mean_of_five_frames_equals_numpy_over_the_whole_clip(bikes, mean_of_five, tmp_path, size, workers):
    out = tmp_path / "out.npy"
    hf.run(bikes[0], "temporal_mean:radius=2", to=out, pixel_format="rgb24", size=size, workers=workers)
    assert np.array_equal(np.load(out, mmap_mode="r"), mean_of_five)
    assert [p.name for p in tmp_path.iterdir()] == ["out.npy"]
