"""Packets that several decoders take in turn: what comes out, and when, is what one decoder gives."""

import contextlib
import hashlib
import threading
from fractions import Fraction
from importlib.resources import files
from types import SimpleNamespace

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyperframes as hf
from hyperframes.errors import SourceError
from hyperframes.media import turns
from hyperframes.media.container import Place
from hyperframes.media.decode import Decoder
from hyperframes.media.turns import Turns
from hyperframes.sources.video import open_video

FRAMES = 24
CODECS = {"mjpeg": "yuvj420p", "asv1": "yuv420p", "asv2": "yuv420p", "cljr": "yuv411p", "r210": "gbrp10le"}


def pictures(count=FRAMES, size=(96, 64)):
    """Frames of the film that comes with the package, small."""
    with av.open(str(files("hyperframes").joinpath("data/big_buck_bunny.mp4"))) as container:
        for frame, _ in zip(container.decode(video=0), range(count), strict=False):
            yield frame.reformat(*size, "rgb24")


def encode(path, codec="mjpeg", size=(96, 64), count=FRAMES, edit=lambda number, data: data):
    """Write a file; `edit` may change the bytes of each packet."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, CODECS[codec]
        encoded = []
        for number, frame in enumerate(pictures(count, size)):
            picture = frame.reformat(format=stream.pix_fmt)
            picture.pts, picture.time_base = number, Fraction(1, 25)
            encoded += stream.encode(picture)
        for number, packet in enumerate([*encoded, *stream.encode(None)]):
            changed = av.Packet(edit(number, bytes(packet)))
            changed.pts, changed.dts, changed.time_base = number, number, packet.time_base
            changed.stream, changed.is_keyframe = stream, True
            container.mux(changed)
    return str(path)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return encode(tmp_path_factory.mktemp("turns") / "clip.avi")


def everything(path, threads, start=0, stop=None):
    """Read a file: its frames, and all that is said of it, or the error in place of what does not come."""
    found = []
    with contextlib.ExitStack() as stack:
        try:
            video = stack.enter_context(open_video(path, threads=threads))
            for frame in video.read(start, stop):
                digest = hashlib.sha256(b"".join(np.ascontiguousarray(plane) for plane in frame.planes)).hexdigest()
                found.append((frame.index, frame.pts, frame.duration, digest))
        except SourceError as error:
            return [*found, str(error), error.hint]
        return found, video.warnings, video.spec, video.exact, video.sure, video.seeks, video.num_frames


def decoders_used(path, threads):
    """Return how many decoders took packets of a whole read, and how many packets there are."""
    decoder = Decoder(Place(path), threads, strict=True)
    try:
        count = len(list(decoder.frames()))
        return (1 if decoder._turns is None else len(decoder._turns._threads)), count
    finally:
        decoder.close()


@pytest.mark.parametrize("codec", CODECS)
def test_frames_are_those_of_one_decoder(codec, tmp_path):
    path = encode(tmp_path / ("clip.mov" if codec == "r210" else "clip.avi"), codec)
    assert decoders_used(path, 3) == (3, FRAMES)
    expected = everything(path, 1)
    assert len({digest for *_, digest in expected[0]}) > FRAMES // 2
    for threads in (2, 3, 8, "auto"):
        assert everything(path, threads) == expected


@given(threads=st.integers(2, 20), ends=st.tuples(st.integers(0, FRAMES + 2), st.integers(0, FRAMES + 2)))
def test_any_stretch_is_that_of_one_decoder(clip, threads, ends):
    assert everything(clip, threads, *ends) == everything(clip, 1, *ends)


@given(data=st.data(), threads=st.integers(2, 8))
def test_damage_and_cuts_cost_what_they_cost_one_decoder(clip, tmp_path_factory, data, threads):
    with open(clip, "rb") as file:
        content = bytearray(file.read())
    for at in data.draw(st.lists(st.integers(300, len(content) - 1), max_size=4)):
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "clip.avi"
    path.write_bytes(content[: data.draw(st.integers(2000, len(content)))])
    assert _but_for_damage(path, threads, clip) == _but_for_damage(path, 1, clip)


def _but_for_damage(path, threads, clip):
    """Read a file, leaving out how pictures look whose data are not those of `clip`.

    Where the data of a picture end early, decoders show what lay in memory.
    """
    sound, damaged = set(_packets(clip).values()), _packets(path)
    first, *others = everything(str(path), threads)
    if not isinstance(first, list):
        return first, *others
    return [(*frame[:3], frame[3] if damaged.get(frame[1]) in sound else "damaged") for frame in first], *others


def _packets(path):
    """Return the bytes of each packet by its time; nothing of a file that does not open."""
    found = {}
    with contextlib.suppress(av.FFmpegError, IndexError), av.open(str(path)) as container:
        for packet in container.demux(video=0):
            found[packet.pts] = bytes(packet)
    return found


@pytest.mark.media
@pytest.mark.slow
def test_real_files_are_read_as_by_one_decoder_whole_and_cut_anywhere(media, tmp_path):
    names = (
        "derived_bikes_mjpeg.avi",
        "derived_bikes_mjpeg_noindex.avi",
        "partialframe.mjpeg",
        "QuickTime.mov",
        "RIFF.avi",
    )
    for name in names:
        content = (media / "odd" / name).read_bytes()
        for part in (1.0, 0.97, 0.6, 0.33):
            path = tmp_path / name
            path.write_bytes(content[: int(part * len(content))])
            expected = _but_for_damage(path, 1, media / "odd" / name)
            for threads in (2, 3, 5):
                assert _but_for_damage(path, threads, media / "odd" / name) == expected, (name, part)


@pytest.mark.parametrize(("size", "stretch"), [(1, (0, None)), (5, (3, 20)), (64, (0, None))])
def test_runs_give_the_same_whatever_the_size_the_range_and_the_decoders(clip, size, stretch):
    options = {"size": size, "range": stretch, "pixel_format": "rgb24"}
    found = []
    for threads in (1, 2, 4):
        with open_video(clip, threads=threads) as video:
            found.append(hf.run(video, "temporal_mean:radius=2", **options).array)
    assert found[0].shape == (len(range(FRAMES)[slice(*stretch)]), 64, 96, 3)
    assert all(np.array_equal(found[0], one) for one in found[1:])


def _without(*markers):
    def edit(number, data):
        if number == 0:
            return data
        at, kept = 2, bytearray(data[:2])
        while data[at + 1] != 0xDA:
            stop = at + 2 + int.from_bytes(data[at + 2 : at + 4])
            if data[at + 1] not in markers:
                kept += data[at:stop]
            at = stop
        return bytes(kept + data[at:])

    return edit


def test_pictures_that_use_the_tables_of_earlier_ones_follow_them(tmp_path):
    path = encode(tmp_path / "short.avi", edit=_without(0xDB))
    assert decoders_used(path, 3) == (1, FRAMES)
    expected = everything(path, 1)
    assert len({digest for *_, digest in expected[0]}) > FRAMES // 2
    assert everything(path, 3) == expected


def test_pictures_go_apart_until_one_does_not_stand_alone(tmp_path):
    late = _without(0xDB)
    path = encode(tmp_path / "late.avi", edit=lambda number, data: data if number < 10 else late(number, data))
    assert decoders_used(path, 3) == (3, FRAMES)
    assert everything(path, 3) == everything(path, 1)
    # Handed on in turn regardless, they would be decoded with tables of other pictures.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(turns._FORMS, "mjpeg", turns._nothing)
        assert everything(path, 3) != everything(path, 1)


def test_a_size_that_changes_is_met_as_by_one_decoder(tmp_path):
    small = encode(tmp_path / "small.avi", size=(48, 32), count=6)
    with av.open(small) as container:
        others = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    path = encode(tmp_path / "both.avi", edit=lambda number, data: others[number % 6] if number > 12 else data)
    expected = everything(path, 1)
    assert "such frames are scaled to the first" in expected[1][0]
    assert everything(path, 3) == expected


# Where and how long ---------------------------------------------------------------------------------------------------


def test_codecs_with_threads_pipes_networks_and_single_threads_have_one_decoder(clip):
    place = Place(clip)
    with av.open(clip) as container:
        context = container.streams.video[0].codec_context
        assert Turns.of(context, place, 2) is not None
        assert Turns.of(context, place, 1) is None
        assert Turns.of(context, Place("http://localhost/clip.avi"), 2) is None
        assert Turns.of(context, Place("pipe:0", reopens=False), 2) is None
    film = str(files("hyperframes").joinpath("data/big_buck_bunny.mp4"))
    with av.open(film) as container:
        assert Turns.of(container.streams.video[0].codec_context, Place(film), 2) is None
    assert Decoder(place, 4, strict=True, seeks=True).pictures_ahead == 0
    assert Decoder(place, 4, strict=True).pictures_ahead == 8
    assert Decoder(place, 99, strict=True).pictures_ahead == 16


def _ahead(packets, decoders=2):
    """Return tasks of decoders that only wait to be let go, and what counts the packets taken."""
    context = SimpleNamespace(name="cljr", decode=lambda packet: [packet])
    hand = Turns(context, None, decoders)
    hand._open_another = lambda: hand._contexts.append(context) or True
    taken = []

    def counted():
        for packet in packets:
            taken.append(packet)
            yield packet

    return hand, hand.ahead(counted()), taken


def test_the_first_packet_goes_alone_and_then_no_more_than_two_for_each_decoder_are_under_way():
    hand, tasks, taken = _ahead(range(50), decoders=3)
    assert next(tasks)[1]() == [0]
    assert len(taken) == 1
    for done, (packet, decoded) in enumerate(tasks, 1):
        assert decoded() == [packet]
        assert packet == done
        assert len(taken) <= done + hand.pictures
    assert (len(taken), len(hand._threads)) == (50, 3)
    hand.close()


def test_an_error_of_reading_comes_after_the_frames_before_it():
    def broken():
        yield from range(5)
        raise SourceError("could not be read to its end")

    hand, tasks, _ = _ahead(broken())
    found = []
    with pytest.raises(SourceError, match="could not be read to its end"):
        found.extend(decoded() for _, decoded in tasks)
    assert found == [[n] for n in range(5)]
    hand.close()


def test_reads_that_are_given_up_leave_no_thread(clip):
    before = threading.active_count()
    with open_video(clip, threads=4) as video:
        for frame in video.read():
            if frame.index == 5:
                break
    assert threading.active_count() == before


def test_a_decoder_closed_while_it_is_read_says_so(clip):
    decoder = Decoder(Place(clip), 3, strict=True)
    frames = decoder.frames()
    for _ in range(4):
        next(frames)
    decoder.close()
    with pytest.raises(SourceError, match="was closed while it was being read"):
        list(frames)
    decoder.close()


def test_a_file_replaced_meanwhile_is_read_by_those_decoders_that_have_it(clip, tmp_path):
    path = tmp_path / "clip.avi"
    with open(clip, "rb") as file:
        path.write_bytes(file.read())
    for content in (None, encode(tmp_path / "small.avi", size=(48, 32), count=6)):
        decoder = Decoder(Place(str(path)), 3, strict=True)
        frames = decoder.frames()
        count = len([next(frames)])
        path.unlink()
        if content:
            (tmp_path / "small.avi").rename(path)
        assert count + len(list(frames)) == FRAMES
        assert len(decoder._turns._contexts) == 1
        decoder.close()
        with open(clip, "rb") as file:
            path.write_bytes(file.read())
