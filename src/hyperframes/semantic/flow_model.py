"""Dense flow by a model file in place of OpenCV's: RAFT and its kin, where a user has the weights."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cv2
import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.operators.onnx_model import file_checksum, first_line, identity, open_session

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["FlowModel", "flow_version", "mark_version", "new_search"]

_MULTIPLE: Final = 8
_LEAST_SIDE: Final = 128  # RAFT compares at an eighth of the size over four halvings


def new_search(model: str = "", threads: int = 1) -> Any:
    """Return what computes dense flow by ``calc(before, after, None)``, for one thread.

    OpenCV's dense inverse search, or the model file named.
    """
    if model:
        return FlowModel(model, threads)
    return cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)


def flow_version(model: str) -> int:
    """Return what tells one model file from another; 0 for none."""
    return file_checksum(*identity(model)) if model else 0


def mark_version(operator: Any, files: int) -> None:
    """Let the files that an operator was given tell it from others: resumed runs must not take one for another."""
    if files:
        object.__setattr__(operator, "version", files)


@functools.lru_cache(maxsize=4)
def _opened(path: str, _changed_ns: int, _size: int, threads: int) -> Any:
    return open_session(path, threads)


class FlowModel:
    """An ONNX file that makes flow from two pictures.

    Two inputs (1, 3, H, W) or (1, 1, H, W) of floats, the picture before and the one after, in grey levels of 0 to 255 (or as the
    file's metadata ``scale``, ``mean`` and ``std`` say: ``(x * scale - mean) / std``); the output is (1, 2, h, w), pixels to the
    right and down. Of several such outputs the largest counts, of those the last: iterative models give their best one last.

    Raises
    ------
    PipelineError
        If the file cannot be run, or reads or gives something else.

    References
    ----------
    .. [1] Z. Teed, J. Deng, "RAFT: Recurrent All-Pairs Field Transforms for Optical Flow", ECCV 2020. arXiv:2003.12039
    """

    def __init__(self, model: str, threads: int = 1) -> None:
        self._name = Path(model).name
        self._session = _opened(*identity(model), threads)
        inputs = self._session.get_inputs()
        if len(inputs) != 2 or any(
            len(i.shape) != 4 or i.type != "tensor(float)" or i.shape[1] not in {1, 3} for i in inputs
        ):
            told = ", ".join(f"{i.name} {tuple(i.shape)} {i.type}" for i in inputs)
            raise PipelineError(
                f"the model {self._name} is no model of flow: expected two inputs (1, 3, height, width) of floats, got {told}",
                stage="flow",
                got=told,
                hint="Export RAFT or another with two pictures in and one flow out.",
            )
        self._names = [i.name for i in inputs]
        self._channels = int(inputs[0].shape[1])
        self._size = tuple(n if isinstance(n, int) and n > 0 else None for n in inputs[0].shape[2:])
        told = self._session.get_modelmeta().custom_metadata_map
        self._scale, self._mean, self._std = (float(told.get(k, v)) for k, v in (("scale", 1), ("mean", 0), ("std", 1)))

    def calc(self, before: Array, after: Array, _guess: Any = None) -> Array:
        """Return the flow between two grey pictures (h, w) uint8: (h, w, 2) float32, pixels of theirs."""
        height, width = after.shape
        down, across = (fixed or self._fitting(n) for fixed, n in zip(self._size, (height, width), strict=True))
        fed = {name: self._fed(p, (across, down)) for name, p in zip(self._names, (before, after), strict=True)}
        try:
            outputs = self._session.run(None, fed)
        except Exception as error:
            raise PipelineError(
                f"the model {self._name} failed on pictures of {across}x{down}: {first_line(error)}", stage="flow"
            ) from error
        flows = [o for o in outputs if o.ndim == 4 and o.shape[:2] == (1, 2)]
        if not flows:
            shapes = [tuple(o.shape) for o in outputs]
            raise PipelineError(
                f"the model {self._name} gives no flow: expected an output (1, 2, height, width), got {shapes}",
                stage="flow",
                got=shapes,
            )
        best = max(enumerate(flows), key=lambda item: (item[1][0, 0].size, item[0]))[1][0]
        share = np.array([width / best.shape[2], height / best.shape[1]], np.float32)
        flow = cv2.resize(
            np.ascontiguousarray(best.transpose(1, 2, 0)), (width, height), interpolation=cv2.INTER_LINEAR
        )
        return np.asarray(flow * share, np.float32)

    @staticmethod
    def _fitting(length: int) -> int:
        return max(_LEAST_SIDE, _MULTIPLE * math.ceil(length / _MULTIPLE))

    def _fed(self, picture: Array, size: tuple[int, int]) -> Array:
        scaled = cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR).astype(np.float32)
        value = (scaled * np.float32(self._scale) - np.float32(self._mean)) / np.float32(self._std)
        return np.ascontiguousarray(np.broadcast_to(value, (1, self._channels, *value.shape)))
