"""`hyperframes search`: hits as a table, as JSON and as a sheet."""

import json

import numpy as np
import pytest
from tests.cli.conftest import write_clip
from tests.index.library import spans

import hyperframes as hf


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    film = str(write_clip(folder / "film.mp4", np.full((150, 32, 48), 90, np.uint8)))
    hf.open_index(folder / "library.lance").add([*spans(film), *spans("b.mp4")])
    return folder / "library.lance", film


def test_hits_are_printed_as_json_with_the_keys_of_the_contract(call, library):
    dataset, film = library
    outcome = call("search", dataset, "--like", f"{film}@2.5", "--top", "2", "--json")
    assert outcome.code == 0, outcome.err
    rows = json.loads(outcome.out)
    assert [set(row) for row in rows] == [{"source", "start_seconds", "stop_seconds", "score", "descriptor_id"}] * 2
    assert (rows[0]["source"], rows[0]["start_seconds"], rows[0]["stop_seconds"]) == (film, 2.0, 4.0)
    assert rows[0]["score"] == pytest.approx(1, abs=1e-6)
    assert rows[0]["score"] > rows[1]["score"]


def test_hits_are_printed_as_a_table_and_written_as_a_sheet(call, library, tmp_path):
    dataset, film = library
    sheet = tmp_path / "sheet.png"
    outcome = call("search", dataset, "--like", f"{film}@#120", "--where", "source != 'b.mp4'", "--sheet", sheet)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert len(lines) == 4
    assert lines[1].split()[:2] == ["1.0000", "4.000"]
    assert sheet.is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--like", "film.mp4"], 2, "expected SOURCE@SECONDS or SOURCE@#FRAME"),
        ([], 2, "expected one of like, image and text, got none"),
        (["--text", "a dog", "--task", "find dogs"], 2, "a task compares features"),
        (["--image", "none.png"], 1, "no such picture: none.png"),
        (["--like", "b.mp4@1", "--where", "rm()"], 2, "expected a plain condition"),
        (["--like", "b.mp4@1", "--sheet", "a.gif"], 2, "ending in .html or .png"),
        (["--like", "b.mp4@99"], 1, "holds no descriptor at b.mp4@99"),
    ],
)
def test_what_cannot_be_done_is_told(call, library, arguments, code, told):
    outcome = call("search", library[0], *arguments)
    assert outcome.code == code
    assert told in outcome.err
    assert "Traceback" not in outcome.err
