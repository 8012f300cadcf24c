"""A model and all that its training goes on with in one safetensors file: numbers and text, nothing that is run."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hyperframes.errors import SourceError

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]

_VERSION = 1


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
    from safetensors.torch import save_file

    tensors = {
        f"{part}/{name}": tensor.detach().cpu().contiguous().clone()
        for part in _PARTS
        for name, tensor in getattr(checkpoint, part).items()
    }
    header = {
        "version": _VERSION,
        "config": checkpoint.config,
        "classes": checkpoint.classes,
        "step": checkpoint.step,
        "progress": checkpoint.progress,
        "scores": checkpoint.scores,
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        save_file(tensors, beside, {"hyperframes_model": json.dumps(header)})
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _check_version(header: dict[str, Any], path: str | os.PathLike[str]) -> None:
    if header.get("version") != _VERSION:
        raise SourceError(
            f"{path} holds no model of version {_VERSION}: got {header.get('version')}",
            source=str(path),
            hint="Models are written by 'hyperframes train'.",
        )


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read what `save_checkpoint` wrote.

    Raises
    ------
    SourceError
        If the file is another kind of file, damaged, or of another version.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {}).get("hyperframes_model", "{}"))
            _check_version(header, path)
            parts: dict[str, dict[str, torch.Tensor]] = {part: {} for part in _PARTS}
            for key in file.keys():  # noqa: SIM118 - no mapping
                part, _, name = key.partition("/")
                parts[part][name] = file.get_tensor(key)
        classes = tuple(map(str, header["classes"]))
        return Checkpoint(
            header["config"],
            classes,
            int(header["step"]),
            **parts,
            progress=header["progress"],
            scores=header["scores"],
        )
    except SourceError:
        raise
    except FileNotFoundError as error:
        raise SourceError(f"no such file: {path}", source=str(path)) from error
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"cannot read a model from {path}: {error}", source=str(path)) from error
