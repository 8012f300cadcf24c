"""The console over real sockets: what it answers, whom it refuses, and that slow clients cost the run nothing."""

import http.client
import json
import socket
import time

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.console import Console, parse_address
from hyperframes.errors import PipelineError

TOKEN = "a-token-of-enough-length"


@pytest.fixture
def console():
    with Console("127.0.0.1:0") as console:
        yield console


def ask(console, path, host=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=10)
    sent = {"Host": host or f"127.0.0.1:{console.port}", "Connection": "close", **headers}
    connection.request("GET", path, headers=sent)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, answer


def test_it_answers_with_stats_metrics_and_health(console):
    told = {"captured": 5, "delivered": 5, "dropped": {}, "in_flight": 0, "streams": {}}
    console.watch(lambda: told)
    assert ask(console, "/healthz")[:2] == (200, '{"status":"ok"}')
    status, body, answer = ask(console, "/stats")
    assert (status, json.loads(body)) == (200, told)
    assert answer.getheader("x-content-type-options") == "nosniff"
    status, body, answer = ask(console, "/metrics")
    assert answer.getheader("content-type").startswith("text/plain; version=0.0.4")
    assert "hyperframes_captured_frames_total 5" in body
    assert ask(console, "/nothing")[0] == 404


def test_whoever_opens_it_in_a_browser_sees_what_there_is(console):
    status, body, answer = ask(console, "/")
    assert status == 200
    assert answer.getheader("content-type").startswith("text/plain")
    assert [path for path in ("/stats", "/metrics", "/healthz") if path not in body] == []


@pytest.mark.requirement("A107")
def test_an_offline_run_is_told_while_it_goes(console):
    seen = []

    @hf.operator
    def looking(frames):
        if len(frames) == 4:
            seen.append(json.loads(ask(console, "/stats")[1]))
        return frames

    frames = np.zeros((40, 4, 6), np.uint8)
    hf.Pipeline.of(frames, looking, size=4, workers=1)
    run = hf.start(hf.Pipeline.of(frames, looking, size=4, workers=1), instruments=(console,))
    run.wait()
    for told in seen:
        assert told["captured"] == told["delivered"] + sum(told["dropped"].values()) + told["in_flight"]
    assert json.loads(ask(console, "/stats")[1])["delivered"] == 40


def test_requests_under_another_name_are_refused(console):
    status, body, _ = ask(console, "/stats", host="evil.example")
    assert (status, json.loads(body)) == (421, {"detail": "this server is not known by that name"})
    for host in ("localhost", f"localhost:{console.port}", "[::1]:80", "127.0.0.1"):
        assert ask(console, "/stats", host=host)[0] == 200


def test_a_token_is_asked_for_and_compared_whole():
    with Console("127.0.0.1:0", token=TOKEN) as console:
        assert ask(console, "/healthz")[0] == 200
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": TOKEN},
        ):
            status, body, answer = ask(console, "/stats", **headers)
            assert status == 401
            assert answer.getheader("www-authenticate") == "Bearer"
            assert TOKEN not in body
        assert ask(console, "/stats", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert ask(console, "/metrics", Authorization=f"bearer {TOKEN}")[0] == 200


def test_other_addresses_need_a_token(monkeypatch):
    monkeypatch.delenv("HYPERFRAMES_TOKEN", raising=False)
    with pytest.raises(
        PipelineError, match=r"others than this machine could ask at 0.0.0.0:0: a token is needed"
    ) as caught:
        Console("0.0.0.0:0")
    assert "HYPERFRAMES_TOKEN" in caught.value.hint
    with pytest.raises(PipelineError, match="the token is too short: expected at least 16 characters, got 5"):
        Console("0.0.0.0:0", token="short")
    monkeypatch.setenv("HYPERFRAMES_TOKEN", TOKEN)
    with Console("0.0.0.0:0") as console:
        assert ask(console, "/stats", host="any.name")[0] == 401
        assert ask(console, "/stats", host="any.name", Authorization=f"Bearer {TOKEN}")[0] == 200


def test_an_address_that_is_taken_or_none_is_refused(console):
    with pytest.raises(PipelineError, match=rf"cannot serve at 127.0.0.1:{console.port}: address already in use"):
        Console(f"127.0.0.1:{console.port}")
    for text in ("nowhere", "127.0.0.1:", "127.0.0.1:99999"):
        with pytest.raises(PipelineError, match="expected HOST:PORT with a port up to 65535"):
            parse_address(text)


def test_clients_that_read_nothing_do_not_hold_up_those_who_tell(console):
    console.watch(lambda: {"streams": {f"cam{i}": {"captured": 1, "dropped": {}} for i in range(2000)}})
    slow = [socket.create_connection(("127.0.0.1", console.port)) for _ in range(20)]
    for client in slow:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")  # and never reads the answer
    slow[0].sendall(b"GET /stats HTT")  # or never ends its question
    began = time.thread_time()
    for i in range(5000):
        console.observe({"kind": "sealed", "ns": i, "sequence": i, "core": (i, i + 1)})
    assert time.thread_time() - began < 1.0
    assert console.metrics.stats()["captured"] == 5000
    for client in slow:
        client.close()


def test_too_many_at_once_are_refused_and_the_rest_goes_on(console):
    idle = [socket.create_connection(("127.0.0.1", console.port)) for _ in range(80)]
    time.sleep(0.1)
    for client in idle:
        client.close()
    until = time.monotonic() + 5
    while ask(console, "/healthz")[0] != 200:
        assert time.monotonic() < until


def test_it_stops_twice_and_leaves_the_port(console):
    console.stop()
    console.stop()
    with Console(f"127.0.0.1:{console.port}") as again:
        assert ask(again, "/healthz")[0] == 200


def test_the_command_line_serves_a_run(tmp_path, capsys):
    from hyperframes.cli import _show
    from hyperframes.cli._app import app

    np.save(tmp_path / "in.npy", np.zeros((8, 4, 6), np.uint8))
    arguments = ["run", str(tmp_path / "in.npy"), "null:", "-p", "temporal_mean", "--metrics-port", "0"]
    assert _show.exit_code_of(app, arguments) == 0
    assert "serving: http://127.0.0.1:" in capsys.readouterr().err
    assert _show.exit_code_of(app, [*arguments[:-1], "x"]) == 2
    assert "error: expected HOST:PORT" in capsys.readouterr().err
