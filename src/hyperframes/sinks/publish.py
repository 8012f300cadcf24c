"""Results to a message broker as JSON, over MQTT or NATS: at least once, in order, from a bounded queue.

`write` puts messages in the queue and returns; one thread sends them and waits until the broker has confirmed them. What
a broker speaks is in `hyperframes.sinks.brokers`.
"""

from __future__ import annotations

import difflib
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from hyperframes.errors import SinkError, without_credentials
from hyperframes.sinks.base import Sink, Target
from hyperframes.sinks.brokers import Address, Broker, Mqtt, Nats, Unreachable
from hyperframes.sinks.checks import opened
from hyperframes.sinks.lines import json_lines
from hyperframes.sinks.rows import RowLayout

if TYPE_CHECKING:
    from hyperframes.frames import Clip, Records

__all__ = ["MqttSink", "NatsSink", "PublishSink"]

_TOGETHER = 256
"""Messages sent before the broker's word is waited for."""


@dataclass(frozen=True, slots=True)
class _Settings:
    """What may stand after the question mark."""

    queue: int = 10_000
    """Messages that wait to be sent."""
    when_full: Literal["block", "drop_newest"] = "block"
    per: Literal["row", "hyperframe"] = "row"
    patience: float = 30.0
    """Seconds without any message being taken until that is an error."""
    qos: int = 1
    retain: bool = False
    client_id: str = ""
    jetstream: bool = False


class PublishSink(Sink):
    """Records, spans and small rows as messages of JSON: ``frame``, ``seconds``, ``stop`` for spans, then the fields.

    Parameters
    ----------
    location : str
        ``mqtt://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC`` (``mqtts://`` with TLS) or
        ``nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT]/SUBJECT``, and after ``?`` any of: ``queue=10000`` messages that may
        wait, ``when_full=block|drop_newest``, ``per=row|hyperframe`` (one message a row, or JSON lines of a whole
        hyperframe), ``patience=30`` seconds without any progress until that is an error, ``qos=0|1|2``, ``retain=true``
        and ``client_id`` (MQTT), ``jetstream=true`` (NATS: the stream confirms every message).

    Attributes
    ----------
    num_dropped : int
        Messages given up because the queue was full, with ``when_full=drop_newest``.

    Notes
    -----
    Every message is confirmed by the broker (MQTT's acknowledgement, NATS's answer to a ping, JetStream's
    acknowledgement) before it leaves the queue, so a broker that goes away and comes back loses nothing: what was not
    confirmed is sent again, which may make doubles. MQTT of ``qos=0`` asks for no confirmation.
    """

    takes_records: ClassVar[bool] = True
    schemes: ClassVar[dict[str, int]]
    """By scheme: the usual port."""
    words: ClassVar[frozenset[str]]
    """Settings of this protocol."""

    def __init__(self, location: str) -> None:
        self.name = without_credentials(location)
        self._address, self._settings = self._parsed(location)
        self._layout: RowLayout | None = None
        self._outbox: _Outbox | None = None
        self.num_dropped = 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what users should know: how many messages were given up."""
        if not self.num_dropped:
            return ()
        return (f"{self.num_dropped} messages to {self.name} were dropped: its queue was full",)

    def broker(self, address: Address, settings: Any) -> Broker:
        """Return the connection to be."""
        raise NotImplementedError

    def _parsed(self, location: str) -> tuple[Address, _Settings]:
        parts = urlsplit(location)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        channel = unquote(parts.path).strip("/")
        if parts.scheme not in self.schemes or not host or not channel or set(channel) & set(self.forbidden):
            scheme = next(iter(self.schemes))
            raise SinkError(
                f"expected {scheme}://HOST[:PORT]/{self.channel.upper()}, the {self.channel} without "
                f"{' or '.join(map(repr, self.forbidden))}: got {location}",
                sink=location,
                hint=f"For example: {scheme}://localhost/hyperframes/results",
            )
        address = Address(
            host,
            port or self.schemes[parts.scheme],
            channel.replace("/", self.separator),
            None if parts.username is None else unquote(parts.username),
            None if parts.password is None else unquote(parts.password),
            tls=parts.scheme == "mqtts",
        )
        return address, self._settings_from(parts.query, location)

    channel: ClassVar[str]
    """What the protocol calls where messages go."""
    separator: ClassVar[str]
    forbidden: ClassVar[str]

    def _settings_from(self, query: str, location: str) -> _Settings:
        values: dict[str, Any] = {}
        for key, text in parse_qsl(query, keep_blank_values=True):
            if key not in self.words:
                near = difflib.get_close_matches(key, self.words, n=1)
                raise SinkError(
                    f"{self.name} has no setting {key!r}: expected one of {', '.join(sorted(self.words))}",
                    sink=location,
                    hint=f"Did you mean {near[0]!r}?" if near else None,
                )
            values[key] = _SETTINGS[key](text)
            if values[key] is None:
                raise SinkError(
                    f"{self.name}: expected {_EXPECTED[key]} for {key}, got {text!r}",
                    sink=location,
                    hint=_HINTS.get(key),
                )
        return _Settings(**values)

    # Life -------------------------------------------------------------------------------------------------------------

    def open(self, target: Target) -> None:
        """Connect.

        Raises
        ------
        SinkError
            For pictures, or if the broker cannot be reached or refuses.
        MissingExtraError
            Without the protocol's client.
        """
        self._layout = RowLayout.of(target, self.name)
        broker = self.broker(self._address, self._settings)
        try:
            broker.connect()
        except Unreachable as error:
            broker.close()
            raise SinkError(
                f"cannot publish to {self.name}: {without_credentials(str(error))}",
                sink=self.name,
                hint="Is the broker running there, and may you write to it?",
            ) from None  # clients' own errors may tell credentials
        self._outbox = _Outbox(broker, self.name, self._settings)

    def write(self, result: Clip | Records) -> None:
        """Put the rows in the queue; waits for room or drops them as ``when_full`` says.

        Raises
        ------
        SinkError
            If no message was taken for as long as ``patience`` says.
        """
        lines = json_lines(opened(self._layout, self.name), result)
        if lines and self._settings.per == "hyperframe":
            lines = ["\n".join(lines)]
        outbox = opened(self._outbox, self.name)
        for line in lines:
            self.num_dropped += not outbox.put(line.encode())

    def close(self) -> str:
        """Wait until the broker has taken everything."""
        outbox, self._outbox = opened(self._outbox, self.name), None
        outbox.finish()
        return self.name

    def abort(self, *, keep_parts: bool = False) -> None:
        """Stop; what waits in the queue is given up."""
        outbox, self._outbox = self._outbox, None
        if outbox is not None:
            outbox.stop()


class MqttSink(PublishSink):
    """Results to an MQTT broker; see `PublishSink`."""

    schemes: ClassVar[dict[str, int]] = {"mqtt": 1883, "mqtts": 8883}
    words = frozenset({"queue", "when_full", "per", "patience", "qos", "retain", "client_id"})
    channel, separator, forbidden = "topic", "/", "+#"

    def broker(self, address: Address, settings: Any) -> Broker:
        """Return an MQTT client."""
        return Mqtt(address, settings.qos, settings.client_id, retain=settings.retain)


class NatsSink(PublishSink):
    """Results to a NATS server; see `PublishSink`."""

    schemes: ClassVar[dict[str, int]] = {"nats": 4222}
    words = frozenset({"queue", "when_full", "per", "patience", "jetstream"})
    channel, separator, forbidden = "subject", ".", "*> "

    def broker(self, address: Address, settings: Any) -> Broker:
        """Return a NATS client."""
        return Nats(address, jetstream=settings.jetstream)


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and 0 < int(text) <= 10_000_000 else None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds < 1e6 else None


def _flag(text: str) -> bool | None:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())


def _one_of(*words: str) -> Any:
    return lambda text: text if text in words else None


_SETTINGS: dict[str, Any] = {
    "queue": _count,
    "when_full": _one_of("block", "drop_newest"),
    "per": _one_of("row", "hyperframe"),
    "patience": _seconds,
    "qos": lambda text: int(text) if text in {"0", "1", "2"} else None,
    "retain": _flag,
    "client_id": lambda text: text or None,
    "jetstream": _flag,
}
_EXPECTED = {
    "queue": "a number of messages from 1",
    "when_full": "block or drop_newest",
    "per": "row or hyperframe",
    "patience": "seconds above 0",
    "qos": "0, 1 or 2",
    "retain": "true or false",
    "client_id": "a name",
    "jetstream": "true or false",
}
_HINTS = {"qos": "0: at most once, 1: at least once, 2: exactly once."}


class _Outbox:
    """The queue and the thread that empties it."""

    def __init__(self, broker: Broker, name: str, settings: _Settings) -> None:
        self._broker, self._name, self._settings = broker, name, settings
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._finishing = False
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._progress = time.monotonic()
        self._thread = threading.Thread(target=self._send_all, name="hyperframes-publish", daemon=True)
        self._thread.start()

    def put(self, message: bytes) -> bool:
        """Queue one message; False where it was dropped."""
        with self._changed:
            if len(self._waiting) >= self._settings.queue:
                if self._settings.when_full == "drop_newest":
                    return False
                self._wait(lambda: len(self._waiting) < self._settings.queue)
            if not self._waiting:
                self._progress = time.monotonic()  # patience begins when there is something to send
            self._waiting.append(message)
            self._changed.notify_all()
            return True

    def finish(self) -> None:
        """Return when everything was taken, and end the connection."""
        try:
            with self._changed:
                self._finishing = True
                self._changed.notify_all()
                self._wait(lambda: not self._waiting)
        finally:
            self.stop()

    def stop(self) -> None:
        """End thread and connection."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._broker.close()

    def _wait(self, until: Any) -> None:
        """Wait, with the lock, as long as there is progress."""
        while not until():
            left = self._progress + self._settings.patience - time.monotonic()
            if self._error is not None or left <= 0:
                raise SinkError(
                    f"{len(self._waiting)} messages to {self._name} were not taken"
                    + (
                        f": {without_credentials(str(self._error))}"
                        if self._error
                        else f" for {self._settings.patience:g} s"
                    ),
                    sink=self._name,
                    hint="See whether the broker runs and keeps up; '?patience=SECONDS' waits longer, "
                    "'?when_full=drop_newest' drops instead.",
                )
            self._changed.wait(min(left, 0.5))

    def _send_all(self) -> None:
        try:
            while not self._stopped.is_set():
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._stopped.is_set())
                    together = [self._waiting[i] for i in range(min(_TOGETHER, len(self._waiting)))]
                if together:
                    self._sent(self._broker.send(together, self._stopped))
        except Exception as error:  # noqa: BLE001 - told to whoever writes next
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _sent(self, count: int) -> None:
        with self._changed:
            for _ in range(count):
                self._waiting.popleft()
            if count:
                self._progress = time.monotonic()
            self._changed.notify_all()
