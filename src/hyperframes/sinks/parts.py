"""The folder of finished parts beside a video that is being written, and what each part says about itself.

A part counts once its manifest stands: the pictures are on the disk before it, under its final name only then.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from array import array
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hyperframes.errors import SinkError
from hyperframes.sinks.staging import FolderClaim

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Part", "PartsFolder", "completed_parts", "digest_of", "sha256_of"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One finished part of a video: frames [start, stop) in the order a sink got them."""

    number: int
    start: int
    stop: int
    source_stop: int
    """One past the position in the stream of its last frame: where a resumed run goes on."""
    pts: array[int]
    """Of each frame in it, ticks of the stream's time base; failed frames are left out."""
    last_duration: int
    """Ticks its last frame stays; 0 when unknown."""
    delay: int
    """By how many frames coding runs ahead of showing in it."""
    step: int
    """Milliseconds a frame takes in the part's own file."""
    sha256: str
    """Of the file; empty for a part without a frame, which has none."""
    fingerprint: str
    """Of the plan and the encoder."""

    @property
    def num_failed(self) -> int:
        """Frames left out."""
        return self.stop - self.start - len(self.pts)


class PartsFolder:
    """The hidden folder ``.NAME.parts`` beside a video of NAME; one run at a time fills it."""

    def __init__(self, target: Path, fingerprint: str) -> None:
        self.path = target.with_name(f".{target.name}.parts")
        self.fingerprint = fingerprint
        self._target = target
        self._claim: FolderClaim | None = None

    def claim(self) -> None:
        """Make the folder where it is missing, and keep other runs out of it.

        Raises
        ------
        SinkError
            If another run fills it.
        """
        if self._claim is None:
            self._claim = FolderClaim(self.path, self._target)

    def file(self, number: int) -> Path:
        """Return where the pictures of part `number` stand."""
        return self.path / f"part-{number:06d}.mkv"

    def partial(self, name: str) -> Path:
        """Return where `name` is written until it is whole."""
        return self.path / f"{name}.partial"

    def add(self, part: Part) -> None:
        """Write the manifest of `part`, whose file stands already."""
        path = self.path / f"part-{part.number:06d}.json"
        partial = self.partial(path.name)
        with partial.open("w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, **asdict(part), "pts": part.pts.tolist()}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def completed(self, most: int | None = None) -> list[Part]:
        """Return the whole parts, at most `most`, from number 0 without a gap, of this fingerprint, files checked."""
        found: list[Part] = []
        while (most is None or len(found) < most) and (part := self._read(len(found))) is not None:
            found.append(part)
        return found

    def count(self) -> int:
        """Return how many manifests stand, whole or not."""
        return len(list(self.path.glob("part-*.json")))

    def _read(self, number: int) -> Part | None:
        try:
            fields = json.loads((self.path / f"part-{number:06d}.json").read_text(encoding="utf-8"))
            if fields.pop("version") != _VERSION:
                return None
            part = Part(**{**fields, "pts": array("q", fields["pts"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if self.fingerprint and part.fingerprint != self.fingerprint:
            return None
        file = self.file(number)
        whole = not part.sha256 or (file.is_file() and sha256_of(file) == part.sha256)
        return part if whole else None

    def remove(self) -> None:
        """Remove the folder and all in it, unless another run fills it; safe to call twice."""
        if not self.path.is_dir():
            return
        with suppress(SinkError):
            self.claim()
            shutil.rmtree(self.path, ignore_errors=True)
            self._release()

    def clear(self, parts: Sequence[Part] = ()) -> None:
        """Remove everything in it but `parts`."""
        whole = {f"part-{part.number:06d}{suffix}" for part in parts for suffix in (".mkv", ".json")}
        for path in self.path.iterdir():
            if path.name not in whole:
                path.unlink()

    def keep_only(self, parts: Sequence[Part]) -> None:
        """Remove everything but `parts`, the folder itself when nothing is left, and let other runs have it."""
        if self._claim is not None and self.path.is_dir():
            self.clear(parts)
            if not parts:
                self.path.rmdir()
        self._release()

    def _release(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.release()


def completed_parts(target: Path | str, fingerprint: str = "") -> list[Part]:
    """Return the whole parts kept beside the video `target`; only those of `fingerprint` when it is given."""
    return PartsFolder(Path(target), fingerprint).completed()


def digest_of(parts: Sequence[Part]) -> str:
    """Return a SHA-256, in hex, of the checksums of `parts`."""
    return hashlib.sha256("\n".join(part.sha256 for part in parts).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the file at `path` in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
