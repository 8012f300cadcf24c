"""Safetensors files with a header of our own: numbers and text, nothing that is run when it is read."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperframes.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

__all__ = ["has_header", "read_tensors", "reading", "write_tensors"]


def write_tensors(
    path: str | os.PathLike[str], key: str, header: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> None:
    """Write tensors and a header under `key`; under its name the file is always a whole one."""
    from safetensors.torch import save_file

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        save_file(whole, beside, {key: json.dumps(header)})
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


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
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
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
        If it has no such header.
    """
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        header = json.loads((file.metadata() or {}).get(key, "{}"))
        if header.get("version") != version:
            noun = what.partition(" ")[2]
            raise SourceError(
                f"{path} holds no {noun} of version {version}: got {header.get('version')}", source=str(path), hint=hint
            )
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping


def has_header(path: str | os.PathLike[str], key: str) -> bool:
    """Return whether a safetensors file has a header under `key`; to be called inside of `reading`."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return key in (file.metadata() or {})
