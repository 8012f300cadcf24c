"""The learned form of a stretch of video: channels that say what stands where, and channels that say how it changes.

Canonical is (N, C, W_t, H, W) with C = C1 + c_t: the first C1 channels are space and the same in every slice along w,
the last c_t are time. Packed is (N, C1 + c_t * W_t, H, W), which holds space once: no axis is lost, and 2-D tools take it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch

from hyperframes.errors import FrameError
from hyperframes.neural.tensorfile import read_tensors, reading, write_tensors

if TYPE_CHECKING:
    import os

    import numpy as np

__all__ = ["HyperTensor", "Kind"]

Kind = Literal["mch", "sch", "edh", "hybrid", "other"]
_HEADER, _VERSION = "hyperframes", 1
_MOST_BYTES = 4 << 30


@dataclass(frozen=True, slots=True, eq=False)
class HyperTensor:
    """A tensor over windows of a fixed length, with its channel split and where it comes from.

    Examples
    --------
    >>> tensor = HyperTensor(torch.zeros(1, 128 + 64, 4, 32, 32), space=128, kind="mch")
    >>> tuple(tensor.packed().shape)
    (1, 384, 32, 32)
    """

    data: torch.Tensor
    """(N, C, W_t, H, W), floating."""
    space: int
    """C1: how many of the C channels are space; the others are time."""
    kind: Kind = "other"
    curvature: torch.Tensor | None = None
    """(N, 1, W_t, H, W) float32, where it was computed."""
    source: str = ""
    """What it was made of: path or URL, without credentials."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Frames [start, stop) of the source that each of the N items covers."""

    def __post_init__(self) -> None:
        if self.data.ndim != 5 or not self.data.is_floating_point():
            raise FrameError(
                f"a hyperframe tensor is (N, C, W_t, H, W) of floats: got {tuple(self.data.shape)} of {self.data.dtype}"
            )
        if not 0 <= self.space <= self.data.shape[1]:
            raise FrameError(f"space counts channels: expected 0 to {self.data.shape[1]}, got {self.space}")
        if self.ranges and len(self.ranges) != len(self.data):
            raise FrameError(f"one range an item: expected {len(self.data)}, got {len(self.ranges)}")
        wanted = (len(self.data), 1, *self.data.shape[2:])
        if self.curvature is not None and tuple(self.curvature.shape) != wanted:
            raise FrameError(f"curvature has one channel: expected {wanted}, got {tuple(self.curvature.shape)}")

    @property
    def split(self) -> tuple[int, int]:
        """(C1, c_t): channels of space and of time."""
        return self.space, self.data.shape[1] - self.space

    def packed(self) -> torch.Tensor:
        """Return (N, C1 + c_t * W_t, H, W): space averaged along w, then every time channel's W_t slices."""
        space, time = self.data[:, : self.space], self.data[:, self.space :]
        return torch.cat([space.mean(2), time.flatten(1, 2)], 1)

    @classmethod
    def unpacked(cls, packed: torch.Tensor, space: int, slices: int, **fields: Any) -> HyperTensor:
        """Return the canonical form of what `packed` gave; space is the same in all `slices` along w.

        Raises
        ------
        FrameError
            If the channels after the first `space` are no multiple of `slices`.
        """
        if packed.ndim != 4 or slices < 1 or (packed.shape[1] - space) % slices or packed.shape[1] < space:
            raise FrameError(
                f"packed channels are space plus a multiple of the slices: got {tuple(packed.shape)}, "
                f"{space} of space and {slices} slices"
            )
        n, _, height, width = packed.shape
        time = packed[:, space:].reshape(n, -1, slices, height, width)
        still = packed[:, :space].unsqueeze(2).expand(-1, -1, slices, -1, -1)
        return cls(torch.cat([still, time], 1), space, **fields)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file: numbers and a header of text, nothing that is run when it is read."""
        header = {
            "version": _VERSION,
            "space": self.space,
            "slices": self.data.shape[2],
            "kind": self.kind,
            "source": self.source,
            "ranges": self.ranges,
        }
        tensors = {"data": self.data} | ({} if self.curvature is None else {"curvature": self.curvature})
        write_tensors(path, _HEADER, header, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HyperTensor:
        """Read what `save` wrote.

        Raises
        ------
        SourceError
            If the file is another kind of file, damaged, or of a newer version.
        """
        what = "a hyperframe tensor"
        with reading(path, what):
            hint = "Write it again with this version of hyperframes."
            fields, tensors = read_tensors(path, _HEADER, _VERSION, what, hint)
            ranges = tuple((int(start), int(stop)) for start, stop in fields["ranges"])
            return cls(
                tensors["data"],
                int(fields["space"]),
                fields["kind"],
                tensors.get("curvature"),
                fields["source"],
                ranges,
            )

    def pictures(self, item: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Return maps to look at: ``space`` (H, W), ``time`` (W_t, H, W) and ``curvature`` (W_t, H, W), uint8.

        Means over the channels, each from its least to its greatest value; curvature as log1p, up to its 95th
        percentile.
        """
        space, time = self.data[item, : self.space], self.data[item, self.space :]
        maps = {}
        if len(space):
            maps["space"] = _picture(space.mean(0).mean(0))
        if len(time):
            maps["time"] = _picture(time.mean(0))
        if self.curvature is not None:
            bent = torch.log1p(self.curvature[item, 0].float())
            maps["curvature"] = _picture(bent, 0.0, float(torch.quantile(bent.flatten(), 0.95)))
        return maps

    def detach(self) -> HyperTensor:
        """Return it without its history, on the CPU."""
        bent = None if self.curvature is None else self.curvature.detach().cpu()
        return replace(self, data=self.data.detach().cpu(), curvature=bent)

    def __repr__(self) -> str:
        return f"HyperTensor({self.kind}, {tuple(self.data.shape)}, space {self.space}, {len(self.ranges)} ranges)"


def _picture(values: torch.Tensor, low: float | None = None, high: float | None = None) -> np.ndarray[Any, Any]:
    values = values.detach().float().cpu()
    low = float(values.min()) if low is None else low
    high = float(values.max()) if high is None else high
    scaled = (values - low) / (high - low) if high > low else torch.zeros_like(values)
    return (scaled.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
