"""`fit` trains what a configuration says, `evaluate` tells how good it became, `load_model` brings it back."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning
import psutil
import torch
from lightning.pytorch.utilities.exceptions import SIGTERMException

from hyperframes.errors import CancelledError, PipelineError, SourceError
from hyperframes.neural.calm import calm
from hyperframes.neural.curvature import curvature
from hyperframes.neural.data import Sample
from hyperframes.neural.metrics import ALARMS
from hyperframes.neural.tensor import HyperTensor
from hyperframes.neural.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hyperframes.neural.train.config import TrainingConfig
from hyperframes.neural.train.learner import Learner, loader
from hyperframes.neural.train.models import make_classifier
from hyperframes.neural.train.nets import Anchors, Project, Regions
from hyperframes.neural.train.scores import accuracy, confusion, interval, macro_f1
from hyperframes.neural.train.tasks import Answers, Classify, answers_of, read_samples, windows_of
from hyperframes.neural.weights import save_weights

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from torch import nn

    from hyperframes.neural.train.tasks import Task

__all__ = ["Evaluation", "Told", "TrainResult", "evaluate", "fit", "load_model"]

Told = dict[str, Any]
"""What an observer of a training hears: ``kind`` (step, watched, alarm), ``step``, ``steps`` and numbers."""

_TASKS: dict[str, Callable[[TrainingConfig, torch.device], Task]] = {
    "classify": Classify,
    "regions": Regions,
    "anchors": Anchors,
    "projection": Project,
}


@dataclass(frozen=True, slots=True)
class TrainResult:
    """What a training came to."""

    steps: int
    seconds: float
    best: Path
    """Checkpoint with the best score; the last one where nothing was watched."""
    last: Path
    scores: dict[str, float]
    """Of the best checkpoint."""
    alarms: tuple[str, ...]
    stopped_early: bool


def fit(
    config: TrainingConfig,
    *,
    resume: bool = False,
    steps: int | None = None,
    observe: Callable[[Told], None] = lambda told: None,
) -> TrainResult:
    """Train what `config` says and leave ``best.safetensors`` and ``last.safetensors`` in its folder.

    ``weights.safetensors`` holds the best encoder or net alone, for the operator of its kind.

    Parameters
    ----------
    config : TrainingConfig
    resume : bool
        Go on from ``last.safetensors``: on one machine and with as many threads, the rest is bit for bit what it would
        have been.
    steps : int, optional
        Take so many steps at most now, and leave the rest to a later run.
    observe : function, optional
        Hears of steps, scores and alarms.

    Raises
    ------
    PipelineError
        If the folder holds another training, or the configuration does not fit the data.
    CancelledError
        If it was interrupted; the last checkpoint was written.
    """
    folder = Path(config.output.folder)
    if folder.exists() and not folder.is_dir():
        raise PipelineError(
            f"{folder} is a file: a training needs a folder", stage="output.folder", hint="Name another in [output]."
        )
    start = _start(config, folder / "last.safetensors", resume)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    device = _device(config.train.device)
    task = _TASKS[config.model.task](config, device)
    learner = _learner(task, config, start, folder / "last.safetensors")
    until = config.train.steps if steps is None else min(config.train.steps, learner.first + steps)
    watch = _Watch(task, config, folder, until, observe, start)
    began = time.perf_counter()
    if learner.first < until and not watch.finished:
        # Lightning ends with an exception of its own after SIGTERM; by then the watch has written a checkpoint.
        quiet = contextlib.suppress(SIGTERMException)
        with calm("lightning.pytorch", "lightning.fabric"), watch.interruptible(), quiet:
            _trainer(config, folder, until - learner.first, device, watch).fit(
                learner, loader(task, learner.first, until)
            )
    if watch.interrupted:
        raise CancelledError(
            f"training was interrupted after {watch.step} of {config.train.steps} steps",
            hint=f"Go on with --resume; {folder / 'last.safetensors'} holds them.",
        )
    return TrainResult(
        watch.step,
        time.perf_counter() - began,
        folder / "best.safetensors",
        folder / "last.safetensors",
        watch.best_scores,
        tuple(watch.alarms),
        watch.finished and watch.step < until,
    )


def _start(config: TrainingConfig, last: Path, resume: bool) -> Checkpoint | None:
    if not last.exists():
        if resume:
            raise PipelineError(f"there is nothing to go on from: no {last}", hint="Leave out --resume.")
        return None
    if not resume:
        raise PipelineError(
            f"{last.parent} holds a training already", hint="Go on with --resume, or name another folder in [output]."
        )
    found = load_checkpoint(last)
    if found.step and not found.optimizer:
        raise PipelineError(
            f"{last} holds a model, but not what its training goes on with",
            hint="Is it a copy of a best.safetensors? Put the last.safetensors of the training back.",
        )
    _clear(last.parent)
    then, now = _flat(found.config), _flat(config.to_json())
    free = ("output.", "train.device", "train.threads", "monitor.tensorboard", "monitor.pictures_every")
    changed = [k for k in sorted({*then, *now}) if then.get(k) != now.get(k) and not k.startswith(free)]
    if changed:
        key = changed[0]
        raise PipelineError(
            f"{last} was trained with another configuration: {key} was {then.get(key)!r}, is {now.get(key)!r}",
            hint="Use its configuration, or another folder in [output].",
        )
    return found


def _clear(folder: Path) -> None:
    """Remove what trainings that were killed while they wrote left beside their files."""
    for path in folder.glob(".*.safetensors.*"):
        number = path.suffix[1:]
        if number.isdecimal() and not psutil.pid_exists(int(number)):
            path.unlink(missing_ok=True)


def _learner(task: Task, config: TrainingConfig, start: Checkpoint | None, last: Path) -> Learner:
    """Return what takes the steps, at the place where `start` left off."""
    try:
        return Learner(task, config, start)
    except RuntimeError as error:
        if start is None:
            raise
        raise SourceError(
            f"{last} does not hold the model that it names: {str(error).splitlines()[-1].strip()}", source=str(last)
        ) from error


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise PipelineError(f"train.device: no device is called {name!r}", got=name, hint="For example cpu.") from error
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise PipelineError(
            f"train.device: nothing can be computed on {name!r} here: {str(error).splitlines()[0]}",
            got=name,
            hint='Use "cpu", or "auto".',
        ) from error
    return device


def _trainer(
    config: TrainingConfig, folder: Path, steps: int, device: torch.device, watch: _Watch
) -> lightning.Trainer:
    logger: Any = False
    if config.monitor.tensorboard:
        from lightning.pytorch.loggers import TensorBoardLogger

        logger = TensorBoardLogger(folder, name="", version="tensorboard")
    return lightning.Trainer(
        max_steps=steps,
        max_epochs=1,
        accelerator="gpu" if device.type == "cuda" else device.type,
        devices=1,
        precision={"32": "32-true", "bf16": "bf16-mixed"}[config.train.precision],  # type: ignore[arg-type]  # two of its words
        gradient_clip_val=config.train.clip or None,
        callbacks=[watch],
        logger=logger,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )


class _Watch(lightning.Callback):
    """Looks at the model now and then: scores, alarms, pictures, checkpoints, and whether to stop."""

    def __init__(
        self,
        task: Task,
        config: TrainingConfig,
        folder: Path,
        until: int,
        observe: Callable[[Told], None],
        start: Checkpoint | None,
    ) -> None:
        self._task, self._config, self._folder, self._until, self._observe = task, config, folder, until, observe
        progress = start.progress if start else {}
        self.step = start.step if start else 0
        self._best: float | None = progress.get("best")
        self._since = int(progress.get("since", 0))
        self.best_scores: dict[str, float] = dict(progress.get("best_scores", {}))
        self.alarms: list[str] = []
        self.finished = bool(progress.get("finished", False))
        self.interrupted = self._wanted = False
        self._looks = 0

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """End after the step that is being taken when Ctrl-C or SIGTERM comes; a second one ends at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def note(number: int, frame: Any) -> None:
            if self._wanted:
                raise KeyboardInterrupt
            self._wanted = True

        for number in before:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_train_batch_end(self, trainer: Any, learner: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count the step, and look at the model where it is time."""
        self.step = learner.step
        self._observe({"kind": "step", "step": self.step, "steps": self._config.train.steps, **learner.told})
        last = self.step >= self._until
        if self.step % self._config.train.validate_every == 0 or last or self._wanted:
            self._log(trainer, "train", learner.told)
            self._look(trainer, learner)
            if self._wanted and not last:
                self.interrupted = True
            if self.finished or self._wanted:
                trainer.should_stop = True

    def _look(self, trainer: Any, learner: Learner) -> None:
        scores = self._task.watch()
        if "fhre" in learner.told:
            scores["fhre"] = learner.told["fhre"]
        score = scores.get(self._task.score)
        better = score is None or self._best is None or score > self._best
        self._since = 0 if better else self._since + 1
        patience = self._config.train.patience
        self.finished = bool(patience and self._since >= patience)
        if better:
            self._best, self.best_scores = score, scores
        self._tell(scores)
        self._log(trainer, "watched", scores)
        if self._looks % max(1, self._config.monitor.pictures_every) == 0:
            self._pictures(trainer)
        self._looks += 1
        checkpoint = self._checkpoint(learner, scores)
        save_checkpoint(checkpoint, self._folder / "last.safetensors")
        if better:
            save_checkpoint(
                dataclasses.replace(checkpoint, optimizer={}, progress={}), self._folder / "best.safetensors"
            )
            network = self._task.network()
            if network is not None:
                save_weights(network, self._folder / "weights.safetensors")

    def _tell(self, scores: dict[str, float]) -> None:
        alarms = []
        for name, alarm in ALARMS.items():
            wrong = alarm.text(scores[name]) if name in scores else None
            if wrong:
                alarms.append(f"step {self.step}: {name.upper()} is {scores[name]:.3g}: {wrong}")
        self._observe({"kind": "watched", "step": self.step, "scores": scores})
        for text in alarms:
            self._observe({"kind": "alarm", "step": self.step, "text": text})
        self.alarms += alarms

    def _checkpoint(self, learner: Learner, scores: dict[str, float]) -> Checkpoint:
        return Checkpoint(
            self._config.to_json(),
            self._task.classes,
            self.step,
            dict(self._task.model.state_dict()),
            dict(learner.decoder.state_dict()) if learner.decoder is not None else {},
            learner.optimizer_tensors(),
            {
                "usual": learner.schedule.usual,
                "best": self._best,
                "since": self._since,
                "best_scores": self.best_scores,
                "finished": self.finished,
            },
            scores,
        )

    def _log(self, trainer: Any, group: str, numbers: dict[str, float]) -> None:
        if trainer.logger:
            trainer.logger.log_metrics({f"{group}/{name}": value for name, value in numbers.items()}, self.step)

    def _pictures(self, trainer: Any) -> None:
        """Show TensorBoard the tensor of one sample: space and curvature as pictures, time as an animation."""
        found = self._task.sample_tensor() if trainer.logger else None
        if found is None:
            return
        from hyperframes.neural.pictures import animation, hot

        data, space = found
        bent = curvature(data.float())
        maps = HyperTensor(data.float(), space, curvature=bent).pictures()
        writer = trainer.logger.experiment
        if "space" in maps:
            writer.add_image("space", maps["space"][None], self.step)
        writer.add_image("curvature", hot(maps["curvature"][len(maps["curvature"]) // 2]), self.step, dataformats="HWC")
        writer.add_scalar("curvature_std", float(bent.std()), self.step)
        if "time" in maps:
            _add_animation(writer, "time", animation(maps["time"]), maps["time"].shape[1:], self.step)


def _add_animation(writer: Any, name: str, gif: bytes, size: tuple[int, ...], step: int) -> None:
    from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]  # ships no types

    image = Summary.Image(height=size[0], width=size[1], colorspace=1, encoded_image_string=gif)
    writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=name, image=image)]), step)


# Afterwards -----------------------------------------------------------------------------------------------------------


def load_model(path: str | os.PathLike[str], device: str = "cpu") -> tuple[nn.Module, Checkpoint, TrainingConfig]:
    """Return the model of a checkpoint, ready to answer, with what the file says of it.

    Raises
    ------
    SourceError
        If the file is none, or its numbers do not fit the model that it names.
    """
    checkpoint = load_checkpoint(path)
    config = TrainingConfig.from_json(checkpoint.config)
    if config.model.task != "classify":
        raise SourceError(
            f"{path} holds no classifier: it was trained for {config.model.task}",
            source=str(path),
            hint="Its operator runs it, with the weights.safetensors beside it.",
        )
    model = make_classifier(config, len(checkpoint.classes))
    try:
        model.load_state_dict(checkpoint.model)
    except RuntimeError as error:
        raise SourceError(
            f"{path} does not hold the model that it names: {str(error).splitlines()[-1].strip()}", source=str(path)
        ) from error
    return model.to(device).eval(), checkpoint, config


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a model does on samples it was not trained on."""

    classes: tuple[str, ...]
    samples: tuple[Sample, ...]
    answers: Answers
    macro_f1: float
    interval: tuple[float, float]
    """95 %, of units drawn anew."""
    accuracy: float
    parameters: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "macro_f1": self.macro_f1,
            "macro_f1_interval": list(self.interval),
            "accuracy": self.accuracy,
            "samples": len(self.samples),
            "units": len({sample.unit for sample in self.samples}),
            "parameters": self.parameters,
            "seconds": self.seconds,
            "classes": list(self.classes),
            "confusion": confusion(self.answers.truth, self.answers.answers, len(self.classes)).tolist(),
            "tge": self.answers.entropy,
        }


def evaluate(
    path: str | os.PathLike[str],
    *,
    side: str = "test",
    config: TrainingConfig | None = None,
    samples: Sequence[Sample] | None = None,
) -> Evaluation:
    """Ask a trained classifier about samples it was not trained on.

    Parameters
    ----------
    path : path
        Of a checkpoint.
    side : str
        Of the split of the training's data.
    config : TrainingConfig, optional
        Whose data to take in place of that of the training.
    samples : sequence of Sample, optional
        To ask about in place of those of the data.

    Raises
    ------
    PipelineError
        If that side has no samples.
    """
    model, checkpoint, trained = load_model(path)
    used = dataclasses.replace(trained, data=config.data) if config is not None else trained
    kept = list(samples) if samples is not None else read_samples(used.data, used.train.seed)
    if samples is None:
        sides = sorted({sample.split for sample in kept})
        kept = [sample for sample in kept if sample.split == side]
        if not kept:
            raise PipelineError(f"no sample is of the side {side!r}; known: {', '.join(sides)}", got=side)
    windows = windows_of(used, kept, checkpoint.classes, training=False)
    train = used.train
    began = time.perf_counter()
    told = answers_of(model, windows, train.views, max(train.batch, train.views), torch.device("cpu"))
    seconds = time.perf_counter() - began
    k = len(checkpoint.classes)
    return Evaluation(
        checkpoint.classes,
        tuple(kept),
        told,
        macro_f1(told.truth, told.answers, k),
        interval(told.truth, told.answers, k, [sample.unit for sample in kept]),
        accuracy(told.truth, told.answers),
        sum(p.numel() for p in model.parameters() if p.requires_grad),
        seconds,
    )
