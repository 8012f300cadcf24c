"""`hyperframes train`, `evaluate` and `inspect`: what they print, and errors as sentences."""

import json

import pytest
from tests.neural.test_train import CONFIG, samples  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow  # torch and lightning take seconds to import


@pytest.fixture
def config(samples):  # noqa: F811 - the fixture
    def write(name, text=CONFIG):
        path = samples / f"cli_{name}.toml"
        path.write_text(text.replace('"run"', f'"cli_{name}"'))
        return path

    return write


def test_a_model_is_trained_in_two_runs_evaluated_and_inspected(call, config, samples, tmp_path):  # noqa: F811
    path = config("whole")
    first = call("train", path, "--steps", "2", "--json")
    assert first.code == 0, first.err
    assert json.loads(first.out)["steps"] == 2
    assert "step 2: macro_f1" in first.err
    second = call("train", path, "--resume", "--quiet")
    assert second.code == 0, second.err
    assert "best.safetensors: 4 steps in" in second.out
    assert "step 4: macro_f1" not in second.err
    model = samples / "cli_whole/best.safetensors"
    told = call("evaluate", model, "--json", "--queue", tmp_path / "next.csv", "--top", "2")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert {"macro_f1", "macro_f1_interval", "accuracy", "confusion", "parameters"} <= set(found)
    lines = (tmp_path / "next.csv").read_text().splitlines()
    assert lines[0] == "file,start,stop,guess,unsure,distance"
    assert len(lines) == 3
    table = call("evaluate", model)
    assert "macro-F1" in table.out
    assert "is \\ taken for" in table.out
    seen = call("inspect", model, samples / "3.npy", "--out", tmp_path / "seen")
    assert seen.code == 0, seen.err
    assert "grid warp" in seen.out
    assert (tmp_path / "seen/time.gif").is_file()
    found = json.loads(call("inspect", model, samples / "3.npy", "--profile", "--json").out)
    assert "checks" in found
    assert found["costs"][0]["calls"] >= 1
    assert "allocated" in call("inspect", model, samples / "3.npy", "--profile").out


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (("steps = 4", "stepz = 4"), 2, "line 16: [train] has no 'stepz'"),
        (("labels.csv", "none.csv"), 1, "cannot read the table"),
        (('groups = ["day"]', 'groups = ["label"]'), 1, "the split leaks"),
    ],
)
def test_what_cannot_be_trained_is_told_in_a_sentence(call, config, change, code, told):
    outcome = call("train", config("wrong", CONFIG.replace(*change)))
    assert outcome.code == code
    assert told in outcome.err
    assert "Traceback" not in outcome.err


def test_what_is_no_model_is_told(call, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"no")
    outcome = call("evaluate", tmp_path / "x.safetensors")
    assert outcome.code == 1
    assert outcome.error.startswith("cannot read a model from")
    assert call("train", tmp_path / "none.toml").error.startswith("cannot read the configuration")


def test_a_queue_that_cannot_be_written_is_told_before_the_work(call, tmp_path):
    outcome = call("evaluate", tmp_path / "none.safetensors", "--queue", tmp_path / "no" / "queue.csv")
    assert outcome.code == 2
    assert "there is no folder" in outcome.error
