"""How bent a tensor is at each place, over w and both axes of space; always in at least 32 bits."""

from __future__ import annotations

from typing import Literal

import torch

__all__ = ["Curvature", "curvature", "differences"]

Curvature = Literal["gradient", "surface"]


def differences(x: torch.Tensor, axis: int, *, causal: bool = False) -> torch.Tensor:
    """Return the derivative of `x` along `axis` by central differences, one-sided at the ends.

    `causal` takes backward differences, 0 at the start, so that nothing depends on what comes later. An axis of one
    place has the derivative 0.
    """
    size = x.shape[axis]
    if size == 1:
        return x * 0  # still a function of x
    step = x.narrow(axis, 1, size - 1) - x.narrow(axis, 0, size - 1)
    if causal:
        return torch.cat([torch.zeros_like(step.narrow(axis, 0, 1)), step], axis)
    first, last = step.narrow(axis, 0, 1), step.narrow(axis, size - 2, 1)
    middle = 0.5 * (step.narrow(axis, 0, size - 2) + step.narrow(axis, 1, size - 2))
    return torch.cat([first, middle, last], axis)


def curvature(x: torch.Tensor, kind: Curvature = "gradient", *, causal: bool = False) -> torch.Tensor:
    """Return (N, 1, W_t, H, W), not negative, of `x` (N, C, W_t, H, W).

    The channels' mean f is taken as a surface over (w, y, x). ``gradient`` is the magnitude of its gradient, the cheap
    stand-in; ``surface`` the absolute mean curvature ``|div(grad f / sqrt(1 + |grad f|^2))|`` of its graph.

    Notes
    -----
    Computed in float32 or wider whatever autocast says: squares of half floats overflow.

    References
    ----------
    .. [1] M. P. do Carmo, "Differential Geometry of Curves and Surfaces", 1976, section 3-3 (graphs).
    """
    with torch.autocast(x.device.type, enabled=False):
        f = x.to(torch.promote_types(x.dtype, torch.float32)).mean(1, keepdim=True)
        gradient = [differences(f, 2, causal=causal), differences(f, 3), differences(f, 4)]
        squared = gradient[0] ** 2 + gradient[1] ** 2 + gradient[2] ** 2
        if kind == "gradient":
            if not (torch.is_grad_enabled() and squared.requires_grad):
                return torch.sqrt(squared)
            # The root has no slope at 0: places that are flat would give NaN gradients.
            return torch.where(
                squared > 0, torch.sqrt(torch.where(squared > 0, squared, torch.ones_like(squared))), 0.0
            )
        length = torch.sqrt(1 + squared)
        parts = [
            differences(g / length, axis, causal=causal and axis == 2)
            for axis, g in zip((2, 3, 4), gradient, strict=True)
        ]
        return (parts[0] + parts[1] + parts[2]).abs()
