"""Address, thread, start and stop of the console."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from hyperframes.console.app import Guard, make_app
from hyperframes.console.metrics import Metrics, render
from hyperframes.errors import MissingExtraError, PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from hyperframes.instruments import Observation

__all__ = ["TOKEN_VARIABLE", "Console", "parse_address"]

TOKEN_VARIABLE = "HYPERFRAMES_TOKEN"
_LEAST_TOKEN = 16
_CONNECTIONS = 64
"""Requests at once; more are refused, so that nobody can make the run pay for them."""
_START_SECONDS = 10.0


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``; the host is 127.0.0.1 where none is given.

    Raises
    ------
    PipelineError
        If it is none of these.

    Examples
    --------
    >>> parse_address("8000"), parse_address("[::1]:8000")
    (('127.0.0.1', 8000), ('::1', 8000))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > 65_535:
        raise PipelineError(
            f"expected HOST:PORT with a port up to 65535 to serve at, got {text!r}",
            got=text,
            hint="For example: --serve 127.0.0.1:8000",
        )
    return host or "127.0.0.1", int(port)


class Console:
    """An instrument that serves what it is told over HTTP, on a thread of its own.

    Parameters
    ----------
    address : str
        ``HOST:PORT``; port 0 takes a free one. Only this machine can ask at 127.0.0.1, ``localhost`` and ``::1``.
    token : str, optional
        What others must show as ``Authorization: Bearer TOKEN``; default: the environment's ``HYPERFRAMES_TOKEN``.
        Needed at every other address.

    Raises
    ------
    PipelineError
        If the address is none, taken, or needs a token.
    MissingExtraError
        Without the web framework.

    Examples
    --------
    ``with Console("127.0.0.1:8000") as console, LiveRuntime(..., instruments=(console,)) as live: console.watch(live.stats)``
    """

    def __init__(self, address: str, *, token: str | None = None) -> None:
        self.host, port = parse_address(address)
        self._token = token if token is not None else os.environ.get(TOKEN_VARIABLE) or None
        self._check_token(address)
        self.metrics = Metrics()
        self._stats: Callable[[], dict[str, Any]] = self.metrics.stats
        self._journal: Callable[[], dict[str, Any]] = dict
        self._app = make_app(self._stats_now, self.text)
        self._socket = self._bound(address, port)
        self.port: int = self._socket.getsockname()[1]
        self._server: Any = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def _check_token(self, address: str) -> None:
        if self._token is None and not _is_loopback(self.host):
            raise PipelineError(
                f"others than this machine could ask at {address}: a token is needed",
                got=address,
                hint=f"Set {TOKEN_VARIABLE} in the environment, for example to what 'openssl rand -hex 24' prints, and put "
                "TLS in front; or serve at 127.0.0.1.",
            )
        if self._token is not None and len(self._token) < _LEAST_TOKEN:
            raise PipelineError(
                f"the token is too short: expected at least {_LEAST_TOKEN} characters, got {len(self._token)}",
                hint=f"Set {TOKEN_VARIABLE} to what 'openssl rand -hex 24' prints.",
            )

    def _bound(self, address: str, port: int) -> socket.socket:
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(self.host, port, type=socket.SOCK_STREAM)[0]
            found = socket.socket(family, kind, protocol)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(place)
            except OSError:
                found.close()
                raise
        except OSError as error:
            raise PipelineError(
                f"cannot serve at {address}: {(error.strerror or str(error)).lower()}",
                got=address,
                hint="Choose another port; port 0 takes a free one.",
            ) from error
        return found

    # An instrument ----------------------------------------------------------------------------------------------------

    def observe(self, observation: Observation) -> None:
        """Count what is told; whoever reads the counts never holds this up for longer than a copy of them."""
        self.metrics.observe(observation)

    def watch(self, stats: Callable[[], dict[str, Any]], journal: Callable[[], dict[str, Any]] | None = None) -> None:
        """Ask `stats` for the counts from now on, and `journal` how its writing goes."""
        self._stats = stats
        if journal is not None:
            self._journal = journal

    def _stats_now(self) -> dict[str, Any]:
        return self._stats()

    def text(self) -> str:
        """Return the metrics as Prometheus text."""
        return render(self._stats(), self.metrics, self._journal())

    # Life -------------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Serve from now on."""
        try:
            import uvicorn
        except ImportError as error:
            raise MissingExtraError("serving metrics over HTTP", "console") from error
        config = uvicorn.Config(
            Guard(self._app, self._hosts(), self._token),
            log_config=None,
            access_log=False,
            lifespan="off",
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None
        self._thread = threading.Thread(target=self._serve, name="hyperframes-console", daemon=True)
        self._thread.start()
        until = time.monotonic() + _START_SECONDS
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        return self

    def _serve(self) -> None:
        self._socket.listen(_CONNECTIONS)
        self._server.run(sockets=[self._socket])

    def _hosts(self) -> tuple[str, ...] | None:
        if _is_loopback(self.host):
            return ("localhost", "127.0.0.1", "::1", self.host)
        if self.host in {"0.0.0.0", "::"}:
            return None
        return (self.host, socket.gethostname(), socket.getfqdn())

    def stop(self) -> None:
        """Stop serving; safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._server.should_exit = True
            thread.join(_START_SECONDS)
        with contextlib.suppress(OSError):
            self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
