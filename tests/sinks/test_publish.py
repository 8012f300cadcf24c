"""Results to real brokers: what arrives, what happens when they go away, and that nobody learns a password."""

import json

import numpy as np
import pytest
from tests.sinks.brokers import MqttListener, NatsListener, free_port, mosquitto, nats_server, wait_until

import hyperframes as hf
from hyperframes.errors import SinkError
from hyperframes.frames import FrameSpec
from hyperframes.sinks import open_sink
from hyperframes.sinks.lines import json_lines
from hyperframes.sinks.rows import RowLayout
from hyperframes.testing.sinks import DETECTIONS, SinkSuite, part_of, records_like, target_for

RGB = FrameSpec.picture(5, 6, "rgb24")
ROW = FrameSpec.array((3,), "f8", names=("ax", "ay", "az"))


@pytest.fixture(scope="module")
def mqtt(tmp_path_factory):
    server = mosquitto(tmp_path_factory.mktemp("mosquitto"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def nats(tmp_path_factory):
    server = nats_server(tmp_path_factory.mktemp("nats"))
    yield server
    server.stop()


class _OverBroker(SinkSuite):
    targets = ((DETECTIONS, "records"), (DETECTIONS, "spans"), (ROW, "frames"))
    refused = ((RGB, "frames"),)

    @pytest.fixture(autouse=True)
    def _listeners(self):
        self.listeners = {}
        yield
        for listener in self.listeners.values():
            listener.close()

    def listener(self, channel):
        raise NotImplementedError

    def sink(self, folder):
        self.listeners.setdefault(folder, self.listener(folder.parent.name + folder.name))
        return open_sink(self.url(folder.parent.name + folder.name))

    def check(self, sink, folder, result):
        layout = RowLayout.of(
            target_for(
                result.spec,
                "spans"
                if getattr(result, "stop", None) is not None
                else "records"
                if result.spec is DETECTIONS
                else "frames",
            ),
            "x",
        )
        wanted = json_lines(layout, result)
        got = self.listeners[folder].messages
        wait_until(lambda: len(got) >= len(wanted))
        assert [message.decode() for message in got] == wanted


class TestMqtt(_OverBroker):
    @pytest.fixture(autouse=True)
    def _server(self, mqtt):
        self.port = mqtt.port

    def listener(self, channel):
        return MqttListener(self.port, channel)

    def url(self, channel):
        return f"mqtt://127.0.0.1:{self.port}/{channel}"


class TestNats(_OverBroker):
    @pytest.fixture(autouse=True)
    def _server(self, nats):
        self.port = nats.port

    def listener(self, channel):
        return NatsListener(self.port, channel)

    def url(self, channel):
        return f"nats://127.0.0.1:{self.port}/{channel}"


def published(url, rows=10, **pieces):
    sink = open_sink(url)
    sink.open(target_for(DETECTIONS, "records"))
    result = records_like(DETECTIONS, rows)
    sink.write(result)
    sink.close()
    return json_lines(RowLayout.of(target_for(DETECTIONS, "records"), "x"), result)


def test_a_run_publishes_its_records(mqtt):
    listener = MqttListener(mqtt.port, "plant/line1")
    frames = np.arange(12 * 4 * 6, dtype=np.uint8).reshape(12, 4, 6)
    hf.run(frames, "measure", to=f"mqtt://127.0.0.1:{mqtt.port}/plant/line1?qos=2")
    wait_until(lambda: len(listener.messages) == 12)
    listener.close()
    rows = [json.loads(message) for message in listener.messages]
    assert [row["frame"] for row in rows] == list(range(12))
    np.testing.assert_allclose([row["mean"] for row in rows], frames.mean((1, 2)))


def test_a_whole_hyperframe_may_be_one_message_of_lines(nats):
    listener = NatsListener(nats.port, "plant.line2")
    wanted = published(f"nats://127.0.0.1:{nats.port}/plant/line2?per=hyperframe")
    wait_until(lambda: listener.messages)
    listener.close()
    assert listener.messages == ["\n".join(wanted).encode()]


def test_a_stream_confirms_every_message(nats):
    listener = NatsListener(nats.port, "kept", stream=True)
    wanted = published(f"nats://127.0.0.1:{nats.port}/kept?jetstream=true", rows=300)
    wait_until(lambda: len(listener.messages) >= 300)
    listener.close()
    assert [message.decode() for message in listener.messages] == wanted


@pytest.mark.slow
def test_without_its_stream_a_confirmed_message_is_an_error_not_a_loss(nats):
    with pytest.raises(SinkError, match=r"messages to nats://127.0.0.1:\d+/nowhere\?.* were not taken for 1 s"):
        published(f"nats://127.0.0.1:{nats.port}/nowhere?jetstream=true&patience=1")


def over_a_restart(server, listener, url):
    """Publish while the broker is gone for a while; return the frames that arrived."""
    sink = open_sink(url)
    sink.open(target_for(DETECTIONS, "records"))
    result = records_like(DETECTIONS, 300)
    sink.write(part_of(result, 0, 100))
    wait_until(lambda: len(listener.messages) >= 100)
    server.stop()
    sink.write(part_of(result, 100, 200))
    server.start()
    sink.write(part_of(result, 200, 300))
    sink.close()
    wanted = json_lines(RowLayout.of(target_for(DETECTIONS, "records"), "x"), result)
    wait_until(lambda: {message.decode() for message in listener.messages} >= set(wanted))
    return [message.decode() for message in listener.messages], wanted


@pytest.mark.slow
def test_an_mqtt_broker_that_restarts_loses_nothing(tmp_path):
    server = mosquitto(tmp_path)
    listener = MqttListener(server.port, "line")
    got, wanted = over_a_restart(server, listener, f"mqtt://127.0.0.1:{server.port}/line")
    listener.close()
    server.stop()
    assert sorted(set(got), key=wanted.index) == wanted


@pytest.mark.slow
def test_a_nats_stream_that_restarts_loses_nothing(tmp_path):
    server = nats_server(tmp_path)
    listener = NatsListener(server.port, "line", stream=True)
    sink = open_sink(f"nats://127.0.0.1:{server.port}/line?jetstream=true")
    sink.open(target_for(DETECTIONS, "records"))
    result = records_like(DETECTIONS, 300)
    sink.write(part_of(result, 0, 100))
    wait_until(lambda: len(listener.messages) >= 100)
    server.stop()
    sink.write(part_of(result, 100, 200))
    server.start()
    sink.write(part_of(result, 200, 300))
    sink.close()
    assert sink.num_dropped == 0
    kept = listener._do(listener._client.jetstream().stream_info("results")).state.messages
    listener.close()
    server.stop()
    assert kept >= 300


def test_a_full_queue_drops_the_newest_where_that_was_asked_for(mqtt, tmp_path):
    server = mosquitto(tmp_path)
    sink = open_sink(f"mqtt://127.0.0.1:{server.port}/line?queue=5&when_full=drop_newest")
    sink.open(target_for(DETECTIONS, "records"))
    server.freeze()
    sink.write(records_like(DETECTIONS, 2000))
    assert sink.num_dropped == 1995
    server.thaw()
    sink.close()
    server.stop()
    assert sink.warnings == (f"1995 messages to {sink.name} were dropped: its queue was full",)


def test_a_broker_that_takes_nothing_is_an_error_after_a_while(tmp_path):
    server = mosquitto(tmp_path)
    sink = open_sink(f"mqtt://127.0.0.1:{server.port}/line?queue=5&patience=0.3")
    sink.open(target_for(DETECTIONS, "records"))
    server.freeze()
    with pytest.raises(
        SinkError, match=r"5 messages to mqtt://127.0.0.1:\d+/line.* were not taken for 0.3 s"
    ) as caught:
        sink.write(records_like(DETECTIONS, 20))
    assert "when_full=drop_newest" in caught.value.hint
    sink.abort()
    server.thaw()
    server.stop()


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["mqtt", "nats"])
def test_a_broker_that_is_not_there_is_refused_at_once_without_telling_the_password(scheme):
    with pytest.raises(SinkError) as caught:
        published(f"{scheme}://someone:hunter2@127.0.0.1:{free_port()}/line")
    assert f"cannot publish to {scheme}://***@127.0.0.1" in str(caught.value)
    assert "refused" in str(caught.value).lower()
    assert "hunter2" not in "".join(
        map(str, (caught.value, caught.value.hint, caught.value.sink, caught.value.__cause__))
    )


def test_a_wrong_password_is_refused_and_a_right_one_is_not_told(tmp_path):
    server = mosquitto(tmp_path, password=("someone", "hunter2"))
    with pytest.raises(SinkError, match="the broker says: Not authorized"):
        published(f"mqtt://someone:wrong@127.0.0.1:{server.port}/line")
    sink = open_sink(f"mqtt://someone:hunter2@127.0.0.1:{server.port}/line")
    sink.open(target_for(DETECTIONS, "records"))
    sink.close()
    server.stop()
    assert "hunter2" not in repr(vars(sink)) + sink.name


@pytest.mark.slow
def test_a_nats_server_that_asks_for_a_token_gets_it(tmp_path):
    server = nats_server(tmp_path, "--auth", "hunter2")
    with pytest.raises(SinkError, match="cannot publish to nats://"):
        published(f"nats://wrong@127.0.0.1:{server.port}/line")
    listener = NatsListener(server.port, "line", token="hunter2")
    wanted = published(f"nats://hunter2@127.0.0.1:{server.port}/line")
    wait_until(lambda: len(listener.messages) == len(wanted))
    listener.close()
    server.stop()


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("mqtt://localhost", "expected mqtt://HOST[:PORT]/TOPIC"),
        ("mqtt:///line", "expected mqtt://HOST[:PORT]/TOPIC"),
        ("mqtt://localhost:port/line", "expected mqtt://HOST[:PORT]/TOPIC"),
        ("mqtt://localhost/a/+/b", "the topic without '+' or '#'"),
        ("nats://localhost/a/*", "the subject without '*' or '>' or ' '"),
        ("mqtt://localhost/line?qas=1", "has no setting 'qas': expected one of client_id, patience"),
        ("mqtt://localhost/line?qos=3", "expected 0, 1 or 2 for qos, got '3'"),
        ("nats://localhost/line?queue=0", "expected a number of messages from 1 for queue, got '0'"),
        ("nats://localhost/line?when_full=wait", "expected block or drop_newest for when_full, got 'wait'"),
        ("nats://localhost/line?patience=x", "expected seconds above 0 for patience, got 'x'"),
    ],
)
def test_addresses_that_make_no_sense_are_refused(url, wanted):
    with pytest.raises(SinkError) as caught:
        open_sink(url)
    assert wanted in str(caught.value)


def test_without_the_client_the_extra_is_named(monkeypatch):
    import sys

    from hyperframes.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "paho.mqtt", None)
    monkeypatch.setitem(sys.modules, "nats", None)
    for url in ("mqtt://localhost/line", "nats://localhost/line"):
        with pytest.raises(MissingExtraError, match="needs the 'publish' extra"):
            published(url)
