"""The command `live`: sources from the command line and from TOML, results, journal, how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.resources import files

import av
import pytest

from hyperframes.cli import _show

CLIP = str(files("hyperframes") / "data" / "big_buck_bunny.mp4")
SMALL, TINY = "synthetic:moving?frames=40", "synthetic:moving?frames=2"

CONFIG = """
[sources]
door = "synthetic:moving?frames=24"
hall = { url = "synthetic:moving?frames=12", priority = 1 }

[packing]
size = 4
timeout = "200ms"

[[stages]]
operator = "temporal_mean:radius=1"

[run]
when_full = "block"
pace = "flat"
"""


@pytest.mark.requirement("B47", "B91")
def test_live_says_where_every_frame_went(call):
    done = call("live", "--source", SMALL, "--source", f"b={SMALL}", "--pace", "flat", "--when-full", "block", "--json")
    assert done.code == 0, done.err
    stats = json.loads(done.out)
    assert stats["captured"] == stats["delivered"] == 80
    assert stats["in_flight"] == 0
    assert set(stats["streams"]) == {"cam0", "b"}
    keys = {"captured", "delivered", "dropped", "in_flight", "fps", "last_frame_age_seconds", "reconnects", "epoch"}
    assert keys | {"span_error_seconds", "drift_ppm"} <= set(stats["streams"]["b"])
    assert {"hyperframes", "partial", "sealed", "latency_seconds", "queue", "device"} <= set(stats)
    assert set(stats["queue"]) == {"depth", "capacity", "mean_depth"}


def test_results_go_to_json_lines_and_the_journal_knows_them(call, tmp_path):
    config = tmp_path / "plant.toml"
    config.write_text(CONFIG)
    lines, journal = tmp_path / "out.jsonl", tmp_path / "plant.journal"
    done = call("live", config, "--to", lines, "--journal", journal)
    assert done.code == 0, done.err
    assert "36 captured = 36 delivered + 0 dropped + 0 in flight" in done.out
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["frame_id"] for row in rows if row["stream"] == "hall"] == list(range(12))
    told = call("journal", journal, "--where", "stream = door", "--json")
    assert sum(len(life["frame_ids"]) for life in json.loads(told.out)["hyperframes"]) == 24


def test_results_on_stdout_stand_there_alone(call):
    done = call(
        "live", "--source", SMALL, "--pace", "flat", "--when-full", "block", "--operator", "measure", "--to", "-"
    )
    assert done.code == 0, done.err
    assert [json.loads(line)["frame_id"] for line in done.out.splitlines()] == list(range(40))
    assert "40 captured = 40 delivered" in done.err
    assert "cam0: ended\n" in done.err


def test_several_outputs_are_named_in_the_configuration_and_one_that_fails_fails_the_run(call, tmp_path):
    config = tmp_path / "plant.toml"
    config.write_text(CONFIG + '[output]\nto = ["out.mkv", "out.parquet"]\n')
    done = call("live", config)
    assert done.code == 1
    assert "out.parquet holds rows: expected records or numbers, got pictures" in done.error
    assert "36 captured = 36 delivered" in done.out
    assert {path.name for path in tmp_path.glob("*out*")} == {"out-door.mkv", "out-hall.mkv"}
    config.write_text(CONFIG + "[output]\nto = 3\n")
    assert "line 17: to: expected text or a list of texts, got 3" in call("live", config).err


@pytest.mark.slow
def test_what_was_recorded_makes_the_same_hyperframes_again(call, tmp_path):
    journal, folder = tmp_path / "plant.journal", tmp_path / "kept"
    source = ("--source", SMALL, "--source", f"b={SMALL}", "--pace", "flat", "--when-full", "block")
    done = call("live", *source, "--size", "8", "--journal", journal, "--record", folder)
    assert done.code == 0, done.err
    again = call("replay", journal)
    assert again.code == 0, again.err
    made, of = re.search(r"(\d+) of (\d+) hyperframes made again", again.out).groups()
    assert made == of
    assert int(of) >= 10  # more where the machine held frames up until a time-out sealed them


@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        ('timeout = "fast"', "line 7: timeout: expected a time such as 200ms or 1.5s, got 'fast'", ""),
        ("timout = 3", "line 7: [packing] has no 'timout'; known:", "Did you mean 'timeout'?"),
        ('kind = "spacial"', "line 7: packing.kind: expected one of temporal, spatial, both, got 'spacial'", ""),
        ("size = true", "line 7: size: expected a whole number, got True", ""),
        ("size = 0", "line 7: size counts the frames a hyperframe owns: expected at least 1, got 0", ""),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_line(call, tmp_path, wrong, message, hint):
    config = tmp_path / "plant.toml"
    config.write_text(f'# a plant\n[sources]\na = "{SMALL}"\n\n[packing]\nlatency = "1s"\n{wrong}\n')
    done = call("live", config)
    assert done.code == 2
    assert message in done.err
    assert hint in done.err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("[run]\nqueue = 0", "line 4: queue: expected at least 1, got 0"),
        ('[run]\npace = "real"\non_gap = "hold"', "line 5: on_gap: expected one of reset, keep, got 'hold'"),
        ('[run]\nwhen_full = "drop"', "line 4: when_full: expected one of drop_oldest, drop_newest, block, degrade"),
        ('[run]\nboundary = "edge"', "line 4: boundary: unknown boundary 'edge'"),
        ('b = { url = "in.mp4", prio = 2 }', "line 3: [sources.b] has no 'prio'; known: pace, priority"),
        ('b = { url = "in.mp4", priority = "x" }', "line 3: priority: expected a whole number, got 'x'"),
        ('[[stages]]\noperator = "sobel"\n[[stages]]\noperator = "sobl"', "line 6: no operator named 'sobl'"),
        ('[[stages]]\noperator = "gaussian:sgma=2"', "line 4: "),
        ('[[stages]]\noperator = "sobel"\n[[stages]]\n\n', "line 5: a stage needs an operator"),
    ],
)
def test_wrong_values_are_refused_with_their_line_before_anything_begins(call, tmp_path, wrong, message):
    config = tmp_path / "plant.toml"
    config.write_text(f'[sources]\na = "{SMALL}"\n{wrong}\n')
    done = call("live", config)
    assert done.code == 2
    assert f"plant.toml, {message}" in done.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a live run needs a source"),
        (["--source", SMALL, "--timeout", "fast"], "--timeout: expected a time such as 200ms"),
        (["--source", SMALL, "--preset", "fast"], "preset: expected one of latency-first, balanced, throughput-first"),
        (["--source", SMALL, "--to", "out.txx"], "no sink writes 'out.txx': known are"),
        (["--source", SMALL, "--to", "-", "--json"], "--to - and --json both write to standard output"),
        (["nowhere.toml"], "cannot read nowhere.toml"),
        (["--source", SMALL, "--keep", "7 days"], "--keep: expected a time such as 200ms"),
        (["--source", SMALL, "--keep", "0"], "keep: expected more than 0 seconds, got 0.0"),
        (
            ["--source", SMALL, "--cluster", "local", "--to", "out.mp4"],
            "results of a cluster come without pixels: out.mp4 needs them",
        ),
        (
            ["--source", SMALL, "--cluster", "local", "--resume"],
            "--resume works on one journal: got --cluster, where each node has its own",
        ),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(call, arguments, message):
    done = call("live", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_configuration_that_is_no_text_is_told(call, tmp_path):
    config = tmp_path / "plant.toml"
    config.write_bytes(b'[sources]\ndoor = "T\xfcr.mp4"\n')
    done = call("live", str(config))
    assert done.code == 2
    assert "plant.toml is no text in UTF-8" in done.error


@pytest.mark.parametrize(
    ("outputs", "message", "hint"),
    [
        (["first.jsonl", "bad.txx"], "no sink writes 'bad.txx'", ".txt"),
        (
            ["first.jsonl", "./first.jsonl"],
            "two outputs are written to one place: first.jsonl and ./first.jsonl",
            "own",
        ),
        (["first.mp4", "sub/../first.mp4"], "two outputs are written to one place", "own"),
        (["shots", "shots/%06d.png"], "two outputs are written to one place", "own"),
        (["first.jsonl", "nowhere/out.jsonl"], "cannot write nowhere/out.jsonl: 'nowhere' does not exist", "mkdir -p"),
        (["first.jsonl", "nowhere/out.mp4"], "cannot write nowhere/out.mp4: 'nowhere' does not exist", "mkdir -p"),
        (["first.jsonl", "full"], "cannot write full-a: the folder is not empty", "new folder"),
        (["first.jsonl", "full/%06d.png"], "cannot write full-a: the folder is not empty", "new folder"),
        (
            ["first.jsonl", "/proc/out.csv"],
            "cannot write /proc/out.csv: ",
            "may be written to",
        ),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_before_a_source_is_opened(call, tmp_path, outputs, message, hint):
    (tmp_path / "sub").mkdir()
    (tmp_path / "full-a").mkdir()
    (tmp_path / "full-a" / "000000.png").touch()
    before = sorted(tmp_path.rglob("*"))
    sources = ("--source", f"a={SMALL}", "--source", f"b={SMALL}")
    done = call("live", *sources, *(part for name in outputs for part in ("--to", name)))
    assert done.code == 2
    assert message in done.error
    assert hint in done.hint
    assert "connected" not in done.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["spatial", "both"])
@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ("temporal_mean:radius=2", "stage 'temporal_mean' reads 2 + 2 frames around its own: spatial hyperframes hold"),
        ("background", "stage 'background' carries state: spatial hyperframes hold instants"),
        ("every:n=3", "has 1/3 results a frame: spatial hyperframes need exactly one"),
    ],
)
def test_operators_that_need_neighbours_in_time_are_refused_for_instants_before_a_source_is_opened(
    call, tmp_path, kind, operator, message
):
    done = call("live", "--source", SMALL, "--source", SMALL, "--kind", kind, "-p", operator, "--to", "out.jsonl")
    assert done.code == 2
    assert message in done.error
    assert done.hint == "Use --kind temporal."
    assert (done.out, "cam0" in done.err, list(tmp_path.iterdir())) == ("", False, [])


@pytest.mark.parametrize(
    ("config", "sources", "names"),
    [
        ("", ["A", "B"], {"cam0", "cam1"}),
        ("", ["x=A", "B"], {"x", "cam1"}),
        ("", ["A", "cam0=B"], {"cam1", "cam0"}),
        ("cam0", ["A", "B"], {"cam0", "cam1", "cam2"}),
        ("door", ["A"], {"door", "cam0"}),
        ("", ["x=A", "x=B"], "two sources are named 'x' by --source"),
        ("door", ["door=A"], "two sources are named 'door' by plant.toml or --source"),
        ("cam0", ["cam0=A"], "two sources are named 'cam0'"),
    ],
)
def test_sources_without_a_name_get_the_next_free_one_and_no_name_is_taken_twice(
    call, tmp_path, config, sources, names
):
    (tmp_path / "plant.toml").write_text(f'[sources]\n{config} = "{TINY}"\n' if config else "")
    given = [part for text in sources for part in ("--source", text.replace("A", TINY).replace("B", TINY))]
    done = call("live", *(["plant.toml"] if config else []), *given, "--pace", "flat", "--json", "-q")
    if isinstance(names, set):
        assert set(json.loads(done.out)["streams"]) == names
    else:
        assert done.code == 2
        assert names in done.error
        assert "--source door=rtsp://" in done.hint


def test_a_run_without_a_frame_has_failed(call, tmp_path):
    done = call("live", "--source", f"cam=file://{tmp_path}/none.mp4")
    assert done.code == 1
    assert "no such file" in done.err


def written(folder):
    """Whether a result has come: outputs are opened with the first one."""
    return any(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_everything_accounted_for(number, tmp_path):
    out = [part for name in ("out.mp4", "out.jsonl") for part in ("--to", str(tmp_path / name))]
    command = [sys.executable, "-m", "hyperframes", "live", "--source", CLIP, "--json", "-p", "gaussian:sigma=1", *out]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while process.poll() is None and not written(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    stats = json.loads(out)
    assert 0 < stats["captured"] < 132
    assert stats["captured"] == stats["delivered"] + sum(stats["dropped"].values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "out.mp4"]
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == stats["delivered"]
    with av.open(str(tmp_path / "out.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == stats["delivered"]


@pytest.mark.slow
def test_the_command_line_runs_on_a_cluster_of_this_machine(call, tmp_path):
    source = ("--source", SMALL, "--source", f"b={SMALL}", "--pace", "flat", "--when-full", "block", "-p", "measure")
    done = call("live", *source, "--cluster", "local", "--to", "rows.csv", "--journal", "journals", "--json")
    assert done.code == 0, done.err
    stats = json.loads(done.out)
    assert stats["captured"] == stats["delivered"] == 80
    assert len(stats["nodes"]) == 1
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 81
    assert json.loads(call("journal", "journals", "--json").out)["frames"] == {"delivered": 80}


def test_lines_of_several_cameras_do_not_run_into_each_other(monkeypatch):
    written = []

    class Terminal:
        def write(self, text):
            written.append(text)

        def flush(self):
            pass

    monkeypatch.setattr(sys, "stderr", Terminal())
    _show.tell("cam0", "ended")
    assert [text for text in written if text] == ["cam0: ended\n"]  # between two pieces another thread could write
