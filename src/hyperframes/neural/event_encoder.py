"""Event-driven hyperframes: a voxel grid of events, its clusters as a graph in space and time, a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from hyperframes.errors import FrameError
from hyperframes.frames import voxel_grid
from hyperframes.neural.encoders import Convolution, Encoder, HyperBlock, Norm, Separable, scaled
from hyperframes.neural.layers import LocalManifoldAttention, apart, pointwise

if TYPE_CHECKING:
    from hyperframes.frames import Events
    from hyperframes.neural.tensor import Kind

__all__ = ["EDH", "ClusterGraph", "DensityNorm", "GraphConvolution", "event_grid"]

_SLICE_STRIDE = 16
_CLUSTER = 8


def event_grid(
    events: Events, size: tuple[int, int, int] = (16, 128, 128), span: tuple[int, int] | None = None
) -> torch.Tensor:
    """Return events as (2, bins, H, W) float32: darker, then brighter, bilinear in time, no mass lost.

    Parameters
    ----------
    events : Events
        Of a known sensor; its picture is scaled to (H, W): to fewer places each event goes to the one it falls in, to
        more it is shared out among those that its pixel covers, so that none between them stays empty.
    size : (bins, H, W)
    span : (start, stop), optional
        Microseconds; the first to the last event where it is left out.

    Raises
    ------
    FrameError
        If the sensor is not known.
    """
    bins, height, width = size
    if events.sensor is None:
        raise FrameError("a grid of events needs the size of the sensor, which these events do not tell")
    rows, columns = events.sensor
    if span is None:
        span = (int(events.t.min()), int(events.t.max())) if len(events) else (0, 1)
    spread = rows <= height and columns <= width
    places = (rows, columns) if spread else (height, width)
    placed = type(events)(
        events.t,
        (events.x.astype(np.int64) * places[1] // columns).astype(np.uint16),
        (events.y.astype(np.int64) * places[0] // rows).astype(np.uint16),
        events.p,
        places,
    )
    grids = [voxel_grid(placed[placed.p == sign], places, bins, span) for sign in (0, 1)]
    found = torch.from_numpy(np.stack([-grids[0], grids[1]]))
    return found if places == (height, width) else _covered(rows, height) @ found @ _covered(columns, width).T


def _covered(pixels: int, places: int) -> torch.Tensor:
    """Return (places, pixels): which share of each pixel of a line lies in each of at least as many places."""
    edges = torch.arange(pixels + 1, dtype=torch.float64) * (places / pixels)
    cells = torch.arange(places + 1, dtype=torch.float64).unsqueeze(1)
    common = torch.minimum(edges[1:], cells[1:]) - torch.maximum(edges[:-1], cells[:-1])
    return (common.clamp_min(0) * (pixels / places)).float()


class DensityNorm(nn.Module):
    """``x = alpha r / (1 + beta r)`` of the events r in a voxel: many count less than as many times.

    ``alpha = 1 / rate`` and ``beta = 0.1 alpha``, so that x grows up to 10. The rate is that of the recordings that `fit`
    saw; before, it is the mean of each window's voxels that hold events.

    Notes
    -----
    Input and output (N, 2, bins, H, W), not negative.
    """

    rate: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rate", torch.zeros(()))

    @torch.no_grad()
    def fit(self, grids: torch.Tensor) -> None:
        """Take the mean of the voxels of `grids` that hold events as the rate."""
        self.rate.copy_(self._mean(grids).mean())

    @staticmethod
    def _mean(r: torch.Tensor) -> torch.Tensor:
        """Return the mean over occupied voxels of each item, (N, 1, 1, 1, 1); 1 where none is."""
        count = (r > 0).to(r.dtype).sum((1, 2, 3, 4), keepdim=True)
        mean = r.sum((1, 2, 3, 4), keepdim=True) / count.clamp_min(1)
        return torch.where(count > 0, mean, torch.ones_like(mean))

    def forward(self, r: torch.Tensor) -> torch.Tensor:
        """Return the normalised densities."""
        rate = torch.where(self.rate > 0, self.rate.to(r.dtype), self._mean(r))
        scaled_r = r / rate
        return scaled_r / (1 + 0.1 * scaled_r)


class ClusterGraph(nn.Module):
    """The densest blocks of a voxel grid as nodes, at the centroids of their events, and who is near whom.

    A block is `block` voxels; its centroid is the mean place and time of the mass in it, which bilinear voting keeps to
    well below a slice. Edges go to the `neighbours` nearest nodes (itself among them) and weigh
    ``exp(-|t_i - t_j| / tau)``, zero to empty nodes; rows add up to 1.

    Parameters
    ----------
    size : (bins, H, W)
    block : (bins, H, W)
        Voxels of a block; divides `size`.
    nodes : int
        At most so many blocks.
    neighbours : int
    tau : float
        As a share of the window.
    causal : bool
        Whether edges come from earlier nodes only; every slice then has as many nodes.

    References
    ----------
    .. [1] Y. Li et al., "Graph-based asynchronous event processing for rapid object recognition", ICCV 2021.
    .. [2] S. Schaefer, D. Gehrig, D. Scaramuzza, "AEGNN: asynchronous event-based graph neural networks", CVPR 2022,
       arXiv:2203.17149.
    """

    place: torch.Tensor
    first_block: torch.Tensor

    def __init__(
        self,
        size: tuple[int, int, int],
        block: tuple[int, int, int],
        *,
        nodes: int = 128,
        neighbours: int = 8,
        tau: float = 0.25,
        causal: bool = False,
    ) -> None:
        super().__init__()
        if any(s % b for s, b in zip(size, block, strict=True)) or tau <= 0 or nodes < 1 or neighbours < 1:
            raise FrameError(f"blocks divide the grid and edges reach somewhere: got {size}, {block}, {nodes}, {tau}")
        self.block, self.causal, self.tau = block, causal, tau
        self.blocks = tuple(s // b for s, b in zip(size, block, strict=True))
        total = self.blocks[0] * self.blocks[1] * self.blocks[2]
        self.nodes = min(nodes, total)
        if causal:
            self.nodes = max(self.nodes // self.blocks[0], 1) * self.blocks[0]
        self.register_buffer(
            "first_block",
            torch.arange(self.blocks[0]).reshape(1, -1, 1) * (total // self.blocks[0]),
            persistent=False,
        )
        self.neighbours = min(neighbours, self.nodes)
        lines = [(torch.arange(n, dtype=torch.float32) + 0.5) / n for n in size]
        t, y, x = torch.meshgrid(*lines, indexing="ij")
        self.register_buffer("place", torch.stack([t, y, x]).unsqueeze(0), persistent=False)

    def _summed(self, x: torch.Tensor) -> torch.Tensor:
        """Return sums over blocks of (N, C, bins, H, W) as (N, C, blocks)."""
        a, b, c = self.block
        return (functional.avg_pool3d(x, (a, b, c)) * (a * b * c)).flatten(2)

    def forward(self, mass: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return which blocks are nodes, how real each is, where they are, and the edges, for (N, 1, bins, H, W) events.

        Returns
        -------
        (N, K) int64, (N, K) 0 or 1, (N, K, 3) of t, y, x in [0, 1], (N, K, K)
        """
        with torch.no_grad():
            sums = self._summed(torch.cat([mass, mass * self.place.to(mass.dtype)], 1))
            found, index = self._densest(sums[:, 0])
            real = (found > 0).to(mass.dtype)
            where = sums[:, 1:].gather(2, index.unsqueeze(1).expand(-1, 3, -1)) / found.clamp_min(1e-12).unsqueeze(1)
            where = where.transpose(1, 2)
            return index, real, where, self._edges(where, real)

    def _densest(self, sums: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mass and index of the nodes among (N, blocks); causal: as many of each slice, whatever comes later."""
        if not self.causal:
            return sums.topk(self.nodes, 1)
        slices = self.blocks[0]
        found, index = apart(sums, 1, (slices, -1)).topk(self.nodes // slices, 2)
        return found.flatten(1), (index + self.first_block).flatten(1)

    def _edges(self, where: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        apart = (where.unsqueeze(2) - where.unsqueeze(1)).pow(2).sum(-1)
        later = where[:, :, :1] - where[:, :, 0].unsqueeze(1)  # t_i - t_j
        closed = real.unsqueeze(1) == 0
        if self.causal:
            closed = closed | (later < 0)
        near = apart.masked_fill(closed, 1e6)
        limit = near.topk(self.neighbours, 2, largest=False).values[:, :, -1:]
        weight = torch.exp(-later.abs() / self.tau).masked_fill(closed | (near > limit), 0)
        return weight / weight.sum(2, keepdim=True).clamp_min(1e-12)


class GraphConvolution(nn.Module):
    """``h_i + relu(LN(W h_i + V sum_j a_ij h_j))`` over the edges a.

    References
    ----------
    .. [1] T. Kipf, M. Welling, "Semi-supervised classification with graph convolutional networks", ICLR 2017,
       arXiv:1609.02907.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(channels, channels), nn.Linear(channels, channels, bias=False)
        self.norm = nn.LayerNorm(channels)

    def forward(self, h: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Return (N, K, C) for nodes `h` of that shape and edges (N, K, K)."""
        return h + functional.relu(self.norm(self.own(h) + self.others(edges @ h)))


class EDH(Encoder):
    """Event-driven hyperframe: densities made even, clusters of events talk to those near in space and time.

    1. Events in voxels by polarity, `DensityNorm`.
    2. A separable net on each of W_t slices, its bins as channels: maps at stride 8 and 16.
    3. `ClusterGraph` over the blocks of stride 8, its node features those of the map and their centroids, two
       `GraphConvolution`; nodes are added to the map of stride 16 where their centroid lies.
    4. Blocks of `HDSConv`, `LocalManifoldAttention`, and the two heads.

    Parameters
    ----------
    width : float
        Times the channels of every layer.
    causal : bool
        Whether slices know earlier ones only; then `DensityNorm` must be fitted for the result to be so, too.
    size : (bins, H, W)
        Of the voxel grid; bins a multiple of `slices`, sides multiples of 16.
    slices : int
        W_t.
    depth, nodes, neighbours : int
        Blocks; nodes of the graph and their edges.
    tau : float
        Of the edges, as a share of the window.
    graph, attention : bool
    convolution, norm : str
        See `HyperBlock`.

    Notes
    -----
    `forward` takes (N, 2, bins, H, W), darker and brighter events (`event_grid`), or the signed (N, bins, H, W) of the
    operator `voxel_grid`. It gives (N, 128 + 32, 4, H / 16, W / 16), packed (N, 256, 8, 8) at 128 pixels.
    """

    kind: Kind = "edh"

    def __init__(
        self,
        width: float = 1.0,
        causal: bool = False,
        *,
        size: tuple[int, int, int] = (16, 128, 128),
        slices: int = 4,
        depth: int = 2,
        nodes: int = 128,
        neighbours: int = 8,
        tau: float = 0.25,
        graph: bool = True,
        attention: bool = True,
        convolution: Convolution = "hds",
        norm: Norm = "manifold",
    ) -> None:
        bins, height, columns = size
        slices = min(slices, bins)
        if bins % slices or height % _SLICE_STRIDE or columns % _SLICE_STRIDE or min(size) < 1:
            raise FrameError(
                f"a grid of events has bins in {slices} equal slices and sides in multiples of {_SLICE_STRIDE}: got {size}"
            )
        space, time = scaled(128, width), scaled(32, width)
        super().__init__((bins, height, columns), space, time, slices, causal=causal)
        self.options = {
            "width": width,
            "causal": causal,
            "size": size,
            "slices": slices,
            "depth": depth,
            "nodes": nodes,
            "neighbours": neighbours,
            "tau": tau,
            "graph": graph,
            "attention": attention,
            "convolution": convolution,
            "norm": norm,
        }
        narrow, middle, wide = scaled(32, width), scaled(64, width), scaled(96, width)
        each = bins // slices
        self.density = DensityNorm()
        self.fine = nn.Sequential(
            nn.Conv2d(2 * each, narrow, 3, 2, 1, bias=False),
            nn.BatchNorm2d(narrow),
            nn.ReLU(),
            Separable(narrow, middle, 2),
            Separable(middle, wide, 2),
        )
        self.coarse = Separable(wide, wide, 2)
        self.map = height // _SLICE_STRIDE, columns // _SLICE_STRIDE
        self.clusters: ClusterGraph | None = None
        if graph:
            self.clusters = ClusterGraph(
                self.size, (each, _CLUSTER, _CLUSTER), nodes=nodes, neighbours=neighbours, tau=tau, causal=causal
            )
            self.enter = nn.Linear(wide + 3, wide)
            self.convolutions = nn.ModuleList(GraphConvolution(wide) for _ in range(2))
        self.from_space, self.from_time = nn.Conv3d(wide, space, 1), nn.Conv3d(2 * wide, time, 1)
        self.blocks = nn.Sequential(
            *(HyperBlock(space, time, convolution=convolution, norm=norm, causal=causal) for _ in range(depth))
        )
        place = (slices, *self.map)
        self.attention = LocalManifoldAttention(space + time, place, causal=causal) if attention else nn.Identity()
        self.register_buffer("last_cell", torch.tensor([slices, *self.map]) - 1, persistent=False)

    last_cell: torch.Tensor

    def _densities(self, x: torch.Tensor) -> torch.Tensor:
        """Return (N, 2, bins, H, W), not negative."""
        if x.ndim == 4:
            x = torch.stack([functional.relu(-x), functional.relu(x)], 1)
        if x.ndim != 5 or x.shape[1] != 2 or tuple(x.shape[2:]) != self.size:
            raise FrameError(
                f"this encoder takes events in voxels (N, 2, {', '.join(map(str, self.size))}), or signed without the 2: "
                f"got {tuple(x.shape)}",
                got=tuple(x.shape),
            )
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the tensor (N, C1 + c_t, W_t, H / 16, W / 16)."""
        x = self._densities(x)
        n = len(x)
        even = self.density(x)
        # N, 2, slices, each, H, W -> N * slices pictures of 2 * each channels
        pictures = apart(even, 2, (self.slices, -1)).transpose(1, 2).flatten(2, 3).flatten(0, 1)
        fine = self.fine(pictures)
        coarse = apart(self.coarse(fine), 0, (n, self.slices)).transpose(1, 2)
        if self.clusters is not None:
            maps = apart(fine, 0, (n, self.slices)).transpose(1, 2)
            coarse = coarse + self._gathered(x.sum(1, keepdim=True), maps)
        step = functional.pad(coarse[:, :, 1:] - coarse[:, :, :-1], (0, 0, 0, 0, 1, 0))
        out = torch.cat(
            [pointwise(self.from_space, coarse), pointwise(self.from_time, torch.cat([step, coarse], 1))], 1
        )
        return self._split(self.attention(self.blocks(out)))

    def _gathered(self, mass: torch.Tensor, maps: torch.Tensor) -> torch.Tensor:
        """Return (N, C, W_t, H / 16, W / 16): the mean of the nodes in each cell after they talked, 0 where none is."""
        assert self.clusters is not None
        index, real, where, edges = self.clusters(mass)
        channels = maps.shape[1]
        taken = maps.flatten(2).gather(2, index.unsqueeze(1).expand(-1, channels, -1)).transpose(1, 2)
        h = functional.relu(self.enter(torch.cat([taken, where.to(taken.dtype)], 2))) * real.unsqueeze(2)
        for convolution in self.convolutions:
            h = convolution(h, edges) * real.unsqueeze(2)
        last = self.last_cell
        cell = (where * (last + 1).to(where.dtype)).long().clamp_min(0).minimum(last)
        flat = (cell[:, :, 0] * (last[1] + 1) + cell[:, :, 1]) * (last[2] + 1) + cell[:, :, 2]
        cells = self.slices * self.map[0] * self.map[1]
        summed = h.new_zeros(len(h), cells, channels).scatter_add(1, flat.unsqueeze(2).expand(-1, -1, channels), h)
        count = real.new_zeros(len(h), cells).scatter_add(1, flat, real)
        mean = summed / count.clamp_min(1).unsqueeze(2)
        return apart(mean.transpose(1, 2), 2, (self.slices, *self.map))
