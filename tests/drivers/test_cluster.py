"""The ray executor, with a real Ray of two workers: the files are those of threads, whatever is lost on the way."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import av
import numpy as np
import pytest
from tests.drivers.cluster_operators import DiesOn, RaisesOn, Same, Slow, spread
from tests.drivers.interrupted import Bright, Moving, Trail
from tests.media.served import serve

import hyperframes as hf
from hyperframes.drivers.cluster import run_many
from hyperframes.drivers.connection import connected
from hyperframes.drivers.journal import Journal, journal_beside
from hyperframes.errors import CancelledError, HyperframesError, OperatorError, PipelineError, SinkError
from hyperframes.operators import create
from hyperframes.pipeline import Pipeline, Stage
from hyperframes.sinks.video import VideoSink
from hyperframes.sources import open_source

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FRAMES, GROUP = 700, 7


@pytest.fixture(scope="module", autouse=True)
def cluster(web):
    """One cluster for all tests, whose processes take the web server for an object store, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", web[0])
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        with connected("", 2) as connection:
            yield connection


@pytest.fixture
def address(cluster):
    return cluster.ray.get_runtime_context().gcs_address


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A video with B-frames, sound and a group of pictures every seven frames."""
    return make_clip(tmp_path_factory.mktemp("clip") / "in.mp4", **{"x264-params": "scenecut=0:bframes=2"})


@pytest.fixture(scope="module")
def web(clip):
    with serve(clip.parent) as (address, served):
        yield address, served


def make_clip(path, codec="libx264", frames=FRAMES, **options):
    rng = np.random.default_rng(1)
    with av.open(str(path), "w") as container:
        video = container.add_stream(codec, rate=25, options={"preset": "ultrafast", "g": str(GROUP), **options})
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        sound = container.add_stream("aac", rate=48000)
        background = rng.integers(0, 256, (12, 16, 3), np.uint8).repeat(4, 0).repeat(4, 1)
        for t in range(frames):
            picture = np.roll(background, (t, 2 * t), (0, 1))
            picture[10:20, (t * 3) % 48 : (t * 3) % 48 + 9] = 255 - t % 200
            container.mux(video.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24")))
        for _ in range(frames * 2):
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 960), np.float32), "fltp", "mono")
            silence.sample_rate = 48000
            container.mux(sound.encode(silence))
        container.mux([*video.encode(None), *sound.encode(None)])
    return path


def contents(path):
    if path.is_file():
        return path.read_bytes()
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def video(path):
    return VideoSink(path, part_frames=20, preset="ultrafast")


def both(source, operators, name, folder, *, cut=True, **options):
    """Run by threads and by Ray; return both results after comparing every byte."""
    results = []
    for executor in ("threads", "ray"):
        place = folder / executor / name
        place.parent.mkdir()
        sink = video(place) if place.suffix in {".mp4", ".mkv"} else str(place)
        results.append(hf.run(source, operators, to=sink, executor=executor, workers=2, **options))
    expected, found = contents(folder / "threads" / name), contents(folder / "ray" / name)
    assert found == expected
    assert sorted(p.name for p in (folder / "ray").iterdir()) == sorted(p.name for p in (folder / "threads").iterdir())
    by_threads, by_ray = results
    assert (by_ray.frames_in, by_ray.frames_out, by_ray.filtered) == (
        by_threads.frames_in, by_threads.frames_out, by_threads.filtered,
    )  # fmt: skip
    assert by_ray.executor == "ray"
    assert cut is not any("was not cut" in warning for warning in by_ray.warnings), by_ray.warnings
    return by_threads, by_ray


CASES = {
    "video": ("temporal_mean:radius=2", "out.mp4", {}),
    "halo of a function": (spread, "out.mkv", {"range": (13, 691)}),
    "decimated": ("every:n=3", "out.mp4", {}),
    "mirrored": (["temporal_mean:radius=4", "temporal_median:radius=1"], "out.npy", {"pixel_format": "gray", "boundary": "reflect"}),
    "table": ("measure", "out.parquet", {}),
    "rows": (Bright(), "out.csv", {"pixel_format": "gray"}),
    "windows": ("window_mean:length=40,hop=3", "out.npy", {"pixel_format": "gray"}),
    "selected": (Moving(), "out.npy", {"pixel_format": "gray"}),
    "chunks": ("temporal_mean:radius=1", "out.zarr", {"size": 16}),
    "pictures": ("temporal_mean:radius=1", "out", {"pixel_format": "gray"}),
    "sequential": (["temporal_mean:radius=2", Trail(), "temporal_mean:radius=3"], "out.mp4", {"pixel_format": "gray"}),
    "spans": ("still_spans:threshold=9,min_frames=2", "out.jsonl", {}),
}  # fmt: skip


@pytest.mark.requirement("A97")
@pytest.mark.requirement("A98")
@pytest.mark.parametrize("case", CASES)
def test_the_bytes_are_those_of_threads(case, clip, tmp_path):
    operators, name, options = CASES[case]
    both(str(clip), operators, name, tmp_path, **options)


def test_arrays_are_cut_too_and_several_outputs_are_gathered(tmp_path):
    np.save(tmp_path / "in.npy", np.random.default_rng(2).integers(0, 256, (900, 6, 8), np.uint8))
    found = {}
    for executor in ("threads", "ray"):
        folder = tmp_path / executor
        folder.mkdir()
        stages = [Stage("mean", create("temporal_mean:radius=2")), Stage("rows", Bright(), ("mean",))]
        to = {"mean": str(folder / "mean.npy"), "rows": str(folder / "rows.jsonl"), "source": "null:"}
        result = hf.run(str(tmp_path / "in.npy"), stages, to=to, executor=executor, workers=2, size=8)
        assert [Path(name).name for name in result.output] == ["mean.npy", "rows.jsonl"]
        found[executor] = contents(folder)
    assert found["ray"] == found["threads"]


def test_one_segment_is_said_so_where_cutting_is_impossible(clip, tmp_path):
    _, by_ray = both(str(clip), Moving(), "out.mkv", tmp_path, cut=False, pixel_format="gray")
    (told,) = [warning for warning in by_ray.warnings if "not cut" in warning]
    why = f"{tmp_path / 'ray' / 'out.mkv'} has parts of 20 frames, and moving leaves some out"
    assert told == f"the run was not cut, one worker did it all: {why}"


@pytest.mark.parametrize("options", [{"x264-params": "open-gop=1:bframes=3:scenecut=0"}, {"g": "200"}])
def test_odd_groups_of_pictures_give_the_same_bytes(options, tmp_path):
    source = make_clip(tmp_path / "in.mp4", **options)
    both(str(source), "temporal_mean:radius=2", "out.npy", tmp_path, cut="g" not in options, pixel_format="gray")


def test_a_damaged_file_is_read_as_a_whole(clip, tmp_path):
    data = bytearray(clip.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = bytes(3000)
    (tmp_path / "in.mp4").write_bytes(data)
    both(str(tmp_path / "in.mp4"), "temporal_mean:radius=1", "out.npy", tmp_path, cut=False, pixel_format="gray")


@pytest.mark.requirement("A99")
@pytest.mark.parametrize("store", ["http", "s3"])
def test_videos_of_web_servers_and_object_stores_give_the_same_bytes(store, clip, web, tmp_path):
    address, _ = web
    url = f"{address}/in.mp4" if store == "http" else "s3://bucket/in.mp4"
    hf.run(str(clip), "temporal_mean:radius=2", to=video(tmp_path / "whole.mp4"))
    result = hf.run(url, "temporal_mean:radius=2", to=video(tmp_path / "out.mp4"), executor="ray", workers=2)
    assert not any("not cut" in warning for warning in result.warnings)
    assert contents(tmp_path / "out.mp4") == contents(tmp_path / "whole.mp4")


@pytest.mark.requirement("A97")
def test_a_checksum_is_that_of_threads_and_takes_one_segment(clip, tmp_path):
    by_threads, by_ray = both(
        str(clip), ["temporal_mean:radius=2", "every:n=3"], "out.mp4", tmp_path, cut=False, checksum=True
    )
    assert by_ray.frames_sha256 == by_threads.frames_sha256
    why = "a checksum is of all frames in order"
    assert f"the run was not cut, one worker did it all: {why}" in by_ray.warnings


# Losses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A97")
def test_a_killed_worker_costs_no_byte(clip, tmp_path):
    hf.run(str(clip), Same(), to=video(tmp_path / "whole.mp4"))
    seen = Seen()
    dies = DiesOn(400, tmp_path)
    result = hf.run(str(clip), dies, to=video(tmp_path / "out.mp4"), executor="ray", workers=2, instruments=(seen,))
    assert contents(tmp_path / "out.mp4") == contents(tmp_path / "whole.mp4")
    assert result.retries == 1
    assert any("died and what they did was done again" in warning for warning in result.warnings)
    assert seen.frames == FRAMES  # what a lost attempt had told is not told again
    assert sorted(p.name for p in tmp_path.glob("*out*")) == ["out.mp4"]


class Seen:
    def __init__(self):
        self.frames, self.kinds = 0, []

    def observe(self, observation):
        self.kinds.append(observation["kind"])
        if observation["kind"] == "emitted":
            self.frames += observation["core"][1] - observation["core"][0]


NODE_LOSS = """
import json, sys, threading, time
from pathlib import Path
from ray.cluster_utils import Cluster
import hyperframes as hf
from tests.drivers.cluster_operators import AtNode

clip, notes, out = sys.argv[1:]
store = {"object_store_memory": 80 << 20}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
nodes = [cluster.add_node(num_cpus=1, **store) for _ in range(2)]

def kill_one():
    while len(list(Path(notes).iterdir())) < 2:  # both are at work
        time.sleep(0.02)
    cluster.remove_node(nodes[1], allow_graceful=False)

threading.Thread(target=kill_one, daemon=True).start()
how = {"executor": "ray", "cluster": cluster.address, "workers": 2, "pixel_format": "gray", "size": 8}
result = hf.run(clip, ["temporal_mean:radius=2", AtNode(notes, 0.1)], to=out, **how)
print(json.dumps({"retries": result.retries, "warnings": result.warnings, "frames": result.frames_in}))
cluster.shutdown()
"""


@pytest.mark.requirement("A97")
def test_a_killed_node_costs_no_byte(clip, tmp_path):
    """In a process of its own, since one process uses one cluster: two nodes beside the head, one of which goes."""
    (tmp_path / "nodes").mkdir()
    script = tmp_path / "script.py"
    script.write_text(NODE_LOSS)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, script, clip, tmp_path / "nodes", tmp_path / "out.npy"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["frames"] == FRAMES
    assert told["retries"] >= 1
    assert any("done again" in warning for warning in told["warnings"])
    hf.run(str(clip), "temporal_mean:radius=2", to=str(tmp_path / "whole.npy"), pixel_format="gray")
    assert contents(tmp_path / "out.npy") == contents(tmp_path / "whole.npy")


def test_a_sequential_run_goes_on_from_the_segment_that_was_lost(clip, tmp_path):
    chain = ["temporal_mean:radius=2", Trail()]
    hf.run(str(clip), chain, to=str(tmp_path / "whole.npy"), pixel_format="gray")
    dies = DiesOn(400, tmp_path)
    hf.run(str(clip), [dies, *chain], to=str(tmp_path / "out.npy"), pixel_format="gray", executor="ray", workers=2)
    assert contents(tmp_path / "out.npy") == contents(tmp_path / "whole.npy")


def test_a_segment_that_always_kills_its_worker_ends_the_run(clip, tmp_path):
    with pytest.raises(HyperframesError, match=r"segment \d+ was lost 4 times with its worker: the worker process was"):
        hf.run(str(clip), DiesOn(400, tmp_path, 99), to=str(tmp_path / "out.mp4"), executor="ray", workers=2)
    assert not list(tmp_path.glob("*out*"))


def test_an_error_of_an_operator_is_told_as_by_threads_and_leaves_nothing(clip, tmp_path):
    with pytest.raises(OperatorError, match=r"stage 'raises_on' failed on frames .*: ValueError: the lamp is off"):
        hf.run(str(clip), RaisesOn(400), to=str(tmp_path / "out.mp4"), executor="ray", workers=2)
    assert not list(tmp_path.glob("*out*"))


def test_frames_that_failed_are_listed_and_left_out(clip, tmp_path):
    result = hf.run(
        str(clip), RaisesOn(400), to=str(tmp_path / "out.npy"), executor="ray", workers=2, on_error="continue", size=10,
        pixel_format="gray",
    )  # fmt: skip
    (failure,) = result.failed
    start, stop = failure["frames"]
    assert start <= 400 < stop <= start + 10
    assert len(np.load(tmp_path / "out.npy")) == FRAMES


def test_a_cancelled_run_ends_its_tasks_and_leaves_nothing(clip, tmp_path):
    run = hf.start(
        str(clip), Slow(tmp_path), to=str(tmp_path / "out.npy"), executor="ray", workers=2, pixel_format="gray", size=4
    )
    events = run.events()
    while next(events)["kind"] != "emitted":
        pass
    run.cancel("enough")
    with pytest.raises(CancelledError, match="the run was cancelled: enough"):
        run.wait(60)
    assert not list(tmp_path.glob("*out*"))
    assert run.stats()["finished"]


# Going on after a kill ------------------------------------------------------------------------------------------------

KILLED = """
import sys
import hyperframes as hf
from tests.drivers.test_cluster import RESUMED, in_time, sink
case, clip, notes, out, address = sys.argv[1:]
hf.run(clip, in_time(case, notes), to=sink(out), executor="ray", cluster=address, **RESUMED[case][2])
"""
RESUMED = {
    "video": (["temporal_mean:radius=2"], "out.mkv", {}),
    "sequential": (["temporal_mean:radius=2", Trail()], "out.npy", {"pixel_format": "gray"}),
    "chunks": ([], "out.zarr", {}),
}
for _, _, _options in RESUMED.values():
    _options |= {"workers": 2, "size": 5}


def in_time(case, notes):
    return [Slow(notes, 0.02), *RESUMED[case][0]]


def sink(out):
    return video(out) if str(out).endswith(".mkv") else str(out)


def kill(case, clip, address, folder):
    """Start a run in a process of its own and kill it while it works on the segments after the first that are done."""
    notes = folder / "notes"
    notes.mkdir()
    out = folder / RESUMED[case][1]
    command = [sys.executable, "-c", KILLED, case, str(clip), str(notes), str(out), address]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        waited = threading.Event()
        for _ in range(6000):
            if tells_of_a_segment(journal_beside(out)):
                break
            assert process.poll() is None, "it has ended before it could be killed"
            waited.wait(0.01)
    finally:
        process.kill()
        process.wait()
    assert not out.exists()
    shutil.rmtree(notes)
    notes.mkdir()
    return notes, out


def tells_of_a_segment(path):
    """Return whether the journal of a run that goes on, which nobody else may open, says of a segment that it is done."""
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and re.search(rb"segment \d", log.read_bytes()) is not None


def done_pieces(out):
    """Return the files of the segments that the journal says are done."""
    with contextlib.closing(Journal(journal_beside(out))) as journal:
        rows = journal.outputs()
    told = [json.loads(row.token["outcome"]) for name, row in rows.items() if name.startswith("segment ")]
    return [Path(path) for outcome in told for path in outcome["files"]]


@pytest.mark.requirement("A97")
@pytest.mark.parametrize("case", RESUMED)
def test_a_run_whose_driver_was_killed_goes_on_with_the_segments_that_were_not_done(case, clip, address, tmp_path):
    notes, out = kill(case, clip, address, tmp_path)
    operators, name, options = RESUMED[case]
    result = hf.run(str(clip), in_time(case, notes), to=sink(out), executor="ray", resume=True, **options)
    assert any("resumed with" in warning for warning in result.warnings), result.warnings
    assert 0 < result.frames_before < result.frames_in == FRAMES
    begun = {int(path.name.split("-")[1]) for path in notes.iterdir()}
    assert (
        len(begun) * options["size"] <= FRAMES - result.frames_before + 8 * options["size"]
    )  # ends of segments, halos
    (tmp_path / "whole").mkdir()
    hf.run(str(clip), [Same(), *operators], to=sink(tmp_path / "whole" / name), **options)
    assert contents(out) == contents(tmp_path / "whole" / name)
    assert sorted(path.name for path in tmp_path.glob("*out*")) == [name]


def test_a_changed_run_is_refused_and_a_changed_piece_is_made_again(clip, address, tmp_path):
    notes, out = kill("video", clip, address, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    how = {"resume": True, **RESUMED["video"][2]}
    with pytest.raises(
        PipelineError,
        match=r"cannot be resumed: stage 'temporal_mean' changed: temporal_mean .* -> temporal_mean:radius=3",
    ):
        hf.run(str(clip), [Slow(notes), "temporal_mean:radius=3"], to=sink(out), executor="ray", **how)
    with pytest.raises(PipelineError, match="cannot be resumed: executor changed: ray -> none"):
        hf.run(str(clip), in_time("video", notes), to=sink(out), **how)
    pieces = done_pieces(out)  # its tasks may go on with others for a moment
    assert pieces
    assert all(path.read_bytes() == before[path] for path in pieces)
    for path in (tmp_path / f".{out.name}.pieces").rglob("*"):
        if path.is_file():
            path.write_bytes(b"?" + path.read_bytes()[1:])
    result = hf.run(str(clip), in_time("video", notes), to=sink(out), executor="ray", **how)
    assert any("nothing was left of" in warning for warning in result.warnings), result.warnings
    hf.run(str(clip), [Same(), "temporal_mean:radius=2"], to=sink(tmp_path / "whole.mkv"), size=5)
    assert contents(out) == contents(tmp_path / "whole.mkv")


def test_without_resume_what_a_killed_run_left_is_replaced_and_it_is_said(clip, address, tmp_path):
    notes, out = kill("chunks", clip, address, tmp_path)
    result = hf.run(str(clip), in_time("chunks", notes), to=str(out), executor="ray", **RESUMED["chunks"][2])
    (told,) = [warning for warning in result.warnings if "was replaced" in warning]
    assert "--resume would have kept" in told
    assert sorted(path.name for path in tmp_path.glob("*out*")) == [out.name]


@pytest.mark.requirement("A97")
def test_threads_that_replace_a_killed_run_leave_none_of_its_pieces(clip, address, tmp_path):
    _, out = kill("chunks", clip, address, tmp_path)
    assert (tmp_path / f".{out.name}.pieces").is_dir()
    result = hf.run(str(clip), to=str(out), size=5)
    assert any("was replaced" in warning for warning in result.warnings)
    assert sorted(path.name for path in tmp_path.glob("*out*")) == [out.name]


# Around it ------------------------------------------------------------------------------------------------------------


def test_progress_is_told_while_it_runs(clip, tmp_path):
    seen = Seen()
    result = hf.run(str(clip), Slow(tmp_path, 0.02), to=str(tmp_path / "out.npy"), executor="ray", workers=2, size=8,
                    pixel_format="gray", instruments=(seen,))  # fmt: skip
    assert seen.frames == FRAMES
    assert seen.kinds[0] == "began"
    assert seen.kinds[-1] == "finished"
    assert result.hyperframes == seen.kinds.count("sealed") == seen.kinds.count("done")
    assert result.stages["slow"] > 0


def test_several_files_are_run_at_once(clip, tmp_path):
    (tmp_path / "out").mkdir()
    sources = []
    for name in "abc":
        shutil.copy(clip, tmp_path / f"{name}.mp4")
        sources.append(tmp_path / f"{name}.mp4")
    pipelines = [
        Pipeline.of(
            str(source), "temporal_mean:radius=1", to=video(tmp_path / "out" / source.name), executor="ray", workers=2
        )
        for source in sources
    ]
    results = run_many(pipelines)
    assert [result.frames_in for result in results] == [FRAMES] * 3
    hf.run(str(clip), "temporal_mean:radius=1", to=video(tmp_path / "whole.mp4"))
    assert {contents(path) for path in (tmp_path / "out").iterdir()} == {contents(tmp_path / "whole.mp4")}
    broken = Pipeline.of(str(sources[0]), RaisesOn(3), to=str(tmp_path / "bad.mp4"), executor="ray", workers=2)
    with pytest.raises(OperatorError, match="the lamp is off"):
        run_many([*pipelines, broken])
    assert not (tmp_path / "bad.mp4").exists()


def test_a_script_that_joins_a_cluster_sends_its_own_functions(clip, address, tmp_path):
    """Its module is called __main__ here and something else there."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, numpy as np, hyperframes as hf\n"
        "LEVEL = 7\n"
        "def add(frames):\n    return frames + np.uint8(LEVEL)\n"
        "@hf.operator(halo=1)\ndef first(frames):\n    return add(frames[:-2])\n"
        "if __name__ == '__main__':\n"
        "    for executor in ('threads', 'ray'):\n"
        "        hf.run(sys.argv[1], first, to=f'{executor}.npy', executor=executor, workers=1, pixel_format='gray', range=(0, 300),\n"
        "               cluster=sys.argv[2] if executor == 'ray' else '')\n"
    )
    subprocess.run([sys.executable, script, clip, address], cwd=tmp_path, check=True, capture_output=True, timeout=100)
    assert contents(tmp_path / "ray.npy") == contents(tmp_path / "threads.npy")


def test_the_command_joins_a_cluster_with_many_files_and_tells_each(clip, address, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(clip, tmp_path / name)
    command = [sys.executable, "-m", "hyperframes", "run", "a.mp4", "b.mp4", "out", "-p", "measure", "--json"]
    done = subprocess.run(
        [*command, "--executor", "ray", "--cluster", address],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=100,
    )
    assert [run["executor"] for run in json.loads(done.stdout)] == ["ray", "ray"]
    hf.run(str(clip), "measure", to=str(tmp_path / "whole.jsonl"))
    assert {contents(path) for path in (tmp_path / "out").iterdir()} == {contents(tmp_path / "whole.jsonl")}


def test_what_lies_in_memory_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(
        PipelineError, match="reads sources where the work is done, and array exists in this process only"
    ):
        hf.run(np.zeros((9, 4, 4), np.uint8), to=str(tmp_path / "out.npy"), executor="ray")
    assert not list(tmp_path.iterdir())
    with pytest.raises(PipelineError, match="the ray executor writes where the work is done: expected files, got"):
        hf.run("synthetic:moving?frames=9", executor="ray")
    with pytest.raises(PipelineError, match="on_size_change: the ray executor cannot split outputs"):
        hf.run("synthetic:moving?frames=9", to=str(tmp_path / "out.npy"), executor="ray", on_size_change="split")


def test_operators_that_cannot_travel_are_refused_by_name(clip, tmp_path):
    locked = Same()
    locked.lock = threading.Lock()
    with pytest.raises(PipelineError, match="stage 'same' cannot be sent to other machines: TypeError"):
        hf.run(str(clip), locked, to=str(tmp_path / "out.npy"), executor="ray", pixel_format="gray")


def test_an_output_that_cannot_be_written_is_found_before_the_work(clip, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    with pytest.raises(SinkError, match="the folder is not empty"):
        hf.run(str(clip), to=str(tmp_path / "out"), executor="ray", pixel_format="gray")


def test_a_process_uses_one_cluster_at_a_time():
    with pytest.raises(HyperframesError, match="one process uses one Ray cluster"), connected("10.0.0.1:6379"):
        pass


def test_positions_of_key_frames_are_proven(clip):
    with open_source(str(clip)) as source:
        keys = source.keys()
        assert np.array_equal(keys, np.arange(0, FRAMES, GROUP))
        assert all(source.prove(int(key)) for key in (*keys[:3], keys[-1], keys[5] + 3))
        assert not source.prove(FRAMES)
