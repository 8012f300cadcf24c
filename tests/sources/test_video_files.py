"""Real videos, ordinary and odd: counts, pixels, times, seeking and random access on every file."""

import csv
import faulthandler
import hashlib
import os
import shutil
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from hyperframes.errors import SourceError
from hyperframes.sources.video import open_video

pytestmark = [pytest.mark.media, pytest.mark.slow]

_SECONDS_A_FILE = 240

# Files that give no frame, and why: what the error must say.
_REFUSED = {
    "odd/MXF.mxf": "has no video stream: it holds only audio",
    "odd/QuickTime.mov": "has a mjpeg stream without frames: 149 frames declared, 0 decode",
    "odd/RIFF.avi": "has a mjpeg stream without frames: 233 frames declared, 0 decode",
    "odd/audio_only.ogg": "has no video stream: it holds only audio",
    "odd/avc_packet_no_startcode.h264": "cannot be opened as a video: Invalid data found",
    "odd/chunk_out_of_range.mp4": "cannot be opened as a video: Invalid data found",
    "odd/derived_truncated_60kB.mp4": "has lost its index (the 'moov' box)",
    "odd/gif-corrupted-image.gif": "has a damaged gif stream in which no frame decodes",
    "odd/invalid-bitstream.webm": "has a damaged vp9 stream in which no frame decodes",
    "odd/sample_audio_only.mp4": "has no video stream: it holds only audio",
    "odd/sample_fragmented_clearkey.mp4": "is encrypted and cannot be decoded without its key",
    "odd/sample_malformed_free_box.mp4": "is damaged: its 'free' box has a size that cannot be",
    "odd/short-cenc.mp4": "is encrypted and cannot be decoded without its key: 10 frames declared, 0 decode",
    "odd/test-unsupported.avi": "has no video stream: it holds only audio",
    "odd/zero_empty_stsc.mp4": "has a damaged h264 stream in which no frame decodes: 1040 frames declared, 0 decode",
    "odd/zero_length.webm": "is empty: 0 bytes",
}

# Where ffprobe 5.1 gives no time for every frame, and what the times must be instead.
_TIMES_WITHOUT_FFPROBE = {
    "odd/h265-dsc-signed.h265": [48000 * t for t in range(30)],  # raw stream: 25 fps in ticks of 1/1200000 s
    "odd/sample_vvc.mp4": [512 * t for t in range(120)],  # FFmpeg 5.1 has no VVC decoder; 24 fps in 1/12288 s
}
# AVI with B-frames: FFmpeg 5.1 gives the last frame, which comes out of the flushed decoder, no time at all.
_LAST_TIME_MISSING = {"odd/action_test_bframes.avi": 164}

# What the files say beside their frames; every other file must be silent.
_WARNINGS = {
    "odd/action_test_bframes.avi": ["times of 164 frames were missing or out of order and were rebuilt"],
    "odd/annex-b.mp4": [
        "the container declares 745 frames, 6 decode",
        "1 frame decoded with damage that the decoder concealed",
    ],
    "odd/av1c_two_entries.mp4": [
        "frame 10 is 320x180 yuv420p, the first one 160x90 yuv420p: such frames are scaled to the first"
    ],
    "odd/corrupted.mp4": [
        "the container declares 50 frames, 49 decode",
        "1 packet could not be decoded",
        "1 frame decoded with damage that the decoder concealed",
    ],
    "odd/h265-dsc-signed.h265": ["times of 30 frames were missing or out of order and were rebuilt"],
    "odd/iibbibb_editlist_videoonly.mp4": ["the container declares 13 frames, 12 decode"],
    "odd/sample.avi": ["the container declares 98 frames, 96 decode"],
    "odd/sample_sef_slow_motion.mp4": ["the container declares 64 frames, 63 decode"],
    "odd/transparent.webm": ["the alpha channel is coded beside the picture and is not decoded: frames are opaque"],
    "odd/tree.avi": ["the container declares 444 frames, 68 decode"],
}

# Where seeking cannot be proven, so that reading starts over: damage, missing times, sizes that change, a decoder
# that marks no key frames.
_UNSEEKABLE = {
    "odd/action_test_bframes.avi",
    "odd/annex-b.mp4",
    "odd/av1c_two_entries.mp4",
    "odd/corrupted.mp4",
    "odd/h265-dsc-signed.h265",
    "odd/partialframe.mjpeg",
    "video/mov-basic.mov",
}


def _rows():
    root = os.environ.get("HYPERFRAMES_TEST_MEDIA")
    if not root:
        return [pytest.param(None, id="HYPERFRAMES_TEST_MEDIA-is-not-set")]
    with open(os.path.join(root, "index.csv"), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["path"].startswith(("odd/", "video/"))]
    return [pytest.param(row, id=row["path"]) for row in rows]


def _decodable():
    return [p for p in _rows() if p.values[0] is None or p.values[0]["path"] not in _REFUSED]


@pytest.fixture(autouse=True)
def _ends_in_time():
    """A hang shows where it is and ends the run."""
    faulthandler.dump_traceback_later(_SECONDS_A_FILE, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def _hashed(planes):
    digest = hashlib.blake2b(digest_size=16)
    for plane in planes:
        digest.update(np.ascontiguousarray(plane))
    return digest.digest()


def _all(video, start=0, stop=None):
    return [(f.index, f.pts, f.duration, _hashed(f.planes)) for f in video.read(start, stop)]


def _of_clip(clip):
    return [(f.index, f.pts, f.duration, _hashed(f.planes)) for f in clip]


@pytest.mark.parametrize("row", _rows())
def test_every_file_gives_its_frames_with_any_number_of_threads_or_says_why_not(media, row):
    path = media / row["path"]
    if row["path"] in _REFUSED:
        for threads in (1, 2, "auto"):
            with pytest.raises(SourceError) as caught:
                open_video(path, threads=threads)
            assert f"{str(path)!r} {_REFUSED[row['path']]}" in str(caught.value)
            assert caught.value.hint
        return
    results = []
    for threads in (1, 2, "auto"):
        with open_video(path, threads=threads) as video:
            results.append((_all(video), video.warnings, video.spec))
            assert (video.num_frames, video.exact) == (len(results[-1][0]), True)
    frames, warnings, spec = results[0]
    assert len(frames) == int(row["decoded_frames"])
    assert all(result == results[0] for result in results)
    assert list(warnings) == _WARNINGS.get(row["path"], [])
    assert [index for index, *_ in frames] == list(range(len(frames)))
    times = [pts for _, pts, *_ in frames]
    assert all(a < b for a, b in pairwise(times))
    if row["first_pts"]:
        assert float(times[0] * spec.time_base) == pytest.approx(float(row["first_pts"]), abs=1e-6)
    assert (spec.width, spec.height) == (int(row["width"]), int(row["height"]))
    assert (spec.field_order != "progressive") == (int(row["interlaced_frames"] or 0) > 0)
    assert spec.rotation == -int(row["rotation"] or 0) % 360 or spec.mirrored
    if row["sar"]:
        width, height = map(int, row["sar"].split(":"))
        assert spec.sample_aspect_ratio * height == width
    name = row["pix_fmt"] or "yuv420p10le"
    assert spec.pixel_format == name.replace("yuvj", "yuv")
    assert not name.startswith("yuvj") or spec.colour.range == "pc"


@pytest.mark.parametrize("row", _decodable())
def test_times_are_ffprobes_best_effort_timestamps(media, row):
    path = media / row["path"]
    with open_video(path) as video:
        times = video.times().tolist()
    if row["path"] in _TIMES_WITHOUT_FFPROBE:
        assert times == _TIMES_WITHOUT_FFPROBE[row["path"]]
        return
    expected = _best_effort(path)
    if row["path"] in _LAST_TIME_MISSING:
        assert expected.pop() is None
        assert times.pop() == _LAST_TIME_MISSING[row["path"]]
    assert times == expected


def _best_effort(path):
    program = shutil.which("ffprobe")
    if program is None:
        reason = "ffprobe is not installed"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    command = [program, "-v", "error", "-select_streams", "v:0", "-show_entries", "frame=best_effort_timestamp"]
    done = subprocess.run([*command, "-of", "csv=p=0", str(path)], capture_output=True, text=True, check=True)
    values = [line.strip(", ") for line in done.stdout.split()]
    return [None if value == "N/A" else int(value) for value in values if value]


@pytest.mark.parametrize("row", _decodable())
def test_reading_and_choosing_from_anywhere_equals_the_whole_read(media, row):
    with open_video(media / row["path"]) as video:
        whole = _all(video)
    rng = np.random.default_rng(5)
    with open_video(media / row["path"]) as fresh, open_video(media / row["path"]) as counted:
        assert counted.count() == len(whole)
        for video in (fresh, counted):
            wanted = rng.integers(0, len(whole), 6).tolist()
            assert _of_clip(video.frames(wanted)) == [whole[i] for i in wanted]
            for start in {1, len(whole) // 2, len(whole) - 1, *rng.integers(0, len(whole), 2).tolist()}:
                stop = start + int(rng.integers(1, 8))
                assert _all(video, start, stop) == whole[start:stop]
            assert row["path"] in _UNSEEKABLE or (video._index.sound and not video._distrusted)


def test_frames_with_burnt_in_numbers_are_found_by_number_and_by_time(media):
    with open_video(media / "odd/frames.webm") as video:
        whole = _all(video)
        assert len({digest for *_, digest in whole}) == 100
        order = np.random.default_rng(0).permutation(100).tolist()
        assert _of_clip(video.frames(order)) == [whole[i] for i in order]
        seconds = [frame[1] / 1000 + 0.001 for frame in whole]
        assert video.at(seconds=seconds).index.tolist() == list(range(100))


def test_a_rotated_and_mirrored_clip_says_both(media):
    with open_video(media / "odd/sample_rotate_and_reflect.mp4") as video:
        assert (video.spec.rotation, video.spec.mirrored) == (270, True)
    with open_video(media / "odd/video_90.mov") as video:
        assert (video.spec.rotation, video.spec.mirrored) == (90, False)


@pytest.mark.parametrize(
    ("name", "colour"),
    [
        ("odd/hdr10-av1.mp4", ("bt2020nc", "tv", "bt2020", "smpte2084")),
        ("odd/sample_with_color_info.mp4", ("bt2020nc", "tv", "bt2020", "arib-std-b67")),
        ("odd/bt601.mov", ("smpte170m", "tv", "smpte170m", "bt709")),
        ("odd/video_colr_nclx_rgb.mp4", ("gbr", "tv", "bt709", "bt709")),
    ],
)
def test_colour_is_described_as_ffprobe_does(media, name, colour):
    with open_video(media / name) as video:
        found = video.spec.colour
    assert (found.matrix, found.range, found.primaries, found.transfer) == colour


def test_a_stream_whose_size_changes_is_split_into_two_whole_sources(media):
    with open_video(media / "odd/av1c_two_entries.mp4", on_size_change="split") as video:
        assert len(_all(video)) == video.changed_at == 10
        rest = video.next_part()
    with rest:
        assert (rest.spec.width, rest.spec.height) == (320, 180)
        assert len(_all(rest)) == 10


def test_sound_text_and_tags_are_offered_for_copying(media):
    with open_video(media / "odd/sample_with_srt.mkv") as video:
        assert len(video.passthrough().streams) == 2
    with open_video(media / "odd/nasa_13013.mp4", stream=1) as video:
        assert (video.spec.width, video.spec.height) == (480, 270)
        assert len(video.passthrough().streams) >= 2
