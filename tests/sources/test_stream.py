"""Live streams opened as sources: what a run takes from a camera."""

from itertools import pairwise

import pytest
from tests.farm import Cameras, have_programs
from tests.farm.clip import counter, encoded, write_units

import hyperframes as hf
from hyperframes.errors import FrameError, SourceError
from hyperframes.sources import open_source


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    have_programs()
    folder = tmp_path_factory.mktemp("clips")
    small = write_units(folder / "small", encoded(300, 96, 128))
    large = write_units(folder / "large", encoded(300, 144, 192))
    with Cameras(small, large, cameras=3, password="s3cret") as cameras:
        yield cameras


def test_a_camera_is_read_like_any_source(server):
    with open_source(server.url(0, "viewer:s3cret@")) as source:
        frames = [(frame.index, frame.pts, counter(frame.planes[0])) for frame in source.read(0, 12)]
        assert not source.bounded
        assert source.spec.rate == 30
        assert "s3cret" not in f"{source.name} {source.warnings} {source!r}"
    assert [index for index, _, _ in frames] == list(range(12))
    assert {b[2] - a[2] for a, b in pairwise(frames)} == {1}
    assert all(b[1] > a[1] for a, b in pairwise(frames))


@pytest.mark.slow
def test_a_run_takes_a_range_of_what_a_camera_sends(server):
    result = hf.run(server.url(1, "viewer:s3cret@"), "temporal_mean:radius=1", range=(0, 10))
    assert result.frames == 10


@pytest.mark.slow
def test_a_stream_ends_with_its_connection_and_says_so(server):
    source = open_source(server.url(2, "viewer:s3cret@"))
    frames = source.read()
    next(frames)
    server("clip", 2, 1)
    sizes = {next(frames).planes[0].shape for _ in range(20)}
    assert sizes == {(96, 128)}, "scaled to the first"
    server("kick", 2)
    for _ in frames:
        pass
    assert "scaled to the first" in source.warnings[-1]
    with pytest.raises(SourceError, match="can be read only once: it is live"):
        next(source.read())
    source.close()
    source.close()


def test_positions_are_checked(server):
    with open_source(server.url(0, "viewer:s3cret@")) as source, pytest.raises(FrameError, match="start at 0"):
        next(source.read(-1))


def test_nobody_there_is_an_error_without_credentials():
    with pytest.raises(SourceError, match=r"rtsp://\*\*\*@127\.0\.0\.1:1/x") as caught:
        open_source("rtsp://viewer:s3cret@127.0.0.1:1/x")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(SourceError, match=r"'/dev/video997' does not exist"):
        open_source("/dev/video997")
