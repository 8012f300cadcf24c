"""What stands in the files: headers, chunks, row groups, colour order; and what other readers make of them."""

import json
from fractions import Fraction

import av
import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from hyperframes.errors import MissingExtraError, SinkError
from hyperframes.frames import Clip, Colour, Field, FrameSpec, Records, RecordSpec
from hyperframes.sinks import open_sink, table
from hyperframes.sinks.array import npy_header, pts_runs
from hyperframes.sources import open_source
from hyperframes.sources.zarr import _expand
from hyperframes.testing.sinks import DETECTIONS, clip_like, deliver, records_like, target_for

RGB = FrameSpec.picture(6, 8, "rgb24")


def test_an_npy_file_has_a_header_that_fits_any_number_of_frames(tmp_path):
    for count in (0, 1, 10**18):
        assert len(npy_header((count, 1080, 1920, 3), np.dtype("<f8"))) == 256
    deliver(open_sink(tmp_path / "x.npy"), target_for(RGB), clip_like(RGB, 5), (2,))
    assert (tmp_path / "x.npy").stat().st_size == 256 + 5 * RGB.nbytes
    assert np.load(tmp_path / "x.npy", mmap_mode="r").shape == (5, 6, 8, 3)
    with pytest.raises(ValueError, match=r"takes .* bytes: expected at most 245"):
        npy_header((1,) * 100, np.dtype("u1"))


@given(st.lists(st.integers(-(2**62), 2**62), max_size=30).map(sorted))
def test_runs_of_times_are_exact(pts):
    assert _expand(pts_runs(pts)).tolist() == pts


def test_a_constant_rate_is_one_run():
    assert pts_runs(np.arange(100_000) * 1001) == [[0, 1001, 100_000]]


def test_one_hyperframe_is_one_chunk(tmp_path):
    deliver(open_sink(tmp_path / "x.zarr"), target_for(RGB, size=4), clip_like(RGB, 10), (4,))
    stored = zarr.open_array(tmp_path / "x.zarr", mode="r")
    assert (stored.shape, stored.chunks, stored.metadata.zarr_format) == ((10, 6, 8, 3), (4, 6, 8, 3), 3)
    assert sorted(
        path.parent.parent.parent.name for path in (tmp_path / "x.zarr" / "c").rglob("0") if path.is_file()
    ) == ["0", "1", "2"]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_planes_become_a_zarr_group_with_every_fact_kept(tmp_path, compression):
    spec = FrameSpec.picture(
        5,
        7,
        "yuv420p10le",
        colour=Colour("bt709", "tv", "bt709", "bt709"),
        sample_aspect_ratio=Fraction(4, 3),
        rotation=90,
        mirrored=True,
        field_order="tff",
        time_base=Fraction(1, 90000),
        rate=Fraction(30000, 1001),
    )
    clip = clip_like(spec, 9)
    clip = Clip(clip.planes, np.array([-5, 0, 3003, 3004, 3004, 9000, 9001, 9002, 10**12]), clip.index, spec)
    deliver(open_sink(tmp_path / "x.zarr", compression=compression), target_for(spec), clip, (4,))
    group = zarr.open_group(tmp_path / "x.zarr", mode="r")
    assert sorted(name for name, _ in group.arrays()) == ["pts", "u", "v", "y"]
    assert group["u"].shape == (9, 3, 4)
    with open_source(tmp_path / "x.zarr") as source:
        assert source.spec == spec
        held = source.frames(range(9))
    assert held.pts.tolist() == clip.pts.tolist()
    for got, wanted in zip(held.planes, clip.planes, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_sensor_rows_go_through_zarr_with_their_names(tmp_path):
    spec = FrameSpec.array((2,), "f4", names=("ax", "ay"), time_base=Fraction(1, 1000))
    deliver(open_sink(tmp_path / "x.zarr"), target_for(spec), clip_like(spec, 3), (2,))
    with open_source(tmp_path / "x.zarr") as source:
        assert source.spec == spec


@pytest.mark.parametrize("suffix", ["png", "jpg", "tiff"])
def test_images_are_in_true_colours(tmp_path, suffix):
    red = Clip(
        (np.full((2, 16, 16, 3), (250, 20, 10), np.uint8),),
        np.arange(2),
        np.arange(2),
        FrameSpec.picture(16, 16, "rgb24"),
    )
    deliver(open_sink(f"{tmp_path}/out/%03d.{suffix}"), target_for(red.spec), red, (2,))
    blue, green, read = cv2.imread(f"{tmp_path}/out/001.{suffix}").mean(axis=(0, 1))
    assert (abs(read - 250) < 6, abs(green - 20) < 6, abs(blue - 10) < 6) == (True, True, True)


@pytest.mark.parametrize("pixel_format", ["gray", "gray16le", "rgb24", "rgba", "rgb48le", "rgba64le"])
@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_images_keep_every_sample(tmp_path, suffix, pixel_format):
    spec = FrameSpec.picture(7, 9, pixel_format)
    clip = clip_like(spec, 3)
    deliver(open_sink(f"{tmp_path}/out/%d.{suffix}"), target_for(spec), clip, (2,))
    with open_source(tmp_path / "out") as source:
        assert source.spec.pixel_format == pixel_format
        np.testing.assert_array_equal(source.frames(range(3)).data, clip.data)


def test_images_are_numbered_by_position_in_the_stream(tmp_path):
    clip = clip_like(RGB, 3)
    deliver(open_sink(tmp_path / "out"), target_for(RGB), Clip(clip.planes, clip.pts, clip.index + 100, RGB), (2,))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["000100.png", "000101.png", "000102.png"]


def test_jpeg_takes_no_alpha(tmp_path):
    sink = open_sink(f"{tmp_path}/out/%d.jpg")
    assert sink.accepts(RGB) == ("gray", "rgb24")
    with pytest.raises(SinkError, match=r"\.jpg images hold gray, rgb24: got rgba") as caught:
        sink.open(target_for(FrameSpec.picture(4, 4, "rgba")))
    assert "--pixel-format" in caught.value.hint


def test_arrays_of_several_planes_are_refused_by_npy_with_the_way_out(tmp_path):
    with pytest.raises(SinkError, match=r"x\.npy holds one array: yuv420p frames have 3 planes") as caught:
        open_sink(tmp_path / "x.npy").open(target_for(FrameSpec.picture(4, 4, "yuv420p")))
    assert "--pixel-format rgb24" in caught.value.hint


@pytest.mark.parametrize("name", ["x.npy", "x.zarr", "x.y4m", "x"])
def test_records_are_refused_by_sinks_of_frames(tmp_path, name):
    with pytest.raises(SinkError, match="expected frames, got records from output 'output'") as caught:
        open_sink(tmp_path / name).open(target_for(DETECTIONS, "records"))
    assert caught.value.hint == "Write records to .parquet, .csv or .jsonl."


# Tables --------------------------------------------------------------------------------------------------------------


def test_row_groups_are_bounded_and_do_not_depend_on_the_size_of_hyperframes(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "_GROUP_ROWS", 8)
    spec = FrameSpec.array((), "f4")
    for number, sizes in enumerate([(3,), (50,), (1,)]):
        deliver(open_sink(tmp_path / f"{number}.parquet"), target_for(spec), clip_like(spec, 20), sizes)
    files = [pq.ParquetFile(tmp_path / f"{number}.parquet") for number in range(3)]
    assert [[f.metadata.row_group(i).num_rows for i in range(f.metadata.num_row_groups)] for f in files] == [
        [8, 8, 4]
    ] * 3
    for file in files:
        file.close()


def test_sensor_rows_go_through_parquet_and_csv_with_their_times(tmp_path):
    spec = FrameSpec.array((2,), "f8", names=("ax", "ay"), time_base=Fraction(1, 90000))
    clip = clip_like(spec, 7)
    for name in ("x.parquet", "x.csv"):
        deliver(open_sink(tmp_path / name), target_for(spec), clip, (3,))
        with open_source(tmp_path / name) as source:
            assert source.spec.names == ("ax", "ay")
            held = source.frames(range(7))
        assert held.data.tolist() == clip.data.tolist()
        np.testing.assert_allclose(held.seconds, clip.seconds, atol=1e-9)
    with open_source(tmp_path / "x.parquet") as source:
        assert source.spec.time_base == spec.time_base
        assert source.times().tolist() == clip.pts.tolist()


def test_text_and_several_axes_fit_in_tables(tmp_path):
    spec = RecordSpec(
        (Field("label", np.dtype(object)), Field("corners", np.dtype("i4"), (2, 2)), Field("hit", np.dtype(bool)))
    )
    columns = {
        "label": np.array(["a,b", 'say "x"', "é"], object),
        "corners": np.arange(12, dtype="i4").reshape(3, 2, 2),
        "hit": np.array([True, False, True]),
    }
    records = Records(columns, np.arange(3), np.arange(3), spec)
    for name in ("x.parquet", "x.csv", "x.jsonl"):
        sink = open_sink(tmp_path / name)
        sink.open(target_for(spec, "records"))
        sink.write(records)
        sink.close()
    stored = pq.read_table(tmp_path / "x.parquet")
    assert stored["label"].to_pylist() == columns["label"].tolist()
    assert stored["corners"].to_pylist()[1] == [4, 5, 6, 7]
    assert (tmp_path / "x.csv").read_text().splitlines()[:3] == [
        "frame,seconds,label,corners_0,corners_1,corners_2,corners_3,hit",
        '0,0.0,"a,b",0,1,2,3,1',
        '1,1.0,"say ""x""",4,5,6,7,0',
    ]
    first, *_ = (tmp_path / "x.jsonl").read_text().splitlines()
    assert json.loads(first) == {"frame": 0, "seconds": 0.0, "label": "a,b", "corners": [[0, 1], [2, 3]], "hit": True}


def test_json_has_null_for_what_is_no_number(tmp_path):
    spec = FrameSpec.array((2,), "f4")
    clip = Clip((np.array([[np.nan, 1], [np.inf, 2]], "f4"),), np.arange(2), np.arange(2), spec)
    deliver(open_sink(tmp_path / "x.jsonl"), target_for(spec), clip, (2,))
    assert [json.loads(line)["values"] for line in (tmp_path / "x.jsonl").read_text().splitlines()] == [
        [None, 1],
        [None, 2],
    ]


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.jsonl"])
def test_what_is_no_row_is_refused_by_tables(tmp_path, name):
    with pytest.raises(
        SinkError, match="holds rows: expected records or frames of at most one axis, got rgb24 8x6"
    ) as caught:
        open_sink(tmp_path / name).open(target_for(RGB))
    assert ".npy, .zarr" in caught.value.hint
    taken = RecordSpec((Field("seconds", np.dtype("f4")),))
    with pytest.raises(SinkError, match="cannot hold two columns named 'seconds'") as caught:
        open_sink(tmp_path / name).open(target_for(taken, "records"))
    assert caught.value.hint.startswith("Rename that field")
    assert list(tmp_path.iterdir()) == []


def test_parquet_refuses_dtypes_it_has_not(tmp_path):
    spec = RecordSpec((Field("wave", np.dtype(np.complex128)),))
    with pytest.raises(SinkError, match="cannot hold field 'wave' of dtype complex128"):
        open_sink(tmp_path / "x.parquet").open(target_for(spec, "records"))


def test_without_the_extras_sinks_name_them(tmp_path, monkeypatch):
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, "pyarrow", None)
    monkeypatch.setitem(modules, "zarr", None)
    for name, extra in (("x.parquet", "tables"), ("x.zarr", "zarr")):
        with pytest.raises(MissingExtraError, match=f"needs the '{extra}' extra"):
            open_sink(tmp_path / name).open(target_for(FrameSpec.array((), "f4")))


def test_empty_results_make_valid_tables(tmp_path):
    for name in ("x.parquet", "x.csv"):
        deliver(
            open_sink(tmp_path / name), target_for(DETECTIONS, "spans"), records_like(DETECTIONS, 0, spans=True), (4,)
        )
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 0
    assert (tmp_path / "x.csv").read_text() == "frame,seconds,stop,score,label,box_0,box_1,box_2,box_3\n"


# y4m -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pixel_format", ["yuv420p", "yuv422p", "yuv444p", "yuv411p", "gray", "yuv420p10le", "gray12le"]
)
def test_ffmpeg_reads_y4m_as_it_was(tmp_path, pixel_format):
    spec = FrameSpec.picture(6, 9, pixel_format, rate=Fraction(30000, 1001), sample_aspect_ratio=Fraction(16, 11))
    clip = clip_like(spec, 3)
    deliver(open_sink(tmp_path / "x.y4m"), target_for(spec), clip, (2,))
    with av.open(tmp_path / "x.y4m") as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.sample_aspect_ratio) == (Fraction(30000, 1001), Fraction(16, 11))
        for t, frame in enumerate(container.decode(stream)):
            assert frame.format.name == pixel_format
            for plane, wanted in zip(frame.planes, clip.planes, strict=True):
                rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
                np.testing.assert_array_equal(
                    rows[:, : wanted[t].nbytes // plane.height], wanted[t].view(np.uint8).reshape(plane.height, -1)
                )
    assert t == 2


def test_y4m_goes_to_standard_output(capfdbinary):
    spec = FrameSpec.picture(2, 2, "gray", field_order="tff", colour=Colour(range="pc"))
    clip = clip_like(spec, 2)
    assert deliver(open_sink("-"), target_for(spec), clip, (1,)) == "-"
    expected = b"YUV4MPEG2 W2 H2 F25:1 It A1:1 Cmono XCOLORRANGE=FULL\n"
    assert capfdbinary.readouterr().out == expected + b"".join(b"FRAME\n" + clip.data[t].tobytes() for t in range(2))


def test_a_reader_that_has_gone_is_said(monkeypatch):
    class Gone:
        @property
        def buffer(self):
            return self

        def write(self, data):
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sys.stdout", Gone())
    with pytest.raises(SinkError, match="cannot write standard output: its reader has gone"):
        open_sink("-").open(target_for(FrameSpec.picture(2, 2, "gray")))


def test_y4m_refuses_formats_without_a_name(tmp_path):
    sink = open_sink(tmp_path / "x.y4m")
    assert "yuv420p" in sink.accepts(RGB)
    with pytest.raises(SinkError, match="y4m has no name for rgb24: expected one of yuv420p") as caught:
        sink.open(target_for(RGB))
    assert "convert" in caught.value.hint
