"""Videos of web servers and object stores: only what is wanted is read, and errors are sentences."""

import itertools

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.media.served import serve

from hyperframes.errors import SourceError
from hyperframes.media import ranged
from hyperframes.media.container import Place
from hyperframes.media.index import read_index
from hyperframes.media.ranged import RangedFile, RangedPlace
from hyperframes.sources import open_source

pytestmark = pytest.mark.slow

GROUP, FRAMES = 10, 800


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Videos whose headers stand at the end, at the beginning, and in fragments; one with alpha-less VP9."""
    folder = tmp_path_factory.mktemp("served")
    make(folder / "end.mp4")
    remux(folder / "end.mp4", folder / "start.mp4", movflags="faststart")
    remux(folder / "end.mp4", folder / "fragments.mp4", movflags="frag_keyframe+empty_moov")
    remux(folder / "end.mp4", folder / "stream.ts")
    return folder


def make(path):
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (260, 260, 3), np.uint8)
    options = {"preset": "ultrafast", "g": str(GROUP), "crf": "30", "x264-params": "scenecut=0:bframes=2"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        for t in range(FRAMES):
            picture = np.ascontiguousarray(noise[t % 100 : t % 100 + 120, t % 90 : t % 90 + 160])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))


def remux(path, target, **options):
    with av.open(str(path)) as source, av.open(str(target), "w", options=options) as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.stream = stream
                container.mux(packet)


@pytest.fixture(scope="module")
def web(folder):
    with serve(folder) as (address, served):
        yield address, served


@pytest.fixture(autouse=True)
def _forgetful(web):
    ranged._stores.clear()
    web[1].forget()


@given(st.lists(st.tuples(st.integers(0, 300_000), st.integers(-1, 70_000)), max_size=12))
def test_bytes_are_those_of_the_file(folder, web, reads):
    data = (folder / "end.mp4").read_bytes()
    ranged._stores.clear()
    file = RangedFile(f"{web[0]}/end.mp4")
    for at, size in reads:
        assert file.seek(at) == at
        part = file.read(size)
        assert data[at:].startswith(part)
        assert len(part) > 0 or at >= len(data) or size == 0
        assert file.tell() == at + len(part)
    file.seek(-5, 2)
    assert file.read() == data[-5:]


@pytest.mark.parametrize("name", ["end.mp4", "start.mp4", "fragments.mp4"])
def test_packets_are_listed_without_reading_them(name, folder, web):
    address, served = web
    place, local = RangedPlace(f"{address}/{name}"), read_index(Place(str(folder / name)), 1)
    assert place.has_index
    served.forget()
    index = read_index(place, 1)
    for field in ("pts", "durations", "sizes", "_keys"):
        assert np.array_equal(getattr(index, field), getattr(local, field))
    assert index.num_keys == FRAMES // GROUP
    if name != "fragments.mp4":  # there headers stand between the fragments
        assert served.num_bytes < 0.2 * (folder / name).stat().st_size


@pytest.mark.requirement("A99")
@pytest.mark.parametrize("name", ["end.mp4", "start.mp4"])
@pytest.mark.parametrize("start", [0, 200, 403, 600])
def test_a_segment_reads_little_more_than_its_share(name, start, folder, web):
    """What is read: headers, and at most 1.2 times the packets of twenty groups of pictures."""
    address, served = web
    with open_source(f"{address}/{name}", ranged=True) as source:
        reopen = source.reopener()
    ranged._stores.clear()
    served.forget()
    with reopen() as source, open_source(str(folder / name)) as local:
        read = list(source.read(start, start + 200))
        assert len(read) == 200
        for frame, expected in zip(source.read(start, start + 9), local.read(start, start + 9), strict=True):
            assert frame.pts == expected.pts
            assert all(map(np.array_equal, frame.planes, expected.planes))
        assert source.sure
    packets, headers = packets_of(folder / name)
    share = sum(size for time, size in packets if read[0].pts <= time <= read[-1].pts)
    assert served.num_bytes <= headers + 1.2 * share, (served.num_bytes, headers, share)


def packets_of(path):
    """Return (pts, size) of all packets, and how many bytes of the file are none."""
    with av.open(str(path)) as container:
        found = [(p.pts, p.size) for p in container.demux(container.streams.video[0]) if p.size]
    return found, path.stat().st_size - sum(size for _, size in found)


def test_headers_are_read_once_by_all_who_open_it(web):
    address, served = web
    place = RangedPlace(f"{address}/start.mp4")
    for _ in range(3):
        container, _ = place.open()
        container.close()
    first = sorted(served.ranges)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(first)), first


def test_streams_without_an_index_are_read_in_order(folder, web):
    address, _ = web
    with open_source(f"{address}/stream.ts", ranged=True) as source, open_source(str(folder / "stream.ts")) as local:
        assert not source.seeks
        assert [frame.pts for frame in source.read()] == [frame.pts for frame in local.read()]


def test_a_server_that_is_overloaded_for_a_moment_is_asked_again(folder, web):
    address, served = web
    file = RangedFile(f"{address}/end.mp4")
    served.fails = 2
    assert file.read(100) == (folder / "end.mp4").read_bytes()[:100]
    served.fails = 3
    file.seek(100_000)
    with pytest.raises(OSError, match=r"bytes 100000 to 116384 of '.*end.mp4': 503"):
        file.read(100)
    served.fails = 0


def test_a_server_without_ranges_is_told(web):
    address, served = web
    served.knows_ranges = False
    try:
        with pytest.raises(OSError, match=r"sent \d+ bytes: expected 16384, a range"):
            RangedFile(f"{address}/end.mp4").read(100)
    finally:
        served.knows_ranges = True


def test_what_is_not_there_is_an_error_without_credentials(web):
    host = web[0].removeprefix("http://")
    with pytest.raises(SourceError, match=r"'http://\*\*\*@.*gone.mp4' cannot be read: ") as caught:
        open_source(f"http://me:secret@{host}/gone.mp4", ranged=True)
    assert "secret" not in str(caught.value)
    assert caught.value.hint == "Check the address and the right to read it."
