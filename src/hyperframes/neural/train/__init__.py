"""Training written down in TOML: `read_config`, `fit`, `evaluate`, and checkpoints that go on exactly."""

from __future__ import annotations

from hyperframes.neural.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from hyperframes.neural.train.config import TrainingConfig, read_config
from hyperframes.neural.train.decoder import FrameDecoder
from hyperframes.neural.train.fit import Evaluation, TrainResult, evaluate, fit, load_model
from hyperframes.neural.train.scores import interval, macro_f1, paired_interval

__all__ = [
    "Checkpoint",
    "Evaluation",
    "FrameDecoder",
    "TrainResult",
    "TrainingConfig",
    "evaluate",
    "fit",
    "interval",
    "load_checkpoint",
    "load_model",
    "macro_f1",
    "paired_interval",
    "read_config",
    "save_checkpoint",
]
