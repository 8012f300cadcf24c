"""A steady picture from a shaking camera: motion between frames is measured, smoothed and taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import PIXEL_FORMATS
from hyperframes.operators._planes import check_choice, check_count, frame_spec
from hyperframes.operators.base import Contract, Operator, State, View, Worker, frames_out
from hyperframes.packing import Halo, Hyperframe

if TYPE_CHECKING:
    from hyperframes.frames import Array, FrameSpec, Spec

__all__ = ["Stabilize", "estimate_motion"]

Motion = tuple[complex, complex]
"""(a, b): a point z = x + iy, in pixels of the first plane from its centre, moves to a z + b."""

_STILL: Motion = (1 + 0j, 0j)
_SIDE = 320
"""Motion is measured on pictures of at most this many pixels a side."""
_FEWEST = 8
"""Points needed to believe a motion."""


@dataclass(frozen=True)
class Stabilize(Operator):
    """Picture moved so that the camera seems to move smoothly.

    Pictures of uint8, uint16 or float32, all planes alike: shape (T, H, W[, C]) in and out, same dtype. ``windowed``:
    the halo is `radius` frames on each side; a frame is moved to where it would be, on average, in the frames around
    it, so every hyperframe can be computed on its own; near the ends of the stream the window shrinks evenly to both
    sides. ``cumulative``: sequential, the halo is 1 frame before; the path follows the camera with a memory of
    `radius` frames and looks at no later frame, so a steady pan lags behind.

    Notes
    -----
    Motion from one frame to the next is a similarity (turn, zoom, shift), or only a shift, measured on a grey
    picture of at most 320 pixels a side: corners tracked by pyramidal Lucas-Kanade [1]_ and fitted by least squares,
    reweighted ten times so that what moves by itself loses its say; shifts by phase correlation. Where fewer than 8
    corners are found or the fit is no camera motion (more than 17 degrees, or a quarter in size), as at a cut, the
    motion counts as none. Pictures are moved by bilinear interpolation, their edges repeated. Chroma planes move by
    the same motion in their own pixels.

    References
    ----------
    .. [1] J.-Y. Bouguet, "Pyramidal implementation of the affine Lucas Kanade feature tracker", Intel, 2001.
    .. [2] Y. Matsushita et al., "Full-frame video stabilization with motion inpainting", IEEE PAMI 28(7), 2006,
       doi:10.1109/TPAMI.2006.141 (smoothing relative to the frame itself; there by a Gaussian, here by a mean).
    """

    name: ClassVar[str] = "stabilize"

    mode: Literal["windowed", "cumulative"] = "windowed"
    """``windowed`` or ``cumulative``."""
    radius: int = 15
    """Frames on each side that the path is smoothed over; frames of memory for ``cumulative``."""
    model: Literal["similarity", "translation"] = "similarity"
    """``similarity`` or ``translation``."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: one output like the input."""
        spec = frame_spec(self.name, inputs, kinds="uf")
        check_choice(self.name, "mode", self.mode, ("windowed", "cumulative"))
        check_choice(self.name, "model", self.model, ("similarity", "translation"))
        check_count(self.name, "radius", self.radius, 1, 512)
        if not spec.is_picture or spec.dtype not in (np.uint8, np.uint16, np.float32) or spec.layout == "NCHW":
            raise PipelineError(
                f"operator {self.name!r} moves pictures with channels last: "
                f"expected uint8, uint16 or float32 pictures, got {spec} {spec.layout}",
                stage=self.name,
                got=spec,
                hint="Arrays that are pictures need a pixel format: --pixel-format gray or rgb24.",
            )
        if self.mode == "cumulative":
            return Contract((frames_out(inputs),), Halo(1, 0), dependency="sequential", takes_mask=True)
        return Contract((frames_out(inputs),), Halo(self.radius, self.radius), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: Worker
    ) -> State | None:
        """Write the moved pictures of the core."""
        (hyperframe,), (view,) = inputs, outputs
        motions = self._motions(hyperframe, prepared)
        if self.mode == "cumulative":
            corrections, state = self._follow(motions, state)
        else:
            core = range(hyperframe.core.start, hyperframe.core.stop)
            corrections, state = [_smooth(motions, hyperframe.mask, t, self.radius) for t in core], None

        def move(start: int, stop: int) -> None:
            for j in range(start, stop):
                for source, out in zip(hyperframe.core_planes, view.planes, strict=True):
                    _warp(source[j], out[j], corrections[j], hyperframe.spec)

        prepared.split(len(corrections), move)
        return state

    def _motions(self, hyperframe: Hyperframe, worker: Worker) -> list[Motion]:
        """Return the motion from each frame held to the next one; none where either is no real frame."""
        motions = [_STILL] * (len(hyperframe) - 1)
        plane, mask = hyperframe.planes[0], hyperframe.mask

        def measure(start: int, stop: int) -> None:
            grey = _grey(plane[start], hyperframe.spec)
            for t in range(start, stop):
                following = _grey(plane[t + 1], hyperframe.spec)
                if mask[t] and mask[t + 1]:
                    motions[t] = estimate_motion(grey, following, plane.shape[1:3], self.model)
                grey = following

        worker.split(len(motions), measure)
        return motions

    def _follow(self, motions: list[Motion], state: State | None) -> tuple[list[Motion], State]:
        """Return the corrections of the core's frames and the last one as state.

        With P the path of the camera and S that path smoothed, S = S' + alpha (P - S') for S' the one before, the
        correction S P^-1 follows from the correction before alone, so nothing grows over a long stream.
        """
        alpha = 1 / (self.radius + 1)
        a, b = _STILL
        if state is not None:
            a, b = complex(state["a_real"], state["a_imag"]), complex(state["b_real"], state["b_imag"])
        corrections = []
        for motion in motions:
            inverse = _inverted(motion)
            a, b = a * inverse[0], a * inverse[1] + b
            a, b = (1 - alpha) * a + alpha, (1 - alpha) * b
            corrections.append((a, b))
        return corrections, {"a_real": a.real, "a_imag": a.imag, "b_real": b.real, "b_imag": b.imag}


def _smooth(motions: list[Motion], mask: Array, centre: int, radius: int) -> Motion:
    """Return where frame `centre` is on average in the frames around it: the mean of the motions there."""
    total_a, total_b, count = 1 + 0j, 0j, 1
    ahead, behind = _STILL, _STILL
    for k in range(1, radius + 1):
        if not (mask[centre - k] and mask[centre + k]):
            break
        step, back = motions[centre + k - 1], _inverted(motions[centre - k])
        ahead = (step[0] * ahead[0], step[0] * ahead[1] + step[1])
        behind = (back[0] * behind[0], back[0] * behind[1] + back[1])
        total_a += ahead[0] + behind[0]
        total_b += ahead[1] + behind[1]
        count += 2
    return total_a / count, total_b / count


def _inverted(motion: Motion) -> Motion:
    a, b = motion
    return 1 / a, -b / a


def _grey(picture: Array, spec: FrameSpec) -> Array:
    """Return the first plane of a frame as a small uint8 picture."""
    height, width = picture.shape[:2]
    down = max(1.0, max(height, width) / _SIDE)
    size = (max(1, round(width / down)), max(1, round(height / down)))
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA) if down > 1 else picture
    full = 1.0 if spec.dtype.kind == "f" else float((1 << PIXEL_FORMATS[spec.pixel_format].bits) - 1)
    level = small.astype(np.float32) * np.float32(255 / full)
    if level.ndim == 3:
        level = level[..., :3].mean(axis=2)
    return np.asarray(np.clip(np.nan_to_num(level), 0, 255), np.uint8)


def estimate_motion(before: Array, after: Array, shape: tuple[int, ...], model: str = "similarity") -> Motion:
    """Return the motion between two small grey pictures, in pixels of pictures of `shape`.

    Parameters
    ----------
    before, after : (h, w) uint8
        The same scene, one after the other.
    shape : (H, W)
        Size of the pictures they were made from.
    model : str
        ``similarity`` or ``translation``.

    Returns
    -------
    a, b : complex
        A point z = x + iy of `before`, from the picture's centre, is at a z + b in `after`.
    """
    across, down = shape[1] / before.shape[1], shape[0] / before.shape[0]
    if model == "translation":
        return _shift(before, after, across, down)
    corners: Any = cv2.goodFeaturesToTrack(before, 200, 0.01, 8)  # None where there are none, whatever its stub says
    if corners is None or len(corners) < _FEWEST:
        return _STILL
    nowhere: Any = None  # tracked from where the corners were
    moved, status, _ = cv2.calcOpticalFlowPyrLK(before, after, corners, nowhere)
    found = status.ravel() == 1
    centre = np.array([(before.shape[1] - 1) / 2, (before.shape[0] - 1) / 2])
    p, q = (((points.reshape(-1, 2)[found] - centre) * (across, down)) for points in (corners, moved))
    if len(p) < _FEWEST:
        return _STILL
    return _fit(p[:, 0] + 1j * p[:, 1], q[:, 0] + 1j * q[:, 1])


def _shift(before: Array, after: Array, across: float, down: float) -> Motion:
    if min(before.shape) < _FEWEST or before.std() == 0 or after.std() == 0:
        return _STILL
    window = cv2.createHanningWindow(before.shape[::-1], cv2.CV_32F)
    pair = (np.float32(before) - before.mean(dtype=np.float32), np.float32(after) - after.mean(dtype=np.float32))
    (x, y), response = cv2.phaseCorrelate(*pair, window)
    if not np.isfinite([x, y]).all() or response < 0.03:
        return _STILL
    return 1 + 0j, complex(x * across, y * down)


def _fit(p: Array, q: Array) -> Motion:
    """Return the similarity from points `p` to `q`, both complex, that most of them agree on."""
    weights = np.ones(len(p))
    a, b = _STILL
    for _ in range(10):
        total = weights.sum()
        centre_p, centre_q = (weights * p).sum() / total, (weights * q).sum() / total
        spread = (weights * np.abs(p - centre_p) ** 2).sum()
        if spread <= 1e-9:
            return _STILL
        a = complex((weights * np.conj(p - centre_p) * (q - centre_q)).sum() / spread)
        b = complex(centre_q - a * centre_p)
        residual = np.abs(q - a * p - b)
        scale = 1.4826 * float(np.median(residual)) + 0.01
        weights = 1 / (1 + (residual / (2 * scale)) ** 2) ** 2  # Geman-McClure: far points have no say
    believable = 0.75 <= abs(a) <= 1.25 and abs(np.angle(a)) <= 0.3
    return (a, b) if believable else _STILL


def _warp(source: Array, out: Array, correction: Motion, spec: FrameSpec) -> None:
    """Write `source` (h, w[, C]), one plane of a frame, moved by `correction` to `out`."""
    a, b = correction
    if (a, b) == _STILL:
        out[...] = source
        return
    matrix = np.array([[a.real, -a.imag, b.real], [a.imag, a.real, b.imag], [0, 0, 1]])
    # Pixels of this plane to pixels of the first one, from its centre; then the move, then back.
    across, down = spec.width / source.shape[1], spec.height / source.shape[0]
    to_centre = np.array([[across, 0, (across - spec.width) / 2], [0, down, (down - spec.height) / 2], [0, 0, 1]])
    own = np.linalg.inv(to_centre) @ matrix @ to_centre
    size = (source.shape[1], source.shape[0])
    out[...] = cv2.warpAffine(source, own[:2], size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE).reshape(
        out.shape
    )
