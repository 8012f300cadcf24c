"""Capture from real RTSP cameras: which frame comes, when it was taken, and what happens when a camera fails."""

import signal
import threading
from collections import Counter
from itertools import pairwise

import pytest
from tests.farm import Cameras, have_programs
from tests.farm.clip import encoded, write_units
from tests.farm.inlet import Basket

from hyperframes.media.recording import Keep, Recorder, Recording
from hyperframes.sources.camera import Capture
from hyperframes.sources.patience import Patience
from hyperframes.sources.recorded import replay

PERIOD_NS = 33_333_333
QUICK = Patience(lost_seconds=0.7)
CALM = Patience(lost_seconds=20.0)
"""Where silence is not the subject: a machine that others use falls silent for a second too."""


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Clips of intra pictures 0 to 599 in two sizes, of a group of pictures of 15, and of four slices a picture."""
    have_programs()
    folder = tmp_path_factory.mktemp("clips")
    return {
        "small": write_units(folder / "small", encoded(600, 96, 128)),
        "large": write_units(folder / "large", encoded(600, 144, 192)),
        "groups": write_units(folder / "groups", encoded(600, 96, 128, intra=False)),
        "slices": write_units(folder / "slices", encoded(600, 96, 128, slices=4)),
    }


@pytest.fixture
def cameras(clips):
    """Serve two cameras."""
    with Cameras(clips["small"], clips["large"], cameras=2) as server:
        yield server


def _capture(cameras, basket, camera=0, **options):
    return Capture(cameras.url(camera), basket, seed=0, **{"patience": CALM, **options})


def _steps(basket, since=0):
    return Counter((b.picture - a.picture) % 600 for a, b in pairwise(basket.frames[since:]))


@pytest.mark.slow
@pytest.mark.requirement("B23")
@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_every_picture_comes_once_and_in_order(cameras, transport):
    basket = Basket()
    with _capture(cameras, basket, transport=transport) as capture:
        basket.wait_frames(40)
    assert _steps(basket) == {1: len(basket.frames) - 1}
    assert [f.frame_id for f in basket.frames] == list(range(len(basket.frames)))
    assert (str(basket.spec), basket.spec.time_base.denominator) == ("yuv420p 128x96", 10**9)
    assert basket.rate == 30
    assert capture.status().state == "ended"
    assert not basket.named("end")


@pytest.mark.slow
@pytest.mark.requirement("B69")
def test_frames_carry_the_senders_time_from_its_first_report_on(cameras):
    basket = Basket()
    with _capture(cameras, basket) as capture:
        basket.wait(lambda b: sum(f.capture_ns is not None for f in b.frames) >= 20)
        assert capture.status().clock == "capture"
    told = [f for f in basket.frames if f.capture_ns is not None]
    first = basket.frames.index(told[0])
    assert told == basket.frames[first:]
    errors = [f.capture_ns - cameras.start_unix_ns - f.picture * PERIOD_NS for f in told]
    assert max(errors) - min(errors) < 2e6
    assert abs(errors[0]) < 10e6
    if first:
        assert ("clock", first) in basket.named("restart")


@pytest.mark.slow
@pytest.mark.requirement("B71")
def test_a_kicked_camera_is_back_in_a_new_epoch_with_ids_that_go_on(cameras):
    basket, other = Basket(), Basket()
    with _capture(cameras, basket) as capture, _capture(cameras, other, 1):
        basket.wait_frames(10)
        other.wait_frames(10)
        cameras("kick", 0)
        basket.wait(lambda b: b.named("lost")).wait_frames(10)
        assert capture.status().reconnects == 1
    assert basket.named("lost")[0][0] == "ended"
    assert "reconnected" in [reason for reason, _ in basket.named("restart")]
    assert [f.frame_id for f in basket.frames] == list(range(len(basket.frames)))
    assert len(basket.named("open")) == 1, "nothing changed"
    assert not other.named("lost")
    assert set(_steps(other)) == {1}


@pytest.mark.slow
def test_a_camera_that_is_gone_is_tried_until_it_is_there_again(cameras):
    basket = Basket()
    with _capture(cameras, basket) as capture:
        basket.wait_frames(5)
        cameras("off", 0)
        basket.wait(lambda b: len(b.named("lost")) >= 3)
        assert "404" in capture.status().last_error or "not found" in capture.status().last_error.lower()
        cameras("on", 0)
        basket.wait_frames(5)
        assert capture.status().state == "streaming"


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_frozen_camera_is_stale_then_lost_and_comes_back(cameras, transport):
    basket, other = Basket(), Basket()
    with (
        _capture(cameras, basket, transport=transport, patience=QUICK) as capture,
        _capture(cameras, other, 1),
    ):
        basket.wait_frames(10)
        other.wait_frames(10)
        cameras("freeze", 0)
        basket.wait(lambda b: b.named("lost"), 10)
        assert basket.named("lost")[0][0] == "silent"
        seen = len(other.frames)
        cameras("thaw", 0)
        basket.wait_frames(10)
        assert capture.status().reconnects >= 1
    assert len(other.frames) > seen
    assert set(_steps(other)) == {1}


@pytest.mark.slow
def test_a_stopped_server_is_lost_within_the_limit(cameras):
    basket = Basket()
    with _capture(cameras, basket, patience=QUICK):
        basket.wait_frames(5)
        cameras.process.send_signal(signal.SIGSTOP)
        basket.wait(lambda b: b.named("lost"), 10)
        cameras.process.send_signal(signal.SIGCONT)
        basket.wait_frames(5)


@pytest.mark.slow
def test_another_size_is_announced_before_its_first_frame(cameras):
    basket = Basket()
    with _capture(cameras, basket):
        basket.wait_frames(10)
        cameras("clip", 0, 1)
        basket.wait(lambda b: len(b.named("open")) == 2).wait_frames(10)
    (small, _), (large, at) = basket.named("open")
    assert (str(small), str(large)) == ("yuv420p 128x96", "yuv420p 192x144")
    assert {f.height for f in basket.frames[:at]} == {96}
    assert {f.height for f in basket.frames[at:]} == {144}
    assert not basket.named("lost")


@pytest.mark.slow
def test_lost_pictures_are_missing_and_the_others_are_what_they_are(cameras):
    cameras("loss", 0, 0.2)
    basket = Basket()
    with _capture(cameras, basket):
        basket.wait_frames(60)
    steps = _steps(basket)
    assert max(steps) > 1
    assert min(steps) == 1, "none twice, none in another order"


@pytest.mark.slow
def test_late_pictures_keep_their_capture_times(cameras):
    basket = Basket()
    with _capture(cameras, basket):
        basket.wait(lambda b: any(f.capture_ns for f in b.frames))
        cameras("jitter", 0, 30)
        start = len(basket.frames)
        basket.wait_frames(60)
    late = basket.frames[start:]
    errors = [f.capture_ns - cameras.start_unix_ns - f.picture * PERIOD_NS for f in late]
    assert max(errors) - min(errors) < 2e6
    assert max(f.arrival_ns - f.capture_ns for f in late) > 60e6


@pytest.mark.slow
def test_a_slow_sender_clock_shows_in_capture_times(cameras):
    basket = Basket()
    with _capture(cameras, basket):
        basket.wait(lambda b: any(f.capture_ns for f in b.frames))
        cameras("skew", 0, 100_000)
        basket.wait_frames(5)
        start = len(basket.frames)
        basket.wait_frames(30)
    late = basket.frames[start:]
    step = (late[-1].capture_ns - late[0].capture_ns) / (late[-1].picture - late[0].picture)
    assert step == pytest.approx(PERIOD_NS * 1.1, rel=0.02)


@pytest.mark.slow
def test_two_pictures_with_one_time_both_come(cameras):
    cameras("pair", 0, 1)
    basket = Basket()
    with _capture(cameras, basket):
        basket.wait(lambda b: sum(f.capture_ns is not None for f in b.frames) >= 20)
    told = [f for f in basket.frames if f.capture_ns is not None]
    assert _steps(basket) == {1: len(basket.frames) - 1}
    assert any(a.capture_ns == b.capture_ns for a, b in pairwise(told))


@pytest.mark.slow
def test_joining_inside_a_group_of_pictures_starts_at_the_next_key_frame(clips):
    basket = Basket()
    with Cameras(clips["groups"]) as cameras, _capture(cameras, basket):
        basket.wait_frames(40)
    assert basket.frames[0].picture % 15 == 0
    assert set(_steps(basket)) == {1}


@pytest.mark.slow
def test_pictures_of_several_slices_come_whole(clips):
    basket = Basket()
    with Cameras(clips["slices"]) as cameras, _capture(cameras, basket):
        basket.wait_frames(40)
    assert set(_steps(basket)) == {1}


@pytest.mark.slow
@pytest.mark.requirement("B91")
def test_what_was_recorded_is_replayed_with_the_same_frames_ids_times_and_epochs(cameras, tmp_path):
    recorder = Recorder(tmp_path, Keep(segment_seconds=0.5))
    live = [Basket(keep=True), Basket(keep=True)]
    captures = [_capture(cameras, basket, i, record=recorder.stream(f"cam{i}")) for i, basket in enumerate(live)]
    with captures[0], captures[1]:
        live[0].wait(lambda b: sum(f.capture_ns is not None for f in b.frames) > 5)
        cameras("kick", 0)
        live[0].wait(lambda b: b.named("lost")).wait_frames(20)
    recorder.close()
    again = [Basket(keep=True), Basket(keep=True)]
    count = replay(Recording(tmp_path), {"cam0": again[0], "cam1": again[1]})
    assert count == sum(len(basket.frames) for basket in live)
    for before, after in zip(live, again, strict=True):
        assert before.frames == after.frames
        assert before.named("open") == after.named("open")
        assert [at for _, at in before.named("restart")] == [at for _, at in after.named("restart")]
        for one, other in zip(before.planes, after.planes, strict=True):
            assert all((a == b).all() for a, b in zip(one, other, strict=True))


@pytest.mark.slow
def test_48_cameras_bring_frames_and_lose_none(clips):
    baskets = [Basket() for _ in range(48)]
    with Cameras(clips["small"], cameras=48) as cameras:
        captures = [
            _capture(cameras, basket, i, patience=Patience(lost_seconds=10)) for i, basket in enumerate(baskets)
        ]
        for capture in captures:
            capture.start()
        for basket in baskets:
            basket.wait(lambda b: len(b.frames) >= 45, 60)
        for capture in captures:
            capture.close()
    for basket in baskets:
        assert set(_steps(basket)) == {1}


@pytest.mark.slow
def test_credentials_are_sent_but_never_shown(clips, capfd):
    basket, wrong = Basket(), Basket()
    with Cameras(clips["small"], password="s3cret") as cameras:
        right = Capture(cameras.url(0, "viewer:s3cret@"), basket, seed=0)
        refused = Capture(cameras.url(0, "viewer:hunter2@"), wrong, seed=0)
        with right, refused:
            basket.wait_frames(5)
            wrong.wait(lambda b: b.named("lost"))
            shown = f"{right.status()} {refused.status()} {right.name} {[t.name for t in threading.enumerate()]}"
    shown += f"{wrong.calls} {basket.calls} {capfd.readouterr()}"
    assert "***@127.0.0.1" in shown
    assert "s3cret" not in shown
    assert "hunter2" not in shown


def test_nobody_there_is_tried_again_and_closing_does_not_wait():
    basket = Basket()
    capture = Capture("rtsp://127.0.0.1:1/x", basket, seed=0).start()
    basket.wait(lambda b: len(b.named("lost")) >= 2)
    capture.close()
    assert capture.status().state == "ended"
    assert "refuses" in capture.status().last_error
    assert not any(thread.is_alive() for thread in capture._threads)
