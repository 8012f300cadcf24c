"""What is seen: a COCO detector (NanoDet) on ONNX Runtime as one operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import Array, FrameSpec
from hyperframes.operators import Contract, Operator, Output, State, View, Worker
from hyperframes.operators.checks import check_number, frame_spec
from hyperframes.operators.onnx_model import ModelForm, file_checksum, form_of, identity
from hyperframes.semantic.coco import COCO_CLASSES

if TYPE_CHECKING:
    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = ["MAX_BOXES", "Detect", "Detector", "decode", "suppress"]

MAX_BOXES: Final = 32
_STRIDES: Final = (8, 16, 32)
_BINS: Final = 11
_MEAN: Final = np.array([103.53, 116.28, 123.675], np.float32)  # of blue, green, red
_STD: Final = np.array([57.375, 57.12, 58.395], np.float32)


@dataclass(frozen=True)
class Detector(Operator):
    """What finders of boxes in RGB pictures share: a model file, which boxes count, and which two are one."""

    compiles: ClassVar[bool] = True
    formats: ClassVar[tuple[str, ...] | None] = ("rgb24",)

    model: str
    """Path of the file."""
    threshold: float
    """Least score of a box."""
    overlap: float
    """Intersection over union from which on two boxes are one."""
    version: int = field(init=False, default=1)  # type: ignore[misc]  # another file is another operator

    def __post_init__(self) -> None:
        check_number(self.name, "threshold", self.threshold, 0, 1, above=True)
        check_number(self.name, "overlap", self.overlap, 0, 1)
        object.__setattr__(self, "version", file_checksum(*identity(self.model)))

    def prepare(self, worker: Worker) -> ModelForm:
        """Return the model that this process's workers share."""
        return form_of(*identity(self.model), threads=worker.threads)


@dataclass(frozen=True)
class Detect(Detector):
    """Find objects of the 80 COCO classes with a NanoDet model file.

    RGB frames of shape (H, W, 3), dtype uint8 -> two outputs of frames, float32: ``boxes`` of shape (32, 6), best first:
    left, top, right, bottom as shares of the picture, score, class; rows of score 0 are empty; and ``scores`` of shape
    (80,), the greatest score of each class anywhere in the picture, whether there is a box or not. No halo.

    Notes
    -----
    The picture is stretched to the model's size. Distances to the four sides are the expected values over 11 bins, times
    the stride, from the cell's centre. Boxes of one class that share more than `overlap` of their union are one.

    References
    ----------
    .. [1] X. Li et al., "Generalized Focal Loss: Learning Qualified and Distributed Bounding Boxes for Dense Object
       Detection", NeurIPS 2020. arXiv:2006.04388
    """

    name: ClassVar[str] = "detect"

    threshold: float = 0.3
    """Least score of a box."""
    overlap: float = 0.6
    """Intersection over union from which on two boxes are one."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: boxes and scores of each frame."""
        spec = frame_spec(self.name, inputs, kinds="u")
        if spec.pixel_format != "rgb24":
            raise PipelineError(f"operator 'detect' works on rgb24 pictures, got {spec}", stage=self.name, got=spec)
        _checked(self.model, form_of(*identity(self.model), threads=1))
        boxes = FrameSpec.array((MAX_BOXES, 6), np.float32, rate=spec.rate)
        scores = FrameSpec.array((len(COCO_CLASSES),), np.float32, rate=spec.rate)
        return Contract((Output("boxes", "frames", boxes), Output("scores", "frames", scores)), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: ModelForm
    ) -> None:
        """Look at the core's frames one by one: the model takes one."""
        (hyperframe,), (boxes, scores) = inputs, outputs
        first = hyperframe.core.start
        for t in range(len(boxes)):
            if not hyperframe.mask[first + t]:
                boxes.data[t], scores.data[t] = 0, 0
                continue
            all_scores, corners = decode(run_model(prepared, hyperframe.planes[0][first + t]), _side(prepared))
            boxes.data[t] = suppress(all_scores, corners, self.threshold, self.overlap)
            scores.data[t] = all_scores.max(axis=0)


def _side(form: ModelForm) -> int:
    return form.height or 416


def _checked(model: str, form: ModelForm) -> None:
    side = _side(form)
    wanted = {(s // k) ** 2 for k in _STRIDES for s in (side,)}
    widths = {tuple(output.shape[-2:]) for output in form.session.get_outputs()}
    if form.channels != 3 or not all((n, w) in widths for n in wanted for w in (len(COCO_CLASSES), 4 * _BINS)):
        raise PipelineError(
            f"operator 'detect': {model} is no NanoDet detector of COCO: expected scores (n, 80) and distances (n, 44) "
            f"for the strides 8, 16 and 32, got {sorted(map(str, widths))}",
            stage="detect",
            got=model,
            hint="Run other detectors with --model FILE.onnx.",
        )


def run_model(form: ModelForm, picture: Array) -> list[Array]:
    """Return the model's outputs for an RGB picture (H, W, 3) uint8, without the batch axis."""
    side = _side(form)
    shrinks = picture.shape[0] >= side and picture.shape[1] >= side
    small = cv2.resize(picture, (side, side), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    fed = ((small[..., ::-1].astype(np.float32) - _MEAN) / _STD).transpose(2, 0, 1)[None]
    return [output[0] for output in form.session.run(None, {form.input: np.ascontiguousarray(fed)})]


def decode(outputs: list[Array], side: int) -> tuple[Array, Array]:
    """Return the scores, (n, 80), and corners as shares of the picture, (n, 4), of all cells of all strides.

    Parameters
    ----------
    outputs : list of arrays
        Per stride, in any order: scores (n * n, 80), distributions of distances (n * n, 44).
    side : int
        Of the model's input, in pixels.
    """
    by_shape = {output.shape: output for output in outputs}
    scores, corners = [], []
    for stride in _STRIDES:
        n = side // stride
        scores.append(by_shape[(n * n, len(COCO_CLASSES))])
        logits = by_shape[(n * n, 4 * _BINS)].reshape(n * n, 4, _BINS).astype(np.float64)
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
        reach = (shares / shares.sum(axis=-1, keepdims=True)) @ np.arange(_BINS) * stride  # left, top, right, bottom
        y, x = np.divmod(np.arange(n * n), n)
        centre = (np.stack([x, y], axis=1) + 0.5) * stride
        corners.append(np.concatenate([centre - reach[:, :2], centre + reach[:, 2:]], axis=1) / side)
    return np.concatenate(scores), np.clip(np.concatenate(corners), 0, 1)


def suppress(scores: Array, corners: Array, threshold: float, overlap: float) -> Array:
    """Return the best boxes, (32, 6) float32, best first, with no two of one class that overlap more than allowed.

    Parameters
    ----------
    scores : (n, 80) array
        Of each cell and class.
    corners : (n, 4) array
        Left, top, right, bottom.
    threshold : float
        Least score.
    overlap : float
        Intersection over union above which the weaker box of a class is left out.
    """
    found = np.zeros((MAX_BOXES, 6), np.float32)
    cells, kinds = np.nonzero(scores >= threshold)
    order = np.argsort(-scores[cells, kinds], kind="stable")
    kept = 0
    for cell, kind in zip(cells[order], kinds[order], strict=True):
        box = corners[cell].astype(np.float32)
        rivals = found[:kept][found[:kept, 5] == kind]
        if len(rivals) and _overlaps(box, rivals[:, :4]).max() > overlap:
            continue
        found[kept] = (*box, scores[cell, kind], kind)
        kept += 1
        if kept == MAX_BOXES:
            break
    return found


def _overlaps(box: Array, others: Array) -> Array:
    """Return the intersection over union of a box with each of (k, 4) others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=1)
    union = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - shared
    return np.asarray(shared / np.maximum(union, 1e-12))
