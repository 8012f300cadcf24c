"""What each protocol is opened with, and how breaking off is called."""

import contextlib
import socket
import threading

import av
import pytest

from hyperframes.errors import PipelineError, SourceError
from hyperframes.media import endpoint as endpoints
from hyperframes.media.endpoint import Endpoint, reason_of


def test_rtsp_asks_for_pictures_only_and_over_tcp_unless_told():
    place = Endpoint.of("rtsp://user:secret@camera/1").place
    assert place.options["rtsp_transport"] == "tcp"
    assert place.options["allowed_media_types"] == "video"
    assert Endpoint.of("rtsp://camera/1", transport="udp").place.options["rtsp_transport"] == "udp"


@pytest.mark.parametrize("url", ["rtsp://a/1", "udp://127.0.0.1:1", "tcp://127.0.0.1:1", "http://a/b", "/dev/video3"])
def test_cameras_are_live(url):
    assert Endpoint.of(url).live


def test_devices_are_read_by_v4l2_and_motion_jpeg_by_its_own_reader():
    assert Endpoint.of("/dev/video0", video_size="640x480").place.format == "v4l2"
    assert Endpoint.of("/dev/video0", video_size="640x480").place.options == {"video_size": "640x480"}
    assert Endpoint.of("http://camera/cam.mjpg?x=1").place.format == "mpjpeg"
    assert Endpoint.of("tcp://camera:1", format="mpjpeg").place.format == "mpjpeg"


@pytest.mark.parametrize(
    ("url", "option", "reading"),
    [
        ("rtsp://a/1", "timeout", None),
        ("RTSPS://a/1", "timeout", None),
        ("tcp://a:1", "timeout", None),
        ("udp://127.0.0.1:1", "timeout", 7.5),
        ("http://a/live.m3u8", "rw_timeout", 7.5),
        ("/dev/video0", None, 7.5),
    ],
)
def test_reads_that_end_by_themselves_when_nothing_comes_are_left_to_ffmpeg_where_somebody_watches(
    url, option, reading
):
    endpoint = Endpoint.of(url)
    watched, alone = (endpoint.within(7.5, watched=watched) for watched in (True, False))
    assert (watched.timeout_seconds, alone.timeout_seconds) == ((5.0, reading), (5.0, 7.5))
    assert watched.options == alone.options
    assert watched.options.get(option) == (None if option is None else "7500000")


def test_own_options_win():
    assert Endpoint.of("rtsp://a/1", timeout="3").within(9, watched=True).options["timeout"] == "3"
    assert Endpoint.of("udp://127.0.0.1:1", fifo_size="7").place.options["fifo_size"] == "7"


def test_files_keep_their_pace_unless_asked_to_go_free(tmp_path):
    path = tmp_path / "clip.mp4"
    path.touch()
    endpoint = Endpoint.of(str(path))
    assert (endpoint.live, endpoint.pace, endpoint.loop) == (False, "own", False)
    endpoint = Endpoint.of(f"file://{path}?pace=free&loop=1")
    assert (endpoint.place.url, endpoint.pace, endpoint.loop) == (str(path), "free", True)
    odd = tmp_path / "what?pace=7.mp4"
    odd.touch()
    assert Endpoint.of(str(odd)).place.url == str(odd)


@pytest.mark.parametrize("query", ["speed=2", "pace=fast", "loop=yes"])
def test_other_options_of_files_are_refused(query):
    with pytest.raises(PipelineError, match=r"a file replayed live takes \?pace=own\|free and \?loop=0\|1: got "):
        Endpoint.of(f"clip.mp4?{query}")


def test_other_transports_are_refused():
    with pytest.raises(PipelineError, match="RTSP goes over 'tcp' or 'udp': got 'http'"):
        Endpoint.of("rtsp://a", transport="http")


def test_what_breaks_off_is_named_without_credentials():
    assert reason_of(TimeoutError(110, "Connection timed out")) == "silent"
    assert reason_of(av.error.ExitError(1, "Immediate exit requested")) == "silent"
    assert reason_of(OSError(5, "Input/output error")) == "Input/output error"
    assert reason_of(OSError("rtsp://user:secret@camera/1 is gone")) == "rtsp://***@camera/1 is gone"


def test_nobody_there_is_an_error_without_credentials():
    with pytest.raises(SourceError, match=r"rtsp://\*\*\*@127\.0\.0\.1:1/x.*refuses the connection") as caught:
        Endpoint.of("rtsp://user:secret@127.0.0.1:1/x").connect(1.0)
    assert "secret" not in str(caught.value) + str(caught.value.source)


@pytest.mark.parametrize("scheme", ["rtsp", "tcp", "http"])
def test_who_answers_but_sends_no_picture_is_told_so(monkeypatch, scheme):
    monkeypatch.setattr(endpoints, "_OPEN_SECONDS", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(SourceError, match=r"sent no picture within 0\.2 s") as caught,
    ):
        Endpoint.of(f"{scheme}://user:secret@127.0.0.1:{server.getsockname()[1]}/x").connect(1.0)
    assert "secret" not in str(caught.value) + str(caught.value.source)


def answering(reply):
    """Return the port of a server that answers whatever it is asked with `reply`; it goes with the process."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                asked = connection.recv(4096)
                number = next((line for line in asked.split(b"\r\n") if line.lower().startswith(b"cseq")), b"X: 1")
                connection.sendall(reply.replace(b"CSEQ", number))
                if b"CSEQ" in reply:  # others have said all that they have to say
                    connection.recv(4096)

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


END = b"\r\nCSEQ\r\n\r\n"


@pytest.mark.parametrize(
    ("scheme", "reply", "why", "hint"),
    [
        ("rtsp", b"RTSP/1.0 401 Unauthorized" + END, "wants another user and password (401)", "USER:PASSWORD@HOST"),
        ("rtsp", b"RTSP/1.0 403 Forbidden" + END, "does not let this user see the stream (403)", "the right"),
        ("rtsp", b"RTSP/1.0 404 Not Found" + END, "has no stream of that path (404)", "manual"),
        ("rtsp", b"HTTP/1.0 400 Bad Request" + END, "does not answer as a camera of that kind does", "port"),
        ("http", b"HTTP/1.0 401 Unauthorized" + END, "wants another user and password (401)", "USER:PASSWORD@HOST"),
        ("http", b"HTTP/1.0 404 Not Found" + END, "has no stream of that path (404)", "manual"),
        ("http", b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<html>hello</html>", "sends no video", "player"),
    ],
)
def test_what_keeps_a_camera_from_being_opened_is_said_and_what_to_look_at(scheme, reply, why, hint):
    with pytest.raises(SourceError) as caught:
        Endpoint.of(f"{scheme}://olaf:hunter2@127.0.0.1:{answering(reply)}/main").connect(5.0)
    assert str(caught.value).endswith(f"/main' {why}")
    assert hint in caught.value.hint
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("rtsp://camera.invalid/main", "is at a host that nobody knows: 'camera.invalid'"),
        ("http://camera.invalid/main", "is at a host that nobody knows: 'camera.invalid'"),
        ("rtsp://127.0.0.1:1/main", "refuses the connection"),
        ("tcp://127.0.0.1:1", "refuses the connection"),
        ("smoke://127.0.0.1/main", "cannot be opened: FFmpeg has no such protocol here"),
    ],
)
def test_who_is_not_there_is_told_so(url, why):
    with pytest.raises(SourceError) as caught:
        Endpoint.of(url).connect(5.0)
    assert str(caught.value) == f"{url!r} {why}"
    assert caught.value.hint
