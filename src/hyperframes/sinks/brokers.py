"""What speaks to message brokers: one class a protocol, each with the same three verbs."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hyperframes.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

__all__ = ["Address", "Broker", "Mqtt", "Nats", "Unreachable"]

_CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 0.05  # how often a wait looks whether it was called off


class Unreachable(Exception):
    """No connection, or no permission."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker is and who we are there."""

    host: str
    port: int
    channel: str
    """Topic or subject."""
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls: bool = False


class Broker(Protocol):
    """A connection to a broker; `connect` first, `send` from one thread, `close` at the end."""

    def connect(self) -> None:
        """Connect, or raise `Unreachable`."""
        ...

    def send(self, messages: Sequence[bytes], stop: threading.Event) -> int:
        """Send messages in order and return how many, from the front, the broker has confirmed.

        Waits through lost connections; returns early, with what was confirmed by then, when `stop` is set.
        """
        ...

    def close(self) -> None:
        """End the connection; safe to call twice, and before `connect`."""
        ...


class Mqtt:
    """MQTT 3.1.1 by Eclipse Paho, which reconnects and sends again by itself."""

    def __init__(self, address: Address, qos: int, client_id: str, *, retain: bool) -> None:
        try:
            from paho.mqtt import client as mqtt
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise MissingExtraError("publishing over MQTT", "publish") from error
        self._mqtt, self._address, self._qos, self._retain = mqtt, address, qos, retain
        self._answered = threading.Event()
        self._refusal = ""
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=client_id)
        client.on_connect = self._on_connect
        client.reconnect_delay_set(1, 5)
        client.max_inflight_messages_set(256)
        if address.user is not None:
            client.username_pw_set(address.user, address.password)
        if address.tls:
            client.tls_set()
        self._client = client

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._refusal = str(reason) if reason.is_failure else ""
        self._answered.set()

    def connect(self) -> None:
        """Connect, or raise `Unreachable`."""
        self._client.connect_timeout = _CONNECT_SECONDS
        try:
            self._client.connect(self._address.host, self._address.port, keepalive=30)
        except (OSError, ValueError) as error:
            raise Unreachable(getattr(error, "strerror", None) or str(error) or "no connection") from None
        self._client.loop_start()
        if not self._answered.wait(_CONNECT_SECONDS):
            raise Unreachable(f"no answer in {_CONNECT_SECONDS:g} s")
        if self._refusal:
            raise Unreachable(f"the broker says: {self._refusal}")

    def send(self, messages: Sequence[bytes], stop: threading.Event) -> int:
        """Publish and wait for the acknowledgements."""
        told: list[Any] = []
        for message in messages:
            while not self._client.is_connected() and not told:  # Paho keeps no message of QoS 0 for later
                if stop.wait(_LOOK_SECONDS):
                    return 0
            info = self._client.publish(self._address.channel, message, self._qos, self._retain)
            if self._qos == 0 and info.rc != self._mqtt.MQTT_ERR_SUCCESS:
                break
            told.append(info)
        return sum(1 for info in told if self._confirmed(info, stop))

    def _confirmed(self, info: Any, stop: threading.Event) -> bool:
        while not info.is_published():
            if stop.is_set():
                return False
            if self._qos == 0 and not self._client.is_connected():
                return True  # gone with the connection: at most once
            info.wait_for_publish(_LOOK_SECONDS)
        return True

    def close(self) -> None:
        """End the connection."""
        self._client.disconnect()
        self._client.loop_stop()


class Nats:
    """NATS by its own client, in an event loop on a thread of its own."""

    def __init__(self, address: Address, *, jetstream: bool) -> None:
        try:
            import nats
        except ImportError as error:
            raise MissingExtraError("publishing over NATS", "publish") from error
        self._nats, self._address, self._jetstream = nats, address, jetstream
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hyperframes-nats", daemon=True)
        self._thread.start()

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _quiet(self, *_: Any) -> None:
        """Lost connections are no news: what was not confirmed is sent again."""

    async def _connect(self) -> Any:
        address = self._address
        who: dict[str, Any] = {}
        if address.user is not None and address.password is None:
            who["token"] = address.user
        elif address.user is not None:
            who = {"user": address.user, "password": address.password}
        host = f"[{address.host}]" if ":" in address.host else address.host
        return await self._nats.connect(
            f"nats://{host}:{address.port}",
            connect_timeout=_CONNECT_SECONDS,
            allow_reconnect=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.5,
            error_cb=self._quiet,
            disconnected_cb=self._quiet,
            reconnected_cb=self._quiet,
            **({"tls": ssl.create_default_context()} if address.tls else {}),
            **who,
        )

    def connect(self) -> None:
        """Connect, or raise `Unreachable`."""

        async def first() -> Any:
            # The client tries for ever once it may reconnect, so the first connection has a limit of its own.
            return await asyncio.wait_for(self._connect(), _CONNECT_SECONDS)

        try:
            socket.create_connection((self._address.host, self._address.port), _CONNECT_SECONDS).close()
            self._client = self._await(first())
        except TimeoutError:
            raise Unreachable(
                f"no connection in {_CONNECT_SECONDS:g} s: is the server there, and the login right?"
            ) from None
        except Exception as error:  # noqa: BLE001 - the client raises whatever the server says
            raise Unreachable(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None

    def send(self, messages: Sequence[bytes], stop: threading.Event) -> int:
        """Publish and wait until the server has answered."""
        while not stop.is_set():
            try:
                self._await(self._publish(messages))
            except (OSError, TimeoutError, self._nats.errors.Error):
                stop.wait(0.2)  # sent again once the connection is back
            else:
                return len(messages)
        return 0

    async def _publish(self, messages: Sequence[bytes]) -> None:
        if not self._client.is_connected:
            raise TimeoutError
        if self._jetstream:
            stream = self._client.jetstream()
            await asyncio.gather(*(stream.publish(self._address.channel, message) for message in messages))
            return
        for message in messages:
            await self._client.publish(self._address.channel, message)
        await self._client.flush(timeout=5)

    def close(self) -> None:
        """End the connection and the loop."""
        if self._loop.is_closed():
            return
        if self._client is not None:
            self._await(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
