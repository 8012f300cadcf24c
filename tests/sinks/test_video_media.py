"""Real files copied through the video sink: what another program reads in the copy is what was in the original."""

import json
import os
import shutil
import subprocess
from fractions import Fraction

import av
import numpy as np
import pytest

from hyperframes.errors import SourceError
from hyperframes.frames import Clip
from hyperframes.sinks.base import Target
from hyperframes.sinks.video import VideoSink
from hyperframes.sources.video import open_video

pytestmark = pytest.mark.media

FRAMES = 12
"""Of each file, so that all of them stay quick."""


def probe(path, *entries):
    if shutil.which("ffprobe") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("ffprobe is missing")
        pytest.skip("ffprobe is missing")
    command = ["ffprobe", "-v", "error", "-of", "json", "-select_streams", "v:0", *entries, str(path)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def copied(source, path, count=FRAMES, **options):
    """Write the first `count` frames of `source`; return the sink and the seconds given."""
    sink, seconds = VideoSink(path, part_frames=5, **options), []
    sink.open(Target("frames", "frames", source.spec, None, source.passthrough()))
    try:
        for frame in source.read(0, count):
            seconds.append(frame.pts * source.spec.time_base)
            sink.write(
                Clip(
                    tuple(plane[None] for plane in frame.planes),
                    np.array([frame.pts]),
                    np.array([frame.index]),
                    source.spec,
                    np.array([frame.duration]),
                )
            )
    except BaseException:
        sink.abort()
        raise
    sink.close()
    return sink, seconds


def times_of(path):
    answer = probe(path, "-show_frames", "-show_streams")
    base = Fraction(answer["streams"][0]["time_base"])
    return answer["streams"][0], [frame["best_effort_timestamp"] * base for frame in answer["frames"]]


@pytest.mark.slow
def test_every_file_keeps_every_frame_and_time_in_mp4(media, tmp_path):
    checked = 0
    for path in sorted([*(media / "video").rglob("*"), *(media / "odd").rglob("*")]):
        if not path.is_file():
            continue
        try:
            source = open_video(str(path))
        except SourceError:
            continue  # the source's own tests say why
        with source:
            if VideoSink(tmp_path / "out.mp4").accepts(source.spec) != (source.spec.pixel_format,):
                continue
            sink, seconds = copied(source, tmp_path / "out.mp4", preset="ultrafast")
        if seconds[0] < 0:
            assert any("cannot start before 0" in warning for warning in sink.warnings), path
            seconds = [second - seconds[0] for second in seconds]
        assert times_of(tmp_path / "out.mp4")[1] == seconds, path
        checked += 1
    assert checked > 60


SOUND = ["video/chaplin.mp4", "video/flipping_a_pancake.mkv", "video/realshort.mp4", "odd/edts.mp4", "odd/sample.avi"]


@pytest.mark.parametrize("name", SOUND)
def test_sound_is_copied_packet_for_packet(media, tmp_path, name):
    with open_video(str(media / name)) as source:
        copied(source, tmp_path / "out.mkv", preset="ultrafast")
    packets = []
    for path in (media / name, tmp_path / "out.mkv"):
        with av.open(str(path)) as container:
            stream = container.streams.audio[0]
            packets.append([(p.pts * p.time_base, bytes(p)) for p in container.demux(stream) if p.size])
    assert [data for _, data in packets[0]] == [data for _, data in packets[1]]
    assert all(abs(a - b) <= Fraction(1, 1000) for (a, _), (b, _) in zip(*packets, strict=True))


TOLD = [
    "odd/sample_with_color_info.mp4",  # HLG, turned
    "odd/sample_rotate_and_reflect.mp4",
    "odd/video_90.mov",
    "odd/video_180.mov",
    "odd/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4",  # pixels of 64:45
    "odd/bt601.mov",
    "odd/sample_gamma2.2.mp4",  # full range
    "odd/hdr10-av1.mp4",
    "video/h264_10bits.mp4",
]


def turn(matrix):
    """Return the part of a display matrix that turns and mirrors; where the corner lands follows from the size."""
    numbers = [int(word) for word in matrix.split() if ":" not in word]
    return numbers[:2] + numbers[3:5]


@pytest.mark.parametrize("name", TOLD)
@pytest.mark.parametrize("kind", ["mp4", "mkv"])
def test_players_are_told_the_same_as_by_the_original(media, tmp_path, name, kind):
    with open_video(str(media / name)) as source:
        copied(source, tmp_path / f"out.{kind}", preset="ultrafast")
    told = []
    for path in (media / name, tmp_path / f"out.{kind}"):
        (stream,) = probe(path, "-show_streams")["streams"]
        keys = ("width", "height", "color_range", "color_space", "color_transfer", "color_primaries")
        turned = [turn(side["displaymatrix"]) for side in stream.get("side_data_list", []) if "displaymatrix" in side]
        shape = stream.get("sample_aspect_ratio", "1:1")
        told.append([stream.get(key) for key in keys] + [shape, turned, "10" in stream["pix_fmt"]])
    assert told[1] == told[0]


def test_subtitles_and_chapters_are_copied(media, tmp_path):
    with open_video(str(media / "odd/sample_with_srt.mkv")) as source:
        sink, _ = copied(source, tmp_path / "out.mkv", preset="ultrafast")
    assert not any("left out" in warning for warning in sink.warnings)
    with av.open(str(tmp_path / "out.mkv")) as container:
        kinds = [stream.type for stream in container.streams]
        texts = [bytes(packet) for packet in container.demux(subtitles=0) if packet.size]
    assert kinds == ["video", "audio", "subtitle"]
    assert texts
    with open_video(str(media / "odd/sample_with_chapters.mkv")) as source:
        copied(source, tmp_path / "chapters.mp4", preset="ultrafast")
    with av.open(str(media / "odd/sample_with_chapters.mkv")) as a, av.open(str(tmp_path / "chapters.mp4")) as b:
        titles = [[chapter["metadata"]["title"] for chapter in container.chapters()] for container in (a, b)]
    assert titles[0] == titles[1]
    assert titles[0]
