"""``hyperframes replay``: the hyperframes of a live run once more."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperframes.cli import _options, _show
from hyperframes.cli._told import Teller, check_results

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hyperframes.drivers.journal import Life
    from hyperframes.drivers.journal_reading import JournalReader
    from hyperframes.drivers.replay import Rebuilt

__all__ = ["replay"]


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The journal that 'live --journal FILE' wrote.")],
    record: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="What 'live --record DIR' wrote.", show_default="as the journal says"),
    ] = None,
    sequence: Annotated[
        str | None, typer.Option(metavar="A:B", help="Only the hyperframes A to B - 1.", show_default="all")
    ] = None,
    where: Annotated[
        str, typer.Option(metavar="CONDITION", help="Only these, as for 'journal'.", show_default="all")
    ] = "",
    speed: Annotated[
        float | None,
        typer.Option(
            metavar="X", min=0.001, help="1: as it was; 4: four times as fast.", show_default="as fast as can be"
        ),
    ] = None,
    operator: _options.Operators = None,
    model: _options.Model = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|URL|-",
            help="Run the operators on them and write the results there, as for 'live'; several times for several. "
            "Hyperframes hold the frames around them that the run's operators read: others may read no more.",
            show_default="nowhere",
            rich_help_panel=_options.OUTPUT,
        ),
    ] = None,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Make the hyperframes of a recorded live run again, bit for bit, and print what tells them apart.

    Example: hyperframes replay plant.journal --record recordings --sequence 100:120
    """
    stages = [*(operator or []), *_options.model_stages(model)]
    _check_usage(stages, to, as_json=as_json)
    from hyperframes.drivers.journal_reading import JournalReader
    from hyperframes.drivers.replay import paced, rebuild
    from hyperframes.media.recording import Recording

    start, stop = _range(sequence)
    with JournalReader(file) as reader:
        recording = Recording(record or _recording_of(reader))
        lives = reader.find(where).hyperframes
    lives = [life for life in lives if life.sequence >= start and (stop is None or life.sequence < stop)]
    rebuilt = paced(rebuild(lives, recording), speed)
    missing = _work_on(rebuilt, lives, stages, to) if to else _print(rebuilt, as_json=as_json)
    if not as_json:
        place = sys.stderr if "-" in (to or []) else sys.stdout
        print(f"{len(lives) - missing} of {len(lives)} hyperframes made again", file=place)
    if missing:
        raise _show.RunFailed(
            f"{missing} of {len(lives)} hyperframes could not be made again: frames of them are not in the recording",
            hint="What is older than the recording keeps is gone; --sequence A:B takes the newer ones.",
        )


def _check_usage(stages: list[str], to: list[str] | None, *, as_json: bool) -> None:
    from hyperframes.errors import PipelineError

    if stages and not to:
        raise PipelineError("operators make results: got no --to", hint="For example: --to again.jsonl")
    if to and as_json:
        raise PipelineError("--json prints what tells hyperframes apart, --to writes results", hint="Leave one out.")


def _work_on(rebuilt: Iterable[Rebuilt], lives: list[Life], stages: list[str], to: list[str]) -> int:
    """Run operators on hyperframes as a live run does, write the results, and return how many could not be made."""
    from hyperframes.drivers.live import LiveRuntime
    from hyperframes.drivers.live_outputs import LiveOutputs
    from hyperframes.packing import Packing

    missing = 0

    def counted() -> Iterator[Rebuilt]:
        nonlocal missing
        for one in rebuilt:
            if outputs.reader_left:
                return
            missing += one.hyperframe is None
            yield one

    kind: Any = next((life.kind for life in lives if life.kind != "temporal"), "temporal")
    streams = sorted({stream for life in lives for stream in life.streams})
    teller = Teller(quiet=True)
    outputs = LiveOutputs(to, streams, functools.partial(_show.tell, "warning"))
    try:
        runtime = LiveRuntime(
            packing=Packing(kind=kind),
            operator=stages or None,
            on_result=outputs,
            resume=counted(),
            instruments=(teller,),
        )
        outputs.watch(runtime.outputs)
        with runtime:
            pass
    except BaseException:
        outputs.abort()
        raise
    outputs.finish()
    for warning in runtime.warnings:
        _show.tell("warning", warning)
    check_results(runtime.stats(), outputs.failures, teller.first_error)
    if outputs.reader_left:
        raise BrokenPipeError
    return missing


def _range(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 0, None
    from hyperframes.errors import PipelineError

    start, colon, stop = text.partition(":")
    if not colon or not (start + stop) or not all(part.isdecimal() for part in (start, stop) if part):
        raise PipelineError(
            f"--sequence takes A:B, whole numbers of which one may be left out: got {text!r}",
            got=text,
            hint="For example: --sequence 100:120",
        )
    return int(start or 0), int(stop) if stop else None


def _recording_of(reader: JournalReader) -> Path:
    from hyperframes.errors import PipelineError

    for run in reversed(reader.runs()):
        if run.facts.get("record"):
            return Path(run.facts["record"])
    raise PipelineError(
        f"the journal {reader.path} does not say where its frames were recorded",
        hint="Name the folder: --record DIR. Without 'live --record' frames are not kept.",
    )


def _print(rebuilt: Iterable[Rebuilt], *, as_json: bool) -> int:
    """Print one line each, and return how many could not be made."""
    from hyperframes.drivers.replay import digest

    missing = 0
    for one in rebuilt:
        missing += one.hyperframe is None
        told: dict[str, Any] = {
            "hyperframe": one.life.sequence,
            "id": one.life.id,
            "streams": one.life.streams,
            "frames": one.life.frames,
            "sha256": None if one.hyperframe is None else digest(one.hyperframe),
            "missing": [list(frame) for frame in one.missing],
        }
        if as_json:
            print(json.dumps(told))
        else:
            found = told["sha256"] or "missing " + ", ".join(
                f"{stream} #{number}" for stream, number in one.missing[:5]
            )
            print(f"{told['hyperframe']:8}  {told['id']}  {told['frames']} frames  {found}")
    return missing
