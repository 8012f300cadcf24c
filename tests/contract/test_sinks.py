"""Every built-in sink keeps to the interface: the suite for authors, run over one of each kind.

The video sink has a suite of its own in tests/sinks/test_video*.py, brokers in tests/sinks/test_publish.py: a new kind is
added here as one more subclass of `SinkSuite`, and its name in `COVERED`.
"""

import json

import lancedb
import numpy as np
import pyarrow.parquet as pq
import pytest

from hyperframes import registry
from hyperframes.frames import EVENT_NAMES, Clip, Field, FrameSpec, Records, RecordSpec
from hyperframes.sinks import CallbackSink, MemorySink, NullSink, open_sink
from hyperframes.sinks.failed import zeroed
from hyperframes.sources import open_source
from hyperframes.testing.sinks import DETECTIONS, SinkSuite, part_of

COVERED = {"npy", "zarr", "images", "parquet", "csv", "lines", "y4m", "null", "events", "lance"}
ELSEWHERE = {"video", "mqtt", "mqtts", "nats"}

RGB = FrameSpec.picture(5, 6, "rgb24")
GRAY = FrameSpec.picture(5, 6, "gray")
GRAY16 = FrameSpec.picture(5, 6, "gray16le")
YUV = FrameSpec.picture(5, 7, "yuv420p")
ROW = FrameSpec.array((3,), "f8", names=("ax", "ay", "az"))
VECTOR = FrameSpec.array((4,), "f4")
NUMBER = FrameSpec.array((), "f8")
EVENTS = FrameSpec(((3,),), np.dtype(np.uint16), names=EVENT_NAMES)
EVENT_RECORDS = RecordSpec(
    tuple(Field(name, np.dtype(kind)) for name, kind in zip("txyp", ("i8", "u2", "u2", "u1"), strict=True))
)
FLOATS = FrameSpec.array((5, 6), "f4")


def test_every_built_in_sink_is_covered():
    assert set(registry.sinks) == COVERED | ELSEWHERE


def with_zeros(result):
    return Clip(zeroed(result), result.pts, result.index, result.spec)


def assert_planes(got, wanted):
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


class TestNpy(SinkSuite):
    targets = ((RGB, "frames"), (GRAY16, "frames"), (ROW, "frames"), (NUMBER, "windows"), (FLOATS, "frames"))
    refused = ((YUV, "frames"), (DETECTIONS, "records"), (DETECTIONS, "spans"))

    def sink(self, folder):
        return open_sink(folder / "out.npy")

    def final(self, folder):
        return folder / "out.npy"

    def check(self, sink, folder, result):
        assert_planes((np.load(folder / "out.npy"),), result.planes)

    failed_as = staticmethod(with_zeros)


class TestZarr(SinkSuite):
    targets = ((RGB, "frames"), (YUV, "frames"), (ROW, "frames"), (NUMBER, "windows"), (FLOATS, "frames"))
    refused = ((DETECTIONS, "records"),)

    def sink(self, folder):
        return open_sink(folder / "out.zarr")

    def final(self, folder):
        return folder / "out.zarr"

    def check(self, sink, folder, result):
        with open_source(folder / "out.zarr") as source:
            assert source.spec == result.spec
            held = source.frames(range(source.count()))
        assert_planes(held.planes, result.planes)
        assert held.pts.tolist() == result.pts.tolist()

    failed_as = staticmethod(with_zeros)


class TestImages(SinkSuite):
    targets = ((RGB, "frames"), (GRAY, "frames"), (GRAY16, "frames"), (FrameSpec.picture(5, 6, "rgb48le"), "frames"))
    refused = ((YUV, "frames"), (DETECTIONS, "records"), (ROW, "frames"), (FLOATS, "frames"))

    def sink(self, folder):
        return open_sink(f"{folder}/out/%04d.png")

    def final(self, folder):
        return folder / "out"

    def check(self, sink, folder, result):
        names = sorted(path.name for path in (folder / "out").iterdir())
        assert names == [f"{index:04d}.png" for index in result.index]
        if names:
            with open_source(folder / "out") as source:
                assert_planes(source.frames(range(source.count())).planes, result.planes)


class TestParquet(SinkSuite):
    targets = ((DETECTIONS, "records"), (DETECTIONS, "spans"), (ROW, "frames"), (VECTOR, "windows"), (NUMBER, "frames"))
    refused = ((RGB, "frames"), (YUV, "frames"))

    def sink(self, folder):
        return open_sink(folder / "out.parquet")

    def final(self, folder):
        return folder / "out.parquet"

    def check(self, sink, folder, result):
        table = pq.read_table(folder / "out.parquet")
        assert table["frame"].to_pylist() == result.index.tolist()
        assert table["seconds"].to_pylist() == (result.pts * float(result.spec.time_base)).tolist()
        if isinstance(result, Records):
            assert table.column_names[2:] == [*(["stop"] if result.stop is not None else []), *result.columns]
            for name, column in result.columns.items():
                assert table[name].to_pylist() == column.tolist()
        else:
            values = [table[name].to_pylist() for name in table.column_names[2:]]
            flat = values[0] if len(values) == 1 else [list(row) for row in zip(*values, strict=True)]
            assert flat == result.data.tolist()


class TestParquetOfFrames(TestParquet):
    targets = ((ROW, "frames"),)


class TestLance(SinkSuite):
    targets = TestParquet.targets
    refused = ((RGB, "frames"), (YUV, "frames"))

    def sink(self, folder):
        return open_sink(folder / "out.lance")

    def final(self, folder):
        return folder / "out.lance"

    def check(self, sink, folder, result):
        table = lancedb.connect(folder).open_table("out").search().to_arrow().sort_by("row")
        assert table["row"].to_pylist() == list(range(len(result)))
        assert table["frame"].to_pylist() == result.index.tolist()
        assert table["seconds"].to_pylist() == (result.pts * float(result.spec.time_base)).tolist()
        if isinstance(result, Records):
            for name, column in result.columns.items():
                assert table[name].to_pylist() == column.tolist()
        else:
            values = [table[name].to_pylist() for name in table.column_names[3:]]
            flat = values[0] if len(values) == 1 else [list(row) for row in zip(*values, strict=True)]
            assert flat == result.data.tolist()


class TestCsv(SinkSuite):
    targets = ((ROW, "frames"), (DETECTIONS, "records"), (DETECTIONS, "spans"), (VECTOR, "windows"), (NUMBER, "frames"))
    refused = ((RGB, "frames"),)

    def sink(self, folder):
        return open_sink(folder / "out.csv")

    def final(self, folder):
        return folder / "out.csv"

    def check(self, sink, folder, result):
        text = (folder / "out.csv").read_bytes().decode().split("\r\n")
        assert text.pop() == ""
        header, *lines = [line.split(",") for line in text]
        assert header[:2] == ["frame", "seconds"]
        assert [int(line[0]) for line in lines] == result.index.tolist()
        columns = result.columns.values() if isinstance(result, Records) else [result.data]
        stop = [] if getattr(result, "stop", None) is None else [result.stop]
        for line, *values in zip(lines, *stop, *columns, strict=True):
            flat = np.concatenate([np.ravel(value) for value in values])
            kind = result.spec.dtype if isinstance(result, Clip) else np.dtype(np.float32)
            assert [kind.type(cell) for cell in line[2:]] == [kind.type(value) for value in flat]


class TestLines(SinkSuite):
    targets = ((DETECTIONS, "records"), (DETECTIONS, "spans"), (ROW, "frames"), (VECTOR, "windows"), (NUMBER, "frames"))
    refused = ((RGB, "frames"),)

    def sink(self, folder):
        return open_sink(folder / "out.jsonl")

    def final(self, folder):
        return folder / "out.jsonl"

    def check(self, sink, folder, result):
        rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
        assert [row["frame"] for row in rows] == result.index.tolist()
        if isinstance(result, Records):
            for name, column in result.columns.items():
                assert [row[name] for row in rows] == column.tolist()
            assert [row.get("stop") for row in rows] == (
                [None] * len(rows) if result.stop is None else result.stop.tolist()
            )
        elif result.spec.names:
            assert [[row[name] for name in result.spec.names] for row in rows] == result.data.tolist()
        else:
            assert [row["values" if result.data.ndim > 1 else "value"] for row in rows] == result.data.tolist()


class TestY4m(SinkSuite):
    targets = ((YUV, "frames"), (GRAY, "frames"), (FrameSpec.picture(4, 6, "yuv422p10le"), "frames"))
    refused = ((RGB, "frames"), (DETECTIONS, "records"), (ROW, "frames"))

    def sink(self, folder):
        return open_sink(folder / "out.y4m")

    def final(self, folder):
        return folder / "out.y4m"

    def check(self, sink, folder, result):
        header, *frames = (folder / "out.y4m").read_bytes().split(b"FRAME\n")
        assert header.startswith(f"YUV4MPEG2 W{result.spec.width} H{result.spec.height} F25:1 Ip A1:1 C".encode())
        assert b"".join(frames) == b"".join(plane[t].tobytes() for t in range(len(result)) for plane in result.planes)


class TestNull(SinkSuite):
    targets = ((RGB, "frames"), (DETECTIONS, "records"), (YUV, "frames"))

    def sink(self, folder):
        return open_sink("null:")

    def check(self, sink, folder, result):
        assert isinstance(sink, NullSink)
        assert sink.num_results == len(result)

    def failed_as(self, result):
        return result


class TestMemory(SinkSuite):
    targets = (
        (RGB, "frames"),
        (YUV, "frames"),
        (ROW, "frames"),
        (NUMBER, "windows"),
        (DETECTIONS, "records"),
        (DETECTIONS, "spans"),
    )

    def sink(self, folder):
        return open_sink(None)

    def check(self, sink, folder, result):
        assert isinstance(sink, MemorySink)
        held = sink.result
        assert held.spec == result.spec
        assert held.index.tolist() == result.index.tolist()
        assert held.pts.tolist() == result.pts.tolist()
        if isinstance(result, Records):
            assert_planes(tuple(held.columns.values()), tuple(result.columns.values()))
            assert (held.stop is None) == (result.stop is None)
            assert held.stop is None or held.stop.tolist() == result.stop.tolist()
        else:
            assert_planes(held.planes, result.planes)

    failed_as = staticmethod(with_zeros)


class TestCallback(SinkSuite):
    targets = ((RGB, "frames"), (DETECTIONS, "records"))

    def sink(self, folder):
        self.taken = []
        return open_sink(lambda result: self.taken.append(part_of(result, 0, len(result))))

    def check(self, sink, folder, result):
        assert isinstance(sink, CallbackSink)
        assert sum(map(len, self.taken)) == len(result)
        if self.taken and isinstance(result, Clip):
            assert_planes((np.concatenate([piece.data for piece in self.taken]),), result.planes)

    def failed_as(self, result):
        return result


class TestEvents(SinkSuite):
    targets = ((EVENTS, "frames"), (EVENT_RECORDS, "records"))
    refused = ((RGB, "frames"), (ROW, "frames"), (DETECTIONS, "records"))

    def sink(self, folder):
        return open_sink(folder / "out.npz")

    def final(self, folder):
        return folder / "out.npz"

    def check(self, sink, folder, result):
        got = np.load(folder / "out.npz")
        rows = result.data.T if isinstance(result, Clip) else [result.columns[name] for name in "xyp"]
        times = result.pts * 1_000_000 if isinstance(result, Clip) else result.columns["t"]
        assert_planes([got[name].astype(np.int64) for name in "xyp"],
                      [rows[0].astype(np.int64), rows[1].astype(np.int64), (rows[2] > 0).astype(np.int64)])  # fmt: skip
        np.testing.assert_array_equal(got["t"], times)


@pytest.mark.parametrize("kind", sorted(COVERED | ELSEWHERE))
def test_every_sink_is_loaded_by_its_name(kind):
    assert callable(registry.sinks.get(kind))
