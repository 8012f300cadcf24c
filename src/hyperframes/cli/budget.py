"""``hyperframes budget``: which size, timeout and queue keep a latency, or which latency a size has."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import typer

from hyperframes.cli import _options, _show
from hyperframes.errors import PipelineError

__all__ = ["budget"]

LOAD, WANTED = "What arrives, and what it costs", "What is wanted"


def budget(
    fps: Annotated[float, typer.Option(metavar="N", help="Frames a second of each source.", rich_help_panel=LOAD)],
    sources: Annotated[int, typer.Option(metavar="N", help="How many sources.", rich_help_panel=LOAD)] = 1,
    infer: Annotated[
        str,
        typer.Option(
            metavar="BASE+PER_FRAME",
            help="What the operator takes: a time per hyperframe and one per frame, such as 20ms+5ms.",
            rich_help_panel=LOAD,
        ),
    ] = "0",
    prepare: Annotated[
        str, typer.Option(metavar="TIME", help="Preparation of one frame alone.", rich_help_panel=LOAD)
    ] = "0",
    prepare_discount: Annotated[
        float,
        typer.Option(metavar="SHARE", help="What is left of it when frames share it.", rich_help_panel=LOAD),
    ] = 0.8,
    unpack: Annotated[str, typer.Option(metavar="TIME", help="Unpacking a hyperframe.", rich_help_panel=LOAD)] = "0",
    transport: Annotated[
        str, typer.Option(metavar="TIME", help="From sensor to here, and on to whoever waits.", rich_help_panel=LOAD)
    ] = "0",
    workers: Annotated[int, typer.Option(metavar="N", help="Hyperframes worked on at once.", rich_help_panel=LOAD)] = 1,
    halo: Annotated[
        str,
        typer.Option(metavar="BEFORE,AFTER", help="Frames the operator reads around the core.", rich_help_panel=LOAD),
    ] = "0,0",
    latency: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Allowed from a frame to its result.", rich_help_panel=WANTED),
    ] = None,
    size: Annotated[
        int | None, typer.Option(metavar="N", help="Say what this size costs instead.", rich_help_panel=WANTED)
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Seal short after this.", rich_help_panel=WANTED)
    ] = None,
    queue: Annotated[
        int | None, typer.Option(metavar="N", help="Hyperframes that may wait.", rich_help_panel=WANTED)
    ] = None,
    queue_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long they may wait, instead of --queue.", rich_help_panel=WANTED),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="latency-first|balanced|throughput-first",
            help="Size and timeout as usual for that.",
            rich_help_panel=WANTED,
        ),
    ] = None,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Find size, timeout, queue depth and time to live that keep a latency; or the latency of a size, stage by stage.

    That nothing keeps it is an answer, not a failure: it is told with the reasons, and the exit code is 0.

    Example: hyperframes budget --fps 30 --sources 4 --latency 500ms --infer 20ms+5ms
    """
    from hyperframes.scheduling.budget import LiveLoad, budget_for_latency

    base, per_frame = _infer(infer)
    before, after = _halo(halo)
    load = LiveLoad(
        fps=fps,
        sources=sources,
        infer_base=base,
        infer_per_frame=per_frame,
        prepare=_options.duration("prepare", prepare),
        prepare_discount=prepare_discount,
        unpack=_options.duration("unpack", unpack),
        transport=_options.duration("transport", transport),
        workers=workers,
        halo_before=before,
        halo_after=after,
    )
    allowed = None if latency is None else _options.duration("latency", latency)
    chosen = _chosen(size, timeout, queue, queue_time, preset)
    if chosen is None:
        if allowed is None:
            raise PipelineError(
                "budget needs a --latency to keep, or a --size or --preset to judge: got none of them",
                hint="For example: hyperframes budget --fps 30 --latency 500ms --infer 20ms+5ms",
            )
        answer = budget_for_latency(load, allowed)
    else:
        answer = _judge(load, allowed, chosen)
    print(json.dumps(_told(answer), indent=2)) if as_json else _print(answer, load, allowed)


def _infer(text: str) -> tuple[float, float]:
    base, _, per_frame = text.partition("+")
    return _options.duration("infer", base), _options.duration("infer", per_frame or "0")


def _halo(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) > 2 or not all(part.strip().isdigit() for part in parts):
        raise PipelineError(
            f"--halo: expected BEFORE,AFTER in frames, got {text!r}", got=text, hint="For example: --halo 2,2"
        )
    return int(parts[0]), int(parts[-1])


def _chosen(
    size: int | None, timeout: str | None, queue: int | None, queue_time: str | None, preset: str | None
) -> dict[str, Any] | None:
    """Return the settings to judge; None where they are to be found."""
    from hyperframes.scheduling.budget import PRESETS

    if preset is not None:
        if preset not in PRESETS:
            known = ", ".join(PRESETS)
            raise PipelineError(f"no preset named {preset!r}: expected one of {known}", expected=known, got=preset)
        preset_size, preset_timeout = PRESETS[preset]
        size = preset_size if size is None else size
        timeout = f"{preset_timeout}s" if timeout is None else timeout
    given = {"--timeout": timeout, "--queue": queue, "--queue-time": queue_time}
    if size is None:
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise PipelineError(f"{extra[0]} belongs to a --size: got none", hint="Leave it out, or add --size N.")
        return None
    if queue is not None and queue_time is not None:
        raise PipelineError("--queue and --queue-time say the same in two ways: expected one of them, got both")
    return {
        "size": size,
        "timeout": None if timeout is None else _options.duration("timeout", timeout),
        "queue": queue,
        "queue_time": None if queue_time is None else _options.duration("queue-time", queue_time),
    }


def _judge(load: Any, allowed: float | None, chosen: dict[str, Any]) -> Any:
    from hyperframes.scheduling.budget import budget_for_size, queue_depth_for

    depth = chosen["queue"]
    if chosen["queue_time"] is not None:
        depth = queue_depth_for(load.total_fps, chosen["queue_time"], chosen["size"])
    return budget_for_size(load, chosen["size"], latency=allowed, timeout=chosen["timeout"], queue_depth=depth)


def _told(answer: Any) -> dict[str, Any]:
    """Return the keys of ``budget --json``; a capacity without bound is null."""
    stages, capacity = answer.latency, answer.frames_per_second_capacity
    return {
        "feasible": answer.feasible,
        "reasons": list(answer.reasons),
        "size": answer.size,
        "timeout_seconds": answer.timeout_seconds,
        "queue_depth": answer.queue_depth,
        "ttl_seconds": answer.ttl_seconds,
        "latency_seconds": {
            "pack": stages.pack,
            "queue": stages.queue,
            "prepare": stages.prepare,
            "infer": stages.infer,
            "unpack": stages.unpack,
            "total": stages.total,
        },
        "frames_per_second_capacity": None if math.isinf(capacity) else capacity,
        "warnings": list(answer.warnings),
    }


def _print(answer: Any, load: Any, allowed: float | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from hyperframes.drivers.quantity import count_text, rate_text, seconds_text

    console = _show.console()
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for heading in ("stage", "at worst", "because"):
        table.add_column(heading, justify="right" if heading == "at worst" else "left")
    for name, seconds, why in _stages(answer, load):
        table.add_row(name, seconds_text(seconds), why)
    table.add_row(
        Text("total", "bold"),
        Text(seconds_text(answer.latency.total), "bold"),
        "" if allowed is None else f"{seconds_text(allowed)} are allowed",
    )
    console.print(table)
    capacity = answer.frames_per_second_capacity
    can = "any rate" if math.isinf(capacity) else rate_text(capacity)
    console.print()
    console.print(
        f"size {answer.size}, timeout {seconds_text(answer.timeout_seconds)}, queue of "
        f"{count_text(answer.queue_depth, 'hyperframe')}, time to live {seconds_text(answer.ttl_seconds)}",
        soft_wrap=True,
    )
    console.print(f"{rate_text(load.total_fps)} arrive, {can} can be done", soft_wrap=True)
    if answer.feasible:
        console.print(Text("this works" if allowed is None else "the latency is kept", "green"))
    else:
        console.print(Text("this does not work:", "red"))
    for reason in answer.reasons:
        console.print(Text(f"  - {reason}"), soft_wrap=True)
    for warning in answer.warnings:
        console.print(Text(f"  - {warning}", "yellow"), soft_wrap=True)


def _stages(answer: Any, load: Any) -> list[tuple[str, float, str]]:
    from hyperframes.drivers.quantity import count_text

    size, stages = answer.size, answer.latency
    frames = count_text(size, "frame")
    around = load.halo_before + load.halo_after
    ahead = f" + {load.halo_after} of halo" if load.halo_after else ""
    fill = f"({size} - 1{ahead}) frames at {load.fps:g} frames/s"
    cut = ", cut by the timeout" if stages.pack < load.wait_first(size) * (1 - 1e-9) else ""
    halo = f" and {around} of halo" if around else ""
    busy = "all sources at once" if stages.queue <= load.burst_seconds(size) else f"{answer.queue_depth} before it"
    rows = [
        ("pack", stages.pack, fill + cut),
        ("queue", stages.queue, busy),
        ("prepare", stages.prepare, f"{frames}, {load.prepare_discount:g} of the time alone" if stages.prepare else ""),
        ("infer", stages.infer, f"{frames}{halo}"),
        ("unpack", stages.unpack, ""),
    ]
    return [*rows, ("transport", stages.transport, "")] if stages.transport else rows
