"""What opens doors in URLs stands nowhere: not on a screen, in a file, a metric, a journal or an index."""

import contextlib
import itertools
import json
import shutil
import signal
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

import cv2
import pytest
from tests.cli.conftest import pictures
from tests.farm import free_port
from tests.media.served import serve

from hyperframes.errors import PipelineError, SourceError, without_credentials

SECRETS = ("olaf", "hunter2", "SESAME")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rtsp://u:p@ss@h/x", "rtsp://***@h/x"),
        ("got 'http://h/a?token=abc'", "got 'http://h/a?token=***'"),
        ("http://h?key=a'b&x=1", "http://h?key=***&x=1"),
        ('{"a":"http://h?api_key=zz","b":"x@y"}', '{"a":"http://h?api_key=***","b":"x@y"}'),
        ('{\\"a\\":\\"http://h?api_key=zz\\"}', '{\\"a\\":\\"http://h?api_key=***\\"}'),
        ("x?accessKey=ab!: refused", "x?accessKey=***: refused"),
        ("['http://h?pwd=a,b', 'c']", "['http://h?pwd=***', 'c']"),
        ("(http://h?x=1&auth=zz).", "(http://h?x=1&auth=***)."),
        ("https://h/?X-Amz-Signature=abc&X-Amz-Date=1", "https://h/?X-Amz-Signature=***&X-Amz-Date=1"),
        ("http://h/cgi?user=a&pass=b&width=3", "http://h/cgi?user=***&pass=***&width=3"),
        ("clip?sigma=2&keyframe=3&monkey=4&passes=2&design=1", "clip?sigma=2&keyframe=3&monkey=4&passes=2&design=1"),
        ("https://h/x?mail=a@b", "https://h/x?mail=a@b"),
        ("cam@12.5 of a.mp4", "cam@12.5 of a.mp4"),
    ],
)
def test_user_names_and_secret_parameters_are_stars(text, shown):
    assert without_credentials(text) == shown


@pytest.mark.parametrize("kind", [PipelineError, SourceError])
def test_no_error_tells_them_whoever_raises_it(kind):
    error = kind("cannot open rtsp://olaf:hunter2@h/x?token=SESAME", hint="Try rtsp://olaf:hunter2@h/y")
    assert str(error) == "cannot open rtsp://***@h/x?token=***"
    assert error.hint == "Try rtsp://***@h/y"


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """A web server with a clip, whose URL carries a user and a password."""
    folder = tmp_path_factory.mktemp("web")
    shutil.copy(files("hyperframes") / "data" / "big_buck_bunny.mp4", folder / "clip.mp4")
    with serve(folder) as (address, _):
        yield address.replace("http://", "http://olaf:hunter2@")


@pytest.fixture
def camera():
    """The address of a camera that sends Motion JPEG to whoever asks."""
    shots = [cv2.imencode(".jpg", picture)[1].tobytes() for picture in pictures(50)]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=shot")
            self.end_headers()
            with contextlib.suppress(OSError):
                for shot in itertools.cycle(shots):
                    head = f"--shot\r\nContent-Type: image/jpeg\r\nContent-Length: {len(shot)}\r\n\r\n"
                    self.wfile.write(head.encode() + shot + b"\r\n")
                    time.sleep(0.02)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://olaf:hunter2@127.0.0.1:{server.server_port}/video.mjpg"
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(call):
    """Run a command in this process, and look at what it printed."""

    def checked(*arguments):
        done = call(*arguments)
        assert_without_secrets("what is printed", (done.out + done.err).encode())
        return done

    return checked


def assert_without_secrets(what, data):
    for secret in SECRETS:
        assert secret.encode() not in data, (what, secret, data[max(0, data.find(secret.encode()) - 200) :][:400])


def assert_no_file_has_them(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert paths
    for path in paths:
        assert_without_secrets(path, path.read_bytes() + path.name.encode())


@pytest.mark.slow
def test_a_live_run_tells_them_nowhere(camera, spawn, run, tmp_path):
    port = free_port()
    sources = [f"good={camera}?access_token=SESAME1", "dead=rtsp://olaf:hunter2@127.0.0.1:1/main?password=SESAME2"]
    process = spawn(
        "live", *(part for source in sources for part in ("--source", source)), "--json",
        "--operator", "measure", "--to", "out.jsonl", "--journal", "plant.journal", "--record", "kept",
        "--serve", f"127.0.0.1:{port}", text=False,
    )  # fmt: skip
    served, captured, end = b"", 0, time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end and captured <= 20:
        with contextlib.suppress(OSError):
            for page in ("metrics", "stats"):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}") as answer:
                    served += (told := answer.read())
            captured = json.loads(told)["streams"].get("good", {}).get("captured", 0)
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["streams"]["good"]["captured"] >= captured > 20
    assert b"dead" in served
    assert b"rtsp://***@" in err or b"refused" in err.lower()
    for what, told in {"stdout": out, "stderr": err, "served": served}.items():
        assert_without_secrets(what, told)
    assert_no_file_has_them(tmp_path)
    told = json.loads(run("journal", "plant.journal", "--json").out)
    assert told["runs"][0]["outcome"]


@pytest.mark.slow
def test_files_reports_and_an_index_do_not_hold_them(web, run, tmp_path):
    source = f"{web}/clip.mp4?sig=SESAME3&key=SESAME4"
    done = run(
        "run", source, "out.mp4", "--operator", "crop:width=64,height=48", "--range", "0:30", "--report", "run.html"
    )
    assert done.code == 0, done.err
    done = run("describe", source, "--to", "library.lance")
    assert done.code == 0, done.err
    assert run("run", f"{web}/none.mp4?auth=SESAME5", "none.mp4", "--debug").code == 1
    assert run("run", source, "mqtt://olaf:hunter2@127.0.0.1:1/topic", "--operator", "measure").code in {1, 2}
    assert_no_file_has_them(tmp_path)
