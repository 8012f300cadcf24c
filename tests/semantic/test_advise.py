"""Advice: what follows from measures, on both sides of each threshold, and that sources and models are really measured."""

import dataclasses
import json
import re

import numpy as np
import pytest
from tests.cli.conftest import write_clip
from tests.operators import onnx_files as files
from tests.semantic.scenes import footage, moving, panning, still

from hyperframes.errors import PipelineError, SourceError
from hyperframes.semantic.advice import (
    ModelMeasures,
    SourceMeasures,
    Symptoms,
    advice_on_events,
    advice_on_model,
    advice_on_source,
    target_named,
)
from hyperframes.semantic.advising import advise

THIS = target_named("this")
CALM = SourceMeasures(240, 1920, 3.0, 0.0, 4.0, 0.95, 2, 0.2, 0.3, gain=1.4, size=32)


def on(seen=CALM, told=None, **changes):
    return advice_on_source("a.mp4", dataclasses.replace(seen, **changes), told or Symptoms(), THIS)


def spoken(advice):
    return {finding.name: finding.speaks_for for finding in advice.findings}


@pytest.mark.requirement("D31", "D125", "X13", "X27")
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"fast_px": 2.0}, "MCH"),
        ({"fast_px": 1.99}, "SCH"),
        ({"fast_px": 0.1}, "SCH"),
        ({"fast_px": 0.09}, "none"),
        ({"fast_px": 192.0}, "EDH"),
        ({"coupling": 0.49}, "none"),
        ({"coupling": 0.5}, "MCH"),
    ],
)
def test_the_kind_follows_from_measured_motion_and_never_stops_anybody(changes, kind):
    advice = on(**changes)
    assert advice.kind == kind
    assert (advice.verdict == "worth it") == (kind != "none")
    assert advice.reason


def test_packing_alone_is_hardly_worth_it_where_nothing_else_speaks_for_it():
    assert on(gain=1.09, busy_share=0.51, area_share=0.51).verdict == "hardly worth it"
    assert on(gain=1.1, busy_share=0.51, area_share=0.51).verdict == "worth it"
    assert on(fast_px=0.0, gain=1.5).verdict == "hardly worth it"
    assert on(fast_px=0.0, gain=None).verdict == "not worth it"
    assert spoken(on(gain=None))["packed against frame by frame"] is None


@pytest.mark.parametrize(
    ("told", "name", "wanted"),
    [
        pytest.param({"latency_ms": 121}, "latency of one 1080p stream", True, marks=pytest.mark.requirement("C63")),
        ({"latency_ms": 120}, "latency of one 1080p stream", False),
        pytest.param({"memory_share": 0.66}, "device memory in use", True, marks=pytest.mark.requirement("C64")),
        ({"memory_share": 0.65}, "device memory in use", False),
        pytest.param({"accuracy_drop": 19}, "accuracy lost between scenes", True, marks=pytest.mark.requirement("C65")),
        ({"accuracy_drop": 18}, "accuracy lost between scenes", False),
        pytest.param({"relabel": True}, "labels anew for each model", True, marks=pytest.mark.requirement("C66")),
        pytest.param(
            {"memory_hurts": True}, "symptoms of more than one cause", True, marks=pytest.mark.requirement("C22")
        ),
        ({"jitters": True}, "symptoms of more than one cause", True),
        ({"models_ratio": 3.1}, "symptoms of more than one cause", True),
        ({"models_ratio": 3.0}, "all small models over one", False),
    ],
)
def test_each_symptom_is_held_against_its_threshold(told, name, wanted):
    advice = on(told=Symptoms(**told))
    assert spoken(advice)[name] is wanted
    (finding,) = (f for f in advice.findings if f.name == name)
    assert finding.threshold
    assert finding.why
    assert name not in spoken(on())


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"latency_ms": float("nan")}, "latency ms: expected a number in [0, inf], got nan"),
        ({"latency_ms": -5.0}, "latency ms: expected a number in [0, inf], got -5"),
        ({"memory_share": 1.1}, "memory share: expected a number in [0, 1], got 1.1"),
        ({"accuracy_drop": float("inf")}, "accuracy drop: expected a finite number, got inf"),
        ({"models_ratio": -1.0}, "models ratio: expected a number in [0, inf], got -1"),
    ],
)
def test_symptoms_that_cannot_have_been_seen_are_refused(told, message):
    with pytest.raises(PipelineError, match=re.escape(message)):
        Symptoms(**told)
    assert on(told=Symptoms(accuracy_drop=-3.0)).findings[-1].speaks_for is False  # gained, not lost


MODEL = ModelMeasures({1: 10.0, 2: 9.5, 4: 9.0}, None, 1, 100 << 20)


@pytest.mark.requirement("B92", "C9", "C98")
def test_models_are_judged_by_gain_latency_and_the_memory_of_the_target():
    def on_model(told=None, target="edge-2gb", memory=2 << 30, **changes):
        seen = dataclasses.replace(MODEL, **changes)
        return advice_on_model("m.onnx", seen, told or Symptoms(), target_named(target), memory)

    assert (on_model().verdict, on_model().kind) == ("worth it", "batch")
    assert on_model(milliseconds={1: 10.0, 2: 9.2}).kind == "none"
    assert on_model(milliseconds={1: 10.0, 2: 9.2}).verdict == "not worth it"
    assert on_model(milliseconds={1: 130.0, 2: 130.0}).verdict == "hardly worth it"
    assert on_model(milliseconds={1: 10.0}, fixed_batch=1).reason.endswith("(the file fixes 1 frames a call)")
    assert on_model(milliseconds={1: 10.0}, length=16).kind == "window"
    crowded = on_model(memory_bytes=int(2.8 * 2**30))
    assert spoken(crowded)["memory of the target in use"] is True
    assert any("it does not fit" in f.why for f in crowded.findings)
    assert spoken(on_model())["memory of the target in use"] is False


def test_events_are_worth_it_where_there_are_some():
    assert advice_on_events("e.raw", 1000.0, Symptoms(), THIS).kind == "EDH"
    assert advice_on_events("e.raw", 999.0, Symptoms(), THIS).verdict == "not worth it"


@pytest.mark.slow
@pytest.mark.requirement("D125")
def test_a_source_is_measured(tmp_path):
    pans = advise(write_clip(tmp_path / "pan.mp4", footage(panning(1, 40, 3))))
    by_name = {f.name: f.value for f in pans.findings}
    assert pans.kind == "MCH"
    assert by_name["motion, median"] == pytest.approx(3, rel=0.25)
    assert by_name["packed against frame by frame"] > 0
    rests = advise(footage(still(1, 30)))
    assert rests.kind == "none"
    assert advise(np.random.default_rng(1).integers(0, 255, (20, 48, 64), np.uint8)).kind == "none"
    assert advise(footage(moving(1, 30, 1), still(2, 60))).kind != "none"


def test_a_model_is_measured(tmp_path):
    found = advise(files.means(tmp_path / "m.onnx"), target="edge-2gb")
    assert {f.name for f in found.findings} >= {"latency of one frame", "gain of many frames in one call"}
    assert all(f.value > 0 for f in found.findings)
    fixed = advise(files.means(tmp_path / "fixed.onnx", batch=2))
    assert any("the file fixes 2 frames a call" in f.why for f in fixed.findings)
    json.dumps(found.to_json())


def test_what_cannot_be_advised_on_is_told(tmp_path):
    with pytest.raises(PipelineError, match="no target named 'moon': expected one of this, edge-2gb"):
        advise("a.mp4", target="moon")
    with pytest.raises(SourceError, match="has 1 frames: advice needs two or more"):
        advise(np.zeros((1, 16, 16), np.uint8))
    with pytest.raises(SourceError, match="has no pictures: advice is about video"):
        advise(np.zeros((20, 3), np.float32))
    broken = tmp_path / "m.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(PipelineError, match="is no model that ONNX Runtime"):
        advise(broken)
