"""`hyperframes describe`: descriptors of segments, into a dataset or a file."""

import json

import pytest
from tests.cli.conftest import write_clip
from tests.semantic.scenes import footage, moving, still

from hyperframes.index import Store
from hyperframes.semantic import load


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("film") / "film.mp4", footage(moving(1, 30, 2), still(3, 30)))


@pytest.mark.parametrize("name", ["out.arrow", "out.parquet"])
def test_descriptors_of_all_sources_come_into_one_file(call, film, tmp_path, name):
    outcome = call("describe", film, film, "--to", name, "--detector", "none", "--json", "--quiet")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    made = load(tmp_path / name)
    assert told == {"descriptors": len(made), "degraded": 0, "sources": 2, "output": name}
    assert [d.core for d in made[: len(made) // 2]] == [d.core for d in made[len(made) // 2 :]]
    assert made[-1].core[1] == 60


def test_a_missing_detector_is_told_once_and_marked(call, film, tmp_path, monkeypatch):
    monkeypatch.delenv("HYPERFRAMES_MODELS", raising=False)
    outcome = call("describe", film, "--to", "out.arrow", "--quiet")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("warning: no detector: the detection part of descriptors is not valid") == 1
    assert all(d.degraded for d in load(tmp_path / "out.arrow"))
    assert outcome.out.startswith("out.arrow: ")


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(call):
    outcome = call("describe", "missing.mp4", "--to", "out.json")
    assert outcome.code != 0
    assert outcome.error == "descriptors are kept in files ending in .arrow or .parquet: got 'out.json'"
    outcome = call("describe", "missing.mp4", "--to", "none/out.arrow")
    assert outcome.error == "cannot write none/out.arrow: there is no folder none"


@pytest.mark.slow
def test_a_dataset_gets_only_what_is_new(call, film, tmp_path):
    told = []
    for more in ([], [], ["--two-pass"]):
        outcome = call("describe", film, "--to", "library.lance", "--detector", "none", "--json", "--quiet", *more)
        assert outcome.code == 0, outcome.err
        told.append(json.loads(outcome.out))
    assert [(t["descriptors"] > 0, t["sources_unchanged"]) for t in told] == [(True, 0), (False, 1), (True, 0)]
    store = Store(tmp_path / "library.lance")
    assert len(store) == sum(t["descriptors"] for t in told)
    assert {d.statistics for d in store.descriptors()} == {"causal", "two-pass"}
