"""Networks for other runtimes: a torch program or an ONNX file, compared with the network before it is kept."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import nn

from hyperframes.errors import MissingExtraError, PipelineError, SourceError
from hyperframes.neural.encoders import Classifier, Encoder
from hyperframes.neural.event_encoder import EDH
from hyperframes.neural.nets import ProjectionGenerator, RefinerLSTM, RegionUNet
from hyperframes.neural.tensorfile import has_header, reading
from hyperframes.neural.weights import HEADER, load_weights

if TYPE_CHECKING:
    import os

__all__ = ["FORMATS", "Exported", "export"]

FORMATS = {"torch": ".pt2", "onnx": ".onnx", "openvino": ".xml"}
"""What a network can be written as, and how such files end."""
_OPSET = 20  # the first that samples volumes


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    path: str
    format: str
    inputs: tuple[int, ...]
    """Shape of the input."""
    outputs: tuple[int, ...]
    difference: float
    """The greatest from what the network itself gives, as a share of its greatest value."""
    bytes: int


def export(
    model: str | os.PathLike[str],
    to: Literal["torch", "onnx", "openvino"],
    out: str | os.PathLike[str] | None = None,
    *,
    tolerance: float = 1e-3,
) -> Exported:
    """Write a network for another runtime.

    Parameters
    ----------
    model : path
        Weights of a network (`save_weights`), or a checkpoint of ``hyperframes train``.
    to : {"torch", "onnx", "openvino"}
    out : path, optional
        Default: the name of `model` with the format's suffix, beside it.
    tolerance : float
        The file is run once on noise; it is kept if it differs by no more than this share of the greatest value.

    Returns
    -------
    Exported
        Encoders give their packed tensor (N, C, H, W), classifiers logits.

    Raises
    ------
    PipelineError
        If there is no such format, or the file gives something else than the network.
    MissingExtraError
        Without the packages that a format needs.
    SourceError
        If `model` holds no network.
    """
    if to not in FORMATS:
        raise PipelineError(f"no format named {to!r}: expected one of {', '.join(FORMATS)}, got {to!r}", got=to)
    _require(to)
    network, example = _network(Path(model))
    target = Path(out) if out is not None else Path(model).with_suffix(FORMATS[to])
    beside = target.with_name(f".{target.stem}.new{target.suffix}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with torch.inference_mode():
            wanted = network(example).numpy()
        with torch.no_grad():
            got = (_torch if to == "torch" else _onnx)(network, example, beside)
        difference = float(np.abs(got - wanted).max() / max(float(np.abs(wanted).max()), 1e-12))
        if not difference <= tolerance:
            raise PipelineError(
                f"the {to} file gives something else than the network: expected a difference of at most {tolerance:g} "
                f"of the greatest value, got {difference:.3g}",
                expected=tolerance,
                got=difference,
            )
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    shapes = tuple(example.shape), tuple(wanted.shape)
    return Exported(str(target), to, *shapes, difference, target.stat().st_size)


def _require(to: str) -> None:
    """Refuse a format whose packages are missing, before anything is read."""
    needed = ("onnx", "onnxscript", "onnxruntime") if to == "onnx" else ()
    if any(importlib.util.find_spec(name) is None for name in needed):
        raise MissingExtraError(f"export to {to}", "export")
    if to == "openvino":
        raise PipelineError(
            "networks are not written for OpenVINO directly",
            got=to,
            hint="Export to onnx: OpenVINO reads such files as they are (openvino.Core().read_model).",
        )


class _Packed(nn.Module):
    """An encoder that gives its packed tensor."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder.packed(self.encoder(x))


def _network(path: Path) -> tuple[nn.Module, torch.Tensor]:
    """Return what is exported, and an example of its input."""
    found: Any = load_weights(path) if _holds_weights(path) else _trained(path)
    encoder: Any = found.encoder if isinstance(found, Classifier) else found
    if isinstance(encoder, EDH):
        shape: tuple[int, ...] = (1, 2, *encoder.size)
    elif isinstance(encoder, (Encoder, RegionUNet)):
        shape = (1, encoder.options["in_channels"], *encoder.size)
    elif isinstance(encoder, RefinerLSTM):
        shape = (1, encoder.frames - 1, encoder.inputs)
    elif isinstance(encoder, ProjectionGenerator):
        shape = (1, encoder.texts)
    else:
        raise SourceError(f"{path} holds a {type(encoder).__name__}, which is not exported", source=str(path))
    example = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return (_Packed(found) if isinstance(found, Encoder) else found).eval(), example


def _holds_weights(path: Path) -> bool:
    with reading(path, "a network"):
        return has_header(path, HEADER)


def _trained(path: Path) -> nn.Module:
    from hyperframes.neural.train.fit import load_model

    return load_model(path)[0]


def _torch(network: nn.Module, example: torch.Tensor, path: Path) -> np.ndarray[Any, Any]:
    program = torch.export.export(network, (example,))
    torch.export.save(program, path)
    answer: np.ndarray[Any, Any] = torch.export.load(path).module()(example).numpy()
    return answer


def _onnx(network: nn.Module, example: torch.Tensor, path: Path) -> np.ndarray[Any, Any]:
    import onnxruntime

    try:
        program = torch.onnx.export(
            network, (example,), dynamo=True, opset_version=_OPSET, input_names=["input"], output_names=["output"],
            verbose=False,
        )  # fmt: skip
    except torch.onnx.errors.OnnxExporterError as error:
        told = [line for line in str(error).splitlines() if "No ONNX function" in line] or str(error).splitlines()
        raise PipelineError(
            f"this network has a step that ONNX does not know: {told[0].strip()}", hint="Export it with --to torch."
        ) from error
    assert program is not None
    program.save(path, external_data=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    answer: np.ndarray[Any, Any] = session.run(None, {"input": example.numpy()})[0]
    return answer
