"""The packet loop: hidden frames, the packet index."""

import av
import numpy as np
import pytest

from hyperframes.errors import SourceError
from hyperframes.media.container import Place
from hyperframes.media.decode import DamagedError, Decoder, Key, Playback, is_hidden
from hyperframes.media.index import _index, read_index

_NONE = -(1 << 63)


def _vp9(*, profile=0, existing=False, shown=True):
    bits = [1, 0, profile & 1, profile >> 1, *([0] if profile == 3 else []), int(existing), 1, int(shown), 0]
    bits += [0] * (16 - len(bits))
    return bytes(int("".join(map(str, bits[i : i + 8])), 2) for i in (0, 8))


@pytest.mark.parametrize("profile", [0, 1, 2, 3])
def test_vp9_packets_that_show_nothing_are_found_by_their_header(profile):
    assert is_hidden("vp9", _vp9(profile=profile, shown=False))
    assert not is_hidden("vp9", _vp9(profile=profile, shown=True))
    assert not is_hidden("vp9", _vp9(profile=profile, existing=True, shown=False))


def test_a_vp9_superframe_shows_the_last_frame_packed_in_it():
    marker = 0b110_00_001  # two frames, sizes of one byte
    hidden, shown = _vp9(shown=False), _vp9(shown=True)
    packet = hidden + shown + bytes([marker, len(hidden), len(shown), marker])
    assert not is_hidden("vp9", packet)


def test_vp8_packets_that_show_nothing_are_found_by_their_first_byte():
    assert is_hidden("vp8", bytes([0x01, 0, 0]))
    assert not is_hidden("vp8", bytes([0x11, 0, 0]))


def _indexed(pts, dts=None, durations=None, flags=None, keys=(), step=1):
    none = [_NONE if p is None else p for p in pts]
    sizes = range(100, 100 + len(pts))
    given = (none, dts or none, durations or [1] * len(pts), sizes, flags or [0] * len(pts), keys)
    return _index(*(np.array(column, np.int64) for column in given), step=step)


def test_an_index_is_in_presentation_order():
    index = _indexed([0, 3, 1, 2], durations=[5, 6, 7, 8])
    assert index.pts.tolist() == [0, 1, 2, 3]
    assert index.durations.tolist() == [5, 7, 8, 6]
    assert index.sizes.tolist() == [100, 102, 103, 101]
    assert (index.sound, index.repaired, index.packets, len(index)) == (True, 0, 4, 4)


def test_packets_that_are_decoded_but_not_shown_are_left_out():
    index = _indexed([-5, 0, 1], flags=[2, 0, 0])
    assert index.pts.tolist() == [0, 1]
    assert index.packets == 3


def test_missing_times_come_from_dts_then_from_the_rate_and_are_flagged():
    index = _indexed([None, 10, 20], dts=[5, 10, 20], step=10)
    assert (index.pts.tolist(), index.repaired, index.sound) == ([5, 10, 20], 1, False)
    index = _indexed([None, None, None], step=10)
    assert (index.pts.tolist(), index.repaired, index.sound) == ([0, 10, 20], 3, False)


def test_doubled_times_are_drawn_apart_and_flagged():
    index = _indexed([0, 10, 10, 20], step=10)
    assert (index.pts.tolist(), index.repaired, index.sound) == ([0, 10, 11, 20], 1, False)


def test_a_clock_that_was_reset_is_no_ground_for_seeking():
    index = _indexed([*range(1000, 1100), *range(100)])
    assert not index.sound


def test_the_key_before_a_time_is_the_last_at_or_before_it():
    keys = [Key(pts, pts, 1, None) for pts in (0, 50, 90)]
    index = _indexed(range(100), keys=[_NONE if value is None else value for key in keys for value in key])
    assert [index.key(number) for number in range(index.num_keys)] == keys
    assert index.key_before(50) == keys[1]
    assert index.key_before(89) == keys[1]
    assert index.key_before(89, skip=1) == keys[0]
    assert index.key_before(89, skip=2) is None
    assert index.key_before(-1) is None


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("decode") / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"g": "10", "bf": "2", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        for t in range(35):
            frame = av.VideoFrame.from_ndarray(np.full((48, 48), 5 * t, np.uint8), "yuv420p")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return str(path)


def test_the_index_knows_every_packet_of_a_file(clip):
    index = read_index(Place(clip), 512)
    assert len(index) == index.packets == 35
    assert index.sound
    assert index.num_keys >= 4


def test_a_seek_is_proven_by_the_packet_and_the_frame(clip):
    index = read_index(Place(clip), 512)
    key = index.key(2)
    decoder = Decoder(Place(clip))
    frame = next(decoder.from_key(key))
    assert frame.pts == key.pts
    assert decoder.from_key(key._replace(size=key.size + 1)) is None
    assert decoder.from_key(key._replace(position=key.position + 1)) is None
    decoder.close()
    decoder.close()


def test_damage_without_usable_times_is_an_error_when_reading_began_in_the_middle(clip):
    index = read_index(Place(clip), 512)
    playback = Playback(Place(clip), 2)
    assert playback.seek(index.key(1), index.pts[index.pts >= index.key(1).pts][:3].tolist(), 0)

    def frames():
        frame = av.VideoFrame(48, 32, "yuv420p")
        assert frame.pts is None
        yield frame
        raise DamagedError

    playback._frames = frames()
    with pytest.raises(SourceError, match="is damaged where its times are out of order") as caught:
        list(playback)
    assert caught.value.hint == "Read it from its first frame."
    playback.close()


def test_a_playback_that_was_sought_goes_on_after_damage_without_repeating_a_frame(clip):
    index = read_index(Place(clip), 512)
    key = index.key(2)
    at = int(np.searchsorted(index.pts, key.pts))
    playback = Playback(Place(clip), 2)
    assert playback.seek(key, index.pts[at : at + 3].tolist(), 0)
    sound = playback._frames

    def frames():
        for _ in range(6):
            yield next(sound)
        raise DamagedError

    playback._frames = frames()
    assert [frame.pts for frame in playback] == index.pts[at:].tolist()
    playback.close()
