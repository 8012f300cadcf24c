"""``hyperframes doctor``: what this machine offers, and what might get in the way."""

from __future__ import annotations

import json
from typing import Any

from hyperframes.cli import _options, _show

__all__ = ["doctor"]


def doctor(as_json: _options.Json = False, debug: _options.Debug = False) -> None:
    """Look at this machine: versions, processors, memory, limits, codecs, extras and caches.

    Example: hyperframes doctor --json
    """
    from hyperframes.drivers.doctor import examine

    diagnosis = examine()
    models = _models()
    if as_json:
        print(json.dumps({**diagnosis.to_json(), "models": models}, indent=2))
    else:
        _print(diagnosis, models)


def _models() -> dict[str, str | None]:
    """Return the model files that describing and searching take by themselves, and where each lies."""
    from hyperframes.semantic import models

    names = (models.DETECTOR, models.CLASSIFIER, models.CLASS_NAMES, models.TEXT_MODEL, models.TEXT_TOKENIZER)
    places = {name: models.find_model(name) for name in names}
    return {name: None if place is None else str(place) for name, place in places.items()}


def _print(diagnosis: Any, models: dict[str, str | None]) -> None:
    from rich.table import Table
    from rich.text import Text

    from hyperframes.drivers.doctor import summary

    console = _show.console()
    table = Table(box=None, pad_edge=False, padding=(0, 2), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in (*_lines(diagnosis.facts), ("model files", _models_text(models))):
        table.add_row(Text(name, "bold"), Text(value))
    console.print(table)
    console.print()
    console.print(Text(summary(diagnosis), "yellow" if diagnosis.problems else "green"))
    for found in diagnosis.problems:
        console.print(Text(f"  - {found['problem']}"), soft_wrap=True)
        console.print(Text(f"    {found['hint']}"), soft_wrap=True)


def _lines(facts: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what to show, one line a subject."""
    from hyperframes.drivers.quantity import bytes_text, count_text

    versions, cpus, memory = facts["versions"], facts["processors"], facts["memory"]
    libraries = ("numpy", "numba", "av", "opencv", "typer", "rich", "pydantic", "psutil", "prometheus-client")
    lines = [
        ("hyperframes", f"{versions['hyperframes']} in {versions['location']}"),
        ("python", f"{versions['python']} on {versions['system']}"),
        ("libraries", ", ".join(f"{name} {versions[name] or 'missing'}" for name in libraries)),
        ("ffmpeg", ", ".join(f"{name} {version}" for name, version in versions["ffmpeg"].items())),
        ("processors", _processors_text(cpus)),
        *_node_lines(cpus),
        ("memory", f"{bytes_text(memory['total_bytes'])}, {bytes_text(memory['usable_bytes'])} usable{_limit(memory)}"),
    ]
    files, threads = facts["limits"]["open_files"], facts["limits"]["threads"]
    lines.append(("open files", "unlimited" if files is None else f"up to {files:,}"))
    bound = "unlimited" if threads["limit"] is None else f"{threads['used']:,} of {threads['limit']:,} used"
    lines.append(("threads", bound))
    for kind in ("encoders", "decoders"):
        codecs = facts["codecs"][kind]
        missing = [name for name, there in codecs.items() if not there]
        told = ", ".join(name for name, there in codecs.items() if there)
        lines.append((kind, told + (f"; missing: {', '.join(missing)}" if missing else "")))
    for name, extra in facts["extras"].items():
        lines.append((f"extra {name}", "present" if extra["present"] else f"missing: {extra['install']}"))
    caches = facts["caches"]
    free = caches["temporary_free_bytes"]
    lines.append(("compiled kernels", caches["numba"] or "cannot be kept"))
    tuning = caches["tuning"]
    lines.append(("saved tuning", f"{tuning['folder']}, {count_text(tuning['profiles'], 'profile')}"))
    lines.append(("temporary files", caches["temporary"] + ("" if free is None else f", {bytes_text(free)} free")))
    return lines


def _processors_text(cpus: dict[str, Any]) -> str:
    quota = "" if cpus["quota"] is None else f", quota {cpus['quota']:g}"
    return (
        f"{cpus['name']}: {cpus['physical']} cores, {cpus['logical']} threads, {cpus['allowed']} cores allowed{quota}; "
        f"{cpus['workers']} workers by default"
    )


def _node_lines(cpus: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what there is to say about memory nodes, with the commands that keep a run to one of several."""
    nodes = cpus["nodes"]
    if nodes["count"] == 1:
        return [("memory nodes", f"1, so nothing to bind; CPUs allowed: {cpus['affinity']}")]
    told = "; ".join(f"node {node}: CPUs {listed}" for node, listed in nodes["cpus"].items())
    lines = [("memory nodes", f"{nodes['count']}; {told}; CPUs allowed: {cpus['affinity']}")]
    return lines + [("  keep a run to one", command) for command in nodes["bind"]]


def _models_text(models: dict[str, str | None]) -> str:
    missing = [name for name, place in models.items() if place is None]
    found = ", ".join(name for name in models if name not in missing)
    if not missing:
        return found
    left = "none" if not found else f"{found}; not {', '.join(missing)}"
    return f"{left}: objects and 'search --text' need them in a folder that HYPERFRAMES_MODELS names"


def _limit(memory: dict[str, Any]) -> str:
    from hyperframes.drivers.quantity import bytes_text

    return "" if memory["limit_bytes"] is None else f", limited to {bytes_text(memory['limit_bytes'])}"
