"""The way back from a hyperframe tensor to frames, to see what it lost."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

__all__ = ["FrameDecoder"]


class FrameDecoder(nn.Module):
    """Rebuild the frames of a clip: transposed convolutions, each twice as fine, after one for time.

    Parameters
    ----------
    channels : int
        C of the tensor.
    places : (W_t, h, w)
        Of the tensor.
    clip : (C, T, H, W)
        Of the clip.
    hidden : int
        Channels of the first stage; later ones have half each, but 8 at least.

    Notes
    -----
    (N, C, W_t, h, w) -> (N, C, T, H, W) in (0, 1).

    References
    ----------
    .. [1] M. D. Zeiler, D. Krishnan, G. W. Taylor, R. Fergus, "Deconvolutional networks", CVPR 2010.
    """

    def __init__(
        self, channels: int, places: tuple[int, int, int], clip: tuple[int, int, int, int], hidden: int = 48
    ) -> None:
        super().__init__()
        self.clip = tuple(clip)
        factor = max(clip[2] / places[1], clip[3] / places[2])
        self.first = nn.Conv3d(channels, hidden, 1)
        stages: list[nn.Module] = []
        before = hidden
        for _ in range(max(0, round(math.log2(factor)))):
            after = max(8, before // 2)
            stages += [nn.ReLU(), nn.ConvTranspose3d(before, after, (1, 4, 4), (1, 2, 2), (0, 1, 1))]
            before = after
        self.stages = nn.Sequential(*stages, nn.ReLU(), nn.Conv3d(before, clip[0], (3, 3, 3), padding=1))

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the frames."""
        x = self.first(tensor)
        x = functional.interpolate(x, (self.clip[1], *x.shape[3:]), mode="trilinear", align_corners=False)
        x = self.stages(x)
        if tuple(x.shape[2:]) != self.clip[1:]:
            x = functional.interpolate(x, self.clip[1:], mode="trilinear", align_corners=False)
        return torch.sigmoid(x)
