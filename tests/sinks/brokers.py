"""Real brokers for tests: mosquitto and nats-server, started on a free port and stopped again."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

IN_CI = os.environ.get("CI") == "true"


def program(name):
    """Return where a broker's program is; a test without it is skipped, in CI it fails."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        (pytest.fail if IN_CI else pytest.skip)(f"{name} is not installed: tools/debian.sh names its package")
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A broker that can be stopped, frozen and started again on the same port."""

    def __init__(self, folder, arguments):
        self.port = free_port()
        self._arguments = arguments(folder, self.port)
        self.start()

    def start(self):
        self.process = subprocess.Popen(self._arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the broker did not start: {self._arguments}")

    def stop(self):
        self.process.kill()
        self.process.wait()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)


def mosquitto(folder, password=None):
    def arguments(folder, port):
        lines = [
            f"listener {port} 127.0.0.1",
            "persistence true",
            f"persistence_location {folder}/",
            "max_queued_messages 0",
        ]
        lines += ["autosave_interval 1", "autosave_on_changes true"]
        if password:
            subprocess.run([program("mosquitto_passwd"), "-b", "-c", folder / "users", *password], check=True)
            lines += [f"password_file {folder}/users", "allow_anonymous false"]
        else:
            lines += ["allow_anonymous true"]
        if os.geteuid() == 0:
            lines += ["user root"]  # it gives up its rights otherwise, and with them the folder
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        return [program("mosquitto"), "-c", str(folder / "mosquitto.conf")]

    return Server(folder, arguments)


def nats_server(folder, *more):
    def arguments(folder, port):
        return [program("nats-server"), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder), *more]

    return Server(folder, arguments)


class MqttListener:
    """Keeps what comes on a topic, over reconnections."""

    def __init__(self, port, topic, user=None, password=None):
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        self.messages, ready = [], threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"listener-{topic}", clean_session=False)
        if user:
            self._client.username_pw_set(user, password)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda client, *_: client.subscribe(topic, qos=1)
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.on_message = lambda _client, _data, message: self.messages.append(message.payload)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert ready.wait(10)

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


class NatsListener:
    """Keeps what comes on a subject, over reconnections."""

    def __init__(self, port, subject, stream=False, **who):
        self.messages = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._listen(port, subject, stream, who))

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _listen(self, port, subject, stream, who):
        import nats

        async def quiet(*_):
            pass

        self._client = await nats.connect(
            f"nats://127.0.0.1:{port}", max_reconnect_attempts=-1, reconnect_time_wait=0.1,
            error_cb=quiet, disconnected_cb=quiet, reconnected_cb=quiet, **who,
        )  # fmt: skip
        if stream:
            await self._client.jetstream().add_stream(name="results", subjects=[subject])

        async def keep(message):
            self.messages.append(message.data)

        await self._client.subscribe(subject, cb=keep)
        await self._client.flush()

    def close(self):
        self._do(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.01)
