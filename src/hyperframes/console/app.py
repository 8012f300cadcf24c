"""The endpoints, and who may ask: a Host check always, a token wherever others than this machine can ask."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from hyperframes.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import FastAPI

__all__ = ["Guard", "make_app"]

_Scope = MutableMapping[str, Any]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_OPEN = frozenset({"/healthz"})
_CONTENTS = """Hyperframes

/stats      counts of this moment, as JSON: captured = delivered + dropped + in flight
/metrics    the same for Prometheus
/healthz    whether the process answers
"""
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


def make_app(stats: Callable[[], dict[str, Any]], metrics: Callable[[], str]) -> FastAPI:
    """Return the app.

    Parameters
    ----------
    stats : function
        Returns the run's counts.
    metrics : function
        Returns Prometheus text.

    Raises
    ------
    MissingExtraError
        Without FastAPI.
    """
    try:
        from fastapi import FastAPI
        from fastapi.responses import PlainTextResponse, Response
    except ImportError as error:
        raise MissingExtraError("serving metrics over HTTP", "console") from error
    app = FastAPI(title="Hyperframes", docs_url=None, redoc_url=None)

    @app.get("/", summary="What can be asked for.", response_class=PlainTextResponse)
    def contents() -> str:
        return _CONTENTS

    @app.get("/healthz", summary="Whether the process answers.")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/stats", summary="Counts of this moment: captured = delivered + sum(dropped) + in_flight.")
    def stats_now() -> Response:
        return Response(json.dumps(stats(), default=str), media_type="application/json")

    @app.get("/metrics", summary="The same for Prometheus.", response_class=PlainTextResponse)
    def metrics_now() -> Response:
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


class Guard:
    """ASGI middleware: refuses wrong hosts and missing tokens, and adds headers that browsers keep to.

    Parameters
    ----------
    app : ASGI app
        What is behind it.
    hosts : iterable of str, or None
        Names that requests may be addressed to: a page elsewhere cannot make a browser ask under a name of its own. None:
        any, which only a token makes safe.
    token : str, optional
        What ``Authorization: Bearer`` must say, but for ``/healthz``.
    """

    def __init__(self, app: Any, hosts: Iterable[str] | None, token: str | None) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not self._host_is_known(headers.get(b"host", b"")):
            await _refuse(send, 421, "this server is not known by that name")
            return
        if scope["path"] not in _OPEN and not self._may_ask(headers.get(b"authorization", b"")):
            await _refuse(send, 401, "a token is needed: Authorization: Bearer TOKEN", (b"www-authenticate", b"Bearer"))
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)

    def _host_is_known(self, host: bytes) -> bool:
        if self._hosts is None:
            return True
        name = host.decode("latin-1").lower()
        name = name.partition("]")[0].lstrip("[") if name.startswith("[") else name.partition(":")[0]
        return name in self._hosts

    def _may_ask(self, authorization: bytes) -> bool:
        if self._token is None:
            return True
        kind, _, given = authorization.partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)


async def _refuse(send: _Send, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"detail": why}).encode()
    told = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers, *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})
