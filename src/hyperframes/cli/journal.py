"""``hyperframes journal``: what happened to every hyperframe of a run."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections import Counter
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperframes.cli import _options, _show
from hyperframes.errors import PipelineError

if TYPE_CHECKING:
    from hyperframes.drivers.journal import Life
    from hyperframes.drivers.journal_reading import JournalReader, Loss, Merged, RunEntry

__all__ = ["journal"]


def journal(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|FOLDER...",
            help="What 'live --journal' wrote, or is writing; several, or a folder of them, are shown as one.",
        ),
    ],
    where: Annotated[
        str,
        typer.Option(
            metavar="CONDITION",
            help="Such as 'stream = cam3 and time between 12:00 and 12:01 and outcome = dropped'.",
            show_default="all",
        ),
    ] = "",
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="Show the newest N of each; 0: all.")] = 1000,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Tell what happened to every hyperframe: delivered, dropped and why, or still open.

    Example: hyperframes journal plant.journal --where 'stream = cam3 and outcome = dropped'
    """
    from hyperframes.drivers.journal_reading import JournalReader, merged

    with contextlib.ExitStack() as stack:
        readers = {path: stack.enter_context(JournalReader(path)) for path in _paths(files)}
        found = {name: reader.find(where, limit=limit or None) for name, reader in _named(readers).items()}
        runs = [(name, run) for name, reader in _named(readers).items() for run in reader.runs()]
        one = merged(found, limit=limit or None)
        print(json.dumps(_as_json(runs, one), indent=2)) if as_json else _print(runs, one, where)


def _paths(given: list[Path]) -> list[Path]:
    """Return the journals: files as they are, folders by what they hold."""
    found: list[Path] = []
    for path in given:
        held = sorted(path.glob("*.journal")) if path.is_dir() else [path]
        if not held:
            raise PipelineError(
                f"there is no journal in {path}: expected *.journal", hint="Name what 'live --journal' was given."
            )
        found += [one for one in held if one not in found]
    return found


def _named(readers: dict[Path, JournalReader]) -> dict[str, JournalReader]:
    """Return readers by the shortest names that tell them apart; one needs none."""
    if len(readers) == 1:
        return {"": next(iter(readers.values()))}
    stems = Counter(path.stem for path in readers)
    return {path.stem if stems[path.stem] == 1 else str(path): reader for path, reader in readers.items()}


def _as_json(runs: list[tuple[str, RunEntry]], found: Merged) -> dict[str, Any]:
    from dataclasses import asdict

    from hyperframes.drivers.journal_reading import life_to_json

    def told(name: str, values: dict[str, Any]) -> dict[str, Any]:
        return {"journal": name, **values} if name else values

    return {
        "runs": [told(name, asdict(run)) for name, run in runs],
        "hyperframes": [told(name, life_to_json(life)) for name, life in found.hyperframes],
        "frames_dropped": [told(name, loss.to_json()) for name, loss in found.losses],
        "total_hyperframes": found.num_hyperframes,
        "total_frames_dropped": found.num_losses,
        "frames": {f"{outcome}:{reason}" if reason else outcome: n for (outcome, reason), n in found.outcomes.items()},
    }


def _print(runs: list[tuple[str, RunEntry]], found: Merged, where: str) -> None:
    from rich.table import Table
    from rich.text import Text

    several = any(name for name, _ in runs)
    entries = [(*_life_row(life), name) for name, life in found.hyperframes]
    entries += [(*_loss_row(loss), name) for name, loss in found.losses]
    if entries:
        table = Table(box=None, pad_edge=False)
        heads = (
            "time",
            "sequence",
            "stream",
            "frame",
            "seal_reason",
            "outcome",
            "reason",
            "latency",
        )  # as --where calls them
        for head in (*heads, *(("journal",) if several else ())):
            table.add_column(head, justify="right" if head in {"sequence", "latency"} else "left")
        for _, row, name in sorted(entries, key=lambda entry: entry[0]):
            table.add_row(*map(Text, (*row, name) if several else row))
        _show.console().print(table)
    print(
        _summary(found) if entries else f"nothing meets the condition: {where}" if where else "nothing is written yet"
    )
    missing = sum(run.unwritten for _, run in runs)
    if missing:
        _show.tell(
            "warning", f"{missing} observations are missing from this journal: it could not be written for a while"
        )


def _life_row(life: Life) -> tuple[int, tuple[str, ...]]:
    at = life.first_ns or life.sealed_ns or 0
    ended = life.ended_ns is not None and life.sealed_ns is not None
    latency = f"{(life.ended_ns - life.sealed_ns) / 1e6:.1f} ms" if ended else ""  # type: ignore[operator]  # both are there
    streams = life.streams
    named = streams[0] if len(streams) == 1 else f"{streams[0]} and {len(streams) - 1} more"
    ids = _ids(json.loads(life.frame_ids)) if life.frame_ids else f"{life.start}-{life.stop - 1}"
    why = life.reason + (f": {life.error}" if life.error else "")
    return at, (_clock(at), str(life.sequence), named, ids, life.seal_reason, life.outcome or "open", why, latency)


def _loss_row(loss: Loss) -> tuple[int, tuple[str, ...]]:
    at = loss.first_ns or loss.ended_ns
    return at, (_clock(at), "", loss.stream, _ids(json.loads(loss.frame_ids)), "", "dropped", loss.reason, "")


def _ids(ids: Any) -> str:
    """Return the least and the greatest id, and how many there are where that does not follow."""
    flat = [number for row in ids for number in row] if ids and isinstance(ids[0], list) else ids
    real = [number for number in flat if number >= 0]
    if not real:
        return f"{len(flat)} without id"
    span = f"{min(real)}-{max(real)}" if len(real) > 1 else str(real[0])
    return span if max(real) - min(real) + 1 == len(real) else f"{span} ({len(real)})"


def _clock(ns: int) -> str:
    when = datetime.datetime.fromtimestamp(ns // 1_000_000_000).astimezone()
    return f"{when:%Y-%m-%d %H:%M:%S}.{ns // 1_000_000 % 1000:03d}"


def _summary(found: Merged) -> str:
    from hyperframes.drivers.quantity import count_text

    parts = [
        f"{frames} {outcome}{f' ({reason})' if reason else ''}"
        for (outcome, reason), frames in sorted(found.outcomes.items(), key=lambda item: -item[1])
    ]
    shown = len(found.hyperframes) + len(found.losses)
    total = found.num_hyperframes + found.num_losses
    cut = f"; the newest {shown} of {total} rows are shown" if shown < total else ""
    return f"{count_text(found.num_hyperframes, 'hyperframe')}; frames: {', '.join(parts)}{cut}"
