"""Networks that only answer: what normalisation does with fixed statistics goes into the weights before it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hyperframes.neural.baselines import ResidualBlock
from hyperframes.neural.encoders import HyperBlock, Pyramid
from hyperframes.neural.layers import HDSConv, ManifoldAwareBatchNorm

if TYPE_CHECKING:
    from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["answering"]

_Net = TypeVar("_Net", bound=nn.Module)

_CONVOLUTIONS = (nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm2d, nn.BatchNorm3d)


class _Shift(nn.Module):
    """What is left of a normalisation whose scale is in the weights before it."""

    shift: torch.Tensor

    def __init__(self, shift: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift)

    def affine(self) -> tuple[None, torch.Tensor]:
        return None, self.shift


@torch.no_grad()
def answering(net: _Net) -> _Net:
    """Return a copy of `net` that answers the same, up to rounding, with fewer passes; it can no longer be trained.

    Parameters
    ----------
    net : Module
        An encoder, net, classifier or baseline of this package; what it cannot take apart stays as it is.
    """
    made = copy.deepcopy(net).eval().requires_grad_(False)
    for module in list(made.modules()):
        if isinstance(module, nn.Sequential):
            _merge_pairs(module)
        elif isinstance(module, ResidualBlock):
            module.conv1, module.norm1 = _merged(module.conv1, module.norm1), nn.Identity()
            module.conv2, module.norm2 = _merged(module.conv2, module.norm2), nn.Identity()
        elif isinstance(module, HyperBlock):
            _merge_block(module)
    for module in made.modules():
        if isinstance(module, Pyramid):
            module.stages.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch knows it of modules
    return made


def _merged(conv: nn.Module, norm: nn.Module) -> nn.Module:
    assert isinstance(conv, _CONVOLUTIONS)
    assert isinstance(norm, _NORMS)
    found: nn.Module = fuse_conv_bn_eval(conv, _as_norm(norm))
    return found


def _as_norm(norm: nn.Module) -> _BatchNorm:
    return norm  # type: ignore[return-value]  # they are: torch's base class has no public name


def _merge_pairs(parts: nn.Sequential) -> None:
    for i in reversed(range(len(parts) - 1)):
        if isinstance(parts[i], _CONVOLUTIONS) and isinstance(parts[i + 1], _NORMS):
            parts[i] = _merged(parts[i], parts[i + 1])
            del parts[i + 1]


def _merge_block(block: HyperBlock) -> None:
    conv, norm = block.conv, block.norm
    if isinstance(conv, HDSConv) and isinstance(norm, ManifoldAwareBatchNorm):
        scale, shift = norm.affine()
        for part in (conv.from_space, conv.from_time):
            part.weight.mul_(scale.reshape(-1, 1, 1, 1))
        block.norm = _Shift(shift)
