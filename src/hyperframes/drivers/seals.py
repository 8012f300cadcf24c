"""What was sealed and is not in the journal yet, written down at once, so that a kill cannot take it.

The journal writes rows in transactions, a fifth of a second apart; a transaction for each seal would cost more than the
hyperframe does. An append to a file is with the operating system when it returns and costs 7 to 18 us, so where a recording
holds the frames, the seals that no transaction holds yet stand in two files beside the journal: one is written to while
what stands in the other is being committed.
"""

from __future__ import annotations

import json
import operator
import os
import zlib
from dataclasses import fields
from typing import TYPE_CHECKING

from hyperframes.drivers.journal import Life

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SealLog", "read_seals", "remove_seals"]

_SUFFIXES = ("-seals0", "-seals1")
_NAMES = [field.name for field in fields(Life)]
_values = operator.attrgetter(*_NAMES)


class SealLog:
    """The seals of a run since the transaction before last; one thread at a time uses it.

    Parameters
    ----------
    journal : Path
        Of the journal that they belong to; its lock guards these files too.

    Raises
    ------
    OSError
        If the files cannot be made.
    """

    def __init__(self, journal: Path) -> None:
        self._paths = _paths(journal)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._files = [os.open(path, flags, 0o644) for path in self._paths]
        self._now = 0

    def append(self, life: Life) -> None:
        """Write a seal down; a process that is killed from now on has it.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        text = json.dumps(_values(life)).encode()
        # The line begins with its break: one that was torn by a full disk spoils itself only.
        os.write(self._files[self._now], b"\n%08x %s" % (zlib.crc32(text), text))

    def turn(self) -> None:
        """Go on in the other file; what stands there is in the journal, what stands here is being written to it."""
        other = 1 - self._now
        os.ftruncate(self._files[other], 0)
        self._now = other

    def close(self, *, written: bool) -> None:
        """Close the files; they go where all they hold is `written` to the journal."""
        for file, path in zip(self._files, self._paths, strict=True):
            os.close(file)
            if written:
                path.unlink(missing_ok=True)


def read_seals(journal: Path) -> list[Life]:
    """Return what the files beside a journal hold, in order; lines that are torn are left out."""
    found: dict[int, Life] = {}
    for path in _paths(journal):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        for line in content.split(b"\n"):
            checksum, _, text = line.partition(b" ")
            if text and checksum == b"%08x" % zlib.crc32(text):
                life = Life(*json.loads(text))
                found[life.sequence] = life
    return [found[sequence] for sequence in sorted(found)]


def remove_seals(journal: Path) -> None:
    """Remove the files beside a journal that has what they hold."""
    for path in _paths(journal):
        path.unlink(missing_ok=True)


def _paths(journal: Path) -> list[Path]:
    return [journal.with_name(journal.name + suffix) for suffix in _SUFFIXES]
