"""Safetensors files with a header of our own: numbers and text, nothing that is run when it is read."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.errors import SinkError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

__all__ = ["has_header", "read_tensors", "reading", "write_tensors"]

_DIGEST = "digest"
"""What the check sum is called in a file; those of before have none."""


def write_tensors(
    path: str | os.PathLike[str], key: str, header: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> None:
    """Write tensors and a header under `key`; under its name the file is always a whole one.

    Raises
    ------
    SinkError
        If it cannot be written; what was there before stays.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(header)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        save_file(whole, beside, {key: text, _DIGEST: _digest(text, whole)})
        os.replace(beside, target)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SinkError(
            f"cannot write {target}: {reason}", sink=str(target), hint="Make room, or name another folder."
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def _digest(header: str, tensors: dict[str, torch.Tensor]) -> str:
    """Return SHA-256 of a header's text and of tensors with their names and shapes: their bits, not their values."""
    import torch

    found = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Say in one sentence that `path` is not what it is read as, whatever is wrong with it.

    Raises
    ------
    SourceError
    """
    from safetensors import SafetensorError

    try:
        yield
    except SourceError:
        raise
    except FileNotFoundError as error:
        raise SourceError(f"cannot read {what} from {path}: no such file", source=str(path)) from error
    except KeyError as error:
        raise SourceError(f"cannot read {what} from {path}: it has no {error}", source=str(path)) from error
    except (OSError, SafetensorError, ValueError, TypeError, AttributeError, RuntimeError, OverflowError) as error:
        raise SourceError(f"cannot read {what} from {path}: {error}", source=str(path)) from error


def read_tensors(
    path: str | os.PathLike[str], key: str, version: int, what: str, hint: str
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the header and the tensors of a file; to be called inside of `reading`.

    Parameters
    ----------
    path : path
    key : str
        What the header is called.
    version : int
        That it must tell.
    what : str
        What the file should hold, with its article.
    hint : str
        How such files are made.

    Raises
    ------
    SourceError
        If it has no such header, or holds other numbers than were written.
    """
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        text = metadata.get(key, "{}")
        header = json.loads(text)
        if header.get("version") != version:
            noun = what.partition(" ")[2]
            raise SourceError(
                f"{path} holds no {noun} of version {version}: got {header.get('version')}", source=str(path), hint=hint
            )
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        if metadata.get(_DIGEST, wanted := _digest(text, tensors)) != wanted:
            raise SourceError(
                f"{path} is damaged: what it holds is not what was written",
                source=str(path),
                hint="Take it from a backup, or write it again.",
            )
        return header, tensors


def has_header(path: str | os.PathLike[str], key: str) -> bool:
    """Return whether a safetensors file has a header under `key`; to be called inside of `reading`."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return key in (file.metadata() or {})
