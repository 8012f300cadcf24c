"""Learned hyperframes: tensors of space and time, the layers that know both, and what trains them. Needs torch.

Everything is (N, C, W_t, H, W): `HyperTensor` says which of the C channels are space and which time.
"""

from __future__ import annotations

from hyperframes.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401 - only to say what is missing
except ImportError as _error:
    raise MissingExtraError("hyperframes.neural", "neural") from _error

from hyperframes.neural import baselines
from hyperframes.neural.answering import answering
from hyperframes.neural.curvature import curvature
from hyperframes.neural.encoders import MCH, SCH, Classifier, Encoder, Hybrid, HyperBlock
from hyperframes.neural.event_encoder import EDH, event_grid
from hyperframes.neural.layers import (
    AdaptiveGridWarp,
    HDSConv,
    LocalManifoldAttention,
    ManifoldAwareBatchNorm,
    TemporalGradientProjection,
    TimeWarp,
    TokenMerging,
    merge_tokens,
    sample_grid,
)
from hyperframes.neural.losses import HyperframeLoss
from hyperframes.neural.metrics import coverage, jitter, reconstruction_psnr, temporal_entropy
from hyperframes.neural.motion import LucasKanade
from hyperframes.neural.nets import ProjectionGenerator, RefinerLSTM, RegionUNet
from hyperframes.neural.schedule import CurvatureCosine
from hyperframes.neural.tensor import HyperTensor
from hyperframes.neural.weights import load_weights, save_weights

__all__ = [
    "EDH",
    "MCH",
    "SCH",
    "AdaptiveGridWarp",
    "Classifier",
    "CurvatureCosine",
    "Encoder",
    "HDSConv",
    "Hybrid",
    "HyperBlock",
    "HyperTensor",
    "HyperframeLoss",
    "LocalManifoldAttention",
    "LucasKanade",
    "ManifoldAwareBatchNorm",
    "ProjectionGenerator",
    "RefinerLSTM",
    "RegionUNet",
    "TemporalGradientProjection",
    "TimeWarp",
    "TokenMerging",
    "answering",
    "baselines",
    "coverage",
    "curvature",
    "event_grid",
    "jitter",
    "load_weights",
    "merge_tokens",
    "reconstruction_psnr",
    "sample_grid",
    "save_weights",
    "temporal_entropy",
]
