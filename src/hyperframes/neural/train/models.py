"""Nets by their names in a configuration."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from hyperframes.errors import FrameError, PipelineError, RegistryError
from hyperframes.neural.baselines import FrameAverage, ResNet3D, width_for
from hyperframes.neural.encoders import MCH, SCH, Classifier, Hybrid
from hyperframes.neural.event_encoder import EDH

if TYPE_CHECKING:
    from torch import nn

    from hyperframes.neural.train.config import TrainingConfig

__all__ = ["ENCODERS", "make_classifier"]

ENCODERS: dict[str, type[nn.Module]] = {
    "mch": MCH,
    "sch": SCH,
    "edh": EDH,
    "hybrid": Hybrid,
    "resnet3d": ResNet3D,
    "average": FrameAverage,
}
_HEAD = ("dropout", "prototypes", "parameters")


def make_classifier(config: TrainingConfig, classes: int) -> Classifier:
    """Return the classifier of a configuration, untrained; its numbers are drawn by the training's seed.

    Options are those of the encoder and ``dropout`` and ``prototypes`` of the head. ``parameters`` chooses the width with
    which the whole has nearest to so many numbers to learn.

    Raises
    ------
    RegistryError
        If no encoder has that name.
    PipelineError
        If it does not take an option.
    """
    name, options = config.model.encoder, dict(config.model.options)
    if name not in ENCODERS:
        raise RegistryError("encoder", name, ENCODERS)
    kind = ENCODERS[name]
    head = {key: options.pop(key) for key in _HEAD if key in options}
    wanted = head.pop("parameters", None)
    given = _shape_options(config, kind)
    known = set(inspect.signature(kind).parameters)
    for key in options:
        if key not in known:
            raise PipelineError(
                f"encoder {name!r} has no option {key!r}; known: {', '.join(sorted(known | set(_HEAD)))}",
                stage="model.options",
                got=key,
                hint=f"help(hyperframes.neural.{kind.__name__}) tells what they are."
                if kind in (MCH, SCH, EDH, Hybrid)
                else "Take it out of [model] options.",
            )

    def made(width: float | None) -> Classifier:
        sized = {} if width is None else {"width": width}
        return Classifier(kind(**given, **{**options, **sized}), classes, **head)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        try:
            return made(None if wanted is None else width_for(lambda width: made(width), int(wanted)))
        except (TypeError, ValueError, OverflowError, RuntimeError, FrameError) as error:
            raise PipelineError(
                f"encoder {name!r} cannot be made: {error}",
                stage="model.options",
                hint="Correct [model] options, or the size and frames of [data].",
            ) from error


def _shape_options(config: TrainingConfig, kind: type[nn.Module]) -> dict[str, Any]:
    """Return what the form of the data says of an encoder."""
    data = config.data
    events = data.form == "events"
    given: dict[str, Any] = {}
    if "in_channels" in inspect.signature(kind).parameters:
        given["in_channels"] = {"pictures": 3, "rows": 1, "events": 2}[data.form]
    if "size" in inspect.signature(kind).parameters:
        given["size"] = (data.bins if events else data.frames, *data.size)
    return given
