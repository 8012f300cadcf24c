"""What tells a source's content from another's, wherever it lies."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hyperframes.sources import Source

__all__ = ["content_hash", "file_of"]

_HASHED_BYTES: Final = 1 << 20


def file_of(source: Any) -> Path | None:
    """Return the local file that `source` names, or None where it names none."""
    path = Path(os.fspath(source)) if isinstance(source, str | os.PathLike) else None
    return path if path is not None and path.is_file() else None


def content_hash(opened: Source, path: Path | None) -> str:
    """Return a hash of the file's bytes, or of what else tells the source from others."""
    if path is None:
        return hashlib.sha256(opened.identity().encode()).hexdigest()
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_HASHED_BYTES):
            digest.update(piece)
    return digest.hexdigest()
