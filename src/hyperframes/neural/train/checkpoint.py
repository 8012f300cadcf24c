"""A model and all that its training goes on with in one safetensors file: numbers and text, nothing that is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from hyperframes.neural.tensorfile import read_tensors, reading, write_tensors

if TYPE_CHECKING:
    import os

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]

_HEADER, _VERSION = "hyperframes_model", 1


@dataclass(slots=True)
class Checkpoint:
    """What a file holds."""

    config: dict[str, Any]
    """`TrainingConfig.to_json`."""
    classes: tuple[str, ...]
    step: int
    model: dict[str, torch.Tensor]
    decoder: dict[str, torch.Tensor] = field(default_factory=dict)
    optimizer: dict[str, torch.Tensor] = field(default_factory=dict)
    """``PARAMETER.NAME``: the optimizer's tensors of each parameter."""
    progress: dict[str, Any] = field(default_factory=dict)
    """What else goes on: the schedule, the best score, how long it is ago."""
    scores: dict[str, float] = field(default_factory=dict)
    """Of the last validation."""


_PARTS = ("model", "decoder", "optimizer")


def save_checkpoint(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint; under its name it is always a whole one."""
    tensors = {f"{part}/{name}": tensor for part in _PARTS for name, tensor in getattr(checkpoint, part).items()}
    header = {
        "version": _VERSION,
        "config": checkpoint.config,
        "classes": checkpoint.classes,
        "step": checkpoint.step,
        "progress": checkpoint.progress,
        "scores": checkpoint.scores,
    }
    write_tensors(path, _HEADER, header, tensors)


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read what `save_checkpoint` wrote.

    Raises
    ------
    SourceError
        If the file is another kind of file, damaged, or of another version.
    """
    with reading(path, "a model"):
        header, tensors = read_tensors(path, _HEADER, _VERSION, "a model", "Models are written by 'hyperframes train'.")
        parts: dict[str, dict[str, torch.Tensor]] = {part: {} for part in _PARTS}
        for key, tensor in tensors.items():
            part, _, name = key.partition("/")
            parts[part][name] = tensor
        return Checkpoint(
            header["config"],
            tuple(map(str, header["classes"])),
            int(header["step"]),
            **parts,
            progress=header["progress"],
            scores=header["scores"],
        )
