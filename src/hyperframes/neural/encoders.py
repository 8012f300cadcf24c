"""Encoders: clips in, hyperframe tensors out. What moves (MCH), what stays the same (SCH), both, and a head to classify.

Every encoder is made for clips of one size, so that grids and masks are buffers; pictures of other sizes are resized.
"""

from __future__ import annotations

import itertools
import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from torch.nn import functional

from hyperframes.errors import FrameError
from hyperframes.neural.curvature import curvature
from hyperframes.neural.layers import (
    AdaptiveGridWarp,
    HDSConv,
    LocalManifoldAttention,
    ManifoldAwareBatchNorm,
    TemporalGradientProjection,
    TokenMerging,
    apart,
    pointwise,
)
from hyperframes.neural.motion import DenseInverseSearch, LucasKanade, NoFlow, Warp, visible
from hyperframes.neural.tensor import HyperTensor, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MCH", "SCH", "Classifier", "Encoder", "Hybrid", "HyperBlock"]

Norm = Literal["manifold", "batch"]
Convolution = Literal["hds", "3d"]
Flow = Literal["lucas_kanade", "dis", "none"]


def scaled(channels: int, width: float) -> int:
    """Return `channels` times `width`, a multiple of 8 and at least 8."""
    return max(8, round(channels * width / 8) * 8)


# Parts ----------------------------------------------------------------------------------------------------------------


class Separable(nn.Sequential):
    """Depthwise 3 x 3 (with stride), pointwise, normalised, rectified: (N, C, H, W) -> (N, channels, H / s, W / s)."""

    def __init__(self, inputs: int, channels: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        )


class Pyramid(nn.Module):
    """Features of single pictures at strides 4, 8 and so on: (N, C, H, W) -> a list of maps, finest first.

    Parameters
    ----------
    inputs : int
        C of the pictures.
    channels : sequence of int
        First of the stride-2 stage, whose map is not returned, then one a returned map.
    """

    def __init__(self, inputs: int, channels: Sequence[int]) -> None:
        super().__init__()
        first, *others = channels
        self.first = nn.Sequential(nn.Conv2d(inputs, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU())
        self.stages = nn.ModuleList()
        for before, after in zip(channels, others, strict=False):
            self.stages.append(Separable(before, after, 2))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the maps."""
        x, maps = self.first(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class HyperBlock(nn.Module):
    """``relu(x + norm(conv(x)))`` on a hyperframe tensor, of its own shape.

    Parameters
    ----------
    space, time : int
        C1 and c_t.
    convolution : {"hds", "3d"}
        `HDSConv`, or the ordinary 3 x 3 x 3 convolution that it replaces.
    norm : {"manifold", "batch"}
        `ManifoldAwareBatchNorm`, or ordinary batch normalisation.
    causal : bool
        Whether slices know earlier ones only.
    """

    def __init__(
        self, space: int, time: int, *, convolution: Convolution = "hds", norm: Norm = "manifold", causal: bool = False
    ) -> None:
        super().__init__()
        channels = space + time
        if causal and convolution == "3d":
            raise FrameError("an ordinary 3-D convolution is not causal: expected convolution 'hds'")
        self.conv: nn.Module = (
            HDSConv(space, time, channels, causal=causal)
            if convolution == "hds"
            else nn.Conv3d(channels, channels, 3, padding=1, bias=False)
        )
        self.norm: nn.Module = ManifoldAwareBatchNorm(channels) if norm == "manifold" else nn.BatchNorm3d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        if self.training or not isinstance(self.conv, HDSConv) or not hasattr(self.norm, "affine"):
            return functional.relu_(self.norm(self.conv(x)) + x)  # in this order the layout in memory is that of conv
        norm: Any = self.norm
        scale, shift = norm.affine()
        added = x + shift.to(x.dtype).reshape(1, -1, 1, 1, 1)
        return functional.relu_(self.conv(x, scale, added))


class Encoder(nn.Module):
    """What encoders share: their split, resizing, and the pooled vector.

    Attributes
    ----------
    space, time, slices : int
        C1, c_t and W_t: `forward` gives (N, space + time, slices, H, W).
    out_channels : int
        C1 + c_t * W_t: channels of the packed tensor, and length of the embedding.
    size : (T, H, W)
        Of the clips it is made for.
    options : mapping
        What it was made with, as `save_weights` writes it down.
    """

    kind: Kind = "other"
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, size: tuple[int, int, int], space: int, time: int, slices: int, *, causal: bool = False) -> None:
        super().__init__()
        self.size, self.space, self.time, self.slices, self.causal = size, space, time, slices, causal
        self.out_channels = space + time * slices
        self.head_space = nn.Conv3d(space + time, space, 1)
        self.head_time = nn.Conv3d(space + time, time, 1)

    def _fitted(self, clip: torch.Tensor) -> torch.Tensor:
        """Return (N, C, T, H, W) resized to the size that this encoder is made for."""
        frames, height, width = self.size
        if clip.ndim != 5 or clip.shape[2] != frames:
            raise FrameError(
                f"this encoder takes clips (N, C, {frames}, H, W): got {tuple(clip.shape)}", got=tuple(clip.shape)
            )
        if tuple(clip.shape[3:]) == (height, width):
            return clip
        pictures = functional.interpolate(
            folded(clip), (height, width), mode="bilinear", align_corners=False, antialias=clip.shape[3] > height
        )
        return unfolded(pictures, frames)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """Return the halves of the result: space, the same in every slice, and time.

        Causal encoders give each slice the space of the slices up to it.
        """
        still = pointwise(self.head_space, self._so_far(x) if self.causal else x.mean(2, keepdim=True))
        return torch.cat([still.expand(-1, -1, x.shape[2], -1, -1), pointwise(self.head_time, x)], 1)

    @staticmethod
    def _so_far(x: torch.Tensor) -> torch.Tensor:
        slices = x.unbind(2)
        sums = [slices[0]]
        for one in slices[1:]:
            sums.append(sums[-1] + one)
        return torch.stack([total / (i + 1) for i, total in enumerate(sums)], 2)

    def packed(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return (N, C1 + c_t * W_t, H, W) of what `forward` gave."""
        return torch.cat([tensor[:, : self.space].mean(2), tensor[:, self.space :].flatten(1, 2)], 1)

    def pooled(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return (N, out_channels): the mean over places of what `forward` gave, packed."""
        means = tensor.mean((3, 4))
        return torch.cat([means[:, : self.space].mean(2), means[:, self.space :].flatten(1)], 1)

    def embed(self, x: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
        """Return the pooled vector of each item, (N, out_channels)."""
        return self.pooled(self(x))

    def tensor(
        self, x: torch.Tensor | list[torch.Tensor], source: str = "", ranges: tuple[tuple[int, int], ...] = ()
    ) -> HyperTensor:
        """Return the hyperframe tensor with its split, curvature and source."""
        data = self(x)
        return HyperTensor(data, self.space, self.kind, curvature(data, causal=self.causal), source, ranges)


def folded(clip: torch.Tensor) -> torch.Tensor:
    """Return (N, C, T, H, W) as pictures (N * T, C, H, W)."""
    return clip.transpose(1, 2).flatten(0, 1)


def unfolded(pictures: torch.Tensor, frames: int) -> torch.Tensor:
    """Return pictures (N * T, C, H, W) as (N, C, T, H, W)."""
    return apart(pictures, 0, (-1, frames)).transpose(1, 2)


# Motion ---------------------------------------------------------------------------------------------------------------


class MCH(Encoder):
    """Motion-centric hyperframe: frames brought to one reference frame along their motion, and what that leaves.

    1. Features of every frame: a separable convolutional net, stride 8.
    2. Flow between the reference frame r (the middle one) and each frame t, both ways, from `LucasKanade` on luma at a
       quarter of the size, from `DenseInverseSearch` on luma at the whole size, or as given.
    3. ``g_t = f_t(p + u_t(p))`` and the residual ``e_t = m_t (g_t - f_r)`` with the mask m_t of what is visible in both.
    4. T frames become W_t slices: space ``f_r + mean e_t`` of the slice's frames; time from the mean of e_t and
       of its size, the steps of f from frame to frame, u_t and m_t.
    5. `AdaptiveGridWarp`, blocks of `HDSConv` and `ManifoldAwareBatchNorm`, `LocalManifoldAttention`, and the two heads.

    Parameters
    ----------
    in_channels : int
        Of the frames: 3 RGB, 1 grey.
    width : float
        Times the channels of every layer.
    causal : bool
        The first frame is the reference and no slice depends on frames after its last one.
    size : (T, H, W)
        Of the clips; at least 16 pixels a side.
    slices : int
        W_t; at most T.
    depth : int
        Blocks.
    warp, attention : bool
        Whether the grid warp and the attention are there.
    convolution, norm : str
        See `HyperBlock`.
    flow : {"lucas_kanade", "dis", "none"}
        How motion is found; with none, frames are compared place by place.

    Notes
    -----
    `forward` takes clips (N, C, T, H, W) of floats in [0, 1], and optionally the flow (N, 4, T, h, w) of any h and w: pixels of
    the clip by which what stands at a place of the reference frame is to the right and down in frame t, then the same
    from frame t back to the reference. It gives (N, 128 + 64, 4, H / 8, W / 8), packed (N, 384, 32, 32) at 256 pixels.

    References
    ----------
    .. [1] X. Zhu, Y. Wang, J. Dai, L. Yuan, Y. Wei, "Flow-guided feature aggregation for video object detection", ICCV
       2017, arXiv:1703.10025.
    """

    kind: Kind = "mch"
    luma: torch.Tensor
    groups: torch.Tensor
    per_pixel: torch.Tensor
    flow_pixels: torch.Tensor

    def __init__(
        self,
        in_channels: int = 3,
        width: float = 1.0,
        causal: bool = False,
        *,
        size: tuple[int, int, int] = (16, 256, 256),
        slices: int = 4,
        depth: int = 2,
        warp: bool = True,
        attention: bool = True,
        convolution: Convolution = "hds",
        norm: Norm = "manifold",
        flow: Flow = "lucas_kanade",
    ) -> None:
        frames, height, width_px = _checked_size(size, 16)
        options = {"in_channels": in_channels, "width": width, "causal": causal, "size": size, "slices": slices}
        slices = min(slices, frames)
        space, time = scaled(128, width), scaled(64, width)
        super().__init__((frames, height, width_px), space, time, slices, causal=causal)
        self.options = options | {
            "depth": depth,
            "warp": warp,
            "attention": attention,
            "convolution": convolution,
            "norm": norm,
            "flow": flow,
        }
        self.reference = 0 if causal else frames // 2
        features = scaled(96, width)
        self.frames = Pyramid(in_channels, [scaled(24, width), scaled(48, width), features])
        self.map = _strided(height, 3), _strided(width_px, 3)
        self.flow_size = (height, width_px) if flow == "dis" else (_strided(height, 2), _strided(width_px, 2))
        self.flow = _flow(flow, self.flow_size)
        self.to_reference = Warp(*self.map)
        self.from_space = nn.Conv3d(features, space, 1)
        self.from_time = nn.Conv3d(3 * features + 4, time, 1)
        place = (slices, *self.map)
        self.grid = AdaptiveGridWarp(space + time, place, causal=causal) if warp else nn.Identity()
        self.blocks = nn.Sequential(
            *(HyperBlock(space, time, convolution=convolution, norm=norm, causal=causal) for _ in range(depth))
        )
        self.attention = LocalManifoldAttention(space + time, place, causal=causal) if attention else nn.Identity()
        luma = torch.tensor([0.299, 0.587, 0.114]) if in_channels == 3 else torch.full((in_channels,), 1 / in_channels)
        self.register_buffer("luma", luma.reshape(1, -1), persistent=False)
        self.register_buffer("groups", _groups(frames, slices), persistent=False)
        # Of the flow in pixels of the clip: in places of the map for warping.
        self.register_buffer(
            "per_pixel",
            torch.tensor([self.map[1] / width_px, self.map[0] / height] * 2).reshape(1, 4, 1, 1),
            persistent=False,
        )
        self.register_buffer(
            "flow_pixels",
            torch.tensor([width_px / self.flow_size[1], height / self.flow_size[0]] * 2).reshape(1, 4, 1, 1),
            persistent=False,
        )

    def motion(self, clip: torch.Tensor) -> torch.Tensor:
        """Return the flow (N, 4, T, h, w) between the reference and every frame, in pixels of the clip."""
        clip = self._fitted(clip)
        frames = self.size[0]
        luma = (self.luma.to(clip.dtype) @ clip.flatten(2)).reshape(-1, frames, *clip.shape[3:])
        luma = functional.adaptive_avg_pool2d(luma, self.flow_size)
        first = luma[:, self.reference : self.reference + 1].expand(-1, frames, -1, -1)
        both = torch.stack([first, luma]).reshape(2, -1, 1, *self.flow_size)
        there, back = self.flow(both.flatten(0, 1), both.flip(0).flatten(0, 1)).chunk(2)
        return unfolded(torch.cat([there, back], 1) * self.flow_pixels.to(clip.dtype), frames)

    def forward(self, clip: torch.Tensor, flow: torch.Tensor | None = None) -> torch.Tensor:
        """Return the tensor (N, C1 + c_t, W_t, H / 8, W / 8)."""
        clip = self._fitted(clip)
        if flow is None:
            flow = self.motion(clip)
        still, moving = self.aligned(unfolded(self.frames(folded(clip))[-1], self.size[0]), flow)
        x = torch.cat([pointwise(self.from_space, still), pointwise(self.from_time, moving)], 1)
        return self._split(self.attention(self.blocks(self.grid(x))))

    def aligned(self, features: torch.Tensor, flow: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what stands still, (N, F, W_t, h, w), and what moves, (N, 3 F + 4, W_t, h, w): steps 3 and 4.

        Parameters
        ----------
        features : (N, F, T, h, w)
            Of every frame.
        flow : (N, 4, T, ...)
            As `forward` takes it.
        """
        frames = self.size[0]
        maps, flows = features.transpose(1, 2), flow.transpose(1, 2)  # by frame: as the net and the flow leave them
        moved = self._on_map(flows.flatten(0, 1)) * self.per_pixel.to(flow.dtype)
        there, back = moved.chunk(2, 1)
        seen = visible(there, back, self.to_reference)
        warped = apart(self.to_reference(maps.flatten(0, 1), there), 0, (-1, frames))
        there, seen = apart(there, 0, (-1, frames)), apart(seen, 0, (-1, frames))
        reference = maps[:, self.reference : self.reference + 1]
        residual = (warped - reference) * seen
        steps = functional.pad((maps[:, 1:] - maps[:, :-1]).abs(), (0, 0, 0, 0, 0, 0, 1, 0))
        speed = (there.pow(2).sum(2, keepdim=True) + 1e-6).sqrt()
        moving = self._sliced(torch.cat([residual, residual.abs(), steps, there, speed, seen], 2))
        still = reference + moving[:, :, : maps.shape[2]]
        return still.transpose(1, 2), moving.transpose(1, 2)

    def _on_map(self, flow: torch.Tensor) -> torch.Tensor:
        """Return the mean flow (N, 4, h, w) around each place of the map."""
        factors = [side // wanted for side, wanted in zip(flow.shape[2:], self.map, strict=True)]
        if all(side == wanted * k for side, wanted, k in zip(flow.shape[2:], self.map, factors, strict=True)):
            return functional.avg_pool2d(flow, factors)
        return functional.adaptive_avg_pool2d(flow, self.map)

    def _sliced(self, x: torch.Tensor) -> torch.Tensor:
        """Return the means of (N, T, C, H, W) over the frames of each slice."""
        return apart(self.groups.to(x.dtype) @ x.flatten(2), 2, tuple(x.shape[2:]))


def _flow(name: Flow, size: tuple[int, int]) -> nn.Module:
    """Return what finds the flow between pictures of `size`."""
    kinds: dict[str, type[nn.Module]] = {"lucas_kanade": LucasKanade, "dis": DenseInverseSearch, "none": NoFlow}
    if name not in kinds:
        raise FrameError(f"no flow is called {name!r}: expected one of {', '.join(kinds)}", got=name)
    return NoFlow() if name == "none" else kinds[name](size)


def _checked_size(size: tuple[int, int, int], smallest: int) -> tuple[int, int, int]:
    frames, height, width = size
    if frames < 1 or min(height, width) < smallest:
        raise FrameError(f"an encoder needs a frame and {smallest} pixels a side: got {size}", got=size)
    return frames, height, width


def _groups(frames: int, slices: int) -> torch.Tensor:
    """Return (W_t, T): the share of each frame in the mean of each slice; slices are frames one after the other."""
    edges = [round(i * frames / slices) for i in range(slices + 1)]
    groups = torch.zeros(slices, frames)
    for i, (start, stop) in enumerate(itertools.pairwise(edges)):
        groups[i, start:stop] = 1 / (stop - start)
    return groups


def _strided(side: int, times: int) -> int:
    """Return what convolutions of stride 2 leave of `side`."""
    for _ in range(times):
        side = (side + 1) // 2
    return side


# Meaning --------------------------------------------------------------------------------------------------------------


class CrossScaleAttention(nn.Module):
    """Pool maps of several scales into one: every place asks the places that each scale has there.

    ``y = sum_s softmax_s(LN(q) . LN(k_s) / sqrt(d)) v_s`` over the tokens s of all scales below one target place (a scale
    twice as fine has four); the query is learned and added to their mean; softmax in at least 32 bits.

    Parameters
    ----------
    channels : sequence of int
        Of the maps.
    places : sequence of (h, w)
        Sizes of the maps.
    target : (H, W)
    dim : int
        Of tokens and result; a multiple of `heads`.
    finest : int
        Tokens a side of a target place that a finer map gives at most.

    Notes
    -----
    Input maps (N, C_i, h_i, w_i), output (N, dim, H, W). All scales are projected to one width first.

    References
    ----------
    .. [1] A. Vaswani et al., "Attention is all you need", NIPS 2017, arXiv:1706.03762.
    .. [2] J. Lee et al., "Set transformer", ICML 2019, arXiv:1810.00825 (pooling by a learned query).
    """

    def __init__(
        self,
        channels: Sequence[int],
        places: Sequence[tuple[int, int]],
        target: tuple[int, int],
        dim: int,
        *,
        heads: int = 4,
        finest: int = 2,
    ) -> None:
        super().__init__()
        if dim % heads or len(channels) != len(places) or not channels:
            raise FrameError(f"expected one size a map and a multiple of {heads}: got {channels}, {places} and {dim}")
        self.target, self.heads = target, heads
        self.factors = [max(1, min(finest, min(h // target[0], w // target[1]))) for h, w in places]
        self.project = nn.ModuleList(nn.Conv2d(c, dim, 1) for c in channels)
        self.scale = nn.Parameter(torch.zeros(len(channels), dim))
        nn.init.normal_(self.scale, std=0.02)
        self.query = nn.Parameter(torch.zeros(dim))
        nn.init.normal_(self.query, std=0.02)
        self.key, self.value, self.ask = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm_query, self.norm_key = nn.LayerNorm(dim // heads), nn.LayerNorm(dim // heads)
        self.out = nn.Linear(dim, dim)

    def tokens(self, maps: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return (N, H, W, S, dim): what all scales have at each target place."""
        found = []
        for i, (one, project) in enumerate(zip(maps, self.project, strict=True)):
            k = self.factors[i]
            size = k * self.target[0], k * self.target[1]
            fitted = one
            if one.shape[2] >= size[0] and one.shape[3] >= size[1]:
                fitted = functional.adaptive_avg_pool2d(one, size) if tuple(one.shape[2:]) != size else one
            else:
                fitted = functional.interpolate(one, size, mode="bilinear", align_corners=False)
            x = project(fitted) + self.scale[i].reshape(1, -1, 1, 1)
            x = apart(apart(x, 3, (-1, k)), 2, (-1, k))  # N, dim, H, k, W, k
            found.append(x.permute(0, 2, 4, 3, 5, 1).flatten(3, 4))
        return torch.cat(found, 3)

    def forward(self, maps: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the pooled map."""
        tokens = self.tokens(maps)
        heads = (*tokens.shape[:4], self.heads, -1)
        q = self.ask(tokens.mean(3) + self.query).reshape(*tokens.shape[:3], self.heads, -1)
        k, v = self.key(tokens).reshape(heads), self.value(tokens).reshape(heads)
        q, k = _wide(self.norm_query(q)), _wide(self.norm_key(k))
        scores = (q.unsqueeze(3) * k).sum(-1) / math.sqrt(q.shape[-1])
        pooled = (torch.softmax(scores, 3).to(v.dtype).unsqueeze(-1) * v).sum(3).flatten(3)
        out: torch.Tensor = self.out(pooled)
        return out.permute(0, 3, 1, 2)


class TemporalAttention(nn.Module):
    """Attention among the slices at each place, in which a slice that stands for many frames counts as many.

    ``logits = LN(q) . LN(k) / sqrt(d) + log(size)``; the result is added to the input.

    Parameters
    ----------
    dim : int
        A multiple of `heads`.
    heads : int
    causal : bool
        Whether a slice sees earlier ones only.
    slices : int
        W_t.

    References
    ----------
    .. [1] D. Bolya et al., "Token merging: your ViT but faster", ICLR 2023, arXiv:2210.09461 (proportional attention).
    """

    later: torch.Tensor

    def __init__(self, dim: int, slices: int, *, heads: int = 4, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm_query, self.norm_key = nn.LayerNorm(dim // heads), nn.LayerNorm(dim // heads)
        later = torch.triu(torch.ones(slices, slices, dtype=torch.bool), 1) if causal else torch.zeros(1, 1).bool()
        self.register_buffer("later", later, persistent=False)

    def forward(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """Return (N, dim, W_t, H, W) for `x` of that shape and the (N, W_t) frames that each slice stands for."""
        tokens = x.permute(0, 3, 4, 2, 1)
        parts = apart(self.qkv(tokens), -1, (3, self.heads, -1)).permute(4, 0, 1, 2, 5, 3, 6)
        q, k, v = parts.unbind(0)  # N, H, W, heads, W_t, d
        q, k = _wide(self.norm_query(q)), _wide(self.norm_key(k))
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        logits = logits + sizes.to(logits.dtype).log().reshape(len(x), 1, 1, 1, 1, -1)
        weights = torch.softmax(logits.masked_fill(self.later, -math.inf), -1).to(v.dtype)
        added: torch.Tensor = self.out((weights @ v).transpose(3, 4).flatten(4))
        return x + added.permute(0, 4, 3, 1, 2)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class SCH(Encoder):
    """Semantic-consistent hyperframe: maps of several scales pooled by attention, frames that are alike merged.

    1. Maps of every frame at several scales: those of `backbone`, those given, or those of a small net (strides 4, 8, 16).
    2. Frames that are alike are merged until W_t are left (`TokenMerging`, one token a frame, so that a slice means the
       same time at every place).
    3. `CrossScaleAttention` onto the target map, `TemporalAttention` in which a slice counts as the frames it stands for.
    4. Time from the steps between slices, blocks of `HDSConv`, `LocalManifoldAttention`, and the two heads.

    Parameters
    ----------
    in_channels : int
        Of the frames.
    width : float
        Times the channels of every layer.
    causal : bool
        Slices are of frames one after the other, and none depends on frames after its last one.
    size : (T, H, W)
        Of the clips.
    slices : int
        W_t; at most T.
    depth : int
        Blocks.
    backbone : Module, optional
        Gives a list of maps for pictures (N, C, H, W).
    maps : sequence of (channels, h, w), optional
        What `backbone` gives, or what `forward` is given in place of a clip.
    merge : bool
        False keeps every frame a slice, for tasks of fine order in time.
    attention : bool
    convolution, norm : str
        See `HyperBlock`.

    Notes
    -----
    `forward` takes clips (N, C, T, H, W), or a list of maps (N, C_i, T, h_i, w_i). It gives (N, 256 + 64, 4, H / 16, W / 16),
    packed (N, 512, 16, 16) at 256 pixels.
    """

    kind: Kind = "sch"
    groups: torch.Tensor
    counts: torch.Tensor
    frame_eye: torch.Tensor

    def __init__(
        self,
        in_channels: int = 3,
        width: float = 1.0,
        causal: bool = False,
        *,
        size: tuple[int, int, int] = (16, 256, 256),
        slices: int = 4,
        depth: int = 2,
        backbone: nn.Module | None = None,
        maps: Sequence[tuple[int, int, int]] | None = None,
        merge: bool = True,
        attention: bool = True,
        convolution: Convolution = "hds",
        norm: Norm = "manifold",
    ) -> None:
        frames, height, width_px = _checked_size(size, 16)
        options = {"in_channels": in_channels, "width": width, "causal": causal, "size": size, "slices": slices}
        slices = min(slices, frames) if merge else frames
        space, time = scaled(256, width), scaled(64, width)
        super().__init__((frames, height, width_px), space, time, slices, causal=causal)
        self.options = options | {
            "depth": depth,
            "maps": maps,
            "merge": merge,
            "attention": attention,
            "convolution": convolution,
            "norm": norm,
        }
        if (backbone is not None) > (maps is not None):
            raise FrameError("a backbone needs the shapes of its maps: expected maps=[(channels, h, w), ...]")
        self.backbone = backbone
        if maps is None:
            channels = [scaled(c, width) for c in (24, 48, 96, 192)]
            self.backbone = Pyramid(in_channels, channels)
            maps = [(c, _strided(height, i), _strided(width_px, i)) for i, c in enumerate(channels[1:], 2)]
        self.maps = [(int(c), int(h), int(w)) for c, h, w in maps]
        self.map = _strided(height, 4), _strided(width_px, 4)
        dim = scaled(128, width)
        self.merging = TokenMerging(slices, enabled=merge and not causal)
        self.pool = CrossScaleAttention([c for c, _, _ in self.maps], [(h, w) for _, h, w in self.maps], self.map, dim)
        self.among = TemporalAttention(dim, slices, causal=causal)
        self.from_space, self.from_time = nn.Conv3d(dim, space, 1), nn.Conv3d(2 * dim, time, 1)
        self.blocks = nn.Sequential(
            *(HyperBlock(space, time, convolution=convolution, norm=norm, causal=causal) for _ in range(depth))
        )
        place = (slices, *self.map)
        self.attention = LocalManifoldAttention(space + time, place, causal=causal) if attention else nn.Identity()
        groups = _groups(frames, slices)
        self.register_buffer("groups", groups, persistent=False)
        self.register_buffer("counts", (groups > 0).float().sum(1).unsqueeze(0), persistent=False)
        self.register_buffer("frame_eye", torch.eye(frames), persistent=False)

    def forward(self, x: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
        """Return the tensor (N, C1 + c_t, W_t, H / 16, W / 16)."""
        maps = self._maps(x)
        merged, sizes = self._merged(maps)
        pooled = unfolded(self.pool([folded(one) for one in merged]), self.slices)
        pooled = self.among(pooled, sizes)
        step = functional.pad(pooled[:, :, 1:] - pooled[:, :, :-1], (0, 0, 0, 0, 1, 0))
        moving = pointwise(self.from_time, torch.cat([step, pooled], 1))
        out = self.blocks(torch.cat([pointwise(self.from_space, pooled), moving], 1))
        return self._split(self.attention(out))

    def _maps(self, x: torch.Tensor | list[torch.Tensor]) -> list[torch.Tensor]:
        if isinstance(x, torch.Tensor):
            if self.backbone is None:
                raise FrameError("this encoder has no backbone: expected a list of maps, got a clip")
            clip = self._fitted(x)
            return [unfolded(one, self.size[0]) for one in self.backbone(folded(clip))]
        shapes = [(one.shape[1], *one.shape[3:]) for one in x]
        if shapes != self.maps or any(one.shape[2] != self.size[0] for one in x):
            raise FrameError(
                f"expected maps {self.maps} of {self.size[0]} frames, got {[tuple(one.shape) for one in x]}"
            )
        return x

    def _merged(self, maps: list[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the maps with T merged to W_t slices, and how many frames each stands for, (N, W_t)."""
        n = len(maps[0])
        if not self.merging.enabled or self.slices == self.size[0]:
            shares = self.groups.to(maps[0].dtype).expand(n, -1, -1)
            sizes = self.counts.to(maps[0].dtype).expand(n, -1)
        else:
            shares, sizes = self._alike(maps[-1])
        return [torch.einsum("nst,nctyx->ncsyx", shares, one) for one in maps], sizes

    def _alike(self, last: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the share of each frame in each slice, (N, W_t, T), by likeness of the last map less its mean."""
        with torch.no_grad():
            tokens = (last - last.mean(2, keepdim=True)).movedim(2, 1).flatten(2)
            marks = self.frame_eye.to(tokens.dtype).expand(len(tokens), -1, -1)
            merged, sizes = self.merging(torch.cat([tokens, marks], 2), tokens.shape[2])
        return merged[:, :, tokens.shape[2] :], sizes


class Hybrid(Encoder):
    """MCH and SCH of one clip, side by side: space with space, time with time.

    Parameters
    ----------
    in_channels : int
    width : float
    causal : bool
    size : (T, H, W)
    slices : int

    Notes
    -----
    Input as for `MCH`; output (N, (128 + 256) + (64 + 64), 4, H / 8, W / 8): the smaller map of SCH is resized.
    """

    kind: Kind = "hybrid"

    def __init__(
        self,
        in_channels: int = 3,
        width: float = 1.0,
        causal: bool = False,
        *,
        size: tuple[int, int, int] = (16, 256, 256),
        slices: int = 4,
    ) -> None:
        motion = MCH(in_channels, width, causal, size=size, slices=slices)
        meaning = SCH(in_channels, width, causal, size=size, slices=slices)
        super().__init__(
            motion.size, motion.space + meaning.space, motion.time + meaning.time, motion.slices, causal=causal
        )
        del self.head_space, self.head_time
        self.options = {"in_channels": in_channels, "width": width, "causal": causal, "size": size, "slices": slices}
        self.motion, self.meaning = motion, meaning

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        """Return the tensor (N, C1 + c_t, W_t, H / 8, W / 8)."""
        clip = self._fitted(clip)
        moving, meaning = self.motion(clip), self.meaning(clip)
        pictures = functional.interpolate(folded(meaning), moving.shape[3:], mode="bilinear", align_corners=False)
        meaning = unfolded(pictures, self.slices)
        a, b = self.motion.space, self.meaning.space
        return torch.cat([moving[:, :a], meaning[:, :b], moving[:, a:], meaning[:, b:]], 1)


# Head -----------------------------------------------------------------------------------------------------------------


class Classifier(nn.Module):
    """An encoder and one linear layer on its pooled vector.

    Parameters
    ----------
    encoder : Encoder
        Or any module with `out_channels`, `embed` and, for `prototypes`, the split of an encoder.
    classes : int
    dropout : float
    prototypes : int
        Above 0: the mean scores of so many prototypes of change (`TemporalGradientProjection`, see its `fit`) join the
        pooled vector.

    Notes
    -----
    `forward` gives (N, classes) logits; `with_tensor` also the tensor and the pooled vector, for losses on them.
    """

    encoder: Any

    def __init__(self, encoder: nn.Module, classes: int, *, dropout: float = 0.2, prototypes: int = 0) -> None:
        super().__init__()
        if classes < 2:
            raise FrameError(f"a classifier tells at least 2 classes apart: got {classes}")
        self.encoder = encoder
        self.prototypes = TemporalGradientProjection(self.encoder.time, prototypes) if prototypes else None
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(self.encoder.out_channels + prototypes, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.with_tensor(x)[0]

    def with_tensor(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return logits (N, classes), the encoder's tensor (N, C, W_t, H, W) and the pooled vector (N, D)."""
        tensor = self.encoder(x)
        latent = self.encoder.pooled(tensor)
        found = latent
        if self.prototypes is not None:
            scores = self.prototypes(tensor[:, self.encoder.space :])
            found = torch.cat([latent, scores.mean((2, 3, 4))], 1)
        return self.linear(self.dropout(found)), tensor, latent

    @torch.no_grad()
    def fit_prototypes(self, x: torch.Tensor) -> None:
        """Take the principal directions of change in the encoder's tensors of `x` as prototypes."""
        if self.prototypes is None:
            raise FrameError("this classifier has no prototypes to fit: expected prototypes above 0")
        self.prototypes.fit(self.encoder(x)[:, self.encoder.space :])
