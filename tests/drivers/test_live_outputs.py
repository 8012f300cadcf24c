"""Results of live runs in files and to brokers: rows of all streams together, pictures of each stream apart."""

import json

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.sinks.brokers import MqttListener, NatsListener, mosquitto, nats_server, wait_until
from tests.sinks.test_staging import small_files

import hyperframes as hf
from hyperframes.drivers.live_outputs import LiveOutputs
from hyperframes.errors import PipelineError, SinkError

SIZE = (16, 24)


def pictures(count, size=SIZE):
    return [np.full((*size, 3), 4 * t, np.uint8) for t in range(count)]


def run(names, operator, feeds, streams=("a",), finish=True):
    """Feed {stream: pictures} and return what was written, and what wrote it."""
    outputs = LiveOutputs([str(name) for name in names], streams)
    with hf.LiveRuntime(packing=hf.Packing(size=4), operator=operator, on_result=outputs, when_full="block") as live:
        outputs.watch(live.outputs)
        for stream, frames in feeds.items():
            for t, frame in enumerate(frames):
                live.feed(stream, frame, frame_id=t, timestamp=100 + t / 25)
    stats = live.stats()
    assert stats["captured"] == stats["delivered"] + sum(stats["dropped"].values())
    assert stats["callback_errors"] == 0
    return (outputs.finish() if finish else None), outputs


def luma(path):
    with av.open(str(path)) as container:
        return [
            (frame.time, round(float(frame.to_ndarray(format="rgb24").mean()))) for frame in container.decode(video=0)
        ]


@pytest.mark.requirement("B32")
def test_pictures_become_a_video_with_the_times_between_them(tmp_path):
    names, _ = run([tmp_path / "out.mp4"], "gaussian:sigma=1", {"a": pictures(10)})
    assert names == [str(tmp_path / "out.mp4")]
    told = luma(tmp_path / "out.mp4")
    assert [time for time, _ in told] == pytest.approx([t / 25 for t in range(10)], abs=1e-4)
    assert [level for _, level in told] == pytest.approx([4 * t for t in range(10)], abs=3)
    assert [path.name for path in tmp_path.iterdir()] == ["out.mp4"]


def test_what_was_found_is_drawn_and_written_as_video_for_each_stream(tmp_path):
    feeds = {"a": pictures(6), "b/1": pictures(5)}
    names, _ = run([tmp_path / "out.mp4", tmp_path / "shots"], ["measure", "overlay"], feeds, streams=feeds)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-a.mp4", "out-b_1.mp4", "shots-a", "shots-b_1"]
    assert len(names) == 4
    assert (len(luma(tmp_path / "out-a.mp4")), len(luma(tmp_path / "out-b_1.mp4"))) == (6, 5)
    assert len(list((tmp_path / "shots-a").iterdir())) == 6


def test_another_size_is_another_file(tmp_path):
    run([tmp_path / "out.mkv"], "gaussian:sigma=1", {"a": pictures(5) + pictures(7, (32, 48))})
    assert len(luma(tmp_path / "out.mkv")) == 5
    assert len(luma(tmp_path / "out-2.mkv")) == 7


def test_records_of_all_streams_are_rows_of_one_table(tmp_path):
    names = ["out.parquet", "out.csv", "out.jsonl"]
    run([tmp_path / name for name in names], "measure", {"a": pictures(6), "b": pictures(5)}, streams="ab")
    table = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert {(row["stream"], row["frame"]) for row in table} == {("a", t) for t in range(6)} | {
        ("b", t) for t in range(5)
    }
    row = next(row for row in table if (row["stream"], row["frame"]) == ("a", 3))
    assert (row["mean"], row["seconds"], row["clock"], row["epoch"]) == (12.0, pytest.approx(100.12), "capture", 0)
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 12
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["value"]["mean"] for line in lines if line["stream"] == "b"] == [[4.0 * t] for t in range(5)]


def test_without_operators_a_table_tells_who_came_when(tmp_path):
    run([tmp_path / "out.parquet"], None, {"a": pictures(6)})
    assert pq.read_table(tmp_path / "out.parquet")["frame"].to_pylist() == list(range(6))


def test_numbers_of_each_frame_are_columns_and_spans_have_their_ends(tmp_path):
    level = hf.operator(lambda f: f.mean((1, 2, 3)), name="level", output={"shape": (), "dtype": "f8"})
    run([tmp_path / "level.csv"], level, {"a": pictures(3)})
    assert [line.split(",")[-1] for line in (tmp_path / "level.csv").read_text().splitlines()] == [
        "value",
        "0.0",
        "4.0",
        "8.0",
    ]
    still = [np.zeros((*SIZE, 3), np.uint8)] * 12
    run([tmp_path / "spans.csv"], "still_spans:threshold=9,min_frames=2", {"a": still})
    head, row = (line.split(",") for line in (tmp_path / "spans.csv").read_text().splitlines())
    assert (head[:3], row[0], row[2]) == (["frame", "seconds", "stop"], "0", "12")


@pytest.mark.parametrize(
    ("name", "operator", "message"),
    [
        ("out.mp4", "measure", "holds pictures: the operators make records"),
        ("out.mp4", None, "holds pictures: the operators make none"),
        ("out.parquet", "gaussian:sigma=1", "holds rows: expected records or numbers, got pictures"),
    ],
)
def test_an_output_that_cannot_hold_the_results_is_given_up_alone(tmp_path, name, operator, message):
    names, outputs = run([tmp_path / name, tmp_path / "all.jsonl"], operator, {"a": pictures(6)})
    assert names == [str(tmp_path / "all.jsonl")]
    (failure,) = outputs.failures
    assert message in str(failure)
    assert failure.hint
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]


def test_a_full_disk_ends_an_output_and_leaves_nothing_of_it(tmp_path):
    told = []
    outputs = LiveOutputs([str(tmp_path / "out.jsonl"), "null:"], ["a"], told.append)
    with small_files(2_000), hf.LiveRuntime(operator="measure", on_result=outputs, when_full="block") as live:
        outputs.watch(live.outputs)
        for t in range(400):
            live.feed("a", pictures(1)[0], frame_id=t, timestamp=t / 25)
    outputs.finish()
    (why,) = told
    assert "cannot write" in why
    assert why.endswith("nothing more is written there")
    assert live.stats()["delivered"] == 400
    assert not list(tmp_path.iterdir())


def test_lines_are_with_the_system_before_anybody_is_told_that_they_were_delivered(tmp_path):
    outputs = LiveOutputs([str(tmp_path / "out.jsonl"), str(tmp_path / "out.csv")], ["a"], kept=True)
    seen = []

    class Watch:
        def observe(self, observation):
            if observation["kind"] == "delivered":
                seen.append([(tmp_path / f".out.{kind}.part").read_bytes().count(b"\n") for kind in ("jsonl", "csv")])

    with hf.LiveRuntime(
        packing=hf.Packing(size=4), operator="measure", on_result=outputs, instruments=(Watch(),)
    ) as live:
        outputs.watch(live.outputs)
        for t, frame in enumerate(pictures(10)):
            live.feed("a", frame, frame_id=t, timestamp=100 + t / 25)
    outputs.finish()
    assert all(lines >= wanted and rows > wanted for wanted, (lines, rows) in zip((4, 8, 10), seen, strict=True))


def test_streams_whose_names_read_alike_in_files_have_files_of_their_own(tmp_path):
    run([tmp_path / "out.mkv"], "gaussian:sigma=1", {"b/1": pictures(4), "b_1": pictures(6)}, streams=("b/1", "b_1"))
    assert sorted(len(luma(path)) for path in tmp_path.iterdir()) == [4, 6]


def test_nothing_stands_under_its_name_before_the_end_nor_after_giving_up(tmp_path):
    _, outputs = run(
        [tmp_path / "out.jsonl", tmp_path / "out.mp4"], "gaussian:sigma=1", {"a": pictures(9)}, finish=False
    )
    assert all(path.name.startswith(".") for path in tmp_path.iterdir())
    outputs.abort()
    assert not list(tmp_path.iterdir())


def test_wrong_names_are_refused_before_anything_runs(tmp_path):
    with pytest.raises(SinkError, match=r"no sink writes 'out\.txx'"):
        LiveOutputs([str(tmp_path / "out.txx")], ["a"])
    with pytest.raises(PipelineError, match="two outputs are written to one place: null: was given twice"):
        LiveOutputs(["null:", "null:"], ["a"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mqtt", "nats"])
def test_results_are_published_row_by_row(kind, tmp_path):
    server = {"mqtt": mosquitto, "nats": nats_server}[kind](tmp_path)
    listener = {"mqtt": MqttListener, "nats": NatsListener}[kind](server.port, "plant")
    try:
        run([f"{kind}://127.0.0.1:{server.port}/plant"], "measure", {"a": pictures(6)})
        wait_until(lambda: len(listener.messages) == 6)
        rows = [json.loads(message) for message in listener.messages]
        assert [(row["stream"], row["frame"], row["mean"]) for row in rows] == [("a", t, 4.0 * t) for t in range(6)]
    finally:
        listener.close()
        server.stop()
