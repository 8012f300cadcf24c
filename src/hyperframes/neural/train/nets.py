"""Training of the small nets: where something matters, which frames matter, what matters for a task."""

from __future__ import annotations

import copy
import csv
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from hyperframes.drivers import run
from hyperframes.errors import FrameError, PipelineError, SourceError
from hyperframes.neural.data import Clips, Sample, pseudo_label
from hyperframes.neural.nets import ProjectionGenerator, RefinerLSTM, RegionUNet
from hyperframes.neural.train.tasks import Scored, read_samples
from hyperframes.semantic.detect import Detect
from hyperframes.semantic.tasks import fit_projection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from hyperframes.frames import Array
    from hyperframes.neural.train.config import TrainingConfig

__all__ = ["Anchors", "Project", "Regions", "alikeness"]

_SPREAD = 1.0
"""Frames to both sides of an anchor in which its weight falls to 0.6."""


class Pairs(NamedTuple):
    """What a net is given and what it should answer."""

    clips: torch.Tensor
    targets: torch.Tensor


def _made(config: TrainingConfig, make: Callable[..., nn.Module], **given: Any) -> Any:
    """Return a net whose numbers are drawn by the training's seed."""
    options = {**given, **config.model.options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        try:
            return make(**options)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise PipelineError(
                f"a net for {config.model.task} cannot be made: {error}", stage="model.options"
            ) from error


def _sides(config: TrainingConfig) -> tuple[list[Sample], list[Sample]]:
    samples = read_samples(config.data, config.train.seed)
    train = [sample for sample in samples if sample.split == "train"]
    return train, [sample for sample in samples if sample.split == "validation"]


def _drawn(config: TrainingConfig, step: int, count: int) -> tuple[np.random.Generator, Array]:
    """Return the random numbers of a step and the samples it takes: all once before any again."""
    size, seed = config.train.batch, config.train.seed
    places = range(step * size, (step + 1) * size)
    orders = {p: np.random.default_rng((seed, 0, p)).permutation(count) for p in {place // count for place in places}}
    chosen = np.array([orders[place // count][place % count] for place in places])
    return np.random.default_rng((config.train.seed, 1, step)), chosen


def _marks(path: str, columns: Sequence[str]) -> dict[str, list[list[float]]]:
    """Return the numbers of a CSV file's `columns` by its column ``file``."""
    found: dict[str, list[list[float]]] = {}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            for line, row in enumerate(csv.DictReader(file), 2):
                try:
                    found.setdefault(row["file"], []).append([float(row[c]) for c in columns])
                except (KeyError, TypeError, ValueError) as error:
                    wanted = ", ".join(("file", *columns))
                    raise SourceError(f"{path}, line {line}: expected numbers in {wanted}: {error}") from error
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", source=path) from error
    return found


def _of(marks: dict[str, list[list[float]]], sample: Sample) -> list[list[float]]:
    """Return the marks of a sample, by the end of its path."""
    return next((rows for name, rows in marks.items() if sample.source.endswith(name)), [])


class Regions:
    """The region net, towards maps that are made of boxes."""

    score = "overlap"
    classes: tuple[str, ...] = ()

    def __init__(self, config: TrainingConfig, device: torch.device) -> None:
        data = config.data
        if bool(data.boxes) == bool(data.detector):
            raise PipelineError("task 'regions' learns from boxes or from a detector: name one of both in [data]")
        self._config, self._device = config, device
        self._train, self._watched = _sides(config)
        reading: dict[str, Any] = {"form": "pictures", "size": (data.size[0], data.size[1])}
        self._clips, self._kept = Clips(self._train, **reading), Clips(self._watched, **reading)
        self._marks = _marks(data.boxes, ("frame", "left", "top", "right", "bottom")) if data.boxes else None
        self._seen: dict[Sample, Array] = {}
        self.model: RegionUNet = _made(config, RegionUNet, size=(data.size[0], data.size[1])).to(device)

    def _boxes(self, sample: Sample, frame: int) -> Array:
        if self._marks is None:
            if sample not in self._seen:
                detect = Detect(self._config.data.detector)
                found = run(sample.source, detect, workers=1, range=(sample.start, sample.stop))
                self._seen[sample] = np.asarray(found.array)
            return np.asarray(self._seen[sample][frame])
        rows = [[*row[1:], 1.0, 0.0] for row in _of(self._marks, sample) if int(row[0]) == frame + sample.start]
        return np.array(rows, np.float32).reshape(-1, 6)

    def batch(self, step: int) -> Pairs:
        """Return one frame of each drawn sample and the map of its boxes, mirrored half of the time."""
        draw, chosen = _drawn(self._config, step, len(self._train))
        pictures, maps = [], []
        for i in chosen:
            clip = self._clips[int(i)]
            frame = int(draw.integers(len(clip)))
            picture, label = clip[frame], pseudo_label(self._boxes(self._train[i], frame))
            if self._config.data.flip and draw.random() < 0.5:
                picture, label = picture[:, ::-1], label[:, ::-1]
            pictures.append(_picture(picture))
            maps.append(torch.from_numpy(label.copy())[None])
        return Pairs(torch.stack(pictures), torch.stack(maps))

    def before(self, step: int) -> None:
        """Nothing has to be fitted."""

    def scored(self, batch: Pairs) -> Scored:
        """Return the cross entropy of every cell."""
        loss = functional.binary_cross_entropy_with_logits(self.model.logits(batch.clips), batch.targets)
        return Scored(loss)

    @torch.no_grad()
    def watch(self) -> dict[str, float]:
        """Return how much of made and wanted maps overlaps, each above one half, over the middle frames of what was kept."""
        if not self._watched:
            return {}
        self.model.eval()
        both = either = 0.0
        for i, sample in enumerate(self._watched):
            frame = len(self._kept[i]) // 2
            found = self.model(_picture(self._kept[i][frame])[None].to(self._device))[0, 0].cpu().numpy() > 0.5
            wanted = pseudo_label(self._boxes(sample, frame)) > 0.5
            both, either = both + float((found & wanted).sum()), either + float((found | wanted).sum())
        self.model.train()
        return {"overlap": both / either if either else 1.0}

    def network(self) -> nn.Module:
        """Return what operator ``region_net`` computes with."""
        return self.model

    def sample_tensor(self) -> None:
        """Make no tensor."""
        return


def _picture(frame: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(frame.transpose(2, 0, 1))).float() / 255


class Anchors:
    """The anchor refiner, towards frames that somebody marked, from rows of operator ``activity``."""

    score = "f1"
    classes: tuple[str, ...] = ()

    def __init__(self, config: TrainingConfig, device: torch.device) -> None:
        if not config.data.anchors:
            raise PipelineError("task 'anchors' learns from marked frames: name their table as anchors in [data]")
        self._config, self._device = config, device
        marks = _marks(config.data.anchors, ("frame",))
        train, watched = _sides(config)
        self._train, self._watched = ([_motion(s, marks) for s in side] for side in (train, watched))
        rows = np.concatenate([motion for motion, _ in self._train])
        self._mean, self._spread = rows.mean(0), np.maximum(rows.std(0), 1e-3)
        self.model: RefinerLSTM = _made(config, RefinerLSTM, inputs=rows.shape[1], frames=config.data.frames).to(device)

    def _window(self, rows: tuple[Array, Array], start: int) -> tuple[torch.Tensor, torch.Tensor]:
        motion, weight = rows
        frames = self._config.data.frames
        places = np.minimum(start + np.arange(frames), len(motion) - 1)
        steps = (motion[places][1:] - self._mean) / self._spread
        wanted = np.maximum(
            weight[places][:-1], weight[places][1:]
        )  # of intervals: as frames take the greater of theirs
        return torch.from_numpy(steps.astype(np.float32)), torch.from_numpy(wanted.astype(np.float32))

    def batch(self, step: int) -> Pairs:
        """Return one window of each drawn sample."""
        draw, chosen = _drawn(self._config, step, len(self._train))
        room = [max(1, len(self._train[i][0]) - self._config.data.frames + 1) for i in chosen]
        windows = [self._window(self._train[i], int(draw.integers(r))) for i, r in zip(chosen, room, strict=True)]
        return Pairs(torch.stack([w for w, _ in windows]), torch.stack([t for _, t in windows]))

    def before(self, step: int) -> None:
        """Nothing has to be fitted."""

    def scored(self, batch: Pairs) -> Scored:
        """Return the cross entropy of every interval."""
        return Scored(functional.binary_cross_entropy_with_logits(self.model.intervals(batch.clips), batch.targets))

    @torch.no_grad()
    def watch(self) -> dict[str, float]:
        """Return the F1 of intervals with a weight above one half, in windows side by side."""
        if not self._watched:
            return {}
        self.model.eval()
        right = found = there = 0
        for rows in self._watched:
            for start in range(0, len(rows[0]), self._config.data.frames):
                motion, wanted = self._window(rows, start)
                made = torch.sigmoid(self.model.intervals(motion[None].to(self._device)))[0].cpu() > 0.5
                right += int((made & (wanted > 0.5)).sum())
                found, there = found + int(made.sum()), there + int((wanted > 0.5).sum())
        self.model.train()
        return {"f1": 2 * right / (found + there) if found + there else 1.0}

    def network(self) -> nn.Module:
        """Return what operator ``refine_anchors`` computes with: it takes rows as they are, so the scaling moves inside."""
        folded = copy.deepcopy(self.model).cpu()
        with torch.no_grad():
            state = folded.lstm.state_dict()  # of the numbers themselves
            weight = state["weight_ih_l0"]
            weight /= torch.from_numpy(self._spread.astype(np.float32))
            state["bias_ih_l0"] -= weight @ torch.from_numpy(self._mean.astype(np.float32))
        return folded

    def sample_tensor(self) -> None:
        """Make no tensor."""
        return


def _motion(sample: Sample, marks: dict[str, list[list[float]]]) -> tuple[Array, Array]:
    """Return the rows of `activity` (T, 38) and the weight of each frame, 1 at an anchor."""
    span = (sample.start, sample.stop)
    rows = np.nan_to_num(np.asarray(run(sample.source, "activity", workers=1, range=span).array, np.float64))
    frames = np.arange(len(rows))
    weight = np.zeros(len(rows))
    for (frame,) in _of(marks, sample):
        weight = np.maximum(weight, np.exp(-0.5 * ((frames + sample.start - frame) / _SPREAD) ** 2))
    return rows, weight


class Project:
    """The projection generator, towards matrices that were fitted to labelled descriptors of other tasks.

    The table's label column is the class of a file of descriptors, its first group the text of the task.
    """

    score = "alike"
    classes: tuple[str, ...] = ()

    def __init__(
        self, config: TrainingConfig, device: torch.device, encode: Callable[..., Array] | None = None
    ) -> None:
        from hyperframes.semantic import load
        from hyperframes.semantic.text import get_encoder

        if len(config.data.groups) != 1:
            raise PipelineError(
                "task 'projection' takes the text of each task from one group: name its column in [data]"
            )
        self._config, self._device = config, device
        by_task: dict[str, list[tuple[Array, str]]] = {}
        sides: dict[str, str] = {}
        for sample in read_samples(config.data, config.train.seed):
            task = sample.groups[0].partition("=")[2]
            sides[task] = sample.split
            by_task.setdefault(task, []).extend((d.semantic_features, sample.label) for d in load(sample.source))
        texts = sorted(by_task)
        vectors = torch.from_numpy(np.asarray((encode or get_encoder().encode)(texts), np.float32))
        matrices = [fit_projection(t, np.stack([f for f, _ in by_task[t]]), [x for _, x in by_task[t]]) for t in texts]
        targets = torch.from_numpy(np.stack([m.matrix for m in matrices]))
        train = torch.tensor([sides[t] == "train" for t in texts])
        if not train.any():
            raise FrameError("no task is left to learn from", hint="Name more tasks, or set validation = 0.")
        self._train = Pairs(vectors[train].to(device), targets[train].to(device))
        self._watched = Pairs(vectors[~train].to(device), targets[~train].to(device))
        self.model: ProjectionGenerator = _made(config, ProjectionGenerator, texts=vectors.shape[1]).to(device)

    def batch(self, step: int) -> Pairs:
        """Return all tasks: they are few."""
        return self._train

    def before(self, step: int) -> None:
        """Nothing has to be fitted."""

    def scored(self, batch: Pairs) -> Scored:
        """Return how unlike the made and the fitted matrices are."""
        return Scored(1 - alikeness(self.model(batch.clips), batch.targets).mean())

    @torch.no_grad()
    def watch(self) -> dict[str, float]:
        """Return how alike made and fitted matrices of tasks are that were kept aside."""
        if not len(self._watched.clips):
            return {}
        return {"alike": float(alikeness(self.model(self._watched.clips), self._watched.targets).mean())}

    def network(self) -> nn.Module:
        """Return what operator ``project_task`` computes with."""
        return self.model

    def sample_tensor(self) -> None:
        """Make no tensor."""
        return


def alikeness(made: torch.Tensor, fitted: torch.Tensor) -> torch.Tensor:
    """Return the cosine of ``P P^T`` and ``M M^T``, (N,) in [0, 1]: whatever the columns' order and signs."""
    cross = (made.transpose(1, 2) @ fitted).square().sum((1, 2))
    sizes = [(m.transpose(1, 2) @ m).square().sum((1, 2)).sqrt() for m in (made, fitted)]
    return cross / (sizes[0] * sizes[1]).clamp_min(1e-12)
