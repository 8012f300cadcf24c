"""Small networks beside the encoders: where something matters, which frames matter, what matters for a task."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from hyperframes.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ProjectionGenerator", "RefinerLSTM", "RegionUNet"]


def _stage(inputs: int, channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())


class RegionUNet(nn.Module):
    """Where something matters in a picture: (N, 3, H, W) in [0, 1] -> (N, 1, 64, 64) in [0, 1].

    Four stages of 16, 32, 64 and 128 channels, each halved after it; two stages back up, of 64 and 32 channels, each beside
    what was at its size on the way down; resized to 64 x 64, and one number a cell.

    Parameters
    ----------
    in_channels : int
    width : float
        Times the channels of every stage.
    size : (H, W)
        Of the pictures; others are resized. Multiples of 16. The cells are not square where the picture is not:
        a map applies to the picture by shares of its height and width.

    References
    ----------
    .. [1] O. Ronneberger, P. Fischer, T. Brox, "U-Net: convolutional networks for biomedical image segmentation", MICCAI
       2015, arXiv:1505.04597.
    """

    kind = "region_net"
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, in_channels: int = 3, width: float = 1.0, *, size: tuple[int, int] = (256, 448)) -> None:
        super().__init__()
        height, columns = size
        if min(size) < 16 or height % 16 or columns % 16:
            raise FrameError(f"a region net takes sides in multiples of 16: got {size}", got=size)
        self.size = (height, columns)
        self.options = {"in_channels": in_channels, "width": width, "size": size}
        c = [max(4, round(n * width)) for n in (16, 32, 64, 128)]
        self.down = nn.ModuleList(_stage(a, b) for a, b in zip([in_channels, *c], c, strict=False))
        self.up = nn.ModuleList([_stage(c[3] + c[3], c[2]), _stage(c[2] + c[2], c[1])])
        self.head = nn.Conv2d(c[1], 1, 1)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Return (N, 1, 64, 64) before the sigmoid, for losses."""
        if tuple(x.shape[2:]) != self.size:
            x = functional.interpolate(x, self.size, mode="bilinear", align_corners=False, antialias=True)
        seen = []
        for stage in self.down:
            x = stage(x)
            seen.append(x)
            x = functional.max_pool2d(x, 2)
        for stage, beside in zip(self.up, reversed(seen[2:]), strict=True):
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = stage(torch.cat([x, beside], 1))
        found: torch.Tensor = self.head(functional.interpolate(x, (64, 64), mode="bilinear", align_corners=False))
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the map."""
        return torch.sigmoid(self.logits(x))


class RefinerLSTM(nn.Module):
    """How much each frame matters, from how much moved between them: (N, T - 1, D) -> (N, T) in [0, 1].

    An LSTM and one number an interval, v in [0, 1]; a frame takes the greater of its two intervals:
    ``w_0 = v_0``, ``w_t = max(v_(t-1), v_t)``, ``w_(T-1) = v_(T-2)``. Not a softmax: where nothing moves, nothing need matter.

    Parameters
    ----------
    inputs : int
        D: values that describe an interval; 1 for its mean flow.
    hidden : int
        64 to 256.
    frames : int
        T.

    References
    ----------
    .. [1] S. Hochreiter, J. Schmidhuber, "Long short-term memory", Neural Computation 9(8), 1997,
       doi:10.1162/neco.1997.9.8.1735.
    """

    kind = "anchor_refiner"
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, inputs: int = 1, hidden: int = 128, *, frames: int = 16) -> None:
        super().__init__()
        if not 64 <= hidden <= 256 or frames < 2 or inputs < 1:
            raise FrameError(
                f"a refiner has 64 to 256 hidden values, an input and 2 frames or more: got {hidden}, {inputs}, {frames}"
            )
        self.inputs, self.frames = inputs, frames
        self.options = {"inputs": inputs, "hidden": hidden, "frames": frames}
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, 1)
        nn.init.constant_(self.linear.bias, -4)  # until it learns, nothing matters

    def intervals(self, motion: torch.Tensor) -> torch.Tensor:
        """Return (N, T - 1) logits of the intervals, for losses."""
        if motion.ndim != 3 or tuple(motion.shape[1:]) != (self.frames - 1, self.inputs):
            raise FrameError(
                f"a refiner reads intervals (N, {self.frames - 1}, {self.inputs}): got {tuple(motion.shape)}",
                got=tuple(motion.shape),
            )
        found: torch.Tensor = self.linear(self.lstm(motion)[0]).squeeze(2)
        return found

    def forward(self, motion: torch.Tensor) -> torch.Tensor:
        """Return the weights of the frames."""
        v = torch.sigmoid(self.intervals(motion))
        return torch.cat([v[:, :1], torch.maximum(v[:, :-1], v[:, 1:]), v[:, -1:]], 1)


class ProjectionGenerator(nn.Module):
    """What matters for a task, from its text: (N, 384) sentence vectors -> (N, 512, 256) matrices.

    ``relu(W t)`` of the text t brought to length 1, then a matrix whose squares add up to 1; by default of low rank, the
    product of (512, rank) and (rank, 256), since a full head learns 33.7 million numbers.

    Parameters
    ----------
    rank : int
        0: a full head.
    texts, hidden : int
        Length of the text vectors and of what is made of them.
    features, projected : int
        Rows and columns of the matrix.
    """

    kind = "task_generator"
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, rank: int = 16, *, texts: int = 384, hidden: int = 256, features: int = 512, projected: int = 256
    ) -> None:
        super().__init__()
        if rank < 0 or min(texts, hidden, features, projected) < 1:
            raise FrameError(f"a rank is 0 or more: got {rank}", got=rank)
        self.rank, self.shape, self.texts = rank, (features, projected), texts
        self.options = {
            "rank": rank,
            "texts": texts,
            "hidden": hidden,
            "features": features,
            "projected": projected,
        }
        self.first = nn.Linear(texts, hidden)
        self.heads = nn.ModuleList(
            nn.Linear(hidden, n) for n in ((features * rank, rank * projected) if rank else (features * projected,))
        )

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the matrices."""
        if text.ndim != 2 or text.shape[1] != self.texts:
            raise FrameError(f"texts are vectors (N, {self.texts}): got {tuple(text.shape)}", got=tuple(text.shape))
        h = functional.relu(self.first(functional.normalize(text, dim=1)))
        parts: list[torch.Tensor] = [head(h) for head in self.heads]
        features, projected = self.shape
        if self.rank:
            matrix = parts[0].reshape(-1, features, self.rank) @ parts[1].reshape(-1, self.rank, projected)
        else:
            matrix = parts[0].reshape(-1, features, projected)
        length: torch.Tensor = matrix.pow(2).sum((1, 2), keepdim=True).clamp_min(1e-12).sqrt()
        return matrix / length
