"""Options that several commands share, and the values behind them: sizes, bytes, ranges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hyperframes.cli import _show
from hyperframes.errors import PipelineError

__all__ = [
    "CacheTtl",
    "Config",
    "Debug",
    "Flow",
    "Json",
    "MetricsPort",
    "Model",
    "Operators",
    "Quiet",
    "SemanticCache",
    "TwoPass",
    "byte_size",
    "duration",
    "frame_range",
    "model_stages",
    "number",
    "number_or_auto",
    "numbers",
    "options_given",
]

PACKING, FRAMES, OUTPUT = "How it runs", "What the operators see", "What is written and told"

Debug = Annotated[
    bool, typer.Option("--debug", callback=_show.set_debug, help="Show tracebacks.", rich_help_panel=OUTPUT)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else on stdout.", rich_help_panel=OUTPUT)]
MetricsPort = Annotated[
    str | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        help="Serve /metrics (Prometheus), /stats and /healthz to this machine meanwhile; 0 takes a free port.",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT)]
Operators = Annotated[
    list[str] | None,
    typer.Option(
        "--operator",
        "-p",
        metavar="NAME[:k=v,...]",
        help="An operator with its parameters, such as gaussian:sigma=2; -p is short for it. Given several times they "
        "form a chain, in that order. 'hyperframes operators' lists them.",
    ),
]
Flow = Annotated[
    str | None,
    typer.Option(metavar="FILE.onnx", help="A model of dense flow, RAFT for example, in place of OpenCV's."),
]
TwoPass = Annotated[
    bool,
    typer.Option("--two-pass", help="Take noise and levels from the whole file, not from the 60 s before a frame."),
]
Refiner = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Weights of a trained refiner of anchors, as hyperframes.neural writes them."),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.onnx[:k=v,...]",
        help="Run this model file on the frames, last in the chain; parameters are those of the operator 'onnx', such as "
        "scale=1,mean=127,std=128,outputs=logits.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE.toml", help="A pipeline in TOML: several inputs, stages, outputs."),
]
Size = Annotated[
    str | None,
    typer.Option(metavar="N|auto", help="Frames that a hyperframe owns.", show_default="auto", rich_help_panel=PACKING),
]
Workers = Annotated[
    str | None,
    typer.Option(metavar="N|auto", help="How many work at once.", show_default="auto", rich_help_panel=PACKING),
]
Executor = Annotated[
    str | None,
    typer.Option(
        metavar="threads|processes|ray",
        help="Where the work runs: processes for operators that hold Python's lock, ray for several machines.",
        show_default="threads",
        rich_help_panel=PACKING,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Of a Ray cluster, such as 10.0.0.5:6379 or auto; for --executor ray.",
        show_default="started on this machine",
        rich_help_panel=PACKING,
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="For frames, such as 512MB or 2GiB; libraries and codecs come on top.",
        show_default="half of what is free",
        rich_help_panel=PACKING,
    ),
]
Boundary = Annotated[
    str | None,
    typer.Option(
        metavar="replicate|reflect|constant[:VALUE]|none",
        help="What stands beyond the ends of the stream.",
        show_default="replicate",
        rich_help_panel=FRAMES,
    ),
]
PixelFormat = Annotated[
    str | None,
    typer.Option(
        metavar="native|rgb24|gray|...",
        help="Format that operators are given.",
        show_default="native",
        rich_help_panel=FRAMES,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Sample type that operators are given, such as float32.",
        show_default="as it comes",
        rich_help_panel=FRAMES,
    ),
]
Layout = Annotated[
    str | None,
    typer.Option(
        metavar="NHWC|NCHW", help="Order of the axes.", show_default="as operators want it", rich_help_panel=FRAMES
    ),
]
SemanticCache = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="URL|DIR",
        help="Look for results of the same content there first, and keep them: a folder or redis://HOST:PORT.",
    ),
]
CacheTtl = Annotated[
    float, typer.Option(metavar="SECONDS", min=1, help="How long results are kept in the cache.", show_default="3600")
]
FrameRange = Annotated[
    str | None,
    typer.Option(
        "--range",
        metavar="START:STOP",
        help="Frames to work on, such as 100:200, 100: or :200; halo is read beyond them.",
        show_default="all",
        rich_help_panel=FRAMES,
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="FPS",
        help="Frames a second of images and arrays, such as 25 or 30000/1001.",
        show_default="25",
        rich_help_panel=FRAMES,
    ),
]
OnSizeChange = Annotated[
    str | None,
    typer.Option(
        metavar="scale|split|fail",
        help="When pictures change size in mid-stream.",
        show_default="scale",
        rich_help_panel=FRAMES,
    ),
]

_BYTES = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>([kmgt]i?)?b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def number_or_auto(option: str, text: str) -> int | Literal["auto"]:
    """Return ``auto`` or the number that `text` is; whether it is large enough is for `Options` to say.

    Examples
    --------
    >>> number_or_auto("size", "16")
    16
    """
    if text == "auto":
        return "auto"
    if re.fullmatch(r"[+-]?\d{1,9}", text.strip()) is None:
        raise PipelineError(
            f"--{option}: expected a number of at most nine digits or 'auto', got {_cut(text)}",
            got=text,
            hint=f"For example: --{option} 16",
        )
    return int(text)


def _cut(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."


def number(option: str, text: str) -> float:
    """Return the number that `text` is."""
    try:
        return float(text)
    except ValueError as error:
        raise PipelineError(
            f"--{option}: expected a number, got {text!r}", got=text, hint=f"For example: --{option} 20"
        ) from error


def duration(option: str, text: str) -> float:
    """Return seconds from text such as ``200ms`` or ``1.5s``; only 0 needs no unit.

    Examples
    --------
    >>> duration("latency", "200ms"), duration("timeout", "1.5s"), duration("unpack", "0")
    (0.2, 1.5, 0.0)
    """
    from hyperframes.drivers.quantity import seconds_of

    try:
        return 0.0 if text.strip() == "0" else seconds_of(text)
    except ValueError as error:
        raise PipelineError(
            f"--{option}: expected {error}, got {text!r}", got=text, hint=f"For example: --{option} 200ms"
        ) from None


def numbers(option: str, text: str) -> list[int]:
    """Return the numbers in ``8,16,32``; ``8:256:8`` is from 8 to 256 in steps of 8.

    Examples
    --------
    >>> numbers("sizes", "8,16,32:64:16")
    [8, 16, 32, 48, 64]
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?::(\d+):(\d+))?", part.strip())
        start, stop, step = (int(value) if value else None for value in match.groups()) if match else (None,) * 3
        if not start or step == 0:
            raise PipelineError(
                f"--{option}: expected numbers of at least 1, as 8,16,32 or 8:256:8, got {text!r}",
                got=text,
                hint=f"For example: --{option} 1,2,4",
            )
        found += range(start, (stop or start) + 1, step or 1)
    return found


def byte_size(option: str, text: str) -> int:
    """Return bytes from text such as ``512MB`` (1000 each step) or ``2GiB`` (1024).

    Examples
    --------
    >>> byte_size("max-memory", "512MB"), byte_size("max-memory", "2GiB")
    (512000000, 2147483648)
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None or float(match["number"]) == 0:
        raise PipelineError(
            f"--{option}: expected a size such as 512MB or 2GiB, got {text!r}",
            got=text,
            hint=f"For example: --{option} 2GiB",
        )
    unit = match["unit"].lower().rstrip("b")
    step = 1024 if unit.endswith("i") else 1000
    return int(float(match["number"]) * step ** _POWERS[unit.rstrip("i")])


def frame_range(text: str) -> tuple[int, int | None]:
    """Return (start, stop) from ``START:STOP``; either may be left out.

    Examples
    --------
    >>> frame_range("100:200"), frame_range(":50"), frame_range("7:")
    ((100, 200), (0, 50), (7, None))
    """
    match = re.fullmatch(r"(\d{0,15}):(\d{0,15})", text.strip())
    if match is None:
        raise PipelineError(
            f"--range: expected START:STOP in frames, got {text!r}", got=text, hint="For example: --range 100:200"
        )
    return int(match[1] or 0), int(match[2]) if match[2] else None


def options_given(**texts: Any) -> dict[str, Any]:
    """Return the fields of `Options` that were given on the command line, parsed."""
    parse: dict[str, Any] = {
        "size": lambda text: number_or_auto("size", text),
        "workers": lambda text: number_or_auto("workers", text),
        "max_memory": lambda text: byte_size("max-memory", text),
        "range": frame_range,
        "frame_dependency": _tighter,
    }
    for name, text in texts.items():
        if text == "":
            option = name.replace("_", "-")
            raise PipelineError(
                f"--{option} needs a value: got nothing", got=text, hint="Leave it out for the default."
            )
    return {name: parse.get(name, lambda text: text)(text) for name, text in texts.items() if text is not None}


def _tighter(text: str) -> str:
    if text != "sequential":
        raise PipelineError(
            f"--frame-dependency may only tighten what operators declare: expected 'sequential', got {text!r}",
            got=text,
            hint="Leave it out: every operator says itself what it depends on.",
        )
    return text


def model_stages(model: str | None) -> list[str]:
    """Return the operator that ``--model FILE.onnx[:k=v,...]`` stands for, as ``--operator`` would give it."""
    if model is None:
        return []
    path, colon, parameters = model.rpartition(":")
    if not colon or "=" not in parameters:
        path, parameters = model, ""
    if "," in path:
        raise PipelineError(
            f"--model takes a file whose name has no comma: got {path}",
            got=path,
            hint="Rename the file, or link to it.",
        )
    return [f"onnx:model={path}" + (f",{parameters}" if parameters else "")]
