"""Which kind opens what, and what is said when nothing does."""

import numpy as np
import pytest

from hyperframes import registry
from hyperframes.errors import SourceError
from hyperframes.sources import ArraySource, _kind, open_source


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("-", "y4m"),
        ("clip.mp4", "video"),
        ("clip.y4m", "video"),
        ("noise.bin", "events"),
        ("rtsp://user:secret@camera/1", "rtsp"),
        ("udp://127.0.0.1:9000", "udp"),
        ("tcp://127.0.0.1:9000", "tcp"),
        ("/dev/video7", "v4l2"),
        ("https://example.org/a.mp4?x=1", "video"),
        ("s3://bucket/x.npy", "video"),
        ("file://clip.mp4", "video"),
        ("x.npy", "npy"),
        ("X.NPY", "npy"),
        ("x.raw?shape=1,2&dtype=u1", "memmap"),
        ("x.csv", "table"),
        ("x.csv.gz", "table"),
        ("x.tsv", "table"),
        ("x.parquet", "table"),
        ("folder", "images"),
        ("folder/", "images"),
        ("x.zarr", "zarr"),
        ("older", "zarr"),
        ("picture.png", "images"),
        ("shots/*.png", "images"),
        ("shots/%06d.png", "images"),
        ("synthetic:moving", "synthetic"),
        ("odd[1].npy", "npy"),
        ("video.npy.mp4", "video"),
    ],
)
def test_a_location_is_opened_by_its_kind(tmp_path, monkeypatch, location, kind):
    monkeypatch.chdir(tmp_path)
    files = ("clip.mp4", "clip.y4m", "noise.bin", "x.npy", "X.NPY", "x.raw", "x.csv", "x.csv.gz", "x.tsv", "x.parquet")
    for name in (*files, "picture.png", "odd[1].npy", "video.npy.mp4"):
        (tmp_path / name).touch()
    for name in ("folder", "x.zarr", "older"):
        (tmp_path / name).mkdir()
    (tmp_path / "older" / ".zarray").touch()
    assert _kind(location) == kind


def test_a_plugin_named_like_a_scheme_or_suffix_comes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(registry.sources, "_registered", {})
    registry.sources.register(
        "lidar", lambda location, **options: ArraySource(np.zeros(3), name=f"{location} {options}")
    )
    (tmp_path / "x.lidar").touch()
    assert open_source("lidar://sensor/1", gain=2).name == "lidar://sensor/1 {'gain': 2}"
    assert open_source("lidar:top").name == "lidar:top {}"
    assert open_source(tmp_path / "x.lidar").name == f"{tmp_path}/x.lidar {{}}"


def test_a_source_passes_through_and_arrays_are_taken():
    source = ArraySource(np.zeros(3))
    assert open_source(source) is source
    assert open_source((np.zeros((2, 3)), np.ones((2, 3)))).spec.shapes == ((3,), (3,))
    assert open_source(np.zeros((2, 4, 5, 3), np.uint8), rate=10).spec.rate == 10


def test_what_offers_dlpack_or_array_is_taken():
    class Tensor:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    class Frame:
        def __array__(self, dtype=None, copy=None):
            return np.arange(4.0)

    held = np.arange(3.0)
    (plane,), _ = open_source(Tensor(held)).arrays()
    assert np.shares_memory(plane, held)
    assert open_source(Frame()).count() == 4


def test_a_missing_file_names_files_that_are_nearly_called_so(tmp_path):
    (tmp_path / "bikes.mp4").touch()
    (tmp_path / "carphone.npy").touch()
    with pytest.raises(SourceError, match=r"no such file: .*biks\.mp4") as caught:
        open_source(tmp_path / "biks.mp4")
    assert caught.value.hint == f"Did you mean '{tmp_path}/bikes.mp4'?"
    with pytest.raises(SourceError) as caught:
        open_source(tmp_path / "carphone.mkv")
    assert "carphone.npy" in caught.value.hint
    with pytest.raises(SourceError) as caught:
        open_source(f"{tmp_path}/zzz.raw?shape=1")
    assert caught.value.hint == f"The folder '{tmp_path}' holds nothing of a similar name."
    with pytest.raises(SourceError) as caught:
        open_source(tmp_path / "nowhere" / "clip.mp4")
    assert caught.value.hint == f"The folder '{tmp_path}/nowhere' does not exist."


@pytest.mark.parametrize("what", [None, 7, [np.zeros(3)], {"a": 1}])
def test_what_is_no_source_is_refused(what):
    with pytest.raises(
        SourceError, match=f"a source is a path, a URL, an array or a Source: got {type(what).__name__}"
    ) as caught:
        open_source(what)
    assert "numpy.stack" in caught.value.hint


@pytest.mark.parametrize("url", ["file://{}", "file:{}", "file://localhost{}", "FILE://{}"])
def test_a_file_url_names_a_file_with_its_signs_decoded(tmp_path, url):
    np.save(tmp_path / "a b%.npy", np.arange(3.0))
    with open_source(url.format(f"{tmp_path}/a%20b%25.npy")) as source:
        assert source.count() == 3


def test_a_file_url_of_another_machine_is_refused():
    with pytest.raises(SourceError, match="names a file of this machine: got the host 'nas'"):
        open_source("file://nas/a.npy")
