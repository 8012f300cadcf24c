"""`hyperframes journal`: what it prints of a journal."""

import json

import pytest
from tests.drivers.live_observations import NOON, life, lost, sealed

from hyperframes.cli._app import app
from hyperframes.cli._show import exit_code_of
from hyperframes.drivers.journal_where import FIELDS
from hyperframes.drivers.live_journal import LiveJournal


@pytest.fixture
def path(tmp_path):
    with LiveJournal(tmp_path / "plant.journal") as journal:
        told = [*life(0, streams=("cam3",)), *life(1, streams=("cam3",), dropped="expired", first_id=8)]
        for observation in [*told, sealed(2, streams=("cam4", "cam5")), lost("cam3", "late", [16, 17])]:
            journal.observe({"began": NOON, **observation})
    return tmp_path / "plant.journal"


@pytest.mark.requirement("B91")
def test_it_tells_what_became_of_hyperframes_and_of_frames_outside_of_them(path, capsys):
    assert exit_code_of(app, ["journal", str(path)]) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert set(lines[0].split()) <= set(FIELDS)  # what a column is called can be asked for with --where
    assert any("cam3" in line and "0-7" in line and "delivered" in line and "20.0 ms" in line for line in lines)
    assert any("cam3" in line and "8-15" in line and "dropped" in line and "expired" in line for line in lines)
    assert any("cam4 and 1 more" in line and "open" in line for line in lines)
    assert any("16-17" in line and "late" in line for line in lines)
    assert lines[-1].startswith("3 hyperframes; frames: ")
    assert "8 dropped (expired)" in lines[-1]


@pytest.mark.parametrize("name", ["plant.journal", "other.db"])
def test_reading_leaves_nothing_beside_a_journal_and_changes_nothing_in_it(path, name, capsys):
    if name == "other.db":
        path.with_name(name).write_bytes(b"no journal, but a file of a kilobyte".ljust(1024))
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    exit_code_of(app, ["journal", str(path.with_name(name))])
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_reading_while_a_run_writes_leaves_its_files_alone(path, capsys):
    with LiveJournal(path) as journal:
        before = {file.name for file in path.parent.iterdir()}
        assert exit_code_of(app, ["journal", str(path)]) == 0
        assert {file.name for file in path.parent.iterdir()} == before
        journal.observe({"began": NOON, **life(9, streams=("cam3",))[0]})
    capsys.readouterr()
    assert exit_code_of(app, ["journal", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("4 hyperframes")


def test_conditions_leave_out_the_rest(path, capsys):
    assert exit_code_of(app, ["journal", str(path), "--where", "stream = cam3 and outcome = dropped"]) == 0
    said = capsys.readouterr().out
    assert "delivered" not in said
    assert said.splitlines()[-1] == "1 hyperframe; frames: 8 dropped (expired), 2 dropped (late)"


def test_a_condition_that_nothing_meets_is_told(path, capsys):
    assert exit_code_of(app, ["journal", str(path), "--where", "stream = cam9"]) == 0
    assert capsys.readouterr().out == "nothing meets the condition: stream = cam9\n"


def test_json_is_one_value(path, capsys):
    assert exit_code_of(app, ["journal", str(path), "--json", "--where", "reason = late"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["hyperframes"] == []
    assert told["frames_dropped"][0]["frame_ids"] == [16, 17]
    assert told["frames"] == {"dropped:late": 2}


def test_a_limit_says_what_it_leaves_out(path, capsys):
    assert exit_code_of(app, ["journal", str(path), "--limit", "1"]) == 0
    assert "the newest 2 of 4 rows are shown" in capsys.readouterr().out


def test_wrong_questions_and_files_are_refused(path, capsys):
    assert exit_code_of(app, ["journal", str(path), "--where", "camera = 3"]) == 2
    assert "error: --where: expected one of the fields" in capsys.readouterr().err
    assert exit_code_of(app, ["journal", str(path.with_name("none"))]) == 1
    assert "no such file" in capsys.readouterr().err


@pytest.mark.requirement("B91")
def test_journals_of_several_nodes_are_shown_as_one(call, tmp_path):
    folder = tmp_path / "journals"
    folder.mkdir()
    for name, frames in {"east": 20, "west": 12}.items():
        source = ("--source", f"{name}=synthetic:moving?frames={frames}", "--pace", "flat", "--when-full", "block")
        assert call("live", *source, "--size", "4", "--journal", folder / f"{name}.journal").code == 0
    for arguments in ([folder], [folder / "east.journal", folder / "west.journal"]):
        told = json.loads(call("journal", *arguments, "--json").out)
        lives = sorted((life["journal"], *life["streams"]) for life in told["hyperframes"])
        assert lives == [("east", "east")] * 5 + [("west", "west")] * 3
        assert (told["total_hyperframes"], told["frames"]) == (8, {"delivered": 32})
        assert {run["journal"] for run in told["runs"]} == {"east", "west"}
    shown = call("journal", folder, "--where", "stream = west", "--limit", "2")
    assert "west" in shown.out
    assert "3 hyperframes; frames: 12 delivered; the newest 2 of 3 rows are shown" in shown.out
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "there is no journal in" in call("journal", empty).error
