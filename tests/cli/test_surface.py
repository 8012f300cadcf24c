"""What users and scripts rely on is there: every command with its options, every key of its JSON, every public name."""

import json

import numpy as np
import pytest
import typer

import hyperframes as hf
from hyperframes.cli._app import app

SHARED = "--operator --size --workers"
OPTIONS = {
    "run": f"{SHARED} --config --executor --cluster --scheduling-policy --frame-dependency --boundary --pixel-format --dtype "
    "--layout --range --on-size-change --max-memory --resume --on-error --codec --quality --model --report --check --checksum "
    "--metrics-port --rate --json --quiet --debug",
    "plan": f"{SHARED} --config --count --explain --json --debug",
    "tune": "--operator --sizes --workers --plot --save --json --quiet --debug",
    "budget": "--fps --sources --latency --infer --size --timeout --queue --halo --json --debug",
    "live": f"{SHARED} --source --timeout --trigger --kind --queue --when-full --ttl --latency --model --on-gap --journal "
    "--record --resume --serve --duration --to --json --quiet --debug",
    "journal": "--where --json --debug",
    "replay": "--sequence --speed --json --debug",
    "anchors": "--cuts --two-pass --plot --json --quiet --debug",
    "describe": "--to --json --quiet --debug",
    "search": "--like --image --text --task --top --where --sheet --json --debug",
    "index": "--optimize --check --verify --duplicates --fit --labels --json --debug",
    "train": "--resume --steps --json --quiet --debug",
    "evaluate": "--config --json --debug",
    "export": "--to --out --json --debug",
    "inspect": "--out --at --json --debug",
    "advise": "--target --json --debug",
    "operators": "--json --debug",
    "doctor": "--json --debug",
    "bench": "--operator --json --quiet --debug",
    "demo": "--out --json --quiet --debug",
}
SHORT = {"--operator": "-p", "--quiet": "-q"}

RUN = {
    "frames_in", "frames_out", "filtered", "hyperframes", "size", "halo", "workers", "executor", "seconds",
    "frames_per_second", "peak_memory_bytes", "scheduler_share", "stages", "conversions", "retries", "failed", "output",
}  # fmt: skip
PLAN = {"total_frames", "exact", "size", "halo", "hyperframes", "halo_overhead", "memory_bytes"}
PLACE = {"index", "core", "read", "pad_before", "pad_after"}
LIVE = {
    "captured", "delivered", "dropped", "in_flight", "hyperframes", "partial", "sealed", "streams", "latency_seconds",
    "queue", "device",
}  # fmt: skip
STREAM = {
    "captured", "delivered", "dropped", "in_flight", "fps", "last_frame_age_seconds", "reconnects", "epoch",
    "span_error_seconds", "drift_ppm",
}  # fmt: skip
BUDGET = {
    "feasible", "reasons", "size", "timeout_seconds", "queue_depth", "ttl_seconds", "latency_seconds",
    "frames_per_second_capacity", "warnings",
}  # fmt: skip
STAGES = {"pack", "queue", "prepare", "infer", "unpack", "total"}

NAMES = "operator run stream open start Pipeline LiveRuntime Packing describe open_index pack unpack Halo Boundary Stage Options"


@pytest.fixture(scope="module")
def commands():
    return typer.main.get_command(app).commands


def test_there_is_no_command_beyond_those_that_are_listed(commands):
    assert set(commands) == set(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_command_has_the_options_that_are_promised(commands, name):
    known = {option for parameter in commands[name].params for option in parameter.opts}
    assert set(OPTIONS[name].split()) - known == set()
    assert {short for long, short in SHORT.items() if long in known} - known == set()


@pytest.mark.parametrize("name", OPTIONS)
def test_a_command_says_what_it_does_and_shows_how(commands, name):
    told = commands[name].help
    assert told.splitlines()[0].endswith(".")
    assert "Example: hyperframes" in told or name == "demo"  # which takes no options


def test_run_tells_the_keys_of_a_run(call, array):
    told = json.loads(call("run", array, "null:", "-p", "temporal_mean:radius=1", "--checksum", "--json").out)
    assert set(told) >= RUN | {"frames_sha256"}
    assert told["halo"].keys() == {"before", "after"}
    assert all(isinstance(seconds, float) for seconds in told["stages"].values())


def test_plan_tells_the_keys_of_a_plan(call, array):
    told = json.loads(call("plan", array, "-p", "temporal_mean:radius=1", "--json").out)
    assert set(told) >= PLAN
    assert {frozenset(place) for place in told["hyperframes"]} == {frozenset(PLACE)}


def test_budget_tells_the_keys_of_a_budget(call):
    told = json.loads(call("budget", "--fps", "30", "--latency", "500ms", "--infer", "20ms+5ms", "--json").out)
    assert set(told) == BUDGET
    assert set(told["latency_seconds"]) == STAGES


def test_live_tells_the_keys_of_a_live_run_which_its_stats_have_too(call):
    source = ("--source", "a=synthetic:moving?frames=8", "--pace", "flat", "--when-full", "block")
    told = json.loads(call("live", *source, "--size", "4", "--json", "--quiet").out)
    with hf.LiveRuntime(packing=hf.Packing(size=2)) as live:
        live.feed("a", np.zeros((4, 6), np.uint8))
    for stats in (told, live.stats()):
        assert set(stats) >= LIVE
        assert set(stats["streams"]["a"]) >= STREAM
        assert set(stats["queue"]) == {"depth", "capacity", "mean_depth"}
        assert {frozenset(stage) for stage in stats["latency_seconds"].values()} == {
            frozenset({"p50", "p95", "p99", "max"})
        }
        for account in (stats, stats["streams"]["a"]):
            assert account["captured"] == account["delivered"] + sum(account["dropped"].values()) + account["in_flight"]


def test_the_names_that_programs_call_are_public():
    assert set(NAMES.split()) - set(hf.__all__) == set()
    for name in ("data", "planes", "header", "core_data", "mask"):
        assert hasattr(hf.Hyperframe, name) or name in hf.Hyperframe.__annotations__, name
    for cls, members in {
        hf.Source: "hyperframes at __getitem__",
        hf.Run: "events cancel wait stats join",
        hf.RunResult: "report to_json",
        hf.Pipeline: "from_toml to_toml of",
        hf.LiveRuntime: "feed add_source remove_source stats",
        hf.Descriptor: "project",
        hf.Index: "add search",
    }.items():
        assert [member for member in members.split() if not hasattr(cls, member)] == [], cls
