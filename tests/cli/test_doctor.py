"""`hyperframes doctor`: one page about the machine."""

import json


def test_json_tells_everything(call):
    told = json.loads(call("doctor", "--json").out)
    assert {"healthy", "versions", "processors", "memory", "limits", "extras", "codecs", "caches", "problems"} == set(
        told
    )
    assert told["codecs"]["encoders"]["libx264"]
    assert told["healthy"] == (not told["problems"])


def test_the_page_has_one_line_a_subject_and_a_verdict(call):
    outcome = call("doctor")
    subjects = [line.split("  ")[0] for line in outcome.out.splitlines()]
    for subject in ("hyperframes", "python", "libraries", "ffmpeg", "processors", "memory", "encoders", "extra zarr"):
        assert subject in subjects
    assert "no problem found" in outcome.out or " found" in outcome.out
    assert outcome.err == ""


def test_problems_come_with_what_to_do(call, monkeypatch):
    from hyperframes.drivers import doctor

    monkeypatch.setattr(doctor, "other_distributions", lambda: ["hyperframes"])
    outcome = call("doctor")
    assert outcome.code == 0
    assert "1 problem found" in outcome.out
    assert "  - the import name 'hyperframes' is also provided by hyperframes" in outcome.out
    assert "    Keep one of them: python -m pip uninstall hyperframes" in outcome.out
