"""`hyperframes operators`: every registered operator, and one in full."""

import json
import re

import pytest

from hyperframes import registry


def test_the_list_has_every_operator_with_one_line_about_it(call):
    outcome = call("operators")
    heading, *rows = outcome.out.splitlines()[:-3]
    named = {row.split(maxsplit=1)[0]: row.split(maxsplit=1)[1].strip() for row in rows}
    assert outcome.code == 0
    assert heading.split() == ["operator", "halo", "what", "it", "does"]
    assert set(named) == set(registry.operators)
    assert named["temporal_mean"].startswith("2 + 2 ")
    assert named["resize"].startswith("- ")  # its width or height must be given first
    assert "`" not in outcome.out
    assert "cannot be loaded" not in outcome.out
    assert outcome.out.splitlines()[-1] == "One in full: hyperframes operators NAME"


def test_json_tells_parameters_halo_and_documentation_of_each(call):
    told = {entry["name"]: entry for entry in json.loads(call("operators", "--json").out)}
    assert set(told) == set(registry.operators)
    mean = told["temporal_mean"]
    assert {"name", "type", "default", "required", "help"} == mean["parameters"][0].keys()
    assert mean["dependency"] == "independent"
    assert told["background"]["dependency"] == "sequential"
    assert {o["kind"] for o in told["measure"]["outputs"]} == {"records"}
    assert told["resize"]["halo"] is None  # its parameters are needed first


@pytest.mark.parametrize("name", sorted(registry.operators))
def test_every_operator_can_be_shown_in_full(call, name):
    outcome = call("operators", name)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(f"{name}  ")
    assert not re.search(r"`|^-{3,}|^\.\. |\]_|^Parameters", outcome.out, re.MULTILINE)


def test_one_in_full_has_parameters_halo_and_documentation(call):
    outcome = call("operators", "denoise")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("denoise  ")
    assert lines[2].split() == ["parameter", "type", "default", "meaning"]
    assert lines[3].split()[:3] == ["strength", "float", "5.0"]
    assert "halo 2 + 2 with default parameters, dependency independent, outputs frames, resource compute" in outcome.out
    assert "\nReferences\n[1] E. Dubois" in outcome.out


def test_an_operator_that_cannot_be_loaded_does_not_hide_the_others(call, monkeypatch):
    original = registry.operators.get

    def get(name):
        if name == "gaussian":
            raise ImportError("libcv.so is missing")
        return original(name)

    monkeypatch.setattr(registry.operators, "get", get)
    outcome = call("operators")
    assert "cannot be loaded: libcv.so is missing" in outcome.out
    assert "temporal_mean" in outcome.out


def test_a_name_that_is_nearly_right_is_put_right(call):
    outcome = call("operators", "denose")
    assert outcome.code == 2
    assert outcome.error.startswith("no operator named 'denose'; known: ")
    assert outcome.hint == "Did you mean 'denoise'?"
