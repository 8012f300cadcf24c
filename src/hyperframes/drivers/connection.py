"""The connection to Ray: one command starts it on this machine, one address joins a cluster. Usage reports stay off."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperframes.errors import HyperframesError, MissingExtraError, without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Connection", "connected"]

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # devices stay as they are; Ray would warn that this is to change
}
_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""Of processes that we start: else what parts of a video leave in their encoders' threads' shares adds up over a segment."""
_STORE_BYTES = 80 << 20
"""Of a store that holds what tasks are told, and no pixels: about the least that Ray allows."""


@dataclass(slots=True, eq=False)
class Connection:
    """Ray, ready to take tasks."""

    ray: Any
    """The library."""
    address: str
    cpus: int
    """Of all machines together."""
    largest: int
    """CPUs of the largest machine."""
    ours: bool
    """Whether it ends with the last run: a program that has connected itself keeps its connection."""
    users: int = 0


_lock = threading.Lock()
_state: dict[str, Connection] = {}


@contextlib.contextmanager
def connected(address: str = "", cpus: int = 1) -> Iterator[Connection]:
    """Give a connection to the cluster at `address`, or to one of `cpus` that is started on this machine for the time.

    Blocks may lie inside each other and run at once: they share one connection, and the last one ends it.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.
    HyperframesError
        If the cluster does not answer, or this process is connected to another one.
    """
    with _lock:
        found = _state.get("connection") or _connect(address, cpus)
        if address and found.ours and found.address != address:
            raise HyperframesError(
                f"one process uses one Ray cluster: expected {without_credentials(found.address or 'this machine')!r}, "
                f"got {without_credentials(address)!r}",
                hint="Wait until the other runs have ended.",
            )
        found.users += 1
        _state["connection"] = found
    try:
        yield found
    finally:
        with _lock:
            found.users -= 1
            if found.users == 0:
                del _state["connection"]
                if found.ours:
                    found.ray.shutdown()


def _connect(address: str, cpus: int) -> Connection:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        library: Any = importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError("the ray executor", "cluster") from error
    ours = not library.is_initialized()
    if ours:
        _start(library, address, cpus)
    nodes = [int(node["Resources"].get("CPU", 0)) for node in library.nodes() if node["Alive"]]
    return Connection(library, address, max(1, sum(nodes)), max(1, *nodes), ours)


def _start(ray: Any, address: str, cpus: int) -> None:
    here = {"num_cpus": cpus, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    how = {"address": address} if address else {"address": "local", **here}
    ours = {} if address else {name: value for name, value in _ARENAS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **how)
    except Exception as error:
        where = f"the Ray cluster at {without_credentials(address)!r}" if address else "Ray on this machine"
        raise HyperframesError(
            f"cannot connect to {where}: {type(error).__name__}: {without_credentials(str(error)).splitlines()[0]}",
            hint="Is it running there (ray status), with the same versions of Python and ray as here?"
            if address
            else "Use --executor threads on one machine.",
        ) from error
    finally:
        for name in ours:
            del os.environ[name]
    _hush(ray)


def _hush(ray: Any) -> None:
    """Keep Ray from printing what becomes of its processes: runs tell it in their own words."""
    with contextlib.suppress(AttributeError, KeyError):
        ray._private.ray_logging.global_worker_stdstream_dispatcher.remove_handler("ray_print_logs")
