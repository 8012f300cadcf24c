"""What the machine report finds, and what it says about it."""

import importlib.metadata
import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperframes.drivers import doctor
from hyperframes.drivers.doctor import Diagnosis, can_write, examine, other_distributions, summary
from hyperframes.scheduling.resources import MachineFacts


def test_everything_is_looked_at_and_can_be_written_as_json():
    told = json.loads(json.dumps(examine().to_json()))
    assert told["versions"]["numpy"]
    assert told["versions"]["ffmpeg"]["libavcodec"]
    assert told["processors"]["workers"] >= 1
    assert told["memory"]["usable_bytes"] > 0
    assert told["codecs"]["decoders"]["h264"]
    assert told["caches"]["temporary"]


@pytest.mark.requirement("A52")
def test_every_extra_is_listed_with_what_it_still_needs(monkeypatch):
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert examine().facts["extras"].keys() == declared.keys() - {"all"}
    monkeypatch.setattr(doctor, "_installed_version", lambda name: None)
    neural = doctor._extras(Diagnosis())["neural"]
    assert set(neural["missing"]) == {"torch", "lightning", "tensorboard", "safetensors"}
    assert neural["install"] == "python -m pip install 'hyperframes-engine[neural]'"


def distribution(name):
    return SimpleNamespace(metadata={"Name": name})


def test_another_distribution_of_our_import_name_is_named(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: {"hyperframes": ["hyperframes-engine"]})
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [distribution("hyperframes_engine")])
    assert other_distributions() == []
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [distribution("Hyperframes")])
    assert other_distributions() == ["Hyperframes"]
    monkeypatch.setattr(
        importlib.metadata,
        "packages_distributions",
        lambda: {"hyperframes": ["hyperframes-engine", "hyperframes-video"]},
    )
    assert other_distributions() == ["Hyperframes", "hyperframes-video"]


def test_a_clash_of_import_names_is_a_problem_with_a_way_out(monkeypatch):
    monkeypatch.setattr(doctor, "other_distributions", lambda: ["hyperframes"])
    problems = examine().problems
    assert {
        "problem": "the import name 'hyperframes' is also provided by hyperframes",
        "hint": "Keep one of them: python -m pip uninstall hyperframes, then install hyperframes-engine again.",
    } in problems


def test_a_cpu_limit_below_the_cores_is_told(monkeypatch):
    monkeypatch.setattr(doctor, "machine_facts", lambda: MachineFacts(8, 16, 8, 1.5))
    diagnosis = Diagnosis()
    assert doctor._processors(diagnosis)["workers"] == 2
    assert diagnosis.problems[0]["problem"] == "this container may use 1.5 of 8 cores"


@pytest.mark.requirement("A78")
def test_too_little_room_for_threads_is_told(monkeypatch):
    monkeypatch.setattr(doctor, "check_process_limit", lambda needed: f"{needed} threads do not fit")
    diagnosis = Diagnosis()
    doctor._limits(diagnosis)
    assert "threads do not fit" in diagnosis.problems[0]["problem"]
    assert diagnosis.problems[0]["hint"] == "Raise it with 'ulimit -u', or end other programs."


def test_too_few_files_are_told(monkeypatch):
    monkeypatch.setattr(doctor, "_open_files", lambda: 64)
    diagnosis = Diagnosis()
    doctor._limits(diagnosis)
    assert diagnosis.problems[-1] == {
        "problem": "at most 64 files may be open: expected at least 256",
        "hint": "Raise it: ulimit -n 256",
    }


def test_little_memory_is_told(monkeypatch):
    monkeypatch.setattr(doctor, "available_memory", lambda: 300_000_000)
    diagnosis = Diagnosis()
    doctor._memory(diagnosis)
    assert diagnosis.problems[0]["problem"] == "only 300 MB of memory are available"


def test_a_missing_extra_comes_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(doctor, "_installed_version", lambda name: None if name == "zarr" else "1")
    found = doctor._extras(Diagnosis())
    assert found["zarr"] == {
        "present": False,
        "missing": ["zarr"],
        "install": "python -m pip install 'hyperframes-engine[zarr]'",
    }
    assert found["tables"] == {"present": True, "missing": [], "install": None}


def test_a_build_without_the_default_encoder_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor, "_offers", lambda name, mode: name != "libx264")
    diagnosis = Diagnosis()
    assert doctor._codecs(diagnosis)["encoders"]["libx264"] is False
    assert "built without libx264" in diagnosis.problems[0]["problem"]


def test_an_encoder_that_does_not_exist_is_not_offered():
    assert doctor._offers("libx264", "w")
    assert not doctor._offers("libx999", "w")


def test_kernels_that_cannot_be_kept_are_a_problem(monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/nowhere")
    diagnosis = Diagnosis()
    assert doctor._caches(diagnosis)["numba"] is None
    assert diagnosis.problems[0] == {
        "problem": "compiled kernels cannot be kept: no permission to write in /proc/nowhere",
        "hint": "Set NUMBA_CACHE_DIR to a folder that can be written.",
    }


def test_a_library_that_cannot_be_loaded_is_a_problem():
    diagnosis = Diagnosis()
    assert doctor._loaded_version(diagnosis, "no_such_library") is None
    assert diagnosis.problems[0]["problem"].startswith("no_such_library cannot be loaded: ")


def test_writing_is_tried_in_the_nearest_folder_that_exists(tmp_path):
    assert can_write(tmp_path / "not" / "yet")
    assert not can_write(tmp_path.__class__("/proc/nowhere"))


def test_the_verdict_counts_the_problems():
    diagnosis = Diagnosis()
    assert summary(diagnosis) == "no problem found"
    diagnosis.complain("a", "b")
    assert summary(diagnosis) == "1 problem found"
    assert diagnosis.to_json()["healthy"] is False
