"""`hyperframes index`: how a dataset is searched, and whether searches find what is there."""

import json
import re

import numpy as np
import pytest
from tests.index.library import span, spans

import hyperframes as hf
from hyperframes.semantic import Looks, Tasks


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "library.lance"
    hf.open_index(path).add(spans(count=40))
    return path


def test_the_command_tells_how_a_dataset_is_searched(call, library):
    outcome = call("index", library, "--optimize", "--check", "5", "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    assert (told["kind"], told["num_descriptors"], told["recall"]) == ("exact", 40, 1)
    assert re.fullmatch(
        r".*library\.lance: \d+ descriptors, searched exactly, version \d+\n", call("index", library).out
    )


def test_damaged_descriptors_are_told_and_make_the_command_fail(call, library, monkeypatch):
    outcome = call("index", library, "--verify", "--json")
    assert (outcome.code, json.loads(outcome.out)["num_damaged"], json.loads(outcome.out)["damaged"]) == (0, 0, [])
    monkeypatch.setattr("hyperframes.index.search.find_damaged", lambda _table: ["a.mp4 0.0 to 2.0 s: wrong"])
    outcome = call("index", library, "--verify")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (1, "damaged: a.mp4 0.0 to 2.0 s: wrong")
    assert outcome.error.endswith("is damaged: 1 descriptor no longer what was written")


def test_duplicates_are_told_with_their_instants_where_looks_say_so(call, tmp_path):
    index = hf.open_index(tmp_path / "library.lance")
    random = np.random.default_rng(0)
    values = random.normal(size=(10, 63)).astype(np.float16)
    times = 0.2 * np.arange(10)
    index.add([span("a.mp4", seed=1, looks=Looks(times, values)), span("b.mp4", seed=1, looks=Looks(times, values))])
    index.add([span("c.mp4", 4, seed=2), span("d.mp4", 5, seed=2)])
    lines = call("index", tmp_path / "library.lance", "--duplicates").out.splitlines()
    assert "1.0000  a.mp4@1.0  is like  b.mp4@1.0" in lines or "1.0000  b.mp4@1.0  is like  a.mp4@1.0" in lines
    assert sum("8.000 to 10.000 s" in line and "10.000 to 12.000 s" in line for line in lines) == 1
    told = json.loads(call("index", tmp_path / "library.lance", "--duplicates", "--json").out)
    assert [pair["score"] for pair in told["duplicates"]] == pytest.approx([1, 1], abs=1e-5)


def test_without_duplicates_that_is_said(call, library):
    assert "no duplicates were found" in call("index", library, "--duplicates").out


def test_a_task_is_fitted_to_labels_and_then_searched_by(call, tmp_path, monkeypatch):
    index = hf.open_index(tmp_path / "library.lance")
    for k in range(6):
        features = np.zeros(512, np.float32)
        features[:200] = np.random.default_rng(k).random(200)
        features[3] = 5 * (k % 2)
        index.add(span(f"{k}.mp4", semantic_features=features))
    labels = tmp_path / "labels.csv"
    labels.write_text("source,label\n" + "".join(f"{k}.mp4,{'odd' if k % 2 else 'even'}\n" for k in range(6)))
    arguments = ("index", tmp_path / "library.lance", "--fit", "odd ones", "--labels", labels, "--json")
    monkeypatch.delenv("HYPERFRAMES_TASKS", raising=False)
    refused = call(*arguments)
    assert refused.code == 2
    assert "expected its path in HYPERFRAMES_TASKS" in refused.err
    monkeypatch.setenv("HYPERFRAMES_TASKS", str(tmp_path / "tasks"))
    monkeypatch.setattr("hyperframes.index.labels.TASKS", Tasks(folder=tmp_path / "tasks"))  # made when it was imported
    told = json.loads(call(*arguments).out)
    assert (told["task"], told["num_descriptors"], told["accuracy"]) == ("odd ones", 6, 1)
    assert Tasks(folder=tmp_path / "tasks").projection("odd ones").version == told["version"]
    assert call("index", tmp_path / "library.lance", "--fit", "odd ones").code == 2
