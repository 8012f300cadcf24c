"""`hyperframes bench`: suites by name, and the roofline as a table and as JSON."""

import json

SMALL = ("--frame", "48x36", "--repetitions", "1", "--threads", "1", "--quiet")


def test_without_a_name_the_suites_are_listed(call):
    assert "roofline  how fast this machine copies memory" in call("bench").out
    assert "roofline" in json.loads(call("bench", "--json").out)


def test_the_roofline_is_a_table_or_json(call):
    outcome = call("bench", "roofline", "-p", "temporal_mean:radius=1", *SMALL)
    assert outcome.code == 0, outcome.err
    assert "copy, 1 thread: " in outcome.out
    assert "of a copy" in outcome.out
    told = json.loads(call("bench", "roofline", "-p", "temporal_mean:radius=1", *SMALL, "--json").out)
    assert {"machine", "copy", "operators"} == set(told)
    (rate,) = told["operators"]
    assert rate["bytes_per_frame"] == 2 * 48 * 36 * 1.5
    assert rate["failed"] is None


def test_an_unknown_suite_is_told_with_the_nearest(call):
    outcome = call("bench", "rofline")
    assert outcome.code == 2
    assert outcome.error == "no benchmark named 'rofline'; known: roofline"
    assert outcome.hint == "Did you mean 'roofline'?"


def test_a_frame_size_that_is_none_is_told(call):
    outcome = call("bench", "roofline", "--frame", "big")
    assert outcome.code == 2
    assert outcome.error == "--frame: expected WIDTHxHEIGHT, got 'big'"
