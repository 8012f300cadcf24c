"""Which kind writes what, and what is said when nothing does."""

import numpy as np
import pytest

from hyperframes import registry
from hyperframes.errors import SinkError
from hyperframes.frames import FrameSpec
from hyperframes.sinks import MemorySink, NullSink, _kind, open_sink
from hyperframes.sinks.images import ImagesSink
from hyperframes.testing.sinks import clip_like, deliver, target_for


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("-", "y4m"),
        ("null:", "null"),
        *((f"out.{suffix}", "video") for suffix in ("mp4", "mkv", "mov", "webm", "avi", "MP4")),
        ("out.npy", "npy"),
        ("out.zarr", "zarr"),
        ("out.parquet", "parquet"),
        ("out.csv", "csv"),
        ("out.jsonl", "lines"),
        ("out.y4m", "y4m"),
        ("out", "images"),
        ("out/", "images"),
        ("shots.v2", "images"),
        ("out/%06d.png", "images"),
        ("out/%d.JPG", "images"),
        ("file://out.npy", "npy"),
    ],
)
def test_a_location_is_written_by_its_kind(tmp_path, monkeypatch, location, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shots.v2").mkdir()
    assert _kind(location) == kind


def test_a_plugin_named_like_a_scheme_or_suffix_comes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(registry.sinks, "_registered", {})
    registry.sinks.register("ice", NullSink)
    assert open_sink(tmp_path / "out.ice").name == f"{tmp_path}/out.ice"
    assert open_sink("ice://bucket/out").name == "ice://bucket/out"


def test_a_sink_passes_through_and_nothing_means_memory():
    sink = NullSink()
    assert open_sink(sink) is sink
    assert isinstance(open_sink(None, max_bytes=5), MemorySink)


@pytest.mark.parametrize(
    ("location", "message", "hint"),
    [
        ("out.mp5", r"no sink writes 'out\.mp5': known are \.aedat4, \.avi", "Did you mean 'out.mp4'?"),
        ("out.png", r"no sink writes 'out\.png'", "Number the images: '%06d.png'."),
        ("out/%06d.npy", r"no sink writes '%06d\.npy'", ""),
        ("amqp://host/topic", r"no sink writes to amqp://: known are", "plugin"),
        ("nowhere/out.mp4", r"cannot write nowhere/out\.mp4: 'nowhere' does not exist", "mkdir -p nowhere"),
        ("nowhere/out/%d.png", r"cannot write nowhere/out: 'nowhere' does not exist", "mkdir -p nowhere"),
        ("file.txt/out.npy", r"'file\.txt' is not a folder", ""),
        ("folder.mp4", r"cannot write folder\.mp4: a folder stands there", "another name"),
        ("file", "cannot write file: a file stands there", "another name"),
        ("%06d.png", r"images go to a folder of their own: got '%06d\.png'", "out/%06d.png"),
    ],
)
def test_what_cannot_be_written_is_refused_early(tmp_path, monkeypatch, location, message, hint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "file.txt").touch()
    with pytest.raises(SinkError, match=message) as caught:
        open_sink(location)
    assert hint in (caught.value.hint or "")


def test_what_is_no_sink_is_refused():
    with pytest.raises(SinkError, match="a sink is a path, a URL, a function or a Sink: got int"):
        open_sink(7)


def test_options_reach_the_sink(tmp_path):
    with pytest.raises(SinkError, match="zarr compression 'gzip' is not known: expected none, lz4 or zstd"):
        open_sink(tmp_path / "x.zarr", compression="gzip")
    with pytest.raises(SinkError, match="JPEG quality is a whole number from 0 to 100: got 101"):
        open_sink(tmp_path / "x" / "%d.jpg", quality=101)
    with pytest.raises(SinkError, match=r"images are written as \.jpeg, \.jpg, \.png, \.tif, \.tiff: got '.gif'"):
        ImagesSink(tmp_path / "x" / "%d.gif")


def test_a_function_gets_every_hyperframe_and_what_it_raises_comes_through():
    spec, lengths = FrameSpec.array((2,), "f4"), []
    deliver(open_sink(lambda clip: lengths.append(len(clip))), target_for(spec), clip_like(spec, 10), (4,))
    assert lengths == [4, 4, 2]

    def broken(clip):
        raise KeyError("what the user did")

    with pytest.raises(KeyError, match="what the user did"):
        deliver(open_sink(broken), target_for(spec), clip_like(spec, 10), (4,))
    assert "broken" in open_sink(broken).name


def test_more_than_memory_may_hold_is_an_error_that_names_stream():
    spec = FrameSpec.array((100,), "f8")
    sink = MemorySink(max_bytes=5000)
    sink.open(target_for(spec, num_frames=10**9))  # a wrong expectation takes no memory
    clip = clip_like(spec, 4)
    sink.write(clip)
    with pytest.raises(
        SinkError, match=r"do not fit in memory: expected at most 5000 bytes, got \d+ after frame 3"
    ) as caught:
        sink.write(clip)
    assert "hf.stream" in caught.value.hint
    sink.abort()
    assert sink.result is None


def test_memory_keeps_times_positions_and_what_failed():
    spec = FrameSpec.array((), "f8")
    clip = clip_like(spec, 5)
    mask = np.array([True, True, False, True, True])
    sink = MemorySink()
    deliver(sink, target_for(spec), type(clip)(clip.planes, clip.pts * 7, clip.index + 100, spec, clip.pts, mask), (2,))
    assert sink.result.pts.tolist() == (clip.pts * 7).tolist()
    assert sink.result.index.tolist() == [100, 101, 102, 103, 104]
    assert sink.result.durations.tolist() == clip.pts.tolist()
    assert sink.result.mask.tolist() == mask.tolist()
    assert sink.result.data[2] == 0
