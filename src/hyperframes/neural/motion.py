"""Where things went between two pictures, without weights: flow in torch or by OpenCV, warping, what is hidden."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from hyperframes.errors import FrameError

__all__ = ["DenseInverseSearch", "LucasKanade", "NoFlow", "Warp", "visible"]

_NO_FLOW: Any = None  # nothing to start from; OpenCV's type hints do not know that it may be left out


class Warp(nn.Module):
    """``y(p) = x(p + u(p))`` for pictures of one size, bilinear; beyond the edge stands the edge.

    Parameters
    ----------
    height, width : int
        Of the pictures; fixed, so that the grid is a buffer.

    Notes
    -----
    Input (N, C, H, W) and flow (N, 2, H, W) in places to the right and down; output (N, C, H, W).
    """

    place: torch.Tensor
    scale: torch.Tensor

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        lines = [torch.linspace(-1, 1, n) if n > 1 else torch.zeros(1) for n in (height, width)]
        y, x = torch.meshgrid(*lines, indexing="ij")
        self.register_buffer("place", torch.stack([x, y], -1).unsqueeze(0), persistent=False)
        scale = torch.tensor([2 / max(width - 1, 1), 2 / max(height - 1, 1)])
        self.register_buffer("scale", scale, persistent=False)

    def forward(self, x: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
        """Return `x` at the places that `flow` points to."""
        grid = torch.addcmul(self.place.to(x.dtype), flow.movedim(1, -1), self.scale.to(x.dtype))
        return functional.grid_sample(x, grid, "bilinear", "border", align_corners=True)


class _Window(nn.Module):
    """The mean over the places within `radius` of each place of (N, C, H, W); as products with what each line counts.

    A window is rows times columns, and what of it lies beyond the edge does not count.
    """

    rows: torch.Tensor
    columns: torch.Tensor

    def __init__(self, height: int, width: int, radius: int) -> None:
        super().__init__()
        self.register_buffer("rows", _band(height, radius), persistent=False)
        self.register_buffer("columns", _band(width, radius).T.contiguous(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rows.to(x.dtype) @ (x @ self.columns.to(x.dtype))


def _band(size: int, radius: int) -> torch.Tensor:
    """Return (size, size): the share of each place in the mean around each place."""
    line = torch.arange(size)
    near = ((line.unsqueeze(0) - line.unsqueeze(1)).abs() <= radius).float()
    return near / near.sum(1, keepdim=True)


class LucasKanade(nn.Module):
    """Dense optical flow from the first to the second of two grey pictures, by least squares over windows.

    In each window ``sum (Ix du + Iy dv + It)^2 + noise (du^2 + dv^2)`` is least; repeated with the second picture warped
    by what is known so far, from the smallest picture of a pyramid to the largest.

    Parameters
    ----------
    size : (H, W)
        Of the pictures.
    levels : int
        At most; none is smaller than 8 on a side.
    steps : int
        Repetitions on each level.
    radius : int
        Of the window, in places.
    noise : float
        Squared slope below which a place is taken as flat and does not move by itself; pictures are in [0, 1].

    Notes
    -----
    Input twice (N, 1, H, W), output (N, 2, H, W): where what stands at p in the first is in the second, p + u(p).
    No gradient passes: flow is taken as a given.

    References
    ----------
    .. [1] B. Lucas, T. Kanade, "An iterative image registration technique with an application to stereo vision",
       IJCAI 1981.
    .. [2] J.-Y. Bouguet, "Pyramidal implementation of the Lucas Kanade feature tracker", Intel, 2000.
    """

    def __init__(
        self, size: tuple[int, int], *, levels: int = 4, steps: int = 3, radius: int = 2, noise: float = 3e-4
    ) -> None:
        super().__init__()
        if levels < 1 or steps < 1 or radius < 1 or noise <= 0:
            raise FrameError(
                f"flow needs levels, steps, a radius and noise: got {levels}, {steps}, {radius} and {noise}"
            )
        self.size, self.steps, self.noise = tuple(size), steps, noise
        height, width = size
        sizes = [(height, width)]
        while len(sizes) < levels and min(height, width) >= 16:
            height, width = height // 2, width // 2
            sizes.append((height, width))
        self.sizes = sizes
        self.warps = nn.ModuleList(Warp(*one) for one in sizes)
        self.windows = nn.ModuleList(_Window(*one, radius) for one in sizes)

    @torch.no_grad()
    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Return the flow from `first` to `second`."""
        pyramids = [first], [second]
        for size in self.sizes[1:]:
            for pyramid in pyramids:
                pyramid.append(functional.adaptive_avg_pool2d(pyramid[-1], size))
        flow = torch.zeros_like(pyramids[0][-1]).expand(-1, 2, -1, -1)
        for level in reversed(range(len(self.sizes))):
            height, width = self.sizes[level]
            if flow.shape[2:] != (height, width):
                scale = flow.new_tensor([width / flow.shape[3], height / flow.shape[2]]).reshape(1, 2, 1, 1)
                flow = functional.interpolate(flow, (height, width), mode="bilinear", align_corners=False) * scale
            flow = self._refined(pyramids[0][level], pyramids[1][level], flow, level)
        return flow

    def _refined(self, first: torch.Tensor, second: torch.Tensor, flow: torch.Tensor, level: int) -> torch.Tensor:
        warp, window = self.warps[level], self.windows[level]
        padded = functional.pad(first, (1, 1, 1, 1), mode="replicate")
        ix = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
        iy = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
        slope = 0.5 * torch.cat([ix, iy], 1)
        a, b, c = window(torch.cat([slope * slope[:, :1], slope[:, 1:] * slope[:, 1:]], 1)).unbind(1)
        a, c = a + self.noise, c + self.noise
        # Of the least squares, (N, 2, 2, H, W): what a window's sums are multiplied by.
        determinant = (a * c - b * b).unsqueeze(1)
        to_x, to_y = torch.stack([-c, b], 1).div_(determinant), torch.stack([b, -a], 1).div_(determinant)
        inverse = torch.stack([to_x, to_y], 1)
        for _ in range(self.steps):
            sums = window(slope * (warp(second, flow) - first))
            flow = flow + (inverse * sums.unsqueeze(1)).sum(2).clamp_(-1, 1)
        return flow


class DenseInverseSearch(nn.Module):
    """Dense optical flow from the first to the second of two grey pictures, by OpenCV's dense inverse search.

    Finds larger motion than `LucasKanade`, on the processor and picture by picture: it is no part of exported graphs.

    Parameters
    ----------
    size : (H, W)
        Of the pictures; at least 32 a side.

    Notes
    -----
    Input twice (N, 1, H, W) in [0, 1], read at 256 levels; output (N, 2, H, W) as of `LucasKanade`. No gradient passes.

    References
    ----------
    .. [1] T. Kroeger, R. Timofte, D. Dai, L. Van Gool, "Fast Optical Flow Using Dense Inverse Search", ECCV 2016,
       doi:10.1007/978-3-319-46493-0_29.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        if min(size) < 32:
            raise FrameError(f"dense inverse search needs at least 32 pixels a side: got {size}", got=size)
        self.size = tuple(size)

    @torch.no_grad()
    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Return the flow from `first` to `second`."""
        search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
        levels = ((255 * part[:, 0]).round().clamp(0, 255).to("cpu", torch.uint8).numpy() for part in (first, second))
        flows = [search.calc(a, b, _NO_FLOW) for a, b in zip(*levels, strict=True)]
        return torch.from_numpy(np.stack(flows).transpose(0, 3, 1, 2)).to(first)


class NoFlow(nn.Module):
    """Nothing moved: (N, 2, H, W) zeros for two pictures (N, 1, H, W), to see what flow is worth."""

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros_like(first).expand(-1, 2, -1, -1)


@torch.no_grad()
def visible(there: torch.Tensor, back: torch.Tensor, warp: nn.Module) -> torch.Tensor:
    """Return 1 where what stands at a place of the first picture is seen in the second, too, else 0.

    ``|u(p) + v(p + u(p))|^2 < 0.01 (|u|^2 + |v|^2) + 0.5`` with the flow u there and v back: who is hidden does not come
    back to where it started.

    Parameters
    ----------
    there, back : (N, 2, H, W)
        From the first to the second, and from the second to the first.
    warp : Warp
        Of their size.

    Returns
    -------
    (N, 1, H, W)

    References
    ----------
    .. [1] N. Sundaram, T. Brox, K. Keutzer, "Dense point trajectories by GPU-accelerated large displacement optical flow",
       ECCV 2010, doi:10.1007/978-3-642-15549-9_32.
    """
    returned: torch.Tensor = warp(back, there)
    gap: torch.Tensor = (there + returned).pow(2).sum(1, keepdim=True)
    length = there.pow(2).sum(1, keepdim=True) + returned.pow(2).sum(1, keepdim=True)
    return (gap < 0.01 * length + 0.5).to(there.dtype)
