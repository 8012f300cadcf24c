"""What encoders are compared with: a 3-D residual network, and a 2-D one whose frames are averaged. Written here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from hyperframes.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FrameAverage", "ResNet3D", "ResidualBlock", "num_parameters", "width_for"]

_STAGES = (64, 128, 256, 512)


class ResidualBlock(nn.Module):
    """Two convolutions and what they leave out: ``relu(F(x) + shortcut(x))``.

    Parameters
    ----------
    inputs, channels : int
    stride : int
        Along every axis.
    dims : {2, 3}
    """

    def __init__(self, inputs: int, channels: int, stride: int, dims: int) -> None:
        super().__init__()
        conv: type[nn.Conv2d | nn.Conv3d] = nn.Conv3d if dims == 3 else nn.Conv2d
        norm: type[nn.BatchNorm2d | nn.BatchNorm3d] = nn.BatchNorm3d if dims == 3 else nn.BatchNorm2d
        self.conv1: nn.Module = conv(inputs, channels, 3, stride, 1, bias=False)
        self.norm1: nn.Module = norm(channels)
        self.conv2: nn.Module = conv(channels, channels, 3, 1, 1, bias=False)
        self.norm2: nn.Module = norm(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != channels:
            self.shortcut = nn.Sequential(conv(inputs, channels, 1, stride, bias=False), norm(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        out = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


def _stages(width: float, dims: int) -> tuple[nn.Sequential, list[int]]:
    channels = [max(1, round(c * width)) for c in _STAGES]
    blocks: list[nn.Module] = []
    before = channels[0]
    for i, c in enumerate(channels):
        blocks += [ResidualBlock(before, c, 1 if i == 0 else 2, dims), ResidualBlock(c, c, 1, dims)]
        before = c
    return nn.Sequential(*blocks), channels


class ResNet3D(nn.Module):
    """3-D ResNet-18: every convolution is over time and space.

    Parameters
    ----------
    in_channels : int
    width : float
        Times the channels of every layer.

    Notes
    -----
    Clips (N, C, T, H, W) -> maps (N, 512, T / 8, H / 16, W / 16); `embed` is their mean.

    References
    ----------
    .. [1] D. Tran et al., "A closer look at spatiotemporal convolutions for action recognition", CVPR 2018,
       arXiv:1711.11248 (R3D-18).
    """

    def __init__(self, in_channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        self.blocks, channels = _stages(width, 3)
        self.first = nn.Sequential(
            nn.Conv3d(in_channels, channels[0], (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False),
            nn.BatchNorm3d(channels[0]),
            nn.ReLU(),
        )
        self.out_channels = channels[-1]

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        """Return the last maps."""
        out: torch.Tensor = self.blocks(self.first(clip))
        return out

    def pooled(self, maps: torch.Tensor) -> torch.Tensor:
        """Return (N, 512): the mean of the maps."""
        return maps.mean((2, 3, 4))

    def embed(self, clip: torch.Tensor) -> torch.Tensor:
        """Return the pooled vector, (N, 512)."""
        return self.pooled(self(clip))


class FrameAverage(nn.Module):
    """ResNet-18 of every frame by itself; the clip is the mean of its frames.

    Parameters
    ----------
    in_channels : int
    width : float
        Times the channels of every layer.

    Notes
    -----
    Clips (N, C, T, H, W) -> maps (N, 512, T, H / 32, W / 32); `embed` is their mean.

    References
    ----------
    .. [1] K. He, X. Zhang, S. Ren, J. Sun, "Deep residual learning for image recognition", CVPR 2016, arXiv:1512.03385.
    .. [2] L. Wang et al., "Temporal segment networks", ECCV 2016, arXiv:1608.00859 (averages of frames).
    """

    def __init__(self, in_channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        self.blocks, channels = _stages(width, 2)
        self.first = nn.Sequential(
            nn.Conv2d(in_channels, channels[0], 7, 2, 3, bias=False),
            nn.BatchNorm2d(channels[0]),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        self.out_channels = channels[-1]

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        """Return the last maps of every frame."""
        n, _, t, _, _ = clip.shape
        maps: torch.Tensor = self.blocks(self.first(clip.transpose(1, 2).flatten(0, 1)))
        return maps.reshape(n, t, *maps.shape[1:]).transpose(1, 2)

    def pooled(self, maps: torch.Tensor) -> torch.Tensor:
        """Return (N, 512): the mean of the maps over frames and places."""
        return maps.mean((2, 3, 4))

    def embed(self, clip: torch.Tensor) -> torch.Tensor:
        """Return the pooled vector, (N, 512)."""
        return self.pooled(self(clip))


def num_parameters(module: nn.Module) -> int:
    """Return how many numbers `module` learns."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def width_for(make: Callable[[float], nn.Module], parameters: int) -> float:
    """Return the width at which ``make(width)`` has nearest to `parameters` numbers to learn.

    Raises
    ------
    FrameError
        If even a width of 4 has fewer.

    Examples
    --------
    >>> width = width_for(lambda width: FrameAverage(3, width), 100_000)
    >>> 0.9 < num_parameters(FrameAverage(3, width)) / 100_000 < 1.1
    True
    """

    def count(width: float) -> int:
        with torch.device("meta"):
            return num_parameters(make(width))

    low, high = 1 / 64, 4.0
    if count(high) < parameters:
        raise FrameError(f"no width up to {high:g} has {parameters} parameters: got {count(high)}")
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    return min((low, high), key=lambda width: abs(count(width) - parameters))
