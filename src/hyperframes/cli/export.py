"""``hyperframes export``: a network for another runtime, compared with itself first."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path  # noqa: TC003 - typer reads it
from typing import Annotated

import typer

from hyperframes.cli import _options, _show

__all__ = ["export"]


def export(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL.safetensors", help="What 'hyperframes train' left, or weights of a network."),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="onnx|openvino|torch",
            help="onnx needs the extra export; openvino reads the onnx file as it is.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: the model's name with the format's suffix.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(metavar="X", min=0, help="Greatest difference allowed, as a share of the greatest value.")
    ] = 1e-3,
    as_json: _options.Json = False,
    debug: _options.Debug = False,
) -> None:
    """Write a trained network as an ONNX file or a torch program; it is kept only if it gives what the network gives.

    Example: hyperframes export runs/fights/best.safetensors --to onnx
    """
    from hyperframes.neural.calm import calm
    from hyperframes.neural.export import export as exported

    with calm("torch.onnx"):
        found = exported(model, to, out, tolerance=tolerance)  # type: ignore[arg-type]  # checked there
    if as_json:
        print(json.dumps(dataclasses.asdict(found)))
        return
    print(found.path)
    _show.tell("input", str(found.inputs))
    _show.tell("output", str(found.outputs))
    _show.tell("difference", f"{found.difference:.1e} of the greatest value")
