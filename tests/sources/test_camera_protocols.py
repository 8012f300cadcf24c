"""Capture over other protocols: MPEG-TS over TCP and UDP, Motion JPEG, HLS, and files at their own pace or flat out."""

import functools
import http.server
import threading
from fractions import Fraction
from itertools import pairwise

import av
import pytest
from tests.farm import free_port, have_programs, sender
from tests.farm.clip import encoded
from tests.farm.inlet import Basket

from hyperframes.sources.camera import Capture
from hyperframes.sources.patience import Patience

QUICK = Patience(lost_seconds=0.7)
CALM = Patience(lost_seconds=20.0)
"""Where silence is not the subject: a machine that others use falls silent for a second too."""
HEIGHT, WIDTH = 96, 128


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A Matroska file of 300 counted pictures, 10 s."""
    path = tmp_path_factory.mktemp("clip") / "clip.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_mux_stream("h264", width=WIDTH, height=HEIGHT, rate=30)
        for k, unit in enumerate(encoded(300, HEIGHT, WIDTH)):
            packet = av.Packet(unit)
            packet.stream, packet.pts, packet.dts, packet.is_keyframe = stream, k, k, True
            packet.time_base = Fraction(1, 30)
            container.mux(packet)
    return path


@pytest.fixture
def playing(clip):
    """Return the start of a command that sends the clip over and over, at its pace."""
    have_programs()
    return ("ffmpeg", "-hide_banner", "-loglevel", "error", "-re", "-stream_loop", "-1", "-i", str(clip))


def _steps(basket):
    return {(b.picture - a.picture) % 300 for a, b in pairwise(basket.frames)}


def _mpegts(url):
    return ("-c", "copy", "-bsf:v", "h264_mp4toannexb", "-f", "mpegts", url)


def test_a_file_flat_out_comes_whole_with_the_times_it_carries(clip):
    basket = Basket()
    with Capture(f"{clip}?pace=free", basket, since_ns=1_000_000_000_000) as capture:
        basket.wait(lambda b: b.named("end"))
        assert capture.status().state == "ended"
    assert [f.picture for f in basket.frames] == list(range(300))
    assert basket.frames[0].capture_ns == 1_000_000_000_000
    assert abs(basket.frames[-1].capture_ns - 1_000_000_000_000 - 299e9 / 30) < 2e6
    assert basket.named("end") == [("ended", 300)]
    assert not basket.named("lost")
    assert not basket.named("restart")


def test_a_file_keeps_its_pace(clip):
    basket = Basket()
    with Capture(str(clip), basket):
        basket.wait_frames(20)
    for frame in basket.frames[1:]:
        early_ns = frame.capture_ns - frame.arrival_ns
        assert early_ns < 5e6, "no frame comes before its time"
    assert basket.frames[19].arrival_ns - basket.frames[0].arrival_ns > 19e9 / 30 - 5e6


def test_a_file_in_a_loop_begins_again_as_a_new_epoch(clip):
    basket = Basket()
    with Capture(f"{clip}?pace=free&loop=1", basket):
        basket.wait(lambda b: len(b.frames) > 320)
    assert basket.named("restart")[0] == ("reconnected", 300)
    assert [f.picture for f in basket.frames[298:303]] == [298, 299, 0, 1, 2]
    assert [f.frame_id for f in basket.frames[298:303]] == [298, 299, 300, 301, 302]
    assert not basket.named("end")


def test_a_file_that_is_not_there_ends_the_stream_with_the_reason(tmp_path):
    basket = Basket()
    with Capture(str(tmp_path / "no.mp4"), basket) as capture:
        basket.wait(lambda b: b.named("end"))
        assert "does not exist" in capture.status().last_error
    assert basket.named("end")[0][0].startswith("failed: ")
    assert not basket.frames


def test_frames_that_get_no_slot_are_passed_over_and_keep_their_numbers(clip):
    basket = Basket(takes=lambda frame_id: frame_id % 3 != 1)
    with Capture(f"{clip}?pace=free", basket):
        basket.wait(lambda b: b.named("end"))
    assert [f.picture for f in basket.frames] == [k for k in range(300) if k % 3 != 1]
    assert all(f.frame_id == f.picture for f in basket.frames)


def test_closing_while_the_inlet_holds_a_frame_up_waits_for_no_more_frames(clip):
    held, basket = threading.Event(), Basket(takes=lambda frame_id: frame_id < 5 or held.wait(10))
    capture = Capture(f"{clip}?pace=free", basket).start()
    basket.wait(lambda b: len(b.frames) == 5)
    capture.close(0.0)
    held.set()
    capture.close()
    assert len(basket.frames) <= 6


@pytest.mark.slow
@pytest.mark.requirement("B23")
def test_mpegts_over_tcp_comes_whole_and_is_connected_again(playing):
    port, basket = free_port(), Basket()
    command = (*playing, *_mpegts(f"tcp://127.0.0.1:{port}?listen=1"))
    with (
        sender(*command, listens_on=port),
        Capture(f"tcp://127.0.0.1:{port}", basket, patience=CALM, seed=0) as capture,
    ):
        basket.wait_frames(30)
        assert capture.status().clock == "arrival"
    assert _steps(basket) == {1}
    assert {f.capture_ns for f in basket.frames} == {None}
    again = Basket()
    with Capture(f"tcp://127.0.0.1:{port}", again, patience=CALM, seed=0):
        again.wait(lambda b: b.named("lost"))
        with sender(
            *command
        ):  # it serves one client, and this one keeps trying: it may stop listening before one looks
            again.wait_frames(10, 60)
        lost = len(again.named("lost"))
        again.wait(lambda b: len(b.named("lost")) > lost)
        with sender(*command):
            again.wait_frames(10, 60)
    assert again.named("restart")


@pytest.mark.slow
@pytest.mark.requirement("B23")
def test_mpegts_over_udp_is_lost_when_it_falls_silent_and_comes_back(playing):
    port, basket = free_port(), Basket()
    command = (*playing, *_mpegts(f"udp://127.0.0.1:{port}?pkt_size=1316"))
    with Capture(f"udp://127.0.0.1:{port}", basket, patience=QUICK, seed=0):
        with sender(*command):
            basket.wait_frames(30)
        assert _steps(basket) == {1}
        basket.wait(lambda b: b.named("lost"))
        assert basket.named("lost")[-1][0] == "silent"
        with sender(*command):
            basket.wait_frames(10)


@pytest.mark.slow
@pytest.mark.requirement("B23")
def test_motion_jpeg_over_http_has_arrival_times_since_it_carries_none(playing):
    port, basket = free_port(), Basket()
    url = f"http://127.0.0.1:{port}/cam.mjpg"
    jpeg = ("-c:v", "mjpeg", "-q:v", "3", "-f", "mpjpeg", "-listen", "1", url)
    with sender(*playing, *jpeg, listens_on=port), Capture(url, basket, patience=CALM, seed=0):
        basket.wait_frames(30)
    assert _steps(basket) == {1}
    assert basket.rate is None
    assert {f.capture_ns for f in basket.frames} == {None}
    assert basket.spec.colour.range == "pc"


@pytest.mark.slow
@pytest.mark.requirement("B23")
def test_hls_comes_whole_over_the_borders_of_its_segments(playing, tmp_path):
    basket = Basket()
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hls = ("-c", "copy", "-f", "hls", "-hls_time", "0.5", "-hls_list_size", "20", str(tmp_path / "live.m3u8"))
    url = f"http://127.0.0.1:{server.server_port}/live.m3u8"
    try:
        with sender(*playing, *hls), Capture(url, basket, patience=Patience(lost_seconds=5), seed=0):
            basket.wait(lambda b: len(b.frames) >= 45, 30)
    finally:
        server.shutdown()
        server.server_close()
    assert _steps(basket) == {1}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *arguments):
        pass
