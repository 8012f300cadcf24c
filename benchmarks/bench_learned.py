"""Learned hyperframes beside a 3-D and a 2-D network of equal size, trained as long, on the same windows of real data.

    HYPERFRAMES_TEST_MEDIA=DIR python benchmarks/bench_learned.py nmnist person_tracks --minutes 20

Recipes stand in learned/NAME.toml. Every model is searched as much (rates, and variants where the recipe has some) on
recordings of the training side that are kept aside; the best is trained anew on the whole side and tested, seed by seed; then
parts are taken out of ours one at a time, with the same seeds. Every run is added to results/learned/NAME.json when it is done,
and what is there is not run again, so that it can be stopped and gone on with. `--latency` measures what an answer costs once
all have learned.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "rivals"))

from saving import save

RESULTS = HERE / "results/learned"
NAMES = ("nmnist", "person_tracks", "thermal_falls", "surveillance_fights", "token_merging")
ROUNDS = 40


@dataclasses.dataclass(frozen=True)
class Planned:
    """One run that a recipe asks for."""

    phase: str
    model: str
    seed: int
    rate: float | None
    fold: str = ""
    """The group that is tested with; empty where a column says it."""
    variant: str = ""
    """Which of the recipe's variants is searched; all others follow from the search."""

    @property
    def key(self) -> str:
        """What it is called in the results."""
        tried = f" {self.rate:g}" if self.phase == "search" else ""
        tried += f" {self.variant}" if self.variant else ""
        return f"{self.phase}: {self.model}{tried}, seed {self.seed}" + (f", {self.fold}" if self.fold else "")


def recipe_of(name: str) -> dict[str, Any]:
    """Return a recipe."""
    return tomllib.loads((HERE / f"learned/{name}.toml").read_text())


def planned(recipe: dict[str, Any], folds: list[str]) -> list[Planned]:
    """Return all runs in their order: search, models seed by seed, ablations seed by seed."""
    models = [recipe["ours"], *recipe["rivals"]]
    runs = []
    if "rates_of" not in recipe and len(candidates(recipe)) > 1:
        for seed in recipe.get("search_seeds", [0]):
            runs += [Planned("search", m, seed, rate, "", name) for m in models for rate, name in candidates(recipe)]
    for phase, names in (("final", models), ("ablation", list(recipe.get("ablations", {})))):
        for seed in recipe["seeds"]:
            runs += [Planned(phase, name, seed, None, fold) for name in names for fold in folds]
    return runs


def candidates(recipe: dict[str, Any]) -> list[tuple[float, str]]:
    """Return the rates and variants that a search tries for each model."""
    return [(float(rate), name) for name in recipe.get("variants", {"": {}}) for rate in recipe["rates"]]


def merged(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the values of `more`, table by table."""
    both = dict(base)
    for key, value in more.items():
        both[key] = merged(both.get(key, {}), value) if isinstance(value, dict) else value
    return both


def config_of(
    recipe: dict[str, Any], run: Planned, chosen: tuple[float, str], media: Path, folder: str
) -> dict[str, Any]:
    """Return the training's configuration of a run with the rate and variant that it takes."""
    rate, variant = chosen
    model = recipe["ours"] if run.phase == "ablation" else run.model
    searching = run.phase == "search"
    values = {
        "data": {**recipe["data"], "table": str(media / recipe["data"]["table"]), "validation": 0.25 if searching else 0.0},
        "model": dict(recipe["models"][model]),
        "train": {
            **recipe["train"], "seed": run.seed, "learning_rate": rate, "floor": rate / 100, "threads": 1,
        },
        "loss": dict(recipe.get("loss", {})),
        "monitor": {"tensorboard": False},
        "output": {"folder": folder},
    }  # fmt: skip
    changes = [recipe["variants"][variant]] if variant else []
    changes += [recipe["ablations"][run.model]] if run.phase == "ablation" else []
    for change in changes:
        tables = {key: value for key, value in change.items() if key != "options"}
        values = merged(values, {"model": {"options": change.get("options", {})}, **tables})
    values["train"]["validate_every"] = values["train"]["steps"]
    return values


# Runs -----------------------------------------------------------------------------------------------------------------


def folds_of(recipe: dict[str, Any], media: Path) -> list[str]:
    """Return the groups that are tested with in turn; one empty one where the table has a split."""
    if not recipe.get("folds"):
        return [""]
    return sorted({sample.groups[0] for sample in all_samples(recipe, media)})


def all_samples(recipe: dict[str, Any], media: Path) -> list[Any]:
    """Return the samples of a recipe as its table has them."""
    from hyperframes.neural.data import read_table

    data = recipe["data"]
    return read_table(
        media / data["table"],
        source=data.get("source", "{file}"),
        split=data.get("split", "split") or None,
        groups=data.get("groups", ()),
        start=data.get("start"),
        stop=data.get("stop"),
        joined=data.get("joined"),
    )


def done_by(recipe: dict[str, Any], run: Planned, chosen: tuple[float, str], media: Path) -> dict[str, Any]:
    """Train and test once; return what is kept of it."""
    from hyperframes.neural.train import evaluate, fit, macro_f1
    from hyperframes.neural.train.config import TrainingConfig

    with tempfile.TemporaryDirectory() as folder:
        config = TrainingConfig.from_json(config_of(recipe, run, chosen, media, folder))
        if run.fold or "leave_out" in recipe:
            config = _own_table(config, recipe, run.fold, media, folder)
        began, cpu = time.perf_counter(), time.process_time()
        result = fit(config)
        spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
        told = evaluate(result.last, side="validation" if run.phase == "search" else "test")
    places = {s.source + f"@{s.start}": i for i, s in enumerate(all_samples(recipe, media))}
    return {
        **dataclasses.asdict(run),
        "rate": chosen[0],
        "variant": chosen[1],
        "macro_f1": macro_f1(told.answers.truth, told.answers.answers, len(told.classes)),
        "accuracy": told.accuracy,
        "classes": list(told.classes),
        "parameters": told.parameters,
        "samples": [places[s.source + f"@{s.start}"] for s in told.samples],
        "units": [sample.unit for sample in _named(told.samples, media)],
        "truth": told.answers.truth.tolist(),
        "answers": told.answers.answers.tolist(),
        **spent,
    }


def _named(samples: Any, media: Path) -> list[Any]:
    """Return the samples with sources from `media` on: results name no folder of one machine."""
    return [
        dataclasses.replace(s, source=os.path.relpath(s.source, media) + (f"@{s.start}" if s.start else ""))
        for s in samples
    ]


def _own_table(config: Any, recipe: dict[str, Any], fold: str, media: Path, folder: str) -> Any:
    """Return the configuration with a table whose split is that fold, if there is one, less the rows to leave out."""
    import csv

    table = Path(folder) / "labels.csv"
    with open(config.data.table, newline="") as file:
        rows = list(csv.DictReader(file))
    samples = all_samples(recipe, media)
    sides = [("test" if s.groups[0] == fold else "train") if fold else s.split for s in samples]
    out = recipe.get("leave_out")
    kept = [not out or any(row[key] != value for key, value in out.items()) for row in rows]
    with open(table, "w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "side"])
        writer.writeheader()
        writer.writerows({**row, "side": side} for row, side, k in zip(rows, sides, kept, strict=True) if k)
    root = str(Path(config.data.table).parent)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, table=str(table), root=root, split="side"))


def best(recipe: dict[str, Any], runs: dict[str, Any], model: str) -> tuple[float, str] | None:
    """Return rate and variant that did best on what was kept aside; None where the search is not done.

    Recipes whose data cannot be split to search in take the rates of another (`rates_of`).
    """
    if "rates_of" in recipe:
        other = RESULTS / f"{recipe['rates_of']}.json"
        known = json.loads(other.read_text())["runs"] if other.exists() else {}
        return best(recipe_of(recipe["rates_of"]), known, model)
    tried = candidates(recipe)
    if len(tried) == 1:
        return tried[0]
    scores = {}
    for rate, name in tried:
        keys = [Planned("search", model, seed, rate, "", name).key for seed in recipe.get("search_seeds", [0])]
        if any(key not in runs for key in keys):
            return None
        scores[rate, name] = sum(runs[key]["macro_f1"] for key in keys) / len(keys)
    return max(scores, key=lambda one: scores[one])


def go_on(name: str, media: Path, until: float, *, phases: tuple[str, ...]) -> bool:
    """Take the runs of some phases that are left, as long as there is time; return whether all are done."""
    recipe, path = recipe_of(name), RESULTS / f"{name}.json"
    result = json.loads(path.read_text()) if path.exists() else {"name": name, "title": recipe["title"], "runs": {}}
    for run in planned(recipe, folds_of(recipe, media)):
        if run.key in result["runs"] or run.phase not in phases:
            continue
        chosen = best(recipe, result["runs"], recipe["ours"] if run.phase == "ablation" else run.model)
        if run.phase == "search":
            chosen = run.rate or 0.0, run.variant
        if time.time() > until or chosen is None:
            return False
        result["runs"][run.key] = done_by(recipe, run, chosen, media)
        result |= {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": _machine(),
            "versions": _versions(),
        }
        save(path, result)
    if recipe.get("surfaces") and "surfaces" not in result:
        result["surfaces"] = surfaces(recipe, media)
        save(path, result)
    return True


def _machine() -> dict[str, Any]:
    import platform

    import psutil

    name = next((line.partition(": ")[2] for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    return {
        "processor": name or platform.processor(),
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.system(),
        "threads": 1,
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    names = ("torch", "lightning", "numpy", "hyperframes-engine")
    asked = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False
    )
    told = {"python": platform.python_version(), **{name: version(name) for name in names}}
    return {**told, "commit": asked.stdout.strip()}


# Time surfaces --------------------------------------------------------------------------------------------------------


def surfaces(recipe: dict[str, Any], media: Path) -> dict[str, Any]:
    """Return what a support vector machine on time surfaces answers, in an environment of its own."""
    import numpy as np

    from hyperframes import open as open_source
    from hyperframes.frames import Events, time_surface

    samples = all_samples(recipe, media)
    labels = sorted({sample.label for sample in samples})
    sensor = tuple(recipe["data"]["sensor"])
    arrays: dict[str, list[Any]] = {}
    for sample in samples:
        with open_source(sample.source, sensor=sensor) as source:
            planes, pts = source.arrays()
        events = Events.of(pts, planes[0][:, 0], planes[0][:, 1], planes[0][:, 2], sensor)
        for tau in (30_000, 100_000, 300_000):
            surface = time_surface(events, sensor, int(pts[-1]), tau)
            arrays.setdefault(f"{sample.split}_{tau // 1000}ms", []).append(surface.ravel())
    test = [sample for sample in samples if sample.split == "test"]
    python = _environment()
    with tempfile.TemporaryDirectory() as folder:
        features, answers = Path(folder) / "features.npz", Path(folder) / "answers.json"
        train_labels = np.array([labels.index(s.label) for s in samples if s.split == "train"])
        np.savez(features, labels=train_labels, **{key: np.stack(value) for key, value in arrays.items()})
        subprocess.run([python, str(HERE / "learned/surfaces_svm.py"), str(features), str(answers)], check=True)
        told = json.loads(answers.read_text())
    truth = [labels.index(sample.label) for sample in test]
    return {**told, "truth": truth, "samples": [i for i, s in enumerate(samples) if s.split == "test"]}


def _environment() -> str:
    """Return the interpreter of the environment that learned/surfaces.txt pins, made once."""
    from environments import made

    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hyperframes-learned/surfaces"
    return made(HERE / "learned/surfaces.txt", home, {})


# Summary --------------------------------------------------------------------------------------------------------------


def summary_of(result: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """Return means, spreads, differences with their intervals, and ablations, of the seeds that are whole."""
    import numpy as np

    from hyperframes.neural.train.scores import accuracy, macro_f1, paired_interval

    ours = recipe["ours"]
    found = {model: _whole(result["runs"], model) for model in [ours, *recipe["rivals"]]}
    found = {model: seeds for model, seeds in found.items() if seeds}
    if ours not in found:
        return {"models": {}, "differences": {}, "ablations": {}}
    truth = np.array(found[ours][0]["truth"])
    classes = int(truth.max()) + 1
    answers = {model: np.array([seed["answers"] for seed in seeds]) for model, seeds in found.items()}
    by_sample = recipe.get("unit") == "sample"
    units = [str(i) for i in range(len(truth))] if by_sample else found[ours][0]["units"]
    models: dict[str, Any] = {}
    for model, seeds in found.items():
        scores = [macro_f1(truth, one, classes) for one in answers[model]]
        models[model] = {
            "seeds": len(scores),
            "macro_f1": float(np.mean(scores)),
            "spread": float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0,
            "accuracy": float(np.mean([accuracy(truth, one) for one in answers[model]])),
            "parameters": seeds[0]["parameters"],
            "cpu_seconds": float(np.mean([seed["cpu_seconds"] for seed in seeds])),
        }
    if "surfaces" in result:
        answers["SVM on time surfaces"] = given = np.array([result["surfaces"]["answers"]])
        models["SVM on time surfaces"] = {
            "seeds": 1, "macro_f1": macro_f1(truth, given[0], classes), "accuracy": accuracy(truth, given[0])
        }  # fmt: skip
    differences = {}
    for model in models:
        if model != ours:
            low, high = paired_interval(truth, answers[ours], answers[model], classes, units)
            points = models[ours]["macro_f1"] - models[model]["macro_f1"]
            differences[f"{ours} over {model}"] = {"points": points, "interval": [low, high]}
    ablations = {}
    for part in recipe.get("ablations", {}):
        without = _whole(result["runs"], part, "ablation")
        seeds = {seed["seed"] for seed in without} & {seed["seed"] for seed in found[ours]}
        if not seeds:
            continue
        sides = [np.array([s["answers"] for s in side if s["seed"] in seeds]) for side in (found[ours], without)]
        scores = [np.array([macro_f1(truth, one, classes) for one in side]) for side in sides]
        low, high = paired_interval(truth, *sides, classes, units)
        ablations[part] = {
            "seeds": len(seeds), "macro_f1": float(scores[1].mean()), "points": float(scores[0].mean() - scores[1].mean()),
            "interval": [low, high], "cpu_seconds": float(np.mean([s["cpu_seconds"] for s in without])),
        }  # fmt: skip
    chosen = {model: best(recipe, result["runs"], model) for model in found}
    return {
        "models": models, "differences": differences, "ablations": ablations, "samples": len(truth), "rates": recipe.get("rates", []),
        "chosen": {model: list(one) for model, one in chosen.items() if one}, "rates_of": recipe.get("rates_of"),
        "variants": [name for name in recipe.get("variants", {}) if name], "search_seeds": len(recipe.get("search_seeds", [0])),
        "units": len(set(units)), "unit": "samples drawn one by one" if by_sample else "recordings",
    }  # fmt: skip


def _whole(runs: dict[str, Any], model: str, phase: str = "final") -> list[dict[str, Any]]:
    """Return a model's seeds, the folds of each put together; those of which a fold is missing are left out."""
    number = len({run["fold"] for run in runs.values() if run["phase"] == "final"})
    seeds: dict[int, list[dict[str, Any]]] = {}
    for run in runs.values():
        if run["model"] == model and run["phase"] == phase:
            seeds.setdefault(run["seed"], []).append(run)
    joined = []
    for seed in sorted(seeds):
        folds = sorted(seeds[seed], key=lambda run: run["fold"])
        if len(folds) == number:
            lists = {key: [x for fold in folds for x in fold[key]] for key in ("truth", "answers", "units", "samples")}
            joined.append({**folds[0], **lists, "cpu_seconds": sum(fold["cpu_seconds"] for fold in folds)})
    return joined


def summarise(name: str) -> None:
    """Add the summary to a set's results."""
    path = RESULTS / f"{name}.json"
    if path.exists():
        result = json.loads(path.read_text())
        result["summary"] = summary_of(result, recipe_of(name))
        save(path, result)


# Latency --------------------------------------------------------------------------------------------------------------


def latency(name: str, media: Path) -> None:
    """Add what one answer costs each model, one clip at a time, the models in turn: process CPU time on one thread.

    Every model is made to answer only, and has its input in the layout that suits it better.
    """
    import torch

    from hyperframes.neural import answering
    from hyperframes.neural.train.config import TrainingConfig
    from hyperframes.neural.train.models import make_classifier

    torch.set_num_threads(1)
    recipe, path = recipe_of(name), RESULTS / f"{name}.json"
    result = json.loads(path.read_text())
    data, models = recipe["data"], {}
    for model in [recipe["ours"], *recipe["rivals"]]:
        values = config_of(recipe, Planned("final", model, 0, None), (1e-3, ""), media, "unused")
        config = TrainingConfig.from_json(values)
        classes = len({sample.label for sample in all_samples(recipe, media)})
        models[model] = answering(make_classifier(config, classes))
    channels = {"pictures": 3, "rows": 1, "events": 2}[data.get("form", "pictures")]
    clip = torch.rand(1, channels, data.get("bins") or data["frames"], *data["size"])
    clips = (clip, clip.contiguous(memory_format=torch.channels_last_3d))
    times: dict[str, tuple[list[float], ...]] = {model: ([], []) for model in models}
    with torch.inference_mode():
        for _ in range(ROUNDS):
            for model, net in models.items():
                for laid, taken in zip(clips, times[model], strict=True):
                    began = time.process_time()
                    net(laid)
                    taken.append(1e3 * (time.process_time() - began))
    result["latency_ms"] = {model: min((taken[5:] for taken in found), key=median) for model, found in times.items()}
    save(path, result)


def main(arguments: list[str]) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(NAMES), metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after that long")
    parser.add_argument("--phase", choices=("all", "search", "final", "ablation"), default="all", help="run only these")
    parser.add_argument("--latency", action="store_true", help="measure latencies only")
    parser.add_argument("--summary", action="store_true", help="only add up what was run; the page shows that")
    given = parser.parse_args(arguments)
    if given.summary:
        for name in given.names:
            summarise(name)
        return 0
    if "HYPERFRAMES_TEST_MEDIA" not in os.environ:
        parser.error("HYPERFRAMES_TEST_MEDIA names the folder of real files")
    media = Path(os.environ["HYPERFRAMES_TEST_MEDIA"]).resolve()
    until = time.time() + 60 * given.minutes
    _keep_decoded()
    if given.latency:
        for name in given.names:
            latency(name, media)
            summarise(name)
        return 0
    for phases in (("search", "final"), ("ablation",)) if given.phase == "all" else ((given.phase,),):
        for name in given.names:
            go_on(name, media, until, phases=phases)
            summarise(name)
    return 0


def _keep_decoded() -> None:
    """Decode every sample once for all runs of this process: what is compared is learning."""
    from hyperframes.neural.data import clips

    clips.read_clip = functools.cache(clips.read_clip)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
