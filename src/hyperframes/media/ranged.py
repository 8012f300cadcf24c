"""Videos of web servers and object stores, of which only the bytes that are wanted are read."""

from __future__ import annotations

import importlib
import io
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hyperframes.errors import MissingExtraError, SourceError, without_credentials
from hyperframes.media.container import Place

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RANGED_SCHEMES", "RangedFile", "RangedPlace", "readable"]

RANGED_SCHEMES: Final = ("s3",)
"""Schemes that FFmpeg itself does not read."""
_LEAST_BYTES: Final = 1 << 14
_MOST_BYTES: Final = 1 << 20
_READ_AHEAD: Final = 16
"""A read takes along one such part of what was read before it without a gap: so much of it is in vain at most."""
_KEPT_BYTES: Final = 16 << 20
_TRIES: Final = 3
_stores: dict[str, _Store] = {}
_lock = threading.Lock()


class _Store:
    """What was read of one URL lately, shared by all who have it open in this process: headers are read once."""

    def __init__(self, url: str, fetch: Callable[[int, int], bytes], size: int) -> None:
        self.url, self.size = url, size
        self.num_fetched = 0
        """Bytes that came over the network."""
        self._fetch = fetch
        self._runs: OrderedDict[int, bytes] = OrderedDict()  # by where they start
        self._lock = threading.Lock()

    def held(self, start: int) -> bytes:
        """Return what is held from `start` on, perhaps nothing."""
        with self._lock:
            for first, data in self._runs.items():
                if first <= start < first + len(data):
                    self._runs.move_to_end(first)
                    return data[start - first :]
        return b""

    def fetched(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop), fetched now.

        Raises
        ------
        OSError
            If they cannot be fetched, also not at another try.
        """
        for attempt in range(_TRIES):
            try:
                data = self._fetch(start, stop)
                break
            except Exception as error:
                if attempt == _TRIES - 1 or isinstance(error, FileNotFoundError | PermissionError):
                    text = without_credentials(str(error)) or type(error).__name__
                    raise OSError(f"bytes {start} to {stop} of {without_credentials(self.url)!r}: {text}") from error
        if len(data) != stop - start:
            raise OSError(f"{without_credentials(self.url)!r} sent {len(data)} bytes: expected {stop - start}, a range")
        with self._lock:
            self.num_fetched += len(data)
            self._runs[start] = data
            while len(self._runs) > 1 and sum(map(len, self._runs.values())) > _KEPT_BYTES:
                self._runs.popitem(last=False)
        return data


class RangedFile(io.RawIOBase):
    """A file of a web server or an object store, opened for reading; only what is read is fetched, and a little more.

    Parameters
    ----------
    url : str
        As fsspec takes it: ``http``, ``https``, ``s3``, ...

    Attributes
    ----------
    skims : bool
        Whether media data of ISO files that are not held already read as zeros: what lists packets does not need them.

    Raises
    ------
    MissingExtraError
        If fsspec, or what it needs for the URL, is not installed.
    OSError
        If there is no such file, or its server does not send ranges.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._store = _store_of(url)
        self._at = self._run_start = 0
        self.skims = False
        self._media: list[tuple[int, int]] | None = None

    @property
    def num_fetched(self) -> int:
        """Bytes that came over the network for this URL in this process."""
        return self._store.num_fetched

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._store.size

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        if base + offset != self._at:
            self._at = self._run_start = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes from the position on; all that is left for -1."""
        wanted = max(0, self.size - self._at)
        wanted = wanted if size < 0 else min(size, wanted)
        if not wanted:
            return b""
        data = self._store.held(self._at)[:wanted]
        if not data and self.skims and (skipped := self._skipped(wanted)):
            data = bytes(skipped)
        if not data:
            ahead = max(_LEAST_BYTES, min((self._at - self._run_start) // _READ_AHEAD, _MOST_BYTES))
            stop = min(self._at + max(wanted, ahead), self.size)
            data = self._store.fetched(self._at, stop)[:wanted]
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer` and return how many bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    # Media data of ISO files ------------------------------------------------------------------------------------------

    @property
    def is_iso(self) -> bool:
        """Whether it is an ISO base media file: MP4, MOV and their kin."""
        return self._peek(0, 12)[4:8] in {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"}

    def _skipped(self, wanted: int) -> int:
        """Return how many of the bytes wanted are media data."""
        if self._media is None:
            self._media = self._media_boxes()
        for start, stop in self._media:
            if start <= self._at < stop:
                return min(wanted, stop - self._at)
        return 0

    def _media_boxes(self) -> list[tuple[int, int]]:
        """Return where the content of each top-level ``mdat`` box lies."""
        found, at = [], 0
        while at + 8 <= self.size:
            head = self._peek(at, min(16, self.size - at))
            length, content = int.from_bytes(head[:4], "big"), at + 8
            if length == 1 and len(head) == 16:
                length, content = int.from_bytes(head[8:16], "big"), at + 16
            end = self.size if length == 0 else at + length
            if end < content:
                break
            if head[4:8] == b"mdat":
                found.append((content, min(end, self.size)))
            at = end
        return found

    def _peek(self, start: int, count: int) -> bytes:
        count = min(count, self.size - start)
        held = self._store.held(start)[:count]
        if len(held) == count:
            return held
        return self._store.fetched(start, min(start + max(count, 256), self.size))[:count]


@dataclass(frozen=True, slots=True)
class RangedPlace(Place):
    """A video stream in a file of a web server or an object store, which is read in ranges."""

    @property
    def has_index(self) -> bool:
        """Whether the headers list all packets: in ISO files they do."""
        with suppress(OSError):
            return RangedFile(self.url).is_iso
        return False

    def open(self) -> tuple[Any, Any]:
        """Return (container, video stream); see `Place.open`."""
        return self.opened(self._file())

    def open_listing(self) -> tuple[Any, Any, frozenset[int]]:
        """Return what `Place.open_listing` returns; media data are zeros from here on where headers say all."""
        file = self._file()
        container, stream = self.opened(file)
        file.skims = file.is_iso
        return container, stream, frozenset(entry.pos for entry in stream.index_entries if entry.is_keyframe)

    def _file(self) -> RangedFile:
        try:
            return RangedFile(self.url)
        except SourceError:
            raise
        except OSError as error:
            raise self.error(f"cannot be read: {error}", hint="Check the address and the right to read it.") from error


def readable(url: str) -> Any:
    """Return what PyAV opens for `url`: a file in ranges where FFmpeg does not know the scheme, else the URL or path."""
    return RangedFile(url) if url.partition("://")[0] in RANGED_SCHEMES and "://" in url else url


def _store_of(url: str) -> _Store:
    with _lock:
        if url in _stores:
            return _stores[url]
    try:
        fsspec: Any = importlib.import_module("fsspec.core")
        files, path = fsspec.url_to_fs(url)
    except ImportError as error:
        raise MissingExtraError(f"reading {url.partition('://')[0]}:// in ranges", "cluster") from error
    try:
        size = files.info(path).get("size")
    except OSError:
        raise
    except Exception as error:
        raise OSError(without_credentials(str(error)) or type(error).__name__) from error
    if not isinstance(size, int):
        raise OSError("its server does not say how long it is, so it cannot be read in ranges")

    def fetch(start: int, stop: int) -> bytes:
        data: bytes = files.cat_file(path, start=start, end=stop)
        return data

    with _lock:
        return _stores.setdefault(url, _Store(url, fetch, size))
