"""Operators that know the two halves of a hyperframe tensor: space and time. Shapes are (N, C, W_t, H, W) throughout."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn
from torch.nn import functional

from hyperframes.errors import FrameError
from hyperframes.neural.curvature import Curvature, curvature, differences

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "AdaptiveGridWarp",
    "HDSConv",
    "LocalManifoldAttention",
    "ManifoldAwareBatchNorm",
    "TemporalGradientProjection",
    "TimeWarp",
    "TokenMerging",
    "apart",
    "merge_tokens",
    "pointwise",
    "sample_grid",
]


_WHOLE = 256
"""Places up to which attention scores all pairs at once: more products, far fewer calls."""


def apart(x: torch.Tensor, axis: int, sizes: tuple[int, ...]) -> torch.Tensor:
    """Return `x` with one axis taken apart into several; torch ships no types for its own."""
    found: torch.Tensor = x.unflatten(axis, sizes)  # type: ignore[no-untyped-call]  # as said
    return found


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Return `x` in at least 32 bits."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def pointwise(conv: nn.Conv3d, x: torch.Tensor) -> torch.Tensor:
    """Return what a 1 x 1 x 1 convolution gives, with the channels last in memory: one product of matrices.

    Convolutions go through small tensors item by item, and torch takes its slow way for kernels of one place.
    """
    return functional.linear(x.movedim(1, -1), conv.weight.flatten(1), conv.bias).movedim(-1, 1)


# Warping --------------------------------------------------------------------------------------------------------------


def sample_grid(x: torch.Tensor, grid: torch.Tensor, *, decomposed: bool = False) -> torch.Tensor:
    """Return `x` (N, C, D, H, W) sampled at `grid` (N, D', H', W', 3) of (x, y, w) in [-1, 1], trilinearly.

    The corners of the volume are -1 and 1; beyond it stands its border. `decomposed` computes the same from eight
    gathers, for targets whose own sampling has no third axis.
    """
    if not decomposed:
        return functional.grid_sample(x, grid, "bilinear", "border", align_corners=True)
    n, c, depth, height, width = x.shape
    flat = x.reshape(n, c, depth * height * width)
    places = []
    for axis, size in enumerate((width, height, depth)):
        place = ((grid[..., axis] + 1) * 0.5 * (size - 1)).clamp(0, size - 1)
        low = place.floor().clamp(max=max(size - 2, 0))
        places.append((low.long(), (low + 1).clamp(max=size - 1).long(), place - low))
    (x0, x1, fx), (y0, y1, fy), (z0, z1, fz) = places
    out = torch.zeros((n, c, *grid.shape[1:4]), dtype=x.dtype, device=x.device)
    for (z, wz), (y, wy), (k, wx) in itertools.product(
        ((z0, 1 - fz), (z1, fz)), ((y0, 1 - fy), (y1, fy)), ((x0, 1 - fx), (x1, fx))
    ):
        index = ((z * height + y) * width + k).reshape(n, 1, -1).expand(-1, c, -1)
        out = out + flat.gather(2, index).reshape(out.shape) * (wz * wy * wx).unsqueeze(1)
    return out


class _Offsets(nn.Sequential):
    """Two pointwise convolutions with a rectifier between them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, _, last = self
        assert isinstance(first, nn.Conv3d)
        assert isinstance(last, nn.Conv3d)
        return pointwise(last, functional.relu(pointwise(first, x)))


class AdaptiveGridWarp(nn.Module):
    """Resample a clip on a grid whose control points the clip itself moves.

    ``y(p) = x(p + u(p))``: a small network reads `x` pooled to the control grid and gives each point an offset,
    bounded to `bound` of the distance between two points, so that points never pass each other; `u` is the trilinear
    interpolation of the offsets. Its last layer starts at zero: at first this is the identity.

    Parameters
    ----------
    channels : int
        C of the input.
    size : (W_t, H, W)
        Of the input; fixed, so that grids are buffers.
    grid : (H, W, T)
        Control points along each axis; at most as many as there are places.
    hidden : int
        Channels of the network.
    bound : float
        Below 0.5: how far a point may move, in distances between points.
    temporal : bool
        Whether points also move along w. False samples each slice by itself with 2-D sampling, for chips that have no
        3-D one.
    causal : bool
        Whether slice w may depend on slices up to w only: every slice then has control points of its own, moved by
        the mean of the slices so far, and backward in time only.

    Notes
    -----
    Input and output (N, C, W_t, H, W). `folding` of the last control offsets is a penalty on grids that nearly fold.

    References
    ----------
    .. [1] M. Jaderberg, K. Simonyan, A. Zisserman, K. Kavukcuoglu, "Spatial transformer networks", NIPS 2015,
       arXiv:1506.02025.
    .. [2] D. Rueckert et al., "Nonrigid registration using free-form deformations", IEEE TMI 18(8), 1999,
       doi:10.1109/42.796284 (control points, folding).
    """

    identity: torch.Tensor
    limit: torch.Tensor
    share_w: torch.Tensor
    share_y: torch.Tensor
    share_x: torch.Tensor

    def __init__(
        self,
        channels: int,
        size: tuple[int, int, int],
        grid: tuple[int, int, int] = (8, 8, 4),
        *,
        hidden: int = 16,
        bound: float = 0.45,
        temporal: bool = True,
        causal: bool = False,
    ) -> None:
        super().__init__()
        if not 0 < bound < 0.5:
            raise FrameError(f"control points may move by less than half their distance: got a bound of {bound}")
        slices, height, width = size
        rows, columns, times = grid
        self.size, self.temporal, self.causal = tuple(size), temporal, causal
        self.grid = (slices if causal else min(times, slices), min(rows, height), min(columns, width))
        axes = 3 if temporal else 2
        self.offsets = _Offsets(nn.Conv3d(channels, hidden, 1), nn.ReLU(), nn.Conv3d(hidden, axes, 1))
        last = self.offsets[-1]
        assert isinstance(last, nn.Conv3d)
        assert last.bias is not None
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        spacing = [2 / max(points - 1, 1) for points in (self.grid[2], self.grid[1], self.grid[0])][:axes]
        still = [1.0 if points > 1 else 0.0 for points in (width, height, slices)][:axes]
        limit = torch.tensor([bound * s * m for s, m in zip(spacing, still, strict=True)])
        self.register_buffer("limit", limit.reshape(1, axes, 1, 1, 1), persistent=False)
        lines = [torch.linspace(-1, 1, n) if n > 1 else torch.zeros(1) for n in (slices, height, width)]
        w, y, x = torch.meshgrid(*lines, indexing="ij")
        self.register_buffer("identity", torch.stack([x, y, w][:axes], 0).unsqueeze(0), persistent=False)
        for name, points, places in zip("wyx", self.grid, size, strict=True):
            self.register_buffer(f"share_{name}", _shares(points, places), persistent=False)

    def control(self, x: torch.Tensor) -> torch.Tensor:
        """Return the offsets of the control points, (N, 3 or 2, T, H, W) of x, y[, w] in units of [-1, 1]."""
        if tuple(x.shape[2:]) != self.size:
            raise FrameError(
                f"this warp is made for {self.size} places: got {tuple(x.shape[2:])}", got=tuple(x.shape[2:])
            )
        if self.causal:
            count = torch.arange(1, x.shape[2] + 1, device=x.device, dtype=x.dtype).reshape(1, 1, -1, 1, 1)
            pooled = functional.adaptive_avg_pool3d(x, (x.shape[2], *self.grid[1:])).cumsum(2) / count
        else:
            pooled = self._pooled(x)
        return self.bounded(self.offsets(pooled))

    def bounded(self, raw: torch.Tensor) -> torch.Tensor:
        """Return what the network of offsets gave within its bounds."""
        moved = torch.tanh(raw)
        if self.causal and self.temporal:
            # Backward only; a shifted sigmoid starts near 0 and still has a slope there.
            moved = torch.cat([moved[:, :2], -torch.sigmoid(raw[:, 2:] - 4)], 1)
        return moved * self.limit.to(moved.dtype)

    def _pooled(self, x: torch.Tensor) -> torch.Tensor:
        """Return the means around the control points; as adaptive pooling, which other runtimes lack in 3-D."""
        if self.grid == self.size:
            return x  # a point at every place
        shares = (share.to(x.dtype) for share in (self.share_w, self.share_y, self.share_x))
        return torch.einsum("nctyx,at,by,dx->ncabd", x, *shares)

    def field(self, control: torch.Tensor) -> torch.Tensor:
        """Return the offsets of every place, (N, 3 or 2, W_t, H, W), from those of the control points."""
        if self.grid == self.size:
            return control
        return functional.interpolate(control, self.size, mode="trilinear", align_corners=True)

    def folding(self, control: torch.Tensor, margin: float = 0.1) -> torch.Tensor:
        """Return the mean of ``relu(margin - det J)`` of the map's Jacobian J: 0 where it is far from folding."""
        control = _wide(control)
        place = self.identity.to(control.dtype) + self.field(control)
        sizes = place.shape[2:]
        cells = [max(size - 1, 1) for size in sizes]
        rows = []
        for axis in range(place.shape[1]):  # x, y, w lie along the last, the second last and the third last axis
            size = sizes[2 - axis]
            if size == 1:  # an axis of one place cannot fold
                step = torch.zeros_like(place)
                step[:, axis] = 1
            else:
                step = (place.narrow(4 - axis, 1, size - 1) - place.narrow(4 - axis, 0, size - 1)) * ((size - 1) / 2)
            rows.append(step[:, :, : cells[0], : cells[1], : cells[2]])
        jacobian = torch.stack(rows, 2).movedim((1, 2), (-2, -1))
        return functional.relu(margin - torch.linalg.det(jacobian)).mean()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x` resampled, of its own shape."""
        place = self.identity.to(x.dtype) + self.field(self.control(x))
        grid = place.movedim(1, -1)
        if self.temporal:
            return sample_grid(x, grid)
        n, c, t, h, w = x.shape
        slices = x.transpose(1, 2).reshape(n * t, c, h, w)
        out = functional.grid_sample(slices, grid.reshape(n * t, h, w, 2), "bilinear", "border", align_corners=True)
        return out.reshape(n, t, c, h, w).transpose(1, 2)


def _shares(points: int, places: int) -> torch.Tensor:
    """Return (points, places): what each place counts in the mean of each point's part of a line."""
    shares = torch.zeros(points, places)
    for i in range(points):
        start, stop = i * places // points, -(-(i + 1) * places // points)
        shares[i, start:stop] = 1 / (stop - start)
    return shares


class TimeWarp(nn.Module):
    """Move a clip in time by offsets that a cubic B-spline gives, for cameras that were triggered apart.

    ``y(t) = x(t + s(t))``, between frames by linear interpolation, beyond the ends the end frames. One knot is a
    constant offset, more follow a drift.

    Parameters
    ----------
    slices : int
        Frames of the clip.
    knots : int
        Control values, 1 or at least 4.
    offsets : sequence of float, optional
        Frames; learned from 0 on where they are left out.

    References
    ----------
    .. [1] C. de Boor, "A Practical Guide to Splines", 1978 (uniform cubic B-splines).
    """

    basis: torch.Tensor
    frames: torch.Tensor

    def __init__(self, slices: int, knots: int = 1, offsets: list[float] | None = None) -> None:
        super().__init__()
        if knots != 1 and knots < 4:
            raise FrameError(f"a cubic spline has 1 or at least 4 control values: got {knots}")
        self.slices = slices
        start = torch.zeros(knots) if offsets is None else torch.tensor(offsets, dtype=torch.float32)
        if len(start) != knots:
            raise FrameError(f"one offset a knot: expected {knots}, got {len(start)}")
        self.offsets = nn.Parameter(start, requires_grad=offsets is None)
        self.register_buffer("basis", _spline_basis(slices, knots), persistent=False)
        self.register_buffer("frames", torch.arange(slices, dtype=torch.float32), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (N, C, W_t, H, W) at the moved times."""
        if x.shape[2] != self.slices:
            raise FrameError(f"this warp is made for {self.slices} frames: got {x.shape[2]}")
        place = self.frames.to(x.dtype) + self.basis.to(x.dtype) @ self.offsets.to(x.dtype)
        place = place.clamp(0, self.slices - 1)
        low = place.detach().floor().clamp(max=max(self.slices - 2, 0))
        share = (place - low).reshape(1, 1, -1, 1, 1)
        first = x.index_select(2, low.long())
        second = x.index_select(2, (low + 1).clamp(max=self.slices - 1).long())
        return first + share * (second - first)


def _spline_basis(slices: int, knots: int) -> torch.Tensor:
    """Return (slices, knots): how much each control value counts at each frame; every row adds up to 1."""
    if knots == 1:
        return torch.ones(slices, 1)
    basis = torch.zeros(slices, knots)
    for frame in range(slices):
        place = frame / max(slices - 1, 1) * (knots - 3)
        first = min(int(place), knots - 4)
        u = place - first
        shares = ((1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3)
        for i, share in enumerate(shares):
            basis[frame, first + i] = share / 6
    return basis


# Convolution ----------------------------------------------------------------------------------------------------------


class HDSConv(nn.Module):
    """Depthwise convolution of space and of time apart, mixed by a gate that the whole tensor sets.

    ``Y_c = (1 - g_c) PW_s(DW_2d(X[:, :C1]))_c + g_c PW_t(DW_w(X[:, C1:]))_c`` with
    ``g = sigmoid(MLP(mean of X))``, causal layers take the mean of the slices so far. ``mix="source"`` leaves space
    unscaled, as the first form of the equation did.

    Parameters
    ----------
    space, time : int
        C1 and c_t of the input.
    channels : int
        C of the output.
    kernel, slices : int
        Odd sides of the kernels in space and along w.
    stride : int
        In space.
    mix : {"gate", "source"}
        What the gate scales.
    causal : bool
        Whether the kernel along w looks backward only.

    Notes
    -----
    Input (N, C1 + c_t, W_t, H, W), output (N, C, W_t, ceil(H / stride), ceil(W / stride)) with the channels last in memory
    (``torch.channels_last_3d``): there depthwise kernels take a tenth of the time, and no pass is spent on changing it back.

    References
    ----------
    .. [1] F. Chollet, "Xception: deep learning with depthwise separable convolutions", CVPR 2017, arXiv:1610.02357.
    .. [2] D. Tran et al., "A closer look at spatiotemporal convolutions for action recognition", CVPR 2018,
       arXiv:1711.11248 (space and time apart).
    """

    def __init__(
        self,
        space: int,
        time: int,
        channels: int,
        *,
        kernel: int = 3,
        slices: int = 3,
        stride: int = 1,
        mix: Literal["gate", "source"] = "gate",
        causal: bool = False,
        hidden: int = 16,
    ) -> None:
        super().__init__()
        if kernel % 2 == 0 or slices % 2 == 0 or space < 1 or time < 1:
            raise FrameError(
                f"kernels have odd sides and both halves have channels: got {kernel}, {slices}, {space} and {time}"
            )
        self.space, self.time, self.stride, self.mix, self.causal = space, time, stride, mix, causal
        self.across = nn.Conv2d(space, space, kernel, stride, kernel // 2, groups=space, bias=False)
        self.along = nn.Conv2d(time, time, (slices, 1), groups=time, bias=False)
        self.from_space = nn.Conv2d(space, channels, 1, bias=False)
        self.from_time = nn.Conv2d(time, channels, 1, bias=False)
        self.gate = nn.Sequential(nn.Linear(space + time, hidden), nn.ReLU(), nn.Linear(hidden, channels))

    def forward(
        self, x: torch.Tensor, scale: torch.Tensor | None = None, added: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the mixed halves, times `scale` (C,), and `added` of their shape to them: both cost no pass of their own.

        `added` is written over.
        """
        n, c, t, h, w = x.shape
        if c != self.space + self.time:
            raise FrameError(f"expected {self.space} + {self.time} channels, got {c}", got=c)
        # N, W_t, H, W, channels; one split, whose gradient is one pass
        still, moving = torch.split_with_sizes(x.permute(0, 2, 3, 4, 1), [self.space, self.time], -1)
        still = self.across(still.reshape(n * t, h, w, self.space).contiguous().permute(0, 3, 1, 2))
        rows, columns = still.shape[2:]
        moving = self._along(moving)
        if self.stride > 1:
            pictures = moving.reshape(n * t, h, w, self.time).permute(0, 3, 1, 2)
            moving = functional.avg_pool2d(pictures, self.stride, ceil_mode=True).permute(0, 2, 3, 1)
        of_space, of_time = (part.flatten(0, 1).transpose(1, 2) for part in self._mixing(x, scale))
        across = still.permute(0, 2, 3, 1).reshape(len(of_space), -1, self.space)
        along = moving.reshape(len(of_time), -1, self.time)
        if added is None:
            mixed = torch.bmm(across, of_space)
        else:
            mixed = added.permute(0, 2, 3, 4, 1).reshape(*across.shape[:2], -1)
            mixed = mixed.baddbmm_(across.to(mixed.dtype), of_space.to(mixed.dtype))
        # Summed in place, which autocast does not know.
        mixed = mixed.baddbmm_(along.to(mixed.dtype), of_time.to(mixed.dtype))
        return mixed.reshape(n, t, rows, columns, -1).permute(0, 4, 1, 2, 3)

    def _along(self, moving: torch.Tensor) -> torch.Tensor:
        """Return (N, W_t, H, W, c_t) convolved along w: as pictures of W_t rows and H * W columns."""
        n, t, h, w, c = moving.shape
        reach = self.along.weight.shape[2] - 1
        rows = moving.reshape(n, t, h * w, c)
        if self.causal:
            rows = functional.pad(rows, (0, 0, 0, 0, reach, 0))
        pictures = rows.contiguous().permute(0, 3, 1, 2)
        around = (0 if self.causal else reach // 2, 0)
        out = functional.conv2d(pictures, self.along.weight, None, 1, around, groups=c)
        return out.permute(0, 2, 3, 1).reshape(n, t, h, w, c)

    def _mixing(self, x: torch.Tensor, scale: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the pointwise weights with the gate in them, (N, 1 or W_t, C, C1 and c_t); causal: of the slices up to each.

        Mixing weights and not maps saves passes over all places.
        """
        means = x.mean((3, 4)).transpose(1, 2)
        means = means.cumsum(1) / torch.ones_like(means).cumsum(1) if self.causal else means.mean(1, keepdim=True)
        gate = torch.sigmoid(self.gate(means)).unsqueeze(-1)
        still, moving = self.from_space.weight.flatten(1), self.from_time.weight.flatten(1)
        if scale is not None:
            still, moving = still * scale.unsqueeze(1), moving * scale.unsqueeze(1)
        first = (1 - gate) * still if self.mix == "gate" else still.expand(*gate.shape[:2], -1, -1)
        return first, gate * moving


# Attention ------------------------------------------------------------------------------------------------------------


class LocalManifoldAttention(nn.Module):
    """Attention over the places around each place, which reaches less far where the tensor is bent.

    ``logits = q.k / sqrt(d) - distance^2 / (2 sigma^2)`` over the neighbours within `radius`, those outside the tensor
    masked, ``sigma = reach / (1 + kappa / kappa0)`` with the curvature kappa of the input; softmax in at least 32 bits.
    The result is added to the input.

    Parameters
    ----------
    channels : int
        C, a multiple of `heads`.
    size : (W_t, H, W)
        Of the input; fixed, so that masks are buffers.
    heads : int
    radius : int
        1: the 3 x 3 x 3 places around.
    reach : float
        sigma where nothing is bent, in places.
    kappa0 : float
        Curvature that halves it; starts there and is learned.
    bent : {"gradient", "surface"}
        Which curvature.
    causal : bool
        Whether neighbours in later slices are masked, too.

    References
    ----------
    .. [1] A. Vaswani et al., "Attention is all you need", NIPS 2017, arXiv:1706.03762.
    .. [2] A. Hassani et al., "Neighborhood attention transformer", CVPR 2023, arXiv:2204.07143.
    .. [3] A. Henry et al., "Query-key normalization for transformers", EMNLP 2020, arXiv:2010.04245.
    """

    outside: torch.Tensor
    distance: torch.Tensor

    def __init__(
        self,
        channels: int,
        size: tuple[int, int, int],
        *,
        heads: int = 4,
        radius: int = 1,
        reach: float = 1.5,
        kappa0: float = 1.0,
        bent: Curvature = "gradient",
        causal: bool = False,
    ) -> None:
        super().__init__()
        if channels % heads or radius < 1:
            raise FrameError(
                f"channels are a multiple of heads and the radius at least 1: got {channels}, {heads}, {radius}"
            )
        self.size, self.heads, self.radius, self.reach, self.causal = tuple(size), heads, radius, reach, causal
        self.bent: Curvature = bent
        self.qkv = nn.Conv3d(channels, 3 * channels, 1)
        self.out = nn.Conv3d(channels, channels, 1)
        self.log_kappa0 = nn.Parameter(torch.tensor(math.log(kappa0)))
        steps = range(-radius, radius + 1)
        self.layers = [step for step in steps if not (causal and step > 0)]
        self.whole = math.prod(size) <= _WHOLE
        if self.whole:
            distance, outside = _distances(self.size, radius, causal=causal)
            self.register_buffer("distance", distance, persistent=False)
            self.register_buffer("outside", outside, persistent=False)
            return
        around = list(itertools.product(self.layers, steps, steps))
        inside = functional.pad(torch.ones(1, 1, *size), (radius,) * 6)[0, 0] > 0
        outside = ~torch.stack([_shifted(inside, step, self.size, radius) for step in around])
        self.register_buffer("outside", outside[:, None, :, :, :, None], persistent=False)
        squared = torch.tensor([float(a * a + b * b + c * c) for a, b, c in around])
        self.register_buffer("distance", squared.reshape(-1, 1, 1, 1, 1, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x` and what its neighbourhoods add to it."""
        places = tuple(x.shape[2:])
        if places != self.size:
            raise FrameError(f"this attention is made for {self.size} places: got {places}", got=places)
        rows = self._of_all(x) if self.whole else self._of_near(x)
        return x + functional.linear(rows, self.out.weight.flatten(1), self.out.bias).permute(0, 4, 1, 2, 3)

    def _of_all(self, x: torch.Tensor) -> torch.Tensor:
        """Return what is mixed, (N, W_t, H, W, C), from the scores of all pairs of places: few calls for few places."""
        q, k, v = (part.flatten(1, 3).transpose(1, 2) for part in self._asked(x))
        bent = -0.5 * self._sigma(x).flatten(1).pow(-2)
        closeness = (self.distance.to(bent.dtype) * bent[:, None, :, None]).masked_fill(self.outside, -math.inf)
        with torch.autocast(x.device.type, enabled=False):
            mixed = functional.scaled_dot_product_attention(q, k, v.to(q.dtype), closeness.to(q.dtype))
        return apart(mixed.to(v.dtype).transpose(1, 2).flatten(2), 1, self.size)

    def _of_near(self, x: torch.Tensor) -> torch.Tensor:
        """Return the same, looking at neighbours only, step by step in time."""
        q, k, v = self._asked(x)
        # K is (slice of the neighbour, row, column): all rows and columns at once, by views of what is padded.
        scores = torch.stack([(q * near).sum(-1) for near in self._near(k)]).flatten(0, 2)
        weights = self._weights(scores / math.sqrt(q.shape[-1]), x).to(v.dtype)
        side = 2 * self.radius + 1
        parts = weights.reshape(-1, side, side, *weights.shape[1:], 1).unbind(0)
        mixed = [(part * near).sum((0, 1)) for part, near in zip(parts, self._near(v), strict=True)]
        return torch.stack(mixed).sum(0).flatten(4)

    def _asked(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return q, k and v, (N, W_t, H, W, heads, d) each; the values of a place stand together, as `HDSConv` gives them."""
        rows, weight, bias = x.permute(0, 2, 3, 4, 1), self.qkv.weight.flatten(1), self.qkv.bias
        assert bias is not None
        to = 2 * x.shape[1]
        q, k = _normalized(apart(functional.linear(rows, weight[:to], bias[:to]), 4, (2, self.heads, -1))).unbind(4)
        return q, k, apart(functional.linear(rows, weight[to:], bias[to:]), 4, (self.heads, -1))

    def _near(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield (side, side, N, W_t, H, W, heads, d) for each step in time: views of `x`, 0 outside."""
        r, t = self.radius, self.size[0]
        padded = functional.pad(x, (0, 0, 0, 0, r, r, r, r, r, r))
        for step in self.layers:
            windows = padded.narrow(1, r + step, t).unfold(2, 2 * r + 1, 1).unfold(3, 2 * r + 1, 1)
            yield windows.permute(6, 7, 0, 1, 2, 3, 4, 5)

    @torch.no_grad()
    def largest_logit(self, x: torch.Tensor) -> float:
        """Return the greatest ``|q.k| / sqrt(d)`` between places of `x`, wherever they are: what might saturate."""
        q, k, _ = (part.flatten(1, 3).transpose(1, 2) for part in self._asked(x))
        return float((q @ k.transpose(2, 3)).abs().max()) / math.sqrt(q.shape[-1])

    def _weights(self, scores: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return the softmax over neighbours of (K, N, W_t, H, W, heads) scores."""
        sigma = self._sigma(x).movedim(1, -1)
        logits = scores - self.distance.to(scores.dtype) / (2 * sigma.to(scores.dtype) ** 2)
        return torch.softmax(logits.masked_fill(self.outside, -math.inf), 0)

    def _sigma(self, x: torch.Tensor) -> torch.Tensor:
        """Return how far each place reaches, (N, 1, W_t, H, W)."""
        return self.reach / (1 + curvature(x, self.bent, causal=self.causal) / self.log_kappa0.exp())


def _distances(size: tuple[int, ...], radius: int, *, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the squared distances of all places to all, (P, P), and where one does not look at the other."""
    lines = [torch.arange(n, dtype=torch.float32) for n in size]
    places = torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).flatten(0, -2)
    steps = places.unsqueeze(0) - places.unsqueeze(1)  # [i, j]: from i to j
    outside = (steps.abs() > radius).any(-1)
    if causal:
        outside = outside | (steps[..., 0] > 0)
    return steps.pow(2).sum(-1), outside


def _shifted(padded: torch.Tensor, step: tuple[int, int, int], size: tuple[int, ...], radius: int) -> torch.Tensor:
    """Return the places of a tensor padded by `radius` that lie `step` away from its own."""
    for axis, (s, n) in enumerate(zip(step, size, strict=True), -3):
        padded = padded.narrow(axis, radius + s, n)
    return padded


def _normalized(x: torch.Tensor) -> torch.Tensor:
    """Return `x` with mean 0 and variance 1 over its last axis, in at least 32 bits, so that no product runs away."""
    return functional.layer_norm(_wide(x), x.shape[-1:], eps=1e-6)


# Projection and normalisation -----------------------------------------------------------------------------------------


class TemporalGradientProjection(nn.Module):
    """How much each place changes in the way of each prototype.

    ``score = P g / (|g| + eps)`` with the gradient g along w of the channels (central differences, one-sided at the
    ends) and orthonormal prototypes P: a cosine, in [-1, 1]. A principal component has no sign of its own, so `absolute`
    scores are the default.

    Parameters
    ----------
    channels : int
        C.
    prototypes : int
        At most C.

    Notes
    -----
    Input (N, C, W_t, H, W), output (N, prototypes, W_t, H, W). `fit` sets the prototypes; until then they are the first
    axes.

    References
    ----------
    .. [1] I. T. Jolliffe, "Principal Component Analysis", 2nd edition, 2002.
    """

    prototypes: torch.Tensor

    def __init__(self, channels: int, prototypes: int = 32, *, absolute: bool = True, causal: bool = False) -> None:
        super().__init__()
        if not 1 <= prototypes <= channels:
            raise FrameError(f"prototypes are at most as many as channels: got {prototypes} of {channels}")
        self.absolute, self.causal = absolute, causal
        self.register_buffer("prototypes", torch.eye(prototypes, channels))

    @torch.no_grad()
    def fit(self, x: torch.Tensor) -> None:
        """Take the principal directions of the changes in `x` (N, C, W_t, H, W) as prototypes.

        Directions are signed so that their largest part is positive; where `x` changes in fewer ways than there are
        prototypes, axes orthogonal to them fill up.
        """
        changes = differences(x.double(), 2).movedim(1, -1).reshape(-1, x.shape[1])
        _, values, ways = torch.linalg.svd(changes.T @ changes)
        count = len(self.prototypes)
        found = ways[:count]
        rank = int((values[:count] > values[0] * 1e-12).sum()) if float(values[0]) > 0 else 0
        if rank < count:
            rest = torch.cat([found[:rank], torch.eye(x.shape[1], dtype=torch.float64, device=x.device)])
            found = torch.linalg.qr(rest.T)[0].T[:count]
        largest = found.gather(1, found.abs().argmax(1, keepdim=True))
        self.prototypes.copy_(found * torch.sign(largest))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        if x.shape[2] < 2:
            raise FrameError(f"a gradient along w needs at least 2 slices: got {x.shape[2]}")
        change = differences(_wide(x), 2, causal=self.causal)
        length = change.pow(2).sum(1, keepdim=True)
        unit = change * torch.where(length > 0, torch.rsqrt(length.clamp_min(1e-24)), torch.zeros_like(length))
        score = torch.einsum("pc,nctyx->nptyx", self.prototypes.to(unit.dtype), unit)
        return (score.abs() if self.absolute else score).to(x.dtype)


class ManifoldAwareBatchNorm(nn.Module):
    """Batch normalisation whose running statistics follow slowly where the batch is bent.

    ``m = clip(momentum * 2 / (1 + kbar / kref), least, most)`` with the batch's mean curvature kbar and its running
    mean kref. Normalises with the batch in training, with the running statistics in evaluation.

    Parameters
    ----------
    channels : int
    momentum : float
        Where the batch is as bent as usual.
    limits : (least, most)

    Notes
    -----
    Only what evaluation uses depends on the curvature: training steps are those of ordinary batch normalisation.

    References
    ----------
    .. [1] S. Ioffe, C. Szegedy, "Batch normalization", ICML 2015, arXiv:1502.03167.
    """

    mean: torch.Tensor
    variance: torch.Tensor
    usual: torch.Tensor

    def __init__(
        self, channels: int, *, momentum: float = 0.1, limits: tuple[float, float] = (0.01, 0.3), eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.momentum, self.limits, self.eps = momentum, limits, eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))
        self.register_buffer("usual", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x` normalised per channel."""
        if not self.training:
            scale, shift = self.affine()
            return torch.addcmul(_channels(shift, x), x, _channels(scale, x))
        # A momentum of 1 leaves the batch's own statistics in them: one pass for both.
        mean, variance = torch.zeros_like(self.mean), torch.zeros_like(self.variance)
        out = torch.batch_norm(x, self.weight, self.bias, mean, variance, True, 1.0, self.eps, False)
        self._follow(x.detach(), mean, variance)
        return out

    def affine(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what evaluation multiplies by and adds, (C,) each."""
        scale = self.weight * torch.rsqrt(self.variance + self.eps).to(self.weight.dtype)
        return scale, self.bias - self.mean.to(self.weight.dtype) * scale

    @torch.no_grad()
    def _follow(self, x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
        bent = curvature(x).mean().to(self.usual.dtype)
        usual = torch.where(self.usual > 0, self.usual, bent)
        momentum = (self.momentum * 2 / (1 + bent / usual.clamp_min(1e-12))).clamp(*self.limits)
        self.mean.lerp_(mean, momentum)
        self.variance.lerp_(variance.nan_to_num(0.0), momentum)  # of a single place there is none
        self.usual.copy_(usual.lerp(bent, 0.1))


def _channels(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return values.to(x.dtype).reshape(1, -1, 1, 1, 1)


# Token merging --------------------------------------------------------------------------------------------------------


def merge_tokens(
    tokens: torch.Tensor, sizes: torch.Tensor, count: int, leading: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge the `count` most alike pairs of tokens, each of one token at an even and one at an odd place.

    Parameters
    ----------
    tokens : (N, L, D)
    sizes : (N, L)
        How many tokens each stands for.
    count : int
        At most L // 2.
    leading : int, optional
        Only so many of the D values say what is alike; the others are merged along.

    Returns
    -------
    (N, L - count, D) means weighted by size, and (N, L - count) sizes
        In the order of their places; a merged token stands at its odd one.

    References
    ----------
    .. [1] D. Bolya et al., "Token merging: your ViT but faster", ICLR 2023, arXiv:2210.09461 (bipartite soft matching).
    """
    length = tokens.shape[1]
    count = min(count, length // 2)
    if count <= 0:
        return tokens, sizes
    even, odd = tokens[:, ::2], tokens[:, 1::2]
    size_even, size_odd = sizes[:, ::2], sizes[:, 1::2]
    unit_even, unit_odd = (functional.normalize(_wide(part[..., :leading]), dim=-1) for part in (even, odd))
    best, partner = (unit_even @ unit_odd.transpose(1, 2)).max(2)
    order = best.topk(best.shape[1], 1).indices
    merged, kept = order[:, :count], order[:, count:].sort(1).values
    target = partner.gather(1, merged)
    weight = size_even.gather(1, merged)
    moved = even.gather(1, _wider(merged, even)) * weight.unsqueeze(-1)
    total = size_odd.scatter_add(1, target, weight)
    summed = (odd * size_odd.unsqueeze(-1)).scatter_add(1, _wider(target, odd), moved)
    result = torch.cat([even.gather(1, _wider(kept, even)), summed / total.unsqueeze(-1)], 1)
    places = torch.cat([2 * kept, (2 * torch.arange(odd.shape[1], device=odd.device) + 1).expand(len(odd), -1)], 1)
    order = places.argsort(1)
    return result.gather(1, _wider(order, result)), torch.cat([size_even.gather(1, kept), total], 1).gather(1, order)


def _wider(index: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return index.unsqueeze(-1).expand(-1, -1, like.shape[-1])


class TokenMerging(nn.Module):
    """Merge tokens until `keep` are left; `enabled` False keeps them all, for tasks of fine order in time.

    Input (N, L, D) and output (N, `keep`, D) with the sizes (N, `keep`): attention over merged tokens adds the logarithm
    of their sizes to its logits, so that a token that stands for many counts as many.
    """

    def __init__(self, keep: int, *, enabled: bool = True) -> None:
        super().__init__()
        if keep < 1:
            raise FrameError(f"at least one token stays: got {keep}")
        self.keep, self.enabled = keep, enabled

    def forward(self, tokens: torch.Tensor, leading: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens that are left, and how many each stands for; `leading` as in `merge_tokens`."""
        sizes = torch.ones(tokens.shape[:2], dtype=tokens.dtype, device=tokens.device)
        while self.enabled and tokens.shape[1] > self.keep:
            count = min(tokens.shape[1] - self.keep, tokens.shape[1] // 2)
            tokens, sizes = merge_tokens(tokens, sizes, count, leading)
        return tokens, sizes
