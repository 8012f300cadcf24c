"""Projections of tasks in a folder: every version is a file, none is ever changed. No pickle."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hyperframes.errors import SinkError, SourceError
from hyperframes.semantic.projection import Projection

if TYPE_CHECKING:
    from hyperframes.frames import Array

__all__ = ["TASKS_VARIABLE", "TaskFolder"]

TASKS_VARIABLE: Final = "HYPERFRAMES_TASKS"
"""Environment variable with the folder that `hyperframes.semantic.TASKS` keeps projections in."""


class TaskFolder:
    """A folder of projections: one folder a task, one ``NNNN.npz`` a version, the newest last.

    Parameters
    ----------
    folder : path
        Made by the first `put`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def __repr__(self) -> str:
        return f"TaskFolder({str(self._folder)!r})"

    @property
    def names(self) -> list[str]:
        """Tasks with a projection, sorted."""
        newest = [files[-1] for path in self._entries() if (files := _files(path))]
        return sorted(_read(file)[0] for file in newest)

    def versions(self, task: str) -> list[str]:
        """Return the versions of a task's projections, oldest first."""
        return [_read(file)[1].version for file in _files(self._of(task))]

    def find(self, task: str, version: str | None = None) -> Projection | None:
        """Return a task's newest projection, or that of a version; None where there is none.

        Raises
        ------
        SourceError
            If its file is damaged.
        """
        for file in reversed(_files(self._of(task))):
            _, found = _read(file)
            if version is None or found.version == version:
                return found
        return None

    def put(self, projection: Projection) -> None:
        """Keep a projection as the newest of its task, unless it is that already.

        Raises
        ------
        SinkError
            If the folder cannot be written; what is in it is as it was.
        """
        folder = self._of(projection.task)
        files = _files(folder)
        if files and _read(files[-1])[1].version == projection.version:
            return
        number = int(files[-1].stem) + 1 if files else 1
        partial = folder / f".{os.getpid()}.part"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                np.savez(
                    file,
                    allow_pickle=False,
                    task=np.array(projection.task),
                    zero_shot=np.array(projection.zero_shot),
                    matrix=projection.matrix,
                )
                file.flush()
                os.fsync(file.fileno())
            while True:
                try:
                    os.link(partial, folder / f"{number:04d}.npz")  # never over what another process put there
                    break
                except FileExistsError:
                    number += 1
            partial.unlink()
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise SinkError(
                f"cannot keep the projection of task {projection.task!r} in {self._folder}: {error.strerror or error}",
                sink=str(self._folder),
                hint=f"Set {TASKS_VARIABLE} to a folder that can be written.",
            ) from error

    def _entries(self) -> list[Path]:
        return sorted(path for path in self._folder.iterdir() if path.is_dir()) if self._folder.is_dir() else []

    def _of(self, task: str) -> Path:
        plain = re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-")[:40]
        return self._folder / f"{plain}-{hashlib.sha256(task.encode()).hexdigest()[:12]}"


def _files(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("*.npz") if path.stem.isdigit()] if folder.is_dir() else []
    return sorted(found, key=lambda path: int(path.stem))


def _read(file: Path) -> tuple[str, Projection]:
    try:
        with np.load(file, allow_pickle=False) as held:
            arrays: dict[str, Array] = {name: held[name] for name in held.files}
        task = str(arrays["task"])
        return task, Projection(task, arrays["matrix"], bool(arrays["zero_shot"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise SourceError(
            f"cannot read the projection in {file}: {error}",
            source=str(file),
            hint="Remove the file, or fit the task again.",
        ) from error
