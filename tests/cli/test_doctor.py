"""`hyperframes doctor`: one page about the machine."""

import json

import pytest


def test_json_tells_everything(call):
    told = json.loads(call("doctor", "--json").out)
    assert {
        "healthy",
        "versions",
        "processors",
        "memory",
        "limits",
        "extras",
        "codecs",
        "caches",
        "models",
        "problems",
    } == set(told)
    assert told["codecs"]["encoders"]["libx264"]
    assert told["healthy"] == (not told["problems"])


def test_the_page_has_one_line_a_subject_and_a_verdict(call):
    outcome = call("doctor")
    subjects = [line.split("  ")[0] for line in outcome.out.splitlines()]
    for subject in ("hyperframes", "python", "libraries", "ffmpeg", "processors", "memory", "encoders", "extra zarr"):
        assert subject in subjects
    assert "no problem found" in outcome.out or " found" in outcome.out
    assert outcome.err == ""


def test_it_tells_which_model_files_are_found(call, monkeypatch, tmp_path):
    monkeypatch.delenv("HYPERFRAMES_MODELS", raising=False)
    assert "none: objects and 'search --text' need them in a folder that HYPERFRAMES_MODELS names" in call("doctor").out
    (tmp_path / "nanodet-416.onnx").touch()
    monkeypatch.setenv("HYPERFRAMES_MODELS", str(tmp_path))
    told = json.loads(call("doctor", "--json").out)["models"]
    assert told["nanodet-416.onnx"] == str(tmp_path / "nanodet-416.onnx")
    assert told["minilm-l6-int8.onnx"] is None
    assert "nanodet-416.onnx; not efficientnet-lite0.onnx, " in call("doctor").out.replace("\n", "")


def test_problems_come_with_what_to_do(call, monkeypatch):
    from hyperframes.drivers import doctor

    monkeypatch.setattr(doctor, "other_distributions", lambda: ["hyperframes"])
    outcome = call("doctor")
    assert outcome.code == 0
    assert "1 problem found" in outcome.out
    assert "  - the import name 'hyperframes' is also provided by hyperframes" in outcome.out
    assert "    Keep one of them: python -m pip uninstall hyperframes" in outcome.out


@pytest.mark.requirement("A86")
@pytest.mark.requirement("A87")
def test_on_several_memory_nodes_the_lines_that_keep_a_run_to_one_are_printed(call, monkeypatch):
    from hyperframes.drivers import doctor

    monkeypatch.setattr(doctor, "numa_nodes", lambda: {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]})
    monkeypatch.setattr(doctor, "allowed_cpus", lambda: [0, 1, 2, 3, 5, 6])
    out = call("doctor").out
    assert "2; node 0: CPUs 0-3; node 1: CPUs 4-7; CPUs allowed: 0-3,5-6" in out
    assert "numactl --cpunodebind=1 --membind=1 hyperframes run ..." in out
    assert "taskset -c 5-6 hyperframes run ..." in out


@pytest.mark.requirement("A49")
def test_on_one_memory_node_there_is_nothing_to_bind(call, monkeypatch):
    from hyperframes.drivers import doctor

    monkeypatch.setattr(doctor, "numa_nodes", lambda: {0: [0, 1]})
    monkeypatch.setattr(doctor, "allowed_cpus", lambda: [0, 1])
    out = call("doctor").out
    assert "1, so nothing to bind; CPUs allowed: 0-1" in out
    assert "numactl" not in out
    assert json.loads(call("doctor", "--json").out)["processors"]["nodes"] == {
        "count": 1,
        "cpus": {"0": "0-1"},
        "bind": [],
    }
