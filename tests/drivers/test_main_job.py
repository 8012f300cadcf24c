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


@pytest.mark.requirement("A69")
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


@pytest.mark.media
@pytest.mark.parametrize("sink", ["path", "settings"])
def test_a_change_of_frame_size_can_start_an_output_of_its_own(media, tmp_path, sink):
    clip = media / "odd" / "av1c_two_entries.mp4"
    out = tmp_path / "out.mkv"
    to = hf.open_sink(out, codec="ffv1") if sink == "settings" else out
    result = hf.run(clip, "temporal_mean:radius=1", to=to, on_size_change="split")
    assert (result.frames_in, result.frames_out) == (20, 20)
    sizes = []
    for path in (out, tmp_path / "out-2.mkv"):
        with hf.open(path) as video:
            sizes.append((video.count(), video.spec.width, video.spec.height))
    assert sizes == [(10, 160, 90), (10, 320, 180)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out-2.mkv", "out.mkv"]


@pytest.mark.media
def test_a_change_of_frame_size_is_scaled_and_said_or_refused(media):
    clip = media / "odd" / "av1c_two_entries.mp4"
    scaled = hf.run(clip, "temporal_mean:radius=1")
    assert len(scaled.value) == 20
    assert any("scaled to the first" in warning for warning in scaled.warnings)
    with pytest.raises(hf.SourceError, match="at frame 10") as caught:
        hf.run(clip, "temporal_mean:radius=1", on_size_change="fail")
    assert "scale" in caught.value.hint
