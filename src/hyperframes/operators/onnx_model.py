"""A model file: loaded once a process, and what its one input looks like."""

from __future__ import annotations

import functools
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hyperframes.errors import MissingExtraError, PipelineError

__all__ = [
    "PIXEL_FORMATS_READ",
    "ModelForm",
    "file_checksum",
    "first_line",
    "form_of",
    "identity",
    "model_id",
    "open_session",
]

_DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
    "tensor(double)": np.dtype(np.float64),
    "tensor(uint8)": np.dtype(np.uint8),
}
PIXEL_FORMATS_READ = {1: "gray", 3: "rgb24"}
"""Pixel format of the pictures that are given to models, by the channels they read."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelForm:
    """A loaded model and what its one input looks like."""

    session: Any
    input: str
    dtype: np.dtype[Any]
    batch: int | None
    """Fixed number of frames a call; None where it is free."""
    length: int
    """Frames that one result is made from."""
    time_axis: int
    """Where those are counted, behind the batch: 0, or 1 after the channels; -1 in models of single frames."""
    channels: int
    channels_first: bool
    height: int | None
    width: int | None
    """None where the model takes any."""
    outputs: tuple[str, ...]
    metadata: Mapping[str, str]


def identity(model: str) -> tuple[str, int, int]:
    """Return what tells one model file from another: path, time and size."""
    path = os.path.realpath(model)
    try:
        found = os.stat(path)
    except OSError as error:
        raise PipelineError(
            f"operator 'onnx': expected a readable file for model, got {model}: {(error.strerror or str(error)).lower()}",
            stage="onnx",
            got=model,
            hint="Name a model file: --model FILE.onnx",
        ) from error
    return path, found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=64)
def file_checksum(path: str, _changed_ns: int, _size: int) -> int:
    """Return the CRC-32 of the file that `identity` told of."""
    return zlib.crc32(Path(path).read_bytes())


def model_id(path: str | os.PathLike[str]) -> str:
    """Return a file's name and checksum: how descriptors say which model made them."""
    return f"{Path(path).name} {file_checksum(*identity(os.fspath(path))):08x}"


@functools.lru_cache(maxsize=4)
def form_of(path: str, _changed_ns: int, _size: int, *, threads: int) -> ModelForm:
    """Load a model; workers of one process share what is loaded."""
    session = open_session(path, threads)
    inputs = session.get_inputs()
    name = Path(path).name
    if len(inputs) != 1 or inputs[0].type not in _DTYPES or len(inputs[0].shape) not in {4, 5}:
        told = ", ".join(f"{i.name} {tuple(i.shape)} {i.type}" for i in inputs) or "nothing"
        raise PipelineError(
            f"operator 'onnx': the model {name} does not read pictures: expected one input (n, channels, height, width) "
            f"or (n, height, width, channels) of floats or bytes, with or without frames, got {told}",
            stage="onnx",
            got=told,
            hint="Models of text and sound, and of several inputs, are not run here.",
        )
    axes = _axes(name, inputs[0].shape)
    return ModelForm(
        session,
        inputs[0].name,
        _DTYPES[inputs[0].type],
        outputs=tuple(output.name for output in session.get_outputs()),
        metadata=session.get_modelmeta().custom_metadata_map,
        **axes,
    )


def _axes(name: str, shape: list[Any]) -> dict[str, Any]:
    """Return what each axis of the input is."""
    batch, *rest = (dim if isinstance(dim, int) and dim > 0 else None for dim in shape)
    frames, time_axis = 1, -1
    if len(rest) == 4:
        time_axis = 0 if rest[1] in PIXEL_FORMATS_READ or rest[-1] in PIXEL_FORMATS_READ else 1
        length = rest.pop(time_axis)
        if length is None:
            raise PipelineError(
                f"operator 'onnx': the model {name} does not say how many frames it reads: got {tuple(shape)}",
                stage="onnx",
                got=shape,
            )
        frames = length
    first = rest[0] in PIXEL_FORMATS_READ
    channels = rest[0] if first else rest[-1]
    if channels not in PIXEL_FORMATS_READ:
        raise PipelineError(
            f"operator 'onnx': the model {name} does not read pictures: expected 1 or 3 channels, got {tuple(shape)}",
            stage="onnx",
            got=shape,
        )
    height, width = rest[1:] if first else rest[:2]
    return {
        "batch": batch,
        "length": frames,
        "time_axis": time_axis,
        "channels": channels,
        "channels_first": first,
        "height": height,
        "width": width,
    }


def open_session(path: str, threads: int) -> Any:
    """Return an ONNX Runtime session of a file, as all operators here run them."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("running a model file", "semantic") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads must not burn a core
    options.log_severity_level = 4  # what goes wrong is raised, and told once
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise PipelineError(
            f"operator 'onnx': {Path(path).name} is no model that ONNX Runtime {onnxruntime.__version__} can run: "
            f"{first_line(error)}",
            stage="onnx",
            got=path,
            hint="It is damaged, of another kind, or made for a newer version; export it again, or update onnxruntime.",
        ) from error


def first_line(error: Exception) -> str:
    """Return what ONNX Runtime says, without its codes and stack."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : ", "", text)[:200]
