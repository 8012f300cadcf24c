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
    assert told == {"descriptors": len(made), "degraded": 0, "sources": 2, "failed": [], "output": name}
    assert [d.core for d in made[: len(made) // 2]] == [d.core for d in made[len(made) // 2 :]]
    assert made[-1].core[1] == 60


def test_a_missing_detector_is_told_once_and_marked(call, film, tmp_path, monkeypatch):
    monkeypatch.delenv("HYPERFRAMES_MODELS", raising=False)
    outcome = call("describe", film, "--to", "out.arrow", "--quiet")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("warning: no detector: the detection part of descriptors is not valid") == 1
    assert all(d.degraded for d in load(tmp_path / "out.arrow"))
    assert outcome.out.startswith("out.arrow: ")


@pytest.mark.slow
def test_what_all_sources_lack_is_told_once(call, film, tmp_path, monkeypatch):
    monkeypatch.delenv("HYPERFRAMES_MODELS", raising=False)
    folder = tmp_path / "films"
    folder.mkdir()
    for name in ("a.mp4", "b.mp4"):
        (folder / name).write_bytes(film.read_bytes())
    outcome = call("describe", "films", "--to", "library.lance", "--quiet")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("warning: no detector") == 1
    assert outcome.out.endswith("0 replaced, 1 source unchanged\n")  # b has the content of a


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(call):
    outcome = call("describe", "missing.mp4", "--to", "out.json")
    assert outcome.code != 0
    assert outcome.error == "descriptors are kept in files ending in .arrow or .parquet: got 'out.json'"
    outcome = call("describe", "missing.mp4", "--to", "none/out.arrow")
    assert outcome.error == "cannot write none/out.arrow: there is no folder none"


def test_a_dataset_that_cannot_be_written_is_refused_before_anything_is_read(call, tmp_path):
    (tmp_path / "mine.lance").write_text("mine")
    outcome = call("describe", "missing.mp4", "--to", "mine.lance")
    assert outcome.error == "mine.lance is no dataset of descriptors: it is a file"
    outcome = call("describe", "missing.mp4", "--to", "none/library.lance")
    assert (outcome.code, outcome.error) == (2, "cannot write none/library.lance: 'none' does not exist")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("library.lance", "0 descriptors of finished sources kept; the same command goes on from there."),
        ("out.arrow", "Nothing was written: out.arrow is made at the end."),
    ],
)
def test_an_interruption_says_what_was_kept(call, film, monkeypatch, name, told):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("hyperframes.semantic.describe", interrupted)
    outcome = call("describe", film, "--to", name, "--quiet")
    assert (outcome.code, outcome.error) == (130, "interrupted")
    assert f"hint: {told}" in outcome.err


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


@pytest.mark.slow
def test_a_second_pass_over_a_folder_does_only_what_changed_and_a_broken_file_stops_no_other(call, film, tmp_path):
    folder = tmp_path / "films" / "deeper"
    folder.mkdir(parents=True)
    for name in ("a.mp4", "b.mp4"):
        (folder / name).write_bytes(film.read_bytes())
    (folder / "notes.txt").write_text("no video")
    asked = ("describe", "films", "--to", "library.lance", "--detector", "none", "--json", "--quiet")
    first = json.loads(call(*asked).out)
    assert (first["sources"], first["sources_unchanged"], first["failed"]) == (2, 1, [])  # b has the content of a
    write_clip(folder / "b.mp4", footage(moving(1, 40, 2)))
    (folder / "c.mp4").write_bytes(b"no video")
    outcome = call(*asked)
    told = json.loads(outcome.out)
    assert (outcome.code, told["sources_unchanged"], told["replaced"]) == (1, 1, 0)
    assert told["failed"] == ["films/deeper/c.mp4"]
    assert "c.mp4" in outcome.err
    write_clip(folder / "b.mp4", footage(moving(1, 50, 3)))
    told = json.loads(call(*asked).out)
    assert told["replaced"] > 0
    assert max(d.core[1] for d in Store(tmp_path / "library.lance").descriptors("source like '%b.mp4'")) == 50
    assert json.loads(call(*asked).out)["descriptors"] == 0


@pytest.mark.requirement("C110")
def test_a_cache_saves_describing_again(call, film, tmp_path):
    for number in range(2):
        asked = ("describe", film, "--to", f"{number}.arrow", "--detector", "none", "--quiet", "--cache", "kept")
        outcome = call(*asked, "--cache-ttl", "60")
        assert outcome.code == 0, outcome.err
    assert load(tmp_path / "0.arrow") == load(tmp_path / "1.arrow")
    assert len(list((tmp_path / "kept").iterdir())) == 1
    outcome = call("anchors", film, "--cache", "http://host")
    assert outcome.code == 1
    assert "a cache is a folder or redis://HOST:PORT: got 'http://host'" in outcome.err
