"""The three kernels that a descriptor carries, and what they are for: detail where it matters, none elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import cv2
import numpy as np

from hyperframes.errors import FrameError

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["FIXED_KERNELS", "attend"]

_BINOMIAL = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], np.float32) / 16
_IDENTITY = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)

FIXED_KERNELS: Final = np.repeat(np.stack([_BINOMIAL, _IDENTITY, 2 * _IDENTITY - _BINOMIAL])[:, None], 3, axis=1)
"""(3, 3, 3, 3) float32, (kernel, channel, row, column): binomial smoothing, identity, sharpening; each sums to 1."""
FIXED_KERNELS.setflags(write=False)


def attend(picture: Array, confidence: Array, kernels: Array = FIXED_KERNELS) -> Array:
    """Smooth a picture where the confidence is low and sharpen it where it is high.

    What encoders, people and models then see is detail where something matters. Each pixel is a mix of two of the
    kernels' results: of kernel 0 at confidence 0, of kernel 1 at one half, of kernel 2 at 1, linear between them.

    Parameters
    ----------
    picture : (H, W) or (H, W, 3) array of uint8
        Grey or RGB.
    confidence : (64, 64) array of float32
        In [0, 1]; scaled to the picture, bilinear, centres aligned.
    kernels : (3, 3, 3, 3) array of float32
        A descriptor's ``spatial_kernels``: (kernel, channel, row, column), applied channel by channel. A grey picture
        takes the kernels of channel 0.

    Returns
    -------
    array like `picture`
        Rounded to the nearest; borders repeat the edge.

    Raises
    ------
    FrameError
        If the picture is neither grey nor RGB of uint8.
    """
    if picture.dtype != np.uint8 or picture.ndim not in {2, 3} or picture.shape[2:] not in {(), (3,)}:
        raise FrameError(
            f"a picture here is grey (H, W) or RGB (H, W, 3) of uint8, got {picture.shape} {picture.dtype}",
            expected="(H, W) or (H, W, 3) uint8",
            got=(picture.shape, picture.dtype),
        )
    height, width = picture.shape[:2]
    place = 2 * cv2.resize(np.asarray(confidence, np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    shares = [np.clip(1 - np.abs(place - k), 0, 1) for k in range(3)]
    channels = picture.reshape(height, width, -1)
    mixed = [
        sum(share * _filtered(channels[..., c], kernels[k, c]) for k, share in enumerate(shares))
        for c in range(channels.shape[2])
    ]
    return np.clip(np.floor(np.stack(mixed, axis=-1) + 0.5), 0, 255).astype(np.uint8).reshape(picture.shape)


def _filtered(channel: Array, kernel: Array) -> Array:
    source = np.ascontiguousarray(channel, np.float32)
    return cv2.filter2D(source, cv2.CV_32F, np.ascontiguousarray(kernel, np.float32), borderType=cv2.BORDER_REPLICATE)
