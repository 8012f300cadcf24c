"""What a model is trained towards besides its labels: neighbours alike, calm time, smooth surfaces."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from hyperframes.errors import FrameError
from hyperframes.neural.curvature import differences

__all__ = ["HyperframeLoss", "consistency", "smoothness", "temporal_gradient"]


def consistency(latent: torch.Tensor, group: torch.Tensor, order: torch.Tensor, quantile: float = 0.1) -> torch.Tensor:
    """Return how much farther than `quantile` of unrelated pairs two neighbours lie from each other, on average.

    Parameters
    ----------
    latent : (N, D)
        Pooled hyperframes.
    group : (N,) integers
        The stream each comes from.
    order : (N,) integers
        Its place in that stream; neighbours are one apart.
    quantile : float
        Of the distances of all other pairs; neighbours should be closer than that.

    Notes
    -----
    ``mean relu(d_neighbours - stopgrad(Q))``; 0 without neighbours or without other pairs. Alone it is best met by
    one point for all: train it together with cross entropy.
    """
    distance = torch.linalg.vector_norm(latent.unsqueeze(0) - latent.unsqueeze(1) + 1e-12, dim=2)
    same, apart = group.unsqueeze(0) == group.unsqueeze(1), (order.unsqueeze(0) - order.unsqueeze(1)).abs()
    upper = torch.ones_like(same).triu(1)
    near, far = upper & same & (apart == 1), upper & ~(same & (apart <= 1))
    if not near.any() or not far.any():
        return latent.sum() * 0
    limit = torch.quantile(distance.detach()[far], quantile)
    return functional.relu(distance[near] - limit).mean()


def temporal_gradient(x: torch.Tensor) -> torch.Tensor:
    """Return the mean squared difference of neighbouring slices of `x` (N, C, W_t, H, W); 0 for one slice."""
    if x.shape[2] < 2:
        return x.sum() * 0
    return (x[:, :, 1:] - x[:, :, :-1]).square().mean()


def smoothness(x: torch.Tensor) -> torch.Tensor:
    """Return the mean of ``log det(I + H^T H)`` with the Hessian H over (y, x) of the channels' mean of `x`.

    0 where the surface is flat, larger the more it is bent, and a number everywhere, at saddles too.
    """
    f = x.to(torch.promote_types(x.dtype, torch.float32)).mean(1)
    down, right = differences(f, 2), differences(f, 3)
    a, b, c = differences(down, 2), differences(right, 2), differences(right, 3)
    # det(I + H^T H) of a symmetric 2 x 2 matrix, without a matrix for every place.
    first, second, mixed = 1 + a * a + b * b, 1 + b * b + c * c, b * (a + c)
    return torch.log(first * second - mixed * mixed).mean()


@dataclass(frozen=True, slots=True)
class LossParts:
    """The terms of one loss, and their sum."""

    total: torch.Tensor
    cross_entropy: torch.Tensor
    consistency: torch.Tensor
    temporal: torch.Tensor
    smoothness: torch.Tensor


class HyperframeLoss(nn.Module):
    """Cross entropy and three weighted terms about the structure of the tensor.

    Parameters
    ----------
    consistency, temporal, smoothness : float
        Weights; 0 leaves a term out.
    quantile : float
        See `consistency`.
    label_smoothing : float
    weight : (K,), optional
        How much each class counts.
    """

    weight: torch.Tensor | None

    def __init__(
        self,
        *,
        consistency: float = 0.1,
        temporal: float = 1e-3,
        smoothness: float = 1e-4,
        quantile: float = 0.1,
        label_smoothing: float = 0.0,
        weight: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        if min(consistency, temporal, smoothness) < 0 or not 0 < quantile < 1:
            raise FrameError(
                f"weights are 0 or more and the quantile between 0 and 1: got {consistency}, {temporal}, {smoothness} "
                f"and {quantile}"
            )
        self.weights = (consistency, temporal, smoothness)
        self.quantile, self.label_smoothing = quantile, label_smoothing
        self.register_buffer("weight", weight, persistent=False)

    def entropy(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy alone."""
        return functional.cross_entropy(logits, labels, self.weight, label_smoothing=self.label_smoothing)

    def forward(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor,
        tensor: torch.Tensor,
        latent: torch.Tensor | None = None,
        group: torch.Tensor | None = None,
        order: torch.Tensor | None = None,
    ) -> LossParts:
        """Return the parts for (N, K) logits, (N,) labels and the (N, C, W_t, H, W) tensor they were made from."""
        entropy = self.entropy(logits, labels)
        zero = entropy.detach() * 0
        near, calm, even = self.weights
        known = latent is not None and group is not None and order is not None
        parts = (
            consistency(latent, group, order, self.quantile) if near and known else zero,  # type: ignore[arg-type]  # known
            temporal_gradient(tensor) if calm else zero,
            smoothness(tensor) if even else zero,
        )
        total = entropy + near * parts[0] + calm * parts[1] + even * parts[2]
        return LossParts(total, entropy, *parts)
