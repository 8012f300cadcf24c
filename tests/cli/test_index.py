"""`hyperframes index`: how a dataset is searched, and whether searches find what is there."""

import json

import pytest
from tests.index.library import spans

import hyperframes as hf


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
    assert "kind: exact" in call("index", library).out
