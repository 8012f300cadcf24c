"""One training step of any task, as lightning takes it: every random number follows from the seed and the step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import lightning
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from hyperframes.errors import OperatorError, SourceError
from hyperframes.neural.metrics import reconstruction_psnr
from hyperframes.neural.schedule import CurvatureCosine
from hyperframes.neural.train.decoder import FrameDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.neural.train.checkpoint import Checkpoint
    from hyperframes.neural.train.config import TrainingConfig
    from hyperframes.neural.train.tasks import Scored, Task

__all__ = ["Learner", "loader"]

_SEED_STEP = 1_000_003
"""Seeds of neighbouring steps are that far apart, so that those of neighbouring seeds do not meet."""


class _Steps(IterableDataset):  # type: ignore[type-arg]  # batches are the task's own
    def __init__(self, task: Task, first: int, last: int) -> None:
        self._task, self._first, self._last = task, first, last

    def __iter__(self) -> Iterator[Any]:
        for step in range(self._first, self._last):
            yield self._task.batch(step)

    def __len__(self) -> int:
        return self._last - self._first


def loader(task: Task, first: int, last: int) -> DataLoader[Any]:
    """Return the batches of the steps [first, last)."""
    return DataLoader(_Steps(task, first, last), batch_size=None)


class Learner(lightning.LightningModule):
    """Takes steps: loss, learning rate by curvature, and a decoder beside it that shows what was lost.

    Parameters
    ----------
    task : Task
    config : TrainingConfig
    start : Checkpoint, optional
        What to go on from.
    """

    def __init__(self, task: Task, config: TrainingConfig, start: Checkpoint | None = None) -> None:
        super().__init__()
        train = config.train
        self.task, self.config = task, config
        self.model = task.model
        self.first = start.step if start else 0
        self.schedule = CurvatureCosine(
            train.steps, train.learning_rate, train.floor, min(train.warm_up, train.steps), train.alpha
        )
        self.told: dict[str, float] = {}
        """Numbers of the last step."""
        self.decoder: FrameDecoder | None = None
        if config.monitor.decoder != "none":
            self.decoder = self._decoder()
        self._start = start
        if start is not None:
            self.schedule.usual = start.progress.get("usual")
            self.model.load_state_dict(start.model)
            if self.decoder is not None:
                self.decoder.load_state_dict(start.decoder)

    def _decoder(self) -> FrameDecoder | None:
        sample = self.task.batch(0)
        found = self.task.sample_tensor()
        if found is None:
            return None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.train.seed + 1)
            channels, *places = found[0].shape[1:]
            slices, height, width = places
            c, t, h, w = sample.clips.shape[1:]
            return FrameDecoder(channels, (slices, height, width), (c, t, h, w))

    @property
    def step(self) -> int:
        """How many steps were taken, by this run and those that it goes on from."""
        return self.first + int(self.global_step)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW, with what it knew where the training goes on; only matrices and kernels decay."""
        decayed = [p for p in self.parameters() if p.requires_grad and p.ndim > 1]
        others = [p for p in self.parameters() if p.requires_grad and p.ndim <= 1]
        optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": self.config.train.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=self.config.train.learning_rate,
        )
        if self._start is not None:
            parameters = dict(self.named_parameters())
            for key, value in self._start.optimizer.items():
                name, _, field = key.rpartition("/")
                if name not in parameters or (value.ndim and value.shape != parameters[name].shape):
                    raise SourceError(f"the checkpoint's optimizer does not fit the model: {name or key!r}")
                optimizer.state[parameters[name]][field] = value.to(
                    parameters[name].device if value.ndim else "cpu"
                ).clone()
            self._start = None
        return optimizer

    def optimizer_tensors(self) -> dict[str, torch.Tensor]:
        """Return what the optimizer knows of each parameter, as ``PARAMETER/NAME``."""
        optimizer = self.trainer.optimizers[0]
        return {
            f"{name}/{field}": value
            for name, parameter in self.named_parameters()
            for field, value in optimizer.state.get(parameter, {}).items()
        }

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Seed the step, so that dropout is the same whether or not the run was interrupted before it."""
        torch.manual_seed(self.config.train.seed * _SEED_STEP + self.step)
        self.task.before(self.step)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        """Return the loss of the batch, and set the learning rate that its curvature calls for."""
        scored = self.task.scored(batch)
        loss = scored.loss + self._rebuilding(scored)
        if not math.isfinite(float(loss.detach())):
            raise OperatorError(
                f"training ran away at step {self.step}: the loss is {float(loss.detach())}",
                stage="train",
                hint="Lower learning_rate, or raise warm_up.",
            )
        rate = self.schedule.rate(self.step, scored.curvature)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate
        self.told = {**scored.numbers, "loss": float(loss.detach()), "learning_rate": rate, **self._fhre}
        return loss

    _fhre: dict[str, float] = {}  # noqa: RUF012 - replaced whole at every step

    def _rebuilding(self, scored: Scored) -> torch.Tensor:
        """Return the decoder's own loss; its gradient reaches the model only where it is trained together."""
        if self.decoder is None or scored.tensor is None or scored.clips is None:
            return scored.loss.new_zeros(())
        tensor = scored.tensor if self.config.monitor.decoder == "joint" else scored.tensor.detach()
        rebuilt = self.decoder(tensor)
        self._fhre = {"fhre": reconstruction_psnr(scored.clips, rebuilt.detach())}
        return functional.mse_loss(rebuilt.float(), scored.clips)
