"""What is said about files that cannot be opened, and what is found in those that can."""

import struct

import av
import numpy as np
import pytest

from hyperframes.errors import SourceError
from hyperframes.media.container import Place, passthrough_of


def _box(name, content=b""):
    return struct.pack(">I", 8 + len(content)) + name + content


def _refused(path):
    with pytest.raises(SourceError) as caught:
        Place(str(path)).open()
    return str(caught.value).replace(str(path), "FILE"), caught.value.hint


def test_a_missing_file_is_named_with_the_nearest_that_exists(tmp_path):
    (tmp_path / "holiday.mp4").write_bytes(b"x")
    message, hint = _refused(tmp_path / "holyday.mp4")
    assert message == "'FILE' does not exist"
    assert hint == f"Did you mean {str(tmp_path / 'holiday.mp4')!r}?"


def test_a_missing_folder_is_said_to_be_missing(tmp_path):
    message, hint = _refused(tmp_path / "none" / "a.mp4")
    assert message == "'FILE' does not exist"
    assert hint == f"There is no folder {str(tmp_path / 'none')!r} either."


def test_a_folder_is_not_a_video(tmp_path):
    message, hint = _refused(tmp_path)
    assert message == "'FILE' is a folder, not a video file"
    assert "pattern of images" in hint


def test_an_empty_file_is_called_empty(tmp_path):
    path = tmp_path / "empty.mp4"
    path.touch()
    assert _refused(path) == ("'FILE' is empty: 0 bytes", "Copy or download it again.")


def test_text_under_a_video_name_is_recognised(tmp_path):
    path = tmp_path / "notes.mp4"
    path.write_text("Dear diary, today I renamed a file. Grüße\n" * 300)
    assert _refused(path) == ("'FILE' is not a video: its content is text", "Check what the file really is.")


def test_a_lost_index_is_explained(tmp_path):
    path = tmp_path / "cut.mp4"
    path.write_bytes(_box(b"ftyp", b"isom\0\0\0\0isom") + _box(b"mdat", bytes(range(256)) * 40)[:-100])
    message, hint = _refused(path)
    assert message == "'FILE' has lost its index (the 'moov' box): the recording or copy was cut off before its end"
    assert "rebuilds 'moov'" in hint


def test_a_box_of_impossible_size_is_named(tmp_path):
    path = tmp_path / "bad.mp4"
    path.write_bytes(_box(b"ftyp", b"isom\0\0\0\0isom") + struct.pack(">I", 3) + b"free" + bytes(100))
    message, hint = _refused(path)
    assert message == "'FILE' is damaged: its 'free' box has a size that cannot be"
    assert hint == "Copy or download it again."


def test_an_encrypted_file_that_does_not_open_is_called_encrypted(tmp_path):
    path = tmp_path / "drm.mp4"
    path.write_bytes(_box(b"ftyp", b"isom\0\0\0\0isom") + _box(b"pssh", bytes(24)) + _box(b"mdat", bytes(50)))
    message, hint = _refused(path)
    assert message == "'FILE' is encrypted and cannot be decoded without its key"
    assert "handles no keys" in hint


def test_noise_is_not_a_video_and_the_reason_is_ffmpegs(tmp_path):
    path = tmp_path / "noise.mp4"
    path.write_bytes(np.random.default_rng(1).bytes(5000))
    message, hint = _refused(path)
    assert message == "'FILE' cannot be opened as a video: Invalid data found when processing input"
    assert hint == "Check it with: ffprobe FILE"


def test_a_file_with_sound_only_has_no_video_stream(tmp_path):
    path = tmp_path / "sound.mka"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    message, hint = _refused(path)
    assert message == "'FILE' has no video stream: it holds only audio"
    assert hint == "Use a file with a picture track."


def test_credentials_do_not_appear_in_errors():
    place = Place("http://user:secret@127.0.0.1:9/a.mp4", timeout_seconds=5)
    with pytest.raises(SourceError) as caught:
        place.open()
    assert "secret" not in str(caught.value)
    assert "secret" not in caught.value.source
    assert "http://***@127.0.0.1:9/a.mp4" in str(caught.value)


def _movie(path, *, streams=1, sound=False):
    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        container.metadata["title"] = "A title"
        videos = []
        for _ in range(streams):
            video = container.add_stream("mpeg4", rate=25)
            video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
            videos.append(video)
        audio = container.add_stream("aac", rate=8000) if sound else None
        for video in videos:
            container.mux(video.encode(av.VideoFrame(32, 32, "yuv420p")))
            container.mux(video.encode(None))
        if audio:
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.sample_rate = 8000
            container.mux(audio.encode(frame))
            container.mux(audio.encode(None))
    return str(path)


def test_streams_are_chosen_by_their_place_among_the_video_streams(tmp_path):
    path = _movie(tmp_path / "two.mkv", streams=2, sound=True)
    container, stream = Place(path, stream=1).open()
    assert stream.index == 1
    container.close()
    with pytest.raises(SourceError, match="has 2 video streams: there is no stream 2") as caught:
        Place(path, stream=2).open()
    assert caught.value.hint == "Streams are counted from 0: use stream=0 to 1."


def test_sound_and_metadata_can_be_copied_to_an_output(tmp_path):
    path = _movie(tmp_path / "sound.mp4", sound=True)
    found = passthrough_of(Place(path))
    assert found.path == path
    assert found.streams == (1,)
    assert found.metadata["title"] == "A title"


def test_refused_files_are_not_left_open(tmp_path):
    import os

    path = tmp_path / "noise.mp4"
    path.write_bytes(np.random.default_rng(1).bytes(5000))
    movie = _movie(tmp_path / "one.mkv")
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    for _ in range(3):
        with pytest.raises(SourceError):
            Place(str(path)).open()
        with pytest.raises(SourceError):
            Place(movie, stream=9).open()
    after = set(os.listdir("/proc/self/fd")) if before else set()
    assert len(after) <= len(before)
