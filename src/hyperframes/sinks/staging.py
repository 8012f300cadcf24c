"""Output that is written beside its final name and renamed when whole; errors of the disk in plain words.

Nothing incomplete stands under a final name, after a power cut either: everything in a file or folder is on the disk before it is
renamed, and the new name is before `commit` returns.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from hyperframes.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

if sys.platform != "win32":
    import fcntl

__all__ = [
    "FolderClaim",
    "StagedFile",
    "StagedFolder",
    "disk_errors",
    "partial_of",
    "pieces_of",
    "refuse_filled",
    "refuse_unwritable",
    "remove_folder",
    "remove_pieces",
    "sync",
]

_TRIES, _PAUSE_SECONDS = 100, 0.01
_AHEAD_BYTES = 64 << 20
"""Of a file, before the disk begins with them while more is written."""
_SYNCED_AT_ONCE = 8
"""Files: the disk's own journal takes them together."""
_data_sync = getattr(os, "fdatasync", os.fsync)
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def disk_errors(path: Path | str, kept: Path | None = None) -> Iterator[None]:
    """Turn what the system says about `path` into a SinkError that tells what is `kept`; errors that are one already pass."""
    try:
        yield
    except SinkError:
        raise
    except OSError as error:
        raise _said(path, error, kept) from error


def _said(path: Path | str, error: OSError, kept: Path | None) -> SinkError:
    """Return the sentence for `error`; libraries may have kept only its text."""
    text = error.strerror or str(error) or type(error).__name__
    if error.errno in _FULL or os.strerror(errno.ENOSPC) in text:
        reason = "disk full" if error.errno != errno.EFBIG else "the file grows larger than is allowed"
        left = "nothing incomplete was left behind" if kept is None else f"what was written is kept in {kept}"
        return SinkError(
            f"cannot write {path}: {reason}",
            sink=str(path),
            hint=f"Free some space or write elsewhere; {left}.",
        )
    return SinkError(
        f"cannot write {path}: {text}",
        sink=str(path),
        hint="Check that its folder exists and may be written to.",
    )


def _lock(descriptor: int, path: Path) -> None:
    """Claim what `descriptor` has open for this run; the claim ends with the descriptor, however the process ends."""
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SinkError(
            f"cannot write {path}: another run is writing it",
            sink=str(path),
            hint="Wait until it is done, or write to another name.",
        ) from error
    except OSError:  # a file system that cannot lock: then nobody is told
        return


def _claimed(partial: Path, path: Path, opened: Callable[[], int]) -> int:
    """Return a descriptor of `partial`, which `opened` makes where it is missing, that no other run has claimed."""
    while True:
        descriptor = opened()
        try:
            _lock(descriptor, path)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), partial.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the other run gave it its final name while we waited for the lock


class FolderClaim:
    """The folder at `partial`, made where it is missing, belongs to one run until `release` or the process's end.

    Parameters
    ----------
    partial : Path
        The folder.
    path : Path
        What will come of it, for the error.

    Raises
    ------
    SinkError
        If another run has claimed it.
    """

    def __init__(self, partial: Path, path: Path) -> None:
        def opened() -> int:
            partial.mkdir(exist_ok=True)
            return os.open(partial, os.O_RDONLY)

        self._descriptor = -1
        if sys.platform == "win32":  # folders cannot be opened there
            partial.mkdir(exist_ok=True)
        else:
            self._descriptor = _claimed(partial, path, opened)

    @property
    def held(self) -> bool:
        """Whether it was not given up yet."""
        return self._descriptor >= 0

    def release(self) -> None:
        """Let other runs have it; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()


class _Ahead:
    """Has what was written made safe on the disk while more is written; for one thread that asks.

    Writing 1.5 GB/s to the system's memory and then 1.5 GB/s from there to the disk, one after the other, is half as fast
    as both at once.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._under_way = deque[Future[None]]()

    @property
    def idle(self) -> bool:
        """Whether all that was begun is done."""
        return all(work.done() for work in self._under_way)

    def begin(self, work: Callable[[], None]) -> None:
        """Have `work` done behind what was begun before; raise what went wrong with that, as the system tells it only once."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "disk")
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().result()
        self._under_way.append(self._pool.submit(work))

    def finish(self) -> None:
        """Wait for all of it; raise what went wrong."""
        while self._under_way:
            self._under_way.popleft().result()
        self.end()

    def end(self) -> None:
        """Give up what has not begun yet and wait for the rest."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)


class StagedFile:
    """A file written under ``.NAME.part`` and renamed to NAME by `commit`.

    A left-over of a killed run is overwritten; what another run is writing is refused; `discard` leaves nothing.
    Every error is a SinkError, after which nothing is left.

    Parameters
    ----------
    path : Path
        Final name.
    mode : str
        ``wb``, ``w+b``, or ``r+b`` to go on with what stands there.
    kept : bool
        Whether what was written stays after an error, for `continued`.
    """

    def __init__(self, path: Path, *, mode: str = "wb", kept: bool = False) -> None:
        self.path, self._kept = path, kept
        self.partial = partial_of(path)
        with disk_errors(path):
            if path.is_dir():
                raise SinkError(
                    f"cannot write {path}: a folder stands there", sink=str(path), hint="Give the file another name."
                )
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            descriptor = _claimed(self.partial, path, lambda: os.open(self.partial, flags, 0o666))
            if mode.startswith("w") and os.fstat(descriptor).st_size:  # of a run that was killed
                os.ftruncate(descriptor, 0)
            self._file: IO[bytes] | None = os.fdopen(descriptor, mode)
            self._ahead, self._unsafe_bytes = _Ahead(), 0
            self._named_bytes = -1  # that had their final name before

    @classmethod
    def resumed(cls, path: Path, length: int) -> Self | None:
        """Return what was written under ``.NAME.part`` before, cut to `length` bytes; None if there is less than that."""
        with suppress(FileNotFoundError):
            if partial_of(path).stat().st_size >= length:
                staged = cls(path, mode="r+b")
                with disk_errors(path):
                    staged.file.truncate(length)
                    staged.file.seek(length)
                return staged
        return None

    @classmethod
    def continued(cls, path: Path, whole_bytes: Callable[[IO[bytes]], int]) -> Self:
        """Return what a killed run left under ``.NAME.part``, cut to the length that `whole_bytes` finds in it, to be kept.

        Without that it is what stands under its final name, which it gets back where nothing is added; where there is nothing
        either, it is begun.
        """
        had_name = path.is_file() and not partial_of(path).exists()
        with disk_errors(path):
            if had_name:
                path.rename(partial_of(path))
        staged = cls(path, mode="r+b", kept=True)
        try:
            with disk_errors(path, staged.partial):
                length = staged.file.seek(0, os.SEEK_END) if had_name else whole_bytes(staged.file)
                staged.file.truncate(length)
                staged.file.seek(length)
        except BaseException:
            staged.discard(keep=True)
            raise
        staged._named_bytes = length if had_name else -1
        return staged

    @property
    def file(self) -> IO[bytes]:
        """The open file."""
        if self._file is None:
            raise SinkError(f"cannot write {self.path}: it is closed", sink=str(self.path))
        return self._file

    def write(self, data: bytes | memoryview) -> None:
        """Append all of `data`; on a full disk remove the file and say so."""
        with self.guarded():
            self.file.write(data)
            self._unsafe_bytes += memoryview(data).nbytes
            if self._unsafe_bytes >= _AHEAD_BYTES and self._ahead.idle:
                self.file.flush()
                descriptor = self.file.fileno()
                self._ahead.begin(lambda: _data_sync(descriptor))
                self._unsafe_bytes = 0

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Run what writes to `file` itself: on an error of the disk remove the file, unless it is kept, and say so."""
        try:
            with disk_errors(self.path, self.partial if self._kept else None):
                yield
        except BaseException:
            self.discard(keep=self._kept)
            raise

    def flush(self) -> None:
        """Hand what was written over to the operating system: a kill of the process does not take it from now on."""
        with self.guarded():
            self.file.flush()

    def checkpoint(self) -> int:
        """Make what was written safe on the disk, and return how many bytes that is."""
        with self.guarded():
            self._ahead.finish()
            self.file.flush()
            os.fsync(self.file.fileno())
            return self.file.tell()

    def commit(self) -> str:
        """Flush to the disk and give the file its final name, which is returned."""
        with self.guarded():
            file = self.file
            self._ahead.finish()
            file.flush()
            os.fsync(file.fileno())
            self.partial.replace(self.path)  # claimed until it has its name
            self._file = None
            file.close()
            sync([self.path.parent])
        return str(self.path)

    def discard(self, *, keep: bool = False) -> None:
        """Remove the file, or only close it to `keep` what the last checkpoint told of; safe to call twice."""
        file, self._file = self._file, None
        if file is None:
            return
        self._ahead.end()
        if not keep:
            self.partial.unlink(missing_ok=True)
        elif file.tell() == self._named_bytes:
            self.partial.replace(self.path)
        with suppress(OSError):  # what is still buffered may not fit either
            file.close()


class StagedFolder:
    """A folder filled under ``.NAME.part`` and renamed to NAME by `commit`; what another run fills is refused.

    Parameters
    ----------
    path : Path
        Final name. A folder that stands there must be empty, or satisfy `replaceable`.
    replaceable : bool
        Whether a folder that stands there may be replaced: it is one of this sink's own.
    resume : bool
        Whether to go on filling what stands under ``.NAME.part`` instead of starting anew.
    """

    def __init__(self, path: Path, *, replaceable: bool = False, resume: bool = False) -> None:
        self.path, self._replaceable = path, replaceable
        self.partial = partial_of(path)
        with disk_errors(path):
            if path.exists() and not path.is_dir():
                raise SinkError(
                    f"cannot write {path}: a file stands there", sink=str(path), hint="Give the folder another name."
                )
            if not replaceable:
                refuse_filled(path)
            self._claim: FolderClaim | None = FolderClaim(self.partial, path)
            self._ahead = _Ahead()
            if not resume:
                for entry in self.partial.iterdir():  # of a run that was killed
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Run what writes into `partial`: on an error of the disk remove it and say so."""
        try:
            with disk_errors(self.path):
                yield
        except BaseException:
            self.discard()
            raise

    def commit(self) -> str:
        """Make all that is in the folder safe and give it its final name, which is returned; what stood there is removed."""
        with self.guarded():
            self._ahead.finish()
            self._make_safe()
            old = self.path.with_name(f".{self.path.name}.old")
            if self._replaceable and self.path.is_dir():
                shutil.rmtree(old, ignore_errors=True)
                self.path.rename(old)
            self.partial.rename(self.path)
            sync([self.path.parent])
        self._let_go()
        if self._replaceable:
            shutil.rmtree(old, ignore_errors=True)
        return str(self.path)

    def begin(self, names: Iterable[str]) -> None:
        """Begin to make the files `names` in it safe on the disk."""
        files = [self.partial / name for name in names]
        with self.guarded():
            self._ahead.begin(lambda: sync(files))

    def checkpoint(self, names: Iterable[str]) -> None:
        """Make the files `names` in it safe on the disk."""
        with self.guarded():
            self._ahead.finish()
            sync(self.partial / name for name in names)
            sync([self.partial])

    def _make_safe(self) -> None:
        """Make all files safe, which costs nothing where they are, then the names in all folders, the innermost first."""
        folders, files = list[Path](), list[Path]()
        for folder, _, names in os.walk(self.partial, topdown=False):
            folders.append(Path(folder))
            files += [folders[-1] / name for name in names]
        with ThreadPoolExecutor(_SYNCED_AT_ONCE, "disk") as pool:
            for _ in pool.map(sync, (files[first::_SYNCED_AT_ONCE] for first in range(_SYNCED_AT_ONCE))):
                pass
        sync(folders)

    def discard(self, *, keep: bool = False) -> None:
        """Remove the folder unless it is to be kept; safe to call twice."""
        self._ahead.end()
        if not keep and self._claim is not None:
            remove_folder(self.partial)
        self._let_go()

    def _let_go(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.release()


def refuse_filled(path: Path) -> None:
    """Raise a SinkError where a folder stands at `path` that is not empty."""
    if path.is_dir() and any(path.iterdir()):
        raise SinkError(
            f"cannot write {path}: the folder is not empty",
            sink=str(path),
            hint="Write to a new folder, or remove what is in it.",
        )


def refuse_unwritable(path: Path) -> None:
    """Raise a SinkError where no file can be made beside `path`, for one more reason than permissions."""
    with disk_errors(path), tempfile.TemporaryFile(dir=path.absolute().parent):
        pass


def partial_of(path: Path) -> Path:
    """Return where what will be `path` stands until it is whole."""
    return path.with_name(f".{path.name}.part")


def pieces_of(path: Path) -> Path:
    """Return the folder in which pieces of what will be `path` stand until they are put together."""
    whole = path.absolute()
    return whole.with_name(f".{whole.name}.pieces")


def remove_pieces(path: Path) -> None:
    """Remove what a killed run left of pieces of what will be `path`; nothing happens where there is nothing.

    Raises
    ------
    SinkError
        If another run is writing them.
    """
    folder = pieces_of(path)
    if folder.is_dir():
        with disk_errors(path):
            claim = FolderClaim(folder, path)
            remove_folder(folder)
            claim.release()


def remove_folder(folder: Path) -> None:
    """Remove a folder and all that is in it, though somebody may be writing there for a moment longer."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(_PAUSE_SECONDS)


def sync(paths: Iterable[Path]) -> None:
    """Make files, or the names in folders, last through a power cut."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
