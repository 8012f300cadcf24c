"""What learned hyperframes came to, as tables: only what was run is told."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["section"]

HEAD = """## Learned hyperframes

Classifiers of equal size, trained as long on the same windows. All models of a set were searched alike, on recordings kept aside from
the training side: the note below a table says among which learning rates or ways to train. The best was trained anew on the whole
side and tested. Recipes (`benchmarks/learned/*.toml`) stood before they were tested, with one exception: digits. There a first search
and test gave 87.2; then a fault was found, empty rows and columns in grids that have more places than the sensor pixels, the encoder's
input was changed, a grid of 64 places was searched beside that of 48 on recordings kept aside, and it was tested again. A round before
had one rate, 0.002, for all models: macro-F1 of mch, resnet3d and average was then 38.6, 26.4 and 34.1 on persons and 56.4, 51.4 and
46.1 on falls, that of edh on digits 84.4; so far does a search move them. Macro-F1 is mean and standard deviation over seeds.
Intervals are those of a paired bootstrap that draws whole recordings (where the recipe says so, single samples); a difference counts
where its interval leaves out 0 and at least {fewest} recordings were drawn from: of fewer, an interval says little. CPU is the processor
time of a training, one thread, on a busy machine; an answer's is the median of one clip at a time, the models in turn.
"""

FEWEST_UNITS = 6
"""Recordings from which on an interval is believed."""


def section(results: Sequence[dict[str, Any]]) -> str:
    """Return the part of the page about learned hyperframes; empty where nothing was run."""
    told = [one for one in results if one.get("summary", {}).get("models")]
    if not told:
        return ""
    return "\n".join([HEAD.format(fewest=FEWEST_UNITS), *(_set(one) for one in told)])


def _set(result: dict[str, Any]) -> str:
    summary = result["summary"]
    lines = [
        f"### {result['title']}\n",
        "| model | parameters | seeds | macro-F1 | accuracy | training, CPU | one answer, CPU |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_model(name, one, result.get("latency_ms", {}).get(name)) for name, one in summary["models"].items()),
    ]
    if summary["differences"]:
        lines += ["", "| difference in macro-F1 | points | 95 % interval | counts |", "| --- | --- | --- | --- |"]
        lines += [_difference(*item, summary["units"]) for item in summary["differences"].items()]
    if summary["ablations"]:
        lines += [
            "",
            "| one part changed | seeds | macro-F1 | the whole is better by, points | 95 % interval | counts | training, CPU |",
        ]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [_ablation(*item, summary["units"]) for item in summary["ablations"].items()]
    chosen = _chosen(summary)
    note = f"{chosen}; {summary['samples']} test samples of {summary['units']} {summary['unit']}; commit {result['versions']['commit']}."
    return "\n".join([*lines, "", note[:1].upper() + note[1:], ""])


def _model(name: str, one: dict[str, Any], latency: list[float] | None) -> str:
    spread = f" +- {100 * one['spread']:.1f}" if one["seeds"] > 1 else ""
    parameters = f"{one['parameters']:,}" if one.get("parameters") else ""
    cpu = f"{one['cpu_seconds']:.0f} s" if one.get("cpu_seconds") else ""
    answer = f"{median(latency):.1f} ms" if latency else ""
    return (
        f"| {name} | {parameters} | {one['seeds']} | {100 * one['macro_f1']:.1f}{spread} | {100 * one['accuracy']:.1f} "
        f"| {cpu} | {answer} |"
    )


def _counts(one: dict[str, Any], units: int) -> str:
    low, high = one["interval"]
    if low <= 0 <= high:
        return "no"
    return "yes" if units >= FEWEST_UNITS else "no: too few recordings"


def _difference(name: str, one: dict[str, Any], units: int) -> str:
    low, high = one["interval"]
    counts = _counts(one, units)
    return f"| {name} | {100 * one['points']:+.1f} | {100 * low:+.1f} to {100 * high:+.1f} | {counts} |"


def _ablation(name: str, one: dict[str, Any], units: int) -> str:
    low, high = one["interval"]
    counts = _counts(one, units)
    return (
        f"| {name} | {one['seeds']} | {100 * one['macro_f1']:.1f} | {100 * one['points']:+.1f} "
        f"| {100 * low:+.1f} to {100 * high:+.1f} | {counts} | {one['cpu_seconds']:.0f} s |"
    )


def _chosen(summary: dict[str, Any]) -> str:
    """Say what was searched and what it came to."""
    told = ", ".join(
        f"{model} {rate:g}" + (f" ({variant})" if variant else "")
        for model, (rate, variant) in summary["chosen"].items()
    )
    if summary["rates_of"]:
        return f"learning rates as searched on {summary['rates_of']}: {told}"
    rates = summary["rates"]
    if len(rates) == 1 and not summary["variants"]:
        return f"one learning rate, {rates[0]:g}, for all"
    tried = f"learning rates searched among {', '.join(f'{rate:g}' for rate in rates)}"
    if summary["variants"]:
        tried = f"learning rate {', '.join(f'{rate:g}' for rate in rates)}; searched as it is and {', '.join(summary['variants'])}:"
    splits = summary["search_seeds"]
    return f"{tried} with {splits} split{'s' if splits > 1 else ''}, best: {told}"
