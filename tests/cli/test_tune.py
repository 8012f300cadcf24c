"""`hyperframes tune`: a sweep that is kept, and `--size auto` that starts from it."""

import json

import pytest


@pytest.fixture(autouse=True)
def _no_tuning_yet(monkeypatch, tmp_path):
    monkeypatch.setenv("HYPERFRAMES_CACHE", str(tmp_path / "cache"))


SWEEP = ("--sizes", "3,5", "--workers", "1", "--repetitions", "1", "--quiet")
CHAIN = ("-p", "temporal_mean:radius=1")


@pytest.mark.requirement("A35")
def test_a_sweep_says_which_size_is_kept_and_plan_explains_it(call, array):
    outcome = call("tune", array, *CHAIN, *SWEEP, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    told = json.loads(outcome.out)
    assert {
        "source", "operators", "frames", "halo", "size", "workers", "layout", "layouts_with_other_results", "frames_per_second", "decided_by", "knees", "costs",
        "copy_bytes_per_second", "cells", "created", "machine", "profile", "plot",
    } == set(told)  # fmt: skip
    assert told["halo"] == {"before": 1, "after": 1}
    assert [(cell["size"], cell["workers"]) for cell in told["cells"]] == [(3, 1), (5, 1)]
    planned = json.loads(call("plan", array, *CHAIN, "--workers", "1", "--explain", "--json").out)
    assert planned["size"] == told["size"]
    assert planned["reasons"][0].startswith(f"size {told['size']}, tuned on {told['created'][:10]} with 1 worker: ")
    assert planned["reasons"][2].startswith("the formula sqrt(2 * t * bandwidth / bytes) would start at ")
    ran = json.loads(call("run", array, "out.npy", *CHAIN, "--workers", "1", "--json", "--quiet").out)
    assert ran["size"] == told["size"]


def test_the_table_has_a_row_a_size_and_says_where_things_are(call, array, tmp_path):
    outcome = call("tune", array, *CHAIN, *SWEEP, "--plot", "tune.html")
    lines = outcome.out.splitlines()
    assert lines[0].split()[0] == "size"
    assert [line.split()[0] for line in lines[1:3]] == ["3", "5"]
    assert "the smallest size within 3 % of the best" in outcome.out
    assert f"kept for --size auto in {tmp_path / 'cache'}" in outcome.out
    assert (tmp_path / "tune.html").stat().st_size > 4000


def test_nothing_is_kept_where_that_is_not_wanted(call, array, tmp_path):
    told = json.loads(call("tune", array, *CHAIN, *SWEEP, "--no-save", "--json").out)
    assert told["profile"] is None
    assert not (tmp_path / "cache").exists()


def test_progress_goes_to_standard_error(call, array):
    outcome = call("tune", array, *CHAIN, *SWEEP[:-1], "--json")
    assert outcome.err.splitlines()[-1].startswith("measured 3 of 3 (size ")
    json.loads(outcome.out)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--sizes", "0"], "--sizes: expected numbers of at least 1, as 8,16,32 or 8:256:8, got '0'"),
        (["--sizes", "many"], "--sizes: expected numbers of at least 1, as 8,16,32 or 8:256:8, got 'many'"),
        (["--plot", "tune.pdf"], "a plot is written as .png or .html: got 'tune.pdf'"),
        (["-p", "temporal_maen"], "no operator named 'temporal_maen'"),
    ],
)
def test_wrong_use_is_told_before_anything_is_measured(call, array, options, error):
    outcome = call("tune", array, *options)
    assert outcome.code == 2
    assert outcome.error.startswith(error)
