"""What was computed once is not computed again: anchors and descriptors by content, parameters and code version."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import time
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np

from hyperframes.clock import Clock, SystemClock
from hyperframes.errors import FrameError, MissingExtraError, SourceError, without_credentials
from hyperframes.semantic.arrow import from_table, to_table
from hyperframes.semantic.descriptor import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hyperframes.frames import Array
    from hyperframes.semantic.descriptor import Descriptor

__all__ = [
    "Cache",
    "DiskCache",
    "LayeredCache",
    "MemoryCache",
    "RedisCache",
    "SemanticCache",
    "cache_key",
    "open_cache",
]

TTL_SECONDS: Final = 3600.0
_RETRY_NS: Final = 5_000_000_000
_PATIENCE_SECONDS: Final = 0.5
_REDIS_SCHEMES: Final = ("redis", "rediss", "unix")


class Cache(Protocol):
    """Bytes by key. What fails is as if it were not there: a cache costs speed at most, never a result."""

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`, or None where it is not there any more."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`."""
        ...


def cache_key(content_hash: str, kind: Literal["anchors", "descriptors"], parameters: str, version: str = "") -> str:
    """Return ``HASH:anchors:...``, which tells apart whatever could make the result another one.

    Parameters
    ----------
    content_hash : str
        Of the source's bytes.
    kind : {'anchors', 'descriptors'}
        What is kept.
    parameters : str
        Hash of everything that was set.
    version : str
        Of the code and models that make it; that of the schema and of this package are added.

    Returns
    -------
    str
        The key.
    """
    from hyperframes import __version__

    told = json.dumps([parameters, version, SCHEMA_VERSION, __version__])
    return f"{content_hash}:{kind}:{hashlib.sha256(told.encode()).hexdigest()[:32]}"


class MemoryCache:
    """In this process; what was not used for longest goes first.

    Parameters
    ----------
    max_bytes : int
        What the values take at most, together.
    """

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = self._left = max_bytes
        self._values: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`, or None."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Keep `value`; one that is larger than all there may be is not kept."""
        self._left += len(self._values.pop(key, b""))
        if len(value) > self._max_bytes:
            return
        self._values[key] = value
        self._left -= len(value)
        while self._left < 0:
            self._left += len(self._values.popitem(last=False)[1])


class DiskCache:
    """In a folder, one file a key, written beside its name first.

    Parameters
    ----------
    folder : path
        Made where it is missing.
    ttl_seconds : float
        What is older counts as gone.
    """

    def __init__(self, folder: str | os.PathLike[str], *, ttl_seconds: float = TTL_SECONDS) -> None:
        self._folder, self._ttl_seconds = Path(folder), ttl_seconds

    def _path(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode()).hexdigest()

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`, or None."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime <= self._ttl_seconds:
                return path.read_bytes()
            path.unlink()
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep `value`, if the disk takes it."""
        path = self._path(key)
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(value)
            partial.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()


class RedisCache:
    """In a Redis server, shared between machines; while it is away it is not asked for five seconds at a time.

    Parameters
    ----------
    url : str
        ``redis://[user:password@]host:port/0``, ``rediss://`` or ``unix://``.
    ttl_seconds : float
        When the server forgets a value.
    clock : Clock, optional
        Tells when a server that was away is asked again.

    Raises
    ------
    SourceError
        If `url` is none.
    MissingExtraError
        If redis is not installed.
    """

    def __init__(self, url: str, *, ttl_seconds: float = TTL_SECONDS, clock: Clock | None = None) -> None:
        try:
            import redis
        except ImportError as error:
            raise MissingExtraError("a cache in Redis", "cache") from error
        self.name = without_credentials(url)
        self._failures = (redis.RedisError, OSError)
        self._ttl_ms, self._clock, self._ask_at = max(1, round(ttl_seconds * 1000)), clock or SystemClock(), 0
        patience = {"socket_timeout": _PATIENCE_SECONDS, "socket_connect_timeout": _PATIENCE_SECONDS}
        try:
            self._client: Any = redis.Redis.from_url(url, **patience)
        except ValueError as error:
            raise SourceError(
                f"a cache in Redis: expected redis://HOST:PORT, got {self.name!r}", source=self.name
            ) from error

    @property
    def away(self) -> bool:
        """Whether the server failed a moment ago, so that it is left alone for now."""
        return self._clock.now_ns() < self._ask_at

    def _ask(self, command: str, *arguments: Any, **options: Any) -> Any:
        if self.away:
            return None
        try:
            return getattr(self._client, command)(*arguments, **options)
        except self._failures:
            self._ask_at = self._clock.now_ns() + _RETRY_NS
            return None

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`, or None."""
        value: bytes | None = self._ask("get", key)
        return value

    def put(self, key: str, value: bytes) -> None:
        """Keep `value`, if the server is there."""
        self._ask("set", key, value, px=self._ttl_ms)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class LayeredCache:
    """Several caches, the quickest first; what a later one has is put into those before it."""

    def __init__(self, *layers: Cache) -> None:
        self._layers = layers

    def get(self, key: str) -> bytes | None:
        """Return what the first that has it has, or None."""
        for number, layer in enumerate(self._layers):
            value = layer.get(key)
            if value is not None:
                for quicker in self._layers[:number]:
                    quicker.put(key, value)
                return value
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep `value` in all."""
        for layer in self._layers:
            layer.put(key, value)


def open_cache(where: str, *, ttl_seconds: float = TTL_SECONDS) -> Cache:
    """Return the cache that `where` names: a Redis server behind this process's memory, or a folder.

    Parameters
    ----------
    where : str
        ``redis://``, ``rediss://`` or ``unix://`` URL, or the path of a folder.
    ttl_seconds : float
        What is older counts as gone.

    Raises
    ------
    SourceError
        If it is another URL, or a file.
    MissingExtraError
        If it is a Redis server and redis is not installed.
    """
    if where.partition("://")[0] in _REDIS_SCHEMES:
        return LayeredCache(MemoryCache(), RedisCache(where, ttl_seconds=ttl_seconds))
    if "://" in where:
        shown = without_credentials(where)
        raise SourceError(
            f"a cache is a folder or redis://HOST:PORT: got {shown!r}",
            source=shown,
            hint="For example: --cache ~/.cache/hyperframes/semantic or --cache redis://localhost:6379",
        )
    folder = Path(where).expanduser()
    if folder.exists() and not folder.is_dir():
        raise SourceError(
            f"a cache is a folder: {where} is a file",
            source=where,
            hint="Name a folder: it is made where there is none.",
        )
    return DiskCache(folder, ttl_seconds=ttl_seconds)


class SemanticCache:
    """Timelines and descriptors in a cache of bytes; what cannot be read counts as not there.

    Parameters
    ----------
    cache : Cache
        Where the bytes are. No pickle: whoever writes to a shared cache can run nothing here.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def get_arrays(self, key: str) -> dict[str, Array] | None:
        """Return the arrays under `key` by name, or None."""
        value = self._cache.get(key)
        with contextlib.suppress(ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile):
            if value is not None:
                with np.load(io.BytesIO(value), allow_pickle=False) as file:
                    return {name: file[name] for name in file.files}
        return None

    def put_arrays(self, key: str, arrays: Mapping[str, Array]) -> None:
        """Keep arrays of numbers and texts by name."""
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **dict(arrays))
        self._cache.put(key, file.getvalue())

    def get_descriptors(self, key: str) -> list[Descriptor] | None:
        """Return the descriptors under `key`, or None."""
        import pyarrow as pa

        value = self._cache.get(key)
        with contextlib.suppress(FrameError, pa.ArrowException, OSError):
            return None if value is None else from_table(pa.ipc.open_stream(value).read_all())
        return None

    def put_descriptors(self, key: str, descriptors: Sequence[Descriptor]) -> None:
        """Keep descriptors."""
        import pyarrow as pa

        table, file = to_table(descriptors), io.BytesIO()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        self._cache.put(key, file.getvalue())
