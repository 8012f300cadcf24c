"""What can be trained: each task makes its windows, its loss and its scores; how steps are taken is `learner`'s."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from hyperframes.errors import PipelineError
from hyperframes.frames import Array
from hyperframes.neural.curvature import curvature
from hyperframes.neural.data import Clips, Sample, Windows, check_leaks, least_tile_ssim, read_folder, read_table, split
from hyperframes.neural.layers import AdaptiveGridWarp
from hyperframes.neural.losses import HyperframeLoss
from hyperframes.neural.metrics import coverage, temporal_entropy
from hyperframes.neural.train.models import make_classifier
from hyperframes.neural.train.scores import accuracy, macro_f1

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import nn

    from hyperframes.neural.data.clips import Batch
    from hyperframes.neural.encoders import Classifier
    from hyperframes.neural.train.config import DataConfig, TrainingConfig

__all__ = ["Answers", "Classify", "Scored", "Task", "answers_of", "read_samples", "windows_of"]


@dataclass(slots=True)
class Scored:
    """A loss and what is told of it."""

    loss: torch.Tensor
    numbers: dict[str, float] = field(default_factory=dict)
    curvature: float = 0.0
    """Mean of the batch's tensors; 0 where there is none."""
    tensor: torch.Tensor | None = None
    """(N, C, W_t, H, W), where the model makes one."""
    clips: torch.Tensor | None = None
    """What it was made of."""


class Task(Protocol):
    """What `learner` needs of a task."""

    @property
    def model(self) -> nn.Module:
        """What is trained."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Of the answers; empty where they are none."""

    @property
    def score(self) -> str:
        """Of `watch`: the number by which the best checkpoint is chosen, the higher the better."""

    def batch(self, step: int) -> Any:
        """Return what the step learns from: a function of the configuration and the step alone."""

    def before(self, step: int) -> None:
        """Do what has to be done once before a step."""

    def scored(self, batch: Any) -> Scored:
        """Return the loss of a batch."""

    def watch(self) -> dict[str, float]:
        """Return the scores of what was kept to watch the model with; none where nothing was."""

    def sample_tensor(self) -> tuple[torch.Tensor, int] | None:
        """Return a tensor to look at and its channels of space; None where the model makes none."""

    def network(self) -> nn.Module | None:
        """Return what an operator can compute with afterwards; None where there is none."""


# Samples --------------------------------------------------------------------------------------------------------------


def read_samples(data: DataConfig, seed: int = 0) -> list[Sample]:
    """Return the samples of a configuration, each with its side: train, validation or test.

    Where a column tells training from test, part of training is kept to watch the model; else all is split. Always by
    groups.

    Raises
    ------
    FrameError
        If the split leaks.
    """
    if data.folder:
        found = read_folder(data.folder)
    else:
        found = read_table(
            data.table,
            root=data.root or None,
            source=data.source,
            label=data.label,
            split=data.split or None,
            groups=data.groups,
            start=data.start or None,
            stop=data.stop or None,
            joined=data.joined or None,
        )
    if not any(sample.split for sample in found):
        shares = {"train": 1 - data.validation - data.test, "validation": data.validation, "test": data.test}
        found = split(found, {side: share for side, share in shares.items() if share > 0}, seed)
    elif data.validation and not any(sample.split == "validation" for sample in found):
        check_leaks(found)
        train = split(
            [sample for sample in found if sample.split == "train"],
            {"train": 1 - data.validation, "validation": data.validation},
            seed,
        )
        found = train + [sample for sample in found if sample.split != "train"]
    check_leaks(found)
    return found


def windows_of(
    config: TrainingConfig, samples: Sequence[Sample], classes: tuple[str, ...], *, training: bool
) -> Windows:
    """Return the windows of samples as a configuration wants them; only training changes them."""
    data = config.data
    clips = Clips(
        samples,
        form=data.form,
        size=(data.size[0], data.size[1]),
        limits=(data.limits[0], data.limits[1]),
        bins=data.bins,
        sensor=(data.sensor[0], data.sensor[1]) if data.sensor else None,
    )
    length = data.bins if data.form == "events" else data.frames
    changes = (
        {name: getattr(data, name) for name in ("flip", "shift", "brightness", "turn", "zoom")} if training else {}
    )
    return Windows(clips, classes, length, data.stride, data.hop, seed=config.train.seed, **changes)


# Answers --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Answers:
    """What a classifier says of samples."""

    truth: Array
    """(N,) int64."""
    probabilities: Array
    """(N, K) float64: means over the views of a sample."""
    latent: torch.Tensor
    """(N, D): pooled vectors, means over the views."""
    entropy: float
    """TGE of the tensors, mean over batches; NaN where there are none."""

    @property
    def answers(self) -> Array:
        """(N,) int64: the likeliest class."""
        return np.asarray(self.probabilities.argmax(1))


@torch.no_grad()
def answers_of(model: nn.Module, windows: Windows, views: int, batch: int, device: torch.device) -> Answers:
    """Return a classifier's answers to all samples, in their order."""
    was_training = model.training
    model.eval()
    probabilities, latents, entropies = [], [], []
    for clips in _viewed(windows, views, batch):
        logits, tensor, latent = model.with_tensor(clips.flatten(0, 1).to(device))  # type: ignore[operator]  # classifiers have it
        shape = (len(clips), views)
        probabilities.append(logits.double().softmax(1).unflatten(0, shape).mean(1).cpu())
        latents.append(latent.float().unflatten(0, shape).mean(1).cpu())
        if tensor.shape[2] > 1:
            entropies.append(temporal_entropy(tensor.cpu()))
    model.train(was_training)
    names = windows.classes
    truth = np.array([names.index(sample.label) for sample in windows.clips.samples], np.int64)
    entropy = float(np.mean(entropies)) if entropies else float("nan")
    return Answers(truth, torch.cat(probabilities).numpy(), torch.cat(latents), entropy)


def _viewed(windows: Windows, views: int, batch: int) -> Iterator[torch.Tensor]:
    """Yield (n, views, C, T, H, W) of a few samples at a time."""
    each = max(1, batch // views)
    for first in range(0, len(windows), each):
        last = min(len(windows), first + each)
        yield torch.stack([windows.views(i, views) for i in range(first, last)])


# Tasks ----------------------------------------------------------------------------------------------------------------


class Classify:
    """Classes of windows, from labelled samples."""

    score = "macro_f1"

    def __init__(self, config: TrainingConfig, device: torch.device, classes: tuple[str, ...] = ()) -> None:
        samples = read_samples(config.data, config.train.seed)
        self.classes = classes or tuple(sorted({sample.label for sample in samples}))
        kept = [sample for sample in samples if sample.split == "train"]
        if config.data.still and config.data.form == "pictures":
            kept = [s for s in kept if least_tile_ssim(s.source, range=(s.start, s.stop)) <= config.data.still]
        if not kept:
            sides = ", ".join(sorted({sample.split for sample in samples}))
            raise PipelineError(
                f"no sample is left to train with: expected some of the side 'train', got {sides or 'none'}",
                stage="data",
                got=sides,
                hint="Lower validation, test or still, or record more groups.",
            )
        watched = [sample for sample in samples if sample.split == "validation"]
        self._config, self._device = config, device
        self.windows = windows_of(config, kept, self.classes, training=True)
        self.watched = windows_of(config, watched, self.classes, training=False) if watched else None
        self.model: Classifier = make_classifier(config, len(self.classes)).to(device)
        loss = config.loss
        self._loss = HyperframeLoss(
            consistency=loss.consistency,
            temporal=loss.temporal,
            smoothness=loss.smoothness,
            quantile=loss.quantile,
            label_smoothing=loss.label_smoothing,
            weight=self.windows.weights().to(device) if loss.balanced else None,
        )
        self._warps = [one for one in self.model.modules() if isinstance(one, AdaptiveGridWarp)]
        self._seen: dict[AdaptiveGridWarp, torch.Tensor] = {}
        if loss.folding:
            for warp in self._warps:
                warp.offsets.register_forward_hook(self._note(warp))
        self.structured = hasattr(self.model.encoder, "space")

    def _note(self, warp: AdaptiveGridWarp) -> Any:
        def note(_: nn.Module, __: Any, raw: torch.Tensor) -> None:
            self._seen[warp] = raw

        return note

    def batch(self, step: int) -> Batch:
        """Return the step's windows; in pairs of neighbours where the consistency of pairs counts."""
        pairs = bool(self._config.loss.consistency) and self.structured and self._config.data.form != "events"
        return self.windows.batch(step, self._config.train.batch, pairs=pairs)

    def before(self, step: int) -> None:
        """Fit what is measured rather than learned: rates of events at the start, prototypes after a quarter."""
        density = getattr(self.model.encoder, "density", None)
        if step == 0 and density is not None:
            density.fit(self.windows.batch(0, 64).clips.to(self._device))
        if self.model.prototypes is not None and step == self._config.train.steps // 4:
            self.model.eval()
            self.model.fit_prototypes(self.windows.batch(step, 4 * self._config.train.batch).clips.to(self._device))
            self.model.train()

    def scored(self, batch: Batch) -> Scored:
        """Return cross entropy, and for models with a tensor the terms about its structure."""
        logits, tensor, latent = self.model.with_tensor(batch.clips)
        if not self.structured:
            loss = self._loss.entropy(logits, batch.labels)
            return Scored(loss, {"cross_entropy": float(loss.detach())}, clips=batch.clips)
        parts = self._loss(logits, batch.labels, tensor, latent, batch.group, batch.order)
        numbers = {
            name: float(getattr(parts, name).detach())
            for name in ("cross_entropy", "consistency", "temporal", "smoothness")
        }
        total = parts.total
        if self._config.loss.folding and self._seen:
            folding = torch.stack([warp.folding(warp.bounded(raw)) for warp, raw in self._seen.items()]).mean()
            self._seen.clear()
            numbers["folding"] = float(folding.detach())
            total = total + self._config.loss.folding * folding
        bent = curvature(tensor.detach())
        numbers["curvature"], numbers["curvature_spread"] = float(bent.mean()), float(bent.std())
        return Scored(total, numbers, numbers["curvature"], tensor, batch.clips)

    def watch(self) -> dict[str, float]:
        """Return macro-F1, accuracy, TGE and MCR of the watched samples."""
        if self.watched is None:
            return {}
        train = self._config.train
        size = max(train.batch, train.views)
        told = answers_of(self.model, self.watched, train.views, size, self._device)
        scores = {
            "macro_f1": macro_f1(told.truth, told.answers, len(self.classes)),
            "accuracy": accuracy(told.truth, told.answers),
        }
        if self.structured:
            scores["tge"] = told.entropy
            of_training = answers_of(self.model, self._plain(), 1, size, self._device)
            scores["mcr"] = coverage(told.latent, of_training.latent)
        return scores

    def network(self) -> nn.Module | None:
        """Return the encoder, for the operators of its kind."""
        return self.model.encoder if self.structured else None

    def _plain(self) -> Windows:
        windows = self.windows
        return Windows(windows.clips, windows.classes, windows.frames, windows.stride, windows.hop)

    def sample_tensor(self) -> tuple[torch.Tensor, int] | None:
        """Return the tensor of the first watched (or training) sample."""
        windows = self.watched or self._plain()
        if not self.structured:
            return None
        self.model.eval()
        with torch.no_grad():
            tensor = self.model.encoder(windows.views(0, 1).to(self._device)).cpu()
        self.model.train()
        return tensor, int(self.model.encoder.space)
