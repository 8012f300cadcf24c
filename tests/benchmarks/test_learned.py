"""The comparison of learned hyperframes: fair by construction, gone on with, and told as it was."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bench_learned

    yield bench_learned
    sys.modules.pop("bench_learned")


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "learned"))
    import learned_tables

    return learned_tables


def finished(model, seed, truth, answers, fold=""):
    return {
        "phase": "final", "model": model, "seed": seed, "rate": 1e-3, "fold": fold, "parameters": 10, "cpu_seconds": 2.0,
        "truth": truth, "answers": answers, "units": [f"{fold}{i // 4}" for i in range(len(truth))], "samples": [],
        "macro_f1": 0.5,
    }  # fmt: skip


RECIPE = {"ours": "mch", "rivals": ["resnet3d"], "seeds": [0, 1], "rates": [1e-3, 2e-3]}
TRUTH = [0, 1] * 10


def test_models_differ_in_nothing_but_the_model(bench):
    for name in bench.NAMES:
        recipe = bench.recipe_of(name)
        made = [
            bench.config_of(recipe, bench.Planned("final", model, 1, None), (1e-3, ""), Path("media"), "folder")
            for model in [recipe["ours"], *recipe["rivals"]]
        ]
        for one in made:
            one.pop("model")
        assert all(one == made[0] for one in made)


def test_every_model_is_searched_and_trained_as_often(bench):
    runs = bench.planned({**RECIPE, "ablations": {"without x": {}}}, [""])
    for phase, count in (("search", 2), ("final", 2)):  # two rates; two seeds
        assert [sum(r.phase == phase and r.model == m for r in runs) for m in ("mch", "resnet3d")] == [count, count]
    assert [run.phase for run in runs[-2:]] == ["ablation", "ablation"]
    assert [run.seed for run in runs[-2:]] == [0, 1]
    assert len({run.key for run in runs}) == len(runs)


@pytest.mark.parametrize("name", ["person_tracks", "thermal_falls"])
def test_an_ablation_changes_one_thing(bench, name):
    recipe = bench.recipe_of(name)
    whole = bench.config_of(recipe, bench.Planned("final", "mch", 0, None), (1e-3, ""), Path("m"), "f")
    for part in recipe["ablations"]:
        values = bench.config_of(recipe, bench.Planned("ablation", part, 0, None), (1e-3, ""), Path("m"), "f")
        changed = [
            (table, key) for table in whole for key in values[table] if whole[table].get(key) != values[table][key]
        ]
        assert len(changed) == 1, part
        assert len(set(values["model"]["options"].items()) - set(whole["model"]["options"].items())) <= 1


def test_the_best_rate_is_chosen_by_what_was_kept_aside(bench):
    runs = {bench.Planned("search", "mch", 0, r).key: {"rate": r, "macro_f1": f} for r, f in ((1e-3, 0.4), (2e-3, 0.6))}
    assert bench.best(RECIPE, runs, "mch") == (2e-3, "")
    assert bench.best(RECIPE, runs, "resnet3d") is None
    assert bench.best({**RECIPE, "rates": [3e-3]}, {}, "mch") == (3e-3, "")


def test_a_choice_is_the_mean_over_splits_and_may_be_a_variant(bench):
    recipe = {
        **RECIPE,
        "rates": [1e-3],
        "search_seeds": [0, 1],
        "variants": {"": {}, "turned": {"data": {"turn": 10.0}}},
    }
    scores = {("", 0): 0.9, ("", 1): 0.3, ("turned", 0): 0.7, ("turned", 1): 0.6}
    runs = {
        bench.Planned("search", "mch", seed, 1e-3, "", name).key: {"macro_f1": score}
        for (name, seed), score in scores.items()
    }
    assert bench.best(recipe, runs, "mch") == (1e-3, "turned")


@pytest.mark.slow
def test_folds_are_put_together_and_broken_seeds_left_out(bench):
    right, wrong = list(TRUTH), [1 - x for x in TRUTH]
    runs = [
        finished("mch", 0, TRUTH, right, "a"), finished("mch", 0, TRUTH, wrong, "b"), finished("mch", 1, TRUTH, right, "a"),
        finished("resnet3d", 0, TRUTH, wrong, "a"), finished("resnet3d", 0, TRUTH, wrong, "b"),
    ]  # fmt: skip
    summary = bench.summary_of({"runs": {str(i): run for i, run in enumerate(runs)}}, RECIPE)
    assert summary["models"]["mch"]["seeds"] == 1
    assert summary["models"]["mch"]["macro_f1"] == pytest.approx(0.5)
    assert summary["models"]["mch"]["cpu_seconds"] == 4
    assert (summary["samples"], summary["units"]) == (40, 10)
    told = summary["differences"]["mch over resnet3d"]
    assert told["points"] == pytest.approx(0.5)
    assert told["interval"][0] <= 0.5 <= told["interval"][1]


@pytest.mark.slow
def test_tables_say_what_counts_and_what_was_not_run(bench, tables):
    random = np.random.default_rng(0)
    runs = [finished("mch", seed, TRUTH, TRUTH) for seed in (0, 1)]
    runs += [finished("resnet3d", seed, TRUTH, random.integers(0, 2, 20).tolist()) for seed in (0, 1)]
    runs += [
        {**runs[seed], "phase": "ablation", "model": "without x", "answers": random.integers(0, 2, 20).tolist()}
        for seed in (0, 1)
    ]
    runs += [{**runs[0], "phase": "search", "rate": r, "macro_f1": 0.5 + r} for r in (1e-3, 2e-3)]
    result = {
        "title": "T",
        "runs": {bench.Planned(r["phase"], r["model"], r["seed"], r["rate"]).key: r for r in runs},
        "versions": {"commit": "c"},
    }
    result["summary"] = bench.summary_of(result, {**RECIPE, "ablations": {"without x": {}}})
    result["latency_ms"] = {"mch": [3.0, 1.0, 2.0]}
    text = tables.section([result])
    assert "| mch | 10 | 2 | 100.0 +- 0.0 | 100.0 | 2 s | 2.0 ms |" in text
    assert text.count("no: too few recordings |") == 2
    result["summary"]["units"] = tables.FEWEST_UNITS
    text = tables.section([result])
    assert text.count("| yes |") == 2
    assert re.search(r"\| without x \| 2 \| \S+ \| \+\S+ \| \+\S+ to \+\S+ \| yes \| 2 s \|", text)
    assert "among 0.001, 0.002 with 1 split, best: mch 0.002; 20 test samples of 6 recordings; commit c." in text
    assert tables.section([{"title": "T", "summary": bench.summary_of({"runs": {}}, RECIPE)}]) == ""


def test_results_are_whole_or_as_they_were(bench, tmp_path):
    path = tmp_path / "new/told.json"
    bench.save(path, {"a": 1})
    with pytest.raises(TypeError):
        bench.save(path, {"a": object()})
    assert path.read_text() == '{\n "a": 1\n}\n'
    assert [one.name for one in path.parent.iterdir()] == ["told.json"]


@pytest.fixture
def page():
    """Load it by its place: as a module it has the name of the folder of benchmarks."""
    before = set(sys.modules)
    spec = importlib.util.spec_from_file_location("page_of_benchmarks", BENCHMARKS.parent / "tools/benchmarks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in set(sys.modules) - before:
        if "/benchmarks/" in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_page_shows_blocks_and_memory_beside_their_targets(page):
    kind = {
        "ms": {"hds": 10.0, "equal width": 90.0, "equal parameters": 16.0},
        "times": {"equal width": 9.0, "equal parameters": 1.6},
    }
    shape = {"forward": kind, "training step": kind}
    memory = {"mch": {"peak_bytes": 5e8, "training_bytes": 1e8}, "resnet3d": {"peak_bytes": 7e8, "training_bytes": 4e8}}
    answer = {"ms": {"mch": 2.0, "resnet3d": 4.0}, "share": {"resnet3d": 0.5}}
    told = {
        "answers": {"rounds": 3, "values": {"clips": answer}},
        "blocks": {"rounds": 3, "values": {"tensor": shape}},
        "memory": {"values": {"batch": memory}},
    }
    text = "\n".join(page.SECTIONS["neural"](told))
    assert "| tensor | forward | 10.0 ms | 90.0 ms | 16.0 ms | 9.00 | 1.60 |" in text
    assert "| clips | 2.0 ms | 4.0 ms | 50 % |" in text
    assert "| batch | resnet3d | 700 MB | 400 MB | 25 % |" in text


def test_the_page_says_when_others_decode_other_events(page):
    def peer(speed, times, same, version):
        return {
            "million_events_per_second": speed, "times": times, "same_events": same, "events": 7, "versions": {"p": version},
        }  # fmt: skip

    packages = {"hyperframes": peer(100.0, 1.0, True, "1"), "other": peer(50.0, 2.0, False, "1")}
    told = {"rounds": 3, "values": {"evt3": {"long": {"events": 8, "packages": packages}}}}
    text = "\n".join(page.SECTIONS["events"](told))
    assert "| evt3, long, 8 events | hyperframes | 100.0 | | yes |" in text
    assert "| evt3, long, 8 events | other | 50.0 | 2.00 | no, 7 events |" in text
