"""Trained networks as files: numbers and a header of text in safetensors, and the functions on arrays that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from hyperframes.errors import PipelineError, SourceError
from hyperframes.neural.answering import answering
from hyperframes.neural.encoders import MCH, SCH, Hybrid
from hyperframes.neural.event_encoder import EDH, event_grid
from hyperframes.neural.nets import ProjectionGenerator, RefinerLSTM, RegionUNet
from hyperframes.neural.tensorfile import read_tensors, reading, write_tensors

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from hyperframes.frames import Array

__all__ = ["HEADER", "KINDS", "load_weights", "network", "save_weights"]

HEADER = "hyperframes_network"
"""What the header is called in a file."""
_VERSION = 1

KINDS: dict[str, Callable[..., nn.Module]] = {
    "mch": MCH,
    "sch": SCH,
    "edh": EDH,
    "hybrid": Hybrid,
    "region_net": RegionUNet,
    "anchor_refiner": RefinerLSTM,
    "task_generator": ProjectionGenerator,
}
"""What a file may hold, by kind."""


def save_weights(module: Any, path: str | os.PathLike[str]) -> None:
    """Write an encoder or net as a safetensors file that operators take as ``weights``.

    Parameters
    ----------
    module : Module
        One of `KINDS`; under its name the file is always a whole one.
    path : path

    Raises
    ------
    PipelineError
        If the module is none of them, or was made with a backbone of its own.
    """
    kind, options = getattr(module, "kind", ""), dict(getattr(module, "options", {}))
    if kind not in KINDS or not isinstance(module, KINDS[kind]) or (kind == "sch" and options.get("maps")):  # type: ignore[arg-type]  # classes
        raise PipelineError(
            f"{type(module).__name__} has no weights that stand for themselves: expected one of {', '.join(KINDS)} "
            "without a backbone of its own",
            got=kind,
        )
    shapes = _shapes(module)
    header = {"version": _VERSION, "kind": kind, "options": options, **shapes}
    write_tensors(path, HEADER, header, module.state_dict())


def _shapes(module: Any) -> dict[str, Any]:
    """Return what operators know of a network without loading it: frames it reads and shapes that it gives."""
    if isinstance(module, RegionUNet):
        return {"length": 1, "channels": module.options["in_channels"], "outputs": {"map": [64, 64]}}
    if isinstance(module, RefinerLSTM):
        return {"length": module.frames, "channels": module.inputs, "outputs": {"weights": [module.frames]}}
    if isinstance(module, ProjectionGenerator):
        return {"length": 1, "channels": module.texts, "outputs": {"matrix": list(module.shape)}}
    frames, height, width = module.size
    stride = 16 if module.kind in {"sch", "edh"} else 8
    packed = [module.out_channels, -(-height // stride), -(-width // stride)]
    return {
        "length": frames,
        "channels": module.options.get("in_channels", 2),
        "outputs": {"tensor": packed, "embedding": [module.out_channels]},
    }


def load_weights(path: str | os.PathLike[str]) -> nn.Module:
    """Return the network that `save_weights` wrote, ready to answer.

    Raises
    ------
    SourceError
        If the file is another kind of file, damaged, or of another version.
    """
    with reading(path, "a network"):
        header, state = read_tensors(
            path, HEADER, _VERSION, "a network", "Write one with hyperframes.neural.save_weights."
        )
        if header["kind"] not in KINDS:
            raise SourceError(
                f"{path} holds a network of another kind: expected one of {', '.join(KINDS)}, got {header['kind']!r}",
                source=str(path),
                hint="Read it with the version of hyperframes that wrote it.",
            )
        options = {name: tuple(v) if isinstance(v, list) else v for name, v in header["options"].items()}
        module = KINDS[header["kind"]](**options)
        try:
            module.load_state_dict(state)
        except RuntimeError as error:
            raise SourceError(
                f"{path} does not hold the {header['kind']} network that it names: {_last_line(error)}",
                source=str(path),
            ) from error
    return module.eval()


def _last_line(error: Exception) -> str:
    """Return which weight does not fit; torch's first line says only that one does not."""
    return str(error).splitlines()[-1].strip()


def network(path: str) -> Callable[..., Array]:
    """Return the network of a file as a function from arrays to arrays; the factory behind ``registry.networks``.

    Parameters
    ----------
    path : str
        What `save_weights` wrote.

    Returns
    -------
    function
        ``run(input, output)`` with the name of one of the file's outputs. The input is a clip (T, H, W, C) of uint8 for
        encoders, `Events` for event encoders, a picture (H, W, C) of uint8 for the region net, rows (T, D) of frames'
        motion for the refiner, a text vector (384,) for the generator. It answers one at a time and on one thread, so
        that no answer depends on what else is asked.

    Raises
    ------
    SourceError
        As for `load_weights`.
    """
    module: Any = answering(load_weights(path))

    def run(given: Any, output: str) -> Array:
        before = torch.get_num_threads()
        if before != 1:
            torch.set_num_threads(1)  # of this thread; sums over several depend on how many they are
        try:
            with torch.inference_mode():
                return _answer(module, given, output)
        finally:
            if before != 1:
                torch.set_num_threads(before)

    return run


def _answer(module: Any, given: Any, output: str) -> Array:
    if isinstance(module, EDH):
        found = module(event_grid(given, module.size).unsqueeze(0))
    elif isinstance(module, RegionUNet):
        found = module(_pictures(given[None], module.options["in_channels"]))[:, 0]
    elif isinstance(module, RefinerLSTM):
        found = module(torch.from_numpy(np.array(given[1:], np.float32)).unsqueeze(0))
    elif isinstance(module, ProjectionGenerator):
        found = module(torch.from_numpy(np.array(given, np.float32)).unsqueeze(0))
    else:
        found = module(_pictures(given, module.options["in_channels"]).transpose(0, 1).unsqueeze(0))
    if output == "tensor":
        found = module.packed(found)
    elif output == "embedding":
        found = module.pooled(found)
    answer: Array = found[0].numpy()
    return answer


def _pictures(frames: Array, channels: int) -> torch.Tensor:
    """Return (T, H, W[, C]) uint8 as (T, C, H, W) floats in [0, 1]."""
    pictures = torch.from_numpy(np.array(frames)).reshape(*frames.shape[:3], channels)
    return pictures.permute(0, 3, 1, 2).float() / 255
