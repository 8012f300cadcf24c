"""Putting pieces together that were written apart: files and folders beside the one that they become."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from hyperframes.sinks.staging import StagedFile, disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["append_files", "move_into"]

_BLOCK_BYTES = 1 << 20


def append_files(target: Path, pieces: Sequence[Path], *, head: bytes = b"") -> str:
    """Write `head`, then the bytes of `pieces` behind their own heads, which are as long, to `target`; return its name.

    It gets its name when it is whole.
    """
    staged = StagedFile(target)
    staged.write(head)
    for path in pieces:
        with staged.guarded(), path.open("rb") as file:
            file.seek(len(head))
            while block := file.read(_BLOCK_BYTES):
                staged.file.write(block)
    return staged.commit()


def move_into(folder: Path, files: Iterable[tuple[Path, str]]) -> None:
    """Move each (file or folder, new name) into `folder`: on one file system nothing is copied."""
    with disk_errors(folder):
        for path, name in files:
            shutil.move(path, folder / name)
