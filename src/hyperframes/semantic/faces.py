"""Faces, where a user has a face model: YuNet on ONNX Runtime as one operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import Array, FrameSpec
from hyperframes.operators import Contract, Output, State, View
from hyperframes.operators.checks import frame_spec
from hyperframes.operators.onnx_model import ModelForm, form_of, identity
from hyperframes.semantic.coco import FACE
from hyperframes.semantic.detect import MAX_BOXES, Detector, suppress

if TYPE_CHECKING:
    from hyperframes.frames import Spec
    from hyperframes.packing import Hyperframe

__all__ = ["Faces", "decode_faces"]

_STRIDES: Final = (8, 16, 32)
_SIDE: Final = 320
_OUTPUTS: Final = tuple(f"{part}_{stride}" for part in ("cls", "obj", "bbox") for stride in _STRIDES)


@dataclass(frozen=True)
class Faces(Detector):
    """Find faces with a YuNet model file.

    RGB frames of shape (H, W, 3), dtype uint8 -> ``boxes`` of shape (32, 6), dtype float32, best first: left, top, right,
    bottom as shares of the picture, score, class 80; rows of score 0 are empty. No halo.

    Notes
    -----
    The picture is stretched to the model's size, 320 x 320 where it leaves that free; values are 0 to 255, blue first.

    References
    ----------
    .. [1] W. Wu, H. Peng, S. Yu, "YuNet: A Tiny Millisecond-level Face Detector", Machine Intelligence Research 20, 2023.
       DOI: 10.1007/s11633-023-1423-y
    """

    name: ClassVar[str] = "faces"

    threshold: float = 0.6
    """Least score of a box."""
    overlap: float = 0.3
    """Intersection over union from which on two boxes are one."""

    def configure(self, inputs: tuple[Spec, ...]) -> Contract:
        """Return the contract: boxes of each frame."""
        spec = frame_spec(self.name, inputs, kinds="u")
        form = form_of(*identity(self.model), threads=1)
        missing = [name for name in _OUTPUTS if name not in form.outputs]
        if missing or form.channels != 3:
            raise PipelineError(
                f"operator 'faces': {self.model} is no YuNet detector: expected outputs {', '.join(_OUTPUTS)}, "
                f"got {', '.join(form.outputs)}",
                stage=self.name,
                got=self.model,
                hint="face_detection_yunet_2023mar.onnx of OpenCV's model zoo is one.",
            )
        boxes = FrameSpec.array((MAX_BOXES, 6), np.float32, rate=spec.rate)
        return Contract((Output("boxes", "frames", boxes),), takes_mask=True)

    def apply(
        self, inputs: tuple[Hyperframe, ...], outputs: tuple[View, ...], state: State | None, prepared: ModelForm
    ) -> None:
        """Look at the core's frames one by one."""
        (hyperframe,), (boxes,) = inputs, outputs
        size = (prepared.width or _SIDE, prepared.height or _SIDE)
        for t, picture in enumerate(hyperframe.core_data):
            small = cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR)
            fed = np.ascontiguousarray(small[..., ::-1].transpose(2, 0, 1)[None], np.float32)
            told = dict(zip(_OUTPUTS, prepared.session.run(list(_OUTPUTS), {prepared.input: fed}), strict=True))
            scores, corners = decode_faces(told, size)
            found = suppress(scores[:, None], corners, self.threshold, self.overlap)
            found[found[:, 4] > 0, 5] = FACE
            boxes.data[t] = found


def decode_faces(told: dict[str, Array], size: tuple[int, int]) -> tuple[Array, Array]:
    """Return the scores, (n,), and corners as shares of the picture, (n, 4), of all cells of all strides.

    Parameters
    ----------
    told : dict of arrays
        Outputs by name: ``cls_8`` and ``obj_8`` (1, n, 1), ``bbox_8`` (1, n, 4), and so on for 16 and 32.
    size : (int, int)
        Width and height of what the model saw.
    """
    width, height = size
    scores, corners = [], []
    for stride in _STRIDES:
        columns = width // stride
        known, there, box = (
            told[f"{part}_{stride}"].reshape(-1, n) for part, n in (("cls", 1), ("obj", 1), ("bbox", 4))
        )
        scores.append(np.sqrt(np.clip(known, 0, 1) * np.clip(there, 0, 1))[:, 0])
        row, column = np.divmod(np.arange(len(box)), columns)
        middle = (np.stack([column, row], axis=1) + box[:, :2].astype(np.float64)) * stride
        half = np.exp(np.minimum(box[:, 2:].astype(np.float64), 20)) * stride / 2
        corners.append(np.concatenate([middle - half, middle + half], axis=1) / [width, height, width, height])
    return np.concatenate(scores), np.clip(np.concatenate(corners), 0, 1)
