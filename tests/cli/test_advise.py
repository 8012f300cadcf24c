"""`hyperframes advise`: a verdict, a kind, and every finding with its threshold."""

import json

import pytest
from tests.cli.conftest import write_clip
from tests.semantic.scenes import footage, panning


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("film") / "film.mp4", footage(panning(1, 24, 3)))


@pytest.mark.requirement("C22", "C63")
def test_advice_is_printed_with_what_was_measured_and_the_thresholds(call, film):
    outcome = call("advise", film, "--latency", "140", "--jitters")
    assert outcome.code == 0, outcome.err
    assert f"{film}: worth it, kind MCH" in outcome.out
    for text in ("motion, 99th percentile", "latency of one 1080p stream", "over 120", "symptoms of more than one"):
        assert text in " ".join(outcome.out.split())


def test_advice_as_json_has_the_same(call, film):
    outcome = call("advise", film, "--json", "--target", "edge-2gb", "--relabel")
    told = json.loads(outcome.out)
    assert told.keys() == {"subject", "verdict", "kind", "reason", "target", "findings"}
    assert (told["kind"], told["target"]) == ("MCH", "edge-2gb")
    assert {f["name"]: f["speaks_for"] for f in told["findings"]}["labels anew for each model"] is True


def test_a_target_that_is_not_there_is_wrong_usage(call, film):
    outcome = call("advise", film, "--target", "moon")
    assert outcome.code == 2
    assert "error: no target named 'moon': expected one of this, edge-2gb, edge-8gb, gpu-24gb" in outcome.err
